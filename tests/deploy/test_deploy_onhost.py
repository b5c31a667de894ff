"""The program that runs on hosts, as a process of this machine, in folders of its own."""

import ast
import contextlib
import io
import json
import os
import socket
import struct
import subprocess
import sys
import tarfile
from importlib.util import MAGIC_NUMBER
from pathlib import Path

import pytest
from needs import unmet

from netesto.deploy import facts, onhost, remote, target
from netesto.errors import AgentError
from netesto.model import Endpoint
from netesto.system import process

PATIENCE_S = 60


def asked(request, *following, env=None):
    """The reply to a request."""
    said = remote.spoken(request, following)
    argv = ["sh", "-c", f"echo 'Welcome to h1!'; {remote.command(sudo=False)}"]
    path = Path(request["lock"]).parent.with_suffix(".request")
    path.write_bytes(said.data)
    line = f"{argv[2]} <{path}"
    done = process.run(["sh", "-c", line], timeout=PATIENCE_S, env=env)
    (reply,) = said.replies(done.stdout)
    return reply


def act(folder, *steps, archive=b""):
    lock = str(folder / "place" / ".lock")
    goal = {"path": "", "text": ""}
    return asked({"do": "act", "lock": lock, "goal": goal, "steps": steps}, archive)


def tar(**files):
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text if isinstance(text, bytes) else text.encode()))
    return sink.getvalue()


def unpack(path, data):
    return ["unpack", {"path": str(path), "size": len(data), "python": sys.executable}]


def test_it_is_python_3_6():
    text = Path(onhost.__file__).read_text(encoding="utf-8")
    assert ast.parse(text, feature_version=(3, 6))


def test_the_command_means_the_same_to_every_login_shell():
    assert set(remote.command(sudo=True)) & set("$`!\\*?~{}[]#\n") == set()


def test_it_tells_what_the_host_is_whatever_its_profile_prints(tmp_path):
    request = {**facts.request(), "lock": str(tmp_path / "place" / ".lock")}
    env = {**os.environ, "SSH_CONNECTION": "192.0.2.9 5 ::ffff:192.0.2.1 22"}
    found = facts.parse(asked(request, env=env))
    assert (found.system, found.addresses) == ("Linux", ("192.0.2.1",))


def test_it_tells_the_global_addresses_of_each_interface(tmp_path):
    ip = tmp_path / "ip"
    ip.write_text(f"#!/bin/sh\ncat <<'E'\n{json.dumps(LINKS)}\nE\n")
    ip.chmod(0o755)
    request = {**facts.request(), "lock": str(tmp_path / "place" / ".lock")}
    path = f"{tmp_path}:{os.environ['PATH']}"
    ssh = {"PATH": path, "SSH_CONNECTION": "192.0.2.9 5 192.0.2.1 22"}
    found = facts.parse(asked(request, env={**os.environ, **ssh}))
    assert (found.interfaces, found.addresses) == (
        {"eth0": ["192.0.2.1", "2001:db8::1"], "eth1": ["10.0.0.1"]},
        ("192.0.2.1", "2001:db8::1"),
    )


LINKS = [
    {
        "ifname": name,
        "addr_info": [
            {"family": "inet6" if ":" in text else "inet", "local": text, "scope": scope}
            for text, scope in addresses.items()
        ],
    }
    for name, addresses in {
        "eth0": {"192.0.2.1": "global", "2001:db8::1": "global", "fe80::1": "link"},
        "eth1": {"10.0.0.1": "global"},
    }.items()
]


@pytest.mark.parametrize("there", [False, True])
def test_it_notes_whether_the_folder_of_its_cache_was_made_with_it(tmp_path, there):
    if there:
        (tmp_path / ".cache").mkdir()
    onhost.make_cache(str(tmp_path / ".cache" / "netesto"))
    request = {**facts.request(), "lock": str(tmp_path / "place" / ".lock")}
    found = facts.parse(asked(request, env={**os.environ, "HOME": str(tmp_path)}))
    assert found.made_above_cache is not there


def test_it_tells_which_folders_of_an_installation_are_not_there(tmp_path):
    (tmp_path / ".config").mkdir()
    paths = [f"{tmp_path}/.config/netesto/agent.toml", f"{tmp_path}/.local/state/netesto/agent"]
    assert list(onhost.absent(paths)) == [
        f"{tmp_path}/.config/netesto",
        f"{tmp_path}/.local/state/netesto",
        f"{tmp_path}/.local/state",
        f"{tmp_path}/.local",
    ]


