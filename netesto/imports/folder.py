"""An import into a results folder: each new run becomes an experiment with its files unchanged.

Everything is first written into a separate folder, and moved when it is complete: an interrupted
import leaves nothing half-written, and the next one continues.
"""

import os
import shutil
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context, parent_process
from pathlib import Path, PurePosixPath

from netesto import __version__
from netesto.errors import OutputError, UsageError
from netesto.imports import findings, formats, source, tree
from netesto.imports.experiment import GROUND, Row, build, cpu_file, kept_name, put
from netesto.imports.tree import CpuSource, RunFiles, Tree
from netesto.results import csvfile, durable, imported, integrity, runs, store
from netesto.results.fields import Fields
from netesto.results.imported import FileRemark, ImportedRun, Loose
from netesto.results.store import Store
from netesto.system import interrupts

_STAGING = ".importing"
# A process takes half a second to begin, and 100 MB.
_RUNS_FOR_PROCESSES = 100
_PROCESSES_MAX = 4
# Jobs in progress are completed before an interrupted import ends.
_CHUNK = 4


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What to import: paths, and a pattern of file names ("" for none). `is_copy`: copy files where
    they could be hard links."""

    paths: Sequence[Path]
    pattern: str = ""
    is_copy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The result: the new experiments, how many of them failed, how many runs the folder already
    had, its findings by kind, and the ignored files."""

    experiments: Sequence[int]
    failed: int
    known: int
    findings: Mapping[str, int]
    ignored: Sequence[str]


def find(request: ImportRequest, *, out: Path) -> Tree:
    """Find what there is to import. UsageError if nothing is usable."""
    trees = [_find(path, request, out.resolve()) for path in request.paths]
    # Paths may overlap.
    once: dict[Path, RunFiles] = {}
    for run in (run for each in trees for run in each.runs):
        once.setdefault(run.output.path, run)
    found = Tree(
        runs=tuple(once.values()),
        loose=tuple(source for each in trees for source in each.loose),
        findings=tuple(finding for each in trees for finding in each.findings),
        ignored=tuple(name for each in trees for name in each.ignored),
    )
    if not found.runs and request.pattern:
        raise tree.unmatched(request.pattern, found.findings)
    if not found.runs:
        names = ", ".join(map(str, request.paths))
        raise UsageError(
            f"{names}: nothing to import",
            remedy="Name a tree with src-cmd:HOST:N files, or files of iperf3, netperf or flent;"
            " --name PATTERN says how files are called. What netperf -P 0 prints tells neither its"
            " test nor its unit: measure with -k, or without -P 0.",
        )
    return found


def _find(path: Path, request: ImportRequest, out: Path) -> Tree:
    if not path.exists():
        raise UsageError(
            f"{path}: no such file or folder", remedy="Name the files or folders to import."
        )
    files, left_out = tree.walk(path, without=out)
    if request.pattern:
        found = tree.listed(files, request.pattern, formats.recognise)
    elif tree.is_harness(files):
        found = tree.harness(files)
    else:
        found = tree.recognised((file, formats.recognise(file)) for file in files)
    of_metadata = (each for file in found.metadata for each in findings.of_metadata(file))
    return replace(found, findings=(*left_out, *found.findings, *of_metadata))


def columns_of(found: Tree) -> list[str]:
    """The columns of exp.csv that the runs fill by name."""
    names = dict.fromkeys(name for run in found.runs for name in run.columns)
    return [*names, "rep", "parallel", "mtu"]


def bring(results: Store, found: Tree, columns: Fields, claimable: Fields, request: ImportRequest,
          *, argv: Sequence[str]) -> Imported:  # fmt: skip
    """Import the new runs of `found`. ResultsError if the folder cannot be written."""
    started_s = time.time()
    _complete_earlier(results)
    before = imported.runs(results.folder)
    fresh = _fresh(found.runs, before)
    first = results.counter() + 1
    run_name = runs.name_at(started_s)
    if fresh:
        last = first + len(fresh) - 1
        results.check_free(first - 1, last)
        staging = results.folder / _STAGING
        durable.make_folder(staging)
        work = partial(
            build,
            into=staging,
            columns=columns,
            claimable=claimable,
            run_name=run_name,
            is_copy=request.is_copy,
        )
        try:
            built = list(_each(work, list(enumerate(fresh, start=first))))
            rows = [row for each in built for row in each]
            # Last, because it makes the folder complete: it will be moved even if this process is
            # killed.
            csvfile.rewrite(staging / store.TABLE, columns.names, rows)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        _move_in(results, staging)
    numbers = list(range(first, first + len(fresh)))
    all_runs = imported.runs(results.folder)
    failed = sum(bool(run.reason) for run in all_runs if run.exp >= first)
    # An existing run may have new files.
    new = {run.output.path for run in fresh}
    again = (file for run in found.runs if run.output.path not in new for file in run.cpu)
    loose = _keep_loose(
        results.folder, all_runs, (*found.loose, *again), found.findings, is_copy=request.is_copy
    )
    everything, orphans = imported.joined(all_runs, loose)
    remarks = {each for run in everything for each in run.findings}
    remarks |= {*loose.findings, *findings.of_cpus(everything, orphans)}
    imported.write_findings(results.folder, remarks)
    results.write_run(
        runs.RunRecord(
            name=run_name, argv=tuple(argv), script_path="", script="", seed=None,
            started=runs.utc(started_s), versions={"netesto": __version__}, ground=GROUND,
            wall_s=round(time.time() - started_s), experiments=tuple(numbers),
            ended=runs.utc(time.time()), exit_status=1 if failed else 0,
        )
    )  # fmt: skip
    return Imported(
        experiments=numbers,
        failed=failed,
        known=len(found.runs) - len(fresh),
        findings=Counter(finding.kind for finding in remarks),
        ignored=found.ignored,
    )


