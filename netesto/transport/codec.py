"""Converts values to messages and back. Only this module and the two adapters know the generated
names.

Fields of messages and values are matched by name: a new field needs no code here. Unknown fields of
a newer peer are ignored in its replies, and refused in its requests: a request that is silently not
fulfilled would make wrong data.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from netesto import hostsettings
from netesto.errors import AgentError
from netesto.files import jsontext
from netesto.flowspec import OPTIONS, FlowSpec
from netesto.hostsettings import Setting
from netesto.model import (
    Address,
    Event,
    EventKind,
    FileEntry,
    FilePiece,
    FinishedExperiment,
    GroupRequest,
    Ports,
    TimeSync,
)
from netesto.proto import messages as pb
from netesto.schema import tagged
from netesto.schema.described import differing
from netesto.text.printable import printable
from netesto.transport.faults import Fault, FaultKind

M = TypeVar("M", bound=Message)
V = TypeVar("V")

# The longest text of an agent: the last lines of a tool.
TEXT_MAX, ITEMS_MAX = 4_000, 1_000

# Values that a message takes as they are.
_UNCHANGED = frozenset({str, int, float, bool, bytes, type(None)})


def prepare() -> None:
    """Find out how requests for flows are decoded: processes that are forked then know it."""
    for kind in (GroupRequest, Ports):
        _readers(kind, getattr(pb, kind.__name__))


# ---- any message -----------------------------------------------------------------------------


def encode(kind: type[M], value: object) -> M:
    """The message of `kind` with the fields of a dataclass; None has none."""
    return kind() if value is None else kind(**_plain(value))


def _with_options(request: GroupRequest) -> dict[str, Any]:
    """The fields of the message of a group: the options of its flows are named texts."""
    own = {name: each for name, each in members(request).items() if name not in OPTIONS}
    options = {name: json.dumps(each) for name, each in differing(request).items()}
    return {name: _plain_value(each) for name, each in own.items()} | {"options": options}


def _options(texts: Mapping[str, str]) -> dict[str, Any]:
    """The options of flows in a request. AgentError for one that this version does not know, or
    whose value is of another kind."""
    found = {}
    for name, text in texts.items():
        if name not in OPTIONS:
            raise _unknown_option(f": {printable(name[:TEXT_MAX])}")
        try:
            found[name] = OPTIONS[name].kind.load(jsontext.parse(text, finite=True))
        except ValueError as error:
            said = printable(str(error)[:TEXT_MAX])
            raise AgentError(f"request not understood: {name}: {said}") from None
    return found


def _unknown_option(which: str = "") -> AgentError:
    return AgentError(
        f"request not understood: it has an option that this agent does not know{which}",
        remedy="Install the controller's version of netesto on the host.",
    )


def decode(kind: type[V], message: Message) -> V:
    """The dataclass of `kind` with the fields of a message; a missing optional field has the
    dataclass's default. AgentError if an address is invalid."""
    values = {
        name: read(getattr(message, name))
        for name, is_optional, read in _readers(kind, type(message))  # type: ignore[arg-type]  # classes are hashable
        if not is_optional or message.HasField(name)
    }
    if isinstance(message, pb.GroupRequest):
        values |= _options(message.options)
    return kind(**values)


def decode_reply(kind: type[V], message: Message, *, host: str = "") -> V:
    """`decode` for messages of `host`, which is not trusted: control characters in texts are
    replaced and their length is limited. AgentError if a number is not finite."""
    try:
        return cast("V", _printable(decode(kind, message)))
    except ValueError as error:
        raise AgentError(f"{kind.__name__}: {error}", host=host) from None


def _printable(value: Any) -> Any:
    """A value that is safe to show. ValueError if it contains NaN or an infinite number."""
    match value:
        case str():
            return printable(value[:TEXT_MAX])
        case float() if not math.isfinite(value):
            raise ValueError(f"the agent reports {value} instead of a number")
        case tuple():
            return tuple(map(_printable, value[:ITEMS_MAX]))
        case dict():
            return {_printable(key): _printable(value[key]) for key in list(value)[:ITEMS_MAX]}
        case _ if is_dataclass(value) and not isinstance(value, type):
            return replace(
                value, **{name: _printable(each) for name, each in members(value).items()}
            )
        case _:
            return value


def decode_request(kind: type[V], message: Message) -> V:
    """`decode`, and AgentError if the message has a field that this version does not know."""
    if len(UnknownFieldSet(message)):
        raise _unknown_option()
    return decode(kind, message)


