"""Census task of FedDP-KMeans (App. G.1): working adults of the US, states as clients.

ACSIncome (Ding et al. 2021) describes each working adult of the American Community Survey by ten
coded columns. As in the paper, age (AGEP) and hours (WKHP) are left out, clients keep the rows of
one class of worker (COW), and the other seven columns are one-hot encoded. The columns come from
public code lists, so they are the same for every state, and every row has length sqrt(7): the
radius is known in advance.
"""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from fedclust_helpers._checked import checked
from fedclust_helpers._index import repeat
from fedclust_helpers._validation import FloatArray, IntArray, check_choice, check_int
from studies.bench.results import load_printed
from studies.paper_data.files import RegistryEntry, entry_of, fetch, fetch_entry, registry
from studies.paper_data.records import FederatedDataset, offsets_of

CODES: dict[str, tuple[int, ...]] = {
    name: tuple(map(int, codes.split()))
    for name, codes in load_printed("paper_data/census_codes", 1).items()
}
"""Codes of each variable, increasing, in the column order of ACSIncome: public, so that every state
gets the same columns whatever its rows hold.

The long lists (occupation, place of birth) were put together from public copies of the 2014-2018
data dictionary of the Census Bureau, without birthplace 208, which it marks "2016 or earlier". Two
checks: every code in the files of Colorado and Nebraska is listed, and with one more column for
"not available" per variable, as folktables has it, the total is the 819 of the paper.
"""

ACS_URL = "https://www2.census.gov/programs-surveys/acs/data/pums/2018/1-Year/csv_p{state}.zip"
"""Official file of one state (lower-case postal code): all persons of the 2018 sample."""

ACS_STATES = tuple(
    "al ak az ar ca co ct de fl ga hi id il in ia ks ky la me md ma mi mn ms mo mt ne nv nh nj nm "
    "ny nc nd oh ok or pa ri sc sd tn tx ut vt va wa wv wi wy pr".split()
)
"""The 51 clients of the paper: the 50 states and Puerto Rico, without the District of Columbia."""

EMPLOYMENT: Mapping[str, int] = MappingProxyType(
    {"not_for_profit": 2, "federal": 5, "self_employed": 6}
)
"""Classes of worker of the paper's three tasks, with their census code (column COW)."""

_CLUSTERS = 10
_COLUMNS = ("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P")
_FEATURE_NAMES = tuple(
    f"{name}={value}" for name, codes in CODES.items() for value in (*codes, "other")
)


def one_hot_acsincome(table: pd.DataFrame | Mapping[str, Any]) -> FloatArray:
    """One-hot encode the seven categorical ACSIncome columns with the public code lists.

    Parameters
    ----------
    table : DataFrame or mapping of columns of shape (n,)
        Must have SCHL, MAR, OCCP, POBP, RELP, SEX and RAC1P as numbers; other columns are ignored.

    Returns
    -------
    ndarray of float64 of shape (n, 819)
        One 1 in each of the seven blocks. The last column of a block takes missing values and codes
        that are not listed; in folktables, and so in the 819 of the paper, it is "N/A".

    Raises
    ------
    ValueError
        If a column is missing, or the columns differ in length.

    Examples
    --------
    >>> row = dict(SCHL=[21], MAR=[1], OCCP=[1021], POBP=[8], RELP=[0], SEX=[2], RAC1P=[1])
    >>> one_hot_acsincome(row).shape
    (1, 819)
    >>> int(one_hot_acsincome(row).sum())
    7
    """
    missing = [name for name in CODES if name not in table]
    if missing:
        raise ValueError(f"table must have the columns {', '.join(CODES)}; {missing[0]} is missing")
    columns = [_numbers(table[name], name) for name in CODES]
    if any(column.ndim != 1 or len(column) != columns[0].size for column in columns):
        raise ValueError("table must have columns of one length")
    encoded = np.zeros((len(columns[0]), len(_FEATURE_NAMES)))
    rows, start = np.arange(len(encoded)), 0
    for column, codes in zip(columns, CODES.values(), strict=True):
        known = np.asarray(codes, dtype=np.float64)
        place = np.minimum(known.searchsorted(column), len(known) - 1)
        place = np.where(known[place] == column, place, len(known))  # nan equals nothing
        encoded[rows, start + place] = 1.0
        start += len(known) + 1
    return encoded


