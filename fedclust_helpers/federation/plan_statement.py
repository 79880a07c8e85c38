"""Privacy statements as (heading, text) pairs: those of a plan, and how pairs are shown."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from fedclust_helpers.accounting import Sampling, most_right

Pairs = list[tuple[str, str]]
NOUNS = {"point": "row", "client": "client", "person": "person"}


def as_text(pairs: Sequence[tuple[str, str]]) -> str:
    """One line for each pair, texts in a column."""
    width = max(len(heading) for heading, _ in pairs)
    return "\n".join(f"{heading:<{width}}  {text}" for heading, text in pairs)


def as_html(pairs: Sequence[tuple[str, str]]) -> str:
    """A table of the pairs."""
    cells = "".join(
        f"<tr><th style='text-align:left;white-space:nowrap'>{html.escape(heading)}</th>"
        f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
        for heading, text in pairs
    )
    return f"<table>{cells}</table>"


def pairs_of(plan: Any) -> Pairs:
    """What every plan says: its cost, who sees what, each release, and what is sent for it."""
    f = plan.facts
    mode = "secure mode" if f.mode == "secure" else "teaching mode: private against nobody who"
    plural = "" if plan.n_rounds == 1 else "s"
    private = math.isfinite(plan.epsilon) and not f.public_data
    pairs = [
        ("method", f"{plan.method}, {plan.n_rounds} round{plural}"),
        ("protects", f"one {NOUNS[f.unit]}, {f.adjacency} neighbours"),
        (
            "guarantee",
            "none: exact values are released"
            if not math.isfinite(plan.epsilon)
            else "none: the data were declared public, and what was read off them is exact"
            if f.public_data
            else f"epsilon = {plan.epsilon:.6g} at delta = {plan.delta:.3g}"
            f" (the releases below{' and all repeats' * bool(f.repeats)} add up to"
            f" {plan.total_epsilon:.6g})",
        ),
        *([("means", _means(plan)), ("holds", _holds(plan))] if private else []),
        ("trust", f"{f.trust}, {mode}{'' if f.mode == 'secure' else ' knows the seed'}"),
        *((f"{who} see{'' if who.endswith('s') else 's'}", what) for who, what in f.sees),
        ("noise", f"{f.noise}, added by {f.noise_from}"),
        ("public", _public(plan)),
    ]
    if private and _is_large(plan):
        pairs.append((
            "WARNING", f"delta = {plan.delta:.3g} is above a tenth of one over the {f.n_units:,}"
            " that are protected: a method that publishes one of them now and then would keep it",
        ))  # fmt: skip
    if f.may_miss:
        pairs.append(("missing", _missing(plan)))
    same = groupby(plan.releases, key=lambda r: (r.name, r.mechanisms, r.sampling, r.part))
    pairs += [_of_rounds(list(releases)) for _, releases in same]
    if plan.n_bytes:
        schemes = {r.sampling.scheme for r in plan.releases if r.sampling}
        drawn = " drawn" if schemes and f.clients_send else ""
        drawn += " (expected)" if drawn and "poisson" in schemes else ""
        pairs.append(("wire", f"{plan.n_bytes:,} bytes {f.wire}{drawn}"))
    if plan.predicted_error is not None:
        pairs.append(("predicted", f"{plan.predicted_error:.4g} {plan.predicted_error_is}"))
    return pairs


def _means(plan: Any) -> str:
    """Epsilon in odds: the ceiling for who tells two neighbours apart, each as likely before."""
    right = min(math.ceil(1000 * most_right(plan.epsilon, plan.delta)) / 10, 100.0)
    return (
        f"an attacker who knows everything else is right at most {right:g} % of the time about one"
        f" {NOUNS[plan.facts.unit]} (a coin: 50 %)"
    )


def _holds(plan: Any) -> str:
    """Who may pool what they know, and what is left against one more."""
    f = plan.facts
    if f.max_colluding is None:
        return f.pooling
    left = f"epsilon = {plan.epsilon_against_more:.5g} is left" if f.n_honest > 1 else ""
    who, own = "clients", "share of the noise"
    if f.noise != "distributed":
        who, own = "users", "report"
    if not f.max_colluding:
        return (
            f"against nobody who takes part (max_colluding is 0): each of the {who} knows its own"
            f" {own}, and against one of them {left}"
        )
    if not left:
        return f"however many {who} pool what they know: each {own} hides its sum alone"
    text = f"while at most {f.max_colluding} of the {f.n_clients} {who} pool what they know"
    if not f.pooling:
        return f"{text}; against one more {left}"
    return (
        f"{text}, and {f.pooling} joins none of them; against one more of the {who} {left}, and"
        f" against {f.pooling} with one of them epsilon = {plan.epsilon_of(1):.5g}"
    )


def _is_large(plan: Any) -> bool:
    """Whether delta is above a tenth of 1/N, and not 1/(N ln N), the default of most methods."""
    n = plan.facts.n_units
    usual = n > 1 and math.isclose(plan.delta, 1 / (n * math.log(n)))
    return plan.delta > 0.1 / n and not usual


def _public(plan: Any) -> str:
    f = plan.facts
    texts = [f"{f.n_clients} clients"]
    if not (f.unit == "client" and f.n_records == f.n_clients):  # else no release needs records
        texts.append(f"{f.n_records} records (or bounds of these)")
    texts.append(f"{f.n_features} features")
    texts.append("rows as they are" if f.domain == "raw" else f"{f.domain} of size {f.bound:g}")
    return ", ".join([*texts, *([f"{plan.n_clusters} clusters"] if plan.n_clusters else [])])


def _missing(plan: Any) -> str:
    """What happens when clients are missing, and what being ready for it costs."""
    f = plan.facts
    text = f"up to {f.may_miss} of {f.n_clients} clients in each release"
    if f.noise == "distributed":
        text += (
            f" (a share of the noise is sized for {f.n_honest}: with everybody there a sum has"
            f" {f.more_noise:.3g} times the noise below)"
        )
    if not f.repeats:
        return text + "; no repeat is reserved: who begins a round has to end it"
    alone = plan.record(repeats=False).epsilon(plan.delta)
    plural = "" if f.repeats == 1 else "s"
    return text + (
        f"; {f.repeats} repeat{plural} reserved for rounds that are asked of a second set of"
        " clients, each charged like the costliest release (without repeats: epsilon ="
        f" {alone:.6g})"
    )


def _of_rounds(releases: Sequence[Any]) -> tuple[str, str]:
    """Releases that differ by their round alone."""
    first, last = releases[0], releases[-1]
    rounds = f"round {first.round}" + (f" to {last.round}" if len(releases) > 1 else "")
    who = "" if first.part is None else f", users of part {first.part!r}"
    drawn = "" if first.sampling is None else f", {_drawn(first.sampling, first.amplified)}"
    each = zip(first.parts, first.mechanisms, strict=False)
    noise = "; ".join(f"{part}: {_noise(mechanism)}" for part, mechanism in each)
    return rounds, f"{first.name.replace('_', ' ')}{who}{drawn}: {noise}"


def _drawn(sampling: Sampling, amplified: bool) -> str:
    how = (
        f"each client with probability {sampling.rate:g}"
        if sampling.scheme == "poisson"
        else f"{sampling.size} of {sampling.population} clients"
    )
    return how + ("" if amplified else " (not counted)")


def _noise(mechanism: Any) -> str:
    std, sensitivity = getattr(mechanism, "std", None), getattr(mechanism, "sensitivity", None)
    name = type(mechanism).__name__
    if std == 0 or not isinstance(std, float | int):  # a randomised response has no one std
        pure = mechanism.pure_epsilon
        return f"{name}" + (f", epsilon {pure:.4g}" if math.isfinite(pure) else "")
    return f"{name}, std {std:.4g}, hides {sensitivity:.4g} (L{mechanism.norm})"
