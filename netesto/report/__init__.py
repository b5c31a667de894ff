"""Pages and plots, made from the files of a results folder alone."""

import importlib

from netesto.system import interrupts


def warm_up() -> None:
    """Import the modules for drawing, which takes a second, while flows run."""
    # An interrupted import may turn the request to end into another error.
    with interrupts.undisturbed():
        importlib.import_module("netesto.report.drawing")
