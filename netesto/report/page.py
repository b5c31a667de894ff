"""The page of one experiment, from the files in its folder alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from netesto.report import embed, graphs, neighbours, rendering, words
from netesto.report.neighbours import PAGE
from netesto.results import derive, durable, keyvalue, manifest, numbers, series, store, table
from netesto.results.evidence import OK
from netesto.results.manifest import GroupRecord, Manifest

# A list longer than this is folded: most readers want what is below it.
UNFOLDED_MAX = 8


@dataclass(frozen=True, slots=True)
class Failure:
    """A flow that failed, as the page tells it."""

    flow: str
    reason: str
    last_lines: str


@dataclass(frozen=True, slots=True)
class Tile:
    """One number that says how the experiment went."""

    name: str
    value: str
    unit: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A graph in the page."""

    name: str
    svg: str
    caption: str


@dataclass(frozen=True, slots=True)
class Chip:
    """An entry of the legend that can be pressed; `flows` are the lines it shows."""

    label: str
    color: str
    flows: str


@dataclass(frozen=True, slots=True)
class FileLink:
    """A file, relative to the page."""

    href: str
    name: str


def write(folder: Path) -> None:
    """Write exp.html and plots/ into an experiment's folder, whole or still N.partial.

    ResultsError if a file it needs is not there, not readable, or the page cannot be written.
    """
    told = manifest.read(folder / "manifest.json")
    groups = [keyvalue.read(folder / _group_file(group)) for group in told.groups]
    whole = keyvalue.read(folder / "all.exp.out")
    found = series.read(folder / "series.json")
    pictures, chips = _pictures(folder, found)
    html = rendering.render(
        "page.html.j2",
        manifest=told,
        failures=failures(told, found),
        tiles=tiles(whole, told, groups),
        rows=table.rows(groups),
        notes=table.notes(groups),
        groups=groups,
        pictures=pictures,
        chips=chips,
        files=_files(told, groups, list(pictures)),
        neighbours=neighbours.of(told.exp, store.experiments(folder.parent)),
        words=words,
        offset=_offset,
        unfolded_max=UNFOLDED_MAX,
        line_colors=embed.variables(dark=False),
        line_colors_dark=embed.variables(dark=True),
    )
    durable.replace(folder / PAGE, html, lasting=False)


def _group_file(group: GroupRecord) -> str:
    request = group.request
    return derive.group_file(
        {"host": request.client, "server": request.server, "group": str(request.group)}
    )


def failures(told: Manifest, found: series.Series) -> list[Failure]:
    """Every flow that failed, in order, under the name that its line would have."""
    labels = {(flow.group, flow.instance): flow.label for flow in found.flows}
    return [
        Failure(labels[group.request.group, flow.instance], flow.status, flow.last_lines.strip())
        for group in told.groups
        for flow in group.instances
        if flow.status != OK
    ]


def tiles(
    whole: Mapping[str, str], told: Manifest, groups: Sequence[Mapping[str, str]]
) -> list[Tile]:
    """The few numbers that a reader looks for first; only those that are known."""
    several = sum(len(group.instances) for group in told.groups) > 1
    rate, fairness = whole.get("rate", ""), whole.get("fairness", "")
    found = [Tile("Goodput, all flows" if several else "Goodput", table.figure(rate), "Mbit/s")]
    if several and fairness:
        found.append(Tile("Fairness", table.figure(fairness, 3), "Jain's index"))
    for name, key in (("RTT in TCP", "rtt"), ("RTT of ping", "pingRtt")):
        rtt_us = numbers.parse(whole.get(key, ""))
        text = "" if rtt_us is None else table.figure(repr(rtt_us / 1000), 3)
        found.append(Tile(name, text or table.UNKNOWN, "ms"))
    if any(map(table.counts_before_segmentation, groups)):
        again = table.count(whole.get("retrans_total", ""))
        found.append(Tile("Sent again", again, "segments"))
    else:
        again = whole.get("retransPkts%", "") or table.UNKNOWN
        found.append(Tile("Sent again", again, "% of packets"))
    return [tile for tile in found if tile.value != table.UNKNOWN]


def _offset(time_s: float | None, told: Manifest) -> str:
    """An instant as seconds since the experiment began."""
    return table.UNKNOWN if time_s is None else f"{time_s - told.started_s:.3f}"


def _pictures(folder: Path, found: series.Series) -> tuple[dict[str, Picture], list[Chip]]:
    """Draw the graphs, into plots/ and for the page."""
    # Not at the top: matplotlib takes a second, and most commands draw nothing.
    from netesto.report import plots  # noqa: PLC0415

    durable.make_folder(folder / "plots")
    svgs = plots.render(found)
    for name, svg in svgs.items():
        durable.replace(folder / "plots" / f"{name}.svg", svg, lasting=False)
    pictures = {}
    for graph in graphs.GRAPHS:
        if graph.name in svgs:
            caption = graphs.caption(graph, found)
            description = f"{graph.title}, {graph.axis}, over time. {caption}"
            svg = embed.inline(svgs[graph.name], name=graph.name, description=description)
            pictures[graph.name] = Picture(graph.name, svg, caption)
    chips = [
        Chip(entry.label, embed.variable(entry.look.color), " ".join(map(str, entry.flows)))
        for entry in graphs.legend(found)
    ]
    return pictures, chips if len(chips) > 1 else []


def _files(
    told: Manifest, groups: Sequence[Mapping[str, str]], pictures: Sequence[str]
) -> dict[str, list[FileLink]]:
    """The files of the experiment, by what they are."""
    derived = ["manifest.json", "all.exp.out", *map(derive.group_file, groups), "series.json"]
    kinds: dict[str, list[str]] = {
        "Results": derived,
        "Graphs": [f"plots/{name}.svg" for name in pictures],
    }
    for path in sorted(told.files):
        first, _, rest = path.partition("/")
        match first:
            case "raw":
                kinds.setdefault(f"Raw data of {rest.partition('/')[0]}", []).append(path)
            case "0":
                kinds.setdefault("Hosts before", []).append(path)
            case "1":
                kinds.setdefault("Hosts after", []).append(path)
            case _:
                kinds.setdefault("Others", []).append(path)
    return {
        kind: [FileLink(quote(path), path.rpartition("/")[2]) for path in paths]
        for kind, paths in kinds.items()
        if paths
    }
