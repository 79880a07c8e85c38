"""What the FedDP tables say about every figure and table of the FedDP-KMeans paper.

The figures have no numbers in the text, so a claim is what the text says about them, and each rule
below is ours. "Best" of a method is its best number of rounds T at that epsilon, by the mean.
*Reproduced*: the rule holds everywhere; *in shape*: it holds in most places, or with other numbers;
*contradicted*: it does not. Claims marked "(ours)" are not the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from fedclust_helpers.feddp_kmeans import STARTS
from fedclust_helpers.studies.fastlloyd.claims import OWN, Verdict

NEAR = 0.1  # excess over optimal that counts as optimal: 0.2 % of the cost
NOTES_EXCESS: Mapping[tuple[str, int, int], Sequence[float]] = {
    ("point", 100, 0): (1.01, 0.090, 0.015, 0.008, 0.007),
    ("point", 100, 1): (1.34, 0.044, 0.012, 0.003, 0.001),
    ("client", 2000, 0): (9.9, 5.9, 3.5, 1.15, 0.088),
    ("client", 2000, 1): (9.0, 7.2, 3.5, 1.46, 0.66),
}
"""Largest excess of five runs with a second implementation, at epsilon 0.25, 0.5, 1, 2 and 4."""
STACK_OVERFLOW = "2 right, 12, 13, 14"


def feddp_verdicts(tables: Mapping[str, pd.DataFrame]) -> list[Verdict]:
    """All claims about figures and tables of the paper, from the tables by name."""
    cost, pareto = tables["feddp_cost"], tables["feddp_pareto"]
    return [
        *_figure_1_left(cost, pareto),
        *_census(tables["feddp_census"]),
        _start_alone(tables["feddp_census"]),
        *_client_figures(cost, pareto),
        Verdict(
            f"Fig. {STACK_OVERFLOW}", "Stack Overflow, client level",
            "not run: the posts are a download of several GB, and the embedding model is not here;"
            " the loader is tested on a small made file", "not possible here",
        ),
        *_missing(tables["feddp_missing"]),
        *_elbow(tables["feddp_elbow"]),
        *_proportions(tables["feddp_proportions"]),
        *_checks(tables["feddp_checks"]),
        *_ours(cost),
    ]  # fmt: skip


def _best(frame: pd.DataFrame, methods: Sequence[str]) -> pd.Series:
    """Smallest mean excess of these methods over T, by epsilon (starts alone cost 0: left out)."""
    part = frame[frame["method"].isin(methods) & frame["eps_total"].gt(0)]
    return part.groupby("eps_total")["excess_mean"].min()


def _series(values: pd.Series, digits: int = 3) -> str:
    return ", ".join(f"{v:.{digits}f} at {e:g}" for e, v in values.items())


def _grade(holds: Sequence[bool] | pd.Series) -> str:
    share = sum(map(bool, holds)) / len(holds)
    return "reproduced" if share == 1 else "in shape" if share > 0.5 else "contradicted"


def _front(pareto: pd.DataFrame, panel: str, methods: Sequence[str]) -> pd.DataFrame:
    chosen = pareto[(pareto["panel"] == panel) & pareto["method"].isin(methods)]
    return chosen.sort_values("eps_total")


def _reached(pareto: pd.DataFrame, panel: str, excess: float) -> float:
    """Smallest total epsilon of a FedDP-KMeans setting with at most this excess."""
    front = _front(pareto, panel, ["feddp"])
    return float(front.loc[front["excess_mean"] <= excess, "eps_total"].min())


def _crossing(pareto: pd.DataFrame, panel: str) -> float:
    """Total epsilon from which the front of FedDP-KMeans stays below all baselines' fronts."""
    both = _front(pareto, panel, ["feddp", *STARTS])
    ours = both["excess_mean"].where(both["method"] == "feddp").cummin().fillna(float("inf"))
    theirs = both["excess_mean"].where(both["method"] != "feddp").cummin().ffill()
    behind = both.loc[~(ours.cummin() < theirs.fillna(float("inf"))), "eps_total"]
    after = both.loc[both["eps_total"] > (behind.max() if len(behind) else 0.0), "eps_total"]
    return float(after.min()) if len(after) else float("inf")


