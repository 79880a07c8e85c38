"""The shuffle model: who sees what, tickets in place of numbers, what is charged and refused."""

import math

import numpy as np
import pytest
from conftest import refuses

from fedclust_helpers import accounting as acc
from fedclust_helpers.audit import audit_canary
from fedclust_helpers.federation import local as local_module
from fedclust_helpers.federation import simulate
from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse

DELTA = 1e-6
N = 1000


def crowd(epsilon, n=N, values=2):
    """What the ledger holds of one randomised response of each user."""
    return acc.Shuffled((RandomizedResponse(epsilon, values),), n, drawn=True)


def points(n=N, seed=0):
    return np.random.default_rng(seed).uniform(-0.5, 0.5, (n, 2))


class Ask:
    """A question whose report is the user's number of a symbol; notes the numbers it was given."""

    name, parts = "which", ("symbol",)
    public: dict[str, float] = {}

    def __init__(self, response, values=None):
        self.response, self.mechanisms, self.values = response, (response,), values
        self.asked, self.got, self.sizes, self.reports = [], [], [], []

    def check(self, n_features):
        pass

    def respond(self, rows, users, *, rng):
        self.asked.append(users.copy())
        values = (rows[:, 0] > 0).astype(np.int64)
        return (self.response.randomize(values, rng=rng).astype(np.uint8),)

    def collect(self, users, reports):
        self.got.append(users.copy())
        self.reports.append(reports[0].copy())
        self.sizes.append(len(users))


def asked(query, **options):
    options = {"seed": 1} | options
    federation = simulate(points(), "shuffled", keep_payloads=True, **options)
    federation.ask(query, round=0)
    return federation


def counting(epsilon=1.0):
    return OneBitCounts(
        lambda rows, _: Question((rows[:, 0] > 0).astype(np.uint64)), epsilon,
        rng=np.random.default_rng(1), n_buckets=64,
    )  # fmt: skip


# --- who sees what --------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"seed": 1}, {"seed": None, "mode": "secure"}])
def test_the_server_gets_the_same_messages_in_another_order_without_senders(options):
    query = Ask(RandomizedResponse(2.0))
    federation = asked(query, **options)
    sent = [m.payload for m in federation.transcript.view("shuffler")]
    seen = [m.payload for m in federation.transcript.view("server")]
    assert [m.sender for m in federation.transcript.messages] == ["clients"] * 2 + ["shuffler"] * 2
    assert np.array_equal(sent[0], np.concatenate(query.asked))  # in the order of the users
    rows_sent, rows_seen = (np.stack(two, axis=1) for two in (sent, seen))
    order = [np.lexsort(rows.T) for rows in (rows_sent, rows_seen)]
    assert np.array_equal(rows_sent[order[0]], rows_seen[order[1]])
    assert np.array_equal(np.concatenate(query.got), seen[0])
    assert np.array_equal(np.concatenate(query.reports), seen[1])
    # a random order leaves one user in its place on average: more than 15 has probability 1e-13
    assert (rows_sent[:, 0] == rows_seen[:, 0]).sum() <= 15
    # and keeps no trend: rank correlation has standard deviation 1/sqrt(n), false alarm 6e-7
    position = order[1][np.argsort(order[0])]  # where each user's message ends up
    assert abs(np.corrcoef(position, np.arange(N))[0, 1]) < 5 / math.sqrt(N)


def test_messages_are_shuffled_across_chunks(monkeypatch):
    monkeypatch.setattr("fedclust_helpers.federation.local.USERS_PER_CHUNK", 64)
    monkeypatch.setattr("fedclust_helpers.federation.shuffled.USERS_PER_CHUNK", 64)
    query = Ask(RandomizedResponse(2.0))
    asked(query)
    assert max(query.sizes) <= 64 and sum(query.sizes) == N
    first = np.isin(query.got[0], query.asked[0]).mean()
    assert first < 0.5  # one chunk would hold about 6 % of the users of another one
    assert local_module.USERS_PER_CHUNK == 64


def test_tickets_are_not_numbers_and_not_used_twice():
    query = Ask(RandomizedResponse(2.0))
    federation = asked(query)
    federation.ask(query, round=1)
    first, second = query.asked
    for tickets in (first, second):
        assert len(np.unique(tickets)) == N and tickets.min() > N  # by chance: 1e-10
        assert np.abs(np.corrcoef(tickets, np.arange(N))[0, 1]) < 5 / math.sqrt(N)
    assert not np.isin(first, second).any()
    federation.divide({"a": 0.5, "b": 0.5})
    for again in range(2):  # a division has tickets of its own; a question to all has fresh ones
        federation.ask(query, round=2 + again)
    everybody = np.concatenate([*query.asked, federation.aggregation._tickets])
    assert len(np.unique(everybody)) == 5 * N
    secure = [Ask(RandomizedResponse(2.0)) for _ in range(2)]
    for one in secure:
        asked(one, mode="secure", seed=None)
    assert not np.isin(secure[0].asked[0], secure[1].asked[0]).any()


