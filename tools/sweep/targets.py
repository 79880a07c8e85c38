"""The public callables of the library, and how calls of them are watched."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "fedclust_helpers"
# people look at what these make, or read tables with them: not the library
INTERNAL = frozenset({
    # parts of one computation that two modules share: their callers have checked everything
    "kmeans.add_block", "kmeans.client_blocks", "kmeans.moderate_points",
    "ldp_kmeans.projections.scale_of",
    # records that the package makes and people read: what makes them has checked everything
    "accounting.releases.Release", "audit.canary.CanaryAudit", "audit.noise_scale.QueryNoise",
    "audit.noise_scale.NoiseScaleAudit", "audit.sensitivity.SensitivityAudit",
    "audit.low_bits.LowBitsAudit", "federation.plan.FederationFacts",
    "federation.transcript.Message", "federation.plan.Plan",
    "federation.plan.RunResult", "federation.randomness.Randomness", "federation.base.InProcess",
    "secure_aggregation.KeyMessage", "secure_aggregation.GroupKeys",
    "fastlloyd.planning.LloydPlan", "fastlloyd.algorithm.LloydResult",
    "estimators.statement.Statement",
    "feddp_kmeans.running.FedDPResult", "feddp_kmeans.planning.FedDPPlan",
    "feddp_kmeans.planning.ServerPlan", "feddp_kmeans.adaptive.AdaptivePlan",
    "feddp_kmeans.baselines.LloydsPlan", "rr_cluster.planning.TrainingPlan",
    "rr_cluster.planning.TrainingResult", "rr_cluster.plans.RebalancingPlan",
    "rr_cluster.sums_only.SumsPlan", "rr_cluster.sums_only.SharedPlan",
    "ldp_kmeans.results.LdpResult", "datasets._files.RegistryEntry",
    "feddp_kmeans.algorithm.InitResult",
    "feddp_kmeans.algorithm.WeightedPoints", "ldp_kmeans.heavy_cells.CellLevel",
    "ldp_kmeans.heavy_cells.ChosenCells", "ldp_kmeans.heavy_cells.HeavyCells",
    "rr_cluster.evaluation.Evaluation", "rr_cluster.planning.Setting",
    "accounting.ledger.Reservation",
})  # fmt: skip
# packages offer names of their modules; these modules are offered whole
WHOLE = frozenset({
    "federation.reports",
    "ldp_kmeans.frequency_oracles", "ldp_kmeans.grids", "ldp_kmeans.local_randomizers",
    "ldp_kmeans.lsh", "ldp_kmeans.projections", "ldp_kmeans.vector_sums",
})  # fmt: skip
LEFT_OUT = ("command", "studies")  # a command says what is wrong by its exit code


@dataclass(frozen=True)
class Target:
    """One public callable: `name` without the package, `call` as a user calls it.

    For a method `call` is the plain function; its first argument (`bound`) is the object or class.
    """

    name: str
    call: Callable[..., Any]
    signature: inspect.Signature
    bound: bool
    doc: str = ""

    @property
    def group(self) -> str:
        """The first-level module that it belongs to."""
        return self.name.split(".")[0]


def library_modules() -> list[ModuleType]:
    """All modules of the library, private ones included, imported."""
    folder = Path(str(importlib.import_module(PACKAGE).__file__)).parent
    names = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if parts[-1] != "__main__" and parts[1:2] not in [(word,) for word in LEFT_OUT]:
            names.append(".".join(parts))
    found = []
    for name in names:
        try:
            found.append(importlib.import_module(name))
        except ImportError:  # an extra that is not installed here
            continue
    return found


def _is_public(module: ModuleType, name: str, value: Any, exported: set[int]) -> bool:
    if getattr(value, "__module__", None) != module.__name__ or name.startswith("_"):
        return False
    # what a package offers by name; all of a module that is on the first level, or offered itself
    parts = module.__name__.split(".")[1:]
    whole = not parts[-1].startswith("_") and (
        len(parts) == 1 or ".".join(parts) in WHOLE or id(module) in exported
    )
    return id(value) in exported or (whole and not hasattr(module, "__path__"))


def _exported(modules: list[ModuleType]) -> set[int]:
    """Objects that some package offers by name."""
    return {
        id(value)
        for module in modules
        if hasattr(module, "__path__")
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }


def _constructs(cls: type) -> bool:
    """Whether calling the class is worth a look."""
    plain = cls.__init__ is object.__init__
    if {"Plan", "RunResult"} & {base.__name__ for base in cls.__mro__}:
        return False  # made by a planner or a run, which check what they are given
    special = getattr(cls, "_is_protocol", False) or issubclass(cls, BaseException | tuple)
    return not plain and not special and not inspect.isabstract(cls)


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def public_targets() -> Iterator[tuple[Target, Callable[[Callable[..., Any]], None]]]:
    """Every target, with a function that puts a watched version in its place."""
    modules = library_modules()
    exported = _exported(modules)
    seen_classes: set[type] = set()
    for module in modules:
        prefix = module.__name__.removeprefix(PACKAGE).lstrip(".")
        for name, value in list(vars(module).items()):
            if f"{prefix}.{name}" in INTERNAL and inspect.isfunction(value):
                continue
            if inspect.isfunction(value) and _is_public(module, name, value, exported):
                signature = _signature(value)
                if signature is not None:
                    doc = inspect.getdoc(value) or ""
                    yield (
                        Target(f"{prefix}.{name}", value, signature, False, doc),
                        functools.partial(_replace_function, value),
                    )
            elif inspect.isclass(value) and _is_public(module, name, value, exported):
                yield from _class_targets(prefix, value, seen_classes)


def _class_targets(
    prefix: str, cls: type, seen: set[type]
) -> Iterator[tuple[Target, Callable[[Callable[..., Any]], None]]]:
    if getattr(cls, "_is_protocol", False) or issubclass(cls, BaseException):
        return
    seen.add(cls)
    doc = inspect.getdoc(cls) or ""
    if _constructs(cls) and f"{prefix}.{cls.__name__}" not in INTERNAL:
        init = cls.__init__  # type: ignore[misc]
        signature = _signature(init)
        if signature is not None:
            target = Target(f"{prefix}.{cls.__name__}", cls, signature, False, doc)
            yield target, functools.partial(_replace_init, cls, init)
    # the methods of the class, and those of its private bases, which no other target has
    owners = [cls] + [
        b for b in cls.__mro__[1:]
        if b.__module__.startswith(PACKAGE) and b.__name__.startswith("_") and b not in seen
    ]  # fmt: skip
    for owner in owners:
        seen.add(owner)
        for name, member in list(vars(owner).items()):
            plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if not inspect.isfunction(plain) or (name.startswith("_") and name != "__call__"):
                continue
            signature = _signature(plain)
            if signature is None:
                continue
            bound = not isinstance(member, staticmethod)
            if len(signature.parameters) <= bound:
                continue  # nothing to change
            text = f"{inspect.getdoc(plain) or ''}\n{doc}"
            target = Target(f"{prefix}.{cls.__name__}.{name}", plain, signature, bound, text)
            yield target, functools.partial(_replace_member, owner, name, member)


def _replace_function(original: Callable[..., Any], watched: Callable[..., Any]) -> None:
    for module in list(sys.modules.values()):
        if not getattr(module, "__name__", "").startswith(PACKAGE):
            continue
        for name, value in list(vars(module).items()):
            if value is original:
                setattr(module, name, watched)


def _replace_init(cls: type, original: Callable[..., Any], watched: Callable[..., Any]) -> None:
    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if type(self) is cls:
            watched.around(args, kwargs, lambda: original(self, *args, **kwargs))  # type: ignore[attr-defined]
        else:
            original(self, *args, **kwargs)

    cls.__init__ = init  # type: ignore[misc]


def _replace_member(owner: type, name: str, member: Any, watched: Callable[..., Any]) -> None:
    kind = type(member) if isinstance(member, classmethod | staticmethod) else None
    setattr(owner, name, watched if kind is None else kind(watched))


Around = Callable[[Target, tuple[Any, ...], dict[str, Any], Callable[[], Any]], Any]


def watch_all(around: Around) -> list[Target]:
    """Make every call of a public callable pass through ``around(target, args, kwargs, proceed)``.

    It must return what ``proceed()`` returns.
    """
    targets = []
    for target, replace in list(public_targets()):
        replace(_watched(target, around))
        targets.append(target)
    return targets


def _watched(target: Target, around: Around) -> Callable[..., Any]:
    @functools.wraps(target.call, updated=() if inspect.isclass(target.call) else ("__dict__",))
    def watched(*args: Any, **kwargs: Any) -> Any:
        return around(target, args, kwargs, lambda: target.call(*args, **kwargs))

    watched.around = functools.partial(around, target)  # type: ignore[attr-defined]
    return watched
