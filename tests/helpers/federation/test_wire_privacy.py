"""The privacy of the wire: what an attacker receives determines no exact sum.

For each trust model an attacker's view is put together from the transcript with payloads: the
server alone, one client, the server with the published result, or so many colluding clients as are
allowed. Runs are repeated on neighbouring data sets with fresh pads, shares and noise, and the best
linear attack that can be learned from half of the views may not tell the data sets apart better
than the plan says. Every test has a positive control: the same attack on a view that gives the
sums away succeeds. Seeded; false alarms are at most 1e-3 for each audit, unless said otherwise.
"""

import math

import numpy as np
import pytest
from audit_tools import audit_low_bits, canary_mu
from conftest import first_of
from scipy import stats

from fedclust_helpers import audit, fastlloyd, feddp_kmeans
from fedclust_helpers.accounting import gdp_epsilon
from fedclust_helpers.client_statistics import RELATIVE_SUMS_AND_COUNTS, SUMS_AND_COUNTS
from fedclust_helpers.federation import simulate
from fedclust_helpers.federation.aggregation import Masked, ShareEach
from fedclust_helpers.mechanisms import DistributedDiscreteGaussian, Gaussian, Laplace
from fedclust_helpers.secure_aggregation import PadBook
from studies.ldp_kmeans.baselines import NoisyPoints

pytestmark = pytest.mark.slow

POINTS = np.random.default_rng(0).uniform(-0.5, 0.5, (36, 2))
CLIENTS = [POINTS[:12], POINTS[12:24], POINTS[24:]]
CANARY = np.array([[0.8, 0.35]])  # within the radius of the first centre, far from it
WITH = [POINTS[:12], POINTS[12:24], np.vstack([POINTS[24:], CANARY])]
CENTERS = np.array([[0.3, 0.3], [-0.3, -0.3]])
SECRET = bytes(range(32))
EPSILON, DELTA = 1.0, 1e-5
RUNS = 300  # per data set; a view that gives the sums away refutes epsilon = 1 with 150 of them
PUBLIC = {"n_records": 40, "keep_payloads": True}


# --- attackers ------------------------------------------------------------------------------------


def received(messages, party):
    """Everything numeric that `party` received, as one vector."""
    names = {party} | ({"clients", "nodes"} if party.startswith("client") else set())
    parts = [
        np.asarray(m.payload).astype(np.float64).ravel()
        for m in messages
        if m.receiver in names and m.round >= 0 and np.asarray(m.payload).dtype.kind in "iuf"
    ]
    return np.concatenate(parts)


def views(federation, once, party, n_runs=RUNS):
    """Views of `n_runs` runs: (n_runs, size)."""
    out = []
    for _ in range(n_runs):
        start = len(federation.transcript.messages)
        once(federation)
        out.append(received(federation.transcript.messages[start:], party))
    return np.stack(out)


def told_apart(without, with_, *, epsilon, delta=DELTA):
    """The best linear attack that half of the views teach, judged by the other half."""
    half = len(without) // 2
    train = np.concatenate([without[:half], with_[:half]])
    size = train.std(axis=0)
    size[size == 0] = 1.0
    a, b = without / size, with_ / size
    shift = b[:half].mean(axis=0) - a[:half].mean(axis=0)
    noise = np.concatenate([a[:half] - a[:half].mean(axis=0), b[:half] - b[:half].mean(axis=0)])
    spread = noise.T @ noise / len(noise)
    ridge = 0.05 * (np.trace(spread) / len(spread)) + 1e-9
    direction = np.linalg.solve(spread + ridge * np.eye(len(spread)), shift)
    scores = [(x[half:] - train.mean(axis=0) / size) @ direction for x in (a, b)]
    return audit.audit_canary(
        *scores, confidence=0.999, delta=delta, claimed_epsilon=epsilon, smallest=0.2
    )


