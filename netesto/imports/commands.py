"""Translates iperf3's command line into arguments of DO_CLIENT."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TypeAlias

_Give: TypeAlias = Callable[[str], Mapping[str, str]]

# Programs that start another one, and precede it.
_BEFORE = frozenset({"sudo", "nohup", "exec"})
_PINNING: Mapping[str, tuple[str, ...]] = {
    "numactl": ("-C", "--physcpubind"),
    "taskset": ("-c", "--cpu-list"),
}

# Until the options of iperf3 are known, where the processors of both ends are.
_PINNED = "pinned"
_CORES = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*")
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTkmgt]?)(?:/[0-9]+)?")

# Bit/s of each stream of datagrams without -b (UDP_RATE of iperf3).
_UDP_BITRATE = "1048576"


@dataclass(frozen=True, slots=True)
class ClientCommand:
    """A client's command: arguments of DO_CLIENT, the host that it names, and the words that have
    no counterpart. `pins_server`: its -A sets the processor of the server as well."""

    arguments: Mapping[str, str]
    target: str = ""
    unknown: tuple[str, ...] = ()
    pins_server: bool = False


def _field(name: str) -> _Give:
    return lambda value: {name: value}


def _fixed(name: str, value: str) -> _Give:
    return lambda _: {name: value}


def _scaled(name: str, factor: int) -> _Give:
    return lambda value: {name: _plain(value, factor)}


def _plain(text: str, thousand: int) -> str:
    """iperf3's K, M, G, T as whole numbers: of rates 1000, of sizes 1024 to the power."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(text)
    power = " KMGT".index(match[2].upper() or " ")
    if thousand == 1000 and power:
        return f"{match[1]}{match[2].upper()}"
    return str(int(Decimal(match[1]) * thousand**power))


def _pair(text: str) -> Mapping[str, str]:
    first, _, second = text.partition(",")
    return {"cpu": f"{first},{second}" if second else first}


