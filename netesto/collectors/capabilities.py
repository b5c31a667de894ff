"""What the kernel of this machine can do: congestion controls, and qdiscs that can be created.

Qdiscs are tried, not guessed: a throw-away network namespace, one tc, and its lo. The namespace
goes away with tc. What a module on disk offers is believed, not tried: that would load it for good.
"""

import asyncio
import contextlib
import json
import os
import platform
import re
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netesto import atomic, proc, process
from netesto.errors import ProcessError

TC_TIMEOUT_S = 10.0

# A kind and the fewest options tc takes for it. Kinds that need an interface with several queues
# (mq, mqprio, taprio, multiq) are not asked for: they depend on the interface, not on the kernel.
QDISC_OPTIONS: Mapping[str, str] = {
    "bfifo": "limit 100000",
    "cake": "",
    "cbs": "",
    "choke": "limit 100 min 10 max 30 avpkt 1000 burst 20 bandwidth 10mbit",
    "codel": "",
    "drr": "",
    "dualpi2": "",
    "etf": "clockid CLOCK_TAI delta 200000",
    "ets": "bands 2",
    "fq": "",
    "fq_codel": "",
    "fq_pie": "",
    "gred": "setup DPs 4 default 0",
    "hfsc": "",
    "hhf": "",
    "htb": "",
    "netem": "",
    "noqueue": "",
    "pfifo": "limit 100",
    "pfifo_fast": "",
    "pie": "",
    "plug": "",
    "prio": "",
    "qfq": "",
    "red": "limit 100000 min 10000 max 30000 avpkt 1000 burst 20 bandwidth 10mbit",
    "sfb": "",
    "sfq": "",
    "skbprio": "",
    "tbf": "rate 10mbit burst 10000 limit 100000",
}

# These stand at the entrance of an interface, and exclude each other.
ENTRANCE_QDISCS = frozenset({"ingress", "clsact"})

QDISCS = ENTRANCE_QDISCS.union(QDISC_OPTIONS)

_FAILED = re.compile(r"^Command failed -:(\d+)$", re.MULTILINE)

# Modules called tcp_* that are no congestion control.
_OTHER_TCP_MODULES = frozenset({"diag", "probe", "sigpool"})

_MODULE = re.compile(r"^[^:]*/(tcp|sch)[_-]([\w-]+)\.ko(?:\.\w+)?:", re.MULTILINE)

# The file in the memory folder.
_MEMORY = "qdiscs.json"

