"""The ring, the pads and the group secret: exact arithmetic, uniform words, refused misuse.

Statistical tests are seeded; each says how likely it is to fail for correct code.
"""

import hashlib
import hmac
import itertools
import math
import struct

import numpy as np
import pytest
from conftest import refuses, words_uniform_p
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from fedclust_helpers.secure_aggregation import (
    SECRET_BYTES,
    FixedPoint,
    PadBook,
    PadReuseError,
    RingOverflowError,
    agree_group_secret,
    ciphers,
    mask,
    open_sealed_secret,
    pair_secret,
    public_key,
    unmask,
)

SECRET = bytes(range(SECRET_BYTES))
OTHER_SECRET = bytes(SECRET_BYTES)
SESSION = b"session of the tests"
KNOWN_PADS = [
    "0x9aa4f12f644c8a79",
    "0x8feedd3ab552b688",
    "0xd841fea0fd8f559c",
    "0x9227c82574984992",
]
RINGS = [FixedPoint(32, 16), FixedPoint(64, 16), FixedPoint(64, 30)]
ring = st.sampled_from(RINGS)


def book(bits=64, *, secret=SECRET, session=SESSION):
    return PadBook(secret, session, bits)


# --- fixed point ----------------------------------------------------------------------------------


@given(ring, st.data())
def test_encoding_is_exact_on_the_grid_and_modulo_the_ring_outside_of_it(fixed, data):
    half = 2 ** (min(fixed.bits, 54) - 1)  # a float64 holds 53 bits
    units = data.draw(st.lists(st.integers(-half, half - 1), min_size=1, max_size=8))
    values = np.array(units) * fixed.resolution
    assert np.array_equal(fixed.decode(fixed.encode(values)), values)
    if fixed.bits == 32:  # room for a quarter of a step in a float
        assert np.array_equal(fixed.round(values + fixed.resolution / 4), values)
    assert fixed.encode(values).tolist() == [u % 2**fixed.bits for u in units]
    steps = fixed.encode_steps(np.array(units), 4 * fixed.resolution)
    assert steps.tolist() == [4 * u % 2**fixed.bits for u in units]
    for grid in (fixed.resolution / 2, 1.5 * fixed.resolution):
        refuses(ValueError, "^grid must be a multiple", fixed.encode_steps, np.array(units), grid)
    size = float(data.draw(st.integers(2**40, 2**80)))  # whole: only the reduction is tested
    for far in (size, -size):
        assert int(fixed.encode(far)) == (int(far) << fixed.fractional_bits) % 2**fixed.bits


@given(ring, st.integers(-1000, 1000), st.floats(-30, 30, width=32))
def test_rounding_commutes_with_integer_shifts_of_the_grid(fixed, shift, noise):
    # the property that makes quantised noise private (Theorem A.2); ties aside (measure zero)
    scaled = np.ldexp(noise, fixed.fractional_bits)
    if abs(scaled - np.floor(scaled) - 0.5) < 1e-9:
        return
    value = shift * fixed.resolution
    both = fixed.encode([value + noise])
    assert np.array_equal(both, fixed.encode([value]) + fixed.encode([noise]))


# --- the sum under masks --------------------------------------------------------------------------


@given(
    ring, st.integers(1, 60), st.tuples(st.integers(1, 4), st.integers(1, 4)), st.integers(0, 2**32)
)
def test_masked_sum_is_exact_modulo_the_ring(fixed, n_clients, shape, seed):
    rng = np.random.default_rng(seed)
    units = rng.integers(-(2**30), 2**30, size=(n_clients, *shape))
    encoded = fixed.encode(units * fixed.resolution)
    pads = book(fixed.bits).pads("sums", 0, n_clients, shape)
    total = mask(encoded, pads).sum(axis=0, dtype=encoded.dtype)
    opened = unmask(total, pads.sum(axis=0, dtype=pads.dtype))
    exact = units.astype(object).sum(axis=0) % 2**fixed.bits  # Python integers: no wrap
    assert opened.dtype == fixed.dtype
    assert np.array_equal(opened.astype(object), exact)


def test_mask_and_unmask_refuse_other_shapes_and_rings():
    encoded = FixedPoint(64, 30).encode(np.zeros((2, 3)))
    for wrong in (np.zeros((2, 2), np.uint64), np.zeros((2, 3), np.uint32)):
        refuses(ValueError, "pad must have the shape and dtype", mask, encoded, wrong)
        refuses(ValueError, "pad_total must have the shape and dtype", unmask, encoded, wrong)


