"""An algorithm is a generator: it yields what it asks of the clients, and is sent the answers.

    def fastlloyd(public, sigma, *, n_clusters, ...):
        centers = start(public, ...)
        for radius in radii:
            sums, counts = yield Release(STATISTIC, noise, centers=centers, radius=radius)
            centers = update_centers(...)
        return Centers(...)

`sigma` is the algorithm's **dial**: what a planner turns until a run costs epsilon. Mostly it is a
noise multiplier, or epsilon itself, or a record of a few numbers; None where there is no noise.

It holds public numbers, public coins and answers, and no data: there is nothing else to reach for.
Three interpreters drive it. A plan answers it as a federation without rows would, and writes down
what was asked; in execution.py, `run` has a federation answer, and refuses whatever is not the
plan's, and a party of a network stops at each request, and is brought back there by its recorded
answers.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, wraps
from types import NoneType
from typing import Any, get_args, get_type_hints

import numpy as np

from fedclust_helpers._checked import checked
from fedclust_helpers._validation import Delta, Epsilon
from fedclust_helpers.accounting.search import least
from fedclust_helpers.federation import Federation, FederationFacts, Plan, PlanMismatchError
from fedclust_helpers.program.public import Public
from fedclust_helpers.program.session import Session, Steps, drive, frozen

Options = dict[str, Any]
ALGORITHMS: dict[str, Algorithm] = {}
"""Every algorithm by its name: plans are pickled by it, and parties of a network look it up."""


# --- how much noise -------------------------------------------------------------------------------

Cost = Callable[..., float]


def least_noise(cost: Cost, public: Public, epsilon: float, delta: float, **_: Any) -> float:
    """The smallest multiplier that keeps epsilon: the closed form of Gaussian noise where it does.

    That is where shares of 1/sigma^2 add up to 1; larger ones where a grid is too coarse for it.
    Otherwise by bisection.
    """
    for sigma in public.noise_multipliers(epsilon, delta):
        if 0.99 * epsilon <= cost(sigma) <= epsilon * (1 + 1e-9):
            return sigma
    refusal = (
        f"epsilon={epsilon:g} cannot be kept on this federation's grid of"
        f" {public.facts.resolution:g}, however much noise there is"
    )
    return least(
        lambda sigma: cost(sigma) - epsilon, refusal, most=1e9, growth=1.0, xtol=1e-6, smooth=False,
        start=public.noise_multiplier(epsilon, delta),
    )  # fmt: skip


def as_given(cost: Cost, public: Public, epsilon: float, delta: float, **_: Any) -> float:
    """The dial is epsilon itself."""
    return epsilon


# --- an algorithm, and its planner ----------------------------------------------------------------


def as_asked(facts: FederationFacts, options: Options) -> Options:
    """The options, of which none is refused."""
    return options


@dataclass(frozen=True, kw_only=True, eq=False)
class Algorithm:
    """A generator function ``steps(public, dial, **options)``, and what its planner must know.

    Attributes
    ----------
    name : str
        By which plans are pickled. `title` (facts, options) says another one in statements.
    budget : mapping
        What the planner takes as a budget, each with its type: epsilon and delta, or less; others
        go to `search`. What may be None is None by default.
    search
        ``search(cost, public, epsilon, delta, **options)`` finds the dial with the least noise,
        where ``cost(dial)`` is what a dry run costs; ``cost(dial, name=value)`` with other options.
        What it names alone, by keyword, are options of the planner that `steps` does not take. A
        dial may say how many `n_rounds` there are.
    nominal : bool
        Noise is calibrated for epsilon, but the run may cost more; its plan says how much.
    check
        ``check(facts, options)`` gives the options as `steps` takes them, or refuses them.
    default_delta
        ``default_delta(facts, options)`` is delta where the caller gives none.
    predict
        ``predict(plan)``: what noise is expected to do, and in words what this number means.
    total
        ``total(plan)`` is what a plan costs, where it is not the ledger that adds it up.
    says
        ``says(plan, rows)`` gives the rows of the statement, perhaps with others among them.
    capability : str
        What the federation must offer.
    """

    name: str
    steps: Callable[..., Steps]
    budget: Mapping[str, Any] = field(default_factory=lambda: {"epsilon": Epsilon, "delta": Delta})
    search: Callable[..., Any] = least_noise
    nominal: bool = False
    check: Callable[[FederationFacts, Options], Options] = as_asked
    default_delta: Callable[[FederationFacts, Options], float] | None = None
    predict: Callable[[Plan], tuple[float | None, str]] | None = None
    total: Callable[[Plan], float] | None = None
    title: Callable[[FederationFacts, Options], str] | None = None
    says: Callable[[Plan, list[tuple[str, str]]], list[tuple[str, str]]] | None = None
    capability: str = "noisy_sum"

    def __post_init__(self) -> None:
        ALGORITHMS.setdefault(self.name, self)  # a cell may run twice

    def __reduce__(self) -> tuple[Any, ...]:
        if ALGORITHMS[self.name] is not self:
            raise TypeError(f"algorithm {self.name!r} has the name of another and is not pickled")
        return _by_name, (self.steps.__module__, self.name)

    @cached_property
    def _taken(self) -> dict[str, inspect.Parameter]:
        """The options of `steps`."""
        return _options(self.steps)

    def planner(self, name: str = "plan") -> Callable[..., Plan]:
        """The planner, a public function. **Its options are written at the generator**, `steps`.

        ``plan(federation, options by position, *, the first other option, budget, other options)``:
        options of `steps` as annotated there, then those of `search`; `plan??` shows `steps`, whose
        docstring says what a plan takes in place of `public` and of the dial.
        """
        known, searched = {*self._taken, *self.budget}, _options(self.search).values()
        own = [
            *self._taken.values(),
            *(p for p in searched if p.kind is p.KEYWORD_ONLY and p.name not in known),
        ]
        named = [one for one in own if one.kind is one.KEYWORD_ONLY]
        first = inspect.Parameter(
            "federation", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Federation
        )
        kinds = dict(self.budget)
        if self.default_delta is not None:
            kinds["delta"] |= None
        budget = [
            first.replace(
                name=n, kind=first.KEYWORD_ONLY, annotation=kind,
                default=None if NoneType in get_args(kind) else first.empty,
            )
            for n, kind in kinds.items()
        ]  # fmt: skip
        signature = inspect.Signature(
            [first, *own[: len(own) - len(named)], *named[:1], *budget, *named[1:]],
            return_annotation=Plan,
        )

        @wraps(self.steps)
        def made(*args: Any, **kwargs: Any) -> Plan:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}() {error}") from None
            bound.apply_defaults()
            options = bound.arguments
            federation = options.pop("federation")
            budget = {n: options.pop(n) for n in self.budget}
            return self.planned(federation, options, **budget)

        made.__signature__ = signature  # type: ignore[attr-defined]
        made.__annotations__ = {n: p.annotation for n, p in signature.parameters.items()}
        made.__name__ = made.__qualname__ = name
        return checked(made)

    def planned(
        self, federation: Federation, options: Options, *, epsilon: float | None = None,
        delta: float | None = None, dial: Any = None, **budget: Any,
    ) -> Plan:  # fmt: skip
        """The plan with the least noise that keeps (epsilon, delta), or the one with this `dial`.

        Without all of them there is no noise to choose. The dry run is made twice, the second time
        answered by noise and with other coins: what it asks for must be the same.
        """
        federation.require(self.capability)
        facts = federation.facts
        options = {n: frozen(v) for n, v in self.check(facts, dict(options)).items()}
        if delta is None:
            delta = self.default_delta(facts, options) if self.default_delta else 0.0
        taken = {n: v for n, v in options.items() if n in self._taken}
        forms: dict[Any, Any] = {}

        @lru_cache(maxsize=1)
        def draft(dial: Any, **other: Any) -> Plan:
            return self._dry(federation, delta, taken | other, forms, dial)

        if dial is None and self.budget:
            public = Public(facts, np.random.default_rng(0), dry=True)
            cost = lambda dial, **other: draft(dial, **other).total_epsilon  # noqa: E731
            dial = self.search(cost, public, epsilon, delta, **budget, **options)
        plan = draft(dial)
        noisy = self._dry(federation, delta, taken, forms, dial, np.random.default_rng(1))
        if (noisy.releases, noisy.parts) != (plan.releases, plan.parts):
            raise PlanMismatchError(
                f"what {self.name} asks for depends on answers, or on coins: a plan must hold for"
                " all of them"
            )
        changes: dict[str, Any] = {"epsilon": plan.total_epsilon if epsilon is None else epsilon}
        if epsilon is not None and plan.pure_epsilon <= epsilon * (1 + 1e-9) < math.inf:
            changes["delta"] = 0.0
        if self.nominal and plan.total_epsilon > (epsilon or 0.0) * (1 + 1e-9):
            changes["epsilon"] = plan.total_epsilon
        if self.predict is not None:
            error, what = self.predict(plan)
            changes |= {"predicted_error": error, "predicted_error_is": what}
        made = replace(plan, **changes)
        if made.delta == plan.delta:  # added up once
            vars(made)["total_epsilon"] = plan.total_epsilon
        return made.vouched()

    def _dry(
        self, federation: Federation, delta: float, options: Options, forms: dict[Any, Any],
        dial: Any, rng: np.random.Generator | None = None,
    ) -> Plan:  # fmt: skip
        """A run without rows; answered by zeros, or with `rng` by noise alone."""
        facts = federation.facts
        coins = np.random.default_rng(0 if rng is None else 1)  # the real ones are for the run
        public = Public(facts, coins, dry=True)
        session = Session(federation, public, rng=rng, forms=forms)
        with np.errstate(all="ignore"):
            drive(self.steps(public, dial, **options), session)
        title = self.name if self.title is None else self.title(facts, options)
        return Plan(
            method=title, n_clusters=options.get("n_clusters", 0), n_features=facts.n_features,
            n_rounds=getattr(dial, "n_rounds", session.n_rounds), epsilon=math.inf, delta=delta,
            facts=facts, releases=tuple(session.lines), parts=tuple(session.parts.items()),
            algorithm=self, dial=dial, given=tuple(options.items()), sent=tuple(session.sent),
        )  # fmt: skip


def _options(function: Any) -> dict[str, inspect.Parameter]:
    """What a generator takes after public facts and dial, each with its type.

    The ``**options`` of one that wraps another are those of that one.
    """
    hints = get_type_hints(function, function.__globals__, include_extras=True)
    inner = getattr(function, "__wrapped__", None)
    own = list(inspect.signature(function, follow_wrapped=False).parameters.values())[2:]
    named = [
        p.replace(annotation=hints.get(p.name, Any)) for p in own if p.kind is not p.VAR_KEYWORD
    ]
    return ({} if inner is None else _options(inner)) | {p.name: p for p in named}


def _by_name(module: str, name: str) -> Algorithm:
    importlib.import_module(module)
    return ALGORITHMS[name]
