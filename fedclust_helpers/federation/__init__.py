"""Federations: who holds the data, who sees what, and the record of both.

An algorithm is written once against the weakest capability that it needs:

* ``noisy_sum``: only a noised sum over all clients ever leaves the boundary (`SumFederation`);
* ``collect``: a trusted server sees each client's exact message (`TrustedServer`);
* ``reports``: each client adds its own noise; ``ask``: each user answers a randomised question
  (`LocalReports`; `ShuffledReports` with a shuffler between users and server).

Who learns what is released is part of it: ``federation.facts.receiver``.

=====================  =====================  ==========================  ========  ================
class                  the server sees        other clients see           receiver  noise from
=====================  =====================  ==========================  ========  ================
`TrustedServer`        every exact message    what the server broadcasts  server    server
`IdealSecureSum`       the noised sum         what the server broadcasts  server    functionality
`MaskedSecureSum`      uniform random words   the noised sum              clients   server, blindly,
                                                                                    or every client
`ServerlessSecureSum`  (there is none)        the noised sum              clients   every client
`LocalReports`         noised messages        what the server broadcasts  server    each client
`ShuffledReports`      those, without names   what the server broadcasts  server    each client
=====================  =====================  ==========================  ========  ================

A masked server that added the noise must never receive the result: it would subtract its noise.
Where results are to be published, the clients add it (``noise_from="clients"``).

Plan, then run: a paper's ``plan`` fixes everything public before the first message, from the
federation that will run it (`FederationFacts`, and its one factory of noise, ``gaussian`` and
``laplace``); ``federation.follow(plan)`` makes the releases of the plan and no others. It follows
plans of planners (`planner`) only, unchanged.

Releases of client-level statistics may be of a cohort, where the receiver does not learn it: the
federation draws it itself, anew for each release, and charges the ledger with the `Sampling`. What
a client keeps from round to round (`client_memory`) crosses no wire.

All of them run here in one process, for teaching, testing and sweeps. With one seed and one noise
the answers of the sum federations agree up to fixed-point rounding: that is their contract test.
(Where clients add the noise in shares there is a little more of it.) A federation holds
keys, pads and generators: it is not copied, pickled or used after a fork.
"""

from fedclust_helpers.federation.base import InProcess, SumFederation, require
from fedclust_helpers.federation.data import ClientData, ClippedDataWarning
from fedclust_helpers.federation.following import planner
from fedclust_helpers.federation.in_process import (
    TRUST_MODELS,
    IdealSecureSum,
    MaskedSecureSum,
    ServerlessSecureSum,
    TrustedServer,
    simulate,
)
from fedclust_helpers.federation.local import LocalReports, UserSplit
from fedclust_helpers.federation.plan import (
    FederationFacts,
    Plan,
    PlanMismatchError,
    PlannedRelease,
    RunResult,
    TrustModelError,
)
from fedclust_helpers.federation.randomness import Randomness
from fedclust_helpers.federation.shuffled import ShuffledReports
from fedclust_helpers.federation.transcript import Message, Transcript
