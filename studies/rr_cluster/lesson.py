"""Settings of the notebook, its data, what it is tried with, and the runs that it repeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedclust_helpers import kmeans
from fedclust_helpers import rr_cluster as rr
from fedclust_helpers._index import bincount, repeat
from fedclust_helpers._validation import FloatArray, IntArray, check_choice
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.client_statistics.models import Batch, batch_of
from fedclust_helpers.federation import ClientData, Plan, Randomness, simulate
from fedclust_helpers.program import Run
from fedclust_helpers.rr_cluster import sums_only
from studies import paper_data
from studies.bench.lesson import Lesson
from studies.bench.samples import Rows, choose
from studies.rr_cluster.low_budget import trained_alone
from studies.rr_cluster.promise import noise_of, promised

LESSON = Lesson(
    settings={
        "DATA": "digits", "SEED": 4, "EPSILON": 4.0, "EPSILONS": (1.0, 2.0, 4.0, 8.0),
        "DELTA": 1e-5, "K": 4, "N_CLIENTS": 1000, "COHORT": 100, "N_ROUNDS": 50, "CLIP": 0.3,
        "PARTITIONS": 3,
    },
    variations={
        "DATA": ("lines",), "EPSILON": (0.3, 3.0), "EPSILONS": ((0.5, 3.0),), "K": (2, 6),
        "N_CLIENTS": (200,), "DELTA": (1e-3,), "COHORT": (50,), "CLIP": (1.0,),
        "PARTITIONS": (1,),
    },
    streams=(
        "points", "starts", "deal", "noise", "woken", "argmax", "runs", "toy", "canary", "small",
    ),
)  # fmt: skip
begin = LESSON.begin

N_TRAIN, N_TEST = 20, 5  # examples of a client
SHIFT = 0.3  # what is taken off the grey values, which are shares of 16, before training


def federated(name: str, n_clients: int, *, rng: np.random.Generator, **options: Any) -> Any:
    """Clients in four groups, a `LabelledFederation`: turned digits, or points on four lines."""
    options = {"n_train": N_TRAIN, "n_test": N_TEST, "rng": rng, **options}
    if name == "lines":
        return paper_data.make_lines(n_clients, **options)
    return paper_data.make_rotated_digits(n_clients, reuse=True, **options)


def toy(*, rng: np.random.Generator) -> Any:
    """The 200 clients with turned digits that the widget trains on."""
    return federated("digits", 200, rng=rng)


def data(name: str, n: int | None = None, *, rng: np.random.Generator) -> Rows:
    """The training rows of n // 20 clients (n = 4000): "digits" or "lines".

    Digits are grey values of 64 pixels, 0 to 16, turned by the angle of the client's group;
    `labels` are the digits. On lines a row is a place x and a height y; the groups are known.
    """
    return choose(name, {key: lambda: _rows(name, n or 4000, rng) for key in ("digits", "lines")})


def _rows(name: str, n: int, rng: np.random.Generator) -> Rows:
    made = federated(name, max(4, n // N_TRAIN), rng=rng)
    points, offsets, labels = made.clients()
    owners = repeat(np.arange(made.n_clients), np.diff(offsets))
    if name == "lines":
        reach = np.full(2, made.bound)
        return Rows(points / made.bound, ("x", "y"), -reach, reach, owners, 4, made.groups[owners])
    names = tuple(f"pixel {i}" for i in range(points.shape[1]))
    low, high = (np.full(points.shape[1], 16 * (end + SHIFT)) for end in (-1, 1))
    return Rows(points, names, low, high, owners, 4, labels)


class Problem(NamedTuple):
    """One way to deal the examples: clients with groups, and a model of the right kind."""

    made: Any
    train: ClientData
    test: ClientData
    model: Any

    @property
    def everyone(self) -> Batch:
        """The training examples of all clients."""
        return batch_of(*self.made.clients())


class Runs:
    """Runs of the lesson on several partitions, each with a seed of its own.

    `settings` are the page's globals, some of them `changed`; `seeds` are those of `begin`.
    """

    def __init__(self, settings: Mapping[str, Any], seeds: Callable[..., Any], **changed: Any):
        now = {**settings, **changed}
        check_choice(now["DATA"], "DATA", ("digits", "lines"))
        self.problems = [
            problem(federated(now["DATA"], now["N_CLIENTS"], rng=np.random.default_rng(s)))
            for s in seeds("deal", now["PARTITIONS"])
        ]
        self.seeds, self.cohort = seeds("runs", now["PARTITIONS"]), now["COHORT"]
        self.clip = now["CLIP"]
        self.options = {name: now[name.upper()] for name in ("epsilon", "delta", "n_rounds")}

    @property
    def measure(self) -> str:
        """What scores are: of points on lines, errors below 0."""
        regression = self.problems[0].made.n_classes is None
        return "minus the mean squared error" if regression else "accuracy"

    def plan(
        self, planner: Callable[..., Plan], number: int = 0, *, problem: Problem | None = None,
        trust: str = "", mode: str = "teaching", adjacency: str = "replace-one", **options: Any,
    ) -> tuple[Any, Plan]:  # fmt: skip
        """A federation of one partition, one client protected; and a plan for it."""
        one = problem or self.problems[number]
        how: dict[str, Any] = {"bound": one.made.bound, "mode": mode}
        if mode == "teaching":
            how["seed"] = self.seeds[number]
        ledger = PrivacyLedger(unit="client", adjacency=adjacency)
        trust = trust or ("trusted" if planner is rr.plan else "ideal")
        if trust == "masked":  # section 8: the server adds the noise
            how["noise_from"] = "server"
        federation = simulate(one.train, trust, ledger=ledger, **how)
        cohort = options.pop("cohort", self.cohort)
        training = rr.Training(one.model, cohort=cohort, clip=options.pop("clip", self.clip))
        return federation, planner(federation, training, **(self.options | options))

    def train(
        self, planner: Callable[..., Plan], number: int = 0, **options: Any
    ) -> tuple[Run, Any]:
        """Plan, run, and evaluate on the test examples: what happened, and how good it is."""
        done = rr.run(*self.plan(planner, number, **options))
        one = options.get("problem") or self.problems[number]
        return done, rr.evaluate(one.model, done.models, one.train, one.test, one.made.groups)

    def scores(self, planner: Callable[..., Plan], **options: Any) -> FloatArray:
        """Accuracy on each partition."""
        return np.array([
            self.train(planner, i, **options)[1].accuracy for i in range(len(self.problems))
        ])  # fmt: skip

    def compare(self, methods: Sequence[str], epsilons: Sequence[float], k: int) -> dict[str, Any]:
        """method (a key of `METHODS`) -> epsilon -> accuracy on each partition."""
        least = {"min_size": self.cohort // (2 * k)}
        own: dict[str, tuple[Any, dict[str, Any]]] = {
            "fedavg": (rr.plan_dp_fedavg, {}),
            "rr_ifca": (rr.plan, {"n_clusters": k, **least}),
            "sums_ifca": (rr.plan_sums_only, {"n_clusters": k, "reseed": False}),
            "sums_ifca_reseed": (rr.plan_sums_only, {"n_clusters": k}),
        }
        return {
            name: {e: self.scores(own[name][0], epsilon=e, **own[name][1]) for e in epsilons}
            for name in methods
        }

    def promised(self, epsilons: Sequence[float], k: int) -> dict[float, FloatArray]:
        """epsilon -> accuracy of DP-IFCA under the paper's promise, on each partition."""
        scores: dict[float, FloatArray] = {}
        for e in epsilons:
            found = []
            for one, seed in zip(self.problems, self.seeds, strict=True):
                noise = noise_of(
                    e, self.options["delta"], self.clip, n_rounds=self.options["n_rounds"],
                    cohort=self.cohort, n_clients=one.made.n_clients,
                )  # fmt: skip
                training = rr.Training(one.model, cohort=self.cohort, clip=self.clip)
                start = one.model.initial(k, rng=Randomness.teaching(seed).public)
                models, _ = promised(
                    one.train, training, start, noise, n_rounds=self.options["n_rounds"],
                    min_size=0, seed=seed,
                )  # fmt: skip
                found.append(rr.evaluate(one.model, models, one.train, one.test, one.made.groups))
            scores[e] = np.array([one.accuracy for one in found])
        return scores

    def randomness(self, number: int = 0) -> Randomness:
        """The noise and the public coins of the runs on a partition."""
        return Randomness.teaching(self.seeds[number])

    def alone(self) -> float:
        """Accuracy of clients that train on their own examples only: no noise, no federation."""
        one = self.problems[0]
        own = trained_alone(one.model, one.everyone)
        return float(one.model.accuracy(own, batch_of(*one.made.clients("test"))).mean())


