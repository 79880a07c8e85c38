"""The claims about better releases, all of them ours: guarantees live, gains from the tables."""

from __future__ import annotations

import math
from typing import Any

import dp_accounting as dpa
import numpy as np
import pandas as pd

from fedclust_helpers import rr_cluster as rr
from fedclust_helpers.accounting import (
    PrivacyLedger,
    Shuffled,
    binary_delta,
    gdp_mu,
    local_epsilon_for,
)
from fedclust_helpers.federation import ClientData, simulate
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.rr_cluster import accounting as rr_accounting
from studies.bench.grading import (
    Cells,
    Claim,
    by_cells,
    decided,
    lower,
    mostly,
    several,
)
from studies.beyond import checks
from studies.beyond import trust as trust_models
from studies.beyond.figures import cost_of_bounds

# --- gains, from the tables -----------------------------------------------------------------------


def ratios(table: pd.DataFrame, keys: list[str], rival: str = "fastlloyd") -> pd.Series:
    """NICV of over-clustered Lloyd over a rival's, by cell."""
    by = table.set_index(keys)
    ours, theirs = (by[by["method"] == m]["nicv_mean"] for m in ("overclustered", rival))
    return ours / theirs


def _name(values: pd.Series) -> str:
    """Where the largest value is: the first level of its index."""
    worst: Any = values.idxmax()
    return str(worst[0])


def gain(sets: str) -> Any:
    """Geometric mean over the cells of one kind of sets, and where it is lower."""

    def check(table: pd.DataFrame) -> dict[str, Any]:
        part = table[(table["sets"] == sets) & (table["method"] != "optimum")]
        found = ratios(part, ["dataset", "epsilon"])
        cells = lower(part, "overclustered", "fastlloyd", keys=["dataset", "epsilon"],
                      value="nicv_mean", by="method")  # fmt: skip
        by_epsilon = np.exp(np.log(found).groupby("epsilon").mean())
        return {
            "mean": float(np.exp(np.log(found).mean())), "most": float(found.max()),
            "where": _name(found), "cells": cells, "by": several(by_epsilon, ".2f"),
        }  # fmt: skip

    return check


def against(rival: str, *, many: bool = False) -> Any:
    """Ratios to a rival in all cells, or those with many columns and clusters."""

    def check(table: pd.DataFrame) -> dict[str, Any]:
        part = table[(table["d"] > 4) & (table["k"] >= 15)] if many else table
        found = ratios(part[part["method"] != "optimum"], ["dataset", "epsilon"], rival)
        above = found[found > 1.05]
        named = zip(above.index.to_list(), above, strict=True)
        where = ", ".join(f"{name} at {epsilon:g}: {v:.2f}" for (name, epsilon), v in named)
        return {
            "mean": float(np.exp(np.log(found).mean())), "most": float(found.max()),
            "least": float(found.min()), "above": len(above), "n": len(found),
            "where": f" ({where})" if where else "",
        }  # fmt: skip

    return check


def unknown_k(table: pd.DataFrame) -> dict[str, Any]:
    """Chosen k against the true one, by data set, for the default range."""
    part = table[table["k_max"] == 48]
    by = part.groupby("dataset", sort=False)
    near, exact = by["near"].mean(), by["exact"].mean()
    spans = [
        f"{name} {int(one['k'].iloc[0])}: {one['k_least'].min():g}-{one['k_most'].max():g}"
        for name, one in by
    ]
    moved = table.groupby(["dataset", "epsilon"])["k_median"].agg(lambda v: v.max() - v.min())
    return {"near": near.tolist(), "exact": float(exact.mean()), "spans": ", ".join(spans),
            "ok": int((near >= 0.8).sum()), "n": len(near),
            "wrong": ", ".join(near.index[near < 0.8]),
            "moved": float(moved.median()), "most": float(moved.max())}  # fmt: skip


def bounds(table: pd.DataFrame) -> dict[str, Any]:
    """What bounds that do not fit cost each method, against its own cost with those that do."""
    found = cost_of_bounds(table)
    return {
        f"{method}_{name}": float(costs[width])
        for method, costs in found.items()
        for name, width in (("narrow", 0.8), ("wide", 10.0))
    }


