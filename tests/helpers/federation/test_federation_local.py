"""Local queries: who is asked, what is charged, what crosses the wire, and what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest
from conftest import generator, refuses

from fedclust_helpers import federation as fl
from fedclust_helpers import ldp_kmeans
from fedclust_helpers.accounting import (
    Budget,
    BudgetExceededError,
    LedgerMismatchError,
    PrivacyLedger,
)
from fedclust_helpers.client_statistics import TOTAL
from fedclust_helpers.federation import local as local_module
from fedclust_helpers.federation.reports import gaussian_report
from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.ldp_kmeans.projections import BallProjection
from fedclust_helpers.ldp_kmeans.vector_sums import HeavySums
from fedclust_helpers.mechanisms import (
    SECURE,
    DiscreteGaussian,
    DistributedDiscreteGaussian,
    Gaussian,
    NoNoise,
    SecureNoise,
)
from studies.ldp_kmeans.baselines import NoisyPoints
from studies.ldp_kmeans.bitstogram import Bitstogram

DELTA = 1e-6
NAN, INF = float("nan"), float("inf")
SECRET_VALUE = 0.123456789  # in the data; no error message may show it
SHARE = DistributedDiscreteGaussian(3.0, 40.0, 2.0**-10, "replace-one", n_honest=4, n_coordinates=2)


def users_points(n=1000, d=2, seed=0):
    points = generator(seed).uniform(-0.5, 0.5, (n, d))
    points[0] = SECRET_VALUE
    points.flags.writeable = False
    return points


def halves(points, channels=None):
    """Key: on which side of 0 the first coordinate lies."""
    return Question((points[:, 0] > 0).astype(np.uint64))


def half_sums(points, channels):
    return (points[:, 0] > 0).astype(np.uint64), points


def count_query(epsilon=1.0, **options):
    return OneBitCounts(halves, epsilon, **{"rng": generator(1), "n_buckets": 64, **options})


def sum_query(epsilon=1.0, d=2, grid=None, mechanism=None):
    if mechanism is None:
        mechanism = gaussian_report(1.0, epsilon, DELTA, grid=grid, n_features=d)
    return HeavySums(half_sums, 1.0, d, mechanism, rng=generator(2), n_buckets=64)


class Census:
    """A query that writes down who was asked and what each chunk looked like; no privacy at all."""

    name, parts = "census", ("answer",)
    public: dict[str, float] = {}

    def __init__(self, width=1, mechanism=NoNoise("replace-one")):  # noqa: B008
        self.mechanisms = () if mechanism is None else (mechanism,)
        self.width, self.users, self.chunks, self.sources, self.points = width, [], [], [], []

    def check(self, n_features):
        pass

    def respond(self, points, users, *, rng):
        self.sources.append(rng)
        self.points.append(points)
        return (np.zeros((len(users), self.width)),)

    def collect(self, users, reports):
        self.users += users.tolist()
        self.chunks.append(len(users))


# --- asking ---------------------------------------------------------------------------------------


def test_everybody_is_asked_once_and_charged_once():
    federation = fl.simulate(users_points(), "local", seed=1)
    query = Census()
    federation.ask(query, round=3)
    assert query.users == list(range(1000))
    assert np.array_equal(np.concatenate(query.points), users_points())
    (release,) = federation.ledger.releases
    assert release.round == 3 and release.name == "census" and release.group is None
    (message,) = federation.transcript.messages
    assert (message.round, message.sender, message.receiver) == (3, "clients", "server")
    assert message.name == "census: answer" and message.count == 1000
    assert message.payload is None


def test_what_a_question_tells_the_users_is_on_the_record():
    """Public values of a question go down to everybody before the answers come up."""
    centers = np.array([[0.1, 0.2], [0.3, 0.4]])
    federation = fl.simulate(users_points(), "local", seed=1)
    federation.divide({"a": 0.5, "b": 0.5})
    federation.ask(count_query(public={"centres": centers}), round=4, part="a")
    down, up = federation.transcript.messages
    assert (down.round, down.sender, down.receiver, down.name) == (
        4,
        "server",
        "clients",
        "centres",
    )
    assert down.n_bytes == 4 * 8 and down.count == 1000 and down.shape == (2, 2)
    assert (up.sender, up.receiver) == ("clients", "server") and up.count < 1000
    assert federation.transcript.view("client 3") == [down]


@pytest.mark.parametrize("chunk", [1, 7, 999, 1000, 5000])
def test_chunks_change_nothing(monkeypatch, chunk):
    """The same answers with the same seed, however many users are held at once."""
    expected = fl.simulate(users_points(), "local", seed=5)
    whole = count_query()
    expected.ask(whole, round=0)
    monkeypatch.setattr(local_module, "USERS_PER_CHUNK", chunk)
    federation = fl.simulate(users_points(), "local", seed=5)
    query, census = count_query(), Census()
    federation.ask(query, round=0)
    assert np.array_equal(query.spectrum, whole.spectrum)
    federation.ask(census, round=1)
    assert census.users == list(range(1000))
    assert max(census.chunks) == min(chunk, 1000) and sum(census.chunks) == 1000
    assert federation.transcript.messages[0] == expected.transcript.messages[0]


@pytest.mark.parametrize("chunk", [3, 2**17])
def test_one_user_says_one_byte_for_each_bit(monkeypatch, chunk):
    monkeypatch.setattr(local_module, "USERS_PER_CHUNK", chunk)
    federation = fl.simulate(users_points(300, 5), "local", seed=1)
    for m in (1, 3):
        federation.ask(count_query(shares=[1.0] * 4, n_answers=m, name=f"{m} bits"), round=m)
        message = federation.transcript.messages[-1]
        assert message.n_bytes == m and message.shape == (m,) and message.dtype == "bool"
        assert message.count == 300 and message.name == f"{m} bits: bit"
        assert federation.transcript.n_bytes(round=m) == 300 * m
    federation.ask(sum_query(d=5), round=9)
    message = federation.transcript.messages[-1]
    assert message.n_bytes == 5 * 8 and message.shape == (5,) and message.count == 300
    assert message.name == "heavy sums: signed vector"


def test_the_first_message_is_that_of_the_first_member(monkeypatch):
    """A part may have no member in the first chunks; the size of a message is still that of one."""
    monkeypatch.setattr(local_module, "USERS_PER_CHUNK", 2)
    federation = fl.simulate(users_points(), "local", seed=1)
    federation.divide({"few": 0.02, "many": 0.98})
    assert not federation.split.members(np.arange(2), "few").any()
    federation.ask(count_query(), round=0, part="few")
    message = federation.transcript.messages[0]
    assert message.n_bytes == 1 and 0 < message.count < 60
    assert message.count == federation.split.members(np.arange(1000), "few").sum()


def test_a_part_may_be_empty():
    """Nobody says anything, the question is charged, and the estimates are 0."""
    federation = fl.simulate(users_points(3), "local", seed=1, keep_payloads=True)
    federation.divide({"few": 1e-6, "many": 1 - 1e-6})
    count, total = count_query(), sum_query()
    federation.ask(count, round=0, part="few")
    federation.ask(total, round=0, part="few")
    assert sum(m.count * m.n_bytes for m in federation.transcript.messages) == 0
    assert [r.group for r in federation.ledger.releases] == ["division 0/few"] * 2
    key = np.array([0, 1], dtype=np.uint64)
    assert (count.estimate(key) == 0).all() and (total.estimate(key) == 0).all()


# --- dividing -------------------------------------------------------------------------------------

SHARES = {"cells": 0.3, "buckets": 0.2, "rest": 0.5}


def test_every_user_is_in_exactly_one_part():
    for seed in (0, 1, 2**63 - 1):
        for shares in (SHARES, {"all": 1.0}, {f"p{i}": 0.1 for i in range(10)}):
            split = fl.UserSplit(shares, seed)
            members = np.array([split.members(np.arange(50_000), p) for p in split.parts])
            assert (members.sum(axis=0) == 1).all()
            for got, share in zip(members.sum(axis=1), shares.values(), strict=True):
                # 42 binomial counts, 5 standard deviations: false alarm 3e-5
                assert abs(got - 50_000 * share) <= 5 * math.sqrt(50_000 * share * (1 - share))


def test_the_edges_of_parts_leave_no_gap(monkeypatch):
    """Coins next to every edge, and the largest coin: still exactly one part each."""
    split = fl.UserSplit({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3 + 1e-10}, 0)
    edges = [int(e * 2**53) << 11 for e in np.cumsum([1 / 3, 1 / 3])]
    coins = [c + i for c in edges for i in (-2049, -1, 0, 1, 2048)] + [0, 2**64 - 1]
    coins = np.array(coins, dtype=np.uint64)
    monkeypatch.setattr(local_module, "public_coins", lambda seed, users: coins[users])
    users = np.arange(len(coins))
    members = np.array([split.members(users, p) for p in split.parts])
    assert (members.sum(axis=0) == 1).all()
    assert members[:, -2].tolist() == [True, False, False]
    assert members[:, -1].tolist() == [False, False, True]


def test_parts_are_decided_by_number_and_seed_alone():
    split = fl.UserSplit(SHARES, 99)
    users = np.arange(2000)
    of_all = split.members(users, "cells")
    assert np.array_equal(split.members(users[::-1], "cells"), of_all[::-1])
    assert np.array_equal(split.members(users[500:600], "cells"), of_all[500:600])
    assert not np.array_equal(fl.UserSplit(SHARES, 98).members(users, "cells"), of_all)
    # two data sets, one seed: the same people are asked
    asked = []
    for data_seed in (0, 1):
        federation = fl.simulate(users_points(2000, seed=data_seed), "local", seed=7)
        federation.divide(SHARES)
        census = Census()
        federation.ask(census, round=0, part="buckets")
        asked.append(census.users)
    assert asked[0] == asked[1] and 300 < len(asked[0]) < 500


def test_parts_are_independent_of_rows_and_channels():
    """The coin of the division says nothing about the coins of a query (chi-square, 15 df)."""
    n = 40_000
    federation = fl.simulate(np.zeros((n, 1)), "local", seed=2)
    split = federation.divide({"a": 0.5, "b": 0.5})
    query = OneBitCounts(
        halves, 1.0, rng=federation.randomness.public, shares=[1.0, 1.0], n_buckets=4
    )
    (channel,), (row,) = query._channels.coins(np.arange(n))
    member = split.members(np.arange(n), "a")
    joint = np.bincount(8 * member + 4 * channel + row.astype(int), minlength=16)
    assert ((joint - n / 16) ** 2 / (n / 16)).sum() < 55  # false alarm 2e-6


def test_parts_cost_in_parallel_and_divisions_add_up():
    """Each user's own total, followed by hand, is what the ledger says of the worst user."""
    federation = fl.simulate(users_points(3000), "local", seed=4)
    users = np.arange(3000)
    spent = np.zeros(3000)

    def ask(epsilon, part=None):
        federation.ask(count_query(epsilon), round=0, part=part)
        who = users if part is None else users[federation.split.members(users, part)]
        spent[who] += epsilon
        assert federation.ledger.pure_epsilon() == pytest.approx(spent.max(), rel=1e-12)

    ask(0.25)
    federation.divide({"x": 0.5, "y": 0.5})
    ask(1.0, "x")
    ask(0.75, "y")
    ask(0.5, "y")
    federation.divide({"x": 0.2, "y": 0.3, "z": 0.5})  # other people under the same names
    ask(2.0, "x")
    ask(1.0, "z")
    ask(0.1)
    federation.divide({"all": 1.0})
    ask(0.5, "all")
    groups = [r.group for r in federation.ledger.releases]
    assert groups == [
        None, "division 0/x", "division 0/y", "division 0/y", "division 1/x", "division 1/z",
        None, "division 2/all",
    ]  # fmt: skip