def _dscp(text: str, *, unit: int) -> Mapping[str, str]:
    """`unit`: the DSCP is above the two bits of ECN in a TOS, or stands alone."""
    return {"dscp": str(int(text, 0) // unit)}


def _buffers(text: str) -> Mapping[str, str]:
    size = _plain(text, 1024)
    return {"localBuffer": size, "remoteBuffer": size}


def _ignored(_: str) -> Mapping[str, str]:
    return {}


def _by_name(table: Mapping[str, _Give]) -> dict[str, _Give]:
    return {name: give for names, give in table.items() for name in names.split()}


# iperf3's options, and what each means for DO_CLIENT: those with a value, and the others.
_VALUED = _by_name({
    "-t --time": _field("dur"),
    "-O --omit": _field("omit"),
    "-i --interval": _field("interval"),
    "-C --congestion --linux-congestion": _field("ca"),
    "-P --parallel": _field("parallel"),
    "--fq-rate": _scaled("pacing", 1000),
    "-b --bitrate --bandwidth": _scaled("bitrate", 1000),
    "-A --affinity": _pair,
    "-w --window": _buffers,
    "-l --length": _scaled("len", 1024),
    "-M --set-mss": _field("mss"),
    "-S --tos": partial(_dscp, unit=4),
    "--dscp": partial(_dscp, unit=1),
    "-p --port --cport -B --bind --logfile -c --client": _ignored,
})  # fmt: skip
_FLAGS = _by_name({
    "-Z": _fixed("zerocopy", "sendfile"),
    "--zerocopy": lambda text: {"zerocopy": "msg" if text == "z" else "sendfile"},
    "--skip-rx-copy": _fixed("skiprx", "1"),
    "-R --reverse": _fixed("test", "TCP_MAERTS"),
    "-u --udp": _fixed("test", "UDP_STREAM"),
    "-J --json -V --verbose -s --server -D --daemon -1 --one-off": _ignored,
})  # fmt: skip

# Options with a value that have no counterpart.
_UNKNOWN_VALUED = frozenset({
    "-n", "--bytes", "-k", "--blockcount", "-F", "--file", "-f", "--format", "-I", "--pidfile",
    "-L", "--flowlabel", "-T", "--title", "-X", "--xbind", "--bind-dev", "--connect-timeout",
    "--extra-data", "--nstreams", "--pacing-timer", "--rcv-timeout", "--snd-timeout",
    "--rsa-public-key-path", "--username",
})  # fmt: skip


def parse(command: str) -> ClientCommand:
    """A client's command. ValueError, in words, if it is not one of iperf3."""
    arguments: dict[str, str] = {}
    unknown: list[str] = []
    words = _program(shlex.split(command), arguments, unknown)
    if not words or not is_iperf(words[0]):
        raise ValueError(f"not an iperf3 command: {command}")
    target = _read(words[1:], arguments, unknown)
    if arguments.get("test") == "UDP_STREAM":
        arguments.setdefault("bitrate", _UDP_BITRATE)
    # iperf3's rate is that of each stream, DO_CLIENT's that of the flow.
    if "bitrate" in arguments:
        streams = arguments.get("parallel", "1")
        arguments["bitrate"] = _times(arguments["bitrate"], streams if streams.isdecimal() else "1")
        if arguments["bitrate"] == "0":
            del arguments["bitrate"]
    # What starts iperf3 sets the ends that its own option does not.
    pinned = arguments.pop(_PINNED, "")
    client, _, server = arguments.get("cpu", "").partition(",")
    if cpu := ",".join(filter(None, (client or pinned, server or pinned))):
        arguments["cpu"] = cpu
    for name, text in list(arguments.items()):
        # The harness's substitutions are unknown.
        if "{" in text:
            unknown.append(f"{name}={arguments.pop(name)}")
    return ClientCommand(arguments, target, tuple(unknown), pins_server=bool(server))


def is_iperf(word: str) -> bool:
    """Whether a word is the name of iperf3, with any path."""
    return re.fullmatch(r"iperf3?(?:[-.\d]\S*)?", _base(word)) is not None


def _is_program(word: str) -> bool:
    return is_iperf(word) or _base(word) in _PINNING


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def _times(rate: str, streams: str) -> str:
    digits = rate.rstrip("KMGT")
    return f"{Decimal(digits) * int(streams)}{rate[len(digits) :]}"


def _program(words: list[str], arguments: dict[str, str], unknown: list[str]) -> list[str]:
    """Read the words before the program; return the rest."""
    rest = list(words)
    while rest:
        name = _base(rest[0])
        if name in _BEFORE or re.fullmatch(r"\w+=.*", rest[0]):
            rest.pop(0)
            continue
        if is_iperf(name):
            break
        if name not in _PINNING:
            # A wrapper, with its arguments: the next program that is known.
            places = range(len(rest))
            until = next((at for at in places if _is_program(rest[at])), None)
            if until is None:
                break
            unknown.append(shlex.join(rest[:until]))
            rest = rest[until:]
            continue
        rest.pop(0)
        while rest and rest[0].startswith("-"):
            option, equals, value = rest.pop(0).partition("=")
            known = next((each for each in _PINNING[name] if option.startswith(each)), None)
            if known is None:
                words = [name, f"{option}{equals}{value}"]
                if not equals and rest and not rest[0].startswith("-") and not is_iperf(rest[0]):
                    words.append(rest.pop(0))
                unknown.append(" ".join(words))
                continue
            if not equals:
                value = option[len(known) :] or (rest.pop(0) if rest else "")
            if _CORES.fullmatch(value):
                arguments[_PINNED] = value.replace(",", "+")
            else:
                unknown.append(f"{name} {known} {value}")
    return rest


def _read(words: Sequence[str], arguments: dict[str, str], unknown: list[str]) -> str:
    """Read iperf3's own words; return the host that they name."""
    target = ""
    rest = iter(_separated(words))
    for word in rest:
        is_long = word.startswith("--")
        name, equals, value = word.partition("=") if is_long else (word[:2], "", word[2:])
        give = _VALUED.get(name)
        if give is not None:
            value = value if value or equals else next(rest, "")
        elif is_long or not value:
            give = _FLAGS.get(name)
        if give is None:
            value = next(rest, "") if word in _UNKNOWN_VALUED else ""
            unknown.append(f"{word} {value}".strip())
            continue
        if name in {"-c", "--client"}:
            target = value
        try:
            arguments |= give(value)
        except (ValueError, ArithmeticError):
            unknown.append(f"{name} {value}")
    return target


def _separated(words: Iterable[str]) -> Iterator[str]:
    """Words, of which `-VJ` are two."""
    for word in words:
        flags = [f"-{letter}" for letter in word[1:]]
        if (
            word[:1] == "-" != word[1:2]
            and len(flags) > 1
            and all(each in _FLAGS for each in flags)
        ):
            yield from flags
        else:
            yield word


def arguments_of(command: str) -> Mapping[str, str]:
    """The arguments in a command that may not be one of iperf3."""
    try:
        return parse(command).arguments
    except ValueError:
        return {}


def is_resolved(command: str, template: str) -> bool:
    """Whether a command is this one, in which {words} stand for anything."""
    parts = re.split(r"(\{[^{}]*\})", " ".join(template.split()))
    expression = "".join(".*?" if part.startswith("{") else re.escape(part) for part in parts)
    return re.fullmatch(expression, " ".join(command.split())) is not None
