"""The privacy statement of a fit: what was protected, by what, from whom, and what is left.

It is public as a whole. Bytes are those of the plan: the bytes of a run would tell how many clients
of a hidden cohort took part. What its JSON holds is said in statement.schema.json.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from fedclust.estimators.page import ONE_ROW, page
from fedclust.frames import as_word
from fedclust_helpers._private import write_private
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.accounting import PrivacyLedger, zcdp_epsilon
from fedclust_helpers.accounting.entries import added
from fedclust_helpers.federation import Plan
from fedclust_helpers.federation.plan_statement import as_html, as_text
from fedclust_helpers.program import Run

ACCOUNTANTS = {
    "gdp": "Gaussian differential privacy, exact",
    "near": "Gaussian differential privacy, with the proved gap of discrete noise",
    "zcdp": "zero-concentrated bound of discrete Gaussian noise",
    "renyi": "Renyi curves, sampling counted",
    "wor_rdp": "Renyi curves of cohorts of fixed size",
    "poisson_rdp": "Renyi curves of Poisson cohorts",
    "shuffled": "shuffled reports, computed: the smaller of the privacy blanket (Balle, Bell,"
    " Gascon, Nissim 2019) and clones (Feldman, McMillan, Talwar 2021)",
    "pure": "pure: epsilons of one user's answers added up",
    "bounds": "smallest of several proved bounds (privacy loss distributions, Renyi curves)",
    "none": "none: exact values are released",
}
PLAYED = "in one process that holds all rows; who sees what is said of parties on machines apart"


@dataclass(frozen=True, eq=False, repr=False)
class Statement:
    """A privacy statement; prints as text and shows as a table in Jupyter.

    Attributes
    ----------
    facts : mapping
        What it says, as JSON: see statement.schema.json.

    Examples
    --------
    >>> import numpy as np
    >>> from fedclust import PrivateKMeans
    >>> model = PrivateKMeans(2, 1.0, 1e-6, bounds=(0, 10), mode="teaching", seed=0)
    >>> statement = model.preview([np.zeros((600, 2)), np.zeros((600, 2))])
    >>> [heading for heading, _ in statement.rows()][:3]
    ['first of all', 'method', 'chosen']
    """

    facts: Mapping[str, Any]

    def rows(self) -> list[tuple[str, str]]:
        """The statement as (heading, text) pairs."""
        f = self.facts
        rows = [(str(heading), str(text)) for heading, text in f["plan"]]
        if f.get("chosen_for") is not None:
            rows.insert(1, ("chosen", str(f["chosen_for"])))
        if f["charged"] is None and f["unit"] == "point":
            rows.insert(0, ("first of all", f"is a person one row? {ONE_ROW}"))
        if f.get("found") is not None:
            rows.append(("clusters", str(f["found"])))
        rows.append(("accountant", f["accountant"]))
        rows.append(("played", str(f.get("played", PLAYED))))
        low, high = f["lower"], f["upper"]
        names = f["columns"] or [f"column {i}" for i in range(f["n_features"])]
        each = zip(names, low, high, strict=False)
        shown = [f"{name} {_end(a, b)} to {_end(b, a)}" for name, a, b in each]
        if len(shown) > 8:
            shown[7:] = [f"and {len(shown) - 7} more"]
        wider = ", moved apart by weights" * (len(set(f.get("weights") or ())) > 1)
        known = [
            f["bounds_from"] + wider,
            *(["; ".join(shown)] if shown else []),
        ]  # none yet in a preview
        rows.append(("bounds", ": ".join(known)))
        if len(f.get("weights") or ()) > 1:
            rows.append(("columns", _columns(f, names)))
        rows.append(("stays local", f["local"]))
        if f.get("batches") is not None:
            rows.append(("charged", "by the fit of each batch, as said above; nothing since"))
        elif f["charged"] is None:
            rows.append(("charged", "nothing yet: this is a preview"))
        else:
            rows.append(("charged", _charged(f)))
        if f["budget"] is not None:
            b = f["budget"]
            rows.append((
                "budget", f"epsilon = {b['epsilon']:g} at delta = {b['delta']:.3g} (filter"
                f" {b['filter']}): {b['left']:.1%} left",
            ))  # fmt: skip
        rows += [("WARNING", text) for text in f["warnings"]]
        return rows

    def page(self) -> str:
        """One HTML page without scripts, for an ethics board, say: the same in whole sentences."""
        return page(self.facts, self.rows())

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the `page` to a file that ends in .html, for this account alone.

        FileExistsError if `path` exists, unless `overwrite`.
        """
        if Path(path).suffix != ".html":
            raise ValueError("path must end in .html")
        if not overwrite and Path(path).exists():
            raise FileExistsError(
                f"path {Path(path).name} exists already: overwrite=True replaces it"
            )
        write_private(Path(path), self.page())

    def __str__(self) -> str:
        return as_text(self.rows())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self.rows())


