"""The masked federation as one party of it sees it, behind the protocol that algorithms take.

`Seat` is what all parties have in common: the public facts, hence the same plan. A `ClientSeat`
holds one client's rows: where an algorithm asks for a sum, it masks its own part and stops with
`Asked`; asked again with the totals that came back since, it passes over them and stops at the next
one. So a run needs no process that lives from round to round. A `ServerSeat` holds no rows: it asks
the clients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.federation import ClientData, MaskedSecureSum, Randomness
from fedclust_helpers.federation.base import Part
from fedclust_helpers.flower.study import Study
from fedclust_helpers.mechanisms import SECURE, Mechanism
from fedclust_helpers.secure_aggregation import SECRET_BYTES, PadBook, Ring, mask, unmask


class Asked(Exception):  # noqa: N818 (not an error)
    """An algorithm came to a sum that is not there yet; `masked` is this client's part of it."""

    def __init__(self, masked: Sequence[Ring]) -> None:
        super().__init__("waiting for the sum of a release")
        self.masked = tuple(masked)


class Seat(MaskedSecureSum):
    """What the parties of one study have in common; `rows` (n, d) are those of this party."""

    def __init__(
        self, study: Study, rows: FloatArray, *, ledger: PrivacyLedger | None = None,
        labels: IntArray | None = None, secret: bytes = bytes(SECRET_BYTES),
    ) -> None:  # fmt: skip
        data = ClientData.from_clients([rows], labels=None if labels is None else [labels])
        self._study = study
        ledger = PrivacyLedger(study.unit, study.adjacency) if ledger is None else ledger
        super().__init__(data, ledger=ledger, pre_shared_secret=secret, **_given(study))
        if study.seed is None:  # noise from the operating system, public choices as agreed
            public = np.random.default_rng(study.public_seed)
            nodes = (SECURE,) * len(self.randomness.node_noise)
            self.randomness = Randomness(public, SECURE, nodes, None, None)

    @property
    def _n_present(self) -> int:
        return self.n_clients

    def _drawn_share(self, number: int, mechanism: Mechanism, shape: tuple[int, ...]) -> Ring:
        """Client `number`'s share of the noise."""
        return self._fresh_noise(mechanism, shape, self.randomness.node_noise[number])


class ClientSeat(Seat):
    """One client's seat in a run: `totals` are those of the releases that were made so far.

    `session` is the agreement, so that pads belong to it alone. Raises `Asked` at the next release.
    """

    def __init__(
        self, study: Study, rows: FloatArray, *, number: int, session: bytes,
        totals: Sequence[Sequence[Ring]] = (), **own: Any,
    ) -> None:  # fmt: skip
        super().__init__(study, rows, **own)
        self._number, self._totals = number, totals
        self.session = session
        self._pads = PadBook(own["secret"], session, self.fixed_point.bits)
        self._answer: list[Ring] = []
        self._n_parts = 0

    def _answers(
        self, statistic: ClientStatistic, mechanisms: Sequence[Mechanism],
        broadcast: dict[str, Any], cohort: IntArray | None,
    ) -> Sequence[Any]:  # fmt: skip
        self._n_parts, self._answer = len(statistic.parts), []
        if self._n_releases < len(self._totals):  # answered before: the rows are not looked at
            return [np.zeros((1, *shape)) for shape in self._shapes(statistic, broadcast)]
        return super()._answers(statistic, mechanisms, broadcast, cohort)

    def _noisy_sum(self, part: Part, value: FloatArray) -> FloatArray:
        shape, mechanism = value.shape[1:], part.mechanism
        pads = self._drawn_pads(part, self.n_clients, shape)
        encoded = self._encode(value, mechanism)[0]
        if self.nodes_add_noise and math.isfinite(mechanism.sensitivity):
            share = self._drawn_share(self._number, mechanism, shape)  # also where it was used
            encoded = encoded + share
        index = len(self._answer)
        self._answer.append(mask(encoded, pads[self._number]))
        if part.number < len(self._totals):
            total = self._totals[part.number][index]
            self.transcript.record(
                part.round, "server", "clients", f"masked noisy {part.name}", total
            )
            return self.fixed_point.decode(unmask(total, pads.sum(axis=0, dtype=pads.dtype)))
        if index + 1 == self._n_parts:
            raise Asked(self._answer)
        return np.zeros(shape)

    def answer(
        self, statistic: ClientStatistic, mechanisms: Sequence[Mechanism], *, number: int,
        shapes: Sequence[Sequence[tuple[int, ...]]], **how: Any,
    ) -> Sequence[Ring]:  # fmt: skip
        """The masked answer to one release that the server asks for, within `follow`.

        `shapes` are those of the parts of all releases before: in teaching mode the stream of noise
        is taken to where it stood.
        """
        if self.nodes_add_noise and not self.randomness.is_secure and self._following is not None:
            for planned, parts in zip(self._following.plan.releases, shapes, strict=False):
                for mechanism, shape in zip(planned.mechanisms, parts, strict=True):
                    self._drawn_share(self._number, mechanism, tuple(shape))
        self._n_releases = number
        try:
            self.noisy_sum(statistic, mechanisms, **how)
        except Asked as asked:
            return asked.masked
        raise AssertionError("a release ends with Asked")


class ServerSeat(Seat):
    """The server's seat where the server receives: `ask` puts a release to all clients.

    ``ask(number, statistic, broadcast)`` gives the totals of its parts as ring elements.
    """

    def __init__(
        self, study: Study, *, ask: Callable[[int, str, Mapping[str, Any]], Sequence[Ring]]
    ) -> None:
        super().__init__(study, np.zeros((1, study.n_features)), **_no_labels(study))
        self._ask = ask

    def _answers(
        self, statistic: ClientStatistic, mechanisms: Sequence[Mechanism],
        broadcast: dict[str, Any], cohort: IntArray | None,
    ) -> Sequence[Any]:  # fmt: skip
        return self._ask(self._n_releases, statistic.name, broadcast)

    def _noisy_sum(self, part: Part, value: Any) -> FloatArray:
        self.transcript.record(
            part.round, "clients", "server", part.name, value, count=self.n_clients
        )
        return self.fixed_point.decode(value)


def server_facts(study: Study) -> Seat:
    """A seat without rows or secret, for the plan and for noise that the server adds."""
    return Seat(study, np.zeros((1, study.n_features)), **_no_labels(study))


def _no_labels(study: Study) -> dict[str, Any]:
    return {} if study.n_labels is None else {"labels": np.zeros(1, dtype=np.int64)}


def _given(study: Study) -> dict[str, Any]:
    return study.federation_options
