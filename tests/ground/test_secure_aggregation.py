"""The ring, the pads and the group secret: exact arithmetic, uniform words, refused misuse.

Statistical tests are seeded; each says how likely it is to fail for correct code.
"""

import hmac
import itertools
import struct

import numpy as np
import pytest
from conftest import refuses, words_uniform_p
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedclust_helpers import secure_aggregation
from fedclust_helpers.secure_aggregation import (
    SECRET_BYTES,
    FixedPoint,
    PadBook,
    PadReuseError,
    RingOverflowError,
    agree_group_secret,
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
    "0x9fe33a080ea22def",
    "0x95db0283a22587d6",
    "0x274248ac6654d678",
    "0xdeb8b473b0860eba",
]
RINGS = [FixedPoint(32, 16), FixedPoint(64, 16), FixedPoint(64, 30)]
ring = st.sampled_from(RINGS)


def book(bits=64, *, secret=SECRET, session=SESSION):
    return PadBook(secret, session, bits)


# --- fixed point ----------------------------------------------------------------------------------


@given(ring, st.data())
def test_encoding_is_exact_on_the_grid_over_the_whole_range(fixed, data):
    half = 2 ** (min(fixed.bits, 54) - 1)  # a float64 holds 53 bits
    units = data.draw(st.lists(st.integers(-half, half - 1), min_size=1, max_size=8))
    values = np.array(units) * fixed.resolution
    assert np.array_equal(fixed.decode(fixed.encode(values)), values)
    assert fixed.encode(values).tolist() == [u % 2**fixed.bits for u in units]


@given(ring, st.integers(-(2**80), 2**80))
def test_encoding_reduces_modulo_the_ring_far_outside_of_it(fixed, units):
    value = float(units)  # whole, so that only the reduction is tested
    expected = (int(value) << fixed.fractional_bits) % 2**fixed.bits
    assert int(fixed.encode(value)) == expected


@given(ring, st.integers(-1000, 1000), st.floats(-30, 30, width=32))
def test_rounding_commutes_with_integer_shifts_of_the_grid(fixed, shift, noise):
    # the property that makes quantised noise private (Theorem A.2); ties aside (measure zero)
    scaled = np.ldexp(noise, fixed.fractional_bits)
    if abs(scaled - np.floor(scaled) - 0.5) < 1e-9:
        return
    value = shift * fixed.resolution
    both = fixed.encode([value + noise])
    assert np.array_equal(both, fixed.encode([value]) + fixed.encode([noise]))


@given(ring, st.floats(-1e4, 1e4))
def test_round_is_the_nearest_grid_point(fixed, value):
    rounded = float(fixed.round(value))
    assert abs(rounded - value) <= fixed.resolution / 2
    assert rounded == float(fixed.decode(fixed.encode(value)))


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


@given(
    ring.flatmap(
        lambda f: st.tuples(
            st.just(f), hnp.arrays(f.dtype, hnp.array_shapes(max_dims=2, max_side=5))
        )
    )
)
def test_unmask_undoes_mask_for_every_word(pair):
    fixed, encoded = pair
    pad = book(fixed.bits).pads("x", 3, 1, encoded.shape)[0]
    assert np.array_equal(unmask(mask(encoded, pad), pad), encoded)


def test_mask_and_unmask_refuse_other_shapes_and_rings():
    encoded = FixedPoint(64, 30).encode(np.zeros((2, 3)))
    for wrong in (np.zeros((2, 2), np.uint64), np.zeros((2, 3), np.uint32)):
        refuses(ValueError, "pad must have the shape and dtype", mask, encoded, wrong)
        refuses(ValueError, "pad_total must have the shape and dtype", unmask, encoded, wrong)


def test_another_secret_does_not_unmask():
    fixed = FixedPoint(64, 30)
    encoded = fixed.encode(np.linspace(-5, 5, 40)[None].repeat(3, axis=0))
    total = mask(encoded, book().pads("s", 0, 3, (40,))).sum(axis=0, dtype=np.uint64)
    wrong = book(secret=OTHER_SECRET).pads("s", 0, 3, (40,)).sum(axis=0, dtype=np.uint64)
    opened = fixed.decode(unmask(total, wrong))
    # false alarm: each of 40 uniform words is this close with probability 1e6/2^33; seeded
    assert (np.abs(opened - 3 * np.linspace(-5, 5, 40)) > 1e6).all()


