"""Kernels to run guests on, and users who do."""

import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import cattrs
import pytest
from guests import Ended, run_inside
from needs import kernel_or_reason

import netesto
from netesto.lab.kernels import Kernel
from netesto.system import process

# A boot takes a second or two; a busy machine may need far longer, and nothing here waits it out.
PATIENCE_S = 200


@pytest.fixture(
    params=[
        pytest.param("uml", marks=pytest.mark.uml),
        pytest.param("sim", marks=pytest.mark.sim),
    ]
)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    """Each test that takes it runs on both grounds."""
    return kernel_or_reason(request.param)


@pytest.fixture
def sim_kernel() -> Kernel:
    return kernel_or_reason("sim")


@pytest.fixture
def any_kernel(tmp_path: Path) -> Kernel:
    """A kernel for what needs none to run."""
    return Kernel(
        name="sim-6.1.0-abcdef",
        kind="sim",
        path=Path("/cache/linux"),
        modules=None,
        version="6.1.0",
        config_hash="0123456789ab",
    )


@pytest.fixture
def inside(tmp_path: Path) -> Callable[..., Ended]:
    return functools.partial(run_inside, tmp_path)


@pytest.fixture
def user_folder() -> Iterator[Path]:
    """A folder of user nobody, with one named `results`; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="netesto-test-"))
    (folder / "results").mkdir()
    for path in (folder, folder / "results"):
        shutil.chown(path, "nobody")
    yield folder
    shutil.rmtree(folder)


def packages(module: ModuleType) -> Path:
    """The folder that a package was imported from."""
    assert module.__file__ is not None
    return Path(module.__file__).parents[1]


@pytest.fixture
def as_nobody(user_folder: Path) -> Callable[..., process.CompletedCommand]:
    """Run a command in a guest as an ordinary user without any right, started by the
    distribution's Python: root's own may be closed to others."""
    kernel = kernel_or_reason("uml")
    if os.geteuid() != 0:
        pytest.skip("an ordinary user already: every test here says the same")
    starter = str(Path(__file__).with_name("starter.py"))
    user = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "/usr/bin/python3")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(user_folder),
        "PYTHONPATH": f"{packages(netesto)}:{packages(cattrs)}",
    }
    tried = process.run(
        [*user, "-c", "import netesto.lab.guest"], env=environment, timeout=60, check=False
    )
    if tried.status != 0:
        pytest.skip(f"user nobody cannot read this checkout: {tried.last_lines(1)}")

    def run(*argv: str) -> process.CompletedCommand:
        return process.run(
            [*user, starter, kernel.kind, *argv],
            env=environment,
            cwd=user_folder / "results",
            timeout=PATIENCE_S,
            check=False,
        )

    return run
