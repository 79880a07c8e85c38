"""State that must not be copied: keys, pads, generators, ledgers.

A copy of a one-time pad, of a noise generator or of a counter of releases makes two releases that
look independent and are not. Objects that hold such state refuse to be copied or pickled, and
notice when they find themselves in another process.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn


class CopyRefusedError(TypeError):
    """State that must exist once was to be copied, pickled or used in a forked process."""


class SingleUse:
    """Mix-in: refuses ``copy``, ``deepcopy``, ``pickle`` and use after a fork.

    `advice` says what to do instead. Call `check_process` before anything is released.
    """

    advice = "make one object in each process"
    _process: int

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__new__(cls)
        object.__setattr__(made, "_process", os.getpid())
        return made

    def _refuse(self, how: str) -> NoReturn:
        raise CopyRefusedError(f"{type(self).__name__} must not be {how}: {self.advice}")

    def __copy__(self) -> NoReturn:
        self._refuse("copied")

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self._refuse("copied")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        self._refuse("pickled")

    def __getstate__(self) -> NoReturn:
        self._refuse("pickled")

    def check_process(self) -> None:
        """Raise `CopyRefusedError` in a process other than the one that made the object."""
        if os.getpid() != self._process:
            self._refuse("used in a forked process")