@pytest.mark.parametrize("second_seed", [1, 2])
def test_federations_that_share_a_ledger_do_not_share_divisions(second_seed):
    """One ledger for each data set: another run divides the same people in another way.

    Were both divisions called the same, part x of one and y of the other would seem disjoint.
    """
    ledger = PrivacyLedger(adjacency="replace-one")
    points, users = users_points(), np.arange(1000)
    one = fl.simulate(points, "local", seed=1, ledger=ledger)
    two = fl.simulate(points, "local", seed=second_seed, ledger=ledger)
    one.divide({"x": 0.5, "y": 0.5})
    two.divide({"x": 0.3, "y": 0.7})
    one.ask(count_query(1.0), round=0, part="x")
    two.ask(count_query(1.0), round=0, part="y")
    both = one.split.members(users, "x") & two.split.members(users, "y")
    assert both.any()  # they paid twice
    assert ledger.pure_epsilon() == pytest.approx(2.0)
    # also for a ledger that continues where another ended
    later = PrivacyLedger("point", "replace-one", None, ledger.releases[1:], n_divisions=2)
    three = fl.simulate(points, "local", seed=1, ledger=later)
    three.divide({"x": 0.5, "y": 0.5})
    three.ask(count_query(1.0), round=0, part="x")
    assert later.pure_epsilon() == pytest.approx(2.0)


