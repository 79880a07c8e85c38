"""A federation as one party of it sees it, behind the protocol that algorithms take.

All seats of a study have the same public facts, hence the same plan. A client's seat holds that
client's rows: where an algorithm asks for a sum, it makes its own part ready to be sent and stops
with `Asked`. Asked again with the totals that came back since, it passes over them and stops at the
next one, so a run needs no process that lives from round to round. The server's seat holds no rows:
it asks the clients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedclust_helpers._validation import FloatArray, IntArray
from fedclust_helpers.accounting import PrivacyLedger
from fedclust_helpers.client_statistics import ClientStatistic
from fedclust_helpers.federation import (
    ClientData,
    InProcess,
    MaskedSecureSum,
    Randomness,
    TrustedServer,
)
from fedclust_helpers.federation.base import Part
from fedclust_helpers.flower.study import Study
from fedclust_helpers.mechanisms import SECURE, Mechanism
from fedclust_helpers.secure_aggregation import SECRET_BYTES, PadBook, Ring, mask, unmask

Shapes = Sequence[Sequence[tuple[int, ...]]]
Ask = Callable[[int, str, Mapping[str, Any]], Sequence[NDArray[Any]]]


class Asked(Exception):  # noqa: N818 (not an error)
    """An algorithm came to a sum that is not there yet; `content` is this client's part of it."""

    def __init__(self, content: Sequence[NDArray[Any]]) -> None:
        super().__init__("waiting for the sum of a release")
        self.content = tuple(content)


class _Seat(InProcess):
    """What all parties have in common; `rows` (n, d) are those of this party alone."""

    def __init__(
        self, study: Study, rows: FloatArray, *, ledger: PrivacyLedger | None = None,
        labels: IntArray | None = None, **own: Any,
    ) -> None:  # fmt: skip
        data = ClientData.from_clients([rows], labels=None if labels is None else [labels])
        ledger = PrivacyLedger(study.unit, study.adjacency) if ledger is None else ledger
        super().__init__(data, ledger=ledger, **own, **study.federation_options)
        if study.seed is None:  # noise from the operating system, public choices as agreed
            public = np.random.default_rng(study.public_seed)
            nodes = (SECURE,) * len(self.randomness.node_noise)
            self.randomness = Randomness(public, SECURE, nodes, None, None)

    @property
    def _n_present(self) -> int:
        return self.n_clients


class _ClientSeat(_Seat):
    """A client's seat: parts of a release are gathered until all of them can be sent."""

    _n_parts = 0
    _content: list[Any]

    def _answers(
        self, statistic: ClientStatistic, mechanisms: Sequence[Mechanism],
        broadcast: dict[str, Any], cohort: IntArray | None,
    ) -> Sequence[Any]:  # fmt: skip
        self._n_parts, self._content = len(statistic.parts), []
        return super()._answers(statistic, mechanisms, broadcast, cohort)

    def _made(self, content: NDArray[Any]) -> FloatArray:
        """One more part is ready; `Asked` when it was the last one."""
        self._content.append(content)
        if len(self._content) == self._n_parts:
            raise Asked(self._content)
        return np.zeros(content.shape)

    def _pass_over(self, shapes: Shapes) -> None:
        """Take the streams of teaching mode to where they stood after these releases."""

    def answer(
        self, statistic: ClientStatistic, mechanisms: Sequence[Mechanism], *, number: int,
        shapes: Shapes, **how: Any,
    ) -> Sequence[NDArray[Any]]:  # fmt: skip
        """The answer to one release that the server asks for, within `follow`.

        `shapes` are those of the parts of all releases before.
        """
        self._pass_over(shapes)
        self._n_releases = number
        try:
            self.noisy_sum(statistic, mechanisms, **how)
        except Asked as asked:
            return asked.content
        raise AssertionError("a release ends with Asked")


# --- masked sums ----------------------------------------------------------------------------------


class MaskedSeat(_Seat, MaskedSecureSum):
    """A seat of a masked federation; without rows or secret for a plan and the server's noise."""

    def __init__(self, study: Study, rows: FloatArray, **own: Any) -> None:
        secret = own.pop("secret", bytes(SECRET_BYTES))
        super().__init__(study, rows, pre_shared_secret=secret, **own)


