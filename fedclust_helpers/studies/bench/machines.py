"""Tables on several machines: joblib's Dask backend (extra ``dask``), or processes of this one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

from joblib import parallel_config
from joblib._dask import DaskDistributedBackend
from joblib.parallel import get_active_backend

BACKENDS = ("loky", "dask")


class _Workers(DaskDistributedBackend):
    """joblib's own, but one worker is a worker too: joblib would run its cells in this process."""

    def effective_n_jobs(self, n_jobs: int) -> int:
        return max(2, super().effective_n_jobs(n_jobs))


@contextmanager
def _dask(scheduler: str | None, n_jobs: int) -> Iterator[Any]:
    """Run what `joblib.Parallel` runs on the workers of a Dask scheduler.

    `scheduler` is an address such as ``tcp://host:8786``. Without one, `n_jobs` worker processes of
    this machine are started and ended here. TLS and the like are Dask's own settings.
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
        client = stack.enter_context(Client(address, set_as_default=False))
        stack.enter_context(parallel_config(backend=_Workers(client=client), n_jobs=-1))
        yield client


def machines(backend: str, *, scheduler: str | None = None, n_jobs: int = 1) -> Any:
    """A context in which `run_table` measures its cells with this backend.

    Raises
    ------
    ValueError
        For another backend, or a `scheduler` without Dask.
    ImportError
        If Dask is not installed.
    OSError
        On entry, if no scheduler answers.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}; got {backend!r}")
    if scheduler is not None and backend != "dask":
        raise ValueError("scheduler must not be given without backend='dask'")
    return _dask(scheduler, n_jobs) if backend == "dask" else nullcontext()


def options(n_jobs: int, *, sequential: bool) -> dict[str, Any]:
    """How `joblib.Parallel` is to run the cells of a table, within the context or without."""
    if sequential:
        return {"backend": "sequential"}
    if isinstance(get_active_backend()[0], _Workers):
        return {"pre_dispatch": "all"}  # workers may come later
    return {"n_jobs": n_jobs}


def lost_workers() -> tuple[type[BaseException], ...]:
    """What Dask raises for a cell that has killed several workers; nothing if it is not in use."""
    try:
        from distributed import KilledWorker
    except ImportError:
        return ()
    return (KilledWorker,)
