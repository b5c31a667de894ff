"""Flows as routers see them, and how evenly these divide them among equal links. Pure."""

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from netesto.model import Address

Protocol: TypeAlias = Literal["tcp", "udp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedFlow:
    """The fields of a flow's packets that routers use."""

    source: Address
    destination: Address
    source_port: int
    destination_port: int
    protocol: Protocol = "tcp"

    @property
    def reversed(self) -> "RoutedFlow":
        """Those of the other direction."""
        return replace(
            self,
            source=self.destination,
            destination=self.source,
            source_port=self.destination_port,
            destination_port=self.source_port,
        )


def variation(flows: Sequence[int]) -> float:
    """The coefficient of variation of the flows on links: 0 if all have the same."""
    mean = statistics.fmean(flows)
    return statistics.pstdev(flows) / mean if mean else 0.0


def pod(aggregation: str, aggregations: Collection[str]) -> int:
    """The pod, from 1 on, of a router a1, a2, … of a fat tree (lab.shapes) that has these."""
    half = math.isqrt(len(aggregations) // 2)
    return (int(aggregation[1:]) - 1) // half + 1
