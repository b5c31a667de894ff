"""docs/importing.md: its commands do what the page says; runs are dry."""

import re
import shlex
from pathlib import Path

import pytest

from netesto import cli
from netesto.lab import topology
from netesto.run.status import OK

TEXT = (Path(__file__).parents[2] / "docs" / "importing.md").read_text(encoding="utf-8")
RESULTS, JOBS, TOPOLOGIES = (
    [shlex.split(line)[1:] for line in block.splitlines()]
    for block in re.findall(r"^```\n(netesto .*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
)
TOPOLOGY = """{"topology": {
    "hosts": ["h1", "h2"], "switches": ["s1"], "links": [["h1", "s1"], ["s1", "h2"]]
}}"""
OUTPUT = """\
[  5]   0.00-60.00  sec  70.0 GBytes  {rate} Gbits/sec    7             sender
[  5]   0.00-60.04  sec  70.0 GBytes  {rate} Gbits/sec                  receiver
"""
JOB_FILE = """\
[iperf3_1stream_bigtcp]
iterations = 10
src-cmd = iperf3 -J -t 60 -c {dst} -C cubic -A 8,8
mpstat = 8-15
[iperf3_4streams_zerocopy]
iterations = 10
src-cmd = numactl -C 8-15 iperf3 -J -t 60 -c {dst} -P 4 -Z
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The files that the page assumes."""
    for name, base in (("ubuntu22-6.8", 9.0), ("ubuntu22-5.15", 8.0)):
        section = tmp_path / name / "2024-03-01:10:00" / "iperf3_1stream"
        section.mkdir(parents=True)
        for number in range(1, 5):
            text = OUTPUT.format(rate=f"{base + number / 10:.2f}")
            (section / f"src-cmd:10.3.54.2:{number}").write_text(text)
    (tmp_path / "iperf3-final-set-bigtcp.ini").write_text(JOB_FILE)
    (tmp_path / "hostlist.csv").write_text("hostname,rtt\n10.3.54.2,0.2ms\n10.3.56.2,25ms # far\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_that_import_results_lead_to_a_comparison(folder, capsys):
    assert [cli.main(words) for words in RESULTS] == [OK] * len(RESULTS)
    assert capsys.readouterr().out.splitlines()[-1].startswith("Better: the only comparison")


def test_the_command_for_topologies_writes_a_file_for_a_lab(folder):
    (folder / "topology.json").write_text(
        '{"topology": {"hosts": ["h1", "h2"], "switches": ["s1"],'
        ' "links": [["h1", "s1"], ["h2", "s1"]]}}'
    )
    imported, lab = TOPOLOGIES
    assert cli.main(imported) == OK
    assert topology.load(folder / lab[-1]).aliases == {"10.0.0.1": "h1", "10.0.0.2": "h2"}


def test_the_commands_for_job_files_lead_to_dry_runs_of_all_flows_on_each_ground(folder, capsys):
    (made, *runs) = JOBS
    assert cli.main(made) == OK
    flows = []
    for command, *words in runs:
        capsys.readouterr()
        assert cli.main([command, "-n", *(word for word in words if word != "-n")]) == OK
        flows.append(len(re.findall(r"^DO_CLIENT ", capsys.readouterr().out, re.MULTILINE)))
    # Sections, iterations, hosts.
    assert flows == [2 * 10 * 2] * 3


def test_the_command_for_topologies_makes_the_file_that_a_lab_is_built_from(folder):
    Path("topology.json").write_text(TOPOLOGY)
    (convert, (*_, made)) = TOPOLOGIES
    assert cli.main(convert) == OK
    assert cli.main(["lab", "cut", made, "h1", "h2"]) == OK
