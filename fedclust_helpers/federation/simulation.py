"""Federations in one process."""

from __future__ import annotations

from typing import Any

from fedclust_helpers.federation.federation import Federation
from fedclust_helpers.federation.trust import trust_model


def simulate(clients: Any, trust: str = "masked", **options: Any) -> Federation:
    """A federation in one process, by the name of its trust model.

    Parameters
    ----------
    clients
        ClientData or a sequence of arrays (n_i, d); where users answer for themselves ("local",
        "shuffled") also one array (n, d) of users who hold one row each.
    trust : {"trusted", "ideal", "masked", "serverless", "local", "shuffled"}
        Who adds the noise, who reads and how a sum travels: a row of `TRUST_MODELS`.
    noise_from, receiver : {"server", "clients"}, optional
        The first two of these choices, where the name leaves them open: "masked" alone is the
        clients, twice. The paper's FastLloyd has the server's noise.
    seed : int or SeedSequence, or mode="secure"
        Teaching mode is reproducible and private against nobody who knows the seed; secure mode
        takes all noise and keys from the operating system.
    bound : float, domain : {"box", "ball", "raw"}
        Rows are kept in [-bound, bound]^d, or within length `bound` (users by default), or as they
        are, with missing numbers: then for statistics that take them so, such as those of bounds.
    ledger : PrivacyLedger, or budget : Budget
        The ledger of the data set, which also says what is protected; by default a new one.
    n_records, n_clients, n_labels : int, optional
        Public numbers, or bounds of them; without the first two the true ones are public.
    noise : {"auto", "continuous", "discrete"}
        The kind of noise; discrete in secure mode.
    keep_payloads : bool
        Whether the transcript keeps what was sent.
    max_colluding : int, optional
        So many clients (shuffled: users) may pool what they know: the others suffice alone. Where
        clients add shares of the noise 1 by default.
    may_miss : int
        So many clients may be missing in each release: shares of noise are sized for the others.
    repeats : int
        So many releases may be asked of a second set of clients, where some of the first did not
        answer; the plan reserves what they cost. Where clients add shares of the noise under masks.
    away, silent : mapping of int to list of int, optional
        Who is gone, for lessons and tests: of each release (from 0) the clients who are not there
        when it begins, and those who are and do not answer. `ClientsMissingError` where these are
        more than `may_miss`, or no repeat is left.
    public_data : bool
        Whether something was read off the rows without noise, because they were declared public
        (bounds, say): then no run calls itself private.
    bits : {64, 32}, fractional_bits : int, optional
        Length of the words that are summed ("masked", "serverless"), 30 or 16 behind the point.
    pre_shared_secret : bytes, optional
        A secret of 32 bytes that the clients of a masked sum hold already.
    """
    ends = (options.pop(name, None) for name in ("noise_from", "receiver"))
    return Federation(clients, trust_model(trust, *ends), **options)
