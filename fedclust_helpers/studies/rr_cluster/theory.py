"""The paper's claims as small functions: as printed, corrected, and the exact truth beside them.

Notation: k clusters, M clients (all take part, as in Section 4.2), threshold B, C the clipping
bound, sigma_s and sigma_theta the noise multipliers of identifiers and sums, Delta the smallest
distance of two true models. Identifiers are one-hot vectors with noise of standard deviation
sigma_s on each entry.
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
    FloatArray,
    check_choice,
    check_delta,
    check_epsilon,
    check_int,
    check_non_negative,
    check_positive,
    check_real,
    check_rng,
)
from fedclust_helpers.accounting import gaussian_sigma_analytic, gdp_epsilon
from fedclust_helpers.rr_cluster.accounting import (
    calibrate,
    calibrate_identifiers,
    certified_epsilon,
    split_identifiers,
)

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(180)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
MOST = 10**6  # clusters, or sizes that are added up


def _vector(values: Any, name: str) -> FloatArray:
    """Finite numbers as an array of shape (n,)."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a vector of numbers") from None
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise ValueError(f"{name} must be a vector of finite numbers, at least one")
    return array


# --- identifiers: how often the noisy argmax is right ---------------------------------------------


def argmax_accuracy(sigma: float, n_clusters: int) -> float:
    """P(argmax of one-hot + N(0, sigma^2 I_k) is the marked entry), by quadrature.

    E[Phi(1/sigma + Z)^(k-1)], Z standard normal. 1 at sigma = 0 and 1/k at sigma = inf.
    """
    k = check_int(n_clusters, "n_clusters")
    sigma = check_real(sigma, "sigma")
    if sigma < 0:
        raise ValueError(f"sigma must be >= 0, got {sigma}")
    if sigma == 0:
        return 1.0
    return float(_WEIGHTS @ norm.cdf(1 / sigma + _NODES) ** (k - 1))


