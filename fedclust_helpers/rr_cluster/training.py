"""What every training run fixes before its first round: who takes part, and how much noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Any, NamedTuple

import numpy as np

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    Count,
    Delta,
    FloatArray,
    IntArray,
    NonNegative,
    Positive,
    as_points,
    check_fits,
    check_int,
    check_positive,
)
from fedclust_helpers.accounting import Entry, PrivacyLedger, Sampling, zcdp_rho
from fedclust_helpers.accounting.discrete import Gap, epsilon_across
from fedclust_helpers.accounting.search import MAX_SIGMA, least
from fedclust_helpers.client_statistics import Model
from fedclust_helpers.federation import FederationFacts, Plan, TrustModelError
from fedclust_helpers.mechanisms import Mechanism
from fedclust_helpers.program import NO_NOISE, Noise, Options, Public, gaussian
from fedclust_helpers.program.algorithm import Cost
from fedclust_helpers.rr_cluster import costs
from fedclust_helpers.rr_cluster.costs import (
    DEFAULT,
    SCHEMES,
    WORTHWHILE,
    noise_multiplier,
)

MOST = 100_000  # rounds, and local steps of a round: beyond, a run takes years
LARGEST = 2**31  # numbers in the largest array that a run may need
Rounds = Annotated[int, partial(check_int, maximum=MOST)]
BUDGET: dict[str, Any] = {
    "epsilon": Annotated[float, partial(check_positive, finite=False)] | None,
    "sigma": Positive | None, "delta": Delta,
}  # fmt: skip
"""The total of a run, or the noise multiplier of a round."""


@checked
@dataclass(frozen=True)
class Training:
    """What clients train, and what of it enters a round; the same for all algorithms.

    Clients take `n_steps` local full-batch gradient steps of `learning_rate` on `model`, and pay
    (mu/2) ||theta - start||^2 with mu = `proximal` (FedProx). The length of an update is cut to
    `clip` (C); one that is not finite counts as zero. A model takes the share `server_rate` (gamma)
    of a mean update.

    `cohort` are the clients of a round (qM): exactly so many, drawn without replacement, where the
    ledger is kept for replace-one; each with probability cohort/M (Poisson) under add/remove. The
    two are different promises. All clients means no sampling.

    >>> from fedclust_helpers.rr_cluster import LinearRegression
    >>> Training(LinearRegression(2), cohort=20, clip=0.3).n_steps
    5
    """

    model: Model
    cohort: Count
    clip: Positive
    n_steps: Rounds = 5
    learning_rate: Positive = 0.3
    server_rate: Positive = 1.0
    proximal: NonNegative = 0.0

    def __post_init__(self) -> None:
        lacks = [n for n in ("losses", "train") if not callable(getattr(self.model, n, None))]
        if lacks or isinstance(self.model, type) or not hasattr(self.model, "n_parameters"):
            raise TypeError(f"model must be a Model, got {type(self.model).__name__}")

    def sampling(self, facts: FederationFacts) -> Sampling | None:
        """How a cohort is drawn under the relation of the ledger; None for everybody."""
        if self.cohort >= facts.n_clients:
            return None
        if SCHEMES[facts.adjacency] == "fixed":
            return Sampling("fixed", size=self.cohort, population=facts.n_clients)
        return Sampling("poisson", rate=self.cohort / facts.n_clients)

    def broadcast(self) -> dict[str, Any]:
        """The numbers of the training that are broadcast to the clients."""
        sent: dict[str, Any] = {"model": self.model, "clip": self.clip}
        sent |= {"n_steps": self.n_steps, "learning_rate": self.learning_rate}
        return sent | ({"proximal": self.proximal} if self.proximal else {})

    def sent(self, facts: FederationFacts) -> dict[str, Any]:
        """What is the same in every request of a run."""
        return self.broadcast() | {"sampling": self.sampling(facts)}

    def start(self, public: Public, n_clusters: int, initial: Any) -> FloatArray:
        """Starting models (k, d): public ones, or random ones from public coins."""
        if initial is None:
            return self.model.initial(n_clusters, rng=public.coins)
        return np.array(initial)


class Trained(NamedTuple):
    """Models (k, d), and what a reader may ask about the way to them.

    `history` (T + 1, k, d) are all models. `sizes` (T, k) is what the server knows of cluster
    sizes: after rebalancing (RR-Cluster), noised counts (sums only), empty where nothing of the
    kind is released. `moved` (T,) counts the updates that rebalancing moved, `reseeded` holds
    (round, dead model, split model). `common` (d,) is the common model of FedCAM.
    """

    models: FloatArray
    history: FloatArray
    sizes: FloatArray
    moved: IntArray = np.zeros(0, dtype=np.int64)
    reseeded: tuple[tuple[int, int, int], ...] = ()
    common: FloatArray | None = None

    @classmethod
    def of(cls, history: list[FloatArray], sizes: Sequence[Any] = (), **more: Any) -> Trained:
        """What a run returns: the models of its last round, and those of all rounds before."""
        known = np.array(sizes, dtype=np.float64).reshape(len(sizes), len(history[0]))
        return cls(history[-1], np.stack(history), known, **more)


class Dial(NamedTuple):
    """How much noise a run has.

    `sigma` is the noise multiplier sigma_eff of a round, 0 without noise; `accountant` says what it
    costs. Random identifiers have `answer`, the epsilon of one, and are `amplified` if they were
    calibrated so.
    """

    sigma: float
    accountant: str
    answer: float | None = None
    amplified: bool = False


def times(multiplier: float) -> Noise:
    """Gaussian noise, or none at all for 0."""
    return gaussian(multiplier) if multiplier else NO_NOISE


# --- what may be trained --------------------------------------------------------------------------


def of_clients(facts: FederationFacts, options: Options, *, proximal: bool = False) -> Options:
    """The options, for a federation that hides one client and has the cohort."""
    training: Training = options["training"]
    k, model, initial = options.get("n_clusters", 1), training.model, options["initial"]
    if facts.unit != "client":
        raise ValueError(f"federation must keep a ledger for one client, got one {facts.unit}")
    if training.proximal and not proximal:
        raise ValueError("training must have proximal=0: only DP-FedProx has this term")
    check_fits(k * model.n_parameters, "n_clusters", limit=LARGEST)
    check_fits((options["n_rounds"] + 1) * k * model.n_parameters, "n_rounds", limit=LARGEST)
    check_int(training.cohort, "cohort", maximum=facts.n_clients)
    if training.cohort < facts.n_clients and facts.receiver == "clients":
        raise TrustModelError(
            "cohort must be all clients on this federation: to unmask a sum the clients must"
            " know who took part, so that drawing a cohort hides nothing"
        )
    n_classes = getattr(model, "n_classes", None)
    if facts.n_labels is not None and n_classes is not None and facts.n_labels > n_classes:
        raise ValueError(
            f"model must have at least the federation's n_labels={facts.n_labels} classes, got"
            f" n_classes={n_classes}"
        )
    if initial is None:
        return options
    initial = as_points(initial, "initial", n_features=model.n_parameters)
    if len(initial) != k:
        raise ValueError(f"initial must hold {k} models, got {len(initial)}")
    return options | {"initial": initial}


def check_min_size(options: Options) -> Options:
    """The options, if `min_size` (B) is at most cohort/n_clusters."""
    size, most = options["min_size"], options["training"].cohort / options["n_clusters"]
    if size > most:
        raise ValueError(
            f"min_size must be <= cohort/n_clusters = {most:g} (B <= qM/k), got {size}"
        )
    return options


# --- how much noise, and what it costs ------------------------------------------------------------


def least_sigma(
    cost: Cost, public: Public, epsilon: float | None, delta: float, remembers: bool = False, *,
    sigma: float | None, training: Training, n_rounds: int, **_: Any,
) -> Dial:  # fmt: skip
    """The smallest sigma_eff, from exactly one of `epsilon` and `sigma`.

    By the accountant of the cohort, or the exact curve of everybody. Clients that go on from
    earlier rounds (`remembers`) are amplified by Poisson sampling only (`ClientStatistic`); else
    the exact curve is taken.
    """
    if (epsilon is None) == (sigma is None):
        raise ValueError("epsilon or sigma must be given, and not both")
    f = public.facts
    by = DEFAULT[f.adjacency]
    amplified = training.cohort < f.n_clients and (not remembers or f.adjacency == "add/remove")
    continuous = f.noise == "continuous"
    everyone, drawn = ("gdp", by) if continuous else ("near", "renyi")
    named = drawn if amplified else everyone
    if sigma is not None:
        low, high = costs.SIGMAS
        if not low <= sigma <= high:
            raise ValueError(f"sigma must be >= {low:g} and <= {high:g}, got {sigma:g}")
        return Dial(sigma, named)
    assert epsilon is not None
    if math.isinf(epsilon):
        return Dial(0.0, named)
    cohort = training.cohort if amplified else f.n_clients
    rounds = {"n_rounds": n_rounds, "n_clients": f.n_clients, "cohort": cohort}
    if not continuous:
        return _discrete(cost, epsilon, delta, by, named if amplified else "zcdp", **rounds)
    return Dial(*noise_multiplier(epsilon, delta, accountant=by, **rounds))


def _discrete(
    cost: Cost, epsilon: float, delta: float, by: str, other: str, *, n_rounds: int, **rounds: int
) -> Dial:
    """As the Gaussian it is close to, unless the grid is too coarse for that.

    Then by Renyi curves, or zero-concentrated DP where everyone takes part.
    """
    start = math.sqrt(n_rounds / (2 * zcdp_rho(epsilon, delta)))
    near, by = noise_multiplier(  # with room for the gap
        epsilon * (1 - 1e-5), delta, accountant=by, n_rounds=n_rounds, **rounds
    )
    close = Dial(near, "near" if by == "gdp" else by)
    if near < min(start, MAX_SIGMA) and cost(close) <= epsilon:
        return close
    refusal = (
        f"epsilon must be larger: {epsilon:g} at delta={delta:g} takes noise of"
        f" {start:.2g} sensitivities in each of {n_rounds} rounds"
    )
    if start > MAX_SIGMA:
        raise ValueError(refusal)
    if not WORTHWHILE[0] < epsilon < WORTHWHILE[1]:
        start *= 1 + 1e-12
        if cost(Dial(start, other)) <= epsilon:
            return Dial(start, other)
    found = least(lambda sigma: cost(Dial(sigma, other)) - epsilon, refusal, start=start, step=0.1)
    return Dial(found, other)


def total(plan: Plan) -> float:
    """What all rounds cost together at the plan's delta.

    By the accountants of the ledger, or by Renyi orders alone if calibrated so.
    """
    entry, rdp = plan.entries()[0], plan.dial.accountant.endswith("_rdp")
    return _rounds_epsilon(
        entry.mechanisms, entry.sampling, entry.unit, entry.adjacency,
        len(plan.releases) + plan.facts.repeats, plan.delta, rdp and entry.sampling is not None,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _rounds_epsilon(
    mechanisms: tuple[Mechanism, ...], sampling: Sampling | None, unit: str, adjacency: str,
    n_rounds: int, delta: float, rdp: bool,
) -> float:  # fmt: skip
    """The total of equal rounds; the same question is asked of many seeds."""
    entry = Entry(0, "round", mechanisms, unit, adjacency, sampling)
    if not rdp:
        return PrivacyLedger(unit, adjacency, None, [entry] * n_rounds).epsilon(delta)

    def epsilon_of(entry: Entry, at: float) -> float:
        return costs.event_epsilon(entry.dp_event(), adjacency, n_rounds, at)

    twin, gap = entry.continuous()
    if gap == Gap():
        return epsilon_of(entry, delta)
    near = epsilon_across(Gap.sum([gap] * n_rounds), delta, lambda at: epsilon_of(twin, at))
    return near if math.isfinite(near) else epsilon_of(entry, delta)
