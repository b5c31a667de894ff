"""A run on real hosts goes on when the network between controller and agents is cut for a while."""

import time
from dataclasses import dataclass

import pytest
from worlds import World

from netesto.system import process

PATIENCE_S = 300

SCRIPT = """\
DO_SERVER host=h1
DO_SERVER host=h2
DO_CLIENT host=h1 server=h2 dur=8
WAIT_FLOWS
PROCESS_EXP
"""


@dataclass(frozen=True, slots=True)
class Cut:
    """The outcome of a run whose management network was cut during a flow."""

    status: int
    is_rejoined: bool
    statuses: tuple[str, ...]


def run_with_cut(world: World, seconds: float) -> Cut:
    controller = world.controller
    out = f"/root/cut-{seconds:g}"
    controller.write("/root/cut.nts", SCRIPT)
    log = controller.folder / f"cut-{seconds:g}.log"
    log.touch()
    options = ["--plain", "--yes", "--no-pages", "--hosts", "h1,h2", "--out", out]
    argv = ["netesto", "run", *options, "/root/cut.nts"]
    with world["h1"].agent("--device", "eth1"), world["h2"].agent("--device", "eth1"):
        run = controller.start(argv, stdout=log)
        try:
            process.wait_until(
                lambda: "#1.1" in log.read_text() or run.poll() is not None, timeout=PATIENCE_S
            )
            world.cut("h1", "management")
            # Not a wait for anything: this long is the fault.
            time.sleep(seconds)
            world.restore("h1", "management")
            status = run.wait(PATIENCE_S)
        finally:
            process.end(run)
    rows = controller.read(f"{out}/exp.csv").splitlines()
    column = rows[0].split(",").index("status")
    statuses = tuple(row.split(",")[column] for row in rows[1:])
    said = "h1: connected again; nothing was lost"
    return Cut(status, said in log.read_text(), statuses)


# The shorter one ends long before the connection counts as lost, though restoring it takes time,
# too.
@pytest.mark.parametrize(("seconds", "is_rejoined"), [(0.2, False), (6, True)])
def test_a_cut_of_the_management_network_loses_nothing(
    world: World, seconds: float, is_rejoined: bool
):
    assert run_with_cut(world, seconds) == Cut(0, is_rejoined, ("ok", "ok"))
