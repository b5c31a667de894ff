"""netesto-link, the program that carries links, and its engine: how settings are told to it.

The program is compiled when the package is installed (setup.py); its source is beside this module.
source/engine.h describes the engine, source/program.h the commands. Formulas for what a script
leaves out are in `netesto.links.settings`: the program gets numbers only.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from netesto.errors import MissingError
from netesto.links.settings import LinkSettings

PROGRAM = Path(__file__).parent / "netesto-link"

# The directions of a link: what its first end sends, and what the second.
DIRECTIONS = ("to", "from")

_PS_PER_MS = 10**9
_NONE = -1


def program() -> str:
    """The path of the program. MissingError if it was not compiled."""
    if not PROGRAM.exists():
        raise MissingError(
            "netesto-link: not compiled: no C compiler (cc, gcc) when netesto was installed",
            remedy="In Debian: apt install gcc libc6-dev, then install netesto again. Only links "
            "that a program carries (protect=, emulator=program) and STRESS_LINK need it.",
        )
    return str(PROGRAM)


def words(forth: LinkSettings, back: LinkSettings) -> list[str]:
    """The settings of both directions as the program reads them."""
    return [*words_of("to", forth), *words_of("from", back)]


def words_of(direction: str, settings: LinkSettings) -> list[str]:
    """Those of one of the DIRECTIONS."""
    return [f"{direction}.{name}={value}" for name, value in _values(settings).items()]


def _values(link: LinkSettings) -> dict[str, Any]:
    """All settings, so that an earlier one never stays."""
    queue = link.queue
    is_gilbert = bool(link.loss.model)
    p, r, lost_bad, lost_good = _gilbert(link.loss.model)
    mark = link.mark
    return {
        "rate": round(link.rate_bps or 0),
        "delay": _ps(link.delay_ms),
        "jitter": _ps(link.jitter_ms),
        "normal": int(link.distribution == "normal"),
        "gilbert": int(is_gilbert),
        "loss": p if is_gilbert else _share(link.loss.percent),
        "recovery": r,
        "lost_bad": lost_bad,
        "lost_good": lost_good,
        "corrupt": _share(link.corrupt_percent),
        "limit_bytes": queue.amount if queue is not None and queue.unit == "bytes" else _NONE,
        "limit_packets": queue.amount if queue is not None and queue.unit == "packets" else _NONE,
        "mark": _NONE if mark is None or mark.ms is None else _ps(mark.ms),
        "mark_bytes": _NONE if mark is None or mark.size_bytes is None else mark.size_bytes,
        "police": max(link.police_bytes, link.frame_bytes) if link.police_bytes else 0,
        "down": int(link.is_down),
        "mtu": link.mtu,
        "overhead": link.overhead_bytes,
        "protect": link.protect,
        "copies": link.copies_made if link.protect != "off" else 1,
        "notice": link.notice,
        "reaction": _ps(link.reaction_ms),
        "hold": _ps(link.hold_ms) if link.protect != "off" else 0,
        "pause": _NONE if link.pause_bytes is None else link.pause_bytes,
        "resume": _NONE if link.resume_bytes is None else link.resume_bytes,
        "txbuffer": _NONE if link.txbuffer_bytes is None else link.txbuffer_bytes,
        "rxbuffer": _NONE if link.rxbuffer_bytes is None else link.rxbuffer_bytes,
    }


def _ps(duration_ms: float) -> int:
    return round(duration_ms * _PS_PER_MS)


def _share(percent: float) -> str:
    return f"{percent / 100:.17g}"


def _gilbert(model: Sequence[float]) -> tuple[str, str, str, str]:
    """The four probabilities of netem's gemodel, with its defaults for what is left out."""
    if not model:
        return ("0", "0", "0", "0")
    p, *others = model
    r, lost_bad, lost_good = (*others, *(100 - p, 100.0, 0.0)[len(others) :])
    return _share(p), _share(r), _share(lost_bad), _share(lost_good)
