"""What `fedclust study new` asks for: from its arguments, or else from the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from fedclust.flower.study import ENDS, METHODS, Study

METHOD = {"local": "ldp_sketch"}  # else "fastlloyd_overclustered": never much worse than others
OFFERED = ("fastlloyd", "fastlloyd_overclustered", "ldp_one_round", "ldp_sketch")


def study_of(asked: argparse.Namespace) -> Study:
    """The draft of a study; ValueError says which answer is missing or cannot be."""
    ask = _answers(asked)
    columns = asked.column or _columns(asked)
    clients = [
        name.strip() for name in ask("clients", "clients (names, with commas)", str).split(",")
    ]
    trust = ask("trust", "trust (masked, serverless, trusted, local)", str, "masked")
    method = ask("method", "", str, METHOD.get(trust, "fastlloyd_overclustered"))
    if method not in OFFERED:
        others = ", ".join(sorted({*METHODS} - {*OFFERED}))
        raise ValueError(
            f"method must be one of {', '.join(OFFERED)}; got {method!r} ({others}: add the fields"
            " of docs/deployment.md to a study by hand)"
        )
    options: dict[str, Any] = {
        "n_clusters": ask("k", "number of clusters", int),
        "epsilon": ask("epsilon", "epsilon, for each row", float),
    }
    given: dict[str, Any] = {}
    if trust == "local":
        users = ask("users", "rows of each client (public numbers, with commas)", str)
        given = {"users": [_number(n, int, "users") for n in users.split(",")], "domain": "ball"}
        given |= {"adjacency": "replace-one", "n_records": sum(given["users"])}
    else:
        given["n_records"] = ask("records", "number of all rows (public, or a guess)", int)
        options["delta"] = ask(
            "delta", "delta", float, f"{min(1e-6, 0.01 / max(given['n_records'], 1)):.0e}"
        )
    if method == "fastlloyd" and asked.rounds is not None:
        options["n_rounds"] = ask("rounds", "", int)
    for name in ("may_miss", "repeats"):
        given[name] = ask(name, "", int, "0")
    if trust in ENDS:
        given["noise_from"], given["receiver"] = ENDS[trust]
    return Study(
        run=ask("run", "name of the study", str), method=method, options=options,
        n_clients=len(clients), clients=clients, trust=trust,
        n_features=len(columns), columns=[name for name, *_ in columns],
        lower=[_number(low, float, f"lower bound of {name}") for name, low, _ in columns],
        upper=[_number(high, float, f"upper bound of {name}") for name, _, high in columns],
        server=ask("server", "where the server listens (host:port)", str), **given,
    )  # fmt: skip


def _answers(asked: argparse.Namespace) -> Callable[..., Any]:
    def ask(name: str, words: str, kind: type, default: str | None = None) -> Any:
        given = getattr(asked, name)
        if given is None and words and sys.stdin.isatty():
            given = input(f"{words}{f' [{default}]' if default else ''}: ").strip() or None
        given = default if given is None else given
        if given is None:
            raise ValueError(f"--{name} must be given: {words}")
        return _number(given, kind, name)

    return ask


def _number(text: str, kind: type, name: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        what = {int: "a whole number", float: "a number"}[kind]
        raise ValueError(f"{name} must be {what}, got {text!r}") from None


def _columns(asked: argparse.Namespace) -> list[list[str]]:
    found: list[list[str]] = []
    while sys.stdin.isatty():
        line = input("a column: name lower upper (or nothing, when all are named): ").rsplit(
            None, 2
        )
        if not line:
            break
        if len(line) == 3:
            found.append(line)
    if not found:
        raise ValueError("--column NAME LOWER UPPER must be given, once for each column")
    return found
