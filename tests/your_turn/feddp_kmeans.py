"""Your turn of notebook 02: right answers, typical mistakes and their sentences."""

import numpy as np


def cut(rows, radius):
    return rows / np.maximum(1, np.linalg.norm(rows, axis=1) / radius)[:, None]


def noised(rows, std, rng):
    outer = rows.T @ rows
    return outer + rng.normal(0, std, outer.shape)


def right(rows, radius, mu, rng):
    return noised(cut(rows, radius), radius**2 / mu, rng)


def in_a_loop(rows, radius, mu, rng):
    d = rows.shape[1]
    out = np.zeros((d, d))
    for row in rows:
        length = np.sqrt(sum(row**2))
        row = row * radius / length if length > radius else row
        out = out + np.outer(row, row)
    noise = [[rng.standard_normal() for _ in range(d)] for _ in range(d)]
    return out + radius**2 / mu * np.array(noise)


def scaled(by):
    return lambda x, r, mu, rng: noised(cut(x, r), by(r, mu), rng)


def mirrored(x, r, mu, rng):
    full = right(x, r, mu, rng)
    return np.triu(full) + np.triu(full, 1).T


def averaged(x, r, mu, rng):
    full = right(x, r, mu, rng)
    return (full + full.T) / 2


def longest(x, r, mu, rng):
    return noised(cut(x, r), np.linalg.norm(x, axis=1).max() ** 2 / mu, rng)


RIGHT = (right, in_a_loop)
MISTAKES = {
    "noise for r": (
        scaled(lambda r, mu: r / mu),
        "deviation 18; yours has 6. Yours is right for r.",
    ),
    "noise for 1": (scaled(lambda r, mu: 1 / mu), "right for rows of length 1"),
    "replaced": (scaled(lambda r, mu: 2**0.5 * r**2 / mu), "√2 r² is for a row that is replaced"),
    "twice": (scaled(lambda r, mu: 2 * r**2 / mu), "right for two rows"),
    "variance": (scaled(lambda r, mu: r**4 / mu**2), "not a variance"),
    "not cut": (lambda x, r, mu, rng: noised(x, r**2 / mu, rng), "shorten these to length r"),
    "columns": (
        lambda x, r, mu, rng: noised(np.clip(x, -r, r), r**2 / mu, rng),
        "You cut each column at r.",
    ),
    "mean": (
        lambda x, r, mu, rng: noised(cut(x, r) / len(x) ** 0.5, r**2 / mu, rng),
        "You divide by the number of rows",
    ),
    "mirrored": (mirrored, "You made the matrix symmetric."),
    "averaged": (averaged, "You made the matrix symmetric."),
    "one draw": (
        lambda x, r, mu, rng: cut(x, r).T @ cut(x, r) + rng.normal(0, r**2 / mu),
        "Several numbers get the same draw of noise",
    ),
    "from the data": (longest, "Your noise has another size when one record is missing"),
    "no noise": (lambda x, r, mu, rng: cut(x, r).T @ cut(x, r), "get no noise"),
}
