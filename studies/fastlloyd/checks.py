"""Live checks of the claims of FastLloyd: each computes numbers in well under a second."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

from fedclust_helpers import accounting as acc
from fedclust_helpers import fastlloyd as fl
from fedclust_helpers import kmeans
from fedclust_helpers.client_statistics import RELATIVE_SUMS_AND_COUNTS
from fedclust_helpers.federation import simulate
from fedclust_helpers.mechanisms import NoNoise
from fedclust_helpers.secure_aggregation import FixedPoint
from studies.fastlloyd.experiments import one_record_moves

Numbers = dict[str, Any]


def _rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng([2025, seed])


def hockey_sticks() -> Numbers:
    """G4, G5: E (1 - exp(eps - L))_+ over draws of the privacy loss L, against the formula."""

    def drawn(strengths: tuple[float, ...], epsilon: float) -> float:
        mu = np.array(strengths)
        loss = ((_rng(1).normal(mu, 1, (500_000, len(mu))) - mu / 2) * mu).sum(axis=1)
        return float(np.maximum(0, -np.expm1(epsilon - loss)).mean())

    return {
        "formula": [acc.gdp_delta(1, 1), acc.gdp_delta(2, 2)],
        "drawn": [drawn((1.0,), 1), drawn((2.0,), 2)], "pair": drawn((0.6, 0.8), 1),
    }  # fmt: skip


def one_record() -> Numbers:
    """L1: 600 random data sets; the relative sums with one more, and with another, worst point."""
    rng = _rng(2)
    moves = np.array([one_record_moves(rng=rng) for _ in range(600)])
    return {"added": moves[:, 1].max(), "replaced": moves[:, 2].max()}


def budget() -> Numbers:
    """L2, L3: what seven rounds spend, with noise for the radius of each round or for eta only."""
    n, k, d, T = 5000, 15, 2, 7
    delta = fl.default_delta(n)
    sums, counts = (
        s * math.sqrt(T) for s in fl.split_noise(acc.gaussian_sigma_analytic(1.0, delta), d)
    )
    radii = fl.round_radii(T, k, d, strategy="step")
    mu = math.hypot(*[1 / sums, 1 / counts] * T)
    wrong = math.hypot(*radii / (sums * radii[-1]), *[1 / counts] * T)
    return {
        "ratio": radii[0] / radii[-1], "epsilon": acc.gdp_epsilon(mu, delta),
        "wrong": acc.gdp_epsilon(wrong, delta),
    }  # fmt: skip


def splits() -> Numbers:
    """L4, L17, L18, F8: the best split of the noise, by trying ratios."""
    a2 = np.geomspace(1e-3, 1e3, 200_001) ** 2
    gaps, gaps_g, gaps_r = [], [], []
    for d in (1, 2, 10, 100, 784):
        ours = np.divide(*fl.split_noise(1.0, d)[::-1])
        gaps.append(abs(math.sqrt(a2[((1 + 1 / a2) * (4 * d / a2 + 1) * a2).argmin()]) / ours - 1))
        error = d * (1 + 1 / a2) + 4 * fl.RHO**2 * (1 + a2)  # Eq. 29
        sums, counts = fl.split_noise_glloyd(1.0, d)
        gaps_g.append(abs(math.sqrt(a2[error.argmin()]) / (counts / sums) - 1))
        for r in (0.01, 0.25, 1.0):
            best = math.sqrt(a2[((r * a2 + d) * (1 + 1 / a2)).argmin()])
            gaps_r.append(abs(best / (d / r) ** 0.25 - 1))
        if d == 10:
            eq32 = d * (2 * fl.RHO + math.sqrt(d)) ** 2 / error.min()
    return {"gap": max(gaps), "gap_g": max(gaps_g), "gap_r": max(gaps_r), "eq32": eq32}


def one_cluster(count: float, sums: float, counts: float, step: float, n: int = 100_000) -> Any:
    """Squared errors of n noised means in the plane, the true one `step` from the centre."""
    rng = _rng(3)
    noisy = np.array([count * step, 0]) + rng.normal(0, sums, (n, 2))
    means = noisy / (count + rng.normal(0, counts, (n, 1)))
    return ((means - [step, 0]) ** 2).sum(axis=1)


def cluster_errors() -> Numbers:
    """L5, L6, F6: Eq. 16 against simulation, by k, and by the count over its noise."""
    printed, corrected, far = [], [], []
    for k in (3, 5, 10):
        eta = fl.max_radius(k, 2)
        noise: Any = {"std_sums": 3.0, "std_counts": 2.0, "displacement": eta / 2}
        real = one_cluster(6000 / k, 3.0, 2.0, eta / 2).mean()
        printed.append(k**3 / (4 * 6000**2) * (2**2 * eta**2 + 4 * 2 * 3**2) / real)
        corrected.append(fl.predicted_mse(6000, k, 2, **noise) / real)
    for sds in (100, 10, 5, 3):
        noise = {"std_sums": 6.0, "std_counts": 20.0, "displacement": 0.2}
        predicted = fl.predicted_mse(20 * sds, 1, 2, **noise)
        far.append(one_cluster(20 * sds, 6.0, 20.0, 0.2).mean() / predicted)
    return {"printed": printed, "corrected": corrected, "far": far}


def ball() -> Numbers:
    """L7: mean distance to the centre of a uniform ball of radius 1."""
    rng, dims = _rng(4), (1, 2, 10, 50)
    mean = [float((rng.random(20_000) ** (1 / d)).mean()) for d in dims]  # length of such a point
    return {"mean": mean, "formula": [d / (d + 1) for d in dims]}


def movement() -> Numbers:
    """L8: root mean square step of the centres of Lloyd's algorithm over eta, by round."""
    rng, out = _rng(5), []
    for d in (2, 10):
        means = rng.uniform(-0.7, 0.7, (5, d))
        points = np.clip(means[rng.integers(5, size=2000)] + rng.normal(0, 0.12, (2000, d)), -1, 1)
        m, steps = kmeans.sphere_packing(5, d, rng=rng), []
        for _ in range(5):
            new = kmeans.lloyd(points, m, n_rounds=1)
            steps.append(math.sqrt(((new - m) ** 2).sum(axis=1).mean()) / fl.max_radius(5, d))
            m = new
        out.append(steps)
    return {"steps": out}