_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What the kernel can do; whether this user may is another matter.

    `congestion_controls` and `qdiscs` (None: could not be found out, `unknown` says why) are in
    alphabetical order and hold also what the kernel loads a module for when it is used.
    """

    kernel: str
    congestion_controls: tuple[str, ...]
    qdiscs: tuple[str, ...] | None
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Modules:
    """What this kernel has modules for, on disk: names without `tcp_` and `sch_`."""

    congestion_controls: frozenset[str] = frozenset()
    qdiscs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Boot:
    """What a remembered answer about qdiscs depends on."""

    identity: str
    kernel: str
    loaded: tuple[str, ...]


async def probe(*, memory: Path | None = None) -> Capabilities:
    """`probe_blocking` for code that runs in an event loop."""
    return await asyncio.to_thread(probe_blocking, memory=memory)


def probe_blocking(*, memory: Path | None = None) -> Capabilities:
    """What this kernel can do. Answers about qdiscs are remembered until the next boot, in the
    folder `memory` (None: the one of `memory_folder`)."""
    kernel = platform.release()
    modules = modules_on_disk(kernel)
    controls = modules.congestion_controls.union(_read(_AVAILABLE).split())
    boot = _boot(kernel)
    folder = memory_folder() if memory is None else memory
    created, unknown = recall(folder, boot), ""
    if created is None:
        try:
            created = try_qdiscs(QDISCS - modules.qdiscs)
        except ProcessError as error:
            unknown = f"cannot try qdiscs: {error}"
        else:
            remember(folder, boot, created)
    return Capabilities(
        kernel=kernel,
        congestion_controls=tuple(sorted(controls)),
        qdiscs=None if created is None else tuple(sorted(modules.qdiscs | created)),
        unknown=unknown,
    )


def modules_on_disk(kernel: str) -> Modules:
    """What `kernel` would load a module for when it is used; nothing if it may load no more."""
    if _read(Path("/proc/sys/kernel/modules_disabled")).strip() == "1":
        return Modules()
    return parse_modules(_read(Path("/lib/modules") / kernel / "modules.dep"))


def parse_modules(text: str) -> Modules:
    """Congestion controls and qdiscs in the text of a modules.dep, as depmod(8) writes it."""
    found: dict[str, set[str]] = {"tcp": set(), "sch": set()}
    for match in _MODULE.finditer(text):
        found[match[1]].add(match[2].replace("-", "_"))
    # sch_ingress brings both kinds for the entrance of an interface.
    if "ingress" in found["sch"]:
        found["sch"].add("clsact")
    kinds = found["sch"] & QDISCS
    return Modules(frozenset(found["tcp"] - _OTHER_TCP_MODULES), frozenset(kinds))


def try_qdiscs(kinds: Iterable[str]) -> frozenset[str]:
    """Those of `kinds` that this kernel creates.

    ProcessError if there is no way to try: no tc, no unshare, or no right to a namespace.
    """
    batch = plan(kinds)
    argv = ["unshare", "--net", process.program("tc"), "-force", "-batch", "-"]
    if os.geteuid() != 0:
        # Root of a user namespace of our own may do in it what only root may do outside.
        argv.insert(1, "--map-root-user")
    lines = "".join(f"{line}\n" for line, _ in batch)
    finished = process.run(argv, timeout=TC_TIMEOUT_S, check=False, stdin=lines)
    if not finished.stdout.startswith("qdisc "):
        raise ProcessError(argv, finished.last_lines(1), status=finished.status)
    return created(batch, finished.stderr)


def plan(kinds: Iterable[str]) -> list[tuple[str, str]]:
    """Lines for `tc -batch`, each with the kind it creates, "" if it creates none."""
    wanted = frozenset(kinds)
    lines = [
        (f"qdisc replace dev lo root {kind} {QDISC_OPTIONS[kind]}".rstrip(), kind)
        for kind in sorted(QDISC_OPTIONS.keys() & wanted)
    ]
    for kind in sorted(ENTRANCE_QDISCS & wanted):
        lines += [(f"qdisc add dev lo {kind}", kind), (f"qdisc del dev lo {kind}", "")]
    # Prints something, whatever failed before: the sign that tc did run.
    return [*lines, ("qdisc replace dev lo root pfifo limit 100", ""), ("qdisc show dev lo", "")]


def created(batch: Sequence[tuple[str, str]], stderr: str) -> frozenset[str]:
    """The kinds whose line tc did not say to have failed."""
    failed = {int(number) for number in _FAILED.findall(stderr)}
    kinds = {kind for number, (_, kind) in enumerate(batch, start=1) if number not in failed}
    return frozenset(kinds - {""})


# ---- memory ----------------------------------------------------------------------------------


def memory_folder() -> Path:
    """Where answers are remembered until the next boot."""
    if os.geteuid() == 0:
        return Path("/run/netesto")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "netesto"
    return Path(tempfile.gettempdir()) / f"netesto-{os.geteuid()}"


def recall(folder: Path, boot: Boot) -> frozenset[str] | None:
    """The kinds found by trying since this boot; None if nobody tried, or modules came since."""
    path = folder / _MEMORY
    try:
        if path.lstat().st_uid != os.geteuid():
            return None
        entry = json.loads(path.read_text(encoding="utf-8"))
        if entry["boot"] != _as_json(boot):
            return None
        return frozenset(map(str, entry["created"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(folder: Path, boot: Boot, kinds: frozenset[str]) -> None:
    """Keep for `recall`. A folder that cannot be written to is no harm: we try again then."""
    text = json.dumps({"boot": _as_json(boot), "created": sorted(kinds)}, indent=1)
    # Agents that start at the same time must not write to one file.
    draft = folder / f".{_MEMORY}.{os.getpid()}.{threading.get_ident()}"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with atomic.replaced(folder / _MEMORY, draft=draft) as file:
            file.write(text.encode())


def _as_json(boot: Boot) -> dict[str, object]:
    return {"identity": boot.identity, "kernel": boot.kernel, "loaded": list(boot.loaded)}


def _boot(kernel: str) -> Boot:
    loaded = (line.split()[0] for line in _read(Path("/proc/modules")).splitlines())
    qdiscs = tuple(sorted(name for name in loaded if name.startswith("sch_")))
    return Boot(proc.boot_id(), kernel, qdiscs)


def _read(path: Path) -> str:
    """The text of a file, "" if there is none, as in a kernel without modules."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
