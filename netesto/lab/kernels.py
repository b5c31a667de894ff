"""Kernels that run as ordinary processes: the distribution's, and those built, in a cache."""

import contextlib
import dataclasses
import functools
import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from netesto.errors import MissingError, OutputError, ProcessError
from netesto.files import jsontext, paths
from netesto.grounds import GROUNDS, UML, Ground
from netesto.lab import kernelconfig
from netesto.system import process

# The folder of the modules of Debian's user-mode-linux, with a folder for each release.
MODULES = Path("/usr/lib/uml/modules")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel that runs as a process. `modules` is None if everything is built in.

    `kind` is the name of the ground that it is for. `config_hash` is that of its configuration;
    `recipe` that of the build (kernelconfig), "" for the distribution's.
    """

    name: str
    kind: str
    path: Path
    modules: Path | None
    version: str
    config_hash: str
    recipe: str = ""
    source: str = ""

    @property
    def ground(self) -> Ground:
        """The ground that it is for."""
        return GROUNDS[self.kind]

    def sha256(self) -> str:
        """The hexadecimal SHA-256 of the kernel itself."""
        return _sha256(self.path)

    @property
    def is_own(self) -> bool:
        """Whether it was built from the user's tree; then it is used only by name."""
        return self.ground.kernel == "built" and ".tar." not in Path(self.source).name


def find(ground: Ground) -> Kernel | None:
    """The kernel for a ground, None if this machine has none yet (see `missing`).

    A kernel built from the user's tree is chosen only by name (kernelbuild.choose).
    """
    if ground.kernel == "distribution":
        found = _distribution()
    else:
        recipe = kernelconfig.recipe()
        usual = (kernel for kernel in _cached() if kernel.recipe == recipe and not kernel.is_own)
        found = next(usual, None)
    return found and dataclasses.replace(found, kind=ground.name)


def need(ground: Ground) -> Kernel:
    """`find`, or MissingError with the command that installs or builds the kernel."""
    kernel = find(ground)
    if kernel is None:
        raise missing(ground)
    return kernel


def missing(ground: Ground) -> MissingError:
    """The error for a ground without a kernel, with its remedy."""
    if ground.kernel == "distribution":
        return MissingError(
            f"ground {ground}: no user-mode kernel on this machine",
            remedy="sudo apt-get install user-mode-linux",
        )
    built = _cached()
    # Mention kernels of the user.
    own = [kernel.name for kernel in built if kernel.is_own]
    choice = f" (or, of your own tree: --kernel {own[0]})" if own else ""
    stale = "of this version " if len(built) > len(own) else ""
    return MissingError(
        f"ground {ground}: no kernel for simulated time {stale}yet",
        remedy=f"netesto kernel build{choice}",
    )


def installed() -> list[Kernel]:
    """Every kernel of this machine: the distribution's, then those built, newest first."""
    distribution = _distribution()
    return [*([distribution] if distribution else []), *_cached()]


def cache_folder() -> Path:
    """Where built kernels are kept."""
    return paths.cache_folder() / "kernels"


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
        kind=UML.name,
        path=Path(path),
        modules=modules if modules.is_dir() else None,
        version=version,
        config_hash=short_hash(config),
        source="user-mode-linux",
    )


def _cached() -> list[Kernel]:
    """The kernels that were built, newest first. Folders with invalid records are skipped."""
    records = sorted(
        cache_folder().glob("*/kernel.json"), key=lambda path: path.stat().st_mtime, reverse=True
    )
    kernels: list[Kernel] = []
    for record in records:
        with contextlib.suppress(OutputError):
            kernels.append(read_record(record))
    return kernels


def read_record(path: Path) -> Kernel:
    """A built kernel from its kernel.json. OutputError if that is invalid."""
    try:
        value = jsontext.read(path)
        kernel = Kernel(**{**value, "path": path.parent / "linux", "modules": None})
        if kernel.kind not in GROUNDS:
            raise ValueError(f"for a ground {kernel.kind}, which does not exist")
    except (OSError, ValueError, TypeError) as error:
        raise OutputError(f"{path}: not a record of a kernel: {error}") from error
    return kernel


def write_record(kernel: Kernel, path: Path) -> None:
    """Write a built kernel's kernel.json, for `read_record`."""
    value = dataclasses.asdict(kernel)
    # The binary is beside its record, wherever the folder is moved.
    del value["path"], value["modules"]
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


@functools.cache
def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def short_hash(text: str) -> str:
    """A short hash of a configuration."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
