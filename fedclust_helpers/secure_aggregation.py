"""Masked secure aggregation: fixed point, one-time pads over the whole ring, key agreement.

FastLloyd's Figure 1 in parts that can be tested alone. All arithmetic is modulo 2^bits, so a value
plus a pad that is uniform on the ring is itself uniform: the server that sees only masked values
learns nothing, not even their size. Three things break this, and each has a guard here: a pad that
is used twice (`PadReuseError`), a pad that does not cover the ring, a ring that is too small
(`RingOverflowError`, decided from public bounds before a run).

>>> import numpy as np
>>> numbers = FixedPoint()
>>> words = numbers.encode(np.array([[0.25], [0.5]]))  # two clients, one number each
>>> pads = PadBook(bytes(32), b"a run").pads("sum", 0, n_clients=2, shape=(1,))
>>> total = mask(words, pads).sum(axis=0)  # all that a server can add up: random words
>>> numbers.decode(unmask(total, pads.sum(axis=0)))
array([0.75])
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fedclust_helpers._state import SingleUse
from fedclust_helpers._validation import (
    FloatArray,
    IntArray,
    as_numbers,
    check_fits,
    check_instance,
    check_int,
    check_level,
)

__all__ = ["FixedPoint", "mask", "PadBook", "unmask"]

SECRET_BYTES = 32
Ring = NDArray[np.uint64] | NDArray[np.uint32]


class PadReuseError(RuntimeError):
    """A one-time pad was asked for twice: two messages under one pad reveal their difference."""


class RingOverflowError(ValueError):
    """The public bounds do not fit into the ring: a total could wrap around without notice."""


# --- fixed point ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class FixedPoint:
    """Real numbers as integers modulo 2^bits: x is stored as round(x 2^fractional_bits).

    Negative numbers use two's complement. Rounding is to the nearest multiple of `resolution`; it
    commutes with adding integers, so ``round(value) + round(noise) = round(round(value) + noise)``
    up to ties (FastLloyd, Theorem A.2). Truncation toward zero does not.
    """

    bits: Literal[32, 64] = 64
    fractional_bits: int = 30

    def __post_init__(self) -> None:
        if self.bits not in (32, 64):
            raise ValueError(f"bits must be 32 or 64, got {self.bits}")
        check_int(self.fractional_bits, "fractional_bits", minimum=0, maximum=self.bits - 2)

    @property
    def resolution(self) -> float:
        """The step between neighbouring representable numbers, 2^-fractional_bits."""
        return 2.0**-self.fractional_bits

    @property
    def limit(self) -> float:
        """Representable numbers lie in [-limit, limit)."""
        return 2.0 ** (self.bits - 1 - self.fractional_bits)

    @property
    def dtype(self) -> np.dtype:
        """Unsigned integers of the ring."""
        return np.dtype(f"uint{self.bits}")

    def encode(self, values: ArrayLike) -> Ring:
        """Round to the grid and reduce modulo 2^bits.

        Values beyond the limit wrap around silently, as ring arithmetic does: whether that can
        happen is decided from public bounds by `check_capacity`, not from the data.
        """
        return _mod_2_64(self._scaled(values)).astype(self.dtype)  # and modulo 2^bits

    def encode_steps(self, steps: IntArray, grid: float) -> Ring:
        """Whole steps of `grid`, a multiple of `resolution`, as ring elements: no float between."""
        factor = np.uint64(self.ratio(grid) % 2**64)
        words = _whole(steps, "steps", np.uint64) * factor  # modulo 2^64
        return words.astype(self.dtype)  # and modulo 2^bits

    def ratio(self, grid: float, name: str = "grid") -> int:
        """How many times the resolution `grid` is; ValueError if that is no whole number."""
        ratio = grid / self.resolution
        if not 1 <= ratio < math.inf or ratio != round(ratio):
            raise ValueError(
                f"{name} must be a multiple of the ring's resolution {self.resolution:g}, got"
                f" {grid:g}"
            )
        return int(ratio)

    def decode(self, ring: Ring) -> FloatArray:
        """Read ring elements as signed fixed-point numbers."""
        signed = _whole(ring, "ring", self.dtype).view(np.dtype(f"int{self.bits}"))
        return np.ldexp(signed.astype(np.float64), -self.fractional_bits)

    def round(self, values: ArrayLike) -> FloatArray:
        """The nearest multiples of `resolution`, as floats."""
        steps = self._scaled(values)
        # a value whose steps have no float is far beyond 2^53 of them: a multiple already
        return np.where(np.isinf(steps), values, np.ldexp(steps, -self.fractional_bits))

    def _scaled(self, values: ArrayLike) -> FloatArray:
        # float64 is exact up to 2^53; np.rint of a larger value is itself
        finite = as_numbers(values, "values", empty=True)
        return np.rint(np.ldexp(finite, self.fractional_bits))

    def check_capacity(
        self, *, n_records: int, magnitude: float, noise_tail: float, name: str
    ) -> None:
        """Refuse a run whose totals could leave the ring, by public bounds.

        `RingOverflowError` if n_records * magnitude + noise_tail reaches `limit` (claim F7):
        records in all clients together, the largest absolute value that one adds to one coordinate,
        and what the noise of a coordinate exceeds with negligible probability.
        """
        check_int(n_records, "n_records", minimum=0)
        check_level(magnitude, "magnitude")
        check_level(noise_tail, "noise_tail")
        need = n_records * magnitude + noise_tail
        if not need < self.limit:
            # the sign, and as many bits as `need` is below 2^bits
            bits = 1 + math.frexp(need)[1] if math.isfinite(need) else math.inf
            raise RingOverflowError(
                f"ring Z_2^{self.bits} with {self.fractional_bits} fractional bits holds values"
                f" below {self.limit:g}, but {name} may reach {need:g} ({n_records} records of at"
                f" most {magnitude:g}, noise up to {noise_tail:g}); it needs {bits} integer bits:"
                " lower fractional_bits or take the 64-bit ring"
            )


def _whole(values: ArrayLike, name: str, dtype: DTypeLike) -> NDArray[Any]:
    """Integers of any kind, reduced to words: a float between would lose bits."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got {array.dtype.name} values")
    return array.astype(dtype, copy=False)


