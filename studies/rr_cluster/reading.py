"""What the claims of RR-Cluster read off the tables.

Accuracies are compared by the 95 % intervals of paired differences, seed by seed. Our data, models
and numbers of rounds are not the paper's, so orderings are compared, and no accuracy table can be
reproduced or refuted.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from studies.bench.grading import decided, several
from studies.rr_cluster.figures import METHODS

BASE: dict[str, Any] = {"setting": "balanced", "model": "softmax", "k": 4, "rounds": 50}


def in_b(table: pd.DataFrame) -> dict[str, Any]:
    """R15: best B by noise, for updates as analysed and as Algorithm 2 makes them."""
    best = {}
    for name, part in table.groupby("reference"):
        pairs = part.loc[part.groupby("sigma_theta")["mse"].idxmin(), ["sigma_theta", "B"]]
        best[str(name)] = [int(b) for b in pairs.sort_values("sigma_theta")["B"]]
    one = table[table["reference"].eq("inserted") & table["sigma_theta"].eq(1)].sort_values("B")
    moved = one["bias2"].iloc[-1] - one["bias2"].iloc[1]
    return {
        "analysed": best["inserted"], "algorithm": best["trained"],
        "noises": several(sorted(table["sigma_theta"].unique()), "g"),
        "bias": one["bias2"].iloc[-1], "variance": one["variance"].iloc[-1],
        "trade": bool(moved > 0 and one["variance"].iloc[-1] < one["variance"].iloc[1]),
    }  # fmt: skip


def _select(frame: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """Rows with these values; a list is a choice."""
    for name, value in values.items():
        frame = frame[frame[name].isin(value if isinstance(value, (list, tuple)) else [value])]
    return frame


def _of(rows: pd.DataFrame) -> dict[str, Any]:
    """Cells of paired differences of accuracy, and their range in points."""
    gain = 100 * rows["diff_mean"]
    span = f"{gain.min():+.1f} to {gain.max():+.1f} points" if gain.any() else "+0.0 points in each"
    cells = decided(rows["diff_mean"], rows["ci95"])
    return {"cells": cells, "span": span, "off": gain.abs().max()}


def gain(
    paired: pd.DataFrame, method: str, reference: str, *, same: bool = True, sign: int = 1,
    **values: Any,
) -> dict[str, Any]:  # fmt: skip
    """Paired gain of a method over a reference, with noise; `same` identifiers by default."""
    rows = _select(paired, method=method, reference=reference, **values)
    rows = rows[np.isfinite(rows["epsilon"])]
    if same:
        rows = rows[rows["identifiers"] == rows["reference_identifiers"]]
    return _of(rows.assign(diff_mean=sign * rows["diff_mean"]))


def three_ways(paired: pd.DataFrame, reference: str, **values: Any) -> dict[str, Any]:
    """RR-Cluster, granted noise, as printed, as it holds, against a baseline under the promise."""
    rows = _select(paired, reference=reference, **values)
    ways = {
        "granted": _select(rows, method="rr_granted"),
        "printed": _select(rows, method="rr_ifca", identifiers="printed"),
        "holds": _select(rows, method="rr_ifca", identifiers="corrected"),
    }
    return {name: _of(part) for name, part in ways.items()}


def dealt(paired: pd.DataFrame, accuracy: pd.DataFrame, setting: list[str]) -> dict[str, Any]:
    """RR-Cluster, granted its noise, against each baseline where clients are dealt by labels."""
    rows = _select(paired, method="rr_granted", setting=setting)
    table = _select(accuracy, setting=setting, sampling="poisson")
    means = 100 * table.groupby("method")["acc_mean"].mean()
    told = "; ".join(
        f"{_name(str(m))} {v:.1f}" for m, v in means.sort_values(ascending=False).items()
    )
    by = {str(name): _of(part) for name, part in rows.groupby("reference")}
    return {"granted": _of(rows), "means": told} | by


def promise_share(promise: pd.DataFrame, accuracy: pd.DataFrame) -> dict[str, Any]:
    """How much of what RR-Cluster lacks against sums only under add/remove is its promise."""
    base, small = _select(promise, setting="balanced", model="softmax"), (2.0, 4.0, 8.0)
    base, sums = _select(base, epsilon=small), _select(accuracy, **BASE, epsilon=small)
    holds, own, free = (
        100 * rows.set_index("epsilon")["acc_mean"]
        for rows in (
            _select(base, method="rr_ifca", identifiers="corrected"),
            _select(base, method="ifca"),
            _select(sums, method="sums_ifca", sampling="poisson", accountant="poisson_rdp", B=8),
        )
    )
    return {
        "share": ((own - holds) / (free - holds)).tolist(), "holds": several(holds, ".1f"),
        "promise": several(own, ".1f"), "sums": several(free, ".1f"),
    }  # fmt: skip


def moved(diagnostics: pd.DataFrame) -> dict[str, Any]:
    """Most clients that rebalancing moves in a round, by B."""
    part = _select(diagnostics, method="rr_ifca", identifiers=("printed", "corrected"))
    most = part[np.isfinite(part["epsilon"])].groupby("B")["moved"].max()
    return {"at": ", ".join(f"{v:g} at B = {b}" for b, v in most.items()), "most": most}


def free(paired: pd.DataFrame) -> dict[str, Any]:
    """RR-Cluster against IFCA without noise."""
    rows = _select(paired, method="rr_ifca", reference="ifca", k=4)
    return _of(rows[np.isinf(rows["epsilon"])])


def _name(method: str) -> str:
    """What a key of the tables is called in prose."""
    return METHODS[method].label.replace("only, re-seeded", "only with re-seeding")


def worst(accuracy: pd.DataFrame) -> dict[str, Any]:
    """Accuracy of the private baselines, and where DP-FedCAM is below the others."""
    base = _select(accuracy, **BASE, identifiers=("none", "corrected"), sampling="fixed", B=0)
    base = base[np.isfinite(base["epsilon"])]
    private = base[(base["identifiers"] == "corrected") | (base["method"] == "fedavg")]
    mean, ci = (private.pivot_table(index="epsilon", columns="method", values=c)
                for c in ("acc_mean", "ci95"))  # fmt: skip
    others = ["fedavg", "fesem", "ifca"]
    half = np.hypot(ci[others].to_numpy(), ci[["fedcam"]].to_numpy())
    cells = decided(mean[others].to_numpy() - mean[["fedcam"]].to_numpy(), half)
    rows = "; ".join(f"{_name(m)} {several(100 * mean[m], '.1f')}" for m in [*others, "fedcam"])
    return {"rows": rows, "cells": cells}


def last_round(curves: pd.DataFrame) -> dict[str, Any]:
    """Cells: DP-FedAvg and DP-IFCA at each epsilon, against RR-Cluster."""
    last = curves[(curves["identifiers"] == "corrected") | (curves["method"] == "fedavg")]
    last = last[last["round"] == last["round"].max()]
    mean, ci = (last.pivot_table(index="epsilon", columns="method", values=c)
                for c in ("acc_mean", "ci95"))  # fmt: skip
    others = ["fedavg", "ifca"]
    gain = mean[["rr_ifca"]].to_numpy() - mean[others].to_numpy()
    rows = "; ".join(f"{_name(m)} {several(100 * mean[m], '.1f')}" for m in [*others, "rr_ifca"])
    half = np.hypot(ci[others].to_numpy(), ci[["rr_ifca"]].to_numpy())
    return {"rows": rows, "cells": decided(gain, half)}


def cluster_accuracy(accuracy: pd.DataFrame) -> dict[str, Any]:
    """Shares of clients whose own exact choice agrees with their group."""
    base = _select(accuracy, **BASE)
    noised = _select(base, method="rr_ifca", identifiers="corrected")
    noised = noised[np.isfinite(noised["epsilon"])]
    table = 100 * noised.pivot_table(index="B", columns="epsilon", values="cluster_acc")
    same = _select(base, method="ifca", identifiers="corrected", sampling="fixed")
    before = 100 * same[np.isfinite(same["epsilon"])].set_index("epsilon")["cluster_acc"]
    exact = base[np.isinf(base["epsilon"])]
    free = 100 * _select(exact, method="rr_ifca").sort_values("B")["cluster_acc"]
    plain = 100 * _select(exact, method="ifca")["cluster_acc"].iloc[0]
    return {
        "grows": (table.loc[8] - before).tolist(), "best": (table - before).max(axis=None),
        "plain": plain, "before": several(before.sort_index(), ".1f"),
        "rows": "; ".join(f"B = {b} {several(row, '.1f')}" for b, row in table.iterrows()),
        "free": several(free, ".1f"), "higher": (free > plain).tolist(),
    }  # fmt: skip


def network(table: pd.DataFrame, data: str) -> dict[str, Any]:
    """Accuracies of a network, and RR-Cluster against DP-FedAvg."""
    rows = table[(table["data"] == data) & np.isfinite(table["epsilon"])]
    rows = rows.set_index("method")
    mean, ci = rows["acc_mean"], rows["ci95"]
    half = math.hypot(ci["rr_ifca"], ci["fedavg"])
    return {
        "rows": "; ".join(f"{_name(m)} {100 * v:.1f}" for m, v in mean.items()),
        "constant": 100 * rows["constant_acc"].iloc[0],
        "cells": decided(mean["rr_ifca"] - mean["fedavg"], half),
    }  # fmt: skip


STARTS = ("far", "normal1", "normal5")


def lines_found(table: pd.DataFrame, difficulty: str) -> dict[str, Any]:
    """Table 9: in how many seeds all lines are found, by start."""
    part = _select(table, sizes="balanced", difficulty=difficulty)
    seeds, rows, holds = part["seeds"].max(), [], []
    for init in STARTS:
        plain = int(_select(part, init=init, method="ifca")["all_found"].iloc[0])
        found = _select(part, init=init, method="rr_ifca").sort_values("B")["all_found"]
        holds.append(found.max() >= 0.5 * seeds and found.max() > plain + 2)
        rows.append(f"{init} IFCA {plain}, RR-Cluster {several(found, '.0f')}")
    return {"rows": "; ".join(rows), "seeds": seeds, "holds": holds}


def line_bias(table: pd.DataFrame, difficulty: str) -> dict[str, Any]:
    """Table 9: test error of RR-Cluster over IFCA's on groups of different sizes."""
    part = _select(table, sizes="imbalanced", difficulty=difficulty, init="normal1")
    error = part.set_index("method")["mse_median"]
    plain, rr = float(error["ifca"]), error["rr_ifca"]
    return {"plain": plain, "rr": several(rr, ".3f"), "most": rr.max() / plain}


