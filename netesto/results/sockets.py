"""The raw files of socket samples as arrays of numpy, for your own scripts.

    >>> samples = sockets.read(Path("results/1/raw/client1/sockets.bin.gz"))
    >>> flow = samples[samples["idiag_dport"] == 13100]
    >>> plot(sockets.times_s(flow), flow["tcpi_snd_cwnd"])

docs/data-formats.md lists the fields.
"""

import zlib
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from netesto.errors import ResultsError
from netesto.files import compressed, jsontext
from netesto.measured import address_of
from netesto.model import Address

Samples: TypeAlias = np.ndarray[Any, np.dtype[np.void]]

_IPV4 = 2


def read(path: Path) -> Samples:
    """The samples in a `sockets.bin.gz`, one record each; all complete ones of a truncated file.
    ResultsError if it is not such a file."""
    try:
        content = compressed.read(path)
        header, _, records = content.partition(b"\n")
        dtype = np.dtype(jsontext.parse(header)["dtype"])
        return np.frombuffer(records, dtype, len(records) // dtype.itemsize)
    except (OSError, zlib.error, *jsontext.INVALID) as error:
        raise ResultsError(f"{path}: not a file of socket samples: {error}") from error


def times_s(samples: Samples) -> np.ndarray[Any, np.dtype[np.float64]]:
    """When the samples were taken, UTC seconds on the clock of the host."""
    before_s = samples["before_s"]
    return np.asarray(before_s + (samples["after_s"] - before_s) / 2)


def addresses(sample: np.void) -> tuple[Address, Address]:
    """The local and the peer's address of a sample. IPv4 over an IPv6 socket (`::ffff:10.0.0.1`)
    is an address of IPv4."""
    local, peer = (
        address_of(sample[each].tobytes(), is_ipv4=sample["idiag_family"] == _IPV4)
        for each in ("idiag_src", "idiag_dst")
    )
    return local, peer
