"""What all parties agree on before the first message: one file, the same at every party.

Nothing of it is ever taken from the wire. Each party makes the plan for itself, from its own copy,
and what they compare are hashes of study and plan (module `keys`).
"""

from __future__ import annotations

import difflib
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedclust import describing
from fedclust.flower.messages import SERVER
from fedclust_helpers import fastlloyd, feddp_kmeans, ldp_kmeans, rr_cluster
from fedclust_helpers._checked import checked
from fedclust_helpers._validation import (
    FloatArray,
    as_bound,
    check_choice,
    check_instance,
    check_int,
    check_positive,
)
from fedclust_helpers.accounting.entries import ADJACENCIES, UNITS
from fedclust_helpers.datasets import scale_from_box, scale_to_box
from fedclust_helpers.federation import Federation, Plan
from fedclust_helpers.program import Algorithm, Execution, Run, run
from fedclust_helpers.rr_cluster import models
from fedclust_helpers.secure_aggregation import SECRET_BYTES

RINGS = ("masked", "serverless")  # trust models whose clients send words of a ring
KEYS = {  # what the clients add to a draft of a study, one of each for each client
    "public_keys": (f"[0-9a-f]{{{2 * SECRET_BYTES}}}", "keys of 32 bytes in hexadecimal"),
    "node_keys": ("ecdsa-sha2-nistp384 [A-Za-z0-9+/]+=*", "keys of SuperNodes in OpenSSH's form"),
    "sealed": (f"[0-9a-f]{{{2 * (SECRET_BYTES + 28)}}}", "sealed group secrets in hexadecimal"),
}  # fmt: skip

NOT_OFFERED = {
    "ideal": "no party of a network is ideal; take 'masked', or a server that is 'trusted'",
    "shuffled": "Flower tells its server who sent a message; take 'local'",
}
ENDS = {  # who adds the noise, and who learns the result
    "serverless": ("clients", "clients"), "trusted": ("server", "server"),
    "local": ("clients", "server"),
}  # fmt: skip


METHODS: dict[str, Algorithm] = {
    "fastlloyd": fastlloyd.FASTLLOYD, "fastlloyd_overclustered": fastlloyd.OVERCLUSTERED,
    "feddp_kmeans": feddp_kmeans.FEDDP, "sums_only": rr_cluster.SUMS_ONLY,
    "ldp_one_round": ldp_kmeans.ONE_ROUND, "ldp_sketch": ldp_kmeans.SKETCH,
    "private_bounds": describing.BOUNDS, "private_summary": describing.SUMMARY,
}  # fmt: skip


