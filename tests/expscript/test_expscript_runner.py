from pathlib import Path

import pytest

from netesto.errors import ScriptError
from netesto.report.expscript import Runner


def test_an_error_tells_file_line_and_what_would_be_right(run):
    with pytest.raises(ScriptError) as caught:
        run("File=exp\n\nNewCol = x = speed / 2\n")
    assert str(caught.value) == (
        "my.exp:3:1: NewCol x: no column 'speed' for the expression 'speed / 2'\n"
        "    NewCol = x = speed / 2\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^\n"
        "there are: ca, exp, expName, group, instances, note, rate, rateMax, rateMin"
    )


def test_an_unknown_key_is_reported_with_what_may_be_meant(run):
    outcome = run("plotx=ca\nmystery=1")
    assert outcome.warnings[0] == (
        "my.exp:1: unknown command or option 'plotx'; "
        "did you mean 'plotX' or 'plotXLen' or 'plotY2'?"
    )


def test_strict_makes_a_warning_an_error(run):
    with pytest.raises(ScriptError, match=r"my\.exp:1:1: unknown command or option 'plotx'"):
        run("plotx=ca", strict=True)


def test_commands_are_known_in_any_case(run):
    assert run("FILE=exp\nSELECT=ca==bbr\ncols=exp\nDOTABLE").table == [["2.0"], ["4.0"]]


def test_words_of_the_web_form_are_known_and_do_nothing(run):
    assert run("Path=.\nSaveStatic=\nMenu=on\n").warnings == []


def test_end_stops_everything(run, tmp_path):
    (tmp_path / "inner.exp").write_text("doTable\nend\ndoTable\n")
    assert len(run("File=exp\nsource=inner.exp\ndoTable").tables) == 1


def test_a_sourced_file_sees_only_the_variables_it_is_given(run, tmp_path):
    (tmp_path / "inner.exp").write_text("Text=$a ${b}$$\n")
    outcome = run("source=inner.exp, a = x=y", variables={"b": "outer"})
    assert [block.text for block in outcome.blocks] == ["x=y ${b}$"]
    assert outcome.warnings == [
        "inner.exp:1: unknown variable $b is left as it is; $$ writes a dollar sign"
    ]


def test_variables_are_passed_on_by_name(run, tmp_path):
    (tmp_path / "inner.exp").write_text("Text=$t\n")
    outcome = run("source=inner.exp,t=$title", variables={"title": "Rates"})
    assert [block.text for block in outcome.blocks] == ["Rates"]


def test_sourced_commands_act_on_the_same_state(run, tmp_path):
    (tmp_path / "inner.exp").write_text("Select=ca==bbr\nCols=exp\n")
    assert run("File=exp\nsource=inner.exp\ndoTable").table == [["2.0"], ["4.0"]]


def test_a_file_beside_the_script_is_found(run, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/outer.exp").write_text("source=inner.exp\n")
    (tmp_path / "lib/inner.exp").write_text("Text=found\n")
    assert [block.text for block in run("source=lib/outer.exp").blocks] == ["found"]


def test_an_error_in_a_sourced_file_tells_the_way_there(run, tmp_path):
    (tmp_path / "inner.exp").write_text("\ndoTable\n")
    with pytest.raises(ScriptError) as caught:
        run("source=inner.exp")
    assert str(caught.value) == (
        "inner.exp:2:1: no data has been read\n"
        "    doTable\n"
        "    ^^^^^^^\n"
        "File=bbr/exp must come first; it reads bbr/exp.csv.\n"
        "  in my.exp:1: source=inner.exp"
    )


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("source=nothing.exp", "cannot read the script 'nothing.exp'"),
        ("source=my.exp,foo", "'foo' is not of the form name=value"),
        ("source=my.exp", "my.exp sources itself"),
        ("relPath=javascript:alert(1)", "relPath: javascript: URLs are not allowed"),
        ("relPath= java\tscript:x", "relPath: javascript: URLs are not allowed"),
        ("relPath=data:text/html,x", "relPath: data: URLs are not allowed"),
        ("relPath=host:80/results", "relPath: host: URLs are not allowed"),
        ("source=", "source names no file"),
        ("doTable foo", "'doTable foo' has no value"),
        ("=5", "missing name before"),
        ("For = x in 1,2\nText=$x", "'For = x in 1,2' is not closed"),
        ("For = x\nEndFor", "'x' is not of the form NAME in VALUES"),
        ("EndIf", "unmatched EndIf"),
        ("File=", "File names no file"),
    ],
)
def test_what_is_wrong_with_a_line_is_an_error(run, script, message):
    with pytest.raises(ScriptError, match=message):
        run(script)


