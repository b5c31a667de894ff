"""Traffic generators: their commands, and the meaning of their output."""

from netesto.traffic.base import Tool
from netesto.traffic.choice import TOOLS, choose, every_extra, not_honoured, to_blame

__all__ = ["TOOLS", "Tool", "choose", "every_extra", "not_honoured", "to_blame"]
