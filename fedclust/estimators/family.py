"""What a family of methods for private k-means in a box must say to be planned and run.

An estimator asks the family of its method (`families.FAMILIES`) what the planner needs to hear.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from fedclust.estimators.bounds import Bounds
from fedclust.estimators.reading import Rows, is_one_table, read_rows
from fedclust_helpers._validation import FloatArray
from fedclust_helpers.federation import ClientData

MAX_KEY_AGREEMENTS = 4096
"""Clients who can agree on a key through the server: 0.3 ms each, and 5 s for a whole small fit."""
MAX_NODES = 256
"""Clients who can exchange shares with each other without a server: 1 GB on the wire, 3 s."""
MAX_UNSAID = 200
"""Rows of one table that count as clients of their own without a word."""
Box = tuple[FloatArray, FloatArray]


class Family:
    """What planners of one kind ask of an estimator `of`, whose rows lie in the box."""

    trusts: ClassVar[tuple[str, ...]]
    unused: ClassVar[dict[str, str]]  # parameters, and why they must be left as they are

    def planner(self, method: str) -> Callable[..., Any]:
        """The planner of a method."""
        raise NotImplementedError

    def planner_on_private_bounds(self, method: str) -> Callable[..., Any] | None:
        """The planner of a method that finds bounds first, if it is offered."""
        return None

    def check(self, of: Any, method: str, **more: Any) -> None:
        """Refuse trust and parameters that the method has no use for."""
        if of.trust not in self.trusts:
            raise ValueError(
                f"trust must be one of {', '.join(self.trusts)} with method={method!r}; got"
                f" {of.trust!r}"
            )
        for name, why in self.unused.items():
            given = more.get(name) if more.get(name) is not None else getattr(of, name, None)
            if given is not None and not (name == "unit" and given == "row"):
                raise ValueError(f"{name} must not be given with method={method!r}: {why}")

    def read(self, of: Any, X: Any, clients: Any, bounds: Bounds) -> Rows:
        """The rows and clients that the arguments of `fit` speak of.

        One table without owners has one holder who shows the server everything ("trusted"), or
        rows that are clients of their own; many of them must be said to be so.
        """
        alone, trusted = clients is None and is_one_table(X), of.trust == "trusted"
        if alone and getattr(of, "unit", None) == "client":
            raise ValueError("clients must be given with unit='client': whose each row is")
        rows = read_rows(
            X, clients, columns=bounds.columns, gaps=of.missing == "drop",
            one_holder=alone and trusted,
        )  # fmt: skip
        if alone and not trusted:
            check_owners(rows.data, of.trust)
        return rows

    def played(
        self, of: Any, data: ClientData, n_rows: int
    ) -> tuple[ClientData, dict[str, Any]]:  # fmt: skip
        """The data that is simulated, and further options of `simulate`.

        `n_rows` counts those that were left out, too.
        """
        raise NotImplementedError

    def given(
        self, of: Any, method: str, federation: Any, planning: dict[str, Any],
        running: dict[str, Any], rows: Rows, box: Box, **more: Any,
    ) -> tuple[Any, ...]:  # fmt: skip
        """Arguments of the planner by position; others go into `planning` and `running`."""
        return ()

    def in_box(self, centers: FloatArray) -> FloatArray:
        """The centres of a result in the box [-1, 1]^d."""
        return np.clip(centers, -1, 1)

    def notes(self, of: Any, plan: Any) -> list[str]:
        """What a user should hear before the plan is paid for."""
        return []


def public_records(of: Any, n_rows: int) -> int | None:
    """The public number of rows; those that were left out count: it tells nothing of them."""
    return n_rows if of.n_records is None and of.missing == "drop" else of.n_records


def check_owners(data: ClientData, trust: str) -> None:
    """Refuse many rows that nothing says are clients of their own."""
    if data.n_clients > MAX_UNSAID:
        raise ValueError(
            f"clients must be given for more than {MAX_UNSAID} rows in one table with"
            f" trust={trust!r}, where each client is a party: the name of a column, or an id for"
            " each row; range(len(X)) says that each row is a client of its own. If one party holds"
            " all rows, choose trust='trusted'"
        )


def check_many(of: Any, data: ClientData) -> None:
    """Refuse what would take minutes or memory, or has no honest client, before it starts."""
    trust = of.trust
    limit = {"masked": MAX_KEY_AGREEMENTS, "serverless": MAX_NODES}.get(trust)
    if limit is not None and data.n_clients > limit:
        raise ValueError(
            f"X must hold at most {limit} clients with trust={trust!r}, where each takes"
            " a key exchange: group rows under fewer clients; or choose trust='ideal', or 'local'"
            " for users who trust nobody"
        )
    needs_two = trust == "serverless" or (trust == "masked" and of.publish)
    if needs_two and data.n_clients < 2:
        raise ValueError(
            "X must hold at least two clients, so that no one knows all of the noise; with one,"
            " choose trust='trusted', or publish=False and keep the results from the server"
        )
