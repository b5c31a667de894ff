"""The capabilities of this machine's kernel: congestion controls, and qdiscs that can be created.

Qdiscs are tried in a temporary network namespace, with one tc on its lo; the namespace ends with
tc. Modules on disk are not tried, because that would load them permanently.
"""

import contextlib
import json
import os
import platform
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netesto.errors import ProcessError
from netesto.files import atomic, jsontext
from netesto.model import QDISCS
from netesto.system import proc, process

# Controllers wait 5 s for an agent's report on its host (run.agents).
_TC_TIMEOUT_S = 4.0

# The minimum of options that tc accepts for a kind, if it needs any.
_OPTIONS: Mapping[str, str] = {
    "bfifo": "limit 100000",
    "choke": "limit 100 min 10 max 30 avpkt 1000 burst 20 bandwidth 10mbit",
    "etf": "clockid CLOCK_TAI delta 200000",
    "ets": "bands 2",
    "gred": "setup DPs 4 default 0",
    "pfifo": "limit 100",
    "red": "limit 100000 min 10000 max 30000 avpkt 1000 burst 20 bandwidth 10mbit",
    "tbf": "rate 10mbit burst 10000 limit 100000",
}

# These handle incoming packets, and exclude each other.
ENTRANCE_QDISCS = frozenset({"ingress", "clsact"})

_FAILED = re.compile(r"^Command failed -:(\d+)$", re.MULTILINE)

# Modules called tcp_* that are not congestion controls.
_OTHER_TCP_MODULES = frozenset({"diag", "probe", "sigpool"})

_MODULE = re.compile(r"^[^:\n]*/(tcp|sch)[_-]([\w-]+)\.ko(?:\.\w+)?(?::|$)", re.MULTILINE)

# Every kernel with qdiscs has these; no list of modules contains them.
_CORE_QDISCS = frozenset({"bfifo", "noqueue", "pfifo", "pfifo_fast"})

# The file in the memory folder.
_MEMORY = "qdiscs.json"

_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The capabilities of the kernel, not the permissions of this user.

    `congestion_controls` and `qdiscs` (None: unknown, for the reason in `unknown`) are in
    alphabetical order and include those that the kernel loads a module for.
    """

    kernel: str
    congestion_controls: tuple[str, ...]
    qdiscs: tuple[str, ...] | None
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Modules:
    """Modules of this kernel on disk: names without `tcp_` and `sch_`."""

    congestion_controls: frozenset[str] = frozenset()
    qdiscs: frozenset[str] = frozenset()


def probe(*, memory: Path | None = None) -> Capabilities:
    """Find out what this kernel can do. The qdiscs are kept until the next boot in the folder
    `memory` (None: `memory_folder`)."""
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
            # As a service, an agent may not create namespaces.
            if modules.qdiscs:
                created = _CORE_QDISCS
            else:
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
    """The modules that `kernel` can load or has built in; none if loading is disabled."""
    if _read(Path("/proc/sys/kernel/modules_disabled")).strip() == "1":
        return Modules()
    folder = Path("/lib/modules") / kernel
    return parse_modules(_read(folder / "modules.dep") + _read(folder / "modules.builtin"))


def parse_modules(text: str) -> Modules:
    """Congestion controls and qdiscs in a modules.dep or modules.builtin (depmod(8))."""
    found: dict[str, set[str]] = {"tcp": set(), "sch": set()}
    for match in _MODULE.finditer(text):
        found[match[1]].add(match[2].replace("-", "_"))
    # sch_ingress provides both kinds.
    if "ingress" in found["sch"]:
        found["sch"].add("clsact")
    kinds = found["sch"] & QDISCS
    return Modules(frozenset(found["tcp"] - _OTHER_TCP_MODULES), frozenset(kinds))


def try_qdiscs(kinds: Iterable[str]) -> frozenset[str]:
    """Those of `kinds` that this kernel creates.

    ProcessError if they cannot be tried: no tc, no unshare, or no permission for a namespace.
    """
    batch = plan(kinds)
    argv = ["unshare", "--net", process.program("tc"), "-force", "-batch", "-"]
    if os.geteuid() != 0:
        # Root of a user namespace may do inside it what only root may do outside.
        argv.insert(1, "--map-root-user")
    lines = "".join(f"{line}\n" for line, _ in batch)
    finished = process.run(argv, timeout=_TC_TIMEOUT_S, check=False, stdin=lines)
    if not finished.stdout.startswith("qdisc "):
        raise ProcessError(argv, finished.last_lines(1))
    return created(batch, finished.stderr)


def plan(kinds: Iterable[str]) -> list[tuple[str, str]]:
    """Lines for `tc -batch`, each with the kind that it creates (or "")."""
    wanted = frozenset(kinds)
    lines = [
        (f"qdisc replace dev lo root {kind} {_OPTIONS.get(kind, '')}".rstrip(), kind)
        for kind in sorted(wanted - ENTRANCE_QDISCS)
    ]
    for kind in sorted(ENTRANCE_QDISCS & wanted):
        lines += [(f"qdisc add dev lo {kind}", kind), (f"qdisc del dev lo {kind}", "")]
    # Prints something even after failures, which proves that tc ran.
    return [*lines, ("qdisc replace dev lo root pfifo limit 100", ""), ("qdisc show dev lo", "")]


def created(batch: Sequence[tuple[str, str]], stderr: str) -> frozenset[str]:
    """The kinds whose line did not fail, according to tc."""
    failed = {int(number) for number in _FAILED.findall(stderr)}
    kinds = {kind for number, (_, kind) in enumerate(batch, start=1) if number not in failed}
    return frozenset(kinds - {""})


# ---- memory ----------------------------------------------------------------------------------


def memory_folder() -> Path:
    """The folder that keeps what was found until the next boot: that of the service, if it has one
    (RUNTIME_DIRECTORY, systemd.exec(5))."""
    if own := os.environ.get("RUNTIME_DIRECTORY"):
        return Path(own)
    if os.geteuid() == 0:
        return Path("/run/netesto")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "netesto"
    return Path(tempfile.gettempdir()) / f"netesto-{os.geteuid()}"


def recall(folder: Path, boot: str) -> frozenset[str] | None:
    """The qdiscs that `remember` kept in this `boot`; None if there are none."""
    path = folder / _MEMORY
    try:
        if path.lstat().st_uid != os.geteuid():
            return None
        entry = jsontext.read(path)
        return frozenset(map(str, entry["created"])) if entry["boot"] == boot else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(folder: Path, boot: str, kinds: frozenset[str]) -> None:
    """Keep `kinds` for `recall`, if the folder can be written to."""
    text = json.dumps({"boot": boot, "created": sorted(kinds)}, indent=1)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        atomic.replace(folder / _MEMORY, text)


def _boot(kernel: str) -> str:
    """The conditions under which qdiscs can be created: the boot, and the modules loaded since."""
    loaded = (line.split()[0] for line in _read(Path("/proc/modules")).splitlines())
    return " ".join([proc.boot_id(), kernel, *sorted(n for n in loaded if n.startswith("sch_"))])


def _read(path: Path) -> str:
    """The text of a file; "" if it does not exist, as in a kernel without modules."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
