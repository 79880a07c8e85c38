"""The claims of locally private k-means, one row each: lemmas (P1 to P14, F12 to F15), tables.

The paper has no experiments, so its claims are bounds and lemmas; those of Table 1 and of the
oracles are compared with the tables on local privacy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from studies.bench.grading import (
    Claim,
    by_cells,
    decided,
    lower,
    mostly,
    not_possible,
    several,
)
from studies.bench.results import load_printed
from studies.ldp_kmeans import checks
from studies.ldp_kmeans.depths import CLAIMS as DEPTHS
from studies.ldp_kmeans.growth import loglog_slope

SECOND = load_printed("ldp_kmeans/second", 4)
"""(algorithm, n, d', epsilon) -> cost per point with k = 5 of a second implementation.

One data set each, means of 1 to 5 runs; ours are means over data sets.
"""
COST, SCALING, LSH, SUMS = ("ldp_cost",), ("ldp_scaling",), ("ldp_lsh",), ("ldp_sums",)
SETTING = ["n", "dprime", "k", "epsilon"]


# --- numbers from tables --------------------------------------------------------------------------


def _slope(quantity: str) -> Any:
    def check(scaling: pd.DataFrame) -> dict[str, Any]:
        part = scaling[scaling["quantity"] == quantity]
        first, last = part.iloc[0], part.iloc[-1]
        b, low, high = (float(first[c]) for c in ("slope", "slope_low", "slope_high"))
        return {"b": b, "low": low, "high": high, "shown": f"slope {b:.3f} ({low:.3f} to"
                f" {high:.3f})", "first": first["value"] / first["n"],
                "last": last["value"] / last["n"]}  # fmt: skip

    return check


def _half(n: Any) -> bool | str:
    """Slope 1/2."""
    return n.low - 0.01 <= 0.5 <= n.high + 0.01 or (abs(n.b - 0.5) < 0.1 and "in shape")


def _below_half(n: Any) -> bool | str:
    """Slope of at most 1/2."""
    return n.high <= 0.5 or (n.low <= 0.5 and "undecided")


def _in_dimension(sums: pd.DataFrame) -> dict[str, Any]:
    part = sums.query("calibration == 'analytic' and epsilon == 1 and n == n.max()")
    b, low, high = loglog_slope(part["dprime"], part["rms"])
    return {"b": b, "low": low, "high": high, "d": several(part["dprime"], "g")}


def _optimum_ratios(cost: pd.DataFrame) -> dict[str, Any]:
    """Costs over the best cost: printed parameters, one round by n, four rounds by d'."""
    cost = cost[cost["data"].eq("mixture")]
    cost = cost.assign(ratio=cost["cost_per_point"] / cost["nonprivate_cost"])
    printed = cost[cost["algorithm"].eq("alg1_printed")]["ratio"]
    one = cost.query("algorithm == 'alg1' and k == 5 and epsilon == 1 and dprime == 4")
    four = cost.query("algorithm == 'alg4' and k == 5 and n == 1_000_000").sort_values("dprime")
    by = {e: part["ratio"] for e, part in four.groupby("epsilon")}
    spread = [by[e].max() / by[e].min() for e in (4, 1)]
    one = one.sort_values("n")
    return {
        "printed_low": printed.min(), "printed_high": printed.max(), "one": several(one["ratio"]),
        "last": one["ratio"].iloc[-1], "n": several(one["n"], ".0e"), "at_4": several(by[4], ".2g"),
        "falls": bool(one["ratio"].is_monotonic_decreasing), "spread": spread,
        "at_1": several(by[1], ".2g"),
        "d": several(sorted(four["dprime"].unique()), "g"),
    }  # fmt: skip


def _printed(cost: pd.DataFrame) -> dict[str, Any]:
    return _optimum_ratios(cost) | checks.as_printed()


def _oracles(oracles: pd.DataFrame) -> dict[str, Any]:
    return {"low": oracles["ratio"].min(), "high": oracles["ratio"].max(), "n": len(oracles)}


def _bitstogram(table: pd.DataFrame) -> dict[str, Any]:
    ratio = table["recovered"] / table[["bits_limit", "oracle_limit"]].max(axis=1)
    return {"low": ratio.min(), "high": ratio.max(), "n": len(ratio), "holds": ratio < 1.35,
            "false": table["false_positives"].max()}  # fmt: skip


def _sums(sums: pd.DataFrame) -> dict[str, Any]:
    slack, ours = (sums.loc[sums["calibration"] == name, "bound_over_p99"]
                   for name in ("as_printed", "analytic"))  # fmt: skip
    return {"low": slack.min(), "high": slack.max(), "ours": (ours.min(), ours.max()),
            "rms": (sums["ratio"].min(), sums["ratio"].max())}  # fmt: skip


def _lsh(lsh: pd.DataFrame) -> dict[str, Any]:
    closed, simulated = (lsh[lsh["kind"] == kind] for kind in ("closed form", "simulated"))
    near, far = closed[closed["distance"] == 1], closed[closed["distance"] > 1]
    over = near["probability"] / near["lower_bound_over_A"]
    z = (simulated["simulated"] - simulated["probability"]).abs() / simulated["se"]
    table = closed.pivot_table(index="t", columns="distance", values="p1_squared_over_p")
    return {
        "low": over.min(), "high": over.max(), "t": near["t"].max(),
        "holds": far["probability"] <= far["upper_bound"], "n": len(far), "z": z.max(),
        "under": int((far["probability"] <= far["upper_bound"]).sum()), "simulated": len(z),
        "at_15": (table[1.5].iloc[0], table[1.5].iloc[-1]), "at_4": (table[4.0][4], table[4.0][8]),
        "falls": table[1.5].is_monotonic_decreasing,
    }  # fmt: skip


def _versus(first: str, second: str, where: str) -> Any:
    """Settings in which the mean cost of one algorithm is lower than that of another."""

    def check(cost: pd.DataFrame) -> dict[str, Any]:
        part = cost[cost["data"].eq("mixture")].query(where)
        middle = part.pivot_table(index=SETTING, columns="algorithm", values="cost_per_point")
        cells = lower(part, first, second, keys=SETTING, value="cost_per_point", by="algorithm")
        return {"cells": cells, "ratio": (middle[first] / middle[second]).median()}

    return check


def _hopeless(cost: pd.DataFrame) -> dict[str, Any]:
    part = cost[cost["data"].eq("mixture")].query("dprime > 6 and epsilon <= 1 and n <= 100_000")
    local = part[part["algorithm"] != "central_glloyd"].groupby(SETTING)["cost_per_point"].min()
    best = part[part["algorithm"] == "alg1_hso"].set_index(SETTING)["nonprivate_cost"]
    ratio = local / best.loc[local.index]
    return {"low": ratio.min(), "high": ratio.max(), "n": len(ratio)}


def compare_with_second(cost: pd.DataFrame) -> pd.DataFrame:
    """Rows of the table for which a second implementation has a number, k = 5.

    `agrees` if the number lies in the 95 % interval (cut to half of our mean) or within a quarter
    of our mean.
    """
    keys = ["algorithm", "n", "dprime", "epsilon"]
    second = pd.DataFrame([(*key, v) for key, v in SECOND.items()], columns=[*keys, "second"])
    ours = cost[cost["data"].eq("mixture") & cost["k"].eq(5)].astype({"epsilon": float})
    both = ours.merge(second.astype({"epsilon": float}), on=keys)
    gap, mean = (both["cost_per_point"] - both["second"]).abs(), both["cost_per_point"]
    both["agrees"] = gap.le(np.minimum(both["ci95"], 0.5 * mean)) | gap.le(0.25 * mean)
    return both[[*keys, "seeds", "cost_per_point", "ci95", "second", "agrees"]]


def _second(cost: pd.DataFrame) -> dict[str, Any]:
    both = compare_with_second(cost)
    off = both[~both["agrees"]].groupby("algorithm").size()
    return {"agrees": both["agrees"], "n": int(both["agrees"].sum()), "of": len(both),
            "off": ", ".join(f"{name} {size}" for name, size in off.items())}  # fmt: skip


def _trust(epsilon: float) -> Any:
    """Cells are sizes n: the same Lloyd from one start under three trust models."""

    def check(table: pd.DataFrame) -> dict[str, Any]:
        part = table[table["epsilon"] == epsilon].set_index(["trust", "algorithm", "n"])
        part = part.sort_index()
        mean, ci, excess = part["cost_per_point"], part["ci95"], part["excess_median"]
        local, cells = ("local", "ldp_lloyd"), []
        for other in (("central", "glloyd"), ("secure_sum", "fastlloyd")):
            n = mean[local].index.intersection(mean[other].index)
            half = np.hypot(ci[local][n], ci[other][n])
            cells.append(decided(mean[local][n] - mean[other][n], half))
        last = int(max(mean[local].index))
        shown = ", ".join(
            f"{trust} {name} {excess[trust, name, last]:.2g}"
            for trust, name in (("central", "glloyd"), ("secure_sum", "fastlloyd"), local,
                                ("local", "alg1"))
        )  # fmt: skip
        return {"cells": cells[0] + cells[1], "n": several([last], ".0e"),
                "shown": shown}  # fmt: skip

    return check


# --- rows -----------------------------------------------------------------------------------------

TABLE_1 = [
    *(
        Claim(f"P.table1.alg{number}", "Table 1", f"Algorithm {number}: additive error at most of"
              " order n^(1/2) (the whole interval; in shape: the slope)",
              _slope(f"excess_alg{number}"), "total excess at d' = 4, k = 5,"
              " epsilon = 1: {shown} in n; per point {first:.3g} at n = 1e4, {last:.2g} at 1e7",
              lambda n: n.high <= 0.5 or (n.b <= 0.5 and "in shape"), SCALING,
              note="An upper bound: on clusters well apart the error grows slower.")
        for number in (1, 4)
    ),
    *(
        Claim(f"P.table1.{quantity.split('_')[0]}", "Table 1", f"{words}: n^(1/2) (0.5 in"
              " the interval, to 0.01; in shape: within 0.1)",
              _slope(quantity), "{shown}", _half, SCALING)
        for quantity, words in (("oracle_error", "error of a count"), ("detection_threshold",
                                "smallest count detected"), ("sums_error", "error of a sum"))
    ),
    Claim("P.table1.dimension", "Table 1", "error of a vector sum: d'^(1/2) (0.5 in the interval,"
          " to 0.01; in shape: within 0.1)", _in_dimension,
          "slope {b:.3f} ({low:.3f} to {high:.3f}) for d' = {d}", _half, SUMS),
    not_possible("P.table1.k", "Table 1", "k^O(1/alpha^2) and k^(1 + O(1/(2c^2 - 1))) in the"
                 " additive error", "exponents with hidden constants; the parameters that they"
                 " belong to need n beyond 1e8"),
    not_possible("P.table1.others", "Table 1", "rows of Nissim and Stemmer, Kaplan and Stemmer,"
                 " Stemmer", "other papers' algorithms, of which we know no implementation"),
    *(
        Claim(f"P.{name}", "Table 1", statement, _slope(quantity), shows, _below_half, SCALING,
              by="ours")
        for name, statement, quantity, shows in (
            ("lloyd", "LDP-Lloyd from a random start: total excess stays below n^(1/2) (whole"
            " interval)",
             "excess_ldp_lloyd", "{shown}"),
            ("zipf", "users below the threshold stay of order n^(1/2) whatever the data (whole"
            " interval)",
             "zipf_missed", "Zipf(1.2) over 2000 values: {shown}"),
        )
    ),
    Claim("P.thm1.1.printed", "Theorem 1.1", "Algorithm 1 with the printed parameters",
          _printed, "a 2 % cell shows (3.5 standard deviations) from n ="
          " {users} at epsilon 1, 4, 8, with L = lg n = {levels} grids; up to n = 1e6 it costs"
          " {printed_low:.0f} to {printed_high:.0f} times the optimum",
          lambda n: "not possible here", COST),
    Claim("P.thm1.1", "Theorem 1.1",
          "one round: cost tends to the optimum (falls with n throughout, and within 5 % of it at"
          " the end; in shape: one of the two)", _optimum_ratios,
          "with parameters that work, d' = 4, k = 5, epsilon = 1: {one} times the optimum at"
          " n = {n}", lambda n: (n.falls and n.last < 1.05) or ((n.falls or n.last < 1.05)
                                                                and "in shape"),
          COST, design="n up to 1e7"),
    Claim("P.thm1.2.printed", "Theorem 1.2", "Algorithm 4 with the printed parameters",
          checks.as_printed, "{calls:,.0f} parallel calls at n = 1e6, k = 5, d = 8: {each:.0f}"
          " users for each", lambda n: "not possible here"),
    Claim("P.thm1.2", "Theorem 1.2", "four rounds: a constant factor of the optimum (largest over"
          " smallest below 2 at both epsilon; in shape: at one)",
          _optimum_ratios, "without LSH, n = 1e6, k = 5: {at_4} times the optimum at epsilon 4,"
          " {at_1} at epsilon 1 (d' = {d})", lambda n: max(n.spread) < 2 or (min(n.spread) < 2 and
                                                                             "in shape"),
          COST, design="n = 1e6, where the additive error shows; no LSH",
          note="The factor grows with d' at this n."),
]  # fmt: skip

LEMMAS = [
    Claim("P1", "Sec. 2.2", "the cost of a cluster follows from the distances of its pairs",
          checks.costs, "ratio {pairs:.9f}", lambda n: abs(n.pairs - 1) < 1e-9),
    Claim("P2", "Lemma 2.6", "d = O(log(1/beta)/alpha^2), with a constant below 2", checks.lengths,
          "smallest d {d[0]},"
          " {d[1]}, {d[2]}, {d[3]} (alpha 0.1, 0.1, 0.2, 0.2; beta 0.1, 0.01): constant"
          " {constant[0]:.2f} to {constant[1]:.2f}", lambda n: max(n.constant) < 2),
    Claim("P3", "Theorem 2.7", "the cost of a fixed clustering stays within 1 + alpha",
          checks.costs, "20 maps each: {low[0]:.3f} to {high[0]:.3f}, {low[1]:.3f} to"
          " {high[1]:.3f}, {low[2]:.3f} to {high[2]:.3f} at alpha = 0.1, 0.2, 0.5, constant 1",
          lambda n: mostly([h <= 1 + a and low >= 1 / (1 + a) for low, h, a in
                            zip(n.low, n.high, (0.1, 0.2, 0.5), strict=True)]),
          note="Fixed: the uniform form is what Algorithm 1 uses, and is not checked."),
    Claim("P4", "Lemma 2.8", "no point grows by more than O(alpha sqrt(log(n/beta)))",
          checks.lengths, "longest {longest:.4f}, bound {printed:.3f} at alpha = 0.01, n = 1e4",
          lambda n: n.longest <= n.printed, note="1 + is missing, see F14."),
    Claim("P5", "Lemma 4.12", "after scaling all n points lie inside, d without log n",
          checks.lengths, "expected outside {outside[0]:.2f}, {outside[1]:.1f}, {outside[2]:.0f},"
          " {outside[3]:.0f} at n = 1e3, 1e4, 1e5, 1e6 (alpha = 0.2, d = 156)",
          lambda n: max(n.outside) < 1, note="See F14."),
    Claim("P6", "Lemma 2.12", "error of a vector sum of order sqrt(d' n)/epsilon", _sums,
          "bound over the 99 % quantile {low:.1f} to {high:.1f} with the printed noise,"
          " {ours[0]:.1f} to {ours[1]:.1f} with the analytic; rms over theory {rms[0]:.3f} to"
          " {rms[1]:.3f}",
          lambda n: n.low >= 1, SUMS, note="Loose."),
    Claim("P7", "Lemma 2.12, Alg. 6", "Algorithm 6 is (epsilon, delta)-LDP for any g",
          checks.noise, "g in a ball of diameter 0.1 at distance 0.5: claimed 1, true epsilon"
          " {true:.1f}; noise for a constant g: {constant:.0f}", lambda n: n.true <= 1,
          note="Noise must follow 2 sup |g|, see F13."),
    Claim("P8", "Lemma 2.12, proof", "a signed sum squared is at most twice the sum of squares",
          checks.noise, "violated in {violated:.0%} of the draws (n = 100, d = 1)",
          lambda n: n.violated == 0, note="Not needed: the signed sum is exactly Gaussian."),
    Claim("P9", "Lemma 2.11", "error of a count of order sqrt(n log(n))/epsilon (theory within a"
          " tenth)", _oracles,
          "measured over theory, five oracles, {n} rows: {low:.3f} to {high:.3f}",
          lambda n: n.low > 0.9 and n.high < 1.1, ("ldp_oracles",),
          note="f(v) in the lemma is the count n(v)."),
    Claim("P.bitstogram", "Lemma 2.11", "Bitstogram finds every value above M (to a"
          " step of the ladder of planted counts: above 1.35 M)", _bitstogram,
          "smallest count recovered over our formula {low:.2f} to {high:.2f} in {n} rows; at most"
          " {false:.2g} false values per run", lambda n: mostly(n.holds), ("ldp_bitstogram",)),
    Claim("P10", "Lemma 4.2", "expected cells within R/d: at most (1 + 2/d)^d <= e^2",
          checks.cells_near, "{mean[0]:.2f}, {mean[1]:.2f}, {mean[3]:.2f}, {mean[5]:.2f} against"
          " {bound[0]:.2f}, {bound[1]:.2f}, {bound[3]:.2f}, {bound[5]:.2f} at d = 1, 2, 4, 8",
          lambda n: mostly([m <= 1.02 * b for m, b in zip(n.mean, n.bound, strict=True)])),
    Claim("P11", "Theorem 2.14", "p(1) >= A/(2 sqrt(t)) (1 + e + 8 e^2)^(-t/2), A < 1", _lsh,
          "p(1) over the bound without A: {low:.2f} to {high:.2f} for t = 1 to {t}",
          lambda n: n.low >= 1, LSH),
    Claim("P11.far", "Theorem 2.14", "p(c) <= 2/(1 + c^2 e)^(t/2)", _lsh,
          "holds at {under} of {n} pairs of t and c", lambda n: mostly(n.holds), LSH),
    Claim("P11.form", "Theorem 2.14", "the closed form is what the hash does", _lsh,
          "{simulated} simulations, at most {z:.1f} standard errors off", lambda n: n.z <= 4, LSH,
          by="ours"),
    Claim("P12", "Lemma 2.15", "p(1)^2/p(c) = Omega(B): the proof", checks.hashing,
          "its last bound over B: {proved[0]:.2f}, {proved[2]:.3f}, {proved[4]:.3f} for B = 10,"
          " 1e3, 1e6", lambda n: n.proved[-1] >= n.proved[0],
          note="It loses log B, see F15."),
    Claim("P12.statement", "Lemma 2.15", "p(1)^2/p(c) = Omega(B): the statement, c = 3",
          checks.hashing, "exact ratio over B {exact[0]:.2f}, {exact[2]:.2f}, {exact[4]:.2f}",
          lambda n: min(n.exact) >= 1),
    Claim("P13", "Lemma 2.15", "1/c' = O(1/(2c^2 - 1)) for c > sqrt(2), with a constant below 100",
          checks.hashing,
          "the hidden constant is {hidden[0]:.0f}, {hidden[1]:.0f}, {hidden[2]:.0f},"
          " {hidden[3]:.0f} at c = 2, 1.5, 1.42, 100", lambda n: max(n.hidden) < 100,
          note="Unbounded near sqrt(2), at least 16."),
    Claim("P.larger_t", "Lemma 2.15", "a larger t filters better for every c > sqrt(2)", _lsh,
          "p(1)^2/p(c) at c = 1.5 goes from {at_15[0]:.2f} to {at_15[1]:.2f}; at c = 4 it is"
          " {at_4[0]:.1f} for t = 4, {at_4[1]:.0f} for t = 8", lambda n: not n.falls, LSH,
          by="ours"),
    Claim("P14", "Lemma 2.16", "success with probability p(1)/4 at least", checks.hashing,
          "{success[0]:.2f}, {success[1]:.2f} against {promise[0]:.2f}, {promise[1]:.2f}; bound on"
          " the radius {radius[0]:.0f} and {radius[1]:.1f}",
          lambda n: mostly([s >= p for s, p in zip(n.success, n.promise, strict=True)]),
          note="The bound on the radius is empty unless p(c) is tiny."),
    Claim("F12", "Lemma 2.10", "for epsilon < 1 the classic noise is enough; analytic noise"
          " always", checks.noise, "classic over analytic {classic[0]:.2f}, {classic[1]:.2f},"
          " {classic[2]:.2f} at epsilon 0.1, 0.5, 0.99", lambda n: min(n.classic) > 1, by="ours"),
    Claim("F13", "Alg. 6", "noise for 2 sup |g| is (epsilon, delta)-LDP", checks.noise,
          "g in the ball of P7, noise for 1.1: true epsilon {safe:.4f}",
          lambda n: n.safe <= 1 + 1e-6, by="ours"),
    Claim("F14", "Lemma 2.8, 4.12", "no point grows by more than 1 + O(sqrt(log(n/beta)/d)); all"
          " stay inside if d has log n", checks.lengths, "longest {longest:.4f}, bound"
          " {corrected:.3f}; four times the d of P5: {enough:.0e} points expected outside, of a"
          " million",
          lambda n: n.longest <= n.corrected and n.enough < 0.01, by="ours"),
    Claim("F15", "Lemma 2.15", "sqrt(t) = (log B + 2 loglog B)/c' gives Omega(B)", checks.hashing,
          "the proof's bound over B {safe[0]:.2f}, {safe[2]:.2f}, {safe[4]:.2f}",
          lambda n: n.safe[-1] >= n.safe[0], by="ours"),
    Claim("P.alg5", "Alg. 5 line 7", "(epsilon, delta)-LDP with noise for sensitivity sqrt(2)",
          checks.noise, "true delta {delta5[0]:.1e}, {delta5[1]:.1e}, {delta5[2]:.1e} at epsilon"
          " 0.25, 0.5, 1; claimed 1e-6", lambda n: max(n.delta5) <= 1e-6, note="It is 2."),
    Claim("P.alg1.scale", "Alg. 1 line 2", "scaling keeps the points in the ball", checks.lengths,
          'alpha = 0.1, n = 1e6: "scale by {scale:.2f}" blows them out', lambda n: n.scale <= 1),
    Claim("P.alg1.corners", "Alg. 1 line 8", "corners of cells are proxy points (at 1.5 times the"
          " cost of centres at most)", checks.proxies,
          "cost with corners {corners[0]:.3f}, {corners[1]:.4f}, {corners[2]:.4f}, with centres"
          " {centers[0]:.3f}, {centers[1]:.4f}, {centers[2]:.4f} at depths 2, 3, 4, no noise",
          lambda n: all(a <= 1.5 * b for a, b in zip(n.corners, n.centers, strict=True)),
          note="A corner is good as an index only."),
    Claim("P.alg4.cube", "Alg. 4 line 3", "shifted points stay in the cell domain [0, 1)^d",
          checks.as_printed, "share that stays {cube[0]:.2f}, {cube[1]:.3f}, {cube[2]:.4f} at"
          " d = 2, 4, 8", lambda n: min(n.cube) > 0.99),
    Claim("P.lemma3.3", "Lemma 3.3", "k^O(1/alpha^2) cells per level are enough",
          checks.as_printed, "{cells:,} at alpha = 0.5, d = 4, k = 5",
          lambda n: n.cells > 0 and "in shape", note="True, and useless as a number."),
]  # fmt: skip

OURS = [
    Claim("P.split", "Alg. 1", "splitting users beats splitting the budget, epsilon = 1",
          checks.as_printed, "standard deviation of a count at n = 1e6 with 2, 10, 40 questions:"
          " {split_users[0]:.0f}, {split_users[1]:.0f}, {split_users[2]:.0f} against"
          " {split_budget[0]:.0f}, {split_budget[1]:.0f}, {split_budget[2]:.0f}",
          lambda n: mostly([a < b for a, b in zip(n.split_users, n.split_budget, strict=True)]),
          by="ours"),
    *(
        Claim(f"P.{name}", where, claim, _versus(first, second, query), "lower cost: {cells};"
              " median ratio of costs {ratio:.2f}", by_cells, COST, by="ours")
        for name, where, claim, first, second, query in (
            *((f"alg1.{other}", "Alg. 1", f"d' <= 6, n >= 1e5, epsilon >= 1: Algorithm 1 beats"
               f" {other}", "alg1", other, "dprime <= 6 and n >= 100_000 and epsilon >= 1")
              for other in ("ldp_lloyd", "private_mean", "gaussian_report")),
            ("alg1.grid", "Alg. 1", "d' <= 4, n >= 1e5: Algorithm 1 beats a single grid of the"
             " right depth", "alg1", "grid_histogram", "dprime <= 4 and n >= 100_000"),
            ("alg1.sums", "Alg. 1", "d' <= 6: no vector sums are better than vector sums in the"
             " same round", "alg1", "alg1_hso", "dprime <= 6"),
            ("alg4.high", "Alg. 4", "d' >= 20, n = 1e6, epsilon >= 4: four rounds beat one",
             "alg4", "alg1_hso", "dprime >= 20 and n == 1_000_000 and epsilon >= 4"),
            ("alg4.low", "Alg. 4", "d' >= 20, n = 1e6, epsilon <= 1: four rounds beat one",
             "alg4", "alg1_hso", "dprime >= 20 and n == 1_000_000 and epsilon <= 1"),
            ("alg4.lsh", "Alg. 4", "LSH candidates improve four rounds, n = 1e6", "alg4_lsh",
             "alg4", "n == 1_000_000"),
        )
    ),
    Claim("P.hopeless", "Alg. 1, 4", "d' > 6, n <= 1e5, epsilon <= 1: no local method comes within"
          " three times the optimum", _hopeless, "the best one costs {low:.1f} to {high:.1f} times"
          " the optimum in {n} settings", lambda n: n.low > 3, COST, by="ours"),
    Claim("P.depth", "Alg. 1 lines 2, 6",
          "after projection, cells of depth 3 are fine enough (within a"
          " fifth of 0.0225, the cost of centres at depth 4 in P.alg1.corners)",
          checks.projected_cells, "no noise, d' = 10, 20, 50: cost {depth3[0]:.4f},"
          " {depth3[1]:.4f}, {depth3[2]:.4f} with depth 3, {depth4[0]:.4f}, {depth4[1]:.4f},"
          " {depth4[2]:.4f} with 4", lambda n: min(n.depth3) < 1.2 * 0.0225, by="ours",
          note="Close centres fall into one cell."),
    Claim("P.second", "Alg. 1, 4", "costs agree with a second implementation (in the 95 % interval"
          " or within a quarter; in shape: in more than half of the settings)", _second,
          "{n} of {of} settings; the others by algorithm: {off}",
          lambda n: mostly(n.agrees), COST, by="ours", note="It has one data set for each size."),
    *(
        Claim(f"P.trust.{epsilon}", "Trust", f"epsilon = {epsilon}: the same Lloyd costs more under"
              " local privacy than under a secure sum or a trusted server, at every n",
              _trust(epsilon), "{cells}; median excess per point at n = {n}: {shown}", by_cells,
              ("ldp_trust",), by="ours")
        for epsilon in (1, 4)
    ),
]  # fmt: skip

CLAIMS = [*TABLE_1, *LEMMAS, *OURS, *DEPTHS]
