"""All information about a run: its client's output, its job, its CPUs, its two hosts."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from ipaddress import IPv4Address, ip_address

from netesto.errors import OutputError
from netesto.imports import commands, documents, formats, mpstat, tree
from netesto.imports.directions import ToolOutput, failed
from netesto.imports.documents import Document
from netesto.imports.mpstat import CpuLoad
from netesto.imports.tree import CpuSource, File, RunFiles
from netesto.model import Address
from netesto.results.imported import Side
from netesto.text.printable import printable

NOBODY = IPv4Address(0)
"""An unknown address."""
_SHOWN = 200


@dataclass(frozen=True)
class RunSource:
    """A run and the contents of its files. For a damaged mpstat file, `loads` has the error."""

    run: RunFiles
    output: ToolOutput
    loads: Mapping[str, CpuLoad | OutputError]

    @property
    def document(self) -> Document:
        return self.output.document or {}

    @property
    def host(self) -> str:
        """The server, by its name in the tree, else in the client's command."""
        words = documents.words(self.document, "start", "connecting_to", "host")
        own = self._system[1] if len(self._system) > 1 and self.is_of_server else ""
        return self.run.host or _folder_name(words) or _folder_name(own) or "server"

    @property
    def is_of_server(self) -> bool:
        """Whether the output is that of the server."""
        return documents.at(self.document, "start", "accepted_connection") is not None

    def of(self, side: Side) -> tuple[CpuLoad, ...]:
        """The complete mpstat files of a side."""
        found = (self.loads[each.file.name] for each in self.run.cpu if each.cpu_file.side == side)
        return tuple(load for load in found if isinstance(load, CpuLoad))

    # ---- the job ---------------------------------------------------------------------------

    @cached_property
    def job(self) -> Mapping[str, object]:
        """The values of jobmeta.json."""
        found = {} if self.run.job is None else tree.small_json(self.run.job)
        own = found.get(self.run.section)
        return own if isinstance(own, dict) else found

    @cached_property
    def meta(self) -> Mapping[str, object]:
        """The values of HOST-meta.json."""
        return {} if self.run.meta is None else tree.small_json(self.run.meta)

    @property
    def command(self) -> str:
        """The client's command; "" if it is not in jobmeta.json."""
        found = (self.job.get(key) for key in ("src-cmd", "src_cmd"))
        return next((printable(value) for value in found if isinstance(value, str)), "")

    @cached_property
    def arguments(self) -> Mapping[str, str]:
        """The request of the command, as arguments of DO_CLIENT; else that of the section of a job
        file."""
        asked = self.command or next(iter(self.run.commands), "")
        found = commands.arguments_of(asked)
        # The harness's substitutions are unknown.
        return {name: text for name, text in found.items() if "{" not in text}

    def value(self, *names: str) -> str:
        """A value of the job or of the host, by one of its names."""
        found = (_short(values.get(name)) for values in (self.job, self.meta) for name in names)
        return next((text for text in found if text), "")

    @cached_property
    def plan(self) -> Document:
        """The document with the request: for a run that failed immediately, that of another run of
        its section, which had the same command."""
        documents = [self.document]
        if not _has_plan(self.document):
            documents += (read(each, self.run).document or {} for each in self.run.siblings)
        return next((each for each in documents if _has_plan(each)), self.document)

    def planned(self, name: str) -> object:
        """An option of the test."""
        return documents.at(self.plan, "start", "test_start", name)

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """The columns that no output fills."""
        found = {"rep": str(self.run.number), **self.run.columns}
        streams = documents.whole(self.planned("num_streams"))
        parallel = str(streams) if streams else self.arguments.get("parallel", "")
        for name, text in (("parallel", parallel), ("mtu", self.value("MTU", "mtu"))):
            if text:
                found.setdefault(name, text)
        return found

    # ---- hosts and times -------------------------------------------------------------------

    @cached_property
    def _system(self) -> list[str]:
        """Linux HOST RELEASE …"""
        return documents.words(self.plan, "start", "system_info").split()

    @cached_property
    def client(self) -> str:
        """The sender's name."""
        is_told = len(self._system) > 1 and not self.is_of_server
        names = [self._system[1]] if is_told else []
        names += [load.host for load in self.of("sender")]
        names += [str(self.client_address)] if self.client_address != NOBODY else []
        return next((name for name in names if _folder_name(name)), "client")

    @cached_property
    def server(self) -> str:
        """The receiver's name."""
        return self.host if self.host != self.client else f"{self.host}-server"

    @cached_property
    def client_address(self) -> Address:
        key = "remote_host" if self.is_of_server else "local_host"
        return _address(documents.at(self.plan, "start", "connected", 0, key)) or NOBODY

    @cached_property
    def server_address(self) -> Address:
        key = "local_host" if self.is_of_server else "remote_host"
        address = documents.at(self.plan, "start", "connected", 0, key)
        return _address(address) or _address(self.host) or NOBODY

    @property
    def client_kernel(self) -> str:
        is_told = len(self._system) > 2 and not self.is_of_server
        kernels = [self._system[2]] if is_told else []
        kernels += [load.kernel for load in self.of("sender")]
        return next((kernel for kernel in kernels if kernel), self.value("kernel"))

    @property
    def server_kernel(self) -> str:
        is_told = len(self._system) > 2 and self.is_of_server
        kernels = [self._system[2]] if is_told else []
        kernels += [load.kernel for load in self.of("receiver")]
        return next(iter(kernels), "")

    @property
    def started_s(self) -> float:
        """Its start, if known: from its output, from DATE, or from the time of the file."""
        begun_s = self.output.begun_s
        if begun_s is not None and begun_s < 2**33:
            return begun_s
        if self.run.date:
            with suppress(ValueError):
                date = datetime.strptime(self.run.date, "%Y-%m-%d:%H:%M").replace(tzinfo=UTC)
                return max(0.0, date.timestamp())
        return max(0.0, self.run.output.path.stat().st_mtime)


def of(run: RunFiles) -> RunSource:
    """Read the files of a run."""
    loads = {each.file.name: load(each) for each in run.cpu}
    return RunSource(run, read(run.output, run), loads)


def read(file: File, run: RunFiles) -> ToolOutput:
    """Read a client's output of the form of `run`."""
    try:
        if file.size > tree.BYTES_MAX:
            return failed(f"no result: too large, {file.size} bytes")
        return formats.read(file.path.read_bytes(), run.form)
    except OSError as error:
        return failed(f"no result: {error.strerror}")


def load(source: CpuSource) -> CpuLoad | OutputError:
    """An mpstat file, or its error."""
    try:
        if source.file.size > tree.BYTES_MAX:
            return OutputError(f"too large: {source.file.size} bytes")
        return mpstat.read(source.file.path.read_bytes())
    except OutputError as error:
        return error
    except OSError as error:
        return OutputError(f"cannot be read: {error.strerror}")


def _has_plan(document: Document) -> bool:
    return isinstance(documents.at(document, "start", "test_start"), dict)


def _short(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return printable(" ".join(str(value).split()))[:_SHOWN]


def _folder_name(text: str) -> str:
    is_usable = text.isprintable() and "/" not in text and text not in {"", ".", ".."}
    return text if is_usable and len(text.encode()) <= tree.HOST_BYTES_MAX else ""


def _address(value: object) -> Address | None:
    try:
        return ip_address(value) if isinstance(value, str) else None
    except ValueError:
        return None
