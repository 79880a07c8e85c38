"""What the claims of FedDP-KMeans read off the tables.

The figures come without numbers, so a claim about one is what the text says. "Best" of a method is
its best number of rounds T at that epsilon, by the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedclust_helpers.feddp_kmeans import STARTS
from studies.bench.grading import at, decided, several

NEAR = 0.1  # excess over optimal that counts as optimal: 0.2 % of the cost


def _best(frame: pd.DataFrame, *methods: str) -> pd.DataFrame:
    """Row with the smallest mean excess of these methods, by epsilon (starts alone left out)."""
    part = frame[frame["method"].isin(methods) & frame["eps_total"].gt(0)].reset_index()
    return part.loc[part.groupby("eps_total")["excess_mean"].idxmin()].set_index("eps_total")


def _against(frame: pd.DataFrame, ours: Sequence[str], theirs: Sequence[str]) -> dict[str, Any]:
    """Excesses of both by epsilon, and where ours is lower."""
    a, b = _best(frame, *ours), _best(frame, *theirs)
    half = np.hypot(a["ci95"], b["ci95"])
    return {
        "a": a["excess_mean"], "b": b["excess_mean"], "ours": at(a["excess_mean"], ".2f"),
        "theirs": at(b["excess_mean"], ".2f"),
        "cells": decided(b["excess_mean"] - a["excess_mean"], half),
    }  # fmt: skip


def starts(frame: pd.DataFrame, least: float = 0.0, **where: Any) -> dict[str, Any]:
    """FedDP-KMeans against the best public start with private rounds, from an epsilon on."""
    frame = frame[frame["eps_total"] >= least]
    for name, value in where.items():
        frame = frame[frame[name] == value]
    return _against(frame, ["feddp"], list(STARTS))


def data(cost: pd.DataFrame) -> dict[str, Any]:
    """Figure 1: against the best start, how starts stay on a plateau, and k-FED."""
    data = cost[cost["level"] != "client"]
    each = {name: _best(data, name)["excess_mean"] for name in STARTS}
    kfed = data[data["method"] == "kfed"].iloc[0]
    return starts(data) | {
        "plateau": [v.iloc[-1] > 0.5 * v.iloc[0] and v.iloc[-1] > 1 for v in each.values()],
        "each": "; ".join(f"{n} {v.iloc[0]:.1f} to {v.iloc[-1]:.1f}" for n, v in each.items()),
        "kfed": kfed["excess_mean"], "kfed_max": kfed["excess_max"],
    }  # fmt: skip


def untouched(census: pd.DataFrame) -> dict[str, Any]:
    """The best public start with nothing released, and from where FedDP-KMeans is below it."""
    from_, rows = [], []
    for name, part in census.groupby("employment", sort=False):
        alone = part.loc[part["eps_total"].eq(0), "excess_mean"].min()
        ours = _best(part, "feddp")["excess_mean"]
        from_.append(min(ours.index[ours < alone], default=np.inf))
        rows.append(f"{name} {alone:.2f}; {at(ours[ours.index >= 4], '.2f')}")
    return {"from_": from_, "rows": "; ".join(rows)}


def ranking(frame: pd.DataFrame, **where: Any) -> dict[str, Any]:
    """Public starts with private rounds, each at its best T: in how many cells which is first."""
    for name, value in where.items():
        frame = frame[frame[name] == value]
    panels = [name for name in ("employment", "clients") if name in frame]
    each = [
        pd.DataFrame({name: _best(part, name)["excess_mean"] for name in STARTS})
        for _, part in frame.groupby(panels)
    ]
    table = pd.concat(each)
    lloyds = table["server_lloyds"] < table["server_kmeanspp"]
    first = table.idxmin(axis=1).eq("sphere_packing")
    last = table.idxmax(axis=1).eq("sphere_packing")
    return {
        "lloyds": lloyds.sum(), "first": first.sum(), "last": last.sum(), "cells": len(table),
        "lloyds_first": lloyds.tolist(), "packing_last": last.tolist(),
        "least": ", ".join(f"{name} {cost:.1f}" for name, cost in table.iloc[0].items()),
    }  # fmt: skip


def kfed(cost: pd.DataFrame) -> dict[str, Any]:
    """Client level at the largest epsilon: k-FED, FedDP-KMeans and the best public start."""
    client = cost[cost["level"] == "client"]
    each = client[client["method"] == "kfed"].set_index("clients")["excess_mean"]
    pairs = [starts(client, clients=clients) for clients in each.index]
    ours, theirs = ([float(pair[name].iloc[-1]) for pair in pairs] for name in "ab")
    return {
        "kfed": several(each, ".2f"), "ours": several(ours, ".2f"),
        "theirs": several(theirs, ".2f"), "beaten": bool((each > ours).all()),
        "ahead": bool((each < theirs).all()),
    }  # fmt: skip


def fronts(pareto: pd.DataFrame) -> dict[str, Any]:
    """Total epsilon from which a front is near the optimum, and stays below all baselines'."""
    part = pareto[~pareto["panel"].str.startswith("client") & pareto["method"].eq("feddp")]
    out: dict[str, Any] = {"near": part.loc[part["excess_mean"] <= NEAR, "eps_total"].min()}
    crossings = []
    for clients in (1000, 2000, 5000):
        both = pareto[pareto["panel"] == f"client_{clients}"].sort_values("eps_total")
        excess, own = both["excess_mean"], both["method"] == "feddp"
        ours = excess.where(own).cummin().ffill().fillna(np.inf)
        theirs = excess.where(~own & both["method"].isin(STARTS)).cummin().ffill().fillna(np.inf)
        behind = both.loc[~(ours < theirs), "eps_total"].max()
        crossings.append(both.loc[both["eps_total"] > behind, "eps_total"].min())
    return out | {"crossings": crossings}