# --- pads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("value", [0.0, 5000.0, -5000.0])
def test_masked_words_are_uniform_over_the_whole_ring(bits, value):
    fixed = FixedPoint(bits, 16)
    encoded = fixed.encode(np.full((20_000, 2), value))
    words = mask(encoded, book(bits).pads("sums", 0, 20_000, (2,)))
    assert words_uniform_p(words) > 1e-6  # false alarm 1e-6


def test_pads_differ_by_purpose_round_session_secret_and_client():
    makers = {
        "reference": book().pads("sums", 0, 2, (8,)),
        "purpose": book().pads("counts", 0, 2, (8,)),
        "round": book().pads("sums", 1, 2, (8,)),
        "session": book(session=b"another").pads("sums", 0, 2, (8,)),
        "secret": book(secret=OTHER_SECRET).pads("sums", 0, 2, (8,)),
    }
    rows = [row for pads in makers.values() for row in pads]
    words = np.concatenate(rows)
    assert len(np.unique(words)) == len(words)  # 80 words of 64 bits: a collision has 2e-16
    for a, b in itertools.combinations(rows, 2):
        assert len(np.unique(a - b)) == len(a)  # nor is one pad a shift of another


def test_field_lengths_are_part_of_the_key():
    # b"ab" + "c" and b"a" + "bc" join to the same bytes
    a = book(session=b"ab").pads("c", 0, 1, (4,))
    b = book(session=b"a").pads("bc", 0, 1, (4,))
    assert not np.isin(a, b).any()


def test_the_difference_of_masked_sums_and_counts_says_nothing():
    # pitfall P2: with one pad for both, the server computes Enc(R).flat[:k] - Enc(C) = R - C
    fixed, n = FixedPoint(64, 30), 20_000
    pads = book()
    sums = mask(fixed.encode(np.full((n, 2), 7.0)), pads.pads("sums", 0, n, (2,)))
    counts = mask(fixed.encode(np.full((n, 2), 3.0)), pads.pads("counts", 0, n, (2,)))
    assert words_uniform_p(sums - counts) > 1e-6  # false alarm 1e-6
    # the broken variant: the difference is the plain text
    one = book().pads("both", 0, n, (2,))
    leak = mask(fixed.encode(np.full((n, 2), 7.0)), one) - mask(
        fixed.encode(np.full((n, 2), 3.0)), one
    )
    assert (fixed.decode(leak) == 4.0).all()


def test_a_pad_is_given_out_once():
    pads = book()
    pads.pads("sums", 0, 2, (3,))
    pads.pads("counts", 0, 2, (3,))
    pads.pads("sums", 1, 2, (3,))
    for shape in ((3,), (5,)):  # another shape is the same key stream
        refuses(PadReuseError, "'sums' in round 0", pads.pads, "sums", 0, 2, shape)
    refuses(PadReuseError, "", pads.pads, "sums", 0, 7, (3,))


def test_key_stream_is_chacha20_of_rfc_8439():
    # appendix A.1, test vector 1: zero key, zero nonce, block 0
    expected = bytes.fromhex(
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )
    assert secure_aggregation._keystream(bytes(32), 64) == expected


def test_known_answer_and_layout_of_the_pads():
    pads = book().pads("sums", 7, 2, (2,))
    assert pads.shape == (2, 2) and pads.dtype == np.uint64
    # HKDF-SHA256 (RFC 5869) once more, from hmac alone
    fields = (SESSION, b"sums", (7).to_bytes(8, "big"))
    info = b"fedclust v1|pad|" + b"".join(len(f).to_bytes(4, "big") + f for f in fields)
    extracted = hmac.digest(bytes(32), SECRET, "sha256")
    key = hmac.digest(extracted, info + b"\x01", "sha256")
    stream = secure_aggregation._keystream(key, 32)
    assert pads.ravel().tolist() == list(struct.unpack("<4Q", stream))
    # written once from this code: a change would break parties that run different versions
    assert [hex(w) for w in pads.ravel()] == KNOWN_PADS
    # 32-bit words are the same stream, read in halves; more clients only make it longer
    assert np.array_equal(book(32).pads("sums", 7, 2, (4,)).ravel(), pads.view(np.uint32).ravel())
    assert np.array_equal(book().pads("sums", 7, 5, (2,))[:2], pads)


