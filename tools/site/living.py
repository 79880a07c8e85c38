"""Figures that a page brings to life: values from the library, drawn by docs/_static/living.js.

A figure is one HTML fragment: a question, a stage that holds a still picture until JavaScript
replaces it, a take-away, and its data. It stands where a page says `<!-- living: NAME -->`.
"""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from fedclust_helpers import accounting, kmeans
from fedclust_helpers.client_statistics import SUMS_AND_COUNTS
from fedclust_helpers.federation import simulate
from fedclust_helpers.mechanisms import Laplace
from tools.site.settings import ROOT
from tools.site.wire import NAMES, wire

PLACES = {"wire": "00", "alice": "00", "lloyd": "01", "price": "05"}  # chapters
WORDS = {
    "wire": (
        "Three clinics want their total. Who gets to see the 12?",
        "Trust is what crosses the wire: six ways to nearly the same total, and six answers to"
        " “who saw what”.",
    ),
    "alice": (
        "A noised count comes out. Was Alice in it?",
        "Whatever an attacker knows: if a fair coin put Alice in, the guess is right with"
        " probability 1/(1 + e<sup>−ε</sup>) at most. That is what ε promises.",
    ),
    "lloyd": (
        "How far may a centre jump?",
        "Noise is divided by the points in a cluster, and each look costs again: more clusters or a"
        " smaller ε mean larger jumps. The old answers stay known to whoever saw them.",
    ),
    "price": (
        "What does it cost me to trust nobody?",
        "Five groups in the plane, one promise for all lines (one replaced record), medians over"
        " {sets} data sets; between measured points the lines are interpolated; 0.01 % means that"
        " or less.",
    ),
}
EPSILONS, GAMES, ROUNDS, WITHOUT = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0), 6, 10, 200
SEED = 2026
METHODS = {"overclustered": "over-clustered Lloyd", "fastlloyd": "FastLloyd", "sketch": "sketch"}
METHODS |= {"alg1": "Algorithm 1", "alg4": "Algorithm 4", "ldp_lloyd": "LDP-Lloyd"}


def alice() -> dict[str, Any]:
    """Counts with and without Alice, noised; and how often the best attack, and any, is right."""
    levels = []
    for i, epsilon in enumerate(EPSILONS):
        coins, noise = map(np.random.default_rng, np.random.SeedSequence([SEED, i]).spawn(2))
        mechanism = Laplace.from_budget(1.0, epsilon)
        is_in = coins.random((GAMES, ROUNDS)) < 0.5
        answers = WITHOUT + is_in + mechanism.sample(is_in.shape, rng=noise)
        levels.append({
            "epsilon": epsilon, "scale": mechanism.scale,
            "best": round(1 - np.exp(-epsilon / 2) / 2, 6),
            "ceiling": round(1 / (1 + np.exp(-mechanism.pure_epsilon)), 6),
            "in": is_in.astype(int).tolist(), "answers": answers.round(2).tolist(),
        })  # fmt: skip
    return {"without": WITHOUT, "levels": levels}


def lloyd(draws: int = 8, n: int = 240, delta: float = 1e-5) -> dict[str, Any]:
    """One step of Lloyd on 240 points, noised again and again; the ledger's total after each."""
    groups = np.array([[-0.6, 0.5], [0.55, 0.6], [0.5, -0.5], [-0.45, -0.55]])
    rng = np.random.default_rng(SEED)
    points = np.clip(groups[np.arange(n) % 4] + rng.normal(0, 0.13, (n, 2)), -1, 1).round(2)
    cases = []
    for k in (2, 4, 6):
        start = kmeans.sphere_packing(k, 2, rng=np.random.default_rng(k), method="largest")
        sums, counts = kmeans.sums_and_counts(points, start)
        exact = sums / np.maximum(counts, 1)[:, None]
        for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
            multiplier = 2**0.5 / accounting.gdp_mu(epsilon, delta)
            fed = simulate([points], "trusted", seed=SEED)
            pair = [
                fed.gaussian(SUMS_AND_COUNTS, part, multiplier=multiplier)
                for part in ("sums", "counts")
            ]
            seen, costs = [], []
            for draw in range(draws):
                sums, sizes = fed.noisy_sum(SUMS_AND_COUNTS, pair, round=draw, centers=start)
                seen.append(np.clip(sums / np.maximum(sizes, 1)[:, None], -1, 1).round(2).tolist())
                costs.append(round(fed.ledger.epsilon(delta), 3))
            cases.append({"k": k, "epsilon": epsilon, "seen": seen,
                          "exact": exact.round(2).tolist(), "sizes": [int(c) for c in counts],
                          "std": round(pair[0].std, 2), "costs": costs})  # fmt: skip
    return {"points": points.tolist(), "delta": delta, "budget": 10, "cases": cases}


def price() -> dict[str, Any]:
    """Cost above the best by n: in each trust model, the method that is best at that n."""
    frame = pd.read_csv(ROOT / "data" / "results" / "side_by_side.csv")
    frame = frame.query("data == 'mixture' and d == 2 and k == 5")
    (sets,) = frame["seeds"].unique()
    panels = []
    for epsilon, rows in frame.groupby("epsilon"):
        lines = []
        for trust in ("masked", "shuffled", "local"):
            own = rows[rows.trust == trust]
            best = own.loc[own.groupby("n")["median"].idxmin()].sort_values("n")
            points = [
                [int(n), round(max(100 * (m - 1), 0.01), 4)]
                for n, m in zip(best["n"], best["median"], strict=True)
            ]
            lines.append(
                {
                    "name": trust,
                    "points": points,
                    "methods": [METHODS[method] for method in best["method"]],
                }
            )
        if all(len(line["points"]) > 1 for line in lines):
            panels.append({"name": f"ε = {epsilon:g}", "lines": lines})
    return {"x": "my n: records", "y": "cost above the best (%)", "read": "my n", "panels": panels,
            "sets": int(sets)}  # fmt: skip


