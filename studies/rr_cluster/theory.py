"""The paper's claims as small functions: as printed, corrected, and the exact truth beside them.

k clusters, M clients (all take part, as in Section 4.2), threshold B, clipping bound C, sigma_s and
sigma_theta the noise multipliers of identifiers and sums, Delta the smallest distance of two true
models. Identifiers are one-hot vectors with noise of standard deviation sigma_s on each entry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.stats import beta as beta_distribution
from scipy.stats import binom, norm

from fedclust_helpers._validation import (
    as_numbers,
    check_choice,
    check_delta,
    check_int,
    check_non_negative,
    check_rng,
    check_share,
)
from fedclust_helpers.accounting.renyi import fixed_size_brackets
from studies.rr_cluster import accountants

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(180)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
Form = Literal["printed", "corrected"]


# --- misprints of the accounting (claim R7) -------------------------------------------------------


def theorem_a_5_rdp(alpha: int, sigma: float, rate: float) -> float:
    """Theorem A.5 as printed, for a Gaussian: the sum over j >= 3 stands outside the logarithm.

    Far above `accountants.theorem_4_2_rdp` at the same arguments (31 251 against 1.48 at order 8).
    """
    head, tail = fixed_size_brackets([alpha], lambda j: accountants.gaussian_rdp(j, sigma), rate)
    return float(head[0] / (alpha - 1) + np.exp(tail[0]))


# --- identifiers: how often the noisy argmax is right ---------------------------------------------


def argmax_accuracy(sigma: float, n_clusters: int) -> float:
    """P(argmax of one-hot + N(0, sigma^2 I_k) is the marked entry), by quadrature.

    E[Phi(1/sigma + Z)^(k-1)], Z standard normal. 1 at sigma = 0 and 1/k at sigma = inf.
    """
    k = check_int(n_clusters, "n_clusters")
    if check_non_negative(min(sigma, 1e300), "sigma") == 0:
        return 1.0
    return float(_WEIGHTS @ norm.cdf(1 / sigma + _NODES) ** (k - 1))


def sigma_for_accuracy(accuracy: float, n_clusters: int) -> float:
    """The noise at which the noisy argmax is right with probability `accuracy`.

    0 for accuracy 1, inf for 1/k or less.
    """
    check_share(accuracy, "accuracy", zero=True, one=True)
    if accuracy <= 1 / n_clusters or accuracy == 1:
        return math.inf if accuracy < 1 else 0.0

    def excess(log_sigma: float) -> float:
        return argmax_accuracy(math.exp(log_sigma), n_clusters) - accuracy

    return math.exp(brentq(excess, math.log(0.02), math.log(1e12), xtol=1e-12))


def krr_accuracy(epsilon: float, n_clusters: int) -> float:
    """P(k-ary randomised response keeps the identifier), e^eps/(e^eps + k - 1)."""
    return 1 / (1 + (n_clusters - 1) * math.exp(-epsilon))


def exponential_accuracy(epsilon: float, n_clusters: int) -> float:
    """P(the exponential mechanism keeps the identifier), its utility being the one-hot vector.

    The textbook scale eps/2 per unit of sensitivity: `krr_accuracy` at half the epsilon. The other
    half pays for a normaliser that may move; for one-hot utilities it cannot, so randomised
    response, which is the same mechanism with the exact scale, is always better.
    """
    return krr_accuracy(epsilon / 2, n_clusters)


def actual_epsilon(
    sigma_s: float, sigma_theta: float, *, delta: float, identifier_ratio: float = math.sqrt(2),
    accountant: str = "wor_rdp", **run: int,
) -> float:  # fmt: skip
    """Epsilon of a run whose identifiers move `identifier_ratio` times what their noise is for.

    sqrt(2) is the error of Algorithm 2. `run` is `n_rounds`, `n_clients` and `cohort`.
    """
    mu = math.hypot(identifier_ratio / sigma_s, 1 / sigma_theta)
    return accountants.certified_epsilon(1 / mu, delta=delta, accountant=accountant, **run)


# --- when does rebalancing act? -------------------------------------------------------------------


def expected_moved(n_clients: int, probabilities: Any, min_size: int) -> float:
    """Expected number of clients moved in a round: sum_j E[(B - |S_j|)_+].

    Each of `n_clients` clients lands in cluster j with `probabilities[j]`, independently.
    """
    p = as_numbers(probabilities, "probabilities", ndim=1)
    if (p < 0).any() or abs(p.sum() - 1) > 1e-9:
        raise ValueError("probabilities must be a vector of numbers >= 0 that add up to 1")
    sizes = np.arange(min_size)
    return float(((min_size - sizes) * binom.pmf(sizes, n_clients, p[:, None])).sum())


# --- sensitivity and noise ------------------------------------------------------------------------


def clip_as_printed(update: np.ndarray, identifier: np.ndarray, bound: float) -> np.ndarray:
    """Line 11 of Algorithm 1 as printed, update/max(1, ||s||/C): the norm of the wrong vector.

    The result may have any norm (10 for an update of norm 100 with a one-hot s and C = 0.1).
    """
    return np.asarray(update / max(1.0, float(np.linalg.norm(identifier)) / bound))


# --- Lemma 4.8 ------------------------------------------------------------------------------------


def selection_term(
    eta: float, beta: float, strong_convexity: float, separation: float, n_clusters: int
) -> float:
    """Term 1 of Lemma 4.8, 8 eta^2 k/(beta^2 lambda^2 Delta^4): a wrong argmin of the losses.

    With ``n_clusters=1`` it is the bound for one rival.
    """
    if not 0 < beta < 0.5:
        raise ValueError(f"beta must lie in (0, 1/2), got {beta}")
    return 8 * eta**2 * n_clusters / (beta**2 * strong_convexity**2 * separation**4)


def identifier_term(
    sigma_s: float, n_clusters: int, *, form: Literal["printed", "literal", "corrected"] = "printed"
) -> float:
    """Term 2 of Lemma 4.8: the noise changes the argmax.

    "printed" reads exp(-1/4 sigma_s^2) as exp(-1/(4 sigma_s^2)), as the proof does; "literal" as
    exp(-sigma_s^2/4), which falls below the truth; "corrected" is the union bound over k - 1 rivals
    with the exact tail, (k - 1) Q(1/(sigma_s sqrt(2))).
    """
    check_choice(form, "form", ("printed", "literal", "corrected"))
    if form == "corrected":
        return (n_clusters - 1) * float(norm.sf(1 / (sigma_s * math.sqrt(2))))
    exponent = sigma_s**2 if form == "literal" else 1 / sigma_s**2
    return n_clusters * sigma_s / math.sqrt(math.pi) * math.exp(-exponent / 4)


def rebalancing_term(
    size_std: float, n_clients: int, n_clusters: int, min_size: float, *, form: Form = "printed"
) -> float:
    """Term 3 of Lemma 4.8, k^2 mu^2/(M/k - B)^2: rebalancing moves the client.

    "corrected": k mu^2/(M/k - B)^2, the union bound over clusters of P(|S_j| < B), which is what
    Chebyshev's inequality in Equation 18 bounds.
    """
    check_choice(form, "form", ("printed", "corrected"))
    margin = n_clients / n_clusters - min_size
    if margin <= 0:
        raise ValueError(f"min_size must be below n_clients/n_clusters, got {min_size}")
    return n_clusters ** (2 if form == "printed" else 1) * size_std**2 / margin**2


def selection_error(
    separation: float, spread: float, *, beta: float = 0.25, worst: bool = False
) -> tuple[float, float]:
    """Truth and bound (one rival) of term 1, for mean estimation in the plane.

    A client of cluster 1 holds one point z ~ N(theta_1*, spread^2 I_2); its loss is
    ||theta - z||^2/2, so lambda = L = 1. Both models are off by the largest distance allowed, (1/2
    - beta) Delta, towards each other, or (`worst`) both in the direction of the rival's. eta^2 is
    the variance of the loss at the rival's nearer position.
    """
    off = (0.5 - beta) * separation
    first, second = (-off if worst else off), separation - off
    truth = float(norm.sf((first + second) / 2 / spread))
    far = max(abs(first), abs(second))
    eta = math.sqrt(spread**4 + spread**2 * far**2)  # Var(||x||^2/2), x ~ N(far e_1, spread^2 I_2)
    return truth, selection_term(eta, beta, 1.0, separation, 1)


@dataclass(frozen=True)
class Equation18:
    """Equation 18 for sizes Binomial(M, 1/k): the bound, and both probabilities it might mean."""

    bound: float
    above: float
    below: float


def equation_18(n_clients: int, n_clusters: int, min_size: int) -> Equation18:
    """(mu/(M/k - B))^2 against P(|S| > B), as printed, and P(|S| < B), which it does bound."""
    m, k = n_clients, n_clusters
    b = check_int(min_size, "min_size", minimum=0, maximum=math.ceil(m / k) - 1)
    return Equation18(
        bound=m / k * (1 - 1 / k) / (m / k - b) ** 2,
        above=float(binom.sf(b, m, 1 / k)),
        below=float(binom.cdf(b - 1, m, 1 / k)),
    )


# --- Theorem 4.10 ---------------------------------------------------------------------------------


def contraction(
    *, gamma: float, strong_convexity: float, smoothness: float, tau: float, delta_c: float,
    n_clients: int, n_clusters: int, min_size: float, form: Form = "printed",
) -> float:  # fmt: skip
    """The contraction factor of Theorem 4.10.

    "printed": 1 - gamma L (B - 2 tau M/delta_c)/(2 rho), rho = M - (k - 1) B. "corrected": lambda
    for L (lambda L/(lambda + L) is at least lambda/2, not L/2) and 4 tau M/delta_c (the proof
    takes delta_4 = delta_c/4). Above 1 the theorem says nothing.
    """
    check_choice(form, "form", ("printed", "corrected"))
    rho = n_clients - (n_clusters - 1) * min_size
    if rho <= 0:
        raise ValueError("min_size must be below n_clients/(n_clusters - 1)")
    factor, rate = (2, smoothness) if form == "printed" else (4, strong_convexity)
    return 1 - gamma * rate * (min_size - factor * tau * n_clients / delta_c) / (2 * rho)


def two_groups_factor(curvatures: Any, gamma: float, *, start: float = 0.04) -> float:
    """By how much one exact step of IFCA with two models shrinks the distance to an optimum.

    Two groups of 50 clients, all of them drawn; the losses of a group are one quadratic with these
    `curvatures`, the optima are 1 apart on the first axis, and the models start `start` off on the
    other side of them. Everybody chooses the right model, or a ValueError says so. Curvatures
    (0.01, 1) keep 0.99 at gamma = 0.999, where Theorem 4.10 with B = 49 promises 0.52.
    """
    h = as_numbers(curvatures, "curvatures", ndim=1)
    optima = np.zeros((2, len(h)))
    optima[1, 0] = 1.0
    models = optima + np.array([[-start], [start]]) * np.eye(len(h))[0]
    true = np.arange(100) // 50
    losses = (h * (models - optima[true][:, None]) ** 2).sum(axis=2) / 2
    choice = losses.argmin(axis=1)
    if (choice != true).any():
        raise ValueError("start must be so small that everybody chooses the right model")
    kept = []
    for j, model in enumerate(models):
        steps = -gamma * h * (model - optima[true][choice == j])
        moved = model + steps.mean(axis=0)
        kept.append(np.linalg.norm(moved - optima[j]) / np.linalg.norm(model - optima[j]))
    return float(max(kept))


def largest_informative_sigma(n_clusters: int, delta_c: float, *, form: Form = "printed") -> float:
    """The largest sigma_s with B delta_c > 4 tau M, tau being its identifier term alone.

    Only below it is the first term of epsilon in Equation 2 finite. B = M/k, the largest.
    """
    check_delta(delta_c, "delta_c")

    def excess(log_sigma: float) -> float:
        term = identifier_term(math.exp(log_sigma), n_clusters, form=form)
        return 4 * term - delta_c / n_clusters

    return math.exp(brentq(excess, math.log(0.05), math.log(10.0), xtol=1e-12))


def rounds_to_quarter(
    rate: float, alpha_0: float, condition_number: float, *, separation: float = 1.0,
    form: Form = "printed",
) -> float:  # fmt: skip
    """T' of Corollary B.1: rounds until the models are within sqrt(lambda/L) Delta/4.

    `rate` is K = 1 - contraction. Printed with Delta in the logarithm, so that the answer changes
    with the unit of length; Delta cancels in Equation 41 ("corrected").
    """
    check_choice(form, "form", ("printed", "corrected"))
    ratio = 1 / (8 * (0.5 - alpha_0) * math.sqrt(condition_number))
    if form == "printed":
        ratio *= separation
    return math.log(ratio) / math.log1p(-rate)


# --- bias and variance in B -----------------------------------------------------------------------


@dataclass(frozen=True)
class BiasVariance:
    """Error of the minority model: squared bias, variance, and clients moved per round.

    Both are unbiased estimates, so a small `bias` may come out below 0.
    """

    bias: float
    variance: float
    moved: float

    @property
    def mse(self) -> float:
        """Mean squared distance to the truth."""
        return self.bias + self.variance


def rebalancing_error(
    sigma_theta: float, min_size: int, *, rng: np.random.Generator,
    reference: Literal["inserted", "trained"] = "inserted", n_repetitions: int = 60,
) -> BiasVariance:  # fmt: skip
    """What B does to the small one of two clusters: mean estimation, exact identifiers, noisy sums.

    Client i holds x_i = truth + N(0, spread^2 I); its update is x_i minus a model, clipped; sums
    get noise 2C sigma_theta and are divided by |S_j|; an empty cluster keeps its model. Both models
    start at the truth, all clients take part, and the step is 1. Strict rule. 100 clients, 10 of
    them in the small cluster, 20 features, Delta = C = 1, spread 0.1, 20 rounds (claim R15).

    `reference` is the model that a moved client's update is relative to. "inserted": the one it is
    moved into, as the analysis has it (Equation 22); rebalancing pulls the small model towards the
    large one. "trained": the one it was trained from, as Algorithms 1 and 2 have it; near the
    optimum such updates average to 0, and only shorten the step.
    """
    n, minority, d, spread, n_rounds, r = 100, 10, 20, 0.1, 20, n_repetitions
    b = check_int(min_size, "min_size", minimum=0, maximum=n // 2)
    check_choice(reference, "reference", ("inserted", "trained"))
    truth = np.zeros((2, d))
    truth[1, 0] = 1.0
    labels = (np.arange(n) < minority).astype(np.int64)
    points = truth[labels] + spread * check_rng(rng).standard_normal((r, n, d))
    models = np.broadcast_to(truth, (r, *truth.shape)).copy()
    rows, moved = np.arange(r)[:, None], 0
    for _ in range(n_rounds):
        distances = ((points[:, :, None] - models[:, None]) ** 2).sum(axis=-1)
        chosen = distances.argmin(axis=-1)
        sizes = np.stack([(chosen == 0).sum(axis=1), (chosen == 1).sum(axis=1)], axis=1)
        small = sizes.argmin(axis=1)[:, None]
        keys = np.where(chosen == small, 2.0, rng.random((r, n)))
        taken = keys.argsort(axis=1).argsort(axis=1) < b - sizes.min(axis=1)[:, None]
        moved += int(taken.sum())
        final = np.where(taken, small, chosen)
        updates = points - models[rows, final if reference == "inserted" else chosen]
        norms = np.linalg.norm(updates, axis=-1, keepdims=True)
        updates /= np.maximum(1.0, norms)
        one_hot = (final[:, :, None] == np.arange(2)).astype(np.float64)
        sums = np.matmul(one_hot.transpose(0, 2, 1), updates)
        sums += 2 * sigma_theta * rng.standard_normal(sums.shape)
        counts = one_hot.sum(axis=1)[:, :, None]
        models = models + np.where(counts > 0, sums / np.maximum(counts, 1), 0.0)
    errors = models[:, 1] - truth[1]
    mean = errors.mean(axis=0)
    variance = float(((errors - mean) ** 2).sum() / (r - 1))
    # the mean of r repetitions carries variance/r itself
    return BiasVariance(float(mean @ mean) - variance / r, variance, moved / r / n_rounds)


# --- Table 4 --------------------------------------------------------------------------------------

TABLE_4_EPSILONS = (0.5, 2.0, 4.0, 8.0, 16.0, math.inf)
TABLE_4: dict[str, tuple[float | None, ...]] = {
    "DP-IFCA": (34.37, 42.18, 39.06, 40.62, 42.18, 75.00),
    "DP-FeSEM": (None, 42.18, 39.06, 32.81, 50.00, 46.87),
    "RR-Cluster(IFCA) B=4": (40.62, 45.31, 43.75, 59.37, 87.50, 98.44),
    "RR-Cluster(IFCA) B=6": (40.62, 53.12, 62.50, 87.50, 100.00, 84.37),
    "RR-Cluster(IFCA) B=8": (40.62, 59.37, 87.50, 98.44, 100.00, 100.00),
}
"""Clustering accuracy in per cent, Table 4 of the paper (FashionMNIST, balanced, four rotations);
None: not given. Every entry is a multiple of 1/64, to within 0.01."""
TABLE_4_CLIENTS = 64


def clopper_pearson(right: Any, n: int) -> tuple[Any, Any]:
    """The 95 % interval of a probability of which `right` of `n` trials came true."""
    right = np.asarray(right, dtype=np.float64)
    low = beta_distribution.ppf(0.025, right, n - right + 1)
    high = beta_distribution.ppf(0.975, right + 1, n - right)
    return np.where(right > 0, low, 0.0), np.where(right < n, high, 1.0)


@dataclass(frozen=True)
class Table4Row:
    """One entry of Table 4, and the identifier noise that would explain it.

    `n_correct` of 64; `sigma_s` makes the noisy argmax right that often, `lowest` and `highest` at
    the ends of the 95 % Clopper-Pearson interval; `needed` is the sigma_s of the accounting, and
    `accuracy_at_needed` what the noisy argmax then gives.
    """

    method: str
    epsilon: float
    accuracy: float
    n_correct: int
    sigma_s: float
    lowest: float
    highest: float
    needed: float
    accuracy_at_needed: float


def table_4(*, n_rounds: int = 50, share: float = 0.5) -> list[Table4Row]:
    """Table 4, inverted: if its accuracies were those of noisy identifiers, with what noise?

    k = 4, 100 of 1000 clients a round, delta = 1e-3, accountant "wor_rdp". The paper does not say
    whether it counts noisy identifiers or the clients' exact choice. `needed` is for the printed
    sensitivity; the correct one takes sqrt(2) times as much. ``share=1`` gives the whole budget to
    the identifiers and leaves none for models: no split does better.
    """
    check_share(share, "share", one=True)
    run: dict[str, Any] = {"n_rounds": n_rounds, "n_clients": 1000, "cohort": 100}
    k, rows = 4, []
    for method, accuracies in TABLE_4.items():
        for epsilon, accuracy in zip(TABLE_4_EPSILONS, accuracies, strict=True):
            if accuracy is None:
                continue
            right = round(accuracy * TABLE_4_CLIENTS / 100)
            low, high = (float(end) for end in clopper_pearson(right, TABLE_4_CLIENTS))
            needed = 0.0
            if math.isfinite(epsilon):
                sigma = accountants.calibrate(epsilon, 1e-3, accountant="wor_rdp", **run)
                needed = sigma / math.sqrt(share)
            likely, lowest, highest = (
                sigma_for_accuracy(x, k) for x in (right / TABLE_4_CLIENTS, high, low)
            )
            rows.append(
                Table4Row(
                    method, epsilon, accuracy, right, likely, lowest, highest, needed,
                    argmax_accuracy(needed, k),
                )
            )  # fmt: skip
    return rows
