"""The price of trust: one guarantee for all models, users needed."""

from pathlib import Path

import numpy as np
import pytest

from fedclust_helpers import accounting as acc
from fedclust_helpers import ldp_kmeans as lk
from studies import load_results
from studies.beyond import trust

pytestmark = pytest.mark.slow


def test_half_of_mu_is_the_same_guarantee_when_a_record_is_replaced():
    for epsilon in (0.25, 2.0):
        asked = trust.replace_one_epsilon(epsilon, 1e-6)
        assert asked < epsilon
        assert acc.gdp_epsilon(2 * acc.gdp_mu(asked, 1e-6), 1e-6) == pytest.approx(epsilon)


def test_the_table_holds_every_model_at_every_epsilon():
    table = load_results("trust_price")
    assert set(zip(table["trust"], table["algorithm"], strict=True)) == set(trust.MODELS)
    assert len(table) == 4 * len(trust.MODELS) and (table["seeds"] >= 5).all()
    for row in table[table["trust"] == "shuffled"].itertuples():
        symbol = trust.shuffled_local(row.n, row.epsilon, row.dprime)
        assert acc.local_epsilon_for(row.n, row.epsilon, trust.DELTA) < row.local_epsilon
        ratio = row.local_epsilon / symbol  # the other algorithm sends bits
        assert abs(ratio - 1) < 1e-5 if row.algorithm == "sketch" else ratio < 0.999
    local = table[table["trust"] == "local"]
    assert np.array_equal(local["local_epsilon"], local["epsilon"])
    assert np.isinf(table[table["trust"].isin(trust.SUMS)]["local_epsilon"]).all()


def test_other_coins_on_the_same_data_agree_with_the_table_side_by_side():
    price, side = load_results("trust_price"), load_results("side_by_side")
    price = price[(price["trust"] == "local") & (price["algorithm"] == "alg1")]
    side = side[(side["trust"] == "local") & (side["method"] == "alg1") & (side["n"] == 100_000)]
    side = side[(side["data"] == "mixture") & (side["d"] == 2) & (side["k"] == 5)]
    side = side.drop_duplicates("epsilon").set_index("epsilon")
    for row in price.itertuples():
        low, high = side.loc[row.epsilon, ["low", "high"]] - 1
        assert low / 1.5 < row.excess < 1.5 * high  # five sets against twenty


def test_users_needed_stand_on_the_page_and_are_enough(root: Path):
    page = (root / "studies/beyond/notes.md").read_text("utf-8")
    of = trust.sketch_needed, trust.shuffled_users_needed
    for k in (5, 20):
        each = [[float(f"{f(1.0, d, k):.1e}") for f in of] for d in (2, 4, 10, 20)]
        assert " | ".join([f"| {k}", *(f"{a:,.0f} / {b:,.0f}" for a, b in each)]) in page
    n = trust.shuffled_users_needed(1.0, 4, 5)
    for users, enough in ((n, True), (int(0.98 * n), False)):
        local = trust.shuffled_local(users, 1.0, 4)
        needed = lk.sketch_users_needed(0.2, local, 4, n_clusters=5)
        assert (users >= needed) == enough
