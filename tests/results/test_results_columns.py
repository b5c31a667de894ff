import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from netesto.language import dimensions
from netesto.report import compare
from netesto.results import fields
from netesto.results.columns import COLUMNS, canonical, column

ROOT = Path(__file__).parents[2]
DEFAULT = fields.load(ROOT / "fields.txt")
# Keys of a group's file, for which the default fields.txt has no column.
KEYS_ONLY = {"fullHost", "fullServer", "unacked", "rateMean", "retransPktsReason"}
UNITS = ("segments", "Mbit/s", "µs", "ms", "s", "%", "bytes")


def test_columns_of_fields_txt_are_those_of_the_table():
    assert set(DEFAULT.names) == {each.name for each in COLUMNS.values()} - KEYS_ONLY


@pytest.mark.parametrize("name", [each.name for each in COLUMNS.values() if each.unit])
def test_fields_txt_begins_with_the_unit_of_the_table(name):
    line = re.search(rf"^{re.escape(name)}:\w+ +# (.*)$", DEFAULT.text, re.MULTILINE)
    assert line is not None
    assert line[1].startswith(column(name).unit)


@pytest.mark.parametrize("name", DEFAULT.names)
def test_units_of_assert_are_those_of_the_table(name):
    known = column(name)
    unit = dimensions.counted(name).unit
    assert unit in {known.unit or known.page_unit, ""}


@pytest.mark.parametrize(
    "name", [each.name for each in COLUMNS.values() if each.unit in {"Mbit/s", "µs", "ms", "s"}]
)
def test_assert_knows_the_unit_of_every_rate_and_time(name):
    assert dimensions.counted(name).unit == column(name).unit


def test_measures_of_compare_are_columns_of_which_more_or_less_is_better():
    assert {name: column(name).better for name in compare.MEASURES} == {
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


def test_column_of_either_spelling_is_the_same():
    assert column("rx_frames") is column(canonical("rx_frames"))


def test_column_that_nobody_knows_comes_from_the_script():
    assert (column("cable").by, column("cable").is_measured) == ("script", False)


NEW = """\
    _socket("segments", "segments", lambda g: g.total(lambda s: s.segments_out), better="less"),
"""
ASKS = """
from pathlib import Path

from netesto.report import compare, comparepage, index
from netesto.results import aggregate, fields
from results import samples

columns = fields.load(Path("fields.txt"))
flows = [samples.instance(1, client_samples=(samples.sample(1.0, segments_out=1234),))]
group = samples.values(samples.group(*flows))
row = aggregate.row(columns, [group], exp=12)
shown = {each.name: each for each in index.columns([row])}["segments"]
found = compare.compare_rows([row], [row], compare.Request(measures=["segments"]))
print(group["segments"], row["segments"], columns.kinds()["segments"], shown.unit)
print(comparepage.table(found, found.judged).rows[0].cells[0].text)
"""


def test_new_column_is_a_line_of_the_table_and_one_of_fields_txt(tmp_path):
    shutil.copytree(ROOT / "netesto", tmp_path / "netesto")
    table = tmp_path / "netesto" / "results" / "columns.py"
    table.write_text(table.read_text().replace(")  # fmt: skip\n\nCOLUMNS", f"{NEW})\n\nCOLUMNS"))
    (tmp_path / "fields.txt").write_text(DEFAULT.text + "segments:sum  # segments that were sent\n")
    found = subprocess.run(
        [sys.executable, "-c", ASKS],
        cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{ROOT / 'tests'}"}, text=True,
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert found.stdout.splitlines() == ["1234 1234.0 number segments", "segments (segments)"]
