"""The table of stress tests."""

import json

from netesto.results import stress

TOLD = {
    "event": "result", "speed_bps": 1.0, "elapsed_s": 0.0, "protect": "ordered", "copies": 2,
    "size": 1518, "overhead": 20, "loss": 0.001, "given": 1000, "delivered": 999,
    "wire_frames": 1003, "wire_lost": 3, "seconds": 1e-4, "tx_min": 0, "tx_max": 41_760,
    "rx_min": 1500, "rx_max": 83_600, "recovery_p50_us": 6.2, "recovery_max_us": 6.4,
}  # fmt: skip


def case(**changes):
    return stress.read("warm\n" + json.dumps(TOLD | changes))


CASES = {
    "ordered": [case()],
    "nonblocking": [case(protect="nonblocking", given=2000, delivered=2000, tx_min=4800)],
    "off": [case(protect="off", copies=0)],
}


def test_its_text_is_that_of_linkguardians_artifact():
    assert (
        stress.to_text(CASES)
        == """\
                                 ordered
-------------------------------  --------------
Actual Loss Rate                 2.991e-03
Effective Loss Rate              1.000e-03
Effective Link Speed             122.92 Gbps
TX Buffer Occupancy (min - max)  0.0 - 41.76 KB
RX Buffer Occupancy (min - max)  1.5 - 83.6 KB

                                 nonblocking
-------------------------------  --------------
Actual Loss Rate                 2.991e-03
Effective Loss Rate              0.000e+00
Effective Link Speed             246.08 Gbps
TX Buffer Occupancy (min - max)  4.8 - 41.76 KB

                      off
--------------------  -----------
Actual Loss Rate      2.991e-03
Effective Loss Rate   1.000e-03
Effective Link Speed  122.92 Gbps
"""
    )


def test_its_csv_has_bytes_and_nothing_where_there_is_none():
    lines = stress.to_csv(CASES).splitlines()
    assert lines[0] == (
        "case,frames,actual_loss,effective_loss,low,high,expected,speed_bps,"
        "tx_min,tx_max,rx_min,rx_max,recovery_p50_us,recovery_max_us"
    )
    assert lines[1] == (
        "ordered,1000,2.991027e-03,1.000000e-03,2.531749e-05,5.558924e-03,1.000000e-09,"
        "122916960000,0,41760,1500,83600,6.200,6.400"
    )
    assert lines[3].endswith(",1.000000e-03,122916960000,,,,,6.200,6.400")


def test_repetitions_are_counted_together():
    row = stress.row("both", [case(), case(given=3000, delivered=2998, tx_max=50_000)])
    assert (row["frames"], row["effective_loss"], row["tx_max"]) == (4000, 3 / 4000, 50_000)


def test_losses_of_the_gilbert_model_have_no_expected_power():
    told = {key: value for key, value in TOLD.items() if key != "loss"}
    assert stress.row("ge", [stress.read(json.dumps(told))])["expected"] is None
