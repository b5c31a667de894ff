"""The places of Netesto's data files: lib/, scripts/, fields.txt; in a checkout or installed;
and of what it keeps for the user."""

import os
import sys
import sysconfig
from pathlib import Path


def data_folder() -> Path:
    """The folder that holds lib/, scripts/ and fields.txt.

    In a checkout it is the root of the checkout; installed, `share/netesto` of the environment, or
    of the folder that `pip install --target` was given.
    """
    root = Path(__file__).resolve().parents[2]
    if (root / "fields.txt").is_file() and (root / "lib").is_dir():
        return root
    for data in (root, sysconfig.get_path("data"), sys.prefix, "/usr/local", "/usr"):
        folder = Path(data) / "share" / "netesto"
        if (folder / "fields.txt").is_file():
            return folder
    return root


def cache_folder() -> Path:
    """What can be made again, and takes long."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # A relative path is invalid by the XDG base directory specification.
    base = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    return base / "netesto"


def library_folder() -> Path:
    """The installed macro libraries."""
    return data_folder() / "lib"


def fields_file() -> Path:
    """The default fields.txt."""
    return data_folder() / "fields.txt"
