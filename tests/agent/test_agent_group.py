"""When the agents of a lab begin to take samples."""

import itertools

import pytest

from netesto.agent.group import PREPARATION_S, preparation_s


def test_hosts_of_a_small_lab_begin_together():
    assert {preparation_s(f"h{number}", 20) for number in range(1, 21)} == {PREPARATION_S}


def test_hosts_of_a_large_lab_begin_one_after_the_other():
    found = sorted(preparation_s(f"h{number}", 200) for number in range(1, 201))
    assert (found[0], found[-1]) == pytest.approx((PREPARATION_S, 0.55), abs=0.01)
    assert max(after - before for before, after in itertools.pairwise(found)) < 0.02
