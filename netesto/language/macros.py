"""The macros of a script: their spelling, which of them run, and the variables that each requires.
Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from netesto.language.survey import Call, Definition, Survey, Use


class Macros:
    """All definitions: a macro may have several, in branches or one after the other.

    `is_set` returns whether a global variable is set anywhere.
    """

    def __init__(self, is_set: Callable[[str], bool]) -> None:
        self._is_set = is_set
        self._by_name: dict[str, list[Definition]] = {}
        self._by_folded: dict[str, list[str]] = {}
        self._mentioned: dict[str, set[str]] = {}
        self._needs: dict[str, dict[str, Use]] = {}

    def add(self, definition: Definition) -> Definition | None:
        """Add a definition; return the previous one with this name."""
        name = definition.macro.name
        known = self._by_name.setdefault(name, [])
        if not known:
            self._by_folded.setdefault(name.casefold(), []).append(name)
        known.append(definition)
        self._mentioned.setdefault(name, set()).update(definition.inside.mentioned)
        return known[-2] if len(known) > 1 else None

    def definitions(self) -> Iterator[Definition]:
        for known in self._by_name.values():
            yield from known

    def names(self) -> Collection[str]:
        return self._by_name.keys()

    def spelled(self, name: str) -> str | None:
        """The macro of a RUN; the letter case does not matter if there is only one."""
        if name in self._by_name:
            return name
        alike = self._by_folded.get(name.casefold(), [])
        return alike[0] if len(alike) == 1 else None

    def mentioned(self, name: str) -> set[str]:
        """All variables in a macro."""
        return self._mentioned[name]

    def reached(self, names: Iterable[str]) -> set[str]:
        """The macros that RUNs of `names` run, directly or through others."""
        waiting = list(names)
        reached: set[str] = set()
        while waiting:
            name = self.spelled(waiting.pop())
            if name is not None and name not in reached:
                reached.add(name)
                waiting += [
                    call.macro for each in self._by_name[name] for call in each.inside.calls
                ]
        return reached

    def needs_of(self, name: str) -> dict[str, Use]:
        """The arguments that a macro needs, each with the line that uses it."""
        # Called macros come first. A stack instead of recursion, because calls may be endless.
        waiting = [] if name in self._needs else [(name, self._callees(name))]
        self._needs.setdefault(name, {})
        while waiting:
            current, callees = waiting[-1]
            callee = next((each for each in callees if each not in self._needs), None)
            if callee is None:
                self._needs[current] = self._needs_of_all(current)
                waiting.pop()
            else:
                # A recursive call adds no needs.
                self._needs[callee] = {}
                waiting.append((callee, self._callees(callee)))
        return self._needs[name]

    def _callees(self, name: str) -> Iterator[str]:
        """The macros that a macro runs, whose needs it inherits."""
        for each in self._by_name[name]:
            for call in each.inside.calls:
                callee = self.spelled(call.macro)
                if callee is not None and not call.is_guarded:
                    yield callee

    def _needs_of_all(self, name: str) -> dict[str, Use]:
        each_needs = [self._needs_inside(each.inside) for each in self._by_name[name]]
        how_many = Counter(key for found in each_needs for key in found)
        needs: dict[str, Use] = {}
        for found in each_needs:
            for key, use in found.items():
                # Another of several definitions may not need it.
                is_optional = use.is_optional or how_many[key] < len(each_needs)
                _add(needs, [replace(use, is_optional=is_optional)])
        return needs

    def _needs_inside(self, found: Survey) -> dict[str, Use]:
        needs: dict[str, Use] = {}
        _add(needs, found.uses)
        for call in found.calls:
            callee = self.spelled(call.macro)
            if callee is not None and not call.is_guarded:
                _add(needs, self._needs_through(call, callee))
        # Backwards, because a copy may be copied again by a later line.
        for assigned, use in reversed(found.copies):
            if assigned in needs:
                _add(needs, [use])
        return needs

    def _needs_through(self, call: Call, callee: str) -> Iterator[Use]:
        """What the caller needs because of a RUN: what it passes, and globals that it may set."""
        for key, use in self._needs[callee].items():
            for variable in call.passed.get(key, ()):
                yield Use(variable, call.row, use.is_optional or call.is_conditional)
            if key not in call.passed and self._is_set(key):
                yield Use(key, call.row, is_optional=True)


def _add(needs: dict[str, Use], uses: Iterable[Use]) -> None:
    """Add to what a macro needs; what is required stays required."""
    for use in uses:
        if use.name not in needs or (needs[use.name].is_optional and not use.is_optional):
            needs[use.name] = use
