"""Dry runs of the libraries in JSON, and a short form of each experiment."""

import json
from dataclasses import dataclass
from typing import Any

from netesto.files import paths
from netesto.language.draft import Draft
from netesto.language.dryrun import Form, Printer
from netesto.language.plan import Plan, SourceFile
from netesto.language.planner import make

LIBRARY = paths.library_folder()
SCRIPTS = paths.data_folder() / "scripts"


def dry_run(text: str, **definitions: str) -> list[dict[str, Any]]:
    """The objects that `netesto run --dry-run=json` prints for a script, the summary included."""
    lines, _ = _printed(text, definitions, form="json")
    return [json.loads(line) for line in lines]


def traffic_s(text: str, **definitions: str) -> float:
    """How long the flows and waits of a script take, without the work around them."""
    return _printed(text, definitions)[1].head.totals.simulated_s


def echoed(text: str) -> list[str]:
    """What a script ECHOes in a dry run."""
    return [line for line in _printed(text, {})[0][:-1] if line.startswith("# ")]


def _printed(
    text: str, definitions: dict[str, str], form: Form = "plain"
) -> tuple[list[str], Plan]:
    """What a dry run of a script prints, and its plan."""
    lines: list[str] = []
    printer = Printer(lines.append, form=form)
    # Beside the scripts of ours: files that they name are there.
    script = SourceFile(str(SCRIPTS / "test.nts"), text)
    draft = Draft(seed=1, watch=printer.show)
    plan = make(script, draft, library_path=[LIBRARY], definitions=definitions)
    printer.finish(plan.head)
    return lines, plan


@dataclass
class Experiment:
    """One experiment of a dry run."""

    number: int
    name: str
    description: str
    columns: dict[str, str]
    flows: list[dict[str, str]]

    def describe(self, *keys: str) -> str:
        """One line: its name, and for each group its client, test, and the arguments `keys`."""
        flows = [
            " ".join([f"{each['host']}:{kind(each)}", *[f"{key}={each[key]}" for key in keys]])
            for each in self.flows
        ]
        return f"{self.name} | {', '.join(flows)}"

    def per_client(self) -> str:
        """One line for experiments whose clients all have the same flows: the flows of each."""
        clients = dict.fromkeys(each["host"] for each in self.flows)
        done = {
            client: " + ".join(
                f"{each['instances']}x{kind(each)}" for each in self.flows if each["host"] == client
            )
            for client in clients
        }
        return f"{self.name} | {' '.join(clients)} | {' / '.join(dict.fromkeys(done.values()))}"


def kind(flow: dict[str, str]) -> str:
    """The size of a request test, `S` for a stream."""
    return "S" if flow["test"] == "TCP_STREAM" else flow["req"]


def experiments(objects: list[dict[str, Any]]) -> list[Experiment]:
    """The experiments of a dry run, in the order they are processed, and their DO_CLIENTs."""
    found: list[Experiment] = []
    flows: dict[int, list[dict[str, str]]] = {}
    for each in objects:
        if each.get("command") == "DO_CLIENT":
            flows.setdefault(each["exp"], []).append(each["args"])
        elif each.get("command") == "PROCESS_EXP":
            columns = dict(each["args"])
            name, number = columns.pop("expName"), int(columns.pop("exp"))
            description = columns.pop("desc", "")
            found.append(Experiment(number, name, description, columns, flows.get(number, [])))
    return found


def names(text: str, **definitions: str) -> list[str]:
    """The names of a script's experiments, in order."""
    return [each.name for each in experiments(dry_run(text, **definitions))]
