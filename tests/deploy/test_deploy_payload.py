"""What is sent to hosts: small, complete, and named by its content."""

import asyncio
import hashlib
import io
import json
import os
import platform
import py_compile
import re
import struct
import sys
import tarfile
import zipfile
from configparser import RawConfigParser
from dataclasses import replace
from importlib import metadata
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

import pytest

from netesto.deploy import payload
from netesto.deploy.facts import Facts
from netesto.errors import UsageError, WorldError
from netesto.system import process

# What the issue of agents on small hosts allows, unpacked.
ROOM_BYTES = 60_000_000


def unpacked(archive, folder: Path) -> Path:
    with tarfile.open(fileobj=io.BytesIO(archive.data())) as file:
        # Debian 12's Python 3.11.2 has no filters yet; later ones want one.
        if hasattr(tarfile, "data_filter"):
            file.extraction_filter = tarfile.data_filter
        file.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agent")
    unpacked(payload.own().archive, folder / "packages")
    unpacked(payload.code(platform.machine()), folder / "code")
    return folder


def test_what_an_agent_needs_is_below_60_mb(target):
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    assert size < ROOM_BYTES


def test_an_agent_imports_nothing_but_what_is_sent(target):
    env = {**os.environ, "PYTHONPATH": f"{target / 'code'}:{target / 'packages'}"}
    code = (
        "import sys, netesto.agent.daemon, netesto.agent.supervisor, netesto.agent.nursery;"
        "print([name for name, each in sys.modules.items() if '.' not in name"
        " and 'site-packages' in str(getattr(each, '__file__', ''))"
        " and not name.startswith(('_', 'site', 'distutils', 'coverage', 'a1'))])"
    )
    argv = [sys.executable, "-P", "-s", "-S", "-c", code]
    assert process.run(argv, timeout=60, env=env).stdout == "[]\n"


def test_a_dry_run_says_what_would_be_downloaded_and_makes_no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said: list[str] = []
    [packages] = asyncio.run(payload.foreseen("3.99", "x86_64", said.append))
    facts = Facts(python_version="3.99", libc="glibc-2.17")
    size_mb = len(payload.own().archive.data()) // 1_000_000
    start = f"would download packages of agents for Python 3.99 on x86_64, about {size_mb} MB, to "
    found = (packages.fit(facts), [each.startswith(start) for each in said], [*tmp_path.iterdir()])
    assert found == (True, [True], [])


def test_the_extra_of_agents_is_a_part_of_what_the_whole_needs():
    config = RawConfigParser()
    config.read(Path(__file__).parents[2] / "setup.cfg")
    whole = config["options"]["install_requires"].split("\n")
    extra = config["options.extras_require"]["agent"].split("\n")
    assert [each for each in extra if each not in whole] == []


def test_the_traffic_generator_goes_to_hosts_where_it_runs():
    names = []
    for machine in (platform.machine(), "vax"):
        with tarfile.open(fileobj=io.BytesIO(payload.code(machine).data())) as file:
            names.append([each.name for each in file if each.mode == 0o755])
    assert names == [["netesto/traffic/native/netesto-flow"], []]


def test_what_was_compiled_of_another_source_stays_here(tmp_path):
    source = tmp_path / "a.py"
    source.write_text("x = 1\n")
    py_compile.compile(str(source))
    files = {"p/a.py": b"x = 12\n"}
    assert payload._compiled({"p/a.py": source}, files) == {}


def test_what_is_compiled_fits_the_date_of_its_source_in_an_archive(tmp_path):
    (source := tmp_path / "a.py").write_text("x = 1\n")
    py_compile.compile(str(source))
    archive = payload._archive("code", {"a.py": source.read_bytes()}, {"a.py": source})
    arrived = unpacked(archive, tmp_path / "host") / "a.py"
    here, there = (Path(cache_from_source(str(path))).read_bytes() for path in (source, arrived))
    stamp = struct.pack("<III", 0, int(arrived.stat().st_mtime), len("x = 1\n"))
    assert there == MAGIC_NUMBER + stamp + here[16:]


def test_the_same_content_has_the_same_name_and_bytes():
    one, two = payload.code("vax"), payload.code("vax")
    assert (one.name, one.data()) == (two.name, two.data())


