"""Asks a user-mode kernel's management console what it is doing. It answers also while a process
spins and the guest itself does nothing else."""

import re
import socket
import struct
from pathlib import Path

# The kernel's arch/um/drivers/mconsole.h: magic, version, length, and always the whole buffer.
_MAGIC = 0xCAFEBABE
_VERSION = 2
_REQUEST = struct.Struct("=III512s")
_REPLY_HEADER = struct.Struct("=III")

# It answers from its interrupt handler; one that takes longer than this will not.
ANSWER_S = 2.0


def request(command: str) -> bytes:
    """A command as the console reads it."""
    text = command.encode()
    return _REQUEST.pack(_MAGIC, _VERSION, len(text), text)


def answer(reply: bytes) -> tuple[str, bool]:
    """The text of one reply, and whether another one follows."""
    _, more, length = _REPLY_HEADER.unpack_from(reply)
    text = reply[_REPLY_HEADER.size : _REPLY_HEADER.size + length]
    return text.rstrip(b"\0").decode(errors="replace"), bool(more)


def ask(console: Path, command: str) -> str:
    """What the console says to a command, "" if it does not answer."""
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
    """The process that runs, from what `sysrq p` shows: `python3 (process 57)`, "" if none."""
    found = re.search(r"Pid: (\d+), comm: (.{1,15}?)\s+(?:Not tainted|Tainted)", registers)
    if found is None or found[1] == "0":
        return ""
    return f"{found[2]} (process {found[1]})"
