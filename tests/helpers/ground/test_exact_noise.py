"""Exact noise: its law by counting bit strings, its decisions at every boundary, its oracle."""

import math
import os
import tracemalloc
from collections import defaultdict
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedclust_helpers import exact_noise
from fedclust_helpers.exact_noise import discrete_gaussian, discrete_laplace, exp_bounds

SAMPLERS = {1: discrete_laplace, 2: discrete_gaussian}
BOTH = pytest.mark.parametrize("norm", SAMPLERS)


def pmf(norm: int, scale: float):
    """The integers within 40 scales, and their probabilities."""
    x = np.arange(-int(40 * scale) - 20, int(40 * scale) + 21)
    weight = np.exp(-np.abs(x) / scale if norm == 1 else -(x**2) / (2 * scale**2))
    return x, weight / weight.sum()


# --- the law, by counting ------------------------------------------------------------------------


class Exhausted(Exception):
    """More bits are asked for than a string has."""


class Dealt:
    """Fair bits by a list of choices; a further one is the first of as many as there may be."""

    def __init__(self) -> None:
        self.path: list[tuple[int, int]] = []  # choice and how many there are

    def words(self, n: int, size: int):
        assert n <= 1, "one candidate at a time asks for one word at a time"
        if n == 0:
            return np.zeros(0, dtype=np.uint8)
        self.at += 1
        if self.at > len(self.path):
            if math.prod(of for _, of in self.path) << size > self.limit:
                raise Exhausted
            self.path.append((0, 1 << size))
        return np.array([self.path[self.at - 1][0]], dtype=np.uint8)

    def each(self, run, limit: int):
        """Results of `run` for all strings of bits up to a length, and their probabilities."""
        self.limit, self.path = limit, []
        while True:
            self.at = 0
            try:
                found = tuple(int(v) for v in run())
            except Exhausted:
                found = None
            yield found, Fraction(1, math.prod(of for _, of in self.path))
            while self.path and self.path[-1][0] == self.path[-1][1] - 1:
                self.path.pop()
            if not self.path:
                return
            self.path[-1] = (self.path[-1][0] + 1, self.path[-1][1])


def enumerated(monkeypatch, run, *, word: int, limit: int):
    """Probabilities of what `run` returns, and of strings that are too short to say."""
    dealt = Dealt()
    monkeypatch.setattr(exact_noise, "WORD", word)
    monkeypatch.setattr(exact_noise, "random_bits", dealt.words)
    found: dict = defaultdict(Fraction)
    for result, probability in dealt.each(run, limit):
        found[result] += probability
    assert sum(found.values()) == 1
    return found, found.pop(None, Fraction(0))


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 7), Fraction(2, 3), Fraction(5)])
def test_an_event_has_its_probability_whatever_the_bits(monkeypatch, x):
    run = lambda: exact_noise._happens(np.array([float(x)]), lambda _: x)  # noqa: E731
    found, unsaid = enumerated(monkeypatch, run, word=6, limit=2**24)
    assert unsaid <= Fraction(1, 2**23)
    assert found[(1,)] <= math.exp(-x) * (1 + 1e-15) and math.exp(-x) <= found[(1,)] + unsaid


def test_no_decision_is_ever_wrong(monkeypatch):
    """Whatever the floats say, it agrees with the bits: at six bits half of the words are close."""
    monkeypatch.setattr(exact_noise, "WORD", 6)
    for x in (Fraction(1, 10), Fraction(9, 10), Fraction(17, 8)):
        low, high = exp_bounds(x, 60)
        for word in range(64):
            dealt = iter([[word], [63], [63]])
            monkeypatch.setattr(
                exact_noise, "random_bits", lambda n, s, d=dealt: np.array(next(d), dtype=np.uint8)
            )
            happened = bool(exact_noise._happens(np.array([float(x)]), lambda _, x=x: x)[0])
            if Fraction(word + 1, 64) <= low:
                assert happened
            if Fraction(word, 64) >= high:
                assert not happened


