"""docs/hosts.md takes two bare machines to a page, by the commands that it shows."""

import re

from typed import found
from worlds import machines

from netesto import paths

PATIENCE_S = 100

PAGE = (paths.data_folder() / "docs" / "hosts.md").read_text(encoding="utf-8")
WAY = found(r"^## From two names to a page\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)[1]


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", WAY, re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_page_lead_from_two_names_to_a_page(tmp_path):
    with machines("host1", "host2", folder=tmp_path, bare=True) as world:
        (script,) = blocks("nts")
        world.controller.write("my.nts", script)
        commands = [line for block in blocks("sh") for line in block.splitlines()]
        for command in commands:
            world.controller.run(command.split(), timeout=PATIENCE_S)
        assert (len(commands), world.controller.exists("results/my/1/exp.html")) == (3, True)
