"""Where a run happens: on real hosts, in this machine's kernel, or inside a guest kernel."""

import argparse
import hashlib
import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netesto import interrupts
from netesto.cli import behindlinks, labs, printing, status
from netesto.cli.drawer import Drawer
from netesto.collectors import capabilities
from netesto.collectors.capabilities import Capabilities
from netesto.controller import preflight, requests
from netesto.controller.inventory import load
from netesto.controller.onfailure import OnFailure
from netesto.errors import LabError, MissingError, UsageError
from netesto.lab import guest, kernelbuild, kernels, netns, topology
from netesto.lab.kernels import Kernel
from netesto.lab.topology import Topology
from netesto.lab.watch import STALL_S
from netesto.language import ports
from netesto.language.dryrun import DryRun, Warned
from netesto.results.store import Store

# Qdiscs and congestion controls that a guest kernel has and another may lack.
GUEST_FEATURES = frozenset(
    module.partition("_")[2] for module in guest.MODULES if module.startswith(("tcp_", "sch_"))
)


# What no tool can do where computing takes no time.
NOT_SIMULATED = frozenset({"UDP_STREAM"})


@dataclass(frozen=True, slots=True)
class Choice:
    """A ground, and in words why; the reason is empty where the user named the ground. `kernel` is
    the one that was named with it."""

    ground: str
    reason: str = ""
    kernel: Kernel | None = None


def choose(options: argparse.Namespace, rehearsal: DryRun, script: str) -> Choice:
    """The ground of a run: what was asked for; else `lab` where this machine's kernel has what the
    script needs, else `uml`. LabError or MissingError if neither can be."""
    inside = guest.ground_inside()
    if inside is not None:
        return Choice(inside)
    if options.hosts is not None:
        return Choice("hosts")
    if options.kernel is not None:
        return _of_kernel(options.kernel, options.ground)
    if options.ground is not None:
        return Choice(options.ground)
    needed = lacking(rehearsal.commands, capabilities.probe_blocking())
    nowhere = [thing for thing in needed if thing.split()[-1] not in GUEST_FEATURES]
    if nowhere or any(shutil.which(tool) is None for tool in netns.TOOLS):
        # No kernel helps there: the lab's own checks name what is missing, and who needs it.
        return Choice("lab")
    try:
        netns.check(labs.plan_of(network(options, rehearsal, script)))
        if needed:
            raise MissingError(f"{', '.join(needed)}: not in this kernel ({platform.release()})")
    except (LabError, MissingError) as error:
        if kernels.find("uml") is None:
            missing = kernels.missing("uml")
            remedy = f"{error.remedy}\nA user-mode kernel has it: {missing.remedy}"
            raise type(error)(error.message, remedy=remedy.strip()) from None
        return Choice("uml", error.message.partition(";")[0])
    return Choice("lab")


def named(options: argparse.Namespace) -> str | None:
    """The ground that the command line names, also by a kernel; None if it names none. UsageError
    if there is no such kernel."""
    if options.kernel is not None:
        return _of_kernel(options.kernel, options.ground).ground
    ground: str | None = options.ground
    return ground


def _of_kernel(name: str, ground: str | None) -> Choice:
    kernel = kernelbuild.choose(name)
    if ground not in {None, kernel.kind}:
        raise UsageError(f"--kernel {name} is a kernel for ground {kernel.kind}, not for {ground}")
    return Choice(kernel.kind, kernel=kernel)


def network(options: argparse.Namespace, rehearsal: DryRun, script: str) -> Topology:
    """The lab that the command line, or else the script, asks for."""
    if options.lab:
        return labs.parse_spec(options.lab)
    request = rehearsal.lab_request
    if request is None:
        raise UsageError(
            f"{script} does not say which network it needs",
            remedy="Add a line such as 'LAB dumbbell rate=100mbit' to it, or run it with"
            " --lab dumbbell,rate=100mbit, or on real hosts with --hosts FILE.",
        )
    try:
        return topology.build(request.topology, request.settings, script=request.place.file)
    except UsageError as error:
        raise request.refused(error.message, error.remedy) from None


def lacking(commands: Sequence[ports.RemoteCommand], kernel: Capabilities) -> list[str]:
    """What commands need and a kernel lacks: "qdisc fq", "congestion control dctcp"."""
    wanted: dict[str, None] = {}
    for command in commands:
        qdisc = requests.needed_qdisc(command)
        if qdisc and kernel.qdiscs is not None and qdisc not in kernel.qdiscs:
            wanted[f"qdisc {qdisc}"] = None
        if isinstance(command, ports.DoClient) and command.ca not in kernel.congestion_controls:
            wanted[f"congestion control {command.ca}"] = None
    return list(wanted)


