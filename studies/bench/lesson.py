"""What a notebook's lesson stands on: its settings, its checks, its named random streams.

A check that holds prints its claim and what was found. A reader may change every setting: for those
that a notebook was made with, a check that does not hold is an error, which the tests find; for all
others it is a remark. So a claim is a constant sentence, true when the check holds and false when
it does not; measured numbers stand beside it, in `found`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from studies.bench.style import use_style

REMARK = "With your settings this does not hold: "
"""How every remark begins; `python -m tools.variations` collects them."""


class Tools(NamedTuple):
    """What `Lesson.begin` gives to a notebook."""

    check: Callable[..., None]
    """``check(holds, "a claim", found="1.04 against 1.06")`` prints "✓ a claim: 1.04 against 1.06",
    once. The claim is false where it does not hold, so it names no number but settings."""

    stream: Callable[[str], np.random.Generator]
    """``stream("name")``: a generator of its own for each named experiment."""

    seeds: Callable[[str, int], list[np.random.SeedSequence]]
    """``seeds("name", n)``: n independent seeds for the repetitions of one experiment."""


@dataclass(frozen=True)
class Lesson:
    """The settings of one notebook, the other values that it is tried with, and its streams.

    Attributes
    ----------
    settings : mapping of str to values
        Every name of the cell tagged "settings", with the committed value; SEED is one of them.
    variations : mapping of str to sequences of values
        What `make variations` sets one at a time, beside eight other values of SEED.
    streams : sequence of str
        Names of the random streams. New ones go to the end, so that the others stay as they are.
    """

    settings: Mapping[str, Any]
    variations: Mapping[str, Sequence[Any]]
    streams: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        if "SEED" not in self.settings:
            raise ValueError("settings must contain SEED")
        if unknown := set(self.variations) - set(self.settings):
            raise ValueError(f"variations of what is no setting: {', '.join(sorted(unknown))}")
        if len(set(self.streams)) < len(self.streams):
            raise ValueError("streams: a name occurs twice")

    def changed(self, namespace: Mapping[str, Any]) -> dict[str, Any]:
        """The settings whose value in `namespace` is not the committed one."""
        if missing := set(self.settings) - set(namespace):
            raise ValueError(f"settings not set in this notebook: {', '.join(sorted(missing))}")
        return {n: namespace[n] for n, made in self.settings.items() if namespace[n] != made}

    def begin(self, namespace: Mapping[str, Any]) -> Tools:
        """Compare the settings with the committed ones, and return `check`, `stream` and `seeds`.

        Called once with ``globals()``, right below the settings. Figures get the project's style.
        """
        use_style()
        changed = self.changed(namespace)
        for name, value in changed.items():
            print(f"{name} is {value} here; the text was written for {self.settings[name]}.")

        said: set[str] = set()

        def check(holds: object, claim: str, found: object = "") -> None:
            told = str(found)
            if holds:
                text = f"✓ {claim}: {told}" if told else f"✓ {claim}"
                if text not in said:
                    print(text)
                said.add(text)
                return
            text = f"{claim} ({told})" if told else claim
            if not changed:
                raise AssertionError(text)
            print(REMARK + text)

        def seeds(name: str, n: int) -> list[np.random.SeedSequence]:
            if name not in self.streams:
                raise ValueError(f"no stream {name!r}; there are: {', '.join(self.streams)}")
            key = (list(self.streams).index(name),)
            return np.random.SeedSequence(namespace["SEED"], spawn_key=key).spawn(n)

        def stream(name: str) -> np.random.Generator:
            return np.random.default_rng(seeds(name, 1)[0])

        return Tools(check, stream, seeds)
