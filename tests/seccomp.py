"""Machines that refuse a system call."""


def refusing(number: int) -> str:
    """A program of Python, for `-c`, that executes its arguments as a command to which the system
    call of this number (<asm/unistd_64.h>) is refused with EPERM: <linux/filter.h>,
    <linux/prctl.h>."""
    return f"""
import ctypes, os, struct, sys
steps = (0x20, 0, 0, 0), (0x15, 0, 1, {number}), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(text)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"""