def _mod_2_64(scaled: FloatArray) -> NDArray[np.uint64]:
    """Reduce whole floats modulo 2^64 without the undefined float-to-unsigned cast of negatives."""
    reduced = np.fmod(scaled, 2.0**64)
    reduced -= 2.0**64 * (reduced >= 2.0**63)
    reduced += 2.0**64 * (reduced < -(2.0**63))
    return reduced.astype(np.int64).view(np.uint64)


# --- one-time pads -------------------------------------------------------------------------------


def _derive(secret: bytes, purpose: bytes) -> bytes:
    """32 bytes for one purpose: HKDF-SHA256 without salt (RFC 5869), whose output is one block."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(extracted, b"fedclust v1|" + purpose + b"\x01", "sha256")


@dataclass
class PadBook(SingleUse):
    """Pads for all clients of a group, each given out once, in the process that made the book.

    A pad is the part that belongs to one client of SHAKE-256 of a key that is derived
    (HKDF-SHA256) from the group secret, the session, the purpose and the round. Elements are
    uniform on the whole ring. Every client can compute every pad, and so their sum; the server,
    which does not hold the secret, can compute none.
    """

    secret: bytes = field(repr=False)
    session: bytes = field(repr=False)
    bits: Literal[32, 64] = 64
    advice = (
        "a copy would give the same pads out again, and two messages under one pad tell their"
        " difference; agree on a new group secret in each process"
    )
    _used: set[tuple[str, int]] = field(default_factory=set, repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != SECRET_BYTES:
            raise ValueError(f"secret must be {SECRET_BYTES} bytes")
        if not self.session:
            raise ValueError("session must be non-empty bytes")

    def pads(self, purpose: str, round: int, n_clients: int, shape: tuple[int, ...]) -> Ring:
        """Pads of shape `(n_clients, *shape)` for one message of each client.

        `PadReuseError` if those for this purpose and round were given out before in this session.
        """
        self.check_process()
        check_instance(purpose, str, "purpose")
        round = check_int(round, "round", minimum=0, maximum=2**63 - 1)
        n_clients = check_int(n_clients, "n_clients")
        shape = tuple(check_int(size, "shape", minimum=0) for size in shape)
        n_bytes = n_clients * math.prod(shape) * self.bits // 8
        check_fits(max(n_bytes, n_clients), "n_clients", limit=2**36)
        if (purpose, round) in self._used:
            raise PadReuseError(f"pads for {purpose!r} in round {round} were already used")
        self._used.add((purpose, round))
        # fixed-width fields, lengths first: no two different inputs give the same key
        fields = (self.session, purpose.encode(), round.to_bytes(8, "big"))
        info = b"pad|" + b"".join(len(f).to_bytes(4, "big") + f for f in fields)
        words = hashlib.shake_256(_derive(self.secret, info)).digest(n_bytes)
        stream = np.frombuffer(words, f"<u{self.bits // 8}")
        return stream.reshape(n_clients, *shape)


def _check_words(**words: Any) -> None:
    for name, array in words.items():
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{name} must be a numpy array, got {type(array).__name__}")
    (first, values), (second, pad) = words.items()
    if values.dtype != pad.dtype or values.shape != pad.shape:
        raise ValueError(f"{second} must have the shape and dtype of {first}")


def mask(encoded: Ring, pad: Ring) -> Ring:
    """Add a pad modulo 2^bits (numpy's unsigned addition is the ring's)."""
    _check_words(encoded=encoded, pad=pad)
    return encoded + pad


def unmask(total: Ring, pad_total: Ring) -> Ring:
    """Subtract the sum of all pads modulo 2^bits."""
    _check_words(total=total, pad_total=pad_total)
    return total - pad_total


# --- keys of pairs, and the group secret ---------------------------------------------------------


def secret_check(secret: bytes, context: bytes) -> bytes:
    """32 bytes by which holders of one secret know each other (HKDF-SHA256, keyed by the secret).

    They tell nobody else anything about a secret of 32 random bytes, and nothing in another
    `context`: take a fresh nonce into it.
    """
    return _derive(_key(secret, "secret"), b"check|" + context)


def ciphers(*, teaching: bool = False) -> Any:
    """The functions that need a cipher: those of the audited library `cryptography`.

    Where it is not installed, ImportError; but `teaching` gets the same functions in plain Python.
    """
    try:
        from fedclust_helpers import _ciphers as found
    except ModuleNotFoundError:
        if not teaching:
            raise ImportError("keys need cryptography, which is not installed here") from None
        from fedclust_helpers import _plain_ciphers as found  # type: ignore[no-redef]
    return found


def _key(value: bytes, name: str) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"{name} must be bytes, got {type(value).__name__}")
    if len(value) != SECRET_BYTES:
        raise ValueError(f"{name} must be {SECRET_BYTES} bytes")
    return value


def public_key(private: bytes) -> bytes:
    """The X25519 public key (32 bytes) of a private one (32 random bytes)."""
    return ciphers().x25519_public(_key(private, "private"))


def pair_secret(private: bytes, public: bytes, *, use: str) -> bytes:
    """The secret (32 bytes) that the owners of two X25519 keys share for one `use` of it.

    Nobody else has it, and secrets of two uses tell nothing of each other (HKDF-SHA256). Each
    owner needs the other's public key by a way that it trusts. ValueError for a public key that
    would make it known to all, and for a use without a name.
    """
    if not use:
        raise ValueError("use must name what the secret is for")
    own, other = public_key(private), _key(public, "public")
    try:
        shared = ciphers().x25519(private, other)
    except ValueError:
        raise ValueError("public is no key: it makes one secret with every private key") from None
    pair = sorted([own, other])
    return _derive(shared, b"pair|" + b"".join(pair) + use.encode())


class KeyMessage(NamedTuple):
    """One message of the key agreement, as it passes through the server."""

    sender: str
    receiver: str
    name: str
    content: bytes


@dataclass(frozen=True)
class GroupKeys:
    """Outcome of a key agreement: each client's copy of the secret, and what was relayed."""

    secrets: tuple[bytes, ...] = field(repr=False)
    messages: tuple[KeyMessage, ...]


