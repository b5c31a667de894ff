"""Starts runs: makes the plan, chooses the ground, and executes the plan there."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from netesto.errors import ScriptError, UsageError
from netesto.files import paths
from netesto.grounds import Ground
from netesto.lab import guest, kernels
from netesto.lab.kernels import Kernel
from netesto.language import plan as planning
from netesto.language.plan import Head, Plan
from netesto.language.steps import RemoteCommand, Step
from netesto.results import durable, fields, runs, store
from netesto.results.fields import Fields
from netesto.run import grounds, guests, sidebyside
from netesto.run.grounds import Choice
from netesto.run.request import RunRequest, Watcher
from netesto.run.session import RunEnd, RunSession, record_of, script_name, tell
from netesto.run.settings import are_ours, column_knowledge, fields_for, read, unused_definitions
from netesto.run.workers import LocalWorkers, Workers, need_dask
from netesto.system import proc
from netesto.units import counted


def plan(
    request: RunRequest, watcher: Watcher, watch: Callable[[Step], None] | None = None
) -> Plan:
    """The plan of a script; with `watch`, which gets every step, it is that of a dry run, and need
    not keep any. Errors of the script are raised, and suspicious things are warnings."""
    ground = grounds.requested(request)
    _check_ground(request, ground)
    plan, columns, out = _prepared(request, watch)
    head = plan.head
    grounds.check_script(request, head)
    if watch is not None:
        _check_numbers(head.numbered, (), out, resume=request.resume)
        store.fitting_fields(out, columns.with_names(head.columns))
        _check_parts(request, head)
    if ground is not None:
        grounds.check_commands(ground, head.commands)
    if not are_ours(columns):
        watcher.say(f"columns of exp.csv: {columns.source}")
    _warn(request, plan, watcher)
    tell(watcher, head.warnings)
    return plan


def run(request: RunRequest, watcher: Watcher) -> RunEnd:
    """Run a script, or a plan. Errors before the first experiment are raised."""
    _check_ground(request, grounds.requested(request))
    # All errors of the script appear here, before anything is changed.
    plan, columns, out = _prepared(request, None)
    with plan:
        return _run(request, watcher, plan, columns, out)


def _prepared(
    request: RunRequest, watch: Callable[[Step], None] | None
) -> tuple[Plan, Fields, Path]:
    """A plan, the columns of exp.csv that it was made with, and its results folder."""
    path = Path(request.script)
    if planning.is_plan(path):
        plan = planning.read(path)
        if not plan.head.sources:
            raise UsageError(
                f"{path}: a part of a plan, which runs only within the run that made it",
                remedy="The plan of the whole run is in its results folder: runs/RUN.plan.gz",
            )
        columns = _columns(request, plan)
        out = request.out or Path("results") / script_name(plan.head.script)
        plan = _renumbered(plan, out, columns)
        if watch is not None:
            for step in plan.steps():
                watch(step)
        return plan, columns, out
    script = read(request.script)
    name = script_name(script.path)
    out = request.out or Path("results") / name
    durable.check_folder(out)
    columns = fields_for(request.fields, Path(script.path), out)
    settings = request.settings
    if settings.seed is None and request.resume:
        settings = replace(settings, seed=_last_seed(out, name))
    counter = store.counter(out)
    plan = settings.plan(script, columns, counter=counter, lab=request.lab, watch=watch)
    return plan, columns, out


def _renumbered(plan: Plan, out: Path, columns: Fields) -> Plan:
    """The plan, with numbers of experiments that are free in its results folder."""
    durable.check_folder(out)
    counter = store.counter(out)
    if counter == plan.head.counter:
        return plan
    from netesto.language import planner

    with plan:
        return planner.renumbered(plan, counter=counter, columns=column_knowledge(columns))


def _last_seed(out: Path, script: str) -> int | None:
    """The seed of the last run of a script in a results folder, so that new measurements match
    earlier ones."""
    for name in sorted(runs.names(out), reverse=True):
        record = runs.read(out, name)
        if record is not None and script_name(record.script_path) == script:
            return record.seed
    return None


def _run(request: RunRequest, watcher: Watcher, plan: Plan, columns: Fields, out: Path) -> RunEnd:
    head = plan.head
    record = record_of(request, plan, out)
    grounds.check_script(request, head)
    _check_numbers(head.numbered, head.rewriting, out, resume=request.resume)
    choice = grounds.choose(request, head)
    grounds.check_commands(choice.ground, head.commands)
    _warn(request, plan, watcher)
    jobs = _jobs(request, choice, plan)
    if jobs is None and (option := _of_parts(request)):
        raise _no_parts(option)
    session = RunSession(
        request=request,
        plan=plan,
        record=record,
        fields=columns.with_names(head.columns),
        ground=choice.ground,
        out=out,
        watcher=watcher,
        kernel_hash=guest.kernel_inside(),
    )
    if not choice.ground.has_guests or proc.ground_inside() is not None:
        # Drawing and gRPC take half a second to import, and are not needed if a guest does
        # everything.
        from netesto.run import whole

        return whole.run(session)
    # Here, because a guest takes seconds to report it.
    kernel = choice.kernel or kernels.need(choice.ground)
    why = f"; {choice.reason}" if choice.reason else ""
    watcher.say(f"ground {choice.ground}: kernel {kernel.version}{why}")
    session = replace(session, kernel_hash=kernel.sha256())
    if jobs is None:
        return guests.run_whole(session, kernel)
    versions = {**record.versions, "kernel": kernel.version}
    with _workers(session, kernel, jobs) as workers:
        record = replace(record, jobs=workers.places, versions=versions)
        return guests.run_parts(replace(session, record=record), kernel, workers)


@contextlib.contextmanager
def _workers(session: RunSession, kernel: Kernel, jobs: int) -> Iterator[Workers]:
    """What carries out the parts of a run. MissingError if no worker of a cluster can be used."""
    request = session.request
    if not request.on:
        yield LocalWorkers(jobs)
        return
    from netesto.run import cluster, slurm

    def workers_at(address: cluster.Address) -> cluster.Cluster:
        return cluster.Cluster(
            address,
            run=session.record.name,
            kernel=kernel,
            sha256=session.kernel_hash,
            memory_mb=session.plan.head.memory_mb,
            limit=request.jobs,
            commands=session.plan.head.commands,
            warn=session.watcher.warn,
        )

    if (partition := slurm.partition_of(request.on)) is None:
        found = workers_at(cluster.address_of(request.on, insecure=request.insecure))
        found.examine()
        session.watcher.say(f"{counted(found.places, 'place')} on the workers of {request.on}")
        yield found
        return
    parts = sum(not part.is_idle for part in session.plan.outer)
    with slurm.submitted(partition, parts=parts, jobs=request.jobs) as job:
        session.watcher.say(
            f"Slurm job {job.job}: waits for one of {job.nodes} nodes, each a whole one"
        )
        found = workers_at(job.address)
        found.examine(may_get_more=job.may_get_more, remedy=job.remedy)
        yield found


def _columns(request: RunRequest, plan: Plan) -> Fields:
    """The columns of exp.csv that a plan was made with."""
    if request.fields is not None:
        return fields.load(request.fields)
    ours = fields.load(paths.fields_file())
    text = plan.head.fields
    return ours if str(ours) == text else fields.parse(text, source=request.script)


def _warn(request: RunRequest, plan: Plan, watcher: Watcher) -> None:
    """Warnings of suspicious command lines, and of commands without an effect in a lab."""
    sources = [file.text for file in plan.head.sources]
    for warning in (*request.warnings, *unused_definitions(plan.head.definitions, sources)):
        watcher.warn(warning)
    tell(watcher, grounds.warnings(request, plan.head))


def _check_numbers(
    numbered: Sequence[RemoteCommand],
    rewriting: Sequence[RemoteCommand],
    out: Path,
    *,
    resume: bool,
) -> None:
    """ScriptError if the script gives an experiment the number of an existing one: measurements are
    never overwritten."""
    found = {command.exp: ("is processed already", command) for command in rewriting}
    # Cells that an earlier run has finished are skipped, with their numbers.
    if not resume:
        found |= {
            command.exp: (f"exists already in {out}", command)
            for command in numbered
            if store.bears(out, command.exp)
        }
    for exp, (message, command) in found.items():
        raise ScriptError(
            f"experiment {exp} {message}, and is not overwritten",
            place=command.place.narrowed("exp="),
            remedy="Take a new number with exp=COUNTER, or another folder with --out.",
            chain=command.chain,
        )


def _check_ground(request: RunRequest, ground: Ground | None) -> None:
    """UsageError if parts of a script cannot run side by side on this ground."""
    if (request.jobs or 1) > 1 and not (ground is None or ground.has_guests):
        raise UsageError(
            f"--jobs {request.jobs}: on ground {ground} experiments would disturb each other",
            remedy="Use --ground sim, where they cannot, or --ground uml.",
        )
    if not (ground is None or ground.has_guests) and (option := _of_parts(request)):
        raise UsageError(
            f"{option}: on ground {ground} a script does not run in parts",
            remedy="Use --ground sim, where cells of a SWEEP and repetitions of a RUN are parts.",
        )
    if request.on:
        need_dask()
        from netesto.run import cluster, slurm

        if slurm.partition_of(request.on) is None:
            cluster.address_of(request.on, insecure=request.insecure)
        else:
            slurm.check_programs()
        if request.commands is not None:
            raise UsageError(
                f"--commands {request.commands}: workers of a cluster do not have this file",
                remedy="Run the script without --on, or without commands of your own.",
            )
    elif request.insecure:
        raise UsageError("--insecure needs --on", remedy="It is about the scheduler of a cluster.")


def _check_parts(request: RunRequest, head: Head) -> None:
    """UsageError if the parts of a script cannot run as requested."""
    if request.budget_s is not None and not head.untils:
        raise UsageError(
            "--budget: no SWEEP of the script has until=",
            remedy="Write for example: SWEEP ca=reno,cubic reps=3..30 until=rate:2% DO",
        )
    option = f"--jobs {request.jobs}" if (request.jobs or 1) > 1 else _of_parts(request)
    if option and head.entangled:
        raise UsageError(
            f"{option}: experiment {head.entangled} belongs to more than one repetition or cell",
            remedy=f"Without {option.split()[0]} the script runs as one. Or let every repetition"
            " have its own experiment, from exp=COUNTER to PROCESS_EXP.",
        )


def _of_parts(request: RunRequest) -> str:
    """The option of a request that needs parts; "" without one."""
    options = {
        "--on": bool(request.on),
        "--budget": request.budget_s is not None,
        "--pack": request.packs,
    }
    return next((name for name, is_given in options.items() if is_given), "")


def _no_parts(option: str) -> UsageError:
    """The error of a run without parts, which an option is about."""
    return UsageError(
        f"{option}: the script does not run in parts",
        remedy="Parts are cells of a SWEEP and repetitions of a RUN on ground sim, or uml with"
        f" --jobs. Leave out {option}.",
    )


def _jobs(request: RunRequest, choice: Choice, plan: Plan) -> int | None:
    """How many parts of the script run side by side; None if it runs as one.

    In simulated time parts always run separately: their results do not depend on how many run at
    once, even if it is one.
    """
    _check_ground(request, choice.ground)
    if not choice.ground.has_guests or all(part.is_idle for part in plan.outer):
        return None
    _check_parts(request, plan.head)
    if plan.head.entangled:
        return None
    if request.jobs is None and (choice.ground.is_simulated or request.on):
        return sidebyside.default_jobs()
    return request.jobs
