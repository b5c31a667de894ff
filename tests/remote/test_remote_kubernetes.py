"""The manifest and the container recipe: valid, with the rights that an agent needs and no more."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from netesto.agent import config, examination
from netesto.system import process

FOLDER = Path(__file__).parents[2] / "remote" / "kubernetes"
MANIFEST = FOLDER / "netesto-agent.yaml"

# A packet is captured; tcpdump first gives up the groups of root.
CAPTURE = (
    "ping -i 0.05 127.0.0.1 >/dev/null & tcpdump -Z root -i lo -c 1 -w /dev/null;"
    " status=$?; kill $!; exit $status"
)

# What needs each capability, as the agent runs it.
NEEDS = {
    "NET_ADMIN": ["tc", "qdisc", "replace", "dev", "lo", "root", "pfifo"],
    "NET_RAW": ["ping", "-c", "1", "-n", "127.0.0.1"],
    "SETGID": ["sh", "-c", CAPTURE],
}


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    """The objects of the manifest by their kinds."""
    loaded = yaml.safe_load_all(MANIFEST.read_text())
    return {document["kind"]: document for document in loaded}


@pytest.fixture(scope="module")
def pod(documents: dict[str, Any]) -> Any:
    return documents["DaemonSet"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def container(pod: Any) -> Any:
    """That of the agent."""
    return pod["containers"][0]


@pytest.fixture(scope="module")
def stunnel(pod: Any) -> Any:
    """The container beside it."""
    [stunnel] = pod["containers"][1:]
    return stunnel


@pytest.mark.parametrize("kind", ["Namespace", "ConfigMap", "DaemonSet"])
def test_the_manifest_is_valid_by_the_schemas_of_kubernetes(documents, kind):
    schemas = pytest.importorskip(
        "kubernetes_validate", reason="the schemas are not there: pip install kubernetes-validate"
    )
    newest, _, _ = schemas.latest_version().rpartition(".")
    assert schemas.validate(documents[kind], newest, strict=True) == newest


def test_the_agent_has_the_capabilities_that_its_commands_need_and_no_more(container):
    rights = container["securityContext"]
    assert rights["capabilities"] == {"drop": ["ALL"], "add": list(NEEDS)}
    assert (rights["privileged"], rights["allowPrivilegeEscalation"]) == (False, False)


@pytest.fixture(scope="module")
def namespace(lab_obstacle: str) -> Iterator[str]:
    if lab_obstacle:
        pytest.skip(f"lab: {lab_obstacle}")
    name = f"netesto-capabilities-{os.getpid()}"
    process.run(["ip", "netns", "add", name], timeout=60)
    process.run(["ip", "-n", name, "link", "set", "lo", "up"], timeout=60)
    # Root may use ping without NET_RAW if its group may.
    closed = ["sysctl", "-qw", "net.ipv4.ping_group_range=1 0"]
    process.run(["ip", "netns", "exec", name, *closed], timeout=60)
    yield name
    process.run(["ip", "netns", "delete", name], timeout=60)


def status(namespace: str, capabilities: set[str], command: list[str]) -> int:
    """The outcome of a command that root runs with these capabilities."""
    added = "".join(f",+{name.lower()}" for name in sorted(capabilities))
    limits = [f"--bounding-set=-all{added}", f"--inh-caps=-all{added}"]
    argv = ["ip", "netns", "exec", namespace, "setpriv", *limits, *command]
    return process.run(argv, timeout=60, check=False).status


@pytest.mark.lab
@pytest.mark.parametrize("capability", NEEDS)
def test_what_needs_a_capability_works_with_all_of_them_and_not_without_it(namespace, capability):
    command = NEEDS[capability]
    with_all = status(namespace, set(NEEDS), command)
    without = status(namespace, set(NEEDS) - {capability}, command)
    assert (with_all, without == 0) == (0, False)


def test_stunnel_has_no_capabilities_and_the_user_of_the_agents_socket(container, stunnel):
    rights = stunnel["securityContext"]
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert (rights["privileged"], rights["allowPrivilegeEscalation"]) == (False, False)
    assert rights["runAsUser"] == container["securityContext"]["runAsUser"] == 0


def test_the_agent_cannot_write_to_its_image_nor_talk_to_the_cluster(pod):
    for each in pod["containers"]:
        assert each["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["automountServiceAccountToken"] is False
    assert {key: pod.get(key) for key in ("hostNetwork", "hostPID", "hostIPC")} == {
        "hostNetwork": True, "hostPID": None, "hostIPC": None,
    }  # fmt: skip


def test_the_journal_outlives_the_pod_and_nothing_else_of_the_node_is_mounted(pod):
    of_the_node = [each["hostPath"] for each in pod["volumes"] if "hostPath" in each]
    assert of_the_node == [{"path": "/var/lib/netesto", "type": "DirectoryOrCreate"}]


def test_the_secret_is_for_stunnel_alone(pod):
    [secret] = [each["secret"] for each in pod["volumes"] if "secret" in each]
    assert secret == {"secretName": "netesto-agent-tls", "defaultMode": 0o400}
    of = [
        each["name"]
        for each in pod["containers"]
        if any(mount["name"] == "tls" for mount in each["volumeMounts"])
    ]
    assert of == ["stunnel"]


def test_all_that_is_mounted_is_there(pod):
    mounted = {mount["name"] for each in pod["containers"] for mount in each["volumeMounts"]}
    assert mounted == {each["name"] for each in pod["volumes"]}


def test_the_configuration_is_one_that_an_agent_reads(documents, tmp_path):
    (tmp_path / "agent.toml").write_text(documents["ConfigMap"]["data"]["agent.toml"])
    assert config.read(tmp_path / "agent.toml") == config.Config()


def test_stunnel_connects_to_the_socket_of_the_agent_with_files_that_are_mounted(
    documents, container, stunnel
):
    """tests/machines/test_reaching.py runs it."""
    lines = documents["ConfigMap"]["data"]["stunnel.conf"].splitlines()
    given = dict(line.split(" = ") for line in lines if " = " in line)
    mounts = {each["mountPath"] for each in stunnel["volumeMounts"]}
    [port] = stunnel["ports"]
    assert stunnel["command"] == ["stunnel4", "/etc/netesto/stunnel.conf"]
    assert {str(Path(given[key]).parent) for key in ("cert", "key", "CAfile")} <= mounts
    assert (f"unix:{given['connect']}",) == config.Config().listen
    assert (given["accept"], given["verifyChain"]) == (str(port["containerPort"]), "yes")
    # An agent refuses a folder that everybody may write to, as they may to a volume.
    shared = {"mountPath": "/run", "name": "run"}
    assert all(shared in each["volumeMounts"] for each in (container, stunnel))


def test_the_image_has_every_command_that_an_agent_runs():
    text = (FOLDER / "Containerfile").read_text()
    installed = set(
        re.findall(
            r"[a-z0-9-]+", text.partition("--no-install-recommends \\")[2].partition("&&")[0]
        )
    )
    packages = {"ip": "iproute2", "tc": "iproute2", "ping": "iputils-ping"}
    needed = (*examination.COMMANDS, "iperf3", "stunnel4")
    assert {packages.get(each, each) for each in needed} <= installed


def test_the_image_starts_an_agent_with_the_mounted_configuration(container):
    text = (FOLDER / "Containerfile").read_text()
    assert text.splitlines()[-1] == (
        'ENTRYPOINT ["netesto-agent", "--config", "/etc/netesto/agent.toml"]'
    )
    assert {"command", "args"}.isdisjoint(container)
