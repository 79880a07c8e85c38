"""Accounting: formulas against 60-digit arithmetic, the ledger against closed forms and budgets."""

import itertools
import math
from collections import Counter
from dataclasses import replace

import dp_accounting as dpa
import mpmath as mp
import numpy as np
import pytest
from conftest import refuses
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

from fedclust_helpers.accounting import (
    ADJACENCIES,
    Budget,
    BudgetExceededError,
    LedgerMismatchError,
    PrivacyLedger,
    Sampling,
    gaussian_sigma_analytic,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    pure_to_gdp_mu,
    totals,
    zcdp_epsilon,
    zcdp_rho,
)
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoNoise,
)

both_adjacencies = pytest.mark.parametrize("adjacency", ADJACENCIES)


def ledger_of(*releases, adjacency="add/remove", **options):
    """A ledger with one release for each argument (a mechanism, or a list of them)."""
    ledger = PrivacyLedger(adjacency=adjacency, **options)
    for i, mechanisms in enumerate(releases):
        joint = mechanisms if isinstance(mechanisms, list) else [mechanisms]
        ledger.charge(joint, name=f"release {i}", round=i)
    return ledger


# --- Gaussian differential privacy ----------------------------------------------------------------


def exact_gdp_delta(mu, epsilon):
    """The same quantity in 60-digit arithmetic."""
    with mp.workdps(60):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        first = mp.erfc((epsilon / mu - mu / 2) / mp.sqrt(2)) / 2
        second = mp.erfc((epsilon / mu + mu / 2) / mp.sqrt(2)) / 2
        return first - mp.exp(epsilon) * second


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.05, 0.3, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-4, 0.1, 1.0, 10.0, 100.0])
def test_gdp_delta_against_high_precision(mu, epsilon):
    exact = exact_gdp_delta(mu, epsilon)
    if exact < 1e-290:
        assert gdp_delta(mu, epsilon) <= 1e-289
    else:
        assert gdp_delta(mu, epsilon) == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 1.0, 10.0, 100.0, 700.0])
@pytest.mark.parametrize("delta", [1e-30, 1e-12, 1e-5, 0.1, 0.9])
def test_the_inverses_of_gdp_delta_at_extreme_arguments(epsilon, delta):
    """Notes section 7: the residual of the equation is at most 1e-10 of delta (epsilon >= 0.1)."""
    mu = gdp_mu(epsilon, delta)
    tolerance = 1e-10 if epsilon >= 0.1 else 1e-7
    assert float(exact_gdp_delta(mu, epsilon)) == pytest.approx(delta, rel=tolerance)
    assert gdp_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-9)
    assert gaussian_sigma_analytic(epsilon, delta) == 1 / mu


def test_tiny_and_huge_arguments_are_solved():
    assert float(exact_gdp_delta(gdp_mu(1e-13, 1e-30), 1e-13)) == pytest.approx(1e-30, rel=0.01)
    assert gdp_epsilon(1000.0, 1e-5) == pytest.approx(500_000 + 4264, rel=1e-5)
    assert gdp_epsilon(1e-3, 0.1) == 0.0  # the total variation is smaller than delta
    assert gdp_delta(0.0, 0.0) == 0.0 and gdp_epsilon(0.0, 1e-9) == 0.0
    assert gdp_delta(100.0, 0.0) == 1.0


def test_pure_privacy_as_gaussian_privacy():
    for epsilon in (1e-6, 0.3, 1.0, 5.0, 30.0):
        mu = pure_to_gdp_mu(epsilon)
        with mp.workdps(60):  # the trade-off curves touch at 1/(1 + e^epsilon)
            touch = 1 / (1 + mp.exp(epsilon))
            assert float(mp.erfc(mu / mp.sqrt(8)) / 2) == pytest.approx(float(touch), rel=1e-9)
        # randomised response is the worst epsilon-DP mechanism: its delta is never above
        for e in np.linspace(0, epsilon, 7):
            worst = math.exp(-epsilon) * math.expm1(epsilon - e) / (1 + math.exp(-epsilon))
            worst *= math.exp(e)
            assert worst <= gdp_delta(mu, float(e)) * (1 + 1e-9) + 1e-300
    assert pure_to_gdp_mu(0.0) == 0.0
    assert pure_to_gdp_mu(5000.0) == pytest.approx(200, rel=0.01)  # about 2 sqrt(2 epsilon)


# --- zero-concentrated differential privacy -------------------------------------------------------


