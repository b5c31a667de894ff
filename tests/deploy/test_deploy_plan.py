"""The steps of an installation, from the facts of the host."""

import shutil
from dataclasses import replace

import pytest

from netesto.deploy import plan
from netesto.deploy.facts import ROOT, TOOLS, Facts, Installation, of_user
from netesto.deploy.payload import Archive, Packages
from netesto.deploy.plan import WantedHost
from netesto.errors import AgentError
from netesto.files import paths
from netesto.system import process

CODE = Archive("code-1", lambda: b"code")
PACKAGES = Packages("3.11", "x86_64", (2, 17), Archive("packages-1", lambda: b"packages"))
UNIT = "ExecStart=/usr/local/bin/netesto-agent --config /etc/netesto/agent.toml\n"
WANTED = WantedHost(
    code=lambda _: CODE,
    packages=[PACKAGES],
    requirements=["a>=1"],
    unit=UNIT,
    tools_script="#!/bin/sh\n",
)
FACTS = Facts()
AS_USER = replace(FACTS, user="a", home="/home/a", places=of_user("/home/a"))


def done(facts, wanted=WANTED, **changes):
    """The same host after an installation."""
    record = plan._HostInstallation(facts, wanted, "h1", PACKAGES).record()
    files = frozenset(record["files"])
    there = Installation(record=record, **changes)
    return replace(facts, existing=files, installed=there)


def words(planned):
    return [step.words for step in planned.steps if step.words]


def test_a_host_with_nothing_gets_packages_code_files_and_a_service():
    assert words(plan.install(FACTS, WANTED, name="h1")) == [
        "a>=1 to /opt/netesto/packages-1",
        "netesto 0.1.0 to /opt/netesto/code-1",
        "write /opt/netesto/netesto-agent",
        "write /etc/netesto/agent.toml",
        "write /etc/systemd/system/netesto-agent.service",
        "start netesto-agent.service",
    ]


def test_the_record_is_written_before_anything_that_it_records():
    steps = plan.install(FACTS, WANTED, name="h1").steps
    paths = [step.values["path"] for step in steps if step.kind in {"write", "unpack"}]
    assert (paths[0], paths[-1]) == (ROOT.record, ROOT.record)


def test_a_host_with_this_agent_gets_nothing():
    assert plan.install(done(FACTS), WANTED, name="h1").steps == ()


def test_another_version_replaces_the_code_alone():
    new = replace(WANTED, code=lambda _: Archive("code-2", lambda: b""))
    found = plan.install(done(FACTS), new, name="h1")
    unpacked = [step.values["path"] for step in found.steps if step.kind == "unpack"]
    removed = [step.values["path"] for step in found.steps if step.kind == "remove"]
    assert (unpacked, removed) == (["/opt/netesto/code-2"], ["/opt/netesto/code-1"])


def test_an_agent_that_does_not_run_is_started():
    found = plan.install(done(FACTS, runs=False), WANTED, name="h1")
    assert "start netesto-agent.service" in words(found)


def test_what_an_installation_that_was_cut_short_lacks_is_brought():
    facts = done(FACTS, changed=("/opt/netesto/code-1",))
    found = plan.install(facts, WANTED, name="h1")
    assert [step.values["path"] for step in found.steps if step.kind == "unpack"] == [
        "/opt/netesto/code-1"
    ]


def test_a_configuration_that_was_changed_there_is_kept_and_named():
    found = plan.install(done(FACTS, changed=(ROOT.config,)), WANTED, name="h1")
    assert (found.steps, found.notes) == (
        (),
        (f"{ROOT.config} was changed on the host and is kept",),
    )


def test_an_agent_that_somebody_else_installed_is_left_alone():
    with pytest.raises(AgentError, match=f"did not install: {ROOT.unit}"):
        plan.install(replace(FACTS, existing=frozenset({ROOT.unit})), WANTED, name="h1")


def test_the_agent_is_called_what_the_inventory_calls_the_host():
    steps = plan.install(FACTS, WANTED, name='böse\n"x').steps
    (text,) = [step.values["text"] for step in steps if step.values.get("path") == ROOT.config]
    assert 'host = "böse\\n\\"x"' in text


