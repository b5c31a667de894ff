"""The state of a host before and after an experiment: counters, settings, offloads, qdiscs.

Each source has a file, `HOST.<source>`; a source that cannot be read has the reason in its file.
"""

import asyncio
import datetime as dt
import os
import platform
import re
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import psutil

import netesto
from netesto.collectors import cgroup, hardware
from netesto.collectors.cgroup import Quota
from netesto.errors import ProcessError
from netesto.system import process

# Together they take some ten milliseconds; a driver that hangs must not hang the experiment.
COMMANDS_TIMEOUT_S = 5.0

# For each further command after one that hung: others often hang with it.
NEXT_TIMEOUT_S = 1.0

PROC = Path("/proc")

_NET_FILES = ("snmp", "snmp6", "netstat")

# In addition to all of net: the settings for the scheduling of threads and timers.
_KERNEL_SYSCTLS = (
    "kernel/numa_balancing",
    "kernel/nmi_watchdog",
    "kernel/perf_event_paranoid",
    "kernel/sched_autogroup_enabled",
    "kernel/sched_rt_runtime_us",
    "kernel/timer_migration",
    "vm/swappiness",
)

# Folders of net with one folder per interface; a router of a lab has dozens.
_PER_INTERFACE = ("/conf", "/neigh")

_CPU_FOLDER = Path("/sys/devices/system/cpu/cpu0/cpufreq")
_CLOCK_FOLDER = Path("/sys/devices/system/clocksource/clocksource0")

# Their names in the output of `ethtool -k`.
OFFLOADS: Mapping[str, str] = {
    "tso": "tcp-segmentation-offload",
    "lro": "large-receive-offload",
    "gro": "generic-receive-offload",
    "gso": "generic-segmentation-offload",
}

# The size of one read of a kernel file; most are shorter. For each read of a sysctl the kernel
# clears a buffer of this size and one more byte, rounded up to a power of two.
_PIECE_BYTES = 16 * 1024 - 1

# The size of the first read of a sysctl. The kernel allocates and clears as much memory as the
# reader requests.
_SYSCTL_BYTES = 1024


async def take(
    folder: Path, host: str, device: str, *, links: str = "", hung: set[str] | None = None
) -> list[str]:
    """Write the facts of this host and of its interface `device` into `folder`, and those of the
    queues in the network namespace `links` (optional). Existing files stay.

    The programs that did not end in time, with their words; they are added to `hung`, and those
    that are there already are not run. OSError if `folder` is not writable.
    """
    known = set[str]() if hung is None else hung
    taking = asyncio.create_task(asyncio.to_thread(_take, folder, host, device, links, known))
    try:
        return await asyncio.shield(taking)
    finally:
        # Even if we are cancelled, so that all listed files are complete.
        await asyncio.wait({taking})


def _take(folder: Path, host: str, device: str, links: str, hung: set[str]) -> list[str]:
    if (folder / f"{host}.info").exists():
        return []
    deadline_s, late, outputs = time.monotonic() + COMMANDS_TIMEOUT_S, list[str](), {}
    for name, argv in commands(device, links).items():
        if argv[0] in hung:
            outputs[name] = f"not run: {argv[0]} did not end before\n"
            continue
        outputs[name] = _output(argv, deadline_s)
        if time.monotonic() >= deadline_s:
            hung.add(argv[0])
            late.append(" ".join(argv))
            deadline_s = time.monotonic() + NEXT_TIMEOUT_S
    _write(folder, host, _kernel_texts(host, device) | outputs)
    return late


def commands(device: str, links: str = "") -> dict[str, list[str]]:
    """The commands to run, by the suffix of the file that holds their output."""
    wanted = {"ip-link": ["ip", "-s", "-d", "link"], "tc": ["tc", "-s", "-d", "qdisc"]}
    # Only hardware has counters of its own, rings, coalescing and pause frames.
    has_hardware = Path(f"/sys/class/net/{device}/device").exists()
    for option in ("-k", "-S", "-c", "-a", "-g") if has_hardware else ("-k",):
        wanted[f"ethtool{option}"] = ["ethtool", option, device]
    if links:
        wanted["links"] = ["tc", "-netns", links, "-s", "-d", "qdisc"]
    return wanted


def _output(argv: list[str], deadline_s: float) -> str:
    """The output of a command, with its exit status if it failed."""
    left_s = round(max(deadline_s - time.monotonic(), 0.0), 1)
    try:
        finished = process.run(argv, timeout=left_s, check=False)
    except ProcessError as error:
        return f"{error}\n"
    text = finished.stdout + finished.stderr
    return f"{text}{' '.join(argv)}: exit status {finished.status}\n" if finished.status else text


