"""Renders templates to HTML, with SVG files as parts. All values are escaped, unless a template
says otherwise."""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files

import jinja2
from markupsafe import Markup

from netesto.report import looks
from netesto.text.printable import printable

# In a larger table, a page creates elements only for the rows in view: a browser takes seconds for
# those of some ten thousand.
ROWS_MAX = 1000

# Of a page in parts: so many values and literals of its template together.
_PART = 1000

# Invisible characters that can change what is shown: controls except tabs and line ends, changes of
# the writing direction, and bytes of file names that are not text.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)

_OUTSIDE = re.compile(r"<\?xml.*?\?>\s*|<!DOCTYPE.*?>\s*|<style.*?</style>", re.DOTALL)
_ROOT = re.compile(r'(<svg\b[^>]*?) width="[^"]*" height="[^"]*"([^>]*>)')
_FLOW = re.compile(r'<g id="(?:sum|(?:flow|median|band|count|marks|lost)-(\d+)(?:-\d+)?)">')


def render(template: str, **values: object) -> str:
    """The template of that name with these values. Control characters in them are made visible."""
    return visible(_environment().get_template(template).render(**values))


def rendered(template: str, **values: object) -> Iterator[str]:
    """`render` in parts, for a page of many megabytes."""
    stream = _environment().get_template(template).stream(**values)
    # By default each literal and each value of a template is a part.
    stream.enable_buffering(_PART)
    return map(visible, stream)


def visible(text: str) -> str:
    """Visible as in a terminal: ␛ for an escape. This way of searching is faster in a page of many
    megabytes."""
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
    """For each column of texts the row with the longest one, which determines the width of the
    column."""
    sizes = ([*map(len, each)] for each in columns)
    return " ".join(str(each.index(max(each))) for each in sizes)


def _text(name: str) -> Markup:
    """A file of the package (style, script), which pages include, so that they need no other
    files."""
    text = files("netesto.report").joinpath("templates", name).read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704 - our own file


# ---- figures -----------------------------------------------------------------------------


def inline(svg: str, *, name: str, description: str) -> str:
    """`svg` without the parts of a file, and with ids that begin with `name`.

    Its colours become the page's own variables, so that they follow the reader's scheme.
    """
    text = _OUTSIDE.sub("", svg)
    text = _FLOW.sub(_with_data, text)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = text.replace("url(#", f"url(#{name}-").replace('href="#', f'href="#{name}-')
    text = re.sub(r" font-family: sans-serif;?", "", text)
    text = re.sub(r"(?:stroke|fill): #[0-9a-f]{6}", _color, text)
    label = escape(description, quote=True)
    return _ROOT.sub(rf'\1 role="img" aria-label="{label}"\2', text, count=1).strip()


def _with_data(match: re.Match[str]) -> str:
    flow = match[1] if match[1] is not None else "sum"
    return f'{match[0][:-1]} data-flow="{flow}">'


def _color(match: re.Match[str]) -> str:
    what, color = match[0].split(": ")
    return f"{what}: {variable(color)}"


def variable(color: str) -> str:
    """The page's variable for a colour of the graphs; another colour stays."""
    if color in looks.COLORS:
        return f"var(--line-{looks.COLORS.index(color)})"
    names = {looks.INK: "var(--ink)", looks.GRID: "var(--grid)", looks.AXIS: "var(--axis)"}
    return names.get(color, color)


def style() -> Markup:
    """CSS of the lines' colours, in the reader's scheme."""
    light, dark = (
        "".join(f"--line-{i}:{color};" for i, color in enumerate(colors))
        for colors in (looks.COLORS, map(looks.ON_DARK.__getitem__, looks.COLORS))
    )
    return Markup(  # noqa: S704 - our own colours
        f":root {{ {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
    )
