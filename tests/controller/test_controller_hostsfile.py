"""A host is put into a hosts file, and nothing else in it changes."""

from pathlib import Path

import pytest

from netesto.controller.hostsfile import with_host
from netesto.errors import UsageError

PATH = Path("hosts.toml")
ADDRESSES = ["192.0.2.1", "2001:db8::1"]

FILE = """\
# our racks
[h1]    # the old one
agent = "ssh://old"  # moved soon
addresses = ["192.0.2.7"]

["h2.example.net"]
addresses = [
    "192.0.2.2",  # the fast one
]
agent = 'ssh://h2'
"""


def changed(text: str, name: str, agent: str) -> str:
    return with_host(text, PATH, name=name, agent=agent, addresses=ADDRESSES)


def test_a_first_host_makes_the_file():
    assert changed("", "h1", "ssh://h1") == (
        '[h1]\nagent = "ssh://h1"\naddresses = ["192.0.2.1", "2001:db8::1"]\n'
    )


def test_a_new_host_is_put_at_the_end():
    table = '\n[h3]\nagent = "ssh://h3"\naddresses = ["192.0.2.1", "2001:db8::1"]\n'
    assert changed(FILE, "h3", "ssh://h3") == FILE + table


def test_a_name_with_a_dot_is_quoted():
    assert changed("", "a.b", "ssh://a.b").splitlines()[0] == '["a.b"]'


def test_a_host_that_is_there_changes_nothing():
    assert changed(FILE, "h1", "ssh://old") == FILE


def test_the_agent_of_a_host_is_replaced_where_it_is():
    assert changed(FILE, "h1", "ssh://new") == FILE.replace('"ssh://old"', '"ssh://new"')


def test_the_addresses_that_a_user_chose_are_kept():
    found = changed(FILE, "h2.example.net", "ssh://root@h2")
    assert found == FILE.replace("'ssh://h2'", '"ssh://root@h2"')


def test_a_host_without_an_agent_is_reached_by_its_name():
    text = '[h1]\naddresses = ["192.0.2.7"]\n'
    found = [changed(text, "h1", agent) for agent in ("ssh://h1", "ssh://root@h1")]
    assert found == [text, '[h1]\nagent = "ssh://root@h1"\naddresses = ["192.0.2.7"]\n']


@pytest.mark.parametrize(
    "text",
    [
        "[h1\n",
        'h1 = { agent = "ssh://old" }\n',
        'h1.agent = "ssh://old"\n',
        '[h1]\n"agent" = "ssh://old"\n',
        '[h1]\nagent = """\nssh://old"""\n',
    ],
)
def test_a_file_that_cannot_be_changed_without_loss_is_left_with_what_to_write(text):
    with pytest.raises(UsageError) as caught:
        changed(text, "h1", "ssh://new")
    assert (caught.value.message, caught.value.remedy.splitlines()[:3]) == (
        "hosts.toml: cannot be changed without loss",
        ["Write in it:", "[h1]", 'agent = "ssh://new"'],
    )
