"""The sampler process, for tests of its callers."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from netesto.collectors.sampler import Sampler, launched
from netesto.system import process

# Python starts in a tenth of a second; where many compute, it takes its time.
DEADLINE_S = 60


@contextlib.contextmanager
def running_sampler() -> Iterator[Sampler]:
    """One that takes orders. It is not forked: other tests leave threads behind, and a fork of a
    process with threads may hang."""
    with contextlib.closing(Sampler(*launched())) as sampler:
        name = Path(f"/proc/{sampler.pid}/comm")
        is_ready = process.wait_until(
            lambda: name.read_text() == "netesto-sampler\n", timeout=DEADLINE_S
        )
        assert is_ready
        yield sampler
