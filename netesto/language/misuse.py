"""Finds errors in the words of a line, as far as they are known before it runs. Pure."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from netesto.language import arguments, ast, local, permitted
from netesto.language.claims import claim
from netesto.language.commands import ALL_NAMES, LOCAL, LOCAL_KEYED, REMOTE
from netesto.language.dimensions import check_units
from netesto.language.draft import Draft
from netesto.language.expressions import Arithmetic
from netesto.language.lines import find_colon
from netesto.language.machine import Machine
from netesto.language.requirements import requirement
from netesto.language.scope import REFERENCE, MisuseError, Scope, unquoted, unwrapped
from netesto.language.specification import COMMON, Specification
from netesto.language.walk import macro_arguments, unknown_command

# Commands that can be tried before a run; the words of LAB one by one.
_TRIED = frozenset({"DEBUG", "HOST_SUFFIX", "LAB", "OTHER", "RAND_WAIT", "WAIT"})
_COMMON_NAMES = frozenset(argument.name for argument in COMMON)
# Commands of name=value, where quotes may surround the whole word or the value.
_UNWRAPPED = frozenset({"RUN", *LOCAL_KEYED, *REMOTE})


def misuses(row: ast.LineLayout) -> Iterator[MisuseError]:
    """The errors in a command: its name, and the words without variables."""
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
        yield from _each(raws, lambda word: requirement(word, row))
        return
    try:
        if name not in ALL_NAMES:
            raise unknown_command(name, raws)
        if name in LOCAL and not any("$" in raw for raw in raws):
            local.check_count(name, raws)
        _local(name, raws, row)
    except MisuseError as error:
        yield error


def _each(raws: Sequence[str], check: Callable[[str], object]) -> Iterator[MisuseError]:
    """The errors that `check` raises for each word separately."""
    for raw in raws:
        try:
            if "$" not in raw:
                check(unquoted(raw))
        except MisuseError as error:
            yield error


def sweep_misuses(sweep: ast.Sweep) -> Iterator[MisuseError]:
    """The errors in the words of a SWEEP."""
    raws = [word.text for word in sweep.words]
    yield from _each(raws, local.sweep_word)
    try:
        local.check_factors(raws)
    except MisuseError as error:
        yield error


def _keyed(specification: Specification, raws: Sequence[str]) -> Iterator[MisuseError]:
    yield from arguments.misuses(specification, raws)
    own = [raw for raw in raws if raw.partition("=")[0] not in _COMMON_NAMES]
    known = tuple(unquoted(raw) for raw in own if "$" not in raw)
    # The meaning of a word of SET_QDISC or SET_NETEM depends on the others.
    is_known = len(known) == len(own) or specification.open_names
    if specification.settings is None or not is_known:
        return
    try:
        given = arguments.read(specification, known)
    except MisuseError:
        # Reported already, or only the run knows the rest.
        return
    if given.open_arguments or not specification.open_names:
        yield from permitted.misuses(specification.settings(given))


def _local(name: str, raws: Sequence[str], row: ast.LineLayout) -> None:
    """MisuseError for an invalid local command."""
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
            # A number is a possible value of any variable.
            claimed = text if colon < 0 else text[:colon]
            tree = claim(REFERENCE.sub("1", claimed), {})
            if "$" not in claimed:
                check_units(tree, {})
        case "RUN" if raws:
            _, comma, repetitions = raws[0].partition(",")
            if comma and "$" not in repetitions:
                local.repetitions_of(unquoted(repetitions), near=f",{repetitions}")
            macro_arguments(("", *[raw for raw in raws[1:] if "$" not in raw.partition("=")[0]]))
        case _ if name in _TRIED:
            _try(name, raws, row)
        case _:
            pass


def _try(name: str, raws: Sequence[str], row: ast.LineLayout) -> None:
    """Execute a local command on a machine that nothing else uses."""
    known = [unquoted(raw) for raw in raws if "$" not in raw]
    is_known = len(known) == len(raws) or (name == "LAB" and known and "$" not in raws[0])
    if is_known:
        with contextlib.closing(Draft(seed=0)) as draft:
            machine = Machine(draft, max_iterations=1)
            local.HANDLERS[name](machine, tuple(known), row)
