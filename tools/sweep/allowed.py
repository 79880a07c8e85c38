"""Cases that look like offences and are none, each with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tools.sweep.judge import Case


@dataclass(frozen=True)
class Allowed:
    """All cases whose target, argument, kind and verdict match these patterns."""

    target: str
    argument: str
    kind: str
    verdict: str
    reason: str

    def matches(self, case: Case) -> bool:
        """Whether this entry speaks of the case."""
        return all(
            any(fnmatchcase(value, one) for one in pattern.split("|"))
            for value, pattern in (
                (case.target, self.target),
                (case.argument, self.argument),
                (case.kind, self.kind),
                (case.verdict, self.verdict),
            )
        )


ALLOWED: tuple[Allowed, ...] = ()


def reason(case: Case) -> str:
    """Why the case is no offence, or ""."""
    return next((a.reason for a in ALLOWED if a.matches(case)), "")


# callables that no quick test calls, and why they are left out
NEVER_SWEPT: dict[str, str] = {}
