"""Examine a function that somebody wrote as an exercise: what is right, what is not, in sentences.

A generator that answers with the middle of each law and writes down what it was asked for parts
the exact answer from the noise. Moving one draw at a time by one unit of its scale then shows which
noise reaches which number, without chance. The exact part is compared with what is right, and its
sensitivity is searched by `audit_sensitivity`; noise whose scale cannot be read off so is judged by
`audit_noise_scale`, what a single message tells by `audit_canary`.

A lesson says with `Asked` what it asks for. `examine` puts questions: `values` (the exact part),
`promise` (noise against sensitivity), `estimates` (right on average, and as exact as can be),
`reports` (what one message tells), or any function of the exercise that yields findings. A pass
proves nothing: it says that no mistake was found.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np

from fedclust_helpers._validation import FloatArray
from fedclust_helpers.audit._queries import as_queries
from fedclust_helpers.audit.canary import audit_canary
from fedclust_helpers.audit.noise_scale import audit_noise_scale
from fedclust_helpers.audit.sensitivity import audit_sensitivity

Mine = Callable[..., Any]
Arrays = tuple[FloatArray, ...]
UNANSWERED = "Your turn: nothing comes back yet. Write the function above and run both cells again."
CLOSE = 1e-6  # relative difference that counts as rounding
MAX_DRAWS = 2000  # that are moved one at a time
N_RUNS = 1000  # where noise has to be measured
FALSE_ALARM = 1e-6  # of each test that measures
VARIANCE = "The generator takes a standard deviation, not a variance."
_VARIANCE = {"normal": 1.0, "laplace": 2.0}  # at scale 1, of the laws that are written down


class Finding(NamedTuple):
    """One sentence about an exercise, and whether it says that something is right."""

    right: bool
    sentence: str


Question = Callable[[Mine], Iterable[Finding]]


@dataclass(frozen=True)
class Examination:
    """What was found; its text is what a reader sees."""

    findings: tuple[Finding, ...]
    answered: bool = True

    @property
    def passed(self) -> bool:
        """True if it was answered and no mistake was found."""
        return self.answered and all(finding.right for finding in self.findings)

    def __repr__(self) -> str:
        lines = [("✓ " if right else "✗ ") + text for right, text in self.findings]
        return "\n".join(lines) if self.answered else UNANSWERED


class _Unanswered(Exception):
    """Nothing was written yet."""


class Stop(Exception):
    """A mistake that ends the examination; its text is the sentence. Questions may raise it."""


def examine(mine: Mine, *questions: Question) -> Examination:
    """Put the questions to the function `mine`, in their order; no mistake of `mine` raises.

    One that leaves nothing to look at (an exception, a wrong shape) ends the examination. The
    questions call it with positional arguments, and it gets copies of the arrays.
    """
    found, state = list[Finding](), _global_state()
    try:
        for question in questions:
            found.extend(question(_guarded(mine)))
    except _Unanswered:
        return Examination((), answered=False)
    except Stop as stop:
        found.append(Finding(False, str(stop)))
    except Exception as error:
        text = f"What comes back cannot be used as asked for ({type(error).__name__}: {error})."
        found.append(Finding(False, text))
    if _global_state() != state:
        text = "It draws from `np.random`: draw from the generator that it is given."
        found = [Finding(False, text)]
    return Examination(tuple(dict.fromkeys(found)))


def _guarded(mine: Mine) -> Mine:
    """`mine`, whose mistakes of form end the examination with a sentence."""

    @wraps(mine)
    def guarded(*args: Any) -> Any:
        arrays = [i for i, value in enumerate(args) if isinstance(value, np.ndarray)]
        given = [value.copy() if i in arrays else value for i, value in enumerate(args)]
        try:
            with np.errstate(all="ignore"):
                answer = mine(*given)
        except NotImplementedError:
            raise _Unanswered from None
        except Exception as error:
            raise Stop(_where(mine, error)) from None
        if answer is None or answer is Ellipsis:
            raise _Unanswered
        if any(given[i].tobytes() != args[i].tobytes() for i in arrays):
            raise Stop("It changes an array that it was given: write `a = a + b`, not `a += b`.")
        return answer

    return guarded


def _global_state() -> tuple[bytes, str]:
    _, key, *rest = np.random.get_state()  # noqa: NPY002
    return np.asarray(key).tobytes(), str(rest)


def _where(mine: Mine, error: Exception) -> str:
    """What stopped `mine`, and in which of its lines."""
    text, code = f"It stops with {type(error).__name__}: {error}", getattr(mine, "__code__", None)
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code is code:
            return f"{text}, in its line {line - frame.f_code.co_firstlineno + 1}."
    return f"{text}. Does it take the arguments that the text names, in their order?"


# --- the generator that writes down ---------------------------------------------------------------


class Recorder(np.random.Generator):
    """Answers with the middle of each law, and writes down in `laws` what each draw was asked for.

    Draw number `moved` lies `by` scales off. "other": a law that is not a fixed noise times a
    scale. What is not listed below is drawn from a fixed seed.
    """

    def __init__(self, moved: int = -1, by: float = 0.0):
        super().__init__(np.random.PCG64(0))
        self.laws: list[str] = []
        self._moved, self._by, self._before = moved, by, str(self.bit_generator.state)

    @property
    def readable(self) -> bool:
        """Whether the scale of every draw can be read off."""
        return "other" not in self.laws and str(self.bit_generator.state) == self._before

    def _answer(self, law: str, middle: Any, scale: Any, size: Any) -> Any:
        wanted = np.broadcast_shapes(np.shape(middle), np.shape(scale))
        shape = wanted if size is None else tuple(np.atleast_1d(np.asarray(size, int)).tolist())
        values = np.array(np.broadcast_to(middle, shape), dtype=np.float64)
        at = self._moved - len(self.laws)
        if 0 <= at < values.size:
            values.flat[at] += self._by * np.broadcast_to(scale, shape).flat[at]
        self.laws += [law] * values.size
        return values if shape or size is not None else float(values)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Its mean."""
        return self._answer("normal", loc, scale, size)

    def standard_normal(self, size: Any = None, *_: Any, **__: Any) -> Any:
        """Zeros."""
        return self._answer("normal", 0.0, 1.0, size)

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Its mean."""
        return self._answer("laplace", loc, scale, size)

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        """One half."""
        return self._answer("other", 0.5, 0.0, size)

    def spawn(self, n_children: int) -> list[Any]:
        """Itself, so that one list holds everything."""
        return [self] * n_children


# --- what is asked for ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What an exercise asks for.

    ``call(mine, data, rng)`` calls the function on one data set, `parts` names what it returns, and
    ``right(data)`` is that without noise: an array, or a tuple of one array for each part.
    """

    call: Callable[[Mine, Any, np.random.Generator], Any]
    right: Callable[[Any], Any]
    parts: tuple[str, ...]

    def answer(self, mine: Mine, data: Any, rng: np.random.Generator) -> Arrays:
        """What `mine` returns, as one array of finite numbers of the right shape for each part."""
        got, wanted, out = self.call(mine, data, rng), as_queries(self.right(data), "right"), []
        got = (got,) if len(self.parts) == 1 else got
        if not isinstance(got, tuple | list) or len(got) != len(self.parts):
            raise Stop(f"Return {len(self.parts)} things: {', '.join(self.parts)}.")
        for name, part, like in zip(self.parts, got, wanted, strict=True):
            try:
                out.append(np.array(part, dtype=np.float64))
            except (TypeError, ValueError):
                kind = type(part).__name__
                raise Stop(f"Your {name}: an array of numbers is due, not {kind}.") from None
            if out[-1].shape != like.shape:
                raise Stop(f"Your {name}: the shape {like.shape} is due, not {out[-1].shape}.")
            if not np.isfinite(out[-1]).all():
                raise Stop(f"Your {name}: some numbers are nan or infinite.")
        return tuple(out)


