"""scikit-learn's own checks of our estimators, and the few that a private one cannot pass."""

import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedclust.estimators import PrivateKMeans

# the checks bring no bounds, tables of one holder, and labels that are refused elsewhere
PUBLIC = {"public_data": True, "mode": "teaching", "seed": 3, "trust": "trusted"}


class Private(PrivateKMeans):
    """Labels are left out, and a server has uniform points where it needs some."""

    def fit(self, X, y=None, *, clients=None, X_server=None):
        if self.method == "feddp":
            d = max(1, *np.asarray(X).shape[1:], 1)
            X_server = np.random.default_rng(0).uniform(-2, 2, (60, d))
        return super().fit(X, clients=clients, X_server=X_server)


ESTIMATORS = [
    Private(2, epsilon=50.0, **PUBLIC),
    Private(2, epsilon=50.0, method="feddp", **PUBLIC),
    Private(2, epsilon=50.0, method="one_round", **PUBLIC | {"trust": "local"}),
]
REASONS = {
    "check_clustering": "there is no labels_: labels of private rows are no part of the model",
    "check_dtype_object": "the message says what was expected, and quotes no value of the data",
    "check_fit2d_1sample": "whether rows are too few is judged by the public n_records",
}


def expected(estimator):
    passes = {"check_fit2d_1sample"} if estimator.method == "feddp" else set()
    return {name: reason for name, reason in REASONS.items() if name not in passes}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected)
def test_scikit_learn(estimator, check):
    check(estimator)


def test_the_estimators_are_imported_when_they_are_asked_for():
    code = """
import sys
from fedclust import estimators
assert not {"numpy", "sklearn", "pandas", "scipy"} & set(sys.modules)
estimators.FastLloydKMeans
late = {"dp_accounting", "sklearn.cluster", "sklearn.neighbors"}
late |= {f"fedclust_helpers.{paper}" for paper in ("feddp_kmeans", "ldp_kmeans", "rr_cluster")}
assert not late & set(sys.modules), late & set(sys.modules)
"""
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
