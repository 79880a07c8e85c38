"""Sizes that cannot fit are refused by a public estimate, before memory is asked for."""

import numpy as np
import pytest
from conftest import refuses
from ldp_cases import rng

from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers.federation import reports, simulate
from fedclust_helpers.ldp_kmeans import frequency_oracles as fo
from fedclust_helpers.ldp_kmeans import local_randomizers as lr
from fedclust_helpers.ldp_kmeans import projections as maps
from studies.ldp_kmeans import encodings

X = rng(1).normal(scale=0.2, size=(300, 3))
USERS, LABELS = np.arange(300), rng(2).integers(3, size=300)
REPORT = reports.gaussian_report(1.0, 1.0, 1e-6)


def side(points, channels):
    return fo.Question((points[:, 0] > 0).astype(np.uint64))


def sided(points, channels):
    return (points[:, 0] > 0).astype(np.uint64), points


def users():
    return simulate(X, "local", seed=1)


SIZES = {
    "rows of a hash": lambda: encodings.UnaryEncoding(1.0, 10**6).randomize(LABELS, rng=rng()),
    "channel of a response": lambda: lr.RandomizedResponse(60.0, 2**40).probabilities(),
    "counts of a response": lambda: lr.RandomizedResponse(60.0, 2**40).estimate(LABELS),
    "values of a hash": lambda: encodings.LocalHashing(1.0, 2**40, 1).estimate(LABELS, USERS),
    "buckets": lambda: lk.vector_sums.HeavySums(
        sided, 1.0, 10**6, REPORT, rng=rng(), n_buckets=2**20
    ),
    "channels": lambda: fo.OneBitCounts(
        side, 1.0, rng=rng(), shares=np.ones(10**5), n_buckets=2**20
    ),
    "a matrix": lambda: maps.BallProjection(10**6, 10**5, rng=rng()),
    "kept reports": lambda: lk.plan_gaussian_reports(
        users(), n_clusters=2, epsilon=1.0, max_reports=10**9
    ),
}


@pytest.mark.parametrize("what", SIZES)
def test_what_does_not_fit_is_refused_by_a_public_estimate(what):
    refuses(ValueError, "must be|too large", SIZES[what])