def values(
    asked: Asked,
    cases: Mapping[str, Any],
    slips: Sequence[tuple[Callable[[Any], Any], str]] = (),
) -> Question:
    """Is the exact part right on small cases, each with a name?

    `slips` are known wrong versions of `asked.right`, each with the sentence that helps.
    """

    def question(mine: Mine) -> Iterator[Finding]:
        for case, data in cases.items():
            rng, wanted = Recorder(), as_queries(asked.right(data), "right")
            got = asked.answer(mine, data, rng)
            if not _alike(got, asked.answer(mine, data, Recorder())):
                raise Stop("Two calls with the same generator differ: draw all noise from it.")
            if _alike(got, wanted):
                continue
            for slip, sentence in slips:
                if _alike(got, as_queries(slip(data), "slip")):
                    raise Stop(sentence)
            i = next(i for i, pair in enumerate(zip(got, wanted, strict=True)) if not _close(*pair))
            text = f"Your {asked.parts[i]} without noise, of {case}: {_few(got[i])}; right is "
            silent = "" if rng.laws else " You drew nothing from the generator: is this your noise?"
            raise Stop(f"{text}{_few(wanted[i])}.{silent}")
        yield Finding(True, f"Right without noise: {' and '.join(asked.parts)}.")

    return question


def _close(left: FloatArray, right: FloatArray) -> bool:
    return np.allclose(left, right, CLOSE, CLOSE)


def _alike(left: Arrays, right: Arrays) -> bool:
    return all(map(_close, left, right))


