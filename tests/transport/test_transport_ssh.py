"""The meaning of ssh's messages; real ssh is in tests/machines."""

import os

import pytest

from netesto.errors import AgentError
from netesto.system import process
from netesto.transport.addresses import SshAddress
from netesto.transport.ssh import Tunnel, argv, explained

H1 = SshAddress("h1")

CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
Offending ED25519 key in /root/.ssh/known_hosts:1
Host key verification failed.
"""

# The first message of the jump host is the cause.
BEHIND = """\
channel 0: open failed: connect failed: Name or service not known
stdio forwarding failed
Connection closed by UNKNOWN port 65535
"""

# Of a jump host that lets fewer log in at once.
CROWDED = """\
kex_exchange_identification: read: Connection reset by peer
Connection reset by 192.0.2.1 port 22
kex_exchange_identification: Connection closed by remote host
Connection closed by UNKNOWN port 65535
"""

OPEN = """\
@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @
Permissions 0644 for '/home/ann/.ssh/id_rsa' are too open.
Load key "/home/ann/.ssh/id_rsa": bad permissions
ann@h1: Permission denied (publickey).
"""


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (CHANGED, "its host key has changed"),
        ("Host key verification failed.\r\n", "its host key is unknown"),
        (
            "ssh: connect to host h1 port 22: No route to host\n",
            "connect to host h1 port 22: No route to host",
        ),
        (BEHIND, "channel 0: open failed: connect failed: Name or service not known"),
        ("Welcome\nTimeout, server h1 not responding.\r\n", "Timeout, server h1 not responding."),
        (
            "root@h1: Permission denied (publickey,password).\r\n",
            "root@h1: Permission denied (publickey,password).",
        ),
        (OPEN, "ssh ignores the key /home/ann/.ssh/id_rsa, which others can read"),
        (CROWDED, "its sshd, or that of a jump host, hangs up before the login"),
        ("", "ssh ended"),
    ],
)
def test_the_cause_is_found_in_what_ssh_said(said, cause):
    assert explained(said, H1)[0] == cause


def test_a_changed_key_of_a_port_is_forgotten_by_its_name_in_known_hosts():
    _, remedy = explained(CHANGED, SshAddress("h1", port=2222))
    assert remedy.endswith("ssh-keygen -R '[h1]:2222'")


def test_a_host_stands_behind_all_options():
    words = argv(SshAddress("2001:db8::1", "ann", 2222), "true")
    assert words[-7:] == ["-p", "2222", "-l", "ann", "--", "2001:db8::1", "true"]


async def test_ssh_that_is_not_installed_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AgentError) as caught:
        await Tunnel(H1, host="h1").open(timeout=1)
    assert str(caught.value) == (
        "h1: agent unreachable at ssh://h1: ssh is not installed here\n"
        "Install it: apt install openssh-client"
    )


async def test_what_a_host_greets_with_is_no_reason_why_ssh_has_ended(tmp_path, monkeypatch):
    program, orders = tmp_path / "ssh", tmp_path / "orders"
    program.write_text(
        "#!/bin/sh\n"
        "echo Authorized use only >&2; echo ready; echo session\n"
        f"read line <{orders}; echo Timeout, server h1 not responding. >&2; exec sleep 60\n"
    )
    program.chmod(0o755)
    os.mkfifo(orders)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tunnel = Tunnel(H1, host="h1")
    await tunnel.open(timeout=60)
    words = [tunnel.last_words()]
    orders.write_text("go on\n")
    await process.wait_until_async(lambda: tunnel.last_words() != "", timeout=60)
    words.append(tunnel.last_words())
    await tunnel.close()
    assert words == ["", "Timeout, server h1 not responding."]


# A login shell that finds no program.
NO_CAT = 'for command; do :; done; PATH=/nowhere exec /bin/sh -c "$command"'


@pytest.mark.parametrize(
    "end",
    [
        "echo This account is currently not available.; exit 1",
        "exec sleep 60 >/dev/null 2>&1",
        NO_CAT,
    ],
)
async def test_who_may_run_no_command_has_a_tunnel_too(end, tmp_path, monkeypatch):
    """A stand-in for ssh to an account whose shell is nologin, or by a config without sessions."""
    program = tmp_path / "ssh"
    program.write_text(
        f'#!/bin/sh\necho ready\ncase " $* " in *" -N "*) exec sleep 60;; esac\n{end}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tunnel = Tunnel(H1, host="h1")
    await tunnel.open(timeout=60)
    goes_on = not await process.wait_until_async(lambda: tunnel.last_words() != "", timeout=0.1)
    await tunnel.close()
    assert goes_on


async def test_ssh_that_never_connects_is_given_up(tmp_path, monkeypatch):
    """A stand-in that connects to nothing, as to a host that drops all packets."""
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(AgentError) as caught:
        await Tunnel(H1, host="h1").open(timeout=0.2)
    assert str(caught.value) == (
        "h1: agent unreachable at ssh://h1: no answer within 0.2 s\n"
        "This must work without a prompt: ssh h1 true"
    )
