import socket
from pathlib import Path

from netesto.transport import peers

OPEN = Path("/proc/self/fd")


def test_who_is_connected_is_known_and_no_descriptor_stays_open(tmp_path):
    path = str(tmp_path / "agent.sock")
    with socket.socket(socket.AF_UNIX) as server, (tmp_path / "file").open("w"):
        server.bind(path)
        server.listen()
        # Ours, which is left out: only others are asked about.
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(path)
            accepted, _ = server.accept()
            with accepted:
                before = [*OPEN.iterdir()]
                found = peers.who("unix:", [path], {})
                after = [*OPEN.iterdir()]
    assert (found, len(after)) == ("a process that is gone", len(before))
