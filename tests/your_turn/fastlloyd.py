"""Your turn of notebook 01: right answers, typical mistakes and their sentences."""

import numpy as np

RING, GRID = 2**64, 2**30


def on_ring(x):
    return np.rint(x * GRID).astype(np.int64).view(np.uint64)


def total_of(words, drawn, masks):
    total = words.sum(axis=0) + on_ring(drawn)
    return (total - masks.sum(axis=0)).view(np.int64) / GRID


def build(
    masks=lambda shape, secret: secret.integers(0, RING, shape, dtype=np.uint64),
    drawn=lambda noise, sd, values: noise.normal(0, sd, values.shape[1]),
    read=total_of,
):
    def mine(values, sd, noise, secret):
        each = np.broadcast_to(masks(values.shape, secret), values.shape)
        words = on_ring(values) + each
        return words, read(words, drawn(noise, sd, values), each)

    return mine


def in_plain_integers(values, sd, noise, secret):
    out, drawn = [], sd * noise.standard_normal(values.shape[1])
    words = np.empty(values.shape, np.uint64)
    for j, column in enumerate(values.T):
        masks = [int.from_bytes(secret.bytes(8), "big") for _ in column]
        each = [(round(x * GRID) + m) % RING for x, m in zip(column, masks, strict=True)]
        total = (sum(each) + round(drawn[j] * GRID) - sum(masks)) % RING
        words[:, j] = each
        out.append((total - RING * (total >= RING // 2)) / GRID)
    return words, out


def unsigned(words, drawn, masks):
    return (words.sum(axis=0) + on_ring(drawn) - masks.sum(axis=0)) / GRID


RIGHT = (build(), in_plain_integers)
MISTAKES = {
    "half of the ring": (
        build(masks=lambda shape, s: s.integers(0, RING // 2, shape, dtype=np.uint64)),
        "A word that is sent tells too much",
    ),
    "small masks": (
        build(masks=lambda shape, s: s.integers(0, 10**6, shape, dtype=np.uint64)),
        "A word that is sent tells too much",
    ),
    "one mask for all numbers": (
        build(masks=lambda shape, s: s.integers(0, RING, (shape[0], 1), dtype=np.uint64)),
        "The difference of a hospital's two words tells too much",
    ),
    "one mask for all hospitals": (
        build(masks=lambda shape, s: s.integers(0, RING, (1, shape[1]), dtype=np.uint64)),
        "The difference of two hospitals' words tells too much",
    ),
    "masks left on": (
        build(read=lambda w, drawn, m: total_of(w, drawn, 0 * m)),
        "subtract them all",
    ),
    "negative numbers": (build(read=unsigned), "A negative total comes back near 2^34"),
    "no noise": (build(drawn=lambda n, sd, v: np.zeros(v.shape[1])), "some numbers get no noise"),
    "noise of every hospital": (
        build(drawn=lambda n, sd, v: n.normal(0, sd, v.shape).sum(axis=0)),
        "Each of your hospitals adds noise; it is due once, on the total.",
    ),
    "variance": (build(drawn=lambda n, sd, v: n.normal(0, sd**2, v.shape[1])), "not a variance"),
    "one draw": (
        build(drawn=lambda n, sd, v: n.normal(0, sd) * np.ones(v.shape[1])),
        "Several numbers get the same draw of noise",
    ),
    "a total alone": (lambda *given: build()(*given)[1], "Return two things"),
    "words as numbers": (
        lambda *given: (build()(*given)[0].astype(float), build()(*given)[1]),
        "one uint64 for each number is due",
    ),
}
