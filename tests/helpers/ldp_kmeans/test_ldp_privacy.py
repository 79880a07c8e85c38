"""Locally private k-means: what each user spends, budgets, secure mode, and noisy points."""

import math

import numpy as np
import pytest
from conftest import refused
from ldp_cases import (
    ALGORITHMS,
    DATA,
    DELTA,
    EVERY,
    grid_histogram,
    one_round,
    printed,
    rng,
    run,
    with_sums,
)

from fedclust_helpers import accounting as acc
from fedclust_helpers.federation import clients, simulate
from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.heavy_cells import CellCounts
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.ldp_kmeans.lsh import BallCarvingHash
from fedclust_helpers.ldp_kmeans.projections import BallProjection
from fedclust_helpers.ldp_kmeans.sketch import SketchQuery, draw_questions
from fedclust_helpers.ldp_kmeans.vector_sums import HeavySums
from fedclust_helpers.mechanisms import Gaussian
from studies.ldp_kmeans.baselines import NoisyPoints

pytestmark = pytest.mark.slow

# --- budgets --------------------------------------------------------------------------------------


class Spy:
    """Records which users answered which query, as their reports leave the devices."""

    def __init__(self, monkeypatch):
        self.reports, answers = [], clients.responses

        def spied(query, points, users, *, rng):
            reports, failed = answers(query, points, users, rng=rng)
            self.reports.append((query, users.copy(), reports))
            return reports, failed

        monkeypatch.setattr("fedclust_helpers.federation.local.responses", spied)

    def questions(self, n):
        """(n,) number of different questions that each user answered."""
        out = np.zeros(n, dtype=int)
        for query in {id(q): q for q, _, _ in self.reports}.values():
            users = np.concatenate([u for q, u, _ in self.reports if q is query])
            assert len(np.unique(users)) == len(users)  # nobody is asked twice
            out[users] += 1
        return out


def user_totals(spy, n, vector_epsilon):
    """Upper bounds (epsilon, delta) of everything each user sent: basic composition by hand.

    A bit that is kept with probability p costs ln(p/(1 - p)), a symbol that is kept with p and
    becomes each other one with q costs ln(p/q). A vector of length at most 1 with
    Gaussian noise costs (e, delta) at the e that its question was given.
    """
    eps, delta = np.zeros(n), np.zeros(n)
    for query, users, (sent,) in spy.reports:
        assert len(sent) == len(users)
        if isinstance(query, OneBitCounts):
            assert sent.dtype == bool and sent.shape[1] == len(query.mechanisms)
            keep = query.response.keep
            eps[users] += sent.shape[1] * math.log(keep / (1 - keep))
        elif isinstance(query, SketchQuery):
            assert sent.ndim == 1 and query.mechanisms == (query.response,)
            assert ((sent >= 0) & (sent < query.questions.n_symbols)).all()
            eps[users] += math.log(query.response.keep / query.response.other)
        else:
            assert sent.ndim == 2 and len(query.mechanisms) == 1
            eps[users] += vector_epsilon
            delta[users] += acc.gdp_delta(2.0 / query.mechanism.std, vector_epsilon)
    return eps, delta


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
@EVERY
def test_each_user_spends_at_most_the_budget(name, epsilon, monkeypatch):
    """Seen from the users: who sent what, and what it costs, added up for each of them."""
    spy = Spy(monkeypatch)
    n = 3000
    fed, result = run(ALGORITHMS[name], DATA[:n], epsilon=epsilon)
    as_printed = name == "one_round_as_printed"
    per_vector = epsilon / 12 if as_printed else epsilon  # 6 levels, 12 calls
    eps, delta = user_totals(spy, n, per_vector)
    assert eps.max() <= epsilon * (1 + 1e-9) and delta.max() <= DELTA * (1 + 1e-9)
    assert eps.min() > 0.99 * epsilon  # nobody's budget is left unused
    questions = spy.questions(n)
    assert set(questions) == ({1 + 6} if as_printed else {1})
    # and from the ledger
    assert fed.ledger.adjacency == "replace-one"
    assert fed.ledger.epsilon(DELTA) <= epsilon * (1 + 1e-9)
    assert fed.ledger.epsilon(DELTA) > (0.4 if as_printed else 0.99) * epsilon
    if result.delta == 0:
        assert fed.ledger.pure_epsilon() == pytest.approx(epsilon)
    groups = {r.group for r in fed.ledger.releases}
    expected = {
        "one_round with sums": {"count", "sum"},
        "four_rounds": {"cells", "proxy", "recovery count", "recovery sum"},
        "four_rounds with LSH": {"cells", "buckets", "bucket sums", "proxy", "recovery count",
                                 "recovery sum"},
        "ldp_lloyd": {f"{what} {t}" for t in range(5) for what in ("count", "sum")},
    }.get(name)  # fmt: skip
    assert groups == ({None} if expected is None else {f"division 0/{g}" for g in expected})


