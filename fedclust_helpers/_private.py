"""Files for one account alone: journals, locks, results. Mode 0600 from their first byte on."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def private(path: str | os.PathLike[str], flags: int) -> int:
    """An opener for ``open``: whom a new file is for is decided when it is made, not after."""
    return os.open(path, flags, 0o600)


def tighten(path: Path) -> Path:
    """The same path; a file of this account that is there is from now on for it alone."""
    with suppress(FileNotFoundError, PermissionError):  # another account's is that one's to judge
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    return path


def write_private(path: Path, text: str) -> None:
    """Write `text` to `path`, as a whole or not at all: written beside it, on the disk, renamed."""
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)  # of a process that was killed
    try:
        with open(beside, "x", encoding="utf-8", opener=private) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
