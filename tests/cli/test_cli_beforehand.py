"""Faults that can be found before a run: check, run -n and run report them, with their place."""

from pathlib import Path

import pytest

from netesto import cli

EVERY_COMMAND = pytest.mark.parametrize("command", [["check"], ["run", "-n"], ["run"]])


FINISHED = "DO_SERVER host=a\nPROCESS_EXP\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys, place: str) -> list[str]:
    """The lines of errors that begin with this place, without `error: `."""
    lines = capsys.readouterr().err.splitlines()
    return [line.replace(" error:", "") for line in lines if line.startswith(f"{place}: ")]


@EVERY_COMMAND
@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("SET_SYSCTL host=a net.ipv4.tcp_ecn=7", 36, "sysctl net.ipv4.tcp_ecn=7: not allowed"),
        ("SET_SYSCTL host=a net.ipv4.tcp_ecm=1", 19, "sysctl net.ipv4.tcp_ecm is not allowed"),
        ("SET_SYSCTL host=a kernel.panic=1", 19, "sysctl kernel.panic is not allowed"),
        (
            "SET_SYSCTL host=a net.ipv4.tcp_rmem=5000,6000",
            37,
            "sysctl net.ipv4.tcp_rmem=5000 6000: not allowed",
        ),
        (
            "SET_SYSCTL host=a net.ipv4.tcp_ecn=$seven",
            36,
            "sysctl net.ipv4.tcp_ecn=7: not allowed",
        ),
        (
            "SET_MODULE_PARAMS host=a module=tcp_cubik hystart=0",
            33,
            "parameters of module tcp_cubik are not allowed",
        ),
        (
            "SET_MODULE_PARAMS host=a module=tcp_cubic hystat=0",
            43,
            "module parameter tcp_cubic hystat is not allowed",
        ),
        (
            "SET_MODULE_PARAMS host=a module=tcp_nv nv_pad=-1",
            47,
            "module parameter tcp_nv nv_pad=-1: not allowed",
        ),
        ("SET_QDISC host=a qdisc=../fq", 24, "invalid qdisc name '../fq'"),
        ("SET_QDISC host=a qdisc=fq action=del", 34, "qdisc action 'del' is not allowed"),
        ("SET_QDISC host=a qdisc=fq rate=1mbit", 32, "qdisc fq has no rate"),
        ("SET_QDISC host=a qdisc=fq limit=9k", 33, "qdisc fq: limit 9k"),
        ("SET_QDISC host=a qdisc=pfifo limit=many", 36, "qdisc pfifo: limit many"),
        (
            "SET_QDISC host=a qdisc=tbf rate=1mbit burst=9k",
            24,
            "qdisc tbf needs limit or latency",
        ),
        ("SET_QDISC host=a qdisc=fq other=a;b", 33, "qdisc fq: the word 'a;b' is not allowed"),
        ("SET_QDISC host=a qdisc=$kind rate=1mbit", 35, "qdisc fq has no rate"),
        (
            "SET_NETEM host=a netem_delay=0.0000001",
            30,
            "netem: a delay of 1e-07 ms is less than a nanosecond",
        ),
        (
            "SET_NETEM host=a netem_delay=0 loss=0.000000001",
            37,
            "netem: a loss of 1e-09 % is less than 1 in 2^32",
        ),
    ],
)
def test_setting_that_no_agent_makes(folder, capsys, command, line, column, message):
    (folder / "a.nts").write_text(f"LAB pair\nSET seven=7\nSET kind=fq\n{line}\n")
    status = cli.main([*command, "a.nts"])
    place = f"a.nts:4:{column}"
    assert (status, said(capsys, place)) == (2, [f"{place}: {message}"])


def test_check_finds_every_setting_that_no_agent_makes(folder, capsys):
    (folder / "a.nts").write_text(
        "SET_QDISC host=a qdisc=fq rate=1mbit\n"
        "SET_SYSCTL host=a net.ipv4.tcp_ecn=7 net.ipv4.tcp_sack=7\n"
        "BEGIN unused\n"
        "    SET_NETEM host=$host netem_delay=0 loss=0.000000001\n"
        "END unused\n"
    )
    cli.main(["check", "a.nts"])
    errors = [line for line in capsys.readouterr().err.splitlines() if " error: " in line]
    assert [line.partition(": ")[0] for line in errors] == [
        "a.nts:1:32",
        "a.nts:2:36",
        "a.nts:2:56",
        "a.nts:4:45",
    ]