# --- two modes ------------------------------------------------------------------------------------


def test_secure_mode_takes_noise_from_the_operating_system():
    federation = fl.simulate(users_points(), "local", mode="secure")
    census = Census()
    federation.ask(census, round=0)
    assert census.sources == [SECURE] and isinstance(census.sources[0], SecureNoise)
    # the same public randomness, twice: only the noise differs
    spectra = []
    for _ in range(2):
        query = count_query()
        federation.ask(query, round=1)
        spectra.append(query.spectrum)
    assert not np.array_equal(*spectra)
    truth = [(users_points()[:, 0] > 0).sum()]
    key = np.array([1], dtype=np.uint64)
    assert abs(query.estimate(key) - truth) < 5 * query.std()  # false alarm 6e-7


def test_secure_sums_are_discrete():
    grid = 2.0**-10
    federation = fl.simulate(users_points(), "local", mode="secure", keep_payloads=True)
    query = sum_query(8.0, grid=grid)
    federation.ask(query, round=0)
    reports = federation.transcript.messages[0].payload
    assert reports.dtype == np.int64  # whole steps, no float between sampler and wire
    assert reports.std() * grid == pytest.approx(query.mechanism.std, rel=0.15)  # 2000: 9 se


# --- wrong use ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "error", "match"),
    [
        ({}, ValueError, "^shares must be numbers in"),
        ({"a": 0.5}, ValueError, "^shares must add up to 1"),
        ({"a": 0.6, "b": 0.6}, ValueError, "^shares must add up to 1"),
        ({"a": 1.0, "b": 0.0}, ValueError, r"^shares must be numbers in \(0, 1\]"),
        ({"a": 1.5, "b": -0.5}, ValueError, r"^shares must be numbers in \(0, 1\]"),
        ({"a": NAN, "b": 0.5}, ValueError, "^shares must be a number"),
        ({"a": "all"}, TypeError, "^shares must be a real number"),
        ({"a": True}, TypeError, "^shares must be a real number"),
    ],
)
def test_bad_shares_are_named_and_leave_the_old_division(shares, error, match):
    federation = fl.simulate(users_points(), "local", seed=1)
    old = federation.divide({"a": 0.5, "b": 0.5})
    refuses(error, match, federation.divide, shares)
    assert federation.split is old and federation.ledger.releases == ()
    assert federation.divide({"a": 1.0}).number == 1  # no number was used up