def more_clients(cost: pd.DataFrame) -> dict[str, Any]:
    """T = 0: cells are an epsilon and two neighbouring numbers of clients."""
    first = cost.query("level == 'client' and method == 'feddp' and T == 0")
    mean, ci = (
        first.pivot_table(index="eps_total", columns="clients", values=c)
        for c in ("excess_mean", "ci95")
    )
    half = np.hypot(ci.to_numpy()[:, 1:], ci.to_numpy()[:, :-1])
    rows = "; ".join(f"{several(row, '.2f')} at {e:g}" for e, row in mean.iterrows())
    return {"cells": decided(-np.diff(mean.to_numpy(), axis=1), half), "rows": rows}


def client_level(cost: pd.DataFrame) -> dict[str, Any]:
    """Smallest epsilon from which FedDP-KMeans stays below the best start, by clients."""
    first = []
    for clients in (1000, 2000, 5000):
        found = starts(cost, level="client", clients=clients)
        behind = found["a"].index[found["a"] >= found["b"]]
        left = [e for e in found["a"].index if e > max(behind, default=0)]
        first.append(min(left, default=np.inf))
    return {"from_": first}


def missing(table: pd.DataFrame) -> dict[str, Any]:
    """Figure 3: excess at T = 0 by the clusters that the server does not see."""
    part = table[table["method"].eq("feddp") & table["T"].eq(0)]
    pivot = part.pivot_table(index="missing", columns="eps_total", values="excess_mean")
    last = pivot[pivot.columns.max()]
    return {
        "rises": bool(last.is_monotonic_increasing), "most": last.max(),
        "rows": "; ".join(f"{m} missing {several(row, '.2f')}" for m, row in pivot.iterrows()),
    }  # fmt: skip


def adaptive(cost: pd.DataFrame) -> dict[str, Any]:
    """Against the better of the paper's two at its best T, and against public starts alone."""
    ratio, known, free = [], [], []
    for _, part in cost.groupby(["level", "clients"]):
        pair = _against(part, ["feddp_adaptive"], ["feddp", "server_lloyds"])
        alone = part.loc[part["eps_total"].eq(0), "excess_mean"].min()
        known += (pair["a"] < pair["b"]).tolist()
        free += (pair["a"] < alone).tolist()
        ratio += (pair["b"] / pair["a"]).tolist()
    return {"known": known, "free": free, "low": min(ratio), "high": max(ratio)}


def elbow(table: pd.DataFrame, k_prime: int) -> dict[str, Any]:
    """K17: how often the elbow is at the true k, or next to it, by the budget of Step 1."""
    found = table.drop_duplicates(["k_prime", "level", "eps1"]).set_index("eps1")
    found = found[(found["level"] != "client") & (found["k_prime"] == k_prime)]
    true, near = found["elbow_is_true_k"], found["elbow_within_1"]
    return {
        "true": true.median(), "near": near.median(), "rows": at(true, ".0%"),
        "rows_near": at(near, ".0%"),
    }  # fmt: skip


def pareto_shares(table: pd.DataFrame, number: int, panel: str) -> dict[str, Any]:
    """K.table2 to 5: shares among the Pareto-optimal runs, printed, ours, and of all settings."""
    part = table[table["table"].eq(number)].set_index("quantity")
    part = part[part["panel"].str.endswith(panel.split("_")[1])]
    paper, ours, chance = part["paper"], part["ours"], part["all_settings"]
    best = ours[ours == ours.max()].index
    pairs = zip(part.index, paper, ours, strict=True)
    return {
        "pairs": ", ".join(f"{q} {p:.2f}/{o:.2f}" for q, p, o in pairs),
        "runs": part["pareto_runs"].iloc[0], "off": (ours - paper).abs().max(),
        "chance": (chance - paper).abs().max(), "same": list(best) == [paper.idxmax()],
    }  # fmt: skip


def without_rounds(table: pd.DataFrame) -> dict[str, Any]:
    """K.table45.none: shares of the Pareto-optimal runs without a round, printed and ours."""
    none = table[table["quantity"].eq("T=0")]
    rounds = table[table["quantity"].str.startswith("T=")]
    most = rounds.groupby("panel")["ours"].max()
    pairs = zip(none["panel"], none["paper"], none["ours"], strict=True)
    return {
        "pairs": ", ".join(f"{panel} {p:.2f}/{o:.2f}" for panel, p, o in pairs),
        "enough": int((none["ours"] <= 0.8).sum()) <= 1,
        "largest": bool((none["ours"] >= most.loc[none["panel"]].to_numpy()).all()),
    }
