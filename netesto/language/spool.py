"""The steps of a plan, one JSON object per line, in a file that is removed when it is closed."""

import contextlib
import json
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias, get_args

from cattrs.gen import make_dict_unstructure_fn

from netesto.files import jsontext, typed
from netesto.flowspec import FlowSpec
from netesto.language.steps import (
    Close,
    Configure,
    DoClient,
    DoServer,
    DoTcpdump,
    DoTrace,
    Exit,
    GetData,
    RemoteCommand,
    ShowLink,
    Step,
)

Record: TypeAlias = dict[str, object]

# Longer ones are kept on disk.
_IN_MEMORY_BYTES = 1_000_000
# Memory holds the offset of every 64th step.
_STRIDE = 64

CONVERTER = typed.converter()


def _register_flows() -> None:
    """Options that a flow does not have are omitted: one that is added later changes no hash."""
    plain = make_dict_unstructure_fn(FlowSpec, CONVERTER, _cattrs_omit_if_default=True)
    CONVERTER.register_unstructure_hook(FlowSpec, plain)


_register_flows()

_REMOTE = (
    DoServer,
    DoClient,
    DoTrace,
    GetData,
    Configure,
    DoTcpdump,
    ShowLink,
    Close,
    Exit,
)
_OTHERS = tuple(kind for kind in get_args(Step) if kind is not RemoteCommand)
_KINDS = {kind.__name__: kind for kind in (*_REMOTE, *_OTHERS)}


def record_of(step: Step) -> Record:
    """A step as a JSON object; "step" is its kind."""
    fields: Record = CONVERTER.unstructure(step, type(step))
    return {"step": type(step).__name__, **fields}


def encoded(step: Step, *, beside: Sequence[str]) -> tuple[bytes, bytes]:
    """A step without the fields `beside`, and the whole of it: a line of a spool."""
    record = record_of(step)
    others = {name: record.pop(name) for name in beside if name in record}
    text = json.dumps(record)
    line = f"{text[:-1]}, {json.dumps(others)[1:]}" if others else text
    return text.encode(), line.encode()


def step_of(record: object) -> Step:
    """The step of a JSON object. An error of cattrs, a KeyError or TypeError if it is invalid."""
    if not isinstance(record, dict):
        raise TypeError(f"{record!r} is not a step")
    fields = dict(record)
    kind = _KINDS[fields.pop("step")]
    step: Step = CONVERTER.structure(fields, kind)
    return step


def is_echo(line: bytes) -> bool:
    """Whether a line of a spool is an Echo."""
    return line.startswith(b'{"step": "Echo"')


def _command_of(record: object, _: type[RemoteCommand]) -> RemoteCommand:
    step = step_of(record)
    if not isinstance(step, RemoteCommand):
        raise TypeError(f"{record!r} is not a remote command")
    return step


# A field for any command also records its kind.
CONVERTER.register_structure_hook_func(lambda kind: kind is RemoteCommand, _command_of)
CONVERTER.register_unstructure_hook_func(lambda kind: kind is RemoteCommand, record_of)


class Closable(Protocol):
    def close(self) -> None: ...


@contextlib.contextmanager
def closed_on_error(thing: Closable) -> Iterator[None]:
    """Close it if the body fails."""
    try:
        yield
    except BaseException:
        thing.close()
        raise


class StepSpool:
    """Steps in a temporary file: memory does not grow with their number. Several may read it at
    the same time, also while it grows, in one thread."""

    def __init__(self) -> None:
        # From the first step on.
        self._file: tempfile.SpooledTemporaryFile[bytes] | None = None
        self._offsets = array("Q")
        self._count = 0
        self._end = 0
        self._is_at_end = True

    def __len__(self) -> int:
        return self._count

    def append(self, line: bytes) -> None:
        """Add a step, as a line without its end."""
        if self._file is None:
            self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - see close
        if self._count % _STRIDE == 0:
            self._offsets.append(self._end)
        if not self._is_at_end:
            self._file.seek(self._end)
            self._is_at_end = True
        self._file.write(line + b"\n")
        self._end += len(line) + 1
        self._count += 1

    def lines(self, first: int, end: int) -> Iterator[bytes]:
        """The steps from number `first` on, without `end`, as lines without their ends."""
        if first >= end or self._file is None:
            return
        position = self._offsets[first // _STRIDE]
        for number in range(first - first % _STRIDE, end):
            self._file.seek(position)
            self._is_at_end = False
            line = self._file.readline()
            position += len(line)
            if number >= first:
                yield line[:-1]

    def steps(self, first: int, end: int) -> Iterator[Step]:
        """The steps from number `first` on (0 is the first of all), without `end`."""
        for line in self.lines(first, end):
            yield step_of(jsontext.parse(line))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