def _kernel_texts(host: str, device: str) -> dict[str, str]:
    texts = {name: _read(PROC / "net" / name) for name in _NET_FILES}
    texts["sysctl"] = "".join(f"{name} = {value}\n" for name, value in sysctls(device))
    tuning = hardware.facts(device)
    texts["hardware"] = "".join(f"{name}: {value}\n" for name, value in tuning.items())
    texts["info"] = "".join(f"{name}: {value}\n" for name, value in _info(host).items())
    return texts


def _write(folder: Path, host: str, texts: Mapping[str, str]) -> None:
    """`info` comes last: if it exists, all others do."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(texts, key=lambda name: name == "info"):
        (folder / f"{host}.{name}").write_bytes(texts[name].encode())


def _read(path: Path) -> str:
    """The text of a kernel's file, or why it cannot be read."""
    try:
        return contents(path)
    except OSError as error:
        return f"{path}: {error.strerror}\n"


def contents(path: Path | str) -> str:
    """The text of a kernel's file.

    It takes four system calls instead of the twelve of Path.read_text: a host's facts are hundreds
    of files, and in a guest system calls dominate the time.
    """
    pieces = []
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while piece := os.read(number, _PIECE_BYTES):
            pieces.append(piece)
    finally:
        os.close(number)
    return b"".join(pieces).decode(errors="replace")


def _sysctl(name: str, folder: int) -> str:
    """The text of a sysctl: one read returns all of it, or as much as was requested."""
    number = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        text = os.read(number, _SYSCTL_BYTES)
        if len(text) == _SYSCTL_BYTES:
            text = os.pread(number, _PIECE_BYTES, 0)
    finally:
        os.close(number)
    return text.decode(errors="replace")


def sysctls(device: str) -> Iterator[tuple[str, str]]:
    """Names and values in the form of `sysctl -a`: all of net, and some others.

    Settings per interface only for `device` and `all`.
    """
    root, others = PROC / "sys", dict[str, set[str]]()
    for path in _KERNEL_SYSCTLS:
        folder, _, name = path.partition("/")
        others.setdefault(folder, set()).add(name)
    interfaces = {"all", device}
    for folder in sorted([*others, "net"]):
        yield from _sysctls(f"{root}/{folder}", f"{folder}.", interfaces, others.get(folder))


def _sysctls(
    path: str, prefix: str, interfaces: Collection[str], wanted: Collection[str] | None = None
) -> Iterator[tuple[str, str]]:
    """Those in a folder, whose names begin with `prefix`; only the `wanted` ones, if not None.

    Relative to their folder: hundreds of long paths would take as long as reading the files.
    """
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with os.scandir(folder) as entries:
            found = sorted((each.name, each.is_dir()) for each in entries)
        for name, is_folder in found:
            if wanted is not None and name not in wanted:
                continue
            shown = prefix + name.replace(".", "/")
            if is_folder:
                if name in interfaces or not path.endswith(_PER_INTERFACE):
                    yield from _sysctls(f"{path}/{name}", f"{shown}.", interfaces)
                continue
            try:
                lines = _sysctl(name, folder).splitlines()
            except OSError:
                # Some are write-only, some are secret, some are not in this kernel.
                continue
            for line in lines:
                yield shown, line
    finally:
        os.close(folder)


def _info(host: str) -> dict[str, str]:
    uname = platform.uname()
    memory = _fields(_read(PROC / "meminfo"))
    processor = _fields(_read(PROC / "cpuinfo"))
    return {
        "host": host,
        "name": uname.node,
        "time": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
        "uname": f"{uname.system} {uname.release} {uname.version} {uname.machine}",
        "kernel": uname.release,
        "distribution": _distribution(),
        "cpus": str(os.cpu_count()),
        "cpus usable": str(len(os.sched_getaffinity(0))),
        "cpu model": processor.get("model name", "unknown"),
        "cpu governor": _read(_CPU_FOLDER / "scaling_governor").strip(),
        "clock source": _read(_CLOCK_FOLDER / "current_clocksource").strip(),
        "memory": memory.get("MemTotal", "unknown"),
        "memory available": memory.get("MemAvailable", "unknown"),
        "cpu throttled": _throttled(),
        "load average": _read(PROC / "loadavg").strip(),
        "uptime": f"{_read(PROC / 'uptime').partition(' ')[0]} s",
        "netesto": netesto.__version__,
        "python": platform.python_version(),
    }


def _throttled() -> str:
    """Since the control group exists."""
    quota = Quota.now()
    if quota is None:
        return "never: no quota" if cgroup.are_mounted() else "unknown"
    return f"in {quota.throttled} of {quota.periods} periods, {quota.throttled_s:.3f} s"


