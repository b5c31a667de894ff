"""The conditions of REQUIRE, and the valid words of each. Pure."""

import re
from collections.abc import Collection, Mapping

from netesto.flowspec import TRAFFIC_TOOLS
from netesto.language import ast, steps
from netesto.language.commands import LOCAL
from netesto.language.scope import MisuseError
from netesto.model import QDISCS
from netesto.text.nearest import hint

_CONDITION = re.compile(r"(\w+)(==|!=|>=|<=|=|<|>)(.*)")
# Things of which a host has several, with their known names; None if others are possible.
SETS: Mapping[str, Collection[str] | None] = {
    "ca": None,
    "qdisc": QDISCS,
    "tool": TRAFFIC_TOOLS,
}
# Things with one number: its form, and a noun for it.
NUMBERS: Mapping[str, tuple[str, str]] = {
    "kernel": (r"[0-9]+(?:\.[0-9]+)*", "the number of a kernel: 6.1"),
    "hosts": (r"[0-9]{1,6}", "a number of hosts: 4"),
}
REQUIREMENTS = (*SETS, *NUMBERS)

_WORD = re.compile(r"[A-Za-z0-9_-]+")


def requirement(word: str, row: ast.LineLayout) -> steps.Requirement:
    """The condition in a word of REQUIRE. MisuseError if it is invalid, or names something that
    does not exist: no host or every host would meet it."""
    match = _CONDITION.fullmatch(word)
    if match is None:
        raise MisuseError(
            f"{word!r} is not a condition", near=(word,), remedy=f"Write: {LOCAL['REQUIRE'].text}"
        )
    what, operator, value = match.groups()
    if what in SETS:
        _check_names(word, what, operator, value)
    elif what in NUMBERS:
        form, meaning = NUMBERS[what]
        if re.fullmatch(form, value) is None:
            raise MisuseError(f"REQUIRE {word}: {value!r} is not {meaning}", near=(word,))
    else:
        listed = f"It knows {', '.join(REQUIREMENTS)}."
        raise MisuseError(
            f"REQUIRE does not know {what}",
            near=(word,),
            remedy=hint(what, REQUIREMENTS, otherwise=listed),
        )
    return steps.Requirement(what=what, operator=operator, value=value, place=row.place(word))


def _check_names(word: str, what: str, operator: str, value: str) -> None:
    if operator not in {"=", "==", "!="}:
        raise MisuseError(
            f"REQUIRE {word}: a host has several {what}s, and none is greater than another",
            near=(word,),
            remedy=f"{what}={value}: every host must have it; {what}!={value}: none may.",
        )
    known = SETS[what]
    for name in value.split(","):
        if _WORD.fullmatch(name) is None:
            raise MisuseError(
                f"REQUIRE {word}: {name!r} is not the name of a {what}",
                near=(word,),
                remedy=f"Separate several by commas: {what}=a,b",
            )
        if known is not None and name not in known:
            listed = f"Known: {', '.join(sorted(known))}."
            raise MisuseError(
                f"REQUIRE {word}: there is no {what} {name}",
                near=(word,),
                remedy=hint(name, known, otherwise=listed),
            )
