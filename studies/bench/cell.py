"""What a result table is made of: its design, its cells, and how they become rows.

A **cell** is one measurement with its settings. They are the keyword arguments of the table's
function, so its signature says what a cell holds, and they are the columns that name a row. The
function returns ``quantity -> number``; the table turns the numbers of all cells into rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from fedclust_helpers._validation import check_int, check_positive

MAX_RUNS = 100_000
Numbers = dict[str, float]
Settings = dict[str, Any]
Files = dict[str, pd.DataFrame]
Finish = Callable[[pd.DataFrame, Path], pd.DataFrame | Files]
Aggregate = tuple[str, str | Callable[[pd.Series], float]]


def seed_of(key: str) -> np.random.SeedSequence:
    """Seed of a name: the same on every machine, and unrelated for different names.

    Examples
    --------
    >>> seed_of("iris").entropy == seed_of("iris").entropy != seed_of("wine").entropy
    True
    """
    digest = sha256(key.encode()).digest()
    return np.random.SeedSequence(int.from_bytes(digest[:16], "little"))


def generator_of(key: str) -> np.random.Generator:
    """A generator from the seed of a name."""
    return np.random.default_rng(seed_of(key))


@dataclass(frozen=True, kw_only=True)
class Design:
    """How large the tables of a paper are made; `runs` overrides the repetitions of them all."""

    runs: int | None = None

    def __post_init__(self) -> None:
        if self.runs is not None:
            check_int(self.runs, "runs", maximum=MAX_RUNS)
        for each in fields(self):
            name, value = each.name, getattr(self, each.name)
            if isinstance(each.default, tuple) and not isinstance(value, tuple):
                raise TypeError(f"{name} must be a tuple, got {type(value).__name__}")
            if isinstance(each.default, int):
                check_int(value, name, minimum=0, maximum=10**8)
            if name.endswith(("epsilons", "alphas")):
                for number in value:
                    check_positive(number, name)

    def repeated(self, usual: int) -> int:
        """Repetitions: `runs` where it is set, else the usual number."""
        return usual if self.runs is None else self.runs

    def at_most(self, usual: int) -> int:
        """Seeds of a table that `runs` may shorten, not extend."""
        return usual if self.runs is None else min(usual, self.runs)


@dataclass(frozen=True)
class Cell:
    """One measurement: `settings` for the table's function, `runs` repetitions.

    The seed is derived from `name`, which therefore never changes, whatever columns are called.
    """

    name: str
    settings: Settings
    runs: int = 1

    def __post_init__(self) -> None:
        check_int(self.runs, "runs", minimum=0, maximum=MAX_RUNS)

    @property
    def key(self) -> str:
        """Name with the number of runs: what a partial table is resumed by."""
        return f"{self.name}/runs={self.runs}"

    @property
    def seed(self) -> np.random.SeedSequence:
        """The seed of the cell."""
        return seed_of(self.name)

    @property
    def rng(self) -> np.random.Generator:
        """A new generator from the seed."""
        return np.random.default_rng(self.seed)

    def seeds(self) -> list[np.random.SeedSequence]:
        """A seed for each run: the first few do not depend on how many there are."""
        return self.seed.spawn(self.runs)

    @property
    def columns(self) -> Settings:
        """The settings as columns: a tuple with names becomes one column for each of its fields."""
        flat: Settings = {}
        for name, value in self.settings.items():
            flat |= value._asdict() if hasattr(value, "_asdict") else {name: value}
        return flat | {"runs": self.runs}


@dataclass(frozen=True)
class Table:
    """How one result table is made.

    Parameters
    ----------
    name : str
        Cells' names begin with it.
    settings : function
        The settings of all cells of a design, in order; ``runs`` among them are repetitions.
    measure : function
        ``measure(cell, **settings)`` gives the numbers of one cell.
    columns : str or mapping
        Columns of ``name.csv``, or of each of its files by name.
    finish : function, optional
        From the frame of all cells (settings, runs, numbers) and the folder to that of the rows, or
        to those of the files by name. By default every cell is a row.
    means : mapping, optional
        Column -> (number, statistic): rows are means over the cells that agree in all the other
        columns, and ``seeds`` says over how many.
    order : mapping, optional
        Columns that rows are sorted by, as in `sorted_by`.
    seed : str or function
        The rest of a cell's name from its settings, as a format; by default all of them.
    beside, paired : mapping, tuple of str
        Setting -> value of the cells that a single row is compared with, and so needs, too: those
        which have the `paired` settings in common with it.
    whole : tuple of str
        Columns and files that only the whole table gives.
    anew : tuple of str
        Columns that no seed fixes: times, memory, versions.
    names : tuple of str
        Columns beside the settings that tell rows apart.
    needs : tuple of str
        Tables that must be there before.
    sequential : bool
        One cell after the other, for time measurements.
    extra : str
        A module that it needs and that an optional extra installs.
    design, quick : Design
        What is committed, and the same in tiny.
    """

    name: str
    settings: Callable[[Any], Iterable[Settings]]
    measure: Callable[..., Numbers]
    columns: str | Mapping[str, str]
    finish: Finish | None = None
    means: Mapping[str, Aggregate] = field(default_factory=dict)
    order: Mapping[str, Iterable[Any] | None] = field(default_factory=dict)
    seed: str | Callable[[Settings], str] = ""
    beside: Mapping[str, Any] = field(default_factory=dict)
    paired: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    sequential: bool = False
    extra: str = ""
    design: Design = Design()
    quick: Design = Design()

    def cells(self, design: Design) -> list[Cell]:
        """All cells of a design, in order."""
        out = []
        for given in self.settings(design):
            settings = {name: value for name, value in given.items() if name != "runs"}
            out.append(Cell(f"{self.name}/{self._rest(settings)}", settings, given.get("runs", 1)))
        return out

    def _rest(self, settings: Settings) -> str:
        if callable(self.seed):
            return self.seed(settings)
        if self.seed:
            return self.seed.format(**settings)
        return "/".join(f"{k}={getattr(v, 'name', v)}" for k, v in settings.items())

    def values(self, cell: Cell) -> Numbers:
        """The numbers of one cell."""
        return self.measure(cell, **cell.settings)

    @property
    def headers(self) -> dict[str, list[str]]:
        """The columns of each file."""
        columns = {self.name: self.columns} if isinstance(self.columns, str) else self.columns
        return {name: text.split(",") for name, text in columns.items()}

    def files(self, cells: Sequence[Cell], numbers: Sequence[Numbers], folder: Path) -> Files:
        """The finished files by name, from the numbers of `cells`."""
        rows = [cell.columns | values for cell, values in zip(cells, numbers, strict=True)]
        frame = pd.DataFrame(rows)
        made = self.finish(frame, folder) if self.finish else frame
        if not isinstance(made, dict):
            if self.means:
                keys = [c for c in self.headers[self.name] if c not in {*self.means, "seeds"}]
                made = grouped(made, keys, **self.means)
            made = {self.name: sorted_by(made, **self.order)}
        return {
            name: made[name][names] if len(made[name]) else pd.DataFrame(columns=names)
            for name, names in self.headers.items()
        }


def tables_of(design: Design, quick: Design, *tables: Table) -> dict[str, Table]:
    """The tables of a paper by name, with their designs."""
    return {table.name: replace(table, design=design, quick=quick) for table in tables}


def grid(**axes: Any) -> Iterator[Settings]:
    """All combinations of settings, the last one fastest; a single value stands for itself.

    Examples
    --------
    >>> list(grid(n=(1, 2), epsilon=0.5))
    [{'n': 1, 'epsilon': 0.5}, {'n': 2, 'epsilon': 0.5}]
    """
    single = (str, int, float, type(None))
    values = [(v,) if isinstance(v, single) or hasattr(v, "_asdict") else v for v in axes.values()]
    for chosen in product(*values):
        yield dict(zip(axes, chosen, strict=True))


# --- from cells to rows ---------------------------------------------------------------------------


def summary(values: ArrayLike) -> Numbers:
    """Mean, median, half-width of the 95 % interval; nan where too few values are left."""
    try:
        sample = np.asarray(values)
        if sample.ndim != 1 or sample.dtype.kind not in "fiu":
            raise TypeError
    except (TypeError, ValueError):
        raise TypeError("values must be a sequence of real numbers") from None
    sample = sample.astype(np.float64)
    if len(sample) == 0:
        return {"mean": np.nan, "median": np.nan, "ci95": np.nan}
    ci95 = np.nan
    if len(sample) > 1:
        quantile = stats.t.isf((1 - 0.95) / 2, len(sample) - 1)
        ci95 = float(quantile * sample.std(ddof=1) / np.sqrt(len(sample)))
    return {"mean": float(sample.mean()), "median": float(np.median(sample)), "ci95": ci95}


def ci95(values: ArrayLike) -> float:
    """Half-width of the 95 % interval of the mean by Student's t."""
    return summary(values)["ci95"]