def _figure_1_left(cost: pd.DataFrame, pareto: pd.DataFrame) -> list[Verdict]:
    data = cost[cost["level"] == "point"]
    ours, theirs = _best(data, ["feddp"]), _best(data, list(STARTS))
    text = f"excess of feddp {_series(ours)}; of the best baseline {_series(theirs, 2)}"
    out = [
        Verdict("Fig. 1 left", "FedDP-KMeans beats all DP baselines by a wide margin", text,
                _grade(ours + 1 < theirs))
    ]  # fmt: skip
    reached = _reached(pareto, "point_100", NEAR)
    out.append(
        Verdict("Fig. 1 left", "optimal from a total epsilon of about 0.4",
                f"300 random settings: excess below {NEAR} from epsilon {reached:.2f}",
                "reproduced" if reached <= 0.5 else "in shape" if reached <= 1 else "contradicted")
    )  # fmt: skip
    low, high = theirs.index.min(), theirs.index.max()
    each = {name: _best(data, [name]) for name in STARTS}
    text = "; ".join(
        f"{n} {v[low]:.1f} at {low:g}, {v[high]:.1f} at {high:g}" for n, v in each.items()
    )
    out.append(
        Verdict("Fig. 1 left", "baselines plateau as the budget grows", f"excess: {text}",
                _grade([v[high] > 0.5 * v[low] and v[high] > 1 for v in each.values()]))
    )  # fmt: skip
    kfed = float(data.loc[data["method"] == "kfed", "excess_mean"].iloc[0])
    largest = float(data.loc[data["method"] == "kfed", "excess_max"].iloc[0])
    out.append(
        Verdict("Fig. 1 left", "k-FED (not private) is optimal",
                f"excess {kfed:.4f}, at most {largest:.4f}",
                "reproduced" if largest < NEAR else "in shape" if kfed < 1 else "contradicted")
    )  # fmt: skip
    return out


def _census(census: pd.DataFrame) -> list[Verdict]:
    figures = {"federal": "1 right", "not_for_profit": "8", "self_employed": "9"}
    out = []
    for name, figure in figures.items():
        part = census[census["employment"] == name]
        ours, theirs = _best(part, ["feddp"]), _best(part, list(STARTS))
        text = f"excess of feddp {_series(ours, 2)}; of the best baseline {_series(theirs, 2)}"
        low, high = ours.index.min(), ours.index.max()
        best = _grade([ours[low] > theirs[low], *(ours.loc[4.0:] < theirs.loc[4.0:])])
        near = ours[high] < NEAR
        grade = "reproduced" if near else "in shape" if ours[high] < 0.2 * ours[low] else ""
        out += [
            Verdict(f"Fig. {figure}", f"{name}: best except at very low budgets",
                    f"28 to 36 times fewer rows than the paper: {text}", f"{best} on two states"),
            Verdict(f"Fig. {figure}", f"{name}: recovers the optimum at a high budget",
                    f"excess {ours[high]:.3f} at {high:g}",
                    f"{grade or 'contradicted'} on two states"),
        ]  # fmt: skip
    return out


def _client_figures(cost: pd.DataFrame, pareto: pd.DataFrame) -> list[Verdict]:
    figures = {2000: "2 left", 1000: "10", 5000: "11"}
    client = cost[cost["level"] == "client"]
    out = []
    for clients, figure in figures.items():
        part = client[client["clients"] == clients]
        ours, theirs = _best(part, ["feddp"]), _best(part, list(STARTS))
        text = f"excess of the best baseline {_series(theirs, 2)}; of feddp {_series(ours, 2)}"
        high = theirs.index.max()
        out.append(
            Verdict(f"Fig. {figure}", f"{clients} clients: server starts stay poor at any budget",
                    text, "reproduced" if theirs[high] > 1 > ours[high] else "contradicted")
        )  # fmt: skip
    order = sorted(figures)
    first = client[(client["method"] == "feddp") & (client["T"] == 0)]
    table = first.pivot_table(index="eps_total", columns="clients", values="excess_mean")[order]
    falls = table.diff(axis=1).iloc[:, 1:] < 0
    text = "; ".join(
        f"epsilon {epsilon:g}: " + ", ".join(f"{v:.2f}" for v in row)
        for epsilon, row in zip(table.index, table.to_numpy(), strict=True)
    )
    out.append(
        Verdict("Fig. 2, 10, 11", "better at the same budget with more clients",
                f"excess at T = 0 with 1000, 2000, 5000 clients: {text}",
                _grade(falls.to_numpy().ravel().tolist()))
    )  # fmt: skip
    crossings = [_crossing(pareto, f"client_{m}") for m in order]
    text = ", ".join(f"{c:.2f} with {m}" for m, c in zip(order, crossings, strict=True))
    out.append(
        Verdict("Fig. 2, 10, 11", "the budget at which it beats server starts falls with clients",
                f"random settings: front below all baselines from epsilon {text}",
                "reproduced" if crossings == sorted(crossings, reverse=True) else "contradicted")
    )  # fmt: skip
    return out


