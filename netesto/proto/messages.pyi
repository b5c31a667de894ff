from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Nothing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Fault(_message.Message):
    __slots__ = ("kind", "message", "remedy", "holder")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    kind: str
    message: str
    remedy: str
    holder: str
    def __init__(self, kind: _Optional[str] = ..., message: _Optional[str] = ..., remedy: _Optional[str] = ..., holder: _Optional[str] = ...) -> None: ...

class HostInfo(_message.Message):
    __slots__ = ("host", "version", "kernel", "cpus", "memory_bytes", "device", "addresses", "tools", "congestion_controls", "qdiscs", "holder", "processors", "protocol", "identity", "allowed_congestion_controls", "tool_options", "commands", "unusable_tools")
    class ToolsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class UnusableToolsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    HOST_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    CONGESTION_CONTROLS_FIELD_NUMBER: _ClassVar[int]
    QDISCS_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    PROCESSORS_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_CONGESTION_CONTROLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    UNUSABLE_TOOLS_FIELD_NUMBER: _ClassVar[int]
    host: str
    version: str
    kernel: str
    cpus: int
    memory_bytes: int
    device: str
    addresses: _containers.RepeatedScalarFieldContainer[str]
    tools: _containers.ScalarMap[str, str]
    congestion_controls: _containers.RepeatedScalarFieldContainer[str]
    qdiscs: _containers.RepeatedScalarFieldContainer[str]
    holder: str
    processors: _containers.RepeatedScalarFieldContainer[int]
    protocol: int
    identity: str
    allowed_congestion_controls: _containers.RepeatedScalarFieldContainer[str]
    tool_options: _containers.RepeatedScalarFieldContainer[str]
    commands: _containers.RepeatedScalarFieldContainer[str]
    unusable_tools: _containers.ScalarMap[str, str]
    def __init__(self, host: _Optional[str] = ..., version: _Optional[str] = ..., kernel: _Optional[str] = ..., cpus: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., device: _Optional[str] = ..., addresses: _Optional[_Iterable[str]] = ..., tools: _Optional[_Mapping[str, str]] = ..., congestion_controls: _Optional[_Iterable[str]] = ..., qdiscs: _Optional[_Iterable[str]] = ..., holder: _Optional[str] = ..., processors: _Optional[_Iterable[int]] = ..., protocol: _Optional[int] = ..., identity: _Optional[str] = ..., allowed_congestion_controls: _Optional[_Iterable[str]] = ..., tool_options: _Optional[_Iterable[str]] = ..., commands: _Optional[_Iterable[str]] = ..., unusable_tools: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ClockReading(_message.Message):
    __slots__ = ("received_s", "sent_s")
    RECEIVED_S_FIELD_NUMBER: _ClassVar[int]
    SENT_S_FIELD_NUMBER: _ClassVar[int]
    received_s: float
    sent_s: float
    def __init__(self, received_s: _Optional[float] = ..., sent_s: _Optional[float] = ...) -> None: ...

class ExamineRequest(_message.Message):
    __slots__ = ("peers", "for_run")
    PEERS_FIELD_NUMBER: _ClassVar[int]
    FOR_RUN_FIELD_NUMBER: _ClassVar[int]
    peers: _containers.RepeatedScalarFieldContainer[str]
    for_run: bool
    def __init__(self, peers: _Optional[_Iterable[str]] = ..., for_run: _Optional[bool] = ...) -> None: ...

class InterfaceState(_message.Message):
    __slots__ = ("name", "mtu_bytes", "is_up", "offloads", "refusal", "lacks_carrier")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MTU_BYTES_FIELD_NUMBER: _ClassVar[int]
    IS_UP_FIELD_NUMBER: _ClassVar[int]
    OFFLOADS_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    LACKS_CARRIER_FIELD_NUMBER: _ClassVar[int]
    name: str
    mtu_bytes: int
    is_up: bool
    offloads: _containers.RepeatedScalarFieldContainer[str]
    refusal: str
    lacks_carrier: bool
    def __init__(self, name: _Optional[str] = ..., mtu_bytes: _Optional[int] = ..., is_up: _Optional[bool] = ..., offloads: _Optional[_Iterable[str]] = ..., refusal: _Optional[str] = ..., lacks_carrier: _Optional[bool] = ...) -> None: ...

class PathState(_message.Message):
    __slots__ = ("peer", "device", "mtu_bytes", "answer", "reason")
    PEER_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    MTU_BYTES_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    peer: str
    device: str
    mtu_bytes: int
    answer: str
    reason: str
    def __init__(self, peer: _Optional[str] = ..., device: _Optional[str] = ..., mtu_bytes: _Optional[int] = ..., answer: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class HostState(_message.Message):
    __slots__ = ("is_synchronized", "clock_error_s", "clock_source", "disk_free_bytes", "missing_commands", "management", "interfaces", "paths", "refusals", "keep_refusal", "absent_interfaces", "setting_refusal", "capture_refusal", "longest_flow_s", "most_flows", "largest_capture_bytes", "device")
    IS_SYNCHRONIZED_FIELD_NUMBER: _ClassVar[int]
    CLOCK_ERROR_S_FIELD_NUMBER: _ClassVar[int]
    CLOCK_SOURCE_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MISSING_COMMANDS_FIELD_NUMBER: _ClassVar[int]
    MANAGEMENT_FIELD_NUMBER: _ClassVar[int]
    INTERFACES_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    KEEP_REFUSAL_FIELD_NUMBER: _ClassVar[int]
    ABSENT_INTERFACES_FIELD_NUMBER: _ClassVar[int]
    SETTING_REFUSAL_FIELD_NUMBER: _ClassVar[int]
    CAPTURE_REFUSAL_FIELD_NUMBER: _ClassVar[int]
    LONGEST_FLOW_S_FIELD_NUMBER: _ClassVar[int]
    MOST_FLOWS_FIELD_NUMBER: _ClassVar[int]
    LARGEST_CAPTURE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    is_synchronized: bool
    clock_error_s: float
    clock_source: str
    disk_free_bytes: int
    missing_commands: _containers.RepeatedScalarFieldContainer[str]
    management: _containers.RepeatedScalarFieldContainer[str]
    interfaces: _containers.RepeatedCompositeFieldContainer[InterfaceState]
    paths: _containers.RepeatedCompositeFieldContainer[PathState]
    refusals: _containers.RepeatedScalarFieldContainer[str]
    keep_refusal: str
    absent_interfaces: _containers.RepeatedScalarFieldContainer[str]
    setting_refusal: str
    capture_refusal: str
    longest_flow_s: float
    most_flows: float
    largest_capture_bytes: float
    device: str
    def __init__(self, is_synchronized: _Optional[bool] = ..., clock_error_s: _Optional[float] = ..., clock_source: _Optional[str] = ..., disk_free_bytes: _Optional[int] = ..., missing_commands: _Optional[_Iterable[str]] = ..., management: _Optional[_Iterable[str]] = ..., interfaces: _Optional[_Iterable[_Union[InterfaceState, _Mapping]]] = ..., paths: _Optional[_Iterable[_Union[PathState, _Mapping]]] = ..., refusals: _Optional[_Iterable[str]] = ..., keep_refusal: _Optional[str] = ..., absent_interfaces: _Optional[_Iterable[str]] = ..., setting_refusal: _Optional[str] = ..., capture_refusal: _Optional[str] = ..., longest_flow_s: _Optional[float] = ..., most_flows: _Optional[float] = ..., largest_capture_bytes: _Optional[float] = ..., device: _Optional[str] = ...) -> None: ...

class Unfetched(_message.Message):
    __slots__ = ("run", "exp", "files", "size_bytes", "age_s")
    RUN_FIELD_NUMBER: _ClassVar[int]
    EXP_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    run: str
    exp: int
    files: int
    size_bytes: int
    age_s: float
    def __init__(self, run: _Optional[str] = ..., exp: _Optional[int] = ..., files: _Optional[int] = ..., size_bytes: _Optional[int] = ..., age_s: _Optional[float] = ...) -> None: ...

class AgentStatus(_message.Message):
    __slots__ = ("holder", "run", "held_s", "unfetched", "settings", "left", "waiting")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    HELD_S_FIELD_NUMBER: _ClassVar[int]
    UNFETCHED_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    holder: str
    run: str
    held_s: float
    unfetched: _containers.RepeatedCompositeFieldContainer[Unfetched]
    settings: _containers.RepeatedScalarFieldContainer[str]
    left: _containers.RepeatedScalarFieldContainer[str]
    waiting: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, holder: _Optional[str] = ..., run: _Optional[str] = ..., held_s: _Optional[float] = ..., unfetched: _Optional[_Iterable[_Union[Unfetched, _Mapping]]] = ..., settings: _Optional[_Iterable[str]] = ..., left: _Optional[_Iterable[str]] = ..., waiting: _Optional[_Iterable[str]] = ...) -> None: ...

class HoldRequest(_message.Message):
    __slots__ = ("controller", "run", "protocol", "version", "token", "seen", "ticket")
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    controller: str
    run: str
    protocol: int
    version: str
    token: str
    seen: int
    ticket: str
    def __init__(self, controller: _Optional[str] = ..., run: _Optional[str] = ..., protocol: _Optional[int] = ..., version: _Optional[str] = ..., token: _Optional[str] = ..., seen: _Optional[int] = ..., ticket: _Optional[str] = ...) -> None: ...

class QueueReply(_message.Message):
    __slots__ = ("ticket", "ahead")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    ticket: str
    ahead: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ticket: _Optional[str] = ..., ahead: _Optional[_Iterable[str]] = ...) -> None: ...