def _numbers(column: Any, name: str) -> FloatArray:
    """A column of codes as floats; nan where one is missing."""
    try:
        array = np.asarray(column)
        if array.dtype.kind not in "fiuO":
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"table must hold numbers in the column {name}") from None


@checked
def make_acsincome_federation(
    employment: str,
    *,
    states: Sequence[str] = ("co", "ne"),
    clients_per_state: int = 1,
    rows_per_client: int | None = None,
    server_in: int = 20,
    server_out: int = 1000,
    sha256: Mapping[str, str] | None = None,
    rng: np.random.Generator,
) -> FederatedDataset:
    """Workers of one class at the clients, mostly other workers at the server (App. G.1).

    The paper has 51 clients, one per state. Only two states are registered with a verified hash;
    with `clients_per_state` above 1 each state is dealt at random into equal pseudo-clients. Those
    are *not* regions: the files name no area within a state, so the pseudo-clients of one state do
    not differ beyond chance. The paper also sets 10 % of each state's rows aside for validation;
    here all rows stay.

    Parameters
    ----------
    employment : {"not_for_profit", "federal", "self_employed"}
        Class of worker of the clients' rows.
    states : sequence of str, default ("co", "ne")
        Different entries of `ACS_STATES`. Colorado and Nebraska are registered files with a checked
        hash: 31306 and 10785 rows. Every other state is the Census Bureau's own file (`ACS_URL`),
        from which the rows of the task are selected here: older than 16, income above 100 dollars,
        at least one hour of work a week, positive weight. It is looked for at
        ``acs_pums/csv_p<state>.zip`` in ``FEDCLUST_DATA_DIR``, then in the cache, and downloaded
        otherwise.
    clients_per_state : int, default 1
    rows_per_client : int, optional
        Keep this many random rows of every client. All rows if not given.
    server_in, server_out : int
        Server points of the chosen class and of all others, drawn from all states together. The
        former are taken out of the clients' data: the authors' code leaves them there, too.
    sha256 : mapping of str to str, optional
        Hashes of those files, for states that are not registered: none was verified by us.
    rng : numpy.random.Generator

    Returns
    -------
    FederatedDataset
        ``radius = sqrt(7)``, the exact length of every row. `labels` are 1 for an income above
        50,000 dollars.

    Raises
    ------
    ValueError
        If an argument is out of range, a class has too few rows, a state is unknown or has no
        verified hash and none is given, or a file has other bytes.
    DatasetUnavailableError
        If a file is not here and cannot be downloaded.
    """
    code = _class_of_worker(employment)
    for state in states:
        check_choice(state, "each of states", ACS_STATES)
    if not states or len(set(states)) < len(states):
        raise ValueError("states must be a sequence of different state codes, at least one")
    check_int(clients_per_state, "clients_per_state")
    if rows_per_client is not None:
        check_int(rows_per_client, "rows_per_client")
    if server_in + server_out == 0:
        raise ValueError("server_in and server_out must leave the server a point")
    hashes = {} if sha256 is None else sha256
    tables = [_table(state, hashes.get(state)) for state in states]
    table = pd.concat(tables, ignore_index=True)
    state_of = repeat(np.arange(len(states)), [len(part) for part in tables])
    chosen = (table["COW"] == code).to_numpy()
    private, others = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    for name, size, limit in (
        ("server_in", server_in, len(private)),
        ("server_out", server_out, len(others)),
    ):
        if size > limit:
            raise ValueError(f"{name} must be <= {limit}, the rows of these states, got {size}")
    inside = rng.choice(private, server_in, replace=False)
    outside = rng.choice(others, server_out, replace=False)
    private = np.setdiff1d(private, inside)
    clients = [
        part
        for index in range(len(states))
        for part in _deal(
            private[state_of[private] == index], clients_per_state, rows_per_client, rng
        )
    ]
    order = np.concatenate(clients)
    entries = [_entry(state, hashes.get(state)) for state in states]
    return FederatedDataset(
        name=f"acsincome_{employment}",
        points=one_hot_acsincome(table.iloc[order]),
        offsets=offsets_of([len(part) for part in clients]),
        server_points=one_hot_acsincome(table.iloc[np.concatenate([inside, outside])]),
        n_clusters=_CLUSTERS,
        radius=math.sqrt(len(CODES)),
        radius_note="seven one-hot blocks: every row has length sqrt(7) exactly",
        in_distribution=np.arange(server_in + server_out) < server_in,
        source=" ".join(entry.url for entry in entries),
        licence=entries[0].licence,
        citation=entries[0].citation,
        labels=table["high_income"].to_numpy(dtype=np.int64)[order],
    )