class MaskedClientSeat(_ClientSeat, MaskedSeat):
    """One client's seat: `totals` are the totals of the releases so far, where clients receive.

    `session` is the agreement, so that pads belong to it alone.
    """

    def __init__(
        self, study: Study, rows: FloatArray, *, number: int, session: bytes, secret: bytes,
        totals: Sequence[Sequence[Ring]] = (), **own: Any,
    ) -> None:  # fmt: skip
        super().__init__(study, rows, secret=secret, **own)
        self._number, self._totals = number, totals
        self.session = session
        self._pads = PadBook(secret, session, self.fixed_point.bits)

    def _values(
        self, statistic: ClientStatistic, broadcast: dict[str, Any], *how: Any, **more: Any
    ) -> Any:
        if self._n_releases < len(self._totals):  # answered before: the rows are not looked at
            return [np.zeros((1, *shape)) for shape in self._shapes(statistic, broadcast)]
        return super()._values(statistic, broadcast, *how, **more)

    def _own_share(self, mechanism: Mechanism, shape: tuple[int, ...]) -> Any:
        """This client's share of the noise (0 where the server adds it)."""
        if not self.nodes_add_noise or not math.isfinite(mechanism.sensitivity):
            return np.zeros(shape, self.fixed_point.dtype)
        return self._fresh_noise(mechanism, shape, self.randomness.node_noise[self._number])

    def _noisy_sum(self, part: Part, value: FloatArray) -> FloatArray:
        shape, mechanism = value.shape[1:], part.mechanism
        pads = self._drawn_pads(part, self.n_clients, shape)
        share = self._own_share(mechanism, shape)  # also where it was used: the stream goes on
        if part.number >= len(self._totals):
            encoded = self._encode(value, mechanism)[0] + share
            return self._made(mask(encoded, pads[self._number]))
        total = self._totals[part.number][len(self._content)]
        self._content.append(total)
        self.transcript.record(part.round, "server", "clients", f"masked noisy {part.name}", total)
        return self.fixed_point.decode(unmask(total, pads.sum(axis=0, dtype=pads.dtype)))

    def _pass_over(self, shapes: Shapes) -> None:
        if self.randomness.is_secure or self._following is None:
            return
        for planned, parts in zip(self._following.plan.releases, shapes, strict=False):
            for mechanism, shape in zip(planned.mechanisms, parts, strict=True):
                self._own_share(mechanism, tuple(shape))


class _AskingSeat(_Seat):
    """A server's seat: ``ask(number, name, broadcast)`` gets what the clients sent."""

    def __init__(self, study: Study, rows: FloatArray, *, ask: Ask, **own: Any) -> None:
        super().__init__(study, rows, **own)
        self._ask = ask

    def _answers(self, statistic: ClientStatistic, mechanisms: Any, broadcast: Any, _: Any) -> Any:
        return self._ask(self._n_releases, statistic.name, broadcast)


class MaskedServerSeat(_AskingSeat, MaskedSeat):
    """The server's seat where it reads the sums: ``ask(number, name, broadcast)`` gets them."""

    def _noisy_sum(self, part: Part, value: Any) -> FloatArray:
        self.transcript.record(
            part.round, "clients", "server", part.name, value, count=self.n_clients
        )
        return self.fixed_point.decode(value)


# --- a trusted server -----------------------------------------------------------------------------


class TrustedClientSeat(_ClientSeat, TrustedServer):
    """One client's seat where the server is trusted with exact statistics, for sums alone."""

    offers = ("noisy_sum",)

    def _noisy_sum(self, part: Part, values: FloatArray) -> FloatArray:
        return self._made(self._exact(values, part.mechanism)[0])


class TrustedServerSeat(_AskingSeat, TrustedServer):
    """The trusted server's seat: ``ask`` gets the released values, which the server has noised."""

    offers = ("noisy_sum",)

    def _noisy_sum(self, part: Part, value: Any) -> FloatArray:
        self.transcript.record(
            part.round, "clients", "server", part.name, value, count=self.n_clients
        )
        return value


def server_seat(study: Study, ask: Ask) -> Any:
    """The server's seat of a study: without rows."""
    rows = np.zeros((1, study.n_features))
    own = {} if study.n_labels is None else {"labels": np.zeros(1, dtype=np.int64)}
    if study.trust == "trusted":
        return TrustedServerSeat(study, rows, ask=ask, **own)
    if study.receiver == "server":
        return MaskedServerSeat(study, rows, ask=ask, **own)
    return MaskedSeat(study, rows, **own)


def client_seat(
    study: Study, rows: FloatArray, *, number: int, session: bytes, secret: bytes | None,
    totals: Sequence[Sequence[Ring]], **own: Any,
) -> Any:  # fmt: skip
    """A client's seat of a study."""
    if study.trust == "trusted":
        return TrustedClientSeat(study, rows, **own)
    assert secret is not None
    return MaskedClientSeat(
        study, rows, number=number, session=session, secret=secret, totals=totals, **own
    )