def reseeding(paired: pd.DataFrame) -> dict[str, Any]:
    """Sums only with re-seeding against without, with noise."""
    rows = _select(paired, method="sums_ifca_reseed", reference="sums_ifca")
    rows = rows[np.isfinite(rows["epsilon"])]
    return _of(rows[rows["accountant"] == rows["reference_accountant"]])


def threshold(table: pd.DataFrame) -> dict[str, Any]:
    """Mean gain over no re-seeding by threshold, small groups."""
    small = table[(table["setting"] == "small") & (table["below"] > 0)]
    gain = 100 * small.groupby("below")["gain_mean"].mean()
    return {"gain": ", ".join(f"{g:+.1f} at {b:g}" for b, g in gain.items()),
            "low": gain.iloc[0], "high": gain.iloc[-1]}  # fmt: skip


def raced(table: pd.DataFrame, value: str = "over_sums", *, sign: int = 1, **where: Any) -> Any:
    """Gains in the race: over sums only with everybody, or (value="gain") each client alone."""
    rows = _select(table, **where)
    gain, half = 100 * sign * rows[f"{value}_mean"], 100 * rows[f"{value}_ci95"]
    how = rows["who"].map({"sampled": " sampled"}), rows["reseed"].map({"on": " re-seeded"})
    names = rows["method"].str.replace("_", " ") + how[0].fillna("") + how[1].fillna("")
    if rows["epsilon"].nunique() > 1:
        names += rows["epsilon"].map(" at {:g}".format)
    each = [f"{n} {g:+.1f} ± {h:.1f}" for n, g, h in zip(names, gain, half, strict=True)]
    return {"cells": decided(gain, half), "each": "; ".join(each), "least": gain.min(),
            "least_on": names.iloc[int(gain.argmin())]}  # fmt: skip


