"""Federations: who holds the data, who sees what, and the record of both.

An algorithm is written once against the weakest capability that it needs:

* ``noisy_sum``: only a noised sum over all clients ever leaves the boundary;
* ``collect``: a trusted server sees each client's exact message;
* ``members``: each client's noised identifier, then noised sums by groups of clients;
* ``reports``: each client adds its own noise; ``ask``: each user answers a randomised question,
  perhaps with a shuffler between users and server.

There is one `Federation`. Its trust model is a row of `TRUST_MODELS`: who adds the noise, who reads
what is released (``federation.facts.receiver``), and how it travels; `simulate` makes one by name.

Plan, then run: a paper's ``plan`` fixes everything public before the first message, from the
federation that will run it (`FederationFacts`, and its one factory of noise, ``gaussian`` and
``laplace``); ``federation.follow(plan)`` makes the releases of the plan and no others, and follows
plans that their planner vouched for, unchanged.

Releases of client-level statistics may be of a cohort, where the receiver does not learn it: the
federation draws it itself, anew for each release, and charges the ledger with the `Sampling`. What
a client keeps from round to round (`client_memory`) crosses no wire.

All of them run here in one process, for teaching, testing and sweeps. With one seed and one noise
the answers of those with sums agree up to fixed-point rounding: that is their contract test.
(Where clients add the noise in shares there is a little more of it.) A federation holds
keys, pads and generators: it is not copied, pickled or used after a fork.

>>> import numpy as np
>>> from fedclust_helpers.client_statistics import TOTAL
>>> from fedclust_helpers.mechanisms import Gaussian
>>> federation = simulate([np.ones((5, 1)), np.ones((3, 1))], "trusted", seed=0)
>>> federation.noisy_sum(TOTAL, [Gaussian(1.0, 0.5)], round=0)[0].round(1)
array([8.4])
>>> [(m.sender, m.receiver, m.name) for m in federation.transcript.messages]
[('clients', 'server', 'total')]
"""

from fedclust_helpers.federation.data import ClientData, ClippedDataWarning
from fedclust_helpers.federation.federation import Federation
from fedclust_helpers.federation.local import UserSplit
from fedclust_helpers.federation.plan import (
    ClientsMissingError,
    FederationFacts,
    Plan,
    PlanMismatchError,
    PlannedRelease,
    TrustModelError,
)
from fedclust_helpers.federation.randomness import Randomness
from fedclust_helpers.federation.simulation import simulate
from fedclust_helpers.federation.transcript import Message, Transcript
from fedclust_helpers.federation.trust import TRUST_MODELS, TrustModel

__all__ = [
    "ClientData", "ClientsMissingError", "Federation", "Plan",
    "PlanMismatchError", "Randomness", "simulate", "Transcript", "TRUST_MODELS", "TrustModel",
    "TrustModelError",
]  # fmt: skip
