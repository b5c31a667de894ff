"""Grounds: what differs between them is in one place."""

import ast
from collections.abc import Iterator
from pathlib import Path

from netesto import grounds
from netesto.grounds import GROUNDS

PACKAGE = Path(grounds.__file__).parent
# No other thing has these names; "lab" and "hosts" are also commands, keys of JSON and so on.
_UNMISTAKABLE = {"uml", "sim"}


def decided_by_a_name(path: Path) -> Iterator[str]:
    """Where a module compares something that is called a ground with a name of one, or has a name
    that only a ground has."""
    source = path.read_text(encoding="utf-8")
    if not any(word in source for word in ("ground", *_UNMISTAKABLE)):
        return
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=value) if value in _UNMISTAKABLE:
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}: {value!r}"
            case ast.Compare() | ast.Match() | ast.Dict() | ast.Subscript():
                text = ast.unparse(node)
                if "ground" in text and any(repr(name) in text for name in GROUNDS):
                    yield f"{path.relative_to(PACKAGE)}:{node.lineno}: {text}"


def test_no_other_module_compares_names_of_grounds():
    found = [
        each
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != Path(grounds.__file__)
        for each in decided_by_a_name(path)
    ]
    assert found == []


def test_a_comparison_with_the_name_of_a_ground_would_be_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    path = tmp_path / "module.py"
    path.write_text('if run.ground == "hosts":\n    pass\nUSUAL = "uml"\nKEY = found["hosts"]\n')
    assert list(decided_by_a_name(path)) == [
        "module.py:1: run.ground == 'hosts'", "module.py:3: 'uml'",
    ]  # fmt: skip


def test_grounds_are_found_by_their_names_alone():
    assert [grounds.find(each.name) for each in GROUNDS.values()] == list(GROUNDS.values())
    assert [grounds.find(name) for name in ("imported", "", None)] == [None, None, None]
