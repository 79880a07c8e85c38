"""Exit codes of the command, and errors in one line."""

from __future__ import annotations

import errno
import sys

DONE, REFUSED, FAILED = 0, 3, 4
ADVICE = {
    errno.ENOENT: "there is no such file: is the name right, and the folder?",
    errno.EACCES: "this account may not: give it the right, or take another folder",
    errno.EROFS: "the disk is read-only: take a folder that can be written to",
    errno.ENOSPC: "the disk is full: make room, then give the same command again",
    errno.EDQUOT: "the disk quota is used up: make room, then give the same command again",
    errno.EEXIST: "it is there already: move it away, or name another",
    errno.EISDIR: "it is a folder: name a file",
}


def say(error: BaseException, code: int) -> int:
    """One line about an error, and the exit code."""
    said = str(error)
    if isinstance(error, OSError) and error.errno is not None:
        name = str(error.filename or "a file").rpartition("/")[2]
        said = f"{name}: {ADVICE.get(error.errno, error.strerror)}"
    if isinstance(error, KeyboardInterrupt):
        said = said or "stopped"
    print(f"fedclust: {' '.join(said.split()) or type(error).__name__}", file=sys.stderr)
    return code