def not_one_point_each():
    return fl.simulate(fl.ClientData(np.zeros((3, 2)), [0, 2, 3]), "local", seed=1)


def secure():
    return fl.simulate(users_points(), "local", mode="secure")


def divided():
    federation = fl.simulate(users_points(), "local", seed=1)
    federation.divide(SHARES)
    return federation


def plain(**options):
    return lambda: fl.simulate(users_points(), "local", seed=1, **options)


OVER = "would exceed the budget"
BAD_QUESTIONS = [  # the federation, the question, of which part, the error
    (not_one_point_each, count_query, None, ValueError, "^clients must hold one point each"),
    (plain(), lambda: Census(mechanism=SHARE), None, ValueError, "draws only one node's share"),
    (plain(), lambda: Census(mechanism=None), None, ValueError, "must state a mechanism"),
    (plain(), lambda: sum_query(mechanism=Gaussian(2.0, 9.0)), None, LedgerMismatchError,
     "'heavy sums' is calibrated for add/remove, this ledger is kept for replace-one"),
    (plain(), count_query, "cells", ValueError, "^part 'cells' is unknown; divide"),
    (secure, sum_query, None, ValueError, "must use discrete noise in secure mode"),
    (divided, count_query, "sums", ValueError, r"^part 'sums' is unknown.*cells, buckets, rest"),
    (plain(), lambda: sum_query(d=3), None, ValueError, "^encode must return vectors of 3 col"),
    (plain(budget=Budget(0.9)), count_query, None, BudgetExceededError, OVER),
    (plain(budget=Budget(9.0)), sum_query, None, BudgetExceededError, OVER),
]  # fmt: skip


