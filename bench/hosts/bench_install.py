"""How long `netesto hosts install` takes for ten bare machines, and where nothing is to do."""

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from worlds import machines

NAMES = [f"b{number}" for number in range(1, 11)]
LIMITS_S = {"from a bundle": 90.0, "again": 5.0}

with (
    tempfile.TemporaryDirectory() as folder,
    machines(*NAMES, folder=Path(folder), bare=True) as world,
):
    world.controller.run(["netesto", "hosts", "bundle", "-o", "agents.zip"])
    for what, limit_s in LIMITS_S.items():
        begun = time.monotonic()
        words = ["netesto", "hosts", "install", "--bundle", "agents.zip", *NAMES]
        world.controller.run(words, timeout=200)
        took_s = time.monotonic() - begun
        print(
            f"{len(NAMES)} hosts, {what}: {took_s:.1f} s of {limit_s:g} s: {took_s / limit_s:.2f}"
        )
