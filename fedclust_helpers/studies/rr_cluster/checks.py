"""The RR-Cluster tables beside accuracy: accountants, flips, lines, rebalancing, re-seeding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedclust_helpers import rr_cluster as rr
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.client_statistics import Model
from fedclust_helpers.federation import ClientData, simulate
from fedclust_helpers.rr_cluster import accounting
from fedclust_helpers.rr_cluster.identifiers import PURE, identifier_mechanism, privatise
from fedclust_helpers.studies.fastlloyd.cells import Cell
from fedclust_helpers.studies.fastlloyd.problems import seed_of
from fedclust_helpers.studies.paper_data import LINES, make_lines
from fedclust_helpers.studies.rr_cluster import theory
from fedclust_helpers.studies.rr_cluster.cells import DELTA, Run, measured, train
from fedclust_helpers.studies.rr_cluster.problems import load_clients, model_named

N_CLIENTS, COHORT = 1000, 100  # M and qM of everything that is arithmetic here
PAPER_RUN: dict[str, int] = {"n_clients": N_CLIENTS, "cohort": COHORT}
N_DRAWS = 100_000
LINE_WEIGHTS = {"balanced": None, "imbalanced": (4, 4, 1, 1)}
LINE_NOISE = {"easy": 0.3, "hard": 1.5}
FOUND = 0.3  # a line is found if a model lies within this distance of its (slope, intercept)
NO_CLIP = 1e6


# --- rr_accountants -------------------------------------------------------------------------------


def accountant_cell(cell: Cell) -> dict[str, float]:
    """Floor, sigma_eff and noise of one accountant at one epsilon; option `rounds`.

    nan where the accountant cannot certify epsilon. `printed_epsilon` is what half of the budget on
    identifiers costs that are noised as printed (fixed size only).
    """
    rounds = dict(cell.options)["rounds"]
    run: dict[str, Any] = PAPER_RUN | {"n_rounds": rounds, "accountant": cell.method}
    floor = accounting.floor_epsilon(delta=DELTA, **run)
    out = {"floor": floor, "sigma": math.nan, "printed_epsilon": math.nan}
    if cell.epsilon <= floor:
        return out
    out["sigma"] = accounting.calibrate(cell.epsilon, DELTA, **run)
    if accounting.ACCOUNTANTS[cell.method].sampling == "fixed":
        sigma_s, sigma_theta = accounting.split_identifiers(out["sigma"], 0.5)
        out["printed_epsilon"] = theory.actual_epsilon(
            sigma_s, sigma_theta, delta=DELTA, identifier_ratio=math.sqrt(2), **run
        )
    return out


# --- rr_flips -------------------------------------------------------------------------------------


def flips_cell(cell: Cell) -> dict[str, float]:
    """P(released identifier is the true one) by formula and by `N_DRAWS` simulated identifiers.

    `cell.method` is the kind of identifiers, `cell.epsilon` the total of a run; options: `rounds`,
    `share` of 1/sigma_eff^2 for the identifiers, `k`. `amount` is sigma_s, or epsilon per round of
    a pure mechanism, which is accounted by Theorem 4.2 with the tight conversion.
    """
    options = dict(cell.options)
    rounds, share, k = options["rounds"], options["share"], options["k"]
    pure = cell.method in PURE
    run = PAPER_RUN | {"n_rounds": rounds}
    sigma = accounting.calibrate(
        cell.epsilon, DELTA, accountant="paper_tight" if pure else "wor_rdp", **run
    )
    amount, sigma_theta = accounting.split_identifiers(sigma, share)
    if pure:
        amount = accounting.calibrate_identifiers(
            cell.epsilon, DELTA, sigma_theta=sigma_theta, amplified=True,
            n_clusters=k if cell.method == "krr" else 2, **run,
        )  # fmt: skip
        exact = {"krr": theory.krr_accuracy, "exponential": theory.exponential_accuracy}
        correct = exact[cell.method](amount, k)
    else:
        width = math.sqrt(2) if cell.method == "corrected" else 1.0
        correct = theory.argmax_accuracy(width * amount, k)
    rng = np.random.default_rng(seed_of(cell.name))
    true = rng.integers(k, size=N_DRAWS)
    mechanism = identifier_mechanism(cell.method, amount)
    released = privatise(np.eye(k)[true], mechanism, rng=rng)
    return {
        "amount": amount, "sigma_theta": sigma_theta, "correct": correct,
        "simulated": float((released == true).mean()),
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


def lines_cell(cell: Cell) -> dict[str, float]:
    """Lines found and test error, without noise, averaged over `cell.runs` seeds.

    `cell.dataset` is "<balanced|imbalanced>_<easy|hard>", `cell.method` "fedavg", "ifca",
    "rr_ifca" or "sums_ifca_reseed"; options: `B`, `rounds`, `clients`.
    """
    sizes, difficulty = cell.dataset.split("_")
    options = dict(cell.options)
    found, errors, used = [], [], []
    for seed in range(cell.runs):
        data_seed, start_seed, run_seed = seed_of(f"lines/{cell.dataset}/{seed}").spawn(3)
        data = make_lines(
            options["clients"], weights=LINE_WEIGHTS[sizes], noise=LINE_NOISE[difficulty],
            rng=np.random.default_rng(data_seed),
        )  # fmt: skip
        clients = ClientData(*data.clients())
        model = rr.LinearRegression(1)
        starts = line_starts(cell.init, rng=np.random.default_rng(start_seed))
        trained = _lines(
            cell, clients, model, starts, run_seed, size=options["B"], n_rounds=options["rounds"]
        )
        gaps = np.linalg.norm(trained[:, None] - np.array(LINES), axis=2).min(axis=0)
        found.append((gaps <= FOUND).sum())
        assert data.groups is not None
        evaluation = rr.evaluate(
            model, trained, clients, ClientData(*data.clients("test")), data.groups
        )
        errors.append(-evaluation.accuracy)
        used.append(evaluation.models_used)
    return {
        "all_found": float((np.array(found) == 4).sum()), "lines_found": float(np.mean(found)),
        "mse_mean": float(np.mean(errors)), "mse_median": float(np.median(errors)),
        "models_used": float(np.mean(used)),
    }  # fmt: skip


def _lines(
    cell: Cell, clients: ClientData, model: Model, starts: np.ndarray,
    seed: np.random.SeedSequence, *, size: int, n_rounds: int,
) -> np.ndarray:  # fmt: skip
    central = cell.method in ("ifca", "rr_ifca")
    federation = simulate(
        clients, "trusted" if central else "ideal", seed=seed, bound=50.0,
        ledger=PrivacyLedger(unit="client", adjacency="replace-one"),
    )  # fmt: skip
    arguments: dict[str, Any] = {
        "n_rounds": n_rounds, "epsilon": math.inf, "delta": DELTA, "clip": NO_CLIP,
        "cohort": clients.n_clients // 10, "training": rr.Training(learning_rate=0.1),
    }  # fmt: skip
    if cell.method == "fedavg":
        plan: rr.TrainingPlan = rr.plan_dp_fedavg(federation, model, **arguments)
        starts = starts[:1]
    elif central:
        plan = rr.plan(
            federation, model, n_clusters=4, identifiers="exact", min_size=size,
            rebalance="strict" if size else "off", **arguments,
        )  # fmt: skip
    else:
        plan = rr.plan_sums_only(
            federation, model, n_clusters=4, sampling="fixed", min_size=1, **arguments
        )
    return rr.run(federation, plan, model, initial=starts).models


# --- rr_rebalancing -------------------------------------------------------------------------------


def rebalancing_cell(cell: Cell) -> dict[str, float]:
    """Squared bias, variance and error of the minority model; options `sigma_theta`, `B`."""
    options = dict(cell.options)
    found = theory.rebalancing_error(
        options["sigma_theta"], options["B"], reference=cell.init,  # type: ignore[arg-type]
        rng=np.random.default_rng(seed_of(cell.name)), n_repetitions=cell.runs,
    )  # fmt: skip
    return {
        "bias2": found.bias, "variance": found.variance, "mse": found.mse, "moved": found.moved,
    }  # fmt: skip


# --- rr_reseeding, rr_curves ----------------------------------------------------------------------


def reseeding_cell(cell: Cell) -> dict[str, float]:
    """Sums only with one threshold of re-seeding; options `sampling, accountant, k, below, clip`.

    A threshold `below` of 0 switches re-seeding off.
    """
    o = dict(cell.options)
    problem = load_clients(cell.dataset)
    method = "sums_ifca_reseed" if o["below"] else "sums_ifca"
    run = Run(method, "none", o["sampling"], o["accountant"], o["B"], cell.epsilon)
    values = measured(
        *train(
            problem, run, model="softmax", n_models=o["k"], n_rounds=o["rounds"], clip=o["clip"],
            reseed_below=o["below"],
        )
    )  # fmt: skip
    return {name: values[name] for name in ("accuracy", "models_used", "groups_alone", "reseeded")}


def curve_cell(cell: Cell) -> dict[str, float]:
    """Accuracy of every fifth round of a run; options as `run_cell`."""
    o = dict(cell.options)
    problem = load_clients(cell.dataset)
    run = Run(cell.method, o["identifiers"], o["sampling"], o["accountant"], o["B"], cell.epsilon)
    result, _ = train(
        problem, run, model=o["model"], n_models=o["k"], n_rounds=o["rounds"], clip=o["clip"],
        keep_history=True,
    )  # fmt: skip
    assert result.history is not None
    learner = model_named(o["model"], problem)
    return {
        f"{t}": rr.evaluate(
            learner, result.history[t], problem.train, problem.test, problem.groups
        ).accuracy
        for t in range(0, o["rounds"] + 1, max(o["rounds"] // 10, 1))
    }


# --- rr_torch -------------------------------------------------------------------------------------


def network_cell(cell: Cell) -> dict[str, float]:
    """A run of a PyTorch model; options as `run_cell`, then `n_steps` and `learning_rate`."""
    o = dict(cell.options)
    run = Run(cell.method, o["identifiers"], o["sampling"], o["accountant"], o["B"], cell.epsilon)
    return measured(
        *train(
            load_clients(cell.dataset), run, model=o["model"], n_models=o["k"],
            n_rounds=o["rounds"], clip=o["clip"],
            training=rr.Training(n_steps=o["n_steps"], learning_rate=o["learning_rate"]),
        )
    )  # fmt: skip
