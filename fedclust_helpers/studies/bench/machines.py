"""Where the cells of a table are measured: processes here, or the workers of a Dask scheduler.

The Dask client is used itself, not joblib's backend for it (1.6.0), which runs everything in the
calling process when the cluster has one worker, and waits for ever for a cell that Dask gave up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import BrokenProcessPool

BACKENDS = ("loky", "dask")


@contextmanager
def dask_client(scheduler: str | None, n_jobs: int) -> Iterator[Any]:
    """A client of the Dask scheduler at this address, as ``tcp://host:8786``.

    Without an address `n_jobs` worker processes of this machine are started, and ended with the
    context. TLS and the like are Dask's own settings.

    Raises
    ------
    ImportError
        If Dask is not installed.
    OSError
        If no scheduler answers.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise ImportError(
            "backend 'dask' needs the package distributed: pip install 'fedclust[dask]'"
        ) from None
    with ExitStack() as stack:
        address: Any = scheduler
        if scheduler is None:
            address = stack.enter_context(
                LocalCluster(
                    n_workers=n_jobs, threads_per_worker=1, processes=True, host="127.0.0.1",
                    dashboard_address=None,
                )
            )  # fmt: skip
        yield stack.enter_context(Client(address))


class WorkersKilled(RuntimeError):
    """Worker processes ended without an answer; what they worked on is to be measured again."""


def each_done(
    function: Callable[[Any], Any], items: Sequence[Any], *, n_jobs: int, client: Any = None
) -> Iterator[Any]:
    """``function(item)`` of all items as they are done, by `n_jobs` processes or by Dask's workers.

    Raises
    ------
    WorkersKilled
        If a process of ours was killed, or Dask gave up an item that killed several workers.
    """
    if client is None:
        jobs = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        try:
            yield from jobs(delayed(function)(item) for item in items)
        except BrokenProcessPool as error:
            raise WorkersKilled from error
        return
    from distributed import KilledWorker, as_completed

    futures = client.map(function, items, pure=False)
    try:
        for future in as_completed(futures):
            yield future.result()
    except KilledWorker as error:
        raise WorkersKilled from error
    finally:
        client.cancel(futures)
