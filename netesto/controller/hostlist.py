"""The list of hosts of the testing harness: CSV with a header, and comments behind `#`."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from netesto.errors import UsageError
from netesto.files import texts

SUFFIX = ".csv"
# Names of hosts; IPv6 addresses, also with a zone, are among them.
NAME = re.compile(r"[A-Za-z0-9_.:%-]+")
IN_NAMES = "A name has letters, digits, `.`, `:`, `%`, `-` and `_`."
# In quotes `#` begins none.
_COMMENT = re.compile(r'("[^"]*"?)|#.*')
_EXAMPLE = "Its first line names the columns, for example: hostname,rtt,NIC_speed"


@dataclass(frozen=True, slots=True)
class ListedHost:
    """A host: `hostname` is its name for ssh, `alias` its name in scripts ("": the same), `profile`
    what jobs may select. `facts` are the other columns."""

    hostname: str
    alias: str
    profile: str
    facts: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.alias or self.hostname


def read(path: Path) -> list[ListedHost]:
    """The hosts of a list. UsageError, with file and line, if it is invalid."""
    text = texts.read(path, remedy=_EXAMPLE, most_mib=1)
    header: list[str] = []
    found: list[ListedHost] = []
    for number, line in enumerate(text.splitlines(), start=1):
        content = _COMMENT.sub(r"\1", line).strip()
        if not content:
            continue
        cells = [cell.strip() for cell in next(csv.reader([content], skipinitialspace=True))]
        if not header:
            header = cells
            if "hostname" not in header:
                raise UsageError(f"{path}:{number}: no column hostname", remedy=_EXAMPLE)
            continue
        if len(cells) != len(header):
            raise UsageError(
                f"{path}:{number}: {len(cells)} cells, and the header has {len(header)}",
                remedy="Write a cell for each column; it may be empty.",
            )
        values = dict(zip(header, cells, strict=True))
        host = ListedHost(
            values.pop("hostname"), values.pop("alias", ""), values.pop("profile", ""), values
        )
        for name in (host.hostname, host.name):
            if NAME.fullmatch(name) is None:
                raise UsageError(
                    f"{path}:{number}: invalid host name {name!r}",
                    remedy=IN_NAMES,
                )
        if any(host.name == other.name for other in found):
            raise UsageError(
                f"{path}:{number}: {host.name} is listed twice", remedy="Leave one out."
            )
        found.append(host)
    if not found:
        raise UsageError(f"{path}: names no host", remedy=_EXAMPLE)
    return found
