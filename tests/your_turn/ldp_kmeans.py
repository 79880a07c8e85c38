"""Your turn of notebook 03: right pairs of report and estimate, mistakes and their sentences."""

import numpy as np


def report(bits, epsilon, rng):
    return bits ^ (rng.random(len(bits)) > 1 / (1 + np.exp(-epsilon)))


def estimate(said, epsilon):
    return len(said) / 2 + (np.sum(said) - len(said) / 2) / np.tanh(epsilon / 2)


def truth_or_a_fair_coin(bits, epsilon, rng):
    fair = rng.integers(0, 2, len(bits))
    return [b if t else f for b, f, t in zip(
        bits, fair, rng.random(len(bits)) < np.tanh(epsilon / 2), strict=True)]  # fmt: skip


def by(epsilon):
    return np.exp(epsilon) / (1 + np.exp(epsilon))


REPORTS = {
    "one coin": (lambda b, e, rng: b if rng.random() < by(e) else 1 - b, "a coin for each"),
    "swapped": (lambda b, e, rng: report(b, -e, rng), "Most answers are lies"),
    "signs": (lambda b, e, rng: 1 - 2 * report(b, e, rng), "An answer must be 0 or 1"),
    "louder": (lambda b, e, rng: report(b, 2 * e, rng), "An answer tells too much"),
    "softer": (lambda b, e, rng: report(b, e / 2, rng), "lies more than it must"),
    "their number": (lambda b, e, rng: report(b, e, rng).sum(), "Return one answer for each user"),
}
ESTIMATES = {
    "naive": (lambda s, e: np.sum(s), "You count the yes answers"),
    "not shifted": (lambda s, e: np.sum(s) / np.tanh(e / 2), "Before you divide, subtract"),
    "not divided": (lambda s, e: np.sum(s) - len(s) * (1 - by(e)), "divide by that"),
    "share": (lambda s, e: estimate(s, e) / len(s), "You return a share"),
    "zeros": (lambda s, e: len(s) - estimate(s, e), "how many users hold a 0"),
    "not written": (lambda s, e: ..., "The estimate is not written yet."),
    "another law": (lambda s, e: 1.1 * estimate(s, e), "Your estimate on average"),
}
RIGHT = ((report, estimate), (truth_or_a_fair_coin, estimate))
MISTAKES = {name: ((mine, estimate), said) for name, (mine, said) in REPORTS.items()}
MISTAKES |= {name: ((report, mine), said) for name, (mine, said) in ESTIMATES.items()}
