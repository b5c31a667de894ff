"""The path of a flow: as the kernel reports it, and as its packets show."""

import re
from ipaddress import ip_address
from pathlib import Path

import pytest

from netesto.errors import LabError
from netesto.lab import netns, plan, ways
from netesto.lab.netns import Lab
from netesto.lab.records import Record
from netesto.lab.ways import SERVER_PORT, Hop, NodeInterface
from netesto.links.routed import RoutedFlow
from netesto.system import process

# Enough that nothing else in the lab comes near, and that what iperf3 leaves unsent is little of
# it: it counts what it has written, and then closes its socket, whose buffer holds up to 4 MB.
MEGABYTES = 32


# A lab without hosts.
NOWHERE = Record(
    lab="nt", topology="pair", owner=None, namespaces=(), sockets="", files="", hosts={}
)


def hop(here: str, out: str, there: str, by: str) -> Hop:
    return Hop(NodeInterface(here, out), NodeInterface(there, by))


PORTS = 16


@pytest.mark.lab
def test_flows_of_all_pairs_are_divided_among_the_links_between_routers(raise_lab):
    lab = raise_lab("fattree")
    shares = ways.all_pairs(lab.record, PORTS)
    rows: dict[str, int] = {}
    for share in shares:
        row = share.source[0] + share.destination[0]
        rows[row] = rows.get(row, 0) + share.flows
    # Every host has 14 others behind other edges, and 12 of these in other pods.
    edges, cores = 16 * 14 * PORTS, 16 * 12 * PORTS
    assert rows == {"ea": edges, "ae": edges, "ac": cores, "ca": cores}
    assert len(shares) == 2 * 32
    balances = ways.balances(lab.record, shares)
    assert [balance.name for balance in balances] == ["pod 1", "pod 2", "pod 3", "pod 4"]
    assert max(balance.variation for balance in balances) <= 0.25


@pytest.mark.lab
def test_routers_that_do_not_forward_have_no_share(raise_lab):
    lab = raise_lab("fattree", routing="twocore")
    used = {(share.source, share.destination) for share in ways.all_pairs(lab.record, 1)}
    up = {("a1", "c1"), ("a2", "c3"), ("a3", "c1"), ("a4", "c3")}
    assert {
        pair for pair in used if pair[0] in {"a1", "a2", "a3", "a4"} and pair[1][0] == "c"
    } == up


def test_balance_of_equal_shares_is_0_and_of_others_their_coefficient_of_variation():
    equal = ways.Balance("r", (ways.LinkShare("r", "a", 5), ways.LinkShare("r", "b", 5)))
    # Mean 4, standard deviation 3.
    uneven = ways.Balance("r", (ways.LinkShare("r", "a", 1), ways.LinkShare("r", "b", 7)))
    assert (equal.variation, uneven.variation) == (0, 0.75)


# ---- in words ------------------------------------------------------------------------------------


def test_a_way_over_routers():
    way = (hop("h1", "e1", "e1", "h1"), hop("e1", "h2", "h2", "e1"))
    assert ways.describe(way) == "h1 ─ e1 ─ h2"


def test_a_way_over_switches():
    way = (hop("client1", "left", "router", "left"), hop("router", "right", "server1", "right"))
    assert ways.describe(way) == "client1 ─ left ─ router ─ right ─ server1"


def test_a_way_over_many_switches_names_the_first_and_the_last():
    assert ways.describe((hop("h1", "sw4", "h8", "sw7"),)) == "h1 ─ sw4 … sw7 ─ h8"


def test_a_way_over_the_second_of_two_cables():
    assert ways.describe((hop("a", "b.2", "b", "a.2"),)) == "a ─ b"


# ---- in a lab ------------------------------------------------------------------------------------