class HoldReply(_message.Message):
    __slots__ = ("token", "event")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    token: str
    event: Event
    def __init__(self, token: _Optional[str] = ..., event: _Optional[_Union[Event, _Mapping]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("sequence", "time_s", "kind", "exp", "group", "instance", "rate_bps", "text", "last_lines")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIME_S_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    EXP_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LAST_LINES_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    time_s: float
    kind: str
    exp: int
    group: int
    instance: int
    rate_bps: float
    text: str
    last_lines: str
    def __init__(self, sequence: _Optional[int] = ..., time_s: _Optional[float] = ..., kind: _Optional[str] = ..., exp: _Optional[int] = ..., group: _Optional[int] = ..., instance: _Optional[int] = ..., rate_bps: _Optional[float] = ..., text: _Optional[str] = ..., last_lines: _Optional[str] = ...) -> None: ...

class Setting(_message.Message):
    __slots__ = ("setting",)
    SETTING_FIELD_NUMBER: _ClassVar[int]
    setting: str
    def __init__(self, setting: _Optional[str] = ...) -> None: ...

class Applied(_message.Message):
    __slots__ = ("setting", "before", "after", "made_s", "undo")
    SETTING_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    MADE_S_FIELD_NUMBER: _ClassVar[int]
    UNDO_FIELD_NUMBER: _ClassVar[int]
    setting: str
    before: str
    after: str
    made_s: float
    undo: str
    def __init__(self, setting: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ..., made_s: _Optional[float] = ..., undo: _Optional[str] = ...) -> None: ...

class Left(_message.Message):
    __slots__ = ("sentences",)
    SENTENCES_FIELD_NUMBER: _ClassVar[int]
    sentences: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sentences: _Optional[_Iterable[str]] = ...) -> None: ...

class TakeStatsRequest(_message.Message):
    __slots__ = ("exp", "order", "tests", "tools")
    EXP_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    TESTS_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    exp: int
    order: int
    tests: _containers.RepeatedScalarFieldContainer[str]
    tools: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, exp: _Optional[int] = ..., order: _Optional[int] = ..., tests: _Optional[_Iterable[str]] = ..., tools: _Optional[_Iterable[str]] = ...) -> None: ...

