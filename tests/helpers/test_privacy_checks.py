"""The checks that guard privacy, wherever they stand: they stay, however deep.

`CHECKS` has one row for each: the function that refuses, a federation, a wrong use of it, and words
of the refusal. The test asserts that this function is the one that raised (a check further out
would make a deeper one untested), and that nothing was charged, and no message sent.
"""

from __future__ import annotations

import copy
import pickle
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import feddp_cases
import numpy as np
import pytest
import rr_cases

from fedclust_helpers import client_statistics as cs
from fedclust_helpers import fastlloyd, rr_cluster
from fedclust_helpers import ldp_kmeans as lk
from fedclust_helpers import mechanisms as mech
from fedclust_helpers.accounting import Budget, PrivacyLedger, Sampling, Shuffled
from fedclust_helpers.federation import ClientData, simulate
from fedclust_helpers.federation.trust import TRUST_MODELS
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.local_randomizers import below
from fedclust_helpers.ldp_kmeans.projections import BallProjection
from fedclust_helpers.program import Algorithm, Members, Release, SumsOf, gaussian
from fedclust_helpers.secure_aggregation import FixedPoint, PadBook
from studies.ldp_kmeans.baselines import NoisyPoints

ROWS = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 2))
CENTERS = np.zeros((3, 2))
ENOUGH = [mech.Gaussian(1.5, 1.0)]  # for TOTAL
REPLACED = mech.Gaussian(3.0, 3.0, "replace-one")
SHARE = mech.DistributedDiscreteGaussian(1.5, 1.0, 2.0**-20, n_honest=2, n_coordinates=2)
BUDGET = {"epsilon": 1.0, "delta": 1e-4}
MODELS = {"n_clusters": 2, "n_rounds": 3, "delta": 1e-3, "cohort": 20, "clip": 0.5, "epsilon": 3.0}
TWO = {"models": np.zeros((2, rr_cases.MODEL.n_parameters))}


def three(trust="ideal", *, unit="point", adjacency="add/remove", budget=None, **options):
    ledger = PrivacyLedger(unit, adjacency, budget)
    if options.get("mode") != "secure":
        options = {"seed": 1} | options
    return simulate(np.array_split(ROWS, 3), trust, ledger=ledger, **options)


def users(trust="local", **options):
    if options.get("mode") != "secure":
        options = {"seed": 1} | options
    return simulate(ROWS, trust, **options)


def total(noise=ENOUGH, statistic=cs.TOTAL, **how):
    """A release of this noise."""
    return lambda fed: fed.noisy_sum(statistic, noise, round=0, **how)


def changed(**changes):
    """A release of a total that says other things of itself."""
    return total(statistic=replace(cs.TOTAL, name="changed", **changes))


def not_a_number(points, offsets):
    return (np.full((len(offsets) - 1, points.shape[1]), np.nan),)


def cells(**how):
    box = {"lower": -np.ones(2), "upper": np.ones(2), "n_per_axis": 4}
    return total([mech.Gaussian(1.0, 1.0)], cs.CELL_COUNTS, **box | how)


def asked(make, part=None):
    return lambda fed: fed.ask(make(), round=0, part=part)


def points_with(mechanism):
    """A question to every user: the point with this noise."""
    return lambda: NoisyPoints(2, mechanism, max_kept=60)


def plan(fed, **options):
    return fastlloyd.plan(fed, **{"n_clusters": 2, "epsilon": 1.0} | options)


def other_plan(fed, **changes):
    fastlloyd.run(fed, replace(plan(fed), **changes))


def not_the_next(fed):
    made = plan(fed)
    with fed.follow(made):
        fed.noisy_sum(cs.TOTAL, ENOUGH, round=0)


def two_runs(fed):
    made = plan(fed)
    with fed.follow(made), fed.follow(made):
        pass


def steps(*requests):
    def algorithm(public, sigma):
        answer = None
        for request in requests:
            answer = yield request(sigma) if answer is None else request(sigma, answer)

    return lambda fed: Algorithm(name="steps", steps=algorithm).planner()(fed, **BUDGET)


