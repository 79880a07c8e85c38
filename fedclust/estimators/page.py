"""The privacy statement as one page for people who decide, and are no engineers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedclust_helpers.accounting import most_right
from fedclust_helpers.federation.plan_statement import as_html

STYLE = (
    "body{max-width:46em;margin:2em auto;padding:0 1em;font:1rem/1.5 sans-serif;color:#222}"
    "h1{font-size:1.5em}h2{font-size:1.1em;margin-top:1.6em}"
    "table{border-collapse:collapse;font-size:.85em}"
    "th,td{padding:.2em .6em;border-bottom:1px solid #ddd;vertical-align:top}"
    ".warning{border-left:4px solid #b30000;padding-left:.8em}"
)
UNITS = {"point": "one row", "client": "one client, with all of its rows", "person": "one person"}
ONE_ROW = (
    "Protected is each single row. Where a person may have several rows (visits, say), this does"
    " not hide the person: make one row of each by a public rule, or, where the server has public"
    " rows (X_server), let each person be a client and choose unit='client'"
)
"""What is asked first of all, wherever single rows are protected."""


def page(f: Mapping[str, Any], pairs: Sequence[tuple[str, str]]) -> str:
    """An HTML page without scripts from the facts of a statement and its pairs."""
    warned = [text for heading, text in pairs if heading == "WARNING"]
    parts = [
        ("What was protected", _protected(f)),
        ("Against whom", [
            f"The {who} see{'' if who.endswith('s') else 's'}: {what}." for who, what in f["sees"]
        ] + [
            "This holds for parties who follow the protocol, each on a machine of its own. The run"
            " that this page is about was made in one process that held all rows: whoever ran it"
            " could read them."
        ]),
        ("What is released", _released(f)),
        ("How much this can tell about one of them", _odds(f)),
        ("Limits", _limits(f)),
    ]  # fmt: skip
    planned = " (a plan: nothing has been released)" if f["charged"] is None else ""
    body = [f"<h1>Privacy statement{planned}</h1>"]
    body += [f"<p class='warning'><b>Warning:</b> {escape(text)}</p>" for text in warned]
    for heading, texts in parts:
        body.append(f"<h2>{heading}</h2>" + "".join(f"<p>{escape(text)}</p>" for text in texts))
    body.append(f"<h2>The statement in full</h2>{as_html(pairs)}")
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        f"<title>Privacy statement</title><style>{STYLE}</style></head>\n<body>"
        + "\n".join(body)
        + "</body></html>\n"
    )


def _protected(f: Mapping[str, Any]) -> list[str]:
    unit = UNITS[f["unit"]]
    hidden = (
        f"Whether {unit} was among the data or not"
        if f["adjacency"] == "add/remove"
        else f"Which values {unit} has, of any two that it might have"
    )
    return [
        f"{hidden}, within the limit below.",
        f"The data: {f['n_clients']:,} clients, {f['n_records']:,} rows (public numbers),"
        f" {f['n_features']} columns{_named(f)}.",
        *([f"{ONE_ROW}."] if f["unit"] == "point" else []),
    ]


def _named(f: Mapping[str, Any]) -> str:
    return "" if f["columns"] is None else f": {', '.join(map(str, f['columns']))}"


def _released(f: Mapping[str, Any]) -> list[str]:
    what = f"{f['n_clusters']} clusters" if f["n_clusters"] else "numbers"
    return [
        f"The results of {f['estimator']} ({f['method']}): {what}, and the noised answers that they"
        " are computed from. Noise was drawn for each answer before anybody could read it.",
        f"What stays where the rows are: {f['local']}.",
    ]


def _odds(f: Mapping[str, Any]) -> list[str]:
    spent, delta, batches = f["charged"], f["delta"], f.get("batches")
    of = "This plan" if spent is None else "All that was released from these rows so far"
    epsilon = f["epsilon"] if spent is None else spent["ledger_epsilon"]
    if batches is not None:  # a row is in one of them
        of, epsilon = "The costliest batch that a row may be in", f["epsilon"]
    if epsilon is None:
        return ["There is no limit: something was released without noise."]
    right = most_right(epsilon, delta)
    odds = f"{math.exp(epsilon):.3g}" if epsilon < 700 else "practically certainty"
    said = [
        f"{of} has epsilon = {epsilon:.3g} at delta = {delta:.3g}, where 0 would tell nothing.",
        "In odds: somebody who knows all else, and thinks one to one whether it is so, may come to"
        f" odds of at most {odds} to one; such a guess is right at most"
        f" {100 * right:.3g} % of the time, where tossing a coin is right 50 % of the time. The"
        f" exception has a probability of about delta, {delta:.3g}.",
    ]
    if batches is not None:
        every = f["in_all_batches"]
        total = "no limit" if every["epsilon"] is None else f"epsilon = {every['epsilon']:.3g}"
        said.append(
            f"For a person with rows in all of the {len(batches)} batches it is {total} at delta ="
            f" {every['delta']:.3g}."
        )
    if right > 0.95:
        said.append("That is close to certainty: a limit of this size promises little.")
    return said


def _limits(f: Mapping[str, Any]) -> list[str]:
    limits = [
        "What holds for a group as a whole is learned, that is the purpose, and may be said of a"
        " person who took no part.",
        "Every further use of the same rows adds to the total, and counts only if it is charged to"
        " the same ledger.",
        f"Public, and protected by nothing: the number of rows and clients, the columns, and their"
        f" bounds ({f['bounds_from']}).",
        "The limit is one of mathematics. It does not cover machines that are broken into, parties"
        " who pool what they know beyond what is said above, or what the time of a run tells. No"
        " third party has audited the program.",
    ]
    if f["mode"] != "secure":
        limits.insert(0, "Teaching mode: nothing is protected against anyone who knows the seed.")
    return limits