@pytest.mark.parametrize(("make", "ask", "part", "error", "match"), BAD_QUESTIONS)
def test_bad_questions_cost_nothing_and_reach_nobody(make, ask, part, error, match, monkeypatch):
    federation, query = make(), ask()
    asked = []
    monkeypatch.setattr(type(query), "respond", lambda *a, **k: asked.append(a), raising=True)

    def held():
        if isinstance(query, Census):
            return np.array(query.users)
        return query.spectrum.copy() if isinstance(query, OneBitCounts) else query._sums.copy()

    state = held()
    with pytest.raises(error, match=match) as caught:
        federation.ask(query, round=0, part=part)
    if error not in (BudgetExceededError, LedgerMismatchError):  # these are the ledger's
        refuses(error, match, federation.check_ask, query, part=part)
    assert asked == [] and federation.ledger.releases == ()
    assert federation.transcript.messages == []
    assert np.array_equal(held(), state)
    assert "0.1234" not in str(caught.value)


# --- all mechanisms of one user, end to end -------------------------------------------------------


@pytest.mark.parametrize(
    "clients",
    [
        lambda x: x,
        lambda x: x.tolist(),
        lambda x: [row[None] for row in x],
        fl.ClientData.one_point_each,
    ],
)
def test_every_form_of_one_point_each_is_the_same_federation(clients):
    """Ball, replace-one and one point each are the defaults of the trust model."""
    points = 2 * users_points(300)
    one, other = (fl.simulate(form, "local", seed=3) for form in (clients(points), points))
    assert one.facts == other.facts
    assert one.facts.domain == "ball" and one.ledger.adjacency == "replace-one"
    assert np.array_equal(one._clients.data.points, other._clients.data.points)
    plans = [ldp_kmeans.plan(f, n_clusters=2, epsilon=4.0) for f in (one, other)]
    assert plans[0] == plans[1]


# --- what is charged is what is drawn -------------------------------------------------------------


def attributes(thing):
    """All public names of an object, its class and its slots."""
    return [name for name in dir(thing) if not name.startswith("_")]


