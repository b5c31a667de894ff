"""Pages and plots, made from the files of a results folder alone."""

import importlib


def warm_up() -> None:
    """Import what drawing needs, which takes a second, while there is time: the flows run."""
    importlib.import_module("netesto.report.plots")
