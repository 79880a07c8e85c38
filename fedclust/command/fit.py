"""`fedclust fit`: from data files to centres and a statement, all clients in one process.

The file is TOML; paths are relative to it:

    [data]
    file = "visits.csv"            # one file, and the column that says whose each row is
    clients = "clinic"
    # files = {north = "north.csv", south = "south.csv"}   or one file for each client
    # labels = "class"             RRCluster: the column of labels
    # server = "related.csv"       public rows of the server (PrivateKMeans, FedDPKMeans)

    [study]
    estimator = "PrivateKMeans"    # the default; or one of a paper: FastLloydKMeans, RRCluster ...
    n_clusters = 4
    epsilon = 1.0
    bounds = "bounds.csv"          # column,lower,upper; public. "private": found first, for a share
    # bounds = {age = [0, 110], dose = [0, 50]}      of the budget
    delta = 1e-6                   # far below one over the number of rows
    # n_clusters = "auto", and every other parameter of the estimator, by its name in Python:
    # trust ("local", "shuffled" ...), method, unit, missing, weights, mode, seed, options ...

    [ledger]                       # what all fits on these rows may cost together, over the years
    file = "visits.journal"        # kept with the rows; a fit beyond the budget is refused
    epsilon = 3.0
    delta = 1e-6

    [output]
    folder = "results"             # the default; must not hold a result yet

Into the folder go centers.csv (sizes and centres, as many digits as the noise leaves), the
statement (statement.txt; statement.html is a page for people who are no engineers), and model.json,
which has all digits and is read by `fedclust predict`.

Without [ledger] every fit opens one of its own: whoever fits a second time on the same data adds up
both. [ledger] may also have the unit and adjacency of `fedclust.KeptLedger`.

Files are comma-separated, in UTF-8. Whose a row is (and its class, where classes are words) is read
as text: 01 and 1 are two clients, NA is one. A rehearsal prints exact costs and charges nothing: it
refuses the private files of [data], under whatever name, and needs none of them.
"""

from __future__ import annotations

import csv
import difflib
import inspect
import json
import os
import sys
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fedclust import estimators
from fedclust.command.saying import DONE, FAILED, REFUSED, say
from fedclust.estimators.arguments import PARAMETERS
from fedclust.estimators.clusters import centers_table
from fedclust.flower.journal import JournalError
from fedclust.ledgers import KeptLedger
from fedclust.tables import CsvTable, read_csv
from fedclust_helpers._private import private
from fedclust_helpers.accounting import Budget, BudgetExceededError
from fedclust_helpers.federation import ClippedDataWarning

SECTIONS = {
    "data": {"file", "files", "clients", "labels", "server"},
    "study": None,  # parameters of the estimator, which checks them
    "ledger": {"file", "epsilon", "delta", "unit", "adjacency"},
    "output": {"folder"},
}
FOR_THE_HOLDER = (
    ClippedDataWarning, estimators.UnusualColumnWarning, estimators.PublicBoundsWarning,
)  # fmt: skip
SET_ELSEWHERE = frozenset({"ledger", "X_server"})
"""Parameters of an estimator that no line of [study] can hold."""
RESULTS = ("model.json", "centers.csv", "statement.txt", "statement.html")


class StudyError(ValueError):
    """A study that cannot be run as it is written."""


def read_study(
    path: str | Path, instead: str | Path | None = None
) -> tuple[Any, tuple[Any, Any, Any], Path]:
    """The estimator of a study, what its `fit` takes (X, y, clients), and the folder of results.

    With `instead`, X is read from that file, which must not hold the private rows. `StudyError`
    says in one line what is wrong in which file.
    """
    path = Path(path)
    try:
        study = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise StudyError(f"{path.name} cannot be read: {error}") from None
    except UnicodeDecodeError:
        raise StudyError(f"{path.name} has signs that are not UTF-8: save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path.name} is no TOML file: {error}") from None
    for section, content in study.items():
        if section not in SECTIONS or not isinstance(content, dict):
            raise StudyError(
                f"{path.name}: sections are data, study, ledger and output, not {section!r}"
            )
        known = SECTIONS[section]
        if known is not None and (wrong := sorted(set(content) - known)):
            raise StudyError(f"{path.name}: [{section}] has no {wrong[0]!r}")
    if "data" not in study or "study" not in study:
        raise StudyError(f"{path.name} must have the sections [data] and [study]")
    data, settings = study["data"], dict(study["study"])
    folder = study.get("output", {}).get("folder", "results")
    for name, value in (*((n, data.get(n)) for n in ("clients", "labels")), ("folder", folder)):
        if value is not None and not isinstance(value, str):
            raise StudyError(f"{path.name}: {name} must be text in quotes")
    estimator = _estimator(settings, path, data.get("server"))
    clients, labels = data.get("clients"), data.get("labels")
    if labels is not None and not hasattr(estimator, "classes"):
        raise StudyError(f"{path.name}: [data] labels are for RRCluster only")
    reading = partial(_table, labels=labels, classes=getattr(estimator, "classes", None) or ())
    if instead is None:
        rows = _rows(data, path.parent, reading)
        if "ledger" in study:
            estimator.set_params(ledger=_ledger(study["ledger"], path))
        return estimator, (rows, labels, clients), path.parent / folder
    public = reading(Path(instead))
    _check_public(Path(instead), data, path.parent)
    own = clients if clients in public.column_names else None
    return estimator, (public, labels, own), path.parent / folder