def _missing(table: pd.DataFrame) -> list[Verdict]:
    feddp = table[(table["method"] == "feddp") & (table["T"] == 0)]
    pivot = feddp.pivot_table(index="missing", columns="eps_total", values="excess_mean")
    text = "; ".join(
        f"{missing} missing: " + _series(row, 2)
        for missing, (_, row) in zip(pivot.index, pivot.iterrows(), strict=True)
    )
    high = pivot[pivot.columns.max()]
    rises = bool(high.is_monotonic_increasing)
    verdict = "reproduced" if rises and high.max() < 1 else "in shape" if rises else "contradicted"
    claim = "modest deterioration as clusters are missing at the server"
    out = [Verdict("Fig. 3", claim, f"excess at T = 0, {text}", verdict)]
    for missing, figure in ((1, "4"), (2, "5"), (5, "6")):
        part = table[table["missing"] == missing]
        ours, theirs = _best(part, ["feddp"]), _best(part, list(STARTS))
        text = f"excess of feddp {_series(ours, 2)}; of the best baseline {_series(theirs, 2)}"
        claim = f"{missing} missing: FedDP-KMeans is still the best"
        out.append(Verdict(f"Fig. {figure}", claim, text, _grade(ours < theirs)))
    return out


def _elbow(table: pd.DataFrame) -> list[Verdict]:
    found = table.drop_duplicates(["k_prime", "level", "eps1"])
    found = found[found["level"] == "point"]
    out = []
    for k_prime, part in found.groupby("k_prime", sort=False):
        text = "; ".join(
            f"{share:.0%} and {near:.0%} at {epsilon:g}"
            for epsilon, share, near in zip(
                part["eps1"], part["elbow_is_true_k"], part["elbow_within_1"], strict=True
            )
        )
        text = f"elbow by the chord: at 10 and within 1 of it, eps1 = eps2: {text}"
        true, near = (part[c].median() for c in ("elbow_is_true_k", "elbow_within_1"))
        verdict = "reproduced" if true > 0.5 else "in shape" if near > 0.5 else "contradicted"
        if k_prime == 20:
            out.append(Verdict("Fig. 7", "the elbow is at k = 10 (k' = 20)", text, verdict))
        else:
            claim = f"(ours) with k' = {k_prime} the elbow is at k = 10"
            out.append(Verdict("Fig. 7", claim, text, OWN[verdict]))
    return out


def _proportions(table: pd.DataFrame) -> list[Verdict]:
    out = []
    for (number, panel), part in table.groupby(["table", "panel"], sort=False):
        values = part.set_index("quantity")[["paper", "ours"]]
        pairs = ", ".join(f"{q} {p:.2f} / {o:.2f}" for q, p, o in values.itertuples())
        runs = int(part["pareto_runs"].iloc[0])
        near = (values["ours"] - values["paper"]).abs().max()
        same = values["ours"].idxmax() == values["paper"].idxmax()
        verdict = "reproduced" if near <= 0.1 else "in shape" if same else "contradicted"
        text = f"paper / ours: {pairs} ({runs} Pareto-optimal runs)"
        claim = "shares of the step budgets" if str(number) in "23" else "share of each T"
        out.append(Verdict(f"Table {number}", f"{panel}: {claim}", text, verdict))
    return out


def _checks(table: pd.DataFrame) -> list[Verdict]:
    radius = table[table["quantity"] == "radius of server points, variance 0.5"].iloc[0]
    census = table[table["source"].eq("Table 1") & table["paper"].eq(2.65)]
    c = table[table["source"] == "Definition 2"].iloc[0]
    inside = radius["low"] <= radius["paper"] <= radius["high"]
    out = [
        Verdict(
            "Table 1", "radius 10.57 of the Gaussian mixture",
            f"server points {radius['low']:.2f} to {radius['high']:.2f} over {radius['seeds']}"
            " draws (variance 0.5); client points are longer",
            "reproduced" if inside else "contradicted",
        ),
        Verdict(
            "Table 1", "radius 2.65 of the census sets",
            f"{census['ours'].min():.4f}, exactly sqrt(7)",
            "reproduced" if (census["ours"] - 2.65).abs().max() < 0.01 else "contradicted",
        ),
    ]  # fmt: skip
    for source, claim, verdict in (
        ("G.2 (1) Gaussian", "assumption (1) holds clearly", "reproduced"),
        ("G.2 (2) Gaussian", "right side about 29,000", "in shape"),
        ("G.2 (1) census", "right side about 123,000", "in shape"),
        ("G.2 (2) census", "right side about 620,000", "in shape"),
    ):
        part = table[table["source"] == source]
        part = part[part["quantity"].str.startswith("right side")]
        numbers = "; ".join(
            f"{value:.3g} ({quantity.removeprefix('right side, ')})"
            for quantity, value in zip(part["quantity"], part["ours"], strict=True)
        )
        out.append(Verdict("App. G.2", claim, numbers, verdict))
    text = (
        f"c = {c['low']:.3f} to {c['high']:.3f}: the experiments lie outside the theorems' regime"
    )
    out.append(Verdict("Def. 2", "(ours) the mixture meets the separation condition with c >= 1",
                       text, OWN["contradicted"]))  # fmt: skip
    return out


