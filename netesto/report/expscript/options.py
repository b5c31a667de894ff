"""The words of the language: remembered options, their commands, and the parsing of their
values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from netesto.errors import ScriptError
from netesto.report.expscript import numerals
from netesto.report.expscript.csvcells import Warn
from netesto.report.expscript.dataset import nearest

KNOWN = (
    # Of doPlot, as the classic tool knows them.
    "plotX", "plotY1", "plotY2", "plotSeries", "plotTitle", "plotXTitle", "plotY1Title",
    "plotY2Title", "plotSeriesTitle", "xUniform", "Y1min", "Y2min", "Y1Units", "Y2Units", "Y1div",
    "Y2div", "Y1eqY2", "Y1LogScale", "Y2LogScale", "plotXSize", "plotYSize", "plotXLen",
    "BkgLevel", "PlotPercent", "PlotRatio",
    # What doPlot can do beyond.
    "plotType", "plotFacet", "plotRepeats", "Y1Error", "Y1max", "Y2max", "Y1step", "Y2step",
    "plotHLines", "plotVLines", "plotPalette", "plotLegend", "plotFormats", "plotXOrder",
    # Of doPlot and Average.
    "Repeats", "Invalidated",
    # Of doTable and Average.
    "rowColorChange", "PercentTable", "ColsOrder", "ColTitles", "tableFormats", "Stats",
    "AverageMissing", "AverageWeight",
)  # fmt: skip

# Of the classic tool's web form: a script may hold them, and they did nothing there either.
WITHOUT_EFFECT = (
    "SaveStatic", "plotFilename", "Image", "ShowColFormatting", "AverageBy", "Description", "Note",
    "CleanDescript", "FilterNotes", "ScaleColumns", "ScaleFactor", "doRatio", "KeepRows",
    "DeleteRows", "AllRows", "KeepCols", "DeleteCols", "AllCols", "SavePage", "ReadPage",
    "SaveCommands", "SaveComs", "ReadCommands", "BrowseCommands", "HelpBubble", "Menu", "csvFile",
    "loadCsvFile", "AppendCsvFile", "plotDo", "StartMacro", "EndMacro", "SaveMacro", "DoMacro",
    "SavingMacro",
)  # fmt: skip


def check(key: str, commands: Sequence[str], *, warn: Warn) -> None:
    """Warn of an unknown key; keys are exact, `plotx` is not `plotX`."""
    if key not in KNOWN + WITHOUT_EFFECT:
        warn(f"unknown command or option {key!r}; {nearest(key, [*sorted(KNOWN), *commands])}")


@dataclass(frozen=True, slots=True)
class Options:
    """The options that are set, and the receiver of warnings about them."""

    values: Mapping[str, str]
    warn: Warn

    def get(self, key: str, default: str = "") -> str:
        """The value of an option without spaces around it; `default` if it is empty or not set."""
        return self.values.get(key, "").strip() or default

    def number(self, key: str) -> float | None:
        """The number of an option, None if it is empty or not set; another text is a warning."""
        text = self.get(key)
        value = numerals.drawable(text)
        if value is None and text:
            self.warn(f"{key}: {text!r} is not a number and is ignored")
        return value

    def chosen(self, key: str, *choices: str) -> str:
        """The value of an option that chooses; the first choice if it is empty or not set."""
        text = self.get(key, choices[0])
        for choice in choices:
            if text.lower() == choice.lower():
                return choice
        raise ScriptError(
            f"{key}: invalid value {text!r}", remedy=f"It takes one of {', '.join(choices)}."
        )
