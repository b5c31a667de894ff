"""Warnings about settings before a slower link of the lab."""

import pytest

from netesto import cli


@pytest.fixture
def warns(tmp_path, monkeypatch, capsys):
    """The warnings of a dry run of a script."""
    monkeypatch.chdir(tmp_path)

    def of(text, *options):
        (tmp_path / "a.nts").write_text(text)
        cli.main(["run", "-n", *options, "a.nts"])
        return [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]

    return of


STAYS = (
    "warning: a.nts:2: SET_QDISC host=router qdisc={}: the bottleneck remains the link "
    "router - right after it (50 Mbit/s, queue 312500). Set the queue of a link in LAB (qdisc=, "
    "limit=); with LAB … rate=none, a router's own tbf is the bottleneck"
)


def test_a_queue_of_a_router_before_a_limited_link(warns):
    text = "LAB dumbbell rate=50mbit\nSET_QDISC host=router qdisc=fq_codel\n"
    assert warns(text) == [STAYS.format("fq_codel")]


def test_a_shaper_that_is_faster_than_the_link_behind_it(warns):
    text = (
        "LAB dumbbell rate=50mbit\nSET_QDISC host=router qdisc=tbf rate=51mbit burst=9k limit=9k\n"
    )
    assert warns(text) == [STAYS.format("tbf")]


def test_the_same_command_is_reported_once(warns):
    text = (
        "LAB dumbbell rate=50mbit\nFOR i IN 1..3 DO\nSET_QDISC host=router qdisc=fq_codel\nDONE\n"
    )
    assert warns(text) == [STAYS.format("fq_codel").replace(":2:", ":3:")]


def test_a_shaper_that_only_some_cells_make_faster_than_the_link(warns):
    shaper = "SET_QDISC host=router qdisc=tbf rate=${r}mbit burst=9k limit=9k"
    text = f"LAB dumbbell rate=50mbit\nSWEEP r=5,60,70,10 DO\n{shaper}\nDONE\n"
    assert warns(text) == [STAYS.format("tbf").replace(":2:", ":3:")]


def test_a_link_that_only_some_cells_make_slower_than_the_shaper_before_it(warns):
    shaper = "SET_QDISC host=a qdisc=tbf rate=10mbit burst=9k limit=9k\n"
    sweep = "SWEEP r=40,5,20 DO\nSET_LINK host=a rate=${r}mbit\nDONE\n"
    assert [each.partition("(")[0] for each in warns(f"LAB pair rate=50mbit\n{shaper}{sweep}")] == [
        "warning: a.nts:4: SET_LINK host=a: the bottleneck is now the link a - b "
    ]


def test_a_shaper_of_a_host_that_is_faster_than_its_link(warns):
    text = "LAB pair rate=50mbit\nSET_QDISC host=a qdisc=tbf rate=1gbit burst=9k limit=9k\n"
    [warning] = warns(text)
    assert "the bottleneck remains the link a - b after it (50 Mbit/s" in warning


@pytest.mark.parametrize(
    "command",
    [
        "SET_QDISC host=router qdisc=tbf rate=50mbit burst=9k limit=9k",
        "SET_QDISC host=router qdisc=tbf rate=10mbit burst=9k limit=9k",
        'SET_QDISC host=router qdisc=cake other="bandwidth 10mbit"',
        'SET_QDISC host=router qdisc=netem other="loss 1%"',
        "SET_QDISC host=router qdisc=tbf action=delete",
        "SET_QDISC host=client1 qdisc=fq",
        "SET_NETEM host=router netem_delay=5",
    ],
)
def test_what_does_what_it_says_is_not_reported_of(warns, command):
    assert warns(f"LAB dumbbell rate=50mbit\n{command}\n") == []


def test_a_link_without_a_rate_leaves_the_bottleneck_to_the_router(warns):
    text = "LAB dumbbell rate=none\nSET_QDISC host=router qdisc=fq_codel\n"
    assert warns(text) == []


def test_the_lab_of_the_command_line_counts(warns):
    text = "LAB dumbbell rate=50mbit\nSET_QDISC host=router qdisc=fq_codel\n"
    assert warns(text, "--lab", "dumbbell,rate=none") == []


def test_names_that_are_mapped_are_found(warns):
    text = "LAB dumbbell rate=50mbit\nSET_QDISC host=kernel1 qdisc=fq_codel\n"
    [warning] = warns(text, "--map", "kernel1=router")
    assert "SET_QDISC host=kernel1 qdisc=fq_codel: the bottleneck remains the link" in warning