def test_packages_fit_a_host_like_this_one_and_no_other():
    mine = payload.own()
    like = Facts(python_version=mine.python, machine=mine.machine, libc="glibc-2.99")
    others = [
        replace(like, python_version="3.99"),
        replace(like, machine="vax"),
        replace(like, libc="glibc-2.4"),
        replace(like, libc="-"),
    ]
    assert [mine.fit(each) for each in (like, *others)] == [True, *[False] * 4]


@pytest.mark.parametrize(
    ("wheel", "glibc"),
    [
        ("Tag: cp311-cp311-manylinux_2_17_x86_64\nTag: cp311-cp311-manylinux2014_x86_64", (2, 17)),
        ("Tag: cp39-abi3-manylinux2014_x86_64", (2, 17)),
        ("Tag: py3-none-any", (0,)),
    ],
)
def test_the_least_glibc_is_in_the_tags_of_a_wheel(wheel, glibc):
    assert payload._glibc_of(wheel) == glibc


def test_a_bundle_has_the_packages_that_were_put_into_it(tmp_path):
    mine = payload.own()
    asyncio.run(payload.make_bundle(tmp_path / "agents.zip", [(mine.python, mine.machine)]))
    (found,) = payload.read_bundle(tmp_path / "agents.zip")
    assert (found.python, found.machine, found.glibc, found.archive.data()) == (
        mine.python,
        mine.machine,
        mine.glibc,
        mine.archive.data(),
    )


def test_the_packages_of_a_bundle_are_named_by_their_content_and_damaged_ones_refused(tmp_path):
    mine, path = payload.own(), tmp_path / "agents.zip"
    asyncio.run(payload.make_bundle(path, [(mine.python, mine.machine)]))
    (found,) = payload.read_bundle(path)
    digest = hashlib.sha256(found.archive.data()).hexdigest()
    with zipfile.ZipFile(path) as bundle:
        index = bundle.read("bundle.json")
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("bundle.json", index)
        bundle.writestr(f"{digest}.tar.gz", b"something else")
    (other,) = payload.read_bundle(path)
    with pytest.raises(UsageError, match="damaged: an archive in it has another SHA"):
        other.archive.data()
    assert found.archive.name == other.archive.name == f"packages-{digest[:16]}"


@pytest.mark.parametrize("name", ["../../evil", "", 7])
def test_a_bundle_cannot_name_a_folder_of_a_host(tmp_path, name):
    entry = {"python": "3.11", "machine": "x86_64", "glibc": [2, 17], "sha256": name}
    with zipfile.ZipFile(tmp_path / "agents.zip", "w") as bundle:
        bundle.writestr("bundle.json", json.dumps([entry]))
    with pytest.raises(UsageError, match="not a bundle"):
        payload.read_bundle(tmp_path / "agents.zip")


def test_a_package_that_was_changed_here_is_not_sent(tmp_path):
    (tmp_path / "a.py").write_text("x = 2")
    info = tmp_path / "a-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: a\nVersion: 1\n")
    (info / "RECORD").write_text(f"a.py,sha256={payload._recorded(b'x = 1', 'sha256')},5\n")
    with pytest.raises(WorldError) as caught:
        payload._packed_distributions([metadata.Distribution.at(info)])
    assert str(caught.value) == (
        f"{tmp_path}/a.py: changed since it was installed\n"
        "Install it again: pip install --force-reinstall a"
    )


def test_every_package_that_pip_downloads_has_a_version_and_hashes():
    lines = payload.locked()
    names = {payload._name(each) for each in payload.requirements()}
    form = re.compile(r"[a-z-]+==[0-9.]+( --hash=sha256:[0-9a-f]{64})+")
    assert (
        [each for each in lines if not form.fullmatch(each)],
        names - {payload._name(each) for each in lines},
    ) == ([], set())


@pytest.mark.parametrize("content", [b"", b"no zip", None])
def test_what_is_no_bundle_is_refused(tmp_path, content):
    path = tmp_path / "agents.zip"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"agents\.zip: (not a bundle|cannot be read)"):
        payload.read_bundle(path)
