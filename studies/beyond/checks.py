"""Live checks of the claims about better releases."""

from __future__ import annotations

import math
from typing import Any

import dp_accounting as dpa
import numpy as np

from fedclust_helpers import rr_cluster as rr
from fedclust_helpers.accounting import PrivacyLedger, gdp_mu
from fedclust_helpers.federation import ClientData, simulate
from fedclust_helpers.rr_cluster import costs as rr_costs


def exact_rounds() -> dict[str, Any]:
    """Noise of a plan with everybody over sensitivity sqrt(T)/mu, and what Renyi orders certify."""
    clients, out = ClientData(np.zeros((6, 3)), np.arange(7)), {}
    training = rr.Training(rr.LinearRegression(2), cohort=6, clip=0.4)
    for adjacency, reach in (("replace-one", 2.0), ("add/remove", 1 / math.sqrt(0.9))):
        ledger = PrivacyLedger(unit="client", adjacency=adjacency)
        fed = simulate(clients, "ideal", seed=0, ledger=ledger)
        plan = rr.plan_sums_only(fed, training, n_clusters=2, n_rounds=30, epsilon=1.0, delta=1e-3)
        least = 0.4 * reach * math.sqrt(30) / gdp_mu(1.0, 1e-3)
        out[adjacency[:3]] = plan.mechanisms[0][0].std / least
        event = dpa.GaussianDpEvent(plan.dial.sigma)
        out["renyi"] = rr_costs.event_epsilon(event, adjacency, 30, 1e-3)
    return out
