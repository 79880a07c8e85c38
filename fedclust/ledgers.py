"""A ledger that is kept in a file, from one year to the next.

    with KeptLedger("rows.journal", budget=Budget(3.0, 1e-6)) as ledger:
        PrivateKMeans(4, 1.0, 1e-6, bounds=bounds, ledger=ledger).fit(table, clients="hospital")

The file is the journal that the rooms of a federation keep (`fedclust.flower.journal`), one for a
data set, and what is said there about its loss holds here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn, Self

from fedclust.flower.journal import Journal, JournalError, charged, written
from fedclust_helpers._state import CopyRefusedError
from fedclust_helpers._validation import check_instance
from fedclust_helpers.accounting import Budget, Entry, PrivacyLedger
from fedclust_helpers.accounting.ledger import Reservation


class KeptLedger(PrivacyLedger):
    """A `PrivacyLedger` whose every charge is on the disk before anything is released for it.

    Opening it reads back what was charged before, and keeps every other process out until `close`,
    the end of its `with`, or of the process. Killed between charge and release, the charge stands:
    what was written counts, whether or not an answer was seen.

    Parameters
    ----------
    path : path
        Of the file, for this account alone; a new one is made with the first charge. Keep it with
        the rows: one that was lost or put back from a backup forgets what was spent.
    unit, adjacency
        Those of `PrivacyLedger`, and of the file from its first charge on.
    budget : Budget
        What all releases from these rows may cost together, over all years. It is written into the
        file: another one is refused later.

    Raises
    ------
    JournalError
        Where another process holds the file, it is damaged, or was kept for something else.
    BudgetExceededError
        Where what the file holds is more than the budget.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        unit: str = "point",
        adjacency: str = "add/remove",
        *,
        budget: Budget,
    ) -> None:
        check_instance(budget, Budget, "budget")
        check_instance(path, str | PathLike, "path", what="a path")  # type: ignore[arg-type]
        super().__init__(unit, adjacency, budget)
        promised = {"epsilon": budget.epsilon, "delta": budget.delta}
        self._journal = Journal(
            Path(path), unit=unit, adjacency=adjacency, filter=budget.filter, budget=promised
        )
        self._runs: dict[Reservation, dict[str, Any]] = {}
        self._document: dict[str, Any] | None = None  # what is read back is not written again
        with ExitStack() as opening:
            opening.enter_context(self._journal.hold())
            found = self._journal.read()
            charged(self, found["runs"])
            self._document, self._held = found, opening.pop_all()
        self._is_open = True

    def charge(
        self, mechanisms: Sequence[Any], *, reservation: Reservation | None = None, **details: Any
    ) -> Entry:
        """As `PrivacyLedger.charge`; on the disk when it returns, or an error."""
        with self._lock:
            if self._document is None:  # read back
                return super().charge(mechanisms, reservation=reservation, **details)
            if not self._is_open:
                raise JournalError("this ledger was closed: open its file again")
            self._journal.read()  # refuses a file that was changed meanwhile
            made = super().charge(mechanisms, reservation=reservation, **details)
            if reservation is None:
                run = self._new([made], ())
                run["answered"].append([0])
            else:
                if reservation not in self._runs:
                    self._runs[reservation] = self._new(reservation.planned, reservation.repeats)
                self._runs[reservation]["answered"].append([reservation.next - 1])
            self._journal.save(self._document)
            return made

    def admit(
        self, planned: Sequence[Entry], *, name: str, repeats: Sequence[Entry] = ()
    ) -> Reservation:
        """As `PrivacyLedger.admit`; TypeError for a mechanism that the file cannot hold."""
        written([*planned, *repeats])
        return super().admit(planned, name=name, repeats=repeats)

    def close(self, reservation: Reservation | None = None) -> None:
        """End of a run; without a run, the end of this ledger: others may open the file."""
        if reservation is None:
            self._is_open = False
            self._held.close()
        else:
            super().close(reservation)

    def _new(self, planned: Sequence[Entry], repeats: Sequence[Entry]) -> dict[str, Any]:
        """A run of the document, as `charged` reads it; it has no agreement with other rooms."""
        assert self._document is not None
        run: dict[str, Any] = {
            "agreement": "", "planned": written(planned), "repeats": written(repeats),
            "answered": [],
        }  # fmt: skip
        self._document["runs"].append(run)
        return run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __getstate__(self) -> NoReturn:
        raise CopyRefusedError(
            "a ledger in a file must not be pickled: open the file where the fits are"
        )
