"""What tests need from the machine: skip with the reason, or fail where NETESTO_REQUIRE has it."""

import os
from typing import NoReturn

import pytest

from netesto.grounds import GROUNDS
from netesto.lab import kernels
from netesto.lab.kernels import Kernel


def unmet(need: str, reason: str) -> NoReturn:
    """`need` is a word of NETESTO_REQUIRE, `reason` what is missing."""
    if need in os.environ.get("NETESTO_REQUIRE", "").split(","):
        pytest.fail(f"NETESTO_REQUIRE={need}, but {reason}")
    pytest.skip(f"{need}: {reason}")


def kernel_or_reason(ground: str) -> Kernel:
    """The kernel of a ground."""
    kernel = kernels.find(GROUNDS[ground])
    if kernel is None:
        unmet(ground, str(kernels.missing(GROUNDS[ground])).replace("\n", ": "))
    return kernel
