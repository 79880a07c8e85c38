"""Live checks of the claims of FedDP-KMeans: composition, Steps 1 to 3, bounds, Appendix G.2."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from scipy import stats

from fedclust_helpers import accounting as acc
from fedclust_helpers import feddp_kmeans as fd
from fedclust_helpers import kmeans
from fedclust_helpers._index import bincount, repeat
from fedclust_helpers.federation import ClientData, Federation, simulate
from fedclust_helpers.metrics import nicv
from studies.feddp_kmeans import bounds, theory
from studies.paper_data import make_server_mixture, one_hot_acsincome

Numbers = dict[str, Any]
DELTA, K, D, RADIUS = 1e-6, 10, 100, 11.0
PAPER_RADIUS = 10.57
CENSUS_ROWS = {"not_for_profit": 127_491, "federal": 44_720, "self_employed": 98_475}


def _rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng([2026, seed])


@cache
def _mixture() -> Any:
    return make_server_mixture(rng=_rng())


def classic_with_two() -> Numbers:
    """G2: true over claimed delta with sqrt(2 ln(2/delta))/epsilon."""
    over = [
        acc.gdp_delta(1 / acc.gaussian_sigma_classic(e, DELTA, constant=2.0), e) / DELTA
        for e in (1.0, 5.0, 9.0, 10.0, 20.0)
    ]
    return {"over": over}


def laplace() -> Numbers:
    """G6: variance of Laplace(1/epsilon) at epsilon = 0.5."""
    return {"variance": float(_rng(1).laplace(0, 2.0, 10**6).var())}


def composition() -> Numbers:
    """K1, K3, F9: delta at the sum of three epsilons; six of 1 added up, and what is exact."""
    mu, printed = acc.gdp_mu(1.0, DELTA), []
    for each in combinations_with_replacement((0.01, 0.1, 1.0, 4.0), 3):
        root = math.hypot(*(1 / acc.gaussian_sigma_classic(e, DELTA) for e in each))
        printed.append(acc.gdp_delta(root, sum(each)) / DELTA)
    ones = fd.StepBudgets(1, 1, 1, 1, 1, 1, n_rounds=1, delta=DELTA)
    return {
        "printed": max(printed), "sum": ones.epsilon_sum, "total": ones.total(),
        "gaussians": acc.gdp_epsilon(math.sqrt(3) * mu, DELTA),
        "honest": 3 * acc.gdp_epsilon(mu, DELTA / 3) + 3,
    }  # fmt: skip


def round_noise() -> Numbers:
    """K2: epsilon that the noise of T = 5 rounds really costs, by the three printed formulas."""
    T, out = 5, []
    for std in (
        acc.gaussian_sigma_classic(1 / T, DELTA / T),
        math.sqrt(T) * acc.gaussian_sigma_classic(1 / T, DELTA),
        T * math.sqrt(2 * math.log(2 * T / DELTA) / RADIUS),
    ):
        out.append(acc.gdp_epsilon(math.sqrt(T) / std, DELTA))
    return {"epsilon": out}


def subspace() -> Numbers:
    """K4, K5: Step 1 on the paper's mixture: complex eigenvalues, and the energy that is kept."""
    made, grid = _mixture(), (0.05, 0.1, 0.2, 0.5, 1.0)
    rows = made.points * np.minimum(1, RADIUS / np.linalg.norm(made.points, axis=1))[:, None]
    outer, kept = rows.T @ rows, {"mirror": [], "average": []}  # type: ignore[var-annotated]
    for epsilon in grid:
        std = RADIUS**2 * acc.gaussian_sigma_analytic(epsilon, DELTA)
        energy = []
        for seed in range(5):
            noisy = outer + _rng(seed).normal(0, std, (D, D))
            for repaired in (np.triu(noisy) + np.triu(noisy, 1).T, (noisy + noisy.T) / 2):
                basis = np.linalg.eigh(repaired)[1][:, -K:]
                energy.append(bounds.subspace_energy(basis, made.true_centers))
        for name, value in zip(kept, np.reshape(energy, (5, 2)).mean(axis=0), strict=True):
            kept[name].append(float(value))
    at_one = outer + _rng(9).normal(0, RADIUS**2 * acc.gaussian_sigma_analytic(1.0, DELTA), (D, D))
    return kept | {"complex": int((np.abs(np.linalg.eigvals(at_one).imag) > 1e-9).sum())}


