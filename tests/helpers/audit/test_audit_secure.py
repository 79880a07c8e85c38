"""Audits in secure mode: every mechanism, every local randomiser and every paper's releases.

Secure noise has no seed. Each test states its false-alarm probability; they add up to about 0.5 %
for a run of this file.
"""

import math
import warnings

import numpy as np
import pytest
from audit_tools import SPREAD, audit_low_bits, audit_rounds
from conftest import first_of

from fedclust_helpers import audit, fastlloyd, feddp_kmeans, ldp_kmeans
from fedclust_helpers.federation import simulate
from fedclust_helpers.federation.reports import gaussian_report
from fedclust_helpers.ldp_kmeans.local_randomizers import (
    RandomizedResponse,
)
from fedclust_helpers.mechanisms import (
    SECURE,
    DiscreteGaussian,
    DiscreteLaplace,
    DistributedDiscreteGaussian,
    SecureNoise,
)
from studies.ldp_kmeans import baselines

pytestmark = pytest.mark.slow

ALARM = 1e-7  # false alarm of each audit of secure noise: of some fifty, in every run
TIES = np.random.default_rng(0)  # audits want a generator; nothing is drawn from it here


# --- mechanisms -----------------------------------------------------------------------------------


def total_steps(mechanism, shape):
    """What is added to a value: the shares of all honest nodes together, or one draw."""
    if isinstance(mechanism, DistributedDiscreteGaussian):
        return sum(mechanism.sample_steps(shape, rng=SECURE) for _ in range(mechanism.n_honest))
    return mechanism.sample_steps(shape, rng=SECURE)


def kurtosis(mechanism):
    """Excess kurtosis: 0, or that of a discrete Laplace, 3 + (cosh a - 1), a = grid/scale."""
    if not isinstance(mechanism, DiscreteLaplace):
        return 0.0
    return 2.0 + math.cosh(mechanism.grid / mechanism.scale)


FINE = {
    "gaussian, scale 1 on 2^-30": DiscreteGaussian(1.0, 1.0, 2.0**-30),
    "gaussian, scale 1e6 on 2^-30": DiscreteGaussian(1.0, 1e6, 2.0**-30),
    "gaussian, scale 1e6 on 1": DiscreteGaussian(1.0, 1e6, 1.0),
    "gaussian, scale/grid 2^54": DiscreteGaussian(1000.0, 2000.0, 2.0**-43),
    "gaussian, scale/grid near the limit": DiscreteGaussian(1.0, 1.0, 2.0**-58),
    "laplace, scale 1 on 2^-30": DiscreteLaplace(1.0, 1.0, 2.0**-30),
    "laplace, scale 1e6 on 2^-30": DiscreteLaplace(1.0, 1e6, 2.0**-30),
    "laplace, scale/grid near the limit": DiscreteLaplace(1.0, 1.0, 2.0**-56),
    "distributed, scale 1 on 2^-30": DistributedDiscreteGaussian(
        1.0, 1.0, 2.0**-30, n_honest=3, n_coordinates=4
    ),
    "distributed, scale/grid near the limit": DistributedDiscreteGaussian(
        1.0, 1.0, 2.0**-57, n_honest=3, n_coordinates=4
    ),
}
COARSE = {
    "gaussian, scale 4 on 1": DiscreteGaussian(1.0, 4.0, 1.0),
    "gaussian, scale of one step": DiscreteGaussian(1.0, 1.0, 1.0),
    "gaussian, grid 1000": DiscreteGaussian(1000.0, 2500.0, 1000.0),
    "laplace, scale 4 on 1": DiscreteLaplace(1.0, 4.0, 1.0),
    "laplace, half a step": DiscreteLaplace(1.0, 0.5, 1.0),
    "distributed, scale 4 on 1": DistributedDiscreteGaussian(
        1.0, 4.0, 1.0, n_honest=3, n_coordinates=4
    ),
}


def scale_audit(steps, mechanism, n_runs=1000, std=None):
    return audit.audit_noise_scale(
        lambda rng, n: steps(mechanism, (n, 4)), np.zeros(4),
        (mechanism.std if std is None else std) / mechanism.grid, n_runs=n_runs, false_alarm=ALARM,
        excess_kurtosis=kurtosis(mechanism), rng=TIES,
    )  # fmt: skip


@pytest.mark.parametrize("name", list(FINE))
def test_secure_noise_on_a_fine_grid(name):
    mechanism = FINE[name]
    drawn = total_steps(mechanism, (3000, 4))
    assert drawn.dtype == np.int64
    result = scale_audit(lambda m, shape: drawn, mechanism, 3000)
    assert result.passed, str(result)
    width = math.floor(math.log2(mechanism.scale / mechanism.grid)) - SPREAD - 1
    assert audit_low_bits(drawn, n_bits=width, false_alarm=ALARM) == (width, [])