def without_noise(monkeypatch, factor=0.0):
    """All continuous and discrete noise multiplied by `factor`."""
    for cls in (Gaussian, Laplace):
        sample = cls.sample

        def less(self, shape, *, rng, sample=sample):
            return factor * sample(self, shape, rng=rng)

        monkeypatch.setattr(cls, "sample", less)
    steps = DistributedDiscreteGaussian.sample_steps

    def fewer(self, shape, *, rng):
        return (factor * steps(self, shape, rng=rng)).astype(np.int64)

    monkeypatch.setattr(DistributedDiscreteGaussian, "sample_steps", fewer)


# --- papers: what a server or client sees of a whole run ------------------------------------------


def lloyd(federation):
    plan = fastlloyd.plan(
        federation, n_clusters=2, epsilon=EPSILON, delta=DELTA, n_rounds=2, strategy="constant",
        initial=CENTERS,
    )  # fmt: skip
    return lambda f: fastlloyd.run(f, plan)


SERVER_POINTS = np.random.default_rng(1).uniform(-0.8, 0.8, (8, 2))


def feddp(federation):
    plan = feddp_kmeans.plan(
        federation, SERVER_POINTS, n_clusters=2, epsilon=EPSILON, delta=DELTA, n_rounds=1, n_init=1
    )
    rng = np.random.default_rng(2)
    return lambda f: feddp_kmeans.run(f, plan, rng=rng)


def federation_of(clients, trust, *, seed, **options):
    return simulate(clients, trust, seed=seed, **PUBLIC, **options)


BALL = {"domain": "ball", "bound": 1.5}
SEES_SUMS = {
    # who is the attacker, and who else could learn what it may know: the noised sums
    "fastlloyd, ideal, server": (lloyd, "ideal", "server", {}),
    "feddp, ideal, server": (feddp, "ideal", "server", BALL),
    "fastlloyd, masked, client": (lloyd, "masked", "client 0", {"noise_from": "server"}),
    "fastlloyd, masked with shares, client": (
        lloyd, "masked", "client 0", {},
    ),
    "fastlloyd, trusted, client": (lloyd, "trusted", "client 0", {}),
    "feddp, trusted, client": (feddp, "trusted", "client 0", BALL),
}  # fmt: skip


def unmasked(federation, view):
    """What a client makes of its view: it takes the pads away."""
    book = PadBook(SECRET, federation.aggregation.session, federation.aggregation.fixed_point.bits)
    out = []
    for number, row in enumerate(view):
        numbers = []
        for t in range(2):
            for part, shape in (("sums", (2, 2)), ("counts", (2,))):
                pads = book.pads(f"relative_sums_and_counts/{part}", 2 * number + t, 3, shape)
                numbers.append(pads.sum(axis=0, dtype=pads.dtype).ravel())
        words = np.concatenate(numbers)
        out.append(federation.aggregation.fixed_point.decode(row - words))
    return np.stack(out)


def words_received(federation, once, n_runs):
    """A client's view of masked totals, as ring words (floats would lose their low bits)."""
    out = []
    for _ in range(n_runs):
        start = len(federation.transcript.messages)
        once(federation)
        out.append(
            np.concatenate([
                m.payload.ravel() for m in federation.transcript.messages[start:]
                if m.receiver == "clients" and m.round >= 0
            ])
        )  # fmt: skip
    return np.stack(out)


def attack(name, seeds=(5, 6)):
    paper, trust, party, options = SEES_SUMS[name]
    seen = []
    for clients, seed in zip((CLIENTS, WITH), seeds, strict=True):
        extra = {"pre_shared_secret": SECRET} if trust == "masked" else {}
        f = federation_of(clients, trust, seed=seed, **options, **extra)
        once = paper(f)
        if trust == "masked":
            seen.append(unmasked(f, words_received(f, once, RUNS)))
        else:
            seen.append(views(f, once, party))
    return told_apart(*seen, epsilon=EPSILON)


@pytest.mark.parametrize("name", first_of(SEES_SUMS, 3))
def test_a_run_tells_those_who_see_the_sums_no_more_than_its_epsilon(name):
    result = attack(name)
    assert result.passed, str(result)


