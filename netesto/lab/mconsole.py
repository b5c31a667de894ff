"""Asks a user-mode kernel's management console what it is doing. The console responds even while a
process spins and nothing else runs in the guest."""

import re
import socket
import struct
from pathlib import Path

# arch/um/drivers/mconsole.h of the kernel: magic, version, length, and always the whole buffer.
_MAGIC = 0xCAFEBABE
_VERSION = 2
_REQUEST = struct.Struct("=III512s")
_REPLY_HEADER = struct.Struct("=III")

# It replies from its interrupt handler, so within milliseconds or not at all.
ANSWER_S = 2.0


def request(command: str) -> bytes:
    """A request with this command."""
    text = command.encode()
    return _REQUEST.pack(_MAGIC, _VERSION, len(text), text)


def answer(reply: bytes) -> tuple[str, bool]:
    """The text of a reply, and whether another one follows."""
    _, more, length = _REPLY_HEADER.unpack_from(reply)
    text = reply[_REPLY_HEADER.size : _REPLY_HEADER.size + length]
    return text.rstrip(b"\0").decode(errors="replace"), bool(more)


def ask(console: Path, command: str) -> str:
    """The replies of the console to a command, "" if there are none."""
    mine = console.with_name("question")
    said: list[str] = []
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
            asking.settimeout(ANSWER_S)
            asking.bind(str(mine))
            asking.sendto(request(command), str(console))
            more = True
            while more:
                text, more = answer(asking.recv(65536))
                said.append(text)
    except OSError:
        return "".join(said)
    finally:
        mine.unlink(missing_ok=True)
    return "".join(said)


def current(registers: str) -> str:
    """The running process in the output of `sysrq p`: `python3 (process 57)`, "" if none runs."""
    found = re.search(r"Pid: (\d+), comm: (.{1,15}?)\s+(?:Not tainted|Tainted)", registers)
    if found is None or found[1] == "0":
        return ""
    return f"{found[2]} (process {found[1]})"


def is_short(memory: str) -> bool:
    """Whether free memory, in the output of `sysrq m`, is down to the kernel's own reserve."""
    found = re.search(r" free:(\d+)kB .*?low:(\d+)kB", memory)
    return found is not None and int(found[1]) < int(found[2])
