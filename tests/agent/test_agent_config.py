from pathlib import Path

import pytest

from netesto.agent import config
from netesto.agent.config import Config
from netesto.errors import UsageError

REMOVED = (
    "removed\n"
    "Reach the agent through ssh, or put stunnel before its Unix socket: see docs/hosts.md."
)

CHECKOUT = Path(__file__).resolve().parents[2]


def test_every_key_is_read(tmp_path: Path):
    path = tmp_path / "agent.toml"
    lines = ('listen = ["unix:/a", "unix:/b"]', 'state = "/s"', 'host = "h1"')
    path.write_text("\n".join((*lines, 'device = "eth1"', 'group = "netesto"')))
    assert config.read(path) == Config(
        listen=("unix:/a", "unix:/b"),
        group="netesto",
        state=Path("/s"),
        host="h1",
        device="eth1",
    )


def test_empty_file_is_the_default(tmp_path: Path):
    path = tmp_path / "agent.toml"
    path.write_text("")
    assert config.read(path) == Config()


def test_one_address_needs_no_list(tmp_path: Path):
    path = tmp_path / "agent.toml"
    path.write_text('listen = "unix:/a"')
    assert config.read(path) == Config(listen=("unix:/a",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "port = 9",
            "1: unknown key 'port'\nKeys: commands, device, group, host, limits, listen, state",
        ),
        (
            'group = "x"\n\n[commands.tell]\nrun = ["true"]\n timeot = "1s"',
            "5: commands.tell: unknown key 'timeot'\nDid you mean timeout?",
        ),
        (
            'commands = {tell = {run = ["true"], timeot = "1s"}}',
            " commands.tell: unknown key 'timeot'\nDid you mean timeout?",
        ),
        ("listen = 9", "listen: an address or a list of addresses is required"),
        ('listen = "unix:/a"\n[tls]\nca = "/ca.crt"', f"2: tls: {REMOVED}"),
        ('clients = "/c"', f"1: clients: {REMOVED}"),
        ("listen = [9]", "listen: an address or a list of addresses is required"),
        ("device = 9", "device: a string is required"),
        ("[limits]\nflows = 0", "limits.flows: a whole number above 0 is required"),
        ("device", "Expected '=' after a key in a key/value pair (at end of document)"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str, tmp_path: Path):
    path = tmp_path / "agent.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        config.read(path)
    assert str(caught.value) in {f"{path}: {message}", f"{path}:{message}"}


@pytest.mark.parametrize("key", ["limits", "host", "tls"])
def test_a_file_of_commands_has_nothing_else(tmp_path: Path, key: str):
    path = tmp_path / "commands.toml"
    path.write_text(f'[commands.tell]\nrun = ["true"]\n[{key}]\nport = 9\n')
    with pytest.raises(UsageError) as caught:
        config.read_commands(path)
    assert str(caught.value) == (
        f"{path}:3: {key}: only [commands] belongs in a file of commands\n"
        "The agents of a lab have no other settings: leave it out."
    )


def test_example_is_read():
    assert config.read(CHECKOUT / "remote" / "agent.toml") == Config()
