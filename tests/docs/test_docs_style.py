"""What docs/style.md says of names and remedies."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "netesto"

# A remedy is a sentence, or a command to copy. A sentence may begin with an option, a setting, a
# file, or something in parentheses or backticks.
REMEDY = re.compile(r"[A-Z`(\x00-]|netesto |sudo |\w+=|(?:fields.txt|exp.csv) ", flags=re.ASCII)


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    """What the package is made of, each with its file."""
    return [
        (str(path.relative_to(PACKAGE)), node)
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
    ]


def test_a_class_name_stands_for_one_thing_in_the_whole_package():
    places: dict[str, list[str]] = defaultdict(list)
    for file, node in nodes():
        if isinstance(node, ast.ClassDef):
            places[node.name].append(file)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


# Participles, pronouns and metaphors that do not say what a thing is.
UNCLEAR = re.compile(
    "_?(told|there|brought|others|asked|said|heard|meant|seen|begun|heed|spoil|come_first)"
)


def defined(node: ast.AST) -> Iterator[str]:
    """The names of the function, class, fields or attribute that a node defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.ClassDef(name=name, body=body):
            yield name
            for each in body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    yield each.target.id
        case ast.Attribute(attr=name, ctx=ast.Store()):
            yield name


def test_names_say_what_things_are():
    names = [(file, name) for file, node in nodes() for name in defined(node)]
    assert [(file, name) for file, name in names if UNCLEAR.fullmatch(name)] == []


def beginning(value: ast.expr) -> str:
    """The text that a remedy begins with; a NUL stands for what only the run knows."""
    match value:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=[first, *_]):
            return beginning(first)
        case ast.BinOp(left=left):
            return beginning(left)
        case _:
            return "\0"


def remedies() -> Iterator[tuple[str, str]]:
    for file, node in nodes():
        if isinstance(node, ast.keyword) and node.arg in {"remedy", "otherwise"}:
            yield f"{file}:{node.value.lineno}", beginning(node.value)


def test_remedies_are_sentences_or_commands_to_copy():
    assert [each for each in remedies() if each[1] and not REMEDY.match(each[1])] == []
