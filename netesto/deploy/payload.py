"""The packages that an agent needs, as archives: from this installation, or from a bundle.

What is installed here fits a host with the same minor version of Python, the same machine and no
older C library, so that such a host needs no package index and no network. A bundle has the
packages for other hosts; the cache of this machine keeps one for each kind that it has met.
"""

import base64
import functools
import gzip
import hashlib
import importlib.util
import io
import json
import platform
import re
import struct
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath

from netesto.deploy.facts import Facts
from netesto.errors import UsageError, WorldError
from netesto.files import atomic, jsontext, paths
from netesto.system import owned, process
from netesto.traffic.native import PROGRAM

# Of the SHA-256 that names an archive.
_NAME_DIGITS = 16
_LOCKED = Path(__file__).with_name("agent-requirements.txt")
_HEXADECIMAL = re.compile(r"[0-9a-f]{64}")
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")
# manylinux_2_17 is a version of glibc; the older names stand for one (PEP 600).
_GLIBC = re.compile(r"manylinux_(\d+)_(\d+)_")
_OLD_GLIBC = {"manylinux1_": (2, 5), "manylinux2010_": (2, 12), "manylinux2014_": (2, 17)}
# The versions of glibc that wheels are built for today.
_WHEEL_GLIBC = ("2_17", "2_28", "2_34")
# What follows the magic number of a compiled file (PEP 552): no flags, date and size of its source.
_STAMP = struct.Struct("<III")
# At level 6, the default, compressing takes a second, three times as long, and saves 8 %, which is
# faster than sending only below 10 Mbit/s.
_LEVEL = 2
# Of all files in an archive, whose bytes then depend on the contents alone: 1980-01-01.
_DATE = 315_532_800
_DOWNLOAD_S = 600.0
# pip's own patience with a package index that is not reached is some minutes.
_PATIENCE = ("--retries", "1", "--timeout", "15")
_INDEX = "bundle.json"


@dataclass(frozen=True, slots=True)
class Archive:
    """A folder for hosts as a tar.gz: `name` is that of the folder and tells its content."""

    name: str
    data: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Packages:
    """The third-party packages of the agent, for `python` ("3.11") on `machine`; `glibc` is the
    minimum version of the C library."""

    python: str
    machine: str
    glibc: tuple[int, ...]
    archive: Archive

    def fit(self, facts: Facts) -> bool:
        """Whether an agent on this host can use them."""
        name, _, version = facts.libc.partition("-")
        return (
            (self.python, self.machine, "glibc") == (facts.python_version, facts.machine, name)
            and _numbers(version) >= self.glibc
        )  # fmt: skip


def requirements() -> list[str]:
    """The third-party requirements of an agent, for pip: the extra `agent` of this package."""
    wanted = re.compile(r";\s*extra\s*==\s*['\"]agent['\"]\s*$")
    found = metadata.requires("netesto") or []
    return [wanted.sub("", each).strip() for each in found if wanted.search(each)]


def locked() -> list[str]:
    """What pip downloads for an agent: a version of each package, with the SHA-256 of its files."""
    lines = _LOCKED.read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    return [" ".join(line.split()) for line in lines if line and not line.startswith("#")]


def code(machine: str) -> Archive:
    """This package for hosts of this architecture, with the traffic generator if it is ours, which
    is linked with no library."""
    root = Path(__file__).parents[1]
    # The descriptor is that of the protocol.
    paths = [*root.rglob("*.py"), *root.rglob("*.desc")]
    if machine == platform.machine() and PROGRAM.exists():
        paths.append(PROGRAM)
    sources = {path.relative_to(root.parent).as_posix(): path for path in paths}
    files = {name: path.read_bytes() for name, path in sources.items()}
    return _archive("code", files, sources)


def own() -> Packages:
    """The packages that are installed here. WorldError if one is not."""
    found: dict[str, metadata.Distribution] = {}
    _collect(map(_name, requirements()), found)
    glibc = max(_glibc_of(each.read_text("WHEEL") or "") for each in found.values())
    listed = "".join(each.read_text("RECORD") or each.version for _, each in sorted(found.items()))
    digest = hashlib.sha256(f"{sys.version_info[:2]} {listed}".encode()).hexdigest()
    return Packages(
        python=".".join(map(str, sys.version_info[:2])),
        machine=platform.machine(),
        glibc=glibc,
        archive=Archive(
            f"packages-{digest[:_NAME_DIGITS]}",
            functools.cache(lambda: _packed_distributions(found.values())),
        ),
    )