@pytest.mark.parametrize("name", first_of(SEES_SUMS, 3))
def test_control_without_noise_the_same_attack_succeeds(monkeypatch, name):
    without_noise(monkeypatch)
    assert attack(name).epsilon_alarm


# --- masked: the server alone ---------------------------------------------------------------------

AT = {"centers": CENTERS, "radius": 0.8}


def exact_of(statistic, clients=CLIENTS, **broadcast):
    broadcast = broadcast or {"centers": CENTERS}
    rows = np.vstack(clients)
    return tuple(v[0] for v in statistic.compute(rows, np.array([0, len(rows)]), **broadcast))


def pair(federation, statistic=SUMS_AND_COUNTS, multiplier=3.0, **public):
    sizes = {"sums": 4, "counts": 2}
    return tuple(
        federation.gaussian(
            statistic, part, multiplier=multiplier, n_coordinates=sizes[part], **public
        )
        for part in statistic.parts
    )


def server_words(clients, seed, n_runs=600, *, bits=64, noise_from="server"):
    """Masked messages that the server received: ring words (n_runs, n_clients, 6)."""
    f = federation_of(
        clients, "masked", seed=seed, bits=bits, noise_from=noise_from, pre_shared_secret=SECRET
    )
    noise = pair(f, RELATIVE_SUMS_AND_COUNTS, radius=0.8)
    for t in range(n_runs):
        f.noisy_sum(RELATIVE_SUMS_AND_COUNTS, noise, round=t, **AT)
    sent = [m.payload.reshape(3, -1) for m in f.transcript.view("server") if m.round >= 0]
    return np.stack(
        [np.concatenate([a, b], axis=1) for a, b in zip(sent[::2], sent[1::2], strict=True)]
    )


def uniform_and_alike(without, with_, bits):
    """p-values that both views are uniform words, of the words and of what a server could form."""
    p_values = []
    for words in (without, with_):
        for form in (
            words,
            words.sum(axis=1, dtype=words.dtype),  # the total
            words[:, 0] - words[:, 1],  # differences of clients
            words[1:] - words[:-1],  # and of rounds
            words[:, :, 0] - words[:, :, 1],  # and of coordinates
        ):
            shares = form.astype(np.float64).ravel() / 2.0**bits
            p_values.append(stats.kstest(shares, "uniform").pvalue)
            low = form.ravel() & form.dtype.type(0xFF)
            p_values.append(stats.chisquare(np.bincount(low.astype(int), minlength=256)).pvalue)
    return min(p_values)


@pytest.mark.parametrize("noise_from", ["server", "clients"])
@pytest.mark.parametrize("bits", first_of([32, 64]))
def test_a_masked_server_sees_uniform_words_whatever_the_data(bits, noise_from):
    # 20 tests of each world at 1e-6; the linear attack at epsilon = 0.1, false alarm 1e-3
    seen = [
        server_words(clients, seed, bits=bits, noise_from=noise_from)
        for clients, seed in ((CLIENTS, 9), (WITH, 10))
    ]
    assert uniform_and_alike(*seen, bits) > 1e-6
    flat = [words.reshape(len(words), -1).astype(np.float64) for words in seen]
    assert told_apart(*flat, epsilon=0.1).passed


@pytest.mark.parametrize("broken", ["no pads", "the same pads for all clients", "pads of 32 bits"])
def test_control_weak_pads_are_seen(monkeypatch, broken):
    pads = PadBook.pads

    def weak(self, purpose, round, n_clients, shape):
        good = pads(self, purpose, round, n_clients, shape)
        if broken == "no pads":
            return np.zeros_like(good)
        if broken == "pads of 32 bits":
            return good >> good.dtype.type(32)
        return np.repeat(good[:1], n_clients, axis=0)

    monkeypatch.setattr(PadBook, "pads", weak)
    seen = [server_words(clients, seed) for clients, seed in ((CLIENTS, 9), (WITH, 10))]
    assert uniform_and_alike(*seen, 64) < 1e-6
    flat = [words.reshape(len(words), -1).astype(np.float64) for words in seen]
    if broken == "no pads":  # exact statistics of each client
        assert told_apart(*flat, epsilon=0.1).epsilon_alarm


