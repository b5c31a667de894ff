"""Templates to HTML. Everything that goes in is escaped, unless a template says otherwise."""

import functools
from pathlib import Path

import jinja2
from markupsafe import Markup

_FOLDER = Path(__file__).with_name("templates")


def render(template: str, **values: object) -> str:
    """The template of that name with these values."""
    return _environment().get_template(template).render(**values)


@functools.cache
def _environment() -> jinja2.Environment:
    """One for all pages: it keeps the templates that it has compiled."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["include_text"] = _text
    return environment


def _text(name: str) -> Markup:
    """A file of ours (style, script) as it is: a page holds all it needs."""
    return Markup((_FOLDER / name).read_text(encoding="utf-8"))  # noqa: S704 - our own file
