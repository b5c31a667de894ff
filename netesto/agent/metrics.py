"""Metrics for one address, set by a host route to this address that is created for them."""

from dataclasses import dataclass
from ipaddress import ip_address

from netesto.agent import asking
from netesto.agent.steps import Run, Step
from netesto.errors import AgentError
from netesto.files import jsontext
from netesto.hostsettings import RouteMetrics
from netesto.units import decimal

# Words that ip(8) prints of a route and does not accept. `lock` comes with every rto_min.
_SHOWN_ONLY = frozenset({"linkdown", "dead", "offload", "trap", "notify", "lock", "rt_offload"})


@dataclass(frozen=True, slots=True)
class RouteInUse:
    """The route that packets to `address` take, by `device`. `own` are the words of a route to this
    address alone, empty without one; `nexthop` those that lead there."""

    address: str
    device: str
    own: tuple[str, ...]
    nexthop: tuple[str, ...]


def words(text: str) -> tuple[str, ...]:
    """A route as ip(8) takes it, from what it shows; empty without one."""
    lines = text.strip().splitlines()
    return tuple(word for word in lines[0].split() if word not in _SHOWN_ONLY) if lines else ()


async def show(address: str) -> str:
    """The route to this address alone as ip(8) shows it; "" without one."""
    asked = (*_family(address), "route", "show", "exact", address)
    return " ".join((await asking.output("ip", *asked)).split())


async def find(address: str) -> RouteInUse:
    """AgentError if no route leads there, or more than one at a time."""
    family = _family(address)
    own = words(await show(address))
    answer = await asking.output("ip", *family, "-j", "route", "get", address)
    try:
        found = jsontext.parse(answer)[0]
        device = str(found["dev"])
        via = ("via", str(found["gateway"])) if "gateway" in found else ()
        source = ("src", str(found["prefsrc"])) if "prefsrc" in found else ()
    except (ValueError, LookupError, TypeError):
        raise AgentError(f"route to {address}: ip route get prints {answer[:80]!r}") from None
    return RouteInUse(address, device, own, (address, *via, "dev", device, *source))


def plan(setting: RouteMetrics, route: RouteInUse) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The steps that give the route these metrics, others as they are; and their undoing."""
    family = _family(route.address)
    kept = list(route.own or route.nexthop)
    added: list[str] = []
    for name, value in setting.metrics.items():
        if name in kept:
            place = kept.index(name)
            del kept[place : place + 2]
        added += [name, f"{decimal(value)}ms" if name == "rto_min" else str(value)]
    undo = ("del", route.address) if not route.own else ("replace", *route.own)
    return (
        (Run(("ip", *family, "route", "replace", *kept, *added)),),
        (Run(("ip", *family, "route", *undo)),),
    )


def _family(address: str) -> tuple[str, ...]:
    return (f"-{ip_address(address).version}",)