def _estimator(settings: dict[str, Any], path: Path, server: Any) -> Any:
    name = settings.pop("estimator", "PrivateKMeans")
    if name not in list(estimators.KINDS):
        kinds = ", ".join(estimators.KINDS)
        raise StudyError(f"{path.name}: estimator must be one of {kinds}; got {name!r}")
    kind = getattr(estimators, name)
    known = set(inspect.signature(kind).parameters) - SET_ELSEWHERE
    for wrong in sorted(set(settings) - known):
        if wrong in SET_ELSEWHERE:
            raise StudyError(f"{path.name}: {wrong} is no setting of a study")
        near = difflib.get_close_matches(wrong, known, 1)
        perhaps = f" (perhaps {near[0]})" if near else ""
        if wrong not in PARAMETERS:  # which the estimator answers by name
            raise StudyError(f"{path.name}: [study] has no {wrong!r}{perhaps}")
    bounds = settings.get("bounds")
    if isinstance(bounds, str) and bounds != "private":
        settings["bounds"] = path.parent / bounds
    if server is not None:
        if name not in ("PrivateKMeans", "FedDPKMeans"):
            raise StudyError(
                f"{path.name}: [data] server is for PrivateKMeans and FedDPKMeans only"
            )
        settings["X_server"] = read_csv(path.parent / str(server))
    try:
        return kind(**settings)
    except TypeError as error:  # one that is missing, or one of scikit-learn's
        raise StudyError(
            f"{path.name}: [study] {str(error).partition('() ')[2] or error}"
        ) from None


def _ledger(given: dict[str, Any], path: Path) -> KeptLedger:
    """The ledger in a file: opened, and kept from others until it is closed."""
    if missing := sorted({"file", "epsilon", "delta"} - set(given)):
        raise StudyError(f"{path.name}: [ledger] must have {missing[0]}")
    kept = {name: given[name] for name in ("unit", "adjacency") if name in given}
    budget = Budget(given["epsilon"], given["delta"])
    return KeptLedger(path.parent / str(given["file"]), budget=budget, **kept)


def _rows(data: dict[str, Any], folder: Path, reading: Callable[[Path], CsvTable]) -> Any:
    """One table, or a dict of one for each client."""
    if ("file" in data) == ("files" in data):
        raise StudyError("[data] must have either file or files")
    if "file" in data:
        return reading(folder / str(data["file"]))
    files = data["files"]
    if not isinstance(files, dict | list) or not files:
        raise StudyError("[data] files must be a list of paths, or a table: name = path")
    named = files if isinstance(files, dict) else {str(f): f for f in files}
    paths = {str(name): folder / str(file) for name, file in named.items()}
    if len({path.resolve() for path in paths.values()}) < len(files):
        raise StudyError("[data] files must name every file once: rows would count twice")
    return {name: reading(path) for name, path in paths.items()}


def _check_public(public: Path, data: dict[str, Any], folder: Path) -> None:
    """Refuse a file that is a private one, or has nine in ten of its lines among its own."""
    files = data.get("files", [data.get("file")])
    named = files.values() if isinstance(files, dict) else files if isinstance(files, list) else []
    private = [folder / file for file in named if isinstance(file, str)]
    private = [path for path in private if path.is_file() and os.access(path, os.R_OK)]
    rows = _rows_in(public)
    if any(public.samefile(path) or _are_among(_rows_in(path), rows) for path in private):
        raise StudyError(
            f"{public.name} holds private rows of [data]: a rehearsal protects nothing, prints"
            " exact costs and charges no budget; give it public or synthetic rows"
        )


def _rows_in(path: Path) -> list[dict[str, Any]]:
    """The lines of a file by the names of its columns; numbers as such, however written."""

    def cell(text: str) -> Any:
        try:
            return float(text)
        except ValueError:
            return text.strip()

    lines = csv.reader(path.read_text(encoding="utf-8-sig", errors="replace").splitlines())
    names = [name.strip() for name in next(lines, [])]
    return [dict(zip(names, map(cell, line), strict=False)) for line in lines if line]


