"""The program that runs on a host while an agent is installed there; it needs only Python 3.6.

`netesto.deploy.remote` sends this file through ssh, followed by one request (a line of JSON) and
the archives that the request names. The reply is a line of JSON after a line with the token of the
request, because the profile of a login shell may print something first.
"""

import contextlib
import ctypes
import errno
import fcntl
import grp
import gzip
import hashlib
import importlib.util
import io
import json
import os
import platform
import pwd
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Optional, Set, TextIO, Tuple

# The agent needs it.
PYTHON = (3, 11)
NEWEST = 20
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MANAGERS = ("apt-get", "dnf", "yum", "zypper", "pacman", "apk")
POLL_S = 0.02
LOCK_WAIT_S = 120
# The time for an agent to put its host back; its systemd unit has the same limit.
STOP_S = 30
START_S = 30
ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
# For a run that was killed a moment ago.
ALONE_WAIT_S = 5
# Less than an agent needs to start.
FULL_BYTES = 1 << 20
# An agent for one run ends when it has not heard from its controller for the lease of a hold.
LEASE_S = 30
# A lost ssh closes our standard output together with our standard input, or a moment later.
CLOSING_MS = 200
# Until the end of an ssh process is known to what it was connected to.
ENDING_S = 2
# In the cache of agents for one run: the folder that it is in was made for it.
MADE_ABOVE = ".made-above"
# Exit status 0 if nobody holds the lock of this file.
LOCKS = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_SH | fcntl.LOCK_NB)"
# The controller's last byte (ASCII: end of transmission); all others are keepalives.
END = b"\4"


class StepError(Exception):
    """A problem of this host; the text is for the user."""


def main(source: BinaryIO, sink: TextIO) -> None:
    """Execute the single request in `source`."""
    os.environ["PATH"] = os.environ.get("PATH", "") + os.pathsep + PATH
    os.environ["LC_ALL"] = "C"
    request = json.loads(source.readline().decode())
    replies = Replies(sink, request["token"])
    try:
        if request["do"] == "look":
            replies.send(look(request))
        elif request["do"] == "users":
            replies.send({"users": lasting_users(request["socket"])})
        elif request["do"] == "act":
            replies.send(act(request, source))
        elif request["do"] == "rejoin":
            rejoin(request["folder"], source, replies)
        else:
            once(request, source, replies)
    except StepError as error:
        replies.send({"error": str(error)})
    except (OSError, EOFError, tarfile.TarError) as error:
        replies.send({"error": cause(error)})


class Replies:
    """Lines of JSON, each behind a line with the token."""

    def __init__(self, sink: TextIO, token: str) -> None:
        self.sink, self.token = sink, token

    def send(self, value: Dict[str, Any]) -> None:
        self.sink.write("\n{}\n{}\n".format(self.token, json.dumps(value)))
        self.sink.flush()


def cause(error: Exception) -> str:
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error) or "the archive is cut short"
    if error.errno != errno.ENOSPC:
        return "{}: {}".format(error.filename or "this host", error.strerror)
    return "{}: no space left on the disk".format(error.filename or "this host")


def full_folders() -> List[str]:
    """The folders of an agent whose disk is full."""
    found = []
    for path in ("/opt", "/var/lib", "/run", "/tmp", os.path.expanduser("~")):
        try:
            disk = os.statvfs(path)
        except OSError:
            continue
        if disk.f_bavail * disk.f_frsize < FULL_BYTES or (disk.f_files and not disk.f_favail):
            found.append(path)
    return found


# --- look ---------------------------------------------------------------------------------------