FIXED = {
    "federation": lambda: divided(),
    "counts": lambda: count_query(),
    "bitstogram": lambda: Bitstogram(
        lambda p: halves(p).keys, 1.0, 4, rng=generator(0), n_buckets=16
    ),
    "sums": lambda: sum_query(),
    "points": lambda: NoisyPoints(2, gaussian_report(1.0, 1.0, DELTA), max_kept=9),
    "cells": lambda: ldp_kmeans.CellCounts(
        NestedGrid(2), (1, 2), 1.0, rng=generator(0),
        projection=BallProjection(2, 2, rng=generator(0), kind="identity"),
    ),
    "split": lambda: divided().split,
    "response": lambda: RandomizedResponse(1.0),
    "grid": lambda: NestedGrid(2),
}  # fmt: skip


@pytest.mark.parametrize("name", FIXED)
def test_no_public_attribute_can_be_set_or_deleted(name):
    """Otherwise the ledger's charge and the noise drawn could be made to differ."""
    thing = FIXED[name]()
    names = attributes(thing)
    assert len(names) > 2
    for attribute in names:
        with pytest.raises((AttributeError, TypeError)):
            setattr(thing, attribute, getattr(thing, attribute, None))
        refuses((AttributeError, TypeError), "", delattr, thing, attribute)


def test_what_is_told_and_how_users_are_divided_are_copies_that_cannot_be_changed():
    told, shares = np.zeros((2, 2)), {"a": 0.5, "b": 0.5}
    query = count_query(public={"centres": told})
    federation = fl.simulate(users_points(), "local", seed=1)
    split = federation.divide(shares)
    before = split.members(np.arange(500), "a")
    told[:] = 7.0
    shares["a"] = 0.1
    assert (query.public["centres"] == 0).all() and split.shares == {"a": 0.5, "b": 0.5}
    with pytest.raises(ValueError, match="read-only"):
        query.public["centres"][0] = 7.0
    for mapping in (query.public, split.shares):
        with pytest.raises(TypeError):
            mapping["a"] = 0.1
    query.n_reports[0] = 10**6
    assert query.n_reports[0] == 0
    assert np.array_equal(split.members(np.arange(500), "a"), before)


def test_numbers_of_divisions_are_issued_by_divide_alone():
    """A division made by hand could call overlapping parts disjoint, and halve what they cost."""
    refuses(TypeError, "number", fl.UserSplit, {"a": 0.5, "b": 0.5}, 1, number=0)
    refuses(TypeError, "positional", fl.UserSplit, {"a": 0.5, "b": 0.5}, 1, 0)
    by_hand = fl.UserSplit({"a": 0.5, "b": 0.5}, 1)
    refuses(ValueError, "made by hand", by_hand.group, "a")
    refuses((ValueError, TypeError), "number", replace, divided().split, seed=5, number=0)
    assert replace(divided().split, seed=5).number is None  # another division: no number
    federation = fl.simulate(users_points(), "local", seed=1, budget=Budget(1.0))
    federation.divide({"a": 0.5, "b": 0.5})
    federation.ask(count_query(1.0), round=0, part="a")
    with pytest.raises(AttributeError):
        federation.split = by_hand
    federation.divide({"a": 0.5, "b": 0.5})  # everybody may have been asked: the budget knows
    for part in ("a", "b"):
        refuses(BudgetExceededError, "", federation.ask, count_query(1.0), round=1, part=part)


# --- whose privacy a local ledger speaks of -------------------------------------------------------


def test_a_release_looks_at_the_ledger_again(monkeypatch):
    """Whoever gets another ledger past the constructor is stopped at the release."""
    for ledger in (PrivacyLedger(), PrivacyLedger("person", "replace-one")):
        federation = fl.simulate(users_points(20), "local", seed=1)
        object.__setattr__(federation, "ledger", ledger)
        for release in (
            lambda f=federation: f.ask(count_query(), round=0),
            lambda f=federation: f.reports(TOTAL, (Gaussian(2.0, 9.0, "replace-one"),), round=0),
        ):
            refuses(LedgerMismatchError, "ledger must be kept for", release)
        assert ledger.releases == () and federation.transcript.messages == []


# --- one bad point is nobody's business -----------------------------------------------------------


