"""Templates to HTML. Everything that goes in is escaped, unless a template says otherwise."""

import functools
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files

import jinja2
from markupsafe import Markup

from netesto.printable import printable

# Of a table of more rows a page makes elements for those in view only: a browser takes seconds for
# the elements of some ten thousand.
ROWS_MAX = 1000

# Characters that no reader sees and that can change what is seen: controls but for tabs and ends of
# lines, what turns the direction of writing, and bytes of file names that are no text.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def render(template: str, **values: object) -> str:
    """The template of that name with these values. Control characters in them can be seen."""
    return visible(_environment().get_template(template).render(**values))


def visible(text: str) -> str:
    """As a terminal shows it: ␛ for an escape. A page of many megabytes is searched faster so."""
    return _UNSEEN.sub(lambda found: printable(found[0]), text)


@functools.cache
def _environment() -> jinja2.Environment:
    """One for all pages: it keeps the templates that it has compiled."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("netesto.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["include_text"] = _text
    return environment


def widest(columns: Iterable[Sequence[str]]) -> str:
    """For each column of texts the row with its longest, which keeps the column as wide as it
    needs."""
    return " ".join(str(max(range(len(each)), key=lambda at: len(each[at]))) for each in columns)


def _text(name: str) -> Markup:
    """A file of the package (style, script) as it is: a page holds all it needs."""
    text = files("netesto.report").joinpath("templates", name).read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704 - our own file
