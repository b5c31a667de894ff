from pathlib import Path
from typing import Any, cast

import pytest

from netesto.errors import ScriptError, UsageError
from netesto.results import aggregate, fields
from netesto.results.fields import Field, Fields

ROOT = Path(__file__).parents[2]

CLASSIC = (
    "exp expName group test testType testNote desc kernel host server instances instance:one "
    "ca:all dur delay req reply:one cwnd:avg netem qdisc bw buffers ecn:one rtt pingRtt:avg "
    "rate:sumRateDur rateMin:min rateMax:max retransPkts%:avg minLatency:min maxLatency:max "
    "meanLatency p50Latency p90Latency p99Latency p999Latency:avg "
    "localRetrans remoteRetrans lost retrans retrans_total:sum localCpu remoteCpu:avg "
    "tcpRmem tcpWmem:min tso gso lro gro:one adaptive-rx rx-frames tx-frames:avg "
    "client-rx-packets client-tx-packets client-rx-bytes client-tx-bytes:sum "
    "client-tx-packet-len client-rx-packet-len:avg"
)
OURS = (
    "expNumber:one tool:all status:one flowsFailed:sum effCa:all effMss:one startSkew:max "
    "sampleInterval:avg sampleIntervalP99 sampleIntervalWorst:max "
    "fairness:avg p9999Latency:avg retransSegs%:avg data_segs_out:sum "
    "parallel:all bitrate:all pacing:all zerocopy:all omit:all mtu:all localCores:avg "
    "remoteCores:avg rep:one "
    "sentRate:sumRateDur udpSent udpSkipped udpLost:sum udpLost%:avg "
    "udpDropped udpReordered udpDuplicates:sum udpJitter:avg oneWayMin:min oneWayMean:avg "
    "oneWayMax oneWayBound:max pingIdle pingP50 pingP95:avg pingMax:max pingAfter:avg "
    "pingLost:sum rpm:min "
    "backlog:avg backlogMax:max queueDelay:avg queueDrops:max queueMarks:max "
    "p99999Latency:avg latencies unfinished:sum transactionRate reverseRate:sumRateDur "
    "udpMarked pktRetrans pktTimeouts pktSpurious:sum pktRtt:avg latencyTail:min "
    "synSkew dataSkew:max tcpi_busy_time rwnd_limited sndbuf_limited:avg "
    "warnings:sum severity warning:one"
)


def spelled_out(text: str) -> list[Field]:
    found: list[Field] = []
    names: list[str] = []
    for word in text.split():
        name, _, operation = word.partition(":")
        names.append(name)
        if operation:
            found += [Field(each, cast("Any", operation)) for each in names]
            names = []
    return found


@pytest.fixture
def classic(tmp_path) -> Fields:
    path = tmp_path / "fields.txt"
    lines = [f"{field.name}:{field.operation}" for field in spelled_out(CLASSIC)]
    path.write_text("\n".join(lines).replace("adaptive-rx", "adaptive_rx") + "\n")
    return fields.load(path)


def test_default_file_has_the_classic_columns_in_order_then_ours_and_then_what_was_added():
    loaded = fields.load(ROOT / "fields.txt")
    known = spelled_out(CLASSIC) + spelled_out(OURS)
    assert list(loaded.columns)[: len(known)] == known


def test_classic_file_gives_exactly_its_58_columns(classic):
    row = aggregate.row(classic, [{"exp": "3.1", "rate": "5"}], exp=3)
    assert (len(row), list(row)) == (58, list(classic.names))


def test_classic_spelling_adaptive_rx_finds_the_value_of_adaptive_rx(classic):
    row = aggregate.row(classic, [{"adaptive-rx": "1"}], exp=3)
    assert row["adaptive_rx"] == "1.000"


def test_comments_and_blank_lines_are_skipped():
    loaded = fields.parse("# all\n\nexp:one  # number\n rate : sumRateDur\n", source="f")
    assert loaded.columns == (Field("exp", "one"), Field("rate", "sumRateDur"))


def test_unknown_operation_is_named_with_its_line_and_the_nearest():
    with pytest.raises(UsageError, match=r"^f:2: 'avrg' is not an operation; did you mean avg\?"):
        fields.parse("exp:one\ncwnd:avrg\n", source="f")


def test_line_without_operation_is_an_error_with_its_line():
    with pytest.raises(UsageError, match=r"^f:2: 'cwnd' is not NAME:OPERATION"):
        fields.parse("exp:one\ncwnd\n", source="f")


def test_column_that_comes_twice_is_an_error_in_either_spelling():
    with pytest.raises(UsageError, match=r"^f:3: column adaptive_rx is already in line 2"):
        fields.parse("exp:one\nadaptive-rx:avg\nadaptive_rx:avg\n", source="f")


def test_file_without_exp_is_an_error():
    with pytest.raises(UsageError, match="no column exp"):
        fields.parse("rate:sum\n", source="f")


def test_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"missing\.txt: cannot be read"):
        fields.load(tmp_path / "missing.txt")


def test_key_of_a_measured_column_is_refused():
    loaded = fields.parse("exp:one\nrate:sum\n", source="f")
    with pytest.raises(ScriptError, match="column rate is measured"):
        loaded.has("rate")


def test_key_of_a_measured_column_is_refused_in_either_spelling_and_without_such_a_column():
    loaded = fields.parse("exp:one\n", source="f")
    with pytest.raises(ScriptError, match="column rx_frames is measured"):
        loaded.has("rx_frames")


@pytest.mark.parametrize("name", ["exp", "expNumber", "group"])
def test_numbers_of_experiment_and_group_are_not_for_scripts_to_set(name):
    loaded = fields.parse("exp:one\n", source="f")
    with pytest.raises(ScriptError, match=f"column {name} is a number that netesto gives"):
        loaded.has(name)


def test_key_has_its_column_in_either_spelling():
    loaded = fields.parse("exp:one\nmy-cable:one\n", source="f")
    assert [loaded.has(key) for key in ("my_cable", "my-cable", "mycable")] == [True, True, False]


def test_names_without_a_column_get_one_at_the_end_once():
    loaded = fields.parse("exp:one\nbw:one\n", source="f").with_names(
        ["size", "bw", "my_cable", "size", "my-cable"]
    )
    assert loaded.columns == (
        Field("exp", "one"),
        Field("bw", "one"),
        Field("size", "one"),
        Field("my_cable", "one"),
    )


def test_columns_that_were_added_stand_behind_the_text_of_the_file():
    loaded = fields.parse("exp:one  # its number\nbw:one", source="f").with_names(["size"])
    assert str(loaded) == (
        "exp:one  # its number\nbw:one\n\n# ---- filled by OTHER and SWEEP\nsize:one\n"
    )


def test_file_that_was_written_says_the_same():
    added = fields.parse("exp:one\nbw:one\n", source="f").with_names(["size"])
    assert fields.parse(str(added), source="f").columns == added.columns


def test_difference_names_columns_that_went_that_came_and_that_changed():
    old = fields.parse("exp:one\ncwnd:avg\nbw:one\n", source="f")
    new = fields.parse("exp:one\ncwnd:max\nsize:one\n", source="f")
    assert fields.difference(old, new) == (
        "no longer present: bw; new: size; cwnd is max now, and was avg"
    )
