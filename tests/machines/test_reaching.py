"""Agents are reached by ssh, or by stunnel before their sockets, from machine to machine."""

import json
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from needs import unmet
from processes import wait_for_costly
from typed import found as found_in
from worlds import AGENT_SOCKET, OTHER, USER, World, machines

from netesto.system import process
from netesto.transport import ssh

PATIENCE_S = 200

ROOT = Path(__file__).parents[2]

ORDERS = "/root/orders"
SSH = "^ssh .* -L "
TUNNELLED = str(Path(__file__).with_name("tunnelled.py"))

# Connects to the given Unix socket, and prints the outcome.
CALL = """
import socket, sys
with socket.socket(socket.AF_UNIX) as caller:
    try:
        caller.connect(sys.argv[1])
        print("connected")
    except OSError as error:
        print(error.strerror)
"""

# Connects to the agents at its arguments at once, and prints which reply.
CONNECT = """
import asyncio, sys
from netesto.transport.client import connect
async def ask(address):
    async with await connect(address, host="h1", timeout=60) as agent:
        return (await agent.info()).host
async def main():
    print(*await asyncio.gather(*map(ask, sys.argv[1:])))
asyncio.run(main())
"""

# The command, for a machine that is busy with other things than its hosts.
PATIENT = """
import sys
from netesto import cli
from netesto.controller import visit
from netesto.run import agents
visit.REPLY_S = visit.LONGEST_REPLY_S = agents.CONNECT_TIMEOUT_S = 120.0
sys.exit(cli.main(sys.argv[1:]))
"""

# One logs in at a time: in a file, because an option would not outdo that of the other file.
CROWDED = "cd /etc/ssh; sed 's/^MaxStartups.*/MaxStartups 1:100:1/' sshd_config >crowded"

FLOW = """\
DO_SERVER host=h1
DO_SERVER host=h2
DO_CLIENT host=h1 server=h2 dur=1
PROCESS_EXP
"""


@pytest.fixture(scope="module")
def agents(world):
    with world["h1"].agent("--device", "eth1"), world["h2"].agent("--device", "eth1"):
        yield world


def check(world, *words, user="root"):
    """`netesto hosts check`: its exit status, the hosts that it reached, errors and remedies."""
    argv = [sys.executable, "-c", PATIENT, "hosts", "check", "-f", "json", *words]
    done = world.controller.run(argv, user=user, check=False)
    document = json.loads(done.stdout)
    reached = [each["host"] for each in document["hosts"] if each["info"] is not None]
    errors = [each for each in document["problems"] if each["severity"] == "error"]
    return (
        done.status,
        reached,
        {each["host"]: (each["message"], each["remedy"]) for each in errors},
    )


def call(machine, path, user):
    """The outcome of a connection to a Unix socket of a machine."""
    return machine.run(["python3", "-c", CALL, str(path)], user=user).stdout.strip()


@contextmanager
def written(machine, path, text, user="root"):
    machine.write(path, text, user=user)
    try:
        yield
    finally:
        machine.run(["rm", path])


def test_host_names_are_enough_to_reach_agents(agents):
    assert check(agents, "h1,h2") == (0, ["h1", "h2"], {})


def test_a_run_goes_from_two_names_to_a_page(agents):
    """Its flows are between the test interfaces of the agents."""
    controller = agents.controller
    with written(controller, "/root/flow.nts", FLOW):
        argv = ["netesto", "run", "--plain", "--yes", "--hosts", "h1,h2", "--out", "/root/out"]
        controller.run([*argv, "flow.nts"], timeout=PATIENCE_S)
        page = controller.exists("/root/out/exp.html")
        manifest = json.loads(controller.read("/root/out/1/manifest.json"))
        controller.run(["rm", "-r", "/root/out"])
    ends = [str(agents[name].address("data")) for name in ("h1", "h2")]
    request = manifest["groups"][0]["request"]
    found = [request["client_address"], request["server_address"]]
    assert (page, manifest["status"], found) == (True, "ok", ends)


