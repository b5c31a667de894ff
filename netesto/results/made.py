"""The settings that an experiment had: those that held when it began, and those made meanwhile.
Pure."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from netesto.results.manifest import SettingRecord

# Of a qdisc that got no handle, which the kernel counts up.
_HANDLE = re.compile(r" [0-9a-f]+: root refcnt \d+")

# The share of half a second by which `conditions` regards an instant as later: two runs of one
# script differ by milliseconds.
_EARLY = 0.1


@dataclass(frozen=True, slots=True)
class Made:
    """A setting of a host. `at_s` is when it was made, in seconds after the experiment began; None
    if it held before."""

    host: str
    record: SettingRecord
    at_s: float | None


def of(settings: Mapping[str, Iterable[SettingRecord]], started_s: float) -> tuple[Made, ...]:
    """The settings of hosts that an experiment had which began at `started_s`, in their order: of
    those made before, the last of each target."""
    held: dict[tuple[str, str, tuple[str, ...]], Made] = {}
    meanwhile: list[Made] = []
    for host, records in settings.items():
        for record in records:
            if record.made_s >= started_s:
                meanwhile.append(Made(host, record, record.made_s - started_s))
                continue
            key = host, record.setting.target, record.setting.given
            held.pop(key, None)
            held[key] = Made(host, record, None)
    return (*held.values(), *sorted(meanwhile, key=lambda each: each.at_s or 0.0))


def conditions(
    settings: Mapping[str, Iterable[SettingRecord]], started_s: float, flows_s: float
) -> dict[str, dict[str, str]]:
    """By host and target, what was requested and achieved, and when after the flows' common start
    `flows_s`, in half seconds: what two experiments have in common, or not."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for each in of(settings, started_s):
        asked = each.record.setting.requested
        achieved = _HANDLE.sub("", each.record.after)
        words = asked if achieved in {asked, ""} else f"{asked} [{achieved}]"
        if each.at_s is not None:
            after_s = started_s + each.at_s - flows_s
            words = f"at {math.floor(2 * after_s + _EARLY) / 2:g} s {words}"
        found[each.host][each.record.setting.target].append(words)
    return {
        host: {name: ", ".join(words) for name, words in things.items()}
        for host, things in found.items()
    }
