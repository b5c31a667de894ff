import functools
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from netesto.report import page
from netesto.results import derive, fields, manifest
from netesto.results.evidence import ExperimentEvidence
from netesto.results.store import Store
from results import samples

FIELDS = fields.load(Path(__file__).parents[2] / "fields.txt")


class Page(HTMLParser):
    """A page as tests read it: text, links, ids, tags that were opened and not closed."""

    VOID = frozenset({"meta", "link", "input", "br", "hr", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.links: list[str] = []
        self.ids: list[str] = []
        self.texts: list[str] = []
        self.unclosed: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids += [found["id"]] if found.get("id") else []
        self.links += [found[key] for key in ("href", "src", "xlink:href") if found.get(key)]
        self.unclosed += [] if tag in self.VOID else [tag]

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.unclosed.pop()

    def handle_endtag(self, tag):
        assert self.unclosed.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "two-flows") as opened:
        yield opened


def put(store: Store, evidence: ExperimentEvidence, *, exp: int | None = None, **values) -> Path:
    """Write an experiment as a run does (derived files, page, rows), and return its folder."""
    number = store.counter() + 1 if exp is None else exp
    store.take(max(store.counter(), number))
    groups = tuple(
        replace(each, request=replace(each.request, exp=number)) for each in evidence.groups
    )
    renumbered = replace(evidence, exp=number, groups=groups)
    told = samples.manifest(renumbered, **values)
    folder = store.begin(number)
    manifest.write(told, folder / "manifest.json")
    rows = derive.derive(folder, renumbered, told, FIELDS)
    page.write(folder)
    store.append(rows)
    return store.complete(number)


@pytest.fixture
def publish(store) -> Callable[..., Path]:
    return functools.partial(put, store)


@pytest.fixture(scope="session")
def two(tmp_path_factory) -> Path:
    """The folder of an experiment of two flows, for tests that do not change it."""
    with Store(tmp_path_factory.mktemp("two")) as opened:
        return put(opened, samples.two_flows(), files={})


@pytest.fixture
def read() -> Callable[[Path], Page]:
    def parse(folder: Path) -> Page:
        return Page((folder / "exp.html").read_text())

    return parse
