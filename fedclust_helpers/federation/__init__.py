"""Federations: who holds the data, who sees what, and the record of both.

An algorithm is written once against the weakest capability that it needs:

* ``noisy_sum``: only a noised sum over all clients ever leaves the boundary (`SumFederation`);
* ``collect``: a trusted server sees each client's exact message (`CollectFederation`);
* ``reports``: each client adds its own noise; ``ask``: each user answers a randomised question
  (`LocalReports`, `local_users`).

Five in-process implementations differ in what each party sees:

=====================  =====================  ==============================  =================
class                  the server sees        other clients see               noise is added by
=====================  =====================  ==============================  =================
`TrustedServer`        every exact message    what the server broadcasts      server
`IdealSecureSum`       the noised sum         what the server broadcasts      ideal functionality
`MaskedSecureSum`      uniform random words   the noised sum                  server, blindly
`ServerlessSecureSum`  (there is none)        the noised sum                  every node
`LocalReports`         noised messages        what the server broadcasts      each client
=====================  =====================  ==============================  =================

Releases of client-level statistics may be of a cohort: the federation draws it itself, anew for
each release, and charges the ledger with the `Sampling`. Who was drawn is never part of a result.
What a client keeps from round to round (`client_memory`) crosses no wire.

All of them run here in one process, for teaching, testing and sweeps. The same-seed answers of the
sum federations agree up to fixed-point rounding: that is their contract test.
"""

from fedclust_helpers.federation.base import SumFederation, require
from fedclust_helpers.federation.data import ClientData, ClippedDataWarning
from fedclust_helpers.federation.in_process import (
    TRUST_MODELS,
    IdealSecureSum,
    MaskedSecureSum,
    ServerlessSecureSum,
    TrustedServer,
    simulate,
)
from fedclust_helpers.federation.local import LocalReports, UserSplit, local_users
from fedclust_helpers.federation.plan import (
    FederationFacts,
    Plan,
    PlanMismatchError,
    PlannedRelease,
    RunResult,
    TrustModelError,
)
from fedclust_helpers.federation.randomness import Randomness
from fedclust_helpers.federation.transcript import Message, Transcript

__all__ = [
    "TRUST_MODELS",
    "ClientData",
    "ClippedDataWarning",
    "FederationFacts",
    "IdealSecureSum",
    "LocalReports",
    "MaskedSecureSum",
    "Message",
    "Plan",
    "PlanMismatchError",
    "PlannedRelease",
    "Randomness",
    "RunResult",
    "ServerlessSecureSum",
    "SumFederation",
    "Transcript",
    "TrustModelError",
    "TrustedServer",
    "UserSplit",
    "local_users",
    "require",
    "simulate",
]
