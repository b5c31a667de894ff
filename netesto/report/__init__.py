"""Pages and plots, made from the files of a results folder alone."""

import importlib

from netesto import interrupts


def warm_up() -> None:
    """Import what drawing needs, which takes a second, while there is time: the flows run."""
    # What is torn out of an import may turn the request to end into an error of its own.
    with interrupts.undisturbed():
        importlib.import_module("netesto.report.drawing")