def ties() -> Numbers:
    """K6: counts that one row changes where two server points coincide."""
    gaps = np.abs(np.array([2.0, 2.0, 5.0]) - 1.0)
    first = bincount(kmeans.assign([[1.0]], [[2.0], [2.0], [5.0]]).labels, minlength=3)
    return {"all": int((gaps <= gaps.min()).sum()), "first": int(first.sum())}


def averaging() -> Numbers:
    """K7, F11: how often the error of a noised mean exceeds Lemma 7, printed and corrected."""
    rates: dict[str, list[float]] = {"printed": [], "corrected": []}
    sigma = acc.gaussian_sigma_analytic(0.5, DELTA)
    limits = {"epsilon": 1.0, "delta": DELTA, "radius": 1.0, "failure": 0.1}
    for d in (1, 2, 10, 100):
        rng, mean = _rng(d), np.eye(d)[0]
        sums = 1000 * mean + rng.normal(0, sigma, (4000, d))
        error = np.linalg.norm(sums / (1000 + rng.laplace(0, 2, (4000, 1))) - mean, axis=1)
        for name, rate in rates.items():
            bound = bounds.averaging_error_bound(1000, d, as_printed=name == "printed", **limits)
            rate.append(float((error > bound).mean()))
    return rates


def conditions() -> Numbers:
    """K8, K9, K10, Table 1: assumptions of the theorems on the paper's mixture (App. G.1)."""
    made, sigma = _mixture(), math.sqrt(0.5)
    n, equal = made.n_points, np.full(K, 1 / K)
    x = made.points - made.true_centers[made.labels]
    server = [
        np.linalg.norm(
            make_server_mixture(rows_per_client=1, rng=_rng(seed)).server_points, axis=1
        ).max()
        for seed in range(10)
    ]
    return {
        "c": bounds.separation_constant(made.true_centers, equal, sigma=sigma, n_records=n),
        "allowed": int(assumption_2(n, k=K, epsilon=1.0, sigma=sigma, radius=PAPER_RADIUS)),
        "points": len(made.server_points), "low": math.sqrt(n / K) * sigma / 4,
        "norm": math.sqrt(np.linalg.eigvalsh(x.T @ x)[-1]), "high": 4 * math.sqrt(n) * sigma,
        "server": (min(server), max(server)), "client": np.linalg.norm(made.points, axis=1).max(),
    }  # fmt: skip


def smallest_component() -> Numbers:
    """K11: P(some of k equal components has fewer than half its share), by a union bound."""
    fails = []
    for k in (2, 10):
        n = math.ceil(24 * math.log(k) * k)
        fails.append(k * stats.binom.cdf(math.ceil(n / k / 2) - 1, n, 1 / k))
    return {"fails": fails}


def weighted_cost() -> Numbers:
    """K12: Lemma 13 for k = 1, where the optimum is known (a = 1); worst ratio of both sides."""
    rng, worst = _rng(12), 0.0
    for _ in range(500):
        p, c = rng.normal(size=(60, 2)), rng.normal(size=(6, 2)) * rng.uniform(0.2, 3)
        found = kmeans.assign(p, c)
        sizes = bincount(found.labels, minlength=6)
        weights = sizes * rng.uniform(0.5, 1.5, 6)
        cost = ((p - weights @ c / weights.sum()) ** 2).sum()
        bound = 14 * found.squared.sum() + 12 * ((p - p.mean(axis=0)) ** 2).sum()
        worst = max(worst, cost / bound)
    return {"worst": worst}