def _few(array: FloatArray) -> str:
    text = np.array2string(array, precision=3, threshold=12, separator=", ").replace("\n", "")
    return text.rstrip(".")


# --- noise against the promise --------------------------------------------------------------------


def promise(
    asked: Asked,
    neighbours: Sequence[tuple[Any, Any]],
    *,
    law: Literal["normal", "laplace"],
    strength: float,
    due: Sequence[float],
    hints: Mapping[tuple[str, float], str] | None = None,
) -> Question:
    """Does the noise hide what one record moves, in the norm of its law?

    `strength` is what is promised in total: mu for normal noise, where squares add up, epsilon for
    Laplace noise. `due` holds one right standard deviation for each part; other ways to share the
    strength pass as well. A hint is said where (part, standard deviation over the due one) is so;
    that a variance was given in place of a standard deviation is seen without one.
    """
    (symbol, norm), scale = {"normal": ("μ", 2), "laplace": ("ε", 1)}[law], _VARIANCE[law] ** 0.5

    def question(mine: Mine) -> Iterator[Finding]:
        data, like = neighbours[0][0], as_queries(asked.right(neighbours[0][0]), "right")
        stds = _read_off(asked, mine, data, law)
        for _, without in neighbours if stds else ():
            then = _read_off(asked, mine, without, law)
            if then is None or not _alike(stds or (), then):
                raise Stop(
                    "Your noise has another size when one record is missing, and that tells, "
                    "too: its size may depend on public numbers only."
                )
        if stds is None:  # a law of its own making: as large as is due, or it stops
            tails = 3.0 if law == "laplace" else 0.0
            yield from (found := list(estimates(asked, data, due, excess_kurtosis=tails)(mine)))
            if not all(finding.right for finding in found):
                return
            stds = tuple(np.full(a.shape, s) for a, s in zip(like, due, strict=True))
        unit = _flat(stds) / scale

        def statistic(data: Any) -> Arrays:
            exact = asked.answer(mine, data, Recorder())
            return (_flat(exact) / unit, *exact, *as_queries(asked.right(data), "right"))

        claims = (strength,) + (1.0,) * (2 * len(due))
        total, *each = audit_sensitivity(statistic, neighbours, claims, norm=norm).worst
        said = f"all that you return tells {symbol} = {total:.3g} about one record"
        little, much = total > strength * (1 + CLOSE), total < 0.99 * strength
        if not little and not much:
            yield Finding(True, f"The noise is right: {said}, as promised.")
            return
        size = "Too little" if little else "More"
        text = f"{size} noise{'' if little else ' than needed'}: {said}; {strength:.3g} is"
        yield Finding(False, f"{text} {'promised' if little else 'allowed'}.")
        shares = "With equal shares" if len(due) > 1 else "Here"
        for i, name in enumerate(asked.parts):
            ratio = float(stds[i].min()) / due[i]
            moved, hidden = each[i], each[len(due) + i] * ratio
            if moved > hidden * (1 + CLOSE) if little else moved < 0.99 * hidden:
                std, wanted = ratio * due[i], due[i] * moved / each[len(due) + i]
                text = (
                    f"One record moves your {name} by {moved:.3g}. {shares} that asks for noise of "
                    f"standard deviation {wanted:.3g}; yours has {std:.3g}."
                )
                told = {(name, due[i]): VARIANCE, **(hints or {})}
                known = [
                    hint
                    for (part, at), hint in told.items()
                    if part == name and abs(ratio / at - 1) < 0.01
                ]
                yield Finding(False, " ".join([text, *known]))

    return question


def _flat(parts: Arrays) -> FloatArray:
    return np.concatenate([part.ravel() for part in parts])


def _read_off(asked: Asked, mine: Mine, data: Any, law: str) -> Arrays | None:
    """Standard deviation of the noise on each number; None if it cannot be read off.

    Each draw is moved up and down by one scale; what it moves must be one number, in proportion.
    """
    rng = Recorder()
    parts = asked.answer(mine, data, rng)
    if not rng.readable or len(rng.laws) > MAX_DRAWS:
        return None
    middle = _flat(parts)
    reach = np.zeros((len(rng.laws), middle.size))
    for draw in range(len(reach)):
        up, down = (_flat(asked.answer(mine, data, Recorder(draw, by))) for by in (1.0, -1.0))
        if not _close(up + down, 2 * middle):
            return None
        reach[draw] = (up - down) / 2
    if (np.count_nonzero(reach, axis=1) > 1).any():
        raise Stop(
            "Several numbers get the same draw of noise, so it cancels in their difference. Draw "
            "once for each number (`size=`)."
        )
    used = {name for name, row in zip(rng.laws, reach, strict=True) if row.any()}
    if used and used != {law}:
        raise Stop(f"Your noise is {' and '.join(sorted(used))}; the promise is for {law} noise.")
    stds = np.sqrt(_VARIANCE[law] * (reach**2).sum(axis=0))
    out, at = [], 0
    for name, part in zip(asked.parts, parts, strict=True):
        out.append(stds[at : at + part.size].reshape(part.shape))
        at += part.size
        if not out[-1].all():
            raise Stop(f"Your {name}: some numbers get no noise, so everybody reads them.")
    return tuple(out)