# --- what stands there without JavaScript ---------------------------------------------------------


def svg(width: int, height: float, label: str, body: list[str]) -> str:
    """A picture."""
    shape = f'viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{escape(label)}"'
    return f"<svg {shape}>{''.join(body)}</svg>"


def words(x: float, y: float, text: str, look: str = "lv-quiet", anchor: str = "start") -> str:
    """A line of text."""
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" class="{look}">{escape(text)}</text>'
    )


def wire_still(data: dict[str, Any]) -> str:
    """What each party has seen at the end, model by model."""
    out = []
    for half in (data["models"][:3], data["models"][3:]):
        body: list[str] = []
        y = 18.0
        for model in half:
            body.append(words(0, y, model["name"], "lv-strong"))
            for party in [p for p in "msp" if p == "p" or model[{"m": "middle", "s": "server"}[p]]]:
                y, x = y + 26, 78.0
                body.append(words(0, y, model["middle"] if party == "m" else NAMES[party]))
                rows = [row for s in model["steps"] for row in s["learn"].get(party, ())]
                body += [] if rows else [words(x, y, "nothing")]
                for _, text, kind in rows:
                    wide = 8.2 * len(text) + 12
                    x, y = (78.0, y + 24) if x + wide > 360 else (x, y)
                    box = f'x="{x:.0f}" y="{y - 14:.0f}" width="{wide:.0f}" height="20" rx="10"'
                    body.append(f'<rect {box} class="lv-pill-{kind}"/>')
                    look = "lv-word" if kind == "code" else ""
                    body.append(words(x + wide / 2, y + 1, text, look, "middle"))
                    x += wide + 6
            y += 38
        out.append(svg(360, y - 24, "Who sees what: " + ", ".join(m["name"] for m in half), body))
    return "".join(out)


def curves(lines: dict[str, Any], ticks: Any, axis: str, label: str) -> str:
    """Lines over logarithmic axes; `lines` has a look and points for each name."""
    everything = np.log10(np.concatenate([points for _, points in lines.values()]))
    low, high = everything.min(axis=0), everything.max(axis=0)

    def at(x: float, y: float) -> tuple[float, float]:
        u, v = (np.log10([x, y]) - low) / (high - low)
        return 12 + 300 * u, 190 - 170 * v

    body = [words(at(x, 10 ** low[1])[0], 214, f"{x:,}", anchor="middle") for x in ticks]
    for name, (look, points) in lines.items():
        path = " ".join("{:.1f},{:.1f}".format(*at(*p)) for p in points)
        body += [f'<polyline points="{path}" class="{look}"/>']
        body += [words(at(*points[0])[0] + 8, at(*points[0])[1] - 4, name)]
    return svg(360, 240, label, [*body, words(160, 236, axis, anchor="middle")])


def still(name: str, data: dict[str, Any]) -> str:
    """The picture of a figure without JavaScript."""
    if name == "wire":
        return wire_still(data)
    if name == "alice":
        grid = np.geomspace(0.1, 8, 40)
        ceiling, best = 1 / (1 + np.exp(-grid)), 1 - np.exp(-grid / 2) / 2
        lines = {"ceiling for every attacker": ("lv-dash", np.c_[grid, ceiling]),
                 "": ("lv-line", np.c_[grid, best])}  # fmt: skip
        label = (
            "How often an attacker can be right, by epsilon: the best one stays below the ceiling"
        )
        return curves(lines, (0.1, 1, 8), "epsilon", label)
    if name == "price":
        looks = dict(
            zip(("masked", "shuffled", "local"), ("lv-line", "lv-line", "lv-dash"), strict=True)
        )
        lines = {line["name"]: (looks[line["name"]], np.array(line["points"], float))
                 for line in data["panels"][0]["lines"]}  # fmt: skip
        label = "Cost above the best by the number of records: the less trust, the more records"
        return curves(lines, (1000, 1_000_000), "records, at " + data["panels"][0]["name"], label)
    case = next(c for c in data["cases"] if (c["k"], c["epsilon"]) == (4, 2.0))
    marks = [(p, 3, "lv-point") for p in data["points"]]
    marks += [(c, 6, "lv-cloud") for seen in case["seen"] for c in seen]
    body = [f'<circle cx="{180 + 150 * x:.0f}" cy="{170 - 150 * y:.0f}" r="{r}" class="{look}"/>'
            for (x, y), r, look in marks]  # fmt: skip
    return svg(
        360, 340, "240 points and the released centres of 8 private steps at epsilon 2", body
    )


@cache
def figure(name: str) -> str:
    """The fragment of one figure, as Markdown can hold it."""
    data: dict[str, Any] = {"wire": wire, "alice": alice, "lloyd": lloyd, "price": price}[name]()
    question, take = WORDS[name]
    stored = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    kind = "lines" if name == "price" else name
    return "\n".join([
        "```{raw} html", f'<figure class="lv" data-living="{kind}">',
        f'<p class="lv-question">{question}</p>',
        f'<div class="lv-stage"><div class="lv-still">{still(name, data)}</div></div>',
        f'<p class="lv-take">{take.format(**data)}</p>',
        f'<script type="application/json">{stored}</script></figure>', "```",
    ])  # fmt: skip


def placed(text: str) -> str:
    """A Markdown text with its figures."""
    return re.sub(r"<!-- living: (\w+) -->", lambda match: figure(match[1]), text)
