"""The examiner of exercises: one small sketch for each kind of lesson, right and wrong.

Everything is seeded. What is measured raises a false alarm with probability 1e-6 at most.
"""

import numpy as np
import pytest
from scipy.special import ndtri

from fedclust_helpers.accounting import gdp_mu
from fedclust_helpers.audit import exercise
from fedclust_helpers.audit.exercise import Asked, Finding, estimates, promise, reports, values

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
    "noise is for 0.707": lambda rows, mu, rng: plain(rows, 2 * mu, rng),
    "More noise than is due: μ = 0.25": lambda rows, mu, rng: plain(rows, mu / 2, rng),
    "Twice?": lambda rows, mu, rng: plain(rows, mu / 2, rng),
    "the noise is 0.51 times": lambda rows, mu, rng: by_quantiles(rows, 2 * mu, rng),
    "another size": lambda rows, mu, rng: plain(rows, mu * len(rows) / 3, rng),
    "reaches several": lambda rows, mu, rng: rows.sum(axis=0) + rng.normal(0, 2**0.5 / mu),
    "get no noise": lambda rows, mu, rng: rows.sum(axis=0) + [0, rng.normal(0, 2**0.5 / mu)],
    "is laplace": lambda rows, mu, rng: rows.sum(axis=0) + rng.laplace(0, 1 / mu, 2),
    "That is the mean": lambda rows, mu, rng: rows.mean(axis=0),
    "[1.5, 0. ]; right is [1.375, 0.   ]": lambda rows, mu, rng: (
        np.maximum(rows, 0).sum(0) * [1, 0]
    ),
    "asked for nothing": lambda rows, mu, rng: plain(rows, mu, np.random.default_rng(1)),
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


def test_a_masked_total_adds_up_and_one_message_tells_nothing():
    """01: what each of three clients sends, and what the server makes of it, modulo 2^64."""

    def masked(numbers, rng):
        masks = rng.integers(0, 2**64, numbers.shape, dtype=np.uint64)
        words = numbers.astype(np.uint64) + masks
        return words, words.sum(axis=0) - masks.sum(axis=0)

    def half_ring(numbers, rng):
        masks = rng.integers(0, 2**63, numbers.shape, dtype=np.uint64)
        words = numbers.astype(np.uint64) + masks
        return words, words.sum(axis=0) - masks.sum(axis=0)

    def one_pad(numbers, rng):
        masks = rng.integers(0, 2**64, (3, 1), dtype=np.uint64)
        words = numbers.astype(np.uint64) + masks
        return words, words.sum(axis=0) - masks.sum(axis=0)

    def forgets(numbers, rng):
        return masked(numbers, rng)[0], masked(numbers, rng)[1] + np.uint64(7)

    numbers = np.array([[3, 10], [4, 20], [5, 30]])
    total = Asked(lambda mine, x, rng: mine(x, rng)[1], lambda x: x.sum(axis=0), ("total",))

    def both(mine, value, n, rng):
        """Words of one client for a sum (which it holds) and for a count, in n rounds."""
        held = np.array([[value, 1]] * 3)
        return np.array([mine(held, rng)[0][0] for _ in range(n)])

    def one(mine, value, n, rng):
        return both(mine, value, n, rng)[:, 0] >> np.uint64(61)

    def difference(mine, value, n, rng):
        words = both(mine, value, n, rng)
        return (words[:, 0] - words[:, 1]) >> np.uint64(61)

    held, how = (5, 2**62), {"epsilon": 0.0, "n": 2000}
    about = (
        values(total, {"three clients": numbers}),
        reports(one, held, what="One word", **how),
        reports(difference, held, what="The difference of two words", **how),
    )
    assert exercise.examine(masked, *about).passed
    found = {f: str(exercise.examine(f, *about)) for f in (half_ring, one_pad, forgets)}
    assert "✗ One word tells too much" in found[half_ring]
    assert "✓ One word tells nothing" in found[one_pad]
    assert "✗ The difference of two words tells too much" in found[one_pad]
    assert "[19., 67.]; right is [12., 60.]" in found[forgets]
    only_total = exercise.examine(lambda x, rng: x.sum(axis=0)[0], *about)
    assert "cannot be used as asked for (IndexError" in str(only_total)


