"""Parses `key=value` words into values, checked against the table of commands. Pure."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from netesto.flowspec import FIELDS, FlowSpec
from netesto.language.lines import refuse
from netesto.language.scope import MisuseError, needed, plain, unquoted
from netesto.language.specification import MAX_ARGUMENTS, MAX_VALUE, Given, Specification
from netesto.schema.kinds import Argument, Kind, Value, looks_like_range
from netesto.text.nearest import hint, nearest


def flow(given: Given, **other: Value) -> FlowSpec:
    """The flow that the arguments of a DO_CLIENT describe, with `other` values of its fields."""
    values: dict[str, Value] = {}
    for name, fields in FIELDS.items():
        if name in given.values:
            value = given.values[name]
            values |= zip(fields, value if isinstance(value, tuple) else (value,), strict=True)
    return FlowSpec(**values | other)  # type: ignore[arg-type]  # kinds of arguments have the fields' types


@lru_cache(maxsize=1024)
def read(specification: Specification, words: tuple[str, ...]) -> Given:
    """The arguments in the words of a line, defaults filled in, each of its type and in range.

    MisuseError for the first invalid one, and for a repeated name. Cached, because
    loops send the same words again and again.
    """
    return _read(specification, words, lambda text, key: needed(text, near=(f"{key}=",)), refuse)


def misuses(specification: Specification, raws: Sequence[str]) -> list[MisuseError]:
    """The errors in the words of a line as written, as far as they do not depend on variables."""
    found: list[MisuseError] = []
    raws, _ = without_torn(specification, tuple(raws))
    named = [raw for raw in raws if "$" not in raw.partition("=")[0]]
    _read(
        specification,
        named,
        lambda text, _: None if "$" in text else unquoted(text),
        found.append,
        # A name that only the run knows may be any argument's.
        is_complete=len(named) == len(raws),
    )
    return found


def _read(
    specification: Specification,
    words: Sequence[str],
    text_of: Callable[[str, str], str | None],
    report: Callable[[MisuseError], None],
    *,
    is_complete: bool = True,
) -> Given:
    """The arguments in the words; errors are reported. `text_of` makes the text of a value,
    given what is written and its name, or None if only the run knows it. An argument may only be
    missing if the words are complete."""
    try:
        check_once(specification.name, words, aliases=aliases(specification))
    except MisuseError as error:
        report(error)
    by_name = {argument.name: argument for argument in specification.arguments}
    by_name |= {argument.alias: argument for argument in specification.arguments if argument.alias}
    texts: dict[str, str | None] = {}
    others: dict[str, str] = {}
    meant: set[str | None] = set()
    for word in words:
        key, equals, text = word.partition("=")
        argument = by_name.get(key)
        try:
            if not equals:
                raise not_keyed(word, specification)
            if len(text) > MAX_VALUE:
                raise MisuseError(
                    f"{key} is longer than {MAX_VALUE:,} characters",
                    near=(f"{key}=",),
                    remedy="Does a loop append to the variable in it?",
                )
            if argument is not None:
                texts[argument.name] = text_of(text, key)
            elif not _is_open(specification, key):
                raise unknown_argument(needed(key), specification)
            elif (other := text_of(text, key)) is not None:
                others[key] = other
        except MisuseError as error:
            # An argument under a wrong name is not also missing.
            meant.add(nearest(key, by_name))
            report(error)
    values: dict[str, Value] = {}
    filled: dict[str, str] = {}
    for argument in specification.arguments:
        given = texts.get(argument.name, argument.default)
        try:
            if given is not None:
                values[argument.name] = value_of(argument, given)
                filled[argument.name] = given
            elif argument.required and is_complete and argument.name not in {*texts, *meant}:
                raise missing_argument(argument, specification)
        except MisuseError as error:
            report(error)
    return Given(values, filled, others, frozenset(texts))


@lru_cache(maxsize=1024)
def without_torn(
    specification: Specification, words: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The words of a line without arguments that contain a space, such as `t est=TCP_RR`; and these
    arguments. The classic tool ignores them, and its library contains one."""
    known = names(specification)
    kept: list[str] = []
    torn: list[tuple[str, str]] = []
    for word in words:
        key, equals, _ = word.partition("=")
        before = kept[-1] if kept else ""
        is_rest = bool(equals and key) and key not in known and "=" not in before
        if is_rest and before and f"{before}{key}" in known:
            torn.append((kept.pop(), word))
        else:
            kept.append(word)
    return tuple(kept), tuple(torn)