def test_a_long_way_of_sourced_files_is_no_cycle(run, tmp_path):
    for number in range(60):
        (tmp_path / f"{number}.exp").write_text(f"source={number + 1}.exp\n")
    (tmp_path / "60.exp").write_text("Text=there\n")
    assert [block.text for block in run("source=0.exp").blocks] == ["there"]


def test_a_way_of_sourced_files_has_an_end(run, tmp_path):
    for number in range(120):
        (tmp_path / f"{number}.exp").write_text(f"source={number + 1}.exp\n")
    with pytest.raises(ScriptError, match="more than 100 nested files"):
        run("source=0.exp")


def test_a_cycle_is_reported_with_its_way(run, tmp_path):
    (tmp_path / "a.exp").write_text("source=b.exp\n")
    (tmp_path / "b.exp").write_text("source=./a.exp\n")
    with pytest.raises(ScriptError, match=r"a\.exp sources itself, through b\.exp"):
        run("source=a.exp")


def test_a_script_may_source_itself_with_other_variables(run, tmp_path):
    (tmp_path / "a.exp").write_text("Text=$x\nIf = $x != ...\nsource=a.exp,x=$x.\nEndIf\n")
    assert [block.text for block in run("source=a.exp,x=.").blocks] == [".", "..", "..."]


def test_a_line_that_variables_make_too_long_is_an_error(run):
    with pytest.raises(ScriptError, match="the line grows beyond 1,000,000 characters"):
        run("Set = a=aaaaaaaaaa\n" + "Set = a=$a$a\n" * 40)


def test_a_nul_in_a_script_is_an_error_with_its_line(run):
    with pytest.raises(ScriptError, match=r"my\.exp: line 2: NUL character") as caught:
        run("File=exp\nText=a\0b\n")
    assert "iconv" in caught.value.remedy


def test_a_script_in_latin_1_is_read_and_reported(run, tmp_path):
    (tmp_path / "inner.exp").write_bytes("Text=caf\xe9\nText=b\n".encode("latin-1"))
    outcome = run("source=inner.exp")
    assert [block.text for block in outcome.blocks] == ["caf\xe9", "b"]
    assert outcome.warnings == [
        (
            "my.exp:1: inner.exp: line 1 is not UTF-8 (byte 0xe9), and read as Latin-1; "
            "iconv -f LATIN1 -t UTF-8 makes UTF-8 of such a file"
        )
    ]


@pytest.mark.parametrize("key", ["NewCol = x", "Select"])
def test_what_is_nested_beyond_reason_is_an_error(run, key):
    with pytest.raises(ScriptError, match="too deeply nested"):
        run(f"File=exp\n{key}={'(' * 5000}1{')' * 5000}")


# ---- loops and variables -----------------------------------------------------------------


def texts(outcome) -> list[str]:
    return [block.text for block in outcome.blocks]


def test_a_loop_runs_for_each_value_and_nests(run):
    script = "For = bw in 10, 100\nFor = ca in bbr,reno\nText=$ca $bw\nEndFor\nEndFor"
    assert texts(run(script)) == ["bbr 10", "reno 10", "bbr 100", "reno 100"]


def test_a_loop_runs_over_the_values_of_a_column(run):
    script = "File=exp\nSelect=rate>45\nFor = n in distinct(note)\nText=$n\nEndFor"
    assert texts(run(script)) == ["base", "x", "failed"]


def test_a_default_yields_to_a_given_variable(run):
    script = "Default = bw=10\nDefault = rtt=40\nText=$bw $rtt"
    assert texts(run(script, variables={"bw": "100"})) == ["100 40"]


