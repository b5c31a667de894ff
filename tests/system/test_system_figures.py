"""The report scripts that we ship, on results that were measured: the paper's figures 6, 7 and 8,
plots over time, and two results folders against each other."""

import re
import shutil
from pathlib import Path

import pytest
from needs import kernel_or_reason
from whole_runs import Outcome, netesto, run_script

from netesto.report.expscript import numerals, tables
from netesto.report.expscript.page import PlotBlock, TableBlock
from netesto.report.expscript.runner import Runner

# Longer than any working run of a guest takes.
TIMEOUT_S = 600

SCRIPTS = Path(__file__).parents[2] / "scripts"

# Figures 7 and 8: three clients with some flows each.
RATES = """\
LAB dumbbell clients=3 servers=1 rate=100mbit offload=off
SOURCE inlib
OTHER bw=100mbit,netem=10,testType=3Stream1
SWEEP ca=cubic,reno instances=1,2 DO
    RUN MServerStream servers=server1 clients=client1,client2,client3 ca=$ca dur=1 \\
        expName=1s3c0${instances}fs instances=$instances
DONE
"""

# Figure 6: a second flow enters; one run for each bandwidth.
SECOND_FLOW = """\
DEFAULT bw=10mbit
LAB dumbbell clients=2 servers=1 rate=$bw
SOURCE inlib
OTHER bw=$bw,netem=40
SWEEP ca=cubic,reno DO
    RUN TwoFlowBaseStream server=server1 client1=client1 client2=client2 expName=1s2clfs \\
        ca1=$ca ca2=$ca dur1=1.5 dur2=1 delay2=0.5
DONE
"""

# The same question twice: what a lossy path costs. Experiments of the same cell are repetitions;
# without a SWEEP they share a guest, and here both sides do: 1 to 4 are clean, 5 to 8 lossy.
REPEATED = """\
LAB pair rate=10mbit delay=20
SOURCE inlib
FOR loss IN 0,3 DO
    SET_LINK host=a to=b loss=$loss
    FOR _ IN 1..4 DO
        RUN OneFlowStream server=b client=a expName=lossy ca=reno dur=1
    DONE
DONE
"""


def run_lab(folder: Path, script: str, obstacle: str, *options: str) -> Outcome:
    if obstacle:
        pytest.skip(f"lab: {obstacle}")
    outcome = run_script(folder, script, ["--seed", "5", "--force", *options])
    assert outcome.status == 0, outcome.stderr
    return outcome


@pytest.fixture(scope="module")
def rates(tmp_path_factory: pytest.TempPathFactory, lab_obstacle: str) -> Outcome:
    return run_lab(tmp_path_factory.mktemp("rates"), RATES, lab_obstacle)


@pytest.fixture(scope="module")
def second_flow(tmp_path_factory: pytest.TempPathFactory, lab_obstacle: str) -> Outcome:
    folder = tmp_path_factory.mktemp("second")
    run_lab(folder, SECOND_FLOW, lab_obstacle)
    return run_lab(folder, SECOND_FLOW, lab_obstacle, "-D", "bw=20mbit")


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results `clean` and `lossy`."""
    kernel_or_reason("sim")
    folder = tmp_path_factory.mktemp("repeated")
    done = run_script(folder, REPEATED, ["--ground", "sim", "--seed", "5"])
    assert done.status == 0, done.stderr
    first, *rows = (done.out / "exp.csv").read_text().splitlines(keepends=True)
    for name, numbers in (("clean", range(1, 5)), ("lossy", range(5, 9))):
        side = folder / name
        side.mkdir()
        own = [row for row in rows if int(row.partition(".")[0]) in numbers]
        (side / "exp.csv").write_text("".join([first, *own]))
        for number in numbers:
            shutil.move(done.out / f"{number}", side)
    return folder


def shown(script: Path, **variables: str) -> tuple[list[list[str]], list[PlotBlock]]:
    """The cells of a script's only table, and its plots; a warning is an error."""
    runner = Runner(warn=pytest.fail, tell=print, strict=True, explain=False, out=None)
    runner.run_script(script, variables)
    (table,) = [one.table for one in runner.session.blocks if isinstance(one, TableBlock)]
    plots = [one for one in runner.session.blocks if isinstance(one, PlotBlock)]
    lines = tables.as_csv(table).splitlines()
    return [line.split(",") for line in lines], plots