def agree_group_secret(
    n_clients: int, *, session: bytes, entropy: Sequence[bytes], group_secret: bytes,
    teaching: bool = False,
) -> GroupKeys:  # fmt: skip
    """Give all clients one secret through a server that never holds it.

    Every client sends an X25519 public key; `entropy` holds the private keys, 32 bytes that each
    drew for itself. Client 0 drew the 32 bytes of `group_secret`; it derives a key with each other
    client (X25519, HKDF) and sends the secret to it, encrypted and authenticated with
    ChaCha20-Poly1305. The server relays public keys and ciphertexts.

    The public keys are not authenticated. A server that follows the protocol learns nothing; one
    that swaps keys can sit in the middle. Where that is a threat, use a pre-shared secret instead.
    """
    if len(entropy) != n_clients or len(group_secret) != SECRET_BYTES:
        raise ValueError("entropy must hold one 32-byte string per client, group_secret 32 bytes")
    by = ciphers(teaching=teaching)
    public = [by.x25519_public(_key(e, "entropy")) for e in entropy]
    messages = [
        KeyMessage(f"client {i}", "server", "public key", key) for i, key in enumerate(public)
    ]
    messages += [
        KeyMessage("server", f"client {i}", "public key of client 0", public[0])
        for i in range(1, n_clients)
    ]
    secrets = [group_secret]
    for i in range(1, n_clients):
        context = b"key|" + session + i.to_bytes(8, "big") + public[0] + public[i]
        key = _derive(by.x25519(entropy[0], public[i]), context)
        sealed = by.sealed(key, group_secret, context)
        messages += [
            KeyMessage("client 0", "server", f"sealed secret for client {i}", sealed),
            KeyMessage("server", f"client {i}", "sealed secret of client 0", sealed),
        ]
        secrets.append(open_sealed_secret(sealed, entropy[i], public[0], context, by))
    return GroupKeys(tuple(secrets), tuple(messages))


def open_sealed_secret(
    sealed: bytes, private: bytes, sender_public: bytes, context: bytes, by: Any
) -> bytes:
    """What a client does with the sealed secret it received, `by` the functions of `ciphers`.

    ValueError if it was not made for this client and context, or was changed on the way.
    """
    key = _derive(by.x25519(private, sender_public), context)
    try:
        return by.unsealed(key, sealed, context)
    except ValueError:
        raise ValueError("sealed secret does not open: wrong keys or a changed message") from None
