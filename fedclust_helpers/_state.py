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


class Sealed(type):
    """Metaclass: public attributes of an object cannot be set once it is made.

    What a release depends on (noise, bound, ledger, who adds noise) is decided by the constructor;
    replacing it afterwards would make the ledger tell something else than what happens.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        object.__setattr__(made, "_is_sealed", True)
        return made


class Fixed(metaclass=Sealed):
    """Mix-in for objects whose public attributes are fixed by their constructor."""

    _is_sealed = False

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_sealed and not name.startswith("_"):
            raise AttributeError(f"{name} of {type(self).__name__} is fixed when it is made")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name} of {type(self).__name__} is fixed when it is made")
