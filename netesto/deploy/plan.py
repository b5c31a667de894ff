"""The plan of an installation on a host, as data. Pure: derived only from the facts of the host."""

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netesto import __version__
from netesto.deploy.facts import AgentPlaces, Facts, Installation, has_package, installing, lacking
from netesto.deploy.payload import Archive, Packages
from netesto.errors import AgentError

# The required free space: the packages unpacked and compiled, twice, for an upgrade.
ROOM_BYTES = 150_000_000

# Of an agent without root, where its user has a service manager that stays.
_USER_UNIT = """\
[Unit]
Description=Netesto agent: runs and observes network experiments on this host

[Service]
Type=notify
Environment=RUNTIME_DIRECTORY={folder}
ExecStart={launcher} --config {config}
ExecStopPost={launcher} --recover --config {config}
KillMode=mixed
TimeoutStopSec=30
Restart=on-failure

[Install]
WantedBy=default.target
"""

# The characters of a path that ssh and the address of an agent accept.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+,@=-]{1,107}")

# The folders in the cache that agents for one run import from.
_BROUGHT = ("code-", "packages-")

_INSTALL_S = 900
_QUICK_S = 60


@dataclass(frozen=True, slots=True)
class Step:
    """A step of `onhost`: its kind there, its values, and the words for a person ("": none, it
    goes with another). `archive` is what the host is sent for it."""

    words: str
    kind: str
    values: Mapping[str, Any]
    archive: Archive | None = None


@dataclass(frozen=True, slots=True)
class HostPlan:
    """The steps on a host, and notes for the user. Without steps there is nothing to do. `record`
    is the host's text at the end of an installation."""

    facts: Facts
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    record: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedHost:
    """What a host is to have. `code` is by architecture; `packages` are tried in order; if none
    fit, the host's own pip gets `requirements`, with their hashes, unless `offline`. `unit` and
    `tools_script` are the texts of remote/. `device` is the interface to test through, "" for none
    in particular."""

    code: Callable[[str], Archive]
    packages: Sequence[Packages]
    requirements: Sequence[str]
    unit: str = ""
    tools_script: str = ""
    with_tools: bool = True
    offline: bool = False
    device: str = ""


def check(facts: Facts, folder: str) -> None:
    """AgentError if no agent can be on this host, with its packages in `folder`."""
    if facts.system != "Linux":
        raise AgentError(f"runs {facts.system}; an agent needs Linux")
    if not facts.python:
        raise AgentError(
            f"has Python {facts.python_version}; an agent needs 3.11 or later",
            remedy="Install another one beside it, such as python3.11: it is found by that name.",
        )
    if folder in facts.noexec:
        raise AgentError(
            f"{folder} is mounted noexec: no library can be loaded from it",
            remedy="Mount it without noexec, or log in as a user whose folders are elsewhere.",
        )


def _check_home(places: AgentPlaces) -> None:
    if _PLAIN_PATH.fullmatch(places.socket) is None:
        raise AgentError(
            f"no agent can listen on {places.socket!r}: it has spaces or more than 107 bytes",
            remedy="Log in as root, or use 'netesto run --ssh', which installs nothing.",
        )


def fitting(facts: Facts, wanted: WantedHost) -> Packages | None:
    """The packages for this host; None if its own pip downloads them. AgentError if neither is
    possible."""
    for packages in wanted.packages:
        if packages.fit(facts):
            return packages
    platform = f"Python {facts.python_version} on {facts.machine} with {facts.libc or 'its libc'}"
    if wanted.offline:
        raise AgentError(f"no packages for {platform}", remedy=bundle(facts))
    if not facts.pip:
        raise AgentError(
            f"no packages for {platform}, and no pip on the host", remedy=bundle(facts)
        )
    return None


def bundle(facts: Facts) -> str:
    """What a user does whose host has no packages and gets none."""
    kind = f"--python {facts.python_version} --arch {facts.machine}"
    return f"Make a bundle: netesto hosts bundle {kind} -o agents.zip\nand add --bundle agents.zip."


def has_packages(facts: Facts, wanted: WantedHost) -> bool:
    """Whether packages fit this host, or it has those that its own pip got."""
    folder = _folder_of(None, facts, wanted.requirements)
    installed = facts.installed.record["folders"] if facts.installed else ()
    return (
        any(packages.fit(facts) for packages in wanted.packages)
        or folder in facts.cached
        or f"{facts.places.prefix}/{folder}" in installed
    )


