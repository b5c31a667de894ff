"""The page of one experiment, from the files in its folder alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from netesto.measured import CPU_STATES
from netesto.report import (
    context,
    graphs,
    neighbours,
    network,
    packetflows,
    rendering,
    spread,
    together,
    words,
)  # fmt: skip
from netesto.report.figures import Chart, Graph
from netesto.report.neighbours import PAGE
from netesto.results import (
    derive,
    durable,
    hostdiffs,
    keyvalue,
    manifest,
    numbers,
    packetfile,
    series,
    severity,
    store,
    table,
)  # fmt: skip
from netesto.results.evidence import OK
from netesto.results.manifest import Manifest

# A longer list is folded: most readers want what is below it.
UNFOLDED_MAX = 8


Figure = TypeVar("Figure", Graph, Chart)


@dataclass(frozen=True, slots=True)
class Failure:
    """A flow that failed."""

    flow: str
    reason: str
    last_lines: str


@dataclass(frozen=True, slots=True)
class Tile:
    """One number that characterises the experiment."""

    name: str
    value: str
    unit: str


def write(folder: Path, known: Manifest | None = None) -> None:
    """Write exp.html and plots/ into an experiment's folder, complete or still N.partial.

    `known` is the manifest if it has more than the file (damage that was found later).
    ResultsError if a file is missing or not readable, or the page cannot be written.
    """
    known = known or manifest.read(folder / manifest.NAME)
    groups = [keyvalue.read(folder / derive.group_file(group.request)) for group in known.groups]
    whole = keyvalue.read(folder / "all.exp.out")
    found = series.read(folder / "series.json")
    entries = graphs.legend(found)
    drawn = {graph.name: graph for graph in graphs.of(found, context.of(known))}
    captures = packetfile.read(folder)
    captured = packetflows.of_experiment(captures)
    spreads = spread.of_experiment(folder, known)
    durable.make_folder(folder / "plots")
    html = rendering.render(
        "page.html.j2",
        manifest=known,
        warnings=[
            (severity.severity(text).value, text) for text in severity.ranked(known.warnings)
        ],
        failures=failures(known, found),
        tiles=tiles(whole, known),
        network=network.of_experiment(folder),
        together=together.find(found, [(entry.label, entry.flows) for entry in entries]),
        blocks=table.blocks(groups),
        notes=table.notes(groups),
        groups=groups,
        pictures=_pictures(folder, drawn),
        captures=[
            (
                each,
                packetflows.headings(each.capture),
                list(map(packetflows.texts, each.capture.flows)),
            )
            for each in captures
        ],
        charts=_pictures(folder, captured),
        spreads=_pictures(folder, spreads),
        headline=packetflows.headline,
        entries=entries,
        color=rendering.variable,
        files=_files(folder, known, [*drawn, *spreads, *captured]),
        neighbours=neighbours.of(known.exp, store.experiments(folder.parent)),
        settings=context.settings(known),
        differences=hostdiffs.among({name: host.facts for name, host in known.hosts.items()}),
        cpus=[each for each in graphs.machines(found, context.of(known)) if each.cores],
        cpu_states=CPU_STATES,
        words=words,
        named=not graphs.is_crowded(entries),
        offset=_offset,
        figure=_figure,
        unfolded_max=UNFOLDED_MAX,
        line_colors=rendering.style(),
    )
    durable.replace(folder / PAGE, html, lasting=False)


def write_damaged(folder: Path, fault: str) -> None:
    """Write exp.html of an experiment with a damaged manifest, which says only that."""
    exp = int(folder.name)
    html = rendering.render(
        "damaged.html.j2",
        exp=exp,
        fault=fault,
        neighbours=neighbours.of(exp, store.experiments(folder.parent)),
    )
    durable.replace(folder / PAGE, html, lasting=False)


def failures(known: Manifest, found: series.Series) -> list[Failure]:
    """Every flow that failed, in order, with the label that its line would have."""
    labels = {(flow.group, flow.instance): flow.label for flow in found.flows}
    return [
        Failure(labels[group.request.group, flow.instance], flow.status, flow.last_lines.strip())
        for group in known.groups
        for flow in group.instances
        if flow.status != OK
    ]


def tiles(whole: Mapping[str, str], known: Manifest) -> list[Tile]:
    """The most important numbers, as far as they are known."""
    several = sum(len(group.instances) for group in known.groups) > 1
    rate, fairness = whole.get("rate", ""), whole.get("fairness", "")
    found = [Tile("Goodput, all flows" if several else "Goodput", numbers.figure(rate), "Mbit/s")]
    if several and fairness:
        found.append(Tile("Fairness", numbers.figure(fairness, 3), "Jain's index"))
    for name, key in (("RTT in TCP", "rtt"), ("RTT of ping", "pingRtt")):
        found.append(Tile(name, numbers.milliseconds(whole.get(key, "")), "ms"))
    again = numbers.figure(whole.get("retransSegs%", ""), 3)
    found.append(Tile("Retransmitted", again, "% of segments"))
    return [tile for tile in found if tile.value != numbers.UNKNOWN]


def _offset(time_s: float | None, known: Manifest) -> str:
    """An instant as seconds since the experiment began."""
    return numbers.UNKNOWN if time_s is None else f"{time_s - known.started_s:.3f}"


def _figure(value: float) -> str:
    return numbers.figure(repr(value), 4)


def _pictures(folder: Path, figures: Mapping[str, Figure]) -> list[tuple[str, Figure, str]]:
    """Draw figures: into plots/, and as SVG for the page."""
    if not figures:
        return []
    # Imported here because matplotlib takes a second, and most commands draw nothing.
    from netesto.report import drawing  # noqa: PLC0415

    found = []
    for (name, figure), svg in zip(figures.items(), drawing.draw(figures.values()), strict=True):
        durable.replace(folder / "plots" / f"{name}.svg", svg, lasting=False)
        found.append(
            (name, figure, rendering.inline(svg, name=name, description=figure.description))
        )
    return found


def _files(folder: Path, known: Manifest, names: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Address and name of the experiment's files, by their kind; lost ones are under damage."""
    groups = [derive.group_file(group.request) for group in known.groups]
    packets = [packetfile.NAME] if (folder / packetfile.NAME).exists() else []
    kinds = {
        "Results": ["manifest.json", "all.exp.out", *groups, "series.json", *packets],
        "Graphs": [f"plots/{name}.svg" for name in names],
    }
    for path in sorted(path for path in known.files if (folder / path).exists()):
        first, second = (*path.split("/"), "")[:2]
        kind = {"raw": f"Raw data of {second}", "0": "Hosts before", "1": "Hosts after"}
        kinds.setdefault(kind.get(first, "Others"), []).append(path)
    return {
        kind: [(quote(path), path.rpartition("/")[2]) for path in paths]
        for kind, paths in kinds.items()
        if paths
    }
