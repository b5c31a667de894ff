"""The estimate: flows and waits, and the work around them, at their times."""

from contextlib import closing

import pytest
from language_asked import run

from netesto.language.draft import Draft
from netesto.language.duration import Costs, Timeline

COSTS = Costs(
    lab_s=1000.0,
    setting_s=0.001,
    server_s=0.002,
    client_s=0.01,
    stats_s=0.02,
    start_s=0.1,
    end_s=0.2,
    data_s=0.003,
    experiment_s=10.0,
    group_s=20.0,
    flow_s=100.0,
    sample_s=0.5,
)


class Clocks(Draft):
    """A draft whose second clock has costs of our own."""

    def __init__(self) -> None:
        super().__init__(seed=0)
        self._real = Timeline(COSTS)


def estimate(text):
    with closing(Clocks()) as port:
        run(text, port)
    return port.totals().seconds


def processed(*durations_s):
    """What an experiment costs that the script leaves with a flow of each duration."""
    return 10 + sum(20 + 100 + 2 * duration_s / 0.2 * 0.5 for duration_s in durations_s)


def test_what_is_omitted_takes_its_time_too():
    with_omit = estimate("DO_CLIENT host=a server=b dur=5 omit=3\nWAIT_FLOWS\n")
    without = estimate("DO_CLIENT host=a server=b dur=8\nWAIT_FLOWS\n")
    assert with_omit == without


def test_a_lab_is_built_first():
    assert estimate("LAB pair\nWAIT 5\n") == 1005.0


def test_hosts_that_are_there_are_not_built():
    assert estimate("WAIT 5\n") == 5.0


def test_a_setting_takes_a_call():
    assert estimate("SET_QDISC host=a qdisc=fq\nSET_NETEM host=a netem_delay=3\n") == 0.002


def test_a_flow_starts_when_it_was_accepted_and_ends_when_that_is_reported():
    text = "DO_CLIENT host=a server=b dur=5 stats=0\nWAIT_FLOWS\n"
    assert estimate(text) == pytest.approx(0.01 + 0.1 + 5 + 0.2 + processed(5))


def test_a_client_tells_its_statistics_once_an_experiment():
    text = "DO_CLIENT host=a server=b dur=5 stats=1\n" * 2 + "PROCESS_EXP\n"
    assert estimate(text) == pytest.approx(0.01 + 0.02 + 0.01 + 0.1 + 5 + 0.2 + processed(5, 5))


def test_accepting_a_second_group_is_over_before_a_long_first_one_ends():
    text = (
        "DO_CLIENT host=a server=b dur=60 stats=0\n"
        "DO_CLIENT host=c server=b dur=1 stats=0\n"
        "WAIT_FLOWS\n"
    )
    assert estimate(text) == pytest.approx(0.01 + 0.1 + 60 + 0.2 + processed(60, 1))


def test_held_flows_start_at_their_instant():
    text = "DO_CLIENT host=a server=b dur=5 stats=0 hold=1\nSTART_FLOWS lead=1\nWAIT_FLOWS\n"
    assert estimate(text) == pytest.approx(0.01 + 1 + 5 + 0.2 + processed(5))


def test_an_experiment_costs_by_its_groups_flows_and_samples():
    text = (
        "DO_SERVER host=b exp=COUNTER\n"
        "DO_CLIENT host=a server=b dur=2 stats=0 instances=3 interval=0.5\n"
        "GET_DATA host=a\n"
        "PROCESS_EXP\n"
    )
    samples = 3 * 2 * 2 / 0.5
    work = 0.002 + 0.01 + 0.1 + 2 + 0.2 + 10 + 20 + 3 * 100 + samples * 0.5
    assert estimate(text) == pytest.approx(work)


def test_an_experiment_is_processed_when_its_flows_have_ended():
    """As WAIT_FLOWS does, which scripts leave out."""
    script = "DO_CLIENT host=a server=b dur=5\n{}PROCESS_EXP\n"
    assert estimate(script.format("")) == estimate(script.format("WAIT_FLOWS\n"))


def test_what_was_processed_does_not_cost_again():
    text = (
        "DO_SERVER host=b exp=COUNTER\n"
        "DO_CLIENT host=a server=b dur=2 stats=0\n"
        "PROCESS_EXP\n"
        "DO_SERVER host=b exp=COUNTER\n"
        "PROCESS_EXP\n"
    )
    samples = 2 * 2 / 0.2
    work = 2 * 0.002 + 0.01 + 0.1 + 2 + 0.2 + 2 * 10 + 20 + 100 + samples * 0.5
    assert estimate(text) == pytest.approx(work)


def test_in_simulated_time_there_are_flows_and_waits_alone():
    with closing(Clocks()) as port:
        run(
            "LAB pair\nDO_CLIENT host=a server=b dur=5 delay=1 req=S\n"
            "WAIT_FLOWS\nPROCESS_EXP\nWAIT 2\n",
            port,
        )
    assert port.totals().simulated_s == 8.0


def test_connections_for_each_request_end_late_in_any_time():
    with closing(Draft(seed=0)) as port:
        run("DO_CLIENT host=a server=b dur=5 test=TCP_CRR\nWAIT_FLOWS\n", port)
    assert port.totals().simulated_s == 9.0


def test_work_beside_long_flows_is_little():
    script = (
        "DO_SERVER host=b exp=COUNTER\nDO_CLIENT host=a server=b dur=60\nWAIT_FLOWS\nPROCESS_EXP\n"
    )
    with closing(Draft(seed=0)) as port:
        run(script, port)
    assert port.totals().seconds < 60 * 1.02