def _fields(text: str) -> dict[str, str]:
    """`name: value` lines; the first value of a name counts."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return fields


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def features(facts: Mapping[str, str]) -> dict[str, str]:
    """The facts of a host that are columns of exp.csv; unknown ones are left out.

    `facts`: the texts of the files that `take` wrote, by suffix. tso, lro, gro, gso: "on" or "off".
    rx-frames, tx-frames: packets. adaptive-rx: "1" or "0", so that it has a mean. tcpRmem, tcpWmem:
    bytes, the third value of the sysctl.
    """
    found = offloads(facts.get("ethtool-k", ""))
    found |= coalescing(facts.get("ethtool-c", ""))
    return found | buffers(facts.get("sysctl", ""))


# The sources of `notable`, by the suffixes of their files.
NOTABLE = ("info", "hardware", "ethtool-k", "ethtool-g", "ethtool-c", "ethtool-a", "sysctl")

_INFO = frozenset(
    {"kernel", "distribution", "cpus", "cpus usable", "cpu model", "clock source", "memory"}
)

# The settings that influence TCP, without keys.
_TCP_SYSCTLS = re.compile(
    r"(net\.ipv4\.tcp_(?!fastopen_key|available)\w+|net\.core\.(?:[rw]mem_\w+|default_qdisc|"
    r"netdev_(?!rss_key)\w+|busy_\w+|optmem_max|somaxconn|gro_\w+|dev_weight\w*|rps_\w+)|"
    r"net\.ipv4\.(?:udp_\w*mem\w*|ip_no_pmtu_disc|ip_local_port_range)|kernel\.\w+) = (.*)"
)

# A host is not trusted, and the manifest keeps all these texts.
_NOTABLE_MAX, _VALUE_CHARACTERS_MAX = 500, 300


def notable(facts: Mapping[str, str]) -> dict[str, str]:
    """Facts that influence the speed of a host and do not change by themselves.

    `facts`: the texts of the files that `take` wrote, by suffix.
    """
    found = {name: text for name, text in _fields(facts.get("info", "")).items() if name in _INFO}
    found |= _fields(facts.get("hardware", ""))
    for kind in ("k", "g", "c", "a"):
        text = facts.get(f"ethtool-{kind}", "").rpartition("Current hardware settings:")[2]
        for name, value in _fields(text).items():
            state = value.removesuffix("[fixed]").removesuffix("[not requested]").strip()
            if state and state != "n/a" and "error" not in name and "exit status" not in value:
                found[f"ethtool -{kind} {name}"] = state
    for line in facts.get("sysctl", "").splitlines():
        if match := _TCP_SYSCTLS.fullmatch(line):
            found[match[1]] = " ".join(match[2].split())
    known = {name: value[:_VALUE_CHARACTERS_MAX] for name, value in found.items() if name and value}
    return dict(sorted(known.items())[:_NOTABLE_MAX])


def offloads(text: str) -> dict[str, str]:
    """tso, lro, gro and gso in what `ethtool -k` printed."""
    fields = _fields(text)
    states = {name: fields.get(long, "").partition(" ")[0] for name, long in OFFLOADS.items()}
    return {name: state for name, state in states.items() if state in ("on", "off")}


def coalescing(text: str) -> dict[str, str]:
    """rx-frames, tx-frames and adaptive-rx in what `ethtool -c` printed."""
    fields = _fields(text)
    found = {name: fields.get(name, "") for name in ("rx-frames", "tx-frames")}
    found = {name: value for name, value in found.items() if value.isdecimal()}
    adaptive = re.search(r"^Adaptive RX: (on|off)\b", text, re.MULTILINE)
    if adaptive is not None:
        found["adaptive-rx"] = "1" if adaptive[1] == "on" else "0"
    return found


def buffers(text: str) -> dict[str, str]:
    """tcpRmem and tcpWmem in the lines of `sysctl -a` or `sysctls`."""
    found = {}
    for name, sysctl in (("tcpRmem", "tcp_rmem"), ("tcpWmem", "tcp_wmem")):
        match = re.search(rf"^net\.ipv4\.{sysctl} = \d+\s+\d+\s+(\d+)$", text, re.MULTILINE)
        if match is not None:
            found[name] = match[1]
    return found


def mtu_bytes(device: str) -> int | None:
    """The MTU of an interface; None if it does not exist."""
    found = psutil.net_if_stats().get(device)
    return found.mtu if found else None


def interface_counters(device: str) -> dict[str, int]:
    """rx_packets, tx_packets, rx_bytes, tx_bytes of an interface; empty if it does not exist.

    From /proc/net/dev, which is that of our network namespace; /sys may be that of another.
    """
    found = psutil.net_io_counters(pernic=True, nowrap=False).get(device)
    if found is None:
        return {}
    return {
        "rx_packets": found.packets_recv,
        "tx_packets": found.packets_sent,
        "rx_bytes": found.bytes_recv,
        "tx_bytes": found.bytes_sent,
    }