def install(facts: Facts, wanted: WantedHost, *, name: str) -> HostPlan:
    """Install an agent called `name`. AgentError if that is impossible."""
    check(facts, facts.places.prefix)
    _check_home(facts.places)
    if wanted.device and facts.interfaces and wanted.device not in facts.interfaces:
        has = " ".join(facts.interfaces)
        raise AgentError(f"has no interface {wanted.device}; it has {has}")
    packages = fitting(facts, wanted)
    installed = facts.installed
    if installed is None and facts.existing:
        found = ", ".join(sorted(facts.existing))
        raise AgentError(
            f"has an agent that 'hosts install' did not install: {found}",
            remedy="Stop it and move these files away first.",
        )
    host = _HostInstallation(facts, wanted, name, packages)
    if _is_done(installed, host) and not host.added:
        return HostPlan(facts, notes=tuple(host.notes()))
    if facts.free_bytes < ROOM_BYTES:
        raise AgentError(
            f"has {facts.free_bytes // 1_000_000} MB free below {facts.places.prefix};"
            f" an installation needs {ROOM_BYTES // 1_000_000} MB"
        )
    return HostPlan(facts, tuple(host.steps()), tuple(host.notes()), _text(host.record()))


def _is_done(installed: Installation | None, host: "_HostInstallation") -> bool:
    return (
        installed is not None
        and installed.runs
        # A configuration that its user changed is valid.
        and set(installed.changed) <= {host.places.config}
        and installed.record == host.record()
    )


