"""What other distributions add by entry points; ours and theirs are one mapping."""

from pathlib import Path

import pytest

from netesto.errors import WorldError
from netesto.measured import Counters
from netesto.schema import registered as points
from netesto.schema.registered import AddedPoint, Names, Registered

OWN = Counters(name="own", title="", sentence="", units={"a": "b"}, drawn=("a",), read=dict)

MODULE = """\
from netesto.measured import Counters

def counters(name):
    return Counters(name=name, title="", sentence="", units={"a": "b"}, drawn=("a",), read=dict)

DRIPS, OWN = counters("drips"), counters("own")
"""


@pytest.fixture
def registered(tmp_path, monkeypatch, request):
    """What is registered if a distribution has these entry points, in the lines of its file."""
    monkeypatch.syspath_prepend(tmp_path)
    # Neither the group nor the module is that of an earlier test.
    group, module = f"tests.{tmp_path.name}", f"added_{tmp_path.name.replace('-', '_')}"

    def of(*points: str, content: str = MODULE):
        info = tmp_path / f"{module}-1.dist-info"
        info.mkdir()
        (tmp_path / f"{module}.py").write_text(content)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: drip-tools\nVersion: 1\n")
        lines = (f"{each.replace('MODULE', module)}\n" for each in points)
        (info / "entry_points.txt").write_text(f"[{group}]\n{''.join(lines)}")
        return Registered(group, Counters, [OWN]), Names(group, "auto", "own"), module, group

    return of


def test_entry_points_come_after_ours_in_the_order_of_their_names(registered):
    found, names, _, _ = registered("drips = MODULE:DRIPS")
    assert (list(found), list(found.own), list(names)) == (
        ["own", "drips"], ["own"], ["auto", "own", "drips"],
    )  # fmt: skip
    assert (found["drips"].name, found.provider("drips"), found.provider("own")) == (
        "drips", "drip-tools", "",
    )  # fmt: skip


def test_names_of_entry_points_are_known_without_loading_them(registered):
    _, names, _, _ = registered("drips = MODULE:DRIPS", content="raise RuntimeError")
    assert list(names) == ["auto", "own", "drips"]


@pytest.mark.parametrize(
    ("point", "content", "fault"),
    [
        ("drips = MODULE:DRIPS", "import nothing_like_it", "cannot be loaded: ModuleNotFoundError"),
        ("drips = MODULE:DRIPS", "def (", "cannot be loaded: SyntaxError: invalid syntax"),
        ("drips = MODULE:DROPS", MODULE, "cannot be loaded: AttributeError: module 'MODULE' has"),
        ("drips = MODULE:counters", MODULE, "is not an instance of netesto.measured.Counters"),
        ("drips = MODULE:Counters", MODULE, "is not an instance of netesto.measured.Counters"),
        ("drops = MODULE:DRIPS", MODULE, "has another name: drips"),
        ("own = MODULE:OWN", MODULE, "has the name of another one"),
    ],
)  # fmt: skip
def test_a_broken_entry_point_is_named_with_its_distribution(registered, point, content, fault):
    found, _, module, group = registered(point, content=content)
    with pytest.raises(WorldError) as caught:
        found.load()
    name, _, value = point.replace("MODULE", module).partition(" = ")
    assert caught.value.message.partition(" (added_")[0] == (
        f"Python package drip-tools: the entry point {name} of {group}"
    )
    assert fault.replace("MODULE", module) in caught.value.message
    assert f"({value}) " in caught.value.message
    assert caught.value.remedy == "Repair it, or uninstall the package."


def test_without_entry_points_there_are_ours(tmp_path: Path):
    found = Registered("tests.nobody", Counters, [OWN])
    assert (dict(found), [*Names("tests.nobody", "own")]) == ({"own": OWN}, ["own"])


def test_what_the_process_outside_has_found_is_not_looked_for_again(monkeypatch):
    monkeypatch.setattr(points, "_known", {})
    found = (
        AddedPoint(points.TOOLS, "drip", "drips:TOOL", "drip-tools"),
        AddedPoint(points.COLLECTORS, "drips", "drips:DRIPS", "drip-tools"),
    )
    points.take(found)
    monkeypatch.setattr("importlib.metadata.entry_points", None)
    assert (points.points(), [*Names(points.TOOLS, "netperf")]) == (found, ["netperf", "drip"])