@pytest.mark.parametrize("rho", [1e-8, 1e-3, 0.1, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.01])
def test_zcdp_epsilon_against_a_fine_search_and_the_library(rho, delta):
    orders = 1 + np.exp(np.linspace(-8, 22, 60_001))
    bound = orders * rho - np.log(orders * delta) / (orders - 1) + np.log1p(-1 / orders)
    epsilon = zcdp_epsilon(rho, delta)
    assert epsilon == pytest.approx(max(bound.min(), 0), rel=1e-6, abs=1e-12)
    orders = orders[(orders > 1.001) & (orders < 1e6)]
    library = RdpAccountant(orders).compose(dpa.ZCDpEvent(rho)).get_epsilon(delta)
    # the grid of the library is finite: never better than ours, and hardly worse
    assert epsilon <= library * (1 + 1e-9) + 1e-12
    if 1e-6 < rho < 10:
        assert library == pytest.approx(epsilon, rel=1e-5)
    if epsilon > 0:
        assert zcdp_rho(epsilon, delta) == pytest.approx(rho, rel=1e-5)
    # Bun and Steinke's simple conversion is weaker
    assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta))


# --- totals against closed forms ------------------------------------------------------------------


@both_adjacencies
def test_gaussian_totals_are_exact_and_all_methods_agree(adjacency):
    rounds = [[Gaussian(1.0, 5.0, adjacency), Gaussian(2.0, 20.0, adjacency)]] * 7
    ledger = ledger_of(*rounds, adjacency=adjacency)
    mu = math.sqrt(7 * (1 / 25 + 1 / 100))
    assert ledger.gdp_mu() == pytest.approx(mu, rel=1e-12)
    exact = gdp_epsilon(mu, 1e-5)
    assert ledger.epsilon(1e-5) == ledger.epsilon(1e-5, method="gdp") == pytest.approx(exact)
    # the PLD grid is 1e-4 wide and rounds up
    assert exact <= ledger.epsilon(1e-5, method="pld") <= exact + 2e-4
    assert (
        exact < ledger.epsilon(1e-5, method="zcdp") == pytest.approx(zcdp_epsilon(mu**2 / 2, 1e-5))
    )
    assert ledger.epsilon(1e-5, method="zcdp") <= ledger.epsilon(1e-5, method="rdp") * (1 + 1e-9)
    assert ledger.epsilon(1e-5, method="rdp") < exact * 1.1
    assert ledger.delta(1.0) == pytest.approx(gdp_delta(mu, 1.0))
    assert ledger.pure_epsilon() == math.inf


@both_adjacencies
def test_one_laplace_release_has_a_closed_form(adjacency):
    ledger = ledger_of(Laplace(1.0, 0.5, adjacency), adjacency=adjacency)
    assert ledger.pure_epsilon() == ledger.epsilon(0.0) == ledger.epsilon(0, method="pure") == 2.0
    for epsilon in (0.0, 0.5, 1.9):
        exact = 1 - math.exp((epsilon - 2) / 2)
        assert ledger.delta(epsilon) == pytest.approx(exact, rel=1e-3)
        assert ledger.delta(epsilon) >= exact * (1 - 1e-9)
    assert ledger.delta(2.0) == 0.0
    assert ledger.epsilon(0.1) == pytest.approx(2 + 2 * math.log(0.9), abs=2e-4)
    assert ledger.gdp_mu() is None


@both_adjacencies
def test_one_discrete_laplace_release_costs_as_much_as_randomised_response(adjacency):
    ledger = ledger_of(DiscreteLaplace(1.0, 1.0, 1.0, adjacency), adjacency=adjacency)
    assert ledger.pure_epsilon() == ledger.epsilon(0.0) == 1.0
    for epsilon in (0.0, 0.5):
        exact = (math.e - math.exp(epsilon)) / (1 + math.e)
        assert exact * (1 - 1e-9) <= ledger.delta(epsilon) <= exact * 1.001
    # where only RDP applies the bound is epsilon^2/2-zCDP
    mixed = ledger_of(
        DiscreteLaplace(1.0, 1.0, 1.0, adjacency),
        DiscreteGaussian(1.0, 1.0, 1.0, adjacency),
        adjacency=adjacency,
    )
    total = mixed.epsilon(1e-5, method="rdp")
    assert total == pytest.approx(zcdp_epsilon(1.0, 1e-5), rel=1e-3)
    assert mixed.epsilon(1e-5) <= total
    assert Budget(5.0, 1e-5, "rdp").cost(mixed.releases[0]) == pytest.approx(
        Budget(5.0, 1e-5, "rdp").cost(mixed.releases[1])
    )