CONFIG = """\
Host unknown
    HostName h1
    HostKeyAlias unknown
Host changed
    HostName h1
    HostKeyAlias h1
    GlobalKnownHostsFile none
    UserKnownHostsFile /root/changed
Host behind
    HostName h1
    ProxyJump nowhere
Host jumped
    HostName h2
    ProxyJump h1
Host named
    HostName h1
    User root
"""

NAME_THE_USER = (
    "Name the user of the agent, such as ssh://root@HOST, or admit a group: `group` in its"
    " agent.toml."
)
USE_A_KEY = (
    "Nobody can type a password during a run: use a key (ssh-copy-id) and, if it has a passphrase,"
    f" ssh-agent (ssh-add). This must work: ssh -o BatchMode=yes {OTHER}@h1 true"
)
FORGET_THE_KEY = (
    "This may be another machine. If you know the reason of the change, remove the old key:"
    " ssh-keygen -R changed"
)

# What is wrong: the agent's address, the cause, the remedy.
UNREACHABLE = {
    "missing": (
        "ssh://h1/run/missing",
        "no agent runs there: no socket /run/missing",
        "Start it there: netesto-agent --listen unix:/run/missing",
    ),
    "deaf": (
        "ssh://h1/run/deaf",
        "no agent runs there: nothing listens on /run/deaf",
        "Start it there: netesto-agent --listen unix:/run/deaf",
    ),
    "denied": (
        f"ssh://{USER}@h1",
        f"no permission to open {AGENT_SOCKET} there",
        NAME_THE_USER,
    ),
    "keyless": (
        f"ssh://{OTHER}@h1",
        f"{OTHER}@h1: Permission denied (publickey).",
        USE_A_KEY,
    ),
    "unknown": (
        "ssh://unknown",
        "its host key is unknown",
        "Connect once by hand, and compare the key before you accept it: ssh unknown",
    ),
    "changed": (
        "ssh://changed",
        "its host key has changed",
        FORGET_THE_KEY,
    ),
    "refused": (
        "ssh://h1:99",
        "connect to host h1 port 99: Connection refused",
        "This must work without a prompt: ssh -p 99 h1 true",
    ),
    "nowhere": (
        "ssh://nowhere",
        "Could not resolve hostname nowhere: Name or service not known",
        "This must work without a prompt: ssh nowhere true",
    ),
    "behind": (
        "ssh://behind",
        "Could not resolve hostname nowhere: Name or service not known",
        "This must work without a prompt: ssh behind true",
    ),
    "closed": (
        "ssh://h1:2222",
        *ssh.NO_FORWARDING,
    ),
}

# Other configurations of sshd, with a port each.
SSHDS = {
    2222: "AllowStreamLocalForwarding=no",
    2223: "ForceCommand=/bin/true",
    2224: "MaxSessions=0",
}


@dataclass(frozen=True, slots=True)
class Visited:
    """What one `hosts check` tells of many hosts, and what is left of it on the controller: files
    in /tmp, processes of ssh."""

    status: int
    reached: list[str]
    told: dict[str, tuple[str, str]]
    left: tuple[str, str]


@pytest.fixture(scope="module")
def visited(agents):
    """Hosts that cannot be reached, each for another reason, and some that can."""
    controller, h1 = agents.controller, agents["h1"]
    hosts = {name: address for name, (address, _, _) in UNREACHABLE.items()}
    hosts |= {name: f"ssh://{name}" for name in ("h2", "named", "jumped")}
    hosts["six"] = f"ssh://root@[{h1.address6()}]"
    hosts |= {"forced": "ssh://h1:2223", "sessionless": "ssh://h1:2224"}
    tables = "".join(f'[{name}]\nagent = "{address}"\n' for name, address in hosts.items())
    known = dict(
        line.split(",", 1) for line in controller.read("/etc/ssh/ssh_known_hosts").splitlines()
    )
    changed = "h1 " + known["h2"].partition(" ")[2] + "\n"
    bind = "import socket; socket.socket(socket.AF_UNIX).bind('/run/deaf')"
    h1.run(["python3", "-c", bind])
    servers = [
        h1.start(["/usr/sbin/sshd", "-D", "-p", str(port), "-o", "PidFile=none", "-o", option])
        for port, option in SSHDS.items()
    ]
    listens = ["ss", "-H", "-l", "-t", "-n", "-4", "sport >= :2222 and sport <= :2224"]
    assert wait_for_costly(
        lambda: len(h1.run(listens).stdout.splitlines()) == len(SSHDS), timeout=PATIENCE_S
    )
    with (
        written(controller, "/root/hosts.toml", tables),
        written(controller, "/root/.ssh/config", CONFIG),
        written(controller, "/root/changed", changed),
    ):
        before = controller.run(["ls", "-A", "/tmp"]).stdout
        status, reached, told = check(agents, "hosts.toml")
    # That of a jump host ends a moment after the other, and is then reaped.
    ssh_left = lambda: controller.run(["pgrep", "-x", "ssh"], check=False).stdout  # noqa: E731
    wait_for_costly(lambda: ssh_left() == "", timeout=PATIENCE_S)
    processes = ssh_left()
    left = controller.run(["ls", "-A", "/tmp"]).stdout.removeprefix(before), processes
    for server in servers:
        process.end(server)
    h1.run(["rm", "/run/deaf"])
    return Visited(status, reached, told, left)


