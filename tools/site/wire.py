"""The wire: one round under each trust model, message by message, from runs of the library.

A model is {id, name, middle, server, steps, take}; a step {say, send: [[from, to, text, kind]],
learn: {party: [[label, text, kind]]}, at: {party: text in its box}}. Parties: c1 c2 c3, m (what
stands in the middle), s (server), p (public). Kinds: exact, noised, code (a random word).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fedclust_helpers.client_statistics import TOTAL
from fedclust_helpers.federation import TRUST_MODELS, simulate
from fedclust_helpers.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    DistributedDiscreteGaussian,
)
from fedclust_helpers.secure_aggregation import PadBook

Steps = list[dict[str, Any]]
RING, STD = 2**32, 2.0  # the noise of every model: small numbers to look at
SEED = 1793  # good to look at: no noise is zero, all totals differ, the shuffler moves everybody
SUMS, CLIENTS = (12, 7, 9), ("c1", "c2", "c3")
NAMES = {"c1": "client 1", "c2": "client 2", "c3": "client 3", "s": "server", "p": "public"}
SHARED, SECRET = ("masked", "serverless"), bytes(range(32))  # SHARED: noise in shares
MINUS, MODULO = "\N{MINUS SIGN}", "modulo 2\N{SUPERSCRIPT THREE}\N{SUPERSCRIPT TWO}"


class Count:
    """What local and shuffled users are asked: your number, noised."""

    name, parts = "count", ("noised count",)
    public: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self.mechanisms = (DiscreteLaplace(16.0, STD / 2**0.5, 1.0, "replace-one"),)

    def check(self, n_features: int) -> None: ...

    def respond(self, points: Any, users: Any, *, rng: np.random.Generator) -> tuple[Any]:
        noise = self.mechanisms[0].sample_steps((len(points),), rng=rng)
        return (np.rint(points[:, 0]).astype(np.int64) + noise,)

    def collect(self, users: Any, reports: Any) -> None: ...


def run(model: str, seed: int) -> tuple[int, list[Any]]:
    """One round of the library: its answer, and the payloads that crossed the wire."""
    fed: Any
    if model in ("local", "shuffled"):  # one number each
        numbers = np.array(SUMS, float)[:, None]
        fed = simulate(numbers, model, seed=seed, keep_payloads=True, bound=16.0)
        fed.ask(Count(), round=0)
    else:
        ring: dict[str, Any] = {"bits": 32, "fractional_bits": 0} if model in SHARED else {}
        if model == "masked":
            ring["pre_shared_secret"] = SECRET
        rows = [np.ones((n, 1)) for n in SUMS]
        fed = simulate(rows, model, seed=seed, keep_payloads=True, **ring)
        noise: Any = DiscreteGaussian(2.0, STD, 1.0)
        if model in SHARED:
            noise = DistributedDiscreteGaussian(2.0, STD, 1.0, n_honest=2, n_coordinates=1)
        answer = int(fed.noisy_sum(TOTAL, [noise], round=0)[0][0])
        if model == "masked":  # whoever holds the secret knows the pads
            book = PadBook(SECRET, fed.aggregation.session, 32)
            pads = book.pads(f"{TOTAL.name}/{TOTAL.parts[0]}", 0, len(SUMS), (1,))
    sent = [m for m in fed.transcript.messages if m.round == 0 and "ticket" not in m.name]
    payloads = [np.asarray(m.payload).astype(object) for m in sent]
    if model == "masked":
        payloads.append(pads.astype(object))
    return answer if model not in ("local", "shuffled") else int(payloads[0].sum()), payloads


def plain(n: int) -> str:
    """A number with a printed minus."""
    return f"{n}" if n >= 0 else f"{MINUS}{-n}"


def signed(n: int) -> str:
    """A number with its sign."""
    return f"+{n}" if n >= 0 else plain(n)


def step(say: str, send: Iterable[Any] = (), learn: Any = None, at: Any = None) -> dict[str, Any]:
    """One step of a model."""
    return {"say": say, "send": [list(s) for s in send], "learn": learn or {}, "at": at or {}}


def each(label: str, values: Iterable[Any], kind: str) -> dict[str, list[list[str]]]:
    """What every client learns by itself."""
    return {c: [[label, str(v), kind]] for c, v in zip(CLIENTS, values, strict=True)}


def arrive(to: str, values: Iterable[Any], kind: str) -> tuple[list[Any], dict[str, Any]]:
    """All clients send a value to one party, which learns who sent what."""
    pairs = [(c, str(v)) for c, v in zip(CLIENTS, values, strict=True)]
    rows = [[f"{NAMES[c]} sent", v, kind] for c, v in pairs]
    return [(c, to, v, kind) for c, v in pairs], {to: rows}


def published(total: int) -> tuple[list[Any], dict[str, Any]]:
    """The server tells everybody the noised total."""
    to = [*CLIENTS, "p"]
    row = ["published total", plain(total), "noised"]
    return [("s", party, plain(total), "noised") for party in to], {party: [row] for party in to}


def summed(model: str, seed: int) -> Steps:
    """A trusted server, or a box before it, adds up exact numbers."""
    total, _ = run(model, seed)
    noise, at = total - sum(SUMS), "s" if model == "trusted" else "m"
    adds = {at: [["total", str(sum(SUMS)), "exact"], ["its noise", signed(noise), "noised"]]}
    where = {at: f"{sum(SUMS)} {signed(noise)} = {total}"}
    steps = [
        step(
            "Each client knows its own sum, and nobody else does.",
            (),
            each("own sum", SUMS, "exact"),
        )
    ]
    if at == "s":
        return [
            *steps,
            step("Each sends its exact sum.", *arrive(at, SUMS, "exact")),
            step("The server adds up, and adds noise of its own.", (), adds, where),
            step("Only the noised total leaves the server.", *published(total), {"s": str(total)}),
        ]
    out = [("m", "s", plain(total), "noised")]
    return [
        *steps,
        step("All put their sums into a box.", *arrive(at, SUMS, "exact")),
        step("The box adds up, and adds noise.", (), adds, where),
        step("The server receives the noised total, and no more.", out,
             {"s": [["noised total", plain(total), "noised"]]}),
        step("It may tell everybody.", *published(total)),
    ]  # fmt: skip


def masked(model: str, seed: int) -> Steps:
    """Masks that only the clients can take away; the noise comes in shares."""
    total, (words, back, pads) = run(model, seed)
    words, masks = [int(w) for w in words.ravel()], [int(m) for m in pads.ravel()]
    noise = [(w - m - v + RING // 2) % RING - RING // 2
             for w, m, v in zip(words, masks, SUMS, strict=True)]  # fmt: skip
    blind = sum(words) % RING
    assert blind == int(back.ravel()[0]) and (blind - sum(masks)) % RING == total % RING
    assert sum(SUMS) + sum(noise) == total
    keys = [[f"mask {i}", str(m), "code"] for i, m in enumerate(masks, 1)]
    own = each("own sum", SUMS, "exact")
    for c, n in zip(CLIENTS, noise, strict=True):
        own[c] += [["own noise", signed(n), "noised"], *keys]
    ends = each(f"total {MINUS} masks", [plain(total)] * 3, "noised")
    ends["p"] = [["published total", plain(total), "noised"]]
    return [
        step("Each client draws a share of the noise; from a secret that the server lacks, all draw"
             " one mask for each.", (), own,
             {c: f"noise {signed(n)}" for c, n in zip(CLIENTS, noise, strict=True)}),
        step(f"Each adds its noise and its mask, {MODULO}: a random word.", (),
             each("sum + noise + mask", words, "code"),
             {c: f"+ mask {i}" for i, c in enumerate(CLIENTS, 1)}),
        step("The words travel.", *arrive("s", words, "code")),
        step("The server adds up what it cannot read.", (),
             {"s": [["masked total", str(blind), "code"]]}, {"s": "adds up"}),
        step("The masked total goes back.", [("s", c, str(blind), "code") for c in CLIENTS],
             each("masked total", [blind] * 3, "code")),
        step("The clients take all three masks away. The total may be public: nobody knows all"
             " noise.", [("c3", "p", plain(total), "noised")], ends,
             {c: f"reads {plain(total)}" for c in CLIENTS}),
    ]  # fmt: skip


def serverless(model: str, seed: int) -> Steps:
    """Shares, and noise in shares; every pair talks."""
    total, (shares, sums) = run(model, seed)
    shares, sums = shares.reshape(3, 3), [int(v) for v in sums.ravel()]
    held = [sum(int(shares[i, j]) for i in range(3)) for j in range(3)]
    noise = [(s - h + RING // 2) % RING - RING // 2 for s, h in zip(sums, held, strict=True)]
    assert sum(SUMS) + sum(noise) == total and sum(sums) % RING == total % RING
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    own = each("own sum", SUMS, "exact")
    for i, c in enumerate(CLIENTS):
        own[c] += [[f"share for {j + 1}", str(shares[i, j]), "code"] for j in range(3)]

    def heard(label: str, value: Any) -> dict[str, Any]:
        return {c: [[label.format(i + 1), str(value(i, j)), "code"] for i in range(3) if i != j]
                for j, c in enumerate(CLIENTS)}  # fmt: skip

    adds = {c: [["own noise", signed(n), "noised"], ["held + noise", str(s), "code"]]
            for c, n, s in zip(CLIENTS, noise, sums, strict=True)}  # fmt: skip
    ends = each("the three added up", [plain(total)] * 3, "noised")
    ends["p"] = [["published total", plain(total), "noised"]]
    return [
        step(f"Each splits its sum into three random words that add up to it, {MODULO}.", (), own),
        step("It keeps one and sends the others away.",
             [(CLIENTS[i], CLIENTS[j], str(shares[i, j]), "code") for i, j in pairs],
             heard("from {}", lambda i, j: shares[i, j])),
        step("Each adds what it holds, and a share of the noise.", (), adds,
             {c: f"noise {signed(n)}" for c, n in zip(CLIENTS, noise, strict=True)}),
        step("They tell each other the results.",
             [(CLIENTS[i], CLIENTS[j], str(sums[i]), "code") for i, j in pairs],
             heard("{} told", lambda i, j: sums[i])),
        step("All three added up are the noised total. It may be public: nobody knows all noise.",
             [("c3", "p", plain(total), "noised")], ends,
             {c: f"reads {plain(total)}" for c in CLIENTS}),
    ]  # fmt: skip


def noised(model: str, seed: int) -> Steps:
    """Every client adds noise of its own; a shuffler may take the names away."""
    total, sent = run(model, seed)
    reports = [int(v) for v in sent[0].ravel()]
    noise = [r - v for r, v in zip(reports, SUMS, strict=True)]
    to = "m" if model == "shuffled" else "s"
    own = each("own sum", SUMS, "exact")
    for c, n in zip(CLIENTS, noise, strict=True):
        own[c].append(["own noise", signed(n), "noised"])
    at = {c: f"noise {signed(n)}" for c, n in zip(CLIENTS, noise, strict=True)}
    steps = [
        step("Each adds noise of its own, before anything leaves.", (), own, at),
        step("The noised numbers travel, with the name of the sender.",
             *arrive(to, map(plain, reports), "noised")),
    ]  # fmt: skip
    if model == "shuffled":
        mixed = [plain(int(v)) for v in sent[1].ravel()]
        assert sorted(mixed) == sorted(map(plain, reports))
        steps.append(step("The shuffler passes them on in random order, without the names.",
                          [("m", "s", " ".join(mixed), "noised")],
                          {"s": [["somebody sent", v, "noised"] for v in mixed]},
                          {"m": "shuffled"}))  # fmt: skip
    send, learn = published(total)
    learn["s"] = [["total", plain(total), "noised"]]
    last = step(
        "The server adds up: three noises are in the total.", send, learn, {"s": plain(total)}
    )
    return [*steps, last]


MODELS = (
    ("trusted", None, "server", summed,
     "The server saw 12, 7 and 9. Everything rests on its word."),
    ("ideal", "box", "server", summed,
     "Only the box saw an exact number. But who builds it? The next two do without."),
    ("masked", None, "server", masked,
     "The server saw random words. (In FastLloyd's variant it adds the noise, and so must never see"
     " the result.)"),
    ("serverless", None, None, serverless,
     "No server at all. The price: every pair talks, and each brings noise for the others too."),
    ("shuffled", "shuffler", "server", noised,
     "The server saw noised numbers without names: little cover among three, much among many."),
    ("local", None, "server", noised,
     "Nobody is trusted with anything exact. The price: three noises in the total instead of one."),
)  # fmt: skip


def wire() -> dict[str, Any]:
    """All models."""
    models = [
        {"id": i, "name": TRUST_MODELS[i][0].title.capitalize(), "middle": m, "server": s,
         "steps": steps(i, SEED), "take": take}
        for i, m, s, steps, take in MODELS
    ]  # fmt: skip
    return {"seed": SEED, "sums": SUMS, "ring": RING, "models": models}