def test_a_mixed_ledger_goes_to_the_library():
    """One Gaussian and one Laplace: PLD, against a numerical convolution of their losses."""
    ledger = ledger_of(Gaussian(1.0, 2.0), Laplace(1.0, 2.0))
    # Gaussian loss N(1/8, 1/4); Laplace loss 1/2 w.p. 1/2, -1/2 w.p. e^(-1/2)/2, else 1/2 - x
    x = (np.arange(20_000) + 0.5) / 20_000
    losses = np.concatenate([[0.5, -0.5], 0.5 - x])
    weights = np.concatenate([[0.5, math.exp(-0.5) / 2], np.exp(-x / 2) / 4 / 20_000])
    assert weights.sum() == pytest.approx(1, rel=1e-8)
    for epsilon in (0.3, 1.0, 2.0):
        # hockey-stick of the pair, conditional on the Laplace loss: a shifted Gaussian one
        exact = 0.0
        for loss, weight in zip(losses[:2], weights[:2], strict=True):
            exact += weight * shifted_gaussian_delta(0.5, epsilon - loss)
        exact += (weights[2:] * shifted_gaussian_delta(0.5, epsilon - losses[2:])).sum()
        assert ledger.delta(epsilon) == pytest.approx(exact, rel=2e-3)
        assert ledger.epsilon(ledger.delta(epsilon)) == pytest.approx(epsilon, abs=1e-3)
    refuses(ValueError, "^method 'gdp' needs Gaussian releases", ledger.epsilon, 1e-5, method="gdp")
    refuses(ValueError, "^method 'zcdp' needs", ledger.epsilon, 1e-5, method="zcdp")


def shifted_gaussian_delta(mu, epsilon):
    """E[(1 - e^(epsilon - L))_+] for L ~ N(mu^2/2, mu^2), any real epsilon."""
    z = -np.asarray(epsilon) / mu
    return norm.cdf(z + mu / 2) - np.exp(epsilon) * norm.cdf(z - mu / 2)


@both_adjacencies
@pytest.mark.parametrize(
    "mechanisms",
    [
        [Gaussian(1.0, 2.0), Laplace(1.0, 4.0)], [DiscreteLaplace(1.0, 4.0)] * 6,
        [DiscreteGaussian(1.0, 2.0)], [DiscreteGaussian(1.0, 2.0), Laplace(1.0, 4.0)],
    ],
)  # fmt: skip
def test_delta_and_epsilon_are_inverses(mechanisms, adjacency):
    converted = [m.as_replace_one() if adjacency == "replace-one" else m for m in mechanisms]
    ledger = ledger_of(*converted, adjacency=adjacency)
    # the RDP orders of delta are a grid: never below, up to 4 % above; PLD and closed forms agree
    for delta in (1e-7, 1e-3):
        assert delta * (1 - 1e-3) <= ledger.delta(ledger.epsilon(delta)) <= delta * 1.04


@both_adjacencies
def test_exact_releases_cost_everything(adjacency):
    nothing = NoNoise(adjacency)
    for others in ([], [Gaussian(1.0, 2.0, adjacency)], [Laplace(1.0, 2.0, adjacency)]):
        ledger = ledger_of(*others, nothing, adjacency=adjacency)
        for method in ("auto", "pld", "rdp", "pure"):
            assert ledger.epsilon(0.5, method=method) == math.inf
        assert ledger.epsilon(0.0) == math.inf and ledger.delta(100.0) == 1.0
        joint = ledger_of([*others, nothing], adjacency=adjacency)
        assert joint.epsilon(0.5) == math.inf and joint.delta(100.0) == 1.0
    drawn = sampled(Sampling("poisson", rate=0.1), [NoNoise()])
    assert drawn.epsilon(1e-5) == math.inf and drawn.delta(1.0) == 1.0


def test_a_joint_release_merges_gaussians_exactly():
    joint = ledger_of([Gaussian(1.0, 3.0), Gaussian(1.0, 4.0)])
    (release,) = joint.releases
    assert release.gdp_mu == pytest.approx(math.hypot(1 / 3, 1 / 4))
    assert release.rho == pytest.approx(release.gdp_mu**2 / 2)
    event = release.dp_event()
    assert isinstance(event, dpa.GaussianDpEvent)
    assert event.noise_multiplier == pytest.approx(12 / 5)
    apart = ledger_of(Gaussian(1.0, 3.0), Gaussian(1.0, 4.0))
    assert joint.epsilon(1e-5) == pytest.approx(apart.epsilon(1e-5), rel=1e-12)


def test_equal_releases_in_a_row_are_counted_in_the_event():
    event = ledger_of(*[Gaussian(1.0, 3.0)] * 5, Laplace(1.0, 2.0)).dp_event()
    assert event == dpa.ComposedDpEvent(
        [dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(3.0), 5), dpa.LaplaceDpEvent(2.0)]
    )


# --- groups ---------------------------------------------------------------------------------------


