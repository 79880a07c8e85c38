"""Settings of the notebook, what it is tried with, its random streams, and two tables it shows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fedclust_helpers.federation import Federation
from fedclust_helpers.ldp_kmeans.frequency_oracles import OneBitCounts, Question, ask_values
from studies.bench.lesson import Lesson

LESSON = Lesson(
    settings={
        "SEED": 5, "EPSILON": 1.0, "EPSILON_LARGE": 8.0, "DELTA": 1e-6, "K": 5,
        "N_USERS": 1_000_000, "N_PHONES": 200_000, "N_PEOPLE": 10_000,
    },
    variations={
        "EPSILON": (0.5, 2.0), "EPSILON_LARGE": (4.0,), "DELTA": (1e-5,), "K": (3, 8),
        "N_USERS": (100_000,), "N_PHONES": (100_000,), "N_PEOPLE": (2000,),
    },
    streams=(
        "coin", "phones", "split", "sums", "audit", "plane", "space", "proxies", "server",
        "methods", "trust", "maps", "balls", "rounds", "palette", "poll", "liars",
    ),
)  # fmt: skip
begin = LESSON.begin


def empty_buckets_std(
    epsilon: float,
    n_answers: int,
    *,
    rng: np.random.Generator,
    n: int = 20_000,
    questions: int = 10,
) -> float:
    """Sd of the counts of empty buckets over sqrt(n), where `n` users share so many questions."""
    oracle = OneBitCounts(
        lambda points, _: Question(points[:, 0].astype(np.uint64)),
        epsilon, shares=[1.0] * questions, n_answers=n_answers, rng=rng,
    )  # fmt: skip
    ask_values(oracle, np.zeros((n, 1)), rng=rng)
    own = oracle.buckets(np.zeros(1, dtype=np.uint64))
    return float(np.delete(oracle.spectrum[0], own).std() * oracle.scale(0) / np.sqrt(n))


COMPARED = ("one round", "four rounds", "one private mean")
"""Methods of `cost_ratios`."""


def cost_ratios(table: pd.DataFrame, *, epsilon: float) -> pd.DataFrame:
    """Cost over non-private cost of the mixtures by (method, k, n) and d, means over data sets.

    One round is Algorithm 1 as planned by default: up to six dimensions without vector sums.
    `table` is ``ldp_cost``, with columns data, n, dprime, k, epsilon, algorithm, cost_per_point,
    nonprivate_cost.
    """
    names = dict(zip(("alg1", "alg4", "private_mean"), COMPARED, strict=True))
    part = table[(table["epsilon"] == epsilon) & (table["data"] == "mixture")]
    default = (part["algorithm"] != "alg1_hso") | (part["dprime"] > 6)
    method = part["algorithm"].replace("alg1_hso", "alg1").map(names)
    ratio = (part["cost_per_point"] / part["nonprivate_cost"]).where(default)
    by = [method.rename("method"), part["k"], part["n"], part["dprime"].rename("d")]
    return ratio.groupby(by).mean().unstack()


def said_by_users(federation: Federation, points: ArrayLike) -> pd.DataFrame:
    """One user of each part of a divided run: what it holds, was asked, and said.

    Parameters
    ----------
    federation : Federation
        After the run, made with ``keep_payloads=True``; each part was asked once, in order.
    points : array_like of shape (n, d)
        What the users hold. Nobody but the reader of a lesson has this column.
    """
    if federation.split is None:
        raise ValueError("federation must have divided its users")
    points, rows = np.asarray(points), []
    users = np.arange(federation.n_clients)
    messages = federation.transcript.view("server")
    for part, message in zip(federation.split.parts, messages, strict=True):
        if message.payload is None:
            raise ValueError("federation must keep payloads")
        user = int(users[federation.split.members(users, part)][0])
        said = message.payload[0]
        text = ("−1" if said[0] else "+1") if said.dtype == bool else _vector(said, 1)
        name = message.name.split(":")[0]
        rows.append((message.round + 1, name, user, _vector(points[user], 2), text))
    columns = ["round", "question", "user", "true point (secret)", "what left the phone"]
    return pd.DataFrame(rows, columns=columns)


def _vector(values: ArrayLike, digits: int) -> str:
    return "(" + ", ".join(f"{x:+.{digits}f}" for x in np.asarray(values)) + ")"
