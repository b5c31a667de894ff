"""The raw files of an experiment: which there are, and reading them."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

from netesto import traffic
from netesto.collectors.counters import COUNTERS
from netesto.errors import OutputError
from netesto.flowspec import TRACE_TESTS
from netesto.model import Address, GroupRequest
from netesto.results.manifest import Manifest

# Hosts are not trusted: reading a file takes a multiple of its size in memory. The largest known
# files, of 24 h with a sample every 0.1 s, have a tenth of this size.
READ_BYTES_MAX = 2**30

# A client, and the address of a server.
Pair: TypeAlias = tuple[str, Address]

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class RawFiles:
    """The files of an experiment in `folder` that its manifest lists, as `known`. Those that are
    `damaged` are treated as missing, and so are those that cannot be read: `faults` says why."""

    folder: Path
    listed: Collection[str]
    damaged: Collection[str]
    faults: dict[str, str] = field(default_factory=dict)
    _kinds: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in sorted(self.listed):
            folder, _, name = path.rpartition("/")
            self._kinds.setdefault(f"{folder}/{name.partition('.')[0]}", []).append(path)

    def find(self, path: str, most_bytes: float = READ_BYTES_MAX) -> Path | None:
        """The path of a file; None if it is missing or damaged, or has more bytes."""
        if path not in self.listed or path in self.damaged or path in self.faults:
            return None
        found = self.folder / path
        try:
            size = found.stat().st_size if found.is_file() else None
        except OSError as error:
            self.faults[path] = error.strerror or str(error)
            return None
        if size is None or size > most_bytes:
            self.faults[path] = "not a file" if size is None else f"too large: {size} bytes"
            return None
        return found

    def read(
        self,
        path: str,
        read: Callable[[Path], T],
        otherwise: U,
        *,
        most_bytes: float = READ_BYTES_MAX,
    ) -> T | U:
        """The result of `read` for a file; `otherwise` if it is missing, damaged or unreadable."""
        found = self.find(path, most_bytes)
        if found is None:
            return otherwise
        try:
            return read(found)
        except OutputError as error:
            self.faults[path] = error.message.removeprefix(f"{found}").removeprefix(": ")
        except OSError as error:
            self.faults[path] = error.strerror or str(error)
        return otherwise

    def of(self, host: str, kind: str) -> list[str]:
        """The files of a kind. Samples have one for each requested sampling interval, and for each
        restart of the sampler."""
        return self._kinds.get(f"raw/{host}/{kind}", [])

    def captures(self, host: str) -> list[str]:
        return [path for path in self.of(host, "capture") if path.endswith(".pcap")]

    def are_damaged(self, paths: Iterable[str]) -> bool:
        return any(
            path in self.damaged or path in self.faults for path in paths if path in self.listed
        )

    def statistics_folder(self, host: str) -> str:
        """The statistics from before the experiment; those from after it if there are no others."""
        return next((order for order in ("0", "1") if f"{order}/{host}.sysctl" in self.listed), "0")


def output(request: GroupRequest, instance: int) -> str:
    """The file with the output of a flow's tool."""
    return f"raw/{request.client}/flow.{request.group}.{instance}.out"


def pings(manifest: Manifest) -> Mapping[Pair, Sequence[str]]:
    """The files with the pings of each pair of hosts, which have the numbers of the groups that
    started them."""
    found: dict[Pair, list[str]] = defaultdict(list)
    for group in manifest.groups:
        path = f"raw/{group.request.client}/ping.{group.request.group}.out"
        if path in manifest.files:
            found[pair(group.request)].append(path)
    return found


def pair(request: GroupRequest) -> Pair:
    """The hosts of a group, between which the first group of all starts ping."""
    return request.client, request.server_address


def owed(request: GroupRequest, good: Iterable[int]) -> dict[str, tuple[str, ...]]:
    """The raw files that each host of a group must have if the flows `good` of it ended well, by
    the beginnings of their names."""
    group, tool = request.group, traffic.TOOLS.get(request.tool)
    flows = tuple(f"flow.{group}.{each}{kind}" for each in good for kind in (".json", ".out"))
    if not flows:
        return {}
    servers: tuple[str, ...] = ()
    if tool is not None and not tool.lasting_server:
        servers = tuple(f"server.{group}.{each}.out" for each in good)
    counters = (f"{name}." for name in COUNTERS.own)
    both = ("cpu.", "events.jsonl", "links.", "sockets.", *counters)
    client = (*both, f"group.{group}.json", *flows)
    if request.test in TRACE_TESTS:
        client = (*client, f"trace.{group}.txt", "trace.csv")
    return {request.client: client, request.server: (*both, f"server.{group}.json", *servers)}


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