def grouped(*pairs, **options):
    ledger = PrivacyLedger(**options)
    for mechanism, group in pairs:
        ledger.charge([mechanism], name="x", group=group)
    return ledger


# --- divisions of the records: groups "split/part" ------------------------------------------------

LOCAL = "replace-one"


def local(*pairs, **options):
    return grouped(*pairs, adjacency=LOCAL, **options)


def releases_of_records(pairs):
    """What is asked of each kind of record: one (possibly unasked) part of every split."""
    splits = {}
    for _, group in pairs:
        if group is not None:
            split, _, part = group.rpartition("/")
            splits.setdefault(split, {None}).add(part)
    for chosen in itertools.product(*splits.values()):
        groups = {
            part if not split else f"{split}/{part}"
            for split, part in zip(splits, chosen, strict=True)
            if part is not None
        }
        yield [m for m, group in pairs if group is None or group in groups]


def worst_record(pairs, total):
    """A total, by brute force over all records."""
    return max(total(ledger_of(*asked, adjacency=LOCAL)) for asked in releases_of_records(pairs))


def random_pairs(rng, kinds, n=7):
    groups = [None, "a", "b", "s/1", "s/2", "t/1", "t/2", "t/3", "u v/w/1", "u v/w/2"]
    return [
        (kinds[rng.integers(len(kinds))](float(rng.uniform(0.2, 2.0))), groups[i])
        for i in rng.integers(len(groups), size=n)
    ]


@pytest.mark.parametrize("seed", range(12))
def test_totals_over_divisions_against_brute_force(seed):
    """Parallel within a split, summed over splits: the total of the worst of all records."""
    rng = np.random.default_rng(seed)
    kinds = [lambda e: RandomizedResponse(e), lambda e: Laplace(e, 1.0, LOCAL)]
    pairs = random_pairs(rng, kinds)
    assert local(*pairs).pure_epsilon() == pytest.approx(
        worst_record(pairs, lambda ledger: ledger.pure_epsilon() if ledger.releases else 0.0)
    )
    assert local(*pairs).epsilon(0) == local(*pairs).pure_epsilon()
    pairs = random_pairs(rng, [lambda e: Gaussian(e, 3.0, LOCAL)])
    assert local(*pairs).gdp_mu() == pytest.approx(
        worst_record(pairs, lambda ledger: ledger.gdp_mu() if ledger.releases else 0.0)
    )
    for total in (lambda ledger: ledger.epsilon(1e-5), lambda ledger: ledger.delta(0.8)):
        assert total(local(*pairs)) == pytest.approx(worst_record(pairs, total), rel=1e-9)
    pairs = random_pairs(rng, [lambda e: DiscreteGaussian(e, 3.0, 1.0, LOCAL)])
    assert local(*pairs).epsilon(1e-5) == pytest.approx(
        worst_record(pairs, lambda ledger: ledger.epsilon(1e-5)), rel=1e-9
    )


@pytest.mark.parametrize("seed", range(20))
def test_budgets_over_divisions_against_brute_force(seed):
    """A release is refused exactly if some record would pay more than the budget."""
    rng = np.random.default_rng(200 + seed)
    ledger = PrivacyLedger(adjacency=LOCAL, budget=Budget(4.0))
    accepted, refused = [], 0
    for mechanism, group in random_pairs(rng, [lambda e: RandomizedResponse(e)], n=14):
        # only records of this group are asked; the others paid less than the budget before
        after = worst_record([*accepted, (mechanism, group)], lambda lg: lg.pure_epsilon())
        if after <= 4.0:
            ledger.charge([mechanism], name="x", group=group)
            accepted.append((mechanism, group))
            assert ledger.remaining == pytest.approx(1 - after / 4.0)
            assert ledger.pure_epsilon() == pytest.approx(after)
        else:
            refused += 1
            refuses(BudgetExceededError, "", ledger.check, [mechanism], name="x", group=group)
    assert len(accepted) == len(ledger.releases) >= 3 and refused >= 1


def test_the_delta_of_parts_is_that_of_the_worst_part():
    """One part answers with (1, 0), another with (1, 1e-6): together (1, 1e-6), not more.

    Each part by its own closed form; the library's grid would make 4e-5 of the pure one.
    """
    gaussian = Gaussian.from_budget(2.0, 1.0, 1e-6, adjacency=LOCAL)
    thirds = [(RandomizedResponse(1 / 3), "s/a")] * 3
    ledger = local(*thirds, (gaussian, "s/b"))
    assert ledger.delta(1.0) == pytest.approx(1e-6, rel=1e-9)
    assert ledger.epsilon(1e-6) == pytest.approx(1.0, rel=1e-9)
    assert local(*thirds).delta(1.0) == 0.0
    assert local(*thirds, (NoNoise(LOCAL), "s/b")).delta(5.0) == 1.0


