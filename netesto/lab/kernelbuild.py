"""Builds kernels for simulated time, from the distribution's source or from the user's tree.

    cache/KEY/                a kernel: linux, config, kernel.json; appears by one rename
    cache/objects-TREE/       make's objects of a user's tree, so that an edit is built in seconds
    cache/netesto-running-…/  a build in progress, removed with it
    cache/.lock               held by the one build that runs

KEY is a hash of the source and the recipe, so every edit of a tree changes it. Trees are only read.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from netesto.errors import LabError, MissingError, ProcessError, UsageError
from netesto.grounds import SIM
from netesto.lab import kernelconfig, kernels
from netesto.lab.kernels import Kernel
from netesto.system import life, owned, process

Progress = Callable[[str], None]

# The folder of Debian's linux-source-* packages.
SOURCES = Path("/usr/src")

# The commands of a build and their packages. `remote/install-packages kernel` installs them.
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

# Programs of the build itself include C's headers; only the compiler knows whether they exist.
HEADERS_PACKAGE = "libc6-dev"
HEADERS_PROBE = ("gcc", "-fsyntax-only", "-include", "stdio.h", "-x", "c", os.devnull)

# An unpacked source is 1.3 GB, its objects 0.15 GB; tar and gcc would fail late.
PACKAGE_SPACE_BYTES = 2_000_000_000
TREE_SPACE_BYTES = 500_000_000

# The number of files compiled of Linux 6.1, for the progress report; other versions are similar.
FILES = 970

# A build takes 9 minutes of processor time on a machine of 2020. A build that takes ten times as
# long hangs.
BUILD_TIMEOUT_S = 5400.0
UNPACK_TIMEOUT_S = 900.0
PROGRESS_INTERVAL_S = 5.0

# How much of a failed build's log is shown; the first error is the one that matters.
SHOWN_LINES = 15
_ERROR = re.compile(r"error:|\*\*\*|No space left|not found|cannot ")

# To kbuild these are signs of a build within the tree; it then refuses to build elsewhere.
BUILT_WITHIN = (".config", "include/config", "arch/um/include/generated")

ELSEWHERE = "XDG_CACHE_HOME names another folder for caches."

# In the folder of objects: the header that is included before every source file, and a mark that
# exists while make runs. make removes unfinished files, but not if it is killed: then a
# half-written file may be newer than its source.
HEADER, UNFINISHED = "netesto-seed.h", "netesto-unfinished"
# There, too: the source's top Kconfig with further prompts.
MENU = "netesto-Kconfig"


def build(source: Path | None = None, *, progress: Progress) -> Kernel:
    """Build a kernel for simulated time, or return the one built before from the same source.

    `source` is an unpacked kernel source (default: the distribution's newest source package).
    Needs no root. MissingError names the packages to install, LabError carries the last lines of a
    failed build.
    """
    given = newest_package() if source is None else source_folder(source)
    cache = kernels.cache_folder()
    built = _built(cache / key_of(given), progress)
    if built is not None:
        return built
    check_tools()
    with _writing(cache), _only_build(cache, progress):
        # While this build waited, another may have made the kernel, or the tree may have changed.
        key = key_of(given)
        return _built(cache / key, progress) or _build(given, cache, key, progress)


def key_of(source: Path) -> str:
    """The folder name of a build from this source by the present recipe."""
    if source.is_dir():
        identity = tree_identity(source)
    else:
        facts = source.stat()
        identity = f"{source}:{facts.st_size}:{facts.st_mtime_ns}"
    return cache_key(identity, kernelconfig.recipe())


def cache_key(identity: str, recipe: str) -> str:
    """The name for this source and this recipe."""
    return sha256(f"{identity}\0{recipe}".encode()).hexdigest()[:16]


def choose(word: str) -> Kernel:
    """The kernel that `word` names on a command line, by its name or the tree it was built from.

    UsageError if it is unknown. MissingError if the tree has changed since the build.
    """
    installed = kernels.installed()
    named = [kernel for kernel in installed if kernel.name == word]
    if named:
        return named[0]
    if "/" not in word and not Path(word).is_dir():
        names = ", ".join(kernel.name for kernel in installed) or "none"
        raise UsageError(
            f"--kernel {word}: neither a kernel's name nor a kernel source",
            remedy=f"Kernels (netesto kernel list): {names}",
        )
    tree = source_folder(Path(word))
    built = _built(kernels.cache_folder() / key_of(tree), lambda _: None)
    if built is None:
        former = any(kernel.source == str(tree) for kernel in installed)
        what = "was changed since its kernel was built" if former else "has no kernel yet"
        raise MissingError(f"{tree} {what}", remedy=f"netesto kernel build --source {word}")
    return built


# ---- before a build ------------------------------------------------------------------------------


def check_tools() -> None:
    """MissingError with all packages that a build lacks."""
    missing = {package for tool, package in TOOLS.items() if shutil.which(tool) is None}
    if "gcc" not in missing and process.run(HEADERS_PROBE, timeout=10, check=False).status != 0:
        missing.add(HEADERS_PACKAGE)
    if missing:
        raise MissingError(
            "building a kernel needs more packages",
            remedy=f"sudo apt-get install {' '.join(sorted(missing))}",
        )


def newest_package() -> Path:
    """The distribution's newest kernel source."""
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


def source_folder(source: Path) -> Path:
    """The tree's absolute path. UsageError if no kernel for simulated time can be built from it."""
    options = source / "arch" / "um" / "Kconfig"
    if not options.is_file() or not (source / "Makefile").is_file():
        raise UsageError(f"{source}: not the top folder of a kernel source")
    if "config UML_TIME_TRAVEL_SUPPORT" not in options.read_text(errors="replace"):
        raise UsageError(f"{source}: this kernel is too old for simulated time")
    within = [name for name in BUILT_WITHIN if (source / name).exists()]
    if within:
        raise UsageError(
            f"{source}: a kernel was built within it ({', '.join(within)}); kbuild then refuses to "
            "build elsewhere",
            remedy=f"Save its .config, then: make -C {source} ARCH=um mrproper",
        )
    return source.resolve()


def tree_identity(tree: Path) -> str:
    """A hash of the path, size and time of every file, which make uses, too, to notice an edit."""
    digest = sha256(str(tree).encode())
    for folder, folders, files in os.walk(tree):
        folders[:] = sorted(set(folders) - {".git"})
        for name in sorted(files):
            # A temporary file of an editor may be gone by now.
            with contextlib.suppress(FileNotFoundError):
                facts = Path(folder, name).lstat()
                digest.update(f"\0{folder}/{name}\0{facts.st_size}\0{facts.st_mtime_ns}".encode())
    return digest.hexdigest()


@contextlib.contextmanager
def _writing(cache: Path) -> Iterator[None]:
    """Turn an OSError while the cache is written into a LabError with a remedy."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise LabError(
            f"{cache}: cannot write: {error.strerror or error}",
            remedy=ELSEWHERE,
        ) from error


@contextlib.contextmanager
def _only_build(cache: Path, progress: Progress) -> Iterator[None]:
    """Wait for a build in progress: two at once would take twice as long each."""
    lock = cache / ".lock"
    if life.is_held(lock):
        progress(f"another build is in progress, by {life.holder(lock)}; waiting for its end")
    with life.held(lock, timeout=BUILD_TIMEOUT_S):
        yield


def _check_space(cache: Path, needed_bytes: int) -> None:
    free_bytes = shutil.disk_usage(cache).free
    if free_bytes < needed_bytes:
        raise LabError(
            f"{cache}: a kernel build needs {needed_bytes / 1e9:.1f} GB; "
            f"{free_bytes / 1e9:.1f} GB are free",
            remedy=ELSEWHERE,
        )


# ---- the build -----------------------------------------------------------------------------------


def _built(folder: Path, progress: Progress) -> Kernel | None:
    if not (folder / "kernel.json").is_file():
        return None
    progress(f"already built: {folder}")
    return kernels.read_record(folder / "kernel.json")


def _build(given: Path, cache: Path, key: str, progress: Progress) -> Kernel:
    is_tree = given.is_dir()
    with owned.folder(cache) as work:
        _check_space(cache, TREE_SPACE_BYTES if is_tree else PACKAGE_SPACE_BYTES)
        tree = given if is_tree else _unpacked(given, work, progress)
        name = sha256(str(tree).encode()).hexdigest()[:16]
        objects = cache / f"objects-{name}" if is_tree else work / "objects"
        make = make_command(tree, objects, key=key, jobs=os.cpu_count() or 1)
        menu = kernelconfig.menu((tree / "Kconfig").read_text(encoding="utf-8"))
        made = _compile(make, objects, menu, work, progress)
        if key_of(given) != key:
            raise LabError(
                f"{given} changed during the build",
                remedy="Build it again; compiled files are kept.",
            )
        kernel = _described(made, given)
        kernels.write_record(kernel, made.parent / "kernel.json")
        made.parent.rename(cache / key)
    progress(f"built {kernel.name}: {cache / key}")
    return kernels.read_record(cache / key / "kernel.json")


def _unpacked(package: Path, work: Path, progress: Progress) -> Path:
    progress(f"unpacking {package.name}")
    tree = work / "source"
    tree.mkdir()
    argv = ["tar", "--extract", f"--file={package}", f"--directory={tree}", "--strip-components=1"]
    try:
        process.run(argv, timeout=UNPACK_TIMEOUT_S)
    except ProcessError as error:
        raise LabError(f"cannot unpack {package}: {error}") from error
    return tree


def make_command(tree: Path, objects: Path, *, key: str, jobs: int) -> list[str]:
    """`make` for a kernel that runs as a process; the caller appends a target.

    The kernel's release ends with the beginning of the key, so that the release (in uname, in a
    manifest) identifies the build. make ends with its starter, also after kill -9.
    """
    argv = [
        "nice",
        "make",
        "--directory",
        str(tree),
        f"O={objects}",
        "ARCH=um",
        f"--jobs={jobs}",
        f"LOCALVERSION=-{key[:6]}",
        f"KBUILD_KCONFIG={objects / MENU}",
        f"KCPPFLAGS=-include {objects / HEADER}",
        *kernelconfig.SEED_FLAGS,
        *kernelconfig.BUILD_NAMES,
    ]
    return process.tethered(argv)


def _compile(make: Sequence[str], objects: Path, menu: str, work: Path, progress: Progress) -> Path:
    """The stripped kernel, in a folder with its configuration."""
    _prepare(objects, menu)
    total = "" if (objects / "linux").exists() else f" of about {FILES}"
    log, config, result = work / "make.log", objects / ".config", work / "result"
    _make([*make, "defconfig"], objects, log, lambda _: None)
    config.write_text(config.read_text(encoding="utf-8") + kernelconfig.fragment())
    _make([*make, "olddefconfig"], objects, log, lambda _: None)
    _check_options(config.read_text(encoding="utf-8"), progress)
    _make([*make, "linux"], objects, log, lambda count: progress(f"compiled {count} files{total}"))
    result.mkdir()
    stripped = result / "linux"
    try:
        process.run(["strip", "-g", "-o", str(stripped), str(objects / "linux")], timeout=60)
    except ProcessError as error:
        raise LabError(f"the kernel was not built: {error}") from error
    shutil.copy(config, result / "config")
    return stripped


def _prepare(objects: Path, menu: str) -> None:
    """The folder that make writes to; objects of an earlier build stay, unless it was killed."""
    if (objects / UNFINISHED).exists():
        shutil.rmtree(objects)
    objects.mkdir(exist_ok=True)
    files = {
        MENU: menu,
        HEADER: kernelconfig.seed_header(),
        kernelconfig.WIRE_HEADER: kernelconfig.wire_header(),
        kernelconfig.PHYSMEM_HEADER: kernelconfig.physmem_header(),
    }
    for name, text in files.items():
        # make rebuilds objects older than a header, so do not touch an unchanged one.
        file = objects / name
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def _check_options(config: str, progress: Progress) -> None:
    missing = kernelconfig.missing(config)
    essential = [name for name in missing if name in kernelconfig.ESSENTIAL]
    if essential:
        raise LabError(f"this source cannot set {', '.join(essential)}; Linux 6.1 can")
    if missing:
        progress(f"not in this source: {', '.join(missing)}")


def _make(argv: Sequence[str], objects: Path, log: Path, progress: Callable[[int], None]) -> None:
    mark = objects / UNFINISHED
    mark.touch()
    try:
        with process.background(argv, stdout=log) as child:
            for _ in range(int(BUILD_TIMEOUT_S / PROGRESS_INTERVAL_S)):
                if process.wait_until(
                    lambda: child.poll() is not None, timeout=PROGRESS_INTERVAL_S
                ):
                    break
                progress(sum(line.startswith(("  CC ", "  AS ")) for line in _lines(log)))
            status = child.poll()
    except ProcessError as error:
        raise LabError(f"the kernel was not built: {error}") from error
    if status is None or status < 0:
        raise LabError(f"the kernel was not built: make took too long or was ended\n{_tail(log)}")
    mark.unlink()
    if status != 0:
        raise LabError(f"the kernel was not built: make exited {status}\n{_errors(log)}")


def _errors(log: Path) -> str:
    """The first errors of the compiler or of make, or else the end of the log."""
    found = [line for line in _lines(log) if _ERROR.search(line)]
    return "\n".join(found[:SHOWN_LINES]) or _tail(log)


def _tail(log: Path) -> str:
    return "\n".join(_lines(log)[-SHOWN_LINES:])


def _lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8", errors="replace").splitlines()


def _described(made: Path, given: Path) -> Kernel:
    try:
        version = process.run([str(made), "--version"], timeout=10).stdout.strip()
    except ProcessError as error:
        raise LabError(f"the new kernel does not run: {error}") from error
    return Kernel(
        name=f"sim-{version}",
        kind=SIM.name,
        path=made,
        modules=None,
        version=version,
        config_hash=kernels.short_hash((made.parent / "config").read_text(encoding="utf-8")),
        recipe=kernelconfig.recipe(),
        source=str(given),
    )
