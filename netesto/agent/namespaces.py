"""The namespaces of a lab's host: made once for a process, and joined by a thread of each host."""

import ctypes
import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

# From <sched.h> and <sys/mount.h>.
CLONE_FS, CLONE_NEWNS, CLONE_NEWNET = 0x00000200, 0x00020000, 0x40000000
MS_BIND, MS_REC, MS_SLAVE, MNT_DETACH = 0x1000, 0x4000, 0x80000, 0x2

# From <asm-generic/unistd.h>, <linux/fcntl.h> and <linux/mount.h>.
SYS_OPEN_TREE, SYS_MOVE_MOUNT = 428, 429
AT_FDCWD, OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH = -100, 0x1, 0x4

# A guest in simulated time overlays its own facts here (netesto/lab/inside.py).
CPU_FOLDER = Path("/sys/devices/system/cpu/cpu0")

_SYSCTLS = Path("/proc/sys")
_THREAD = Path("/proc/thread-self/ns")


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Descriptors of a network namespace and a mount namespace."""

    network: int
    mounts: int

    @classmethod
    def here(cls) -> Self:
        """Those of this thread."""
        flags = os.O_RDONLY | os.O_CLOEXEC
        return cls(os.open(_THREAD / "net", flags), os.open(_THREAD / "mnt", flags))

    def enter(self) -> None:
        """Put the only thread of this process into them."""
        libc = ctypes.CDLL(None, use_errno=True)
        _call(libc.setns, self.network, CLONE_NEWNET)
        _call(libc.setns, self.mounts, CLONE_NEWNS)

    def join(self) -> None:
        """Put this thread into them; threads and commands that it starts are there, too. Its umask
        and working folder become its own."""
        libc = ctypes.CDLL(None, use_errno=True)
        _call(libc.unshare, CLONE_FS)
        self.enter()
        # What reads /proc/net, as psutil does, would read that of the first thread.
        _call(libc.mount, b"/proc/thread-self/net", b"/proc/self/net", None, MS_BIND, None)

    def close(self) -> None:
        os.close(self.network)
        os.close(self.mounts)


def make(network: Path, names: str) -> Namespaces:
    """A network namespace, with a mount namespace as of `ip netns exec`: /sys shows its interfaces.
    The file `names` is its /etc/hosts. The only thread of this process is then in them. OSError if
    the network namespace was deleted.
    """
    _enter(network)
    # Names of the lab's hosts resolve in an agent and its commands; without an /etc/hosts they do
    # not.
    ctypes.CDLL(None).mount(os.fsencode(names), b"/etc/hosts", None, MS_BIND, None)
    return Namespaces.here()


def _enter(network: Path) -> None:
    """Enter a network namespace. An overlay on CPU_FOLDER stays.

    Each namespace gets its own procfs for sysctls. In a shared one the kernel keeps the sysctls of
    the same name in one list, and walks it to open one: with 200 hosts that took longer than all
    their other statistics.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(network, os.O_RDONLY | os.O_CLOEXEC)
    _call(libc.setns, descriptor, CLONE_NEWNET)
    # The namespace was deleted: the lab was taken down meanwhile.
    if not os.path.samestat(os.fstat(descriptor), network.stat()):
        raise FileNotFoundError(errno.ENOENT, "namespace deleted", str(network))
    os.close(descriptor)
    _call(libc.unshare, CLONE_NEWNS)
    _call(libc.mount, b"", b"/", b"none", MS_SLAVE | MS_REC, None)
    cpu = os.fsencode(CPU_FOLDER)
    kept = None
    if CPU_FOLDER.is_mount():
        kept = libc.syscall(SYS_OPEN_TREE, AT_FDCWD, cpu, OPEN_TREE_CLONE | os.O_CLOEXEC)
    # If /sys cannot be unmounted, the new one covers it.
    libc.umount2(b"/sys", MNT_DETACH)
    # A mount of a container stays.
    if not _SYSCTLS.is_mount() and libc.mount(b"proc", b"/sys", b"proc", 0, None) == 0:
        libc.mount(b"/sys/sys", os.fsencode(_SYSCTLS), None, MS_BIND, None)
        libc.umount2(b"/sys", MNT_DETACH)
    _call(libc.mount, network.name.encode(), b"/sys", b"sysfs", 0, None)
    if kept is not None:
        _call(libc.syscall, SYS_MOVE_MOUNT, kept, b"", AT_FDCWD, cpu, MOVE_MOUNT_F_EMPTY_PATH)
        os.close(kept)


def _call(function: "ctypes._NamedFuncPointer", *arguments: object) -> None:
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function.__name__}: {os.strerror(number)}")
