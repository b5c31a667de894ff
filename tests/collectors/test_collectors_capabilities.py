import pytest

from netesto.collectors import capabilities
from netesto.collectors.capabilities import Modules
from netesto.errors import ProcessError
from netesto.model import QDISCS
from netesto.system import proc

BOOT = "6143c6f3 6.1.0 sch_netem"


def test_a_kind_is_created_with_the_fewest_options():
    assert capabilities.plan(["netem", "tbf", "ingress"]) == [
        ("qdisc replace dev lo root netem", "netem"),
        ("qdisc replace dev lo root tbf rate 10mbit burst 10000 limit 100000", "tbf"),
        ("qdisc add dev lo ingress", "ingress"),
        ("qdisc del dev lo ingress", ""),
        ("qdisc replace dev lo root pfifo limit 100", ""),
        ("qdisc show dev lo", ""),
    ]


def test_a_small_kernel_creates_what_it_has(fixtures):
    said = (fixtures / "tc-6.1.0-batch-linux-6.18.txt").read_text()
    assert capabilities.created(capabilities.plan(QDISCS), said) == {
        "bfifo", "clsact", "htb", "ingress", "noqueue", "pfifo", "pfifo_fast", "tbf",
    }  # fmt: skip


def test_a_kernel_with_all_modules_creates_all_it_knows(fixtures):
    said = (fixtures / "tc-6.1.0-batch-linux-6.1.176-modules.txt").read_text()
    found = capabilities.created(capabilities.plan(QDISCS), said)
    assert QDISCS - found == {"dualpi2", "ets", "fq_pie"}


def test_a_kind_that_tc_itself_does_not_know_is_not_created():
    batch = [("qdisc replace dev lo root new limit 1", "new"), ("qdisc show dev lo", "")]
    said = 'Unknown qdisc "new", hence option "limit" is unparsable\nCommand failed -:1\n'
    assert capabilities.created(batch, said) == frozenset()


def test_modules_on_disk_are_read(fixtures):
    text = (fixtures / "modules.dep-linux-6.1.176.txt").read_text()
    found = capabilities.parse_modules(text)
    assert found.congestion_controls == {
        "bbr", "bic", "cdg", "dctcp", "highspeed", "htcp", "hybla", "illinois", "lp", "nv",
        "scalable", "vegas", "veno", "westwood", "yeah",
    }  # fmt: skip
    assert {"netem", "fq", "ingress", "clsact"} <= found.qdiscs <= QDISCS


def test_packed_modules_are_read():
    text = "kernel/net/ipv4/tcp_bbr.ko.xz:\nkernel/net/sched/sch_fq_codel.ko.zst: kernel/x.ko\n"
    assert capabilities.parse_modules(text) == Modules(frozenset({"bbr"}), frozenset({"fq_codel"}))


def test_modules_that_are_built_in_are_read():
    text = "kernel/net/sched/sch_fq.ko\nkernel/net/ipv4/tcp_cubic.ko\n"
    assert capabilities.parse_modules(text) == Modules(frozenset({"cubic"}), frozenset({"fq"}))


def test_tcp_modules_that_control_no_congestion_are_left_out():
    assert capabilities.parse_modules("kernel/net/ipv4/tcp_diag.ko:\n") == Modules()


def test_what_was_found_is_remembered_until_the_next_boot(tmp_path):
    capabilities.remember(tmp_path / "run", BOOT, frozenset({"tbf", "htb"}))
    assert capabilities.recall(tmp_path / "run", BOOT) == frozenset({"tbf", "htb"})


def test_another_boot_or_module_makes_memory_void(tmp_path):
    capabilities.remember(tmp_path, BOOT, frozenset({"tbf"}))
    assert capabilities.recall(tmp_path, "6143c6f3 6.1.0 sch_fq sch_netem") is None


def test_boot_is_identity_kernel_and_loaded_qdiscs():
    identity, kernel, *loaded = capabilities._boot("6.1.0").split()
    assert (identity, kernel) == (proc.boot_id(), "6.1.0")
    assert all(name.startswith("sch_") for name in loaded)


def test_memory_that_makes_no_sense_is_none(tmp_path):
    (tmp_path / "qdiscs.json").write_text("[]")
    assert capabilities.recall(tmp_path, BOOT) is None


def test_memory_leaves_nothing_but_its_file(tmp_path):
    capabilities.remember(tmp_path, BOOT, frozenset({"tbf"}))
    assert [path.name for path in tmp_path.iterdir()] == ["qdiscs.json"]


def test_memory_that_cannot_be_kept_does_no_harm(tmp_path):
    (tmp_path / "file").touch()
    capabilities.remember(tmp_path / "file" / "run", BOOT, frozenset({"tbf"}))
    assert capabilities.recall(tmp_path / "file" / "run", BOOT) is None


@pytest.mark.usefixtures("no_tools")
def test_without_tools_qdiscs_are_unknown_and_it_says_why(tmp_path):
    found = capabilities.probe(memory=tmp_path)
    assert (found.qdiscs, found.unknown) == (
        None,
        "cannot try qdiscs: unshare: cannot start: No such file or directory",
    )


@pytest.mark.lab
def test_this_kernel_creates_a_token_bucket_and_no_nonsense(tmp_path):
    found = capabilities.probe(memory=tmp_path)
    assert "tbf" in (found.qdiscs or ())
    assert set(found.qdiscs or ()) <= QDISCS


@pytest.mark.lab
def test_memory_gives_what_trying_gave(tmp_path):
    assert capabilities.probe(memory=tmp_path) == capabilities.probe(memory=tmp_path)


@pytest.mark.lab
def test_a_tc_that_did_not_run_is_an_error(monkeypatch, tmp_path):
    (tmp_path / "unshare").symlink_to("/usr/bin/unshare")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProcessError, match="failed to execute tc"):
        capabilities.try_qdiscs(["tbf"])