@pytest.mark.parametrize("name", UNREACHABLE)
def test_why_an_agent_cannot_be_reached_is_reported_with_the_remedy(visited, name):
    address, cause, remedy = UNREACHABLE[name]
    assert visited.told[name] == (f"agent unreachable at {address}: {cause}", remedy)


def test_hosts_that_cannot_be_reached_make_status_3_and_hide_no_other(visited):
    # One agent has several names here; those that are reached are reported.
    unreached = visited.told.keys() - set(visited.reached)
    assert (visited.status, unreached, "h2" in visited.reached) == (
        3,
        UNREACHABLE.keys(),
        True,
    )


@pytest.mark.parametrize("name", ["named", "jumped", "six"])
def test_names_of_ssh_config_jump_hosts_and_ipv6_are_what_they_are_to_ssh(visited, name):
    assert name in visited.reached


@pytest.mark.parametrize("name", ["forced", "sessionless"])
def test_who_gets_no_session_of_the_host_has_a_tunnel_too(visited, name):
    assert name in visited.reached


def test_tunnels_leave_nothing(visited):
    assert visited.left == ("", "")


@pytest.fixture
def crowded(agents):
    h1 = agents["h1"]
    h1.run(["sh", "-c", CROWDED])
    argv = ["/usr/sbin/sshd", "-D", "-f", "/etc/ssh/crowded", "-p", "2225", "-o", "PidFile=none"]
    server = h1.start(argv)
    listens = ["ss", "-H", "-l", "-t", "-n", "-4", "sport = :2225"]
    assert wait_for_costly(lambda: h1.run(listens).stdout != "", timeout=PATIENCE_S)
    config = "Host a b c\n  HostName h1\n  HostKeyAlias h1\n  Port 2225\n"
    with written(agents.controller, "/root/.ssh/config", config):
        yield agents.controller
    process.end(server)


def test_tunnels_to_a_host_that_lets_one_log_in_at_a_time_wait_for_each_other(crowded):
    addresses = [f"ssh://{name}" for name in "abc"]
    done = crowded.run([sys.executable, "-c", CONNECT, *addresses], timeout=PATIENCE_S, check=False)
    assert (done.stdout, done.stderr) == ("h1 h1 h1\n", "")


def test_a_host_that_lets_one_log_in_at_a_time_is_looked_at_by_all(crowded):
    argv = ["netesto", "hosts", "install", "-n", "a", "b", "c"]
    done = crowded.run(argv, timeout=PATIENCE_S, check=False)
    assert [line for line in done.stderr.splitlines() if "not reached" in line] == []


def test_an_agent_that_is_frozen_is_reported_as_that(agents):
    h1 = agents["h1"]
    found = h1.run(["pgrep", "-f", "bin/netesto-agent"]).stdout.split()
    h1.run(["kill", "-STOP", *found])
    asked = agents.controller.run(["netesto", "hosts", "status", "h1"], check=False)
    h1.run(["kill", "-CONT", *found])
    told = asked.stderr.partition("\n")[0].removeprefix(
        "netesto: h1: agent unreachable at ssh://h1: "
    )
    # The second if ssh takes long.
    assert told in {"its agent listens, but does not respond", "no answer within 3 s"}


