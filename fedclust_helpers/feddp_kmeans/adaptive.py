"""A variant beyond the paper: FedDP-KMeans with a public choice of where the budget goes.

At client level the recommended settings lose to a server-only start below epsilon 1, for reasons
that can be read off before the run:

* Step 1 adds noise of spectral norm about 2 std sqrt(d) to an outer product whose eigengap is
  n x (between-cluster energy per direction); at small budgets the noise is several times the gap;
* Step 3 clips a matrix of *means*, whose length is dominated by where the clusters lie and not by
  what is unknown about them; sums of x - centre are much shorter;
* a mean of client means throws away that a client has several rows in a cluster.

So: start from centres of the server's data in the server's own subspace unless Step 1 is predicted
to beat its noise, then spend the budget on few rounds of relative sums, each with assignment in the
span of the current centres, and shrink every step by what its noise explains. All choices use
server data, budgets and public counts only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fedclust_helpers import kmeans
from fedclust_helpers._index import bincount
from fedclust_helpers._validation import Delta, Epsilon, FloatArray, check_int
from fedclust_helpers.feddp_kmeans import algorithm
from fedclust_helpers.feddp_kmeans.budgets import StepBudgets, calibrate_budgets
from fedclust_helpers.feddp_kmeans.levels import ClipBounds, level_of, residual_step
from fedclust_helpers.feddp_kmeans.server import count_floor, top_eigenvectors
from fedclust_helpers.federation import FederationFacts, Plan
from fedclust_helpers.program import Algorithm, Options, Public, Steps

ROUNDS_TRIED = 6
NOISE_SHARE = 0.04  # a centre's noise may have this share of the server's mean squared residual
SHARES = {"server": (0.0, 0.0, 0.85, 0.15), "weighted": (0.2, 0.1, 0.55, 0.15)}
RESTARTS = 50
MOST_ROWS = 10**12


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What was decided from public numbers, and the numbers that decided it.

    `initial` is "server" (the public `centers` (k, d)) or "weighted" (Steps 1 and 2 of FedDP-Init),
    `clip` bounds a residual (one point) or a client's sum of residuals, `noise_over_gap` is the
    predicted norm of the noise of Step 1 over the predicted eigengap.
    """

    budgets: StepBudgets
    initial: str
    clip: float
    clips: ClipBounds | None
    rows_per_client: int | None
    n_records: int
    noise_over_gap: float = math.inf
    centers: FloatArray = field(repr=False, compare=False)

    @property
    def n_rounds(self) -> int:
        """Rounds of relative sums."""
        return self.budgets.n_rounds


def adaptive(public: Public, choice: Choice, server_points: ArrayLike, *, n_clusters: int) -> Steps:
    """FedDP-KMeans with start, rounds, clip bound and budgets chosen for (epsilon, delta).

    The `choice` is the plan's dial (`choose`): only public numbers are used, the server's data,
    epsilon and delta, d, k, and the two counts. For it the plan takes `epsilon` and `delta`, under
    add/remove, and as options: `rng` for the server's own k-means. `n_rounds` of relative sums, at
    most 6, chosen from public numbers by default. `initial` "server" spends nothing on the start,
    "weighted" runs Steps 1 and 2 of FedDP-Init, and "auto" takes "weighted" when the predicted
    noise of Step 1 is below half the predicted eigengap. `n_records` and `rows_per_client` are
    public numbers of rows, of all clients together and of a typical one. Both are needed at client
    level; at data-point level `n_records` is the federation's by default. Other arguments as of
    `feddp_kmeans`.
    """
    budgets, centers, bound = choice.budgets, choice.centers, public.facts.bound
    if choice.initial == "weighted":  # Steps 1 and 2 of FedDP-Init
        found = yield from algorithm.weigh_server_points(
            public, budgets, level_of(public.facts.unit, choice.clips), server_points, n_clusters,
            minimum=lambda std: 2 * std,
        )  # fmt: skip
        xi = algorithm.cluster_weighted(public, found, n_clusters, RESTARTS)
        centers = xi @ found[1].T
    step = residual_step(choice.clip, choice.rows_per_client)
    noise, history = algorithm.noise_of_rounds(public, budgets), [centers]
    for _ in range(budgets.n_rounds):
        # the span of the current centres is where they differ: assign there
        basis = np.linalg.svd(history[-1].T, full_matrices=False)[0]
        answer = yield step.ask(*noise, basis=basis, centers=history[-1])
        std_sums, std_counts = answer.std
        move = shrunk_step(*answer, std=std_sums, floor=count_floor(std_counts))
        history.append(kmeans.shortened(history[-1] + move, bound))
    return algorithm.Found(history[-1], np.stack(history))


def shrunk_step(sums: FloatArray, counts: FloatArray, *, std: float, floor: float) -> FloatArray:
    """Steps sums/counts (k, d), each shortened by what the noise of the sums explains.

    The positive-part James-Stein factor max(0, 1 - d s^2/||step||^2) with s = std/count: a step
    that is no longer than its noise is not taken. Post-processing of released values.
    """
    divisor = np.maximum(counts, floor)
    step = sums / divisor[:, None]
    return step * kmeans.shrinkage(step, sums.shape[1] * (std / divisor) ** 2)[:, None]


