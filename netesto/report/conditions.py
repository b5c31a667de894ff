"""In what two results folders differ beside their measurements: formulas, tools, grounds, hosts."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from netesto import hostsettings
from netesto.errors import UsageError
from netesto.files import jsontext
from netesto.results import derive, fields, hostdiffs, made, manifest, packed, store
from netesto.results.manifest import SettingRecord


def differences(
    base: Path,
    new: Path,
    rows: tuple[Sequence[Mapping[str, str]], Sequence[Mapping[str, str]]],
    measures: Iterable[str],
) -> Iterator[str]:
    """Sentences on what differs. `rows` are the experiments of both folders, `measures` those that
    are compared."""
    known = [list(_grounds_and_facts(each)) for each in (base, new)]
    grounds = [{ground for ground, _ in each} - {""} for each in known]
    tools, kernels = (
        [{row.get(name, "") for row in each} - {""} for each in rows] for name in ("tool", "kernel")
    )
    yield from _computed_otherwise(base, new)
    yield from _aggregated_otherwise(base, new, measures)
    yield from _other_conditions({"tool": tools, "ground": grounds, "kernel": kernels})
    yield from hostdiffs.sentences(*([facts for _, facts in each] for each in known))


def _other_conditions(known: Mapping[str, Sequence[Collection[str]]]) -> Iterator[str]:
    """What base and new were measured with, if it differs; unknown in classic folders."""
    for name, (base, new) in known.items():
        if base and new and base != new:
            old, now = ("/".join(sorted(each)) for each in (base, new))
            yield f"{name} is {old} in base, and {now} in new: a change may be due to that alone."


def _computed_otherwise(base: Path, new: Path) -> Iterator[str]:
    """Folders that were computed by other formulas than the other one."""
    computed = {folder: derive.formulas(folder) for folder in (base, new)}
    if len(computed[base] | computed[new]) > 1 and all(computed.values()):
        for name, folder in (("base", base), ("new", new)):
            if computed[folder] != {derive.FORMULAS}:
                yield (
                    f"Another version of netesto computed the columns of {name}, some of them"
                    f" differently: `netesto report {folder}` rebuilds them."
                )


def _aggregated_otherwise(base: Path, new: Path, measures: Iterable[str]) -> Iterator[str]:
    """Measures whose values have different meanings in the two folders if an experiment has several
    groups."""
    olds, news = _operations(base), _operations(new)
    for measure in measures:
        old, now = (operations.get(measure) for operations in (olds, news))
        if old and now and old != now:
            yield (
                f"{measure} of an experiment is {old} of its groups in base, and {now} in new:"
                f" `netesto report {base} --fields {new / store.FIELDS}` makes them agree."
            )


def _operations(folder: Path) -> dict[str, str]:
    """How a folder's columns aggregate groups; unknown without a valid fields.txt."""
    try:
        return {each.name: each.operation for each in fields.load(folder / store.FIELDS).columns}
    except UsageError:
        return {}


def _grounds_and_facts(folder: Path) -> Iterator[tuple[str, dict[str, dict[str, str]]]]:
    """The ground of each experiment and the facts of its hosts; without those that cannot be
    read."""
    for exp in store.experiments(folder):
        try:
            text = packed.text(folder / str(exp) / manifest.NAME)
            found = jsontext.parse(text)
            facts = {
                str(name): {
                    str(key): str(value)
                    for key, value in (found.get("facts", {}) | host.get("facts", {})).items()
                }
                for name, host in found["hosts"].items()
            }
            for name, things in _settings(found).items():
                facts[name] |= things
            yield str(found.get("ground", "")), facts
        except (OSError, *jsontext.INVALID):
            continue


def _settings(found: Any) -> dict[str, dict[str, str]]:
    """What was set at the hosts of a manifest, by host and thing."""
    records = {
        str(name): [
            SettingRecord(
                hostsettings.read(each["setting"]),
                str(each["before"]),
                str(each["after"]),
                each["made_s"],
            )
            for each in host.get("settings", ())
        ]
        for name, host in found["hosts"].items()
    }
    started_s = float(found.get("started_s", 0.0))
    starts = [
        flow["asked_start_s"]
        for group in found.get("groups", ())
        for flow in group["instances"]
        if flow.get("asked_start_s") is not None
    ]
    return made.conditions(records, started_s, min(starts, default=started_s))
