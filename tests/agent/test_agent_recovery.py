"""Whose folder an agent's state may be in: the journal in it says what a later agent undoes."""

import os

import pytest

from netesto.agent import recovery
from netesto.errors import WorldError


def test_a_new_state_folder_is_this_users_alone(tmp_path):
    with recovery.claim(tmp_path / "state"):
        assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_an_empty_folder_that_all_may_write_becomes_private(tmp_path):
    tmp_path.chmod(0o777)
    with recovery.claim(tmp_path):
        assert tmp_path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_in_which_others_may_have_written_is_refused(tmp_path, mode):
    (tmp_path / "journal").write_text("{}\n")
    tmp_path.chmod(mode)
    with pytest.raises(WorldError, match="others may write to it"), recovery.claim(tmp_path):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it gives a folder to another user")
def test_a_folder_of_another_user_is_refused(tmp_path):
    os.chown(tmp_path, 65534, -1)
    owner = "it belongs to the user with number 65534"
    with pytest.raises(WorldError, match=owner), recovery.claim(tmp_path):
        pass