@pytest.mark.parametrize("scale", [0.8, 2.5, 4.0])
def test_laplace_candidates_have_the_law_by_counting_all_bit_strings(monkeypatch, scale):
    run = lambda: exact_noise._laplace_candidates(1, scale)  # noqa: E731
    found, unsaid = enumerated(monkeypatch, run, word=3, limit=2**13)
    x, p = pmf(1, scale)
    block = 1 << max(0, math.floor(math.log2(scale)))
    low = sum(math.exp(-i / scale) for i in range(block)) / block  # is kept
    kept = low * (1 - (1 - math.exp(-block / scale)) / (2 * block * low))  # but for minus zero
    assert found[()] <= (1 - kept) * (1 + 1e-12) <= float(found[()] + unsaid) * (1 + 1e-12)
    assert unsaid < 0.5 and len(found) > 5
    for value, probability in zip(x, p * kept, strict=True):
        assert found[(value,)] <= probability * (1 + 1e-12)
        assert probability <= float(found[(value,)] + unsaid)


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("y", [0, 1, -2, 4])
def test_gaussian_candidates_are_kept_as_often_as_algorithm_3_says(monkeypatch, scale, y):
    asked = []
    monkeypatch.setattr(
        exact_noise, "discrete_laplace", lambda m, t: asked.append(t) or np.full(m, y)
    )
    run = lambda: exact_noise._gaussian_candidates(1, scale)  # noqa: E731
    found, unsaid = enumerated(monkeypatch, run, word=6, limit=2**24)
    t = math.floor(scale) + 1
    kept = math.exp(-((abs(y) - scale**2 / t) ** 2) / (2 * scale**2))
    assert {*asked} == {t} and unsaid < 2**-20
    assert found[(y,)] <= kept * (1 + 1e-12) and kept <= float(found[(y,)] + unsaid) * (1 + 1e-12)


# --- decisions -----------------------------------------------------------------------------------


@given(st.fractions(0, 800), st.integers(16, 400))
def test_bounds_of_exp_hold_and_are_close(x, bits):
    low, high = exp_bounds(x, bits)
    assert high - low <= Fraction(1, 1 << bits)
    with localcontext(prec=500):  # digits, of which e^-800 takes 350: 500 bits are left
        exact = Fraction((-Decimal(x.numerator) / x.denominator).exp())
    assert low <= exact * (1 + Fraction(1, 10**490)) and exact * (1 - Fraction(1, 10**490)) <= high


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(7, 2), Fraction(40)])
def test_words_at_the_boundary_are_decided_by_later_bits(monkeypatch, x):
    """The first word says nothing when exp(-x) lies within it: the bits of exp(-x) themselves."""
    size = exact_noise.WORD
    low, _ = exp_bounds(x, 3 * size)
    edge = int(low * 2 ** (2 * size))  # the first two words of exp(-x)
    for step in (-1, 0, 1):
        for last in (0, 2**size - 1):
            bits = max(edge + step, 0)
            words = iter([bits >> size, bits & (2**size - 1), last, last, last])
            monkeypatch.setattr(
                exact_noise, "random_bits",
                lambda n, s, w=words: np.full(n, next(w), dtype=np.uint32),
            )  # fmt: skip
            happened = exact_noise._happens(np.array([float(x)]), lambda _: x)
            below = Fraction(((bits << size) + last << size) + last, 2 ** (4 * size)) < low
            assert bool(happened[0]) == below, (step, last)


@pytest.mark.parametrize("e", [0.01, 0.7, 3.0])
def test_floats_decide_only_beyond_the_slack(monkeypatch, e):
    """As far as floats may err, and a word wide: within it the exact way is asked."""
    asked = []
    monkeypatch.setattr(exact_noise, "_below", lambda *given: asked.append(given) or False)
    p, unit = math.exp(-e), 2.0**-exact_noise.WORD
    inside = np.array([p - unit, p - exact_noise.SLACK / 2, p + exact_noise.SLACK / 2])
    for u in (*inside, p - 2.1 * unit, p + 2 * unit):
        word = np.array([u / unit]).astype(np.uint32)
        monkeypatch.setattr(exact_noise, "random_bits", lambda n, s, w=word: w)
        before = len(asked)
        exact_noise._happens(np.array([e]), lambda _: Fraction(e))
        gap = float(word[0]) * unit - p
        assert (len(asked) > before) == (-unit - exact_noise.SLACK <= gap <= exact_noise.SLACK)
    assert 1 <= len(asked) <= 4
    assert exact_noise.SLACK >= 16 * 2.0**-49 and exact_noise.WORD <= 32


@given(st.floats(0.01, 2.0**57), st.floats(0, 12, exclude_max=True), st.sampled_from([-1, 0, 1]))
def test_the_floats_of_the_gaussian_err_less_than_proved(s, widths, step):
    """exp of the float exponent against the exact one, also where |y| is close to s^2/t."""
    y = int(s * s / (math.floor(s) + 1)) + round(widths * s) * step
    t, rational = math.floor(s) + 1, Fraction(s)
    centre = rational**2 / t
    e = ((np.abs(np.array([y])) - float(centre)) / s) ** 2 / 2
    low, high = exp_bounds((abs(y) - centre) ** 2 / (2 * rational**2), 80)
    assert low - Fraction(2) ** -49 <= Fraction(float(np.exp(-e)[0])) <= high + Fraction(2) ** -49


# --- what comes out ------------------------------------------------------------------------------


