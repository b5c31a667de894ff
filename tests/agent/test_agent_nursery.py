"""The process that agents are forked from."""

import os
import sys

from netesto.system import process

# What a run has imported when it forks its nursery.
IMPORTS = "import os, netesto.cli.run, netesto.run.whole, netesto.agent.nursery"


def test_a_run_has_one_thread_when_it_forks():
    """A fork has only the thread that forked; what others held would stay locked."""
    count = f"{IMPORTS}; print(len(os.listdir('/proc/self/task')))"
    assert process.run([sys.executable, "-c", count], timeout=60).stdout == "1\n"


def test_a_nursery_ends_with_those_who_give_orders():
    script = f"""{IMPORTS}
netesto.agent.nursery.END_S = 50
with netesto.agent.nursery.forked() as orders:
    [nursery] = open("/proc/self/task/%d/children" % os.getpid()).read().split()
print(os.path.exists("/proc/" + nursery))
"""
    assert process.run([sys.executable, "-c", script], timeout=60).stdout == "False\n"


def test_a_nursery_without_orders_starts_no_program(tmp_path):
    netperf = tmp_path / "netperf"
    netperf.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    netperf.chmod(0o755)
    script = f"{IMPORTS}\nwith netesto.agent.nursery.forked(): pass"
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    process.run([sys.executable, "-c", script], timeout=60, env=env)
    assert not (tmp_path / "started").exists()


def test_an_agent_of_a_lab_that_was_taken_down_meanwhile_makes_no_file(tmp_path):
    script = f"""{IMPORTS}
import json, socket
log = os.open("{tmp_path}/log", os.O_CREAT | os.O_WRONLY)
os.unlink("{tmp_path}/log")
order = {{"names": "", "hosts": [{{"namespace": "/run/netns/gone", "argv": []}}]}}
text = os.memfd_create("order")
os.pwrite(text, json.dumps(order).encode(), 0)
with netesto.agent.nursery.forked() as orders:
    ready, writes = os.pipe()
    socket.send_fds(orders, [netesto.agent.nursery.START], [text, writes, log])
    os.close(writes)
    assert int(orders.recv(64)) > 0
    print(os.read(ready, 1), os.listdir("{tmp_path}"))
"""
    assert process.run([sys.executable, "-c", script], timeout=60).stdout == "b'' []\n"