def test_a_pad_book_does_not_print_what_was_used():
    assert "_used" not in repr(book())


# --- capacity (theory checks F7) ------------------------------------------------------------------


@settings(max_examples=100)
@given(ring, st.integers(1, 10**7), st.floats(1e-3, 100.0), st.floats(0.0, 1e6))
def test_capacity_is_the_printed_inequality(fixed, n, magnitude, tail):
    fits = 2.0 ** (fixed.bits - 1 - fixed.fractional_bits) > n * magnitude + tail
    arguments = dict(n_records=n, magnitude=magnitude, noise_tail=tail, name="sums")
    if fits:
        fixed.check_capacity(**arguments)
        # and then the extreme total survives the ring
        extreme = n * magnitude + tail
        for sign in (-1, 1):
            decoded = fixed.decode(fixed.encode([sign * extreme]))[0]
            near_edge = extreme > fixed.limit - fixed.resolution
            assert near_edge or abs(decoded - sign * extreme) <= max(
                fixed.resolution, extreme / 2**50
            )
    else:
        refuses(RingOverflowError, "sums", fixed.check_capacity, **arguments)


@pytest.mark.parametrize("need", [100.0, 32768.0, 40_000.0, 1e9])
def test_the_advice_of_an_overflow_is_right(need):
    fixed = FixedPoint(32, 26)
    with pytest.raises(RingOverflowError) as caught:
        fixed.check_capacity(n_records=1, magnitude=need, noise_tail=0.0, name="sums")
    bits = int(str(caught.value).split("needs ")[1].split()[0])
    enough = FixedPoint(64, 64 - bits)
    enough.check_capacity(n_records=1, magnitude=need, noise_tail=0.0, name="sums")
    with pytest.raises(RingOverflowError):
        FixedPoint(64, 64 - bits + 1).check_capacity(
            n_records=1, magnitude=need, noise_tail=0.0, name="sums"
        )


# --- keys of pairs --------------------------------------------------------------------------------


def test_a_pair_of_keys_has_one_secret():
    private = [bytes([i]) * 32 for i in range(3)]
    public = [public_key(key) for key in private]
    own = X25519PrivateKey.from_private_bytes(private[1]).public_key()
    assert public[1] == own.public_bytes_raw()
    found = {
        (i, j): pair_secret(private[i], public[j]) for i, j in itertools.permutations(range(3), 2)
    }
    assert all(found[i, j] == found[j, i] for i, j in found)
    assert len(set(found.values())) == 3
    shared = X25519PrivateKey.from_private_bytes(private[0]).exchange(own)
    info = b"fedclust v1|pair|" + b"".join(sorted(public[:2]))
    assert found[0, 1] == HKDF(SHA256(), 32, None, info).derive(shared)
    refuses(ValueError, "public is no key", pair_secret, private[0], bytes(32))
    refuses(ValueError, "public must be 32 bytes", pair_secret, private[0], b"short")
    refuses(TypeError, "private must be bytes", public_key, "secret")


# --- the group secret -----------------------------------------------------------------------------


def agreement(n_clients=4, seed=5, session=SESSION):
    rng = np.random.default_rng(seed)
    entropy = [rng.bytes(32) for _ in range(n_clients)]
    secret = rng.bytes(32)
    keys = agree_group_secret(n_clients, session=session, entropy=entropy, group_secret=secret)
    return keys, entropy, secret


@pytest.mark.parametrize("n_clients", [1, 2, 3, 50])
def test_all_clients_hold_the_same_secret(n_clients):
    keys, _, secret = agreement(n_clients)
    assert keys.secrets == (secret,) * n_clients


