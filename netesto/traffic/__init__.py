"""Programs that make traffic: their commands, and what their output means."""

from netesto.traffic.base import Tool
from netesto.traffic.choice import TOOLS, asked_options, choose

__all__ = ["TOOLS", "Tool", "asked_options", "choose"]
