"""What a run of netesto measured, read from its results folder."""

import csv
import functools
import json
import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np

from netesto.results import sockets

_RECEIVED = re.compile(r"^REMOTE_RECV_THROUGHPUT=(.+)$", re.MULTILINE)


class NotMeasuredError(Exception):
    """A value that the results should have, and do not."""


@dataclass(frozen=True)
class Group:
    """One DO_CLIENT of an experiment; `folder` is the experiment's."""

    folder: Path
    number: int
    row: dict[str, str]

    def value(self, column: str) -> float:
        """A column of exp.csv; NotMeasuredError if it is empty or the group has failed."""
        if not self.row.get(column):
            reason = self.row["status"] if self.row["status"] != "ok" else "the column is empty"
            raise NotMeasuredError(f"{column}: {reason}")
        return float(self.row[column])

    @functools.cached_property
    def result(self) -> dict[str, Any]:
        """The result of tool=native."""
        output = self.raw("host") / f"flow.{self.number}.1.out"
        return json.loads(output.read_text().splitlines()[-1])

    def raw(self, end: str) -> Path:
        """The raw files of the `host` or its `server`."""
        return self.folder / "raw" / self.row[end]

    def transfers(self) -> list[dict[str, str]]:
        """Those of TCP_FLOWS and TCP_MESSAGES, all instances."""
        found: list[dict[str, str]] = []
        for path in sorted(self.raw("host").glob(f"completions.{self.number}.*.csv")):
            with path.open(newline="") as file:
                found += csv.DictReader(file)
        return found

    def rates(self) -> list[float]:
        """What netperf's server got of each instance, in kbit/s."""
        outputs = sorted(self.raw("host").glob(f"flow.{self.number}.*.out"))
        found = [_RECEIVED.search(output.read_text()) for output in outputs]
        return [float(each[1]) if each else 0.0 for each in found]

    def sockets(self) -> list[Any]:
        """The samples of each flow's socket at the client, an array of records for each instance
        that was sampled."""
        request = json.loads((self.raw("server") / f"server.{self.number}.json").read_text())
        server = ip_address(request["request"]["server_address"]).packed
        # Groups with different intervals have different files.
        files = [sockets.read(path) for path in sorted(self.raw("host").glob("sockets*.bin.gz"))]
        found = []
        for port in request["ports"]["data"]:
            for samples in files:
                is_to_port = samples["idiag_dport"] == port
                is_to_host = [
                    sample.tobytes()[: len(server)] == server for sample in samples["idiag_dst"]
                ]
                is_established = samples["idiag_state"] == 1
                own = samples[is_to_port & is_established & np.array(is_to_host, bool)]
                if len(own) > 0:
                    found.append(own)
        if not found:
            raise NotMeasuredError("no samples of sockets")
        return found


@dataclass(frozen=True)
class Results:
    """A results folder."""

    folder: Path

    @functools.cached_property
    def rows(self) -> dict[str, dict[str, str]]:
        with (self.folder / "exp.csv").open(newline="") as file:
            return {row["exp"]: row for row in csv.DictReader(file)}

    @property
    def has_rows(self) -> bool:
        return (self.folder / "exp.csv").is_file()

    def changes(self, experiment: int) -> list[float]:
        """When SET_LINK was executed in the experiment, in its order; UTC seconds. Each direction
        of a link has a record."""
        text = (self.folder / str(experiment) / "manifest.json").read_text()
        hosts = json.loads(text)["hosts"]
        each = hosts.values() if isinstance(hosts, dict) else hosts
        made = [setting for host in each for setting in host.get("settings", [])]
        return sorted({setting["made_s"] for setting in made})

    def group(self, experiment: int, number: int = 1) -> Group:
        row = self.rows.get(f"{experiment}.{number}")
        if row is None:
            raise NotMeasuredError(f"no row {experiment}.{number} in exp.csv")
        return Group(self.folder / str(experiment), number, row)