@pytest.mark.parametrize("length", [1.0 + 1e-12, 1e3, 1e155, 1e300])
def test_points_out_of_the_ball_raise_nothing_and_move_no_other(length):
    """They are cut on the device: every other user's report is what it was, bit for bit."""
    points = users_points(400)
    bad = np.array(points)
    bad[17] = (length, 0.0)
    reports = []
    for data in (points, bad):
        federation = fl.simulate(data, "local", seed=2, keep_payloads=True)
        federation.ask(count_query(), round=0)
        federation.ask(sum_query(), round=1)
        noisy = NoisyPoints(2, gaussian_report(1.0, 1.0, DELTA), max_kept=400)
        federation.ask(noisy, round=2)
        reports.append([m.payload for m in federation.transcript.messages])
    others = np.arange(400) != 17
    for one, other in zip(*reports, strict=True):
        assert np.array_equal(one[others], other[others]) and np.isfinite(other).all()


def test_a_user_who_fails_is_charged_and_answers_as_for_the_point_zero():
    def failing(points, channels=None):
        if (points == SECRET_VALUE).any():
            raise RuntimeError(f"{SECRET_VALUE} is not to be had")
        return halves(points)

    said = []
    for value in (SECRET_VALUE, 0.0):
        points = np.full((200, 2), 0.5)
        points[7:70] = value
        # epsilon 80: every bit is the true one
        query = OneBitCounts(failing, 80.0, rng=generator(1), n_buckets=64)
        federation = fl.simulate(points, "local", seed=1, keep_payloads=True)
        federation.ask(query, round=0)
        assert query.n_users == 200 and len(federation.ledger.releases) == 1
        said.append(federation.transcript.messages[-1].payload)
    assert np.array_equal(*said) and 0 < said[0][7:70].sum() < 63


@pytest.mark.parametrize("trust", ["local", "shuffled"])
def test_what_fails_of_every_user_is_an_error_after_the_charge(trust):
    def failing(points, channels=None):
        if points.any():
            raise RuntimeError(f"{SECRET_VALUE} is not to be had")
        return halves(points)

    for n, told in ((40, True), (1, False)):  # one user alone is not told apart
        federation = fl.simulate(np.full((n, 2), 0.5), trust, seed=1)
        query = OneBitCounts(failing, 1.0, rng=generator(1), n_buckets=64)
        if told:
            refuses(RuntimeError, "failed in every client: an error of the program",
                    federation.ask, query, round=0)  # fmt: skip
        else:
            federation.ask(query, round=0)
        assert len(federation.ledger.releases) == 1


@pytest.mark.parametrize("value", [NAN, INF, 1e200])
def test_a_vector_that_is_not_finite_counts_as_nothing(value):
    """Whatever a user's function makes of a point: 0 is sent with noise, nobody hears an error."""

    def encode(points, channels):
        vectors = np.array(points)
        vectors[3] = value
        return np.zeros(len(points), dtype=np.uint64), vectors

    exact = HeavySums(encode, 1.0, 2, NoNoise("replace-one"), rng=generator(0), n_buckets=4)
    points = users_points(10)
    (sent,) = exact.respond(points, np.arange(10), rng=generator(1))
    assert (sent[3] == 0).all() and np.abs(sent[[0, 1, 2, 4]]).min() > 0
    assert np.linalg.norm(sent, axis=1).max() <= 1


# --- noise on a grid, and shares of noise ---------------------------------------------------------


def test_noise_on_a_grid_is_added_in_whole_steps():
    # 0.1 is no binary fraction: adding floats would leave bits that depend on the value
    clients = [np.full((1, 1), v) for v in (0.3, -0.7, 0.1)]
    mechanism = DiscreteGaussian(1.1, 5.0, 0.1)
    fed = fl.simulate(clients, "ideal", seed=3)
    (total,) = fed.noisy_sum(TOTAL, (mechanism,), round=0)
    np.testing.assert_array_equal(total, np.rint(total / 0.1) * 0.1)
