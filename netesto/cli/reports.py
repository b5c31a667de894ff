"""Report scripts and comparisons for the command line: `netesto exp`, `netesto compare`."""

import argparse
from collections.abc import Mapping, Sequence

from netesto.cli import folders, printing
from netesto.errors import UsageError
from netesto.report import compare as comparing
from netesto.report import comparepage
from netesto.report.compare import Verdict
from netesto.report.expscript import Runner, tables
from netesto.run import status


def exp(options: argparse.Namespace) -> int:
    """Run a report script; its page goes to a file or to standard output."""
    variables: dict[str, str] = {}
    for word in options.variables:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"{word}: not NAME=VALUE", remedy="Write: bw=100mbit")
        variables[name] = value
    runner = Runner(
        strict=options.strict,
        explain=options.explain,
        out=options.out,
        warn=printing.err,
        tell=printing.err,
    )
    made = runner.run_script(options.script, variables)
    made.write_files()
    printing.deliver(made.html, options.out)
    if options.out is not None:
        printing.out(f"page  {options.out}")
    return status.OK


def classic(words: Sequence[str]) -> int:
    """The words of the classic command line; its page goes to standard output."""
    made = Runner(warn=printing.err).run_words(words)
    made.write_files()
    printing.deliver(made.html, None)
    return status.OK


_OF_VERDICTS: Mapping[Verdict, int] = {
    Verdict.WORSE: status.FAILED,
    Verdict.NOT_COMPARABLE: status.NOT_COMPARABLE,
    Verdict.CANNOT_TELL: status.CANNOT_TELL,
    Verdict.BETTER: status.OK,
    Verdict.EQUIVALENT: status.OK,
}


def compare(options: argparse.Namespace) -> int:
    """Compare two results folders; 0 only if the new one is shown not to be worse."""
    request = comparing.CompareRequest(
        measures=_names(options.measures),
        by=_names(options.by),
        repeats=_names(options.repeats),
        with_invalidated=options.with_invalid,
        threshold_percent=options.threshold,
        is_paired=options.paired,
    )
    for folder in (options.base, options.new):
        folders.warn_of_altered(folder)
    found = comparing.compare(options.base, options.new, request)
    printing.out(tables.as_text(comparepage.table(found, found.judged)))
    *sentences, verdict = comparepage.summary(found)
    for sentence in sentences:
        printing.out(sentence)
    if options.out is not None:
        printing.deliver(comparepage.render(found), options.out)
        printing.out(f"page  {options.out}")
    printing.out(verdict)
    if options.lenient and found.verdict is Verdict.CANNOT_TELL:
        return status.OK
    return _OF_VERDICTS[found.verdict]


def _names(words: Sequence[str]) -> list[str]:
    """`--by ca bw` and `--by ca,bw` are the same."""
    return [name for word in words for name in word.split(",") if name]
