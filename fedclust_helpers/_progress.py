"""Progress of anything that takes more than two seconds: a bar, or a function of the caller's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fedclust_helpers._validation import check_bool

Progress = bool | Callable[[int, int], object]
"""True shows a bar, False nothing; a function is called as ``progress(done, total)``."""


@contextmanager
def showing(progress: Progress, total: int, what: str) -> Iterator[Callable[[int], object]]:
    """While this context is open, ``done(n)`` tells that n of `total` steps are finished.

    A function that fails costs nobody the run: its error becomes a RuntimeWarning. TypeError if
    `progress` is neither a bool nor a function.
    """
    if callable(progress) and not isinstance(progress, type):

        def tell(n: int) -> None:
            try:
                progress(n, total)
            except Exception as error:
                warnings.warn(f"progress failed: {error!r}", RuntimeWarning, stacklevel=2)

        yield tell
        return
    if not check_bool(progress, "progress"):
        yield lambda n: None
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, desc=what) as bar:
        yield lambda n: bar.update(n - bar.n)
