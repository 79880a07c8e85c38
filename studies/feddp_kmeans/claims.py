"""The claims of FedDP-KMeans, one row each: theory (G2, G6, K1 to K17, F9 to F11), code, tables.

The figures come without numbers, so a claim about one is what the text says. "Best" of a method is
its best number of rounds T at that epsilon, by the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedclust_helpers.feddp_kmeans import STARTS
from studies.bench.grading import (
    Cells,
    Claim,
    at,
    by_cells,
    decided,
    mostly,
    not_possible,
    several,
)
from studies.bench.results import load_printed
from studies.feddp_kmeans import checks
from studies.paper_data import one_hot_acsincome

NEAR = 0.1  # excess over optimal that counts as optimal: 0.2 % of the cost
SECOND = load_printed("feddp_kmeans/second", 3)
"""Largest excess of five runs with a second implementation, at epsilon 0.25, 0.5, 1, 2 and 4."""
GRID = "random settings in place of an unpublished grid"
STATES = "two states of 51, 31 to 36 times fewer rows, at the same noise"
COST, PARETO, CENSUS = ("feddp_cost",), ("feddp_pareto",), ("feddp_census",)

THEORY = [
    Claim("G2", "Lemma 6, Thm 9", "noise sqrt(2 ln(2/delta)) Delta/epsilon is (epsilon, delta)-DP;"
          " no range of epsilon is printed", checks.classic_with_two, "true over claimed"
          " delta = 1e-6: {over[0]:.3f}, {over[1]:.2f}, {over[2]:.2f}, {over[3]:.1f}, {over[4]:.0f}"
          " at epsilon 1, 5, 9, 10, 20", lambda n: max(n.over) <= 1,
          note="Holds to epsilon 9.7; section 2 has 1.25 for 2, see G1."),
    Claim("G6", "Lemma 5", "Laplace noise of scale 1/epsilon has variance 1/epsilon",
          checks.laplace, "{variance:.1f} at epsilon = 0.5, printed 2",
          lambda n: abs(n.variance - 2) < 0.1, note="A misprint: 2/epsilon^2."),
    Claim("K1", "Thm 1", "Init and Lloyds are (sum of the epsilons, delta)-DP with one delta",
          checks.composition, "three steps that leak with probability delta need {leak:.2f} delta;"
          " of these Gaussians the true delta is {true:.0e} of the claimed one",
          lambda n: n.leak <= 1, note="Not a theorem, see F9; harmless for these noises."),
    Claim("K2", "sec. 3.2, Alg. 2, App. F", "the noise of T rounds spends (epsilon, delta)",
          checks.round_noise, "true epsilon at T = 5 for a claim of 1: text {epsilon[0]:.2f},"
          " Algorithm 2 {epsilon[1]:.2f}, Appendix F {epsilon[2]:.2f}",
          lambda n: max(n.epsilon) <= 1 or (min(n.epsilon) <= 1 and "undecided"),
          note="Three formulas; Appendix F has Delta for Delta^2 and leaks."
          " Here: sqrt(T) times the exact noise of one round."),
    Claim("K3", "Thm 1", "the total is the sum of the epsilons (in shape: no more than it)",
          checks.composition, "six budgets of 1: {sum:.0f} by Theorem 1, {total:.2f} exactly; the"
          " Gaussians alone {gaussians:.2f} for 3", lambda n: n.total <= n.sum and "in shape",
          note="Loose."),
    Claim("K4", "Alg. 1, line 6", "the outer product is noised in all d^2 entries, then cut to its"
          " eigenvectors", checks.subspace, "{complex} of 100 eigenvalues are complex as printed;"
          " energy kept at epsilon 0.1: {mirror[1]:.2f} mirrored, {average[1]:.2f} averaged with"
          " the transpose", lambda n: n.complex > 0 and "undecided",
          note="Two ways to make it symmetric; the second, taken here, is better for free."),
    Claim("K5", "sec. 3.1", "Step 1 keeps what separates the means (0.9 of it at each epsilon; in"
          " shape: 0.98 at epsilon 1)", checks.subspace,
          "share of the energy at epsilon 0.05, 0.1, 0.2, 0.5, 1: {average[0]:.2f},"
          " {average[1]:.2f}, {average[2]:.2f}, {average[3]:.2f}, {average[4]:.3f}",
          lambda n: n.average[-1] > 0.98 and (min(n.average) > 0.9 or "in shape"),
          note="Above the epsilon at which the noise reaches the eigengap."),
    Claim("K6", "Alg. 1, line 12", "weights have L1 sensitivity 1", checks.ties,
          "where two server points coincide one row changes {all} counts; {first} if the first"
          " wins", lambda n: n.all == 1, note="Ties need a rule: the first index, as here."),
    Claim("K7", "Lemma 7", "a noised mean is off by more than the bound with probability 0.1",
          checks.averaging, "rate {printed[0]:.2f}, {printed[1]:.2f}, {printed[2]:.2f},"
          " {printed[3]:.2f} at d = 1, 2, 10, 100", lambda n: max(n.printed) <= 0.1,
          note="sqrt(d) is missing, see F11."),
    Claim("K8", "Def. 2", "the experiments' mixture is separated as the theorems ask (c of 1 at"
          " least)", checks.conditions, "c = {c:.3f}, a large constant is meant",
          lambda n: n.c >= 1,
          note="The experiments lie outside the theorems; sigma_max is a standard deviation."),
    Claim("K9", "assumption (2)", "the server has few points enough", checks.conditions,
          "{allowed} allowed at epsilon = 1, {points} there", lambda n: n.points <= n.allowed),
    Claim("K10", "Lemma 11", "spectral norm of the points about their means", checks.conditions,
          "{low:.1f} <= {norm:.1f} <= {high:.0f} on the mixture",
          lambda n: n.low <= n.norm <= n.high),
    Claim("K11", "Lemma 12", "with n >= 24 ln(k)/w every component has half its share with"
          " probability 0.99", checks.smallest_component, "fails with probability at most"
          " {fails[0]:.4f} (k = 2), {fails[1]:.0e} (k = 10)", lambda n: max(n.fails) < 0.01,
          note="The printed proof gives 1 - 2/k only."),
    Claim("K12", "Lemma 13", "cost of centres found on weighted points", checks.weighted_cost,
          "at most {worst:.2f} of the bound in 500 random cases (k = 1)",
          lambda n: n.worst <= 1, note="Very loose."),
    Claim("K13", "Thm 3, first term", "the error halves in every round (in shape: from a"
          " separation of 6 sigma on)", checks.halving,
          "first round leaves {first[0]:.4f}, {first[1]:.2f}, {first[2]:.2f}, {first[3]:.2f} of it"
          " at separations of 20, 10, 6, 4 sigma; at 4 it ends at {plateau:.3f}",
          lambda n: all(n.halved) or (n.halved[:3] == [True] * 3 and "in shape"),
          note="Faster where separated, a plateau where not."),
    Claim("K14", "Thm 3, second term", "the floor goes with T/(epsilon n) (within 1.3)",
          checks.floors, "floor n, floor epsilon, floor/T: largest over smallest {spread[0]:.2f},"
          " {spread[1]:.2f}, {spread[2]:.2f}", lambda n: max(n.spread) < 1.3),
    Claim("K15", "Thm 3, second term", "the floor does not depend on d beyond Delta (ratios within"
          " 1.5)", checks.floors, "measured over printed {printed[0]:.1f}, {printed[1]:.1f},"
          " {printed[2]:.1f}, {printed[3]:.1f} at d = 4, 16, 64, 256",
          lambda n: max(n.printed) / min(n.printed) < 1.5,
          note="sqrt(d ln(1/delta)) is missing, see F10."),
    Claim("K16", "Thm 3", "the bound is on the distance to the true means", checks.floors,
          "at epsilon = 1e6, d = 16: {true[0]:.2f}, {true[1]:.2f}, {true[2]:.3f} for n = 2000,"
          " 8000, 32000; to the empirical means {empirical[0]:.0e} and less",
          lambda n: max(n.true) < 100 * max(n.empirical), note="Empirical means; see F10."),
    Claim("F9", "Thm 1", "with delta/3 for each step, basic composition holds; exact accounts are"
          " smaller", checks.composition, "six budgets of 1: {honest:.2f} with delta/3 each,"
          " {total:.2f} exactly", lambda n: n.total < n.honest, by="ours"),
    Claim("F10", "Thm 3", "floor T Delta sqrt(d ln(T/delta))/(epsilon n w); sigma sqrt(d/n_i) more"
          " for true means", checks.floors, "measured over corrected {corrected[0]:.2f},"
          " {corrected[1]:.2f}, {corrected[2]:.2f}, {corrected[3]:.2f} at d = 4, 16, 64, 256; true"
          " means {true[1]:.2f}, expected {sampling[1]:.2f}",
          lambda n: np.allclose(n.corrected, 1, atol=0.3)
          and np.allclose(n.true, n.sampling, rtol=0.4), by="ours"),
    Claim("F11", "Lemma 7", "with sqrt(d) + sqrt(2 ln(2/beta)) in the Gaussian term it holds",
          checks.averaging, "exceeded at a rate of {corrected[3]:.3f} at most (d = 1 to 100)",
          lambda n: max(n.corrected) <= 0.1, by="ours"),
    Claim("K.lemma23", "Lemma 23, Alg. 4", "a server point that stays has 2 ln(n)/epsilon rows",
          checks.simplified, "of 600 server points without rows {printed} stay, {proof} with the"
          " threshold of the proof (T = {rounds})", lambda n: n.printed == 0,
          note="The printed threshold lies below the noise of T + 1 releases; that of Lemma 26,"
          " 2 (T + 1) ln((T + 1)|Q|)/epsilon, does not."),
    Claim("K.thm15", "Thm 15, Alg. 5", "finds the means, whatever the diameter and the server's"
          " points", checks.whole_analysis, "median error {near:.2f} for sigma = 0.3, n = 80,000,"
          " epsilon = 1; groups 1e5 apart, epsilon = 40: {moved:.1f} with Lemma 17, {direct:.0f}"
          " without", lambda n: n.near < 0.3 and (n.moved < 0.3 or (
              n.moved < n.direct / 3 and "in shape")), design="mixtures of our own",
          note="With the threshold of the proof: see K.lemma23."),
    Claim("K.code", "released code", "its Gaussian task costs epsilon = 2.56",
          checks.released_code, "reported {reported:.2f}; Step 1 has noise for Delta, not Delta^2:"
          " {real:.1f}", lambda n: n.real <= n.reported, by="code"),
    Claim("K.shares", "App. H.1",
          "a tenth of its budget is enough for the weights or the counts, not"
          " for the outer product or the sums (cost above the optimum up to half more; three"
          " times at"
          " least)", checks.shares,
          "recommended shares of a sum of 1, 20,000 rows: {cost[none]:.2f};"
          " a tenth for weights {cost[weights]:.2f}, counts {cost[counts]:.2f}, outer product"
          " {cost[outer]:.2f}, sums {cost[sums]:.1f}; points of another kind weigh"
          " {weight[none]:.0%}, with a tenth for the outer product {weight[outer]:.0%}",
          lambda n: max(n.cost["weights"], n.cost["counts"]) < 1.5 * n.cost["none"]
          and min(n.cost["outer"], n.cost["sums"]) > 3 * n.cost["none"], by="ours"),
    Claim("K.table1.mixture", "Table 1", "the mixture has radius 10.57", checks.conditions,
          "server points {server[0]:.2f} to {server[1]:.2f} over 10 draws (0.5 read as variance);"
          " client points up to {client:.1f}", lambda n: n.server[0] <= 10.57 <= n.server[1],
          note="The radius of the server's points; some rows of clients are clipped."),
    Claim("K.table1.census", "Table 1", "the census sets have radius 2.65", lambda: {
          "norm": float(np.linalg.norm(one_hot_acsincome({name: [1] for name in (
              "SCHL", "MAR", "OCCP", "POBP", "RELP", "SEX", "RAC1P")}), axis=1)[0])},
          "{norm:.4f}, the root of 7 for every row", lambda n: abs(n.norm - 2.65) < 0.01),
    Claim("K.g2.first", "App. G.2", "assumption (1) holds clearly on the mixture",
          checks.appendix_g2, "right side {first[0]:.3g}, or {first[1]:.3g} with the sigma of the"
          " data; n is 100,000", lambda n: max(n.first) < 1e5),
    Claim("K.g2.second", "App. G.2", "assumption (2) has right side 29,000 (in shape: under one"
          " reading within 1 %)", checks.appendix_g2,
          "{second[0]:.0f} with Delta = 10, {second[1]:.0f} with 10.57; {second[2]:.0f} without"
          " the ln n, which section 4 does not have",
          lambda n: abs(n.second[0] / 29_000 - 1) < 0.01 and "in shape",
          note="300 server points are few enough."),
    Claim("K.g2.census1", "App. G.2", "assumption (1) has 123,000 on the census (in shape: within"
          " 1 % under one reading)", checks.appendix_g2,
          "as printed {census[0]:.0f}; with sigma = 1.87 {census[1]:.3g}, and"
          " {census[2]:.3g} with n of the federal employees",
          lambda n: abs(n.census[2] / 123_000 - 1) < 0.01 and "in shape",
          note="The printed factors give another number."),
    Claim("K.g2.census2", "App. G.2", "assumption (2) has 620,000 on the census (in shape: within"
          " 10 % under one reading)", checks.appendix_g2,
          "without and with ln n {census2[0]:.2g}, {census2[1]:.2g} (not for"
          " profit), {census2[2]:.2g}, {census2[3]:.2g} (federal), {census2[4]:.2g},"
          " {census2[5]:.2g} (self-employed)",
          lambda n: abs(n.census2[0] / 620_000 - 1) < 0.1 and "in shape",
          note="1020 server points are few enough in each."),
]  # fmt: skip


# --- figures --------------------------------------------------------------------------------------


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


def _starts(frame: pd.DataFrame, **where: Any) -> dict[str, Any]:
    """FedDP-KMeans against the best public start with private rounds."""
    for name, value in where.items():
        frame = frame[frame[name] == value]
    return _against(frame, ["feddp"], list(STARTS))


def _data(cost: pd.DataFrame) -> dict[str, Any]:
    data = cost[cost["level"] != "client"]
    each = {name: _best(data, name)["excess_mean"] for name in STARTS}
    kfed = data[data["method"] == "kfed"].iloc[0]
    return _starts(data) | {
        "plateau": [v.iloc[-1] > 0.5 * v.iloc[0] and v.iloc[-1] > 1 for v in each.values()],
        "each": "; ".join(f"{n} {v.iloc[0]:.1f} to {v.iloc[-1]:.1f}" for n, v in each.items()),
        "kfed": kfed["excess_mean"], "kfed_max": kfed["excess_max"],
    }  # fmt: skip


def _fronts(pareto: pd.DataFrame) -> dict[str, Any]:
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


def _more_clients(cost: pd.DataFrame) -> dict[str, Any]:
    """T = 0: cells are an epsilon and two neighbouring numbers of clients."""
    first = cost.query("level == 'client' and method == 'feddp' and T == 0")
    mean, ci = (
        first.pivot_table(index="eps_total", columns="clients", values=c)
        for c in ("excess_mean", "ci95")
    )
    half = np.hypot(ci.to_numpy()[:, 1:], ci.to_numpy()[:, :-1])
    rows = "; ".join(f"{several(row, '.2f')} at {e:g}" for e, row in mean.iterrows())
    return {"cells": decided(-np.diff(mean.to_numpy(), axis=1), half), "rows": rows}


def _client_level(cost: pd.DataFrame) -> dict[str, Any]:
    """Smallest epsilon from which FedDP-KMeans stays below the best start, by clients."""
    first = []
    for clients in (1000, 2000, 5000):
        found = _starts(cost, level="client", clients=clients)
        behind = found["a"].index[found["a"] >= found["b"]]
        left = [e for e in found["a"].index if e > max(behind, default=0)]
        first.append(min(left, default=np.inf))
    return {"from_": first}


def _missing(table: pd.DataFrame) -> dict[str, Any]:
    part = table[table["method"].eq("feddp") & table["T"].eq(0)]
    pivot = part.pivot_table(index="missing", columns="eps_total", values="excess_mean")
    last = pivot[pivot.columns.max()]
    return {
        "rises": bool(last.is_monotonic_increasing), "most": last.max(),
        "rows": "; ".join(f"{m} missing {several(row, '.2f')}" for m, row in pivot.iterrows()),
    }  # fmt: skip


def _near(n: Any) -> bool | str:
    """Within 0.1 and nearer than the settings that were tried; or with the same largest share."""
    return n.off <= min(0.1, 0.5 * n.chance) or ("in shape" if n.same else "undecided")


SHOWN = "excess by epsilon: FedDP-KMeans {ours}; best start {theirs}; {cells}"
FIGURES = [
    Claim("K.fig1.best", "Fig. 1 left", "beats all private baselines by a wide margin (half"
          " of their excess at most, every cell decided; else in shape)", _data,
          SHOWN, lambda n: n.cells.verdict if (n.b > 2 * n.a).all() else "in shape", COST),
    Claim("K.fig1.optimal", "Fig. 1 left", "optimal from a total epsilon of about 0.4 (0.5; in"
          " shape: 1)", _fronts,
          "300 random settings: excess below 0.1 from epsilon {near:.2f}",
          lambda n: n.near <= 0.5 or (n.near <= 1 and "in shape"), PARETO, design=GRID),
    Claim("K.fig1.plateau", "Fig. 1 left", "baselines stay on a plateau as the budget grows"
          " (above 1, and half of what they began with)", _data,
          "excess from epsilon 0.25 to 4: {each}", lambda n: mostly(n.plateau), COST),
    Claim("K.fig1.kfed", "Fig. 1 left", "k-FED (not private) is optimal (below 0.1)", _data,
          "excess {kfed:.4f}, at most {kfed_max:.4f}", lambda n: n.kfed_max < NEAR, COST),
    *(
        claim
        for name, figure in (("federal", "1 right"), ("not_for_profit", "8"),
                             ("self_employed", "9"))
        for claim in (
            Claim(f"K.{name}.best", f"Fig. {figure}", f"census, {name.replace('_', ' ')}: best"
                  " except at very low budgets (here: from epsilon 4 on)",
                  lambda t, name=name: _starts(t[t["eps_total"] >= 4], employment=name), SHOWN,
                  by_cells, CENSUS, design=STATES),
            Claim(f"K.{name}.optimum", f"Fig. {figure}", f"census, {name.replace('_', ' ')}:"
                  " recovers the optimum at a high budget (at the last below 0.1; in shape: a fifth"
                  " of the first)",
                  lambda t, name=name: _starts(t, employment=name),
                  "excess of FedDP-KMeans {ours}",
                  lambda n: n.a.iloc[-1] < NEAR or (n.a.iloc[-1] < 0.2 * n.a.iloc[0]
                                                    and "in shape"),
                  CENSUS, design=STATES),
        )
    ),
    *(
        Claim(f"K.fig{figure.split()[0]}.starts", f"Fig. {figure}", f"{clients} clients: public"
              " starts stay poor at any budget (at epsilon 4 the best is above 1, FedDP-KMeans"
              " below)",
              lambda t, clients=clients: _starts(t, level="client", clients=clients), SHOWN,
              lambda n: n.b.iloc[-1] > 1 > n.a.iloc[-1], COST)
        for clients, figure in ((2000, "2 left"), (1000, "10"), (5000, "11"))
    ),
    Claim("K.fig2.best", "Fig. 2, 10, 11", "client level: better than all private baselines"
          " (at every epsilon; in shape: from 4 on at the latest)", _client_level,
          "by means: 1000, 2000, 5000 clients from epsilon {from_[0]:g},"
          " {from_[1]:g}, {from_[2]:g} on", lambda n: max(n.from_) <= 0.25 or (
              max(n.from_) <= 4 and "in shape"), COST,
          note="The more clients, the sooner; below that the best start is as good or better."),
    Claim("K.fig2.clients", "Fig. 2, 10, 11", "better at the same budget with more clients",
          _more_clients, "excess at T = 0 with 1000, 2000, 5000 clients by epsilon: {rows};"
          " {cells}", by_cells, COST),
    Claim("K.fig2.crossing", "Fig. 2, 10, 11", "the budget at which it beats public starts falls"
          " with the clients", _fronts, "front below all baselines from epsilon"
          " {crossings[0]:.2f}, {crossings[1]:.2f}, {crossings[2]:.2f} with 1000, 2000, 5000",
          lambda n: n.crossings == sorted(n.crossings, reverse=True), PARETO, design=GRID),
    not_possible("K.stackoverflow", "Fig. 2 right, 12, 13, 14", "Stack Overflow, client level",
                 "the posts are a download of several GB, and the embedding model is not here"),
    Claim("K.fig3", "Fig. 3", "modest deterioration as clusters are missing at the server"
          " (at epsilon 4 the cost rises, and stays below 1; in shape: rises)", _missing,
          "excess at T = 0 by epsilon 0.25 to 4: {rows}",
          lambda n: n.rises and (n.most < 1 or "in shape"), ("feddp_missing",)),
    *(
        Claim(f"K.fig{figure}", f"Fig. {figure}", f"{missing} missing: still the best",
              lambda t, missing=missing: _starts(t, missing=missing), SHOWN, by_cells,
              ("feddp_missing",))
        for missing, figure in ((1, 4), (2, 5), (5, 6))
    ),
    *(
        Claim(id, "Fig. 7, App. H.3", f"the elbow is at the true k = 10 (k' = {k_prime}; in"
              " more than half of the runs at the median epsilon; in shape: within 1 of it)",
              checks.elbow(k_prime), "at 10, eps1 = eps2: {rows}; within 1 of it {rows_near}",
              lambda n: n.true > 0.5 or (n.near > 0.5 and "in shape"), ("feddp_elbow",), by=by)
        for id, k_prime, by in (("K17", 20, "paper"), ("K17.ten", 10, "ours"))
    ),
    *(
        Claim(f"K.table{number}.{panel}", f"Table {number}", f"{panel.replace('_', ', ')} clients:"
              f" {what} of the Pareto-optimal runs (off by 0.1 at most, and by half of what all"
              " settings are; in shape: the same one is largest; else undecided)",
              checks.pareto_shares(number, panel),
              "paper/ours {pairs} ({runs} runs); off by {off:.2f}, all settings by {chance:.2f}",
              _near, ("feddp_proportions",), design=GRID)
        for number, panel, what in (
            (2, "point_100", "shares of the step budgets"), (4, "point_100", "shares of T"),
            *((number, f"client_{m}", what) for m in (1000, 2000, 5000)
              for number, what in ((3, "shares of the step budgets"), (5, "shares of T"))),
        )
    ),
]  # fmt: skip


# --- ours -----------------------------------------------------------------------------------------


def _start_alone(table: pd.DataFrame) -> dict[str, Any]:
    """Cells in which FedDP-KMeans is below a start that releases nothing."""
    parts = (
        [(f"{m} clients", p) for m, p in table[table["level"] == "client"].groupby("clients")]
        if "level" in table
        else list(table.groupby("employment", sort=False))
    )
    cells, rows = [], []
    for name, part in parts:
        alone = part[part["eps_total"].eq(0) & part["method"].eq("server_lloyds")].iloc[0]
        best = _best(part, "feddp")
        half = np.hypot(best["ci95"], alone["ci95"])
        cells.append(decided(alone["excess_mean"] - best["excess_mean"], half))
        rows.append(f"{name} {alone['excess_mean']:.2f}: {cells[-1]}")
    return {"rows": "; ".join(rows), "cells": sum(cells, Cells(0, 0, 0))}


def _adaptive(cost: pd.DataFrame) -> dict[str, Any]:
    """Against the better of the paper's two at its best T, and against public starts alone."""
    ratio, known, free = [], [], []
    for _, part in cost.groupby(["level", "clients"]):
        pair = _against(part, ["feddp_adaptive"], ["feddp", "server_lloyds"])
        alone = part.loc[part["eps_total"].eq(0), "excess_mean"].min()
        known += (pair["a"] < pair["b"]).tolist()
        free += (pair["a"] < alone).tolist()
        ratio += (pair["b"] / pair["a"]).tolist()
    return {"known": known, "free": free, "low": min(ratio), "high": max(ratio)}


