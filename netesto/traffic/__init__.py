"""Programs that make traffic: their commands, and the meaning of their output."""

from netesto.traffic.base import Tool
from netesto.traffic.choice import TOOLS, choose, needed_options

__all__ = ["TOOLS", "Tool", "choose", "needed_options"]
