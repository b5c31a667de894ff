"""What a host must have for a command or a REQUIRE, as values, and what of it a host lacks."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from netesto.model import CONGESTION_CONTROLS, QDISCS, HostInfo
from netesto.text.nearest import hint

Kind: TypeAlias = Literal["qdisc", "congestion control", "tool", "command"]

# The names of each kind that a host has; None: it is not known which.
Has: TypeAlias = Mapping[Kind, Collection[str] | None]

# What kernels have. (Of tools and commands only hosts know.)
KNOWN: Has = {
    "qdisc": QDISCS, "congestion control": CONGESTION_CONTROLS, "tool": None, "command": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Need:
    """A qdisc or congestion control of the kernel, a traffic tool, or a command that the agent
    allows. `near` is what stands before its name in a script."""

    kind: Kind
    name: str
    near: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def has(info: HostInfo) -> Has:
    """What a host has."""
    return {
        # An agent that could not find out reports none.
        "qdisc": info.qdiscs or None,
        "congestion control": info.congestion_controls,
        "tool": info.tools,
        "command": info.commands,
    }


def unmet(needs: Iterable[Need], host: Has) -> list[Need]:
    """Those that a host lacks, each once."""
    wanted = ((need, host[need.kind]) for need in dict.fromkeys(needs))
    return [need for need, there in wanted if there is not None and need.name not in there]


def lack(need: Need, info: HostInfo) -> tuple[str, str]:
    """That a host lacks it, and the remedy."""
    present = has(info)[need.kind] or ()
    match need.kind:
        case "command":
            allow = f"Write [commands.{need.name}] in the agent.toml of an installed agent."
            said = f"{info.host}: its agent allows no {need}"
            return said, hint(need.name, present, otherwise=allow)
        case "tool":
            return f"{info.host}: no {need}", hint(need.name, present)
        case "qdisc" | "congestion control":
            module = f"{'sch' if need.kind == 'qdisc' else 'tcp'}_{need.name}"
            said = f"{info.host}: {need}: not in this kernel ({info.kernel}), which has"
            otherwise = f"Use another one, or a kernel with {module}."
            return f"{said} {', '.join(present)}", hint(need.name, present, otherwise=otherwise)
