"""Run a report script on a CSV file, in a folder of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from netesto.report.expscript.page import Block, Note, PlotBlock, TableBlock
from netesto.report.expscript.runner import Runner

CSV = """\
exp,expName,group,ca,instances,rate,rateMin,rateMax,note
1.0,1s2c,0,cubic,1,94.5,20,24.9,base
1.1,1s2c,1,cubic,1,40.5,20,20.5,
2.0,1s2c,0,bbr,1,90,10,40,x
3.0,1s3c,0,cubic,10,50,5,5,
4.0,1s3c,0,bbr,10,80.5,0,30,failed
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The output and the warnings of a script."""

    blocks: list[Block]
    html: str
    files: Mapping[Path, bytes]
    warnings: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    @property
    def tables(self) -> list[list[list[str]]]:
        """The cells of each table, without its headings."""
        return [
            [[cell.text for cell in row.cells] for row in block.table.rows]
            for block in self.blocks
            if isinstance(block, TableBlock)
        ]

    @property
    def table(self) -> list[list[str]]:
        return self.tables[0]

    @property
    def headings(self) -> list[str]:
        """The titles of the first table's columns."""
        tables = [block.table for block in self.blocks if isinstance(block, TableBlock)]
        return [heading.title for heading in tables[0].headings]

    @property
    def plots(self) -> list[PlotBlock]:
        return [block for block in self.blocks if isinstance(block, PlotBlock)]

    @property
    def notes(self) -> list[str]:
        return [block.text for block in self.blocks if isinstance(block, Note)]

    def column(self, title: str) -> list[str]:
        """The cells below a heading of the first table."""
        place = self.headings.index(title)
        return [row[place] for row in self.table]


Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a script on exp.csv in an empty current folder; `File=exp` is the script's own line."""
    monkeypatch.chdir(tmp_path)

    def run_script(
        script: str, *, csv: str = CSV, strict: bool = False, explain: bool = False, **more: Any
    ) -> Outcome:
        Path("exp.csv").write_text(csv)
        Path("my.exp").write_text(script)
        warnings: list[str] = []
        steps: list[str] = []
        runner = Runner(
            warn=warnings.append, tell=steps.append, strict=strict, explain=explain,
            out=more.get("out"),
        )  # fmt: skip
        report = runner.run_script(Path("my.exp"), more.get("variables", {}))
        return Outcome(runner.session.blocks, report.html, report.files, warnings, steps)

    return run_script


@pytest.fixture
def shown(run: Run) -> Callable[..., list[str]]:
    """The exp ids in the table after some lines of a script."""

    def ids(script: str, *, csv: str = CSV) -> list[str]:
        return run(f"File=exp\n{script}\nCols=exp\ndoTable", csv=csv).column("exp")

    return ids