ON_ETH1 = replace(WANTED, device="eth1")


def config_of(planned):
    (text,) = [
        step.values["text"] for step in planned.steps if step.values.get("path") == ROOT.config
    ]
    return text.splitlines()


def test_the_interface_that_was_named_for_tests_is_in_the_configuration():
    facts = replace(FACTS, interfaces={"eth0": ["192.0.2.1"], "eth1": []})
    planned = plan.install(facts, ON_ETH1, name="h1")
    assert 'device = "eth1"' in config_of(planned)


def test_an_interface_that_is_named_later_changes_the_configuration_and_stays_named():
    later = plan.install(done(FACTS), ON_ETH1, name="h1")
    again = plan.install(done(FACTS, ON_ETH1), WANTED, name="h1")
    assert ('device = "eth1"' in config_of(later), again.steps) == (True, ())


def test_an_interface_that_the_host_does_not_have_is_refused():
    facts = replace(FACTS, interfaces={"eth0": [], "lo": []})
    with pytest.raises(AgentError, match="has no interface eth1; it has eth0 lo"):
        plan.install(facts, ON_ETH1, name="h1")


def test_what_to_write_into_a_configuration_that_is_kept_is_said():
    found = plan.install(done(FACTS, changed=(ROOT.config,)), ON_ETH1, name="h1")
    assert found.notes[-1] == 'for --device write in it: device = "eth1"'


def test_the_unit_starts_the_agent_that_was_installed():
    steps = plan.install(FACTS, WANTED, name="h1").steps
    (text,) = [step.values["text"] for step in steps if step.values.get("path") == ROOT.unit]
    assert text == "ExecStart=/opt/netesto/netesto-agent --config /etc/netesto/agent.toml\n"


def test_without_systemd_the_agent_is_supervised_and_the_user_is_told():
    found = plan.install(replace(FACTS, systemd=False), WANTED, name="h1")
    assert (words(found)[-1], found.notes) == (
        "start the agent",
        ("no systemd: the agent runs, but will not start after a reboot",),
    )


def test_without_root_all_is_below_the_home_folder():
    home = "/home/a"
    for facts in (AS_USER, replace(AS_USER, user_systemd=True)):
        paths = [
            step.values["path"]
            for step in plan.install(facts, WANTED, name="h1").steps
            if "path" in step.values
        ]
        assert all(path.startswith(f"{home}/") for path in paths)


def test_without_root_the_users_own_service_manager_runs_the_agent_if_it_stays():
    steps = plan.install(replace(AS_USER, user_systemd=True), WANTED, name="h1").steps
    commands = [step.values["argv"] for step in steps if step.kind == "run"][1:]
    assert commands == [
        ["systemctl", "--user", "daemon-reload"],
        ["systemctl", "--user", "enable", "netesto-agent"],
        ["systemctl", "--user", "restart", "netesto-agent"],
    ]


def test_a_home_folder_whose_name_no_address_can_have_is_refused():
    facts = replace(AS_USER, places=of_user("/home/a b"))
    with pytest.raises(AgentError, match="no agent can listen on '/home/a b/"):
        plan.install(facts, WANTED, name="h1")


def test_an_agent_that_sudo_installs_lets_the_user_in_who_did_so():
    facts = replace(FACTS, user="ann", group="ann", sudo=True)
    steps = plan.install(facts, WANTED, name="h1").steps
    (text,) = [step.values["text"] for step in steps if step.values.get("path") == ROOT.config]
    assert text.splitlines()[-1] == 'group = "ann"'


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    unit = (paths.data_folder() / "remote" / "netesto-agent.service").read_text(encoding="utf-8")
    launcher = tmp_path / "launcher"
    launcher.touch(mode=0o755)
    for facts in (FACTS, replace(AS_USER, user_systemd=True)):
        wanted = replace(WANTED, unit=unit)
        steps = plan.install(facts, wanted, name="h1").steps
        (text,) = [
            step.values["text"] for step in steps if step.values.get("path") == facts.places.unit
        ]
        path = tmp_path / "netesto-agent.service"
        path.write_text(text.replace(facts.places.launcher, str(launcher)))
        done = process.run(["systemd-analyze", "verify", str(path)], timeout=60)
        assert done.stderr == ""