def problem(made: Any) -> Problem:
    """The clients of a `LabelledFederation`, with linear or softmax regression."""
    train, test = (ClientData(*made.clients(split)) for split in ("train", "test"))
    if made.n_classes is None:
        return Problem(made, train, test, rr.LinearRegression(made.n_features))
    return Problem(made, train, test, rr.SoftmaxRegression(made.n_features, made.n_classes))


def follow(
    rr_round: Callable[..., Any], runs: Runs, plan: Plan, k: int, std_choice: float | None = None
) -> tuple[FloatArray, list[IntArray], FloatArray]:
    """The rounds of a plan by `rr_round` of the page: its models, and sizes (3, k) of each round.

    Also how many clients noise and rebalancing put elsewhere (2,), in the mean of the rounds. With
    the randomness of the package's run, so that both must train the same models. `std_choice` is
    another noise on identifiers than that of the plan.
    """
    one, random = runs.problems[0], runs.randomness()
    models, everyone = one.model.initial(k, rng=random.public), one.everyone
    sizes, moved = [], []
    cohorts = random.cohorts or np.random.default_rng()
    stds = [m.std for m in plan.mechanisms[0]]
    stds[0] = stds[0] if std_choice is None else std_choice
    how = (plan.options["min_size"], runs.clip, stds)
    for _ in range(plan.n_rounds):
        batch = cohort_of(everyone, runs.cohort, rng=cohorts)
        models, put = rr_round(one.model, models, batch, *how, random.noise, random.public)
        sizes.append(np.array([bincount(clusters, minlength=k) for clusters in put]))
        moved.append(np.count_nonzero(np.diff(put, axis=0), axis=1))
    return models, sizes, np.mean(moved, axis=0)


