"""In these tests the docstring is the script: fixtures run, parse or check it.

`asked`     runs it and has the calls of the port
`tree`      its tree
`findings`  what check says of it, as `line: message`
`dry`       the lines of its dry run as JSON objects
"""

import inspect
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from language_asked import LIBRARY, Asked, run
from language_plans import planned

from netesto.language import ast
from netesto.language.check import check
from netesto.language.dryrun import Printer
from netesto.language.parser import parse
from netesto.language.plan import Head, Plan
from netesto.language.spool import StepSpool


@pytest.fixture(autouse=True)
def _plans_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Those of a test, at its end."""
    made: list[Plan] = []
    make = Plan.__init__

    def noted(self: Plan, head: Head, spool: StepSpool) -> None:
        make(self, head, spool)
        made.append(self)

    monkeypatch.setattr(Plan, "__init__", noted)
    yield
    for each in made:
        each.close()


def script_of(request: pytest.FixtureRequest) -> str:
    return inspect.cleandoc(request.function.__doc__) + "\n"


@pytest.fixture
def asked(request: pytest.FixtureRequest) -> Asked:
    port = Asked()
    run(script_of(request), port)
    return port


@pytest.fixture
def tree(request: pytest.FixtureRequest) -> ast.Script:
    return parse(script_of(request), file="test.nts")


@pytest.fixture
def dry(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    lines: list[str] = []
    printer = Printer(lines.append, form="json")
    printer.finish(planned(script_of(request), watch=printer.show).head)
    return [json.loads(line) for line in lines]


@pytest.fixture
def findings(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    path = tmp_path / "test.nts"
    path.write_text(script_of(request))
    found = check([path], library_path=[LIBRARY], definitions={"given": "1"})
    return [
        f"{each.place.line}:{each.place.column}: {each.severity}: {each.message}".replace(
            f"{tmp_path}/", ""
        )
        for each in found
    ]


@pytest.fixture
def run_with() -> Any:
    """Runs a text with a counter, columns or options of its own."""

    def runs(
        text: str, columns: Mapping[str, str] | None = None, counter: int = 0, **options: Any
    ) -> Asked:
        port = Asked(columns, counter)
        run(inspect.cleandoc(text) + "\n", port, **options)
        return port

    return runs