def by_rule(table: pd.DataFrame) -> dict[str, Any]:
    """What the public rule loses against the better of re-seeding on and off, in the mean."""
    rows = table[table["reseed"].ne("none") & table["delta"].lt(1e-3)]
    keys = ["method", "who", "B", "epsilon"]
    both = rows.pivot_table(index=keys, columns="reseed", values="acc_mean").dropna()
    on = rows.groupby(keys)["rule"].mean().reindex(both.index).to_numpy() == 1
    lost = 100 * (both.max(axis=1) - np.where(on, both["on"], both["off"]))
    where = lost.index[int(lost.argmax())][0].replace("_", " ")
    return {"most": lost.max(), "mean": lost.mean(), "where": where, "on": on.sum(), "n": len(on)}


def mixed(table: pd.DataFrame) -> dict[str, Any]:
    """How the weight by precision fares, in points: `gain` is the lower end at epsilon below 2."""
    names = (table["work"] + table["epsilon"].map(" at {:g}".format)).tolist()
    best, validated = 100 * (table["best"] - table["mixed"]), table["mixed"] - table["validated"]
    over, half = 100 * table["over_released_mean"], 100 * table["over_released_ci95"]
    noisy = table["epsilon"] < 2

    def told(values: Any, form: str) -> str:
        return "; ".join(f"{n} {v:{form}}" for n, v in zip(names, values, strict=True))

    return {
        "below": told(best, ".1f"), "most": best.max(), "over": told(over, "+.1f"),
        "gain": (over - half)[noisy].min(), "loss": -over[~noisy].min(),
        "validated": told(100 * validated, "+.1f"), "least": validated.min(),
        "weights": told(table["weight"], ".2f"), "best": told(table["best_weight"], ".2f"),
        "each": told(table["mixed"], ".3f"),
    }  # fmt: skip
