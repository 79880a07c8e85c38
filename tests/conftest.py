"""Fixtures shared by all tests: seeded generators, tiny data, and read-only arrays."""

import os

# Before numpy is imported anywhere: one thread.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from collections.abc import Callable, Iterable  # noqa: E402
from contextlib import suppress  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

with suppress(ImportError):  # `make federation-test` has none
    import matplotlib

    matplotlib.use("agg")  # no display; not by MPLBACKEND, which kernels would inherit

ROOT = Path(__file__).resolve().parents[1]
SEED = 20240607

# The same examples on every machine and in every run; time is not a property under test.
settings.register_profile(
    "fedclust",
    derandomize=True,
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fedclust")


def read_only(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a copy that raises when somebody writes to it."""
    copy = np.array(array)
    copy.flags.writeable = False
    return copy


def refuses(
    error: type[Exception] | tuple[type[Exception], ...],
    message: str,
    function: Callable[..., Any],
    /,
    *arguments: Any,
    **options: Any,
) -> None:
    """Assert that the call raises `error` with a text that matches `message` ("": any text)."""
    with pytest.raises(error, match=message or None):
        function(*arguments, **options)


def refused(federation: Any, call: Callable[[], Any], error: type[Exception], message: str) -> str:
    """`call` raises, and nothing was charged, read or sent; what is said."""
    before = len(federation.ledger.releases), len(federation.transcript.messages)
    with pytest.raises(error, match=message) as caught:
        call()
    assert (len(federation.ledger.releases), len(federation.transcript.messages)) == before
    return str(caught.value)


def first_of(values: Iterable[Any], n: int = 1) -> list[Any]:
    """Cases of a test that costs seconds: the first n are always run, all by `make test-all`."""
    cases = [value if isinstance(value, tuple) else (value,) for value in values]
    return [
        pytest.param(*case, marks=[pytest.mark.thorough] if i >= n else [])
        for i, case in enumerate(cases)
    ]


def seeded(seed: int = 0) -> np.random.Generator:
    """A generator of this seed."""
    return np.random.default_rng(seed)


def generator(*key: int) -> np.random.Generator:
    """A generator of this key: unrelated to those of other keys."""
    return np.random.default_rng(list(key))


def need(name: str) -> None:
    """Skip where the files of a data set are not on this machine."""
    from studies import paper_data

    if not paper_data.available(name):
        files = [e.file for e in paper_data.registry().values() if e.dataset == name]
        pytest.skip(f"not on this machine: {', '.join(files)} (set FEDCLUST_DATA_DIR)")


def words_uniform_p(words: NDArray[Any]) -> float:
    """P-value of the chi-square test that words are uniform on the ring: top and lowest byte."""
    from scipy import stats

    bits = words.dtype.itemsize * 8
    p = 1.0
    for shift in (bits - 8, 0):
        bytes_ = (words >> words.dtype.type(shift)).astype(np.uint8).ravel()
        observed = np.bincount(bytes_, minlength=256)
        p = min(p, 2 * stats.chisquare(observed).pvalue)
    return p


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the repository."""
    return ROOT


@pytest.fixture
def rng() -> np.random.Generator:
    """A fresh seeded generator for one test."""
    return np.random.default_rng(SEED)


@pytest.fixture
def true_centers() -> NDArray[np.float64]:
    """Centres of the tiny mixture, shape (3, 2), inside [-1, 1]^2. Read-only."""
    return read_only(np.array([[-0.6, -0.5], [0.6, -0.4], [0.0, 0.6]]))


@pytest.fixture
def mixture(true_centers: NDArray[np.float64]) -> NDArray[np.float64]:
    """300 points around three well separated centres, shape (300, 2), in [-1, 1]^2. Read-only."""
    generator = np.random.default_rng(SEED)
    labels = np.repeat(np.arange(3), 100)
    points = true_centers[labels] + generator.normal(scale=0.08, size=(300, 2))
    return read_only(np.clip(generator.permutation(points), -1, 1))