def test_runs_that_divide_anew_are_followed_without_listing_all_overlaps():
    """Two kinds of parts in each division: n + 1 different records, not 2^n."""

    def runs(n):
        bits = [(RandomizedResponse(0.2), f"{i}/count") for i in range(n)]
        return bits, [(Gaussian(2.0, 40.0, LOCAL), f"{i}/sum") for i in range(n)]

    bits, sums = runs(200)
    assert len(totals.streams(local(*bits, *sums).releases)) == 201
    assert local(*bits).pure_epsilon() == pytest.approx(40.0)
    bits, sums = runs(3)
    exact = [response_delta([0.2] * j, 0.05 * math.sqrt(3 - j), 0.3) for j in range(4)]
    assert local(*bits, *sums).delta(0.3) == pytest.approx(max(exact), rel=0.02)


def test_divisions_are_numbered_by_the_ledger():
    ledger = PrivacyLedger()
    assert [ledger.new_division() for _ in range(3)] == [0, 1, 2]
    assert PrivacyLedger().new_division() == 0
    assert PrivacyLedger(n_divisions=3).new_division() == 3  # labels of the past stay taken
    past = [ledger.entry([NoNoise()], name="old", group="division 0/a")]
    assert PrivacyLedger(releases=past).new_division() == 1  # also where nobody counted them
    assert repr(ledger) == repr(PrivacyLedger())


@pytest.mark.parametrize("n_parts", [1, 2])
@pytest.mark.parametrize("filter_", ["pure", "rdp", "basic"])
def test_plans_that_are_open_at_once_share_the_budget(filter_, n_parts):
    """Each plan divides the records anew: parts of two plans overlap, whatever their names."""
    budget = Budget(1.0, 0.0 if filter_ == "pure" else 1e-6, filter_)
    ledger, left = PrivacyLedger(adjacency="replace-one", budget=budget), []
    for plan in range(3):
        parts = [f"planned/{plan}.{part}" for part in range(n_parts)]
        ledger.admit(
            [ledger.entry([RandomizedResponse(0.1)], name="x", group=p) for p in parts], name="plan"
        )
        left.append(ledger.remaining)
    assert left[0] < 1 and left[2] == pytest.approx(1 - 3 * (1 - left[0]))


# --- randomised response --------------------------------------------------------------------------


def response_delta(epsilons, mu, at):
    """Hockey-stick divergence of binary responses beside a mu-GDP release, by enumeration.

    All answer patterns of the responses; the Gaussian part at what the pattern leaves of `at`.
    """
    losses = Counter({0.0: 1.0})
    for epsilon in epsilons:
        keep = 1 / (1 + math.exp(-epsilon))
        new = Counter()
        for loss, probability in losses.items():
            new[round(loss + epsilon, 12)] += probability * keep
            new[round(loss - epsilon, 12)] += probability * (1 - keep)
        losses = new
    return math.fsum(
        p * (max(-math.expm1(at - loss), 0.0) if mu == 0 else shifted_gaussian_delta(mu, at - loss))
        for loss, p in losses.items()
    )


RESPONSES = [
    ([1.0], []),
    ([1.0, 1.0, 1.0], []),
    ([0.2, 0.7, 1.5], []),
    ([0.4] * 8, []),
    ([1.0], [1.0]),
    ([0.5, 1.5, 0.5], [2.0, 3.0]),
]


@pytest.mark.parametrize(("epsilons", "sigmas"), RESPONSES)
def test_responses_against_their_hockey_stick_divergence(epsilons, sigmas):
    """PLD of bits alone and beside Gaussian reports.

    The library rounds the loss of every release up to a multiple of 1e-4, never down; delta then
    grows by at most 1e-4 for each.
    """
    responses = [RandomizedResponse(e) for e in epsilons]
    slack = 1e-4 * (len(epsilons) + len(sigmas))
    ledger = ledger_of(*responses, *[Gaussian(1.0, s, LOCAL) for s in sigmas], adjacency=LOCAL)
    mu = math.sqrt(math.fsum(1 / s**2 for s in sigmas))
    for at in (0.0, 0.35, 0.9, 1.7):
        exact = response_delta(epsilons, mu, at)

        assert exact * (1 - 1e-9) <= ledger.delta(at) <= exact + slack
    for delta in (1e-2, 1e-6):
        epsilon = ledger.epsilon(delta)
        assert epsilon <= math.fsum(epsilons) or sigmas
        # at the ledger's epsilon the true delta is at most the promised one, and close to it
        assert response_delta(epsilons, mu, epsilon) <= delta * (1 + 1e-6)
        if epsilon > 0.01:
            assert response_delta(epsilons, mu, epsilon - 2 * slack) > delta