# --- the server together with the published result ------------------------------------------------


def published_and_known(noise_from, clients=CLIENTS, seed=11, n_runs=600):
    """Published sums minus all the noise that the server itself drew: (n_runs, 6), and the stds."""
    f = federation_of(clients, "masked", seed=seed, noise_from=noise_from, pre_shared_secret=SECRET)
    drawn = []
    original = Masked.fresh

    def watched(self, mechanism, shape, rng):
        noise = original(self, mechanism, shape, rng)
        if rng is self.context.randomness.noise:  # the server's own source
            drawn.append(self.fixed_point.decode(noise).ravel())
        return noise

    noise = pair(f, RELATIVE_SUMS_AND_COUNTS, radius=0.8)
    out = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Masked, "fresh", watched)
        for t in range(n_runs):
            drawn.clear()
            released = np.concatenate(
                [v.ravel() for v in f.noisy_sum(RELATIVE_SUMS_AND_COUNTS, noise, round=t, **AT)]
            )
            out.append(released - np.concatenate(drawn) if drawn else released)
    return np.stack(out), np.repeat([m.std for m in noise], (4, 2)), f


def flat_exact(clients=CLIENTS):
    return np.concatenate([v.ravel() for v in exact_of(RELATIVE_SUMS_AND_COUNTS, clients, **AT)])


def test_control_a_server_that_knows_all_noise_and_the_result_has_the_exact_sums():
    known, _, _ = published_and_known("server", n_runs=20)
    np.testing.assert_allclose(known, np.tile(flat_exact(), (20, 1)), atol=1e-7)


def test_noise_of_the_clients_hides_the_sums_from_a_server_with_the_published_result():
    known, stds, f = published_and_known("clients")
    # all three clients add a share, two suffice: more noise than claimed, never less
    more = stds * math.sqrt(3 / 2)
    result = audit.audit_noise_scale(
        lambda rng, n: known, flat_exact(), more, n_runs=600, rng=np.random.default_rng(1)
    )
    assert result.passed, str(result)
    neighbour, _, _ = published_and_known("clients", WITH, seed=12)
    mu = math.hypot(*(m.sensitivity / m.std for m in pair(f, RELATIVE_SUMS_AND_COUNTS, radius=0.8)))
    claimed = canary_mu(flat_exact(), flat_exact(WITH), stds)
    assert claimed <= mu
    told = told_apart(known, neighbour, epsilon=epsilon_of(mu))
    assert told.passed, str(told)
    # control: the server's noise would have been no help
    known, neighbour = (
        published_and_known("server", clients, seed=s)[0]
        for clients, s in ((CLIENTS, 13), (WITH, 14))
    )
    assert told_apart(known, neighbour, epsilon=epsilon_of(mu)).epsilon_alarm


def epsilon_of(mu):
    return gdp_epsilon(mu, DELTA)


# --- serverless: clients who pool what they know --------------------------------------------------


