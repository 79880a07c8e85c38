"""Finding, checking and downloading the files named in ``registry.csv``.

A file is read in the folder named by the environment variable ``FEDCLUST_DATA_DIR``, or else from a
cached download whose sha256 is checked.
"""

from __future__ import annotations

import csv
import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from fedclust_helpers._validation import check_choice

ENVIRONMENT_VARIABLE = "FEDCLUST_DATA_DIR"


class DatasetUnavailableError(FileNotFoundError):
    """A data file is neither on this machine nor could it be downloaded."""


@dataclass(frozen=True)
class RegistryEntry:
    """One line of ``registry.csv``: a file, its sha256 and where it comes from."""

    dataset: str
    file: str
    sha256: str
    bytes: int
    url: str
    licence: str
    citation: str


@cache
def registry() -> Mapping[str, RegistryEntry]:
    """All known files, keyed by ``<dataset>/<file name>``."""
    text = Path(__file__).with_name("registry.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return MappingProxyType(
        {row["file"]: RegistryEntry(**{**row, "bytes": int(row["bytes"])}) for row in rows}  # type: ignore[arg-type]
    )


def entry_of(dataset: str) -> RegistryEntry:
    """The first registered file of a data set, for its source, licence and citation."""
    return next(entry for entry in registry().values() if entry.dataset == dataset)


def available(dataset: str) -> bool:
    """Whether all files of a data set are on this machine (no network)."""
    check_choice(dataset, "dataset", tuple(sorted({e.dataset for e in registry().values()})))
    return all(is_local(entry) for entry in registry().values() if entry.dataset == dataset)


def cache_folder() -> Path:
    """Folder of downloaded files (per user; chosen by pooch)."""
    import pooch  # here: what is read from a folder, or runs in a browser, does without

    return Path(pooch.os_cache("fedclust"))


def _data_folder() -> Path | None:
    folder = os.environ.get(ENVIRONMENT_VARIABLE, "")
    return Path(folder) if folder else None


def _has_hash(path: Path, entry: RegistryEntry) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == entry.sha256


def is_local(entry: RegistryEntry) -> bool:
    """Whether the file is on this machine with the right sha256 (no network)."""
    folder = _data_folder()
    if folder is not None and (folder / entry.file).is_file():
        return _has_hash(folder / entry.file, entry)
    return _has_hash(cache_folder() / entry.file, entry)


def fetch(file: str) -> Path:
    """Path of a registered file (a key of `registry`, such as ``"s1/s1.data.gz"``).

    It is looked for in the folder named by ``FEDCLUST_DATA_DIR``, which is never written to, then
    in the user's cache, then downloaded. ValueError if it is not registered, or if its bytes (there
    or as downloaded) do not have the registered sha256; a wrong download is not kept.
    `DatasetUnavailableError` if it is not here and cannot be downloaded.
    """
    if not isinstance(file, str):
        raise TypeError(f"file must be the name of a registered file, got {type(file).__name__}")
    if file not in registry():
        raise ValueError(f"file must be one of the registered files, got {file!r}")
    return fetch_entry(registry()[file])


def fetch_entry(entry: RegistryEntry) -> Path:
    """Path of the file of one entry, as `fetch` finds it; the entry need not be registered."""
    file, folder = entry.file, _data_folder()
    save = f"save {entry.url} as <folder>/{file} and set {ENVIRONMENT_VARIABLE}=<folder>"
    if folder is not None and (folder / file).is_file():
        if not _has_hash(folder / file, entry):
            raise ValueError(
                f"{folder / file} does not have the registered sha256 {entry.sha256}: remove it, or"
                f" replace it by the file at {entry.url}"
            )
        return folder / file
    if sys.platform == "emscripten":
        raise DatasetUnavailableError(
            f"Data file {file} is not part of this page: run the notebook in JupyterLab"
        )
    import pooch

    try:
        path = pooch.retrieve(
            entry.url, known_hash=f"sha256:{entry.sha256}", fname=file, path=cache_folder()
        )
    except OSError as error:  # includes every network error of requests
        kind = type(error).__name__
        if (blocked := _blocked(cache_folder() / file)) is not None:
            raise DatasetUnavailableError(
                f"Data file {file} could not be kept in the cache: {blocked} ({kind}). Make that"
                f" path writable, or {save}."
            ) from error
        raise DatasetUnavailableError(
            f"Data file {file} is not on this machine and could not be downloaded from {entry.url}"
            f" ({kind}). {ENVIRONMENT_VARIABLE} is {folder or 'not set'}. Connect to the network"
            f" and try again, or {save}."
        ) from error
    except ValueError as error:
        raise ValueError(
            f"The bytes downloaded from {entry.url} do not have the registered sha256"
            f" {entry.sha256}; nothing was kept. Try again later, or {save}."
        ) from error
    return Path(path)


def _blocked(target: Path) -> str | None:
    """Why nothing can be written at `target`, or None if it could be."""
    if target.is_dir():
        return f"{target} is a folder"
    for folder in target.parents:
        if folder.is_dir():
            return None if os.access(folder, os.W_OK | os.X_OK) else f"{folder} is read-only"
        if folder.exists() or folder.is_symlink():
            return f"{folder} is not a folder"
    return f"{target} has no folder above it"  # pragma: no cover