class _HostInstallation:
    """The installation of one host, and its steps."""

    def __init__(
        self, facts: Facts, wanted: WantedHost, name: str, packages: Packages | None
    ) -> None:
        self.facts = facts
        self.places = facts.places
        self.wanted = wanted
        self.name = name
        self.packages = packages
        self.installed = facts.installed
        prefix = self.places.prefix
        self.archive = wanted.code(facts.machine)
        self.code = f"{prefix}/{self.archive.name}"
        self.requirements_folder = f"{prefix}/{_folder_of(packages, facts, wanted.requirements)}"
        self.texts = {self.places.launcher: self._launcher()}
        config = self.places.config
        self.keeps_config = self.installed is not None and (
            config in self.installed.changed and config in facts.existing
        )
        if not self.keeps_config:
            self.texts[config] = self._config()
        if self.by_systemd:
            self.texts[self.places.unit] = self._unit()

    @property
    def device(self) -> str:
        """The interface that was named for tests, now or when the agent was installed before."""
        earlier = self.installed.record.get("device", "") if self.installed else ""
        return self.wanted.device or str(earlier)

    @property
    def by_systemd(self) -> bool:
        return self.facts.systemd if self.places.root else self.facts.user_systemd

    @property
    def group(self) -> str:
        """The group that may use an agent of root that was installed by sudo, because its ssh is
        not root's."""
        return self.facts.group if self.facts.sudo else ""

    @property
    def added(self) -> list[str]:
        """The missing tools that the package manager of the host is going to install."""
        if not (self.wanted.with_tools and self.places.root):
            return []
        manager = self.facts.manager
        return [tool for tool in lacking(self.facts) if has_package(manager, tool)]

    def _python(self, *words: str) -> list[str]:
        """The command that runs a module of ours there."""
        path = f"PYTHONPATH={self.code}:{self.requirements_folder}"
        return ["env", path, self.facts.python, "-P", "-s", "-m", *words]

    def _launcher(self) -> str:
        return (
            "#!/bin/sh\n# The agent of this host, as 'netesto hosts install' put it here.\n"
            f'exec {shlex.join(self._python("netesto.agent.daemon"))} "$@"\n'
        )

    def _config(self) -> str:
        keys = {
            "host": self.name,
            "listen": [f"unix:{self.places.socket}"],
            "state": self.places.state,
            **({"group": self.group} if self.group else {}),
            **({"device": self.device} if self.device else {}),
        }
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()]
        first = "# By 'netesto hosts install'; a changed file is kept. Keys: docs/hosts.md"
        return "\n".join([first, *lines, ""])

    def _unit(self) -> str:
        if not self.places.root:
            folder = self.places.socket.rpartition("/")[0]
            return _USER_UNIT.format(
                folder=folder, launcher=self.places.launcher, config=self.places.config
            )
        return self.wanted.unit.replace(
            "/usr/local/bin/netesto-agent", self.places.launcher
        ).replace("/etc/netesto/agent.toml", self.places.config)

    def record(self) -> dict[str, Any]:
        """The record of the finished installation."""
        places, installed = self.places, self.installed
        files = {path: _digest(text) for path, text in self.texts.items()}
        made = installed.record.get("made", []) if installed else self._new_folders()
        if self.keeps_config and installed is not None:
            files[places.config] = installed.record["files"][places.config]
        return {
            "version": __version__,
            "name": self.name,
            "files": dict(sorted(files.items())),
            "folders": sorted([self.code, self.requirements_folder]),
            "service": self._service(),
            "spool": f"{places.state}/spool",
            # They stay when everything else is removed.
            "tools": sorted(
                {*self.added, *(installed.record.get("tools", ()) if installed else ())}
            ),
            **({"made": made} if made else {}),
            **({"device": self.device} if self.device else {}),
        }

    def _new_folders(self) -> list[str]:
        """The folders that the installation makes, and that others may use; inner ones first."""
        own = [*self.texts, self.places.record, self.places.state]
        absent = sorted(self.facts.absent, reverse=True)
        return [path for path in absent if any(each.startswith(f"{path}/") for each in own)]

    def _service(self) -> dict[str, Any]:
        if self.by_systemd:
            scope = [] if self.places.root else ["--user"]
            return {"kind": "systemd", "scope": scope, "unit": "netesto-agent"}
        return {"kind": "supervisor", "lock": self.places.alive}

    def _tools(self) -> Iterator[Step]:
        """Install the tools that are missing, if a package manager that we know can."""
        if not self.added:
            return
        if self.facts.manager == "apt-get":
            yield Step(
                f"install the packages with {', '.join(self.added)} (apt-get)",
                "script",
                {"text": self.wanted.tools_script, "words": ["agent"], "timeout": _INSTALL_S},
            )
        else:
            argv = installing(self.facts.manager, self.added)
            yield Step(shlex.join(argv), "run", {"argv": argv, "timeout": _INSTALL_S})

    def notes(self) -> Iterator[str]:
        """Notes for the user about the agent."""
        missing = [tool for tool in lacking(self.facts) if tool not in self.added]
        if self.places.root:
            if self.facts.sudo and not self.group:
                yield (
                    f"{self.facts.user} cannot connect to the agent, which runs as root: set group"
                    f" in {self.places.config} and restart the agent"
                )
            if not self.facts.systemd:
                yield "no systemd: the agent runs, but will not start after a reboot"
        else:
            yield "without root: no captures, no changes of sysctls, interfaces, qdiscs or routes"
            if not self.by_systemd:
                yield "the agent runs, but will not start after a reboot"
        if missing:
            by_hand = "; install them by hand" if self.wanted.with_tools else ""
            yield f"missing: {', '.join(missing)}{by_hand}"
        if self.keeps_config:
            yield f"{self.places.config} was changed on the host and is kept"
            if self.wanted.device:
                yield f'for --device write in it: device = "{self.wanted.device}"'

    def steps(self) -> Iterator[Step]:
        """The steps from the present state to the record."""
        facts, places, installed = self.facts, self.places, self.installed
        folders = set(installed.record["folders"]) - set(installed.changed) if installed else set()
        old = (
            sorted(set(installed.record["folders"]) - {self.code, self.requirements_folder})
            if installed
            else []
        )
        yield Step("", "folder", {"path": places.prefix, "mode": 0o755})
        # First, so that an interrupted installation can be repeated, and removed.
        yield self._write_record(
            {**self.record(), "folders": sorted({self.code, self.requirements_folder, *old})}
        )
        yield from self._tools()
        if self.requirements_folder not in folders:
            yield _packages_step(
                facts, self.packages, self.requirements_folder, self.wanted.requirements
            )
        if self.code not in folders:
            words = f"netesto {__version__} to {self.code}"
            yield _unpack(words, self.archive, self.code, facts)
        argv = self._python("netesto.agent.daemon", "--help")
        yield Step("", "run", {"argv": argv, "timeout": _QUICK_S})
        for path, text in self.texts.items():
            mode = 0o755 if path == places.launcher else 0o644
            yield Step(f"write {path}", "write", {"path": path, "mode": mode, "text": text})
        yield from self._start()
        for path in old:
            yield Step("", "remove", {"path": path, "digest": ""})
        yield self._write_record(self.record())

    def _write_record(self, record: Mapping[str, Any]) -> Step:
        values = {"path": self.places.record, "mode": 0o644, "text": _text(record)}
        return Step("", "write", values)

    def _start(self) -> Iterator[Step]:
        places, installed = self.places, self.installed
        if installed is not None and installed.record["service"]["kind"] == "supervisor":
            yield Step("stop the agent", "stop", {"lock": places.alive})
        if self.by_systemd:
            scope = self._service()["scope"]
            yield _systemctl("", *scope, "daemon-reload")
            yield _systemctl("", *scope, "enable", "netesto-agent")
            yield _systemctl("start netesto-agent.service", *scope, "restart", "netesto-agent")
            return
        argv = self._python("netesto.agent.supervisor", "--lock", places.alive)
        argv += ["--log", places.log, "--", places.launcher, "--config", places.config]
        yield Step("", "folder", {"path": places.state, "mode": 0o700})
        values = {"argv": argv, "socket_path": places.socket, "log": places.log}
        yield Step("start the agent", "supervise", values)


def _folder_of(packages: Packages | None, facts: Facts, requirements: Sequence[str]) -> str:
    """The name of the folder of packages; None: those that the host's pip downloads."""
    if packages is not None:
        return packages.archive.name
    text = f"{facts.python_version} {facts.machine} {requirements}"
    return f"packages-{_digest(text)[:16]}"


