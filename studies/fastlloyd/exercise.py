""" "Your turn" of notebook 01: the masked total, what each hospital sends and all of them read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedclust_helpers.audit import exercise

SD = 2.5  # of the noise asked for
STEP = 2.0**-30  # of the fixed-point grid


def _secret(seed: int = 0) -> np.random.Generator:
    """Where masks come from."""
    return np.random.default_rng([1, seed])


def _words(
    mine: exercise.Mine, values: NDArray[np.float64], secret: np.random.Generator
) -> NDArray[np.uint64]:
    words = np.asarray(mine(values, SD, exercise.Recorder(), secret)[0])
    return words.astype(np.uint64) if words.shape == values.shape else words[:0]


ASKED = exercise.Asked(
    lambda mine, values, rng: mine(values, SD, rng, _secret())[1],
    lambda values: values.sum(axis=0),
    ("total",),
)
SLIPS = (
    (lambda values: values.sum(axis=0) % 2**34, "A negative total comes back near 2^34: read the "
     "upper half of the ring as negative numbers, `.view(np.int64)`."),
    (lambda values: values.sum(axis=0) / STEP, "Your total is in steps of the grid: divide by "
     "2^30 in the end."),
    (lambda values: values.mean(axis=0), "You return the mean over hospitals; the sum is due."),
)  # fmt: skip
HINTS = {
    ("total", STEP): "The noise has to be put on the ring, too: `on_ring(noise)`.",
    ("total", SD**-0.5): "You gave `normal` the root of `sd`; it takes `sd` itself.",
    ("total", 3**0.5): "Each of your hospitals adds noise; it is due once, on the total.",
}


def _form(mine: exercise.Mine) -> Iterator[exercise.Finding]:
    """Two things come back, words of the ring first, and the masks are off the total."""
    values = np.array([[-1.25, 4.0], [0.5, 3.0], [2.0, -9.0]])
    answer = mine(values, SD, exercise.Recorder(), _secret())
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise exercise.Stop("Return two things: the words that are sent, and the total.")
    words, total = map(np.asarray, answer)
    if words.shape != values.shape or words.dtype != np.uint64:
        text = f"Your words: one uint64 for each number is due, of shape {values.shape}"
        raise exercise.Stop(f"{text}; they are {words.dtype} of shape {words.shape}.")
    masked = words.sum(axis=0).view(np.int64) * STEP
    if total.shape == masked.shape and np.allclose(total, masked):
        raise exercise.Stop(
            "Your total still has the masks on it: subtract them all, `masks.sum(axis=0)`."
        )
    yield exercise.Finding(True, "Words of the ring come back, one for each number.")


def _kinds(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sixteen kinds of words: by the two highest and the two lowest bits."""
    return (words >> np.uint64(62)) * np.uint64(4) + words % np.uint64(4)


def _one_word(mine: exercise.Mine, value: float, n: int, rng: np.random.Generator) -> Any:
    """What the first hospital sends, n numbers that are all `value`."""
    values = np.stack([np.full(n, value), np.zeros(n)])
    return _kinds(_words(mine, values, rng)[0])


def _two_words(mine: exercise.Mine, value: float, n: int, rng: np.random.Generator) -> Any:
    """Differences of two words of one hospital, whose numbers are `value` and 0."""
    values = np.zeros((2, 2 * n))
    values[0, ::2] = value
    words = _words(mine, values, rng)[0]
    return _kinds(words[::2] - words[1::2])


def _same_masks(mine: exercise.Mine, value: float, n: int, rng: np.random.Generator) -> Any:
    """Differences of the words of two hospitals, the first with `value`, the second with 0."""
    words = _words(mine, np.stack([np.full(n, value), np.zeros(n)]), rng)
    return _kinds(words[0] - words[1])


def examine(mine: Callable[..., Any]) -> exercise.Examination:
    """Examine ``mine(values, sd, noise, secret)``, which returns words and the noised total.

    `values` have shape (hospitals, numbers). The promise is normal noise of standard deviation sd
    on each number of the total, so mu = 1/sd for a patient who moves one number by 1; and words,
    alone and as differences, that tell nothing.
    """
    rng = np.random.default_rng(0)
    values = rng.uniform(-9, 9, (3, 4)).round(1)
    less = values.copy()
    less[1, 2] -= 1
    cases = {"three hospitals": values, "one number below 0": np.array([[-3.5], [1.25]])}
    held, n = [-2.0e9, 2.0e9], 30_000  # a quarter of the ring, where masks below its half tell
    return exercise.examine(
        mine,
        _form,
        exercise.values(ASKED, cases, SLIPS),
        exercise.promise(
            ASKED, [(values, less)], law="normal", strength=1 / SD, due=(SD,), hints=HINTS
        ),
        *(
            exercise.reports(call, held, epsilon=0, what=what, hint=hint, n=n)
            for call, what, hint in (
                (_one_word, "A word that is sent", "Draw masks from the whole ring, 0 to 2^64."),
                (
                    _two_words,
                    "The difference of a hospital's two words",
                    "Each number needs a mask of its own.",
                ),
                (
                    _same_masks,
                    "The difference of two hospitals' words",
                    "Each hospital needs masks of its own.",
                ),
            )  # fmt: skip
        ),
    )