def test_another_user_of_a_host_cannot_open_its_agent(agents):
    found = [call(agents["h1"], AGENT_SOCKET, user) for user in ("root", USER, OTHER)]
    assert found == ["connected", "Permission denied", "Permission denied"]


def test_members_of_its_group_use_an_agent_and_nobody_else(world):
    h2, controller, socket = world["h2"], world.controller, Path("/run/group/agent.sock")
    tables = f'[h2]\nagent = "ssh://{USER}@h2{socket}"\n'
    with (
        h2.agent("--group", USER, "--state", "/run/group/state", socket=socket),
        written(controller, f"/home/{USER}/hosts.toml", tables, user=USER),
    ):
        modes = h2.run(["stat", "-c", "%a %G", str(socket.parent), str(socket)])
        called = call(h2, socket, OTHER)
        found = check(world, "hosts.toml", user=USER)
    assert (modes.stdout, called, found) == (
        f"750 {USER}\n660 {USER}\n",
        "Permission denied",
        (0, ["h2"], {}),
    )


class Tunnelled:
    """A process on the controller that is connected to h1; `socket` is its end of the tunnel."""

    def __init__(self, machine, log):
        self._machine, self._log = machine, log
        self.socket = Path(self._line(0))

    def _line(self, number):
        def is_there():
            return self._log.exists() and self._log.read_text().count("\n") > number

        assert process.wait_until(is_there, timeout=PATIENCE_S), self._log.read_text()
        return self._log.read_text().splitlines()[number]

    def ask(self):
        """The agent's reply, or the reason of its absence."""
        self._machine.run(["sh", "-c", f"echo >{ORDERS}"])
        return self._line(1)

    def pids(self, command):
        return self._machine.run(["pgrep", "-f", command], check=False).stdout.split()

    def kill(self, command, sign):
        self._machine.run(["kill", f"-{sign}", *self.pids(command)])


@pytest.fixture
def tunnelled(agents, tmp_path):
    controller, log = agents.controller, tmp_path / "log"
    controller.run(["mkfifo", ORDERS])
    # Opened for reading and writing, it has no end.
    argv = ["bash", "-c", f'exec "$0" "$@" <>{ORDERS}', sys.executable, TUNNELLED, "ssh://h1"]
    child = controller.start(argv, stdout=log)
    yield Tunnelled(controller, log)
    process.end(child)
    controller.run(["sh", "-c", f"rm -rf {ORDERS} /tmp/netesto-running-*"])


def test_another_user_of_the_controller_cannot_open_the_tunnel(agents, tunnelled):
    found = [call(agents.controller, tunnelled.socket, user) for user in ("root", USER, OTHER)]
    assert found == ["connected", "Permission denied", "Permission denied"]


def test_a_connection_through_ssh_ends_with_what_ssh_said_last(agents, tunnelled):
    agents["h1"].run(["pkill", "-f", "^sshd: root"])
    # Whether ssh reads that the connection was closed, or writes to it first, is chance.
    assert tunnelled.ask() in {
        "h1: connection lost: Connection to h1 closed by remote host.",
        "h1: connection lost: client_loop: send disconnect: Broken pipe",
    }


def test_a_connection_ends_with_an_ssh_that_says_nothing(tunnelled):
    tunnelled.kill(SSH, "KILL")
    is_gone = wait_for_costly(lambda: not tunnelled.pids(SSH), timeout=PATIENCE_S)
    assert (is_gone, tunnelled.ask()) == (True, "h1: connection lost: ssh ended")


def test_ssh_ends_with_a_controller_that_is_killed_and_its_folder_with_the_next(agents, tunnelled):
    is_there = len(tunnelled.pids(SSH))
    tunnelled.kill(TUNNELLED, "KILL")
    is_gone = wait_for_costly(lambda: not tunnelled.pids(SSH), timeout=PATIENCE_S)
    folder = tunnelled.socket.parent
    agents.controller.run(["touch", "--date=2 minutes ago", str(folder)])
    left = [agents.controller.exists(folder)]
    check(agents, "h1")
    left.append(agents.controller.exists(folder))
    assert (is_there, is_gone, left) == (1, True, [True, False])


