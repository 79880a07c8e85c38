"""The command `fedclust`: from data files to centres and a privacy statement.

    fedclust run --config study.toml                   run it: model.json and centers.csv
    fedclust run --config study.toml --dry-run         print the plan; nothing is sent or spent
    fedclust run --config study.toml --rehearse FILE   compare plans on rows that cost nothing

A study is a TOML file; paths are relative to it:

    [data]
    file = "visits.csv"            # one file, and the column that says whose each row is
    clients = "clinic"
    # files = {north = "north.csv", south = "south.csv"}   or one file for each client
    # labels = "class"             RRCluster: the column of labels
    # server = "related.csv"       FedDPKMeans: public rows of the server

    [study]
    estimator = "FastLloydKMeans"  # the default; or FedDPKMeans, LocalKMeans, RRCluster
    n_clusters = 4
    epsilon = 1.0
    bounds = "bounds.csv"          # column,lower,upper; public
    # any other parameter of the estimator: delta, trust ("shuffled" for LocalKMeans ...), method,
    # unit, mode, seed, options ...

    [output]
    folder = "results"             # the default; must not hold a result yet

Every run opens a ledger of its own: whoever runs a second study on the same data adds up both.

Exit codes: 0 done; 2 wrong arguments of the command; 3 the study or its data are refused, nothing
was spent; 4 the run failed after it may have begun to spend: count its epsilon as spent.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedclust_helpers import __version__, estimators

DONE, REFUSED, FAILED = 0, 3, 4
SECTIONS = {
    "data": {"file", "files", "clients", "labels", "server"},
    "study": None,  # parameters of the estimator, which checks them
    "output": {"folder"},
}
SET_ELSEWHERE = frozenset({"ledger", "X_server"})


class StudyError(ValueError):
    """A study that cannot be run as it is written."""


def read_study(path: str | Path) -> tuple[Any, tuple[Any, Any, Any], Path]:
    """The estimator of a study, what its `fit` takes (X, y, clients), and the folder of results.

    `StudyError` says in one line what is wrong in which file.
    """
    path = Path(path)
    try:
        study = tomllib.loads(path.read_text(encoding="utf-8"))
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
    estimator = _estimator(settings, path, data.get("server"))
    given = _rows(data, path.parent), data.get("labels"), data.get("clients")
    return estimator, given, path.parent / study.get("output", {}).get("folder", "results")


def _estimator(settings: dict[str, Any], path: Path, server: Any) -> Any:
    name = settings.pop("estimator", "FastLloydKMeans")
    if name not in estimators.KINDS:
        kinds = ", ".join(estimators.KINDS)
        raise StudyError(f"{path.name}: estimator must be one of {kinds}; got {name!r}")
    if wrong := sorted(SET_ELSEWHERE & set(settings)):
        raise StudyError(f"{path.name}: {wrong[0]} is no setting of a study")
    if "bounds" in settings:
        settings["bounds"] = path.parent / str(settings["bounds"])
    if server is not None:
        settings["X_server"] = _table(path.parent / str(server))
    try:
        return estimators.KINDS[name](**settings)
    except TypeError as error:
        raise StudyError(f"{path.name}: [study] {str(error).partition('() ')[2]}") from None


def _rows(data: dict[str, Any], folder: Path) -> Any:
    """One table, or a dict of one for each client."""
    if ("file" in data) == ("files" in data):
        raise StudyError("[data] must have either file or files")
    if "file" in data:
        return _table(folder / str(data["file"]))
    files = data["files"]
    if not isinstance(files, dict | list) or not files:
        raise StudyError("[data] files must be a list of paths, or a table: name = path")
    named = files if isinstance(files, dict) else {str(f): f for f in files}
    return {name: _table(folder / str(file)) for name, file in named.items()}


def _table(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path)
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError):
        raise StudyError(f"{path.name} cannot be read as a CSV file") from None


def run(config: str | Path, *, dry_run: bool = False, rehearse: str | Path | None = None) -> int:
    """Do what the command does; returns its exit code."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", estimators.TooFewRowsWarning)  # in the statement
            estimator, (X, y, clients), folder = read_study(config)
            if rehearse is not None:
                public = _table(Path(rehearse))
                own = clients if clients in list(public.columns) else None
                print(estimator.rehearse(public, y, clients=own).to_string())
                return DONE
            statement = estimator.preview(X, y, clients=clients)
    except (ValueError, TypeError, ImportError) as error:
        return _say(error, REFUSED)
    if dry_run:
        print(statement)
        return DONE
    results = folder / "model.json", folder / "centers.csv"
    try:
        if any(path.exists() for path in results):
            raise StudyError(f"{folder.name} holds a result already: name another output folder")
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, StudyError) as error:
        return _say(error, REFUSED)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator.fit(X, y, clients=clients)
        estimator.save(results[0])
        _centers(estimator).to_csv(results[1], index=False)
    except Exception as error:
        return _say(error, FAILED)
    print(estimator.statement())
    print(f"written: {results[0].name} and {results[1].name} in {folder.name}")
    return DONE


def _centers(estimator: Any) -> pd.DataFrame:
    """The released centres, or models, as a table."""
    if hasattr(estimator, "models_"):
        return pd.DataFrame(estimator.models_)
    names = getattr(estimator, "feature_names_in_", None)
    return pd.DataFrame(estimator.cluster_centers_, columns=names)


def _say(error: BaseException, code: int) -> int:
    """One line about an error, and the exit code."""
    print(f"fedclust: {' '.join(str(error).split())}", file=sys.stderr)
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: see the top of this module."""
    parser = argparse.ArgumentParser(
        prog="fedclust", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="run the study of a TOML file")
    one.add_argument("--config", required=True, metavar="FILE", help="the study")
    only = one.add_mutually_exclusive_group()
    only.add_argument("--dry-run", action="store_true", help="print the plan; nothing is spent")
    only.add_argument("--rehearse", metavar="FILE", help="compare plans on public rows (CSV)")
    asked = parser.parse_args(arguments)
    return run(asked.config, dry_run=asked.dry_run, rehearse=asked.rehearse)


if __name__ == "__main__":
    raise SystemExit(main())