# --- sampling -------------------------------------------------------------------------------------


def sampled(sampling, mechanisms, rounds=1, **options):
    ledger = PrivacyLedger(adjacency=sampling.adjacency, **options)
    for i in range(rounds):
        ledger.charge(mechanisms, name="cohort", round=i, sampling=sampling)
    return ledger


def exact_poisson_delta(q, sigma, epsilon):
    """Hockey-stick of N(0, s^2) and (1-q) N(0, s^2) + q N(1, s^2), worse direction; quadrature."""
    x = np.linspace(-12 * sigma, 12 * sigma + 1, 200_001)
    step = x[1] - x[0]
    base = np.exp(-(x**2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi)) * step
    mixed = (1 - q) * base + q * base * np.exp((2 * x - 1) / (2 * sigma**2))
    return max(
        np.maximum(mixed - math.exp(epsilon) * base, 0).sum(),
        np.maximum(base - math.exp(epsilon) * mixed, 0).sum(),
    )


@pytest.mark.parametrize(("q", "sigma"), [(0.1, 1.5), (0.5, 2.0), (0.02, 0.9)])
def test_poisson_sampling_amplifies_as_it_should(q, sigma):
    ledger = sampled(Sampling("poisson", rate=q), [Gaussian(3.0, 3 * sigma)])
    exact = exact_poisson_delta(q, sigma, 0.3)
    assert ledger.delta(0.3) == pytest.approx(exact, rel=5e-3)
    assert ledger.epsilon(1e-3) < ledger_of(Gaussian(3.0, 3 * sigma)).epsilon(1e-3)
    assert ledger.gdp_mu() is None


def test_everybody_sampled_is_no_sampling():
    poisson = sampled(Sampling("poisson", rate=1.0), [Gaussian(1.0, 2.0)])
    assert poisson.epsilon(1e-5) == pytest.approx(gdp_epsilon(0.5, 1e-5), abs=3e-4)
    fixed = sampled(Sampling("fixed", size=50, population=50), [Gaussian(1.0, 2.0, "replace-one")])
    plain = ledger_of(Gaussian(1.0, 2.0, "replace-one"), adjacency="replace-one")
    assert fixed.epsilon(1e-5, method="rdp") == pytest.approx(
        plain.epsilon(1e-5, method="rdp"), rel=1e-9
    )


def test_a_joint_cohort_is_charged_once():
    """Sums and counts of one sample are one sampled event, not two."""
    pair = [Gaussian(1.0, 3.0), Gaussian(1.0, 4.0)]
    sampling = Sampling("poisson", rate=0.1)
    joint = sampled(sampling, pair, rounds=5)
    merged = sampled(sampling, [Gaussian(1.0, 12 / 5)], rounds=5)
    assert joint.epsilon(1e-4) == pytest.approx(merged.epsilon(1e-4), rel=1e-9)


@pytest.mark.parametrize(
    "mechanisms",
    [
        [DiscreteLaplace(1.0, 3.0)],
        [Laplace(1.0, 3.0), Laplace(1.0, 5.0)],
        [Gaussian(1.0, 3.0), Laplace(1.0, 5.0)],
    ],
)
def test_what_the_library_cannot_amplify_is_charged_as_if_everyone_took_part(mechanisms):
    """Sampling never hurts under its own adjacency, so this is an upper bound; never an error."""
    for sampling in (Sampling("poisson", rate=0.1), Sampling("fixed", size=1, population=10)):
        stated = [
            m if sampling.adjacency == m.adjacency else m.as_replace_one() for m in mechanisms
        ]
        ledger = sampled(sampling, stated)
        plain = ledger_of(stated, adjacency=sampling.adjacency)
        assert ledger.epsilon(1e-5) == pytest.approx(plain.epsilon(1e-5), rel=5e-3)
        assert ledger.delta(0.2) == pytest.approx(plain.delta(0.2), rel=5e-3)
        assert math.isfinite(Budget(1.0, 1e-5, "rdp").cost(ledger.releases[0]))


def test_each_sampling_scheme_has_its_adjacency():
    poisson, fixed = Sampling("poisson", rate=0.5), Sampling("fixed", size=2, population=4)
    assert (poisson.adjacency, fixed.adjacency) == ADJACENCIES
    for sampling, adjacency in ((poisson, "replace-one"), (fixed, "add/remove")):
        ledger = PrivacyLedger(adjacency=adjacency)
        with pytest.raises(
            LedgerMismatchError, match=f"{sampling.scheme} sampling amplifies under"
        ):
            ledger.charge([Gaussian(1.0, 1.0, adjacency)], name="x", sampling=sampling)
        assert not ledger.releases


