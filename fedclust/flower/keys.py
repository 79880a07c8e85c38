"""What the parties of a study compare, and the keys that they hold.

Before the first message all parties compare digests of what each knows from its own files: the
*agreement*. Then each client sends a nonce that it drew for this run and, where there is a group
secret, a check of it. From the agreement and all nonces follows the *session*. Pads are those of a
session, so no pad comes twice while one client draws a nonce that it never drew before.

A study begins as a draft without keys. Each client makes two key pairs for it: one of X25519, by
which clients share secrets, and one by which the server knows its SuperNode. The public halves
stand on a `Card`, which it sends to the first client of the study. That one draws the group secret,
seals it for each client, and sends back the complete study. So one file goes round twice, and no
secret leaves the machine that made it but sealed.

Whoever carries cards could put keys of their own in their place; then clients have different
studies, hence different agreements. Nothing of this is safe until people have compared these.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedclust_helpers
from fedclust.flower.messages import RefusedError
from fedclust.flower.study import KEYS, RINGS, Study
from fedclust_helpers._private import private
from fedclust_helpers.federation import Plan
from fedclust_helpers.secure_aggregation import (
    SECRET_BYTES,
    ciphers,
    pair_secret,
    public_key,
    secret_check,
)

DIGITS = 12  # of every number of the plan: other processors may differ in the last bits
NONCE_BYTES = 32  # of a run
FRESH = ("nonce", "check")  # what each client sends in hello
BOUNDS = ("bound", "domain", "lower", "upper")
ROOM_KEY, NODE_KEY = "room.key", "node.key"
SEAL_NONCE = 12  # bytes before what is sealed

# --- agreement and session ------------------------------------------------------------------------


def parts_of(study: Study, plan: Plan) -> dict[str, bytes]:
    """A digest (32 bytes) of each thing that parties may have otherwise: all of it is public."""
    if study.trust == "serverless" and study.public_keys is None:
        raise ValueError(
            "public_keys must be given where trust is 'serverless': this study is a draft, until"
            " its clients have made their keys"
        )
    fields = asdict(study)
    releases = [
        [r.round, r.name, r.parts, [repr(type(m).__name__) for m in r.mechanisms],
         [asdict(m) for m in r.mechanisms], r.numbers]
        for r in plan.releases
    ]  # fmt: skip
    plan_numbers = [plan.method, plan.epsilon, plan.delta, releases, asdict(plan.facts)]
    documents = {
        "version": fedclust_helpers.__version__,
        "columns": fields.pop("columns"),
        "bounds": [fields.pop(name) for name in BOUNDS],
        "keys": [fields.pop(name) for name in KEYS],
        "study": fields,
        "plan": _numbers(plan_numbers, DIGITS),  # each party computes it; all else is in its files
    }
    return {name: _digest(f"fedclust {name}|", _text(value)) for name, value in documents.items()}


def draft_of(study: Study) -> bytes:
    """A digest (32 bytes) of a study without the keys of its clients, which are made for it."""
    fields = asdict(study)
    return _digest("fedclust draft|", _text({k: v for k, v in fields.items() if k not in KEYS}))


def agreement_of(parts: Mapping[str, bytes]) -> bytes:
    """The agreement (32 bytes): what people read to each other, one digest of all `parts_of`."""
    return _digest("fedclust agreement|", *parts.values())


def spoken(agreement: bytes) -> str:
    """What people read to each other: 160 bits in groups of four digits.

    Whoever gives two clients two studies of one text must find a collision: 2^80 attempts.
    """
    digits = agreement.hex()[:40]
    return " ".join(digits[i : i + 4] for i in range(0, len(digits), 4))


def session_of(agreement: bytes, nonces: NDArray[np.uint8]) -> bytes:
    """The session (32 bytes) of the clients who drew these nonces (M, `NONCE_BYTES`), in order."""
    return _digest("fedclust session|", agreement, nonces.tobytes())


def session_for(
    study: Study, number: int, sent: Mapping[str, np.ndarray], *, agreement: bytes,
    secret: bytes | None, nonce: bytes,
) -> tuple[bytes, list[int]]:  # fmt: skip
    """The session that client `number`, who sent `nonce`, takes part in; else `RefusedError`.

    And the numbers of those who take part: it is known that they hold the same secret. Who may miss
    the beginning has a nonce of zeros.
    """
    n = study.n_clients
    form = {"nonces": (n, NONCE_BYTES), "checks": (n, SECRET_BYTES * bool(secret))}
    if {name: array.shape for name, array in sent.items() if array.dtype == np.uint8} != form:
        raise RefusedError("the session must bring a nonce and a check of each client")
    nonces, checks = sent["nonces"], sent["checks"]
    if nonces[number].tobytes() != nonce:
        raise RefusedError(f"the nonce of client {number} is not the one that it sent")
    met = np.flatnonzero((nonces > 0).any(axis=1)).tolist()
    if len(met) < n - study.may_miss:
        raise RefusedError(f"{len(met)} of {n} clients are too few to begin with")
    others = [
        i for i in met
        if checks[i].tobytes() != check_of(secret, agreement, i, nonces[i].tobytes())
    ]  # fmt: skip
    if others:
        raise RefusedError(f"client {number} has another group secret than clients {others}")
    return session_of(agreement, nonces), met


def check_of(secret: bytes | None, agreement: bytes, number: int, nonce: bytes) -> bytes:
    """What client `number` shows of its group secret in the run of this nonce (b"" without one)."""
    if secret is None:
        return b""
    return secret_check(secret, agreement + number.to_bytes(2, "big") + nonce)


def _digest(purpose: str, *parts: bytes) -> bytes:
    return hashlib.sha256(purpose.encode() + b"".join(parts)).digest()


def _text(value: Any) -> bytes:
    return json.dumps(_numbers(value), sort_keys=True).encode()


def _numbers(value: Any, digits: int | None = None) -> Any:
    """Numbers as text, exact or with so many digits (1 and 1.0 are one); containers as in JSON."""
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if digits is not None:
            return f"{value:.{digits}g}"
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, int):
        return str(value) if digits is None else f"{float(value):.{digits}g}"
    if isinstance(value, Mapping):
        return {str(k): _numbers(v, digits) for k, v in value.items()}
    return [_numbers(v, digits) for v in value]


# --- cards ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Card:
    """Public keys of one client, made for the draft with the digest `study`.

    `holds` says against whom its promise holds, as the client read it in the statement.
    """

    client: str
    study: str
    public_key: str
    node_key: str
    holds: str = ""


def make_keys(folder: Path, study: Study, client: str, *, holds: str = "") -> Card:
    """New private keys in `folder`, for this account alone, and the card that goes with them.

    FileExistsError where there are keys already: a card of them may have been sent.
    """
    from fedclust.flower.certificates import node_keys

    key = secrets.token_bytes(SECRET_BYTES)
    node, public = node_keys()
    for name, content in {ROOM_KEY: key, NODE_KEY: node}.items():
        with open(folder / name, "xb", opener=private) as file:
            file.write(content)
    return Card(client, draft_of(study).hex(), public_key(key).hex(), public, holds)


def write_card(path: Path, card: Card) -> None:
    """The card as a file: nothing of it is secret."""
    path.write_text(json.dumps(asdict(card), indent=1) + "\n", encoding="utf-8")


def read_card(path: Path) -> Card:
    """The card of a file; ValueError names the file."""
    try:
        return Card(**json.loads(path.read_text(encoding="utf-8-sig")))
    except (ValueError, TypeError):
        raise ValueError(f"{path.name} is no card, or was cut short: ask for it again") from None


def complete(study: Study, cards: Sequence[Card], key: bytes) -> Study:
    """The study with all keys; what the first client does, whose private `key` it is.

    `cards` are those of all clients, in order. ValueError for one that was made for another draft.
    """
    for name, card in zip(study.clients or (), cards, strict=True):
        if (card.client, card.study) != (name, draft_of(study).hex()):
            raise ValueError(
                f"the card of {name} was made for another study file than this one: send {name}"
                " this one, and ask for a new card"
            )
    keys = [card.public_key for card in cards]
    named = replace(study, public_keys=keys, node_keys=[card.node_key for card in cards])
    if study.trust not in RINGS:
        return named
    secret, sealed = secrets.token_bytes(SECRET_BYTES), []
    for number, public in enumerate(keys):
        pair = pair_secret(key, bytes.fromhex(public), use="seal")
        nonce = secrets.token_bytes(SEAL_NONCE)
        seal = ciphers().sealed(pair, secret, _context(named, number), nonce)
        sealed.append((nonce + seal).hex())
    return replace(named, sealed=sealed)


def group_secret(study: Study, number: int, key: bytes) -> bytes | None:
    """The group secret, as client `number` with the private `key` opens it; None without one.

    ValueError for a key that is not the one of this client's card, or a seal that was changed.
    """
    if study.trust not in RINGS:
        return None
    if study.sealed is None or study.public_keys is None:
        raise ValueError("sealed must be given: this study is a draft, without its clients' keys")
    if public_key(key).hex() != study.public_keys[number]:
        raise ValueError(f"{ROOM_KEY} is not the key of public_keys[{number}] of the study")
    sealed = bytes.fromhex(study.sealed[number])
    pair = pair_secret(key, bytes.fromhex(study.public_keys[0]), use="seal")
    nonce, seal = sealed[:SEAL_NONCE], sealed[SEAL_NONCE:]
    try:
        return ciphers().unsealed(pair, seal, _context(study, number), nonce)
    except ValueError:
        raise ValueError(
            "the sealed group secret does not open: the study, or its keys, were changed after it"
            " was sealed; ask the first client for its study file"
        ) from None


def _context(study: Study, number: int) -> bytes:
    """What a seal belongs to: the draft, all public keys, and the client it is for."""
    return draft_of(study) + "".join(study.public_keys or ()).encode() + number.to_bytes(2, "big")