def mean(values: pd.Series) -> float:
    """The mean, added up by numpy (pandas' own differs in the last bit)."""
    return float(values.to_numpy(dtype=np.float64).mean())


def grouped(
    frame: pd.DataFrame, keys: list[str], count: Any = "seeds", **columns: Any
) -> pd.DataFrame:
    """One row for each value of `keys`, in order of appearance, with how many cells it has.

    `columns` are named aggregates, new column -> (column, statistic).
    """
    size = {count: (frame.columns[0], "size")}
    out = frame.groupby(keys, sort=False, dropna=False).agg(**(size | columns))
    return out.reset_index()


def sorted_by(frame: pd.DataFrame, **orders: Iterable[Any] | None) -> pd.DataFrame:
    """Rows by columns: in the given order of values, or naturally where that is None."""
    if not orders:
        return frame
    ranks = {}
    for name, order in orders.items():
        places = None if order is None else {value: i for i, value in enumerate(order)}
        ranks[name] = frame[name] if places is None else frame[name].map(places)
    return frame.loc[pd.DataFrame(ranks).sort_values(list(ranks), kind="stable").index]


def melted(frame: pd.DataFrame, prefix: str, name: str, value: str) -> pd.DataFrame:
    """Columns ``prefix0, prefix1, ...`` one under the other: number as `name`, content `value`."""
    found = [c for c in frame.columns if c.startswith(prefix) and c[len(prefix) :].isdigit()]
    rest = [c for c in frame.columns if c not in found]
    long = frame.melt(rest, found, var_name=name, value_name=value)
    return long.assign(**{name: long[name].str[len(prefix) :].astype(int)})