# --- refusals -------------------------------------------------------------------------------------


@both_adjacencies
@pytest.mark.parametrize("kind", [Gaussian, Laplace, DiscreteGaussian, DiscreteLaplace, NoNoise])
def test_mechanisms_of_another_adjacency_are_refused(adjacency, kind):
    other = next(a for a in ADJACENCIES if a != adjacency)
    own, foreign = (replace(kind(*[1.0] * (kind is not NoNoise) * 2), adjacency=a)
                    for a in (adjacency, other))  # fmt: skip
    ledger = ledger_of(own, adjacency=adjacency)
    message = f"is calibrated for {other}.*as_replace_one"
    refuses(LedgerMismatchError, message, ledger.charge, [own, foreign], name="mixed")
    assert len(ledger.releases) == 1
    if other == "add/remove":  # the stated conversion makes it fit
        ledger.charge([foreign.as_replace_one()], name="converted")


def test_a_method_that_cannot_bound_the_ledger_says_so():
    ledger = ledger_of(DiscreteGaussian(1.0, 1.0))
    with pytest.raises(ValueError, match="does not support this ledger under add/remove.*'pld'"):
        ledger.epsilon(1e-5, method="pld")


# --- budgets --------------------------------------------------------------------------------------

FILLED = [
    # ten equal releases that together are exactly the budget
    (Budget(1.0), [Laplace(1.0, 10.0)]),
    (Budget(2.0), [DiscreteLaplace(1.0, 20.0), Laplace(1.0, 10.0), DiscreteLaplace(1.0, 20.0)]),
    (Budget(1.0, 1e-5, "gdp"), [Gaussian(1.0, math.sqrt(10) / gdp_mu(1.0, 1e-5))]),
    (Budget(3.0, 1e-6, "gdp"), [Gaussian(1.0, math.sqrt(20) / gdp_mu(3.0, 1e-6))] * 2),
    (Budget(1.0, 1e-5, "rdp"), [DiscreteGaussian(1.0, math.sqrt(10 / (2 * zcdp_rho(1.0, 1e-5))))]),
    (Budget(1.0, 1e-5, "rdp"), [Gaussian(1.0, math.sqrt(10 / (2 * zcdp_rho(1.0, 1e-5))))]),
]


@pytest.mark.parametrize(("budget", "mechanisms"), FILLED)
def test_each_filter_fills_to_exactly_one_and_refuses_the_next(budget, mechanisms):
    ledger = PrivacyLedger(budget=budget)
    for i in range(10):
        assert ledger.remaining == pytest.approx(1 - i / 10, abs=1e-7)
        ledger.charge(mechanisms, name="x", round=i)
    assert ledger.remaining == pytest.approx(0, abs=1e-7)
    before = ledger.releases
    tiny = Laplace(1.0, 1e5) if budget.delta == 0 else Gaussian(1.0, 1e3)
    for refused in (mechanisms, [tiny], [NoNoise()]):
        with pytest.raises(BudgetExceededError, match="^release 'next' would exceed the budget"):
            ledger.charge(refused, name="next")
    assert ledger.releases == before and ledger.remaining == pytest.approx(0, abs=1e-7)
    # the non-adaptive total of what was released is within the stated budget
    assert ledger.epsilon(budget.delta) <= budget.epsilon * (1 + 1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-3])
def test_limits_are_the_privacy_statements_they_stand_for(epsilon, delta):
    assert Budget(epsilon).limit == epsilon
    gaussian = Budget(epsilon, delta, "gdp")
    assert gdp_delta(math.sqrt(gaussian.limit), epsilon) == pytest.approx(delta, rel=1e-8)
    renyi = Budget(epsilon, delta, "rdp")
    order = renyi.rdp_order
    assert renyi.limit / order == pytest.approx(zcdp_rho(epsilon, delta), rel=1e-6)
    accountant = RdpAccountant([order]).compose(dpa.ZCDpEvent(renyi.limit / order))
    assert accountant.get_epsilon(delta) == pytest.approx(epsilon, rel=1e-9)


def test_the_gdp_filter_takes_pure_mechanisms():
    budget = Budget(1.0, 1e-5, "gdp")
    cost = budget.cost(ledger_of(Laplace(1.0, 20.0)).releases[0])
    assert cost == pytest.approx(pure_to_gdp_mu(0.05) ** 2)
    discrete = budget.cost(ledger_of([DiscreteLaplace(1.0, 40.0), Laplace(1.0, 40.0)]).releases[0])
    assert discrete == pytest.approx(cost)


