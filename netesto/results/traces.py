"""The lines of trace.csv: what became of each flow and request of a DO_TRACE."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from netesto.errors import OutputError

NAME = "trace.csv"
FLOW = "flow"
MISS = "miss"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedEvent:
    """A flow or request of the trace, its `number` among those of its group. Times count from the
    common instant; None: it did not begin, or nothing arrived. `in_time` bytes of a flow arrived
    within its duration. `reason` is why it failed, "" if it did not."""

    group: int
    number: int
    kind: Literal["flow", "set", "get"]
    start_s: float | None
    destination: str
    port: int
    peer_port: int
    sent_bytes: int
    received_bytes: int
    us: float | None
    status: str
    in_time_bytes: int

    @property
    def reason(self) -> str:
        return "" if self.status in {"ok", MISS} else self.status.removeprefix("failed: ")


def read(path: Path) -> list[PlayedEvent]:
    """The lines of a file. OutputError if one is invalid."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(_lines(path, csv.DictReader(file)))


def _lines(path: Path, rows: "csv.DictReader[str]") -> Iterator[PlayedEvent]:
    for row in rows:
        try:
            yield PlayedEvent(
                group=int(row["group"]),
                number=int(row["number"]),
                kind=row["kind"],  # type: ignore[arg-type]  # netesto-flow writes one of them
                start_s=float(row["start_s"]) if row["start_s"] else None,
                destination=row["destination"],
                port=int(row["sport"]),
                peer_port=int(row["dport"]),
                sent_bytes=int(row["bytes_sent"]),
                received_bytes=int(row["bytes_received"]),
                us=float(row["us"]) if row["us"] else None,
                status=row["status"],
                in_time_bytes=int(row["bytes_in_time"]),
            )
        except (KeyError, ValueError, TypeError) as error:
            line = rows.line_num
            raise OutputError(f"{path}: line {line} is not one of a trace: {error}") from None
