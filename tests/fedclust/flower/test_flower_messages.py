"""The bytes of a message: what is sent is read, and nothing else is."""

import numpy as np
import pytest
from conftest import refuses
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from fedclust.flower import messages
from fedclust.flower.journal import packed, read_releases, unpacked, written
from fedclust.flower.messages import HEADER, KINDS, NUMBERS, Frame, decode, encode, words
from fedclust.flower.messages import MessageError as Wrong
from fedclust_helpers.accounting import Entry
from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from fedclust_helpers.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    DistributedDiscreteGaussian,
    Gaussian,
    Laplace,
    NoNoise,
)

ARRAYS = st.sampled_from(NUMBERS).flatmap(
    lambda kind: arrays_of.arrays(kind, arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0))
)
FRAMES = st.builds(
    Frame, st.sampled_from(KINDS), st.binary(min_size=8, max_size=8), st.integers(0, 2**16 - 1),
    st.integers(0, 2**16 - 1), st.dictionaries(st.sampled_from(["0", "a", "centers"]), ARRAYS),
)  # fmt: skip
EXAMPLE = encode(Frame("answer", b"12345678", 2, 3, {"0": np.arange(6.0).reshape(2, 3)}))


@given(FRAMES)
def test_what_is_sent_is_read(frame):
    read = decode(encode(frame))
    assert (read.kind, read.agreement, read.sender, read.number) == (
        frame.kind, frame.agreement, frame.sender, frame.number,
    )  # fmt: skip
    assert list(read.arrays) == list(frame.arrays)
    for name, sent in frame.arrays.items():
        got = read.arrays[name]
        assert got.shape == sent.shape and got.dtype == sent.dtype
        assert got.tobytes() == sent.tobytes()


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda b: EXAMPLE[:20] + b))
def test_any_bytes_are_a_message_or_refused(junk):
    try:
        frame = decode(junk)
    except Wrong:
        return
    assert encode(frame) == junk  # one form for each message


@pytest.mark.parametrize("length", range(len(EXAMPLE)))
def test_a_message_that_is_cut_short_is_refused(length):
    refuses(Wrong, "", decode, EXAMPLE[:length])


def test_other_lengths_and_versions_are_refused(monkeypatch):
    refuses(Wrong, "longer than it says", decode, EXAMPLE + b"\0")
    refuses(Wrong, "version", decode, b"f\x09" + EXAMPLE[2:])
    refuses(Wrong, "no known kind", decode, EXAMPLE[:2] + b"\xff" + EXAMPLE[3:])
    refuses(TypeError, "message must be bytes", decode, "text")
    assert HEADER.size == 16
    monkeypatch.setattr(messages, "MAX_BYTES", 50)
    refuses(Wrong, "16 to 50 bytes", decode, EXAMPLE)


def test_a_huge_shape_takes_no_memory():
    # four sizes of 2^32 - 1: the product is compared with the length before anything is made
    at = HEADER.size + 1
    huge = EXAMPLE[:at] + b"\0\4" + b"\xff" * 16 + EXAMPLE[at:]
    refuses(Wrong, "cut short or garbled", decode, huge)
    for size in (b"\0" * 4 + b"\xff" * 12, b"\0\0\0\1" * 3 + b"\0" * 4):  # without any number
        empty = EXAMPLE[:at] + b"\0\4" + size + EXAMPLE[at:]
        refuses(Wrong, "cut short or garbled", decode, empty)


def test_only_numbers_are_sent():
    for value in (np.array(["a"]), np.array([None]), np.array([1j])):
        frame = Frame("answer", b"", 0, 0, {"x": value})
        refuses(TypeError, "must be an array of numbers", encode, frame)


def test_truth_values_are_true_or_false():
    message = encode(Frame("release", bytes(8), 0, 0, {"0": np.array([True, False])}))
    refuses(Wrong, "neither", decode, message[:-1] + b"\2")


def test_a_text_is_short_and_plain():
    frame = decode(encode(Frame("refused", bytes(8), 0, 0, words("na\u00efve " * 200))))
    assert len(frame.text) == 400 and frame.text.startswith("na?ve ")


def test_arrays_and_releases_survive_the_journal():
    kept = {"0": np.arange(3, dtype=np.uint64), "1": np.zeros((0, 2))}
    for name, array in unpacked(packed(kept)).items():
        assert np.array_equal(array, kept[name])
    lines = [
        Entry(t, "sums", (mechanism, NoNoise()), "point", "add/remove")
        for t, mechanism in enumerate(
            [
                Gaussian(1.0, 2.0), Laplace(1.0, 2.0), DiscreteGaussian(1.0, 2.0, 0.5),
                DiscreteLaplace(1.0, 2.0, 0.5),
                DistributedDiscreteGaussian(1.0, 9.0, 0.5, n_honest=2, n_coordinates=7),
            ]
        )
    ]  # fmt: skip
    lines.append(
        Entry(0, "a", (RandomizedResponse(1.0, 5),), "point", "replace-one", None, "planned/b")
    )
    assert read_releases(written(lines)) == lines
    older = [line[:5] for line in written(lines[:-1])]  # as version 0.2 wrote them
    assert read_releases(older) == lines[:-1]
    refuses(TypeError, "cannot be kept", written, [Entry(0, "x", (Odd(),), "point", "add/remove")])


class Odd:
    """A mechanism that this package does not know."""

    adjacency = "add/remove"
    gdp_mu = None
    pure_epsilon = 1.0
    rho = None

    def dp_event(self):
        return NoNoise().dp_event()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("client 1 refused: client 1 has another secret than clients [0, 2]",
         "b refused: b has another secret than a, c"),
        ("no answer within 3 s from client 0, at 17: 2 clients are there",
         "no answer within 3 s from a, c: 2 clients are there"),
        ("client 3 answered 2 releases; client at 18",
         "client 3 answered 2 releases; client at 18"),
    ],
)  # fmt: skip
def test_clients_are_named_where_they_are_known(text, named):
    names = {"0": "a", "1": "b", "2": "c", "at 17": "c"}
    assert messages.by_name(text, names) == named