@pytest.mark.parametrize("name", list(COARSE))
def test_secure_noise_on_a_coarse_grid(name):
    # values repeat: runs that are exact now and then hide among them, and the audit says so
    result = scale_audit(total_steps, COARSE[name], 1500)
    assert not result.alarm, str(result)
    assert all("would not be seen" in reason for reason in result.incomplete)


BROKEN = {
    "halved": lambda steps: steps // 2,
    "through a float": lambda steps: steps.astype(np.float64).astype(np.int64),
    "rounded to two steps": lambda steps: steps // 2 * 2,
    "last bit shared by the coordinates": lambda steps: 2 * (steps // 2) + (steps[..., :1] & 1),
    "every second run is the run before": lambda steps: np.repeat(steps[::2], 2, axis=0),
    "the same for all coordinates": lambda steps: np.repeat(steps[:, :1], 4, axis=1),
    "the same but for the sign": lambda steps: steps[:, :1] * np.array([1, -1, 1, -1]),
    "exact in 1 % of the runs": lambda steps: (
        steps * (np.random.default_rng(3).random((len(steps), 1)) > 0.01)
    ),
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_broken_secure_noise_is_caught(name):
    # 2^56 steps, where floats keep 53 bits
    mechanism = DiscreteGaussian(1.0, 1.0, 2.0**-56)
    steps = BROKEN[name](mechanism.sample_steps((2000, 4), rng=SECURE))
    scale = scale_audit(lambda m, shape: steps, mechanism, 2000)
    low = audit_low_bits(steps, n_bits=40, false_alarm=ALARM)
    assert scale.alarm or low.failed, f"{scale}\n{low}"
    # only the bits show what a float did to them, only the scale shows the rest
    assert bool(low.failed) or "float" not in name and "bit" not in name


# --- local randomisers ----------------------------------------------------------------------------

USERS = 20_000


@pytest.mark.parametrize("n_values", [2, 5])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_randomised_response_gives_its_epsilon_and_no_more(epsilon, n_values):
    # at most 1e-4 false alarms; the claim of half the epsilon is refuted practically always
    answer = RandomizedResponse(epsilon, n_values)
    scores = [
        answer.randomize(np.full(USERS, value), rng=SECURE).astype(float) == 0 for value in (1, 0)
    ]
    for claim, passes in ((epsilon, True), (epsilon / 2, False)):
        result = audit.audit_canary(*scores, confidence=1 - ALARM, claimed_epsilon=claim)
        assert result.passed == passes, str(result)


@pytest.mark.parametrize("radius", [1.0, 1e-3, 1e4])
def test_a_vector_report_has_its_noise(radius):
    # every user holds the same vector: the reports are runs of one release
    point = np.array([0.6, -0.3]) * radius
    mechanism = gaussian_report(radius, 1.0, 1e-6, grid=radius * 2.0**-20, n_features=2)
    steps = np.rint(point / mechanism.grid) + mechanism.sample_steps((2000, 2), rng=SECURE)
    result = audit.audit_noise_scale(
        lambda rng, n: steps * mechanism.grid, point, mechanism.std, false_alarm=ALARM, rng=TIES
    )
    assert result.passed, str(result)
    far = steps.astype(np.int64)
    assert not audit_low_bits(far, n_bits=8, false_alarm=ALARM).failed


# --- papers ---------------------------------------------------------------------------------------

POINTS = np.random.default_rng(6).uniform(-0.9, 0.9, (60, 2))
CLIENTS = [POINTS[:20], POINTS[20:45], POINTS[45:]]
N_RUNS = 250  # whole runs; exact releases in 3 % of them are seen


@pytest.fixture
def recorded(monkeypatch):
    """All noised sums of the next run, each with the exact sum behind it: (released, exact)."""
    seen = []

    def record(cls):
        original = cls.noisy_sum

        def noisy_sum(self, statistic, mechanisms, *, round, sampling=None, **broadcast):
            released = original(
                self, statistic, mechanisms, round=round, sampling=sampling, **broadcast
            )
            shapes = self.shapes_of(statistic, broadcast)
            values = self._clients.values(statistic, broadcast, shapes)
            exact = tuple(
                (np.rint(v / m.grid) * m.grid).sum(axis=0)
                for v, m in zip(values, mechanisms, strict=True)
            )
            seen.append((released, exact))
            return released

        monkeypatch.setattr(cls, "noisy_sum", noisy_sum)

    return seen, record


def stds_of(plan, shares=1.0):
    """Standard deviation of every planned release; all shares where every client adds one."""
    f = plan.facts
    more = math.sqrt(f.n_clients / f.n_honest) if f.noise == "distributed" else 1.0
    return [tuple(more * m.std for m in r.mechanisms) for r in plan.releases]


def audit_runs(recorded, federation, plan, run, kurtosis=0.0):
    seen, record = recorded
    record(type(federation))

    def one():
        seen.clear()
        run(federation, plan)
        return list(seen)

    return audit_rounds(
        one, stds_of(plan), n_runs=N_RUNS, false_alarm=ALARM, excess_kurtosis=kurtosis,
        smallest=0.05, rng=TIES,
    )  # fmt: skip


FEDERATIONS = {
    "masked, noise of the clients": {"noise_from": "clients"},
    "trusted": {},
    "ideal": {},
    "masked": {},
    "masked, 32 bits": {"bits": 32},
    "serverless": {},
}


@pytest.mark.parametrize("name", first_of(FEDERATIONS, 2))
def test_releases_of_fastlloyd(recorded, name):
    federation = simulate(CLIENTS, name.split(",")[0], mode="secure", **FEDERATIONS[name])
    plan = fastlloyd.plan(federation, n_clusters=3, epsilon=4.0, delta=1e-5, n_rounds=2)
    result = audit_runs(recorded, federation, plan, fastlloyd.run)
    assert not result.alarm, str(result)
    assert all("would not be seen" in reason for reason in result.incomplete)
    # counts on the grid of integers need more runs, the sums do not
    assert [q.smallest_share < 0.05 for q in result.queries][::2] == [True, True]


def reused(monkeypatch):
    """Every second draw of secure noise is the one before."""
    last = {}
    original = DiscreteGaussian.sample_steps

    def sample_steps(self, shape, *, rng):
        if isinstance(rng, SecureNoise) and shape in last:
            steps, scale = last.pop(shape)
            return np.rint(steps * (self.scale / scale)).astype(np.int64)
        steps = original(self, shape, rng=rng)
        last[shape] = steps, self.scale
        return steps

    monkeypatch.setattr(DiscreteGaussian, "sample_steps", sample_steps)


def test_noise_reused_in_the_next_round_is_caught(recorded, monkeypatch):
    federation = simulate(CLIENTS, "masked", mode="secure")
    plan = fastlloyd.plan(federation, n_clusters=3, epsilon=4.0, delta=1e-5, n_rounds=2)
    reused(monkeypatch)
    result = audit_runs(recorded, federation, plan, fastlloyd.run)
    assert result.correlated, str(result)
    assert "FAILED" in str(result)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_halved_or_missing_shares_of_noise_are_caught(recorded, monkeypatch, share):
    federation = simulate(CLIENTS, "serverless", mode="secure")
    plan = fastlloyd.plan(federation, n_clusters=3, epsilon=4.0, delta=1e-5, n_rounds=1)
    original = DistributedDiscreteGaussian.sample_steps

    def sample_steps(self, shape, *, rng):
        return (share * original(self, shape, rng=rng)).astype(np.int64)

    monkeypatch.setattr(DistributedDiscreteGaussian, "sample_steps", sample_steps)
    result = audit_runs(recorded, federation, plan, fastlloyd.run)
    assert all(query.too_little for query in result.queries)


def test_releases_of_feddp(recorded):
    # Gaussian and Laplace releases in one run: the larger kurtosis for all, a wider interval
    rng = np.random.default_rng(7)
    federation = simulate(CLIENTS, "ideal", mode="secure", domain="ball", bound=1.5)
    server = rng.uniform(-1, 1, (12, 2))
    plan = feddp_kmeans.plan(
        federation, server, n_clusters=3, epsilon=8.0, delta=1e-5, n_rounds=1, n_init=1
    )

    def run(f, p):
        return feddp_kmeans.run(f, p, rng=rng)

    result = audit_runs(recorded, federation, plan, run, kurtosis=3.1)
    assert not result.alarm, str(result)
    assert all("would not be seen" in reason for reason in result.incomplete)


@pytest.mark.parametrize("part", ["bits", "vectors"])
def test_reports_of_local_kmeans(part):
    """All users hold one point: reports of one kind are runs of one release. 1e-4 false alarms."""
    reports = []
    for x in (0.9, -0.9):
        users = simulate(np.tile([x, 0.0], (4000, 1)), "local", mode="secure", keep_payloads=True)
        plan = baselines.plan_gaussian_reports(users, n_clusters=2, epsilon=1.0, delta=1e-5)
        if part == "bits":
            plan = baselines.plan_grid_histogram(users, n_clusters=2, epsilon=1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # two clusters of one point each
            ldp_kmeans.run(users, plan, rng=np.random.default_rng(9))
        sent = [m.payload for m in users.transcript.view("server")]
        reports.append(np.asarray(sent[0]).reshape(4000, -1))
    if part == "vectors":
        mechanism = plan.releases[0].mechanisms[0]
        exact = np.rint(np.array([-0.9, 0.0]) / mechanism.grid)
        result = audit.audit_noise_scale(
            lambda rng, n: reports[1].astype(float), exact, mechanism.std / mechanism.grid,
            n_runs=4000, false_alarm=ALARM, rng=TIES,
        )  # fmt: skip
        assert result.passed, str(result)
        assert not audit_low_bits(reports[1].astype(np.int64), false_alarm=ALARM).failed
    bits = [r[:, 0].astype(float) for r in reports]
    found = audit.audit_canary(*bits, confidence=1 - ALARM, claimed_epsilon=1.0, delta=1e-5)
    assert found.passed, str(found)
