"""The commands of a report script: one method per command on one state, which produce blocks."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from netesto.errors import ScriptError
from netesto.report import plotting
from netesto.report.expscript import (
    averages,
    dataset,
    newcolumns,
    numerals,
    options,
    overlays,
    plotplan,
    selection,
    tables,
)
from netesto.report.expscript.csvcells import Warn
from netesto.report.expscript.dataset import View
from netesto.report.expscript.lines import assignments, items
from netesto.report.expscript.options import Options
from netesto.report.expscript.page import (
    Block,
    Note,
    PageHeading,
    Paragraph,
    PlotBlock,
    TableBlock,
)
from netesto.report.expscript.tables import Table
from netesto.report.figures import Plot
from netesto.units import counted

# Always remembered, until NewColName uses it.
OLDER_NEW_COLUMN = ("newcolfield1", "newcolop", "newcolfield2")

_FILE_NAME = re.compile(r"[^/\\\0]+")
# The permitted schemes of links; a javascript: address would run code.
LINKED_SCHEMES = frozenset({"http", "https", "file"})
_SCHEME = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9+.-]*):")
# Browsers read an address without these.
_UNSEEN = re.compile(r"[\x00-\x20]")
PLOTS, TABLES = Path("Plots"), Path("Tables")


class ReportSession:
    """The data, the selection, the remembered options, and the blocks so far.

    `warn` receives each warning, `step` what became of the rows. `explain`: tables and plots show
    how their rows were chosen. `folder` is that of the page: links and files are relative to it,
    without it to the current one.
    """

    def __init__(
        self, *, warn: Warn, step: Callable[[str], None], explain: bool, folder: Path | None
    ) -> None:
        self.title = ""
        self.blocks: list[Block] = []
        self.files: dict[Path, bytes] = {}
        self.log: Path | None = None
        self._warn = warn
        self._tell_step = step
        self._explain = explain
        self._folder = folder
        self._view: View | None = None
        self._read_last: tuple[tuple[object, ...], dataset.Dataset] | None = None
        self._values: dict[str, str] = {}
        self._options = Options(self._values, self._warn)
        # Set by `format`; before the data is read it turns formatting on.
        self._decimals: int | None = None
        # Links follow the file, until relPath says otherwise.
        self._prefix: str | None = None
        self._page = "exp.html"
        self._steps: list[str] = []
        self._changes = tables.Changes()

        rows = self._step("Rows", partial(selection.rows, warn=self._warn))
        # In their usual spelling; any case is understood.
        self._commands: Mapping[str, Callable[[str], None]] = {
            "File": self._file, "read": self._read, "Join": self._join,
            "append": self._step("append", partial(dataset.append, warn=self._warn)),
            # Of the web form: known, and without an effect in a script.
            "Path": lambda _: None, "relPath": self._rel_path, "IterFile": self._iter_file,
            "format": self._format, "log": self._log_to,
            "Select": self._step("Select", partial(selection.select, warn=self._warn)),
            "Sort": self._step("Sort", selection.sort),
            **dict.fromkeys(("Rows", "selectRows", "selectExp"), rows),
            "Cols": self._cols, "selectCols": self._cols,
            "RemoveCols": self._remove_cols, "deleteCols": self._remove_cols,
            "NewCol": self._step("NewCol", self._with_column),
            "NewColName": self._step("NewColName", self._with_older_column),
            "Average": self._step("Average", self._averaged),
            "doTable": self._do_table, "doPlot": self._do_plot,
            "plotSize": self._plot_size, "List": self._list, "Title": self._name,
            "Heading": self._heading, "SubHeading": partial(self._heading, level=3),
            "Text": lambda text: self.blocks.append(Paragraph(text)),
        }  # fmt: skip
        self._by_word = {name.lower(): do for name, do in self._commands.items()}

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands, in their usual spelling."""
        return tuple(self._commands)

    def do(self, key: str, value: str) -> None:
        """Run a command, or remember an option. ScriptError, without a place, if it is wrong."""
        word = key.lower()
        if word in self._by_word:
            self._by_word[word](value)
        elif word in OLDER_NEW_COLUMN:
            self._values[word] = value
        else:
            options.check(key, self.commands, warn=self._warn)
            self._values[key] = value

    # ---- the data ------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """The data as selected. ScriptError if none has been read."""
        if self._view is None:
            raise ScriptError(
                "no data has been read",
                remedy="File=bbr/exp must come first; it reads bbr/exp.csv.",
            )
        return self._view

    @property
    def is_empty_of_rows(self) -> bool:
        """Whether nothing is shown because no rows are selected, without a note about it."""
        shown = [each for each in self.blocks if not isinstance(each, PageHeading | Paragraph)]
        return not shown and self._view is not None and not len(self._view.rows)

    def _became(self, view: View, step: str) -> None:
        self._view = view
        text = f"{step}: {counted(len(view.rows), 'row')}"
        self._steps.append(text)
        self._tell_step(text)

    def _step(self, name: str, change: Callable[[View, str], View]) -> Callable[[str], None]:
        """The command that makes one view of another."""

        def do(value: str) -> None:
            self._became(change(self.view, value), f"{name}={value}")

        return do

    def _loaded(self, data: dataset.Dataset, step: str) -> None:
        self._steps = []
        self._became(View.of(data), step)

    def _load(self, path: Path) -> dataset.Dataset:
        """The data of a file; the data of the previous file, which may be large, is released first.

        A loop that needs its file again, because Average replaced the data, reads it once.
        """
        key = _identity(path), self._decimals
        if self._read_last is None or self._read_last[0] != key:
            self._view = self._read_last = None
            self._read_last = key, dataset.load(path, decimals=self._decimals, warn=self._warn)
        return self._read_last[1]

    def _file(self, value: str) -> None:
        self._loaded(self._load(_csv_path(value)), f"File={value}")
        self._prefix = None

    def _read(self, value: str) -> None:
        self._loaded(self._load(Path(value)), f"read={value}")

    def _format(self, value: str) -> None:
        self._decimals = numerals.decimals(value)

    def _join(self, value: str) -> None:
        sources = {label: _csv_path(path) for label, path in assignments(items(value)).items()}
        if not sources:
            raise ScriptError(
                "Join names no file", remedy="Write: Join = old=results/old, new=results/new"
            )
        data = dataset.join(sources, decimals=self._decimals, warn=self._warn)
        self._loaded(data, f"Join={value}")
        self._prefix = None

    def _cols(self, value: str) -> None:
        names = self.view.data.names if value.strip() == "ALL" else items(value)
        self._view = replace(self.view, visible=tuple(self._checked_columns(names, "Cols")))

    def _remove_cols(self, value: str) -> None:
        gone = set(self._checked_columns(items(value), "RemoveCols"))
        visible = tuple(name for name in self.view.visible if name not in gone)
        self._view = replace(self.view, visible=visible)

    def _checked_columns(self, names: Sequence[str], what: str) -> list[str]:
        columns = self.view.data.columns
        for name in names:
            if name not in columns:
                near = dataset.nearest(name, self.view.data.names)
                self._warn(f"{what}: no column {name!r}; {near}")
        return [name for name in names if name in columns]

    def _with_column(self, view: View, text: str) -> View:
        decimals = dataset.DEFAULT_DECIMALS if self._decimals is None else self._decimals
        return newcolumns.add(view, text, decimals=decimals, warn=self._warn)

    def _with_older_column(self, view: View, name: str) -> View:
        first, operator, second = (self._options.get(key) for key in OLDER_NEW_COLUMN)
        return newcolumns.add_older(view, first=first, operator=operator, second=second, name=name)

    def _averaged(self, view: View, text: str) -> View:
        statistics = averages.parse_statistics(
            self._options.get("Stats"), view.data.names, warn=self._warn
        )
        keeps = self._options.chosen("Invalidated", "omit", "keep") == "keep"
        view = dataset.without_invalidated(view, "Average", keep=keeps, warn=self._warn)
        skips = self._options.chosen("AverageMissing", "poison", "skip") == "skip"
        return averages.average(
            view,
            text,
            statistics=statistics,
            skip_missing=skips,
            weight=self._options.get("AverageWeight"),
            repeats=items(self._options.get("Repeats")),
            warn=self._warn,
        )

    # ---- tables --------------------------------------------------------------------------

    def _do_table(self, value: str) -> None:
        name = value.strip()
        ordered = self._options.chosen("ColsOrder", "off", "on") == "on"
        view = replace(self.view, own_order=ordered)
        if not len(view.rows):
            self._warn("doTable: no rows are selected; there is no table")
            self.blocks.append(Note("No rows are selected: there is no table."))
            return
        titles = assignments(items(self._options.get("ColTitles")))
        table = tables.build(
            view,
            titles=titles,
            link=partial(
                dataset.link,
                view.data,
                prefix=self._prefix,
                page=self._page,
                out_folder=self._folder,
            ),
            changes=self._changes,
            change_column=self._options.get("rowColorChange"),
            name=name,
        )
        self._add_table(table)
        if self._values.get("PercentTable", "off").strip().lower() != "off":
            self._add_table(tables.percent(view, titles=titles), is_percent=True)

    def _add_table(self, table: Table, *, is_percent: bool = False) -> None:
        forms = self._forms("tableFormats", tuple(tables.FORMS), "") if table.name else []
        written = [(form, tables.FORMS[form](table)) for form in forms]
        contents = [(form, text.encode(errors="backslashreplace")) for form, text in written]
        self.blocks.append(
            TableBlock(
                table,
                identity=f"table{len(self.blocks) + 1}",
                steps=() if is_percent else self._told_steps(),
                is_percent=is_percent,
                files=self._keep(TABLES, table.name, contents),
            )
        )

    def _told_steps(self) -> tuple[str, ...]:
        return tuple(self._steps) if self._explain else ()

    def _list(self, value: str) -> None:
        if value.strip().lower() in {"", "columns"}:
            self._add_table(tables.list_columns(self.view))
            return
        for name in items(value):
            self._add_table(tables.list_values(self.view, name))

    # ---- plots ---------------------------------------------------------------------------

    def _do_plot(self, name: str) -> None:
        over_time = self._options.get("plotType").lower() == "time"
        plot = (overlays if over_time else plotplan).plan(self.view, self._options)
        if plot is None:
            self.blocks.append(Note("No row can be drawn: there is no plot."))
        else:
            self._add_plot(plot, name.strip())

    def _add_plot(self, plot: Plot, name: str) -> None:
        every = ", ".join(plotting.FORMATS)
        forms = self._forms("plotFormats", plotting.FORMATS, every) if name else []
        drawn = plotting.draw_plot(plot, list(dict.fromkeys(("svg", *forms))))
        self.blocks.append(
            PlotBlock(
                plot,
                drawn["svg"].decode(),
                identity=f"plot{len(self.blocks) + 1}",
                steps=self._told_steps(),
                files=self._keep(PLOTS, name, [(form, drawn[form]) for form in forms]),
            )
        )

    def _plot_size(self, value: str) -> None:
        for key, part in zip(("plotXSize", "plotYSize"), re.split(r"[x,]", value), strict=False):
            if numerals.drawable(part) is None:
                self._warn(f"plotSize: {part!r} is not a number and is ignored")
            else:
                self._values[key] = part.strip()

    # ---- files and text ------------------------------------------------------------------

    def _forms(self, key: str, known: Sequence[str], default: str) -> list[str]:
        forms = items(self._options.get(key, default))
        for form in forms:
            if form not in known:
                raise ScriptError(
                    f"{key}: unknown format {form!r}", remedy=f"Choose from {', '.join(known)}."
                )
        return forms

    def _keep(
        self, folder: Path, name: str, contents: Sequence[tuple[str, bytes]]
    ) -> tuple[str, ...]:
        """Files with their suffixes, to be written beside the page once everything has gone well.

        Their links are relative to the page; none if it is not known where the page will be.
        """
        if contents and (_FILE_NAME.fullmatch(name) is None or name in {".", ".."}):
            raise ScriptError(
                f"invalid file name {name!r}", remedy="Write a name without folder and suffix."
            )
        for form, content in contents:
            path = (self._folder or Path()) / folder / f"{name}.{form}"
            if path in self.files:
                self._warn(f"{path} is written twice; the later one is kept")
            self.files[path] = content
        if self._folder is None:
            return ()
        return tuple((folder / f"{name}.{form}").as_posix() for form, _ in contents)

    def _heading(self, text: str, *, level: int = 2) -> None:
        self.blocks.append(PageHeading(text, level, anchor=f"section{len(self.blocks) + 1}"))

    def _name(self, title: str) -> None:
        self.title = title

    def _rel_path(self, prefix: str) -> None:
        scheme = _SCHEME.match(_UNSEEN.sub("", prefix))
        if scheme is not None and scheme["name"].lower() not in LINKED_SCHEMES:
            raise ScriptError(
                f"relPath: {scheme['name']}: URLs are not allowed",
                remedy="Write a folder (../results), or a URL of http, https or file;"
                " for a folder whose name has a colon, ./a:b.",
            )
        self._prefix = prefix

    def _iter_file(self, name: str) -> None:
        self._page = name or "exp.html"

    def _log_to(self, name: str) -> None:
        self.log = None if name.strip().lower() in {"", "null"} else Path(name)


def _identity(path: Path) -> tuple[object, ...]:
    """Equal only for the same file with the same content."""
    try:
        found = path.stat()
    except OSError:
        return (path, None)
    return (path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _csv_path(value: str) -> Path:
    """A CSV file without its suffix; a results folder means the exp.csv in it."""
    if not value.strip():
        raise ScriptError("File names no file", remedy="File=bbr/exp reads bbr/exp.csv.")
    path, given = Path(f"{value}.csv"), Path(value)
    if path.exists():
        return path
    if given.suffix == ".csv" and given.exists():
        return given
    return given / "exp.csv" if (given / "exp.csv").exists() else path
