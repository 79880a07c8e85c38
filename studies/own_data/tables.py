"""The tables of columns described privately: their designs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from studies.bench.cell import Design, Settings, Table, grid, tables_of
from studies.own_data import cells
from studies.own_data.beside import METHODS, summary_beside
from studies.own_data.raw_sets import FRESH, SHIPPED


@dataclass(frozen=True, kw_only=True)
class BoundsDesign(Design):
    """How large the table is made: (n, epsilon) pairs."""

    seen: tuple[str, ...] = tuple(SHIPPED)
    fresh: tuple[str, ...] = FRESH
    sizes: tuple[tuple[int, float], ...] = ((10_000, 0.5), (10_000, 1.0), (100_000, 0.5))
    seen_sizes: tuple[tuple[int, float], ...] = ((10_000, 0.5),)
    beside: tuple[str, ...] = ("iris", "diabetes", *FRESH[:4])
    rows: tuple[int, ...] = (1_000, 10_000)


def _bounds(design: BoundsDesign) -> Iterator[Settings]:
    for sets, sizes in (("fresh", design.sizes), ("seen", design.seen_sizes)):
        for n, epsilon in sizes:
            yield from grid(
                sets=sets, dataset=getattr(design, sets), n=n, epsilon=epsilon,
                runs=design.repeated(10),
            )  # fmt: skip


def _beside(design: BoundsDesign) -> Iterator[Settings]:
    yield from grid(
        dataset=design.beside, n=design.rows, method=tuple(METHODS), epsilon=1.0,
        runs=design.repeated(10),
    )  # fmt: skip


TABLES = tables_of(
    BoundsDesign(),
    BoundsDesign(
        seen=("iris",), fresh=("random_1",), sizes=((6000, 1.0),),
        seen_sizes=((6000, 1.0),), beside=("iris",), rows=(1000,), runs=2,
    ),
    Table(
        "private_bounds", _bounds, cells.private_bounds,
        "sets,dataset,n,d,k,epsilon,runs,rate,rounds,over,worst,clipped,widest,found",
        seed="{dataset}/{n}/{epsilon:g}",
    ),
    Table(
        "summary_beside", _beside, summary_beside,
        "dataset,n,d,method,epsilon,runs,count,mean,spread,quartiles,bins",
        seed="{dataset}/{n}/{method}/{epsilon:g}", extra="opendp",
        # OpenDP's noise is the operating system's
        anew=("count", "mean", "spread", "quartiles", "bins"),
    ),
)  # fmt: skip
"""Name -> table."""