def by_coins(public, sigma):
    for _ in range(int(public.coins.integers(1, 50))):
        yield Release(cs.TOTAL, [gaussian(sigma)])


def members(sigma, sampling=None):
    training = rr_cluster.Training(rr_cases.MODEL, cohort=60, clip=1.0).broadcast()
    noise = [gaussian(2 * sigma), gaussian(2 * sigma)]
    return Members(cs.CLIENT_UPDATES, noise, sampling=sampling, **training, **TWO)


def groups(change):
    return lambda sigma, chosen: SumsOf(change(chosen))


def models(planner, **changes):
    return lambda fed: rr_cases.planned(planner, fed, rr_cases.MODEL, **MODELS | changes)


def local(planner=lk.plan, **changes):
    return lambda fed: planner(fed, **{"n_clusters": 2, "epsilon": 1.0} | changes)


def used_twice(fed):
    pads = PadBook(bytes(32), b"session")
    for _ in range(2):
        pads.pads("sums", 0, 2, (3,))


def reservation_closed(fed):
    wanted = [fed.ledger.entry([mech.Gaussian(1.0, 2.0)], name="x")]
    held = fed.ledger.admit(wanted, name="a plan")
    fed.ledger.close(held)
    fed.ledger.charge([mech.Gaussian(1.0, 2.0)], name="x", reservation=held)


def record(fed):
    pickle.loads(pickle.dumps(fed.ledger)).charge(ENOUGH, name="x")


def twice(fed):
    """A part of a division that is asked again behind a shuffler."""
    fed.divide({"left": 0.5, "right": 0.5})
    fed.aggregation.asked(questions(1.0), "left")
    fed.aggregation.check_ask(questions(1.0), "left", fed.facts)


def dearer(fed):
    fed.divide({"left": 0.5, "right": 0.5})
    fed.aggregation.asked(questions(1.0), "left")
    fed.aggregation.check_ask(questions(2.0), "right", fed.facts)


def questions(epsilon):
    rng = np.random.default_rng(0)
    return lk.CellCounts(
        NestedGrid(2), (1, 2), epsilon,
        projection=BallProjection(2, 2, rng=rng, kind="identity"), rng=rng,
    )  # fmt: skip


MASKED, SECURE = partial(three, "masked", noise_from="server"), partial(three, mode="secure")
CLIENT = partial(three, unit="client", adjacency="replace-one")
BALL = partial(feddp_cases.federation)

