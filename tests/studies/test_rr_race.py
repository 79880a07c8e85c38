"""The race of models: what each entry costs, and whose rounds it repeats."""

import numpy as np
import pytest
from scipy import stats

from fedclust_helpers import rr_cluster as rr
from studies.rr_cluster import race
from studies.rr_cluster.problems import Clients

pytestmark = pytest.mark.slow

ENTRY = race.Entry("rr_ifca", "everyone", "off", 15, 4.0, 1e-5)


def track(**changes):
    return race.Track(Clients("digits_dct", "balanced", 0), ENTRY._replace(**changes), 4, 0.3)


def test_without_re_seeding_it_is_the_package_s_rr_cluster():
    on = track()
    models = race.METHODS["rr_ifca"](on)
    done = on.run(rr.plan, "trusted", k=4, n_clusters=4, min_size=15)[1]
    assert np.allclose(models, done.models) and on.moved == done.moved.mean() > 0


@pytest.mark.parametrize("method", race.METHODS)
def test_every_entry_costs_what_it_says(method):
    if method == "alone":
        return
    on = track(method=method, who="sampled" if "fresh" in method else "everyone", B=4)
    race.METHODS[method](on)
    assert 0.99 * ENTRY.epsilon < on.spent <= ENTRY.epsilon * (1 + 1e-9)


def test_unbiased_counts_and_the_rule(rng):
    dial = race.tr.Dial(3.0, "gdp")
    p, r = race.right_share(dial, 4)
    true = np.repeat(np.arange(4), (400, 300, 200, 100))
    sigma = np.sqrt(2) * race.costs.split_identifiers(3.0, 0.5)[0]
    named = (np.eye(4)[true] + rng.normal(0, sigma, (2000, 1000, 4))).argmax(axis=2)
    counts = (np.array([np.bincount(c, minlength=4) for c in named]) - 1000 * r) / (p - r)
    z = (counts.mean(axis=0) - (400, 300, 200, 100)) / (counts.std(axis=0) / np.sqrt(2000))
    assert np.abs(z).max() < stats.norm.isf(1e-6 / 8)  # false alarm 1e-6
    share = 25.0
    dead = [(share + rng.normal(0, s, (10**5, 3))).mean(axis=1) < 0.1 * share for s in (11.0, 14.0)]
    assert [race.rule_reseeds(s, share) for s in (11.0, 14.0)] == [True, False]
    assert dead[0].mean() < 1e-3 < dead[1].mean()
