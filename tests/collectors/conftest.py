"""Verbatim output of real tools, and ways to run a collector for as long as a fact needs."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "fixtures"


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return FOLDER


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine on which no tool is installed."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