def p_value(norm: int, scale: float, drawn) -> float:
    """Of a chi-square test of integers against their law, in about 200 cells alike."""
    x, p = pmf(norm, scale)
    cell = np.minimum((np.cumsum(p) * 200).astype(int), 199)
    expected = np.bincount(cell, p, 200) * len(drawn)
    counts = np.bincount(cell[drawn - x[0]], minlength=200)
    return float(stats.chisquare(counts[expected > 0], expected[expected > 0]).pvalue)


@BOTH
@pytest.mark.parametrize("scale", [0.45, 0.999, 2.0, 7.3, 311.5])
def test_a_million_numbers_follow_the_law(norm, scale):
    drawn = SAMPLERS[norm](10**6, scale)
    assert drawn.dtype == np.int64
    assert p_value(norm, scale, drawn) > 1e-8  # false alarm 1e-8, ten tests


@BOTH
def test_the_exact_way_has_the_same_law_when_it_decides_everything(monkeypatch, norm):
    monkeypatch.setattr(exact_noise, "SLACK", 2.0)
    drawn = SAMPLERS[norm](3000, 1.3)
    assert p_value(norm, 1.3, drawn) > 1e-8  # false alarm 1e-8


@BOTH
@pytest.mark.parametrize("scale", [0.6, 3.7, 1e5])
def test_opendp_draws_the_same_law(norm, scale):
    dp = pytest.importorskip("opendp.prelude", reason="OpenDP is the oracle: an extra of tests")
    dp.enable_features("contrib")
    make, metric = dp.m.make_gaussian, dp.l2_distance(T=float)
    if norm == 1:
        make, metric = dp.m.make_laplace, dp.l1_distance(T=float)
    sampler = make(dp.vector_domain(dp.atom_domain(T="i64")), metric, scale=scale)
    theirs = np.asarray(sampler(np.zeros(20_000, dtype=np.int64)))
    ours = SAMPLERS[norm](20_000, scale)
    values = np.unique(np.concatenate([ours, theirs]))
    edges = np.unique(np.quantile(values, np.linspace(0, 1, 60), method="nearest"))
    table = [np.bincount(np.searchsorted(edges, v), minlength=len(edges)) for v in (ours, theirs)]
    table = np.array(table)[:, np.sum(table, axis=0) > 20]
    assert stats.chi2_contingency(table).pvalue > 1e-8  # false alarm 1e-8, six tests


@BOTH
@pytest.mark.parametrize("scale", [5e-324, 1e-200, 1e-162, 0.001])
def test_tiny_scales_draw_zeros_and_end(norm, scale):
    assert not SAMPLERS[norm](1000, scale).any()


@BOTH
@pytest.mark.parametrize("power", [20, 52, 53, 56])
def test_large_scales_fill_every_last_digit(norm, power):
    """The last digits of noise far above 2^53 are even as often as odd, and its size is right."""
    scale = 1.37 * 2.0**power
    drawn = SAMPLERS[norm](20_000, scale)
    assert abs((drawn & 1).mean() - 0.5) < 6.5 / 2 / math.sqrt(20_000)  # false alarm 1e-10
    std = scale * (math.sqrt(2) if norm == 1 else 1)
    assert drawn.astype(float).std() == pytest.approx(std, rel=0.12)  # beyond 7 of its deviations


@BOTH
def test_memory_stays_small_and_numbers_are_used_once(norm, monkeypatch):
    taken = []
    fair = exact_noise.random_bits
    monkeypatch.setattr(
        exact_noise, "random_bits", lambda n, size: taken.append(n) or fair(n, size)
    )
    tracemalloc.start()
    drawn = SAMPLERS[norm](2**21, 1e6)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - drawn.nbytes < 100 * 2**20
    assert max(taken) <= exact_noise.BLOCK and sum(taken) > 2 * len(drawn)
    correlation = np.corrcoef(drawn[:-1], drawn[1:])[0, 1]
    assert abs(correlation) < 7 / math.sqrt(len(drawn))  # false alarm 1e-11


def test_bits_are_fair_of_every_size(monkeypatch):
    for size in (1, 5, 8, 9, 31, 32, 33, 57, 64):
        words = exact_noise.random_bits(4000, size)
        assert int(words.max()) < 2**size
        ones = [((words >> words.dtype.type(i)) & words.dtype.type(1)).mean() for i in range(size)]
        assert np.abs(np.array(ones) - 0.5).max() < 8 / 2 / math.sqrt(4000)  # false alarm 1e-12
    asked = []
    monkeypatch.setattr(os, "urandom", lambda n: asked.append(n) or bytes(n))
    assert not exact_noise.random_bits(3, 20).any() and asked == [12]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_draws_other_noise():
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, discrete_gaussian(8, 1e9).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(read, 64), dtype=np.int64)
    assert not (theirs == discrete_gaussian(8, 1e9)).any()  # false alarm 1e-8
