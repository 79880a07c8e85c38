"""Who should take part, and for how many rounds: designs compared before any data is touched.

Everything here is arithmetic of public numbers. Two designs make the same promise only under the
same neighbouring relation, so each relation has a recommendation of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fedclust_helpers._validation import check_choice, check_delta, check_int, check_positive
from fedclust_helpers.accounting import gdp_mu
from fedclust_helpers.rr_cluster import accounting

WORTHWHILE = (0.05, 100.0)  # epsilons outside: accountants of cohorts are slow and gain nothing
COUNTS_SHARE = 0.1  # of 1/sigma_eff^2 that noised counts get, under add/remove
SCHEMES = {"replace-one": "fixed", "add/remove": "poisson"}
"""Neighbouring relation of a ledger -> the sampling that is accounted under it."""
DEFAULT = {"replace-one": "wor_rdp", "add/remove": "poisson_rdp"}
"""Neighbouring relation -> the accountant of cohorts."""


class Design(NamedTuple):
    """One way to spend (epsilon, delta) of one client: a row of `compare_designs`.

    Attributes
    ----------
    adjacency : str
        The promise: "replace-one" or "add/remove" one client.
    cohort, n_rounds : int
        Clients of a round (on average, under add/remove) and rounds.
    accountant : str
        Of a sampled cohort; "gdp" is the exact curve.
    participations : float
        Rounds in which one client takes part, on average.
    sigma : float
        Noise multiplier sigma_eff of a round.
    noise : float
        Standard deviation of the noise in the mean of all mean updates of one model, for each
        parameter, in units of C k/n: C the clip, n clients, k models of equally many.
    recommended : bool
        The least noise under its relation.
    """

    adjacency: str
    cohort: int
    n_rounds: int
    accountant: str
    participations: float
    sigma: float
    noise: float
    recommended: bool = False


def noise_multiplier(
    epsilon: float, delta: float, *, n_rounds: int, n_clients: int, cohort: int, accountant: str
) -> tuple[float, str]:
    """(sigma_eff, accountant) of Gaussian rounds: of the cohort's `accountant`, or the exact curve.

    The exact curve ("gdp": sigma_eff = sqrt(T)/mu) knows of no sampling, so it always holds. It is
    taken where everybody takes part, and where a cohort is so large that sampling gains nothing.
    """
    # a hair more, so that rounding does not lift the total above epsilon
    exact = (1 + 1e-12) * math.sqrt(n_rounds) / gdp_mu(epsilon, delta)
    run = {"n_rounds": n_rounds, "n_clients": n_clients, "cohort": cohort}
    if cohort < n_clients and WORTHWHILE[0] < epsilon < WORTHWHILE[1]:
        if epsilon > accounting.floor_epsilon(delta=delta, accountant=accountant, **run):
            sampled = accounting.calibrate(epsilon, delta, accountant=accountant, **run)
            if sampled < exact:
                return sampled, accountant
    return exact, "gdp"


def compare_designs(
    epsilon: float, delta: float, *, n_clients: int, cohorts: Sequence[int] | None = None,
    n_rounds: Sequence[int] = (30, 10),
    adjacencies: Sequence[str] = ("replace-one", "add/remove"),
) -> tuple[Design, ...]:  # fmt: skip
    """Cohorts, rounds and relations of sums only at one (epsilon, delta), by their predicted noise.

    The noise that a round adds to the mean update of a model with n/k clients is, in units of
    C k/n, 2 sigma_eff/q under replace-one (the counts are free) and sigma_eff/(q sqrt(0.9)) under
    add/remove (they have a tenth of the budget), q = cohort/n. What is compared is what is left of
    it in the mean of all T updates, 1/sqrt(T) of that: it is on the same scale for all T. Where
    everybody takes part it is 2/mu or 1/(mu sqrt(0.9)) for every T.

    Parameters
    ----------
    epsilon, delta : float
        The total for the whole run and one client.
    n_clients : int
        n, public.
    cohorts : sequence of int, optional
        Clients of a round: a tenth, three tenths and all of them by default.
    n_rounds : sequence of int
        The more preferred, the earlier: the first is taken among designs with equal noise.
    adjacencies : sequence of {"replace-one", "add/remove"}

    Returns
    -------
    tuple of Design
        One row for each combination, as a table ``pandas.DataFrame(rows)``. One row of each
        relation is `recommended`. Numbers under two relations are different promises.

    Raises
    ------
    ValueError, TypeError
        If an argument is not of these kinds.

    Examples
    --------
    >>> rows = compare_designs(1.0, 1e-3, n_clients=1000, cohorts=(1000,))
    >>> [(row.adjacency, row.cohort, round(row.noise, 2)) for row in rows if row.recommended]
    [('replace-one', 1000, 5.15), ('add/remove', 1000, 2.71)]
    """
    epsilon, delta = check_positive(epsilon, "epsilon"), check_delta(delta)
    n = check_int(n_clients, "n_clients")
    sizes = _listed(_shares(n) if cohorts is None else cohorts, "cohorts", n)
    rounds = _listed(n_rounds, "n_rounds", 100_000)
    out: list[Design] = []
    for adjacency in _names(adjacencies):
        scale = 2.0 if adjacency == "replace-one" else 1 / math.sqrt(1 - COUNTS_SHARE)
        rows = []
        for t in rounds:
            for m in sizes:
                sigma, accountant = noise_multiplier(
                    epsilon, delta, n_rounds=t, n_clients=n, cohort=m,
                    accountant=DEFAULT[adjacency],
                )  # fmt: skip
                noise = scale * sigma * n / (m * math.sqrt(t))
                rows.append(Design(adjacency, m, t, accountant, t * m / n, sigma, noise))
        least = min(row.noise for row in rows)
        best = next(i for i, row in enumerate(rows) if row.noise <= least * (1 + 1e-6))
        rows[best] = rows[best]._replace(recommended=True)
        out += rows
    return tuple(out)


def _shares(n: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(max(1, m) for m in (n // 10, 3 * n // 10, n)))


def _listed(values: Sequence[int], name: str, most: int) -> list[int]:
    """A sequence of whole numbers from 1 to `most`, one at least."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__") or not len(values):
        raise TypeError(f"{name} must be a sequence of whole numbers, one or more")
    return [check_int(value, name, maximum=most) for value in values]


def _names(values: Sequence[str]) -> list[str]:
    if isinstance(values, str) or not hasattr(values, "__len__") or not len(values):
        raise TypeError("adjacencies must be a sequence of relations, one or more")
    return [check_choice(value, "adjacencies", tuple(SCHEMES)) for value in values]
