"""Who should take part, and for how many rounds: designs compared before any data is touched.

Two designs make the same promise only under the same neighbouring relation, so each relation has a
recommendation of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from fedclust_helpers._checked import checked
from fedclust_helpers._progress import Progress, showing
from fedclust_helpers._validation import Count, Delta, Positive, as_integers
from fedclust_helpers.rr_cluster.designs import COUNTS_SHARE, DEFAULT, SCHEMES, noise_multiplier


class Design(NamedTuple):
    """One way to spend (epsilon, delta) of one client: a row of `compare_designs`.

    `adjacency` is the promise, `cohort` the clients of a round (on average, under add/remove),
    `participations` in how many rounds one client takes part, on average. `accountant` is that of a
    sampled cohort, or "gdp", the exact curve; `sigma` the noise multiplier sigma_eff of a round.
    `noise` is the standard deviation of the noise in the mean of all mean updates of one model, for
    each parameter, in units of C k/n: C the clip, n clients, k models of equally many. The least
    noise under its relation is `recommended`.
    """

    adjacency: str
    cohort: int
    n_rounds: int
    accountant: str
    participations: float
    sigma: float
    noise: float
    recommended: bool = False


@checked
def compare_designs(
    epsilon: Positive, delta: Delta, *, n_clients: Count, cohorts: Sequence[int] | None = None,
    n_rounds: Sequence[int] = (30, 10), progress: Progress = False,
) -> tuple[Design, ...]:  # fmt: skip
    """Cohorts, rounds and relations of sums only at one (epsilon, delta), by their predicted noise.

    The noise that a round adds to the mean update of a model with n/k clients is, in units of
    C k/n, 2 sigma_eff/q under replace-one (the counts are free) and sigma_eff/(q sqrt(0.9)) under
    add/remove (they have a tenth of the budget), q = cohort/n. What is compared is what is left of
    it in the mean of all T updates, 1/sqrt(T) of that: it is on the same scale for all T. Where
    everybody takes part it is 2/mu or 1/(mu sqrt(0.9)) for every T.

    (epsilon, delta) is the total for the whole run and one client. `cohorts` are a tenth, three
    tenths and all of the n public `n_clients` by default. Of designs with equal noise the one whose
    `n_rounds` come first is taken. Accounting for a sampled cohort takes about half a second.

    Returns one row for each combination under each relation, as a table ``pandas.DataFrame(rows)``.
    One row of each relation is `recommended`: numbers under two relations are different promises.

    Examples
    --------
    >>> rows = compare_designs(1.0, 1e-3, n_clients=1000, cohorts=(1000,))
    >>> [(row.adjacency, row.cohort, round(row.noise, 2)) for row in rows if row.recommended]
    [('replace-one', 1000, 5.15), ('add/remove', 1000, 2.71)]
    """
    n = n_clients
    tenths = dict.fromkeys(max(1, m) for m in (n // 10, 3 * n // 10, n))
    sizes = _listed(tuple(tenths) if cohorts is None else cohorts, "cohorts", n)
    rounds = _listed(n_rounds, "n_rounds", 100_000)
    out: list[Design] = []
    with showing(progress, len(SCHEMES) * len(rounds) * len(sizes), "designs") as tell:
        for adjacency in SCHEMES:
            scale = 2.0 if adjacency == "replace-one" else 1 / math.sqrt(1 - COUNTS_SHARE)
            rows = []
            for t, m in itertools.product(rounds, sizes):
                sigma, accountant = noise_multiplier(
                    epsilon, delta, n_rounds=t, n_clients=n, cohort=m,
                    accountant=DEFAULT[adjacency],
                )  # fmt: skip
                noise = scale * sigma * n / (m * math.sqrt(t))
                rows.append(Design(adjacency, m, t, accountant, t * m / n, sigma, noise))
                tell(len(out) + len(rows))
            least = min(row.noise for row in rows)
            best = next(i for i, row in enumerate(rows) if row.noise <= least * (1 + 1e-6))
            rows[best] = rows[best]._replace(recommended=True)
            out += rows
    return tuple(out)


def _listed(values: Sequence[int], name: str, most: int) -> list[int]:
    """Whole numbers from 1 to `most`, one at least."""
    if not len(values):
        raise ValueError(f"{name} must be a sequence of whole numbers, one or more")
    return as_integers(values, name, minimum=1, maximum=most).tolist()