def look(request: Dict[str, Any]) -> Dict[str, Any]:
    """The facts of this host; changes nothing."""
    home, name = os.path.expanduser("~"), pwd.getpwuid(os.getuid()).pw_name
    python, version = best_python()
    sudo = os.getuid() != 0 and quiet(["sudo", "-n", "true"])
    is_root = sudo or os.getuid() == 0
    its = request["root" if is_root else "user"]
    record = os.path.expanduser(its["record"])
    interfaces = interfaces_here()
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "libc": libc(),
        "python": python,
        "python_version": version,
        "pip": python != "" and has_pip(python),
        "is_root": is_root,
        "group": name if has_private_group(name) else "",
        "user": name,
        "home": home,
        "sudo": sudo,
        "systemd": os.path.isdir("/run/systemd/system"),
        "user_systemd": lingers(name),
        "manager": next((name for name in MANAGERS if shutil.which(name)), ""),
        "tools": [tool for tool in request["tools"] if shutil.which(tool)],
        "addresses": addresses(interfaces),
        "interfaces": {name: list(each) for name, each in interfaces.items()},
        "free_bytes": free(record),
        "noexec": [
            path
            for path in map(os.path.expanduser, its["libraries"])
            if disk(path).f_flag & os.ST_NOEXEC
        ],
        "existing": [
            path for path in map(os.path.expanduser, its["watched"]) if os.path.lexists(path)
        ],
        "absent": sorted(set(absent(its["written"]))),
        "installed": installed(record),
        "cached": [each for each in names(home + "/.cache/netesto") if "." not in each],
        "made_above_cache": os.path.exists(home + "/.cache/netesto/" + MADE_ABOVE),
    }


def absent(paths: List[str]) -> Iterator[str]:
    """The folders that these paths are to be in, and that do not exist."""
    for path in map(os.path.expanduser, paths):
        above = os.path.dirname(path)
        while not os.path.lexists(above):
            yield above
            above = os.path.dirname(above)


def libc() -> str:
    """The C library and its version, such as "glibc-2.36"; "" if unknown."""
    try:
        # platform.libc_ver() of older versions of Python returns the glibc for which they were
        # built.
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").replace(" ", "-")
    except (OSError, ValueError):
        return "-".join(platform.libc_ver()).strip("-")


def lingers(name: str) -> bool:
    """Whether this user has a service manager that stays when the last session ends."""
    manager = os.environ.get("XDG_RUNTIME_DIR", "/nowhere") + "/systemd/private"
    return os.path.exists(manager) and os.path.exists("/var/lib/systemd/linger/" + name)


def has_private_group(name: str) -> bool:
    """Whether this user has a group of its own, as on many systems."""
    try:
        return grp.getgrgid(os.getgid()).gr_name == name
    except KeyError:
        return False


def best_python() -> Tuple[str, str]:
    """The path and version of an interpreter that an agent can use, preferably this one; of this
    one if there is none."""
    if sys.version_info >= PYTHON:
        return sys.executable, "{}.{}".format(*sys.version_info)
    for minor in range(NEWEST, PYTHON[1] - 1, -1):
        path = shutil.which("python3.{}".format(minor))
        if path and quiet([path, "-c", "import ssl, json"]):
            return path, "3.{}".format(minor)
    return "", "{}.{}".format(*sys.version_info)


def has_pip(python: str) -> bool:
    # Starting pip only to see whether it exists would take half a second.
    if python == sys.executable:
        return importlib.util.find_spec("pip") is not None
    test = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pip') is None)"
    return quiet([python, "-c", test])