def test_calls_as_printed():
    """L histograms with epsilon/(2L) and L sum oracles with (epsilon/(2L), delta/L), everybody."""
    fed, _ = run(printed, DATA[:3000], epsilon=3.0, n_levels=4)
    counts, *sums = (r.mechanisms for r in fed.ledger.releases)
    assert counts == (RandomizedResponse(3.0 / 8),) * 4
    sigma = 2 * math.sqrt(2 * math.log(1.25 / (DELTA / 4))) * 2 / (3.0 / 8)  # Algorithm 6
    assert [m.std for (m,) in sums] == pytest.approx([sigma] * 4)
    assert [m.count for m in fed.transcript.messages] == [3000] * 5


def test_a_pure_budget_is_filled_exactly():
    fed = simulate(DATA[:3000], "local", seed=1, budget=acc.Budget(2.5))
    run(one_round, fed=fed, epsilon=1.0)
    run(grid_histogram, fed=fed, epsilon=1.5)
    assert fed.ledger.remaining == pytest.approx(0, abs=1e-9)
    refused(fed, lambda: run(one_round, fed=fed, epsilon=0.01), acc.BudgetExceededError, "exceed")
    # sums are never pure
    fed = simulate(DATA[:3000], "local", seed=1, budget=acc.Budget(100.0))
    refused(fed, lambda: run(with_sums, fed=fed), acc.BudgetExceededError, "as planned")


@pytest.mark.parametrize("name", ["one_round with sums", "four_rounds", "ldp_lloyd"])
def test_a_basic_budget_is_filled_by_one_run_of_pure_and_gaussian_reports(name):
    fed = simulate(DATA[:3000], "local", seed=1, budget=acc.Budget(4.0, DELTA, "basic"))
    run(ALGORITHMS[name], fed=fed)
    assert fed.ledger.remaining == pytest.approx(0, abs=1e-8)
    refused(
        fed, lambda: run(ALGORITHMS[name], fed=fed, epsilon=0.04, delta=DELTA / 100),
        acc.BudgetExceededError, "exceed",
    )  # fmt: skip


# --- secure mode ----------------------------------------------------------------------------------


QUERIES = {
    "cells": lambda: CellCounts(
        NestedGrid(2), (1, 3), 1.0, projection=BallProjection(12, 2, rng=rng(1)), rng=rng(2)
    ),
    "bits": lambda: OneBitCounts(lambda x, _: Question(BallCarvingHash(12, rng=rng(1))(x)), 1.0,
                                 rng=rng(2)),
    "sums": lambda: HeavySums(lambda x, _: (np.zeros(len(x), np.uint64), x), 1e-170, 12,
                              Gaussian(2e-170, 1e-170, "replace-one"), rng=rng(1)),
    "points": lambda: NoisyPoints(12, Gaussian(2.0, 1.0, "replace-one"), max_kept=100),
    "sketch": lambda: SketchQuery(draw_questions(9, 12, (2, 3), (0.7, 1.0), rng=rng(1)), 1.0,
                                  rng=rng(2), name="bins"),
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("size", [5e-324, 1e-170, 1.0, 1e12, 1e155, 1.7e308])
def test_a_question_has_an_answer_for_every_row_and_no_vector_is_too_long(name, size):
    """A user for whom it fails, in a report that others see to be missing, would be told."""
    query, draw = QUERIES[name](), rng(3)
    rows = draw.uniform(-1, 1, (64, 12)) * size
    rows[:2], rows[3, 0], users = [[size], [-size]], 0.0, np.arange(64)
    with np.errstate(all="ignore"):  # as a federation asks
        images = BallProjection(12, 2, rng=rng(1))(rows)
        assert (np.linalg.norm(images, axis=1) <= 1 + 1e-12).all()  # so none is nan
        query.check(12)
        query.collect(users, query.respond(rows, users, rng=draw))
        if name in ("sums", "points"):
            vectors = query._answer(rows, users)
            assert (np.abs(vectors) <= query.radius).all() and np.isfinite(vectors).all()
            with np.errstate(under="ignore"):
                lengths = np.linalg.norm(vectors / query.radius, axis=1)
            assert (lengths <= 1 + 1e-12).all()
    assert query.n_users == 64
