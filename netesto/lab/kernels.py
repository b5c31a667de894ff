"""Kernels that run as ordinary processes: found, built from source, kept in the user's cache."""

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

from netesto import process
from netesto.errors import LabError, MissingError, OutputError, ProcessError, UsageError
from netesto.lab import kernelconfig, owned

Kind = Literal["uml", "sim"]
Progress = Callable[[str], None]

# Where Debian's user-mode-linux keeps its modules, one folder for each release.
MODULES = Path("/usr/lib/uml/modules")

# Where Debian's linux-source-* packages lie.
SOURCES = Path("/usr/src")

# What a build calls, and the package that has it.
TOOLS: Mapping[str, str] = {
    "gcc": "gcc",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "tar": "tar",
    "xz": "xz-utils",
    "strip": "binutils",
}

# An unpacked source is 1.3 GB, its objects 0.3 GB; tar's own failure would be found late.
SPACE_BYTES = 2_000_000_000

# A build takes 9 minutes of one processor's time on a machine of 2020; a tenth of that speed is
# still a machine, anything slower is a build that hangs.
BUILD_TIMEOUT_S = 5400.0
UNPACK_TIMEOUT_S = 900.0
PROGRESS_INTERVAL_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel that runs as a process. `modules` is None where everything is built in.

    `config_hash` names its whole configuration; `recipe` what this build was made of, "" for the
    distribution's.
    """

    name: str
    kind: Kind
    path: Path
    modules: Path | None
    version: str
    config_hash: str
    recipe: str = ""
    source: str = ""


def find(ground: Kind) -> Kernel | None:
    """The kernel for a ground, None if this machine has none yet (`missing` says what to do)."""
    if ground == "uml":
        return _distribution()
    recipe = kernelconfig.recipe()
    return next((kernel for kernel in _cached() if kernel.recipe == recipe), None)


def need(ground: Kind) -> Kernel:
    """`find`, or MissingError with the command that brings it."""
    kernel = find(ground)
    if kernel is None:
        raise missing(ground)
    return kernel


def missing(ground: Kind) -> MissingError:
    """What to do about a ground without a kernel."""
    if ground == "uml":
        return MissingError(
            "ground uml: no user-mode kernel on this machine",
            remedy="sudo apt-get install user-mode-linux",
        )
    stale = "of this version " if _cached() else ""
    return MissingError(
        f"ground sim: no kernel for simulated time {stale}yet", remedy="netesto kernel build"
    )


def installed() -> list[Kernel]:
    """Every kernel this machine has: the distribution's, then those built, newest first."""
    distribution = _distribution()
    return [*([distribution] if distribution else []), *_cached()]