def is_sums_only(sums_round: Callable[..., Any], runs: Runs, k: int) -> bool:
    """Whether a round of the page with everybody moves models as `plan_sums_only` does."""
    one, ours = runs.problems[0], runs.randomness()
    start = one.model.initial(k, rng=np.random.default_rng(0))
    how = {"n_rounds": 1, "cohort": one.made.n_clients, "epsilon": None, "sigma": 2.0}
    federation, plan = runs.plan(
        rr.plan_sums_only, initial=start, n_clusters=k, reseed=False, min_size=8, **how
    )
    std = plan.mechanisms[0][0].std
    moved = sums_round(one.model, start, one.everyone, 8, runs.clip, std, ours.noise)[0]
    return np.allclose(moved, rr.run(federation, plan).models)


def is_reseeding(reseeded: Callable[..., FloatArray], k: int) -> bool:
    """Whether the page re-seeds as the package does after its first three rounds."""
    share, start = 25.0, np.random.default_rng(0).normal(size=(k, 3))
    for lowest in (0.0, share):  # a dead model, and none
        counts = np.tile(np.linspace(lowest, 2 * share, k), (sums_only.WINDOW, 1))
        known, draws = sums_only.Reseeding(k, 0.1 * share, 50), np.random.default_rng
        for one in counts:
            known.observe(one)
        theirs, _ = known.act(2, start, rng=draws(1))
        if not np.array_equal(reseeded(start, counts, share, draws(1)), theirs):
            return False
    return True


