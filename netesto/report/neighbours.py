"""The experiments before and after one, and the links between their pages."""

import re
from dataclasses import dataclass
from pathlib import Path

from netesto.results import durable, store

PAGE = "exp.html"

# The first line of a page names its neighbours, so that its first bytes show if they are right.
_LOOK_BYTES = 200
_MARK = re.compile(r"<!-- neighbours (\d*) (\d*) -->")
_NAVIGATION = re.compile(r"<!-- navigation -->.*?<!-- /navigation -->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The numbers of the experiments before and after; None without one."""

    before: int | None
    after: int | None

    @property
    def mark(self) -> str:
        return f"<!-- neighbours {_text(self.before)} {_text(self.after)} -->"

    @property
    def navigation(self) -> str:
        """The links of a page in the folder of its experiment."""
        before, after = self.before, self.after
        links = [
            f'<a rel="prev" href="../{before}/{PAGE}">← {before}</a>' if before is not None else "",
            f'<a href="../{PAGE}">All experiments</a>',
            f'<a rel="next" href="../{after}/{PAGE}">{after} →</a>' if after is not None else "",
        ]
        shown = "\n".join(filter(None, links))
        return f"<!-- navigation -->{shown}<!-- /navigation -->"


def _text(number: int | None) -> str:
    return "" if number is None else str(number)


def of(exp: int, experiments: list[int]) -> Neighbours:
    """The neighbours of `exp` among `experiments`, which are in order."""
    return Neighbours(
        before=max((other for other in experiments if other < exp), default=None),
        after=min((other for other in experiments if other > exp), default=None),
    )


def relink(folder: Path) -> None:
    """Update the links of the pages in a results folder whose neighbours have changed. Imported
    experiments have pages on request: those without one are no neighbours."""
    numbers = [exp for exp in store.experiments(folder) if (folder / str(exp) / PAGE).is_file()]
    for before, exp, after in zip([None, *numbers], numbers, [*numbers[1:], None], strict=False):
        path = folder / str(exp) / PAGE
        wanted = Neighbours(before, after)
        if wanted.mark not in _beginning(path):
            page = path.read_text(encoding="utf-8")
            # The replacements hold no backslash, which `sub` would interpret.
            page = _MARK.sub(wanted.mark, page, count=1)
            page = _NAVIGATION.sub(wanted.navigation, page, count=1)
            durable.replace(path, page, lasting=False)


def _beginning(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_LOOK_BYTES).decode(errors="replace")
