"""The commands that set something on a host, or run something there: each is one value, with its
arguments, and the settings that a line asks for.

What a setting is, needs and is called is in `hostsettings`, and how agents make it in
`agent.making`: no other code knows these commands.
"""

from collections.abc import Callable

from netesto.hostsettings import (
    Command,
    LinkAttribute,
    LinkLimits,
    ModuleParameter,
    Netem,
    Qdisc,
    RouteMetrics,
    Setting,
    Sysctl,
)
from netesto.language.scope import MisuseError
from netesto.language.specification import COMMON, Given, Specification
from netesto.limits.allowed import INT_MAX, LINK_ATTRIBUTES, MAX_NETEM_DELAY_MS
from netesto.links.made import delay_line_packets
from netesto.links.settings import CHANGEABLE, LINK_SETTINGS, SETTINGS
from netesto.schema.kinds import Argument, Kind

# An argument of most: leave the setting on the host. It has no default, because every dry run would
# show it.
KEEP = Argument(
    "keep",
    Kind.FLAG,
    "1: leave it on the host when the run ends ([below](#settings-that-stay))",
)


def _command(
    name: str,
    *arguments: Argument,
    settings: Callable[[Given], tuple[Setting, ...]],
    sentence: str = "",
    open_names: str = "",
) -> Specification:
    return Specification(
        name=name,
        arguments=(*COMMON, *arguments),
        open_names=open_names,
        settings=settings,
        sentence=sentence,
    )


def _keeps(given: Given) -> bool:
    return bool(given.values.get("keep"))


def _netem(given: Given) -> tuple[Setting, ...]:
    delay_ms, loss = given.values["netem_delay"], given.values["loss"]
    limit = given.values.get("limit") or delay_line_packets(None, delay_ms)
    return (Netem(delay_ms, limit, loss, keep=_keeps(given)),)


def _qdisc(given: Given) -> tuple[Setting, ...]:
    texts = given.texts
    named = [(key, texts[key]) for key in ("rate", "burst", "limit") if key in texts]
    options = (*[word for pair in named for word in pair], *given.values.get("other", ()))
    return (Qdisc(texts["qdisc"], options, texts["action"], keep=_keeps(given)),)


def _sysctls(given: Given) -> tuple[Setting, ...]:
    _need_others(given, "sysctl", "SET_SYSCTL host=h net.ipv4.tcp_ecn=1")
    values = {
        key: " ".join(text.replace(",", " ").split()) for key, text in given.open_arguments.items()
    }
    return tuple(Sysctl(key, value, _keeps(given)) for key, value in values.items())


def _module_parameters(given: Given) -> tuple[Setting, ...]:
    _need_others(given, "parameter", "SET_MODULE_PARAMS host=h module=tcp_cubic hystart=0")
    module, keep = given.texts["module"], _keeps(given)
    return tuple(
        ModuleParameter(module, key, text, keep) for key, text in given.open_arguments.items()
    )


def _link(given: Given) -> tuple[Setting, ...]:
    """In an order that works."""
    to, keep = given.texts.get("to", ""), _keeps(given)
    attributes = [
        LinkAttribute(name, str(given.values[name]), to, keep=keep)
        for name in LINK_ATTRIBUTES
        if name in given.values
    ]
    texts = {name: given.texts[name] for name in CHANGEABLE if name in given.texts}
    for name, text in texts.items():
        try:
            SETTINGS.get(name, SETTINGS["delay"]).read(text)
        except ValueError as error:
            raise MisuseError(
                f"{name}={text}: {error}",
                remedy=f"{name}: {LINK_SETTINGS[name]}",
                near=(f"{name}=",),
            ) from None
    words = tuple(f"{name}={text}" for name, text in texts.items())
    settings: list[Setting] = [*attributes]
    settings += [LinkLimits(words, to, given.texts["dir"], keep=keep)] if words else []
    if not settings:
        raise MisuseError("nothing to set", remedy="Write: SET_LINK host=h mtu=9000")
    return tuple(settings)


def _route(given: Given) -> tuple[Setting, ...]:
    made = RouteMetrics(
        given.texts["to"],
        rto_min_ms=given.values.get("rto_min"),
        initcwnd=given.values.get("initcwnd"),
        initrwnd=given.values.get("initrwnd"),
        keep=_keeps(given),
    )
    if not made.metrics:
        raise MisuseError("no metric given", remedy="Write: SET_ROUTE host=h to=h2 initcwnd=20")
    return (made,)