@pytest.mark.parametrize(
    "words", [["hosts", "check", "hosts.toml"], ["run", "--hosts", "hosts.toml", "flow.nts"]]
)
def test_a_controller_reaches_no_port(agents, words):
    controller = agents.controller
    tables = '[h1]\nagent = "127.0.0.1:9"\n'
    with (
        written(controller, "/root/hosts.toml", tables),
        written(controller, "/root/flow.nts", FLOW),
    ):
        done = controller.run(["netesto", *words], check=False)
    assert (done.status, done.stderr.splitlines()[0]) == (
        2,
        "netesto: hosts.toml: host h1: agent: invalid agent address '127.0.0.1:9'",
    )


# The names, the port and the socket of docs/hosts.md.
HOST, CONTROLLER = "host1.example.net", "controller.example.net"
PORT = 12870
HOST_SOCKET = Path("/run/netesto-hosts/host1.sock")


def shown(name):
    """The file that docs/hosts.md shows under this name."""
    text = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
    block = rf"^```\w+\n([;#] {re.escape(name)}\n.*?)^```$"
    return found_in(block, text, re.MULTILINE | re.DOTALL)[1]


def manifest(name):
    """The file of this name in the manifest of Kubernetes, for the controller of the page."""
    text = (ROOT / "remote" / "kubernetes" / "netesto-agent.yaml").read_text(encoding="utf-8")
    maps = [each for each in yaml.safe_load_all(text) if each["kind"] == "ConfigMap"]
    return maps[0]["data"][name].replace("controller.example", CONTROLLER)


class Pki:
    """Certificates of a CA, as a user's own PKI would issue them."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self._openssl("ca", "-subj", "/CN=the tests")

    def issue(self, name):
        signed = ["-CA", f"{self.folder}/ca.crt", "-CAkey", f"{self.folder}/ca.key"]
        self._openssl(
            name, *signed, "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"
        )

    def give(self, machine, name, place):
        """Put the certificate of `name` and its key at `place` of a machine."""
        for suffix, mode in (("crt", 0o644), ("key", 0o600)):
            text = (self.folder / f"{name}.{suffix}").read_text(encoding="ascii")
            machine.write(f"{place}.{suffix}", text, mode=mode)

    def _openssl(self, name, *words):
        files = ["-keyout", f"{self.folder}/{name}.key", "-out", f"{self.folder}/{name}.crt"]
        argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *files, *words]
        process.run(argv, timeout=PATIENCE_S)


@dataclass
class Stunnelled:
    """h1, whose agent controllers reach by stunnel, and the controller of the page; h2 is reached
    by ssh."""

    world: World
    pki: Pki
    listens: str

    @contextmanager
    def host_end(self):
        """stunnel on h1."""
        with self._stunnel(self.world["h1"], self.listens) as (child, log):
            table = Path("/proc", str(self.world["h1"].pid), "net", "tcp")
            # TCP_LISTEN of include/net/tcp_states.h.
            is_there = process.wait_until(
                lambda: f":{PORT:04X} 00000000:0000 0A " in table.read_text(), timeout=PATIENCE_S
            )
            assert (is_there, child.poll()) == (True, None), log.read_text()
            yield

    @contextmanager
    def controller_end(self, text=None):
        """stunnel on the controller, with this configuration instead of the page's."""
        controller = self.world.controller
        text = shown("/etc/netesto/controller.conf") if text is None else text
        with self._stunnel(controller, text) as (child, log):
            controller.await_socket(HOST_SOCKET, child, log)
            yield

    @contextmanager
    def _stunnel(self, machine, text):
        log = machine.folder / f"{machine.name}-stunnel.log"
        machine.write("/root/stunnel.conf", f"foreground = yes\n{text}")
        child = machine.start(["stunnel4", "/root/stunnel.conf"], stdout=log)
        try:
            yield child, log
        finally:
            process.end(child)


