"""The table of private bounds: its design."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from studies.bench.cell import Design, Settings, Table, grid, tables_of
from studies.own_data import cells
from studies.own_data.raw_sets import FRESH, SETS


@dataclass(frozen=True, kw_only=True)
class BoundsDesign(Design):
    """How large the table is made: (n, epsilon) by method."""

    seen: tuple[str, ...] = tuple(name for name in SETS if name not in FRESH)
    fresh: tuple[str, ...] = FRESH
    overclustered: tuple[tuple[int, float], ...] = ((10_000, 0.5), (10_000, 1.0), (100_000, 0.5))
    fastlloyd: tuple[tuple[int, float], ...] = ((10_000, 1.0),)


def _bounds(design: BoundsDesign) -> Iterator[Settings]:
    for method in cells.ALGORITHMS:
        for n, epsilon in getattr(design, method):
            for sets in ("seen", "fresh"):
                yield from grid(
                    sets=sets, dataset=getattr(design, sets), n=n, method=method, epsilon=epsilon,
                    runs=design.repeated(10),
                )  # fmt: skip


TABLES = tables_of(
    BoundsDesign(),
    BoundsDesign(
        seen=("shops",), fresh=("random_1",), overclustered=((6000, 1.0),), fastlloyd=(), runs=2
    ),
    Table(
        "private_bounds", _bounds, cells.private_bounds,
        "sets,dataset,n,d,k,method,epsilon,runs,rate,rounds,over,worst,clipped,widest,found",
        seed="{dataset}/{n}/{method}/{epsilon:g}",
    ),
)  # fmt: skip
"""Name -> table."""