def _packages_step(
    facts: Facts, packages: Packages | None, path: str, requirements: Sequence[str]
) -> Step:
    needed = ", ".join(each.partition(" ")[0] for each in requirements)
    if packages is not None:
        return _unpack(f"{needed} to {path}", packages.archive, path, facts)
    values = {"path": path, "python": facts.python, "requirements": [*requirements]}
    return Step(f"pip install {needed} to {path}", "pip", values)


def _unpack(words: str, archive: Archive, path: str, facts: Facts) -> Step:
    return Step(words, "unpack", {"path": path, "python": facts.python}, archive)


def cache_steps(facts: Facts, wanted: WantedHost) -> tuple[list[Step], list[str]]:
    """The steps that put the agent's packages into the cache, and its folders there. AgentError if
    there are no packages for the host."""
    code, requirements = wanted.code(facts.machine), wanted.requirements
    found = fitting(facts, wanted)
    name = _folder_of(found, facts, requirements)
    steps = []
    if code.name not in facts.cached:
        steps.append(_unpack("", code, f"{facts.cache}/{code.name}", facts))
    if name not in facts.cached:
        steps.append(_packages_step(facts, found, f"{facts.cache}/{name}", requirements))
    return steps, [f"{facts.cache}/{code.name}", f"{facts.cache}/{name}"]


def remove(facts: Facts, *, force: bool) -> HostPlan:
    """Remove what `install` created, except packages with tools, which others may use by now. With
    `force` also unfetched measurements."""
    places, installed = facts.places, facts.installed
    notes = []
    steps: list[Step] = []
    if installed is not None and not force:
        # First: a refusal leaves everything as it is.
        steps.append(Step("", "spare", {"spool": installed.record["spool"]}))
    own = sorted(name for name in facts.cached if name.startswith(_BROUGHT))
    if len(own) < len(facts.cached):
        # A controller, too: what it keeps there stays, such as its kernels.
        steps += [_remove(f"remove {facts.cache}/{name}", f"{facts.cache}/{name}") for name in own]
    elif own:
        steps.append(_remove(f"remove {facts.cache}", facts.cache))
        if facts.made_above_cache:
            steps.append(_remove_if_empty(facts.cache.rpartition("/")[0]))
    if installed is None:
        above = [path for path in facts.absent if places.lock.startswith(f"{path}/")]
        if steps and above:
            # The lock of the removal itself made them.
            steps.append(_remove("", places.lock))
            steps += map(_remove_if_empty, sorted(above, reverse=True))
        return HostPlan(facts, tuple(steps))
    record = installed.record
    files = [_remove(f"remove {path}", path, digest) for path, digest in record["files"].items()]
    if record["service"]["kind"] == "systemd":
        scope, unit = record["service"]["scope"], record["service"]["unit"]
        words = "stop netesto-agent.service"
        # systemctl does not disable what has no unit file, as after an interruption.
        if places.unit in facts.existing:
            steps.append(_systemctl(words, *scope, "disable", "--now", unit))
        elif installed.runs:
            steps.append(_systemctl(words, *scope, "stop", unit))
        steps += [*files, _systemctl("", *scope, "daemon-reload")]
    else:
        steps += [Step("stop the agent", "stop", {"lock": places.alive}), *files]
    steps += [_remove(f"remove {path}", path) for path in (places.state, places.log)]
    steps += [_remove("", path) for path in (places.socket, places.memory)]
    steps += [
        _remove_if_empty(path.rpartition("/")[0])
        # Without root, the folder of the socket is in that of the state.
        for path in (places.config, places.socket, places.state)
    ]
    # With it goes the lock, and last the record, so that an interrupted removal can be repeated.
    values = {"path": places.prefix, "digest": "", "last": places.record.rpartition("/")[2]}
    steps.append(Step(f"remove {places.prefix}", "remove", values))
    steps += map(_remove_if_empty, record.get("made", ()))
    if places.config in installed.changed and places.config in facts.existing:
        notes.append(f"kept: {places.config}, which was changed")
    if tools := record.get("tools"):
        notes.append(f"kept: the packages with {', '.join(tools)}, installed with the agent")
    return HostPlan(facts, tuple(steps), tuple(notes))


def _systemctl(text: str, *words: str) -> Step:
    return Step(text, "run", {"argv": ["systemctl", *words], "timeout": _QUICK_S})


def _remove(words: str, path: str, digest: str = "") -> Step:
    return Step(words, "remove", {"path": path, "digest": digest})


def _remove_if_empty(path: str) -> Step:
    return Step("", "remove_if_empty", {"path": path})


def _text(record: Mapping[str, Any]) -> str:
    return json.dumps(record, indent=1)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