@pytest.fixture(scope="module", params=["the page", "the manifest"])
def stunnelled(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stunnelled")
    with machines("h1", "h2", folder=folder) as world:
        for tool in ("stunnel4", "openssl"):
            if world.controller.run(["which", tool], check=False).status:
                unmet("machines", f"this machine needs {tool} (.ci/sshd fetches stunnel4)")
        h1, controller = world["h1"], world.controller
        pki = Pki(folder / "pki")
        for name in (HOST, CONTROLLER):
            pki.issue(name)
        if request.param == "the page":
            h1.run(["groupadd", "--system", "netesto"])
            h1.run(["useradd", "--system", "stunnel4"])
            h1.write("/etc/netesto/agent.toml", shown("/etc/netesto/agent.toml"))
            listens, place = shown("/etc/stunnel/netesto-agent.conf"), "/etc/netesto"
        else:
            h1.write("/etc/netesto/agent.toml", manifest("agent.toml"))
            listens, place = manifest("stunnel.conf"), "/etc/netesto-tls"
        pki.give(h1, HOST, f"{place}/tls")
        pki.give(h1, "ca", f"{place}/ca")
        pki.give(controller, CONTROLLER, "/etc/netesto/controller")
        pki.give(controller, "ca", "/etc/netesto/ca")
        controller.run(["install", "-d", "-m", "700", str(HOST_SOCKET.parent)])
        controller.run(["sh", "-c", f"echo {h1.address()} {HOST} >>/etc/hosts"])
        controller.write("/root/hosts.toml", f"{shown('hosts.toml, by stunnel')}[h2]\n")
        socket = ["--config", "/etc/netesto/agent.toml", "--device", "eth1"]
        with h1.agent(*socket), world["h2"].agent("--device", "eth1"):
            yield Stunnelled(world, pki, listens)


def test_an_agent_is_reached_by_certificates(stunnelled):
    with stunnelled.host_end(), stunnelled.controller_end():
        assert check(stunnelled.world, "hosts.toml") == (0, ["host1", "h2"], {})


BY_STUNNEL = FLOW.replace("h1", "host1").replace("dur=1", "dur=6")


def test_a_run_goes_on_when_stunnel_is_started_again(stunnelled):
    controller = stunnelled.world.controller
    controller.write("/root/flow.nts", BY_STUNNEL)
    log = controller.folder / "run.log"
    argv = ["netesto", "run", "--plain", "--yes", "--no-pages", "--hosts", "hosts.toml"]
    with stunnelled.controller_end():
        with stunnelled.host_end():
            run = controller.start([*argv, "--out", "/root/out", "flow.nts"], stdout=log)
            process.wait_until(lambda: "#1.1: 6 s" in log.read_text(), timeout=PATIENCE_S)
        with stunnelled.host_end():
            status = run.wait(PATIENCE_S)
    controller.run(["rm", "-r", "/root/out"])
    is_joined = "host1: connected again; nothing was lost" in log.read_text()
    assert (status, is_joined) == (0, True), log.read_text()


NOT_REACHED = (
    f"agent unreachable at unix:{HOST_SOCKET}: it ends the connection",
    "Does an agent listen there? If it is stunnel, the logs of both its ends have the reason.",
)


@pytest.mark.parametrize("shows", ["no certificate", "another name", "another CA"])
def test_who_has_no_listed_certificate_is_refused(stunnelled, shows, tmp_path):
    text = shown("/etc/netesto/controller.conf")
    if shows == "no certificate":
        text = re.sub(r"^(cert|key) .*\n", "", text, flags=re.MULTILINE)
    else:
        pki = stunnelled.pki if shows == "another name" else Pki(tmp_path / "pki")
        name = "stranger.example.net" if shows == "another name" else CONTROLLER
        pki.issue(name)
        pki.give(stunnelled.world.controller, name, "/root/other")
        text = text.replace("/etc/netesto/controller", "/root/other")
    with stunnelled.host_end(), stunnelled.controller_end(text):
        found = check(stunnelled.world, "hosts.toml")
    assert found == (3, ["h2"], {"host1": NOT_REACHED})


def test_a_controller_refuses_a_host_with_another_name(stunnelled):
    text = shown("/etc/netesto/controller.conf").replace(f"checkHost = {HOST}", "checkHost = h9")
    with stunnelled.host_end(), stunnelled.controller_end(text):
        found = check(stunnelled.world, "hosts.toml")
    assert found == (3, ["h2"], {"host1": NOT_REACHED})