def cohort_of(everyone: Batch, size: int, *, rng: np.random.Generator) -> Batch:
    """The examples of `size` clients, drawn without replacement."""
    drawn = np.sort(rng.choice(len(everyone.weights), size=size, replace=False))
    kept: Any = (part if part is None else part[drawn] for part in everyone)
    return Batch(*kept)


# --- clients on four lines ------------------------------------------------------------------------

KINDS = ("spread out", "all below")
"""Starts of four models: at random, or all of them below the data."""


def lines_start(kind: str, seed: Any) -> FloatArray:
    """Four models, slope and intercept (4, 2)."""
    models = np.random.default_rng(seed).standard_normal((4, 2))
    return models if kind == KINDS[0] else np.array([0, -8]) + 0.5 * models


def lines_run(
    one_round: Callable[..., Any], kind: str, seed: Any, *, n_clients: int = 400, n_rounds: int = 40
) -> tuple[int, list[FloatArray]]:
    """How many of the four lines have a model after the rounds, and the models of all rounds.

    `one_round` (model, models, batch) returns the next models.
    """
    made = paper_data.make_lines(n_clients, rng=np.random.default_rng(1))
    batch, model = batch_of(*made.clients()), rr.LinearRegression(1)
    history = [lines_start(kind, seed)]
    for _ in range(n_rounds):
        history.append(one_round(model, history[-1], batch))
    gaps = np.linalg.norm(history[-1][:, None] - paper_data.LINES, axis=2)
    return int((gaps.min(axis=0) < 0.3).sum()), history


def lines_woken(
    rr_round: Callable[..., Any], kind: str, b: int, seeds: Sequence[Any], n_rounds: int = 100
) -> list[int]:
    """Lines found by rebalancing without noise: 100 of 400 clients a round, no cut, in each run."""
    found = []
    for seed in seeds:
        coins = np.random.default_rng(seed)

        def one_round(model: Any, models: FloatArray, batch: Batch, rng: Any = coins) -> FloatArray:
            drawn = cohort_of(batch, 100, rng=rng)
            return np.asarray(rr_round(model, models, drawn, b, np.inf, (0, 0), rng, rng)[0])

        found.append(lines_run(one_round, kind, seed, n_rounds=n_rounds)[0])
    return found


def is_lloyd(ifca_round: Callable[..., FloatArray], *, rng: np.random.Generator) -> bool:
    """Whether a round with one full gradient step on one number per client is Lloyd's."""
    y = rng.normal(repeat([-3.0, 0.0, 3.0], 20))
    models = np.array([[0, -1.0], [0, 0.5], [0, 1.0]])
    batch = batch_of(np.column_stack([0 * y, y]), np.arange(61))
    moved = ifca_round(rr.LinearRegression(1), models, batch, n_steps=1, rate=0.5)[:, 1:]
    return np.allclose(moved, kmeans.lloyd(y[:, None], models[:, 1:], n_rounds=1))


# --- tables ---------------------------------------------------------------------------------------


def moved_by(
    runs: Runs, sizes: Sequence[int], **options: Any
) -> tuple[dict[int, float], list[int]]:
    """By B how many clients are moved in a round; for which B the models equal those of B = 0."""
    found = {b: runs.train(rr.plan, min_size=b, **options)[0] for b in sizes}
    moved = {b: float(np.mean(done.moved)) for b, done in found.items()}
    return moved, [b for b, done in found.items() if np.array_equal(done.models, found[0].models)]