@pytest.mark.parametrize(
    ("manager", "step"),
    [
        ("apt-get", "install the packages with iperf3, netperf (apt-get)"),
        ("dnf", "dnf install -y -q iperf3"),
        ("zypper", "zypper --non-interactive install iperf"),
        ("apk", "apk add iperf3"),
    ],
)
def test_missing_tools_are_installed_by_the_package_manager_of_the_host(manager, step):
    facts = replace(FACTS, manager=manager, tools=frozenset(TOOLS) - {"iperf3", "netperf"})
    assert words(plan.install(facts, WANTED, name="h1"))[0] == step


def test_no_tools_are_installed_if_the_user_says_so_and_those_missing_are_named():
    facts = replace(FACTS, tools=frozenset(TOOLS) - {"netperf"})
    found = plan.install(facts, replace(WANTED, with_tools=False), name="h1")
    assert ([step.kind for step in found.steps].count("script"), found.notes) == (
        0,
        ("missing: netperf",),
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"system": "FreeBSD"}, "runs FreeBSD; an agent needs Linux"),
        (
            {"python": "", "python_version": "3.9"},
            "has Python 3.9; an agent needs 3.11 or later",
        ),
        (
            {"machine": "riscv64"},
            "no packages for Python 3.11 on riscv64 with glibc-2.36, and no pip on the host",
        ),
        (
            {"libc": "glibc-2.12"},
            "no packages for Python 3.11 on x86_64 with glibc-2.12, and no pip on the host",
        ),
        (
            {"free_bytes": 9_000_000},
            "has 9 MB free below /opt/netesto; an installation needs 150 MB",
        ),
    ],
)
def test_a_host_that_no_agent_can_be_on_is_refused_with_the_reason(changes, message):
    with pytest.raises(AgentError) as caught:
        plan.install(replace(FACTS, **changes), WANTED, name="h1")
    assert caught.value.message == message


def test_packages_that_do_not_fit_are_fetched_by_the_hosts_own_pip():
    facts = replace(FACTS, machine="aarch64", pip=True)
    (step,) = [each for each in plan.install(facts, WANTED, name="h1").steps if each.kind == "pip"]
    assert (step.values["requirements"], step.archive) == (["a>=1"], None)


def test_offline_no_host_uses_its_pip():
    facts = replace(FACTS, machine="aarch64", pip=True)
    with pytest.raises(AgentError) as caught:
        plan.install(facts, replace(WANTED, offline=True), name="h1")
    assert caught.value.remedy == (
        "Make a bundle: netesto hosts bundle --python 3.11 --arch aarch64 -o agents.zip\n"
        "and add --bundle agents.zip."
    )


def test_removal_takes_everything_away_that_an_installation_made():
    made = {
        step.values["path"]
        for step in plan.install(FACTS, WANTED, name="h1").steps
        if step.kind in {"write", "unpack", "folder"}
    }
    gone = {
        step.values["path"]
        for step in plan.remove(done(FACTS), force=False).steps
        if step.kind == "remove"
    }
    left = {path for path in made - gone if not path.startswith("/opt/netesto/")}
    assert (left, "/opt/netesto" in gone) == (set(), True)


def test_removal_spares_measurements_that_nobody_has_fetched_unless_forced():
    facts = replace(done(FACTS), cached=frozenset({"code-1"}))
    kinds = [
        [step.kind for step in plan.remove(facts, force=force).steps] for force in (False, True)
    ]
    assert [each[:2] for each in kinds] == [["spare", "remove"], ["remove", "run"]]


