"""Which settings an experiment had."""

from netesto.hostsettings import Command, LinkAttribute, LinkLimits, Qdisc, Setting, Sysctl
from netesto.results import made
from netesto.results.made import Made
from netesto.results.manifest import SettingRecord


def record(setting: Setting, after: str, made_s: float = 0.0) -> SettingRecord:
    return SettingRecord(setting, "", after, made_s=made_s)


SLOW = record(
    Qdisc("tbf", ("rate", "5mbit"), "", "r"), "qdisc tbf 8001: root refcnt 2 rate 5Mbit", 9.0
)
FAST = record(
    Qdisc("tbf", ("rate", "9mbit"), "change", "r"), "qdisc tbf 8001: root refcnt 2 rate 9Mbit", 12.5
)
ECN = record(Sysctl("net.ipv4.tcp_ecn", "1"), "1", 8.0)


def test_what_was_replaced_before_the_experiment_is_none_of_its_settings():
    old = record(
        Qdisc("pfifo", ("limit", "5"), "", "r"), "qdisc pfifo 8000: root refcnt 2 limit 5p", 7.0
    )
    assert made.of({"router": (old, ECN, SLOW, FAST)}, 10.0) == (
        Made("router", ECN, None),
        Made("router", SLOW, None),
        Made("router", FAST, 2.5),
    )


def test_settings_made_meanwhile_are_in_the_order_of_their_instants():
    found = made.of({"a": (FAST,), "b": (record(Sysctl("x", "1"), "1", 11.0),)}, 10.0)
    assert [(each.host, each.at_s) for each in found] == [("b", 1.0), ("a", 2.5)]


def test_attributes_of_one_interface_are_different_things_and_commands_are_their_own():
    settings = [
        LinkAttribute("mtu", "9000", device="b"),
        LinkLimits(("rate=5mbit",), "b", "to"),
        LinkLimits(("delay=1",), "b", "to"),
        Command("rings", ("rx=1",)),
        Sysctl("x", "1"),
    ]
    records = [record(each, "") for each in settings]
    found = made.conditions({"a": records}, 10, 10)["a"]
    assert (found, len(made.of({"a": records}, 10))) == (
        {
            "link b mtu": "9000",
            "link b": "rate=5mbit, delay=1",
            "command rings rx=1": "",
            "sysctl x": "1",
        },
        5,
    )


def test_conditions_are_what_was_requested_and_achieved_and_when_after_the_common_start():
    assert made.conditions({"router": (SLOW, FAST, ECN)}, 10.0, 10.48) == {
        "router": {
            "qdisc r": "tbf rate 5mbit [qdisc tbf rate 5Mbit],"
            " at 2 s change tbf rate 9mbit [qdisc tbf rate 9Mbit]",
            "sysctl net.ipv4.tcp_ecn": "1",
        }
    }


def test_instants_that_differ_by_the_time_of_a_command_are_the_same_condition():
    early, late = (record(Sysctl("x", "1"), "1", made_s) for made_s in (14.99, 15.3))
    assert made.conditions({"a": (early,)}, 10, 10) == made.conditions({"a": (late,)}, 10, 10)
