"""What the parties of a study compare before its first release, and what makes a run its own.

All parties compare digests of what they know from their own files. Then each client sends a nonce
that it drew for this run and, where there is a group secret, a check of it. From the agreement and
all nonces follows the session; pads are those of a session, so no pad comes twice while one client
draws a nonce that it never drew before.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedclust_helpers
from fedclust.flower.study import KEYS, Study
from fedclust_helpers.federation import Plan
from fedclust_helpers.secure_aggregation import SECRET_BYTES, secret_check

DIGITS = 12  # of every number in the agreement: other processors may differ in the last bits
NONCE_BYTES = 32
BOUNDS = ("bound", "domain", "lower", "upper")


class RefusedError(ValueError):
    """A request that a client does not answer; the text is all that the server learns."""


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
    documents = {
        "version": fedclust_helpers.__version__,
        "columns": fields.pop("columns"),
        "bounds": [fields.pop(name) for name in BOUNDS],
        "keys": [fields.pop(name) for name in KEYS],
        "study": fields,
        "plan": [plan.method, plan.epsilon, plan.delta, releases, asdict(plan.facts)],
    }
    return {name: _digest(f"fedclust {name}|", _text(value)) for name, value in documents.items()}


def draft_of(study: Study) -> bytes:
    """A digest (32 bytes) of a study without the keys of its clients, which are made for it."""
    fields = asdict(study)
    return _digest("fedclust draft|", _text({k: v for k, v in fields.items() if k not in KEYS}))


def spoken(agreement: bytes) -> str:
    """What people read to each other: 160 bits in groups of four digits.

    Whoever gives two clients two studies of one text must find a collision: 2^80 attempts.
    """
    digits = agreement.hex()[:40]
    return " ".join(digits[i : i + 4] for i in range(0, len(digits), 4))


def compare(own: Mapping[str, bytes], sent: Mapping[str, np.ndarray]) -> None:
    """`RefusedError` names the parts that are not one's own."""
    differ = [
        name for name, part in own.items() if name not in sent or sent[name].tobytes() != part
    ]
    if differ:
        raise RefusedError(
            f"the agreement is not this client's: {', '.join(differ)} differ; compare study files"
            " and package versions"
        )


def agreement_of(parts: Mapping[str, bytes]) -> bytes:
    """The agreement (32 bytes): what people read to each other, one digest of all `parts_of`."""
    return _digest("fedclust agreement|", *parts.values())


def session_of(agreement: bytes, nonces: NDArray[np.uint8]) -> bytes:
    """The session (32 bytes) of the clients who drew these nonces (M, `NONCE_BYTES`), in order."""
    return _digest("fedclust session|", agreement, nonces.tobytes())


def session_for(
    number: int, sent: Mapping[str, np.ndarray], *, n_clients: int, agreement: bytes,
    secret: bytes | None, nonce: bytes, may_miss: int = 0,
) -> tuple[bytes, NDArray[np.bool_]]:  # fmt: skip
    """The session that client `number`, who sent `nonce`, takes part in; else `RefusedError`.

    And who takes part (M,): it is known that they hold the same secret. Who `may_miss` the
    beginning has a nonce of zeros.
    """
    form = {"nonces": (n_clients, NONCE_BYTES), "checks": (n_clients, SECRET_BYTES * bool(secret))}
    if {name: array.shape for name, array in sent.items() if array.dtype == np.uint8} != form:
        raise RefusedError("the session must bring a nonce and a check of each client")
    nonces, checks = sent["nonces"], sent["checks"]
    if nonces[number].tobytes() != nonce:
        raise RefusedError(f"the nonce of client {number} is not the one that it sent")
    met = np.asarray((nonces > 0).any(axis=1))
    if met.sum() < n_clients - may_miss:
        raise RefusedError(f"{met.sum()} of {n_clients} clients are too few to begin with")
    others = [
        i for i in np.flatnonzero(met).tolist()
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
    return json.dumps(_rounded(value), sort_keys=True).encode()


def _rounded(value: Any) -> Any:
    """Numbers with `DIGITS` digits, as text; containers as JSON has them."""
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int | float | np.integer | np.floating):
        return f"{float(value):.{DIGITS}g}" if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {str(k): _rounded(v) for k, v in value.items()}
    return [_rounded(v) for v in value]