def test_check_tells_it_too_and_is_content(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.nts").write_text("LAB dumbbell rate=50mbit\nSET_QDISC host=router qdisc=sfq\n")
    status = cli.main(["check", "a.nts"])
    said = capsys.readouterr().err
    assert "warning: SET_QDISC host=router qdisc=sfq: the bottleneck remains the link" in said
    assert (status, said.splitlines()[-1]) == (0, "0 errors, 1 warning")


def test_a_link_without_limits_gets_its_first_ones(warns):
    assert warns("LAB pair\nSET_LINK host=a rate=5mbit\nSET_LINK host=b mtu=9000\n") == []


def test_limits_of_a_link_that_has_some(warns):
    assert warns("LAB pair rate=9mbit\nSET_LINK host=a to=b rate=5mbit\n") == []


LIMITED = "LAB dumbbell rate=50mbit\nSET_LINK host=router to=right rate=10mbit\n"


@pytest.mark.parametrize(
    ("rate", "warned"),
    [("20mbit", [STAYS.format("tbf").replace("50", "10", 1).replace(":2:", ":3:")]), ("9mbit", [])],
)
def test_a_shaper_is_compared_with_the_rate_that_set_link_has_given_its_link(warns, rate, warned):
    text = f"{LIMITED}SET_QDISC host=router qdisc=tbf rate={rate} burst=9k limit=9k\n"
    assert warns(text) == warned


SHAPED = "LAB dumbbell rate=50mbit\nSET_QDISC host=router qdisc=tbf rate=20mbit burst=9k limit=9k\n"


@pytest.mark.parametrize(
    ("commands", "warned"),
    [
        (["SET_LINK host=router to=right rate=10mbit limit=20K"], True),
        (["SET_LINK host=router to=right rate=20mbit"], False),
        (
            [
                "SET_QDISC host=router qdisc=tbf action=delete",
                "SET_LINK host=router to=right rate=10mbit",
            ],
            False,
        ),
    ],
)
def test_a_link_that_set_link_makes_slower_than_the_shaper_before_it(warns, commands, warned):
    said = "the bottleneck is now the link router - right (10 Mbit/s, queue 20K), after the"
    expected = f"{said} qdisc tbf of SET_QDISC host=router"
    lines = [line.partition(": SET_LINK ")[2] for line in warns(SHAPED + "\n".join(commands))]
    assert [line.partition(": ")[2] for line in lines] == ([expected] if warned else [])


COMMAND = "LAB pair\nDO_COMMAND host=a name=tell rx=9\n"


def test_a_command_in_a_lab_without_a_file_that_allows_it(warns):
    said = "DO_COMMAND name=tell: in a lab it needs `netesto run --commands FILE`"
    assert warns(COMMAND) == [f"warning: a.nts:2: {said}, with a table [commands] that allows it"]


def test_check_compares_the_file_of_commands_with_the_script(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.nts").write_text(COMMAND)
    (tmp_path / "allowed.toml").write_text('[commands.tel]\nrun = ["true"]\n')
    assert cli.main(["check", "--commands", "allowed.toml", "a.nts"]) == 2
    first, *_, remedy, _ = capsys.readouterr().err.splitlines()
    said = "a.nts:2:1: error: allowed.toml: command tell is not allowed"
    assert (first, remedy) == (said, "Did you mean tel?")


@pytest.mark.parametrize("words", [["check"], ["run", "-n"]])
def test_file_of_commands_that_is_wrong_is_refused_also_if_no_command_needs_it(
    tmp_path, monkeypatch, capsys, words
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.nts").write_text("LAB pair\n")
    (tmp_path / "allowed.toml").write_text("[limits]\nkeep = true\n")
    assert cli.main([*words, "--commands", "allowed.toml", "a.nts"]) == 2
    assert "allowed.toml:1: limits: only [commands] belongs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('[commands.tell]\nrun = ["echo", "{rx}"]\nparameters = { rx = "1-10" }\n', ""),
        (
            '[commands.tell]\nrun = ["echo", "{rx}"]\nparameters = { rx = "1-8" }\n',
            "a.nts:2:1: agent.toml: command tell: rx=9: not allowed",
        ),
        ("", "a.nts:2:1: agent.toml: command tell is not allowed"),
        (
            '[commands.tell]\nrun = ["echo", "{rx}"]\nparameters = { rx = ["9", "one"] }\n',
            "a.nts:3:1: agent.toml: command tell: rx=10: not allowed",
        ),
    ],
)
def test_file_of_commands_is_compared_with_the_script(tmp_path, monkeypatch, capsys, table, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.nts").write_text(COMMAND + "DO_COMMAND host=a name=tell rx=10\n")
    (tmp_path / "agent.toml").write_text(table)
    outcome = cli.main(["run", "-n", "--commands", "agent.toml", "a.nts"])
    first = capsys.readouterr().err.partition("\n")[0]
    assert (outcome, first) == (2 if said else 0, said)


# ---- links that a program carries ------------------------------------------------------------


@pytest.fixture
def complaint(tmp_path, monkeypatch, capsys):
    """The first line of the error of a dry run of a script."""
    monkeypatch.chdir(tmp_path)

    def of(text):
        (tmp_path / "a.nts").write_text(text)
        assert cli.main(["run", "-n", "a.nts"]) != 0
        return capsys.readouterr().err.splitlines()[0]

    return of


def test_a_link_that_any_cell_protects_must_not_have_a_qdisc(complaint):
    assert (
        complaint(
            "LAB pair rate=1gbit qdisc=fq_codel\nSWEEP p=off,ordered DO\n"
            "SET_LINK host=a to=b protect=$p\nDO_CLIENT host=a server=b test=TCP_STREAM\nDONE\n"
        )
        == "a.nts:3:1: SET_LINK host=a: qdisc=fq_codel: the program that carries it has no qdisc="
    )


def test_a_link_that_a_cell_protects_is_carried_by_the_program_in_the_others(warns):
    text = "LAB pair rate=1gbit\nIF 1 DO\nSET_LINK host=a to=b protect=ordered copies=1\nDONE\n"
    flow = "DO_CLIENT host=a server=b test=TCP_STREAM exp=COUNTER\nWAIT_FLOWS\nPROCESS_EXP\n"
    assert warns(f"{text}{flow}SET_LINK host=a to=b copies=3\n{flow}") == []


def test_a_setting_of_protection_needs_a_link_that_the_program_carries(complaint):
    assert complaint("LAB pair rate=1gbit\nSET_LINK host=a to=b copies=3\n") == (
        "a.nts:2:1: SET_LINK host=a: copies=3: the kernel carries this link, which cannot protect"
    )


def test_a_stress_test_needs_a_link_that_the_program_carries(complaint):
    assert complaint("LAB pair rate=1gbit\nSTRESS_LINK host=a to=b\n") == (
        "a.nts:2:23: STRESS_LINK host=a to=b: no link that the program carries"
    )


def test_a_stress_test_needs_a_rate_and_room_for_a_frame(complaint):
    assert complaint("LAB corrupting\nSTRESS_LINK host=s1 to=s2\n") == (
        "a.nts:2:24: STRESS_LINK host=s1 to=s2: a link without rate="
    )
    lab = "LAB corrupting rate=1gbit protect=ordered txbuffer=1600\n"
    assert complaint(f"{lab}STRESS_LINK host=s1 to=s2 size=9000\n") == (
        "a.nts:2:24: STRESS_LINK host=s1 to=s2: txbuffer=1600: does not hold one frame of 9000"
        " bytes"
    )


def test_a_trace_needs_bitrate_where_no_link_of_a_sender_ever_has_a_rate(complaint, tmp_path):
    (tmp_path / "t.txt").write_text("\nh1 0 2 10.0.0.2 1000000 0 0\n")
    trace = "DO_TRACE file=t.txt protocol=udp exp=COUNTER\nWAIT_FLOWS\nPROCESS_EXP\n"
    assert complaint(f"LAB corrupting rtt=1\n{trace}") == (
        "a.nts:2:1: DO_TRACE needs bitrate= here: the first link of h1 has no rate"
    )


@pytest.mark.parametrize(
    ("lab", "before", "bitrate"),
    [
        ("rate=1mbit", "", ""),
        ("rtt=1", "SET_LINK host=h1 to=s1 rate=1mbit\n", ""),
        ("rtt=1", "", "bitrate=1mbit "),
    ],
)
def test_a_trace_with_a_rate_is_accepted(tmp_path, monkeypatch, lab, before, bitrate):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.txt").write_text("\nh1 0 2 10.0.0.2 1000000 0 0\n")
    trace = f"DO_TRACE file=t.txt protocol=udp {bitrate}exp=COUNTER\nWAIT_FLOWS\nPROCESS_EXP\n"
    (tmp_path / "a.nts").write_text(f"LAB corrupting {lab}\n{before}{trace}")
    assert cli.main(["run", "-n", "a.nts"]) == 0
