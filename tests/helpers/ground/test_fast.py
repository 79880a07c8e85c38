"""The compiled loops of the extra ``fast`` give the answers of NumPy, bit for bit."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_kmeans import KINDS, SHAPES, instance, typical_radius

from fedclust_helpers import _fast, _nearest, kmeans
from fedclust_helpers.client_statistics import CUT_RELATIVE_SUMS_AND_COUNTS
from fedclust_helpers.federation.reports import public_coins
from fedclust_helpers.ldp_kmeans.frequency_oracles import (
    BucketHash,
    OneBitCounts,
    Question,
    ask_values,
)

ROOT = Path(__file__).resolve().parents[3]
THERE = importlib.util.find_spec("numba") is not None and os.environ.get("FEDCLUST_FAST") != "0"
needs_numba = pytest.mark.skipif(not THERE, reason="extra 'fast' is not installed, or is off")
LOOPS = ("as Python", pytest.param("compiled", marks=needs_numba))


@pytest.fixture
def both(request, monkeypatch):
    """Call something twice: with NumPy alone, and with the loops, for whatever size."""

    def call(function, *args, **kwargs):
        out = []
        for loops in (None, "as Python" if request.param == "as Python" else "compiled"):

            def chosen(loop, work, loops=loops):
                return None if loops is None else loop if loops == "as Python" else compiled(loop)

            monkeypatch.setattr(_fast, "fast", chosen)
            out.append(function(*args, **kwargs))
        return out

    compiled = _fast._compiled
    call.shapes = [] if request.param == "as Python" else SHAPES
    return call


def count_passes(monkeypatch):
    """Let small clients take a pass of their own, too; whether each pass was one."""
    taken, add = [], _nearest.NearestTarget.add
    monkeypatch.setattr(_nearest, "_MANY", 1)
    monkeypatch.setattr(
        _nearest.NearestTarget, "add", lambda *given: taken.append(add(*given)) or taken[-1]
    )
    return taken


def same(results):
    assert len(results) == 2
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


@pytest.mark.parametrize("both", LOOPS, indirect=True)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_labels_sums_and_counts_are_the_same_bits(both, kind):
    for n, d, k in [(300, 5, 5), (130, 1, 3), (257, 9, 12), (64, 4, 2), (70, 3, 1), *both.shapes]:
        points, centers = kind(n, d, k)
        radius = typical_radius(points, centers)
        offsets = np.array([0, n // 3, n // 2, n])
        for limit in (None, radius):
            same(both(kmeans.assign, points, centers, radius=limit))
            same(both(kmeans.sums_and_counts, points, centers, radius=limit, offsets=offsets))


@pytest.mark.parametrize("both", LOOPS, indirect=True)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_round_in_one_pass_is_the_same_bits(both, kind, monkeypatch):
    taken = count_passes(monkeypatch)
    monkeypatch.setattr(kmeans, "CHUNK", 100)  # blocks that end between two groups of lanes
    for n, d, k in [(300, 5, 5), (130, 1, 3), (257, 9, 12), (64, 4, 2), (100, 3, 1), *both.shapes]:
        points, centers = kind(n, d, k)
        radius = typical_radius(points, centers)
        for offsets in (None, np.array([0, n // 3, n // 3, n // 2, n])):
            for limit, relative in ((None, False), (radius, False), (radius, True)):
                how = {"radius": limit, "offsets": offsets, "relative": relative}
                same(both(kmeans.sums_and_counts, points, centers, **how))
    assert any(taken) or kind.__name__ == "extreme_rows"  # NumPy takes those


@pytest.mark.parametrize("both", LOOPS, indirect=True)
@pytest.mark.parametrize("odd", [1e200])
def test_a_round_in_one_pass_meets_odd_numbers(both, odd, monkeypatch):
    """What the pass does not take is looked at as ever: a number like others."""
    taken = count_passes(monkeypatch)
    points, centers = instance(300, 5, 4)
    points = points.copy()
    points[250, 3] = odd
    same(both(kmeans.sums_and_counts, points, centers, radius=0.5))
    assert taken and not any(taken)


@pytest.mark.parametrize("both", LOOPS, indirect=True)
def test_rows_on_the_sphere_are_decided_as_numpy_decides_them(both):
    """Lengths within a few last places of the radius: the sum by halves has the last word."""
    rng = np.random.default_rng(0)
    centers = rng.uniform(-1, 1, (5, 8))
    steps = rng.normal(size=(800, 8))
    steps *= (
        0.3
        * (1 + rng.integers(-60, 61, (800, 1)) * 2.0**-53)
        / np.linalg.norm(steps, axis=1, keepdims=True)
    )
    points = centers[rng.integers(5, size=800)] + steps
    labels = both(kmeans.assign, points, centers, radius=0.3)
    same(labels)
    assert 0 < (labels[0].labels < 0).sum() < 800


@pytest.mark.parametrize("both", LOOPS, indirect=True)
def test_sums_of_cut_rows_are_the_same_bits(both, monkeypatch):
    monkeypatch.setattr(kmeans, "CHUNK", 32)  # several blocks, each added up apart
    points, centers = instance(200, 6, 4)
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 3)))[0]
    given = dict(basis=basis, centers=centers, radius=0.4)
    offsets = np.array([0, 90, 91, 200])
    same(both(CUT_RELATIVE_SUMS_AND_COUNTS.compute, points, offsets, **given))
    same(both(kmeans.group_sums, points, np.arange(200) % 5 - 1, 4, offsets=offsets))


@pytest.mark.parametrize("both", LOOPS, indirect=True)
@pytest.mark.filterwarnings("ignore:overflow encountered")  # words wrap around, as they should
@pytest.mark.parametrize("n_answers", [1, 2])
def test_the_oracle_is_the_same_bits(both, n_answers):
    values = np.random.default_rng(0).integers(50, size=(200, 1)).astype(float)

    def spectrum():
        rng = np.random.default_rng(1)
        oracle = OneBitCounts(
            lambda points, channels: Question(points[:, 0].astype(np.uint64), channels > 0), 1.0,
            rng=rng, shares=[1.0] * n_answers, n_answers=n_answers, n_buckets=64,
        )  # fmt: skip
        ask_values(oracle, values, rng=rng)
        return oracle.spectrum, oracle.n_reports

    users = np.arange(200)
    same(both(spectrum))
    same(both(lambda: (public_coins(2**64 - 5, users), public_coins(7, users[::-3]))))
    same(both(lambda: BucketHash(16, rng=np.random.default_rng(2))(users.astype(np.uint64) << 33)))


def test_nothing_is_imported_or_compiled_at_import_and_a_setting_switches_it_off():
    code = (
        "import sys, fedclust_helpers.kmeans, fedclust.estimators as e; "
        "from fedclust_helpers import _fast; assert 'numba' not in sys.modules; "
        "assert _fast.fast(_fast.coins, 10**9) is None and 'numba' not in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=ROOT, env=os.environ | {"FEDCLUST_FAST": "0"}
    )