# which function, of what federation, what is done, and words of the refusal
CHECKS: list[tuple[str, Callable[[], Any], Callable[[Any], Any], str]] = [
    # the mode: real entropy and no last bits of floats, or a seed that is said
    ("__init__", three, lambda _: three(mode="secure", seed=1), "would remove the noise"),
    ("__init__", three, lambda _: three(seed=None), "seed must be given in teaching"),
    ("__init__", three, lambda _: three(mode="secure", noise="continuous"), "last bits of floats"),
    ("check_noise", SECURE, total(), "must be discrete in secure mode"),
    ("check_ask", partial(users, mode="secure"), asked(points_with(REPLACED)), "discrete noise in"),
    ("sample", three, lambda _: ENOUGH[0].sample(3, rng=mech.SECURE), "no secure sampler"),
    ("of_partitions", partial(rr_cases.federation, mode="secure"),
     models(rr_cluster.plan, n_clusters=2, identifiers="krr"), "no exact sampler"),
    # noise: of a size, on a grid, for all numbers that leave
    ("check_positive", three, lambda _: mech.Gaussian(0.0, 1.0), "sensitivity must be"),
    ("check_positive", three, lambda _: mech.Laplace(1.0, np.inf), "scale must be"),
    ("__post_init__", three, lambda _: mech.DiscreteGaussian(1.0, 2.0**60), "below about 2.58"),
    ("__post_init__", three, lambda _: replace(SHARE, scale=2.0**-22), "else no bound holds"),
    ("check_noise", three, total([mech.Gaussian(1.4, 1.0)]), "hides a sensitivity of 1.4"),
    ("check_noise", MASKED, total([mech.Gaussian(np.sqrt(2), 1.0)]), "hides a sensitivity of"),
    ("check_noise", three, total([SHARE]), "only one node's share"),
    ("check_noise", partial(three, "serverless"), total(), "must be a DistributedDiscreteGaussian"),
    ("check_noise", partial(three, "serverless"), total([replace(SHARE, n_honest=3)]),
     "counts on 3 honest clients"),
    ("check_noise", partial(three, noise="discrete"),
     total([mech.DiscreteGaussian(1.5, 1.0, 2.0**-20, n_coordinates=1)]), "n_coordinates=1, but 2"),
    ("check_noise", three, total(["noise"]), "must be a Mechanism"),
    ("check_statistic", three, total(ENOUGH * 2), "mechanisms must be 1"),
    ("gaussian", SECURE, lambda f: f.gaussian(cs.TOTAL, "total", multiplier=1.0), "n_coordinates"),
    ("laplace", partial(three, "serverless"),
     lambda f: f.laplace(cs.TOTAL, "total", epsilon=1.0), "one party to draw it"),
    ("check_report_mechanism", users, lambda _: points_with(
        mech.Gaussian(1.9, 3.0, "replace-one"))(), "hides a sensitivity of 1.9"),
    ("check_report_mechanism", users, lambda _: points_with(
        mech.Laplace(3.0, 3.0, "replace-one"))(), "must hide an L2 sensitivity"),
    ("check_report_mechanism", users, lambda _: points_with(  # two radii, and their rounding
        mech.DiscreteGaussian(2.0, 1.0, 0.25, "replace-one"))(), r"can change by 2\.35355"),
    ("check_report_mechanism", users, lambda _: points_with(
        replace(SHARE, adjacency="replace-one"))(), "one user's noise"),
    ("below", users, lambda _: below(np.zeros(2, np.uint64), 0.3),
     "multiple of 2.-53"),
    # sensitivity: from public numbers alone, the federation's own or what is sent
    ("check_statistic", three, total(bound=1e-6), "the federation's own"),
    ("_sensitivity", three, lambda f: f.gaussian(cs.TOTAL, "total", multiplier=1.0, bound=0.1),
     "the federation's own"),
    ("check_statistic", partial(three, domain="box"), total(
        [mech.Gaussian(4.0, 1.0)], cs.OUTER_PRODUCT), "holds for rows in a ball"),
    ("sensitivity_of", three, changed(changes=lambda **_: {"total": cs.Change(1.0, np.nan, 1.0)}),
     "must be >= 0, got nan"),
    ("sensitivity_of", partial(three, bound=1e101), total(), "bound must be at most"),
    ("checked_broadcast", three, total(
        [mech.Gaussian(1.3, 1.0)] * 2, cs.RELATIVE_SUMS_AND_COUNTS, centers=CENTERS[:, :1],
        radius=1.2), "centers must have shape"),
    ("check_positive", three, total(
        [mech.Gaussian(1.3, 1.0)] * 2, cs.RELATIVE_SUMS_AND_COUNTS, centers=CENTERS, radius=-1.0),
     "radius must be"),
    ("as_numbers", three, total(
        [mech.Gaussian(1.3, 1.0)] * 2, cs.RELATIVE_SUMS_AND_COUNTS, centers=CENTERS * np.nan,
        radius=1.2), "centers must be finite"),
    ("plain", three, total(
        [mech.Gaussian(1.3, 1.0)] * 2, cs.RELATIVE_SUMS_AND_COUNTS, centers=CENTERS, radius=1e250),
     "radius must be at most"),
    ("_box", three, cells(lower=np.ones(2)), "lower must be below upper"),
    ("shapes", three, changed(compute=not_a_number), "must give finite numbers"),
    # ranges: totals that neither wrap around nor lose bits
    ("check_integers", partial(three, noise="discrete"),
     total([mech.DiscreteGaussian(1.5, 1.0, 2.0**-57)]), "64-bit integers hold"),
    ("check_range", MASKED, total([mech.DiscreteGaussian(9.0, 1.0, 0.3)]), "grid of that for"),
    ("check_capacity", partial(MASKED, bits=32, fractional_bits=30), total(
        [mech.Gaussian(1.5, 1.0)]), "ring Z_2.32"),
    ("encode_steps", three, lambda _: FixedPoint(64, 30).encode_steps(np.array([1]), 0.3),
     "multiple of the ring's"),
    ("as_numbers", three, lambda _: FixedPoint(64, 30).encode([np.nan]), "values must be finite"),
    # rows: counted and cut before anything is computed of them
    ("as_points", three, lambda _: simulate([ROWS * np.nan], "ideal", seed=1), "must be finite"),
    ("seen_by", partial(three, domain="raw"), total(), "bounds are not public"),
    ("check_positive", three, lambda _: three(bound=-1.0), "bound must be"),
    ("__post_init__", three, lambda _: ClientData(ROWS, np.array([0, 0, 60])), "at least one row"),
    ("of_users", partial(users, bound=2.0), local(), "unit ball"),
    ("check_facts", partial(BALL, domain="box"), lambda f: feddp_cases.plan_of("feddp", f),
     "domain='ball'"),
    # unit and adjacency of the ledger, of noise, of sampling
    ("check_statistic", CLIENT, total([REPLACED]), "one point.*one client"),
    ("__post_init__", three, total([REPLACED]), "calibrated for replace-one"),
    ("check_ledger", users, lambda _: users(ledger=PrivacyLedger()), "kept for replace-one"),
    ("check_ledger", users, lambda _: users(ledger=PrivacyLedger("person", "replace-one")),
     "who may send several"),
    ("__post_init__", users, asked(points_with(mech.Gaussian(3.0, 3.0))), "for add/remove"),
    ("of_points", partial(three, unit="client"), plan, "one point under add/remove"),
    ("check_facts", partial(BALL, adjacency="replace-one"),
     lambda f: feddp_cases.plan_of("feddp", f), "add/remove neighbours"),
    ("level_of", partial(BALL, unit="client"), lambda f: feddp_cases.plan_of(
        "feddp", f, clips=None), "clips must be given at client level"),
    ("level_of", BALL, lambda f: feddp_cases.fk.plan(
        f, feddp_cases.SERVER, n_clusters=3, epsilon=1.0, clips=feddp_cases.CLIPS),
     "clips must be None"),
    ("of_clients", three, models(rr_cluster.plan_sums_only, n_clusters=2), "one client"),
    ("of_partitions", partial(rr_cases.federation, adjacency="add/remove"),
     models(rr_cluster.plan), "replace-one"),
    ("check_statistic", three, total(sampling=Sampling("poisson", rate=0.5)), "draws clients"),
    ("check_statistic", CLIENT, total(
        [mech.Gaussian(9.0, 1.0, "replace-one")] * 2, cs.CLIENT_SUMS_AND_COUNTS, centers=CENTERS,
        clip_sums=1.0, clip_counts=1.0, sampling=Sampling("fixed", size=1, population=9)),
     "population of 3"),
    ("__post_init__", partial(rr_cases.federation, adjacency="add/remove"), lambda f:
     f.ledger.entry(
        ENOUGH, name="x", sampling=Sampling("fixed", size=1, population=60)), "amplifies"),
    ("__post_init__", three, lambda _: Sampling("poisson", rate=0.5, size=1), "go with scheme"),
    ("check_share", three, lambda _: Sampling("poisson", rate=0.0), "rate must lie"),
    ("__post_init__", users, lambda _: Shuffled((mech.Gaussian(1.0, 1.0),), 60), "replace-one"),
    ("__post_init__", users, lambda _: Shuffled((REPLACED,), 60), "must be pure"),
    # the budget, and the plan that it was asked for
    ("_require", partial(three, budget=Budget(0.1, 1e-6)), total(), "budget"),
    ("_require", partial(three, budget=Budget(0.1, 1e-6)), lambda f: fastlloyd.run(f, plan(f)),
     "budget"),
    ("_claim", three, reservation_closed, "no open reservation"),
    ("_check_alive", three, record, "record of releases"),
    ("__getstate__", partial(three, budget=Budget(1.0, 1e-6)), lambda f: pickle.dumps(f.ledger),
     "must not be pickled"),
    ("check_vouched", three, partial(other_plan, epsilon=9.0), "as a planner made it"),
    ("__init__", three, lambda f: fastlloyd.run(f, plan(three(bound=2.0))), "with other bound"),
    ("next", three, not_the_next, "not the next one of the plan"),
    ("follow", three, two_runs, "one plan at a time"),
    ("planned", three, lambda f: Algorithm(name="coins", steps=by_coins).planner()(f, **BUDGET),
     "depends on answers, or on coins"),
    ("_given_up", rr_cases.federation, steps(members, groups(lambda chosen: chosen + 2)),
     "groups must be one of 2"),
    ("cohort", rr_cases.federation, steps(partial(
        members, sampling=Sampling("poisson", rate=0.5))), "sampling must be fixed"),
    # who may see what
    ("require", three, lambda f: f.collect(cs.TOTAL, ENOUGH, round=0), "offers no collect"),
    ("require", partial(three, "masked", may_miss=1),
     lambda f: f.collect(cs.TOTAL, ENOUGH, round=0), "offers no collect"),
    ("_checked", partial(three, "serverless", unit="client"), total(
        sampling=Sampling("poisson", rate=0.5)), "offers no sampling"),
    ("of_clients", partial(rr_cases.federation, trust="masked", noise_from="server"),
     models(rr_cluster.plan_sums_only, n_clusters=2), "cohort must be all clients"),
    ("check_facts", partial(BALL, trust="masked"), lambda f: feddp_cases.plan_of("feddp", f),
     "server sees the noised sums"),
    ("__post_init__", three, lambda _: replace(
        TRUST_MODELS["masked"][-1], receiver="server"), "receiver must be 'clients'"),
    ("pads", three, used_twice, "already used"),
    ("_refuse", three, copy.copy, "must not be copied"),
    # users, who answer once
    ("check_ask", users, asked(lambda: questions(1.0), "left"), "divide the users first"),
    ("check_ask", users, lambda f: f.aggregation.check_ask(
        SimpleNamespace(name="x", mechanisms=(replace(SHARE, adjacency="replace-one"),), public={}),
        None, f.facts), "share of a noise"),
    ("check_ask", partial(users, "shuffled"), asked(points_with(REPLACED)), "no pure report"),
    ("check_ask", partial(users, "shuffled"), twice, "asked already"),
    ("check_ask", partial(users, "shuffled"), dearer, "local epsilon of the parts"),
    ("__init__", users, lambda _: users("shuffled", n_clients=900), "the true numbers"),
    ("check_shares", users, lambda f: f.divide({"left": 0.6, "right": 0.6}), "add up to 1"),
    # drop-outs and collusion
    ("honest", three, lambda _: three("serverless", max_colluding=3), "leave an honest client"),
    ("check_missing", three, lambda _: users(may_miss=1), "may_miss must be 0"),
    ("check_missing", three, lambda _: three("masked", repeats=1), "repeats must be 0"),
    ("_check", partial(three, "ideal", away={0: [1]}), total(), "are missing in release"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "make", "wrong", "words"), CHECKS, ids=[f"{c[0]}-{c[3]}" for c in CHECKS]
)
def test_wrong_use_is_refused_before_anything_is_charged(name, make, wrong, words):
    fed = make()
    before = fed.ledger.releases, len(fed.transcript.messages)  # keys may be agreed on
    with pytest.raises((ValueError, TypeError, RuntimeError), match=words) as caught:
        wrong(fed)
    assert name in [frame.name for frame in traceback.extract_tb(caught.tb)][-4:]
    assert (fed.ledger.releases, len(fed.transcript.messages)) == before
