"""Qdiscs that a kernel of guests has, and few others, put back as an agent does."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from guests import Ended
from needs import kernel_or_reason


@pytest.mark.uml
def test_qdiscs_are_created_again_with_all_their_options(inside: Callable[..., Ended]):
    script = str(Path(__file__).with_name("recreating.py"))
    ended = inside(kernel_or_reason("uml"), [sys.executable, script])
    assert ended.status == 0, ended.stderr
    pairs = json.loads(ended.stdout)
    assert [after for _, after in pairs] == [before for before, _ in pairs]