def pooled(coalition, clients=CLIENTS, *, seed=16, n_runs=500, max_colluding=1, honest_noise=1.0):
    """What a coalition makes of the totals without its own noise: (n_runs, 6); shares; claims."""
    f = federation_of(clients, "serverless", seed=seed, max_colluding=max_colluding)
    noise = pair(f, RELATIVE_SUMS_AND_COUNTS, radius=0.8)
    original = ShareEach.to_messages
    drawn = []

    def watched(self, way, messages, mechanism, who):
        shares = original(self, way, messages, mechanism, who) - messages
        honest = [i for i in range(len(shares)) if i not in coalition]
        if honest_noise != 1.0:
            shares = shares.copy()
            shares[honest] = 0
        drawn.append(shares[list(coalition)])
        return messages + shares

    out, seen = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShareEach, "to_messages", watched)
        for t in range(n_runs):
            drawn.clear()
            start = len(f.transcript.messages)
            f.noisy_sum(RELATIVE_SUMS_AND_COUNTS, noise, round=t, **AT)
            messages = f.transcript.messages[start:]
            published = [m.payload for m in messages if m.name.startswith("noised share sum")]
            totals = [
                p.sum(axis=0, dtype=p.dtype) - own.sum(axis=0, dtype=own.dtype)
                for p, own in zip(published, drawn, strict=True)
            ]
            out.append(
                np.concatenate([f.aggregation.fixed_point.decode(v).ravel() for v in totals])
            )
            shares = [m.payload for m in messages if m.name.startswith("share of")]
            seen.append(
                np.concatenate([
                    np.delete(s, list(coalition), axis=0)[:, list(coalition)].ravel()
                    for s in shares
                ])
            )  # fmt: skip
    return np.stack(out), np.stack(seen), np.repeat([m.std for m in noise], (4, 2)), noise


@pytest.mark.parametrize(("coalition", "max_colluding"), [((0,), 1), ((2,), 1), ((0, 2), 2)])
def test_colluding_clients_are_left_with_the_noise_of_the_others(coalition, max_colluding):
    totals, shares, stds, noise = pooled(coalition, max_colluding=max_colluding)
    result = audit.audit_noise_scale(
        lambda rng, n: totals, flat_exact(), stds, n_runs=500, rng=np.random.default_rng(2)
    )
    assert result.passed, str(result)
    # the shares of honest clients that they hold are uniform, and tell nothing (1e-6 each)
    words = shares.ravel()
    assert stats.kstest(words.astype(np.float64) / 2.0**64, "uniform").pvalue > 1e-6
    assert not audit_low_bits(words.view(np.int64), n_bits=30, false_alarm=1e-4).failed
    other, more_shares, _, _ = pooled(coalition, WITH, seed=17, max_colluding=max_colluding)
    mu = math.hypot(*(m.sensitivity / m.std for m in noise))
    told = told_apart(totals, other, epsilon=epsilon_of(mu))
    assert told.passed, str(told)
    assert told_apart(shares.astype(np.float64), more_shares.astype(np.float64), epsilon=0.3).passed


def test_control_more_colluders_than_allowed_have_less_noise_and_all_have_none():
    totals, _, stds, _ = pooled((0, 1), max_colluding=1)  # one share is left, two were counted on
    result = audit.audit_noise_scale(
        lambda rng, n: totals, flat_exact(), stds, n_runs=500, rng=np.random.default_rng(3)
    )
    assert all(query.too_little for query in result.queries)
    assert result.queries[0].ratio == pytest.approx(math.sqrt(1 / 2), rel=0.1)
    everything, *_ = pooled((0, 1, 2), n_runs=10)
    np.testing.assert_allclose(everything, np.tile(flat_exact(), (10, 1)), atol=1e-7)


# --- local reports --------------------------------------------------------------------------------


def local_views(value, seed, factor):
    """Reports of one user on the wire, over many releases."""
    points = np.tile([0.2, 0.1], (5, 1))
    points[0] = value
    f = simulate(points, "local", seed=seed, keep_payloads=True)
    mechanism = f.gaussian_report(2, epsilon=EPSILON, delta=DELTA)
    with pytest.MonkeyPatch.context() as patch:
        without_noise(patch, factor)
        return views(f, lambda f: f.ask(NoisyPoints(2, mechanism, max_kept=5), round=0), "server")


@pytest.mark.parametrize("factor", [1.0, 0.0])
def test_the_server_learns_no_users_point_from_its_reports(factor):
    # two values of user 0, as far apart as they can be; without noise the control succeeds
    seen = [
        local_views(value, seed, factor) for value, seed in (([1.0, 0.0], 20), ([-1.0, 0.0], 21))
    ]
    assert told_apart(*seen, epsilon=EPSILON).epsilon_alarm == (factor == 0.0)
