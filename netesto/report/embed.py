"""Turns an SVG file into a part of a page: with unique names, the page's colours, and tooltips."""

import re
from html import escape

from markupsafe import Markup

from netesto.report import looks

_OUTSIDE = re.compile(r"<\?xml.*?\?>\s*|<!DOCTYPE.*?>\s*|<style.*?</style>", re.DOTALL)
_ROOT = re.compile(r'(<svg\b[^>]*?) width="[^"]*" height="[^"]*"([^>]*>)')
_FLOW = re.compile(r'<g id="(?:sum|(?:flow|median|band|count|marks)-(\d+)(?:-\d+)?)">')


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