def estimates(
    asked: Asked, data: Any, std: Sequence[float], *, excess_kurtosis: float = 0.0
) -> Question:
    """Is an answer that cannot be parted right on average, with the standard deviations `std`?"""

    def question(mine: Mine) -> Iterator[Finding]:
        runs: list[Arrays] = []

        def release(rng: np.random.Generator) -> Arrays:
            runs.append(asked.answer(mine, data, rng))
            return runs[-1]

        right = as_queries(asked.right(data), "right")
        found = audit_noise_scale(
            release, right, tuple(std), n_runs=N_RUNS, false_alarm=FALSE_ALARM, vectorized=False,
            excess_kurtosis=excess_kurtosis, rng=np.random.default_rng(0),
        )  # fmt: skip
        for name, query, truth, drawn in zip(
            asked.parts, found.queries, right, zip(*runs, strict=True), strict=True
        ):
            if query.biased:
                mean = _few(np.mean(drawn, axis=0))
                yield Finding(False, f"Your {name} on average: {mean}; right is {_few(truth)}.")
            elif query.too_little or query.too_much:
                text = (
                    f"Your {name}: the noise is {query.ratio:.2f} times as large as it should be."
                )
                yield Finding(False, text)
            elif query.failed:
                yield Finding(False, f"Your {name}: {', '.join(query.failed).lower()}.")
        for reason in found.dependence:
            yield Finding(False, f"Your noise is not independent: {reason}.")
        if not found.failed:
            text = f"In {N_RUNS} runs right on average, with no more noise than needed: "
            yield Finding(True, f"{text}{' and '.join(asked.parts)}.")

    return question


def reports(
    call: Callable[[Mine, Any, int, np.random.Generator], Any],
    held: Sequence[Any],
    *,
    epsilon: float,
    what: str = "one report",
    hint: str = "",
    n: int = 100_000,
) -> Question:
    """Is no message more than e^epsilon times as likely under one value as under another?

    ``call(mine, value, n, rng)`` returns n messages of somebody who holds this value, as numbers of
    few kinds. With epsilon = 0 they must tell nothing (masks), else use what they may. The hint is
    said where they do not.
    """

    def question(mine: Mine) -> Iterator[Finding]:
        said = []
        for seed, value in enumerate(held):
            messages = np.asarray(call(mine, value, n, np.random.default_rng(seed)))
            if messages.shape != (n,) or messages.dtype.kind not in "biuf":
                raise Stop(f"{n} answers must be {n} numbers; the shape is {messages.shape}.")
            said.append(messages.astype(np.float64))
        pairs = list(combinations(range(len(said)), 2))
        bounds = [
            audit_canary(said[a], said[b], confidence=1 - FALSE_ALARM).epsilon_lower_bound
            for a, b in pairs
        ]
        a, b = pairs[int(np.argmax(bounds))]
        likely = f"times as likely for {held[a]:,.10g} as for {held[b]:,.10g}, or the reverse"
        allowed, found = np.exp(epsilon), max(_ratio(said[i], said[j]) for i, j in pairs)
        if max(bounds) > epsilon:
            times = f"{found:.3g}" if found < 1000 else "more than a thousand"
            most = f"{allowed:.3g} times is allowed" if epsilon else "both must be equally likely"
            raise Stop(f"{what} tells too much: it can be {times} {likely}; {most}. {hint}".strip())
        elif found < 0.9 * allowed:
            text = f"{what} lies more than it must: it is at most {found:.3g} {likely};"
            raise Stop(f"{text} {allowed:.3g} times is allowed. {hint}".strip())
        else:
            kept = f"is at most {allowed:.3g} times as likely for one value as for another"
            yield Finding(True, f"{what} {kept if epsilon else 'tells nothing'}.")

    return question


def _ratio(left: FloatArray, right: FloatArray) -> float:
    """How many times as often the most telling message comes from one side; rare ones left out."""
    kinds = np.union1d(left, right)
    counts = [
        np.array([np.count_nonzero(side == kind) for kind in kinds]) for side in (left, right)
    ]
    low, high = np.minimum(*counts), np.maximum(*counts)
    often = high > 100
    return float(np.max(high[often] / np.maximum(low[often], 1e-9), initial=1.0))
