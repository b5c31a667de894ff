"""The tables of the manual that the code decides. `make docs` (python tests/docs/tables.py) writes
them into their pages."""

import re
from pathlib import Path

from netesto.language.commands import DO_CLIENT_ARGUMENTS

PAGE = Path(__file__).parents[2] / "docs" / "language.md"

_DO_CLIENT = re.compile(
    r"(?<=\n### DO_CLIENT\n)(.*?\n\|---\|---\|---\|\n)(?:\|[^\n]*\n)+", re.DOTALL
)


def with_tables(page: str) -> str:
    """The text of docs/language.md with its table of DO_CLIENT's arguments."""
    rows = (
        f"| `{each.name}` | {'required' if each.required else each.default or ''} |"
        f" {each.sentence} |\n".replace("|  |", "| |")
        for each in DO_CLIENT_ARGUMENTS
    )
    table = "".join(rows)
    text, count = _DO_CLIENT.subn(lambda match: match[1] + table, page, count=1)
    assert count, "no table of DO_CLIENT"
    return text


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