# --- pads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("value", [0.0, 5000.0, -5000.0])
def test_masked_words_are_uniform_over_the_whole_ring(bits, value):
    fixed = FixedPoint(bits, 16)
    encoded = fixed.encode(np.full((20_000, 2), value))
    words = mask(encoded, book(bits).pads("sums", 0, 20_000, (2,)))
    assert words_uniform_p(words) > 1e-6  # false alarm 1e-6


def test_a_pad_is_given_out_once():
    pads = book()
    pads.pads("sums", 0, 2, (3,))
    pads.pads("counts", 0, 2, (3,))
    pads.pads("sums", 1, 2, (3,))
    for shape in ((3,), (5,)):  # another shape is the same key stream
        refuses(PadReuseError, "'sums' in round 0", pads.pads, "sums", 0, 2, shape)
    refuses(PadReuseError, "", pads.pads, "sums", 0, 7, (3,))


def test_pads_differ_by_purpose_round_session_secret_and_client():
    rows = [
        *book().pads("sums", 0, 2, (8,)),
        *book().pads("counts", 0, 2, (8,)),
        *book().pads("sums", 1, 2, (8,)),
        *book(session=b"another").pads("sums", 0, 2, (8,)),
        *book(secret=OTHER_SECRET).pads("sums", 0, 2, (8,)),
        # these join to the same bytes, were it not for their lengths
        *book(session=b"ab").pads("c", 0, 1, (8,)),
        *book(session=b"a").pads("bc", 0, 1, (8,)),
    ]
    words = np.concatenate(rows)
    assert len(np.unique(words)) == len(words)  # 96 words of 64 bits: a collision has 2e-16
    for a, b in itertools.combinations(rows, 2):
        assert len(np.unique(a - b)) == len(a)  # nor is one pad a shift of another


def test_known_answer_and_layout_of_the_pads():
    pads = book().pads("sums", 7, 2, (2,))
    assert pads.shape == (2, 2) and pads.dtype == np.uint64
    # HKDF-SHA256 (RFC 5869) once more, from hmac alone
    fields = (SESSION, b"sums", (7).to_bytes(8, "big"))
    info = b"fedclust v1|pad|" + b"".join(len(f).to_bytes(4, "big") + f for f in fields)
    extracted = hmac.digest(bytes(32), SECRET, "sha256")
    key = hmac.digest(extracted, info + b"\x01", "sha256")
    stream = hashlib.shake_256(key).digest(32)
    assert pads.ravel().tolist() == list(struct.unpack("<4Q", stream))
    # written once from this code: a change would break parties that run different versions
    assert [hex(w) for w in pads.ravel()] == KNOWN_PADS
    # 32-bit words are the same stream, read in halves; more clients only make it longer
    assert np.array_equal(book(32).pads("sums", 7, 2, (4,)).ravel(), pads.view(np.uint32).ravel())
    assert np.array_equal(book().pads("sums", 7, 5, (2,))[:2], pads)


# --- capacity (theory checks F7) ------------------------------------------------------------------


@given(ring, st.integers(1, 10**7), st.floats(1e-3, 100.0), st.floats(0.0, 1e6))
def test_capacity_is_the_printed_inequality(fixed, n, magnitude, tail):
    need = n * magnitude + tail
    arguments = dict(n_records=n, magnitude=magnitude, noise_tail=tail, name="sums")
    if 2.0 ** (fixed.bits - 1 - fixed.fractional_bits) > need:
        fixed.check_capacity(**arguments)
        # and then the extreme total survives the ring
        near_edge = need > fixed.limit - fixed.resolution
        close = max(fixed.resolution, need / 2**50)
        got = fixed.decode(fixed.encode([need, -need]))
        assert near_edge or np.abs(got - [need, -need]).max() <= close
    else:
        refuses(RingOverflowError, "sums", fixed.check_capacity, **arguments)


@pytest.mark.parametrize("need", [100.0, 32768.0, 40_000.0, 1e9])
def test_the_advice_of_an_overflow_is_right(need):
    def check(fixed):
        fixed.check_capacity(n_records=1, magnitude=need, noise_tail=0.0, name="sums")

    with pytest.raises(RingOverflowError) as caught:
        check(FixedPoint(32, 31 - int(math.log2(need))))
    bits = int(str(caught.value).split("needs ")[1].split()[0])
    check(FixedPoint(64, 64 - bits))
    refuses(RingOverflowError, "", check, FixedPoint(64, 64 - bits + 1))


