"""The examiner of exercises: a noised sum and a coin, right and wrong.

Everything is seeded. What is measured raises a false alarm with probability 1e-6 at most.
"""

import numpy as np
import pytest
from scipy.special import ndtri

from fedclust_helpers.audit import exercise
from fedclust_helpers.audit.exercise import Asked, estimates, promise, reports, values

# --- one noised sum: how anybody may write it, and what may go wrong ------------------------------

ROWS = np.array([[1.0, -1.0], [0.5, 0.25], [-0.125, 0.75]])
SUM = Asked(lambda mine, rows, rng: mine(rows, 0.5, rng), lambda rows: rows.sum(0), ("sum",))
SUM_DUE = (2**0.5 / 0.5,)
ABOUT_SUM = (
    values(SUM, {"three rows": ROWS}, [(lambda rows: rows.mean(0), "That is the mean.")]),
    promise(
        SUM, [(ROWS, np.delete(ROWS, i, axis=0)) for i in range(3)], law="normal", strength=0.5,
        due=SUM_DUE, hints={("sum", 2.0): "Twice?"},
    ),
)  # fmt: skip


def plain(rows, mu, rng):
    return rows.sum(axis=0) + rng.normal(0, 2**0.5 / mu, 2)


def in_a_loop(rows, mu, rng):
    total = [0.0, 0.0]
    for j in (1, 0):
        for row in rows:
            total[j] += row[j]
        total[j] += 2**0.5 / mu * rng.spawn(1)[0].standard_normal()
    return total


def around_it(rows, mu, rng):
    return rng.normal(np.einsum("ij->j", rows), 2**0.5 / mu)


def in_two_shares(rows, mu, rng):
    return rows.sum(axis=0) + rng.normal(0, 1 / mu, (2, 2)).sum(axis=0)


def by_quantiles(rows, mu, rng):
    return rows.sum(axis=0) + 2**0.5 / mu * ndtri(rng.random(2))


@pytest.mark.parametrize("mine", [plain, in_a_loop, around_it, in_two_shares, by_quantiles])
def test_a_right_answer_passes_in_any_style(mine):
    found = exercise.examine(mine, *ABOUT_SUM)
    assert found.passed and str(found).count("✓") == len(found.findings) >= 2


def stops(rows, mu, rng):
    total = rows.sum(axis=0)
    return total + nothing  # noqa: F821


def changes(rows, mu, rng):
    rows += 1
    return plain(rows, mu, rng)


WRONG = {
    "deviation 2.83; yours has 1.41": lambda rows, mu, rng: plain(rows, 2 * mu, rng),
    "More noise than needed: all that you return tells μ = 0.25": lambda rows, mu, rng: plain(
        rows, mu / 2, rng
    ),
    "Twice?": lambda rows, mu, rng: plain(rows, mu / 2, rng),
    "the noise is 0.51 times": lambda rows, mu, rng: by_quantiles(rows, 2 * mu, rng),
    "another size": lambda rows, mu, rng: plain(rows, mu * len(rows) / 3, rng),
    "get the same draw": lambda rows, mu, rng: rows.sum(axis=0) + rng.normal(0, 2**0.5 / mu),
    "get no noise": lambda rows, mu, rng: rows.sum(axis=0) + [0, rng.normal(0, 2**0.5 / mu)],
    "is laplace": lambda rows, mu, rng: rows.sum(axis=0) + rng.laplace(0, 1 / mu, 2),
    "That is the mean": lambda rows, mu, rng: rows.mean(axis=0),
    "[1.5, 0. ]; right is [1.375, 0.   ]": lambda rows, mu, rng: (
        np.maximum(rows, 0).sum(0) * [1, 0]
    ),
    "You drew nothing": lambda rows, mu, rng: plain(rows, mu, np.random.default_rng(1)),
    "Two calls": lambda rows, mu, rng: plain(rows, mu, np.random.default_rng()),
    "`np.random`": lambda rows, mu, rng: rows.sum(axis=0) + np.random.normal(size=2),  # noqa: NPY002
    "write `a = a + b`": changes,
    "NameError: name 'nothing' is not defined, in its line 3.": stops,
    "Does it take the arguments": lambda rows, mu: None,
    "shape (2,) is due, not (2, 1)": lambda rows, mu, rng: plain(rows, mu, rng)[:, None],
    "numbers is due, not list": lambda rows, mu, rng: ["a", "b"],
    "nan": lambda rows, mu, rng: plain(rows, mu, rng) * np.nan,
}


@pytest.mark.parametrize("sentence", WRONG)
def test_a_mistake_gets_its_sentence(sentence):
    found = exercise.examine(WRONG[sentence], *ABOUT_SUM)
    assert not found.passed and sentence in str(found)
    assert sum(not right for right, _ in found.findings) <= 2


def unwritten(rows, mu, rng):
    raise NotImplementedError


@pytest.mark.parametrize("mine", [unwritten, lambda *_: None, lambda *_: ...])
def test_what_is_not_written_yet_is_one_friendly_line(mine):
    found = exercise.examine(mine, *ABOUT_SUM)
    assert not found.passed and not found.findings and str(found) == exercise.UNANSWERED


# --- sketches of the lessons ----------------------------------------------------------------------


def test_a_report_lies_as_much_as_it_must_and_the_estimate_is_right_on_average():
    """03: a flipped bit, and the number of people who hold a one."""

    def flip(bits, epsilon, rng):
        return bits ^ (rng.random(len(bits)) > 1 / (1 + np.exp(-epsilon)))

    def coin_or_truth(bits, epsilon, rng):  # another style: a fair answer, or the truth
        said = rng.integers(0, 2, len(bits))
        return np.where(rng.random(len(bits)) < np.tanh(epsilon / 2), bits, said)

    def asks(mine, value, n, rng):
        return mine(np.full(n, value), 1.0, rng)

    about = reports(asks, (0, 1), epsilon=1.0, what="An answer")
    for mine in (flip, coin_or_truth):
        assert exercise.examine(mine, about).passed
    louder = str(exercise.examine(lambda b, e, rng: flip(b, 2 * e, rng), about))
    assert "An answer tells too much: it can be 7.5 times as likely" in louder
    assert "2.72 times is allowed" in louder
    softer = exercise.examine(lambda b, e, rng: flip(b, e / 2, rng), about)
    assert "lies more than it must" in str(softer) and not softer.passed

    bits, c = np.arange(1000) < 300, 1 / np.tanh(0.5)

    def estimate(bits, epsilon, rng):
        return len(bits) / 2 + c * (flip(bits, epsilon, rng).sum() - len(bits) / 2)

    asked = Asked(lambda mine, x, rng: mine(x, 1.0, rng), lambda x: float(x.sum()), ("estimate",))
    unbiased = estimates(asked, bits, (c * (1000 / (2 + 2 * np.cosh(1.0))) ** 0.5,))
    assert exercise.examine(estimate, unbiased).passed
    naive = exercise.examine(lambda b, e, rng: flip(b, e, rng).sum(), unbiased)
    assert "Your estimate on average: 40" in str(naive) and "right is 300" in str(naive)
