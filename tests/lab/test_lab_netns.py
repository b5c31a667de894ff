"""Labs in this machine's kernel: reachability, shaping, and complete removal."""

import json
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path

import psutil
import pytest
from processes import agents_of, inside, is_alive, samplers_of, wait_for_costly

from netesto.collectors.capabilities import Capabilities
from netesto.errors import LabError, MissingError, UsageError
from netesto.lab import coursefile, netns, plan, probe, records, topology, ways
from netesto.lab.agents import Nursery
from netesto.lab.netns import Lab
from netesto.links.made import LinkDirection, Stage
from netesto.model import Endpoint
from netesto.system import proc, process

KERNEL = Capabilities(
    kernel="6.18.44", congestion_controls=("cubic",), qdiscs=("clsact", "pfifo", "tbf")
)


def unreachable(lab: Lab) -> list[tuple[str, str]]:
    """The addresses of hosts that do not answer the first echo of another host."""
    targets = [
        (source, str(address))
        for source, endpoint in product(lab.endpoints, lab.endpoints.values())
        for address in endpoint.addresses.values()
    ]

    def answers(target: tuple[str, str]) -> bool:
        source, address = target
        argv = ["ping", "-n", "-q", "-c", "1", "-W", "5", address]
        return lab.exec(source, argv, timeout=60, check=False).status == 0

    with ThreadPoolExecutor(4) as pingers:
        answered = list(pingers.map(answers, targets))
    return [target for target, good in zip(targets, answered, strict=True) if not good]


def rates_mbps(lab: Lab, client: str, server: str, family: int, log: Path) -> list[float]:
    """The rates at which 10 MB of iperf3 come to the server, and the next 10 MB, until one is at
    least LEAST_MBPS, at most 20: the hosts of a busy machine send less at times. Of frames, which
    its interface counts: a late server finds in its buffer what came before."""
    address = str(lab.endpoints[server].addresses[family])
    device = lab.record.hosts[server].device

    def listening() -> bool:
        return ":5201" in lab.exec(server, ["ss", "-tlnH"], timeout=60).stdout

    def received() -> int:
        path = f"/sys/class/net/{device}/statistics/rx_bytes"
        return int(lab.exec(server, ["cat", path], timeout=60).stdout)

    found: list[float] = []
    serve = lab.command(server, ["iperf3", "-s", "-1"])
    send = lab.command(client, ["iperf3", "-c", address, "-t", "600"])
    with (
        process.background(serve, stdout=log, ready=listening, timeout=60),
        process.background(send, stdout=log.with_suffix(".client")),
    ):
        while len(found) < 20 and max(found, default=0.0) < LEAST_MBPS:
            began_s, before = time.monotonic(), received()
            assert wait_for_costly(lambda: received() - before > 10_000_000, timeout=60)  # noqa: B023
            after = received()
            found.append((after - before) * 8e-6 / (time.monotonic() - began_s))
    return found


# Of a link of 100 Mbit/s. A token bucket lets a burst of a millisecond through at once, and what
# has passed it may wait for some milliseconds on its way to a host.
LEAST_MBPS, MOST_MBPS = 85, 101


# ---- what a lab is ---------------------------------------------------------------------------


@pytest.mark.lab
@pytest.mark.parametrize("name", ["pair", "star", "dumbbell", "chain", "tree"])
def test_every_host_reaches_every_other_by_ipv4_and_ipv6(raise_lab, name):
    assert unreachable(raise_lab(name)) == []


@pytest.mark.lab
@pytest.mark.parametrize("routing", ["ecmp", "twocore", "onecore"])
def test_hosts_of_all_pods_of_a_fat_tree_reach_each_other(raise_lab, routing):
    lab = raise_lab("fattree", routing=routing)
    some = {host: lab.record.hosts[host] for host in ("h1", "h2", "h3", "h5", "h16")}
    assert unreachable(replace(lab, record=replace(lab.record, hosts=some))) == []


@pytest.mark.lab
def test_a_lab_may_have_more_cables_than_ip_can_open_files_for(raise_lab):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (150, hard))
    try:
        # With limits a link is two cables: 96, with two ends each.
        lab = raise_lab("fattree", rate="1gbit", routing="onecore")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(lab.record.hosts) == 16