def test_name_of_a_sysctl_that_may_be_meant_is_reported(folder, capsys):
    (folder / "a.nts").write_text("SET_SYSCTL host=a net.ipv4.tcp_ecm=1\n")
    cli.main(["check", "a.nts"])
    assert "Did you mean net.ipv4.tcp_ecn?" in capsys.readouterr().err


@EVERY_COMMAND
@pytest.mark.parametrize(
    ("lab", "column", "message"),
    [
        ("LAB nosuch", 5, "LAB nosuch: no such topology"),
        ("LAB pair rate=abc", 10, "rate=abc"),
        ("LAB pair raet=1mbit", 10, "LAB pair: no setting 'raet'"),
        ("LAB star hosts=many", 10, "LAB star: hosts=many"),
        ("LAB file=nowhere.toml", 5, "nowhere.toml: cannot be read: No such file"),
    ],
)
def test_lab_that_cannot_be_built(folder, capsys, command, lab, column, message):
    (folder / "a.nts").write_text(f"{lab}\nDO_SERVER host=a\n")
    status = cli.main([*command, "a.nts"])
    (line,) = said(capsys, f"a.nts:1:{column}")
    assert (status, message in line) == (2, True)


@EVERY_COMMAND
@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("DO_SERVER host=c", 11, "unknown host c"),
        ("DO_CLIENT host=a server=$there dur=1 test=TCP_RR", 1, "unknown host nowhere"),
        ("DO_TCPDUMP host=a server=c", 19, "unknown host c"),
        (
            "DO_CLIENT host=a server=b test=TCP_RR tool=iperf3",
            44,
            "iperf3 cannot do TCP_RR",
        ),
        (
            "DO_CLIENT host=a server=b req=S tool=netperf bitrate=1mbit",
            54,
            "netperf cannot do TCP_STREAM with bitrate",
        ),
        (
            "DO_CLIENT host=a server=b req=S mss=20000 tool=iperf3",
            37,
            "iperf3 cannot do TCP_STREAM with mss above 9216",
        ),
        (
            "DO_CLIENT host=a server=b test=UDP_RR req=100K tool=netperf",
            43,
            "no tool can do UDP_RR with datagrams above 65507 bytes",
        ),
        (
            "DO_CLIENT host=a server=b test=TCP_RR len=9K tool=netperf",
            43,
            "no tool can do TCP_RR with len",
        ),
        (
            "DO_CLIENT host=a server=b test=UDP_STREAM mss=1000 tool=iperf3",
            47,
            "no tool can do UDP_STREAM with mss",
        ),
        (
            "DO_CLIENT host=a server=b hold=1 test=TCP_RR",
            32,
            "hold=1, but no START_FLOWS comes before the end of experiment 1",
        ),
        (
            "DO_CLIENT host=a server=b hold=1 test=TCP_RR\nCLOSE host=b\nSTART_FLOWS",
            32,
            "hold=1, but no START_FLOWS comes before CLOSE of b",
        ),
        (
            "DO_CLIENT host=a server=b ecn=1 test=TCP_RR",
            31,
            "no tool sets ecn for a single flow of TCP",
        ),
    ],
)
def test_what_no_host_could_do(folder, capsys, command, line, column, message):
    (folder / "a.nts").write_text(f"LAB pair mtu=20040\nSET there=nowhere\n{line}\n{FINISHED}")
    status = cli.main([*command, "a.nts"])
    place = f"a.nts:3:{column}"
    assert (status, said(capsys, place)) == (2, [f"{place}: {message}"])


@EVERY_COMMAND
def test_host_outside_of_the_inventory(folder, capsys, command):
    (folder / "hosts.toml").write_text('[h1]\nagent = "ssh://h1"\naddresses = ["192.0.2.1"]\n')
    (folder / "a.nts").write_text("DO_SERVER host=h1\nDO_SERVER host=h2\n")
    status = cli.main([*command, "--hosts", "hosts.toml", "a.nts"])
    assert (status, said(capsys, "a.nts:2:11")) == (2, ["a.nts:2:11: unknown host h2"])


