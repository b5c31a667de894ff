"""The raw samples of sockets as arrays."""

import socket
import zlib
from ipaddress import ip_address
from pathlib import Path

import numpy as np
import pytest

from netesto.errors import ResultsError
from netesto.results import sockets

STORED = Path(__file__).parents[1] / "collectors" / "fixtures" / "sockets-linux-6.18.bin.gz"


def test_columns_are_those_of_the_kernel():
    samples = sockets.read(STORED)
    assert list(samples["tcpi_snd_cwnd"][:4]) == [10, 13, 10, 16]


def test_times_are_in_the_middle_of_each_request():
    assert list(np.round(sockets.times_s(sockets.read(STORED))[:4], 4)) == [
        1000.0001,
        1000.0001,
        1000.2001,
        1000.2001,
    ]


def test_a_file_that_was_cut_off_has_the_samples_before(tmp_path: Path):
    cut = tmp_path / "sockets.bin.gz"
    cut.write_bytes(STORED.read_bytes()[:-300])
    found = sockets.read(cut)
    assert 0 < len(found) < len(sockets.read(STORED))
    assert (found == sockets.read(STORED)[: len(found)]).all()


@pytest.mark.parametrize("data", [b"", b"text", zlib.compress(b"{}\n", wbits=31)])
def test_another_file_is_named(data: bytes, tmp_path: Path):
    path = tmp_path / "sockets.bin.gz"
    path.write_bytes(data)
    with pytest.raises(ResultsError, match=r"sockets\.bin\.gz: not a file of socket samples"):
        sockets.read(path)


@pytest.mark.parametrize(
    ("family", "text", "expected"),
    [
        (socket.AF_INET, "10.0.0.1", "10.0.0.1"),
        (socket.AF_INET6, "fd00::1", "fd00::1"),
        (socket.AF_INET6, "::ffff:10.0.0.1", "10.0.0.1"),
    ],
)
def test_addresses_are_of_the_family_that_the_packets_have(family: int, text: str, expected: str):
    sample = sockets.read(STORED)[:1].copy()
    sample["idiag_family"] = family
    for end in ("idiag_src", "idiag_dst"):
        sample[end] = np.void(socket.inet_pton(family, text).ljust(16, b"\0"))
    assert sockets.addresses(sample[0]) == (ip_address(expected), ip_address(expected))