def cache_folder() -> Path:
    """Where built kernels are kept."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # A relative path there is invalid, says the standard that names the variable.
    base = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    return base / "netesto" / "kernels"


def _distribution() -> Kernel | None:
    path = shutil.which("linux.uml")
    if path is None:
        return None
    try:
        version = process.run([path, "--version"], timeout=10).stdout.strip()
        config = process.run([path, "--showconfig"], timeout=10).stdout
    except ProcessError:
        return None
    modules = MODULES / version
    return Kernel(
        name=f"uml-{version}",
        kind="uml",
        path=Path(path),
        modules=modules if modules.is_dir() else None,
        version=version,
        config_hash=_short_hash(config),
        source="user-mode-linux",
    )


def _cached() -> list[Kernel]:
    """What was built, newest first. A folder that cannot be read is not a kernel."""
    records = sorted(
        cache_folder().glob("*/kernel.json"), key=lambda path: path.stat().st_mtime, reverse=True
    )
    kernels: list[Kernel] = []
    for record in records:
        with contextlib.suppress(OutputError):
            kernels.append(read_record(record))
    return kernels


def read_record(path: Path) -> Kernel:
    """A built kernel from its kernel.json. OutputError if that is not one."""
    try:
        value = json.loads(path.read_text())
        return Kernel(
            **{
                **value,
                "path": path.parent / "linux",
                "modules": None,
            }
        )
    except (OSError, ValueError, TypeError) as error:
        raise OutputError(f"{path}: not a record of a kernel: {error}") from error


def _write_record(kernel: Kernel, path: Path) -> None:
    value = dataclasses.asdict(kernel)
    # The binary lies beside its record, wherever the folder is moved.
    del value["path"], value["modules"]
    path.write_text(json.dumps(value, indent=2) + "\n")


def build(source: Path | None = None, *, progress: Progress, jobs: int | None = None) -> Kernel:
    """Build a kernel for simulated time, or return the one built before from the same things.

    `source` is an unpacked kernel source (it is not changed); without it the newest source package
    of the distribution is unpacked. Needs no root. MissingError names the packages to install,
    LabError carries the last lines of a build that failed.
    """
    given = _newest_package() if source is None else _source_folder(source)
    _check_tools()
    kernels = cache_folder()
    try:
        kernels.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(
            f"{kernels}: {error.strerror}", remedy="XDG_CACHE_HOME names another place"
        ) from error
    key = cache_key(_identity(given), kernelconfig.recipe())
    folder = kernels / key
    if (folder / "kernel.json").is_file():
        progress(f"already built: {folder}")
        return read_record(folder / "kernel.json")
    owned.remove_abandoned(kernels)
    free_bytes = shutil.disk_usage(kernels).free
    if free_bytes < SPACE_BYTES:
        raise LabError(
            f"{kernels}: a kernel build needs {SPACE_BYTES / 1e9:.1f} GB, "
            f"only {free_bytes / 1e9:.1f} GB are free",
            remedy="XDG_CACHE_HOME names another place",
        )
    with owned.folder(kernels) as work:
        tree = _unpacked(given, work, progress)
        made = _compile(tree, work, progress, jobs=jobs or os.cpu_count() or 1)
        kernel = _described(made, key, given)
        _write_record(kernel, made.parent / "kernel.json")
        # Whole or not at all: a folder with a record appears by one rename.
        with contextlib.suppress(OSError):
            made.parent.rename(folder)
    progress(f"built {kernel.name}: {folder}")
    return read_record(folder / "kernel.json")


def cache_key(identity: str, recipe: str) -> str:
    """The folder name of a build: what source, and what recipe."""
    return sha256(f"{identity}\0{recipe}".encode()).hexdigest()[:16]


def _check_tools() -> None:
    lacking = sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})
    if lacking:
        raise MissingError(
            "building a kernel needs more packages",
            remedy=f"sudo apt-get install {' '.join(lacking)}",
        )


def _newest_package() -> Path:
    found = sorted(SOURCES.glob("linux-source-*.tar.*"), key=_version_of)
    if not found:
        raise MissingError(
            "no kernel source on this machine",
            remedy="sudo apt-get install linux-source (or: netesto kernel build --source DIR)",
        )
    return found[-1]


def _version_of(package: Path) -> tuple[int, ...]:
    """`linux-source-6.1.tar.xz` -> (6, 1)."""
    words = package.name.removeprefix("linux-source-").split(".tar")[0].split(".")
    return tuple(int(word) if word.isdigit() else 0 for word in words)


def _source_folder(source: Path) -> Path:
    if not (source / "arch" / "um" / "Makefile").is_file():
        raise UsageError(f"{source}: not the top folder of a kernel source")
    if (source / ".config").exists():
        raise UsageError(
            f"{source}: has a configuration of its own, and can so not be built elsewhere",
            remedy=f"save its .config, then: make -C {source} ARCH=um mrproper",
        )
    return source.resolve()


def _identity(source: Path) -> str:
    """What tells two sources apart without reading all of them."""
    # A folder's own time does not change with the files in it; the git head does, and the
    # Makefile of another release.
    marks = [source / "Makefile", source / ".git" / "HEAD", source / ".git" / "logs" / "HEAD"]
    facts = [source] if source.is_file() else [mark for mark in marks if mark.is_file()]
    return "\0".join(f"{fact}:{fact.stat().st_size}:{fact.stat().st_mtime_ns}" for fact in [*facts])


def _unpacked(given: Path, work: Path, progress: Progress) -> Path:
    if given.is_dir():
        return given
    progress(f"unpacking {given.name}")
    tree = work / "source"
    tree.mkdir()
    argv = ["tar", "--extract", f"--file={given}", f"--directory={tree}", "--strip-components=1"]
    try:
        process.run(argv, timeout=UNPACK_TIMEOUT_S)
    except ProcessError as error:
        raise LabError(f"{given}: cannot be unpacked: {error}") from error
    return tree


def make_command(tree: Path, objects: Path, header: Path, *, jobs: int) -> list[str]:
    """`make` for a kernel that runs as a process; a target is appended. The source stays clean.

    It ends when its starter does, also by kill -9.
    """
    return [
        *("setpriv", "--pdeathsig", "TERM", "--"),
        "nice",
        "make",
        "--directory",
        str(tree),
        f"O={objects}",
        "ARCH=um",
        f"--jobs={jobs}",
        f"KCPPFLAGS=-include {header}",
        *kernelconfig.SEED_FLAGS,
    ]


def _compile(tree: Path, work: Path, progress: Progress, *, jobs: int) -> Path:
    """The stripped kernel, in a folder that holds nothing else."""
    objects = work / "objects"
    objects.mkdir()
    header = work / "seed.h"
    header.write_text(kernelconfig.SEED_HEADER)
    log = work / "make.log"
    make = make_command(tree, objects, header, jobs=jobs)
    _make([*make, "defconfig"], log, lambda _: None)
    config = objects / ".config"
    config.write_text(config.read_text() + kernelconfig.fragment())
    _make([*make, "olddefconfig"], log, lambda _: None)
    lacking = kernelconfig.lacking(config.read_text())
    essential = [name for name in lacking if name in kernelconfig.ESSENTIAL]
    if essential:
        raise LabError(f"{tree}: this source has no {', '.join(essential)}")
    if lacking:
        progress(f"not in this source: {', '.join(lacking)}")
    _make([*make, "linux"], log, progress)
    result = work / "result"
    result.mkdir()
    stripped = result / "linux"
    process.run(["strip", "-g", "-o", str(stripped), str(objects / "linux")], timeout=60)
    shutil.copy(config, result / "config")
    return stripped


def _make(argv: Sequence[str], log: Path, progress: Progress) -> None:
    try:
        with process.background(argv, stdout=log, timeout=BUILD_TIMEOUT_S) as child:
            for _ in range(int(BUILD_TIMEOUT_S / PROGRESS_INTERVAL_S)):
                if process.wait_until(
                    lambda: child.poll() is not None, timeout=PROGRESS_INTERVAL_S
                ):
                    break
                progress(f"compiled {_compiled(log)} files of about 1300")
            status = child.poll()
    except ProcessError as error:
        raise LabError(f"the kernel was not built: {error}") from error
    if status != 0:
        what = "took too long" if status is None else f"exited {status}"
        told = "\n".join(_told(list(_lines(log))))
        raise LabError(f"the kernel was not built: make {what}:\n{told}")


def _compiled(log: Path) -> int:
    return sum(line.startswith(("  CC ", "  AS ")) for line in _lines(log))


def _told(lines: Sequence[str]) -> list[str]:
    """What a person would look at: the compiler's complaints, or else the end."""
    told = [line.rstrip() for line in lines if "rror" in line]
    return (told or [line.rstrip() for line in lines])[-15:]


def _lines(log: Path) -> Iterator[str]:
    with log.open(errors="replace") as lines:
        yield from lines


def _described(made: Path, key: str, given: Path) -> Kernel:
    version = process.run([str(made), "--version"], timeout=10).stdout.strip()
    return Kernel(
        name=f"sim-{version}-{key[:6]}",
        kind="sim",
        path=made,
        modules=None,
        version=version,
        config_hash=_short_hash((made.parent / "config").read_text()),
        recipe=kernelconfig.recipe(),
        source=str(given),
    )


def _short_hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]
