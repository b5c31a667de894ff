"""Traffic generators: their commands, and the meaning of their output."""

from netesto.traffic.base import Tool
from netesto.traffic.choice import EXTRAS, TOOLS, choose, needed_options

__all__ = ["EXTRAS", "TOOLS", "Tool", "choose", "needed_options"]