def _columns(f: Mapping[str, Any], names: Sequence[Any]) -> str:
    """What each column may carry of a distance, by public numbers alone."""
    weights = np.asarray(f["weights"])
    share = weights**2 / (weights**2).sum()
    of = "of the largest squared distance in the box"
    if (weights == weights[0]).all():
        return (
            f"each of {len(weights)} carries up to {share[0]:.2g} {of}, and less the closer its"
            " rows lie together within its bounds; weights= changes that"
        )
    order = np.argsort(-share, kind="stable")[:8]
    each = [f"{names[i]} up to {share[i]:.2g} (weight {weights[i]:g})" for i in order]
    more = f"; and {len(share) - 8} more" * (len(share) > 8)
    return f"share {of}: {'; '.join(each)}{more}"


def _charged(f: Mapping[str, Any]) -> str:
    spent = f["charged"]

    def total(value: float | None) -> str:
        return "infinite" if value is None else f"{value:.6g}"

    text = f"epsilon = {total(spent['epsilon'])} at delta = {f['delta']:.3g} by this fit"
    if spent["ledger_releases"] > spent["releases"]:
        text += f"; {total(spent['ledger_epsilon'])} by all fits on its ledger"
        if spent["ledger_epsilon"] is None and spent["epsilon"] is not None:
            text += ", at this delta"
    return text


def statement_of(
    estimator: str, plan: Plan, box: tuple[FloatArray, FloatArray] | None, *, columns: Any,
    warnings: Sequence[str], ledger: PrivacyLedger, bounds_from: str,
    chosen_for: str | None = None, weights: Any = None, local: str = "",
    result: Run | None = None,
) -> Statement:  # fmt: skip
    """The statement of a plan, and of its run where there was one; `box` None: not known yet."""
    f, said = plan.facts, plan.statement()
    told = [text for text in warnings if ("WARNING", text) not in said]
    lower, upper = ([], []) if box is None else box
    if f.public_data:
        told.append("no privacy: bounds were read off the data, as only public data may be treated")
    elif result is not None and result.warning:
        told.append(result.warning)
    elif f.mode != "secure":
        told.append("teaching mode: not private against anyone who knows the seed")
    charged = None
    if result is not None:
        own, total = len(result.ledger.releases), len(ledger.releases)
        in_all = result.epsilon if own == total else ledger.epsilon(plan.delta)
        charged = {
            "epsilon": _finite(result.epsilon), "releases": own,
            "ledger_epsilon": _finite(in_all), "ledger_releases": total,
        }  # fmt: skip
    budget = None
    if ledger.budget is not None:
        b = ledger.budget
        budget = {
            "epsilon": b.epsilon, "delta": b.delta, "filter": b.filter,
            "left": max(ledger.remaining, 0.0),
        }  # fmt: skip
    facts = {
        "estimator": estimator, "method": plan.method, "chosen_for": chosen_for,
        **asdict(f), "sees": [list(pair) for pair in f.sees],
        "epsilon": _finite(plan.epsilon), "delta": plan.delta, "accountant": accountant(plan),
        "n_rounds": plan.n_rounds, "n_clusters": plan.n_clusters,
        "columns": None if columns is None else [as_word(c) for c in columns],
        "lower": np.asarray(lower).tolist(), "upper": np.asarray(upper).tolist(),
        "bounds_from": bounds_from, "weights": None if weights is None else weights.tolist(),
        "planned_bytes": plan.n_bytes,
        "predicted_error": None if plan.predicted_error is None else _finite(plan.predicted_error),
        "predicted_error_is": plan.predicted_error_is,
        "plan": [list(pair) for pair in plan.statement()],
        "local": "labels of private rows, distances, scores and counts of clipped rows: computed"
        " where the rows are, no part of the release" + local,
        "charged": charged, "budget": budget, "warnings": told,
    }  # fmt: skip
    return Statement(facts)


def accountant(plan: Plan) -> str:
    """In words, what adds the releases of a plan up to its epsilon."""
    if not math.isfinite(plan.epsilon):
        return ACCOUNTANTS["none"]
    chosen = getattr(plan, "accountant", None)
    if chosen in ACCOUNTANTS:
        return ACCOUNTANTS[str(chosen)]
    if plan.facts.trust == "shuffled":
        return ACCOUNTANTS["shuffled"]
    if plan.delta == 0:
        return ACCOUNTANTS["pure"]
    entries = plan.entries()
    if all(entry.gdp_mu is not None for entry in entries):
        return ACCOUNTANTS["gdp"]
    rho = added(entry.rho for entry in entries)
    if rho is None:
        return ACCOUNTANTS["bounds"]
    return ACCOUNTANTS["near" if plan.total_epsilon < zcdp_epsilon(rho, plan.delta) else "zcdp"]


def _end(value: float, other: float) -> str:
    """A bound, 0 where it is next to 0 beside the other."""
    return f"{0.0 if abs(value) < 1e-15 * abs(other) else value:g}"


def _finite(value: float) -> float | None:
    """JSON knows no infinity: None stands for it."""
    return float(value) if math.isfinite(value) else None