def test_an_archive_is_unpacked_whole_and_compiled(tmp_path):
    data = tar(**{"a/b.py": "x = 1\n"})
    assert act(tmp_path, unpack(tmp_path / "out", data), archive=data) == {"done": 1}
    names = sorted(path.name for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert [name.partition(".")[0] for name in names] == ["b", "b"]


def test_what_arrived_compiled_is_not_compiled_again(tmp_path):
    compiled = f"__pycache__/a.{sys.implementation.cache_tag}.pyc"
    header = MAGIC_NUMBER + struct.pack("<III", 0, 0, len("x = 1\n"))
    data = tar(**{"a.py": "x = 1\n", compiled: header + b"as it came"})
    assert act(tmp_path, unpack(tmp_path / "out", data), archive=data) == {"done": 1}
    assert (tmp_path / "out" / compiled).read_bytes() == header + b"as it came"


def test_a_command_that_finds_the_disk_full_is_reported_as_that(tmp_path):
    words = "echo OSError: [Errno 28] No space left on device; echo more; exit 1"
    reply = act(tmp_path, ["run", {"argv": ["sh", "-c", words], "timeout": PATIENCE_S}])
    assert reply == {"done": 0, "error": "this host: no space left on the disk"}


def test_an_archive_that_is_cut_short_leaves_nothing(tmp_path):
    data = tar(**{"a.py": "x = 1\n"})
    reply = act(tmp_path, unpack(tmp_path / "out", data), archive=data[:-9])
    assert (reply, list(tmp_path.glob("out*"))) == (
        {"done": 0, "error": "the connection ended within the archive"},
        [],
    )


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil"])
def test_an_archive_reaches_nothing_outside_its_folder(tmp_path, name):
    data = tar(**{name: "x"})
    reply = act(tmp_path, unpack(tmp_path / "out", data), archive=data)
    assert reply == {"done": 0, "error": f"unexpected {name!r} in the archive"}


def test_what_an_installation_left_that_was_cut_short_is_begun_again(tmp_path):
    (tmp_path / "out.part").mkdir()
    (tmp_path / "out.part" / "old").touch()
    data = tar(**{"a.py": "x = 1\n"})
    act(tmp_path, unpack(tmp_path / "out", data), archive=data)
    assert not (tmp_path / "out" / "old").exists()


def test_a_step_that_fails_ends_the_work_and_is_named(tmp_path):
    steps = [
        ["run", {"argv": ["true"], "timeout": 5}],
        ["run", {"argv": ["sh", "-c", "echo why; exit 3"], "timeout": 5}],
        ["write", {"path": str(tmp_path / "after"), "mode": 0o600, "text": ""}],
    ]
    reply = act(tmp_path, *steps)
    assert (reply, (tmp_path / "after").exists()) == (
        {"done": 1, "error": "sh: exit status 3: why"},
        False,
    )


def test_a_file_that_was_changed_is_not_removed(tmp_path):
    path = tmp_path / "config"
    path.write_text("changed")
    act(tmp_path, ["remove", {"path": str(path), "digest": "0" * 64}])
    assert path.exists()


def test_a_removal_that_fails_midway_leaves_the_last_entry(tmp_path, monkeypatch):
    path = tmp_path / "prefix"
    (path / "code").mkdir(parents=True)
    (path / "installed.json").touch()

    def fails(_: str) -> None:
        raise OSError

    with monkeypatch.context() as patched:
        patched.setattr(onhost.shutil, "rmtree", fails)
        with pytest.raises(OSError):  # noqa: PT011 - it is ours
            onhost.remove(str(path), "", last="installed.json")
    assert (path / "installed.json").exists()


def test_the_last_entry_goes_too(tmp_path):
    path = tmp_path / "prefix"
    (path / "code").mkdir(parents=True)
    (path / "installed.json").touch()
    values = {"path": str(path), "digest": "", "last": "installed.json"}
    assert (act(tmp_path, ["remove", values]), path.exists()) == ({"done": 1}, False)


# Listens, is connected to itself as by systemd's watchdog, and has a tool if `$2` is its mark.
AGENT = """
import os, socket, subprocess, sys
listening, own = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
own.connect(sys.argv[1])
accepted = [listening.accept()[0]]
tool = subprocess.Popen(["sleep", "60"], env={"PATH": os.environ["PATH"], sys.argv[2]: "1"})
print(tool.pid, flush=True)
for line in sys.stdin:
    accepted += [listening.accept()[0]]
    print("accepted", flush=True)
tool.kill()
"""


@pytest.fixture
def users(tmp_path):
    """Who uses a mute agent, as the host says."""
    path = str(tmp_path / "agent.sock")

    @contextlib.contextmanager
    def of(mark):
        argv = [sys.executable, "-c", AGENT, path, mark]
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            tool = int(child.stdout.readline())
            yield tool, child, lambda: asked({"do": "users", "socket": path, "lock": path})["users"]
            child.stdin.close()

    return path, of


def test_who_is_connected_to_an_agent_that_cannot_be_asked_is_reported(users):
    path, of = users
    with of("NOTHING") as (_, child, told), socket.socket(socket.AF_UNIX) as controller:
        before = told()
        controller.connect(path)
        print(file=child.stdin, flush=True)
        child.stdout.readline()
        name = Path("/proc/self/comm").read_text().strip()
        assert (before, told()) == ([], [f"{name} (pid {os.getpid()})"])


def test_a_tool_of_an_agent_that_cannot_be_asked_is_reported(users):
    _, of = users
    with of("NETESTO_LIFE") as (tool, _, told):
        assert told() == [f"sleep (pid {tool})"]


def test_where_no_agent_listens_nobody_uses_it(tmp_path):
    path = str(tmp_path / "agent.sock")
    assert asked({"do": "users", "socket": path, "lock": path}) == {"users": []}


def test_measurements_that_nobody_fetched_end_a_removal(tmp_path):
    (tmp_path / "spool" / "run-1").mkdir(parents=True)
    reply = act(tmp_path, ["spare", {"spool": str(tmp_path / "spool")}])
    assert reply == {"done": 0, "error": "measurements of run-1 were never fetched"}


def test_a_record_tells_what_became_of_what_it_records(tmp_path):
    (tmp_path / "kept").write_text("a")
    record = {
        "files": {str(tmp_path / "kept"): onhost.digest_of(str(tmp_path / "kept")),
                  str(tmp_path / "gone"): "0" * 64},
        "folders": [str(tmp_path)],
        "service": {"kind": "supervisor", "lock": str(tmp_path / "lock")},
        "spool": str(tmp_path / "spool"),
    }  # fmt: skip
    path = tmp_path / "installed.json"
    path.write_text(json.dumps(record))
    assert onhost.installed(str(path)) == {
        "record": record,
        "changed": [str(tmp_path / "gone")],
        "runs": False,
    }


class Controller:
    """The controller's ends while a host waits for a lock."""

    def __init__(self, wait_s=None):
        reader, self.pipe = os.pipe()
        self.source, self.sink = os.fdopen(reader, "rb"), io.StringIO()
        self.turn = onhost.Turn(self.source, onhost.Replies(self.sink, "token"), wait_s)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.source.close()
        os.close(self.pipe)


def test_an_agent_for_one_run_is_alone_on_its_host(tmp_path, monkeypatch):
    monkeypatch.setattr(onhost, "ALONE_WAIT_S", 0)
    path = str(tmp_path / ".run")
    with Controller() as controller:
        with onhost.alone_here(path, "ann@desk pid 7", "/tmp/a", controller.turn):
            with pytest.raises(onhost.StepError) as caught:
                onhost.alone_here(path, "bob@desk pid 8", "/tmp/b", controller.turn)
            assert str(caught.value) == "in use by ann@desk pid 7"
        onhost.alone_here(path, "bob@desk pid 8", "/tmp/b", controller.turn).close()


def once_at(machine, home, program):
    """The command that runs an agent, `program`, for one run on a machine of that name."""
    path = home / f"{machine}.agent"
    path.write_text(f"#!/bin/sh\n{program}\n")
    path.chmod(0o755)
    place = {"folder": str(home / machine), "socket": str(home / machine / "agent.sock")}
    request = {"do": "once", "steps": [], "packages": [], "words": [], "python": str(path)}
    own = {"holder": "ann@desk pid 7", "cache": str(home)}
    said = remote.spoken(request | place | own, [b'{"wait_s": null}\n'])
    (home / f"{machine}.request").write_bytes(said.data)
    named = f"echo {machine} >/proc/sys/kernel/hostname"
    there = f"{named} && {remote.command(sudo=False)} <{home}/{machine}.request"
    return ["unshare", "--uts", "sh", "-c", there]


def test_two_machines_with_one_home_folder_have_an_agent_each(tmp_path):
    if os.geteuid() != 0:
        unmet("machines", "only root may name a machine")
    log = tmp_path / "log"
    stays = 'case "$*" in *--recover) exit;; esac; exec sleep 60'
    with process.background(
        once_at("h1", tmp_path, stays),
        stdout=log,
        ready=lambda: '"alone"' in log.read_text(),
        timeout=PATIENCE_S,
    ):
        other = process.run(once_at("h2", tmp_path, "exit 1"), timeout=PATIENCE_S)
    assert '"alone"' in other.stdout


def test_a_run_that_waits_is_told_for_whom_until_its_controller_is_gone(tmp_path):
    path = str(tmp_path / ".run")
    with Controller(wait_s=PATIENCE_S) as controller:
        # As a pipe whose other end is closed, this can be read.
        os.write(controller.pipe, b"x")
        first = onhost.alone_here(path, "ann@desk pid 7", "/tmp/a", controller.turn)
        with first, pytest.raises(SystemExit):
            onhost.alone_here(path, "bob@desk pid 8", "/tmp/b", controller.turn)
        told = controller.sink.getvalue()
    assert told == '\ntoken\n{"waits": "ann@desk pid 7"}\n'


@pytest.mark.parametrize(
    ("place", "reason"),
    [("/tmp/b", "is the same machine as another host of this run"), ("/tmp/a", "in use by ann")],
)
def test_a_machine_with_two_names_in_a_run_is_reported_and_one_that_ends_is_waited_for(
    tmp_path, monkeypatch, place, reason
):
    monkeypatch.setattr(onhost, "ALONE_WAIT_S", 0)
    path = str(tmp_path / ".run")
    with (
        Controller() as controller,
        onhost.alone_here(path, "ann", "/tmp/a", controller.turn),
        pytest.raises(onhost.StepError, match=reason),
    ):
        onhost.alone_here(path, "ann", place, controller.turn)


def once(folder, *following):
    """The replies where an agent for one run is asked for whose controller says this, and goes."""
    sink = io.StringIO()
    cache = str(folder / "cache")
    request = {"steps": [], "cache": cache, "holder": "ann@desk pid 7", "folder": f"{cache}/place"}
    onhost.once(request, io.BytesIO(b"".join(following)), onhost.Replies(sink, "token"))
    return [json.loads(line) for line in sink.getvalue().splitlines() if line.startswith("{")]


@pytest.mark.usefixtures("handlers")
def test_no_agent_is_begun_for_a_controller_that_is_gone(tmp_path):
    (tmp_path / "cache").mkdir()
    replies = once(tmp_path)
    assert (len(replies), list((tmp_path / "cache").iterdir())) == (1, [])


@pytest.mark.usefixtures("handlers")
def test_what_a_run_waits_for_has_the_same_name_by_whatever_path_one_comes(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "cache").symlink_to(tmp_path / "cache")
    (tmp_path / "third" / "cache").mkdir(parents=True)
    locks = [once(tmp_path / each)[0]["lock"] for each in ("", "other", "third")]
    assert (locks[0] == locks[1], locks[0] == locks[2]) == (True, False)


@pytest.mark.parametrize(("said", "what"), [("", ""), ("usage: cat\x1b", ": usage: cat\x1b")])
def test_a_host_that_runs_another_command_is_reported(said, what):
    host = target.of(Endpoint(host="h1", agent="ssh://ann@h1"))
    assert str(remote.ended(host, 1, said)) == (
        f"h1: no reply of python3 there, but exit status 1{what}\n"
        "This must print a word: ssh ann@h1 echo word\n"
        "If it does not, check the login shell, ForceCommand in sshd_config, and command= in"
        " authorized_keys."
    )


@contextlib.contextmanager
def locked_by_another(path):
    """Another process has the lock of a file; its number."""
    code = "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_EX)"
    code += "; print(flush=True); sys.stdin.read()"
    argv, pipe = [sys.executable, "-c", code, str(path)], subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child.pid
        child.kill()


def test_only_its_user_can_open_and_so_lock_the_lock_of_installations(tmp_path):
    lock = tmp_path / "place" / ".lock"
    lock.parent.mkdir()
    lock.touch(mode=0o644)
    act(tmp_path)
    assert lock.stat().st_mode & 0o777 == 0o600


def test_who_has_the_lock_of_installations_for_too_long_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(onhost, "LOCK_WAIT_S", 0)
    lock = tmp_path / ".lock"
    lock.touch()
    with (
        locked_by_another(lock) as pid,
        pytest.raises(onhost.StepError) as caught,
        onhost.locked(str(lock)),
    ):
        pass
    name, user = onhost.comm_of(os.getpid()), onhost.user_of(os.getuid())
    assert str(caught.value).replace(name, "python") == (
        f"python (pid {pid}) of user {user} has had the lock {lock} for 0 s"
    ).replace(name, "python")


@pytest.mark.parametrize("begun", ["", " 1"])
def test_a_process_that_only_has_the_number_of_a_supervisor_gets_no_signal(tmp_path, begun):
    """Another user may lock a file in which a number stands that has been given to another
    process."""
    lock = tmp_path / "agent.lock"
    with subprocess.Popen(["sleep", "600"]) as stranger:
        lock.write_text(f"{stranger.pid}{begun}")
        with locked_by_another(lock) as pid, pytest.raises(onhost.StepError) as caught:
            onhost.stop(str(lock))
        lives = stranger.poll() is None
        stranger.kill()
    said = str(caught.value)
    assert (lives, f"(pid {pid})" in said, said.endswith("end it")) == (True, True, True)


def test_the_supervisor_that_a_lock_names_is_ended(tmp_path):
    lock, log = tmp_path / "agent.lock", tmp_path / "log"
    words = ["--lock", str(lock), "--log", str(log), "sleep", "600"]
    argv = [sys.executable, "-m", "netesto.agent.supervisor", *words]
    with process.background(argv, stdout=log, ready=log.exists, timeout=PATIENCE_S) as child:
        assert process.wait_until(lambda: lock.exists() and lock.read_text(), timeout=PATIENCE_S)
        onhost.stop(str(lock))
        assert (child.wait(PATIENCE_S), lock.stat().st_mode & 0o777) == (0, 0o600)


def test_the_log_of_a_supervisor_is_its_users_alone(tmp_path):
    """Also one that was there before."""
    log, path = tmp_path / "log", str(tmp_path / "run" / "sock")
    log.touch(0o644)
    # It ends when it has been asked whether it listens, and by us.
    code = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen();"
        " s.accept(); s.accept()"
    )
    values = {"argv": [sys.executable, "-c", code, path], "socket_path": path, "log": str(log)}
    reply = act(tmp_path, ["supervise", values])
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(path)
    assert (reply, log.stat().st_mode & 0o777) == ({"done": True}, 0o600)


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("yes", "ssh: printed more than 1000000 bytes"),
        ("sleep 600", "ssh: still running after 0.5 s, ended"),
    ],
)
async def test_a_login_shell_that_does_not_end_is_reported(tmp_path, monkeypatch, does, said):
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\nexec {does}\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(remote, "LOOK_S", 0.5 if does != "yes" else PATIENCE_S)
    monkeypatch.setattr(remote, "_PRINTED_MAX", 1_000_000)
    with pytest.raises(AgentError) as caught:
        await remote.look(target.of(Endpoint(host="h1", agent="ssh://ann@h1")))
    assert str(caught.value) == (
        f"h1: no reply of python3 there: {said}\n"
        "This must print a word at once, and nothing without end: ssh ann@h1 echo word\n"
        "If it does not, check the files that its login shell reads, such as ~/.bashrc."
    )