def _collect(names: Iterable[str], found: dict[str, metadata.Distribution]) -> None:
    """The distributions of these names, and what they require in turn."""
    for name in names:
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            raise WorldError(f"the package {name} is not installed here") from None
        needed = found[name].requires or []
        # A marker is of an extra, or of an older Python than an agent runs on.
        _collect((_name(each) for each in needed if ";" not in each), found)


def _name(requirement: str) -> str:
    match = _REQUIREMENT.match(requirement)
    assert match is not None, requirement
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def _packed_distributions(distributions: Iterable[metadata.Distribution]) -> bytes:
    """The files of the distributions, without scripts. WorldError if one is not what was installed:
    the name of the archive is that of what was."""
    sources, files = dict[str, Path](), dict[str, bytes]()
    for each in distributions:
        for file in filter(lambda file: _is_wanted(str(file)), each.files or []):
            sources[str(file)] = path = Path(str(each.locate_file(file)))
            files[str(file)] = content = path.read_bytes()
            if file.hash is not None and file.hash.value != _recorded(content, file.hash.mode):
                raise WorldError(
                    f"{path}: changed since it was installed",
                    remedy=f"Install it again: pip install --force-reinstall {each.name}",
                )
    return _packed(files | _compiled(sources, files))


def _recorded(content: bytes, algorithm: str) -> str:
    """A hash as in RECORD: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(hashlib.new(algorithm, content).digest()).decode().rstrip("=")


def _is_wanted(name: str) -> bool:
    return not (name.startswith(("..", "/")) or "__pycache__" in name or name.endswith(".pyi"))


def _glibc_of(wheel: str) -> tuple[int, ...]:
    """The minimum glibc in the tags of a wheel; that of this machine for a wheel built here."""
    versions = [(int(major), int(minor)) for major, minor in _GLIBC.findall(wheel)]
    versions += [version for name, version in _OLD_GLIBC.items() if name in wheel]
    if versions:
        return min(versions)
    return (0,) if "-any" in wheel else _numbers(platform.libc_ver()[1])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _archive(
    kind: str, files: Mapping[str, bytes], sources: Mapping[str, Path] | None = None
) -> Archive:
    """An archive of these files, and of what is compiled of them beside their `sources`."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{len(name)} {name} {len(content)} ".encode() + content)
    name = f"{kind}-{digest.hexdigest()[:_NAME_DIGITS]}"
    return Archive(
        name, functools.cache(lambda: _packed({**files, **_compiled(sources or {}, files)}))
    )