def rounds() -> Numbers:
    """L9, L10, L19: Eq. 21 at epsilon = 1 before it is cut to [2, 7], radii, and Eq. 33."""
    shapes = dict(Iris=(150, 3, 4), S1=(5000, 15, 2), Adult=(48842, 3, 6), Birch2=(25000, 100, 2))
    shapes["MNIST"] = (10000, 10, 784)
    free, cut = {}, {}
    for name, (n, k, d) in shapes.items():
        sigma, eta = acc.gaussian_sigma_analytic(1.0, fl.default_delta(n)), fl.max_radius(k, d)
        free[name] = 0.016 * n**2 / (k**3 * (eta * sigma * (1 + math.sqrt(4 * d))) ** 2)
        cut[name] = fl.n_rounds_fastlloyd(n, k, d, eta, sigma)
    k, d = 15, 2
    gap = abs(math.sqrt(d) / k ** (1 / d) - 2 * math.sqrt(d) / (2 * k ** (1 / d)))
    eq33 = 0.004 * 10**8 / (27 * 2 * ((2 * fl.RHO + math.sqrt(2)) * 20) ** 2)
    return {
        "free": ", ".join(f"{name} {v:.2g}" for name, v in free.items()),
        "holds": all(cut[n] == min(max(math.floor(v), 2), 7) for n, v in free.items()),
        "cut": sum(not 2 <= v < 8 for v in free.values()), "n": len(free), "gap": gap,
        "right": eq33, "both": math.sqrt(eq33),
    }  # fmt: skip


def _fold_as_printed(values: Any) -> Any:
    """The folding rule as section 5.3.5 prints it, of [-1, 1]: wrong."""
    y = np.mod(np.asarray(values, dtype=np.float64) + 1, 2)
    return np.where(y > 1, 2 - y, y) - 1


def folding() -> Numbers:
    """L11, L12, F5: the printed and the right way to fold into the box, and truncation."""
    x, wide = np.linspace(-1, 1, 2001), np.linspace(-9, 9, 4001)
    printed, folded = _fold_as_printed(x), kmeans.fold(wide)
    errors = []
    for center, sd in ((0, 1), (0, 3), (0.8, 0.2), (0.8, 1)):
        noisy = center + _rng(6).normal(0, sd, 400_000)
        pair = [((f(noisy) - center) ** 2).mean() for f in (kmeans.fold, kmeans.truncate)]
        errors.append(pair[0] / pair[1])
    mirrored = np.abs(kmeans.fold(2 - wide) - folded).max()
    periodic = np.abs(kmeans.fold(wide + 4) - folded).max()
    return {
        "moved": (np.abs(printed - x) > 1e-9).mean(), "half": float(_fold_as_printed(0.5)),
        "inside": np.abs(kmeans.fold(x) - x).max(), "law": max(mirrored, periodic),
        "errors": errors,
    }  # fmt: skip


