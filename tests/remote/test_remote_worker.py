"""The recipes for images of a worker: they have what a worker needs, and can be built where podman
or apptainer is."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from netesto.run import onworker
from netesto.system import process
from netesto.traffic import TOOLS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "remote" / "worker"

# An image is fetched, and packages are installed.
BUILD_S = 900

# What the image is for: the versions of its traffic tools.
VERSIONS = """
from netesto.agent import tools
from netesto.traffic import TOOLS
print(dict(sorted(tools.versions(TOOLS).items())))
"""


def installed() -> dict[str, str]:
    """The packages of an image, each with the pinned version."""
    text = (FOLDER / "install").read_text()
    words = text.partition("--no-install-recommends")[2].partition("rm -rf")[0].split()
    pairs = [word.partition("=") for word in words if word != "\\"]
    return {name: version for name, _, version in pairs}


def recipe(name: str) -> str:
    """A recipe without its comments."""
    text = (FOLDER / name).read_text()
    return "".join(line for line in text.splitlines(keepends=True) if line[0] != "#")


def test_an_image_has_every_program_that_a_guest_needs():
    packages = set(onworker.PROGRAMS.values())
    assert packages | {"tcpdump", "iputils-ping", "procps", "user-mode-linux"} <= set(installed())


def test_the_versions_of_traffic_tools_are_pinned_and_no_others():
    pinned = {name: version for name, version in installed().items() if version}
    assert pinned == {"iperf3": "3.12-*", "netperf": "2.7.0-*"}
    # The third one is netesto's own.
    assert {*pinned, "native"} == set(TOOLS)


@pytest.mark.parametrize("name", ["Containerfile", "netesto-worker.def"])
def test_what_a_recipe_takes_from_the_checkout_is_there(name):
    taken = re.findall(r"(?:remote|dist)/\S+", recipe(name))
    assert taken == ["dist/netesto-*.whl", "remote/worker/install"]
    assert (FOLDER / "install").stat().st_mode & 0o111


@pytest.mark.parametrize(
    ("name", "starts"),
    [
        ("Containerfile", 'ENTRYPOINT ["netesto", "worker"]'),
        ("netesto-worker.def", 'exec netesto worker "$@"'),
    ],
)
def test_an_image_starts_a_worker(name, starts):
    text = recipe(name)
    assert (text.splitlines()[-1].strip(), "/tmp/worker/install" in text) == (starts, True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a wheel."""
    shutil.copytree(FOLDER, tmp_path / "remote" / "worker")
    argv = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path / "dist")]
    process.run([sys.executable, *argv, str(ROOT)], timeout=BUILD_S)
    return tmp_path


def built(argv: list[str], checkout: Path) -> None:
    """Build an image; skip if its base cannot be fetched."""
    done = process.run(argv, timeout=BUILD_S, cwd=checkout, check=False)
    if done.status != 0 and re.search("lookup|dial tcp|pinging container registry", done.stderr):
        pytest.skip(f"no registry: {done.last_lines(1)}")
    done.checked()


@pytest.fixture
def podman() -> None:
    if shutil.which("podman") is None:
        pytest.skip("no podman on this machine")


@pytest.fixture
def apptainer() -> None:
    if shutil.which("apptainer") is None:
        pytest.skip("no apptainer on this machine")


@pytest.mark.thorough
@pytest.mark.timeout(3 * BUILD_S)
@pytest.mark.usefixtures("podman")
def test_the_container_has_the_pinned_tools(checkout):
    built(
        ["podman", "build", "-t", "netesto-test", "-f", "remote/worker/Containerfile", "."],
        checkout,
    )
    try:
        argv = ["podman", "run", "--rm", "--entrypoint", "python", "netesto-test", "-c", VERSIONS]
        done = process.run(argv, timeout=BUILD_S)
    finally:
        process.run(["podman", "rmi", "netesto-test"], timeout=BUILD_S, check=False)
    assert ("'iperf3': '3.12'" in done.stdout, "'netperf': '2.7.0'" in done.stdout) == (True, True)


@pytest.mark.thorough
@pytest.mark.timeout(3 * BUILD_S)
@pytest.mark.usefixtures("apptainer")
def test_the_image_of_apptainer_has_the_pinned_tools(checkout):
    built(["apptainer", "build", "worker.sif", "remote/worker/netesto-worker.def"], checkout)
    argv = ["apptainer", "exec", str(checkout / "worker.sif"), "python", "-c", VERSIONS]
    done = process.run(argv, timeout=BUILD_S)
    assert ("'iperf3': '3.12'" in done.stdout, "'netperf': '2.7.0'" in done.stdout) == (True, True)
