"""Trust models: who adds the noise, who reads the sum, and how it travels.

A trust model is a row of `TRUST_MODELS`. Those of one name differ by the first two choices, and
the first of them is the one that is meant where neither is given.

================  ==============================  ===============================  ========
name              who adds the noise              how messages travel              receiver
================  ==============================  ===============================  ========
trusted           the server                      as they are                      server
ideal             the functionality               not at all: the sum alone does   server
masked            every client, a share           under one-time pads              either
masked            the server, blindly             under one-time pads              clients
serverless        every client, a share           in additive shares, to clients   clients
local             every client, to its message    as they are, by name             server
shuffled          every user, to the report       shuffled, without names          server
================  ==============================  ===============================  ========

To `simulate`, `noise_from` is "clients" where it says every client or user, else "server".

A server that added the noise must never receive the result: it would subtract its noise. Where
results of masked sums are to be published, the clients add it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedclust_helpers._validation import check_choice
from fedclust_helpers.federation.aggregation import (
    Adder,
    Aggregation,
    AllEach,
    Ideal,
    Masked,
    OnceToTotal,
    Shared,
    ShareEach,
)
from fedclust_helpers.federation.local import Named
from fedclust_helpers.federation.shuffled import Shuffling

SHARES = ShareEach("every client (a share each)")
TOLD = "what the server broadcasts"
JOINED = "the server"  # who joins one client reads single messages, each with one share of noise
_BOTH = "a server that reads a sum and knows the noise in it knows the exact sum"


@dataclass(frozen=True, kw_only=True)
class TrustModel:
    """Three choices, and what follows from them in words.

    Attributes
    ----------
    title : str
        Its name in statements.
    adder : Adder
        Who adds the noise.
    receiver : {"server", "clients"}
        Who reads what is released.
    aggregation : type of Aggregation
        How the messages of clients travel.
    sees : tuple of (str, str)
        Who sees what.
    max_colluding : int, optional
        How many clients may pool what they know, unless told otherwise; None where it is no
        question, since nobody's privacy hangs on other clients.
    pooling : str
        Who may pool what they know, as a statement says it; where `max_colluding` counts clients,
        the party that must join none of them.
    no_sampling : str
        Why a cohort would protect nobody, where that is so.

    Examples
    --------
    >>> model = TRUST_MODELS["trusted"][0]
    >>> model.title, model.receiver, model.sees[0]
    ('trusted server', 'server', ('server', "every client's exact statistics"))
    """

    title: str
    adder: Adder
    receiver: Literal["server", "clients"]
    aggregation: type[Aggregation]
    sees: tuple[tuple[str, str], ...]
    max_colluding: int | None = None
    pooling: str = ""
    no_sampling: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.adder, AllEach) and {"noisy_sum", "collect"} & set(
            self.aggregation.offers
        ):
            raise ValueError(
                "adder must be no AllEach where messages are summed: the sum would hold the noise"
                " of all clients, and what is predicted from the noise of one would be wrong"
            )
        if self.aggregation.blind and (self.adder.by, self.receiver) == ("server", "server"):
            raise ValueError(f"receiver must be 'clients' where the server adds the noise: {_BOTH}")
        if self.adder.shares and not (self.no_sampling and self.max_colluding is not None):
            raise ValueError(
                "no_sampling and max_colluding must be given where clients add shares of the noise:"
                " who is not drawn adds none, and who colludes knows one"
            )


# to take the pads away every client must know the cohort
_UNMASK = (
    "every client learns who takes part when it unmasks, so that a hidden cohort would protect"
    " nobody from the clients"
)
TRUST_MODELS: dict[str, tuple[TrustModel, ...]] = {
    "trusted": (
        TrustModel(
            title="trusted server", adder=OnceToTotal("the server"), receiver="server",
            aggregation=Aggregation,
            sees=(("server", "every client's exact statistics"), ("clients", TOLD)),
            pooling="however many clients pool what they know, while the server joins none of them",
        ),
    ),
    "ideal": (
        TrustModel(
            title="ideal secure sum", adder=OnceToTotal("the ideal functionality"),
            receiver="server", aggregation=Ideal,
            sees=(("server", "the noised sums"), ("clients", TOLD)),
            pooling="however many clients pool what they know, with the server too: nobody sees"
            " into the functionality",
        ),
    ),
    "masked": (
        TrustModel(
            title="masked", adder=SHARES, receiver="clients",
            aggregation=Masked, max_colluding=1, pooling=JOINED, no_sampling=_UNMASK,
            sees=(("server", "uniformly random words"), ("clients", "the noised sums")),
        ),
        TrustModel(
            title="masked", adder=SHARES, receiver="server",
            aggregation=Masked, max_colluding=1, pooling=JOINED,
            no_sampling="the pads are 0 together only where everybody takes part",
            sees=(
                ("server", "uniformly random words that add up to the noised sums"),
                ("clients", TOLD),
            ),
        ),
        TrustModel(
            title="masked", adder=OnceToTotal("the server"), receiver="clients",
            aggregation=Masked, no_sampling=_UNMASK,
            pooling="however many clients pool what they know, while none of them joins the server:"
            " the two read every client's exact statistics",
            sees=(
                ("server", "uniformly random words, and the noise it adds: send it no result"),
                ("clients", "the noised sums"),
            ),
        ),
    ),
    "serverless": (
        TrustModel(
            title="serverless", adder=SHARES, receiver="clients", aggregation=Shared,
            max_colluding=1, no_sampling="every node would see who takes part",
            sees=(
                ("clients", "random shares of the others' statistics, and the noised sums"),
            ),
        ),
    ),
    "local": (
        TrustModel(
            title="local", adder=AllEach("every client, to its own message"), receiver="server",
            aggregation=Named, no_sampling="who takes part is no secret",
            pooling="whoever pools what they know: each report has all the noise that it needs",
            sees=(
                ("server", "every user's randomised report, and who sent it"),
                ("other users", TOLD),
            ),
        ),
    ),
    "shuffled": (
        TrustModel(
            title="shuffled", adder=AllEach("every client, to its own message"),
            receiver="server", aggregation=Shuffling, max_colluding=0,
            no_sampling="who takes part is no secret",
            sees=(
                (
                    "shuffler",
                    "every user's ticket and randomised report, and who sent it; it is trusted to"
                    " pass on every user's, in random order and without the sender, and not to"
                    " collude with the server: else each user is left with the local epsilon",
                ),
                ("server", "the tickets and randomised reports of all users in random order"),
                ("other users", TOLD),
            ),
        ),
    ),
}  # fmt: skip


def trust_model(
    trust: str, noise_from: str | None = None, receiver: str | None = None
) -> TrustModel:
    """The row of this name, with these ends if they are given."""
    rows = TRUST_MODELS[check_choice(trust, "trust", tuple(TRUST_MODELS))]
    adders = tuple(dict.fromkeys(row.adder.by for row in rows))
    noise_from = check_choice(noise_from or adders[0], "noise_from", adders)
    receiver = receiver or rows[0].receiver
    fitting = {row.receiver: row for row in rows if row.adder.by == noise_from}
    if receiver not in fitting:
        why = f": {_BOTH}" if receiver == noise_from == "server" else ""
        raise ValueError(
            f"receiver must be {' or '.join(map(repr, fitting))} where trust is {trust!r} and"
            f" noise_from {noise_from!r}{why}"
        )
    return fitting[receiver]
