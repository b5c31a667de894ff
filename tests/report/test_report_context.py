from dataclasses import replace

import pytest

from netesto.hostsettings import LinkLimits, Netem, Qdisc, Sysctl
from netesto.report import context
from netesto.report.context import Reference
from netesto.results.manifest import SettingRecord
from results import samples

TOLD = samples.manifest(samples.two_flows())


NETEM = Netem(5, device="eth0")


def with_settings(*made):
    hosts = dict(TOLD.hosts)
    settings = tuple(SettingRecord(each, "", each.words) for each in made)
    hosts["client1"] = replace(hosts["client1"], settings=settings)
    return replace(TOLD, hosts=hosts)


def test_limits_are_those_of_the_paths_that_flows_took():
    found = context.of(TOLD)
    assert (found.capacities, found.base_rtts) == (
        (Reference(100.0, "bottleneck 100 Mbit/s"),),
        (Reference(40.3, "base RTT 40.3 ms"),),
    )


def test_a_path_without_flows_limits_nothing():
    path = replace(TOLD.paths[0], source="client7")
    assert context.of(replace(TOLD, paths=(path,))).capacities == ()


@pytest.mark.parametrize("setting", [Qdisc("tbf", ("rate", "10mbit"), "", "eth0"), NETEM])
def test_what_a_script_shaped_has_other_limits_than_were_measured(setting):
    found = context.of(with_settings(setting))
    assert (found.capacities, found.base_rtts) == ((), ())


@pytest.mark.parametrize("setting", [Qdisc("fq", device="eth0"), Sysctl("net.ipv4.tcp_ecn", "1")])
def test_a_setting_that_shapes_nothing_leaves_the_limits(setting):
    assert context.of(with_settings(setting)) == context.of(TOLD)


def test_what_a_script_removed_again_limits_nothing():
    settings = (NETEM, Netem(0, device="eth0"))
    assert context.of(with_settings(*settings)) == context.of(TOLD)


LINK = "rate=100mbit delay=5ms limit=625000 (mtu 1500, qdisc netem 1: root limit 9 rate 1bit)"
SLOWER = LINK.replace("rate=100mbit", "rate=20mbit")
LONGER = LINK.replace("delay=5ms", "delay=10ms")
SHALLOW = LINK.replace("limit=625000", "limit=20000")


def with_links(*changes):
    """SET_LINK on client1: the settings of its link before and after each."""
    host = TOLD.hosts["client1"]
    settings = tuple(
        SettingRecord(LinkLimits(tuple(after.split()[:3]), "left", "to"), before, after, made_s)
        for before, after, made_s in changes
    )
    return replace(TOLD, hosts={**TOLD.hosts, "client1": replace(host, settings=settings)})


def test_a_link_that_got_another_rate_leaves_neither_line():
    found = context.of(with_links((LINK, SLOWER, 0.0)))
    assert (found.capacities, found.base_rtts) == ((), ())


def test_a_link_that_got_another_delay_keeps_the_line_of_its_rate():
    found = context.of(with_links((LINK, LONGER, 0.0)))
    assert (found.capacities, found.base_rtts) == (context.of(TOLD).capacities, ())


BEFORE_S, DURING_S = TOLD.started_s - 1, TOLD.started_s + 1


def test_a_link_that_had_another_rate_while_flows_ran_leaves_neither_line():
    changes = ((LINK, SLOWER, DURING_S), (SLOWER, LINK, DURING_S))
    found = context.of(with_links(*changes))
    assert (found.capacities, found.base_rtts) == ((), ())


@pytest.mark.parametrize(
    "changes",
    [((LINK, SHALLOW, DURING_S),), ((LINK, SLOWER, BEFORE_S), (SLOWER, LINK, BEFORE_S))],
    ids=["limit", "back"],
)
def test_a_link_with_the_rate_and_delay_of_the_lab_keeps_both_lines(changes):
    found = context.of(with_links(*changes))
    assert replace(found, changes=()) == context.of(TOLD)


def test_settings_that_were_made_meanwhile_are_marked_at_their_instants():
    found = context.of(with_links((LINK, SLOWER, BEFORE_S), (SLOWER, LINK, DURING_S)))
    assert found.changes == (
        Reference(1.0, "client1: link left: rate=100mbit delay=5ms limit=625000"),
    )


def test_a_path_without_delay_has_no_line_at_zero():
    path = replace(TOLD.paths[0], measured_rtt_ms=0.0)
    assert context.of(replace(TOLD, paths=(path,))).base_rtts == ()


def test_more_kinds_of_paths_than_lines_are_not_drawn():
    paths = tuple(replace(TOLD.paths[0], asked_rate_bps=rate * 1e6) for rate in (1, 2, 3, 4))
    assert context.of(replace(TOLD, paths=paths)).capacities == ()
