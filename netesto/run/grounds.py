"""Where a run happens: on real hosts, in this machine's kernel, or inside a guest kernel."""

import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from netesto import traffic
from netesto.collectors import capabilities
from netesto.collectors.capabilities import Capabilities
from netesto.controller import preflight, requests
from netesto.errors import LabError, MissingError, ScriptError, UsageError
from netesto.grounds import GUEST_FEATURES, HOSTS, LAB, UML, Ground
from netesto.hostsettings import Sysctl
from netesto.lab import kernelbuild, kernels, netns
from netesto.lab.kernels import Kernel
from netesto.language import steps
from netesto.language.plan import Head, Warned
from netesto.limits import allowed, needs
from netesto.run import behindlinks, labcommands, labs
from netesto.run.request import RunRequest
from netesto.system import proc


@dataclass(frozen=True, slots=True)
class Choice:
    """A ground, and the reason in words, empty if the user named the ground. `kernel` is the one
    that the user named."""

    ground: Ground
    reason: str = ""
    kernel: Kernel | None = None


def choose(request: RunRequest, head: Head) -> Choice:
    """The ground of a run: the requested one; else `lab` if this machine's kernel has what the
    script needs, else `uml`. LabError or MissingError if neither is possible."""
    inside = proc.ground_inside()
    if inside is not None:
        return Choice(inside)
    if request.kernel is not None:
        return _of_kernel(request.kernel, request.ground)
    if (ground := requested(request)) is not None:
        return Choice(ground)
    needed = lacking(head.commands, capabilities.probe())
    nowhere = [thing for thing in needed if thing.split()[-1] not in GUEST_FEATURES]
    if nowhere or any(shutil.which(tool) is None for tool in netns.TOOLS):
        # No kernel helps: the lab's own checks name what is missing, and what needs it.
        return Choice(LAB)
    try:
        netns.check(labs.plan_of(behindlinks.network_of(head)))
        check_sysctls(head.commands)
        if needed:
            raise MissingError(f"{', '.join(needed)}: not in this kernel ({platform.release()})")
    except (LabError, MissingError, ScriptError) as error:
        if kernels.find(UML) is None:
            missing = kernels.missing(UML)
            if isinstance(error, ScriptError):
                raise
            remedy = f"{error.remedy}\nA user-mode kernel has it: {missing.remedy}"
            raise type(error)(error.message, remedy=remedy.strip()) from None
        return Choice(UML, error.message.partition(";")[0])
    return Choice(LAB)


def requested(request: RunRequest) -> Ground | None:
    """The ground that the command line names, possibly by hosts or a kernel; None if it names none.
    UsageError if there is no such kernel."""
    if request.hosts is not None:
        return HOSTS
    if request.kernel is not None:
        return _of_kernel(request.kernel, request.ground).ground
    return request.ground


def _of_kernel(name: str, ground: Ground | None) -> Choice:
    kernel = kernelbuild.choose(name)
    if ground not in {None, kernel.ground}:
        raise UsageError(
            f"--kernel {name} is a kernel for ground {kernel.ground}, not for {ground}"
        )
    return Choice(kernel.ground, kernel=kernel)


def lacking(commands: Sequence[steps.RemoteCommand], kernel: Capabilities) -> list[str]:
    """What commands need and a kernel lacks: "qdisc fq", "congestion control dctcp"."""
    has: needs.Has = {
        "qdisc": kernel.qdiscs, "congestion control": kernel.congestion_controls,
        "tool": None, "command": None,
    }  # fmt: skip
    wanted = (need for command in commands for each in command.needs.values() for need in each)
    return [str(need) for need in needs.unmet(wanted, has)]


def check_script(request: RunRequest, head: Head) -> None:
    """Check before anything is changed: ScriptError or UsageError if the script requests a lab that
    cannot be built, hosts that will not exist, or something impossible on every host; MissingError
    if it requires another number of hosts."""
    if request.hosts is not None:
        inventory = request.hosts.with_suffixes(preflight.suffixes(head.commands))
    elif head.lab:
        asked = behindlinks.network_of(head)
        inventory = labs.inventory(asked, head.commands, aliases=request.aliases)
        if request.commands is not None:
            check_allowed = labcommands.checker(request.commands)
            for command in head.commands:
                check_allowed(command)
    else:
        for command in head.commands:
            requests.check_possible(command)
        return
    preflight.check_hosts(head.commands, inventory)
    preflight.check_count(head.requirements, len(inventory.endpoints))


def check_commands(ground: Ground, commands: Sequence[steps.RemoteCommand]) -> None:
    """MissingError or ScriptError if one of these is impossible on this ground."""
    if ground.is_simulated:
        check_tests(commands)
    if ground.in_this_kernel:
        check_sysctls(commands)


def check_tests(commands: Sequence[steps.RemoteCommand]) -> None:
    """MissingError if one of these is impossible in simulated time, where computing takes no
    time."""
    places = {
        f"{command.place.file}:{command.place.line}": None
        for command in commands
        if isinstance(command, steps.DoClient)
        and command.flow.test == "UDP_STREAM"
        and command.flow.tool != "auto"
        and not traffic.TOOLS[command.flow.tool].paces_datagrams
    }
    if places:
        raise MissingError(
            f"UDP_STREAM: in simulated time only with tool=native (needed at {', '.join(places)})",
            remedy="Other tools rely on computation taking time: here iperf3 sends all its"
            " datagrams in the first instant, and netperf never stops. tool=auto selects native.",
        )


def check_sysctls(commands: Sequence[steps.RemoteCommand]) -> None:
    """ScriptError if one of these sets a sysctl of the whole kernel, which a lab in this machine's
    kernel does not have."""
    for command in commands:
        for setting in command.settings if isinstance(command, steps.Configure) else ():
            if isinstance(setting, Sysctl) and setting.name in allowed.KERNEL_WIDE:
                raise ScriptError(
                    f"sysctl {setting.name} belongs to the whole kernel of this machine, and not to"
                    " a host of a lab in it",
                    place=command.place.narrowed(f"{setting.name}="),
                    remedy="With --ground uml or sim the lab has a kernel of its own, where it"
                    " applies to all hosts.",
                    chain=command.chain,
                )


def warnings(request: RunRequest, head: Head) -> list[Warned]:
    """Warnings to the author about the lab of the run, if it has one."""
    if request.hosts is not None or head.lab is None:
        return []
    return labcommands.warnings(
        behindlinks.network_of(head), head.commands, aliases=request.aliases, file=request.commands
    )
