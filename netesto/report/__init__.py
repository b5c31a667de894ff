"""Pages and plots, made from the files of a results folder alone."""

import importlib

from netesto.system import interrupts

# What drawing needs, in an order in which no import takes much longer than another.
_NEEDED = (
    "numpy",
    "matplotlib.colors",
    "matplotlib.axis",
    "matplotlib.figure",
    "netesto.report.figures",
    "netesto.report.drawing",
)


def warm_up() -> None:
    """Import the modules for drawing, which takes a second. A request to end takes effect after the
    import that it meets: an interrupted one may turn it into another error."""
    for name in _NEEDED:
        with interrupts.undisturbed():
            importlib.import_module(name)