def integers() -> Numbers:
    """L13, L14, F7, L.code.truncation: rounding noise and sums to a grid."""
    rng = _rng(7)
    whole, real = rng.integers(-50, 50, 10**6), rng.normal(0, 20, 10**6)
    differs = [(f(whole + real) != whole + f(real)).mean() for f in (np.rint, np.trunc)]
    excess, edges, d = [], [], 784
    for q in (16, 30):
        fixed = FixedPoint(64, q)
        rest, change = ((0.5 - 5e-5) * fixed.resolution, (7 + 1e-4) * fixed.resolution)
        moved = fixed.round(np.full(d, rest + change)) - fixed.round(np.full(d, rest))
        slack = math.sqrt(d) * fixed.resolution
        excess.append((np.linalg.norm(moved) - math.sqrt(d) * change) / slack)
        edge = 2.0 ** (64 - 1 - q)
        edges.append(fixed.decode(fixed.encode([edge - 1, edge])) - [edge - 1, -edge])
    delta = fl.default_delta(5000)
    sd = fl.split_noise(acc.gaussian_sigma_analytic(0.1, delta), 2)[1] * math.sqrt(2)
    m = np.arange(-int(12 * sd), int(12 * sd) + 1)

    def mass(m: Any, cut: bool) -> Any:
        m = np.abs(m)
        low, high = (np.where(m == 0, -1, m), m + 1) if cut else (m - 0.5, m + 0.5)
        return stats.norm.sf(low / sd) - stats.norm.sf(high / sd)

    spent = [
        max(np.maximum(a - np.exp(0.1) * b, 0).sum() for a, b in ((p, s), (s, p)))
        for p, s in ((mass(m, cut), mass(m - 1, cut)) for cut in (True, False))
    ]
    return {
        "rounded": differs[0], "cut": differs[1], "excess": max(excess), "claimed": delta,
        "cut_delta": spent[0], "rounded_delta": spent[1], "edge": float(np.abs(edges).max()),
    }  # fmt: skip


def ring() -> Numbers:
    """L15, L16, L20: what a ring of 32 bits decodes, what masks on half of it show, a sum."""
    fixed, n, rng = FixedPoint(32, 16), 60_000, _rng(8)
    wraps = [float(fixed.decode(fixed.encode([v]))[0]) for v in (32767, 32768, 48842)]
    high = {}
    for name, size in (("half", 2**31), ("whole", 2**32)):
        masks = rng.integers(0, size, (2, n), dtype=np.uint64)
        words = (masks + fixed.encode([5000.0, -5000.0])[:, None].astype(np.uint64)) % 2**32
        top = (words >= 2**31).mean(axis=1)
        high[name] = float(top.mean() if name == "half" else abs(top - 0.5).max())
    parts = [np.full((1, 1), v) for v in (0.1, 0.2, 0.3)]
    fed = simulate(parts, "masked", seed=1, noise_from="server")
    released = fed.noisy_sum(
        RELATIVE_SUMS_AND_COUNTS, (NoNoise(), NoNoise()), round=0, centers=np.zeros((1, 1)),
        radius=1.0,
    )[0]  # fmt: skip
    return {"wraps": wraps, **high, "sum": float(released[0, 0])}


def pads() -> Numbers:
    """L.fig1.pads: what the server reads if one pad hides two messages."""
    rng, fixed = _rng(9), FixedPoint(32, 16)
    secret = rng.uniform(-50, 50, (2, 5))
    pad = rng.integers(0, 2**32, 5, dtype=np.uint32)
    words = [fixed.encode(v) + pad for v in secret]
    read = fixed.decode(words[0] - words[1]) - (secret[0] - secret[1])
    return {"reused": np.abs(read).max() * 2**16}


def states() -> Numbers:
    """L.code.seed: noise whose generator starts anew in each round, from seed times the round.

    Of the rule alone; `python -m tools.findings --fastlloyd FOLDER` asks the code.
    """

    def noise(seed: int, iteration: int, size: int) -> Any:
        return np.random.default_rng(seed * iteration).normal(size=size)

    first = [np.abs(noise(1, 0, 10) - noise(seed, 0, 10)).max() for seed in (2, 77)]
    pairs = [np.abs(noise(1, t, 10)[:5] - noise(1, t, 5)).max() for t in range(7)]
    return {"first": max(first), "pairs": max(pairs)}


def dummies() -> Numbers:
    """L.code.dummy: one point instead of none moves sums by x - m if an empty cluster sends m."""
    m, x = np.array([-0.9, -0.9]), np.array([1.0, 1.0])
    return {"dummy": float(np.linalg.norm(x - m)), "zeros": math.sqrt(2)}
