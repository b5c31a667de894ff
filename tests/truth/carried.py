"""The kernel and netesto's program carry equal links side by side: what befalls the datagrams of
one befalls those of the other, and the losses of both have the statistics that are set."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import theory
from captures import Datagram, captured, runs
from link_cells import CLOCK_S, bps, datagrams
from readings import Results
from studies import Cell, Measure, Place, Row, column, side_by_side
from theory import Interval, within

RATE = "20mbit"
LINK = f"rate={RATE} delay=5"
FRAME_S = theory.serialisation_s(theory.FULL_FRAME_BYTES, bps(RATE))
IDLE_S = 0.005 + FRAME_S

CARRIERS = ("kernel", "program")

# Datagrams that fill a queue at 1.2 times the rate, and small ones that are lost.
FULL, SMALL = 600, 8000
MARK_BYTES = 30_000
LOSS, TO_BAD, TO_GOOD = 0.03, 0.01, 0.2

Arrived: TypeAlias = Mapping[int, Datagram]
"""Datagrams by their numbers."""

Rows: TypeAlias = Callable[[Mapping[str, Place]], Iterator[Row]]
"""Those of a case, by the places of its flows."""


def _arrived(results: Results, place: Place) -> Arrived:
    return {each.number: each for each in captured(results.group(*place), IDLE_S)}


def _both(places: Mapping[str, Place], of: Callable[[Arrived, Arrived], float]) -> Measure:
    """A number of what arrived over both links."""
    return lambda results: of(*(_arrived(results, places[carrier]) for carrier in CARRIERS))


def _differs_us(kernel: Arrived, program: Arrived) -> float:
    common = kernel.keys() & program.keys()
    return max(abs(kernel[each].delay_s - program[each].delay_s) * 1e6 for each in common)


def _unequal_arrivals(kernel: Arrived, program: Arrived) -> float:
    return len(kernel.keys() ^ program.keys())


def _other_marks(kernel: Arrived, program: Arrived) -> float:
    common = kernel.keys() & program.keys()
    return sum(kernel[each].is_marked != program[each].is_marked for each in common)


def _rates(places: Mapping[str, Place]) -> Measure:
    def measure(results: Results) -> float:
        kernel, program = (column("rate", places[carrier])(results) for carrier in CARRIERS)
        return program / kernel

    return measure


def _mean_run(place: Place) -> Measure:
    """The mean length of the runs of lost datagrams."""

    def measure(results: Results) -> float:
        lengths = runs([-1, *sorted(_arrived(results, place)), SMALL])
        return sum(lengths) / len(lengths)

    return measure


def _row(quantity: str, interval: Interval, unit: str, source: str, measure: Measure) -> Row:
    return Row(
        quantity=quantity, link="", interval=interval, unit=unit, source=source, measure=measure
    )


SAME = "the same frames, instants and settings"


def _same_delays(places: Mapping[str, Place]) -> Row:
    return _row(
        "one-way delays of a datagram, program and kernel: greatest difference",
        Interval(0, 0, CLOCK_S * 1e6), "µs", SAME, _both(places, _differs_us),
    )  # fmt: skip


def _idle(places: Mapping[str, Place]) -> Iterator[Row]:
    yield _row(
        "program: one-way delay of datagrams of 1514 bytes, maximum",
        within(IDLE_S * 1e6, absolute=CLOCK_S * 1e6), "µs", "size/rate + delay",
        column("oneWayMax", places["program"]),
    )  # fmt: skip
    yield _same_delays(places)


def _same_rate(places: Mapping[str, Place]) -> Iterator[Row]:
    yield _row("goodput, program / kernel", within(1, absolute=0.001), "", SAME, _rates(places))


def _queue(places: Mapping[str, Place]) -> Iterator[Row]:
    yield _same_delays(places)
    yield _row(
        f"datagrams of {FULL}, 1.2 times the rate, that only one of both dropped",
        Interval(0, 0, 1), "", SAME, _both(places, _unequal_arrivals),
    )  # fmt: skip
    yield from _same_rate(places)


def _marks(places: Mapping[str, Place]) -> Iterator[Row]:
    yield _same_delays(places)
    yield _row(
        f"datagrams of {FULL}, 1.2 times the rate, that only one of both marked",
        Interval(0, 0, 1), "", SAME, _both(places, _other_marks),
    )  # fmt: skip
    # Each of them waits for a sixth of a frame more than the one before; pings wait, too.
    unmarked = MARK_BYTES * 8 / bps(RATE) / (FRAME_S / 6)
    yield _row(
        f"program: datagrams marked, of {FULL}, 1.2 times the rate",
        within(FULL - unmarked, absolute=3), "", "mark / (arriving - leaving)",
        column("udpMarked", places["program"]),
    )  # fmt: skip


def _loss(places: Mapping[str, Place]) -> Iterator[Row]:
    for carrier, place in places.items():
        yield _row(
            f"{carrier}: datagrams lost, of {SMALL}", theory.binomial(SMALL, LOSS), "",
            "binomial distribution", column("udpLost", place),
        )  # fmt: skip


def _bursts(places: Mapping[str, Place]) -> Iterator[Row]:
    for carrier, place in places.items():
        yield _row(
            f"{carrier}: datagrams lost, of {SMALL}",
            theory.gilbert_elliott(SMALL, TO_BAD, TO_GOOD), "", "p / (p + r) (Gilbert, 1960)",
            column("udpLost", place),
        )  # fmt: skip
        yield _row(
            f"{carrier}: mean run of lost datagrams",
            theory.gilbert_run(SMALL, TO_BAD, TO_GOOD), "", "1 / r: geometric distribution",
            _mean_run(place),
        )  # fmt: skip


def _cases() -> Iterator[tuple[str, str, Rows]]:
    """What LAB gives both links beside LINK, the flow over each, and the rows."""
    filling, losing = datagrams(RATE, 1.2, FULL), datagrams(RATE, 0.8, SMALL, 58)
    yield "", datagrams(RATE, 0.25, 20), _idle
    yield "limit=60p", filling, _queue
    yield "limit=50K", filling, _queue
    yield f"limit=200p mark={MARK_BYTES // 1000}K", f"{filling} ecn=1", _marks
    yield "limit=100p", "test=TCP_STREAM ca=cubic dur=0.5", _same_rate
    yield f"loss={100 * LOSS:g}", losing, _loss
    yield f"loss=ge({100 * TO_BAD:g},{100 * TO_GOOD:g})", losing, _bursts


def _cells() -> Iterator[Cell]:
    """One for each carrier; the last of a case has its rows."""
    for number, (setting, flow, rows) in enumerate(_cases()):
        link = f"{LINK} {setting}".rstrip()
        first = len(CARRIERS) * number + 1
        places = {carrier: (1, first + at) for at, carrier in enumerate(CARRIERS)}
        of_case = [replace(row, link=link) for row in rows(places)]
        for carrier in CARRIERS:
            yield Cell(
                link=f"{link} emulator={carrier}",
                flows=(flow,),
                captures=20_000,
                rows=partial(_given, of_case if carrier == CARRIERS[-1] else []),
            )


def _given(rows: list[Row], _: Sequence[Place]) -> list[Row]:
    return rows


CARRIED = side_by_side("carried", tuple(_cells()), run="ci")