def test_filters_refuse_what_they_cannot_bound():
    ledger = PrivacyLedger(budget=Budget(5.0))
    refuses(BudgetExceededError, "", ledger.charge, [Gaussian(1.0, 1e6)], name="x")
    ledger = PrivacyLedger(budget=Budget(1.0, 1e-5, "gdp"))
    with pytest.raises(LedgerMismatchError, match=r"filter 'gdp' cannot bound.*'basic' or 'rdp'"):
        ledger.charge([DiscreteGaussian(1.0, 100.0)], name="x")
    with pytest.raises(LedgerMismatchError, match="cannot bound"):
        ledger.charge([Gaussian(1.0, 9.0)], name="x", sampling=Sampling("poisson", rate=0.1))
    assert not ledger.releases and ledger.remaining == 1


def test_the_rdp_filter_takes_sampled_and_mixed_releases():
    ledger = PrivacyLedger(budget=Budget(2.0, 1e-5, "rdp"))
    ledger.charge([Gaussian(1.0, 2.0)], name="a", sampling=Sampling("poisson", rate=0.01))
    after_sampled = ledger.remaining
    assert 0.9 < after_sampled < 1
    ledger.charge([Laplace(1.0, 5.0), DiscreteGaussian(1.0, 10.0)], name="b")
    assert 0 < ledger.remaining < after_sampled
    fixed = PrivacyLedger(adjacency="replace-one", budget=Budget(2.0, 1e-5, "rdp"))
    sampling = Sampling("fixed", size=10, population=1000)
    fixed.charge([Gaussian(1.0, 2.0, "replace-one")], name="a", sampling=sampling)
    assert 0.9 < fixed.remaining < 1


def test_checking_does_not_charge():
    ledger = PrivacyLedger(budget=Budget(1.0))
    release = ledger.check([Laplace(1.0, 1.0)], name="x")
    assert release.pure_epsilon == 1 and not ledger.releases and ledger.remaining == 1
    assert ledger.charge([Laplace(1.0, 1.0)], name="x") == release


def test_wrong_budgets_are_named():
    for epsilon in (0, -1.0, math.nan, math.inf):
        refuses(ValueError, "^epsilon must", Budget, epsilon)
    for delta in (-0.1, 1.0, math.nan):
        refuses(ValueError, "^delta must", Budget, 1.0, delta)
    for filter_, delta in (("gdp", 0.0), ("rdp", 0.0), ("pure", 1e-5)):
        refuses(ValueError, "^filter 'pure' goes with delta = 0", Budget, 1.0, delta, filter_)


# --- the table ------------------------------------------------------------------------------------


def test_the_ledger_as_a_table():
    ledger = PrivacyLedger(unit="client")
    ledger.charge([Gaussian(0.5, 2.0), Gaussian(1.0, 4.0)], name="a", round=0)
    ledger.charge(
        [Laplace(1.0, 3.0)], name="b", round=1, sampling=Sampling("poisson", rate=0.1), group="g"
    )
    columns = ["mechanism", "round", "sensitivity", "std", "sampling", "group", "unit"]
    assert ledger.to_frame()[columns].round(6).to_numpy().tolist() == [
        ["Gaussian", 0, 0.5, 2.0, "everyone", "all", "client"],
        ["Gaussian", 0, 1.0, 4.0, "everyone", "all", "client"],
        ["Laplace", 1, 1.0, 4.242641, "poisson", "g", "client"],
    ]
    assert str(ledger) == "2 releases, unit: one client, add/remove"


def test_discrete_totals_are_not_worse_than_splitting_off_the_pure_part():
    ledger = PrivacyLedger()
    for _ in range(2):
        ledger.charge([DiscreteGaussian.from_budget(1.0, 1.0, 1e-6)], name="sums")
        ledger.charge([DiscreteLaplace.from_budget(1.0, 1.0)], name="counts")
    rho = 2 * DiscreteGaussian.from_budget(1.0, 1.0, 1e-6).rho
    split = 2.0 + zcdp_epsilon(rho, 1e-6)
    assert ledger.epsilon(1e-6, method="rdp") > split  # the library's bound alone is loose here
    assert ledger.epsilon(1e-6) == pytest.approx(split, rel=1e-12)


@pytest.mark.parametrize("multiplier", [3.0, 8.0, 30.0])
def test_a_share_of_a_budget_is_a_share_of_delta_too(multiplier):
    """f is the smallest for which (f epsilon, f delta) holds: shares add up to the whole."""
    budget = Budget(1.0, 1e-6)
    f = budget.share(ledger_of(Gaussian(1.0, multiplier)).releases)
    assert gdp_epsilon(1 / multiplier, f * 1e-6) == pytest.approx(f * 1.0, rel=1e-5)
