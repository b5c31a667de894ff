"""Files that people write: lists, settings, tables."""

from pathlib import Path

from netesto.errors import UsageError


def read(path: Path, *, remedy: str = "", most_mib: int | None = None) -> str:
    """The text of a file in UTF-8. UsageError if it cannot be read, with the `remedy`, or is larger
    than `most_mib` MiB."""
    try:
        if most_mib is not None and path.stat().st_size > most_mib * 2**20:
            raise UsageError(f"{path}: too large", remedy=f"It has at most {most_mib} MiB.")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        cause = error.strerror or error
        raise UsageError(f"{path}: cannot be read: {cause}", remedy=remedy) from error
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text", remedy="Save it as UTF-8.") from None
