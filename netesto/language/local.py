"""Local commands, which the controller executes. Variables are substituted in their words."""

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from netesto import units
from netesto.flowspec import MAX_SECONDS
from netesto.language import ast, steps
from netesto.language.arguments import check_once, read
from netesto.language.claims import check_kinds, claim, verdict
from netesto.language.commands import LOCAL, LOCAL_KEYED
from netesto.language.dimensions import check_units
from netesto.language.machine import EndOfScript, Machine
from netesto.language.permitted import slip
from netesto.language.plan import Until
from netesto.language.requirements import requirement
from netesto.language.scope import Frame, MisuseError, NoExperimentError, check_name, needed, plain
from netesto.language.specification import MAX_ARGUMENTS
from netesto.language.steps import REPETITION
from netesto.language.values import Count, values_of
from netesto.schema.kinds import flag

Words: TypeAlias = tuple[str, ...]
Handler: TypeAlias = Callable[[Machine, Words, ast.LineLayout], None]

# That of a link in a lab, unless its LAB says otherwise.
_ETHERNET_MTU = 1500

_COLUMN = re.compile(r"[\w./%-]+")


def check_count(name: str, words: Sequence[str]) -> None:
    """MisuseError if a local command has the wrong number of words."""
    usage = LOCAL[name]
    if len(words) < usage.least:
        raise MisuseError(f"{name}: not enough arguments", remedy=f"Write: {usage.text}")
    if usage.most is not None and len(words) > usage.most:
        extra = words[usage.most]
        remedy = f"Write: {usage.text}"
        if name in {"SET", "DEFAULT"}:
            remedy += '; quote a value that contains spaces: name="a b".'
        raise MisuseError(
            f"{name}: unexpected argument {plain(extra)!r}", near=(extra,), remedy=remedy
        )


def split_assignment(command: str, text: str) -> tuple[str, str]:
    """The name and the value of `name=value`. MisuseError for any other form."""
    name, equals, value = text.partition("=")
    if not equals:
        raise MisuseError(
            f"{command}: missing =", near=(text,), remedy=f"Write: {LOCAL[command].text}"
        )
    return check_name(name.strip()), value


def host_suffix(machine: Machine, words: Words, _: ast.LineLayout) -> None:
    machine.remote.suffix = needed(words[0]).lstrip(".")


def parse_seconds(text: str) -> float:
    """The seconds of WAIT and its like. MisuseError for an invalid or negative time."""
    text = needed(text)
    try:
        seconds = units.parse_time(text)
    except ValueError as error:
        raise MisuseError(str(error), near=(text,)) from None
    if not 0 <= seconds <= MAX_SECONDS:
        raise MisuseError(
            f"waiting time {text} is out of range", near=(text,), remedy="From 0 s to one week."
        )
    return seconds


def wait(machine: Machine, words: Words, _: ast.LineLayout) -> None:
    seconds = parse_seconds(words[0])
    machine.draft.do(steps.Wait(seconds=seconds, mean_s=seconds))


