"""The frames of a capture, read without the code of netesto (pcap-savefile(5))."""

import struct
from pathlib import Path


def frames(path: Path) -> list[tuple[float, bytes]]:
    """The packets of a file with their times, UTC seconds; whole ones, with their link layer."""
    content = path.read_bytes()
    order = "<" if content[:4] in {b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"} else ">"
    divisor = 1e9 if content[:4] in {b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d"} else 1e6
    found, at = [], 24
    while at < len(content):
        seconds, part, size, _ = struct.unpack_from(f"{order}IIII", content, at)
        found.append((seconds + part / divisor, content[at + 16 : at + 16 + size]))
        at += 16 + size
    return found