def _four_groups(n: int, *, rng: np.random.Generator) -> tuple[Any, Any]:
    """Rows (n, 5) around four means 19 standard deviations apart, and those means."""
    means = 4 * np.eye(5)[:4]
    return repeat(means, n // 4, axis=0) + rng.normal(0, 0.3, (n, 5)), means


def simplified() -> Numbers:
    """K.lemma23: of 600 server points without rows, how many Algorithm 4 keeps."""
    rows, means = _four_groups(20_000, rng=_rng(23))
    far = np.array([0, 0, 0, 0, 9.0]) + _rng(24).uniform(0, 0.1, (600, 5))
    server, kept = np.concatenate([means, far]), {}
    for threshold in ("printed", "proof"):
        federation = simulate([rows], "ideal", seed=23, bound=10.0, domain="ball")
        made = theory.simplify_server_data(
            federation, server, np.eye(5), epsilon=1.0, min_weight=0.25, rng=_rng(25),
            threshold=threshold,
        )  # fmt: skip
        kept[threshold] = int((made.kept >= len(means)).sum())
    return kept | {"rounds": len(made.released) - 1}


def _algorithm_5(rows: Any, server: Any, means: Any, *, epsilon: float, move: bool) -> float:
    """Median distance from a true mean to the nearest centre that Algorithm 5 finds."""
    shared: Any = {"trust": "ideal", "domain": "ball", "ledger": acc.PrivacyLedger()}
    bound = float(np.linalg.norm(rows, axis=1).max())

    def moved(reduction: theory.DiameterReduction) -> Federation:
        return simulate([reduction.move(rows)], seed=16, bound=reduction.bound, **shared)

    made = theory.theory_kmeans(
        simulate([rows], seed=15, bound=bound, **shared), server, n_clusters=len(means),
        epsilon=epsilon, delta=DELTA, min_weight=1 / len(means), n_rounds=2, rng=_rng(17),
        sigma=0.3, move=moved if move else None, threshold="proof",
    )  # fmt: skip
    gaps = np.linalg.norm(made.centers[:, None] - means, axis=2)
    return float(np.median(gaps.min(axis=0)))


def whole_analysis() -> Numbers:
    """K.thm15: Algorithm 5, and for groups 1e5 apart, with and without Lemma 17."""
    rows, means = _four_groups(80_000, rng=_rng(15))
    server = repeat(means, 20, axis=0) + _rng(16).normal(0, 0.3, (80, 5))
    far = np.array([0, 0, 0, 0, 1e5])
    apart = rows + far * (np.arange(len(rows))[:, None] % 2)
    both = np.concatenate([server, server + far]), np.concatenate([means, means + far])
    return {
        "near": _algorithm_5(rows, server, means, epsilon=1.0, move=False),
        "moved": _algorithm_5(apart, *both, epsilon=40.0, move=True),
        "direct": _algorithm_5(apart, *both, epsilon=40.0, move=False),
    }


def _four_clusters(n: int, d: int, separation: float, *, rng: np.random.Generator) -> Any:
    """Rows of four unit Gaussians, true means, and empirical means."""
    means = np.linalg.qr(rng.standard_normal((d, 4)))[0].T * separation / math.sqrt(2)
    labels = repeat(np.arange(4), n // 4)
    rows = means[labels] + rng.standard_normal((len(labels), d))
    return rows, means, kmeans.group_sums(rows, labels, 4)[0] / (n // 4)


def halving() -> Numbers:
    """K13: error of exact Lloyd steps from 0.4 of the way to another centre, by separation."""
    errors = {}
    for separation in (20, 10, 6, 4):
        rows, _, center = _four_clusters(40_000, 10, separation, rng=_rng(separation))
        moved, out = center + 0.4 * (np.roll(center, 1, axis=0) - center), []
        for _ in range(6):
            out.append(float(np.linalg.norm(moved - center, axis=1).max()))
            moved = kmeans.lloyd(rows, moved, n_rounds=1)
        errors[separation] = out
    halved = [all(b < 0.5 * a for a, b in zip(e, e[1:], strict=False) if a > 0.05)
              for e in errors.values()]  # fmt: skip
    return {"halved": halved, "first": [e[1] / e[0] for e in errors.values()],
            "plateau": errors[4][-1]}  # fmt: skip


def _floor(n: int = 20_000, d: int = 16, epsilon: float = 1.0, t: int = 1) -> Any:
    """Error after t noised rounds from the truth, Delta, and distance to the true means."""
    rng = _rng(n + d + t)
    rows, means, center = _four_clusters(n, d, 20, rng=rng)
    radius, errors = float(np.linalg.norm(rows, axis=1).max()), []
    std = radius * acc.gaussian_sigma_classic(epsilon / 2 / t, DELTA / t)
    for _ in range(5):
        moved = center
        for _ in range(t):
            sums, counts = kmeans.sums_and_counts(rows, moved)
            sums = sums + rng.normal(0, std, sums.shape)
            moved = sums / (counts + rng.laplace(0, 2 * t / epsilon, 4))[:, None]
        errors.append(np.linalg.norm(moved - center, axis=1).mean())
    return np.mean(errors), radius, np.linalg.norm(moved - means, axis=1).mean()


def floors() -> Numbers:
    """K14, K15, K16, F10: what the floor of Theorem 3 does in n, epsilon, T and d."""
    by_n = [_floor(n=n)[0] * n for n in (5000, 20_000, 80_000)]
    by_e = [_floor(epsilon=e)[0] * e for e in (0.5, 2.0, 8.0)]
    by_t = [_floor(t=t)[0] / t for t in (1, 2, 5)]
    dims, n = np.array([4, 16, 64, 256]), 10_000
    error, radius, _ = np.array([_floor(n=n, d=d) for d in dims]).T
    gone = np.array([_floor(n=n, epsilon=1e6, t=5) for n in (2000, 8000, 32_000)])
    return {
        "spread": [max(v) / min(v) for v in (by_n, by_e, by_t)],
        "printed": error / (radius * math.log(n) / (n / 4)),
        "corrected": error
        / (2 * radius * np.sqrt(2 * dims * math.log(1.25 / DELTA)) / (n / 4)),
        "true": gone[:, 2], "empirical": gone[:, 0],
        "sampling": [math.sqrt(16 / (n / 4)) for n in (2000, 8000, 32_000)],
    }  # fmt: skip


def released_code(radius: float) -> Numbers:
    """K.code: what the authors' noise for Step 1, scaled by Delta instead of Delta^2, costs."""
    shipped = fd.StepBudgets(1, 1, 0.5, 0.5, delta=DELTA)
    outer = acc.gdp_epsilon(radius * acc.gdp_mu(1.0, DELTA), DELTA)
    return {"reported": shipped.total(), "real": replace(shipped, outer=outer).total()}


def shares() -> Numbers:
    """K.shares: cost above the optimum and weight of foreign points, one budget at a tenth."""
    made = make_server_mixture(n_clients=100, rows_per_client=200, rng=_rng(11))
    data = ClientData(*made.clients()).clipped(made.radius, domain="ball")[0]
    assert made.true_centers is not None
    optimum = nicv(made.points, kmeans.lloyd(made.points, made.true_centers, n_rounds=5))
    asked, foreign = fd.split_epsilon(1.0), ~np.asarray(made.in_distribution, dtype=bool)
    cost: dict[str, float] = {}
    weight: dict[str, float] = {}
    for name in ("none", "outer", "weights", "sums", "counts"):
        less = {} if name == "none" else {name: getattr(asked, name) / 10}
        found = []
        for seed in range(10):
            fed = simulate(data, "ideal", seed=seed, bound=made.radius, domain="ball")
            plan = fd.plan(fed, made.server_points, n_clusters=K, budgets=replace(asked, **less))
            run = fd.run(fed, plan, rng=_rng(seed))
            w = np.maximum(run.init.weights, 0)
            found.append((nicv(made.points, run.centers) - optimum, w[foreign].sum() / w.sum()))
        cost[name], weight[name] = np.mean(found, axis=0).tolist()
    return {"cost": cost, "weight": weight}


# --- Appendix G.2 ---------------------------------------------------------------------------------


def assumption_1(
    n: int, *, k: int, d: int, sigma: float, epsilon: float, min_weight: float
) -> float:
    """Right side of assumption (1) without its constant: k ln(n)^2 sigma sqrt(d)/(eps w_min)."""
    return k * math.log(n) ** 2 * sigma * math.sqrt(d) / (epsilon * min_weight)


def assumption_2(
    n: int, *, k: int, sigma: float, epsilon: float, radius: float, log: bool = False
) -> float:
    """Right side of assumption (2): eps n k sigma^2/Delta^2, with a factor ln n in G.2 only."""
    return epsilon * n * k * (math.log(n) if log else 1.0) * (sigma / radius) ** 2


def appendix_g2() -> Numbers:
    """Both sides of the assumptions with the printed and with the data's own numbers."""
    gauss: Any = {"k": K, "d": D, "epsilon": 1.0, "min_weight": 0.1}
    second: Any = {"k": K, "epsilon": 1.0}
    census: Any = {"k": K, "d": 819, "epsilon": 0.5, "min_weight": 1.0}
    half = math.sqrt(0.5)
    return {
        "first": [assumption_1(10**5, sigma=s, **gauss) for s in (0.5, half)],
        "second": [assumption_2(10**5, sigma=s, radius=r, log=log, **second) for s, r, log in
                   ((0.5, 10, True), (0.5, PAPER_RADIUS, True), (half, PAPER_RADIUS, False))],
        "census": [assumption_1(n, sigma=s, **census)
                   for s, n in ((0.005, 10**5), (1.87, 10**5), (1.87, 44_720))],
        "census2": [assumption_2(n, sigma=math.sqrt(3.5), radius=2.65, log=log, **second)
                    for n in CENSUS_ROWS.values() for log in (False, True)],
    }  # fmt: skip


def census_radius() -> Numbers:
    """K.table1.census: the norm of a row of the census sets, one-hot in seven columns."""
    row = {name: [1] for name in ("SCHL", "MAR", "OCCP", "POBP", "RELP", "SEX", "RAC1P")}
    return {"norm": float(np.linalg.norm(one_hot_acsincome(row), axis=1)[0])}