def random_wait(machine: Machine, words: Words, _: ast.LineLayout) -> None:
    bounds = [parse_seconds(word) for word in words]
    low, high = (0.0, bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
    if low > high:
        raise MisuseError(
            f"RAND_WAIT from {words[0]} to {words[1]} is an empty range",
            near=(words[0],),
            remedy=f"The shorter time comes first: RAND_WAIT {words[1]} {words[0]}",
        )
    seconds = low + (high - low) * machine.random.random()
    machine.draft.do(steps.Wait(seconds=seconds, mean_s=(low + high) / 2))


def describe(machine: Machine, words: Words, _: ast.LineLayout) -> None:
    machine.notes.description = plain(" ".join(words))


def other(machine: Machine, words: Words, row: ast.LineLayout) -> None:
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
                    f"OTHER: invalid column name {plain(name)!r}",
                    near=(name,),
                    remedy="Use letters, digits, and _ - . / %.",
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
        machine.draft.need_column(name, row.place(name))
    machine.notes.other = columns


def echo(machine: Machine, words: Words, _: ast.LineLayout) -> None:
    machine.draft.do(steps.Echo(text=plain(" ".join(words))))


def process_exp(machine: Machine, words: Words, row: ast.LineLayout) -> None:
    given = read(LOCAL_KEYED["PROCESS_EXP"], words)
    exp = machine.remote.resolve_exp(given.values.get("exp"), takes_number=False)
    if not exp:
        raise NoExperimentError("PROCESS_EXP")
    machine.check_factors()
    notes = machine.notes.of_experiment(machine.remote.finish(exp))
    machine.process(exp, notes, row.place())


def next_counter(machine: Machine, _: Words, __: ast.LineLayout) -> None:
    machine.draft.round_counter()


def debug(machine: Machine, words: Words, _: ast.LineLayout) -> None:
    word = needed(words[0])
    try:
        machine.tracing = flag(word)
    except ValueError:
        remedy = f"Write: {LOCAL['DEBUG'].text}"
        raise MisuseError(f"DEBUG: invalid value {word!r}", near=(word,), remedy=remedy) from None


def debug_disable(machine: Machine, _: Words, __: ast.LineLayout) -> None:
    machine.saved_tracing.append(machine.tracing)
    machine.tracing = False


def debug_restore(machine: Machine, _: Words, __: ast.LineLayout) -> None:
    if machine.saved_tracing:
        machine.tracing = machine.saved_tracing.pop()


def end(_: Machine, __: Words, ___: ast.LineLayout) -> None:
    raise EndOfScript


def require(machine: Machine, words: Words, row: ast.LineLayout) -> None:
    found = [requirement(needed(word), row) for word in words]
    for each in found:
        # Other names are errors, unless they are known.
        for need in each.needs:
            if message := slip(need):
                place = row.place(f"ca{each.operator}")
                machine.draft.warn(message, place, once=(message, each.place))
    machine.draft.require(found)


def check_claim(machine: Machine, text: str, message: str, row: ast.LineLayout) -> None:
    """ASSERT: `text` has its variables substituted and keeps its quotes."""
    text = needed(text)
    processed = machine.processed
    tree = claim(text, {} if processed is None else processed.notes.columns)
    if processed is None:
        raise MisuseError(
            "ASSERT before any PROCESS_EXP",
            remedy="It is about the experiment processed last.",
        )
    if machine.remote.has_flows_since_process:
        machine.draft.warn(
            "ASSERT is about the experiment processed last, not about the running one",
            row.place(),
            once=row.place(),
        )
    check_units(tree, processed.notes.columns)
    kinds = machine.draft.column_kinds()
    if kinds is not None:
        check_kinds(tree, kinds)
    for number in (each for each in ast.nodes(tree) if isinstance(each, ast.Number)):
        if slip_of_unit := units.bytes_slip(number.text):
            machine.warn(f"ASSERT: {slip_of_unit}", row.place(number.text))
    decided = verdict(tree, kinds or {})
    if decided is not None:
        always = "holds for any measurement" if decided else "cannot hold"
        machine.warn(f"ASSERT {text.strip()}: this {always}", row.place(), about="decided")
    machine.draft.do(
        steps.Claim(
            exp=processed.exp,
            text=text.strip(),
            message=message,
            place=row.place(),
            chain=machine.chain(),
        )
    )


def wait_flows(machine: Machine, words: Words, row: ast.LineLayout) -> None:
    given = read(LOCAL_KEYED["WAIT_FLOWS"], words)
    exp = machine.remote.exp
    if not exp:
        raise NoExperimentError("WAIT_FLOWS")
    timeout_s, left_s = given.values.get("timeout"), machine.draft.left_s(exp)
    if timeout_s is not None and timeout_s < left_s:
        message = (
            f"WAIT_FLOWS timeout={given.texts['timeout']}: flows of the experiment run for"
            f" {units.format_time(left_s)} more; they are ended then, and have failed"
        )
        machine.warn(message, row.place("timeout="), about="timeout")
    machine.draft.do(steps.WaitFlows(exp=exp, timeout_s=timeout_s))
    if exp in machine.remote.open:
        machine.remote.open[exp].has_waited = True


def start_flows(machine: Machine, words: Words, row: ast.LineLayout) -> None:
    if not machine.remote.has_held:
        message = "START_FLOWS: no flow is held back; DO_CLIENT hold=1 holds one back"
        machine.draft.warn(message, row.place(), once=row.place())
    machine.remote.has_held = False
    lead_s = read(LOCAL_KEYED["START_FLOWS"], words).values["lead"]
    machine.draft.do(steps.StartFlows(lead_s=lead_s))


def lab(machine: Machine, words: Words, row: ast.LineLayout) -> None:
    if machine.remote.has_lab or machine.remote.has_sent:
        raise MisuseError(
            "LAB given twice" if machine.remote.has_lab else "LAB after a remote command",
            remedy="Write one LAB, before the first remote command.",
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
        raise MisuseError("LAB: missing topology", remedy=f"Write: {LOCAL['LAB'].text}")
    for key, value in settings.items():
        if slip_of_unit := units.bytes_slip(value):
            machine.warn(f"LAB {key}={slip_of_unit}", row.place(f"{key}="))
    machine.remote.has_lab = True
    mtu = settings.get("mtu", str(_ETHERNET_MTU))
    if named and mtu.isdecimal() and not any(key.endswith(".mtu") for key in settings):
        machine.remote.lab_mtu = int(mtu)
    topology = words[0] if named else ""
    machine.draft.lab(
        steps.LabRequest(
            topology=topology, settings=settings, place=row.place(), chain=machine.chain()
        )
    )


# ---- the factors of a SWEEP ------------------------------------------------------------------


_UNTIL_EXAMPLE = "Write: SWEEP ca=reno,cubic reps=3..30 until=rate:2% DO"
# Fewer repetitions have no spread that a decision could rest on.
_LEAST_REPETITIONS = 3
_BOUNDS = re.compile(r"([0-9]{1,9})\.\.([0-9]{1,9})")
_SHARE = re.compile(r"([^:]+):([0-9]+(?:\.[0-9]+)?|\.[0-9]+)%")


def sweep_word(word: str) -> tuple[str, Sequence[str] | range]:
    """A word of SWEEP: a factor and its values, `reps` and the repetitions, `until` and `order` and
    their one word. MisuseError for anything else."""
    name, equals, text = word.partition("=")
    if not equals:
        raise MisuseError(
            f"{plain(word)!r} is not factor=values",
            near=(word,),
            remedy="Write: SWEEP ca=reno,cubic rate=10,100 reps=3 DO",
        )
    match name:
        case "reps":
            return name, range(1, _repetitions(text)[1] + 1)
        case "until":
            shares_of(text)
            return name, [text]
        case "order":
            if needed(text, near=("order=",)) not in {"given", "random"}:
                raise MisuseError(
                    f"invalid order={text}",
                    near=("order=",),
                    remedy="Write order=given or order=random.",
                )
            return name, [text]
        case _ if name == REPETITION:
            raise MisuseError(
                "factor name rep is reserved for the repetition",
                near=(name,),
                remedy="Choose another name, or repeat every cell with reps=3.",
            )
        case _:
            values = values_of(text, near=f"{name}=")
            _check_values(name, values)
            return check_name(name), values


def _repetitions(text: str) -> tuple[int, int]:
    """The bounds of `reps=3..30`; of `reps=3` both are 3. MisuseError for anything else."""
    match = _BOUNDS.fullmatch(text)
    if match is None:
        count = repetitions_of(text, near="reps=")
        return count, count
    least, most = int(match[1]), int(match[2])
    if not _LEAST_REPETITIONS <= least <= most:
        raise MisuseError(
            f"invalid range of repetitions reps={text}",
            near=("reps=",),
            remedy=f"It begins with {_LEAST_REPETITIONS} or more, and ends with no less."
            f" {_UNTIL_EXAMPLE}",
        )
    return least, most


def shares_of(text: str) -> dict[str, float]:
    """The columns of `until=rate:2%,rtt:5%`, each with its share in percent. MisuseError for
    anything else."""
    shares: dict[str, float] = {}
    for word in needed(text, near=("until=",)).split(","):
        match = _SHARE.fullmatch(word)
        if match is None or not 0 < float(match[2]) < 100:
            raise MisuseError(
                f"until: {word!r} is not a column and a share of its mean",
                near=(word, "until="),
                remedy=f"The share is above 0 and below 100 %. {_UNTIL_EXAMPLE}",
            )
        if match[1] in shares:
            raise MisuseError(
                f"until has the column {match[1]} twice",
                near=("until=",),
                remedy="Keep the smaller share.",
            )
        shares[match[1]] = float(match[2])
    return shares


def _check_values(name: str, values: Sequence[str]) -> None:
    """MisuseError if a factor has no value, or the same value twice, as two cells would be one."""
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


def _by_key(words: Sequence[str]) -> dict[str, str]:
    """The words of a SWEEP, by what is before their `=`."""
    return dict(word.partition("=")[::2] for word in words)


def check_factors(words: Sequence[str]) -> None:
    """MisuseError if a SWEEP has no factor, or one twice, or one of a range of repetitions and the
    rule for it without the other."""
    check_once("SWEEP", words)
    given = _by_key(words)
    reps = given.get("reps", "")
    if "until" in given and ".." not in reps and "$" not in reps:
        raise MisuseError(
            "until= without a range of repetitions", near=("until=",), remedy=_UNTIL_EXAMPLE
        )
    if ".." in reps and "until" not in given:
        raise MisuseError(
            f"reps={reps} is a range, but until= does not say when they are enough",
            near=("reps=",),
            remedy=_UNTIL_EXAMPLE,
        )
    if given.keys() <= ast.SWEEP_OPTIONS:
        raise MisuseError("SWEEP without a factor", remedy="Write: SWEEP ca=reno,cubic DO")


@dataclass(frozen=True, slots=True)
class SweepCells:
    """The cells of a SWEEP: every combination of its factors, each made when it runs.

    `order` are their places in the given order: the last factor changes fastest, the repetition
    slowest. A million cells take at most the memory of a million numbers, and none before they run.
    """

    factors: Mapping[str, Sequence[object]]
    repetitions: Sequence[object]
    order: Sequence[int]
    until: Until | None = None

    def __iter__(self) -> Iterator[dict[str, str]]:
        """Each factor's value, and `rep`."""
        return map(self._cell, self.order)

    def _cell(self, place: int) -> dict[str, str]:
        chosen = dict.fromkeys(self.factors, "")
        for name, values in reversed(list(self.factors.items())):
            place, index = divmod(place, len(values))
            chosen[name] = str(values[index])
        return chosen | {REPETITION: str(self.repetitions[place])}


def cells_of(machine: Machine, words: Words) -> SweepCells:
    """The cells of a SWEEP in the order they run."""
    check_factors(words)
    factors = dict(sweep_word(word) for word in words)
    repetitions = factors.pop("reps", range(1, 2))
    order = factors.pop("order", ["given"])
    until = _until(machine, _by_key(words)) if factors.pop("until", None) else None
    cells = math.prod(map(len, factors.values()))
    count = len(repetitions) * cells
    machine.spend(count)
    places: Sequence[int] = range(count)
    if order == ["random"]:
        # A separate generator, so that --resume finds the same order, whatever was drawn before.
        generator = random.Random(machine.draft.seed)
        # A repetition that earlier ones may make unnecessary stays behind them.
        size = count if until is None else cells
        blocks = [list(range(first, first + size)) for first in range(0, count, size or 1)]
        for block in blocks:
            generator.shuffle(block)
        places = [place for block in blocks for place in block]
    return SweepCells(factors, repetitions, places, until)


def _until(machine: Machine, given: Mapping[str, str]) -> Until:
    """The rule for the repetitions of a SWEEP. MisuseError if one of its columns has no mean, or if
    its cells do not run apart."""
    if machine.is_in_part:
        raise MisuseError(
            "until= in a SWEEP within another SWEEP, or within a repetition of RUN",
            near=("until=",),
            remedy="Write one SWEEP with all factors: each cell is repeated as it needs.",
        )
    shares = shares_of(given["until"])
    machine.draft.check_means(shares)
    least, most = _repetitions(given["reps"])
    return Until(columns=shares, least=least, most=most, sweep=machine.next_until())


def check_seen(machine: Machine, names: Iterable[str], frame: Frame) -> None:
    """MisuseError if a factor has the name of a macro's argument, or of an outer factor."""
    around = machine.notes.factors()
    for name in names:
        if name in frame:
            raise MisuseError(
                f"factor {name}: an argument of the macro has this name and hides it",
                near=(f"{name}=",),
                remedy=f"Choose another name, or pass no {name} to the macro.",
            )
        if name in around:
            raise MisuseError(
                f"factor {name}: an outer SWEEP has it already",
                near=(f"{name}=",),
                remedy="Choose another name: each factor is a column of exp.csv.",
            )


def repetitions_of(text: str, *, near: str) -> int:
    """A number of repetitions, 0 or more. MisuseError for anything else."""
    text = needed(text, near=(near,))
    if re.fullmatch(r"[0-9]{1,9}", text) is None:
        raise MisuseError(
            f"invalid number of repetitions {text!r}",
            near=(near,),
            remedy="Write a whole number: reps=5",
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
