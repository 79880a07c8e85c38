"""The privacy blanket: what n shuffled answers of k-ary randomised response cost, bounded closely.

Each of n users draws a question on the device, question j with a public probability pi_j, whatever
the user's value is, and sends it along with one of g_j symbols: the true one through randomised
response. With p = e^epsilon_0 and Z_j = p + g_j - 1 the report (j, s) has probability pi_j p/Z_j
where s is true, else pi_j/Z_j. The latter is left of it whatever the value: the *blanket*

    pi_j/Z_j = gamma w(j, s),    gamma = sum_j pi_j g_j/Z_j,    w a distribution.

Every other user sends a draw of w with probability gamma. Tell the observer who did not, and what
they sent: these draws alone hide user 1. Then for any two values x0, x1 of user 1, and any of the
others (Balle, Bell, Gascon, Nissim, "The privacy blanket of the shuffle model", 2019, Lemmas 5.1
and 5.3)

    delta(epsilon) <= E[max(0, V_1 + ... + V_n)]/n,    V_i independent, and each
    (R(x0)(Y) - e^epsilon R(x1)(Y))/(gamma w(Y)) with Y ~ w, with probability gamma; else 0.

If x0 and x1 differ in question j, then V is p - e^epsilon or 1 - p e^epsilon with probability
pi_j/Z_j each, and 1 - e^epsilon with (g_j - 2) pi_j/Z_j. If they agree there, the two middle
values are p (1 - e^epsilon) and 1 - e^epsilon instead, with the same sum; the first pair lies
further apart. So values that differ in every question are the worst (t -> max(0, t) is convex), and
the bound depends on a = sum_j pi_j/Z_j and gamma alone. For the same reason fewer symbols are never
better: the smallest g_j, for all questions, bounds them all.

**Several answers** of a user in one message, m with epsilon_0/m each: probabilities multiply. With
A of them true for x0 and B for x1, V is p^(A/m) - p^(B/m) e^epsilon, (A, B, m - A - B) multinomial
with chances 1, 1 and g - 2, over Z^m. One answer in which the values agree spreads V less,
whatever the other factors are, by the argument above.

When blankets of this kind are optimal is in arXiv 2504.07414, how the sum is computed by Fourier
transforms with a known error in arXiv 2601.19154. Where the question is *not* drawn on the device,
nothing here holds: a user of a known question hides among those of the same question only.

**Numerics.** All errors are added, so that the result is an upper bound. V is raised by its
rounding and split over its neighbours on a grid with its mean kept, which spreads it; the law of
the sum is a power of the Fourier transform of that of V, tilted by e^(theta V) so that far tails
keep their digits; the rounding of the transforms (by norms), of the tilt, and the tail beyond the
window (Chernoff) are added. What wraps around from below the window only adds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedclust_helpers._lazy import fft, optimize
from fedclust_helpers._validation import (
    FloatArray,
    as_integers,
    check_int,
    check_level,
    check_share,
)

MAX_LOCAL = 30.0  # beyond, no crowd that fits a computer hides a user: nothing is claimed
MOST_USERS = 10**9  # of them; others only mix more, as anybody could add their reports
MAX_ANSWERS = 16  # of one message; for more nothing is claimed
STEPS = 16  # of the grid, in the largest value of V: at least, if the window allows
MAX_GRID = 2**18  # points
REACH = 8.0  # of the window on either side: standard deviations of the tilted sum,
JUMPS = 20.0  # and as many of the largest values
CUT = 60.0  # logarithm: powers below e^-CUT are left out, far below the rounding
SHARE_SLACK = 1e-9  # how well drawn questions, by a public hash, keep to their shares
U = 2.0**-53


def blanket_delta(
    n_users: int,
    local_epsilon: float,
    epsilon: float,
    symbols: Sequence[int],
    *,
    shares: Sequence[float] | None = None,
    answers: int = 1,
) -> float:
    """Delta at `epsilon` of n shuffled randomised responses: an upper bound, replace-one.

    For any two values of one user and all values of the others; never above what one report costs
    with its sender's name.

    Parameters
    ----------
    n_users : int
        Users who answer honestly, each with one message.
    local_epsilon : float
        Pure epsilon of a message, in equal shares for its answers.
    epsilon : float
    symbols : sequence of int
        Of each size of questions, the number of symbols, 2 or more.
    shares : sequence of float, optional
        The probability of each size, by default equal: a question is drawn on the device.
    answers : int
        Answers in one message, to questions of one size.
    """
    n_users, answers = check_int(n_users, "n_users"), check_int(answers, "answers")
    sizes = as_integers(symbols, "symbols", minimum=2).astype(np.float64)
    drawn = [1 / max(len(sizes), 1)] * len(sizes) if shares is None else shares
    chances = np.array([check_share(share, "shares", one=True) for share in drawn])
    if len(chances) != len(sizes) or abs(chances.sum() - 1) > SHARE_SLACK:
        raise ValueError("shares must be one for each of symbols, and add up to 1")
    alone = pure_delta(local_epsilon, epsilon)
    small = n_users <= 1 or answers > MAX_ANSWERS
    if alone == 0 or small or not 1e-6 < local_epsilon <= MAX_LOCAL:
        return alone
    # fewer symbols are worse: a little of every share goes to the smallest size
    chances = np.maximum(chances - SHARE_SLACK, 0.0)
    chances[sizes.argmin()] += 1 - chances.sum()
    n = min(n_users, MOST_USERS)
    values, law = _values(local_epsilon, epsilon, sizes, chances, answers)
    scale = float(values.max())
    if scale <= 0:
        return 0.0
    least = math.expm1(epsilon) / scale  # what a report that speaks for neither takes away
    return min(alone, scale * _excess(n, values / scale, law, least) / n)


def pure_delta(local_epsilon: float, epsilon: float) -> float:
    """Delta of a report with its sender: at most (p - e^epsilon)/(p + 1), as for two values."""
    local_epsilon = check_level(local_epsilon, "local_epsilon")
    epsilon = check_level(epsilon, "epsilon")
    if epsilon >= local_epsilon:
        return 0.0
    return -math.expm1(epsilon - local_epsilon) / (1 + math.exp(-local_epsilon))


def _values(
    local: float, epsilon: float, sizes: FloatArray, shares: FloatArray, answers: int
) -> tuple[FloatArray, FloatArray]:
    """The values of V, raised by their rounding, and their probabilities, to a few units of U."""
    each = local / answers
    pairs = [(a, b) for a in range(answers + 1) for b in range(answers + 1 - a)]
    a, b = np.array(pairs, dtype=np.float64).T
    ways = np.array([math.comb(answers, i) * math.comb(answers - i, j) for i, j in pairs])
    first, second = a * each, epsilon + b * each
    values = np.exp(first) - np.exp(second)
    values += 4 * U * ((2 + first) * np.exp(first) + (2 + second) * np.exp(second))
    z = math.exp(each) + sizes - 1
    blanket = ways[:, None] * (sizes - 2) ** (answers - a - b)[:, None] / z**answers
    bare = -np.expm1(answers * np.log1p(-math.expm1(each) / z))  # 1 - gamma of each size
    return np.append(values, 0.0), np.append(blanket @ shares, bare @ shares)


def _excess(n: int, values: FloatArray, law: FloatArray, least: float) -> float:
    """Upper bound of E[max(0, V_1 + ... + V_n)] for V with these values, at most 1, and law.

    `least` is a distance that the grid should hold, if it is not tiny.
    """
    theta = _tilt(values, law)
    tilted = law * np.exp(theta * (values - 1))
    tilted /= tilted.sum()
    sd = math.sqrt(n * float(tilted @ (values - tilted @ values) ** 2))
    window = 2 * (REACH * sd + JUMPS)
    step = 1 / STEPS
    if least > 0:
        step = least / max(1.0, math.ceil(least / step))
    step = max(step, window / MAX_GRID)
    values = np.maximum(values, -window)  # raised: no sum with one of them is positive, nearly
    size = fft.next_fast_len(math.ceil(window / step) + 8, real=True)
    # on the grid, with the mean kept and nothing rounded down
    low = np.floor(values / step)
    part = np.minimum(values / step - low + 4 * U * (1 + np.abs(values / step)), 1.0)
    cells = np.concatenate([low, low + 1]).astype(np.int64)
    mass = np.concatenate([law * (1 - part), law * part])
    cells, mass = cells[mass > 0], mass[mass > 0]
    # the tilted law; mass = tilted e^(log_m - theta cells step), to the rounding charged below
    lean = theta * step * (cells - cells.max())
    tilted = mass * np.exp(lean)
    log_m = theta * step * float(cells.max()) + math.log(float(tilted.sum()))
    tilted /= tilted.sum()
    one = np.zeros(size)
    np.add.at(one, cells % size, tilted)
    wave = fft.rfft(one)
    kept = np.abs(wave) > math.exp(-CUT / n)
    power = np.zeros_like(wave)
    power[kept] = np.exp(n * np.log(wave[kept]))
    total = fft.irfft(power, size)
    first = round(n * float(tilted @ cells)) - size // 2
    sums = step * (first + (np.arange(size) - first) % size)  # which each place stands for
    weight = np.where(sums > 0, sums * np.exp(-theta * np.maximum(sums, 0.0)), 0.0)
    # both transforms, entry by entry to U log2(size) in the mean square, and the power: n times
    rounding = 32 * U * n * math.log2(size) * float(np.linalg.norm(weight))
    beyond = _beyond(n, step * cells.astype(np.float64), tilted, (first + size - 1) * step, theta)
    found = max(float(total @ weight), 1e-300) + rounding + beyond
    span = theta * step * float(np.abs(cells).max())
    log_found = math.log(found) + n * log_m + 32 * n * U * (MAX_ANSWERS + span + abs(log_m))
    return math.exp(min(log_found, 700.0)) * (1 + 1e-9)


def _tilt(values: FloatArray, law: FloatArray) -> float:
    """The theta >= 0 that brings the mean of V, tilted by e^(theta V), to 0, about; any would do.

    The largest value is 1.
    """

    def mean(theta: float) -> float:
        tilted = law * np.exp(theta * (values - 1))
        return float(tilted @ values) / float(tilted.sum())

    if mean(0.0) >= 0:
        return 0.0
    high = 1.0
    while mean(high) < 0 and high < 1e6:
        high *= 2
    return float(optimize.brentq(mean, 0.0, high, rtol=1e-6)) if mean(high) > 0 else high


def _beyond(n: int, values: FloatArray, tilted: FloatArray, top: float, theta: float) -> float:
    """Upper bound of E[S e^(-theta S); S > top] for the sum S of n tilted values (Chernoff).

    With s <= e^(r s)/(e r) and e^(l (s - top)) >= 1 beyond top, for any r and l > 0: here
    r = c/2 and l = c/2 + theta, so that the exponents in S add up to c.
    """
    spread = math.sqrt(n * float(tilted @ values**2)) + 1e-12
    bounds = []
    for c in np.array([0.5, 1.0, 2.0, 4.0, 8.0, 12.0]) / spread:
        log_mean = n * math.log(float(tilted @ np.exp(np.minimum(c * values, 700.0))))
        bounds.append(log_mean - (c / 2 + theta) * top - 1 - math.log(c / 2))
    return math.exp(min(*bounds, 700.0)) * (1 + 1e-6)
