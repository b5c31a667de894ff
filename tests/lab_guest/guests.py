"""Commands in guests, and how they ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netesto.lab import guest
from netesto.lab.kernels import Kernel


@dataclass(frozen=True, slots=True)
class Ended:
    status: int
    stdout: bytes
    stderr: bytes


def run_inside(folder: Path, kernel: Kernel, argv: Sequence[str], **options: object) -> Ended:
    """Run a command in a guest, its outputs into files in `folder`."""
    out, err = folder / "out", folder / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        status = guest.run(
            argv,
            kernel=kernel,
            stdout=stdout.fileno(),
            stderr=stderr.fileno(),
            **options,  # type: ignore[arg-type] # what a test passes is run()'s own
        )
    return Ended(status, out.read_bytes(), err.read_bytes())
