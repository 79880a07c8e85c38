"""What the RR-Cluster tables beside accuracy measure: accountants, flips, lines, rebalancing."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from fedclust_helpers import rr_cluster as rr
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.client_statistics import Model
from fedclust_helpers.federation import ClientData, simulate
from fedclust_helpers.rr_cluster import costs
from fedclust_helpers.rr_cluster.identifiers import PURE, RandomAnswer
from studies.bench.cell import Cell, Numbers, seed_of
from studies.paper_data import LINES, make_lines
from studies.rr_cluster import accountants as acc
from studies.rr_cluster import theory
from studies.rr_cluster.cells import DELTA, RATE

N_CLIENTS, COHORT = 1000, 100  # M and qM of everything that is arithmetic here
PAPER_RUN: dict[str, int] = {"n_clients": N_CLIENTS, "cohort": COHORT}
N_DRAWS = 100_000
LINE_WEIGHTS = {"balanced": None, "imbalanced": (4, 4, 1, 1)}
LINE_NOISE = {"easy": 0.3, "hard": 1.5}
FOUND = 0.3  # a line is found if a model lies within this distance of its (slope, intercept)
NO_CLIP = 1e6
Reference = Literal["inserted", "trained"]


# --- rr_accountants -------------------------------------------------------------------------------


def accountants(cell: Cell, *, accountant: str, rounds: int, epsilon: float) -> Numbers:
    """Floor, sigma_eff and noise of one accountant at one epsilon.

    nan where the accountant cannot certify epsilon. `printed_epsilon` is what half of the budget on
    identifiers costs that are noised as printed (fixed size only).
    """
    run: dict[str, Any] = PAPER_RUN | {"n_rounds": rounds, "accountant": accountant}
    floor = acc.floor_epsilon(delta=DELTA, **run)
    names = ("sigma", "noise_over_clip", "printed_epsilon")
    out = {"rate": RATE, "delta": DELTA, "floor": floor} | dict.fromkeys(names, math.nan)
    if epsilon <= floor:
        return out
    fixed = acc.ACCOUNTANTS[accountant].sampling == "fixed"
    out["sigma"] = acc.calibrate(epsilon, DELTA, **run)
    out["noise_over_clip"] = out["sigma"] * (2 if fixed else 1)
    if fixed:
        sigma_s, sigma_theta = costs.split_identifiers(out["sigma"], 0.5)
        out["printed_epsilon"] = theory.actual_epsilon(
            sigma_s, sigma_theta, delta=DELTA, identifier_ratio=math.sqrt(2), **run
        )
    return out


# --- rr_flips -------------------------------------------------------------------------------------


def flips(
    cell: Cell, *, identifiers: str, k: int, epsilon: float, rounds: int, share: float
) -> Numbers:
    """P(released identifier is the true one) by formula and by `N_DRAWS` simulated identifiers.

    `epsilon` is the total of a run, `share` that of 1/sigma_eff^2 for the identifiers. `amount` is
    sigma_s, or epsilon per round of a pure mechanism, which is accounted by Theorem 4.2 with the
    tight conversion.
    """
    pure = identifiers in PURE
    run = PAPER_RUN | {"n_rounds": rounds}
    sigma = acc.calibrate(epsilon, DELTA, accountant="paper_tight" if pure else "wor_rdp", **run)
    amount, sigma_theta = costs.split_identifiers(sigma, share)
    if pure:
        amount = costs.calibrate_identifiers(
            epsilon, DELTA, sigma_theta=sigma_theta, amplified=True,
            n_clusters=k if identifiers == "krr" else 2, **run,
        )  # fmt: skip
        exact = {"krr": theory.krr_accuracy, "exponential": theory.exponential_accuracy}
        correct = exact[identifiers](amount, k)
    else:
        width = math.sqrt(2) if identifiers == "corrected" else 1.0
        correct = theory.argmax_accuracy(width * amount, k)
    rng = cell.rng
    true = rng.integers(k, size=N_DRAWS)
    one_hot = np.eye(k)[true]
    if pure:
        released = RandomAnswer(identifiers, amount).answer(one_hot, rng=rng)
    else:
        released = (one_hot + rng.normal(0, width * amount, one_hot.shape)).argmax(axis=1)
    return {
        "amount": amount, "sigma_theta": sigma_theta, "p_correct": correct,
        "p_simulated": float((released == true).mean()), "delta": DELTA, "draws": N_DRAWS,
    }  # fmt: skip


# --- rr_lines -------------------------------------------------------------------------------------


def line_starts(init: str, *, rng: np.random.Generator) -> np.ndarray:
    """Four starting lines (4, 2): all below the data ("far"), or N(0, s^2) ("normal1", "normal5").

    Examples
    --------
    >>> line_starts("far", rng=np.random.default_rng(0)).shape
    (4, 2)
    """
    if init == "far":
        return np.array([0.0, -8.0]) + 0.5 * rng.standard_normal((4, 2))
    return float(init.removeprefix("normal")) * rng.standard_normal((4, 2))


def lines(
    cell: Cell,
    *,
    sizes: str,
    difficulty: str,
    init: str,
    method: str,
    B: int,
    rounds: int,
    clients: int,
) -> Numbers:
    """Lines found and test error, without noise, averaged over seeds.

    `sizes` is "balanced" or "imbalanced", `difficulty` "easy" or "hard", `method` "fedavg", "ifca",
    "rr_ifca" or "sums_ifca_reseed".
    """
    found, errors, used = [], [], []
    model = rr.LinearRegression(1)
    for seed in range(cell.runs):
        made, first, run_seed = seed_of(f"lines/{sizes}_{difficulty}/{seed}").spawn(3)
        data = make_lines(
            clients, weights=LINE_WEIGHTS[sizes], noise=LINE_NOISE[difficulty],
            rng=np.random.default_rng(made),
        )  # fmt: skip
        train, test = ClientData(*data.clients()), ClientData(*data.clients("test"))
        starts = line_starts(init, rng=np.random.default_rng(first))
        trained = _lines(method, train, model, starts, run_seed, size=B, n_rounds=rounds)
        gaps = np.linalg.norm(trained[:, None] - np.array(LINES), axis=2).min(axis=0)
        found.append((gaps <= FOUND).sum())
        assert data.groups is not None
        evaluation = rr.evaluate(model, trained, train, test, data.groups)
        errors.append(-evaluation.accuracy)
        used.append(evaluation.models_used)
    return {
        "all_found": float((np.array(found) == 4).sum()), "lines_found": float(np.mean(found)),
        "mse_mean": float(np.mean(errors)), "mse_median": float(np.median(errors)),
        "models_used": float(np.mean(used)), "seeds": cell.runs,
    }  # fmt: skip


def _lines(
    method: str, clients: ClientData, model: Model, starts: np.ndarray,
    seed: np.random.SeedSequence, *, size: int, n_rounds: int,
) -> np.ndarray:  # fmt: skip
    central = method in ("ifca", "rr_ifca")
    federation = simulate(
        clients, "trusted" if central else "ideal", seed=seed, bound=50.0,
        ledger=PrivacyLedger(unit="client", adjacency="replace-one"),
    )  # fmt: skip
    training = rr.Training(model, cohort=clients.n_clients // 10, clip=NO_CLIP, learning_rate=0.1)
    arguments: dict[str, Any] = {"n_rounds": n_rounds, "epsilon": math.inf, "delta": DELTA}
    arguments["initial"] = starts
    if method == "fedavg":
        plan = rr.plan_dp_fedavg(federation, training, **arguments | {"initial": starts[:1]})
    elif central:
        plan = rr.plan(
            federation, training, n_clusters=4, identifiers="exact", min_size=size,
            rebalance="strict" if size else "off", **arguments,
        )  # fmt: skip
    else:
        plan = rr.plan_sums_only(federation, training, n_clusters=4, min_size=1, **arguments)
    return rr.run(federation, plan).models


# --- rr_rebalancing -------------------------------------------------------------------------------


def rebalancing(cell: Cell, *, reference: Reference, sigma_theta: float, B: int) -> Numbers:
    """Squared bias, variance and error of the minority model over `runs` repetitions."""
    found = theory.rebalancing_error(
        sigma_theta, B, reference=reference, rng=cell.rng, n_repetitions=cell.runs
    )
    return {
        "bias2": found.bias, "variance": found.variance, "mse": found.mse, "moved": found.moved,
        "repetitions": cell.runs,
    }  # fmt: skip