def _compiled(sources: Mapping[str, Path], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The up-to-date compiled files of this Python, with the date that sources have in an archive:
    a host with the same version need not compile them."""
    magic, found = importlib.util.MAGIC_NUMBER, {}
    for name, path in sources.items():
        if path.suffix != ".py":
            continue
        compiled = Path(importlib.util.cache_from_source(str(path)))
        try:
            state, data = path.stat(), compiled.read_bytes()
        except OSError:
            continue
        size = len(files[name])
        if data.startswith(magic + _STAMP.pack(0, int(state.st_mtime) & 0xFFFFFFFF, size)):
            place = PurePosixPath(name).parent / "__pycache__" / compiled.name
            stamp = magic + _STAMP.pack(0, _DATE, size)
            found[str(place)] = stamp + data[len(stamp) :]
    return found


def _packed(files: Mapping[str, bytes]) -> bytes:
    """A tar.gz that depends only on the files."""
    sink = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=sink, mode="wb", compresslevel=_LEVEL, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mtime = _DATE
            member.mode = 0o755 if name.endswith(f"/{PROGRAM.name}") else 0o644
            archive.addfile(member, io.BytesIO(content))
    return sink.getvalue()


# --- bundles ------------------------------------------------------------------------------------


async def make_bundle(path: Path, platforms: Sequence[tuple[str, str]]) -> list[Packages]:
    """Write a bundle with the packages for (python, machine) pairs: this installation's own where
    they fit, others from the package index of this machine. ProcessError if pip fails."""
    mine = own()
    made = [
        mine if (mine.python, mine.machine) == pair else await _downloaded(*pair)
        for pair in dict.fromkeys(platforms)
    ]
    archives = [each.archive.data() for each in made]
    index = [
        {"python": each.python, "machine": each.machine, "glibc": each.glibc,
         "sha256": hashlib.sha256(data).hexdigest()}
        for each, data in zip(made, archives, strict=True)
    ]  # fmt: skip
    try:
        with (
            atomic.written(path) as file,
            # Stored: its members are compressed.
            zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as bundle,
        ):
            bundle.writestr(_INDEX, json.dumps(index, indent=1))
            for entry, data in zip(index, archives, strict=True):
                bundle.writestr(f"{entry['sha256']}.tar.gz", data)
    except OSError as error:
        raise WorldError(f"{path}: cannot write: {error.strerror}") from error
    return made


async def cached(python: str, machine: str, say: Callable[[str], None]) -> list[Packages]:
    """The packages for hosts of this kind, downloaded once, which `say` is told. ProcessError if
    pip fails."""
    path = _place(python, machine)
    if not path.exists():
        say(f"downloading packages of agents for Python {python} on {machine}")
        path.parent.mkdir(parents=True, exist_ok=True)
        await make_bundle(path, [(python, machine)])
    return read_bundle(path)


async def foreseen(python: str, machine: str, say: Callable[[str], None]) -> list[Packages]:
    """In place of `cached` for a dry run, which downloads nothing: something to plan with."""
    path = _place(python, machine)
    if path.exists():
        return read_bundle(path)
    # The packages for another kind have about the size of ours.
    size_mb = max(1, len(own().archive.data()) // 1_000_000)
    say(
        f"would download packages of agents for Python {python} on {machine}, about {size_mb} MB,"
        f" to {path}"
    )
    return [Packages(python, machine, (0,), Archive("packages-…", bytes))]


def _place(python: str, machine: str) -> Path:
    """Where the packages for hosts of this kind are kept."""
    digest = hashlib.sha256(" ".join(locked()).encode()).hexdigest()
    return paths.cache_folder() / "agents" / f"{python}-{machine}-{digest[:_NAME_DIGITS]}.zip"


async def _downloaded(python: str, machine: str) -> Packages:
    """The packages for another platform, by pip from the package index of this machine."""
    platforms = [f"--platform=manylinux_{version}_{machine}" for version in _WHEEL_GLIBC]
    with owned.temporary_folder() as folder:
        await process.run_async(
            process.python(
                "pip", "download", "-qq", "--disable-pip-version-check", "--no-input",
                *_PATIENCE, "--only-binary=:all:", f"--python-version={python}",
                "--implementation=cp", *platforms, f"--platform=manylinux2014_{machine}",
                "--dest", str(folder), "--require-hashes", "--requirement", str(_LOCKED),
            ),
            timeout=_DOWNLOAD_S,
        )  # fmt: skip
        return _of_wheels(folder, python, machine)


def _of_wheels(folder: Path, python: str, machine: str) -> Packages:
    wheels = sorted(folder.glob("*.whl"))
    files = dict(member for wheel in wheels for member in _members(wheel))
    # A wheel's name ends with its tags.
    glibc = max(_glibc_of(wheel.name) for wheel in wheels)
    return Packages(python, machine, glibc, _archive("packages", files))


def _members(wheel: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if _is_wanted(name) and not name.endswith("/") and ".data/" not in name:
                yield name, archive.read(name)


def read_bundle(path: Path) -> list[Packages]:
    """The packages in a bundle. UsageError if it is not a bundle."""
    try:
        with zipfile.ZipFile(path) as bundle:
            index = jsontext.parse(bundle.read(_INDEX))
        return [
            Packages(
                each["python"],
                each["machine"],
                tuple(each["glibc"]),
                # Named by the content, whatever the file calls it.
                Archive(
                    f"packages-{_digest(each['sha256'])[:_NAME_DIGITS]}",
                    functools.partial(_member, path, each["sha256"]),
                ),
            )
            for each in index
        ]
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError):
        raise UsageError(
            f"{path}: not a bundle", remedy="Make one: netesto hosts bundle -o agents.zip"
        ) from None


def _digest(text: str) -> str:
    """A SHA-256 of a bundle's index. ValueError if it is none."""
    if _HEXADECIMAL.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a SHA-256")
    return text


def _member(path: Path, sha256: str) -> bytes:
    """An archive in a bundle. UsageError if it is not the one with this SHA-256."""
    with zipfile.ZipFile(path) as bundle:
        data = bundle.read(f"{sha256}.tar.gz")
    if hashlib.sha256(data).hexdigest() != sha256:
        raise UsageError(f"{path}: damaged: an archive in it has another SHA-256 than its name")
    return data
