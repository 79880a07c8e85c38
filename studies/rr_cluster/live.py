"""Live checks of the claims of RR-Cluster: its privacy, its lemmas, and Table 4 inverted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedclust_helpers import audit
from fedclust_helpers._index import bincount, repeat
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.audit.canary import CanaryAudit
from fedclust_helpers.client_statistics import MODEL_BLOCKS
from fedclust_helpers.federation import ClientData, simulate
from fedclust_helpers.mechanisms import Gaussian
from fedclust_helpers.rr_cluster import LinearRegression, rebalance
from fedclust_helpers.rr_cluster.costs import split_identifiers
from studies.paper_data import LINES, make_lines
from studies.rr_cluster import accountants as paper
from studies.rr_cluster import sensitivity, theory

RUN: dict[str, Any] = {"n_clients": 1000, "cohort": 100, "delta": 1e-3}


def privacy() -> dict[str, Any]:
    """Claims R1, R4 and R7: a Rényi divergence, a vector cut as printed, two theorems."""
    gaps = [abs(paper.gaussian_rdp(a, math.sqrt(a / 0.6)) - 0.3) for a in (2, 8, 32)]
    clipped = theory.clip_as_printed(np.full(100, 10.0), np.eye(4)[0], 0.1)
    return {
        "gap": max(gaps), "norm": float(np.linalg.norm(clipped)),
        "inside": paper.theorem_4_2_rdp(8, 1.0, 0.1),
        "outside": theory.theorem_a_5_rdp(8, 1.0, 0.1),
    }  # fmt: skip


def reach() -> dict[str, Any]:
    """R2, F1: the change of the sums by one client, in units of C, enumerated exactly."""
    removed = [
        sensitivity.removal_shift(sensitivity.TWO_CLUSTERS),
        sensitivity.removal_shift(sensitivity.THREE_CLUSTERS),
        sensitivity.removal_shift(sensitivity.FIVE, rule="literal"),
    ]
    small = sensitivity.TWO_CLUSTERS
    shift, sums = sensitivity.released_shift(small, 0, -small.updates[0])
    return {"removed": removed, "flip": sensitivity.donor_flip(50),
            "replaced": shift, "sums": sums}  # fmt: skip


def smallest() -> dict[str, Any]:
    """R3, F2: how often a cluster ends below B, sizes 4, 7, 1 and B = 4."""
    rng, clusters, below = np.random.default_rng(0), repeat([0, 1, 2], [4, 7, 1]), {}
    for rule in ("literal", "strict"):
        sizes = [bincount(rebalance(clusters, 3, 4, rule=rule, rng=rng), minlength=3).min()
                 for _ in range(2000)]  # fmt: skip
        below[rule] = float(np.mean(np.array(sizes) < 4))
    return below


def accountants() -> dict[str, Any]:
    """R5, R6, R.alg2: Theorem 4.2 beside the library, its floor, identifiers as printed."""
    run = RUN | {"n_rounds": 50}
    over = [
        paper.certified_epsilon(s, accountant="paper_tight", **run)
        / paper.certified_epsilon(s, accountant="wor_rdp", **run)
        for s in (0.9, 1.5, 3.0)
    ]
    pairs = [
        split_identifiers(paper.calibrate(e, accountant="wor_rdp", n_rounds=50, **RUN), 0.5)
        for e in (2.0, 4.0, 8.0)
    ]
    spent = [
        paper.certified_epsilon(1.0, accountant=name, n_rounds=100, **RUN)
        for name in ("paper", "wor_rdp", "poisson_rdp")
    ]
    floors = [paper.floor_epsilon(accountant="paper", n_rounds=t, **RUN) for t in (50, 100)]
    really = [theory.actual_epsilon(*p, n_rounds=50, identifier_ratio=math.sqrt(2), **RUN)
              for p in pairs]  # fmt: skip
    return {"over": over, "spent": spent, "floors": floors, "really": really}


def lemma_4_8() -> dict[str, Any]:
    """R8 to R12, F4: each term, and the truth."""
    sigmas, std = (0.2, 0.5, 1.0, 5.0), math.sqrt(400 * 3 / 16)
    eq18, sizes = theory.equation_18(400, 4, 50), (60, 80, 90, 95)
    terms = [theory.rebalancing_term(math.sqrt(m * 3 / 16), m, 4, m / 8) for m in (400, 1600)]
    below = [theory.equation_18(400, 4, b) for b in range(50, 99, 4)]
    edge = np.geomspace(0.2, 6, 400)
    return {
        "wrong": [1 - theory.argmax_accuracy(s, 4) for s in sigmas],
        "second": [theory.identifier_term(s, 4) for s in sigmas],
        "literal": theory.identifier_term(5.0, 4, form="literal"),
        "edge": max(s for s in edge if theory.identifier_term(float(s), 4) < 1),
        "first": [theory.selection_error(d, 0.5) for d in (1.0, 2.0, 4.0)],
        "above": eq18.above, "bound": eq18.bound, "power": math.log(terms[1] / terms[0], 4),
        "moved": [theory.expected_moved(400, [0.25] * 4, b) / 400 for b in sizes],
        "third": [theory.rebalancing_term(std, 400, 4, b) for b in sizes],
        "other_tail": all(b.below <= b.bound for b in below),
    }  # fmt: skip


def theorem_4_10() -> dict[str, Any]:
    """Claims R13, R14 and F3: how a run contracts, and when identifiers inform.

    Nobody chooses wrongly or is moved in the example, and there is no noise, so tau may be 0.
    """
    setting = {
        "gamma": 0.999, "strong_convexity": 0.01, "smoothness": 1.0, "tau": 0.0, "delta_c": 0.5,
        "n_clients": 100, "n_clusters": 2, "min_size": 49,
    }  # fmt: skip
    sigma = paper.calibrate(8.0, accountant="wor_rdp", n_rounds=50, **RUN)
    largest = theory.largest_informative_sigma(4, 0.5)
    arguments = {"rate": 0.05, "alpha_0": 0.1, "condition_number": 10.0, "form": "corrected"}
    return {
        "true": theory.two_groups_factor((0.01, 1.0), 0.999),
        "printed": theory.contraction(**setting),  # type: ignore[arg-type]
        "corrected": theory.contraction(form="corrected", **setting),  # type: ignore[arg-type]
        "largest": largest, "needed": math.sqrt(2) * sigma,
        "costs": paper.certified_epsilon(largest, accountant="wor_rdp", n_rounds=50, **RUN),
        "units": [theory.rounds_to_quarter(separation=s, **arguments)  # type: ignore[arg-type]
                  for s in (1.0, 1000.0)],
    }  # fmt: skip


def table_2() -> dict[str, float]:
    """R.shakespeare.16: the last column of the paper's Table 2."""
    return {"fedavg": 17.53, "rr": 16.25}


