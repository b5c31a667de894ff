import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from netesto.system import process

ROOT = Path(__file__).resolve().parents[2]
PROTO = Path("netesto/proto")

# What the checked-in types were made with; other versions write them in another form.
MADE_WITH = "1.85.1"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("grpc_tools")
    folder = tmp_path_factory.mktemp("generated")
    argv = [sys.executable, "-m", "grpc_tools.protoc", "-I.", str(PROTO / "agent.proto")]
    argv += [f"--descriptor_set_out={folder}/agent.desc", f"--pyi_out={folder}"]
    process.run(argv, timeout=60, cwd=ROOT)
    return folder


def test_descriptor_is_that_of_the_proto_file(generated: Path):
    assert (ROOT / PROTO / "agent.desc").read_bytes() == (generated / "agent.desc").read_bytes()


def test_types_are_those_of_the_proto_file(generated: Path):
    if version("grpcio-tools") != MADE_WITH:
        pytest.skip(f"the checked-in types were made with grpcio-tools {MADE_WITH}")
    types = (generated / PROTO / "agent_pb2.pyi").read_text()
    assert (ROOT / PROTO / "messages.pyi").read_text() == types
