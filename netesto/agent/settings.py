"""Settings of a host: journaled, made and read back; `putback` undoes them. How each is made is in
`making`."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from netesto.agent import asking, commands, making, putback, steps, things
from netesto.agent.experiment import Premises
from netesto.agent.journal import Change
from netesto.agent.making import SettingPlan
from netesto.agent.things import Thing
from netesto.errors import ProcessError
from netesto.hostsettings import Applied, Command, Setting

log = logging.getLogger(__name__)


class Settings:
    """The settings made on this host."""

    def __init__(self, premises: Premises, *, on_warning: Callable[[str], None]) -> None:
        self._premises = premises
        self._journal = premises.journal
        self._on_warning = on_warning
        self._turn = asyncio.Lock()
        # What was set last of each thing, and what the kernel showed of it then.
        self._set: dict[Thing, Change] = {}
        # Differences that were found before a command of the script changed things itself.
        self._found_differences: list[str] = []

    async def apply(self, setting: Setting) -> Applied:
        """Make one setting; if that fails, leave everything as it was and raise the reason."""
        async with self._turn:
            if isinstance(setting, Command):
                return await self._run(setting)
            plans = await making.plans(setting, self._premises)
            made = [await self._carry_out(plan) for plan in plans]
            # What is set with it is not said.
            return made[0] if type(made[0].setting) is not type(made[-1].setting) else _one_of(made)

    async def changed(self) -> list[str]:
        """A sentence for each thing that is not as this run has set it."""
        async with self._turn:
            return [*self._found_differences, *await self._differences()]

    async def _differences(self) -> list[str]:
        each = [(change, await things.show(change.thing)) for change in self._set.values()]
        return [
            f"{change.setting.words}: cannot be read any more, and may have changed"
            if now is None
            else f"{change.setting.words}: another program has changed it, to"
            f" {await change.thing.read(now) if now else 'the default'}"
            for change, now in each
            if now is None or not change.is_ours(now)
        ]

    async def _run(self, command: Command) -> Applied:
        """Run a command, which may change what was set: the script has requested that."""
        self._found_differences += await self._differences()
        said = await commands.run(self._premises.commands, command.name, command.values)
        made_s = self._premises.clock.now()
        for change in self._set.values():
            now = await things.show(change.thing)
            self._set[change.thing] = replace(change, shows=now or "")
        if not commands.is_fine(said):
            self._on_warning(f"{command.words}: {said}")
        log.info("command run", extra={"setting": command.words, "result": said[:100]})
        return Applied(command, "", said, made_s)

    async def restore(self) -> list[str]:
        """Undo everything, the last first; a sentence for each thing that is not as it was."""
        async with self._turn:
            _, left = await putback.restore(self._journal)
            return left

    async def _carry_out(self, plan: SettingPlan) -> Applied:
        """Journal, then execute; if a step fails, undo and pass the error on. Note what the kernel
        shows after it."""
        thing, setting = plan.thing, plan.setting
        made_s = self._premises.clock.now()
        before = await thing.read(plan.before)
        change = Change(0, setting, thing, plan.undo)
        if plan.steps:
            change = await self._begin(plan)
            await self._execute(plan, change)
            made_s = self._premises.clock.now()
            log.info("setting made", extra={"setting": setting.words})
        if plan.warning and not setting.keep:
            self._on_warning(plan.warning)
        shows = await thing.show()
        after = await thing.read(shows)
        self._set[thing] = replace(change, shows=shows)
        if setting.keep and plan.ends_with_run:
            # Only now, so that a killed agent's change is put back until here.
            self._journal.note_kept(thing)
            log.info("setting kept", extra={"setting": setting.words})
            return Applied(setting, before, after, made_s)
        if change.number:
            self._journal.note_made(change.number, shows)
        undo = "; ".join(map(steps.words, plan.undo)) if plan.steps else ""
        return Applied(setting, before, after, made_s, undo)

    async def _begin(self, plan: SettingPlan) -> Change:
        """Journal a change, if it is to be put back."""
        thing = plan.thing
        change = Change(0, plan.setting, thing, plan.undo)
        if not plan.ends_with_run:
            return change
        earlier = [each for each in self._journal.remains().changes if each.thing == thing]
        if earlier and not earlier[0].is_ours(plan.before):
            # Earlier states are obsolete; what is there now will be put back.
            for each in earlier:
                self._journal.undone(each.number)
            becomes = "replaced for good" if plan.setting.keep else "put back at the end"
            self._on_warning(putback.changed_since(earlier[0], plan.before, becomes))
        interface = putback.index(thing.interface)
        number = self._journal.begin(plan.setting, thing, plan.undo, interface=interface)
        return replace(change, number=number)

    async def _execute(self, plan: SettingPlan, change: Change) -> None:
        try:
            for step in plan.steps:
                await steps.do(step)
        except (ProcessError, OSError) as error:
            if change.number and (
                await things.show(plan.thing) == plan.before or await putback.undo(change)
            ):
                self._journal.undone(change.number)
            if isinstance(error, ProcessError):
                raise asking.error_of(plan.setting.words, error) from None
            raise making.refusal(plan.setting, error) from None


def _one_of(made: list[Applied]) -> Applied:
    """What became of a setting that changed several things alike."""
    if len(made) == 1:
        return made[0]
    before, after, undo = (
        "; ".join(getattr(each, name) for each in made) for name in ("before", "after", "undo")
    )
    return replace(made[0], before=before, after=after, undo=undo)
