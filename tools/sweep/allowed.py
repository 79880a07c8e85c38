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


ALLOWED: tuple[Allowed, ...] = (
    Allowed(
        "federation.base.InProcess.follow", "plan|progress", "*", "nonsense accepted",
        "a context checks when it is entered, before anything is released",
    ),
    Allowed(
        "federation.data.ClientData.from_owners", "owners", "text", "nonsense accepted",
        "owners are numbers or names",
    ),
    Allowed(
        "federation.in_process.*SecureSum", "seed", "number", "nonsense accepted",
        "a seed is a whole number or a SeedSequence",
    ),
    Allowed(
        "federation.in_process.*", "n_records|n_labels|ledger", "none", "nonsense accepted",
        "None is their default: the true number, public then; a ledger of its own",
    ),
    Allowed(
        "accounting.shuffling.shuffled_epsilon", "n_users", "huge", "hang or memory",
        "600,000 counts of a crowd of 10^9 are summed some 35 times: half a minute",
    ),
    Allowed(
        "rr_cluster.designs.compare_designs", "cohorts|n_clients", "none|huge", "hang or memory",
        "the default compares twelve designs, and eight accountants of cohorts take 5 s",
    ),
    Allowed(
        "audit.sensitivity.search_sensitivity", "n_steps", "huge", "hang or memory",
        "a search of as many steps as one asks for",
    ),
    Allowed(
        "estimators.*KMeans|estimators.*.RRCluster", "*", "[!v]*|very negative",
        "nonsense accepted|nan or wrong",
        "scikit-learn: a constructor keeps its arguments as they are, fit checks them",
    ),
    Allowed(
        "kmeans.assign|kmeans.kmeans_cost|metrics.nicv", "points|centers", "huge", "nan or wrong",
        "squared distances beyond 1.8e308 are inf: the true value has no float",
    ),
    Allowed(
        "accounting.conversions.gdp_epsilon|accounting.conversions.zcdp_epsilon", "mu|rho", "huge",
        "nan or wrong", "no finite epsilon covers so large a privacy loss: inf is the answer",
    ),
    Allowed(
        "metrics.davies_bouldin", "points|centers", "one", "nan or wrong",
        "the index of two equal centres is inf by its definition, and documented so",
    ),
    Allowed(
        "mechanisms.*.sample", "shape", "list", "nonsense accepted",
        "a shape may be a list, as everywhere in NumPy; its entries are checked",
    ),
    Allowed(
        "mechanisms.NoNoise", "sensitivity", "inf", "nonsense accepted",
        "inf is the default: without noise nothing bounds what one record shows",
    ),
    Allowed(
        "federation.transcript.Transcript.record|accounting.ledger.PrivacyLedger.[cl]*", "round",
        "negative|very negative", "nonsense accepted",
        "a label only: what comes before round 0 (key agreement) is recorded under -1",
    ),
    Allowed(
        "federation.transcript.Transcript.record", "array|payload", "nan|inf|complex|text|stranger",
        "nonsense accepted", "a record keeps what was sent as it was sent, and judges nothing",
    ),
    Allowed(
        "rr_cluster.models.*", "models", "nan|inf",
        "nonsense accepted",
        "models that diverge in training stay models: a run that has begun goes on to its end",
    ),
    Allowed(
        "rr_cluster.models.SoftmaxRegression.accuracy|rr_cluster.models.SoftmaxRegression.losses",
        "models", "huge", "nan or wrong",
        "squared errors beyond 1.8e308 are inf: the true value has no float",
    ),
    Allowed(
        "rr_cluster.models.SoftmaxRegression.train", "proximal", "huge", "nan or wrong",
        "steps that overshoot diverge; documented: an update that is not finite counts as zero",
    ),
    Allowed(
        "rr_cluster.models.*|rr_cluster.planning.Training", "learning_rate|server_rate",
        "above one|huge", "nonsense accepted",
        "the length of a step is no share: every positive number is one",
    ),
    Allowed(
        "kmeans.sums_and_counts", "radius", "inf", "nonsense accepted",
        "no point is farther than inf: the same as None",
    ),
    Allowed(
        "ldp_kmeans.frequency_oracles.Bitstogram.heavy_hitters", "n_sd", "inf|-inf|negative",
        "nonsense accepted",
        "-inf keeps every candidate, as the tests do, and inf keeps none: no threshold is wrong",
    ),
    Allowed(
        "accounting.ledger.PrivacyLedger.charge|accounting.ledger.PrivacyLedger.check", "group",
        "none", "nonsense accepted", "None stands for no group, as in the signature of `line`",
    ),
    Allowed(
        "client_statistics.base.ClientMemory.put", "rows", "nan|inf", "nonsense accepted",
        "models that diverge in training stay models: a run that has begun goes on to its end",
    ),
    Allowed(
        "client_statistics.base.ClientStatistic.sensitivity_of", "no_such_argument", "*",
        "nonsense accepted", "all public numbers of a run pass here: a statistic reads its own",
    ),
    Allowed(
        "estimators.*KMeans.*", "y", "*", "nonsense accepted",
        "scikit-learn: y is there for pipelines only, and documented as not used",
    ),
    Allowed(
        "ldp_kmeans.frequency_oracles.OneBitCounts.respond", "points", "fewer columns",
        "unclear error",
        "the error of the caller's own `encode`; `check` refuses it before users are asked",
    ),
    Allowed(
        "ldp_kmeans.frequency_oracles.one_array", "kinds", "*", "unclear error",
        "a literal of the queries, which share this check",
    ),
    Allowed(
        "federation.reports.as_words", "values", "*", "unclear error",
        "the message calls the argument what the caller's `name` says",
    ),
    Allowed(
        "mechanisms.DiscreteGaussian.sample_steps", "shape", "twice", "hang or memory",
        "so many numbers take their time; the documented limit is 2^30 at once",
    ),
)  # fmt: skip


