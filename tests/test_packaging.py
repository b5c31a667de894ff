"""The package as users install it: a wheel, outside of a checkout."""

import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from netesto.system import process

ROOT = Path(__file__).parents[1]
LEFT_OUT = shutil.ignore_patterns(
    ".*", "__pycache__", "*.egg-info", "bench", "build", "results", "tests"
)


def python(*words: str, **options) -> process.CompletedCommand:
    return process.run([sys.executable, *words], timeout=400, **options)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy: setuptools leaves a folder in what it builds from."""
    folder = tmp_path_factory.mktemp("wheel")
    source = shutil.copytree(ROOT, folder / "source", ignore=LEFT_OUT)
    words = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(folder)]
    python("-m", "pip", "wheel", *words, str(source))
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def target(wheel, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    words = ["--no-deps", "--no-compile", "--quiet", "--target", str(folder)]
    python("-m", "pip", "install", *words, str(wheel))
    return folder


def test_wheel_has_what_an_agent_needs_as_a_service(wheel):
    names = {name.partition(".data/data/")[2] for name in zipfile.ZipFile(wheel).namelist()}
    folder = "share/netesto"
    wanted = {
        f"{folder}/{name}"
        for name in (
            "fields.txt", "lib/inlib", "scripts/two-flows.nts", "remote/agent.toml",
            "remote/netesto-agent.service", "local/hosts.toml",
        )
    }  # fmt: skip
    assert wanted - names == set()


def test_wheel_has_what_a_kernel_is_made_of(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    recipe = ("kernel.config", "repeatable.h", "memory.h", "switches.h")
    assert {f"netesto/lab/{name}" for name in recipe} <= names


def test_installed_into_a_folder_it_finds_its_libraries_and_runs_a_script(target, tmp_path):
    script = tmp_path / "first.nts"
    script.write_text(
        "LAB pair\nSOURCE inlib\nRUN OneFlowStream server=b client=a ca=cubic dur=5\n"
    )
    env = os.environ | {"PYTHONPATH": str(target)}
    told = python("-P", "-m", "netesto", "run", "-n", str(script), env=env, cwd=tmp_path)
    assert "1 experiment, 1 flow" in told.stdout


def test_without_a_compiler_the_build_says_what_is_missing_and_goes_on():
    env = {"PATH": os.devnull}
    built = process.run(
        [sys.executable, "setup.py", "-q", "build_flow"], timeout=60, cwd=ROOT, env=env
    )
    programs = "netesto-flow, netesto-link, netesto-registers.so"
    assert built.stderr == f"not built: {programs}: no C compiler (cc, gcc)\n"


def test_the_build_links_the_libraries_that_older_systems_have_apart(tmp_path):
    shutil.copy(ROOT / "setup.py", tmp_path)
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\necho "$@" >&2\nexit 1\n')
    compiler.chmod(0o755)
    env = os.environ | {"CC": str(compiler)}
    built = process.run(
        [sys.executable, "setup.py", "-q", "build_flow"], timeout=60, cwd=tmp_path, env=env
    )
    assert built.stderr.split()[-3:] == ["-lm", "-lrt", "-ldl"]