@pytest.mark.parametrize("command", [["run", "-n"], ["run"]])
def test_more_hosts_than_the_lab_will_have(folder, capsys, command):
    (folder / "s.nts").write_text(f"REQUIRE hosts>=3\nLAB pair\n{FINISHED}")
    assert cli.main([*command, "s.nts"]) == 3
    told = "netesto: REQUIRE hosts>=3: there are 2 hosts (needed at s.nts:1:9)"
    assert (told in capsys.readouterr().err, (folder / "results").exists()) == (True, False)


@pytest.mark.parametrize(
    ("lab", "options", "there"), [("LAB pair\n", [], 2), ("", ["--hosts", "hosts.toml"], 1)]
)
def test_more_hosts_than_there_are_is_an_error_of_check(folder, capsys, lab, options, there):
    (folder / "hosts.toml").write_text('[a]\nagent = "ssh://a"\naddresses = ["192.0.2.1"]\n')
    (folder / "s.nts").write_text(f"REQUIRE ca=nv hosts>=3\n{lab}{FINISHED}")
    status = cli.main(["check", *options, "s.nts"])
    message = f"REQUIRE hosts>=3: there {'are 2 hosts' if there == 2 else 'is 1 host'}"
    assert (status, said(capsys, "s.nts:1:15")) == (2, [f"s.nts:1:15: {message}"])


@pytest.mark.parametrize("command", [["check"], ["run", "-n"]])
def test_flow_from_a_host_to_itself_is_warned_of(folder, capsys, command):
    (folder / "a.nts").write_text(f"LAB pair\nDO_CLIENT host=a server=a test=TCP_RR\n{FINISHED}")
    status = cli.main([*command, "a.nts"])
    assert (status, "host=a server=a: both ends are one host" in capsys.readouterr().err) == (
        0,
        True,
    )


@EVERY_COMMAND
def test_what_only_one_of_two_like_commands_asks_of_the_tool_is_looked_at(folder, capsys, command):
    (folder / "a.nts").write_text(
        "LAB pair\n"
        "DO_CLIENT host=a server=b req=S tool=netperf\n"
        "DO_CLIENT host=a server=b req=S tool=netperf omit=1\n"
    )
    status = cli.main([*command, "a.nts"])
    assert (status, len(said(capsys, "a.nts:3:51"))) == (2, 1)


def test_mistake_within_macros_tells_the_way_that_led_there(folder, capsys):
    (folder / "a.nts").write_text(
        "LAB pair\nBEGIN serve\n    DO_SERVER host=$host\nEND serve\nRUN serve host=c\n"
    )
    cli.main(["run", "-n", "a.nts"])
    assert capsys.readouterr().err.splitlines() == [
        "a.nts:3:5: unknown host c",
        "        DO_SERVER host=$host",
        "        ^^^^^^^^^",
        "The hosts are: a, b",
        "  in a.nts:5: RUN serve (host=c)",
    ]


def test_dry_run_of_a_script_without_a_network_passes(folder, capsys):
    (folder / "a.nts").write_text("DO_SERVER host=h1\n")
    assert (cli.main(["run", "-n", "a.nts"]), capsys.readouterr().err) == (0, "")


def test_flows_that_are_held_and_started_pass(folder, capsys):
    (folder / "a.nts").write_text(
        "LAB pair\nDO_CLIENT host=a server=b hold=1 req=S\nSTART_FLOWS\nWAIT_FLOWS\nPROCESS_EXP\n"
    )
    assert (cli.main(["check", "a.nts"]), capsys.readouterr().err) == (0, "")


def test_command_to_a_host_whose_agent_was_ended_is_warned_of(folder, capsys):
    (folder / "a.nts").write_text("LAB pair\nEXIT host=b\nSET_QDISC host=b qdisc=fq\n")
    status = cli.main(["check", "a.nts"])
    assert (status, capsys.readouterr().err.splitlines()[0]) == (
        0,
        "a.nts:3:1: warning: EXIT ended the agent of b before (a.nts:2)",
    )