class ExperimentName(_message.Message):
    __slots__ = ("exp",)
    EXP_FIELD_NUMBER: _ClassVar[int]
    exp: int
    def __init__(self, exp: _Optional[int] = ...) -> None: ...

class AbortRequest(_message.Message):
    __slots__ = ("exp",)
    EXP_FIELD_NUMBER: _ClassVar[int]
    exp: int
    def __init__(self, exp: _Optional[int] = ...) -> None: ...

class GroupName(_message.Message):
    __slots__ = ("exp", "group")
    EXP_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    exp: int
    group: int
    def __init__(self, exp: _Optional[int] = ..., group: _Optional[int] = ...) -> None: ...

class GroupRequest(_message.Message):
    __slots__ = ("exp", "group", "exp_name", "client", "server", "client_address", "server_address", "seed", "is_held", "options")
    class OptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    EXP_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    EXP_NAME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SERVER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    IS_HELD_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    exp: int
    group: int
    exp_name: str
    client: str
    server: str
    client_address: str
    server_address: str
    seed: int
    is_held: bool
    options: _containers.ScalarMap[str, str]
    def __init__(self, exp: _Optional[int] = ..., group: _Optional[int] = ..., exp_name: _Optional[str] = ..., client: _Optional[str] = ..., server: _Optional[str] = ..., client_address: _Optional[str] = ..., server_address: _Optional[str] = ..., seed: _Optional[int] = ..., is_held: _Optional[bool] = ..., options: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Ports(_message.Message):
    __slots__ = ("control", "data")
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    control: _containers.RepeatedScalarFieldContainer[int]
    data: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, control: _Optional[_Iterable[int]] = ..., data: _Optional[_Iterable[int]] = ...) -> None: ...