def texts(plot: PlotBlock) -> set[str]:
    return set(re.findall(r"<text[^>]*>([^<]*)</text>", plot.svg))


@pytest.mark.lab
def test_figure_6_shows_the_second_flow_of_each_experiment(second_flow: Outcome):
    cells, (plot,) = shown(SCRIPTS / "figure-6-second-flow.exp", data=str(second_flow.out))
    assert cells[1:] == [
        [row[name] for name in cells[0]]
        for row in second_flow.rows
        if row["exp"].endswith(".2") and row["status"] == "ok"
    ]
    assert {(row[2], row[4]) for row in cells[1:]} == {
        ("cubic", "10mbit"), ("reno", "10mbit"), ("cubic", "20mbit"), ("reno", "20mbit"),
    }  # fmt: skip
    assert {"10mbit", "20mbit", "cubic", "reno", "Ping RTT (ms)"} <= texts(plot)


@pytest.mark.lab
def test_figure_7_shows_retransmissions_and_fairness(rates: Outcome, tmp_path: Path):
    script = SCRIPTS / "figure-7-retransmissions-and-fairness.exp"
    page = tmp_path / "figure-7.html"
    done = netesto(tmp_path, "exp", "--strict", "-o", str(page), str(script), f"data={rates.out}")
    assert (done.status, done.stderr) == (0, "")
    assert [
        text
        for text in ("1", "2", "cubic", "reno", "% Retransmits", "Flows per host (3 hosts)")
        if f">{text}</text>" not in page.read_text()
    ] == []
    assert sorted(path.name for path in (tmp_path / "Plots").iterdir()) == [
        "figure-7.pdf", "figure-7.png", "figure-7.svg",
    ]  # fmt: skip


@pytest.mark.lab
def test_figure_8_has_the_fairness_of_its_rows(rates: Outcome):
    cells, (plot,) = shown(SCRIPTS / "figure-8-table-and-plot.exp", data=str(rates.out))
    whole = [row for row in rates.rows if row["exp"].endswith(".0")]
    assert len(whole) == 4
    assert [(row[0], row[-1]) for row in cells[1:]] == [
        (row["exp"], numerals.cut(float(row["rateMax"]) / float(row["rateMin"]))) for row in whole
    ]
    assert {"cubic", "reno", "Flows per host (3 hosts)"} <= texts(plot)


@pytest.mark.lab
def test_rate_window_and_delay_over_time(second_flow: Outcome, tmp_path: Path):
    script = tmp_path / "over-time.exp"
    script.write_text(
        f"File={second_flow.out}\nSelect=exp==1.0\nCols=exp\ndoTable\nplotType=time\n"
        "plotY1=rate\ndoPlot\nplotY1=cwnd\ndoPlot\nplotY1=rtt\ndoPlot\n"
    )
    _, plots = shown(script)
    titles = ["Goodput (Mbit/s)", "Congestion window (segments)", "Round-trip time in TCP (ms)"]
    assert [block.plot.description for block in plots] == titles
    labels = {text for text in texts(plots[0]) if text.startswith("cubic client")}
    assert labels == {"cubic client1→server1 #1", "cubic client2→server1 #1"}


@pytest.mark.sim
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_a_lossy_path_is_a_regression(repeated: Path):
    words = ("compare", "clean", "lossy", "--metric", "rate", "-o", "compared.html")
    done = netesto(repeated, *words)
    assert (done.status, done.stdout.splitlines()[-2:]) == (
        1, ["page  compared.html", "Worse: the only comparison shows that new is worse than base."],
    )  # fmt: skip
    assert "rate: change from base to new" in (repeated / "compared.html").read_text()


@pytest.mark.sim
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_a_folder_does_not_differ_from_itself(repeated: Path):
    done = netesto(repeated, "compare", "clean", "clean", "--metric", "rate")
    assert (done.status, done.stdout.splitlines()[-1]) == (
        0, "Equivalent: new is within 5 % of base in the only comparison.",
    )  # fmt: skip