def test_parts_are_told_by_tickets_and_asked_once():
    federation = simulate(points(), "shuffled", seed=1)
    split = federation.divide({"a": 0.7, "b": 0.3})
    queries = {part: Ask(RandomizedResponse(2.0)) for part in split.parts}
    for part, query in queries.items():
        federation.ask(query, round=0, part=part)
    tickets = [np.concatenate(query.asked) for query in queries.values()]
    assert sum(map(len, tickets)) == N and len(np.unique(np.concatenate(tickets))) == N
    # binomial: within 5 standard deviations, false alarm 6e-7
    assert abs(len(tickets[0]) - 700) < 5 * math.sqrt(N * 0.21)
    again = {"round": 1, "part": "a"}
    refuses(ValueError, "part 'a' was asked already", federation.ask, queries["a"], **again)
    alone = crowd(2.0).epsilon(DELTA)
    assert federation.ledger.epsilon(DELTA) == alone  # one shuffle of all
    federation.divide({"a": 0.5, "b": 0.5})
    more = Ask(RandomizedResponse(2.0, 9))  # more symbols cost less: the dearest part is charged
    federation.ask(more, round=1, part="a")
    federation.ask(queries["b"], round=1, part="b")
    assert federation.ledger.epsilon(DELTA) == pytest.approx(2 * crowd(2.0).epsilon(DELTA / 2))
    federation.divide({"a": 0.5, "b": 0.5})
    federation.ask(queries["a"], round=2, part="a")
    other = {"round": 2, "part": "b"}
    refuses(ValueError, "local epsilon of the parts", federation.ask, counting(1.0), **other)


# --- what is charged ------------------------------------------------------------------------------


def test_an_entry_is_local_at_delta_zero_and_central_beyond():
    federation = asked(counting(3.0))
    (release,) = federation.ledger.releases
    assert release.mechanisms == (crowd(3.0),)
    assert federation.ledger.epsilon(0.0) == 3.0
    assert federation.ledger.epsilon(DELTA) == crowd(3.0).epsilon(DELTA)
    # the question is drawn on the device: it hides as well, which the clones do not count
    assert crowd(3.0).epsilon(DELTA) < 0.8 * acc.shuffled_epsilon(N, 3.0, DELTA)


def test_colluding_users_hide_nobody():
    federation = simulate(points(), "shuffled", seed=1, max_colluding=900)
    federation.ask(counting(3.0), round=0)
    assert federation.facts.n_honest == 100
    assert federation.ledger.epsilon(0.01) == crowd(3.0, 100).epsilon(0.01)
    for wrong in (-1, N):
        options = {"seed": 1, "max_colluding": wrong}
        refuses(ValueError, "max_colluding", simulate, points(), "shuffled", **options)


def test_a_refused_charge_sends_nothing():
    federation = simulate(points(), "shuffled", seed=1, budget=acc.Budget(0.01, DELTA))
    refuses(acc.BudgetExceededError, "", federation.ask, counting(3.0), round=0)
    assert not federation.transcript.messages


# --- audit ----------------------------------------------------------------------------------------

CROWD, LOCAL, AT = 200, 3.0, 1e-2


def scores(first, look, n_runs, seed):
    """What an observer makes of runs in which user 0 says `first` and all others say 0."""
    rows = np.full((CROWD, 1), -0.5)
    rows[0] = 0.5 if first else -0.5
    out = []
    for run in range(n_runs):
        key = 100_000 * seed + run
        federation = simulate(rows, "shuffled", seed=key, keep_payloads=True)
        federation.ask(Ask(RandomizedResponse(LOCAL)), round=0)
        out.append(look([m.payload for m in federation.transcript.messages]))
    return np.array(out, dtype=float)


def test_audit_the_server_stays_below_the_central_epsilon_the_shuffler_does_not():
    """A canary among 200 users. The server's best score is how many say 1; the shuffler's is what
    user 0 sent, which tells more than the shuffled set may: without the shuffle the claim fails.

    False alarm of the first: under 5 %, seeded; the second reaches log((.95 - .01)/.06) = 2.7.
    """
    claimed = crowd(LOCAL, CROWD).epsilon(AT)
    assert claimed < 1.2 < LOCAL
    runs = [scores(f, lambda sent: (sent[3].sum(), sent[1][0]), 1500, f) for f in (0, 1)]
    server = audit_canary(runs[0][:, 0], runs[1][:, 0], delta=AT, claimed_epsilon=claimed)
    assert server.passed
    shuffler = audit_canary(runs[0][:, 1], runs[1][:, 1], delta=AT, claimed_epsilon=claimed)
    assert not shuffler.passed
    first_seen = [scores(f, lambda sent: sent[3][0], 1500, 2 + f) for f in (0, 1)]
    assert audit_canary(*first_seen, delta=AT, claimed_epsilon=claimed).passed