def quiet(
    argv: List[str], timeout: Optional[float] = 20, env: Optional[Dict[str, str]] = None
) -> bool:
    """Whether a command ends well."""
    null = subprocess.DEVNULL
    try:
        return (
            subprocess.call(argv, stdin=null, stdout=null, stderr=null, timeout=timeout, env=env)
            == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def addresses(interfaces: Dict[str, Dict[str, str]]) -> List[str]:
    """The address that ssh used, and one of the other family of the same interface."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    if len(words) != 4:
        return []
    own = words[2].partition("%")[0]
    own = own[7:] if own.startswith("::ffff:") else own
    for families in interfaces.values():
        if own in families:
            return [own] + [one for one in families if families[one] != families[own]][:1]
    return [own]


def interfaces_here() -> Dict[str, Dict[str, str]]:
    """The interfaces, each with its global addresses and their families; none without ip(8)."""
    try:
        shown = subprocess.check_output(["ip", "-j", "address"], timeout=10)
        links = json.loads(shown.decode())
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return {
        link["ifname"]: {
            each["local"]: each["family"]
            for each in link["addr_info"]
            if each.get("scope") == "global"
        }
        for link in links
        if "ifname" in link
    }


def disk(path: str) -> os.statvfs_result:
    """The file system where `path` is or will be."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return os.statvfs(path)


def free(path: str) -> int:
    """The bytes that are free there."""
    room = disk(path)
    return room.f_bavail * room.f_frsize


def installed(path: str) -> Optional[Dict[str, Any]]:
    """The record of an installation, and its present state; None if there is none."""
    try:
        with open(path) as file:
            record: Dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return None
    changed = [name for name, digest in record["files"].items() if digest_of(name) != digest]
    changed += [name for name in record["folders"] if not os.path.isdir(name)]
    return {"record": record, "changed": changed, "runs": runs(record["service"])}


def digest_of(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


def runs(service: Dict[str, Any]) -> bool:
    """Whether the agent is running: according to systemd, or by the lock of its supervisor."""
    if service["kind"] == "systemd":
        return quiet(["systemctl"] + service["scope"] + ["is-active", "-q", service["unit"]])
    return is_locked(service["lock"])


def is_locked(path: str) -> bool:
    try:
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except PermissionError:
        # It is root's, and this user may become root.
        return not quiet(["sudo", "-n", sys.executable, "-c", LOCKS, path])
    except OSError as error:
        return error.errno == errno.EWOULDBLOCK
    return False


def holder_of(path: str) -> str:
    """Who has the lock of a file, as far as the kernel says it (proc_locks(5))."""
    state = os.stat(path)
    device = state.st_dev
    place = "{:02x}:{:02x}:{}".format(os.major(device), os.minor(device), state.st_ino)
    for line in content("/proc/locks").decode().splitlines():
        words = line.split()
        if words[1] == "FLOCK" and words[5] == place:
            uid = os.stat("/proc/" + words[4]).st_uid
            return "{} (pid {}) of user {}".format(comm_of(int(words[4])), words[4], user_of(uid))
    return "another process"


def user_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def names(path: str) -> List[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


# --- who uses an agent that cannot be asked ------------------------------------------------------


def lasting_users(path: str) -> List[str]:
    """`users`, without a connection that is about to end, such as that of who tried to ask it."""
    deadline = time.monotonic() + ENDING_S
    while True:
        found = users(path)
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(POLL_S)


def users(path: str) -> List[str]:
    """The processes that are connected to the agent that listens on the socket `path`, and the
    tools that it runs. Without root only those of this user."""
    found = connections(path)
    owners = owners_of({inode for pair in found for inode in pair})
    agents = {pid for inode, peer in found if not peer for pid in owners.get(inode, [])}
    others = {pid for _, peer in found if peer for pid in owners.get(peer, [0])} - agents
    tools = {pid for pid in pids() if parent_of(pid) in agents and is_marked(pid)}
    return ["{} (pid {})".format(comm_of(pid), pid or "?") for pid in sorted(others | tools)]


def connections(path: str) -> List[Tuple[int, int]]:
    """The inodes of the sockets of this path, each with that of its peer (0: it listens).

    By sock_diag(7); none if the kernel has no unix_diag."""
    dump = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, 1 | 4, 0, 0)
    head = struct.pack("=IHHII", 16 + len(dump), 20, 0x301, 1, 0)
    found: List[Tuple[int, int]] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as netlink:
        netlink.send(head + dump)
        while True:
            data = netlink.recv(1 << 20)
            while len(data) >= 16:
                length, kind = struct.unpack_from("=IH", data)
                if kind != 20:
                    return found
                inode = struct.unpack_from("=I", data, 20)[0]
                found_attributes = dict(attributes(data[32:length]))
                if found_attributes.get(0, b"").rstrip(b"\0") == path.encode():
                    found.append((inode, struct.unpack("=I", found_attributes.get(2, bytes(4)))[0]))
                data = data[length + 3 & ~3 :]


def attributes(data: bytes) -> Iterator[Tuple[int, bytes]]:
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        yield kind, data[4:length]
        data = data[max(length + 3 & ~3, 4) :]


def pids() -> List[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def owners_of(inodes: Set[int]) -> Dict[int, List[int]]:
    """The processes that have these sockets open."""
    wanted = {"socket:[{}]".format(inode): inode for inode in inodes}
    found: Dict[int, List[int]] = {}
    for pid in pids():
        folder = "/proc/{}/fd".format(pid)
        for name in names(folder):
            try:
                inode = wanted.get(os.readlink(folder + "/" + name))
            except OSError:
                continue
            if inode:
                found.setdefault(inode, []).append(pid)
    return found


def parent_of(pid: int) -> int:
    return int((content("/proc/{}/stat".format(pid)).rpartition(b")")[2].split() or [b"", b"0"])[1])


def is_marked(pid: int) -> bool:
    """Whether an agent started this process to work for it (netesto.agent.recovery)."""
    return b"NETESTO_LIFE=" in content("/proc/{}/environ".format(pid))


def comm_of(pid: int) -> str:
    return content("/proc/{}/comm".format(pid)).decode("utf-8", "replace").strip() or "a process"


def content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


# --- act ----------------------------------------------------------------------------------------


def act(request: Dict[str, Any], source: BinaryIO) -> Dict[str, Any]:
    """Execute steps, one installation at a time; the first failure ends them."""
    begun = time.time()
    with locked(request["lock"]):
        if is_reached(begun=begun, **request["goal"]):
            return {"done": len(request["steps"])}
        for number, (kind, values) in enumerate(request["steps"]):
            try:
                take(kind, source, values)
            except (StepError, OSError, EOFError, tarfile.TarError) as error:
                return {"done": number, "error": cause(error)}
    return {"done": len(request["steps"])}


def is_reached(path: str, text: str, begun: float) -> bool:
    """Whether another installation has done the same while this one waited for it."""
    if not text or not os.path.exists(path) or os.stat(path).st_mtime < begun:
        return False
    found = installed(path)
    assert found is not None
    with open(path, encoding="utf-8") as file:
        return file.read() == text and not found["changed"] and bool(found["runs"])


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """The lock of installations in one folder. It goes with the folder when that is removed."""
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Nobody else may open it: who can, can lock it.
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with os.fdopen(number, "w") as file:
            os.fchmod(number, 0o600)
            if not is_taken(file):
                if time.monotonic() > deadline:
                    said = "{} has had the lock {} for {} s"
                    raise StepError(said.format(holder_of(path), path, LOCK_WAIT_S))
                time.sleep(POLL_S)
            # Whoever held it may have removed the folder.
            elif os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(number)):
                yield
                return


def is_taken(file: TextIO) -> bool:
    """Lock a file, unless another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno != errno.EWOULDBLOCK:
            raise
        return False
    return True


def folder(path: str, mode: int) -> None:
    """Make a folder; an existing one stays unchanged."""
    if not os.path.isdir(path):
        os.makedirs(path)
        os.chmod(path, mode)


def write(path: str, mode: int, text: str) -> None:
    """Replace a file atomically."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fresh = path + ".new"
    try:
        with open(fresh, "w", encoding="utf-8") as file:
            os.chmod(fresh, mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    finally:
        if os.path.exists(fresh):
            os.unlink(fresh)


def unpack(source: BinaryIO, path: str, size: int, python: str) -> None:
    """Unpack the next `size` bytes of the request, a tar.gz, as a new folder, and compile it."""
    data = source.read(size)
    if len(data) < size:
        raise StepError("the connection ended within the archive")
    if os.path.isdir(path):
        return
    with compiled_folder(path, python) as draft:
        with tarfile.open(fileobj=gzip.GzipFile(fileobj=io.BytesIO(data)), mode="r:") as archive:
            for member in archive:
                extract(archive, member, draft)


@contextlib.contextmanager
def compiled_folder(path: str, python: str) -> Iterator[str]:
    """A folder for the body to fill, which then gets the name `path`. What did not arrive compiled
    for `python` is compiled now: the agent may not be allowed to, and would do so at each start."""
    draft = path + ".part"
    # An interrupted installation may have left it.
    shutil.rmtree(draft, ignore_errors=True)
    os.makedirs(draft)
    try:
        yield draft
        checked([python, "-m", "compileall", "-q", draft, "-s", draft, "-p", path], 120)
        for place, _folders, _files in os.walk(draft):
            os.chmod(place, 0o755)
        os.rename(draft, path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def extract(archive: tarfile.TarFile, member: tarfile.TarInfo, draft: str) -> None:
    parts = member.name.split("/")
    if not member.isfile() or ".." in parts or member.name.startswith("/"):
        raise StepError("unexpected {!r} in the archive".format(member.name))
    path = os.path.join(draft, *parts)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        content = archive.extractfile(member)
        assert content is not None
        shutil.copyfileobj(content, file)
    os.chmod(path, 0o755 if member.mode & 0o100 else 0o644)
    # Compiled files that come along have the date of their source in them.
    os.utime(path, (member.mtime, member.mtime))


def pip(path: str, python: str, requirements: List[str]) -> None:
    """Install packages from the host's own index as a new folder, if they have their hashes."""
    if os.path.isdir(path):
        return
    with compiled_folder(path, python) as draft:
        words = ["-qq", "--no-input", "--disable-pip-version-check", "--only-binary=:all:"]
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as listed:
            listed.write("\n".join(requirements))
            listed.flush()
            words += ["--require-hashes", "--requirement", listed.name, "--target", draft]
            checked([python, "-m", "pip", "install"] + words, 600)


def script(text: str, words: List[str], timeout: float) -> None:
    """Run a shell script."""
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "script")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        checked(["sh", path] + words, timeout)


def checked(argv: List[str], timeout: float) -> None:
    """Run a command; StepError, with its last words, unless it ends well."""
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    try:
        done = subprocess.run(
            argv, stdin=null, stdout=pipe, stderr=subprocess.STDOUT, timeout=timeout, env=env
        )
    except subprocess.TimeoutExpired:
        raise StepError("{}: still running after {} s, ended".format(argv[0], timeout))
    if done.returncode != 0:
        if os.strerror(errno.ENOSPC).encode() in done.stdout:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        words = done.stdout.decode("utf-8", "replace").strip().splitlines()[-4:]
        raise StepError("{}: exit status {}: {}".format(argv[0], done.returncode, "\n".join(words)))


def supervise(argv: List[str], socket_path: str, log: str) -> None:
    """Start the supervisor of an agent, and wait until the agent listens."""
    os.makedirs(os.path.dirname(socket_path), 0o700, exist_ok=True)
    with open(log, "ab") as sink:
        os.fchmod(sink.fileno(), 0o600)
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            cwd="/",
            env=dict(os.environ, RUNTIME_DIRECTORY=os.path.dirname(socket_path)),
        )
    wait_for_agent(child, socket_path, log)


def wait_for_agent(child: "subprocess.Popen[bytes]", socket_path: str, log: str) -> None:
    deadline = time.monotonic() + START_S
    while not listens(socket_path):
        if child.poll() is not None:
            full = full_folders()
            why = ", ".join(full) + ": no space left on the disk" if full else last_lines(log)
            raise StepError("the agent does not start:\n{}".format(why))
        if time.monotonic() > deadline:
            raise StepError(
                "the agent does not listen after {} s:\n{}".format(START_S, last_lines(log))
            )
        time.sleep(POLL_S)


def listens(path: str) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as trial:
            trial.connect(path)
    except OSError:
        return False
    return True


def last_lines(log: str) -> str:
    return "\n".join(content(log).decode("utf-8", "replace").splitlines()[-5:])


def stop(lock: str) -> None:
    """End the supervisor that holds `lock`, and its agent."""
    if not is_locked(lock):
        return
    pid = supervisor_of(lock)
    if not pid:
        said = "{} has the lock {}, and is not the agent's supervisor: end it"
        raise StepError(said.format(holder_of(lock), lock))
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S + 5
    while is_locked(lock):
        if time.monotonic() > deadline:
            raise StepError("the agent does not end")
        time.sleep(POLL_S)


def supervisor_of(lock: str) -> int:
    """The process that wrote its number and start time into `lock`, if it still runs; else 0."""
    pid, begun = (content(lock).decode().split() + ["0", "0"])[:2]
    return int(pid) if begun_at(int(pid)) == begun else 0


def begun_at(pid: int) -> str:
    """When a process began, in clock ticks since the boot (proc_pid_stat(5)); "" if it is gone."""
    return (content("/proc/{}/stat".format(pid)).decode().rpartition(")")[2].split() + 20 * [""])[
        19
    ]


def spare(spool: str) -> None:
    """Stop if there are unfetched measurements."""
    left = sorted(names(spool))
    if left:
        raise StepError("measurements of {} were never fetched".format(", ".join(left)))


def remove(path: str, digest: str, last: str = "") -> None:
    """Remove a folder, its entry `last` after all others, or a file if it is still the one with
    this SHA-256 (empty: whatever it is)."""
    if os.path.isdir(path) and not os.path.islink(path):
        for name in names(path) if last else []:
            if name != last:
                remove(os.path.join(path, name), "")
        shutil.rmtree(path)
    elif os.path.lexists(path) and (not digest or digest_of(path) == digest):
        os.unlink(path)


def remove_if_empty(path: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(path)


STEPS: Dict[str, Callable[..., None]] = {
    "folder": folder,
    "write": write,
    "unpack": unpack,
    "pip": pip,
    "run": checked,
    "script": script,
    "supervise": supervise,
    "stop": stop,
    "spare": spare,
    "remove": remove,
    "remove_if_empty": remove_if_empty,
}


def take(kind: str, source: BinaryIO, values: Dict[str, Any]) -> None:
    """Execute one step. OSError with its file or folder."""
    try:
        if kind == "unpack":
            values = dict(values, source=source)
        STEPS[kind](**values)
    except OSError as error:
        # A write that fails does not name its file.
        error.filename = error.filename or values.get("path")
        raise


# --- an agent for one run -----------------------------------------------------------------------


def once(request: Dict[str, Any], source: BinaryIO, replies: Replies) -> None:
    """Run an agent until the controller ends it or falls silent; then it puts the host back, and
    its folder is removed."""
    for sign in ENDS:
        signal.signal(sign, lambda _number, _frame: sys.exit(1))
    make_cache(request["cache"])
    for kind, values in request["steps"]:
        with locked(request["cache"] + "/.lock"):
            take(kind, source, values)
    # A run takes its hosts one after the other, in an order that all runs share.
    replies.send({"stage": "brought", "lock": name_of(request["cache"])})
    line = source.readline()
    if not line:
        return  # the controller is gone
    turn = Turn(source, replies, json.loads(line.decode())["wait_s"])
    # Kept open: with this process it is free again.
    # Several machines may have the same home folder.
    lock = "{}/.run-{}".format(request["cache"], platform.node())
    alone = alone_here(lock, request["holder"], request["folder"], turn)
    replies.send({"stage": "alone"})
    agent = OnHostAgent(request)
    try:
        agent.start()
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as door:
            listen_at(door, keeper_of(agent.place))
            replies.send({"stage": "ready"})
            keep(agent, source, door)
    except KeyboardInterrupt:
        pass
    finally:
        for sign in ENDS:
            signal.signal(sign, signal.SIG_IGN)
        agent.end()
        alone.close()


def make_cache(path: str) -> None:
    """Make the folder of packages, and note in it if that above was not there either."""
    if not os.path.lexists(os.path.dirname(path)):
        os.makedirs(path)
        with open(os.path.join(path, MADE_ABOVE), "w"):
            pass


class OnHostAgent:
    """An agent in its own folder, or in that of an earlier agent of the run that was killed with
    its supervisor."""

    def __init__(self, request: Dict[str, Any]) -> None:
        self.place = request["folder"]
        self.socket = request["socket"]
        self.log = os.path.join(self.place, "log")
        path = os.pathsep.join(request["packages"])
        self.env = dict(os.environ, PYTHONPATH=path, RUNTIME_DIRECTORY=self.place)
        self.argv = [request["python"], "-P", "-s", "-m", "netesto.agent.daemon"] + request["words"]
        self.child: Optional["subprocess.Popen[bytes]"] = None
        # Through sudo: the sshd of this user is to reach the agent.
        self.owner = int(os.environ.get("SUDO_UID", os.getuid()))
        try:
            os.mkdir(self.place, 0o700)
        except FileExistsError:
            if os.lstat(self.place).st_uid not in (self.owner, os.getuid()):
                raise

    def start(self) -> None:
        """Returns when the agent listens. It first puts back the settings of a killed one."""
        with open(self.log, "ab") as sink:
            self.child = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env=self.env,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        wait_for_agent(self.child, self.socket, self.log)
        for path in (self.place, self.socket):
            os.chown(path, self.owner, -1)

    def has_ended(self) -> bool:
        return self.child is None or self.child.poll() is not None

    def end(self) -> None:
        """End the agent, which puts the host back, and remove the folder if it succeeded."""
        if self.child is not None:
            end(self.child)
        # A killed agent has left changes; there is nothing to do if it ended by itself.
        if self.child is None or quiet(self.argv + ["--recover"], None, self.env):
            shutil.rmtree(self.place, ignore_errors=True)


def keeper_of(place: str) -> str:
    """The socket of the process that supervises the agent in a folder."""
    return os.path.join(place, "keeper.sock")


def listen_at(door: socket.socket, path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)
    door.bind(path)
    door.listen(1)


def keep(agent: OnHostAgent, source: BinaryIO, door: socket.socket) -> None:
    """Start an agent again that ends. Returns when the controller has said the end, or was not
    heard of for the lease: by `source`, or by another ssh process, which comes to the `door`."""
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    ways: List[Any] = [source]
    latest_s = time.monotonic() + LEASE_S
    while time.monotonic() < latest_s:
        if agent.has_ended():
            agent.start()
        left_s = max(latest_s - time.monotonic(), 0)
        sources: List[Any] = [woken, door, *ways]
        for each in select.select(sources, [], [], left_s)[0]:
            if each == woken:
                os.read(woken, 4096)
            elif each is door:
                # The earlier connection is lost, even if this host has not noticed yet.
                ways = [door.accept()[0]]
                latest_s = time.monotonic() + LEASE_S
            else:
                said = os.read(each.fileno(), 4096)
                if END in said or (not said and each is source and not is_cut_off()):
                    return
                if said:
                    latest_s = time.monotonic() + LEASE_S
                else:
                    ways = []


def is_cut_off() -> bool:
    """Whether our standard input has ended with the connection, and not with the controller."""
    output = select.poll()
    output.register(sys.stdout, 0)
    return bool(output.poll(CLOSING_MS))


def rejoin(place: str, source: BinaryIO, replies: Replies) -> None:
    """Replace a lost ssh process for an agent that still runs, until it ends."""
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as keeper:
        try:
            keeper.connect(keeper_of(place))
        except OSError:
            replies.send({"stage": "gone"})
            return
        replies.send({"stage": "ready"})
        ways: List[Any] = [source, keeper]
        while True:
            ready = select.select(ways, [], [])[0]
            if keeper in ready:
                return
            said = os.read(source.fileno(), 4096)
            if not said:
                if is_cut_off():
                    return
                ways = [keeper]
            keeper.sendall(said or END)


def name_of(folder: str) -> str:
    """A name of a folder that does not depend on the address and path used to reach it."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    found = os.stat(folder)
    return "{} {} {}".format(boot, found.st_dev, found.st_ino)


class Turn:
    """Wait for a lock; without `wait_s` only for a run that is about to end."""

    def __init__(self, source: BinaryIO, replies: Replies, wait_s: Optional[float]) -> None:
        self.source, self.replies, self.wait_s = source, replies, wait_s
        self.start_s, self.reported = time.monotonic(), ""

    def pause(self, other: str) -> None:
        """Wait for a moment for a run. StepError when it was long enough; ends this process if the
        controller is gone."""
        most = ALONE_WAIT_S if self.wait_s is None else self.wait_s
        if time.monotonic() > self.start_s + most:
            raise StepError("in use by {}".format(other or "another run"))
        if self.wait_s is not None and other != self.reported:
            self.reported = other
            self.replies.send({"waits": other})
        # The controller says nothing: what can be read is its end.
        if select.select([self.source], [], [], POLL_S)[0]:
            sys.exit(1)


def alone_here(path: str, holder: str, place: str, turn: Turn) -> TextIO:
    """The lock of the agents of this user that live for one run; it names the folder of ours."""
    # Nobody else may see or open it.
    number = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    file = os.fdopen(number, "r+")
    while not is_taken(file):
        file.seek(0)
        other, _, its_place = file.read().partition("\n")
        # A lost agent of ours may still be putting the host back.
        if other == holder and its_place != place:
            raise StepError("is the same machine as another host of this run")
        turn.pause(other)
    file.seek(0)
    file.truncate()
    file.write("{}\n{}".format(holder, place))
    file.flush()
    return file


def end_with_parent() -> None:
    """Have the kernel send SIGTERM when the parent is gone, however it ends (prctl(2))."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM, 0, 0, 0)


def end(child: "subprocess.Popen[bytes]") -> None:
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout)