def members(value: Any) -> dict[str, Any]:
    """The fields of a dataclass by name, as `asdict` gives them, which copies every one of them."""
    names = _names(type(value))  # type: ignore[arg-type]  # classes are hashable
    return {name: getattr(value, name) for name in names}


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, GroupRequest):
        return _with_options(value)
    return {name: _plain_value(each) for name, each in members(value).items()}


@lru_cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def _plain_value(value: Any) -> Any:
    if type(value) in _UNCHANGED:
        return value
    if isinstance(value, IPv4Address | IPv6Address):
        return str(value)
    if isinstance(value, tuple):
        return list(map(_plain_value, value))
    if isinstance(value, Setting):
        return json.dumps(tagged.record(value))
    return _plain(value) if is_dataclass(value) else value


@lru_cache
def _readers(kind: Any, message: Any) -> tuple[tuple[str, bool, Callable[[Any], Any]], ...]:
    """For each field of a dataclass: its name, whether the message may lack it, and the function
    that converts the message's value."""
    hints = get_type_hints(kind)
    return tuple(
        (
            each.name,
            message.DESCRIPTOR.fields_by_name[each.name].has_presence,
            _reader(hints[each.name]),
        )
        for each in fields(kind)
        if not (issubclass(kind, FlowSpec) and each.name in OPTIONS)
    )


def _reader(hint: Any) -> Callable[[Any], Any]:
    if hint == Address:
        return _address
    if hint is Setting:
        return _setting
    if hint == Address | None:
        return lambda text: _address(text) if text else None
    if get_origin(hint) is tuple:
        kind = get_args(hint)[0]
        if isinstance(kind, type) and is_dataclass(kind):
            return lambda messages: tuple(decode(kind, message) for message in messages)
        return tuple
    # A map of protobuf has a different order in each process.
    if get_origin(hint) is Mapping:
        return lambda entries: dict(sorted(entries.items()))
    return lambda value: value


def _address(text: str) -> Address:
    try:
        return ip_address(text)
    except ValueError:
        raise AgentError(f"request not understood: invalid address {text!r}") from None


def _setting(text: str) -> Setting:
    """AgentError for one that this version does not know."""
    try:
        return hostsettings.read(jsontext.parse(text, finite=True))
    except ValueError as error:
        raise AgentError(
            f"setting not understood: {printable(str(error)[:TEXT_MAX])}",
            remedy="Install the same version of netesto at both ends.",
        ) from None


def to_addresses(texts: Iterable[str]) -> list[Address]:
    """The addresses in a request. AgentError if one is invalid."""
    return list(map(_address, texts))


# ---- nested messages, and words of which newer peers may have more ------------------


def from_start(request: GroupRequest, ports: Ports, start_at_s: float | None) -> pb.StartRequest:
    return pb.StartRequest(
        request=encode(pb.GroupRequest, request),
        ports=encode(pb.Ports, ports),
        start_at_s=start_at_s,
    )


def to_start(message: pb.StartRequest) -> tuple[GroupRequest, Ports, float | None]:
    start_at_s = message.start_at_s if message.HasField("start_at_s") else None
    request = decode_request(GroupRequest, message.request)
    return request, decode_request(Ports, message.ports), start_at_s


def to_finished(message: pb.Finished, *, host: str) -> FinishedExperiment:
    sync = decode_reply(TimeSync, message.time_sync, host=host)
    files = tuple(decode(FileEntry, entry) for entry in message.files)
    content = tuple(decode(FilePiece, piece) for piece in message.content)
    changed = tuple(printable(text[:TEXT_MAX]) for text in message.changed[:ITEMS_MAX])
    return FinishedExperiment(
        files, sync if message.HasField("time_sync") else None, content, changed
    )


def from_setting(setting: Setting) -> pb.Setting:
    return pb.Setting(setting=json.dumps(tagged.record(setting)))


def to_setting(message: pb.Setting) -> Setting:
    if len(UnknownFieldSet(message)):
        raise _unknown_option()
    return _setting(message.setting)


def to_event(message: pb.Event) -> Event | None:
    """The event; None if only a newer agent knows its kind."""
    return decode_reply(Event, message) if message.kind in get_args(EventKind) else None


def encode_fault(fault: Fault) -> bytes:
    return encode(pb.Fault, fault).SerializeToString()


def decode_fault(content: bytes) -> Fault:
    fault = decode_reply(Fault, pb.Fault.FromString(content))
    # A fault that only a newer agent knows is still an agent's error, with its text.
    return fault if fault.kind in get_args(FaultKind) else replace(fault, kind="agent")
