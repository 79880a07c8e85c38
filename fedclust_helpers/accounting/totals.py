"""What a list of releases costs together: closed forms where exact, the library elsewhere."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from fedclust_helpers._lazy import dpa
from fedclust_helpers.accounting.conversions import gdp_delta, gdp_epsilon, zcdp_epsilon
from fedclust_helpers.accounting.discrete import Gap, delta_across, epsilon_across
from fedclust_helpers.accounting.entries import Entry, added, compose, for_rdp, relation, squared
from fedclust_helpers.accounting.renyi import ORDERS, sampled_rdp
from fedclust_helpers.accounting.search import safe_root
from fedclust_helpers.accounting.shuffling import Shuffled

RDP_ORDERS = (
    tuple(1 + x / 10 for x in range(1, 100))
    + tuple(map(float, range(11, 64)))
    + (128.0, 256.0, 512.0)
)
Method = Literal["auto", "gdp", "zcdp", "pld", "rdp", "pure"]
FINEST_STEP, LOSS_AT_FINEST = 1e-4, 5.0  # grid of privacy loss, up to this loss; then coarser
FINE = 1e-6  # a gap of this share of epsilon does not decide between two bounds
LARGEST_LOSS = 100.0  # a total beyond is not told apart by PLD: Renyi orders and closed forms do


def split_of(group: str) -> str:
    """The division of the records that a group label belongs to ("" if it names none)."""
    return group.rpartition("/")[0]


def streams(releases: Sequence[Entry]) -> list[list[Entry]]:
    """Releases that compose sequentially: one list for each set of groups that may overlap."""
    groups = sorted({r.group for r in releases if r.group is not None})
    # what a group was asked (all that decides its cost): groups that were asked the same count
    # once, and so do choices (a part of each split) that were asked the same in another order
    asked_of = {
        g: tuple((r.mechanisms, r.sampling) for r in releases if r.group == g) for g in groups
    }
    overlaps: dict[frozenset[Any], frozenset[str]] = {frozenset(): frozenset()}
    for split in {split_of(g) for g in groups}:
        choices = {asked_of[g]: g for g in groups if split_of(g) == split}
        overlaps = {
            frozenset((Counter(dict(asked)) + Counter([more])).items()): chosen | {g}
            for asked, chosen in overlaps.items()
            for more, g in choices.items()
        }
    return [[r for r in releases if r.group is None or r.group in s] for s in overlaps.values()]


def total_mu(stream: Sequence[Entry]) -> float | None:
    """Joint mu of releases that compose sequentially, or None if one is not Gaussian."""
    square = added(squared(r.gdp_mu) for r in stream)
    return None if square is None else math.sqrt(square)


def total_epsilon(releases: Sequence[Entry], delta: float, method: Method = "auto") -> float:
    """Total epsilon at `delta` of releases fixed in advance; see `PrivacyLedger.epsilon`."""
    if not releases:
        return 0.0
    if delta == 0 or method == "pure":
        return max(math.fsum(r.pure_epsilon for r in s) for s in streams(releases))
    return max(_stream_epsilon(stream, delta, method) for stream in streams(releases))


def total_delta(releases: Sequence[Entry], epsilon: float) -> float:
    """Total delta at `epsilon` of releases fixed in advance (1 if not private)."""
    return max((_stream_delta(stream, epsilon) for stream in streams(releases)), default=0.0)


def _stream_epsilon(stream: list[Entry], delta: float, method: str) -> float:
    """The smaller bound: of the noise as it is, or of the continuous noise it is close to.

    On a fine grid the second is not above the first, which then need not be computed.
    """
    twins, gap = _continuous(stream)
    if method != "auto" or gap == Gap():
        return _as_it_is(stream, delta, method)
    near = epsilon_across(gap, delta, lambda at: _as_it_is(twins, at, "auto"))
    known = all(m.rho is None or m.gdp_mu is not None for r in twins for m in r.mechanisms)
    if known and gap.up < FINE * min(near, 1.0) and all(r.sampling is None for r in stream):
        return near
    return min(near, _as_it_is(stream, delta, method))


def _continuous(stream: Sequence[Entry]) -> tuple[list[Entry], Gap]:
    """The releases with continuous noise where the gap is known, and the gap of all."""
    pairs = [r.continuous() for r in stream]
    return [twin for twin, _ in pairs], Gap.sum(gap for _, gap in pairs)


def _as_it_is(stream: list[Entry], delta: float, method: str) -> float:
    if not stream:
        return 0.0
    for name, accountant in ACCOUNTANTS.items():
        if method in ("auto", name):
            known = accountant.known(stream)
            if known is not None:
                return accountant.epsilon(known, delta)
    if method in ACCOUNTANTS:
        raise ValueError(f"method {method!r} needs Gaussian releases without sampling only")
    return math.inf if _exact(stream) else _library_epsilon(stream, delta, method)


def _bounds(stream: Sequence[Entry], delta: float) -> list[float]:
    """Two bounds of every total: epsilons added up at delta = 0, and basic composition."""
    return [math.fsum(r.pure_epsilon for r in stream), _basic_epsilon(stream, delta)]


def _renyi_epsilon(stream: Sequence[Entry], delta: float) -> float:
    renyi, _ = dpa.rdp.rdp_privacy_accountant.compute_epsilon(*_renyi_curve(stream), delta)
    return min(*_bounds(stream, delta), float(renyi))


def _renyi_delta(stream: Sequence[Entry], epsilon: float) -> float:
    renyi, _ = dpa.rdp.rdp_privacy_accountant.compute_delta(*_renyi_curve(stream), epsilon)
    return min(1.0, float(renyi))


def _least_epsilon(stream: Sequence[Entry], delta: float) -> float:
    """By the library's accountants, or a bound that is smaller."""
    bounds = _bounds(stream, delta)
    # the library's grids of privacy loss grow with the loss: far out Renyi orders must do
    sampled = any(r.sampling is not None for r in stream)
    loss = max(_basic_epsilon([r], delta) for r in stream) if sampled else min(bounds)
    if loss > LARGEST_LOSS:
        return min(*bounds, _library_epsilon(stream, delta, "rdp"))
    step = FINEST_STEP if sampled else _step(stream)
    return min(*bounds, _library_epsilon(stream, delta, "auto", step))


