"""What else was tried at the guarantee of sums only with everybody, replace-one.

Some variants release more than one kind of thing, or noise that is correlated over rounds, for
which the library has no mechanism: they are simulated here, with the noise that (epsilon, delta)
asks for by the exact curve. Nothing of this is a release.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import minimize

from fedclust_helpers import rr_cluster as rr
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.accounting import PrivacyLedger, gdp_mu
from fedclust_helpers.federation import ClientData, simulate
from studies.bench.cell import Cell, Numbers, generator_of
from studies.rr_cluster.problems import (
    Clients,
    ModelProblem,
    load_clients,
    model_named,
)

FLOOR = 0.32  # of the clients of a model: floor of the divisor
ROUNDS = 30
SHARED_ROUNDS = 8
OFFSET = 0.1  # between the copies of a shared model, per parameter
SUBSPACE_SHARE = 0.1  # of mu^2


class Problem:
    """One set of clients, and the runs of sums only on it with a given noise."""

    def __init__(self, problem: ModelProblem, *, clip: float, delta: float) -> None:
        self.source, self.clip, self.delta = problem, clip, delta
        self.model: Any = model_named("softmax", problem)
        self.train, self.test = problem.train, problem.test
        self.bound = problem.federation.bound

    def changed(self, change: Callable[[FloatArray], FloatArray], bound: float) -> Problem:
        """The same clients with other features."""
        out = Problem(self.source, clip=self.clip, delta=self.delta)
        out.train, out.test = (
            ClientData(change(data.points), data.offsets, data.labels)
            for data in (self.train, self.test)
        )
        out.model = rr.SoftmaxRegression(out.train.points.shape[1], self.model.n_classes)
        out.bound = bound
        return out

    def federation(self) -> Any:
        """A fresh simulation; the same seed for every variant."""
        ledger = PrivacyLedger(unit="client", adjacency="replace-one")
        seed = self.source.seed
        return simulate(self.train, "ideal", seed=seed, bound=self.bound, ledger=ledger)

    def run(
        self, k: int, mu: float, *, rounds: int = ROUNDS, start: Any = None, wrap: Any = None
    ) -> FloatArray:
        """The models after `rounds` rounds that cost `mu` together (inf: no noise)."""
        training = rr.Training(self.model, cohort=self.train.n_clients, clip=self.clip)
        fed, epsilon = self.federation(), (math.inf if math.isinf(mu) else None)
        sigma = None if math.isinf(mu) else math.sqrt(rounds) / mu
        start = self.source.initial(self.model, k) if start is None else start
        how: dict[str, Any] = {"n_rounds": rounds, "delta": self.delta, "epsilon": epsilon}
        how |= {"sigma": sigma, "initial": start}
        if k == 1:
            plan = rr.plan_dp_fedavg(fed, training, **how)
        else:
            plan = rr.plan_sums_only(fed, training, n_clusters=k, **how)
        return rr.run(fed if wrap is None else wrap(fed, plan), plan).models

    def accuracy(self, models: FloatArray) -> float:
        """Mean over the clients."""
        found = rr.evaluate(self.model, models, self.train, self.test, self.source.groups)
        return found.accuracy


# --- noise that is correlated over rounds ---------------------------------------------------------


@lru_cache(maxsize=4)
def best_covariance(n_rounds: int) -> FloatArray:
    """Covariance (T, T) of the noise of rounds with the least mean square noise of prefix sums.

    For clients that take part in all rounds with updates of length 1 each, at total cost mu = 1.
    Of the factorisation A = B C (A the prefix sums) only X = C^T C matters: one client moves C u by
    at most sqrt(sum |X|), and the noise is then sum |X| times X^-1. Minimised is tr(A X^-1 A^T)
    sum |X| over the lower triangular C.
    """
    ones = np.tril(np.ones((n_rounds, n_rounds)))
    s, at = ones.T @ ones, np.tril_indices(n_rounds)

    def objective(values: FloatArray) -> tuple[float, FloatArray]:
        c = np.zeros((n_rounds, n_rounds))
        c[at] = values
        x = c.T @ c
        inverse = np.linalg.inv(x)
        error, reach = float(np.sum(s * inverse)), float(np.abs(x).sum())
        gradient = -(inverse @ s @ inverse) / error + np.sign(x) / reach
        return math.log(error * reach), (2 * c @ gradient)[at]

    found = minimize(objective, np.eye(n_rounds)[at] + 1e-3, jac=True, method="L-BFGS-B",
                     options={"maxiter": 400})  # fmt: skip
    c = np.zeros((n_rounds, n_rounds))
    c[at] = found.x
    x = c.T @ c
    return np.asarray(np.abs(x).sum() * np.linalg.inv(x))


def prefix_noise(covariance: FloatArray) -> tuple[float, float]:
    """Noise in the sum of all rounds, and the root mean square of that in all prefix sums."""
    ones = np.tril(np.ones_like(covariance))
    variances = np.diag(ones @ covariance @ ones.T)
    return math.sqrt(variances[-1]), math.sqrt(variances.mean())


class Correlated:
    """A federation without noise whose released sums get noise that is correlated over rounds."""

    def __init__(self, federation: Any, root: FloatArray, *, rng: np.random.Generator) -> None:
        self._federation, self._root, self._rng = federation, root, rng
        self._draws: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._federation, name)

    def noisy_sum(self, statistic: Any, mechanisms: Any, *, round: int, **sent: Any) -> Any:
        """The exact sums of the round, and its row of the correlated noise."""
        (exact,) = self._federation.noisy_sum(statistic, mechanisms, round=round, **sent)
        if self._draws is None:
            self._draws = self._rng.standard_normal((len(self._root), exact.size))
        return (exact + (self._root[round] @ self._draws).reshape(exact.shape),)


# --- a subspace found privately -------------------------------------------------------------------


def private_subspace(
    points: FloatArray, offsets: Any, n_columns: int, mu: float, *, rng: np.random.Generator
) -> FloatArray:
    """The first `n_columns` eigenvectors (p, n_columns) of a noised second moment of the rows.

    Each client gives the mean of x x^T of its scaled rows, cut to Frobenius norm 1. Two such
    matrices are at most sqrt(2) apart, since both are positive semidefinite.
    """
    p = points.shape[1]
    starts = offsets[:-1]
    scale = np.median(np.linalg.norm(points, axis=1))  # taken as public: in favour of the variant
    total = np.zeros((p, p))
    for first, last in zip(starts, offsets[1:], strict=True):
        rows = points[first:last] / scale
        moment = rows.T @ rows / len(rows)
        total += moment / max(1.0, float(np.linalg.norm(moment)))
    noise = rng.normal(0, math.sqrt(2) / mu, (p, p))
    noisy = total + (noise + noise.T) / 2
    return np.asarray(np.linalg.eigh(noisy)[1][:, ::-1][:, :n_columns])


# --- the variants ---------------------------------------------------------------------------------


def _recipe(on: Problem, k: int, mu: float, rng: np.random.Generator) -> tuple[float, float]:
    return on.accuracy(on.run(k, mu)), 1.0


def _rounds(number: int) -> Callable[..., tuple[float, float]]:
    def variant(on: Problem, k: int, mu: float, rng: np.random.Generator) -> tuple[float, float]:
        return on.accuracy(on.run(k, mu, rounds=number)), 1.0

    return variant


def _shared_first(on: Problem, k: int, mu: float, rng: np.random.Generator) -> tuple[float, float]:
    """One model for the first rounds, then k copies of it that differ by a little."""
    part = mu * math.sqrt(SHARED_ROUNDS / ROUNDS)
    shared = on.run(1, part, rounds=SHARED_ROUNDS)
    copies = shared + OFFSET * rng.standard_normal((k, shared.shape[1]))
    left = math.sqrt(mu**2 - part**2)
    return on.accuracy(on.run(k, left, rounds=ROUNDS - SHARED_ROUNDS, start=copies)), 1.0


def _correlated(on: Problem, k: int, mu: float, rng: np.random.Generator) -> tuple[float, float]:
    covariance = best_covariance(ROUNDS)
    root = np.asarray(2 * on.clip / mu * np.linalg.cholesky(covariance), dtype=np.float64)
    models = on.run(k, math.inf, wrap=lambda fed, plan: Correlated(fed, root, rng=rng))
    return on.accuracy(models), prefix_noise(covariance)[0] / ROUNDS


def _subspace(on: Problem, k: int, mu: float, rng: np.random.Generator) -> tuple[float, float]:
    """Pixels in as many private principal directions as there are cosine features."""
    clients = on.source.clients
    data = clients.data.replace("fashion_dct", "fashion_mnist").removesuffix("_dct")
    plain = Problem(load_clients(Clients(data, *clients[1:])), clip=on.clip, delta=on.delta)
    columns = on.train.points.shape[1]
    basis = private_subspace(
        plain.train.points, plain.train.offsets, columns, mu * math.sqrt(SUBSPACE_SHARE), rng=rng
    )
    bound = plain.bound * math.sqrt(len(basis))
    found = plain.changed(lambda points: points @ basis, bound)
    left = math.sqrt(1 - SUBSPACE_SHARE)
    return found.accuracy(found.run(k, mu * left)), 1 / left


VARIANTS: dict[str, Callable[..., tuple[float, float]]] = {
    "recipe": _recipe, "rounds_10": _rounds(10), "rounds_60": _rounds(60),
    "shared_first": _shared_first, "correlated": _correlated, "private_subspace": _subspace,
}  # fmt: skip
"""Name -> accuracy, and the noise in the sum of all rounds over that of the recipe."""


def measured(
    cell: Cell, *, clients: Clients, variant: str, epsilon: float, delta: float, k: int, clip: float
) -> Numbers:
    """Accuracy of one variant on one set of clients."""
    on = Problem(load_clients(clients), clip=clip, delta=delta)
    rng = generator_of(f"tried/{clients.name}/{variant}")
    accuracy, noise = VARIANTS[variant](on, k, gdp_mu(epsilon, delta), rng)
    return {"accuracy": accuracy, "noise": noise}