@pytest.mark.parametrize(
    ("runs", "is_there", "verbs"),
    [
        (True, True, ["disable", "daemon-reload"]),
        (False, True, ["disable", "daemon-reload"]),
        (True, False, ["stop", "daemon-reload"]),
        (False, False, ["daemon-reload"]),
    ],
)
def test_a_unit_file_that_an_interruption_removed_is_not_disabled(runs, is_there, verbs):
    facts = done(FACTS, runs=runs)
    if not is_there:
        facts = replace(facts, existing=facts.existing - {ROOT.unit})
    steps = plan.remove(facts, force=True).steps
    assert [step.values["argv"][1] for step in steps if step.kind == "run"] == verbs


def test_the_record_goes_after_all_else_that_is_removed():
    steps = plan.remove(done(FACTS), force=True).steps
    *_, final = (step.values for step in steps if step.kind == "remove")
    assert final == {"path": "/opt/netesto", "digest": "", "last": "installed.json"}


def test_removal_without_root_removes_an_inner_folder_before_the_outer_one():
    steps = plan.remove(done(AS_USER), force=True).steps
    folders = [step.values["path"] for step in steps if step.kind == "remove_if_empty"]
    state = "/home/a/.local/state/netesto"
    assert folders == ["/home/a/.config/netesto", f"{state}/run", state]


def test_removal_removes_the_folders_around_it_that_an_installation_made_inner_ones_first():
    absent = {f"/home/a/{path}" for path in (".config", ".config/netesto", ".local/state", ".ssh")}
    steps = plan.remove(done(replace(AS_USER, absent=frozenset(absent))), force=True).steps
    assert [(step.kind, step.values["path"]) for step in steps[-4:]] == [
        ("remove", "/home/a/.local/share/netesto"),
        ("remove_if_empty", "/home/a/.local/state"),
        ("remove_if_empty", "/home/a/.config/netesto"),
        ("remove_if_empty", "/home/a/.config"),
    ]


def test_a_later_installation_remembers_which_folders_the_first_one_made():
    facts = done(replace(AS_USER, absent=frozenset({"/home/a/.config"})))
    assert plan.install(replace(facts, absent=frozenset()), WANTED, name="h1").steps == ()


def test_removal_of_the_cache_alone_removes_the_folder_of_its_own_lock():
    absent = frozenset({"/opt/netesto", "/etc/netesto"})
    facts = replace(FACTS, cached=frozenset({"code-1"}), absent=absent)
    paths = [step.values["path"] for step in plan.remove(facts, force=False).steps]
    assert paths == ["/root/.cache/netesto", "/opt/netesto/.lock", "/opt/netesto"]


@pytest.mark.parametrize(("made_above", "more"), [(False, []), (True, ["/root/.cache"])])
def test_the_folder_of_the_cache_is_removed_if_it_was_made_for_it(made_above: bool, more):
    facts = replace(FACTS, cached=frozenset({"code-1"}), made_above_cache=made_above)
    paths = [step.values["path"] for step in plan.remove(facts, force=False).steps]
    assert paths == ["/root/.cache/netesto", *more]


def test_removal_names_the_packages_that_an_installation_added_and_that_stay():
    facts = done(replace(FACTS, tools=frozenset(TOOLS) - {"iperf3", "netperf"}))
    assert plan.remove(facts, force=False).notes == (
        "kept: the packages with iperf3, netperf, installed with the agent",
    )


def test_a_later_installation_remembers_which_packages_were_added():
    facts = done(replace(FACTS, tools=frozenset(TOOLS) - {"iperf3"}))
    assert plan.install(replace(facts, tools=frozenset(TOOLS)), WANTED, name="h1").steps == ()


def test_where_nothing_is_installed_nothing_is_removed():
    assert plan.remove(FACTS, force=False).steps == ()


def test_of_a_cache_that_a_controller_has_too_removal_takes_the_agents_part_alone():
    facts = replace(FACTS, cached=frozenset({"code-1", "packages-1", "kernels"}))
    assert words(plan.remove(facts, force=False)) == [
        "remove /root/.cache/netesto/code-1",
        "remove /root/.cache/netesto/packages-1",
    ]
