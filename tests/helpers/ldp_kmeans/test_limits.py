"""What one answer can say: no channel says more, one says as much, and a method comes close."""

import math

import numpy as np
import pytest
from conftest import seeded as rng
from scipy.stats import norm

from fedclust_helpers._index import bincount
from fedclust_helpers.ldp_kmeans.limits import answer_information, least_excess

WIDTH = 0.5


def scores(centers, shares):
    """Probabilities of a fine grid, (m,), and its scores (m, k) about sqrt(share) centre."""
    x = np.linspace(min(centers) - 5, max(centers) + 5, 20_001)[:, None]
    parts = shares * norm.pdf(x, centers, WIDTH) * (x[1, 0] - x[0, 0])
    whole = parts.sum(axis=1)
    return whole, parts / whole[:, None] * (x - centers) / WIDTH**2 / np.sqrt(shares)


def said(p, score, inside, epsilon):
    """|E[S|y]|^2 of an answer that is e^epsilon times as likely inside a set."""
    odds = np.where(inside, math.exp(epsilon), 1.0)
    return float((((p * odds) @ score / (p @ odds)) ** 2).sum())


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 1.5, 2.0, 4.0])
@pytest.mark.parametrize("centers", [(-4.0, 0.0, 5.0), (-0.6, 0.0, 0.5)])  # apart, and overlapping
def test_no_answer_says_more(epsilon, centers):
    p, score = scores(np.array(centers), np.array([0.2, 0.5, 0.3]))
    assert np.linalg.eigvalsh(score.T * p @ score).max() <= (1 + 1e-9) / WIDTH**2
    most = 0.0
    for u in rng(1).normal(size=(150, 3)):  # best sets for a direction, and any sets
        along = score @ (u / np.linalg.norm(u))
        sets = [along > cut for cut in np.quantile(along, [0.5, 0.7, 0.9])]
        sets.append(np.repeat(rng(2).random(20) < 0.4, 1001)[: len(p)])
        most = max(most, *(said(p, score, inside, epsilon) for inside in sets))
    limit = answer_information(epsilon) / WIDTH**2
    assert 0.05 * limit < most <= limit


@pytest.mark.parametrize(("epsilon", "share"), [(0.1, 1), (1, 1), (1.5, 1), (2, 0.579), (4, 0.069)])
def test_one_answer_says_as_much(epsilon, share):
    """The side of all centres beyond z where epsilon is small, else that of one small group."""
    p, score = scores(np.array([0.0, 20.0]), np.array([share, 1 - share + 1e-12]))
    z = math.sqrt(answer_information(epsilon)) if share == 1 else 0.6120
    best = said(p, score[:, :1], score[:, 0] * math.sqrt(share) * WIDTH > z, epsilon)
    assert best == pytest.approx(answer_information(epsilon) / WIDTH**2, rel=2e-3)


def test_one_bit_about_known_groups_comes_close():
    """50,000 users, ten groups in ten columns: every user tells the side of public directions."""
    n, d, k, runs, draw = 50_000, 10, 10, 12, rng(5)
    keep, found = 1 / (1 + math.exp(-1.0)), []
    for _ in range(runs):
        group, noise = draw.integers(k, size=n), draw.normal(size=(n, d))
        u = draw.normal(size=(n, k, d))
        u /= np.linalg.norm(u, axis=2, keepdims=True)
        bits = np.sign(np.einsum("nd,nd->n", u[np.arange(n), group], noise))
        bits *= np.where(draw.random(n) < keep, 1, -1)
        moved = np.einsum("n,nkd->kd", bits, u) * d * k / n / math.sqrt(2 / math.pi)
        moved /= 2 * keep - 1
        sizes = bincount(group, minlength=k)
        means = np.array([noise[group == j].mean(axis=0) for j in range(k)])
        found.append(float(sizes / n @ ((moved - means) ** 2).sum(axis=1)) / d)
    least = least_excess(n, 1.0, d, n_clusters=k, within=1e9)
    assert least < np.mean(found) < 1.35 * least  # of it 1.16 for bits, 1.08 for means of rows


def test_the_limit_falls_with_users_and_epsilon_and_ends_without_privacy():
    by_users = [least_excess(n, 1.0, 4, n_clusters=5) for n in (1000, 10_000, 10**6)]
    by_epsilon = [least_excess(10_000, e, 4, n_clusters=5) for e in (0.1, 1, 3, 4, 50)]
    for falling in (by_users, by_epsilon):
        assert np.all(np.diff(falling) < 0)
    assert by_epsilon[-1] == 0
    assert least_excess(10**9, 1.0, 4, n_clusters=5) == pytest.approx(
        100 / (1e9 * answer_information(1.0)), rel=0.2
    )
