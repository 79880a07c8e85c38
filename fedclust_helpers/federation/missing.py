"""Clients that drop out: who is asked, what it costs, and what is promised to whom.

**The round.** At the beginning of a round it is found out who is there. These clients, the set A of
the round, at least M - `may_miss` of M, are named in a message that each of them sees before it
answers. A client answers once for each (round, set) that it is in; the sum over A is complete when
all of A have answered. Where one of them does not, the sum over A cannot be had, and the round is
asked again, of a smaller set B: a *repeat*. The plan reserves a number of repeats (`repeats`).

**Noise.** Each share is sized for n_honest = M - may_miss - max_colluding of them. Every set that
a client answers for has at least M - may_miss members, and at most max_colluding of them collude:
the honest shares in a complete sum suffice alone, whoever is missing. Each answer has a fresh one.

**Pads** are those of (session, purpose, release, set): they add up to what is taken away, or to
zero, within their set alone. Under A and under B they are keyed apart, so no pad hides two
messages: what a client sent for A, and for B, are two words that are uniform and independent to
whoever does not hold the secret. As long as one member of A has not answered for A, so are all
answers for A together: the server learned nothing, and what does not complete released nothing.

**The charge.** A client cannot know that A was not completed. A server that lies about who is gone
holds all answers of A, completes it, asks for B too, and has two sums with independent noise; it
may subtract them, which is post-processing of two releases. So each answer is charged, as one
release, before it leaves; a second set for a round takes one of the repeats of the plan, and
without one left it is refused. Which rounds are repeated, the server may choose with all that it
saw before: what is reserved are the releases of the plan with which all of them cost most.
Different sets told to different clients complete no sum, since each set needs the answer of all its
members; and each client counts its own answers.

**The server's own noise.** Then answers hold no noise, and two totals that get the same noise give
the exact difference of two sums; no client can see whether noise is fresh. So there is one set for
each round: who is gone at its beginning is left out, who goes later holds the round up until it is
back. A trusted server, and an ideal sum, see who answered before they add up: they leave out who
did not, and add noise once.

**Against whom.** A server that follows the protocol learns one noised sum for each round (nothing,
where the clients receive). One that lies about who is gone, names sets as it likes, or drops
answers, learns at most as many noised sums as were charged: rounds and repeats of the plan. It
stands in no client's way to say who was in a sum that it passes on; a wrong set gives the clients
noise for a sum. As before it must not pool what it knows with a client who holds the group secret,
where there is one group secret: the two open single answers, each with one share of noise.
Who is missing, and when, is seen by all. It must not depend on a client's rows: what fails at a
client is answered like a client without rows (`clients`), never by silence.

**Public numbers stay what they are.** n_records and n_clients speak of everybody: as bounds they
hold for those who are left. The default delta, the ranges and the choice of rounds and sizes
follow from them; what is predicted is for everybody there. Divisors of centres are noised counts of
those who answered; averages of models over a public cohort count a missing client as no change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fedclust_helpers._validation import check_int
from fedclust_helpers.federation.plan import ClientsMissingError

if TYPE_CHECKING:
    from fedclust_helpers.federation.trust import TrustModel

Gone = Mapping[int, Sequence[int]]  # release -> clients


class Asked(NamedTuple):
    """Who is asked at once, and those of them who answer; None: everybody."""

    who: tuple[int, ...] | None
    answering: tuple[int, ...] | None

    @property
    def is_complete(self) -> bool:
        """Whether the sum can be had."""
        return self.who == self.answering


class Absences:
    """Who of `n_clients` is gone in a simulation, and when: releases count from 0.

    Clients in `away` are not there when the release begins, those in `silent` are, and do not
    answer.
    """

    def __init__(
        self, n_clients: int, may_miss: int, away: Gone | None, silent: Gone | None
    ) -> None:
        self.n_clients, self.may_miss = n_clients, may_miss
        self._away, self._silent = (
            {t: self._numbers(who, name) for t, who in (given or {}).items()}
            for name, given in (("away", away), ("silent", silent))
        )

    def _numbers(self, who: Sequence[int], name: str) -> frozenset[int]:
        if not all(0 <= i < self.n_clients for i in who):
            raise ValueError(f"{name} must name clients 0 to {self.n_clients - 1}")
        return frozenset(who)

    def sets(self, release: int, *, blind: bool) -> Iterator[Asked]:
        """The sets that are asked for a release, up to the one that is complete.

        `blind`: whoever adds up needs the answers of a whole set. `ClientsMissingError` where too
        many are missing.
        """
        away, silent = (gone.get(release, frozenset()) for gone in (self._away, self._silent))
        if not blind:
            away, silent = away | silent, frozenset()
        self._check(release, away)
        if silent - away:
            yield Asked(self._without(away), self._without(away | silent))
            self._check(release, away | silent)
        left = self._without(away | silent)
        yield Asked(left, left)

    def _check(self, release: int, gone: frozenset[int]) -> None:
        if len(gone) > self.may_miss:
            raise ClientsMissingError(
                f"clients {sorted(gone)} are missing in release {release}, and {self.may_miss} may"
                " be (may_miss)"
            )

    def _without(self, gone: frozenset[int]) -> tuple[int, ...] | None:
        return tuple(i for i in range(self.n_clients) if i not in gone) if gone else None


def honest(trust: TrustModel, n_present: int, may_miss: int, max_colluding: int | None) -> int:
    """Clients who hide one another where others are missing or pool what they know; else 1."""
    usual, n = trust.max_colluding, n_present - may_miss
    if usual is None:
        if max_colluding is not None:
            raise TypeError(f"max_colluding is no option of {trust.title!r}")
        return 1
    if max_colluding is not None:
        usual = max_colluding
    if trust.adder.shares and n_present < 2:
        raise ValueError(
            "clients must be two or more where each adds a share of the noise; for one alone choose"
            " trust='trusted'"
        )
    if n - usual < 1 or (trust.adder.shares and n < 2):
        raise ValueError(
            f"max_colluding must leave an honest client of at least two: {n}"
            + f" (may_miss={may_miss} of them left out)" * bool(may_miss)
        )
    return n - usual


def check_missing(
    trust: TrustModel, n_present: int, may_miss: int, repeats: int
) -> tuple[int, int]:
    """How many clients may be missing, and repeats; refused where there is no way to do so."""
    check_int(may_miss, "may_miss", minimum=0, maximum=n_present - 1)
    if may_miss and not trust.aggregation.can_miss:
        raise ValueError(f"may_miss must be 0: {trust.title} needs the messages of all clients")
    if repeats and not (may_miss and trust.aggregation.blind and trust.adder.shares):
        raise ValueError(
            "repeats must be 0, but where some clients may be missing and each adds a share of the"
            f" noise under masks or in shares: {trust.title}, noise from {trust.adder.words},"
            f" may_miss={may_miss}"
        )
    return may_miss, repeats


def check_left(repeats: int, made: int, round: int) -> None:
    """`ClientsMissingError` where no repeat is left for this round, of those `made` before."""
    if repeats <= made:
        raise ClientsMissingError(
            f"clients did not answer in round {round}, and none of {repeats} repeats is left:"
            " what was asked stays charged"
        )