class StartRequest(_message.Message):
    __slots__ = ("request", "ports", "start_at_s")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    START_AT_S_FIELD_NUMBER: _ClassVar[int]
    request: GroupRequest
    ports: Ports
    start_at_s: float
    def __init__(self, request: _Optional[_Union[GroupRequest, _Mapping]] = ..., ports: _Optional[_Union[Ports, _Mapping]] = ..., start_at_s: _Optional[float] = ...) -> None: ...

class BeginRequest(_message.Message):
    __slots__ = ("exp", "groups", "start_at_s")
    EXP_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    START_AT_S_FIELD_NUMBER: _ClassVar[int]
    exp: int
    groups: _containers.RepeatedScalarFieldContainer[int]
    start_at_s: float
    def __init__(self, exp: _Optional[int] = ..., groups: _Optional[_Iterable[int]] = ..., start_at_s: _Optional[float] = ...) -> None: ...

class CaptureRequest(_message.Message):
    __slots__ = ("exp", "host", "peer", "packets", "snap_bytes")
    EXP_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    SNAP_BYTES_FIELD_NUMBER: _ClassVar[int]
    exp: int
    host: str
    peer: str
    packets: int
    snap_bytes: int
    def __init__(self, exp: _Optional[int] = ..., host: _Optional[str] = ..., peer: _Optional[str] = ..., packets: _Optional[int] = ..., snap_bytes: _Optional[int] = ...) -> None: ...

class FileEntry(_message.Message):
    __slots__ = ("path", "size", "sha256")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    path: str
    size: int
    sha256: str
    def __init__(self, path: _Optional[str] = ..., size: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class FinishRequest(_message.Message):
    __slots__ = ("exp", "with_time_sync")
    EXP_FIELD_NUMBER: _ClassVar[int]
    WITH_TIME_SYNC_FIELD_NUMBER: _ClassVar[int]
    exp: int
    with_time_sync: bool
    def __init__(self, exp: _Optional[int] = ..., with_time_sync: _Optional[bool] = ...) -> None: ...

class TimeSync(_message.Message):
    __slots__ = ("is_synchronized", "error_s", "source")
    IS_SYNCHRONIZED_FIELD_NUMBER: _ClassVar[int]
    ERROR_S_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    is_synchronized: bool
    error_s: float
    source: str
    def __init__(self, is_synchronized: _Optional[bool] = ..., error_s: _Optional[float] = ..., source: _Optional[str] = ...) -> None: ...

class Finished(_message.Message):
    __slots__ = ("files", "time_sync", "content", "changed")
    FILES_FIELD_NUMBER: _ClassVar[int]
    TIME_SYNC_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[FileEntry]
    time_sync: TimeSync
    content: _containers.RepeatedCompositeFieldContainer[Piece]
    changed: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, files: _Optional[_Iterable[_Union[FileEntry, _Mapping]]] = ..., time_sync: _Optional[_Union[TimeSync, _Mapping]] = ..., content: _Optional[_Iterable[_Union[Piece, _Mapping]]] = ..., changed: _Optional[_Iterable[str]] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("exp", "paths")
    EXP_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    exp: int
    paths: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, exp: _Optional[int] = ..., paths: _Optional[_Iterable[str]] = ...) -> None: ...

class Piece(_message.Message):
    __slots__ = ("content", "path")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    path: str
    def __init__(self, content: _Optional[bytes] = ..., path: _Optional[str] = ...) -> None: ...

class Pieces(_message.Message):
    __slots__ = ("pieces",)
    PIECES_FIELD_NUMBER: _ClassVar[int]
    pieces: _containers.RepeatedCompositeFieldContainer[Piece]
    def __init__(self, pieces: _Optional[_Iterable[_Union[Piece, _Mapping]]] = ...) -> None: ...