@pytest.mark.lab
def test_an_imported_loop_of_switches_routes_by_weights_and_knows_the_aliases(
    raise_lab, tmp_path: Path
):
    (tmp_path / "t.json").write_text(
        """{"topology": {"hosts": {"h1": {}, "h2": {}}, "assignment_strategy": "l3",
        "switches": {"s1": {}, "s2": {}, "s3": {}}, "links": [["h1", "s1"], ["h2", "s2"],
        ["s1", "s2", {"weight": 5}], ["s1", "s3"], ["s3", "s2", {"bw": 1}], ["s3", "s2"]]}}"""
    )
    text = "".join(coursefile.toml(coursefile.read(tmp_path / "t.json"), "t.json"))
    (tmp_path / "t.toml").write_text(text)
    lab = raise_lab("", file=str(tmp_path / "t.toml"))
    process.run(lab.shell("h1", ["ping", "-c", "1", "-W", "5", "10.2.2.2"]), timeout=60)
    source, destination = (lab.endpoints[host].addresses[4] for host in ("h1", "h2"))
    traced = ways.trace(lab.record, ways.sample(source, destination, 64))
    assert {ways.describe(way) for way in traced} == {"h1 ─ s1 ─ s3 ─ s2 ─ h2"}
    used = {way[2].leaves for way in traced}
    assert used == {ways.NodeInterface("s3", "s2"), ways.NodeInterface("s3", "s2.2")}


@pytest.mark.lab
def test_a_topology_from_a_file(raise_lab, tmp_path: Path):
    path = tmp_path / "ring.toml"
    path.write_text("""
        [nodes]
        a = "host"
        r1 = { kind = "router", agent = true }
        r2 = "router"
        r3 = "router"
        b = "host"
        links = "switch"
        [[links]]
        between = ["a", "r1"]
        [[links]]
        between = ["r1", "r2"]
        [[links]]
        between = ["r2", "r3"]
        [[links]]
        between = ["r3", "r1"]
        [[links]]
        between = ["r3", "links"]
        rate = "10mbit"
        [[links]]
        between = ["links", "b"]
    """)
    assert unreachable(raise_lab("", file=str(path))) == []


@pytest.mark.lab
@pytest.mark.parametrize("family", [4, 6])
def test_the_bottleneck_of_a_dumbbell_lets_its_rate_through(raise_lab, tmp_path, family):
    lab = raise_lab("dumbbell", rate="100mbit")
    rate = max(rates_mbps(lab, "client1", "server1", family, tmp_path / "log"))
    assert LEAST_MBPS <= rate <= MOST_MBPS


@pytest.mark.lab
def test_the_other_direction_of_the_bottleneck_is_shaped_alike(raise_lab, tmp_path):
    lab = raise_lab("dumbbell", rate="100mbit")
    rate = max(rates_mbps(lab, "server1", "client1", 4, tmp_path / "log"))
    assert LEAST_MBPS <= rate <= MOST_MBPS


@pytest.mark.lab
@pytest.mark.parametrize("settings", [{}, {"rate": "10mbit"}])
def test_the_first_packet_arrives(raise_lab, settings):
    lab = raise_lab("pair", **settings)
    argv = ["ping", "-n", "-c", "1", "-W", "10", str(lab.endpoints["b"].addresses[6])]
    [rtt_ms] = re.findall(r"time=([\d.]+) ms", lab.exec("a", argv, timeout=60).stdout)
    # Who has to ask again for an address does so after a second.
    assert float(rtt_ms) < 1000


@pytest.mark.lab
def test_offload_off_is_off(raise_lab):
    lab = raise_lab("pair", offload="off")
    told = lab.exec("a", ["ethtool", "-k", "b"], timeout=60).stdout
    wanted = {
        "tcp-segmentation-offload: off",
        "generic-segmentation-offload: off",
        "generic-receive-offload: off",
    }
    assert wanted <= set(told.splitlines())


@pytest.mark.lab
def test_a_host_has_a_small_table_of_connections_of_its_own_and_no_lower_limits(raise_lab):
    if netns.shared_buckets() < netns.LARGE_BUCKETS:
        pytest.skip("the table of all namespaces is small, or this kernel is older than Linux 6.1")
    limits = ["sysctl", "-n", "net.ipv4.tcp_max_tw_buckets", "net.ipv4.tcp_max_syn_backlog"]
    usual = process.run(["unshare", "--net", *limits], timeout=60).stdout.split()
    lab = raise_lab("pair")
    for host in ("a", "b"):
        told = lab.exec(host, [*limits, "net.ipv4.tcp_ehash_entries"], timeout=60).stdout.split()
        assert told == [*usual, str(netns.OWN_BUCKETS)]