def _is_open(specification: Specification, key: str) -> bool:
    """Whether `key` is one of the names that only the agent knows: a sysctl, a parameter."""
    if not specification.open_names or not key:
        return False
    return "." in key or specification.name != "SET_SYSCTL"


def aliases(specification: Specification) -> Mapping[str, str]:
    """The arguments of a command by their other spellings."""
    return {each.alias: each.name for each in specification.arguments if each.alias}


def check_once(
    command: str, words: Sequence[str], *, aliases: Mapping[str, str] | None = None
) -> None:
    """MisuseError if two of the words of a command give the same name a value."""
    if len(words) > MAX_ARGUMENTS:
        raise MisuseError(
            f"{command}: more than {MAX_ARGUMENTS:,} arguments",
            remedy="Does a variable hold more words than it should?",
        )
    given: dict[str, str] = {}
    for word in words:
        key, equals, _ = word.partition("=")
        if not equals:
            continue
        name = (aliases or {}).get(key, key)
        if name in given:
            both = key if given[name].startswith(f"{key}=") else f"{key}, which is {name},"
            raise MisuseError(
                f"{command}: {both} is given twice",
                near=(word, f"{key}="),
                remedy=f"Leave out {plain(given[name])} or {plain(word)}.",
            )
        given[name] = word


def not_keyed(word: str, specification: Specification) -> MisuseError:
    """The error of a word without `=`."""
    word = needed(word)
    similar = nearest(word, names(specification))
    remedy = f"Arguments are name=value; {specification.name} takes {_listed(specification)}."
    return MisuseError(
        f"{word!r} is not name=value",
        near=(word,),
        remedy=f"Did you mean {similar}=…?" if similar else remedy,
    )


def unknown_argument(key: str, specification: Specification) -> MisuseError:
    """The error of a key that the command does not accept."""
    return MisuseError(
        f"{specification.name}: unknown argument {key}",
        near=(key,),
        remedy=hint(key, names(specification), otherwise=f"It takes {_listed(specification)}."),
    )


def missing_argument(argument: Argument, specification: Specification) -> MisuseError:
    """The error of a missing argument."""
    return MisuseError(
        f"{specification.name}: missing {argument.name}=",
        remedy=f"{argument.name} is {argument.kind.noun}.",
    )


def names(specification: Specification) -> list[str]:
    """The names of a command's arguments, other spellings included."""
    spelled = [name for a in specification.arguments for name in (a.name, a.alias) if name]
    return sorted(spelled, key=str.casefold)


def _listed(specification: Specification) -> str:
    listed = ", ".join(argument.name for argument in specification.arguments)
    if specification.open_names:
        listed += f", and {specification.open_names}"
    return listed or "none"


# ---- one value -------------------------------------------------------------------------------


def value_of(argument: Argument, text: str) -> Value:
    """The value of one argument. MisuseError for another type, or a value out of range."""
    try:
        value = argument.kind.read(text)
    except ValueError:
        examples = argument.kind.examples
        remedy = f"Write it like this: {examples}." if examples else ""
        raise _wrong(argument, text, f"is not {argument.kind.noun}", remedy) from None
    if fault := argument.fault(value):
        remedy = f"It must be {argument.span}."
        if argument.choices:
            listed = f"Choose one of: {', '.join(argument.choices)}."
            remedy = hint(text, argument.choices, otherwise=listed)
        raise _wrong(argument, text, fault, remedy)
    return value


def _wrong(argument: Argument, text: str, what: str, remedy: str) -> MisuseError:
    if argument.name == "ca" and ("," in text or looks_like_range(text)):
        remedy = "A list of ca belongs to RUN, which runs the macro once for each."
    elif argument.kind in {Kind.HOST, Kind.WORD} and looks_like_range(text):
        remedy = f"A range belongs to FOR: FOR x IN {text} DO … {argument.name}=$x … DONE"
    near = [f"{name}=" for name in (argument.name, argument.alias) if name]
    message = f"{argument.name}={text} {what}" if text else f"{argument.name} is empty"
    return MisuseError(message, near=near, remedy=remedy)