def local(table: pd.DataFrame) -> dict[str, Any]:
    """The sketch against the better of Algorithms 1 and 4, mixtures of at least 1e5 users."""
    part = table[(table["data"] == "mixture") & (table["n"] >= 100_000)]
    by = part.set_index(["algorithm", "n", "dprime", "k", "epsilon"])
    ours = by.loc["sketch"]
    cells = Cells(0, 0, 0)
    for rival in ("alg1", "alg4"):
        theirs = by.loc[rival].reindex(ours.index)
        half = np.hypot(ours["ci95"], theirs["ci95"])
        cells += decided(theirs["over_optimum"] - ours["over_optimum"], half)
    mean = {
        name: float(np.exp(np.log(by.loc[name]["over_optimum"]).mean()))
        for name in ("sketch", "alg1", "alg4")
    }
    return mean | {"cells": cells, "most": float(ours["over_optimum"].max())}


def few(table: pd.DataFrame) -> dict[str, Any]:
    """The same with 10,000 users."""
    part = table[(table["data"] == "mixture") & (table["n"] == 10_000)]
    by = part.set_index(["algorithm", "dprime", "k", "epsilon"])["over_optimum"]
    ours, theirs = by["sketch"], by["alg1"]
    return {"share": float((ours < theirs).mean()), "ours": at_epsilon(ours),
            "theirs": at_epsilon(theirs)}  # fmt: skip


def at_epsilon(values: pd.Series) -> str:
    """Geometric means at each epsilon."""
    return several(np.exp(np.log(values).groupby("epsilon").mean()), ".2f")


def odd(table: pd.DataFrame) -> dict[str, Any]:
    """Data that is no mixture of round clusters of one width."""
    part = table[~table["data"].isin(["mixture", "birch2", "pixels", "wide_bounds"])]
    by = part.set_index(["algorithm", "data", "epsilon"])["over_optimum"]
    return {"most": float(by["sketch"].max()), "where": _name(by["sketch"]),
            "better": int((by["sketch"] < by["alg1"]).sum()), "n": len(by["sketch"]),
            "rival": float(by["alg1"].max())}  # fmt: skip


def real(table: pd.DataFrame) -> dict[str, Any]:
    """Pixels of a photograph and birch2."""
    part = table[table["data"].isin(["birch2", "pixels"])]
    by = part.set_index(["algorithm", "epsilon", "data"])["over_optimum"]
    ours, theirs = by["sketch"], by["alg1"]
    return {"one": several(ours[1.0], ".2f"), "four": several(ours[4.0], ".2f"),
            "rival": several(theirs[1.0], ".2f"), "at_one": float(ours[1.0].max()),
            "at_four": float(ours[4.0].max())}  # fmt: skip


def wide(table: pd.DataFrame) -> dict[str, Any]:
    """Bounds ten times too wide."""
    by = table[table["data"] == "wide_bounds"].set_index(["algorithm", "epsilon"])["over_optimum"]
    return {"ours": several(by["sketch"], ".1f"), "theirs": several(by["alg1"], ".1f"),
            "most": float(by["sketch"].max())}  # fmt: skip


def price(table: pd.DataFrame) -> dict[str, Any]:
    """Cost above the optimum by trust model, the best algorithm of each; geometric means."""
    by = table.set_index(["trust", "algorithm", "epsilon"])["excess"]
    best = {trust: by[trust][algorithm] for trust, algorithm in dict(trust_models.MODELS).items()}
    mean = {trust: float(np.exp(np.log(v).mean())) for trust, v in best.items()}
    at_one = {f"{trust}_one": float(v[1.0]) for trust, v in best.items()}
    local, shuffled = best["local"], best["shuffled"]
    return mean | at_one | {
        "ratios": several(local / shuffled, ".0f"), "least": float((local / shuffled).min()),
        "alg1": float((by["local"]["alg1"] / by["shuffled"]["alg1"]).min()),
    }  # fmt: skip


