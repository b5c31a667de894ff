"""Compiles netesto-flow, the traffic generator, netesto-link, which carries links, and
netesto-registers.so for kernels that run as processes; setup.cfg says everything else of the
project."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

from setuptools import Command, Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

PROGRAMS = {
    "netesto-flow": Path("netesto/traffic/native"),
    "netesto-link": Path("netesto/emulator"),
    "netesto-registers.so": Path("netesto/lab"),
}
SOURCES = {
    name: sorted(str(path) for path in (folder / "source").glob("*.[ch]"))
    for name, folder in PROGRAMS.items()
}
# Linked statically a program runs on every Linux, and starts without a search for libraries.
LINKING = (["-static"], [])
LIBRARY = (["-shared", "-fPIC"],)


class BuildFlow(Command):
    """Each program beside the module that starts it. Without a compiler there are none, and all but
    `tool=native`, STRESS_LINK, links that a program carries, and guests on processors with AMX
    works."""

    user_options: ClassVar[list[Any]] = []
    editable_mode = False
    build_lib: str | None = None

    def initialize_options(self) -> None:
        self.build_lib = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self) -> None:
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            sys.stderr.write(f"not built: {', '.join(PROGRAMS)}: no C compiler (cc, gcc)\n")
            return
        for name in PROGRAMS:
            self._compile(compiler, name)

    def _compile(self, compiler: str, name: str) -> None:
        program = self._program(name)
        program.parent.mkdir(parents=True, exist_ok=True)
        command = [*compiler.split(), "-std=gnu11", "-O2", "-pthread", "-Wall"]
        command += ["-o", f"{program}.new", *(each for each in SOURCES[name] if each[-1] == "c")]
        for linking in LIBRARY if program.suffix == ".so" else LINKING:
            # Before glibc 2.34 timers are in librt, and dlsym is in libdl, which are empty since.
            words = [*command, *linking, "-lm", "-lrt", "-ldl"]
            built = subprocess.run(words, capture_output=True, check=False)
            if built.returncode == 0:
                Path(f"{program}.new").replace(program)
                return
        sys.stderr.write(f"{name} is not built: {built.stderr.decode(errors='replace')}\n")

    def _program(self, name: str) -> Path:
        return Path("" if self.editable_mode else self.build_lib or "") / PROGRAMS[name] / name

    def get_source_files(self) -> list[str]:
        return [path for paths in SOURCES.values() for path in paths]

    def get_outputs(self) -> list[str]:
        return [str(Path(self.build_lib or "") / PROGRAMS[name] / name) for name in PROGRAMS]

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class Build(build):
    sub_commands: ClassVar[list[Any]] = [*build.sub_commands, ("build_flow", None)]


class Wheel(bdist_wheel):
    """One wheel for all versions of Python: the program is not linked with it."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class Binary(Distribution):
    def has_ext_modules(self) -> bool:
        return True


setup(cmdclass={"build": Build, "build_flow": BuildFlow, "bdist_wheel": Wheel}, distclass=Binary)