def simulate_argmax(
    sigma: float, n_clusters: int, n_draws: int, *, rng: np.random.Generator
) -> float:
    """The same probability, as the share of `n_draws` noisy identifiers that are right."""
    k = check_int(n_clusters, "n_clusters", maximum=MOST)
    n = check_int(n_draws, "n_draws", maximum=100 * MOST // k)
    noisy = check_non_negative(sigma, "sigma") * check_rng(rng).standard_normal((n, k))
    noisy[:, 0] += 1
    return float((noisy.argmax(axis=1) == 0).mean())


def sigma_for_accuracy(accuracy: float, n_clusters: int) -> float:
    """The noise at which the noisy argmax is right with probability `accuracy`.

    0 for accuracy 1, inf for 1/k or less.
    """
    accuracy, k = check_real(accuracy, "accuracy"), check_int(n_clusters, "n_clusters", minimum=2)
    if not 0 <= accuracy <= 1:
        raise ValueError(f"accuracy must lie in [0, 1], got {accuracy}")
    if accuracy <= 1 / k or accuracy == 1:
        return math.inf if accuracy < 1 else 0.0

    def excess(log_sigma: float) -> float:
        return argmax_accuracy(math.exp(log_sigma), k) - accuracy

    return math.exp(brentq(excess, math.log(0.02), math.log(1e12), xtol=1e-12))


def krr_accuracy(epsilon: float, n_clusters: int) -> float:
    """P(k-ary randomised response keeps the identifier), e^eps/(e^eps + k - 1)."""
    epsilon, k = check_non_negative(epsilon, "epsilon"), check_int(n_clusters, "n_clusters")
    return 1 / (1 + (k - 1) * math.exp(-epsilon))


def exponential_accuracy(epsilon: float, n_clusters: int) -> float:
    """P(the exponential mechanism keeps the identifier), its utility being the one-hot vector.

    The textbook scale eps/2 per unit of sensitivity: `krr_accuracy` at half the epsilon. The other
    half pays for a normaliser that may move; for one-hot utilities it cannot, so randomised
    response, which is the same mechanism with the exact scale, is always better.
    """
    return krr_accuracy(check_non_negative(epsilon, "epsilon") / 2, n_clusters)


@dataclass(frozen=True)
class FlipRates:
    """Probability that the identifier of one client is changed, by mechanism.

    `printed_epsilon` is what the Gaussian as printed really costs: its noise is for sensitivity
    C_s, but two one-hot vectors differ by sqrt(2) C_s.
    """

    printed: float
    corrected: float
    exponential: float
    krr: float
    printed_epsilon: float


def flip_rates(epsilon: float, delta: float, n_clusters: int) -> FlipRates:
    """Flip rates of one release at equal epsilon (replace-one, one client, no sampling).

    The two Gaussians are calibrated exactly at (epsilon, delta); the two pure mechanisms don't use
    delta.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    sigma = gaussian_sigma_analytic(epsilon, delta)
    return FlipRates(
        printed=1 - argmax_accuracy(sigma, n_clusters),
        corrected=1 - argmax_accuracy(math.sqrt(2) * sigma, n_clusters),
        exponential=1 - exponential_accuracy(epsilon, n_clusters),
        krr=1 - krr_accuracy(epsilon, n_clusters),
        printed_epsilon=gdp_epsilon(math.sqrt(2) / sigma, delta),
    )


def run_flip_rates(
    epsilon: float,
    delta: float,
    *,
    n_rounds: int,
    n_clients: int,
    cohort: int,
    n_clusters: int,
    share: float = 0.5,
) -> FlipRates:
    """Flip rates in one of `n_rounds` rounds of a run that costs (epsilon, delta) in all.

    Replace-one, fixed-size sampling. The sums carry the same noise everywhere: a part 1 - `share`
    of 1/sigma_eff^2. All four go through Theorem 4.2 with the tight conversion ("paper_tight"),
    since it amplifies pure mechanisms too.
    """
    run: dict[str, Any] = {"n_rounds": n_rounds, "n_clients": n_clients, "cohort": cohort}
    sigma = calibrate(epsilon, delta, accountant="paper_tight", **run)
    sigma_s, sigma_theta = split_identifiers(sigma, share)
    found = [
        calibrate_identifiers(
            epsilon, delta, sigma_theta=sigma_theta, n_clusters=answers, amplified=True, **run
        )
        for answers in (2, n_clusters)
    ]
    return FlipRates(
        printed=1 - argmax_accuracy(sigma_s, n_clusters),
        corrected=1 - argmax_accuracy(math.sqrt(2) * sigma_s, n_clusters),
        # charged for all of its epsilon, as its definition has it
        exponential=1 - krr_accuracy(found[0] / 2, n_clusters),
        krr=1 - krr_accuracy(found[1], n_clusters),
        printed_epsilon=actual_epsilon(
            sigma_s,
            sigma_theta,
            delta=delta,
            identifier_ratio=math.sqrt(2),
            accountant="paper_tight",
            **run,
        ),  # fmt: skip
    )


def actual_epsilon(
    sigma_s: float,
    sigma_theta: float,
    *,
    delta: float,
    n_rounds: int,
    n_clients: int,
    cohort: int,
    identifier_ratio: float = 1.0,
    sum_ratio: float = 1.0,
    accountant: str = "wor_rdp",
) -> float:
    """Epsilon of a run whose sensitivities are `ratio` times what the noise was made for.

    sqrt(2) for identifiers is the error of Algorithm 2; sqrt(5)/2 and 3/2 for
    the sums are what add/remove with an internal partition would need (k = 2 and k >= 3).
    """
    parts = [
        check_positive(identifier_ratio, "identifier_ratio")
        / check_positive(sigma_s, "sigma_s", finite=False),
        check_positive(sum_ratio, "sum_ratio") / check_positive(sigma_theta, "sigma_theta"),
    ]
    return certified_epsilon(
        1 / math.hypot(*parts), delta=delta, n_rounds=n_rounds, n_clients=n_clients, cohort=cohort,
        accountant=accountant,
    )  # fmt: skip


# --- when does rebalancing act? -------------------------------------------------------------------


def expected_moved(n_clients: int, probabilities: Any, min_size: int) -> float:
    """Expected number of clients moved in a round: sum_j E[(B - |S_j|)_+].

    Each of `n_clients` clients lands in cluster j with `probabilities[j]`, independently.
    """
    n = check_int(n_clients, "n_clients")
    b = check_int(min_size, "min_size", minimum=0, maximum=MOST)
    p = _vector(probabilities, "probabilities")
    if (p < 0).any() or abs(p.sum() - 1) > 1e-9:
        raise ValueError("probabilities must be a vector of numbers >= 0 that add up to 1")
    sizes = np.arange(b)
    return float(((b - sizes) * binom.pmf(sizes, n, p[:, None])).sum())


def binding_sigma(n_clients: int, n_clusters: int, min_size: int) -> float:
    """The sigma_s above which rebalancing doesn't act on average, even in a full collapse.

    If all clients choose one cluster, the noise alone gives each other one n (1 - P)/(k - 1) of
    them; this is B at the returned noise.
    """
    n, k = check_int(n_clients, "n_clients"), check_int(n_clusters, "n_clusters", minimum=2)
    b = check_int(min_size, "min_size", maximum=n // k)
    return sigma_for_accuracy(1 - b * (k - 1) / n, k)


# --- sensitivity and noise ------------------------------------------------------------------------


def clip_as_printed(update: FloatArray, identifier: FloatArray, bound: float) -> FloatArray:
    """Line 11 of Algorithm 1 as printed, update/max(1, ||s||/C): the norm of the wrong vector.

    The result may have any norm (10 for an update of norm 100 with a one-hot s and C = 0.1).
    """
    return np.asarray(update / max(1.0, float(np.linalg.norm(identifier)) / bound))


def model_noise(sigma_theta: float, clip: float, n_parameters: int, size: int) -> float:
    """Root mean square norm of the noise in one model, 2 C sigma_theta sqrt(d)/|S_j|."""
    check_positive(sigma_theta, "sigma_theta")
    check_positive(clip, "clip")
    d, n = check_int(n_parameters, "n_parameters"), check_int(size, "size")
    return 2 * clip * sigma_theta * math.sqrt(d) / n


def scale_divergence(size: int, n_parameters: int, *, order: float = 2.0) -> float:
    """Renyi divergence from N(0, (s/n)^2 I_d) to N(0, (s/(n-1))^2 I_d), the larger direction.

    Under add/remove, dividing noise of a known scale by the exact |S_j| reveals the count by the
    scale of what comes out. inf where an order is too high for the divergence to exist.
    """
    n, d = check_int(size, "size", minimum=2), check_int(n_parameters, "n_parameters")
    order = check_real(order, "order")
    if not 1 < order < math.inf:
        raise ValueError(f"order must be > 1 and finite, got {order}")

    def one_way(p: float, q: float) -> float:  # standard deviations of the two
        mixed = order * q * q + (1 - order) * p * p
        if mixed <= 0:
            return math.inf
        return math.log(q / p) + math.log(q * q / mixed) / (2 * (order - 1))

    return d * max(one_way(1 / n, 1 / (n - 1)), one_way(1 / (n - 1), 1 / n))


# --- Lemma 4.8 ------------------------------------------------------------------------------------


def selection_term(
    eta: float, beta: float, strong_convexity: float, separation: float, n_clusters: int
) -> float:
    """Term 1 of Lemma 4.8, 8 eta^2 k/(beta^2 lambda^2 Delta^4): a wrong argmin of the losses.

    With ``n_clusters=1`` it is the bound for one rival.
    """
    check_positive(strong_convexity, "strong_convexity")
    check_positive(separation, "separation")
    if not 0 < check_real(beta, "beta") < 0.5:
        raise ValueError(f"beta must lie in (0, 1/2), got {beta}")
    k, eta = check_int(n_clusters, "n_clusters"), check_non_negative(eta, "eta")
    return 8 * eta**2 * k / (beta**2 * strong_convexity**2 * separation**4)


def identifier_term(
    sigma_s: float,
    n_clusters: int,
    *,
    form: Literal["printed", "literal", "corrected"] = "printed",
) -> float:
    """Term 2 of Lemma 4.8: the noise changes the argmax.

    "printed" reads exp(-1/4 sigma_s^2) as exp(-1/(4 sigma_s^2)), as the proof does; "literal" as
    exp(-sigma_s^2/4), which falls below the truth; "corrected" is the union bound over k - 1 rivals
    with the exact tail, (k - 1) Q(1/(sigma_s sqrt(2))).
    """
    sigma, k = check_positive(sigma_s, "sigma_s"), check_int(n_clusters, "n_clusters")
    check_choice(form, "form", ("printed", "literal", "corrected"))
    if form == "corrected":
        return (k - 1) * float(norm.sf(1 / (sigma * math.sqrt(2))))
    exponent = sigma**2 if form == "literal" else 1 / sigma**2
    return k * sigma / math.sqrt(math.pi) * math.exp(-exponent / 4)


def rebalancing_term(
    size_std: float,
    n_clients: int,
    n_clusters: int,
    min_size: float,
    *,
    form: Literal["printed", "corrected"] = "printed",
) -> float:
    """Term 3 of Lemma 4.8, k^2 mu^2/(M/k - B)^2: rebalancing moves the client.

    "corrected": k mu^2/(M/k - B)^2, the union bound over clusters of P(|S_j| < B), which is what
    Chebyshev's inequality in Equation 18 bounds.
    """
    check_choice(form, "form", ("printed", "corrected"))
    k = check_int(n_clusters, "n_clusters")
    margin = check_int(n_clients, "n_clients") / k - min_size
    if margin <= 0:
        raise ValueError(f"min_size must be below n_clients/n_clusters, got {min_size}")
    return (
        (k * k if form == "printed" else k)
        * check_non_negative(size_std, "size_std") ** 2
        / (margin**2)
    )


def lemma_4_8(
    *,
    eta: float,
    beta: float,
    strong_convexity: float,
    separation: float,
    sigma_s: float,
    size_std: float,
    n_clients: int,
    n_clusters: int,
    min_size: float,
    form: Literal["printed", "corrected"] = "printed",
) -> float:
    """tau of Lemma 4.8: the sum of the three terms (above 1 it says nothing)."""
    rivals = n_clusters if form == "printed" else max(n_clusters - 1, 1)
    return (
        selection_term(eta, beta, strong_convexity, separation, rivals)
        + identifier_term(sigma_s, n_clusters, form=form)
        + rebalancing_term(size_std, n_clients, n_clusters, min_size, form=form)
    )


def selection_error(
    separation: float, spread: float, *, beta: float = 0.25, worst: bool = False
) -> tuple[float, float]:
    """Truth and bound (one rival) of term 1, for mean estimation in the plane.

    A client of cluster 1 holds one point z ~ N(theta_1*, spread^2 I_2); its loss is
    ||theta - z||^2/2, so lambda = L = 1. Both models are off by the largest distance allowed, (1/2
    - beta) Delta, towards each other, or (`worst`) both in the direction of the rival's. eta^2 is
    the variance of the loss at the rival's nearer position.
    """
    separation = check_positive(separation, "separation")
    spread = check_positive(spread, "spread")
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
    m, k = check_int(n_clients, "n_clients"), check_int(n_clusters, "n_clusters", minimum=2)
    b = check_int(min_size, "min_size", minimum=0, maximum=math.ceil(m / k) - 1)
    return Equation18(
        bound=m / k * (1 - 1 / k) / (m / k - b) ** 2,
        above=float(binom.sf(b, m, 1 / k)),
        below=float(binom.cdf(b - 1, m, 1 / k)),
    )


# --- Theorem 4.10 ---------------------------------------------------------------------------------

Form = Literal["printed", "corrected"]


def contraction(
    *,
    gamma: float,
    strong_convexity: float,
    smoothness: float,
    tau: float,
    delta_c: float,
    n_clients: int,
    n_clusters: int,
    min_size: float,
    form: Form = "printed",
) -> float:
    """The contraction factor of Theorem 4.10.

    "printed": 1 - gamma L (B - 2 tau M/delta_c)/(2 rho), rho = M - (k - 1) B. "corrected": lambda
    for L (lambda L/(lambda + L) is at least lambda/2, not L/2) and 4 tau M/delta_c (the proof
    takes delta_4 = delta_c/4). Above 1 the theorem says nothing.
    """
    check_choice(form, "form", ("printed", "corrected"))
    rho = check_int(n_clients, "n_clients") - (n_clusters - 1) * min_size
    if rho <= 0:
        raise ValueError("min_size must be below n_clients/(n_clusters - 1)")
    factor, rate = (2, smoothness) if form == "printed" else (4, strong_convexity)
    return 1 - gamma * rate * (min_size - factor * tau * n_clients / delta_c) / (2 * rho)


def error_floor(
    *,
    gamma: float,
    smoothness: float,
    gradient_std: float,
    separation: float,
    sigma_theta: float,
    clip: float,
    tau: float,
    delta_c: float,
    n_clients: int,
    n_clusters: int,
    min_size: float,
    n_parameters: int,
) -> tuple[float, float, float, float]:
    """The four terms of epsilon in Equation 2 (sampling, moved means, moved noise, privacy noise).

    The first is inf unless B delta_c > 4 tau M: then the theorem is vacuous.
    """
    m, b, d = n_clients, min_size, check_int(n_parameters, "n_parameters")
    log_term = math.log(4 / check_delta(delta_c, "delta_c"))
    room = b * delta_c - 4 * tau * m
    sampling = 4 * gradient_std / math.sqrt(delta_c * room) if room > 0 else math.inf
    moved = 6 * tau * gamma * smoothness * separation * m / (delta_c * b)
    spread = math.sqrt(tau * n_clusters * m) / (b * delta_c * math.sqrt(delta_c))
    tail = math.sqrt(d + 2 * math.sqrt(d * log_term) + 2 * log_term)
    return (
        sampling,
        moved,
        8 * gamma * gradient_std * n_clusters * spread,
        2 * gamma * sigma_theta * clip / b * tail,
    )


def flat_axis_factor(curvatures: Any, gamma: float) -> float:
    """By how much one exact gradient step shrinks the distance, from the worst start.

    The loss is quadratic with these `curvatures`. The slowest axis keeps |1 - gamma h|: 0.99 for
    curvatures (0.01, 1) at gamma = 1, where Theorem 4.10 (k = 1, no noise) promises 0.5.
    """
    h = _vector(curvatures, "curvatures")
    start = np.eye(len(h))
    moved = start - check_positive(gamma, "gamma") * start * h
    return float(np.linalg.norm(moved, axis=1).max())


def largest_informative_sigma(
    n_clusters: int,
    delta_c: float,
    *,
    share: float | None = None,
    form: Form = "printed",
) -> float:
    """The largest sigma_s with B delta_c > 4 tau M, tau being its identifier term alone.

    Only below it is the first term of `error_floor` finite. `share` is B/M, 1/k (the largest) by
    default.
    """
    k, delta_c = check_int(n_clusters, "n_clusters", minimum=2), check_delta(delta_c, "delta_c")
    share = 1 / k if share is None else check_positive(share, "share")

    def excess(log_sigma: float) -> float:
        return 4 * identifier_term(math.exp(log_sigma), k, form=form) - share * delta_c

    return math.exp(brentq(excess, math.log(0.05), math.log(10.0), xtol=1e-12))


def rounds_to_quarter(
    rate: float,
    alpha_0: float,
    condition_number: float,
    *,
    separation: float = 1.0,
    form: Form = "printed",
) -> float:
    """T' of Corollary B.1: rounds until the models are within sqrt(lambda/L) Delta/4.

    `rate` is K = 1 - contraction. Printed with Delta in the logarithm, so that the answer changes
    with the unit of length; Delta cancels in Equation 41 ("corrected").
    """
    check_choice(form, "form", ("printed", "corrected"))
    ratio = 1 / (8 * (0.5 - alpha_0) * math.sqrt(condition_number))
    if form == "printed":
        ratio *= check_positive(separation, "separation")
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
    sigma_theta: float,
    min_size: int,
    *,
    rng: np.random.Generator,
    reference: Literal["inserted", "trained"] = "inserted",
    n_clients: int = 100,
    n_minority: int = 10,
    n_features: int = 20,
    separation: float = 1.0,
    spread: float = 0.1,
    clip: float = 1.0,
    n_rounds: int = 20,
    n_repetitions: int = 60,
) -> BiasVariance:
    """What B does to the small one of two clusters: mean estimation, exact identifiers, noisy sums.

    Client i holds x_i = truth + N(0, spread^2 I); its update is x_i minus a model, clipped; sums
    get noise 2C sigma_theta and are divided by |S_j|; an empty cluster keeps its model. Both models
    start at the truth, all clients take part, and the step is 1. Strict rule.

    Parameters
    ----------
    reference : {"inserted", "trained"}
        The model a moved client's update is relative to. "inserted" is the model it is moved into,
        as the analysis has it (Equation 22): rebalancing pulls the small model towards the large
        one. "trained" is the model it was trained from, as Algorithms 1 and 2 have it: near the
        optimum such updates average to 0, and only shorten the step.
    """
    sigma, b = (
        check_non_negative(sigma_theta, "sigma_theta"),
        check_int(min_size, "min_size", minimum=0, maximum=check_int(n_clients, "n_clients") // 2),
    )
    check_rng(rng)
    check_choice(reference, "reference", ("inserted", "trained"))
    n, r = n_clients, check_int(n_repetitions, "n_repetitions", minimum=2)
    truth = np.zeros((2, check_int(n_features, "n_features")))
    truth[1, 0] = separation
    labels = (np.arange(n) < check_int(n_minority, "n_minority", maximum=n - 1)).astype(np.int64)
    points = truth[labels] + spread * rng.standard_normal((r, n, n_features))
    models = np.broadcast_to(truth, (r, *truth.shape)).copy()
    rows, moved = np.arange(r)[:, None], 0
    for _ in range(check_int(n_rounds, "n_rounds")):
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
        updates /= np.maximum(1.0, norms / clip)
        one_hot = (final[:, :, None] == np.arange(2)).astype(np.float64)
        sums = np.matmul(one_hot.transpose(0, 2, 1), updates)
        sums += 2 * clip * sigma * rng.standard_normal(sums.shape)
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


def table_4(
    *,
    n_rounds: int = 50,
    n_clients: int = 1000,
    cohort: int = 100,
    n_clusters: int = 4,
    delta: float = 1e-3,
    share: float = 0.5,
    accountant: str = "wor_rdp",
) -> list[Table4Row]:
    """Table 4, inverted: if its accuracies were those of noisy identifiers, with what noise?

    The paper does not say whether it counts noisy identifiers or the clients' exact choice.
    `needed` is for the printed sensitivity; the correct one takes sqrt(2) times as much.
    ``share=1`` gives the whole budget to the identifiers and leaves none for models: no split does
    better.
    """
    share = check_real(share, "share")
    if not 0 < share <= 1:
        raise ValueError(f"share must lie in (0, 1], got {share}")
    rows = []
    for method, accuracies in TABLE_4.items():
        for epsilon, accuracy in zip(TABLE_4_EPSILONS, accuracies, strict=True):
            if accuracy is None:
                continue
            right = round(accuracy * TABLE_4_CLIENTS / 100)
            wrong = TABLE_4_CLIENTS - right
            low = float(beta_distribution.ppf(0.025, right, wrong + 1)) if right else 0.0
            high = float(beta_distribution.ppf(0.975, right + 1, wrong)) if wrong else 1.0
            needed = 0.0
            if math.isfinite(epsilon):
                sigma = calibrate(
                    epsilon, delta, n_rounds=n_rounds, n_clients=n_clients, cohort=cohort,
                    accountant=accountant,
                )  # fmt: skip
                needed = sigma / math.sqrt(share)
            rows.append(
                Table4Row(
                    method, epsilon, accuracy, right,
                    sigma_for_accuracy(right / TABLE_4_CLIENTS, n_clusters),
                    sigma_for_accuracy(high, n_clusters), sigma_for_accuracy(low, n_clusters),
                    needed, argmax_accuracy(needed, n_clusters),
                )
            )  # fmt: skip
    return rows
