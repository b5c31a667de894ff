"""The recognised file formats, and how to read a run from each."""

import re

from netesto.imports import flent, iperf3, netperf
from netesto.imports.directions import ToolOutput
from netesto.imports.tree import File
from netesto.results.imported import Form

_HEAD_BYTES = 65_536
_GZIP = b"\x1f\x8b"

# With --timestamps each line has a prefix.
_IPERF3_TEXT = re.compile(
    r"^(?:iperf3: |(?:.{1,80} )?(?:Connecting to host \S+, port |"
    r"Accepted connection from \S+, port |\[ ID\](?:\[Role\])? Interval))",
    re.MULTILINE,
)
_IPERF3_EVENT = re.compile(r'^\{"event":\s*"(?:start|error)"', re.MULTILINE)
_NETPERF_WORD = re.compile(r"^THROUGHPUT=", re.MULTILINE)


def recognise(file: File) -> Form | None:
    """The format of a file, by its content; None if unknown."""
    try:
        with file.path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError:
        return None
    if head.startswith(_GZIP):
        return "flent" if file.path.name.endswith(".flent.gz") else None
    text = head.decode("utf-8", errors="replace")
    if netperf.TITLE.search(text) or _NETPERF_WORD.search(text):
        return "netperf"
    is_document = '"start"' in text and ('"test_start"' in text or '"intervals"' in text)
    is_pscheduler = '"throughput-bits"' in text
    if is_document or is_pscheduler or _IPERF3_EVENT.search(text) or _IPERF3_TEXT.search(text):
        return "iperf3"
    return None


def read(data: bytes, form: Form) -> ToolOutput:
    """The result in the output of a run."""
    match form:
        case "flent":
            return flent.read(data)
        case "netperf":
            return netperf.read(data)
        case _:
            return iperf3.read(data, received_is_enough=form == "iperf3")