def _step(stream: Sequence[Entry]) -> float:
    """Step of the grid of privacy loss: about as many steps for large losses as for small ones.

    The loss of a mechanism is rounded up by at most one step: 2e-5 of the largest loss that the
    grid must hold.
    """
    spread = _basic_epsilon(stream, 1e-10)
    if not math.isfinite(spread):
        return FINEST_STEP
    return FINEST_STEP * 2.0 ** max(0, math.ceil(math.log2(max(spread, 1e-9) / LOSS_AT_FINEST)))


def _stream_delta(stream: list[Entry], epsilon: float) -> float:
    """The smallest bound, as in `_stream_epsilon`."""
    twins, gap = _continuous(stream)
    known = _delta_as_it_is(stream, epsilon)
    if known == 0 or gap == Gap():
        return known
    return min(known, delta_across(gap, epsilon, lambda at: _delta_as_it_is(twins, at)))


def _delta_as_it_is(stream: list[Entry], epsilon: float) -> float:
    if math.fsum(r.pure_epsilon for r in stream) <= epsilon:
        return 0.0
    known = ((accountant.delta, accountant.known(stream)) for accountant in ACCOUNTANTS.values())
    return next(delta(it, epsilon) for delta, it in known if delta is not None and it is not None)


def _library_delta(stream: Sequence[Entry], epsilon: float) -> float:
    method, step = "auto", FINEST_STEP
    if not any(r.sampling is not None for r in stream):
        loss, step = _basic_epsilon(stream, 1e-9), _step(stream)
        if math.isinf(loss):
            loss = math.fsum(r.pure_epsilon for r in stream)
        if LARGEST_LOSS < loss < math.inf:
            method = "rdp"
    accountant = _accountant(compose(stream), stream[0].adjacency, method, step)
    return float(accountant.get_delta(epsilon))


def _crowds(release: Entry) -> list[Shuffled]:
    """The shuffled sets among the mechanisms of a release."""
    return [m for m in release.mechanisms if isinstance(m, Shuffled)]


def _shuffled_epsilon(stream: Sequence[Entry], delta: float) -> float:
    """Basic composition with shuffled sets: epsilons add up, each at an equal share of delta.

    What was released without a shuffler counts as one more, by its own accountants.
    """
    crowds = [m for r in stream for m in _crowds(r)]
    rest = [r for r in stream if not _crowds(r)]
    share = delta / (len(crowds) + bool(rest))
    return math.fsum(m.epsilon(share) for m in crowds) + _stream_epsilon(rest, share, "auto")


def _shuffled_delta(stream: Sequence[Entry], epsilon: float) -> float:
    """The smallest delta at which `_shuffled_epsilon` is `epsilon`, to a millionth of itself."""
    crowds = [m for r in stream for m in _crowds(r)]
    if len(stream) == len(crowds) == 1:
        return crowds[0].delta(epsilon)

    def excess(log_delta: float) -> float:
        return _shuffled_epsilon(stream, math.exp(log_delta)) - epsilon

    least = -690.0
    if excess(least) > 0:
        least = safe_root(excess, 0.0, least, xtol=1e-6, smooth=False)
    return math.exp(least)


def _exact(stream: Sequence[Entry]) -> bool | None:
    """True if something was released without noise, else None."""
    nothing = dpa.NonPrivateDpEvent
    return any(isinstance(m.dp_event(), nothing) for r in stream for m in r.mechanisms) or None


