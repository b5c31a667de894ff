"""A process and its own memory."""

import json
import sys

import pytest

from netesto.system import process

# Threads that take memory at the same time; malloc_info(3) then lists the arenas.
SCRIPT = """
import ctypes, threading
from netesto.system import proc
{first}
libc = ctypes.CDLL(None)
together = threading.Barrier(4)
def take():
    together.wait(50)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc(100_000)
    together.wait(50)
threads = [threading.Thread(target=take) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


@pytest.mark.parametrize(
    ("first", "is_one"), [("", False), ("proc.take_memory_from_one_arena()", True)]
)
def test_threads_share_an_arena_where_that_is_asked_for(first: str, is_one: bool) -> None:
    script = [sys.executable, "-c", SCRIPT.format(first=first)]
    arenas = process.run(script, timeout=60).stdout.count("<heap nr=")
    assert (arenas == 1) is is_one


# A shell that ends leaves a process behind, which says its number.
LEFT_BEHIND = """
import json, os, signal, subprocess
from netesto.system import proc
proc.adopt_orphans()
start = ["sh", "-c", "setsid sleep 60 >&- & echo $!"]
orphan = int(subprocess.run(start, stdout=subprocess.PIPE).stdout)
child = subprocess.Popen(["sleep", "60"])
found = proc.descendants()
for pid in found: os.kill(pid, signal.SIGKILL)
print(json.dumps([found, sorted([orphan, child.pid])]))
"""


# One that ended and was adopted, and one that was started here.
ENDED = """
import json, os, subprocess
from netesto.system import proc, process
proc.adopt_orphans()
start = ["sh", "-c", "sleep 60 >&- & echo $!"]
shell = subprocess.Popen(start, stdout=subprocess.PIPE, start_new_session=True)
orphan = int(shell.communicate()[0])
child = subprocess.Popen(["true"], start_new_session=True)
states = lambda: {pid: open(f"/proc/{pid}/stat").read().split()[2] for pid in proc.descendants()}
os.kill(orphan, 9)
assert process.wait_until(lambda: [*states().values()] == ["Z", "Z"], timeout=30)
proc.reap_adopted()
print(json.dumps([[*states()], [child.pid]]))
"""


def test_adopted_processes_that_ended_are_reaped_and_no_others() -> None:
    told = process.run([sys.executable, "-c", ENDED], timeout=60).stdout
    left, own = json.loads(told)
    assert left == own


def test_descendants_of_who_adopts_orphans_include_them() -> None:
    told = process.run([sys.executable, "-c", LEFT_BEHIND], timeout=60).stdout
    found, expected = json.loads(told)
    assert found == expected
