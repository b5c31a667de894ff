"""Finds what is wrong in the words of a line, as far as they are known before it runs. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from netesto.errors import Place
from netesto.language import arguments, ast, local, permitted
from netesto.language.claims import claim
from netesto.language.commands import (
    ALL_NAMES,
    COMMON,
    LOCAL,
    LOCAL_KEYED,
    REMOTE,
    Specification,
)
from netesto.language.dryrun import DryRun
from netesto.language.expressions import Arithmetic
from netesto.language.lines import find_colon
from netesto.language.machine import Machine
from netesto.language.remote import Common, setting
from netesto.language.requirements import requirement
from netesto.language.scope import REFERENCE, MisuseError, Scope, parts, unwrapped
from netesto.language.walk import macro_arguments, unknown_command
from netesto.nearest import nearest

# Commands that can be tried before the run, and the words of which can be tried one by one.
_TRIED = frozenset({"DEBUG", "HOST_SUFFIX", "LAB", "OTHER", "RAND_WAIT", "WAIT"})
_COMMON_NAMES = frozenset(argument.name for argument in COMMON)
_TRIED_BY_WORD = frozenset({"LAB"})
# Commands of name=value, which quotes may stand around as well as around the value.
_UNWRAPPED = frozenset({"RUN", *LOCAL_KEYED, *REMOTE})


def misuses(row: ast.Row) -> Iterator[MisuseError]:
    """What is wrong in a command: its name, and the words that no variable is in."""
    name, raws = row.words[0].text, [word.text for word in row.words[1:]]
    if name in _UNWRAPPED:
        raws = [unwrapped(raw) for raw in raws]
    if "$" in name:
        return
    if name.startswith("HOST_SUFFIX="):
        name, raws = "HOST_SUFFIX", [name.partition("=")[2], *raws]
    specification = REMOTE.get(name) or LOCAL_KEYED.get(name)
    if specification is not None:
        yield from _keyed(specification, raws)
        return
    if name == "REQUIRE" and raws:
        yield from _conditions(raws, row)
        return
    try:
        if name not in ALL_NAMES:
            raise unknown_command(name, raws)
        if name in LOCAL and not any("$" in raw for raw in raws):
            local.check_count(name, raws)
        _local(name, raws, row)
    except MisuseError as error:
        yield error


def _conditions(raws: Sequence[str], row: ast.Row) -> Iterator[MisuseError]:
    """What is wrong in each condition of a REQUIRE."""
    for raw in raws:
        try:
            if "$" not in raw:
                requirement(_unquoted(raw), row)
        except MisuseError as error:
            yield error


def sweep_misuses(sweep: ast.Sweep) -> Iterator[MisuseError]:
    """What is wrong in the words of a SWEEP."""
    raws = [word.text for word in sweep.words]
    for raw in raws:
        try:
            if "$" not in raw:
                local.sweep_word(_unquoted(raw))
        except MisuseError as error:
            yield error
    try:
        local.check_factors(raws)
    except MisuseError as error:
        yield error


def _unquoted(raw: str) -> str:
    return "".join(part.text for part in parts(raw))


def _keyed(specification: Specification, raws: Sequence[str]) -> Iterator[MisuseError]:
    by_name = {each.name: each for each in specification.arguments}
    by_name |= {each.alias: each for each in specification.arguments if each.alias}
    given: set[str] = set()
    others: dict[str, str] = {}
    is_open = False
    raws, _ = arguments.without_torn(specification, raws)
    try:
        _check_once(specification.name, raws, aliases=arguments.aliases(specification))
    except MisuseError as error:
        yield error
    for raw in raws:
        key, equals, value = raw.partition("=")
        argument = by_name.get(key)
        if "$" in key:
            is_open = True
        elif not equals:
            given.add(_meant(key, by_name))
            yield arguments.not_keyed(raw, specification)
        elif argument is not None:
            given.add(argument.name)
            if "$" not in value:
                try:
                    arguments.value_of(argument, _unquoted(value))
                except MisuseError as error:
                    yield error
        elif not arguments.is_open(specification, key):
            given.add(_meant(key, by_name))
            yield arguments.unknown_argument(key, specification)
        elif "$" not in value:
            others[key] = _unquoted(value)
    for argument in specification.arguments:
        if argument.required and argument.name not in given and not is_open:
            yield arguments.missing_argument(argument, specification)
    if specification.name.startswith("SET_"):
        yield from _settings(specification, raws, others)


def _settings(
    specification: Specification, raws: Sequence[str], others: Mapping[str, str]
) -> Iterator[MisuseError]:
    """What no agent allows, as far as it stands in the line; `others` are names that are open."""
    own = [raw for raw in raws if raw.partition("=")[0] not in _COMMON_NAMES]
    words = tuple(_unquoted(raw) for raw in own if "$" not in raw)
    if not specification.open_names:
        # What one word means depends on the others.
        yield from _setting(specification, words if len(words) == len(own) else ())
        return
    known = tuple(word for word in words if word.partition("=")[0] not in others)
    for name, value in others.items():
        errors = list(_setting(specification, (*known, f"{name}={value}")))
        yield from errors
        if any("module=" in error.near for error in errors):
            return


def _setting(specification: Specification, words: tuple[str, ...]) -> Iterator[MisuseError]:
    try:
        given = arguments.read(specification, words)
    except MisuseError:
        # Said already, or only the run knows the rest.
        return
    common = Common(
        name=specification.name,
        host="",
        suffix="",
        exp=0,
        exp_name="",
        place=Place("", 0),
        chain=(),
    )
    try:
        permitted.check(setting(given, dict(given.texts), common))
    except MisuseError as error:
        yield error


def _check_once(
    command: str, raws: Sequence[str], *, aliases: Mapping[str, str] | None = None
) -> None:
    known = [raw for raw in raws if "$" not in raw.partition("=")[0]]
    arguments.check_once(command, known, aliases=aliases or {})


def _meant(key: str, names: Iterable[str]) -> str:
    """The argument that was meant: there, if under a wrong name, and so not missing too."""
    return nearest(key, names) or ""


def _local(name: str, raws: Sequence[str], row: ast.Row) -> None:
    """MisuseError for what is wrong in a local command."""
    text = " ".join(raws)
    match name:
        case "SET" | "DEFAULT":
            local.check_count(name, raws)
            if "$" not in raws[0].partition("=")[0]:
                local.split_assignment(name, raws[0])
        case "SET_EXP":
            local.check_count(name, raws)
            if "$" not in text.partition("=")[0]:
                Arithmetic(local.split_assignment(name, text)[1], Scope())
        case "ASSERT":
            colon = find_colon(text, 0)
            # Whatever a variable holds, a number may stand in its place.
            claim(REFERENCE.sub("1", text if colon < 0 else text[:colon]))
        case "RUN" if raws:
            _, comma, repetitions = raws[0].partition(",")
            if comma and "$" not in repetitions:
                local.repetitions_of(_unquoted(repetitions), near=f",{repetitions}")
            _check_once(name, raws[1:])
            macro_arguments(("", *[raw for raw in raws[1:] if "$" not in raw.partition("=")[0]]))
        case _ if name in _TRIED:
            _try(name, raws, row)
        case _:
            pass


def _try(name: str, raws: Sequence[str], row: ast.Row) -> None:
    """Carry a local command out, on a machine that is there for nothing else."""
    known = [_unquoted(raw) for raw in raws if "$" not in raw]
    is_known = len(known) == len(raws) or (name in _TRIED_BY_WORD and known and "$" not in raws[0])
    if is_known:
        machine = Machine(DryRun(), seed=0, max_iterations=1)
        local.HANDLERS[name](machine, tuple(known), row)