def check_options(options: argparse.Namespace) -> None:
    """UsageError if the options name no ground, or two, or something else that is none."""
    OnFailure.parse(options.on_failure)
    if options.hosts is None:
        if options.ground == "hosts":
            raise UsageError(
                "--ground hosts needs --hosts FILE",
                remedy="docs/hosts.md tells what is in the file.",
            )
    elif options.ground not in {None, "hosts"} or options.kernel is not None:
        raise UsageError(
            "--hosts means real hosts; --ground and --kernel do not go with it",
            remedy="Leave out --hosts, and the script's LAB is built on this machine.",
        )
    if options.jobs is not None and options.jobs > 1:
        if options.hosts is not None:
            raise crowded(options.jobs, "hosts")
        if options.ground == "lab":
            raise crowded(options.jobs, "lab")
    aliases = labs.parse_map(options.map)
    if options.hosts is not None:
        load(options.hosts, aliases=aliases)
    elif options.lab:
        labs.parse_spec(options.lab)


def crowded(jobs: int, ground: str) -> UsageError:
    """The error of several jobs where they would share processors and links."""
    return UsageError(
        f"--jobs {jobs}: on ground {ground} experiments would disturb each other",
        remedy="Use --ground sim, where they cannot, or --ground uml.",
    )


def check_script(options: argparse.Namespace, rehearsal: DryRun, script: str) -> None:
    """Before anything is touched: ScriptError or UsageError if the script asks for a lab that
    cannot be built, for hosts that will not be there, or for what no host could do; MissingError if
    it requires another number of hosts."""
    if options.hosts is not None:
        inventory = load(options.hosts, aliases=labs.parse_map(options.map))
        inventory = inventory.with_suffixes(preflight.suffixes(rehearsal.commands))
        preflight.check_hosts(rehearsal.commands, inventory)
        preflight.check_count(rehearsal.requirements, len(inventory.endpoints))
    elif options.lab or rehearsal.lab_request:
        built = network(options, rehearsal, script)
        check_hosts(built, options, rehearsal)
        preflight.check_count(rehearsal.requirements, len(built.hosts))
    else:
        for command in rehearsal.commands:
            requests.check_possible(command)


def check_hosts(network: Topology, options: argparse.Namespace, rehearsal: DryRun) -> None:
    """UsageError or ScriptError if the command line or the script names a host that the lab, which
    need not be there yet, will not have."""
    aliases = labs.parse_map(options.map)
    named = labs.inventory(network, rehearsal.commands, aliases=aliases)
    preflight.check_hosts(rehearsal.commands, named)


def check_tests(commands: Sequence[ports.RemoteCommand]) -> None:
    """MissingError if one of these cannot be had in simulated time, where computing takes none."""
    places = {
        f"{command.place.file}:{command.place.line}": None
        for command in commands
        if isinstance(command, ports.DoClient) and command.test in NOT_SIMULATED
    }
    if places:
        raise MissingError(
            f"UDP_STREAM: not in simulated time (needed at {', '.join(places)})",
            remedy="Tools count on computing to take time: here iperf3 sends all its datagrams in"
            " the first moment, and netperf never stops. --ground uml can do it, and --ground lab;"
            " UDP_RR works here, too.",
        )


def warnings(options: argparse.Namespace, rehearsal: DryRun, script: str) -> list[Warned]:
    """What the author should know of the lab that the run will have, if it has one."""
    if options.hosts is not None or not (options.lab or rehearsal.lab_request):
        return []
    asked = network(options, rehearsal, script)
    aliases = labs.parse_map(options.map)
    named = labs.inventory(asked, rehearsal.commands, aliases=aliases)
    return behindlinks.warnings(asked, rehearsal.commands, named)


def run_inside(
    kernel: Kernel,
    options: argparse.Namespace,
    *,
    out: Path,
    seed: int,
    part: str | None,
    script: str,
) -> int:
    """Run the same command line again inside a guest; its exit status.

    The guest of a part has a seed of its own, that depends on nothing but the run's and its name.
    """
    words = [*options.words, "--seed", str(seed), "--out", str(out)]
    again = guest.command_for_run(words, kernel=kernel)
    drawer = Drawer(out)
    # In real time a guest must not have to share its processor.
    draws_beside = kernel.kind == "sim" or len(os.sched_getaffinity(0)) > 1
    # The guest's locks are its own kernel's, and would keep nobody out who is not in there.
    with Store(out):
        try:
            return guest.run(
                again.argv,
                kernel=kernel,
                writable=[out],
                env=again.env,
                stdin=script.encode() if options.script == "-" else b"",
                max_wall_s=options.max_wall,
                stall_s=options.max_stall or STALL_S,
                warn=lambda text: printing.err(f"warning: {text}"),
                seed=seed if part is None else part_seed(seed, part),
                meanwhile=drawer.look if draws_beside else None,
            )
        except KeyboardInterrupt:
            interrupts.heed()
            return status.INTERRUPTED
        finally:
            drawer.finish()


def draws_outside() -> bool:
    """True in a guest: the process that started it draws the pages."""
    return guest.ground_inside() is not None


def part_seed(seed: int, part: str) -> int:
    """The seed of the guest that a part of the script runs in, 31 bits."""
    digest = hashlib.sha256(f"{seed} {part}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1
