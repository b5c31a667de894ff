"""Adds or changes a host in a hosts file, and keeps the rest of the user's text."""

import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

from netesto.errors import UsageError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ANY_TABLE = re.compile(r"^\s*\[", re.MULTILINE)


def with_host(text: str, path: Path, *, name: str, agent: str, addresses: Sequence[str]) -> str:
    """`text`, of a hosts file, in which the host `name` has this agent. Addresses that the file has
    for it are kept: the user may have chosen another network for the traffic.

    UsageError, with what to write, if the file cannot be changed without loss.
    """
    table: dict[str, object] = {"agent": agent, "addresses": [*addresses]}
    if not addresses:
        del table["addresses"]
    document = _parsed(text)
    existing = None if document is None else document.get(name)
    if isinstance(existing, dict):
        # Without the key, the agent is reached by the name of the table.
        if existing.get("agent", f"ssh://{name}") == agent:
            return text
        table = {**table, **existing, "agent": agent}
    written = _written(name, table)
    if document is not None:
        made = _replaced(text, name, written) if existing is not None else _appended(text, written)
        if _parsed(made) == {**document, name: table}:
            return made
    raise UsageError(
        f"{path}: cannot be changed without loss",
        remedy=f"Write in it:\n{written}".rstrip(),
    )


def _parsed(text: str) -> dict[str, object] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _written(name: str, table: dict[str, object]) -> str:
    """A table as TOML: a text or a list of texts is the same in JSON."""
    key = name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
    lines = [f"{each} = {json.dumps(value, ensure_ascii=False)}" for each, value in table.items()]
    return "\n".join([f"[{key}]", *lines, ""])


def _appended(text: str, written: str) -> str:
    body = text if not text or text.endswith("\n") else f"{text}\n"
    return f"{body}\n{written}" if body.strip() else f"{body}{written}"


def _replaced(text: str, name: str, written: str) -> str:
    """The line of the agent within the table of `name` is the one in `written`."""
    key = re.escape(name)
    header = rf"^[ \t]*\[[ \t]*(?:{key}|\"{key}\"|'{key}')[ \t]*\].*\n?"
    found = re.search(header, text, re.MULTILINE)
    if found is None:
        return text
    following = _ANY_TABLE.search(text, found.end())
    end = following.start() if following else len(text)
    line = next(line for line in written.splitlines() if line.startswith("agent = "))
    # A comment after the value stays.
    body, count = re.subn(
        r"^(\s*)agent\s*=\s*(?:\"[^\"\n]*\"|'[^'\n]*')",
        lambda match: match[1] + line,
        text[found.end() : end],
        count=1,
        flags=re.MULTILINE,
    )
    if not count:
        body = f"{line}\n{body}"
    return text[: found.end()] + body + text[end:]