def _basic_epsilon(stream: Sequence[Entry], delta: float) -> float:
    """Basic composition of the Gaussian part, at `delta` by GDP or zCDP, and the pure part, at 0.

    Sampling is ignored, which is an upper bound.
    """
    mechanisms = [m for r in stream for m in r.mechanisms]
    gaussian = [m for m in mechanisms if m.rho is not None]
    rho = added(m.rho for m in gaussian) or 0.0
    pure = math.fsum(m.pure_epsilon for m in mechanisms if m.rho is None)
    if not math.isfinite(rho + pure):
        return math.inf
    square = added(squared(m.gdp_mu) for m in gaussian)
    if gaussian and square is not None:
        return pure + gdp_epsilon(math.sqrt(square), delta)
    return pure + zcdp_epsilon(rho, delta)


def _renyi_curve(stream: Sequence[Entry]) -> tuple[list[float], list[float]]:
    """Integer orders and total Renyi divergences, sampled discrete noise by `renyi`."""
    total = np.zeros(len(ORDERS))
    drawn = Counter((r.sampling, r.sampled_rho) for r in stream if r.sampled_rho is not None)
    for (sampling, rho), count in drawn.items():
        assert sampling is not None and rho is not None
        total += count * np.array(sampled_rdp(sampling.scheme, rho, sampling.share, ORDERS))
    rest = [r for r in stream if r.sampled_rho is None]
    if rest:
        accountant = dpa.rdp.RdpAccountant(ORDERS, relation(rest[0].adjacency))
        event = for_rdp(compose(rest))
        if not accountant.supports(event):  # sampled Laplace noise, say: the other bounds remain
            return [float(a) for a in ORDERS], [math.inf] * len(ORDERS)
        accountant.compose(event)
        total += np.asarray(accountant.rdp)
    return [float(a) for a in ORDERS], [float(x) for x in total]


def _library_epsilon(
    stream: Sequence[Entry], delta: float, method: str, step: float = FINEST_STEP
) -> float:
    accountant = _accountant(compose(stream), stream[0].adjacency, method, step)
    return float(accountant.get_epsilon(delta))


class Accountant(NamedTuple):
    """One way to add up releases that compose sequentially.

    `known` is what it needs to know of them, None where it does not cover them; `epsilon` and
    `delta` take that, and a delta or an epsilon.
    """

    known: Callable[[list[Entry]], Any]
    epsilon: Callable[[Any, float], float]
    delta: Callable[[Any, float], float] | None


ACCOUNTANTS: dict[str, Accountant] = {
    "gdp": Accountant(total_mu, gdp_epsilon, gdp_delta),
    "zcdp": Accountant(lambda s: added(r.rho for r in s), zcdp_epsilon, None),
    "exact": Accountant(_exact, lambda _, delta: math.inf, lambda _, epsilon: 1.0),
    "shuffled": Accountant(
        lambda s: s if any(map(_crowds, s)) else None,
        lambda s, delta: min(math.fsum(r.pure_epsilon for r in s), _shuffled_epsilon(s, delta)),
        _shuffled_delta,
    ),
    "sampled": Accountant(
        lambda s: s if any(r.sampled_rho is not None for r in s) else None,
        _renyi_epsilon, _renyi_delta,
    ),
    "library": Accountant(lambda s: s, _least_epsilon, _library_delta),
}  # fmt: skip
"""The first that covers the releases adds them up: the closed forms are exact."""


class _Key:
    """An event as a key of the cache: events hold lists, so that they have no hash of their own."""

    def __init__(self, event: dpa.DpEvent) -> None:
        self.event, self._text = event, repr(event)

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._text == other._text


def _accountant(
    event: dpa.DpEvent, adjacency: str, method: str = "auto", step: float = FINEST_STEP
) -> dpa.PrivacyAccountant:
    """The accountant of ``dp-accounting`` that bounds `event`: "pld", "rdp", or the first of them.

    PLD always works in its own add/remove convention. Our noise multipliers are relative to the
    sensitivity in the ledger's adjacency, so an unsampled event is the same pair of distributions
    under both; for replace-one the library would double a Gaussian's sensitivity once more. It has
    no PLD for sampling without replacement, and Poisson sampling is kept for add/remove only.
    """
    return _made(_Key(event), adjacency, method, step)


@lru_cache(maxsize=64)
def _made(key: _Key, adjacency: str, method: str, step: float) -> dpa.PrivacyAccountant:
    event = key.event
    if method in ("auto", "pld"):
        accountant: dpa.PrivacyAccountant = dpa.pld.PLDAccountant(
            value_discretization_interval=step
        )
        if accountant.supports(event):
            return accountant.compose(event)
    if method in ("auto", "rdp"):
        accountant = dpa.rdp.RdpAccountant(RDP_ORDERS, relation(adjacency))
        if accountant.supports(event := for_rdp(event)):
            return accountant.compose(event)
    raise ValueError(f"dp-accounting does not support this ledger under {adjacency} by {method!r}")
