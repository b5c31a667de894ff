"""Containers as Podman makes them by default: namespaces, few capabilities, 64 MB of /dev/shm, and
its filter of system calls, which refuses personality(2).

runc starts them, from a bundle of the Open Container Initiative (runtime-spec, config.md). Their
files are those of this machine, which they cannot write.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from netesto.files import paths
from netesto.system import process

# containers-common, containers.conf.
CAPABILITIES = (
    "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_NET_BIND_SERVICE",
    "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
)  # fmt: skip

NAMESPACES = ("pid", "network", "ipc", "uts", "mount")

FILTER = Path("usr/share/containers/seccomp.json")

# Folders of the root that are the container's own.
OWN = frozenset({"dev", "proc", "run", "sys", "tmp"})

NOBODY = 65534

START_S = 30


def lack() -> str:
    """Why no container can be started here; empty if one can."""
    if os.geteuid() != 0:
        return "needs root: bind mounts of this machine's files"
    if _runc() is None or _filter() is None:
        return "needs runc and the filter of Podman (.ci/runc fetches them, and installs nothing)"
    return ""


def run_in_container(
    folder: Path, argv: Sequence[str], needed: Sequence[Path], *, user: int, timeout: float
) -> process.CompletedCommand:
    """Run a command in a container whose working folder is `folder`, which only it can write; it
    also has the folders `needed`. A user other than root has no capabilities, as with
    `--cap-drop all`."""
    runc = _runc()
    assert runc is not None, lack()
    bundle = folder / "bundle"
    (bundle / "rootfs").mkdir(parents=True)
    Path(folder).chmod(0o777)
    config = _config(bundle / "rootfs", folder, argv, needed, user)
    (bundle / "config.json").write_text(json.dumps(config))
    name = f"netesto-test-{os.getpid()}-{user}"
    words = [str(runc), "--root", str(folder / "state")]
    try:
        return process.run(
            [*words, "run", "--bundle", str(bundle), name], timeout=timeout, check=False
        )
    finally:
        # Nothing is left of one that has ended; a killed one ends here.
        process.run([*words, "delete", "--force", name], timeout=START_S, check=False)


def _runc() -> Path | None:
    found = shutil.which("runc") or shutil.which(
        "runc", path=str(paths.cache_folder() / "runc/usr/sbin")
    )
    return Path(found) if found else None


def _filter() -> Path | None:
    return next(
        (
            root / FILTER
            for root in (Path("/"), paths.cache_folder() / "runc")
            if (root / FILTER).exists()
        ),
        None,
    )


def _config(
    root: Path, folder: Path, argv: Sequence[str], needed: Sequence[Path], user: int
) -> dict[str, Any]:
    capabilities = CAPABILITIES if user == 0 else ()
    kinds = ("bounding", "effective", "permitted")
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": user, "gid": user},
            "args": list(argv),
            "env": [
                f"PATH={os.environ['PATH']}",
                "HOME=/tmp",
                f"XDG_CACHE_HOME={os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'}",
            ],
            "cwd": str(folder),
            "capabilities": {kind: list(capabilities) for kind in kinds},
            "noNewPrivileges": user != 0,
        },
        "root": {"path": str(root), "readonly": False},
        "mounts": list(_mounts(root, folder, needed)),
        "linux": {
            "namespaces": [{"type": each} for each in NAMESPACES],
            "seccomp": _seccomp(frozenset(capabilities)),
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"],
        },
    }


def _mounts(root: Path, folder: Path, needed: Sequence[Path]) -> Iterator[dict[str, Any]]:
    def mount(kind: str, at: str, *options: str) -> dict[str, Any]:
        return {"destination": at, "type": kind, "source": kind, "options": list(options)}

    def bind(path: Path, *options: str) -> dict[str, Any]:
        return {**mount("bind", str(path), "rbind", *options), "source": str(path)}

    for path in Path("/").iterdir():
        if path.is_symlink():
            (root / path.name).symlink_to(path.readlink())
        elif path.is_dir() and path.name not in OWN and path != Path.home():
            yield bind(path, "ro")
    # Root's home is closed to others.
    yield mount("tmpfs", str(Path.home()), "mode=755")
    yield mount("proc", "/proc")
    yield mount("tmpfs", "/dev", "nosuid", "mode=755", "size=65536k")
    yield mount("devpts", "/dev/pts", "nosuid", "noexec", "newinstance", "ptmxmode=0666")
    yield mount("tmpfs", "/dev/shm", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k")
    yield mount("sysfs", "/sys", "nosuid", "noexec", "nodev", "ro")
    yield mount("tmpfs", "/tmp", "mode=1777")
    yield mount("tmpfs", "/run", "mode=755")
    for path in needed:
        yield bind(path, "ro")
    yield bind(folder, "rw")


def _seccomp(capabilities: frozenset[str]) -> dict[str, Any]:
    """The filter of Podman for a container with these capabilities, as its engine passes it on."""
    path = _filter()
    assert path is not None, lack()
    stored = json.loads(path.read_text())
    rules: list[dict[str, Any]] = []
    for rule in stored["syscalls"]:
        only, not_with = rule.get("includes") or {}, rule.get("excludes") or {}
        if (
            "amd64" in only.get("arches", ["amd64"])
            and capabilities.issuperset(only.get("caps", []))
            and capabilities.isdisjoint(not_with.get("caps", []))
        ):
            kept = ("names", "action", "args", "errnoRet")
            rules.append({key: rule[key] for key in kept if rule.get(key) is not None})
    return {
        "defaultAction": stored["defaultAction"],
        "defaultErrnoRet": stored["defaultErrnoRet"],
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"],
        "syscalls": rules,
    }