# --- keys of pairs --------------------------------------------------------------------------------


def test_a_pair_of_keys_has_one_secret():
    private = [bytes([i]) * 32 for i in range(3)]
    public = [public_key(key) for key in private]
    own = X25519PrivateKey.from_private_bytes(private[1]).public_key()
    assert public[1] == own.public_bytes_raw()
    found = {
        (i, j): pair_secret(private[i], public[j], use="pads")
        for i, j in itertools.permutations(range(3), 2)
    }
    assert all(found[i, j] == found[j, i] for i, j in found)
    assert len(set(found.values())) == 3
    shared = X25519PrivateKey.from_private_bytes(private[0]).exchange(own)
    info = b"fedclust v1|pair|" + b"".join(sorted(public[:2])) + b"pads"
    assert found[0, 1] == HKDF(SHA256(), 32, None, info).derive(shared)
    assert pair_secret(private[0], public[1], use="seal") not in found.values()  # one for each use
    refuses(ValueError, "use must name", pair_secret, private[0], public[1], use="")
    refuses(ValueError, "public is no key", pair_secret, private[0], bytes(32), use="a")
    refuses(ValueError, "public must be 32 bytes", pair_secret, private[0], b"short", use="a")
    refuses(TypeError, "private must be bytes", public_key, "secret")


# --- the group secret -----------------------------------------------------------------------------


class Agreed:
    """The keys that clients drew, and what passed through the server."""

    def __init__(self, n_clients=4):
        rng = np.random.default_rng(5)
        self.private = [rng.bytes(32) for _ in range(n_clients)]
        self.secret = rng.bytes(32)
        self.keys = agree_group_secret(
            n_clients, session=SESSION, entropy=self.private, group_secret=self.secret
        )
        self.public = [public_key(key) for key in self.private]
        self.sealed = [
            m.content
            for m in self.keys.messages
            if "sealed" in m.name and m.receiver.startswith("client")
        ]

    def opened(self, i, *, key=None, sender=0, session=SESSION, flip=None):
        """What whoever holds `key` reads in the message to client i, perhaps changed on the way."""
        sealed = bytearray(self.sealed[i - 1])
        if flip is not None:
            sealed[flip] ^= 1
        context = b"key|" + session + i.to_bytes(8, "big") + self.public[0] + self.public[i]
        own = key or self.private[i]
        return open_sealed_secret(bytes(sealed), own, self.public[sender], context, ciphers())


@pytest.mark.parametrize("n_clients", [1, 2, 4])
def test_all_clients_hold_one_secret_that_no_message_shows(n_clients):
    agreed = Agreed(n_clients)
    assert agreed.keys.secrets == (agreed.secret,) * n_clients
    assert all(agreed.opened(i) == agreed.secret for i in range(1, n_clients))
    wire = b"".join(m.content for m in agreed.keys.messages)
    for hidden in (agreed.secret, *agreed.private):
        for start in range(0, 32, 8):  # not even a part of 8 bytes
            assert hidden[start : start + 8] not in wire
    # nothing passes between clients directly, so the server's view is complete
    assert all("server" in (m.sender, m.receiver) for m in agreed.keys.messages)


OTHERS = [{"key": bytes(range(1, 33))}, {"sender": 2}, {"session": b"old"}]
CHANGED = [{"flip": position} for position in (0, 31, 32, 47)]  # the secret, and a 16-byte tag


@pytest.mark.parametrize("how", [*OTHERS, *CHANGED], ids=str)
def test_nobody_else_opens_a_sealed_secret_and_none_that_was_changed(how):
    agreed = Agreed()
    for i in (1, 2, 3):
        refuses(ValueError, "sealed secret does not open", agreed.opened, i, **how)
        other = agreed.private[i % 3 + 1]
        refuses(ValueError, "sealed secret does not open", agreed.opened, i, key=other)


def test_wrong_entropy_is_refused():
    good = [bytes([i]) * 32 for i in (1, 2)]
    for entropy, secret in ((good[:1], SECRET), (good, b"short")):
        refuses(ValueError, "entropy must hold one 32-byte string per client", agree_group_secret,
                2, session=SESSION, entropy=entropy, group_secret=secret)  # fmt: skip
