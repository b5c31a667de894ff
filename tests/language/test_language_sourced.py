"""SOURCE may name any file, and does not show the text of one that is not a script."""

import pytest

from netesto.errors import ScriptError
from netesto.language.check import check
from netesto.language.draft import Draft
from netesto.language.dryrun import Printer
from netesto.language.plan import SourceFile
from netesto.language.planner import make

SECRET = "root:x:0:0:root:/root:/bin/bash\n"
OTHERS = (
    SECRET.encode(),
    b"-----BEGIN OPENSSH PRIVATE KEY-----\nroot\n",
    b"# a comment\n\nmachine example.net login root\n",
    b"PASSWORD=root\n",
    b"export PASSWORD=root\n",
    b'{"root": 1}\n',
    b"[root]\nagent = 1\n",
    b"\xffroot\n",
    b'"root \\\nroot\n',
    b"root " * 30_000,
)


@pytest.fixture
def secret(tmp_path):
    """Writes a file that is no script, and a script that sources it by its whole path."""

    def write(content, before=""):
        path = tmp_path / "elsewhere" / "secret"
        path.parent.mkdir()
        path.write_bytes(content)
        script = tmp_path / "a.nts"
        script.write_text(f"{before}SOURCE {path}\n")
        return script

    return write


def run(script, watch=None):
    source = SourceFile(str(script), script.read_text())
    with pytest.raises(ScriptError) as caught:
        make(source, Draft(seed=1, watch=watch), library_path=[], definitions={})
    return str(caught.value).replace("/root/", "/").replace("pytest-of-root", "")


@pytest.mark.parametrize("content", OTHERS)
def test_a_run_shows_nothing_of_a_file_that_is_no_script(secret, content):
    assert "root" not in run(secret(content))


@pytest.mark.parametrize("content", OTHERS)
def test_check_shows_nothing_of_a_file_that_is_no_script(secret, content):
    findings = check([secret(content)], library_path=[], definitions={})
    shown = "\n".join(map(str, findings)).replace("pytest-of-root", "")
    assert (len(findings), "root" in shown) == (1, False)


def test_debug_shows_nothing_of_a_file_that_is_no_script(secret):
    lines: list[str] = []
    run(secret(SECRET.encode(), before="DEBUG 1\n"), Printer(lines.append).show)
    assert "root:x" not in "\n".join(lines)


def test_the_error_stands_at_the_source_and_says_what_a_script_is(secret, tmp_path):
    [finding] = check([secret(SECRET.encode())], library_path=[], definitions={})
    assert (finding.place.line, finding.message.replace(str(tmp_path), "")) == (
        1,
        "SOURCE /elsewhere/secret: not a script: line 1 does not begin with a command",
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing yet\n",
        "SETT a=1\n",
        "HOST_SUFFIX=net\nWAIT x\n",
        "BEGIN_COMMENT\nx\nEND_COMMENT\n",
    ],
)
def test_a_script_is_sourced_and_shown_as_ever(secret, text):
    findings = check([secret(text.encode())], library_path=[], definitions={})
    assert [each for each in findings if "no script" in each.message] == []


def test_a_script_that_was_named_on_the_command_line_is_shown(tmp_path):
    script = tmp_path / "a.nts"
    script.write_text("toor:x:0:0\n")
    assert "toor:x:0:0" in run(script)