@checked
@dataclass(frozen=True, kw_only=True)
class Study:
    """A run over a network, in public numbers.

    Parameters
    ----------
    run : str
        The name of this run. No client takes part twice in a run of the same agreement.
    method : str
        What runs: "fastlloyd", "fastlloyd_overclustered", "feddp_kmeans", "sums_only",
        "ldp_one_round", "ldp_sketch", "private_bounds" or "private_summary", the names in
        `METHODS`.
    options : mapping
        The arguments of the method's planner, in the same order `fastlloyd.plan`,
        `fastlloyd.plan_overclustered`, `feddp_kmeans.plan` ("clips": the fields of `ClipBounds`),
        `rr_cluster.plan_sums_only` ("training": the fields of `Training` but for the cohort, and
        for "model" a mapping of its "kind" and sizes), `ldp_kmeans.plan`, `ldp_kmeans.plan_sketch`,
        `describing.plan_bounds`, `describing.plan_summary`.
    n_clients : int
        All of them take part in every round, but for those who may be missing.
    n_records : int
        The public number N of all rows, or a bound or guess of it.
    n_features : int
        The number d of columns.
    bound : float
        Every client cuts its rows to [-bound, bound]^d, or to the length `bound`: what one row can
        change, and so the noise, follows from it.
    domain : {"box", "ball", "raw"}
        Which of the two; local reports need the ball. Private bounds and summaries take rows as
        they are ("raw"), with missing numbers (nan), and without `lower` and `upper`.
    columns : list of str, optional
        Names of the columns, in their order. Rows that have names must have these.
    lower, upper : float or array_like of shape (d,), optional
        Public bounds of the columns in the units of the rows: every client maps the box between
        them to [-bound, bound]^d first (local reports: to the cube inside that ball). Without them
        rows are in the units of `bound`.
    n_labels : int, optional
        Public number of classes, where models classify.
    unit : {"point", "client", "person"}
        What the ledger of every client protects: one row, or all that one client (person) holds.
    adjacency : {"add/remove", "replace-one"}
        What of it is hidden: that it is there at all, or which of all values it has.
    trust : {"masked", "serverless", "local", "trusted"}
        As for `federation.simulate`; in "serverless" what Flower calls the server is a relay, and a
        "trusted" one sees exact statistics.
    noise_from : {"server", "clients"}
        Masked: who adds the noise. Otherwise fixed (`ENDS`): the clients where there is no server
        and for local reports, a trusted server itself.
    receiver : {"server", "clients"}
        Masked: who reads the sums. Where the clients do, each of them computes the algorithm for
        itself; where the server does, it broadcasts. Otherwise fixed: the clients where there is no
        server, else the server.
    bits : {32, 64}
        Masked and serverless: length of the whole numbers that are added up.
    fractional_bits : int, optional
        So many of these bits stand behind the point: 30 of 64 or 16 of 32 by default.
    max_colluding : int
        The promise holds while at most so many clients pool what they know: the others' shares of
        the noise suffice alone. With 0 it holds against nobody who takes part.
    may_miss : int
        So many clients may be missing in each round, not for local reports.
    repeats : int
        So many rounds may be asked of a second set of clients, each of which costs as much as a
        round: where clients add the noise and their messages are masked (module
        `federation.missing`).
    clients : list of str, optional
        Names of the clients, in the order of their numbers: letters, digits, "-" and "_".
    server : str, optional
        Where the server listens, "name:port"; `certificate` (PEM) says who it is.
    public_keys : list of str, optional
        Each client's X25519 public key, in hexadecimal. The clients compare the agreement, which
        these are part of. Without them the study is a draft; one without a server cannot run so.
    node_keys : list of str, optional
        Public keys by which the server knows the clients' SuperNodes.
    sealed : list of str, optional
        The group secret, which the first client drew, sealed for each client (module `keys`).
    users : list of int
        Local: how many users each room answers for, together `n_records`. Users are numbered room
        by room. By default each room is one user.
    seed : int, optional
        Teaching mode, private against nobody who knows it. Secure mode without.
    public_seed : int
        Of public choices in secure mode: starting centres, the server's own k-means.
    server_points : nested list of shape (q, d)
        Public points in the units of `bound`, for feddp_kmeans: every party has them.
    """

    run: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    n_clients: int
    n_records: int
    n_features: int
    bound: float = 1.0
    domain: str = "box"
    columns: Sequence[str] | None = None
    lower: Any = None
    upper: Any = None
    n_labels: int | None = None
    unit: str = "point"
    adjacency: str = "add/remove"
    trust: str = "masked"
    noise_from: Literal["server", "clients"] = "clients"
    receiver: Literal["server", "clients"] = "clients"
    bits: Literal[32, 64] = 64
    fractional_bits: int | None = None
    max_colluding: int = 1
    may_miss: int = 0
    repeats: int = 0
    seed: int | None = None
    public_seed: int = 0
    server_points: Any = None
    users: Sequence[int] | None = None
    clients: Sequence[str] | None = None
    server: str | None = None
    certificate: str | None = None
    public_keys: Sequence[str] | None = None
    node_keys: Sequence[str] | None = None
    sealed: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not check_instance(self.run, str, "run") or len(self.run) > 100:
            raise ValueError("run must be a name of 1 to 100 letters")
        check_choice(self.method, "method", tuple(METHODS))
        check_instance(self.options, Mapping, "options")  # type: ignore[type-abstract]
        check_int(self.n_clients, "n_clients", maximum=SERVER - 1)
        for name in ("n_records", "n_features"):
            check_int(getattr(self, name), name)
        check_positive(self.bound, "bound")
        check_choice(self.unit, "unit", UNITS)
        check_choice(self.adjacency, "adjacency", ADJACENCIES)
        check_choice(self.domain, "domain", ("box", "ball", "raw"))
        if self.domain == "raw" and self.lower is not None:
            raise ValueError("lower and upper must be None where domain is 'raw'")
        if self.seed is not None:
            check_int(self.seed, "seed", minimum=0)
        for name in ("public_seed", "max_colluding", "may_miss", "repeats"):
            check_int(getattr(self, name), name, minimum=0)
        if self.trust in NOT_OFFERED:
            raise ValueError(f"trust {self.trust!r} is not offered here: {NOT_OFFERED[self.trust]}")
        check_choice(self.trust, "trust", ("masked", *ENDS))
        for name, end in zip(("noise_from", "receiver"), ENDS.get(self.trust, ()), strict=False):
            if getattr(self, name) != end:
                raise ValueError(f"{name} must be {end!r} where trust is {self.trust!r}")
        self._check_columns()
        self._check_parties()
        self._check_users()
        if self.method == "sums_only" and self.receiver == "server":
            raise ValueError(
                "receiver must be 'clients' for sums_only: a model is not sent over the wire, each"
                " client has it from its own copy of the study"
            )

    def _check_columns(self) -> None:
        names = self.columns
        if names is not None and not len({*names}) == len(names) == self.n_features:
            raise ValueError(f"columns must be a list of {self.n_features} different names")
        if (self.lower is None) != (self.upper is None):
            raise ValueError("lower and upper must both be given, or neither")
        if self.lower is not None:
            sides = [as_bound(getattr(self, n), n, self.n_features) for n in ("lower", "upper")]
            if not (sides[0] < sides[1]).all():
                raise ValueError("upper must be greater than lower in every column")
            for name, side in zip(("lower", "upper"), sides, strict=True):
                object.__setattr__(self, name, side.tolist())  # one form, in every agreement

    def scaled(self, rows: FloatArray) -> FloatArray:
        """Rows (n, d) in the units of `bound`, from those of `lower` and `upper`, if any."""
        if self.lower is None:
            return rows
        rows = scale_to_box(rows, self.lower, self.upper, bound=self.bound)
        if self.trust == "local":  # the whole box fits into the ball, as for LocalKMeans
            rows = rows * (1 / np.sqrt(self.n_features))
        return rows

    def in_units(self, centers: FloatArray) -> FloatArray:
        """Centres (k, d) in the units of `lower` and `upper`: what `scaled` did, undone."""
        if self.lower is None:
            return centers
        if self.trust == "local":
            centers = centers * np.sqrt(self.n_features)
        sides = np.asarray(self.lower), np.asarray(self.upper)
        return scale_from_box(centers, *sides, bound=self.bound)

    def _check_parties(self) -> None:
        if self.clients is not None and not (
            self._one_each(self.clients, "(?!(?i:server)$)[A-Za-z0-9_-]{1,40}")
            and self._one_each([name.lower() for name in self.clients], ".*")
        ):
            raise ValueError(
                f"clients must be {self.n_clients} different names of letters, digits, - and _, not"
                " in capitals alone, and none of them server: each has a folder"
            )
        place = r"[A-Za-z0-9._-]+:[0-9]{1,5}|\[[0-9a-fA-F:]+\]:[0-9]{1,5}"
        if self.server is not None and not re.fullmatch(place, str(self.server)):
            raise ValueError("server must be name:port, for example fed.example.org:8765")
        if self.server is not None and not 0 < int(self.server.rpartition(":")[2]) < 2**16:
            raise ValueError(f"server must have a port from 1 to 65535, got {self.server}")
        for name, (form, words) in KEYS.items():
            keys = getattr(self, name)
            if keys is not None and not self._one_each(keys, form):
                raise ValueError(
                    f"{name} must be {self.n_clients} different {words}, one for each client"
                )

    def _one_each(self, found: Any, form: str) -> bool:
        """Whether these are different texts of this form, one for each client."""
        return (
            isinstance(found, Sequence)
            and all(re.fullmatch(form, str(each)) for each in found)
            and len(found) == self.n_clients == len(set(found))
        )

    def _check_users(self) -> None:
        if self.trust != "local":
            if self.users is not None:
                raise ValueError("users must be given where trust is 'local' only")
            return
        users = [1] * self.n_clients if self.users is None else self.users
        each = [check_int(n, "users") for n in check_instance(users, Sequence, "users")]  # type: ignore[type-abstract]
        if len(each) != self.n_clients or sum(each) != self.n_records:
            raise ValueError(
                f"users must be {self.n_clients} numbers, one for each room, with the sum"
                f" n_records={self.n_records}"
            )

    def users_of(self, number: int) -> range:
        """The numbers of the users for whom room `number` answers (local)."""
        check_int(number, "number", minimum=0, maximum=self.n_clients - 1)
        each = self.users or (1,) * self.n_clients
        first = sum(each[:number])
        return range(first, first + each[number])

    @property
    def federation_options(self) -> dict[str, Any]:
        """What a federation of this study is made with; data, ledger and secret come on top."""
        names = "n_clients n_records n_labels bound domain may_miss repeats".split()
        if self.trust in RINGS:
            names += "bits fractional_bits".split()
            names += ["max_colluding"] if self.noise_from == "clients" else []
        if self.trust == "masked":
            names += "noise_from receiver".split()
        given = {name: getattr(self, name) for name in names}
        if self.trust == "local":
            given["n_clients"] = self.n_records  # its clients are the users
        mode: dict[str, Any] = {"mode": "secure"} if self.seed is None else {"seed": self.seed}
        return given | mode

    def planned(self, federation: Federation) -> Plan:
        """The plan of this study, made by the federation that will run it."""
        options = dict(self.options)
        if self.method == "feddp_kmeans":
            options["server_points"] = self.server_points
            if options.get("clips") is not None:
                options["clips"] = feddp_kmeans.ClipBounds(**options["clips"])
        if self.method == "sums_only":
            options["training"] = _training(options.get("training", {}), self.n_clients)
        plan = METHODS[self.method].planner()(federation, **options)
        federation.facts.check_delta(plan.delta)
        return plan

    def execution(self, federation: Federation, plan: Plan) -> Execution:
        """A party's execution of the plan; what it decides alone follows from `public_seed`."""
        return Execution(federation, plan, rng=np.random.default_rng(self.public_seed))

    def follow(self, federation: Federation, plan: Plan) -> Run:
        """The same in one process, where `federation` holds everybody's rows."""
        return run(federation, plan, rng=np.random.default_rng(self.public_seed))

    def to_json(self) -> str:
        """The study as a file that `from_json` reads."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Study:
        """The study of a file; ValueError for what is none, or for an unknown field."""
        try:
            found = json.loads(text)
        except ValueError as error:
            at = f"line {error.lineno}: " if isinstance(error, json.JSONDecodeError) else ""
            raise ValueError(f"{at}text must be a JSON object") from None
        if not isinstance(found, dict):
            raise ValueError("text must be a JSON object")
        known = [f.name for f in fields(cls)]
        if unknown := sorted(found.keys() - {*known}):
            close = difflib.get_close_matches(unknown[0], known, 1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"a study has no field {unknown[0]!r}{meant}")
        needed = [n for n, p in inspect.signature(cls).parameters.items() if p.default is p.empty]
        if missing := [name for name in needed if name not in found]:
            raise ValueError(f"a study must have the field {missing[0]!r}")
        return cls(**found)

    @classmethod
    def read(cls, path: Path | str) -> Study:
        """The study in the file `path`, which a ValueError names."""
        path = Path(path)
        try:
            return cls.from_json(path.read_text(encoding="utf-8-sig"))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path.name}: {error}") from None


# --- options that are not numbers -----------------------------------------------------------------


def _training(options: dict[str, Any], n_clients: int) -> rr_cluster.Training:
    """From "training" with its "model" by name; everyone takes part in each round."""
    own = dict(options)
    form = dict(own.pop("model", {}))
    model = MODELS[check_choice(form.pop("kind", None), "model kind", tuple(MODELS))]
    return rr_cluster.Training(model=model(**form), cohort=n_clients, **own)


MODELS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (models.SoftmaxRegression, models.OneHiddenLayer, models.LinearRegression)
}