def _deal(
    rows: IntArray, n_clients: int, rows_per_client: int | None, rng: np.random.Generator
) -> list[IntArray]:
    """Rows of one state in random order, one part per client; part sizes differ by at most one."""
    needed = n_clients * (rows_per_client or 1)
    if len(rows) < needed:
        raise ValueError(
            f"clients_per_state times rows_per_client must be <= {len(rows)}, the rows of one of "
            f"the states, got {needed}"
        )
    parts = np.array_split(rng.permutation(rows), n_clients)
    return [part[:rows_per_client] for part in parts]


def _class_of_worker(employment: str) -> int:
    return EMPLOYMENT[check_choice(employment, "employment", tuple(EMPLOYMENT))]


def _entry(state: str, sha256: str | None = None, kind: str = "features") -> RegistryEntry:
    """The registered file of a state, or its official file pinned to `sha256`."""
    check_choice(state, "state", ACS_STATES)
    if sha256 is not None:
        is_hash = isinstance(sha256, str) and re.fullmatch(r"[0-9a-fA-F]{64}", sha256)
        if not is_hash:
            raise ValueError("sha256 must be a hash of 64 hexadecimal digits")
    registered = registry().get(f"acsincome/acsincome_{state}_{kind}.csv")
    if registered is not None:
        return registered
    file, url = f"acs_pums/csv_p{state}.zip", ACS_URL.format(state=state)
    if sha256 is None:
        raise ValueError(
            f"sha256 must be given for state {state!r}: no hash of {url} was verified by us. "
            f"Download the file, compute its sha256, and pass it; or save it as <folder>/{file} "
            "and set FEDCLUST_DATA_DIR=<folder> to avoid a second download."
        )
    known = entry_of("acsincome")
    return RegistryEntry("acs_pums", file, sha256.lower(), 0, url, known.licence, known.citation)


def _table(state: str, sha256: str | None) -> pd.DataFrame:
    """The ten columns of ACSIncome and ``high_income``, as numbers, one row per person."""
    entry = _entry(state, sha256)
    if entry.dataset == "acsincome":
        table = pd.read_csv(fetch(entry.file))
        labels = pd.read_csv(fetch(_entry(state, kind="labels").file))
        return table.assign(high_income=labels["PINCP"].to_numpy() == 1)
    with zipfile.ZipFile(fetch_entry(entry)) as archive:
        names = [name for name in archive.namelist() if name.lower().endswith(".csv")]
        if len(names) != 1:
            raise ValueError(f"{entry.file} must hold exactly one csv file, got {len(names)}")
        with archive.open(names[0]) as stream:
            people = pd.read_csv(stream, usecols=[*_COLUMNS, "PINCP", "PWGTP"])
    working = people["AGEP"].gt(16) & people["PINCP"].gt(100) & people["WKHP"].gt(0)
    table = people[working & people["PWGTP"].ge(1)]
    return table[list(_COLUMNS)].assign(high_income=table["PINCP"].to_numpy() > 50_000)