def crowd() -> dict[str, Any]:
    """The local epsilon of a bit that 100,000 users may send at a central 1; enumeration."""

    def bits(n: int, epsilon: float) -> Shuffled:
        return Shuffled((RandomizedResponse(epsilon),), n, drawn=True)

    local = local_epsilon_for(100_000, 1.0, 1e-6, lambda e: (RandomizedResponse(e),))
    tight = [
        binary_delta(200, e0, share * e0) / bits(200, e0).delta(share * e0)
        for e0 in (0.5, 1.0, 2.0) for share in (0.05, 0.1, 0.2)
    ]  # fmt: skip
    return {
        "local": local,
        "clones": local_epsilon_for(100_000, 1.0, 1e-6),
        "by_number": bits(1000, local).epsilon(1e-6),
        "most": max(tight),
        "least": min(tight),
    }


# --- model clustering at small epsilons -----------------------------------------------------------


def exact_rounds() -> dict[str, Any]:
    """Noise of a plan with everybody over sensitivity sqrt(T)/mu, and what Renyi orders certify."""
    clients, out = ClientData(np.zeros((6, 3)), np.arange(7)), {}
    training = rr.Training(rr.LinearRegression(2), cohort=6, clip=0.4)
    for adjacency, reach in (("replace-one", 2.0), ("add/remove", 1 / math.sqrt(0.9))):
        ledger = PrivacyLedger(unit="client", adjacency=adjacency)
        room = simulate(clients, "ideal", seed=0, ledger=ledger)
        plan = rr.plan_sums_only(room, training, n_clusters=2, n_rounds=30, epsilon=1.0, delta=1e-3)
        least = 0.4 * reach * math.sqrt(30) / gdp_mu(1.0, 1e-3)
        out[adjacency[:3]] = plan.mechanisms[0][0].std / least
        event = dpa.GaussianDpEvent(plan.dial.sigma)
        out["renyi"] = rr_accounting.event_epsilon(
            event, adjacency, 30, 1e-3, orders=rr_accounting.RUN_ORDERS
        )
    return out


def gained(reference: str, who: str, least: float = 0.0) -> Any:
    """What sums only with everybody gains over one rival, from an epsilon on; same clients."""

    def check(table: pd.DataFrame) -> dict[str, Any]:
        part = table[(table["reference"] == reference) & (table["reference_who"] == who)]
        part = part[part["data"] == "fashion_dct"]
        main = part.query("setting == 'balanced' and k == 4 and adjacency == 'replace-one'"
                          " and delta == 0.001").sort_values("epsilon")  # fmt: skip
        worst = part.iloc[int(part["gain_mean"].argmin())]
        part = part[part["epsilon"] >= least]
        return {
            "cells": decided(part["gain_mean"], part["ci95"]),
            "main": several(100 * main["gain_mean"], "+.1f"),
            "half": several(100 * main["ci95"], ".1f"), "least": 100 * worst["gain_mean"],
            "where": f"{worst['adjacency']}, epsilon {worst['epsilon']:g},"
                     f" delta {worst['delta']:g}",
        }  # fmt: skip

    return check


def goals(table: pd.DataFrame) -> dict[str, Any]:
    """Accuracy with everybody, replace-one, balanced, cosine features, at both deltas."""
    part = table.query("data == 'fashion_dct' and setting == 'balanced' and k == 4 and method =="
                       " 'sums' and who == 'everyone' and adjacency == 'replace-one'")  # fmt: skip
    by = part.set_index(["delta", "epsilon"])["acc_mean"].sort_index()
    return {"large": by[0.001].tolist(), "small": by[1e-5].tolist()}


def sampled_or_alone(table: pd.DataFrame) -> dict[str, Any]:
    """The sampled design under replace-one on pixels, against each client alone."""
    pixels = table.query("data == 'fashion_mnist'")
    by = pixels.set_index(["method", "who", "epsilon"])["acc_mean"]
    drawn, all_in = (by["sums"][who].sort_index() for who in ("sampled", "everyone"))
    return {
        "alone": float(by["alone"].iloc[0]), "drawn": several(drawn, ".3f"),
        "all_in": several(all_in, ".3f"), "at_one": float(drawn[drawn.index <= 1].max()),
        "paper": several(by["rr_cluster"]["sampled"].sort_index(), ".3f"),
    }  # fmt: skip