def table_4() -> dict[str, Any]:
    """R.table4.noise: the noise that would explain one entry of Table 4."""
    row = {(r.method, r.epsilon): r for r in theory.table_4()}["RR-Cluster(IFCA) B=8", 4.0]
    return {"row": row, "percent": 100 * row.accuracy_at_needed}


def audited_sums(factor: float, *, rng: np.random.Generator) -> CanaryAudit:
    """Attack the release that training calls, its noise `factor` times what is claimed.

    Twelve clients with points on lines, two models, replace-one: one client pulls a model up as
    hard as it can, or down. The claim is 1-GDP; 600 releases of each world, their noise from `rng`.
    """
    points, offsets, _ = make_lines(12, rng=np.random.default_rng(0)).clients()
    worlds = [np.vstack([[[0.0, y]] * 20, points[20:]]) for y in (30.0, -30.0)]
    how: dict[str, Any] = {
        "model": LinearRegression(1), "models": np.array(LINES[:2]), "clip": 0.5,
        "count_weight": 0.5, "n_steps": 2, "learning_rate": 0.2,
    }  # fmt: skip
    change = MODEL_BLOCKS.sensitivity_of("blocks", 2, "replace-one", n_features=2, grid=0.0, **how)
    noise = [Gaussian(change, factor * change, "replace-one")]

    def release(number: int) -> Any:
        ledger = PrivacyLedger(unit="client", adjacency="replace-one")
        data = ClientData(worlds[number], offsets)
        seed = int(rng.integers(2**63))
        fed = simulate(data, "ideal", seed=seed, bound=50.0, ledger=ledger)
        return lambda _: fed.noisy_sum(MODEL_BLOCKS, noise, round=0, **how)[0]

    assert MODEL_BLOCKS.pooled is not None
    exact = [MODEL_BLOCKS.pooled(rows, offsets, **how)[0] for rows in worlds]
    return audit.audit_release(
        release(0), release(1), exact[0], exact[1], change, claimed_mu=1.0, n_runs=600,
        vectorized=False, rng=rng,
    )  # fmt: skip