def _complete_earlier(results: Store) -> None:
    """Move the leftovers of a killed import, or remove them if incomplete."""
    staging = results.folder / _STAGING
    if not staging.is_dir():
        return
    if (staging / store.TABLE).is_file():
        _move_in(results, staging)
    else:
        shutil.rmtree(staging, ignore_errors=True)


def _move_in(results: Store, staging: Path) -> None:
    """Move the complete folder; the next call completes an interrupted one."""
    rows = csvfile.read(staging / store.TABLE)
    results.take(max(results.counter(), *csvfile.by_experiment(rows)))
    results.adopt([staging])
    shutil.rmtree(staging, ignore_errors=True)


# ---- which runs are new --------------------------------------------------------------------------


def _fresh(found: Iterable[RunFiles], before: Sequence[ImportedRun]) -> list[RunFiles]:
    """The runs that the folder does not have. Outputs of runs that failed are often equal, so
    their paths count, too."""
    known: dict[tuple[str, int, str, str], list[ImportedRun]] = defaultdict(list)
    for run in before:
        known[run.section, run.number, run.date, run.sha256].append(run)
    fresh = []
    for each in found:
        key = (each.section, each.number, each.date, integrity.sha256_of(each.output.path))
        same = next((run for run in known[key] if _is_same(each, run)), None)
        if same is None:
            fresh.append(each)
        else:
            known[key].remove(same)
    return fresh


def _is_same(found: RunFiles, known: ImportedRun) -> bool:
    if found.host and found.host != known.host:
        return False
    if not known.reason:
        return True
    one, other = PurePosixPath(found.output.name).parts, PurePosixPath(known.file).parts
    length = min(len(one), len(other))
    return one[-length:] == other[-length:]


# ---- many at once ------------------------------------------------------------------------------


def _each(
    work: Callable[[tuple[int, RunFiles]], list[Row]], jobs: Sequence[tuple[int, RunFiles]]
) -> Iterator[list[Row]]:
    """`work` for each job, in order; of many jobs in as many processes as there are processors."""
    processes = min(len(os.sched_getaffinity(0)), _PROCESSES_MAX)
    if len(jobs) < _RUNS_FOR_PROCESSES or processes < 2:
        yield from map(work, jobs)
        return
    # Not fork: the process may have threads.
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_end_with_parent
    ) as pool:
        # Ctrl-C reaches all processes of a terminal; these first complete their jobs.
        with interrupts.deferred():
            results = pool.map(work, jobs, chunksize=_CHUNK)
        yield from results


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, however that did: the pool's
    processes would wait for work forever."""

    def wait() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


# ---- what belongs to no run ----------------------------------------------------------------------


def _keep_loose(
    folder: Path,
    runs_there: Iterable[ImportedRun],
    sources: Iterable[CpuSource],
    remarks: Iterable[FileRemark],
    *,
    is_copy: bool,
) -> Loose:
    """Keep mpstat files that came without a new run, and findings; only what is new. Return all
    that belongs to no run."""
    before = imported.read_loose(folder)
    cpu = list(before.cpu)
    findings_ = {*before.findings, *remarks}
    # Files of several runs may be equal.
    known = Counter(
        file.key for file in (*(f for run in runs_there for f in run.cpu.values()), *cpu)
    )
    for each in sources:
        digest = integrity.sha256_of(each.file.path)
        key = replace(each.cpu_file, sha256=digest).key
        if known[key]:
            known[key] -= 1
            continue
        load = source.load(each)
        file = cpu_file(each, load, digest)
        if isinstance(load, OutputError):
            findings_.add(FileRemark(each.file.name, "truncated", load.message))
        target = folder / imported.LOOSE_FILES / kept_name(each.file, f"{digest[:16]}-")
        durable.make_folder(target.parent)
        with durable.writing(target):
            target.unlink(missing_ok=True)
            put(each.file.path, target, is_copy=is_copy)
        cpu.append(file)
    loose = Loose(cpu=tuple(cpu), findings=tuple(sorted(findings_)))
    imported.write(folder, loose)
    return loose