def in_vain(table: pd.DataFrame) -> dict[str, Any]:
    """Variants at the guarantee of the recipe: their gains on the same clients."""
    part = table[table["variant"] != "recipe"]
    mean = part.groupby("variant", sort=False)["gain_mean"].mean()
    noise = part.groupby("variant", sort=False)["noise"].mean()
    shown = "; ".join(f"{str(name).replace('_', ' ')} {100 * g:+.1f}" for name, g in mean.items())
    return {"shown": shown, "cells": decided(part["gain_mean"], part["gain_ci95"]),
            "noise": float(noise["correlated"])}  # fmt: skip


NICV, BOUNDS, LOCAL = ("better_nicv",), ("better_bounds",), ("better_local",)
PE = "PE-means"
VARIANT = "PE-means, many columns"
LOW, GAINS = ("rr_low_budget",), ("rr_low_gains",)

CLAIMS = [
    Claim("B.central.replay", "over-clustered Lloyd", "whole transcripts, replayed on data with one"
          " record more, cost at most mu^2", checks.replay, "worst {worst[0]:.3f}, {worst[1]:.3f},"
          " {worst[2]:.3f} of mu^2 (grid, moments, votes)",
          lambda n: max(n.worst) <= 1 + 1e-9, by="ours"),
    Claim("B.sketch.channel", "sketch", "no report is likelier by more than e^epsilon for any two"
          " points of a user", checks.channel, "worst ratio over e^epsilon {most:.12f}",
          lambda n: n.most <= 1 + 1e-12 and n.least > 0.99, by="ours"),
    Claim("B.central.tuned", "over-clustered Lloyd", "at FastLloyd's guarantee, at most 0.58 of its"
          " NICV on the sets that the constants were chosen on (in shape: 0.62; in no cell worse)",
          gain("tuned"), "geometric mean"
          " {mean:.3f} of FastLloyd's ({by} by epsilon), at most {most:.2f} ({where}); {cells}",
          lambda n: n.cells.worse == 0 and (n.mean <= 0.58 or (n.mean <= 0.62 and "in shape")),
          NICV, by="ours"),
    Claim("B.central.fresh", "over-clustered Lloyd", "at most 0.75 of it on sets that nobody"
          " looked at before, in no cell worse", gain("fresh"),
          "geometric mean {mean:.3f} of FastLloyd's ({by} by"
          " epsilon), at most {most:.2f} ({where}); {cells}",
          lambda n: n.mean <= 0.75 and n.cells.worse == 0, NICV, by="ours",
          note="This is the number to expect on data of one's own."),
    Claim("B.central.cells", "over-clustered Lloyd", "no set and budget at which it costs more than"
          " 1.05 of FastLloyd", against("fastlloyd"), "{above} of {n} cells above 1.05{where};"
          " ratios {least:.2f} to {most:.2f}", lambda n: n.above == 0, NICV, by="ours"),
    Claim("B.central.many", "over-clustered Lloyd", "with more than 4 columns and at least 15"
          " clusters at most half of FastLloyd's NICV (in shape: 0.6)", against("fastlloyd",
          many=True),
          "geometric mean {mean:.3f} over {n} cells, tuned and fresh",
          lambda n: n.mean <= 0.5 or (n.mean <= 0.6 and "in shape"), NICV, by="ours"),
    Claim("B.central.pe", "over-clustered Lloyd", "no set and budget at which it costs more than"
          " 1.05 of PE-means in a public ball (in shape: in 5 % of the cells)", against("pe"),
          "{above} of {n} cells above"
          " 1.05{where}; geometric mean {mean:.3f}, at most {most:.2f}",
          lambda n: n.above == 0 or (n.above <= 0.05 * n.n and "in shape"), NICV, by="ours"),
    Claim("B.central.pe_scaled", "over-clustered Lloyd", "the same against PE-means that scales by"
          " the exact mean and largest length, as its code does", against("pe_scaled"),
          "{above} of {n} cells above 1.05{where}; geometric mean {mean:.3f}, at most {most:.2f}",
          lambda n: n.above == 0 or (n.above <= 0.05 * n.n and "in shape"), NICV, by="ours",
          note="That scale is not private: see B.pe.scale."),
    Claim("B.central.bounds", "over-clustered Lloyd", "bounds ten times too wide cost it less than"
          " they cost FastLloyd and PE-means", bounds, "ten times too wide:"
          " {overclustered_wide:.1f} times its cost, FastLloyd {fastlloyd_wide:.1f} times, PE-means"
          " {pe_wide:.1f} times; a fifth too narrow: {overclustered_narrow:.2f},"
          " {fastlloyd_narrow:.2f} and {pe_narrow:.2f} times",
          lambda n: n.overclustered_wide < min(n.fastlloyd_wide, n.pe_wide), BOUNDS, by="ours"),
    Claim("B.k.elbow", "over-clustered Lloyd", "the elbow of the released cost finds k within a"
          " quarter in at least 8 of 10 runs, on every set (in shape: on more than half of them)",
          unknown_k, "on {ok} of {n} sets; true k and range of the"
          " choices from 2 to 48: {spans}; exact in {exact:.0%} of the runs; not on {wrong};"
          " another end of the range (24, 96) moves the median choice by {moved:g}, at most"
          " {most:g}", lambda n: n.ok == n.n or (n.ok > n.n / 2 and "in shape"), ("better_k",),
          by="ours", note="Clusters that touch, more clusters than the range holds, and clusters"
          " of clusters have their elbow elsewhere."),
    Claim("B.pe.replay", PE, "whole transcripts of our version, replayed on data with one record"
          " more, cost at most mu^2", checks.pe_replay, "worst {few:.3f} (3 columns), {many:.3f}"
          " (40 columns, with the last release) of mu^2",
          lambda n: max(n.few, n.many) <= 1 + 1e-9, by="ours"),
    Claim("B.pe.normal", VARIANT, "a variant that adds one normal to all columns of a sum releases"
          " the differences between the columns of a record exactly", checks.one_normal, "two"
          " releases give them away up to {one:.1g}; with noise of its own for each column they"
          " are off by {own:.0f}", lambda n: n.one < 1e-9 < 1 < n.own, by="ours",
          note="Each coordinate of a sum needs noise of its own."),
    Claim("B.pe.shares", VARIANT, "a variant whose last sums and counts have the noise of 14 steps,"
          " after 14 votes at a 16th of the budget each, costs more than it states", checks.shares,
          "{spent:.4f} of mu^2, epsilon {epsilon:.4f} where 1 was stated; with the noise of 16"
          " steps {ours:.4f}", lambda n: n.epsilon > 1.005 and n.ours <= 1 + 1e-9, by="ours"),
    Claim("B.pe.empty", VARIANT, "a variant that drops clusters found empty by an exact look shows"
          " whether one record is there", checks.empty_clusters, "{with_} centres with the record,"
          " {without} without it, whatever the noise", lambda n: n.with_ != n.without, by="ours",
          note="The number of centres would have to follow from the noised counts."),
    Claim("B.pe.scale", PE, "centres in the units of the data, scaled by the exact mean and largest"
          " length, give both away", checks.exact_scale, "solved from k centres: the length up to"
          " {unit:.1g}, the mean up to {mean:.1g}", lambda n: max(n.unit, n.mean) < 1e-6, by="ours",
          note="A convention of experiments, like FastLloyd's minima and maxima; in use, bounds are"
          " public."),
    Claim("B.pe.baseline", PE, "FastLloyd on data in the unit ball, its start and radii still those"
          " of [-1, 1]^d, costs a tenth more at least than in the box of the data",
          checks.misplaced_baseline,
          "geometric mean {ratio:.2f} times its NICV on two generated sets at epsilon 0.5",
          lambda n: n.ratio > 1.1, by="ours"),
    Claim("B.sketch.mixtures", "sketch", "from 100,000 users on, no setting in which Algorithm 1 or"
          " 4 is better, and within a tenth of the optimum in the mean", local,
          "geometric mean of the cost over the optimum {sketch:.3f}"
          " (Algorithm 1 {alg1:.2f}, Algorithm 4 {alg4:.2f}), at most {most:.2f}; {cells}",
          lambda n: n.cells.worse == 0 and n.sketch <= 1.1, LOCAL, by="ours"),
    Claim("B.sketch.few", "sketch", "with 10,000 users it is below Algorithm 1 more often than not",
          few, "below in {share:.0%} of the settings; over the optimum {ours} at epsilon 1 and 4,"
          " Algorithm 1 {theirs}", lambda n: n.share > 0.5, LOCAL, by="ours"),
    Claim("B.sketch.needed", "sketch",
          "at epsilon 1 the formula for the users who are needed to see"
          " clusters holds on mixtures: with fewer twice the optimum at least, with ten times as"
          " many 1.25 times at most", checks.needed, "with fewer {fewer}, with one to ten times as"
          " many {between}, with more {more} times the optimum (2 to 10 columns, 5 or 10"
          " clusters)", lambda n: n.least >= 2 and n.most <= 1.25, LOCAL, by="ours"),
    Claim("B.sketch.odd", "sketch", "on data that is no mixture of round clusters it stays within a"
          " quarter of the optimum", odd, "at most {most:.2f} ({where}), Algorithm 1 {rival:.2f};"
          " below it in {better} of {n} settings", lambda n: n.most <= 1.25, LOCAL, by="ours"),
    Claim("B.sketch.real", "sketch", "on real points at most 1.25 times the optimum at epsilon 1,"
          " 1.05 at 4 (in shape: 1.5 at 1)", real,
          "birch2, pixels: {one} at epsilon 1, {four} at 4; Algorithm 1 at 1:"
          " {rival}", lambda n: n.at_four <= 1.05 and (n.at_one <= 1.25 or (n.at_one <= 1.5 and
                                                                         "in shape")),
          LOCAL, by="ours"),
    Claim("B.sketch.wide", "sketch",
          "bounds ten times too wide are harmless (1.25 times the optimum)",
          wide,
          "over the optimum {ours} at epsilon 1 and 4; Algorithm 1 {theirs}",
          lambda n: n.most <= 1.25, LOCAL, by="ours",
          note="The questions' bins do not get finer than half of 1/sqrt(d), and these clusters"
          " are closer than that."),
    Claim("B.shuffle.bound", "shuffled reports", "the central delta is never below what shuffled"
          " binary responses give away, and 100,000 users at a central epsilon 1 may send a bit"
          " with a local one above 6", crowd, "exact delta {least:.3f} to {most:.3f} of the bound"
          " (200 users); local epsilon {local:.2f}, of any pure report {clones:.2f}; if questions"
          " followed users' numbers, 100 of them, the same bits would cost {by_number:.2f}",
          lambda n: n.most <= 1 and n.local > 6 and n.by_number > 3, by="ours"),
    Claim("B.shuffle.price", "trust", "at the same central guarantee a shuffler takes away nine"
          " tenths of what trusting nobody costs (at every epsilon; in shape: in the mean)", price,
          "cost above the optimum at epsilon 1:"
          " local {local_one:.2g}, shuffled {shuffled_one:.2g}, secure sum {secure_sum_one:.2g},"
          " central {central_one:.2g}; local over shuffled {ratios} (by epsilon)",
          lambda n: n.least >= 10 or (n.local >= 10 * n.shuffled and "in shape"),
          ("trust_price",), by="ours"),
    Claim("B.shuffle.sums", "trust", "what is left of the price is still paid: secure sums are"
          " more accurate than a shuffler", price, "geometric mean of the cost above the optimum:"
          " shuffled {shuffled:.2g}, secure sum {secure_sum:.2g}, central {central:.2g}",
          lambda n: n.secure_sum < n.shuffled, ("trust_price",), by="ours"),
    Claim("B.sketch.liars", "sketch", "1 % of users who lie together at most treble the cost of"
          " the honest, and less behind a shuffler, where a lie weighs less", trust_models.liars,
          "at epsilon 1, 100,000 users: {local:.2f} times the optimum, {shuffled:.2f} behind a"
          " shuffler; a lie counts as {local_votes:.2f} and {shuffled_votes:.2f} users",
          lambda n: n.local <= 3 and n.shuffled < n.local, by="ours"),
    Claim("B.rr.exact", "sums only, everybody", "where nobody is sampled, T rounds cost exactly"
          " (epsilon, delta) with noise sqrt(T)/mu times what one client moves", exact_rounds,
          "noise over that: {rep:.9f} (replace-one, 2C), {add:.9f} (add/remove, counts included);"
          " Renyi orders would certify {renyi:.2f} instead of 1",
          lambda n: max(abs(n.rep - 1), abs(n.add - 1)) < 1e-9 and n.renyi > 1.08, by="ours"),
    Claim("B.rr.sampled", "sums only, everybody", "at equal (epsilon, delta) and relation everybody"
          " in each of 30 rounds is more accurate than a tenth in each of 50",
          gained("sums", "sampled"), "gain {main} points at epsilon 0.5, 1, 2 (± {half};"
          " replace-one, delta 1e-3), least {least:+.1f} ({where}); {cells}", by_cells, GAINS,
          by="ours"),
    Claim("B.rr.fedavg", "sums only, everybody", "and than DP-FedAvg with everybody, tuned alike",
          gained("fedavg", "everyone"), "gain {main} points at epsilon 0.5, 1, 2 (± {half};"
          " replace-one, delta 1e-3), least {least:+.1f} ({where}); {cells}", by_cells, GAINS,
          by="ours", note="The best clip of DP-FedAvg with everybody is the largest of the grid."),
    Claim("B.rr.alone", "sums only, everybody", "and than each client alone, from epsilon 1 on",
          gained("alone", "nobody", 1.0), "gain {main} points at epsilon 0.5, 1, 2 (± {half};"
          " replace-one, delta 1e-3), least {least:+.1f} ({where}); {cells}", by_cells, GAINS,
          by="ours"),
    Claim("B.rr.drawn_alone", "sums only, sampled", "with a sampled tenth, replace-one, pixels, a"
          " client alone is better up to epsilon 1", sampled_or_alone, "alone {alone:.3f}; sampled"
          " {drawn} at epsilon 0.5, 1, 2; everybody {all_in}; RR-Cluster {paper}",
          lambda n: n.at_one < n.alone, LOW, by="ours"),
    Claim("B.rr.goal", "sums only, everybody", "accuracy at epsilon 1 and 2, replace-one, balanced,"
          " at least 0.71 and 0.75 at delta 1e-3, 0.68 and 0.74 at 1e-5", goals, "{large[0]:.3f},"
          " {large[1]:.3f}, {large[2]:.3f} at epsilon 0.5, 1, 2 and delta 1e-3; {small[0]:.3f},"
          " {small[1]:.3f}, {small[2]:.3f} at 1e-5",
          lambda n: mostly([n.large[1] >= 0.71, n.large[2] >= 0.75, n.small[1] >= 0.68,
                            n.small[2] >= 0.74]), LOW, by="ours"),
    Claim("B.rr.tried", "sums only, everybody", "nothing else that was tried at this guarantee"
          " gains: other numbers of rounds, one shared model first, noise correlated over rounds, a"
          " private subspace", in_vain, "points gained, mean of epsilon 1 and 2: {shown};"
          " better than the recipe in {cells.better} cells; the best correlated noise has"
          " {noise:.2f} times the noise in the last model",
          lambda n: n.cells.better == 0, ("rr_low_tried",), by="ours",
          note="With everybody in all rounds independent noise is already the best for the sum of"
               " all rounds: one client moves that sum by T times its reach, whatever the noise."),
]  # fmt: skip
"""All claims about better releases."""