def _are_among(private: list[dict[str, Any]], public: list[dict[str, Any]]) -> bool:
    """Whether nine in ten of these rows are among those, in any order, by the columns of both."""
    if not private or not public:
        return False
    shared = [name for name in private[0] if name in public[0]]
    own, found = (
        Counter(tuple(str(row.get(name)) for name in shared) for row in rows)
        for rows in (private, public)
    )
    return bool(shared) and 10 * (own - found).total() <= len(private)


def _table(path: Path, labels: str | None = None, classes: Sequence[Any] = ()) -> CsvTable:
    """A CSV file; the column of labels holds classes, where these are no words."""
    table = read_csv(path)
    return table if labels not in table.column_names else table.classes(labels, classes)


def run(config: str | Path, *, dry_run: bool = False, rehearse: str | Path | None = None) -> int:
    """Do what the command does; returns its exit code."""
    with ExitStack() as opened:
        return _run(config, dry_run, rehearse, opened)


def _run(config: str | Path, dry_run: bool, rehearse: str | Path | None, opened: ExitStack) -> int:
    try:
        with _told(*FOR_THE_HOLDER):
            estimator, (X, y, clients), folder = read_study(config, rehearse)
            if estimator.ledger is not None:
                opened.callback(estimator.ledger.close)
            if rehearse is not None:
                bar = sys.stderr.isatty()
                print(estimator.rehearse(X, y, clients=clients, progress=bar).to_string())
                return DONE
            statement = estimator.preview(X, y, clients=clients)
    except (
        OSError,
        ValueError,
        TypeError,
        ImportError,
        JournalError,
        BudgetExceededError,
    ) as error:
        return say(error, REFUSED)
    if dry_run:
        print(statement)
        return DONE
    results = [folder / name for name in RESULTS]
    try:
        _begin(results, statement)
    except (OSError, StudyError) as error:
        return say(error, REFUSED)
    try:
        found = estimator.bounds == "private"  # of other bounds the preview has told
        with _told(*[ClippedDataWarning] * found):
            estimator.fit(X, y, clients=clients)
        estimator.save(results[0], overwrite=True)  # what `_begin` wrote
        _write_csv(results[1], _centers(estimator))
        told = estimator.statement()
        results[2].write_text(f"{told}\n", encoding="utf-8")
        told.save(results[3], overwrite=True)
    except BudgetExceededError as error:  # of the plan as a whole, before its first message
        for path in results:
            path.unlink()
        return say(error, REFUSED)
    except (Exception, KeyboardInterrupt) as error:
        return say(error, FAILED)
    print(told)
    print(f"written: {', '.join(RESULTS[:-1])} and {RESULTS[-1]} in {folder.name}")
    return DONE


def predict(model: Path, table: Path, labels: Path | None = None) -> int:
    """Write the cluster of each row of a table, beside it: for who holds the rows, no release."""
    labels = table.with_name("labels.csv") if labels is None else labels
    try:
        fitted = estimators.load(model)
        if not hasattr(fitted, "cluster_centers_"):
            raise StudyError(f"{model.name} has models, not centres: use `load` and `predict`")
        rows = read_csv(table)
        found = fitted.predict(rows).tolist()
        with open(labels, "x", encoding="utf-8", opener=private):
            pass
        _write_csv(labels, [["line", "cluster"], *zip(rows.lines, found, strict=True)])
    except (OSError, ValueError, TypeError) as error:
        return say(error, REFUSED)
    print(
        f"written: {labels.name}, the cluster of each line of {table.name}. It says something of"
        " every row: keep it where the rows are"
    )
    return DONE


@contextmanager
def _told(*kinds: type[Warning]) -> Iterator[None]:
    """Warnings of these kinds in one line each, for whoever holds the rows."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(each.message) for each in told if each.category in kinds):
        print(f"fedclust: warning: {text}", file=sys.stderr)


def _begin(results: Sequence[Path], statement: estimators.Statement) -> None:
    """Take the folder, for one run only, before anything is spent: a trace is left if it fails."""
    folder = results[0].parent
    begun = {"format": "a run that did not end: count it as spent", "planned": statement.facts}
    if any(path.exists() for path in results):
        raise StudyError(
            f"{folder.name} holds a result already, or a run that did not end: name another output"
            " folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(results, (json.dumps(begun, indent=1), "", "", ""), strict=True):
            with open(path, "x", encoding="utf-8", opener=private) as file:
                file.write(text + "\n")
    except OSError as error:
        raise StudyError(f"{folder.name} cannot be written to: {error.strerror}") from None


def _centers(estimator: Any) -> list[Sequence[Any]]:
    """Sizes and centres below the names of their columns; of models their numbers."""
    if not hasattr(estimator, "models_"):
        return [*centers_table(estimator)]
    return [list(range(estimator.models_.shape[1])), *estimator.models_.tolist()]


def _write_csv(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
