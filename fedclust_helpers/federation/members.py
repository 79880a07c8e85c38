"""One identifier of each client, then sums, by groups of them, of what clients hold.

A trusted server is sent both and adds all noise. Under masks each client noises its own identifier
and sends it by name; what it holds leaves it in masked words alone, in the block of its group.
"""

from __future__ import annotations

from typing import Any

from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.federation.aggregation import Aggregation, Part


class Grouping:
    """The two halves of a release by groups, of a statistic with two parts."""

    facts: Any
    aggregation: Aggregation
    collect: Any
    _release: Any
    _n_releases: int

    def members(self, statistic: Any, mechanisms: Any, **how: Any) -> tuple[IntArray, Any]:
        """The noised identifier (m,) of each client, and what it holds (m, p) until `summed`.

        As `noisy_sum`, and charged for both halves before the first. The first part of `statistic`
        is a one-hot identifier (k,), of which no more than the noised number is released.
        """
        if self.facts.receiver == "server":
            exact, held = self.collect(statistic, mechanisms, **how)
        else:
            exact, held = self._release("members", statistic, mechanisms, **how)
        return self.identified(statistic, mechanisms, exact, how["round"]), held

    def identified(self, statistic: Any, mechanisms: Any, exact: Any, round: int) -> IntArray:
        """Noised numbers (m,) from the exact one-hots (m, k) of the last release."""
        return self.aggregation.identified(
            self._part(statistic, 0, mechanisms, exact, round), exact
        )

    def summed(
        self, statistic: Any, mechanisms: Any, vectors: Any, groups: IntArray, n_groups: int,
        round: int,
    ) -> FloatArray:  # fmt: skip
        """Noised sums (n_groups, p) of vectors (m, v, p); those of a client in groups (m, v)."""
        part = self._part(statistic, 1, mechanisms, vectors, round)
        return self.aggregation.summed(part, vectors, groups, n_groups)

    def _part(self, statistic: Any, i: int, mechanisms: Any, held: Any, round: int) -> Part:
        """A part of the last release on its way."""
        name, number = statistic.parts[i], self._n_releases - 1
        purpose = f"{statistic.name}/{name}"
        return Part(name, purpose, round, number, mechanisms[i], len(held))