def test_a_variable_can_be_set_and_set_again(run):
    assert texts(run("Set = a=1\nSet = b=$a$a\nSet = a=2\nText=$a $b")) == ["2 11"]


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("$ca == bbr", "yes"),
        ("$ca != bbr", "no"),
        ("10 == 10.0", "yes"),
        ("$ca", "yes"),
        ("off", "no"),
        ("", "no"),
    ],
)
def test_an_if_chooses(run, condition, text):
    script = f"If = {condition}\nText=yes\nElse\nText=no\nEndIf"
    assert texts(run(script, variables={"ca": "bbr"})) == [text]


def test_an_inner_else_belongs_to_the_inner_if(run):
    script = "If = 1\nIf = 0\nText=a\nElse\nText=b\nEndIf\nElse\nText=c\nEndIf"
    assert texts(run(script)) == ["b"]


# ---- explaining --------------------------------------------------------------------------


def test_explain_tells_the_rows_after_each_step(run):
    outcome = run("File=exp\nSelect=exp[has].0\nSelect=ca==bbr,rate>85\ndoTable", explain=True)
    assert outcome.steps == [
        "my.exp:1: File=exp: 5 rows",
        "my.exp:2: Select=exp[has].0: 4 rows",
        "my.exp:3: Select=ca==bbr,rate>85: 1 row",
    ]
    assert "<li>Select=ca==bbr,rate&gt;85: 1 row</li>" in outcome.html


def test_the_log_is_a_file_that_holds_steps_and_warnings(run):
    outcome = run("log=my.log\nFile=exp\nSelect=foo\n")
    assert outcome.files[Path("my.log")].decode() == (
        "my.exp:2: File=exp: 5 rows\n"
        "warning: my.exp:3: Select: 'foo' has no operator and is always true; "
        "write column==value, or one of != > >= < <= <> [has] [hasnot] =~ in\n"
        "my.exp:3: Select=foo: 5 rows\n"
    )


@pytest.mark.parametrize("nothing", ["null", "NULL", " Null ", ""])
def test_a_log_of_null_is_no_file(run, nothing):
    assert run(f"log=a\nlog={nothing}\nFile=exp\n").files == {}


# ---- from outside ------------------------------------------------------------------------


def test_words_of_a_classic_command_line_run_from_left_to_right(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("exp.csv").write_text("exp,ca\n1.0,bbr\n2.0,cubic\n")
    Path("my.exp").write_text("Select=ca==$ca\n")
    words = ["File=exp", "--file=my.exp,ca=cubic", "Cols=ca", "doTable"]
    assert ">cubic</td>" in Runner().run_words(words).html
    assert ">bbr</td>" not in Runner().run_words(words).html


def test_end_stops_the_remaining_words_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "<p>a</p>" in Runner().run_words(["Text=a", "end", "nonsense"]).html


def test_a_wrong_word_is_reported_by_its_number():
    with pytest.raises(ScriptError, match=r"command line:2:1: '--help' has no value"):
        Runner().run_words(["Text=a", "--help"])


@pytest.mark.parametrize("word", ["--file", "--file=", "--file= "])
def test_a_file_word_without_a_file_says_what_to_write(word):
    with pytest.raises(ScriptError, match=r"'--file' has no value(.|\n)*Write: --file=SCRIPT"):
        Runner().run_words([word])


def test_no_words_make_an_empty_page():
    assert "<h1>Experiments</h1>" in Runner().run_words([]).html


def test_nothing_is_written_before_write_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("exp.csv").write_text("exp,a\n1.0,5\n")
    Path("my.exp").write_text("File=exp\nplotX=exp\nplotY1=a\nplotFormats=svg\ndoPlot=bars\n")
    out = tmp_path / "pages" / "my.html"
    report = Runner(out=out).run_script(Path("my.exp"), {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exp.csv", "my.exp"]
    report.write_files()
    written = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert written == ["exp.csv", "my.exp", "pages/Plots/bars.svg"]
    assert 'href="Plots/bars.svg"' in report.html