def _start_alone(census: pd.DataFrame) -> Verdict:
    """At how many budgets a server start that releases nothing beats FedDP-KMeans."""
    parts, always = [], []
    for name, part in census.groupby("employment", sort=False):
        alone = part.loc[part["eps_total"].eq(0) & part["method"].eq("server_lloyds")]
        start = float(alone["excess_mean"].iloc[0])
        ours = _best(part, ["feddp"])
        lost = ours.index[ours > start]
        always.append(lost.max() < ours.index.max() if len(lost) else True)
        parts.append(f"{name} {start:.2f}, not beaten up to epsilon {lost.max():g}")
    claim = "(ours) FedDP-KMeans beats the ServerLloyds start that releases nothing"
    text = f"excess of the start alone: {'; '.join(parts)}"
    return Verdict("Fig. 1, 8, 9", claim, text, OWN["in shape" if all(always) else "contradicted"])


def _ours(cost: pd.DataFrame) -> list[Verdict]:
    keys = ["level", "clients", "eps_total"]
    paid = cost[cost["eps_total"] > 0]
    best = {
        name: paid[paid["method"].isin(methods)].groupby(keys)["excess_mean"].min()
        for name, methods in (
            ("adaptive", ["feddp_adaptive"]),
            ("known", ["feddp", "server_lloyds"]),
        )
    }
    worse = best["adaptive"] > best["known"]
    ratio = best["known"] / best["adaptive"]
    out = [
        Verdict(
            "Beyond", "(ours) feddp_adaptive is never worse than the better of feddp and"
            " server_lloyds, each at its best T",
            f"worse in {int(worse.sum())} of {len(worse)} cells; the excess is {ratio.min():.2f} to"
            f" {ratio.max():.0f} times smaller",
            OWN["reproduced" if not worse.any() else "in shape"],
        )
    ]  # fmt: skip
    free = cost[cost["eps_total"].eq(0)].groupby(["level", "clients"])["excess_mean"].min()
    adaptive = best["adaptive"].reset_index().set_index(["level", "clients"])["excess_mean"]
    behind = adaptive.to_numpy() > free.reindex(adaptive.index).to_numpy()
    out.append(
        Verdict("Beyond", "(ours) feddp_adaptive is never worse than the best public start alone",
                f"worse in {int(behind.sum())} of {len(behind)} cells",
                OWN["reproduced" if not behind.any() else "in shape"])
    )  # fmt: skip
    client = cost[cost["level"].eq("client") & cost["clients"].eq(2000)]
    lost = _best(client, ["feddp"]) > _best(client, ["server_lloyds"])
    text = ", ".join(f"{epsilon:g}" for epsilon in lost.index[lost]) or "none"
    out.append(
        Verdict("Sec. 5.2", "(ours) 2000 clients: the recommended settings lose to server_lloyds"
                " below epsilon 1", f"they lose at epsilon {text}",
                OWN["reproduced" if lost[lost.index < 1].all() else "contradicted"])
    )  # fmt: skip
    held = total = 0
    for (level, clients, rounds), limits in NOTES_EXCESS.items():
        part = cost[cost["level"].eq(level) & cost["clients"].eq(clients)]
        part = part[part["method"].eq("feddp") & part["T"].eq(rounds)].sort_values("eps_total")
        held += sum(part["excess_mean"].round(3).to_numpy() <= limits)
        total += len(limits)
    out.append(
        Verdict("Fig. 1, 2", "(ours) mean excess at most the largest of a second implementation",
                f"{held} of {total} cells", OWN[_grade([True] * held + [False] * (total - held))])
    )  # fmt: skip
    return out