@pytest.mark.lab
def test_two_labs_live_side_by_side(raise_lab):
    first, second = raise_lab("pair"), raise_lab("pair")
    assert (unreachable(first), unreachable(second)) == ([], [])


@pytest.mark.lab
def test_a_command_on_a_host_that_is_not_there(raise_lab):
    with pytest.raises(UsageError, match=r"no host c\nNodes: a, b\."):
        raise_lab("pair").command("c", ["true"])


@pytest.mark.lab
def test_what_a_host_does_at_its_interface_takes_nothing_from_its_link(raise_lab):
    lab = raise_lab("pair", rate="10mbit")
    before = lab.exec("links", ["tc", "qdisc", "show"], timeout=60).stdout
    lab.exec("a", ["tc", "qdisc", "replace", "dev", "b", "root", "pfifo", "limit", "9"], timeout=60)
    lab.exec("a", ["tc", "qdisc", "delete", "dev", "b", "root"], timeout=60)
    assert before.count("qdisc tbf") == 2
    assert lab.exec("links", ["tc", "qdisc", "show"], timeout=60).stdout == before


# ---- agents ----------------------------------------------------------------------------------


def answers(endpoint: Endpoint) -> bool:
    """Whether a process listens on an agent's socket, in any network namespace."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(endpoint.agent.removeprefix("unix:")) == 0


@pytest.mark.lab
def test_every_host_has_an_agent_that_listens(state: Path, planned):
    with netns.up(planned("dumbbell", clients="1"), state=state) as lab:
        refused = [endpoint.host for endpoint in lab.endpoints.values() if not answers(endpoint)]
        assert (list(lab.endpoints), refused) == (["client1", "router", "server1"], [])


@pytest.mark.lab
def test_commands_of_a_person_know_the_hosts_of_a_lab_by_name(state: Path, planned):
    machines = Path("/etc/hosts").read_bytes()
    with netns.up(planned("pair"), state=state) as lab:
        told = process.run(lab.shell("a", ["getent", "ahostsv4", "b"]), timeout=60).stdout
        assert told.split()[0] == str(lab.endpoints["b"].addresses[4])
        refused = process.run(lab.shell("a", ["sh", "-c", "exit 7"]), timeout=60, check=False)
        assert (refused.status, Path("/etc/hosts").read_bytes()) == (7, machines)


@pytest.mark.lab
@pytest.mark.parametrize(("emulator", "programs"), [("kernel", 0), ("program", 1)])
def test_a_lab_without_links_that_a_program_carries_starts_none(
    state: Path, planned, emulator: str, programs: int
):
    made = planned("pair", rate="10mbit", emulator=emulator)
    with netns.up(made, state=state, agents=False) as lab:
        assert len(inside(lab.record.namespaces)) == programs


@pytest.mark.lab
def test_a_lab_whose_namespace_somebody_removed_names_it(state: Path, planned):
    with netns.up(planned("pair"), state=state, agents=False) as lab:
        assert lab.missing == []
        process.run(["ip", "netns", "del", f"{lab.id}-b"], timeout=60)
        assert lab.missing == [f"{lab.id}-b"]


@pytest.mark.lab
@pytest.mark.parametrize("of", [agents_of, samplers_of])
def test_a_host_has_a_thread_in_its_namespace_that_sees_its_own_interfaces(
    state: Path, planned, of
):
    with netns.up(planned("pair"), state=state) as lab:
        own = lab.record.hosts["a"]
        threads = lambda: threads_in(records.NAMESPACE_FOLDER / own.namespace, of(lab.record))  # noqa: E731
        # An agent does not wait for its samplers.
        assert wait_for_costly(lambda: threads() != [], timeout=60)
        [thread, *_] = threads()
        there = {path.name for path in (thread / "root/sys/class/net").iterdir()}
        # The one that psutil reads is that of a process.
        lines = (thread / "root" / "proc" / thread.parts[2] / "net/dev").read_text().splitlines()
        counted = {line.partition(":")[0].strip() for line in lines[2:]}
        assert (there, counted) == ({"lo", own.device}, {"lo", own.device})
        # In a procfs of all namespaces sysctls of the same name are in one list.
        assert (thread / "root/proc/sys").stat().st_dev != Path("/proc/sys").stat().st_dev


def threads_in(namespace: Path, processes: Iterable[psutil.Process]) -> list[Path]:
    """Their threads in this network namespace."""
    tasks = [task for each in processes for task in Path(f"/proc/{each.pid}/task").iterdir()]
    return [task for task in tasks if (task / "ns/net").stat().st_ino == namespace.stat().st_ino]


@pytest.mark.lab
def test_a_lab_has_one_agent_and_a_sampler_for_each_host(state: Path, planned):
    with netns.up(planned("star", hosts="5"), state=state) as lab:
        # An agent does not wait for its samplers.
        wait_for_costly(lambda: len(samplers_of(lab.record)) >= 5, timeout=60)
        assert (len(agents_of(lab.record)), len(samplers_of(lab.record))) == (1, 5)


@pytest.mark.lab
def test_the_agent_of_a_lab_is_started_by_a_process_that_goes_with_it(state: Path, planned):
    with netns.up(planned("pair"), state=state) as lab:
        [nursery] = [psutil.Process(agent.ppid()) for agent in agents_of(lab.record)]
    assert process.wait_until(lambda: not is_alive(nursery), timeout=60)


def test_agents_cannot_be_ordered_from_a_nursery_that_has_ended(tmp_path: Path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    with (
        ours,
        (tmp_path / "ready").open("w") as ready,
        pytest.raises(LabError, match="agents cannot be started"),
    ):
        Nursery(ours).start(
            {},
            names=tmp_path / "hosts",
            log=tmp_path / "log",
            ready=ready.fileno(),
        )


@pytest.mark.lab
def test_agent_and_samplers_end_with_the_lab(state: Path, planned, left_of):
    with netns.up(planned("pair"), state=state) as lab:
        found = [*agents_of(lab.record), *samplers_of(lab.record)]
        assert [is_alive(each) for each in found] == [True] * len(found)
    assert [is_alive(each) for each in found] == [False] * len(found)
    assert left_of(lab.record) == []


@pytest.mark.lab
def test_samplers_that_are_stopped_end_with_the_lab(state: Path, planned):
    with netns.up(planned("pair"), state=state) as lab:
        assert wait_for_costly(lambda: len(samplers_of(lab.record)) == 2, timeout=60)
        samplers = samplers_of(lab.record)
        for each in samplers:
            each.suspend()
    assert [is_alive(each) for each in samplers] == [False] * len(samplers)


@pytest.mark.lab
@pytest.mark.parametrize("removed", [["ip", "netns", "del"], ["umount"]], ids=lambda argv: argv[0])
def test_agents_whose_namespace_lost_its_name_end_with_the_lab(
    state: Path, planned, left_of, removed
):
    with netns.up(planned("pair"), state=state) as lab:
        name = lab.record.hosts["a"].namespace
        agents = agents_of(lab.record)
        target = name if removed[0] == "ip" else str(records.NAMESPACE_FOLDER / name)
        process.run([*removed, target], timeout=60)
        assert lab.missing == [name]
    assert ([is_alive(agent) for agent in agents], left_of(lab.record)) == ([False], [])


@pytest.mark.lab
def test_a_lab_that_stays_is_found_and_taken_down_by_name(state: Path, planned, left_of):
    lab = netns.bring_up(planned("pair"), state=state)
    found = netns.attach(lab.id, state=state)
    assert found.record == lab.record
    netns.take_down(found)
    assert left_of(lab.record) == []
    with pytest.raises(UsageError, match=rf"no lab {lab.id}\nNo lab is up\."):
        netns.attach(lab.id, state=state)


# ---- nothing stays ---------------------------------------------------------------------------


@pytest.mark.lab
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_namespaces_go_away_when_the_body_fails(state: Path, planned, error, left_of):
    with pytest.raises(error), netns.up(planned("pair"), state=state, agents=False) as lab:
        raise error
    assert left_of(lab.record) == []
    assert list(state.iterdir()) == []


def fail_with_a_file_in_place_of_the_folder(lab: Lab) -> None:
    place = Path(lab.record.files)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()
    raise ValueError("first")


@pytest.mark.lab
def test_what_is_not_removed_is_reported_with_the_error_before_it(state: Path, planned, left_of):
    with (
        pytest.raises(ValueError, match="first") as told,
        netns.up(planned("pair"), state=state, agents=False) as lab,
    ):
        fail_with_a_file_in_place_of_the_folder(lab)
    in_the_way = Path(lab.record.files)
    in_the_way.unlink()
    netns.take_down(lab)
    assert told.value.__notes__ == [
        f"{in_the_way}: not removed: Not a directory\n`netesto clean` removes what is left."
    ]
    assert left_of(lab.record) == []


@pytest.mark.lab
def test_namespaces_go_away_when_the_building_fails(state: Path, planned):
    good = planned("pair")
    side = good.namespaces[1]
    broken = replace(side.interfaces[0], direction=LinkDirection((), (Stage("bogus", {}),)))
    bad = replace(good, namespaces=(good.namespaces[0], replace(side, interfaces=(broken,))))
    with (
        pytest.raises(
            LabError, match=f"tc -netns {side.name} qdisc add dev a root handle 1: bogus: "
        ),
        netns.up(bad, state=state, agents=False),
    ):
        pass
    assert [ns.name for ns in bad.namespaces if (records.NAMESPACE_FOLDER / ns.name).exists()] == []
    assert list(state.iterdir()) == []


@pytest.mark.lab
def test_a_sysctl_that_the_kernel_lacks_is_named(state: Path, planned):
    good = planned("pair")
    bad = replace(good.namespaces[0], sysctls={"net.ipv4.bogus": "1"})
    with (
        pytest.raises(LabError, match=r"^cannot build the lab: /proc/sys/net/ipv4/bogus: "),
        netns.up(replace(good, namespaces=(bad, *good.namespaces[1:])), state=state, agents=False),
    ):
        pass


@pytest.mark.lab
def test_what_runs_in_a_namespace_ends_with_it(state: Path, planned):
    with netns.up(planned("pair"), state=state, agents=False) as lab:
        names = lab.record.namespaces
        sleeper = subprocess.Popen(lab.command("a", ["sleep", "600"]))
        # What starts it must first enter the namespace.
        process.wait_until(lambda: inside(names) != [], timeout=60)
        assert [each.pid for each in inside(names)] == [sleeper.pid]
    assert sleeper.wait(60) == -signal.SIGTERM


@pytest.mark.lab
def test_an_interrupted_process_takes_its_lab_with_it(state: Path, hold, left_of):
    holder = hold()
    record = records.read_all(state)[0]
    holder.send_signal(signal.SIGINT)
    holder.wait(60)
    assert left_of(record) == []
    assert list(state.iterdir()) == []


@pytest.mark.lab
def test_an_interrupt_while_building_leaves_nothing(state: Path, left_of):
    script = (
        "import sys; from pathlib import Path;"
        "from netesto.lab import netns, plan, topology;"
        "netns.up(plan.plan(topology.build('fattree', {}), prefix='ntintr'),"
        " state=Path(sys.argv[1]), agents=False).__enter__(); sys.stdin.read()"
    )
    path = records.path_of(state, "ntintr")
    with subprocess.Popen(
        [sys.executable, "-c", script, str(state)], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert process.wait_until(path.exists, timeout=60)
        record = records.read(path)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
    assert left_of(record) == []
    assert list(state.iterdir()) == []


# ---- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "options", "refusal"),
    [
        (
            KERNEL,
            {"delay": "20", "loss": "0.1"},
            """qdisc netem: not in this kernel (6.18.44); `--ground uml` has it
