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
    bounds = "bounds.csv"          # column,lower,upper; public
    delta = 1e-6                   # far below one over the number of rows
    # any other parameter of the estimator: trust ("local", "shuffled" ...), method,
    # unit, mode, seed, options ...

    [output]
    folder = "results"             # the default; must not hold a result yet

Every fit opens a ledger of its own: whoever fits a second time on the same data adds up both.

Files are comma-separated, in UTF-8. Whose a row is (and its class, where classes are words) is read
as text: 01 and 1 are two clients, NA is one. A rehearsal prints exact costs and charges nothing: it
refuses the private files of [data], under whatever name, and needs none of them.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fedclust import estimators
from fedclust.command.saying import DONE, FAILED, REFUSED, say
from fedclust.tables import CsvTable, read_csv
from fedclust_helpers._private import private
from fedclust_helpers.federation import ClippedDataWarning

SECTIONS = {
    "data": {"file", "files", "clients", "labels", "server"},
    "study": None,  # parameters of the estimator, which checks them
    "output": {"folder"},
}
FOR_THE_HOLDER = (
    ClippedDataWarning, estimators.UnusualColumnWarning, estimators.PublicBoundsWarning,
)  # fmt: skip
SET_ELSEWHERE = frozenset({"ledger", "X_server"})


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
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path.name} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path.name} is no TOML file: {error}") from None
    for section, content in study.items():
        if section not in SECTIONS or not isinstance(content, dict):
            raise StudyError(f"{path.name}: sections are data, study and output, not {section!r}")
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
    if wrong := sorted(SET_ELSEWHERE & set(settings)):
        raise StudyError(f"{path.name}: {wrong[0]} is no setting of a study")
    if "bounds" in settings:
        settings["bounds"] = path.parent / str(settings["bounds"])
    if server is not None:
        if name not in ("PrivateKMeans", "FedDPKMeans"):
            raise StudyError(
                f"{path.name}: [data] server is for PrivateKMeans and FedDPKMeans only"
            )
        settings["X_server"] = read_csv(path.parent / str(server))
    try:
        return getattr(estimators, name)(**settings)
    except TypeError as error:
        raise StudyError(f"{path.name}: [study] {str(error).partition('() ')[2]}") from None


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
    if len(named) < len(files):
        raise StudyError("[data] files must name every file once")
    return {name: reading(folder / str(file)) for name, file in named.items()}


def _check_public(public: Path, data: dict[str, Any], folder: Path) -> None:
    """Refuse a file that is, or has all lines of, a private one or all of them, in any order."""
    files = data.get("files", [data.get("file")])
    named = files.values() if isinstance(files, dict) else files if isinstance(files, list) else []
    private = [folder / file for file in named if isinstance(file, str)]
    private = [path for path in private if path.is_file() and os.access(path, os.R_OK)]
    lines, each = _lines(public), [_lines(path) for path in private]
    if lines in [*each, set().union(*each)] or any(public.samefile(path) for path in private):
        raise StudyError(
            f"{public.name} holds private rows of [data]: a rehearsal protects nothing, prints"
            " exact costs and charges no budget; give it public or synthetic rows"
        )


def _lines(path: Path) -> set[bytes]:
    return {line.strip() for line in path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines()}


def _table(path: Path, labels: str | None = None, classes: Sequence[Any] = ()) -> CsvTable:
    """A CSV file; the column of labels holds classes, where these are no words."""
    table = read_csv(path)
    return table if labels not in table.column_names else table.classes(labels, classes)


def run(config: str | Path, *, dry_run: bool = False, rehearse: str | Path | None = None) -> int:
    """Do what the command does; returns its exit code."""
    try:
        with _told(*FOR_THE_HOLDER):
            estimator, (X, y, clients), folder = read_study(config, rehearse)
            if rehearse is not None:
                bar = sys.stderr.isatty()
                print(estimator.rehearse(X, y, clients=clients, progress=bar).to_string())
                return DONE
            statement = estimator.preview(X, y, clients=clients)
    except (OSError, ValueError, TypeError, ImportError) as error:
        return say(error, REFUSED)
    if dry_run:
        print(statement)
        return DONE
    results = folder / "model.json", folder / "centers.csv"
    try:
        _begin(results, statement)
    except (OSError, StudyError) as error:
        return say(error, REFUSED)
    try:
        found = estimator.bounds == "private"  # of other bounds the preview has told
        with _told(*[ClippedDataWarning] * found):
            estimator.fit(X, y, clients=clients)
        estimator.save(results[0], overwrite=True)  # what `_begin` wrote
        with open(results[1], "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(_centers(estimator))
    except (Exception, KeyboardInterrupt) as error:
        return say(error, FAILED)
    print(estimator.statement())
    print(f"written: {results[0].name} and {results[1].name} in {folder.name}")
    return DONE


@contextmanager
def _told(*kinds: type[Warning]) -> Iterator[None]:
    """Warnings of these kinds in one line each, for whoever holds the rows."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(each.message) for each in told if each.category in kinds):
        print(f"fedclust: warning: {text}", file=sys.stderr)


def _begin(results: tuple[Path, Path], statement: estimators.Statement) -> None:
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
        for path, text in zip(results, (json.dumps(begun, indent=1), ""), strict=True):
            with open(path, "x", encoding="utf-8", opener=private) as file:
                file.write(text + "\n")
    except OSError as error:
        raise StudyError(f"{folder.name} cannot be written to: {error.strerror}") from None


def _centers(estimator: Any) -> list[list[Any]]:
    """The released centres, or models, below the names of their columns."""
    models = hasattr(estimator, "models_")
    released = estimator.models_ if models else estimator.cluster_centers_
    names = None if models else getattr(estimator, "feature_names_in_", None)
    return [list(range(released.shape[1]) if names is None else names), *released.tolist()]
