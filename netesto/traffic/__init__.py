"""Traffic generators: their commands, and the meaning of their output."""

from netesto.traffic.base import Tool
from netesto.traffic.choice import EXTRAS, TOOLS, choose, not_honoured, to_blame

__all__ = ["EXTRAS", "TOOLS", "Tool", "choose", "not_honoured", "to_blame"]
