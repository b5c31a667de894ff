import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from netesto.language import dimensions
from netesto.report import compare
from netesto.results.columns import COLUMNS, column
from netesto.schema.columns import DESCRIPTIONS, canonical
from netesto.units import UnitKind

ROOT = Path(__file__).parents[2]


def test_every_column_that_is_described_is_computed_or_from_a_script_and_the_other_way_round():
    assert COLUMNS.keys() == DESCRIPTIONS.keys()


def test_every_column_says_what_it_means():
    assert [each.name for each in DESCRIPTIONS.values() if not each.meaning + each.details] == []


@pytest.mark.parametrize(
    ("name", "kind", "factor", "unit"),
    [
        ("rate", UnitKind.RATE, "1e6", "Mbit/s"),
        ("p99Latency", UnitKind.TIME, "1e-6", "µs"),
        ("synSkew", UnitKind.TIME, "1e-3", "ms"),
        ("dur", UnitKind.TIME, "1", "s"),
        ("client-tx-bytes", UnitKind.SIZE, "1", "bytes"),
        ("effMss", UnitKind.SIZE, "1", "bytes"),
        ("localBuffer", UnitKind.SIZE, "1", "bytes"),
        ("cwnd", UnitKind.NUMBER, "1", ""),
        ("cable", UnitKind.NUMBER, "1", ""),
    ],
)
def test_assert_counts_a_column_in_its_unit(name, kind, factor, unit):
    assert dimensions.counted(name) == (kind, Decimal(factor), unit)


def test_measures_of_compare_are_columns_of_which_more_or_less_is_better():
    better = {
        "rate": "more", "rateMin": "more", "fairness": "more",
        "rtt": "less", "pingRtt": "less", "meanLatency": "less", "p50Latency": "less",
        "p90Latency": "less", "p99Latency": "less", "p999Latency": "less", "p9999Latency": "less",
        "maxLatency": "less", "retransSegs%": "less", "retransPkts%": "less",
        "retrans_total": "less", "localCpu": "less", "remoteCpu": "less",
        "localCores": "less", "remoteCores": "less",
        "udpLost": "less", "udpLost%": "less", "udpJitter": "less", "oneWayMean": "less",
        "pingIdle": "less", "pingP50": "less", "pingP95": "less", "pingMax": "less",
        "pingAfter": "less", "pingLost": "less", "rpm": "more",
        "queueDelay": "less",
        "reverseRate": "more", "transactionRate": "more", "p99999Latency": "less",
        "unfinished": "less",
        "pktRetrans": "less", "pktTimeouts": "less", "pktSpurious": "less", "pktRtt": "less",
    }  # fmt: skip
    assert {name: column(name).better for name in compare.MEASURES if name in better} == better


def test_column_of_either_spelling_is_the_same():
    assert column("rx_frames") is column(canonical("rx_frames"))


def test_column_that_nobody_knows_comes_from_the_script():
    assert (column("cable").by, column("cable").is_measured) == ("script", False)


NEW = """\
    _socket("segments", lambda g: g.total(lambda s: s.segments_out), better="less"),
"""
DESCRIPTION = """\
        Description("segments", "sum", "segments", "segments that were sent", row="always"),
"""
ASKS = """
from pathlib import Path

from netesto.report import compare, comparepage, index
from netesto.results import aggregate, fields, table
from results import samples

columns = fields.load(Path("fields.txt"))
flows = [samples.instance(1, client_samples=(samples.sample(1.0, segments_out=1234),))]
group = samples.values(samples.group(*flows))
row = aggregate.row(columns, [group], exp=12)
shown = {each.name: each for each in index.columns([row])}["segments"]
found = compare.compare_rows([row], [row], compare.CompareRequest(measures=["segments"]))
print(group["segments"], row["segments"], columns.kinds()["segments"], shown.unit)
print(comparepage.table(found, found.judged).rows[0].cells[0].text)
print(*[each for block in table.blocks([group]) for each in block.rows if each.name == "segments"])
"""


def test_new_column_is_a_description_and_how_it_is_computed(tmp_path):
    # While another process compiles a module there, its bytecode has a name of its own.
    passing = shutil.ignore_patterns("*.pyc.*")
    shutil.copytree(ROOT / "netesto", tmp_path / "netesto", ignore=passing)
    insert(tmp_path / "netesto/schema/columns.py", DESCRIPTION, behind='    "TCP": (')
    insert(tmp_path / "netesto/results/columns.py", NEW, behind="_TABLE: tuple[Column, ...] = (")
    (tmp_path / "fields.txt").write_text("exp:one\nsegments:sum\n")
    found = subprocess.run(
        [sys.executable, "-c", ASKS],
        cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{ROOT / 'tests'}"}, text=True,
        capture_output=True, timeout=500, check=True,
    )  # fmt: skip
    assert found.stdout.splitlines() == [
        "1234 1234.0 number segments",
        "segments (segments)",
        "Row(name='segments', unit='segments', cells=('1234',), marked=(False,))",
    ]


def insert(path: Path, text: str, *, behind: str) -> None:
    path.write_text(path.read_text().replace(f"{behind}\n", f"{behind}\n{text}", 1))
