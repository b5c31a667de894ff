"""SET_LINK while datagrams pass: each change is seen by the packets that follow it."""

from collections.abc import Callable

from captures import Datagram, captured
from readings import NotMeasuredError, Results
from studies import Measure, Row, Study
from theory import serialisation_s, within

GAP_S = 0.001
FRAME_BYTES = 100

# The link before, and the changes, one a second.
BEFORE = "rate=20mbit delay=5"
CHANGES = ("delay=15", "rate=2mbit", "loss=100", "loss=0", "down=1", "down=0")

FLOW = (
    "DO_CLIENT host=a server=b tool=native hold=1 test=UDP_STREAM len=58 "
    f"bitrate={58 * 8 / GAP_S:.0f} dur={len(CHANGES) + 2} interval=0.05"
)

SCRIPT = "\n".join(
    [
        f"LAB pair {BEFORE}",
        "DO_SERVER host=b exp=COUNTER expName=steps start=1",
        "DO_TCPDUMP host=b server=a packets=20000 snap=64",
        FLOW,
        "START_FLOWS",
        *(f"WAIT 1\nSET_LINK host=a {change}" for change in CHANGES),
        "WAIT_FLOWS",
        "PROCESS_EXP",
        "",
    ]
)


def _late_s(change: int, is_new: Callable[[Datagram], bool]) -> Measure:
    """How long after a change the first datagram was sent that shows it."""

    def measure(results: Results) -> float:
        made_s = results.changes(1)[change]
        for datagram in _datagrams(results):
            if datagram.sent_s > made_s - 0.5 and is_new(datagram):
                return datagram.sent_s - made_s
        raise NotMeasuredError("no datagram shows it")

    return measure


def _silent_s(change: int) -> Measure:
    """How long before a change the last datagram was sent that arrived."""

    def measure(results: Results) -> float:
        made_s = results.changes(1)[change]
        sent_s = [each.sent_s for each in _datagrams(results) if each.sent_s < made_s + 0.5]
        return max(sent_s) - made_s

    return measure


def _datagrams(results: Results) -> list[Datagram]:
    group = results.group(1)
    first_s = 0.005 + serialisation_s(FRAME_BYTES, 20e6)
    return captured(group, first_s)


def _row(place: int, measure: Measure, expected_s: float = 0, source: str = "") -> Row:
    return Row(
        quantity=f"SET_LINK {CHANGES[place]}: first datagram that shows it, after it",
        link=f"pair {BEFORE}",
        # Datagrams are 1 ms apart; the command itself takes a fraction of one.
        interval=within(expected_s, absolute=0.002),
        unit="s",
        source=source or "a change acts on the packets that come after it",
        measure=measure,
    )


def _longer(delay_s: float) -> Callable[[Datagram], bool]:
    return lambda datagram: datagram.delay_s > delay_s - 2e-6


STEPS = Study(
    name="steps",
    script=SCRIPT,
    run="ci",
    expected=lambda: (
        _row(0, _late_s(0, _longer(0.015 + serialisation_s(FRAME_BYTES, 20e6)))),
        _row(1, _late_s(1, _longer(0.015 + serialisation_s(FRAME_BYTES, 2e6)))),
        _row(2, _silent_s(2)),
        _row(3, _late_s(3, lambda _: True)),
        _row(
            4,
            _silent_s(4),
            -0.015 - serialisation_s(FRAME_BYTES, 2e6),
            "what is on the wire when it is cut is lost: size/rate + delay",
        ),
        _row(5, _late_s(5, lambda _: True)),
        Row(
            quantity="the delay of the last datagram, with delay=15 and rate=2mbit",
            link=f"pair {BEFORE}",
            interval=within((0.015 + serialisation_s(FRAME_BYTES, 2e6)) * 1e6, absolute=1.5),
            unit="µs",
            source="size/rate + delay",
            measure=lambda results: _datagrams(results)[-1].delay_s * 1e6,
        ),
    ),
)
