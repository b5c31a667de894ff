"""Wrong input ends with the documented exit status, and words a newcomer understands."""

import os
import sys
from pathlib import Path

import pytest
from needs import kernel_or_reason

from netesto import cli
from netesto.lab import guest
from netesto.system import process


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit status of `netesto WORDS`, and what it wrote to standard error."""
    status = cli.main(words)
    return status, capsys.readouterr().err


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes a script and goes where it is."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> str:
        (tmp_path / "a.nts").write_text(text)
        return "a.nts"

    return write


def test_an_unknown_command_is_shown_with_a_caret_and_the_nearest_one(script, capsys):
    assert run(capsys, "run", script("LAB pair\nDO_CLEINT host=a\n")) == (
        2,
        (
            "a.nts:2:1: unknown command DO_CLEINT\n"
            "    DO_CLEINT host=a\n"
            "    ^^^^^^^^^\n"
            "Did you mean DO_CLIENT?\n"
        ),
    )


def test_an_undefined_variable_is_shown_where_it_stands(script, capsys):
    assert run(capsys, "run", script("LAB pair\nWAIT $pause\n")) == (
        2,
        (
            "a.nts:2:6: undefined variable $pause\n"
            "    WAIT $pause\n"
            "         ^^^^^^\n"
            "Set it before: SET pause=value; or pass it to the macro: pause=value.\n"
        ),
    )


def test_a_missing_end_names_the_macro(script, capsys):
    status, text = run(capsys, "run", script("BEGIN Test\nWAIT 1\n"))
    assert (status, "END Test" in text) == (2, True)


def test_a_missing_done_names_the_loop(script, capsys):
    status, text = run(capsys, "run", script("FOR c IN a,b DO\nWAIT 1\n"))
    assert (status, "DONE" in text) == (2, True)


def test_a_file_that_is_not_there_to_source_is_named(script, capsys):
    status, text = run(capsys, "run", script("SOURCE inlbi\n"))
    assert (status, "inlbi" in text, "inlib?" in text) == (2, True, True)


def test_a_script_that_is_not_there_is_named(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "run", "nothere.nts") == (
        2,
        (
            "netesto: nothere.nts: No such file or directory\n"
            f"It is not in {tmp_path}; scripts are named by their paths.\n"
        ),
    )


def test_a_script_that_is_not_there_suggests_the_nearest(script, capsys):
    script("WAIT 0\n")
    assert run(capsys, "run", "aa.nts") == (
        2,
        "netesto: aa.nts: No such file or directory\nDid you mean a.nts?\n",
    )


def test_a_folder_is_no_script(capsys, tmp_path):
    assert run(capsys, "run", str(tmp_path)) == (
        2,
        f"netesto: {tmp_path}: Is a directory\nName a script in it: {tmp_path}/NAME.nts\n",
    )


def test_a_host_that_is_not_in_the_lab_is_shown_where_it_stands(script, capsys):
    text = "LAB pair\nDO_CLIENT host=a server=c exp=1 ca=cubic test=TCP_RR\n"
    assert run(capsys, "run", "--plain", script(text)) == (
        2,
        (
            "a.nts:2:18: unknown host c\n"
            "    DO_CLIENT host=a server=c exp=1 ca=cubic test=TCP_RR\n"
            "                     ^^^^^^^^\n"
            "The hosts are: a, b\n"
        ),
    )


def test_a_guest_is_not_started_for_a_host_that_its_lab_will_not_have(script, capsys, monkeypatch):
    monkeypatch.setattr(guest, "run", lambda *_, **__: pytest.fail("a guest was started"))
    text = "LAB pair\nDO_CLIENT host=a server=c exp=1 ca=cubic test=TCP_RR\n"
    status, told = run(capsys, "run", "--plain", "--ground", "sim", script(text))
    assert (status, told.splitlines()[0]) == (2, "a.nts:2:18: unknown host c")


def test_a_lab_written_with_spaces_is_shown_with_commas(script, capsys):
    words = ("run", "--plain", "--lab", "star hosts=3 rate=10mbit", script("WAIT 0\n"))
    assert run(capsys, *words) == (
        2,
        (
            "netesto: --lab star hosts=3 rate=10mbit: commas separate its words\n"
            "Write: --lab star,hosts=3,rate=10mbit\n"
        ),
    )


def test_a_topology_that_is_not_there_suggests_the_nearest(script, capsys):
    status, text = run(capsys, "run", "--plain", script("LAB piar\nWAIT 0\n"))
    assert (status, "did you mean pair?" in text) == (2, True)


def test_a_script_without_a_network_says_how_to_give_one(script, capsys):
    status, text = run(
        capsys, "run", "--plain", script("DO_CLIENT host=a server=b exp=1 test=TCP_RR\n")
    )
    assert (status, "Add a line such as 'LAB dumbbell rate=100mbit'" in text) == (2, True)


def test_a_results_folder_that_cannot_be_written_is_refused(script, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    status, text = run(capsys, "run", "--out", "file/out", script("LAB pair\nWAIT 0\n"))
    assert (status, "file/out: cannot write" in text) == (3, True)


@pytest.mark.parametrize("ground", ["lab", pytest.param("uml", marks=pytest.mark.uml)])
def test_a_results_folder_begun_with_other_columns_is_refused(script, capsys, tmp_path, ground):
    """By this process: on `uml` before a guest starts, whose words `capsys` would not see."""
    if ground == "uml":
        kernel_or_reason("uml")
    elif os.geteuid() != 0:
        pytest.skip("needs root")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "exp.csv").write_text("exp,colour\n")
    words = ("run", "--ground", ground, "--out", "out")
    status, text = run(capsys, *words, script("LAB pair\nWAIT 0\n"))
    assert (status, "no longer present: colour" in text) == (3, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("run", "--gruond", "lab", "a.nts"),
            "netesto: run: unknown option --gruond\nDid you mean --ground?\n",
        ),
        (
            ("clean", "--nosuch"),
            "netesto: clean: unknown option --nosuch\nSee 'netesto clean --help'\n",
        ),
        (
            # Which its help names, as an option of another command.
            ("hosts", "check", "--hosts", "h1"),
            "netesto: hosts check: unknown option --hosts\nSee 'netesto hosts check --help'\n",
        ),
        (
            ("run", "-n", "a.nts", "b.nts"),
            "netesto: run: unexpected argument 'b.nts'\nSee 'netesto run --help'\n",
        ),
        (("rnu", "a.nts"), "netesto: unknown command 'rnu'\nDid you mean run?\n"),
        (
            ("kernel", "bild"),
            "netesto: kernel: unknown action 'bild'\nDid you mean build?\n",
        ),
        (
            ("run", "--family", "5", "a.nts"),
            "netesto: run: unknown --family value '5'\nValues: 4, 6.\n",
        ),
        (
            ("run", "--ground", "moon", "a.nts"),
            "netesto: run: unknown --ground value 'moon'\nValues: lab, uml, sim, hosts.\n",
        ),
    ],
)
def test_a_slip_in_the_command_line_is_named_with_what_may_be_meant(words, told, capsys):
    assert run(capsys, *words) == (2, told)


def test_a_file_or_folder_in_place_of_the_command_is_reported_with_its_command(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("a.nts").touch()
    Path("results").mkdir()
    assert [run(capsys, "a.nts"), run(capsys, "results")] == [
        (2, "netesto: unknown command 'a.nts'\nWrite: netesto run a.nts\n"),
        (2, "netesto: unknown command 'results'\nWrite: netesto show results\n"),
    ]


def test_help_is_a_command_too(capsys):
    with pytest.raises(SystemExit):
        cli.main(["help", "show"])
    assert capsys.readouterr().out.startswith("usage: netesto show")


def test_an_argument_that_is_missing_shows_the_usage(capsys):
    status, text = run(capsys, "run")
    assert (status, "usage: netesto run" in text) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        ("--lab", "nosuch"),
        ("--hosts", "no/such"),
        ("--hosts", "nosuch.toml"),
        ("--hosts=-v",),
        ("--map", "a="),
        ("--lib", "nosuch"),
        ("--fields", "nosuch"),
        ("--max-iterations", "-1"),
        ("--jobs", "2", "--ground", "lab"),
        ("--seed", "x"),
        ("--max-wall", "-5"),
    ],
)
def test_an_option_that_is_wrong_stops_a_dry_run_before_it_prints(words, script, capsys):
    status = cli.main(["run", "-n", *words, script("LAB pair\nDO_SERVER host=a\n")])
    assert (status, capsys.readouterr().out) == (2, "")


@pytest.mark.parametrize("command", [["run", "-n"], ["run"]])
def test_a_file_in_the_place_of_the_results_folder_is_refused(command, script, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert run(capsys, *command, "--out", "file/x", script("LAB pair\n")) == (
        3,
        (
            "netesto: file/x: cannot write: file is a file\n"
            "A file is where a folder should be; choose another results folder with --out.\n"
        ),
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--seed", "x"), "netesto: argument --seed: 'x' is not a whole number"),
        (("--max-wall", "x"), "netesto: argument --max-wall: 'x' is not a time in seconds"),
        (("--budget", "0h"), "netesto: argument --budget: '0h' is no time"),
        (("--budget=-1h",), "netesto: argument --budget: '-1h' is no time"),
    ],
)
def test_a_number_that_is_none_is_reported(words, told, capsys):
    status, text = run(capsys, "run", *words, "a.nts")
    assert (status, text.splitlines()[0].partition(";")[0]) == (2, told)


@pytest.mark.parametrize("words", [["show", "none"], ["report", "none"], ["compare", "none", "n"]])
def test_results_that_are_not_there_are_reported(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, text = run(capsys, *words)
    assert (status, text.splitlines()[0]) == (2, "netesto: none: no such folder")


@pytest.mark.parametrize("words", [["show", "file"], ["report", "file"], ["compare", "file", "n"]])
def test_a_file_is_no_folder_of_results(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    status, text = run(capsys, *words)
    assert (status, text.splitlines()[0]) == (2, "netesto: file: not a folder")


def test_nothing_on_standard_input_is_no_script():
    status, text = shell('exec "$@" </dev/null')
    assert (status, text.splitlines()[0]) == (
        2,
        "netesto: standard input is empty: there is no script",
    )


def test_an_error_that_nobody_reads_keeps_its_status():
    told = shell('{ "$@" 2>&1; echo $? >&3; } 3>&2 | :', "run", "--seed", "x")
    assert told == (0, "2\n")


def test_a_definition_of_what_is_no_name_is_refused(script, capsys):
    assert run(capsys, "run", "-D", "é=1", script("WAIT 0\n")) == (
        2,
        "netesto: -D é=1: not NAME=VALUE\nWrite: -D dur=60\n",
    )


def test_a_definition_that_is_given_twice_is_a_warning(script, capsys):
    words = ("run", "-n", "-D", "a=1", "-D", "a=2", script("ECHO $a\n"))
    assert run(capsys, *words) == (0, "warning: -D a is given 2 times; a=2 counts\n")


def test_a_definition_that_nothing_uses_is_a_warning(script, capsys):
    words = ("run", "-n", "-D", "dru=5", script("# dru\nDEFAULT dur=20\nWAIT $dur\n"))
    assert run(capsys, *words) == (
        0,
        "warning: -D dru=5: the script has no variable dru. Did you mean dur?\n",
    )


def test_a_definition_without_a_value_is_refused(script, capsys):
    assert run(capsys, "run", "-D", "dur", script("WAIT 0\n")) == (
        2,
        "netesto: -D dur: not NAME=VALUE\nWrite: -D dur=60\n",
    )


def test_no_command_shows_the_help(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    status = cli.main([])
    assert (status, "usage: netesto" in capsys.readouterr().out) == (2, True)


def test_a_dry_run_prints_and_ends_well(script, capsys):
    status = cli.main(["run", "-n", script("LAB pair\nWAIT 3\n")])
    assert (status, capsys.readouterr().out) == (0, "# 0 experiments, 0 flows, about 5 s\n")


def test_a_dry_run_in_json_ends_with_the_totals(script, capsys):
    cli.main(["run", "-n=json", script("LAB pair\nWAIT 3\n")])
    assert capsys.readouterr().out == (
        '{"summary": {"experiments": 0, "flows": 0, "seconds": 4.9}}\n'
    )


def test_a_dry_run_touches_no_file(script, capsys, tmp_path):
    run(capsys, "run", "-n", script("DO_SERVER host=a exp=COUNTER\n"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.nts"]


# ---- which kernel --------------------------------------------------------------------------------


def test_a_kernel_that_is_not_there_is_answered_with_where_to_look(script, capsys):
    status, text = run(capsys, "run", "--kernel", "sim-7.0", script("LAB pair\n"))
    assert (status, text.splitlines()[0]) == (
        2,
        "netesto: --kernel sim-7.0: neither a kernel's name nor a kernel source",
    )


def test_a_dry_run_says_so_too(script, capsys):
    status, text = run(capsys, "run", "-n", "--kernel", "sim-7.0", script("LAB pair\n"))
    assert (status, text.splitlines()[0]) == (
        2,
        "netesto: --kernel sim-7.0: neither a kernel's name nor a kernel source",
    )


def test_real_hosts_have_their_own_kernels(script, capsys):
    words = ("--hosts", "hosts.toml", "--kernel", "sim-6.1")
    assert run(capsys, "run", *words, script("LAB pair\n")) == (
        2,
        (
            "netesto: --hosts selects real hosts and excludes --ground and --kernel\n"
            "Leave out --hosts, and the script's LAB is built on this machine.\n"
        ),
    )


def shell(command: str, *words: str, stdin: str = "") -> tuple[int, str]:
    """The exit status of `netesto WORDS`, started by a shell, and what it wrote to stderr."""
    argv = ["sh", "-c", command, "sh", sys.executable, "-m", "netesto", *words]
    done = process.run(argv, timeout=60, check=False, stdin=stdin)
    return done.status, done.stderr


@pytest.mark.parametrize("words", [["--debug", "run", "-n"], ["run", "--debug", "-n"]])
def test_debug_shows_the_traceback_wherever_it_stands(words, script, capsys):
    status, text = run(capsys, *words, script("WAIT x\n"))
    assert (status, text.startswith("Traceback"), "a.nts:1:6: 'x' is not a time" in text) == (
        2,
        True,
        True,
    )


def test_a_closed_output_is_no_failure(script):
    assert shell('exec "$@" >&-', "run", "-n", script("ECHO a\n")) == (0, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_the_output_is_reported(script, monkeypatch, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    assert shell('exec "$@" >/dev/full', "run", "-n", script("ECHO a\n")) == (
        3,
        "netesto: standard output: No space left on device\n",
    )


@pytest.mark.parametrize("command", ["plan", "fmt"])
def test_a_document_that_does_not_fit_on_the_disk_is_reported(script, command):
    assert shell('exec "$@" >/dev/full', command, script("ECHO a\n" * 2000)) == (
        3,
        "netesto: standard output: No space left on device\n",
    )


def test_an_error_without_standard_error_is_not_among_the_output():
    done = process.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "netesto", "fmt", "nothing"],
        timeout=60,
        check=False,
    )
    assert (done.status, done.stdout) == (2, "")


@pytest.mark.lab
def test_a_run_whose_standard_streams_are_closed_has_its_results(script, tmp_path):
    """An agent, a socket or a file that gets their numbers would be closed, or written to."""
    path = script(
        "LAB pair\nSOURCE inlib\nRUN OneFlowStream server=b client=a expName=x ca=reno dur=1\n"
    )
    words = ("run", "--plain", "--no-pages", "--out", str(tmp_path / "out"), path)
    assert shell('exec "$@" <&- >&- 2>&-', *words) == (0, "")
    assert len((tmp_path / "out" / "exp.csv").read_text().splitlines()) == 3


def test_a_closed_input_holds_no_script():
    assert shell('exec "$@" <&-', "run", "-") == (
        2,
        "netesto: standard input is closed: there is no script\n",
    )


def test_a_script_that_is_no_text_is_reported_with_the_place(script, capsys, tmp_path):
    (tmp_path / "a.nts").write_bytes(b"ECHO \xff\n")
    assert run(capsys, "run", "a.nts") == (
        2,
        (
            "a.nts:1:6: not UTF-8 text (byte 0xff)\n"
            "    ECHO \N{REPLACEMENT CHARACTER}\n"
            "         ^\n"
            "Is this a script? Then save it as UTF-8.\n"
        ),
    )


@pytest.mark.parametrize("dry", [(), ("-n",)])
def test_jobs_are_refused_where_repetitions_share_an_experiment(dry, script, capsys):
    text = (
        "LAB pair\nBEGIN m\nDO_CLIENT host=a server=b ca=cubic test=TCP_RR\nEND m\nRUN m,2\n"
        "WAIT_FLOWS\nPROCESS_EXP\n"
    )
    status, told = run(capsys, "run", *dry, "--ground", "sim", "--jobs", "2", script(text))
    assert (status, told.splitlines()[0]) == (
        2,
        "netesto: --jobs 2: experiment 1 belongs to more than one repetition or cell",
    )


def test_a_setting_of_the_lab_given_twice_is_refused(script, capsys):
    words = ("run", "--lab", "pair,rate=1mbit,rate=2mbit", script("DO_SERVER host=a\n"))
    assert run(capsys, *words) == (
        2,
        (
            "netesto: --lab pair,rate=1mbit,rate=2mbit: rate is given twice\n"
            "Leave out rate=1mbit or rate=2mbit.\n"
        ),
    )


def test_a_host_mapped_twice_is_refused(script, capsys):
    words = ("run", "--plain", "--map", "x=a,x=b", script("LAB pair\nDO_SERVER host=x\n"))
    assert run(capsys, *words) == (
        2,
        (
            "netesto: --map x=a,x=b: x is given twice\n"
            "A name has one host; a host may have several names.\n"
        ),
    )


def test_a_python_package_that_is_missing_is_no_internal_error(tmp_path):
    (tmp_path / "a.nts").write_text("LAB pair\n")
    code = "import sys; sys.modules['lark'] = None; from netesto import cli; sys.exit(cli.main())"
    argv = [sys.executable, "-c", code, "check", str(tmp_path / "a.nts")]
    ended = process.run(argv, timeout=60, check=False)
    said = f"{sys.executable} -m pip check lists all that are missing\n"
    assert (ended.status, ended.stderr) == (3, f"netesto: Python package lark: not found\n{said}")


@pytest.mark.parametrize("verb", ["install", "remove"])
def test_a_command_for_agents_without_hosts_is_reported_with_how_to_name_some(
    verb, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    status = cli.main(["hosts", verb])
    remedy = f"Write: netesto hosts {verb} root@host1 root@host2"
    assert (status, capsys.readouterr().err.splitlines()[-1]) == (2, remedy)


def test_a_hosts_file_that_cannot_be_written_is_reported_before_an_installation(tmp_path, capsys):
    path = tmp_path / "nowhere" / "hosts.toml"
    status = cli.main(["hosts", "install", "--hosts", str(path), "h1.invalid"])
    said = f"netesto: {path}: cannot write: No such file or directory"
    assert (status, capsys.readouterr().err.splitlines()) == (3, [said])


def test_a_host_that_an_installation_is_given_twice_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    status = cli.main(["hosts", "install", "h1", "root@h2", "h2"])
    said = "netesto: host h2 is given twice"
    assert (status, capsys.readouterr().err.splitlines()[0]) == (2, said)


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (["run", "a.nts", "--out", ""], "-o/--out"),
        (["run", "a.nts", "--lib="], "--lib"),
        (["run", "a.nts", "--lab="], "--lab"),
        (["run", "a.nts", "--on", ""], "--on"),
        (["run", ""], "SCRIPT"),
        (["show", ""], "DIR"),
        (["report", ""], "DIR"),
        (["compare", "", "results"], "BASE"),
    ],
)
def test_an_empty_text_is_refused_instead_of_having_a_meaning(capsys, words, argument):
    status, text = run(capsys, *words)
    first = f"netesto: argument {argument}: it is empty, as an unset variable would be"
    assert (status, text.splitlines()[0]) == (2, first)
