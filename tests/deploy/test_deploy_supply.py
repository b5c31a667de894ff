"""Packages for hosts of other kinds, downloaded by this machine."""

import asyncio
from dataclasses import replace

import pytest

from netesto.deploy import plan
from netesto.deploy.facts import Facts
from netesto.deploy.payload import Archive, Packages
from netesto.deploy.plan import WantedHost
from netesto.deploy.supply import Supply
from netesto.errors import AgentError, ProcessError

OURS = Packages("3.13", "x86_64", (2, 17), Archive("packages-1", lambda: b""))
THEIRS = replace(OURS, python="3.11", archive=Archive("packages-2", lambda: b""))
WANTED = WantedHost(
    code=lambda _: Archive("code-1", lambda: b""), packages=[OURS], requirements=["a>=1"]
)
DEBIAN = Facts(python_version="3.11")


class Index:
    """A package index, and the requests to it."""

    def __init__(self, *, is_reached: bool = True) -> None:
        self.asked: list[tuple[str, str]] = []
        self.is_reached = is_reached

    async def kept(self, python, machine, _):
        self.asked.append((python, machine))
        if not self.is_reached:
            raise ProcessError(["python3"], "exit status 1: no index")
        return [THEIRS]


def supplied(index: Index, *hosts: Facts, wanted: WantedHost = WANTED) -> list[WantedHost]:
    async def supply() -> list[WantedHost]:
        made = Supply(wanted, print, kept=index.kept)
        return await asyncio.gather(*map(made.to, hosts))

    return asyncio.run(supply())


def test_packages_for_hosts_of_another_kind_are_downloaded_once():
    index = Index()
    both = replace(WANTED, packages=[OURS, THEIRS])
    assert (supplied(index, DEBIAN, DEBIAN), index.asked) == ([both] * 2, [("3.11", "x86_64")])


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        (replace(DEBIAN, python_version="3.13"), WANTED),
        (DEBIAN, replace(WANTED, offline=True)),
        (replace(DEBIAN, python=""), WANTED),
        (replace(DEBIAN, libc="-"), WANTED),
    ],
    ids=["ours fit", "offline", "no Python", "no glibc"],
)
def test_nothing_is_downloaded_that_is_of_no_use(facts, wanted):
    index = Index()
    assert (supplied(index, facts, wanted=wanted), index.asked) == ([wanted], [])


def test_nothing_is_downloaded_for_a_host_that_has_what_its_own_pip_got():
    index = Index()
    there = plan._folder_of(None, DEBIAN, WANTED.requirements)
    facts = replace(DEBIAN, cached=frozenset({there}))
    assert (supplied(index, facts), index.asked) == ([WANTED], [])


def test_without_a_package_index_here_the_pip_of_each_host_is_tried():
    index, host = Index(is_reached=False), replace(DEBIAN, pip=True)
    assert (supplied(index, host, host), len(index.asked)) == ([WANTED] * 2, 1)


def test_without_a_package_index_and_pip_the_remedy_is_a_bundle():
    with pytest.raises(AgentError) as caught:
        supplied(Index(is_reached=False), DEBIAN)
    message = (
        "no packages for Python 3.11 on x86_64, no pip there, and here python3: exit status 1:"
        " no index"
    )
    assert (caught.value.message, caught.value.remedy) == (message, plan.bundle(DEBIAN))