def _lost(cost: pd.DataFrame) -> dict[str, Any]:
    part = cost[cost["level"].eq("client") & cost["clients"].eq(2000)]
    found = _against(part, ["feddp"], ["server_lloyds"])
    lost = found["a"].index[found["a"] > found["b"]]
    return {"lost": several(lost, "g"), "holds": {0.25, 0.5} <= set(lost)}


def _second(cost: pd.DataFrame) -> dict[str, Any]:
    held: list[bool] = []
    for (level, clients, rounds), limits in SECOND.items():
        part = cost[cost["level"].eq("client").eq(level == "client") & cost["clients"].eq(clients)]
        part = part[part["method"].eq("feddp") & part["T"].eq(rounds)].sort_values("eps_total")
        held += (part["excess_mean"].round(3).to_numpy() <= limits).tolist()
    return {"held": held, "n": sum(held), "of": len(held)}


OURS = [
    *(
        Claim(f"K.alone.{name}", where, f"FedDP-KMeans beats the ServerLloyds start that releases"
              f" nothing ({what})", _start_alone, "excess of the start alone: {rows}", by_cells,
              table, by="ours")
        for name, where, what, table in (
            ("census", "Fig. 1, 8, 9", "census", CENSUS),
            ("client", "Fig. 2, 10, 11", "client level", COST),
        )
    ),
    Claim("K.adaptive", "Beyond", "feddp_adaptive is never worse than the better of feddp and"
          " server_lloyds, each at its best T", _adaptive, "by means in all 20 cells; the excess"
          " is {low:.2f} to {high:.0f} times smaller", lambda n: mostly(n.known), COST, by="ours"),
    Claim("K.adaptive.free", "Beyond", "feddp_adaptive is never worse than the best public start"
          " alone", _adaptive, "by means in all 20 cells", lambda n: mostly(n.free), COST,
          by="ours"),
    Claim("K.lost", "Sec. 5.2", "2000 clients: the recommended settings lose to server_lloyds below"
          " epsilon 1", _lost, "they lose at epsilon {lost}", lambda n: n.holds, COST, by="ours"),
    Claim("K.second", "Fig. 1, 2", "mean excess at most the largest of a second implementation",
          _second, "{n} of {of} cells", lambda n: mostly(n.held), COST, by="ours"),
]  # fmt: skip

CLAIMS = [*THEORY, *FIGURES, *OURS]