def test_command_to_a_host_that_was_released_in_the_same_experiment_is_warned_of(folder, capsys):
    (folder / "a.nts").write_text(
        "LAB pair\nDO_SERVER host=b\nCLOSE host=b\nDO_SERVER host=b\n"
        f"DO_CLIENT host=a server=a test=TCP_RR\n{FINISHED}"
    )
    status = cli.main(["check", "a.nts"])
    assert (status, capsys.readouterr().err.splitlines()[0]) == (
        0,
        "a.nts:4:1: warning: CLOSE released b before (a.nts:3): it does no more for experiment 1",
    )


def test_capture_for_an_experiment_that_begins_after_its_host_s_agent_was_ended_is_warned_of(
    folder, capsys
):
    (folder / "a.nts").write_text(
        "LAB pair\nDO_TCPDUMP host=b server=a packets=10\nEXIT host=b\n"
        "DO_SERVER host=a\nPROCESS_EXP\n"
    )
    status = cli.main(["check", "a.nts"])
    assert (status, capsys.readouterr().err.splitlines()[0]) == (
        0,
        "a.nts:2:1: warning: EXIT ended the agent of b before (a.nts:3)",
    )


@pytest.mark.parametrize("command", [["run", "-n"], ["run"]])
def test_number_of_an_experiment_that_is_there_stops_a_run_before_it(folder, capsys, command):
    (folder / "results/a/5").mkdir(parents=True)
    (folder / "a.nts").write_text("LAB pair\nDO_SERVER host=a exp=5\nPROCESS_EXP\n")
    status = cli.main([*command, "a.nts"])
    assert (status, said(capsys, "a.nts:2:22")) == (
        2,
        ["a.nts:2:22: experiment 5 exists already in results/a, and is not overwritten"],
    )


@pytest.mark.parametrize("command", [["run", "-n"], ["run"]])
def test_results_folder_with_other_columns_stops_a_run_before_it(folder, capsys, command):
    (folder / "results/a").mkdir(parents=True)
    for name, text in (("exp.csv", "exp,rate\n"), ("fields.txt", "exp:one\nrate:sum\n")):
        (folder / "results/a" / name).write_text(text)
    (folder / "fields.txt").write_text("exp:one\nca:all\n")
    (folder / "a.nts").write_text("LAB pair\nDO_SERVER host=a\nPROCESS_EXP\n")
    status = cli.main([*command, "a.nts"])
    found = "results/a/exp.csv was begun with other columns than those of fields.txt; "
    assert (status, found in capsys.readouterr().err) == (3, True)


def test_writing_to_an_experiment_that_is_processed_stops_a_run_before_it(folder, capsys):
    (folder / "a.nts").write_text(
        "LAB pair\nDO_SERVER host=a\nPROCESS_EXP\nDO_SERVER host=b\nPROCESS_EXP\n"
    )
    status = cli.main(["run", "a.nts"])
    assert (status, said(capsys, "a.nts:4:1")) == (
        2,
        ["a.nts:4:1: experiment 1 is processed already, and is not overwritten"],
    )


@pytest.mark.parametrize("command", [["run", "-n"], ["run"]])
def test_option_that_is_wrong_is_reported_before_the_script_is_read(folder, capsys, command):
    status = cli.main([*command, "--on-failure", "often", "nowhere.nts"])
    assert (status, "often" in capsys.readouterr().err) == (2, True)


def test_scripts_with_other_names_are_checked_for_the_hosts_they_are_mapped_to(folder, capsys):
    (folder / "hosts.toml").write_text("[h1]\n[h2]\n")
    (folder / "a.nts").write_text(
        "LAB dumbbell\nDO_SERVER host=server1 order=0\nDO_SERVER host=server1\nPROCESS_EXP\n"
    )
    words = ["check", "--hosts", "hosts.toml", "a.nts"]
    status = cli.main([*words, "--map", "server1=h1,client1=h2"])
    assert (status, capsys.readouterr().err) == (0, "")


def test_names_for_hosts_of_the_lab_are_checked(folder, capsys):
    (folder / "a.nts").write_text(f"LAB pair\nDO_SERVER host=c\n{FINISHED}")
    assert (cli.main(["check", "--map", "c=b", "a.nts"]), capsys.readouterr().err) == (0, "")
