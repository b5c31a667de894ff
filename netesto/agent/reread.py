"""Files of an agent that are read again when they are replaced."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from netesto.errors import UsageError

log = logging.getLogger(__name__)

Content = TypeVar("Content")


class Reread(Generic[Content]):
    """The current content of the file at `path`, as `read` gives it: a replaced file is read when
    the content is wanted next; as long as it is invalid, the previous content applies. UsageError
    if it is invalid from the start. `what` is its name in the log, and `changed` gets the earlier
    content and the new one.
    """

    def __init__(
        self,
        path: Path | None,
        read: Callable[[], Content],
        *,
        what: str,
        changed: Callable[[Content, Content], None] = lambda _, __: None,
    ) -> None:
        self._path = path
        self._read = read
        self._what = what
        self._changed = changed
        self._last = (_signature(path), read())

    def now(self) -> Content:
        """The content."""
        known, content = self._last
        if self._path is None or (signature := _signature(self._path)) == known:
            return content
        before = content
        try:
            content = self._read()
        except UsageError as error:
            log.error(f"{self._what} not read again", extra={"reason": str(error)})  # noqa: TRY400, G004 - the reason says it all
        else:
            log.info(f"{self._what} read again", extra={"file": str(self._path)})  # noqa: G004 - a fixed word
            self._changed(before, content)
        self._last = (signature, content)
        return content


def _signature(path: Path | None) -> tuple[int, int, int] | None:
    """A value that changes when the file is replaced; None if there is no file."""
    try:
        state = path.stat() if path is not None else None
    except OSError:
        return None
    return state and (state.st_ino, state.st_mtime_ns, state.st_size)
