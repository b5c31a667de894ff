"""Interprets a script once, into a plan."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from netesto.language import steps
from netesto.language.draft import Draft
from netesto.language.interpreter import Interpreter
from netesto.language.plan import Part, Plan, SourceFile
from netesto.language.spool import closed_on_error
from netesto.model import MAX_ITERATIONS


def make(
    script: SourceFile,
    draft: Draft,
    *,
    library_path: Sequence[Path],
    definitions: Mapping[str, str],
    max_iterations: int = MAX_ITERATIONS,
) -> Plan:
    """The plan of a script, from an empty draft. ScriptError if the script is wrong."""
    interpreter = Interpreter(
        draft, library_path=library_path, definitions=definitions, max_iterations=max_iterations
    )
    with closed_on_error(draft):
        interpreter.run_text(script.text, script.path)
        return interpreter.plan()


def renumbered(
    plan: Plan,
    *,
    counter: int,
    passed: Collection[int] = (),
    columns: steps.ColumnKnowledge | None = None,
) -> Plan:
    """A plan rebuilt from its own sources, with other experiment numbers. The parts with the
    indexes `passed` take none. Without columns, its warnings are kept.
    """
    head = plan.head
    draft = Draft(seed=head.seed, counter=counter, lab=head.lab, passed=passed, columns=columns)
    return _like(plan, draft)


def again(plan: Plan, part: Part, *, attempt: int, before: int) -> Plan:
    """One part of a plan alone, planned again from the sources that the plan keeps: it draws
    different random numbers, and takes experiment numbers after `before`. Its hash stays."""
    begins = {} if part.index is None else {part.index: before}
    counter = before if part.index is None else plan.head.counter
    draft = Draft(seed=plan.head.seed, counter=counter, lab=plan.head.lab, begins=begins)
    with _like(plan, draft, attempts={part.name: attempt}) as made:
        found = made.head.rest if part.index is None else made.part(part.index)
        assert found is not None, "the same script has the same parts"
        return made.slice(replace(found, attempt=attempt))


def _like(plan: Plan, draft: Draft, attempts: Mapping[str, int] | None = None) -> Plan:
    """A plan of the sources of another one."""
    head = plan.head
    files = {source.path: source for source in head.sources}
    interpreter = Interpreter(
        draft,
        library_path=(),
        kept={(file, word): files[path] for file, word, path in head.resolved if path in files},
        definitions=head.definitions,
        max_iterations=head.max_iterations,
        attempts=attempts or {},
    )
    with closed_on_error(draft):
        interpreter.run_text(head.sources[0].text, head.sources[0].path)
        return interpreter.plan(like=head)