def test_no_relayed_message_contains_the_secret_or_a_private_key():
    keys, entropy, secret = agreement()
    wire = b"".join(m.content for m in keys.messages)
    for hidden in (secret, *entropy):
        for start in range(0, 32, 8):  # not even a part of 8 bytes
            assert hidden[start : start + 8] not in wire


def test_the_server_relays_every_message():
    # nothing passes between clients directly, so the server's view is complete
    keys, _, _ = agreement()
    for message in keys.messages:
        assert "server" in (message.sender, message.receiver)
    received = {m.content for m in keys.messages if m.receiver == "server"}
    assert {m.content for m in keys.messages} == received


def sealed_for(keys, i):
    return next(
        m.content for m in keys.messages if m.receiver == f"client {i}" and "sealed" in m.name
    )


def public_of(keys, i):
    return next(
        m.content for m in keys.messages if m.sender == f"client {i}" and m.name == "public key"
    )


def context_of(keys, i, session=SESSION):
    return b"key|" + session + i.to_bytes(8, "big") + public_of(keys, 0) + public_of(keys, i)


def test_each_client_opens_its_own_message_and_nobody_else_s():
    keys, entropy, secret = agreement()
    for i, j in itertools.product((1, 2, 3), (1, 2, 3)):
        private = X25519PrivateKey.from_private_bytes(entropy[j])
        arguments = (sealed_for(keys, i), private, public_of(keys, 0), context_of(keys, i))
        if i == j:
            assert open_sealed_secret(*arguments) == secret
        else:
            refuses(ValueError, "sealed secret does not open", open_sealed_secret, *arguments)


def test_the_server_cannot_open_with_what_it_saw():
    # everything public, plus a key pair of its own
    keys, _, _ = agreement()
    own = X25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
    for i, j in itertools.product((1, 2, 3), (0, 1, 2, 3)):
        with pytest.raises(ValueError, match="sealed secret does not open"):
            open_sealed_secret(sealed_for(keys, i), own, public_of(keys, j), context_of(keys, i))


@pytest.mark.parametrize("position", [0, 15, 31, 32, 47])
def test_a_changed_ciphertext_is_refused(position):
    keys, entropy, _ = agreement()
    sealed = bytearray(sealed_for(keys, 1))
    assert len(sealed) == 48  # the secret and a 16-byte tag
    sealed[position] ^= 1
    private = X25519PrivateKey.from_private_bytes(entropy[1])
    with pytest.raises(ValueError, match="sealed secret does not open"):
        open_sealed_secret(bytes(sealed), private, public_of(keys, 0), context_of(keys, 1))


def test_a_message_of_another_session_or_sender_is_refused():
    keys, entropy, _ = agreement()
    private = X25519PrivateKey.from_private_bytes(entropy[1])
    with pytest.raises(ValueError, match="sealed secret does not open"):
        open_sealed_secret(
            sealed_for(keys, 1), private, public_of(keys, 0), context_of(keys, 1, b"old")
        )
    with pytest.raises(ValueError, match="sealed secret does not open"):
        open_sealed_secret(sealed_for(keys, 1), private, public_of(keys, 2), context_of(keys, 1))


def test_an_active_server_can_swap_unauthenticated_keys():
    # the attack that the docstring warns of: client 0 is handed the server's key as "client 1"
    rng = np.random.default_rng(6)
    client, server, secret = rng.bytes(32), rng.bytes(32), rng.bytes(32)
    keys = agree_group_secret(2, session=SESSION, entropy=[client, server], group_secret=secret)
    stolen = open_sealed_secret(
        sealed_for(keys, 1),
        X25519PrivateKey.from_private_bytes(server),
        public_of(keys, 0),
        context_of(keys, 1),
    )
    assert stolen == secret


def test_wrong_entropy_is_refused():
    good = [bytes([i]) * 32 for i in (1, 2)]
    for entropy, secret in ((good[:1], SECRET), (good, b"short")):
        with pytest.raises(ValueError, match="entropy must hold one 32-byte string per client"):
            agree_group_secret(2, session=SESSION, entropy=entropy, group_secret=secret)