def test_an_outer_product_gets_noise_for_its_radius():
    """02: rows are cut to a radius; normal noise for (epsilon, delta)."""
    mu, radius = gdp_mu(1.0, 1e-5), 2.0

    def outer(rows, radius, mu, rng):
        long = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows * np.minimum(1, radius / np.maximum(long, 1e-12))
        return rows.T @ rows + rng.normal(0, radius**2 / mu, (3, 3))

    def right(rows):
        return outer(rows, radius, mu, exercise.Recorder())

    rows = np.array([[2.0, 0, 0], [0.5, 1, 0], [3.0, 4, 0], [0.1, 0, -1]])
    asked = Asked(lambda mine, x, rng: mine(x, radius, mu, rng), right, ("outer product",))
    about = (
        values(asked, {"rows inside": rows[:2], "a long row": rows}, [(lambda x: x.T @ x, "Cut!")]),
        promise(
            asked, [(rows, np.delete(rows, i, axis=0)) for i in range(4)], law="normal",
            strength=mu, due=(radius**2 / mu,),
        ),
    )  # fmt: skip
    assert exercise.examine(outer, *about).passed

    def uncut(rows, radius, mu, rng):
        return rows.T @ rows + rng.normal(0, radius**2 / mu, (3, 3))

    def linear(rows, radius, mu, rng):
        return right(rows) + rng.normal(0, radius / mu, (3, 3))

    assert "Cut!" in str(exercise.examine(uncut, *about))
    found = str(exercise.examine(linear, *about))
    assert "One record moved your outer product by 4; your noise is for 2." in found


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
    assert "2.72 is allowed" in louder
    softer = exercise.examine(lambda b, e, rng: flip(b, e / 2, rng), about)
    assert "tells less than it may" in str(softer) and not softer.passed

    bits, c = np.arange(1000) < 300, 1 / np.tanh(0.5)

    def estimate(bits, epsilon, rng):
        return len(bits) / 2 + c * (flip(bits, epsilon, rng).sum() - len(bits) / 2)

    asked = Asked(lambda mine, x, rng: mine(x, 1.0, rng), lambda x: float(x.sum()), ("estimate",))
    unbiased = estimates(asked, bits, (c * (1000 / (2 + 2 * np.cosh(1.0))) ** 0.5,))
    assert exercise.examine(estimate, unbiased).passed
    naive = exercise.examine(lambda b, e, rng: flip(b, e, rng).sum(), unbiased)
    assert "Your estimate on average: 40" in str(naive) and "right is 300" in str(naive)


def test_a_round_of_sums_and_a_question_of_a_lesson_s_own():
    """04: updates and a column for the count in one noised table; members moved by public coins."""
    clip, k, mu = 0.5, 2, 1.0

    def table(data, mu, rng):
        updates, choice = data
        rows = np.column_stack([updates, np.full(len(updates), clip)])
        sums = np.array([rows[choice == j].sum(axis=0) for j in range(k)])
        return sums + rng.normal(0, 2**0.5 * clip / mu, sums.shape)

    def right(data):
        return table(data, 1.0, exercise.Recorder())

    def without_count(data, mu, rng):
        return right(data) + rng.normal(0, clip / mu, (k, 3))

    data = np.array([[0.3, 0.4], [0.1, 0.0], [0.0, -0.2]]), np.array([0, 1, 1])
    pairs = [(data, tuple(np.delete(part, i, axis=0) for part in data)) for i in range(3)]
    asked = Asked(lambda mine, x, rng: mine(x, mu, rng), right, ("table",))
    about = promise(asked, pairs, law="normal", strength=mu, due=(2**0.5 * clip,))
    assert exercise.examine(table, values(asked, {"three": data}), about).passed
    assert "moved your table by 0.707; your noise is for 0.5." in str(
        exercise.examine(without_count, about)
    )

    def keeps_everybody(mine):
        moved = mine(np.array([0, 0, 0, 1]), 2)
        yield Finding(len(moved) == 4, "Everybody has a cluster.")
        yield Finding(np.bincount(moved).min() >= 2, "Each cluster has two members.")

    assert exercise.examine(lambda c, b: np.array([0, 1, 0, 1]), keeps_everybody).passed
    assert "✗ Each cluster" in str(exercise.examine(lambda c, b: c, keeps_everybody))
