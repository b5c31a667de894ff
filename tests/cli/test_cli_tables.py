"""The table of rows in the terminal."""

import csv
import io

import pytest
from rich.text import Text

from netesto.cli import tables

FLOWS = """\
exp,expName,host,server,test,ca,dur,rate,rtt,cwnd,p50Latency,p99Latency,status,loss,req
1.0,grid,a,b,TCP_STREAM,cubic,5,47.5,47151,192,2,90,ok,0.0,1M+...
1.1,grid,a,b,TCP_STREAM,cubic,5,47.5,47151,192,2,90,ok,0.0,1M+...
2.0,grid,a,b,TCP_STREAM,cubic,5,38.7,14530,50,2,90,ok,0.5,1M
2.1,grid,a,b,TCP_STREAM,cubic,5,38.7,14530,50,2,90,ok,0.5,1M
"""
MIXED = """\
exp,expName,host,server,test,ca,dur,rate,rtt,p50Latency,p99Latency,status
1.0,mix,a,b,TCP_STREAM+...,cubic,5,47.5,47151,20000,90,ok
1.1,mix,a,b,TCP_STREAM,cubic,5,47.4,47151,2,90,ok
1.2,mix,a,b,TCP_RR,cubic,5,0.1,20200,20510,23000,ok
"""


def shown(text: str, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    tables.print_rows(list(csv.DictReader(io.StringIO(text))))
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_table_of_a_sweep_has_its_factors_in_place_of_what_is_always_the_same(capsys):
    assert shown(FLOWS, capsys) == [
        ["exp", "loss", "ca", "rate", "Mbit/s", "rtt", "ms", "status"],
        ["1.0", "0", "cubic", "47.5", "47.15", "ok"],
        ["2.0", "0.5", "cubic", "38.7", "14.53", "ok"],
    ]


def test_factors_are_shown_as_they_were_written_without_zeros_at_their_end(capsys):
    rows = "exp,loss,req,ca\n1.0,0.0001,1M,reno\n2.0,0.0002,10K,reno\n3.0,1.0,0,reno\n"
    assert [row[1:3] for row in shown(rows, capsys)[1:]] == [
        ["0.0001", "1M"],
        ["0.0002", "10K"],
        ["1", "0"],
    ]


def test_the_reason_for_which_the_only_group_failed_is_shown(capsys):
    rows = (
        "exp,ca,rate,status\n1.0,reno,,failed\n1.1,reno,,no route\n2.0,reno,5,ok\n2.1,reno,5,ok\n"
    )
    assert [row[0] for row in shown(rows, capsys)[1:]] == ["1.0", "1.1", "2.0"]


def test_latencies_are_those_of_requests_alone(capsys):
    assert [row[-3:] for row in shown(MIXED, capsys)[1:]] == [
        ["47.5", "47.15", "ok"],
        ["47.4", "47.15", "ok"],
        ["20.51", "23.00", "ok"],
    ]


def test_a_percentile_of_few_latencies_is_marked(capsys):
    rows = (
        "exp,test,p50Latency,p99Latency,latencyTail,status\n"
        "1.0,TCP_FLOWS,20510,23000,50,ok\n2.0,TCP_RR,20510,23000,,ok\n"
    )
    assert [row[-3:-1] for row in shown(rows, capsys)[1:]] == [
        ["20.51", "~23.00"],
        ["20.51", "23.00"],
    ]


def test_rows_of_groups_alone_are_shown(capsys):
    rows = FLOWS.splitlines(keepends=True)
    assert [row[0] for row in shown(rows[0] + rows[2], capsys)] == ["exp", "1.1"]


NARROW = FLOWS.replace("38.7,14530,50,2,90,ok", "38.7,14530,50,2,90,failed: the server refused it")


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        (
            60,
            [
                "exp  loss  ca     rate Mbit/s  rtt ms  status",
                "1.0  0     cubic         47.5   47.15  ok",
                "2.0  0.5   cubic         38.7   14.53  failed: the server r…",
            ],
        ),
        (
            30,
            [
                "exp  loss  rate Mbit/s  status",
                "1.0  0            47.5  ok",
                "2.0  0.5          38.7  failed: t…",
                "columns without room: ca, rtt ms",
            ],
        ),
    ],
)
def test_a_narrow_terminal_loses_whole_columns_and_no_digits(capsys, monkeypatch, columns, lines):
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", str(columns)), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    tables.print_rows(list(csv.DictReader(io.StringIO(NARROW))))
    plain = Text.from_ansi(capsys.readouterr().out).plain
    assert [line.rstrip() for line in plain.splitlines()] == lines


WARNED = """\
exp,ca,rate,status,warnings,severity,warning
1.0,reno,5,ok,2,affects,group 1: sampled late
1.1,reno,5,ok,2,affects,group 1: sampled late
2.0,reno,5,ok,1,note,this machine: a CPU was 95 % busy
2.1,reno,5,ok,1,note,this machine: a CPU was 95 % busy
3.0,reno,5,ok,,,
"""


def test_warnings_are_counted_and_the_first_that_matters_is_below_the_table(capsys):
    tables.print_rows(list(csv.DictReader(io.StringIO(WARNED))))
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["exp", "ca", "rate", "Mbit/s", "status", "warnings"],
        ["1.0", "reno", "5", "ok", "2"],
        ["2.0", "reno", "5", "ok", "1"],
        ["3.0", "reno", "5", "ok"],
        ["1,", "affects:", "group", "1:", "sampled", "late"],
    ]