def reason(case: Case) -> str:
    """Why the case is no offence, or ""."""
    return next((a.reason for a in ALLOWED if a.matches(case)), "")


# callables that no quick test calls, and why they are left out
NEVER_SWEPT: dict[str, str] = {
    "datasets.loaders.load_adult": "reads files that a fresh machine does not have",
    "datasets.loaders.load_fashion_mnist": "reads files that a fresh machine does not have",
    "datasets.loaders.load_birch2": "reads files that a fresh machine does not have",
    "datasets.loaders.load_breast_wisconsin": "reads files that a fresh machine does not have",
    "datasets.loaders.load_lsun": "reads files that a fresh machine does not have",
    "datasets.loaders.load_mnist": "reads files that a fresh machine does not have",
    "datasets.loaders.load_s1": "reads files that a fresh machine does not have",
    "datasets.loaders.load_wine": "reads files that a fresh machine does not have",
    "datasets.loaders.load_yeast": "reads files that a fresh machine does not have",
    "federation.shuffled.ShuffledReports.gaussian_report": "refuses every call",
    "fastlloyd.planning.plan_glloyd": "only slow tests call it",
    "fastlloyd.planning.plan_lloyd": "only slow tests call it",
    "fastlloyd.planning.plan_sulloyd": "only slow tests call it",
    "feddp_kmeans.baselines.server_kmeanspp": "only slow tests call it",
    "feddp_kmeans.baselines.sphere_packing_start": "only slow tests call it",
    "ldp_kmeans.baselines.plan_gaussian_reports": "only slow tests call it",
    "ldp_kmeans.planning.LocalPlan": "only slow tests call it",
    "ldp_kmeans.frequency_oracles.Query": "a base class: its kinds are swept",
    "ldp_kmeans.local_randomizers.PureReport": "a base class: its kinds are swept",
}
