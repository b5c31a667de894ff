"""The state of a link, as netesto-link tells it, in words for people."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from netesto import units
from netesto.emulator import DIRECTIONS
from netesto.errors import OutputError
from netesto.files import jsontext

_PS_PER_US = 1e6

# The names of what sender and receiver tell, beside their numbers.
_SENDER = ("frames", "resent", "dummies", "copies", "tx_bytes", "paused_s", "stalled_s", "marks",
           "drops")  # fmt: skip
_RECEIVER = ("lost", "notices", "given_up", "duplicates", "held", "rx_bytes", "rx_drops", "pauses")


@dataclass(frozen=True, slots=True)
class LinkState:
    """A link: its ends, and by direction (`emulator.DIRECTIONS`) its settings and its state, as
    docs/data-formats.md describes them."""

    ends: tuple[str, str]
    settings: Mapping[str, Mapping[str, str]]
    states: Mapping[str, Mapping[str, Any]]


def read(text: str) -> LinkState:
    """The answer of a program. OutputError if it is none."""
    lines = text.splitlines()
    try:
        a, b = next(line for line in lines if line.startswith("ends "))[5:].split(",")
        settings = [
            dict(word.split("=", 1) for word in line.split()[1:])
            for line in lines
            if line.startswith("settings ")
        ]
        states = [jsontext.parse(line) for line in lines if line.startswith("{")]
        return LinkState(
            (a, b),
            dict(zip(DIRECTIONS, settings, strict=True)),
            dict(zip(DIRECTIONS, states, strict=True)),
        )
    except (StopIteration, ValueError) as error:
        raise OutputError(f"not the state of a link: {error}") from None


def lines(link: LinkState, sender: str, receiver: str) -> Iterator[str]:
    """The state of one direction: its settings, its sender, its receiver."""
    direction = DIRECTIONS[(sender, receiver) != link.ends]
    given, state = link.settings[direction], link.states[direction]
    put = state["wire_frames"]
    measured = f"{state['wire_lost'] / put:.3e}" if put else "unknown"
    rate = units.format_rate(float(given["rate"])) if given["rate"] != "0" else "unlimited"
    words = [
        f"rate {rate}",
        f"loss {state['loss_set']:.3e} set, {measured} measured",
        f"delay {int(given['delay']) / _PS_PER_US:g} us",
    ]
    if given["protect"] != "off":
        words += [
            f"copies {given['copies']}",
            f"hold {int(given['hold']) / _PS_PER_US:g} us",
            f"pause {_bytes(given['pause'])}, resume {_bytes(given['resume'])}",
        ]
    words.append(f"mark {_mark(given)}")
    mode = "not protected" if given["protect"] == "off" else given["protect"]
    yield f"{sender}→{receiver} {mode}: {', '.join(words)}"
    numbers = (
        f"next {state['next']} era {state['era']}, acknowledged {state['acknowledged']} era"
        f" {state['acknowledged_era']}"
    )
    yield f"  sender {sender}: {numbers}, {_values(state, _SENDER)}"
    expected = f"expected {state['expected']} era {state['expected_era']}"
    yield (
        f"  receiver {receiver}: {expected}, {_values(state, _RECEIVER)},"
        f" loss rate {state['loss_rate']:.6e}"
    )


def _values(state: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {state[name]}" for name in names)


def _bytes(text: str) -> str:
    return "none" if text == "-1" else text


def _mark(given: Mapping[str, str]) -> str:
    if given["mark_bytes"] != "-1":
        return f"{given['mark_bytes']} B"
    return "none" if given["mark"] == "-1" else f"{int(given['mark']) / _PS_PER_US:g} us"
