"""Local commands: what the controller does itself. Their words come filled in and cut."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from netesto import units
from netesto.language import ast, ports
from netesto.language.arguments import check_once, flag, read
from netesto.language.cells import Cells
from netesto.language.claims import check_kinds, claim
from netesto.language.commands import LOCAL, LOCAL_KEYED, MAX_ARGUMENTS
from netesto.language.machine import EndOfScript, Machine
from netesto.language.ports import REPETITION
from netesto.language.requirements import requirement
from netesto.language.scope import Frame, MisuseError, check_name, needed, plain
from netesto.language.values import Count, values_of

Words: TypeAlias = tuple[str, ...]
Handler: TypeAlias = Callable[[Machine, Words, ast.Row], None]

_COLUMN = re.compile(r"[\w./%-]+")


def check_count(name: str, words: Sequence[str]) -> None:
    """MisuseError if a local command has too few or too many words."""
    usage = LOCAL[name]
    if len(words) < usage.least:
        raise MisuseError(f"{name} needs more than this", remedy=f"Write: {usage.text}")
    if usage.most is not None and len(words) > usage.most:
        extra = words[usage.most]
        remedy = f"Write: {usage.text}"
        if name in {"SET", "DEFAULT"}:
            remedy += '; quote a value that holds blanks: name="a b".'
        raise MisuseError(f"{name} does not take {plain(extra)!r}", near=(extra,), remedy=remedy)


def split_assignment(command: str, text: str) -> tuple[str, str]:
    """The name and the value of `name=value`. MisuseError if it is not of that form."""
    name, equals, value = text.partition("=")
    if not equals:
        raise MisuseError(
            f"{command} without =", near=(text,), remedy=f"Write: {LOCAL[command].text}"
        )
    return check_name(name.strip()), value


def host_suffix(machine: Machine, words: Words, _: ast.Row) -> None:
    machine.remote.suffix = needed(words[0]).lstrip(".")


def parse_seconds(text: str) -> float:
    """The seconds of WAIT and its like. MisuseError if `text` is no time, or negative."""
    text = needed(text)
    try:
        seconds = units.parse_time(text)
    except ValueError as error:
        raise MisuseError(str(error), near=(text,)) from None
    if not 0 <= seconds <= units.parse_time("10080m"):
        raise MisuseError(f"{text} is not a time to wait", near=(text,), remedy="0 s to a week.")
    return seconds


def wait(machine: Machine, words: Words, _: ast.Row) -> None:
    seconds = parse_seconds(words[0])
    machine.port.do(ports.Wait(seconds=seconds, mean_s=seconds))


def random_wait(machine: Machine, words: Words, _: ast.Row) -> None:
    bounds = [parse_seconds(word) for word in words]
    low, high = (0.0, bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
    if low > high:
        raise MisuseError(
            f"RAND_WAIT from {words[0]} to {words[1]} is an empty range",
            near=(words[0],),
            remedy=f"The shorter time comes first: RAND_WAIT {words[1]} {words[0]}",
        )
    seconds = low + (high - low) * machine.random.random()
    machine.port.do(ports.Wait(seconds=seconds, mean_s=(low + high) / 2))


def describe(machine: Machine, words: Words, _: ast.Row) -> None:
    machine.notes.description = plain(" ".join(words))


def other(machine: Machine, words: Words, row: ast.Row) -> None:
    lists: dict[str, list[str]] = {}
    # `_` and `-` are the same in the name of a column.
    columns_given: set[str] = set()
    last = ""
    for piece in (piece for word in words for piece in word.split(",")):
        name, equals, value = piece.partition("=")
        if equals and (column := name.replace("_", "-")) in columns_given:
            raise MisuseError(
                f"OTHER: {name} is given twice",
                near=(piece, f"{name}="),
                remedy=f"A value may be a list: OTHER {name}=a,b",
            )
        if equals and name:
            if _COLUMN.fullmatch(needed(name)) is None:
                raise MisuseError(
                    f"{plain(name)!r} is no name of a column",
                    near=(name,),
                    remedy="Letters, digits, and _ - . / % in it.",
                )
            lists[name], last = [needed(value, near=(f"{name}=",))], name
            columns_given.add(column)
        elif last:
            # A value may be a list itself: reqs=10K,1M.
            lists[last].append(needed(piece))
        elif piece:
            raise MisuseError(
                f"{plain(piece)!r} is not column=value",
                near=(piece,),
                remedy=f"Write: {LOCAL['OTHER'].text}",
            )
    if len(lists) > MAX_ARGUMENTS:
        raise MisuseError(
            f"OTHER: more than {MAX_ARGUMENTS:,} columns",
            remedy="Does a variable hold more words than it should?",
        )
    columns = {name: ",".join(values) for name, values in lists.items()}
    for name in columns:
        machine.port.need_column(name, row.place(name), factor=False)
    machine.notes.other = columns


def echo(machine: Machine, words: Words, _: ast.Row) -> None:
    machine.port.do(ports.Echo(text=plain(" ".join(words))))


def process_exp(machine: Machine, words: Words, row: ast.Row) -> None:
    given = read(LOCAL_KEYED["PROCESS_EXP"], words)
    exp = machine.remote.resolve_exp(given.values.get("exp"), takes_number=False)
    if not exp:
        raise MisuseError(
            "PROCESS_EXP before any experiment", remedy="DO_SERVER or DO_CLIENT begins one."
        )
    machine.check_factors()
    notes = machine.notes.of_experiment(machine.remote.finish(exp))
    machine.process(exp, notes, row.place())


def next_counter(machine: Machine, _: Words, __: ast.Row) -> None:
    machine.port.round_counter()


def debug(machine: Machine, words: Words, _: ast.Row) -> None:
    word = needed(words[0])
    try:
        machine.tracing = flag(word)
    except ValueError:
        remedy = f"Write: {LOCAL['DEBUG'].text}"
        raise MisuseError(f"DEBUG {word}", near=(word,), remedy=remedy) from None


def debug_disable(machine: Machine, _: Words, __: ast.Row) -> None:
    machine.saved_tracing.append(machine.tracing)
    machine.tracing = False


def debug_restore(machine: Machine, _: Words, __: ast.Row) -> None:
    if machine.saved_tracing:
        machine.tracing = machine.saved_tracing.pop()


def end(_: Machine, __: Words, ___: ast.Row) -> None:
    raise EndOfScript


def require(machine: Machine, words: Words, row: ast.Row) -> None:
    machine.port.require([requirement(needed(word), row) for word in words])


def check_claim(machine: Machine, text: str, message: str, row: ast.Row) -> None:
    """ASSERT: `text` has its variables filled in, and its quotes still on."""
    text = needed(text)
    tree = claim(text)
    if not machine.processed:
        raise MisuseError(
            "ASSERT before any PROCESS_EXP",
            remedy="It claims something of the experiment before it.",
        )
    if machine.remote.has_flows_since_process:
        machine.warn_once(
            row.place(),
            "ASSERT is about the last experiment that was processed, not about the one that runs",
            row,
        )
    kinds = machine.port.column_kinds()
    if kinds is not None:
        check_kinds(tree, kinds)
    machine.port.do(
        ports.Claim(
            exp=machine.processed,
            text=text.strip(),
            message=message,
            place=row.place(),
            chain=machine.chain(),
        )
    )


def wait_flows(machine: Machine, words: Words, _: ast.Row) -> None:
    given = read(LOCAL_KEYED["WAIT_FLOWS"], words)
    machine.remote.wait_flows(given.maybe_number("timeout"))


def start_flows(machine: Machine, words: Words, row: ast.Row) -> None:
    if not machine.remote.has_held:
        machine.warn_once(
            row.place(), "START_FLOWS: no flow waits for it; hold=1 makes a DO_CLIENT wait", row
        )
    machine.remote.has_held = False
    lead_s = read(LOCAL_KEYED["START_FLOWS"], words).number("lead")
    machine.port.do(ports.StartFlows(lead_s=lead_s))


def lab(machine: Machine, words: Words, row: ast.Row) -> None:
    if machine.has_lab or machine.has_sent:
        raise MisuseError(
            "a second LAB" if machine.has_lab else "LAB after a remote command",
            remedy="One LAB, before anything is asked of a host.",
        )
    words = tuple(needed(word) for word in words)
    named = "=" not in words[0]
    check_once("LAB", words)
    settings: dict[str, str] = {}
    for word in words[named:]:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise MisuseError(
                f"{word!r} is not name=value", near=(word,), remedy=f"Write: {LOCAL['LAB'].text}"
            )
        settings[key] = value
    if not named and "file" not in settings:
        raise MisuseError("LAB names no topology", remedy=f"Write: {LOCAL['LAB'].text}")
    machine.has_lab = True
    topology = words[0] if named else ""
    machine.port.lab(
        ports.LabRequest(
            topology=topology, settings=settings, place=row.place(), chain=machine.chain()
        )
    )


# ---- the factors of a SWEEP ------------------------------------------------------------------


def sweep_word(word: str) -> tuple[str, Sequence[str] | range]:
    """A word of SWEEP: a factor and its values, `reps` and the repetitions, `order` and its one
    word. MisuseError if it is none of these."""
    name, equals, text = word.partition("=")
    if not equals:
        raise MisuseError(
            f"{plain(word)!r} is not factor=values",
            near=(word,),
            remedy="Write: SWEEP ca=reno,cubic rate=10,100 reps=3 DO",
        )
    match name:
        case "reps":
            return name, range(1, repetitions_of(text, near="reps=") + 1)
        case "order":
            if needed(text, near=("order=",)) not in {"given", "random"}:
                raise MisuseError(
                    f"order={text} is not an order",
                    near=("order=",),
                    remedy="It is `given` or `random`.",
                )
            return name, [text]
        case _ if name == REPETITION:
            raise MisuseError(
                "no factor may be called rep: that is the repetition",
                near=(name,),
                remedy="reps=3 repeats every cell; else choose another name.",
            )
        case _:
            values = values_of(text, near=f"{name}=")
            _check_values(name, values)
            return check_name(name), values


def _check_values(name: str, values: Sequence[str]) -> None:
    """MisuseError if a factor has no value, or one of them twice: such cells are one cell."""
    if not values:
        raise MisuseError(
            f"factor {name} has no value", near=(f"{name}=",), remedy=f"Write: SWEEP {name}=a,b DO"
        )
    if isinstance(values, Count):
        return
    for value, count in Counter(values).items():
        if count > 1:
            raise MisuseError(
                f"factor {name} has the value {value} {count} times",
                near=(f"{name}=",),
                remedy="SWEEP … reps=2 runs every cell twice.",
            )


def check_factors(words: Sequence[str]) -> None:
    """MisuseError if no word of a SWEEP is a factor, or one is there twice."""
    check_once("SWEEP", words)
    if all(word.partition("=")[0] in {"reps", "order"} for word in words):
        raise MisuseError("SWEEP without a factor", remedy="Write: SWEEP ca=reno,cubic DO")


def cells_of(machine: Machine, words: Words) -> Cells:
    """The cells of a SWEEP in the order they run."""
    check_factors(words)
    factors = dict(sweep_word(word) for word in words)
    repetitions = factors.pop("reps", range(1, 2))
    order = factors.pop("order", ["given"])
    count = len(repetitions)
    for values in factors.values():
        count *= len(values)
    machine.spend(count)
    places: Sequence[int] = range(count)
    if order == ["random"]:
        shuffled = list(places)
        # A generator of its own: --resume finds the same order, whatever was drawn before.
        random.Random(machine.seed).shuffle(shuffled)
        places = shuffled
    return Cells(factors, repetitions, places)


def check_seen(machine: Machine, names: Iterable[str], frame: Frame) -> None:
    """MisuseError if a factor could not be seen, or not told from another, in the cells."""
    around = machine.notes.factors()
    for name in names:
        if name in frame:
            raise MisuseError(
                f"factor {name}: an argument of the macro has this name, and hides it",
                near=(f"{name}=",),
                remedy=f"Choose another name, or pass no {name} to the macro.",
            )
        if name in around:
            raise MisuseError(
                f"factor {name}: a SWEEP around this one has it already",
                near=(f"{name}=",),
                remedy="Choose another name: each factor is a column of exp.csv.",
            )


def repetitions_of(text: str, *, near: str) -> int:
    """A number of repetitions, 0 or more. MisuseError if `text` is none."""
    text = needed(text, near=(near,))
    if re.fullmatch(r"[0-9]{1,9}", text) is None:
        raise MisuseError(
            f"{text!r} is not a number of repetitions", near=(near,), remedy="0, 1, 2, …"
        )
    return int(text)


HANDLERS: Mapping[str, Handler] = {
    "HOST_SUFFIX": host_suffix,
    "WAIT": wait,
    "RAND_WAIT": random_wait,
    "DESC": describe,
    "OTHER": other,
    "ECHO": echo,
    "PROCESS_EXP": process_exp,
    "NEXT_COUNTER": next_counter,
    "DEBUG": debug,
    "DEBUG_DISABLE": debug_disable,
    "DEBUG_RESTORE": debug_restore,
    "END": end,
    "REQUIRE": require,
    "WAIT_FLOWS": wait_flows,
    "START_FLOWS": start_flows,
    "LAB": lab,
}
