import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from netesto import process

ROOT = Path(__file__).resolve().parents[2]
PROTO = Path("netesto/proto")

# What the checked-in code was made with; other versions make other comments and checks.
MADE_WITH = "1.85.1"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("grpc_tools")
    if version("grpcio-tools") != MADE_WITH:
        pytest.skip(f"the checked-in code was made with grpcio-tools {MADE_WITH}")
    folder = tmp_path_factory.mktemp("generated")
    argv = [sys.executable, "-m", "grpc_tools.protoc", "-I.", str(PROTO / "agent.proto")]
    argv += [f"--{kind}_out={folder}" for kind in ("python", "pyi")]
    process.run(argv, timeout=60, cwd=ROOT)
    return folder


@pytest.mark.parametrize("name", ["agent_pb2.py", "agent_pb2.pyi"])
def test_generated_code_is_that_of_the_proto_file(name: str, generated: Path):
    assert (ROOT / PROTO / name).read_text() == (generated / PROTO / name).read_text()