delay=20 loss=0.1 needs it, on the link router - right.""",
        ),
        (
            KERNEL,
            {"qdisc": "dualpi2"},
            """qdisc dualpi2: not in this kernel (6.18.44)
qdisc=dualpi2 needs it, on the link router - right.""",
        ),
        (KERNEL, {}, ""),
        (replace(KERNEL, qdiscs=None, unknown="no tc"), {"delay": "1"}, ""),
    ],
    ids=["lacking", "lacking everywhere", "there", "unknown"],
)
def test_only_what_the_kernel_lacks_is_refused_with_what_asked_for_it(kernel, options, refusal):
    told = ""
    try:
        netns.check_kernel(plan.plan(topology.build("dumbbell", options), prefix="nt3f"), kernel)
    except MissingError as error:
        told = str(error)
    assert told == refusal


def test_a_guest_s_kernel_that_lacks_a_qdisc_names_no_ground_that_has_it(monkeypatch):
    monkeypatch.setenv(proc.GROUND_MARK, "sim")
    with pytest.raises(MissingError) as caught:
        netns.check_kernel(plan.plan(topology.build("pair", {"loss": "1"}), prefix="nt3f"), KERNEL)
    assert str(caught.value) == (
        "qdisc netem: not in this kernel (6.18.44)\nloss=1 needs it, on the link a - b."
    )


@pytest.mark.lab
def test_an_ordinary_user_is_told_what_a_lab_needs(tmp_path: Path):
    script = (
        "from netesto.lab import netns, plan, topology;"
        "netns.check(plan.plan(topology.build('pair', {}), prefix='nt3f'))"
    )
    nobody = ["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-c"]
    if process.run([*nobody, "import netesto"], timeout=60, check=False).status != 0:
        pytest.skip("an ordinary user cannot read this checkout")
    told = process.run([*nobody, script], timeout=60, check=False).stderr
    assert "a lab in this machine's kernel needs root" in told


@pytest.mark.lab
def test_a_namespace_of_somebody_else_is_refused_and_not_touched(state: Path, planned):
    wanted = planned("pair")
    theirs = wanted.namespaces[1].name
    process.run(["ip", "netns", "add", theirs], timeout=60)
    try:
        with (
            pytest.raises(LabError, match=f"/run/netns/{theirs} exists already"),
            netns.up(wanted, state=state, agents=False),
        ):
            pass
        assert (records.NAMESPACE_FOLDER / theirs).exists()
    finally:
        process.run(["ip", "netns", "delete", theirs], timeout=60)


@pytest.mark.lab
def test_a_name_that_is_taken_is_refused_and_not_touched(state: Path, planned, left_of):
    wanted = planned("pair")
    with netns.up(wanted, state=state, agents=False) as lab:
        with (
            pytest.raises(LabError, match=f"lab {lab.id}: .* exists already"),
            netns.up(wanted, state=state, agents=False),
        ):
            pass
        assert left_of(lab.record) == list(lab.record.namespaces)


# ---- measuring -------------------------------------------------------------------------------


@pytest.mark.lab
@pytest.mark.parametrize("family", [4, 6])
def test_paths_are_measured_before_traffic(raise_lab, planned, family):
    lab = raise_lab("dumbbell", rate="10mbit")
    built = planned("dumbbell", rate="10mbit")
    # A busy machine may be too slow for a train.
    for _ in range(20):
        [path] = probe.measure(lab, built, [("client1", "server1")], family=family)
        if path.measured_rate_bps == pytest.approx(1e7, rel=0.05):
            break
    assert (path.asked_rtt_ms, path.asked_rate_bps) == (None, 1e7)
    assert path.measured_rtt_ms is not None
    assert path.measured_rate_bps == pytest.approx(1e7, rel=0.05)


@pytest.mark.lab
@pytest.mark.parametrize("family", [4, 6])
def test_replies_come_back_by_the_link_that_the_source_tests_through(
    raise_lab, planned, tmp_path: Path, family
):
    path = tmp_path / "two_ways.toml"
    path.write_text("""
        [nodes]
        a = "host"
        b = { kind = "host", device = "r2" }
        r1 = "router"
        r2 = "router"
        [[links]]
        between = ["a", "r1"]
        [[links]]
        between = ["r1", "b"]
        [[links]]
        between = ["r1", "r2"]
        [[links]]
        between = ["r2", "b"]
    """)
    lab = raise_lab("", file=str(path))

    def received() -> int:
        shown = lab.exec("b", ["ip", "-s", "-j", "link", "show", "dev", "r2"], timeout=60).stdout
        return int(json.loads(shown)[0]["stats64"]["rx"]["packets"])

    before = received()
    probe.measure(lab, planned("", file=str(path)), [("b", "a")], family=family)
    assert received() - before >= probe.ECHOES


@pytest.mark.lab
def test_a_host_that_cannot_be_reached_is_named(raise_lab, planned):
    lab = raise_lab("pair")
    lab.exec("b", ["ip", "link", "set", "dev", "a", "down"], timeout=60)
    with pytest.raises(LabError, match=r"a cannot reach b \(10\.0\.1\.2\)"):
        probe.measure(lab, planned("pair"), [("a", "b")])