def _own_command(given: Given) -> tuple[Setting, ...]:
    words = tuple(f"{key}={text}" for key, text in given.open_arguments.items())
    return (Command(given.texts["name"], words),)


def _need_others(given: Given, what: str, example: str) -> None:
    if not given.open_arguments:
        raise MisuseError(f"no {what} given", remedy=f"Write: {example}")


HOST_COMMANDS: tuple[Specification, ...] = (
    _command(
        "SET_NETEM",
        Argument(
            "netem_delay",
            Kind.MILLISECONDS,
            "the delay. With 0, and no loss, netem is removed",
            required=True,
            low=0,
            high=MAX_NETEM_DELAY_MS,
        ),
        Argument(
            "limit",
            Kind.INTEGER,
            "how many packets it delays at once; without it, as many as a fast interface carries",
            low=1,
            high=INT_MAX,
        ),
        Argument(
            "loss",
            Kind.PERCENT,
            "percentage of packets lost; 0.01 is one in ten thousand",
            default="0",
            low=0,
            high=100,
        ),
        KEEP,
        settings=_netem,
        sentence="Makes netem the root qdisc of `host`, which delays everything that the host"
        " sends. In a lab this adds to the delay of the links"
        " ([docs/labs.md](labs.md#links-and-hosts)).",
    ),
    _command(
        "SET_QDISC",
        Argument("qdisc", Kind.WORD, "its name: `fq`, `tbf`, `pfifo`, …", required=True),
        Argument(
            "action", Kind.WORD, "`add`, `replace`, `change` or `delete`, as in tc", default=""
        ),
        Argument("rate", Kind.RATE, "a rate", low=1),
        Argument("burst", Kind.WORD, "as in tc"),
        Argument("limit", Kind.WORD, "as in tc"),
        Argument(
            "other",
            Kind.WORDS,
            'additional options of the qdisc, as in tc: `other=a,b` or `other="a b"`. What precedes'
            " the name of the qdisc (`handle`, `parent`) is not among them",
        ),
        KEEP,
        settings=_qdisc,
        sentence="Sets the root qdisc of `host`. Without `action` the old one is removed first. In"
        " a lab the qdisc comes before the link, whose own rate and queue LAB and SET_LINK set"
        " ([docs/labs.md](labs.md#links-and-hosts)).",
    ),
    _command(
        "SET_SYSCTL",
        KEEP,
        settings=_sysctls,
        open_names="the dotted name of a sysctl",
        sentence="Sets sysctls of `host`.",
    ),
    # What its arguments mean is in the manual beside the settings of links.
    _command(
        "SET_LINK",
        Argument("to", Kind.HOST),
        Argument("mtu", Kind.INTEGER),
        *(
            Argument(name, Kind.WORD, choices=("on", "off"))
            for name in ("tso", "gso", "gro", "lro", "gro_hw")
        ),
        *(Argument(f"{of}_max_size", Kind.SIZE) for of in ("gso", "gro", "gso_ipv4", "gro_ipv4")),
        *(Argument(name, Kind.TEXT) for name in CHANGEABLE),
        Argument("dir", Kind.WORD, choices=("to", "from", "both"), default="both"),
        KEEP,
        settings=_link,
    ),
    _command(
        "SET_ROUTE",
        Argument("to", Kind.HOST, "the other host", required=True),
        Argument("rto_min", Kind.MILLISECONDS, "minimum retransmission timeout, in ms"),
        Argument("initcwnd", Kind.INTEGER, "initial congestion window, in segments"),
        Argument("initrwnd", Kind.INTEGER, "initial receive window, in segments"),
        KEEP,
        settings=_route,
        sentence="Sets metrics of the route from the host to another one. The agent adds a route to"
        " that address alone, and restores the previous routes at the end.",
    ),
    _command(
        "DO_COMMAND",
        Argument("name", Kind.WORD, "its name in the agent's agent.toml", required=True),
        settings=_own_command,
        open_names="a parameter of the command",
        sentence="Runs a command that the owner of the host allows by this name, and waits for its"
        " end. Its parameters are given as `name=value` in addition to:",
    ),
    _command(
        "SET_MODULE_PARAMS",
        Argument("module", Kind.WORD, "one of the table below", required=True),
        KEEP,
        settings=_module_parameters,
        open_names="a parameter of the module",
        sentence="Sets parameters of the module of a congestion control, given as `name=value` in"
        " addition to:",
    ),
)
