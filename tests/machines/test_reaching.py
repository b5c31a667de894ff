"""Agents are reached by ssh, and by nothing else, from machine to machine."""

import json

import pytest
from worlds import USER

PATIENCE_S = 30

# A flow of a second from h1 to h2, on the network for data.
FLOW = """\
EXP name=one
DO_SERVER host=h2
DO_CLIENT host=h1 server=h2 dur=1
"""


def hosts_toml(world, user="root", names=("h1", "h2")):
    return "".join(
        f'[{name}]\nagent = "ssh://{user}@{name}"\naddresses = ["{world[name].address("data")}"]\n'
        for name in names
    )


def check(world, *words, user="root"):
    """`netesto hosts check`: its exit status, the hosts that it reached, errors and remedies."""
    argv = ["netesto", "hosts", "check", "-f", "json", *words]
    done = world.controller.run(argv, user=user, check=False)
    document = json.loads(done.stdout)
    reached = [each["host"] for each in document["hosts"] if each["info"] is not None]
    errors = [each for each in document["problems"] if each["severity"] == "error"]
    return done.status, reached, [(each["message"], each["remedy"]) for each in errors]


@pytest.fixture(scope="module")
def agents(world):
    with world["h1"].agent(), world["h2"].agent():
        yield world


def test_host_names_are_enough_to_reach_agents(agents):
    assert check(agents, "h1,h2") == (0, ["h1", "h2"], [])


def test_ssh_config_says_what_a_name_means(agents):
    agents.controller.write(
        f"/home/{USER}/.ssh/config", "Host lab1\nHostName h1\nUser root\nHostKeyAlias h1\n"
    )
    found = check(agents, "lab1", user=USER)
    agents.controller.run(["rm", f"/home/{USER}/.ssh/config"])
    assert found == (0, ["lab1"], [])


def test_an_agent_is_reached_through_a_jump_host(agents):
    agents.controller.write("/root/.ssh/config", "Host h2\nProxyJump h1\n")
    found = check(agents, "h2")
    agents.controller.run(["rm", "/root/.ssh/config"])
    assert found == (0, ["h2"], [])


def test_an_agent_is_reached_over_ipv6(agents):
    address = f"[{agents['h1'].address6()}]"
    assert check(agents, f"root@{address}") == (0, [str(agents["h1"].address6())], [])


def test_a_host_without_an_agent_is_told(agents):
    agents.controller.write("/root/hosts.toml", '[h1]\nagent = "ssh://h1/run/none"\n')
    message = "agent unreachable at ssh://h1/run/none: no agent runs there: no socket /run/none"
    remedy = "Start it there: netesto-agent --listen unix:/run/none"
    assert check(agents, "hosts.toml") == (3, [], [(message, remedy)])
