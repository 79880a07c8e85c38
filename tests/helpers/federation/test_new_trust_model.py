"""A trust model made by the page (CONTRIBUTING, "A trust model"): a class and a row of a table."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import refuses, words_uniform_p

from fedclust_helpers import fastlloyd
from fedclust_helpers.accounting import PrivacyLedger, Sampling
from fedclust_helpers.client_statistics import TOTAL
from fedclust_helpers.federation import TRUST_MODELS, TrustModel, TrustModelError, simulate
from fedclust_helpers.federation.aggregation import AllEach, Masked, OnceToTotal, Words
from fedclust_helpers.federation.trust import SHARES, TOLD
from fedclust_helpers.mechanisms import NoNoise


class TwoServers(Words):
    """In two additive shares, one for each of two servers, which publish their sums."""

    @property
    def messages_per_number(self):
        """One from each client to each server."""
        return 2 * self.context.n_clients

    def noisy_sum(self, part, values):
        """Each server adds up words that are random to it; together they read the noised sum."""
        words = self.send(part, values)
        some = np.frombuffer(self.context.randomness.bytes(words.nbytes), words.dtype)
        shares = some.reshape(words.shape), words - some.reshape(words.shape)
        for number, share in enumerate(shares):
            self._record(part, "clients", f"server {number}", part.name, share, len(share))
        return self.read(part, sum(self.add(part.mechanism, share) for share in shares))


TWO_SERVERS = TrustModel(
    title="two servers that do not collude", adder=SHARES, receiver="server",
    aggregation=TwoServers, max_colluding=1, no_sampling="both servers see who takes part",
    sees=(("each server", "uniformly random words, and the noised sums"), ("clients", TOLD)),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _row(monkeypatch):
    monkeypatch.setitem(TRUST_MODELS, "two servers", (TWO_SERVERS,))


def made(mixture, trust="two servers", **options):
    return simulate(np.split(mixture, 3), trust, **{"seed": 1} | options)


def test_a_row_of_the_table_plans_charges_and_runs(mixture):
    federation = made(mixture, keep_payloads=True)
    plan = fastlloyd.plan(federation, n_clusters=3, epsilon=2.0)
    result = fastlloyd.run(federation, plan)
    assert plan.total_epsilon == pytest.approx(result.epsilon) and result.epsilon <= 2 * (1 + 1e-9)
    assert "two servers" in str(plan) and "added by every client" in str(plan)
    assert {m.n_honest for release in plan.mechanisms for m in release} == {2}
    sent = [m for m in federation.transcript.messages if m.receiver != "clients"]
    assert plan.n_bytes == sum(m.n_bytes * m.count for m in sent)
    for server in ("server 0", "server 1"):  # false alarm 1e-6 each
        words = [m.payload.ravel() for m in sent if m.receiver == server]
        assert words_uniform_p(np.concatenate(words)) > 1e-6
    exact = [
        fastlloyd.run(f, fastlloyd.plan_lloyd(f, n_clusters=3)).centers
        for f in (made(mixture), made(mixture, "trusted"))
    ]
    assert np.abs(exact[0] - exact[1]).max() < 1e-6


def test_it_runs_in_secure_mode_too(mixture):
    federation = made(mixture, mode="secure", seed=None)
    result = fastlloyd.run(federation, fastlloyd.plan(federation, n_clusters=3, epsilon=2.0))
    assert result.private and np.isfinite(result.centers).all()


def test_a_row_says_what_it_may_not_offer(mixture):
    federation = made(mixture, ledger=PrivacyLedger(unit="client"))
    refuses(TrustModelError, "offers no collect", federation.collect, TOTAL, [NoNoise()], round=0)
    half = Sampling("poisson", rate=0.5)
    refuses(
        TrustModelError, "offers no sampling: both servers", federation.noisy_sum, TOTAL,
        [NoNoise()], round=0, sampling=half,
    )  # fmt: skip
    refuses(TypeError, "max_colluding is no option", made, mixture, "trusted", max_colluding=1)
    row = {"title": "wrong", "aggregation": Masked, "sees": (), "receiver": "server"}
    knows = "a server that reads a sum and knows the noise"
    refuses(ValueError, knows, TrustModel, adder=OnceToTotal("the server"), **row)
    refuses(ValueError, "who is not drawn adds none", TrustModel, adder=SHARES, **row)


def test_noise_of_all_clients_does_not_add_up_unsaid():
    """A sum of messages that are each noised whole holds more noise than its mechanism says."""
    refuses(ValueError, "AllEach", replace, TWO_SERVERS, adder=AllEach("every client"))