INSTALL = Path(onhost.__file__).parents[2] / "remote" / "install-packages"
APT_GET = """\
#!/bin/sh
if [ -e "$0.lock" ]; then
    echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt)" >&2
    exit 100
fi
touch "$0.$1"
"""


def test_packages_are_installed_when_the_lock_of_another_program_is_free(tmp_path):
    programs = {
        "apt-get": APT_GET,
        "apt-get.lock": "",
        # The other program ends meanwhile.
        "sleep": f"#!/bin/sh\nrm {tmp_path}/apt-get.lock\n",
        "dpkg-query": "#!/bin/sh\nexit 1\n",
        "netperf": "#!/bin/sh\n",
        "id": "#!/bin/sh\necho 0\n",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = process.run(["sh", str(INSTALL), "agent"], timeout=PATIENCE_S, env=env)
    said = "Waiting, for up to 15 minutes, until another program has its packages:"
    said += " /var/lib/dpkg/lock-frontend. It is held by process 7 (apt)"
    assert (done.stdout.splitlines()[1:], (tmp_path / "apt-get.install").exists()) == ([said], True)


def test_a_host_that_ssh_does_not_reach_is_reported_with_what_must_work():
    host = target.of(Endpoint(host="h1", agent="ssh://ann@h1"))
    assert str(remote.ended(host, 255, "ssh: Could not resolve hostname h1: unknown")) == (
        "h1: not reached by ssh: Could not resolve hostname h1: unknown\n"
        "This must work without a prompt: ssh ann@h1 true"
    )
