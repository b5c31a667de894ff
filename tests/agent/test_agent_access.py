import os
import stat
from pathlib import Path

import pytest

from netesto.agent.access import listen_address, prepare_folder
from netesto.errors import UsageError
from netesto.transport.addresses import UnixAddress


def test_an_agent_listens_on_a_unix_socket():
    assert listen_address("unix:/run/a.sock") == UnixAddress(Path("/run/a.sock"))


@pytest.mark.parametrize("text", ["127.0.0.1:99", "[::1]:99", "0.0.0.0:99", "localhost"])
def test_an_agent_listens_on_no_port_loopback_included(text: str):
    with pytest.raises(UsageError) as caught:
        listen_address(text)
    assert str(caught.value) == (
        f"invalid agent address {text!r}\nWrite ssh://[USER@]HOST[:PORT][/PATH/OF/SOCKET], or"
        " unix:PATH: agents listen on no ports."
    )


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


@pytest.mark.parametrize("mask", [0, 0o077, 0o777])
def test_the_folder_of_a_socket_is_made_for_its_user_alone(tmp_path: Path, mask: int):
    before = os.umask(mask)
    try:
        prepare_folder(tmp_path / "run", None)
    finally:
        os.umask(before)
    assert mode(tmp_path / "run") == 0o700


def test_the_folder_of_a_socket_is_opened_to_a_group_and_closed_again(tmp_path: Path):
    folder, group = tmp_path / "run", os.getgid()
    modes = []
    for each in (None, group, None):
        prepare_folder(folder, each)
        modes.append(mode(folder))
    assert modes == [0o700, 0o750, 0o700]


def test_a_folder_that_everybody_may_pass_stays_so(tmp_path: Path):
    tmp_path.chmod(0o755)
    prepare_folder(tmp_path, os.getgid())
    assert mode(tmp_path) == 0o755


@pytest.mark.parametrize("writable", [0o770, 0o1777, 0o702])
def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path, writable: int):
    tmp_path.chmod(writable)
    with pytest.raises(UsageError) as caught:
        prepare_folder(tmp_path, None)
    tmp_path.chmod(0o700)
    assert str(caught.value) == (
        f"{tmp_path}: others can write to this folder, and replace a socket in it\nListen in a"
        f" folder that only you can write to, such as /run/netesto, or: chmod go-w {tmp_path}"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="root: it gives a folder to another user")
def test_a_folder_of_another_user_is_refused(tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    os.chown(folder, 12345, -1)
    with pytest.raises(UsageError) as caught:
        prepare_folder(folder, None)
    assert caught.value.message == (
        f"{folder}: this folder belongs to the user with number 12345, who can replace a socket in"
        " it"
    )