@pytest.mark.lab
def test_flows_take_all_paths_of_a_fat_tree(raise_lab):
    lab = raise_lab("fattree")
    source, destination = (lab.endpoints[host].addresses[4] for host in ("h1", "h16"))
    taken = ways.trace(lab.record, ways.sample(source, destination, 96))
    assert {ways.describe(way) for way in taken} == {
        "h1 ─ e1 ─ a1 ─ c1 ─ a7 ─ e8 ─ h16",
        "h1 ─ e1 ─ a1 ─ c2 ─ a7 ─ e8 ─ h16",
        "h1 ─ e1 ─ a2 ─ c3 ─ a8 ─ e8 ─ h16",
        "h1 ─ e1 ─ a2 ─ c4 ─ a8 ─ e8 ─ h16",
    }


@pytest.mark.lab
@pytest.mark.parametrize("port", [40001, 40002, 40003])
def test_the_packets_of_a_flow_go_where_it_was_said(raise_lab, tmp_path, port):
    lab = raise_lab("fattree")
    source, destination = (lab.endpoints[host].addresses[4] for host in ("h1", "h16"))
    flow = RoutedFlow(
        source=source, destination=destination, source_port=port, destination_port=SERVER_PORT
    )
    said = {end.leaves for end in ways.trace(lab.record, [flow])[0]}
    before = sent_bytes(lab)
    send(lab, flow, tmp_path)
    after = sent_bytes(lab)
    # ACKs come back by a way of their own, and are fewer and small.
    carried = {place for place in after if after[place] - before[place] > MEGABYTES * 500_000}
    assert carried == said


def send(lab: Lab, flow: RoutedFlow, folder: Path) -> None:
    """Some megabytes in exactly this flow; iperf3 has a connection for control besides."""
    server = lab.command("h16", ["iperf3", "--server", "--one-off"])
    log = folder / "server"
    listening = lambda: "Server listening" in log.read_text()  # noqa: E731
    with process.background([*server, "--forceflush"], stdout=log, ready=listening, timeout=20):
        client = ["iperf3", "--client", str(flow.destination), "--cport", str(flow.source_port)]
        lab.exec("h1", [*client, "--bytes", f"{MEGABYTES}M"], timeout=60)


def sent_bytes(lab: Lab) -> dict[NodeInterface, int]:
    """Bytes that each interface has sent so far."""
    return {
        NodeInterface(node, device): int(sent)
        for namespace in lab.record.namespaces
        for node in [namespace.removeprefix(f"{lab.id}-")]
        for device, sent in re.findall(
            r"^\s*([\w.]+):(?:\s+\d+){8}\s+(\d+)",
            lab.exec(node, ["cat", "/proc/net/dev"], timeout=60).stdout,
            re.MULTILINE,
        )
    }


@pytest.mark.lab
def test_a_flow_of_udp_has_a_way_too(raise_lab):
    lab = raise_lab("dumbbell")
    source, destination = (lab.endpoints[host].addresses[4] for host in ("client1", "server1"))
    flow = RoutedFlow(
        source=source,
        destination=destination,
        source_port=1,
        destination_port=SERVER_PORT,
        protocol="udp",
    )
    [way] = ways.trace(lab.record, [flow])
    assert ways.describe(way) == "client1 ─ left ─ router ─ right ─ server1"


def test_an_address_of_nobody_is_named():
    flow = RoutedFlow(
        source=ip_address("10.0.0.1"),
        destination=ip_address("10.0.0.2"),
        source_port=1,
        destination_port=SERVER_PORT,
    )
    with pytest.raises(LabError, match=r"10\.0\.0\.1: not an address of this lab"):
        ways.trace(NOWHERE, [flow])


@pytest.mark.lab
def test_routers_that_choose_alike_are_found_out(state, planned, monkeypatch):
    # The same number everywhere: each router divides the flows in the same way.
    monkeypatch.setattr(plan, "_primes", lambda: iter([251] * 100))
    with (
        pytest.raises(LabError, match=r"96 flows from h1 to h5 take 2 of 4 equal paths"),
        netns.up(planned("fattree"), state=state, agents=False),
    ):
        pass
