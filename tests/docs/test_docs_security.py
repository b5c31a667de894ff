"""docs/security.md names the test that proves each line; each test must exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "security.md"

# A row whose last cell names tests, as pytest does: `folder/test_file.py::test_name`.
ROW = re.compile(r"^\|(?P<claim>[^|]+)\|(?P<proof>[^|]+)\|$")
TEST = re.compile(r"`(?P<file>[\w/]+\.py)::(?P<name>\w+)`")
HEADINGS = {"protection", "---"}


def rows() -> list[tuple[str, str]]:
    """What is claimed, and what proves it."""
    found = map(ROW.match, DOCUMENT.read_text().splitlines())
    cells = [(match["claim"].strip(), match["proof"].strip()) for match in found if match]
    return [(claim, proof) for claim, proof in cells if claim not in HEADINGS]


def names_in(file: str) -> set[str]:
    path = ROOT / "tests" / file
    if not path.is_file():
        return set()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_every_line_names_a_test_or_says_that_there_is_none():
    without = [claim for claim, proof in rows() if not TEST.search(proof) and proof != "not tested"]
    assert (len(rows()) > 20, without) == (True, [])


def test_every_test_that_is_named_is_there():
    named = [match for _, proof in rows() for match in TEST.finditer(proof)]
    missing = [match[0] for match in named if match["name"] not in names_in(match["file"])]
    assert missing == []
