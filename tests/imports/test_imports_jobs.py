"""Job files of the harness as scripts."""

import json
from pathlib import Path

import pytest

from netesto import cli
from netesto.controller import hostlist

HOSTS = """\
# where the flows go
hostname,alias,profile,rtt

192.0.2.1,near,dtn,0.2ms   # in the same rack
192.0.2.2,,,25ms
"""
JOBS = """\
# the final set
[iperf3_1stream]
enabled = true
iterations = 3
src-cmd = numactl -C 6 /opt/iperf3 -J -t 60 -O 2 -i 1 -c {dst} -C bbr -w 256M -p 5001 -V
dst-cmd = taskset -c 7,9 iperf3 -s -1 -p 5001
mpstat = 5-6,8

[iperf3_8streams]
iterations = 2
src-cmd = iperf3 -J -t 60 -c {dst} -P 8 --fq-rate 20G --zerocopy=z --skip-rx-copy -A 8-15,2 -S 0x20
pacing = 25gbit

[reverse]
src-cmd = iperf3 -c {dst} -t 10 -Z -R -l 128K -M 1400 -b 10G
lat-sweep = 10,20

[off]
enabled = false
src-cmd = iperf3 -c {dst} -u -b 1G
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hosts.csv").write_text(HOSTS)
    (tmp_path / "jobs.ini").write_text(JOBS)
    return tmp_path


def made(folder: Path, *words: str) -> str:
    argv = ["import", "jobs", str(folder / "jobs.ini"), "-o", str(folder / "made.nts"), *words]
    assert cli.main(argv) == 0
    return (folder / "made.nts").read_text()


def commands(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> list[dict[str, str]]:
    """The arguments of each command of this name in a dry run of the script."""
    made(folder, "--hostlist", str(folder / "hosts.csv"))
    capsys.readouterr()
    assert cli.main(["run", "--dry-run=json", str(folder / "made.nts")]) == 0
    found = map(json.loads, capsys.readouterr().out.splitlines())
    return [
        {key: str(value) for key, value in each["args"].items()}
        for each in found
        if each.get("command") == name
    ]


def flows(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    return commands(folder, capsys, "DO_CLIENT")


def some(flow: dict[str, str], *names: str) -> dict[str, str]:
    return {name: flow[name] for name in names}


def test_runs_are_sections_times_hosts_times_iterations_in_this_order(folder, capsys):
    found = [(flow["expName"], flow["server"]) for flow in flows(folder, capsys)]
    assert found == [
        *[("iperf3_1stream", "near")] * 3,
        *[("iperf3_1stream", "192.0.2.2")] * 3,
        *[("iperf3_8streams", "near")] * 2,
        *[("iperf3_8streams", "192.0.2.2")] * 2,
        *[("reverse", "near")] * 2,
        *[("reverse", "192.0.2.2")] * 2,
    ]


def test_words_of_iperf3_are_arguments_of_do_client(folder, capsys):
    one, *_, reverse = flows(folder, capsys)
    eight = flows(folder, capsys)[6]
    assert some(
        one, "host", "test", "tool", "ca", "dur", "omit", "interval", "localBuffer", "remoteBuffer"
    ) == {
        "host": "source", "test": "TCP_STREAM", "tool": "iperf3", "ca": "bbr", "dur": "60",
        "omit": "2", "interval": "1", "localBuffer": "268435456", "remoteBuffer": "268435456",
    }  # fmt: skip
    assert some(one, "cpu", "cores") == {"cpu": "6,7+9", "cores": "5-6+8"}
    assert some(eight, "parallel", "pacing", "zerocopy", "skiprx", "cpu", "dscp", "ca") == {
        "parallel": "8", "pacing": "20G", "zerocopy": "msg", "skiprx": "1", "cpu": "8-15,2",
        "dscp": "8", "ca": "cubic",
    }  # fmt: skip
    assert some(reverse, "test", "zerocopy", "len", "mss", "bitrate", "dur") == {
        "test": "TCP_MAERTS", "zerocopy": "sendfile", "len": "131072", "mss": "1400",
        "bitrate": "10G", "dur": "10",
    }  # fmt: skip


def test_a_client_that_is_bound_alone_binds_the_server_to_the_same_numbers(folder, capsys):
    (folder / "jobs.ini").write_text("[a]\nsrc-cmd = taskset -c 4,6 iperf3 -c {dst}\n")
    assert flows(folder, capsys)[0]["cpu"] == "4+6,4+6"


def test_a_rate_of_each_stream_is_that_of_the_flow_times_streams(folder, capsys):
    (folder / "jobs.ini").write_text("[a]\nsrc-cmd = iperf3 -c {dst} -P 4 -b 2.5G\n")
    assert flows(folder, capsys)[0]["bitrate"] == "10.0G"


@pytest.mark.parametrize(
    ("words", "bitrate"),
    [("-u", "1048576"), ("-u -P 3", "3145728"), ("-u -b 0 -P 3", None), ("-b 0", None)],
)
def test_datagrams_without_a_rate_have_that_of_iperf3(folder, capsys, words, bitrate):
    (folder / "jobs.ini").write_text(f"[a]\nsrc-cmd = iperf3 -c {{dst}} {words}\n")
    assert flows(folder, capsys)[0].get("bitrate") == bitrate


def test_pacing_is_fq_at_the_source_and_goes_away(folder, capsys):
    found = [
        (each["host"], each["qdisc"], each.get("other", ""), each["action"])
        for each in commands(folder, capsys, "SET_QDISC")
    ]
    assert found == [("source", "fq", "maxrate,25gbit", ""), ("source", "fq", "", "delete")]


def test_sweeps_of_delay_are_factors(folder, capsys):
    found = [each["netem_delay"] for each in commands(folder, capsys, "SET_NETEM")]
    assert found == ["10", "20", "10", "20", "0"]


def test_a_section_that_is_not_enabled_is_there_as_a_comment(folder):
    lines = made(folder).splitlines()
    assert "# BEGIN off" in lines
    assert "#     RUN off server=$server" in lines


def test_the_script_has_the_usual_form_and_no_error(folder, capsys):
    made(folder, "--hostlist", str(folder / "hosts.csv"))
    assert cli.main(["check", str(folder / "made.nts")]) == 0
    assert cli.main(["fmt", "--check", str(folder / "made.nts")]) == 0


def test_what_has_no_counterpart_is_a_comment_and_a_warning(folder, capsys):
    (folder / "jobs.ini").write_text(
        "[a]\nsrc-cmd = iperf3 -c {dst} --bidir\nvlan = 7\nmpstat = all of them\n"
    )
    text = made(folder)
    err = capsys.readouterr().err.splitlines()
    place = f"{folder}/jobs.ini"
    assert err == [
        f"warning: {place}: [a]: no counterpart for '--bidir' in src-cmd",
        f"warning: {place}: [a]: no counterpart for mpstat = all of them",
        f"warning: {place}: [a]: no counterpart for vlan = 7",
    ]
    assert "    # no counterpart for vlan = 7" in text.splitlines()


def test_commands_before_and_after_become_settings(folder):
    (folder / "jobs.ini").write_text(
        "[a]\nsrc-cmd = iperf3 -c {dst}\n"
        "pre-src-cmd = sudo ethtool -K ens1 rx-gro-hw on\n"
        'post-dst-cmd = sysctl -w net.ipv4.tcp_rmem="4096 131072 6291456"; /opt/x/show.sh ens1\n'
    )
    lines = [line.strip() for line in made(folder).splitlines()]
    found = [line for line in lines if line.startswith(("SET_", "DO_COMMAND"))]
    assert found == [
        "SET_SYSCTL host=$server net.ipv4.tcp_rmem=4096,131072,6291456",
        "DO_COMMAND host=$server name=show.sh",
        "SET_LINK host=$source gro_hw=on",
    ]
    assert cli.main(["check", str(folder / "made.nts")]) == 0


def test_nothing_of_a_job_file_gets_out_of_its_word(folder, capsys):
    (folder / "jobs.ini").write_text(
        '[a b" $x]\nsrc-cmd = iperf3 -c {dst} -C "b host=near" -l 9\n'
        "pre-src-cmd = sysctl -w net.ipv4.tcp_ecn=$x#\n"
    )
    lines = [line.strip() for line in made(folder).splitlines()]
    assert [line for line in lines if "expName=" in line] == [
        'DO_SERVER host=$server exp=COUNTER expName="a b $$x" start=1'
    ]
    assert [line for line in lines if "near" in line] == ['ca="b host=near" dur=10 len=9']
    assert [line for line in lines if "tcp_ecn" in line] == [
        'SET_SYSCTL host=$source net.ipv4.tcp_ecn="$$x#"'
    ]


@pytest.mark.parametrize("text", ["", "src-cmd = iperf3\n"])
def test_a_file_without_a_section_is_refused(folder, capsys, text):
    (folder / "jobs.ini").write_text(text)
    assert cli.main(["import", "jobs", str(folder / "jobs.ini")]) == 2
    assert "jobs.ini: no section" in capsys.readouterr().err


COMMAND = "src-cmd = iperf3 -c x"
UNKNOWN = {
    "[a]\nsrc-cmd = ping x\n": "[a]: src-cmd: not an iperf3 command: ping x: the section is left",
    "[a]\ntype = perf\n": "[a]: src-cmd is missing: the section is left out",
    "note\n": "jobs.ini:1: 'note' is before the first section: left out",
    f"[a]\n{COMMAND}\nb\n": "jobs.ini:5: 'b' is not KEY = VALUE: left out",
    f"[good]\n{COMMAND}\n": "section [good] is there twice: this one is [good 2]",
    f"[a]\n{COMMAND}\n{COMMAND}\n": "[a] has src-cmd twice: the last one counts",
    f"[a]\n{COMMAND}\niterations = many\n": "[a]: iterations = many is not a number",
    f"[a]\n{COMMAND}\nenabled = maybe\n": "[a]: enabled = maybe is neither true nor false",
    "[a]\nsrc-cmd = timeout 9 iperf3 -c x\n": "[a]: no counterpart for 'timeout 9' in src-cmd",
    "[a]\nsrc-cmd = numactl -N 1 iperf3 -c x\n": "[a]: no counterpart for 'numactl -N 1'",
    f"[a]\n{COMMAND} -t {{time}}\n": "[a]: no counterpart for 'dur={time}' in src-cmd",
}


@pytest.mark.parametrize("text", UNKNOWN)
def test_what_is_unknown_is_a_warning_and_the_other_sections_are_run(folder, capsys, text):
    good = "[good]\nsrc-cmd = iperf3 -c {dst} -t 7\n"
    (folder / "jobs.ini").write_text(text + good if text.startswith("note") else good + text)
    made(folder)
    assert UNKNOWN[text] in capsys.readouterr().err
    found = flows(folder, capsys)
    assert [some(flow, "expName", "dur") for flow in found[:1]] == [{"expName": "good", "dur": "7"}]


@pytest.mark.parametrize(
    ("source", "server", "cpu"),
    [
        ("numactl -C 4 iperf3 -c {dst} -A 10,11", "numactl -C 20 iperf3 -s", "10,11"),
        ("numactl -C 4 iperf3 -c {dst} -A 10", "numactl -C 20 iperf3 -s", "10,20"),
        ("numactl -C 4 iperf3 -c {dst} -A 10", "iperf3 -s", "10,4"),
        ("iperf3 -c {dst} -A 10", "iperf3 -s", "10"),
        ("iperf3 -VJ -c {dst} -A 10", "numactl -C 20 iperf3 -s -A 21", "10,21"),
    ],
)
def test_the_clients_a_sets_the_ends_that_it_names_and_what_starts_iperf3_the_others(
    folder, capsys, source, server, cpu
):
    (folder / "jobs.ini").write_text(f"[a]\nsrc-cmd = {source}\ndst-cmd = {server}\n")
    assert flows(folder, capsys)[0]["cpu"] == cpu


def test_commands_with_other_arguments_are_other_commands(folder):
    (folder / "jobs.ini").write_text(
        "[a]\nsrc-cmd = iperf3 -c {dst}\npre-src-cmd = /root/gro.sh on\n"
        "[b]\nsrc-cmd = iperf3 -c {dst}\npre-src-cmd = sudo /opt/gro.sh off; show.sh eth1\n"
    )
    lines = [line.strip() for line in made(folder).splitlines()]
    assert [line for line in lines if line.startswith("DO_COMMAND")] == [
        "DO_COMMAND host=$source name=gro.sh-on",
        "DO_COMMAND host=$source name=gro.sh-off",
        "DO_COMMAND host=$source name=show.sh",
    ]


def test_a_list_of_hosts_is_an_inventory_whose_client_is_this_machine(folder, capsys):
    assert cli.main(["hosts", "list", str(folder / "hosts.csv")]) == 0
    found = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in found[1:]] == ["near", "192.0.2.2", "source"]
    assert found[-1][1] == "unix:/run/netesto/agent.sock"


@pytest.mark.parametrize(
    ("words", "more", "said"),
    [
        ("", "pacing = 15", "pacing is 15 bit/s: write the unit that is meant, as in 15gbit"),
        ("", "pacing = 15Gbps", "pacing = 15Gbps is 120 Gbit/s: bps are bytes; for bits: 15Gbit"),
        ("", "pacing = 15 apples", "no counterpart for pacing = 15 apples"),
        (
            "--fq-rate 2000",
            "",
            "--fq-rate is 2000 bit/s: write the unit that is meant, as in 15G",
        ),
        (
            "-b 1000 -P 4",
            "",
            "-b of all streams is 4000 bit/s: write the unit that is meant, as in 15G",
        ),
        ("-w 256", "", "-w is 256 bytes: write the unit that is meant, as in 256M"),
        ("-n 10G", "", "no counterpart for '-n 10G' in src-cmd"),
    ],
)
def test_a_value_that_hardly_anybody_means_is_a_warning(folder, capsys, words, more, said):
    (folder / "jobs.ini").write_text(f"[a]\nsrc-cmd = iperf3 -c {{dst}} {words}\n{more}\n")
    text = made(folder)
    warning = f"warning: {folder}/jobs.ini: [a]: {said}\n"
    assert (capsys.readouterr().err, f"    # {said}\n" in text) == (warning, True)


@pytest.mark.parametrize(
    ("words", "more"), [("--fq-rate 20G -b 1.5M", "pacing = 1gbit"), ("-b 2000000", "pacing = 1T")]
)
def test_plausible_rates_are_no_warning(folder, capsys, words, more):
    (folder / "jobs.ini").write_text(f"[a]\nsrc-cmd = iperf3 -c {{dst}} {words}\n{more}\n")
    made(folder)
    assert capsys.readouterr().err == ""


def test_a_rate_without_bit_is_written_as_tc_reads_it(folder):
    (folder / "jobs.ini").write_text("[a]\nsrc-cmd = iperf3 -c {dst}\npacing = 15 G\n")
    assert "SET_QDISC host=$source qdisc=fq other=maxrate,15Gbit\n" in made(folder)


def test_what_cannot_be_run_of_the_script_is_reported_with_its_place(folder, capsys):
    (folder / "jobs.ini").write_text("[a]\nsrc-cmd = iperf3 -c {dst} -t 0\n")
    made(folder)
    first, line, *_ = capsys.readouterr().err.splitlines()
    place = f"{folder}/made.nts:20:13: warning"
    assert (first, line.strip()) == (f"{place}: dur=0 is out of range", "dur=0")


def test_a_section_goes_to_the_hosts_of_its_profile(folder, capsys):
    (folder / "jobs.ini").write_text(
        "[a]\nsrc-cmd = iperf3 -c {dst}\nprofile = dtn\n[b]\nsrc-cmd = iperf3 -c {dst}\n"
    )
    found = [(flow["expName"], flow["server"]) for flow in flows(folder, capsys)]
    assert found == [("a", "near"), ("b", "near"), ("b", "192.0.2.2")]


def test_profiles_of_similar_names_are_different_hosts(folder, capsys):
    (folder / "hosts.csv").write_text("hostname,profile\n192.0.2.1,a-b\n192.0.2.2,a_b\n")
    (folder / "jobs.ini").write_text(
        "[a]\nsrc-cmd = iperf3 -c {dst}\nprofile = a-b\n"
        "[b]\nsrc-cmd = iperf3 -c {dst}\nprofile = a_b\n"
    )
    found = [(flow["expName"], flow["server"]) for flow in flows(folder, capsys)]
    assert found == [("a", "192.0.2.1"), ("b", "192.0.2.2")]


def test_a_section_of_a_profile_that_no_host_has_is_there_as_a_comment(folder, capsys):
    (folder / "jobs.ini").write_text("[a]\nsrc-cmd = iperf3 -c {dst}\nprofile = nobody\n")
    text = made(folder, "--hostlist", str(folder / "hosts.csv"))
    said = "[a]: profile = nobody: no host of the list has it, so that nothing is run"
    assert said in capsys.readouterr().err
    assert "# no host has the profile nobody\n# FOR server IN $hosts_nobody DO\n" in text


def test_a_list_as_a_spreadsheet_saves_it(folder, capsys):
    (folder / "hosts.csv").write_text(
        "\ufeffhostname , alias, note\r\n"
        '192.0.2.1, near, "in rack #3, left" # one\r\n'
        '"192.0.2.2",,\r\n'
    )
    listed = hostlist.read(folder / "hosts.csv")
    assert [(host.name, dict(host.facts)) for host in listed] == [
        ("near", {"note": "in rack #3, left"}),
        ("192.0.2.2", {"note": ""}),
    ]


def test_a_job_file_as_an_editor_of_another_system_saves_it(folder):
    (folder / "jobs.ini").write_text(
        "\ufeff# final\r\n[a]\r\niterations = 2 ; twice\r\n"
        "src-cmd = iperf3 -c {dst}\r\npre-src-cmd = sysctl -w a.b=1 ; sysctl -w c.d=2\r\n"
    )
    text = made(folder)
    lines = [
        "RUN a,2 server=$server",
        "SET_SYSCTL host=$source a.b=1",
        "SET_SYSCTL host=$source c.d=2",
    ]
    assert [line in text for line in lines] == [True] * 3


def test_a_list_without_hostnames_is_refused(folder, capsys):
    (folder / "hosts.csv").write_text("name\nx\n")
    assert cli.main(["hosts", "list", str(folder / "hosts.csv")]) == 2
    assert "hosts.csv:1: no column hostname" in capsys.readouterr().err