# --- what the planner decides ---------------------------------------------------------------------


def choose(
    cost: Any, public: Public, epsilon: float, delta: float, *, server_points: FloatArray,
    n_clusters: int, rng: np.random.Generator, n_rounds: algorithm.Rounds | None = None,
    initial: Literal["auto", "server", "weighted"] = "auto", n_records: int | None = None,
    rows_per_client: int | None = None,
) -> Choice:  # fmt: skip
    """Start and number of rounds that public numbers say are best, and the budgets for them."""
    facts, k, rows = public.facts, n_clusters, rows_per_client
    d, n = facts.n_features, facts.n_records if n_records is None else n_records
    server = kmeans.shortened(server_points, facts.bound)
    clips = None
    if rows is not None:
        clips = ClipBounds.suggest(server, rows_per_client=rows, n_clusters=k)
    centers, residual, energy = _server_start(server, k, rng)
    # the server's points may coincide with their centres: some length must be allowed
    residual = max(residual, (1e-6 * facts.bound) ** 2)
    clip = math.sqrt(residual * (1.3 if rows is None else rows))
    base = Choice(
        budgets=StepBudgets(0, 0, 0, 0), initial=initial, clip=clip, clips=clips,
        rows_per_client=rows, n_records=n, centers=centers,
    )  # fmt: skip

    def calibrated(start: str, rounds: int) -> Choice:
        outer, weights, sums, counts = SHARES[start]
        shares = StepBudgets(outer, weights, 0.0, 0.0, sums, counts, rounds, delta)
        made = replace(base, initial=start)
        found = calibrate_budgets(shares, epsilon, total=lambda b: cost(replace(made, budgets=b)))
        return replace(made, budgets=found)

    # Step 1: predicted spectral norm of its noise against the predicted eigengap
    reach = facts.bound**2 if clips is None else clips.outer
    spent = calibrated("weighted", 1).budgets.outer
    noise = 2 * math.sqrt(d) * reach * public.noise_multiplier(spent, delta)
    base = replace(base, noise_over_gap=noise / max(n * energy, 1e-300))
    if initial == "auto":
        initial = "weighted" if base.noise_over_gap < 0.5 else "server"

    # rounds: as many as keep the noise of a centre small against the residuals
    choice = calibrated(initial, 1 if n_rounds is None else n_rounds)
    for t in range(2, ROUNDS_TRIED + 1 if n_rounds is None else 2):
        more = calibrated(initial, t)
        sigma = public.noise_multiplier(more.budgets.lloyd_sums, delta)
        if d * (clip * sigma * math.sqrt(t) * k / n) ** 2 > NOISE_SHARE * residual:
            break
        choice = more
    return choice


def _server_start(
    server: FloatArray, k: int, rng: np.random.Generator
) -> tuple[FloatArray, float, float]:
    """Centres of the server's data in its own subspace; residual energy; energy per direction."""
    _, basis = top_eigenvectors(server.T @ server, min(k, server.shape[1]))
    projected = server @ basis
    xi = kmeans.weighted_kmeans(projected, None, k, rng=rng, n_init=RESTARTS)
    labels = kmeans.assign(projected, xi).labels
    centers = xi @ basis.T
    centers.flags.writeable = False
    residual = float(((server - centers[labels]) ** 2).sum(axis=1).mean())
    shares = bincount(labels, minlength=k) / len(server)
    spread = float(shares @ ((centers - shares @ centers) ** 2).sum(axis=1))
    return centers, residual, spread / max(k - 1, 1)


def _with_counts(facts: FederationFacts, options: Options) -> Options:
    """Number of rows in all and of each client, as public numbers; never counted here."""
    options = algorithm.with_server_points(facts, options)
    if facts.unit == "point" and options["rows_per_client"] is not None:
        raise ValueError("rows_per_client must be None at data-point level")
    for name in ("n_records", "rows_per_client"):
        if options[name] is not None:
            check_int(options[name], name, maximum=MOST_ROWS)
        elif facts.unit == "client":
            raise ValueError(
                f"{name} must be given at client level, as a public number: clip bound and rounds"
                " depend on it, and a count of the rows would tell whether a client takes part"
            )
    return options


def _last_sums(plan: Plan) -> tuple[float, str]:
    return algorithm.last_sums(plan, plan.dial.n_records)


ADAPTIVE = Algorithm(
    name="FedDP-KMeans, adaptive", steps=adaptive, budget={"epsilon": Epsilon, "delta": Delta},
    search=choose, check=_with_counts, default_delta=algorithm.default_delta, predict=_last_sums,
    total=algorithm.total,
)  # fmt: skip
plan_adaptive = ADAPTIVE.planner("plan_adaptive")
