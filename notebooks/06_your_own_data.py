# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # From your table to centres that you may publish
#
# *For people with data. No new paper: scikit-learn estimators ("doors") to the methods of notebooks 01
# to 04, what to decide before you open one, and what to show afterwards. 75 minutes of reading. Runs
# offline, in about 30 s on 2 cores.*
#
# Five clinics keep a table of visits. You want groups of visits, you may not pool the rows, and in the
# end you must say what was protected, from whom, and what it cost.
#
# **You will be able to**
#
# 1. **go** from a CSV file to centres with a privacy statement, in ten lines,
# 2. **choose** trust model, bounds, k and ε without spending any budget,
# 3. **share** one budget over many months, and **avoid** seven mistakes.
#
# **You need** the words of notebook [00](00_start_here.ipynb): ε, δ, neighbours, bounds.
#
# | who | holds | sees | must trust |
# |---|---|---|---|
# | **a clinic** | its own rows, its own labels | the noised sums | the others to follow the protocol, and none to join the server |
# | **the server** | nothing | random words, then what the clinics publish | nobody |
# | **you, the reader of the result** | centres, statement | the same | the clinics, that bounds were public |
#
# That is the default, masked secure aggregation. Section 2 compares it with six others.
#
# ## Notation
#
# There is one [table of symbols](../docs/symbols.md) for all notebooks. These are needed here:
#
# | symbol | meaning | in code |
# |---|---|---|
# | $\epsilon$, $\delta$ | the privacy budget | `EPSILON`, `DELTA` |
# | $n$ | number of records, all clients together (in 03: users) | `N` |
# | $M$ | number of clients | `M` |
# | $k$ | number of clusters | `K` |

# %%
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import display
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer

from fedclust_helpers import estimators
from fedclust_helpers.accounting import Budget, PrivacyLedger
from fedclust_helpers.estimators import FastLloydKMeans, LocalKMeans
from studies.bench.plots import show
from studies.bench.style import use_style
from studies.own_data import experiments, figures, lesson
from studies.own_data import widget as play

# %% tags=["settings"]
SEED = 6
EPSILON, DELTA = 1.0, 1e-5  # budget of one fit
K = 4  # clusters
N, M = 6000, 5  # visits, clinics
N_MONTHS = 3  # fits that the budget is meant for
N_REPEATS = 4  # runs of each plan in a rehearsal

# %%
check, stream, _ = lesson.begin(globals())
use_style()
folder = Path((here := TemporaryDirectory()).name)
how = {"mode": "teaching", "seed": SEED}
asked = {"epsilon": EPSILON, "delta": DELTA, "method": "overclustered"}

# %% [markdown]
# Two files, and nothing that this project has seen before. One is private: the visits (made up here,
# so that we may look at them). The other is **public**: between which limits each column lies, known
# from the protocol of the measurement and not from the rows. Take your own two files instead, and go
# on. (One process plays all five clinics here, so one file holds their rows. In a real run each clinic
# reads its own file: [from notebook to deployment](../docs/deployment.md).)

# %%
experiments.write_files(folder, N, M, rng=stream("visits"))
print(*(folder / "visits.csv").open().readlines()[:3], sep="")
print((folder / "bounds.csv").read_text())

# %% [markdown]
# ## 1. Ten lines
#
# Read, say who owns each row, name the bounds, put a budget on the ledger, look at the statement
# **before** anything is spent, fit, save. (In teaching mode, so that this page stays the same: section
# 4 runs it in secure mode, which is the default. It only means to leave `**how` out.) The method is
# over-clustered Lloyd, ours ([01](01_fastlloyd.ipynb), section 14): it needs no start, asks for counts
# of grid cells first, and then moves more centres than it returns.

# %%
table = pd.read_csv(folder / "visits.csv")
budget = Budget(N_MONTHS * EPSILON, N_MONTHS * DELTA)
ledger = PrivacyLedger(budget=budget)
bounds = folder / "bounds.csv"
model = FastLloydKMeans(K, bounds=bounds, ledger=ledger, **asked, **how)
before = model.preview(table, clients="clinic")  # costs nothing
model.fit(table, clients="clinic")
model.save(folder / "model.json")
statement = model.statement()
print(model.cluster_centers_.round(1))

# %%
check(before.facts["charged"] is None, "a preview spends nothing")
check(statement.facts["charged"]["epsilon"] < EPSILON * 1.001,
      "the fit is charged ε at most")  # fmt: skip
away = abs(model.cluster_centers_[:, None] - experiments.GROUPS)
check(away.sum(axis=2).min(axis=0).max() < 12,
      "each of the four groups has a centre within 12 units")  # fmt: skip

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(5.6, 3.8))
units = {"age": "years", "pressure": "mmHg"}
_ = figures.map_of(ax, table, model.cluster_centers_, units)
show(fig, "Visits by age and blood pressure, grey; a centre in each group")

# %% [markdown]
# **Read the figure.** The centres are public; the grey dots are not, and nobody but us can draw them.
# As with every scikit-learn estimator, `predict`, `transform`, `set_output`, pipelines and `clone` are
# there.
#
# ## 2. Whom must you trust?
#
# Seven ways to get at the same centres:
#
# * **masked**: each clinic hides its sums behind random masks, which cancel in the total, and adds a
#   share of the noise. The clinics read the noised total and may publish it.
# * **masked, kept closed** (`publish=False`, as in FastLloyd's paper): the server adds the noise to
#   the masked total. It knows that noise, so nobody may ever send it the result.
# * **serverless**: the clinics exchange shares of their sums with each other. On a real network a
#   **relay** carries them: it sees random words, as the masked server does
#   ([deployment](../docs/deployment.md)).
# * **ideal**: somebody of whom we only assume that they add up, add noise and tell nobody else; it is the
#   "ideal functionality" of the table. The others are measured against it.
# * **trusted**: the server gets the exact sums of every clinic, and adds the noise.
# * **shuffled**: every visit is noised before it leaves, less than locally, and a shuffler mixes the
#   answers, so that nobody knows whose each is. (Algorithm 1 here, as in the next row. With each answer
#   goes a *ticket*, a random number that says which question it answers, and nothing about the sender.)
# * **local**: every visit is noised before it leaves. (Another method: `LocalKMeans`, the paper's
#   Algorithm 1. Its default, the *sketch*, is closer and takes seconds:
#   [B.sketch.few](../data/results/claims.md#B.sketch.few). The groups are tighter than its default
#   expects, so finer cells are asked for.)
#
# The same table and the same ε for each (sums hide a visit that is added or removed, noised answers
# one that is replaced, which is the stronger promise: chapter 05, section 1). The columns are
# computed: what the server sees comes from the plan, and the cost from a **rehearsal**, which runs
# the plan on data that costs nothing. We use synthetic visits: groups at random places between the
# public bounds. A cost of 1.00 means: as good as k-means without noise. *kB of all* are the thousands
# of bytes of all messages that the releases need, to and from all clients, over all rounds: in the
# first five rows those of five clinics (the ideal party counts only what it announces), in the last
# two those of 6000 visits, each of which sends for itself.
#
# **Predict.** The first five rows differ in trust only. How much accuracy does it cost not to trust the
# server? And how much, not to trust anybody?

# %%
lookalike = experiments.synthetic(K, rng=stream("lookalike"))
once = {"n_clusters": (), "epsilon": (), "repeats": N_REPEATS, "seed": SEED}
once |= {"n_rows": N, "n_clients": M, "n_rounds": ()}
of = {"clients": "clinic"}
asked |= {"n_clusters": K, "bounds": bounds} | how
door = FastLloydKMeans(**asked)
alone = asked | {"method": "one_round", "options": {"depths": (2, 3)}}
local = LocalKMeans(**alone | {"delta": None})
closed = FastLloydKMeans(**asked, publish=False)
trusts = {"masked": (door, of), "masked, kept closed": (closed, of)}
for trust in ("serverless", "ideal", "trusted"):
    trusts[trust] = (FastLloydKMeans(**asked, trust=trust), of)
trusts["shuffled"] = (LocalKMeans(**alone, trust="shuffled"), {})
trusts["local"] = (local, {})

# %%
decision = experiments.decide(trusts, table, lookalike, **once)
with pd.option_context("display.max_colwidth", 90, "display.precision", 2):
    display(decision)
central = decision["cost / no noise"].iloc[:5].astype(float)
check(central.max() < 1.3,
      "sums cost less than 1.3 times a run without noise")  # fmt: skip
check(decision.loc["local", "cost / no noise"] > 1.5,
      "local noise costs more than 1.5 times")  # fmt: skip
check(central.max() < decision.loc["shuffled", "cost / no noise"],
      "every sum costs less than shuffled reports")  # fmt: skip

# %% [markdown]
# Masks cost bytes, and with few clients some noise; they do not cost accuracy as such. Trusting nobody
# costs a factor, because every visit brings noise of its own; a shuffler stands in between. How many
# rows make up for it? (Below, *sums of clinics* is the first row of the table.)

# %%
sizes = [1000, 4000, 16_000]
by_size = {"sums of clinics": [], "local": []}
for n in sizes:
    for name, who in zip(by_size, (door, local), strict=True):
        tried = who.rehearse(lookalike, **once | {"n_rows": n})
        by_size[name].append(tried.ratio[0])

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.2, 3.6))
title = "Local noise takes many more rows"
_ = figures.ratios(ax, sizes, by_size, title, "rows")
show(fig, "Cost over the number of rows: central near 1, local above it")

# %% [markdown]
# **Read the figure.** With sums, a thousand rows already come close to the dashed line, where noise
# would be free. Local noise is still far off at 16,000 rows; notebook
# [03](03_locally_private_kmeans.ipynb) says from how many users on it pays.
#
# What else decides: if a *server with related public rows* takes part, `FedDPKMeans` starts from them
# ([02](02_feddp_kmeans.ipynb)); it protects one row, or with `unit="client"` all rows of one client at
# once, for which five clinics are far too few ([02](02_feddp_kmeans.ipynb), section 11). If clients
# should end up with the *model* that suits them, take `RRCluster` ([04](04_rr_cluster.ipynb)).
#
# ## 3. Bounds, k and ε, without spending
#
# **k and ε.** Ask a rehearsal. It changes one number at a time; `too_few_rows` is the plan's own
# prediction, which `preview` and `fit` give as a warning, too, before anything is spent.

# %%
near = {"n_clusters": (K - 1, K + 1)}
near["epsilon"] = (EPSILON / 100, EPSILON / 4, 2 * EPSILON)
tried = door.rehearse(lookalike, **once | near)
display(tried.drop(columns=["sd", "n_rounds"]).round(4))

# %%
fine = tried[tried.changed == "as planned"].ratio.iloc[0]
thin = tried.loc[tried.epsilon.idxmin()]
check(thin.ratio > 1.5 * fine,
      "a hundredth of the budget costs 1.5 times as much")  # fmt: skip
check(bool(thin.too_few_rows), "the plan of a hundredth warns beforehand")
fewer = tried[tried.n_clusters == K - 1].nicv.iloc[0]
check(fewer > tried.nicv[0], "one cluster fewer explains less")

# %% [markdown]
# `nicv` is the mean squared distance to the nearest centre, with the bounds scaled to −1 and 1,
# `without_noise` the same for a run without noise, `ratio` the one over the other, and `too_few_rows`
# whether the plan warns that noise will drown the clusters. Look at `ratio` for ε: where it is close
# to 1, more budget buys nothing. Look at `nicv` for k: where one cluster more hardly lowers it, stop.
# Both answers are about the data that you rehearse on. Our synthetic visits have four groups because
# we put four in, so about k they can tell nothing new: for k take *public* rows of the same kind. The
# private rows were not touched, so there is nothing to pay.
#
# **Bounds.** They decide how much noise there is, in the units of your data. Wider than needed is safe
# but may cost; too narrow cuts rows off (each clinic sees how many of its own: `clipped_counts_`).
# Here they grow around the same rows, for our method and for FastLloyd (`method` left out).

# %%
factors = [1, 3, 10, 30]
paper = {"n_clusters": K, "epsilon": EPSILON, "delta": DELTA} | how
ways = {"over-clustered": paper | {"method": "overclustered"}}
ways["FastLloyd"] = paper
ratios = {}
for name, plan in ways.items():
    ratios[name] = experiments.too_wide(lookalike, factors, plan, **once)

# %%
drowned, unmoved = ratios["FastLloyd"], ratios["over-clustered"]
check(
    drowned[-1] > 2 * drowned[0],
    "bounds 30 times too wide more than double FastLloyd's cost",
)
check(
    max(unmoved[:3]) < 1.2,
    "over-clustered Lloyd stays below 1.2 up to a factor of 10",
)

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.2, 3.4))
title = "Bounds that are too wide cost FastLloyd accuracy"
x = "times too wide"
_ = figures.ratios(ax, factors, ratios, title, x, names="upper left")
show(fig, "Cost by width of the bounds: FastLloyd rises, the other does not")

# %% [markdown]
# **Read the figure.** FastLloyd, whose noise follows the box, loses a factor with bounds three times
# too wide. Over-clustered Lloyd finds these groups all the same, at this ε. On harder data it pays,
# too (1.6 times its cost for bounds ten times too wide:
# [B.central.bounds](../data/results/claims.md#B.central.bounds)). If nothing public is known, pay for
# bounds as notebook [00](00_start_here.ipynb), section 11, does.
#
# ## 4. Read the statement, and publish it
#
# This is what goes beside the result. It holds public numbers only.

# %%
display(statement)

# %% [markdown]
# From top to bottom:
#
# * *what is protected* (one visit), *how much* (ε and δ), *who saw what*;
# * *which numbers are public* (the number of rows, too: where it is a secret, give a bound or a guess as
#   `n_records`); **box of size 1**: your bounds were scaled to −1 and 1 in every column;
# * each release in these units: the noise of the total (`std`), and what it **hides**: one visit changes
#   the release by 1 at most, in length (`L2`: the root of the sum of squares). The noise is discrete
#   and Gaussian, and each clinic draws a share of it; *cut steps* are differences between rows and their
#   centre, in units of a public radius, cut to a length of 1 at most;
# * **wire**: the bytes of all messages that the releases need, of all clinics and rounds, as planned
#   (keys and broadcasts come on top);
# * *predicted*: how far noise moves a centre; *accountant*: by which rule costs were added up;
# * **played**: here one process plays all clinics and holds every row, so what "server sees" says is meant
#   for clinics that run [machines of their own](../docs/deployment.md);
# * bounds, what stays local, and what is left of the budget (filter *basic*: shares add up, section 5).
#
# The last line says that this run is not private: it used a seed.
#
# **A patient comes more than once.** The statement is about one visit, and four visits are **not** one
# row. Three ways out:
#
# 1. Make one row of each patient first. A patient of two clinics still has two.
# 2. Keep at most m visits of a patient, and ask for ε/m. Whoever hides one row with (ε/m, δ) hides m
#    rows with (ε, $m\,e^{(m-1)\epsilon/m}\,\delta$): ask for a smaller δ, too. The masks stay. Section 3
#    says what ε/4 costs.
# 3. `FedDPKMeans` with `unit="client"`, one client for each patient. It needs related public rows, many
#    patients, and a party that adds the noise: it has no masks.

# %%
m, each = 4, EPSILON / 4  # at most four visits
grown = m * np.exp((m - 1) * each) * DELTA
print(f"four visits have ε = {m * each:g}, δ = {grown:.1e}")
by_patient = asked | {"method": "adaptive", "unit": "client"}
whole = estimators.FedDPKMeans(**by_patient, trust="masked")

# %%
attempt = experiments.attempt
said = attempt(
    "a patient as client, masked",
    lambda: whole.preview(table, X_server=lookalike),
)
check(said, "this method has no masks")

# %% [markdown]
# `save` writes centres and statement as JSON, with a
# [schema](../fedclust_helpers/estimators/statement.schema.json). No rows, no seeds, no keys.

# %%
saved = pd.read_json(folder / "model.json", typ="series")
print(*saved.index, "| content:", *saved.content)
again = estimators.load(folder / "model.json")
check((again.predict(table) == model.predict(table)).all(),
      "the loaded model gives the same labels")  # fmt: skip
check("seed" not in saved.parameters, "the file holds no seed")

# %% [markdown]
# | publish | keep where the rows are |
# |---|---|
# | `cluster_centers_`, `statement()`, the saved file | labels from `predict`, distances from `transform` |
# | what follows from them alone: pictures of centres, sizes that were released | `score`, `clipped_counts_`, any table of labels |
#
# Now the run that counts: secure mode. Noise and keys come from the operating system, so the centres
# differ each time, and are not printed here.

# %%
default = {"mode": "secure", "seed": None}
secure = FastLloydKMeans(ledger=ledger, **asked).set_params(**default)
try:  # the secure source of noise is an optional package
    secure.fit(table, clients="clinic")
except ImportError as message:
    print(message)
else:
    said = secure.statement()
    check(not said.facts["warnings"], "the secure run has no warnings")
    print(dict(said.rows())["charged"])

# %% [markdown]
# ## 5. One budget, many months
#
# New visits arrive each month, and the model is fitted again. **One ledger** adds up all fits on the
# same people, across estimators; its `Budget` refuses the fit that would exceed it, before any row is
# read. Sections 1 and 4 were the first two months.

# %%
for month in range(3, N_MONTHS + 3):
    try:
        model.fit(table, clients="clinic")
        print(month, f"left: {ledger.remaining:.0%}")
    except RuntimeError as error:
        print(month, "refused:", error)
check(ledger.remaining < 0.35, "what is left is too little for a further fit")

# %% [markdown]
# This ledger lives as long as its process, so that no copy spends the budget again. Where months lie
# between the fits, each clinic keeps a journal on its disk ([deployment](../docs/deployment.md)).

# %%
kept = folder / "ledger.pickle"
said = attempt("keep it for next month", lambda: pd.to_pickle(ledger, kept))
check(said, "a ledger with a budget is not copied")

# %% [markdown]
# The default rule adds up shares of (ε, δ), because each month may be chosen after a look at the last
# one. If all fits are planned **in advance**, their exact total is much smaller: Gaussian noise adds
# in squares. (That is why section 4 printed less than 2 for two fits of ε = 1. The budget took two
# shares all the same.)
#
# **Predict.** Twelve fits with ε = 1 each: what do they cost together at the same δ?

# %%
ask = {"epsilon": EPSILON, "delta": DELTA, "budget": N_MONTHS * EPSILON}
year = figures.total(EPSILON, DELTA, 12)[0]
print(f"twelve fits: {year:.2f}, and not {12 * EPSILON:g}")
check(year < 12 * EPSILON / 2,
      "twelve planned fits cost less than half of the sum")  # fmt: skip

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.2, 3.6))
_ = figures.months(ax, **ask)
show(fig, "Epsilon of one to twelve fits: the exact total grows like a root")

# %% [markdown]
# **Read the figure.** Whoever commits to the whole series beforehand gets more than twice as many fits
# out of the same ε. `Budget(..., filter="rdp")` adds Rényi curves instead of shares, and saves most of
# that also for fits that are chosen one after the other
# (Rényi divergence: [glossary](../docs/glossary.md)):

# %%
rdp = Budget(N_MONTHS * EPSILON, N_MONTHS * DELTA, filter="rdp")
series = PrivacyLedger(budget=rdp)
_ = FastLloydKMeans(ledger=series, **asked).fit(table, clients="clinic")

# %%
takes = 1 - series.remaining
print(f"a fit takes {takes:.1%} and not {1 / N_MONTHS:.1%}")
print(f"fits that the budget lets through: {int(1 / takes)}")
check(takes < 0.6 / N_MONTHS, "a fit takes less than 0.6 of its share")

# %% [markdown]
# ## 6. Seven mistakes
#
# Six are refused, or show; the seventh is yours to avoid. `attempt` prints what you would see.

# %%
free = paper | {"trust": "ideal"}
rows, gaps = table[["age", "pressure"]], table.copy()
gaps.loc[7, "age"] = np.nan
bare = FastLloydKMeans(**free)
read_off = FastLloydKMeans(**free, public_data=True)
other = FastLloydKMeans(**free, lower=0, upper=1)  # for scaled data

# %%
said = [
    attempt("1 no bounds", lambda: bare.fit(rows)),
    attempt("2 bounds read off the rows", lambda: read_off.fit(rows)),
    attempt("3 other units", lambda: other.fit(rows)),
    attempt("4 missing values", lambda: door.fit(gaps, clients="clinic")),
    attempt("5 nobody owns a row", lambda: door.fit(table)),
]
check(all(said), "each of the five mistakes is refused with a message")

# %% [markdown]
# **6. Too few rows.** The warning comes from the plan, before anything is spent. **7. A ledger of its
# own for each fit**, so that nobody adds up: this one nothing can notice. Two estimators on the same
# people, without a common ledger, cost up to twice what each statement says (1.47 and not 1 in section
# 4, where one ledger knew of both fits).

# %%
thin = FastLloydKMeans(**asked | {"epsilon": EPSILON / 50})
few = thin.preview(table[: N // 10], clients="clinic")
print(few.facts["warnings"][0])
check("too few rows" in few.facts["warnings"][0],
      "the plan warns of too few rows")  # fmt: skip

# %% [markdown]
# And an eighth that no program sees: choosing k, ε or bounds by looking at results on the private
# rows. Each look is a release (notebook 00, section 12). Rehearse instead.
#
# ## 7. Run it on data that matters
#
# Real measurements of 569 tumours, dealt to three hospitals. Two columns, with bounds in round numbers,
# such as the maker of the microscope could name, and two clusters. To compare with: k-means without
# privacy, and the diagnosis, which the clustering never sees.

# %%
tumours = load_breast_cancer(as_frame=True).frame
cells = {"mean radius": (0, 40), "mean concave points": (0, 0.4)}
lower, upper = ({c: side[i] for c, side in cells.items()} for i in (0, 1))
tumours["hospital"] = stream("owners").integers(3, size=len(tumours))
two = asked | {"n_clusters": 2, "bounds": None}
real = FastLloydKMeans(**two, lower=lower, upper=upper)
labels = real.fit_predict(tumours, clients="hospital")
box = (tumours[list(cells)] - lower) / (pd.Series(upper) - pd.Series(lower))
plain = KMeans(2, n_init=10, random_state=SEED).fit_predict(box)

# %%
both = {"private": labels, "without privacy": plain}
agree = {who: (g == tumours["target"]).mean() for who, g in both.items()}
agree = {who: max(a, 1 - a) for who, a in agree.items()}

# %%
print("as diagnosed:", {who: f"{a:.0%}" for who, a in agree.items()})
print(real.cluster_centers_.round(2))
check(
    agree["private"] > 0.8,
    "private labels agree with the diagnosis for 80 % of the tumours",
)

# %% [markdown]
# Each line is a centre, in the units of the table: mean radius, mean concave points. `fit_predict` gave
# labels: they stay with the hospitals. The columns were chosen by the names of the
# bounds, so the others did not matter.
#
# **When not to use this.**
#
# * A person has many rows, and only one row is protected: see section 4 first.
# * There are a few dozen rows in a cluster: no honest ε leaves anything.
# * Single rows matter (fraud, rare diseases): noise hides exactly these.
# * Nothing public is known about the columns: find bounds first, and pay.
# * Clients may cheat or drop out: this masks for parties who follow the protocol, and a round that
#   misses one stops.
#
# **On real machines** each clinic keeps its rows, its ledger and its keys in a process of its own, and
# [from notebook to deployment](../docs/deployment.md) says what runs there, who must trust whom, and
# what is not covered. The first thing to read: a server and a clinic that join can open the others'
# messages, which hold one share of noise each. Nobody outside this project has audited any of it.
#
# ## Play (optional)
#
# The figure of section 5 with two sliders: ε of one fit, and the budget (dashed). How many of twelve
# fits does it pay for?

# %% tags=["widget"]
play.explore(delta=DELTA)

# %% [markdown]
# ## Exercises
#
# 1. *(warm-up)* What is left of the budget if the first fit asks for half of ε and half of δ?
# 2. *(experiment)* Give `rehearse` an `n_rows` of 300. From which ε on is `too_few_rows` false?
# 3. *(break it)* Save a model, change a centre in the file, load it. Who notices?
#
# <details><summary>Solutions</summary>
#
# 1: shares add up; half of (ε, δ) takes 1/(2 `N_MONTHS`), and 5/6 are left. 2: from about 0.4 on:
# `door.rehearse(lookalike, n_rows=300, epsilon=(0.1, 0.2, 0.4, 0.8))`. 3: nobody. The file is not
# signed; publish it where its readers trust the place.
#
# </details>

# %% tags=["solution"]
fresh = PrivacyLedger(budget=budget)
half = asked | {"epsilon": EPSILON / 2, "delta": DELTA / 2}
_ = FastLloydKMeans(ledger=fresh, **half).fit(table, clients="clinic")
three = once | {"n_rows": 300, "epsilon": (0.1, 0.2, 0.4, 0.8)}
tried = door.rehearse(lookalike, **three)[["epsilon", "too_few_rows"]]

# %% tags=["solution"]
drawn = tried.iloc[1:].set_index("epsilon").too_few_rows  # not as planned
print(f"1: left {fresh.remaining:.1%}\n2: too few rows?", drawn.to_dict())
check(abs(fresh.remaining - (1 - 1 / (2 * N_MONTHS))) < 1e-6,
      "1: half of a fit takes 1 / (2 N_MONTHS)")  # fmt: skip
check(drawn[:0.2].all() and not drawn[0.4:].any(),
      "2: from ε = 0.4 on the plan does not warn")  # fmt: skip

# %% [markdown]
# ## Recap
#
# 1. **Ten lines** lead from a file to centres with a statement; `preview` shows it beforehand.
# 2. **Decide on public data**: trust by a computed table, k and ε by `rehearse`, bounds by what is known.
# 3. **One ledger per data set.** It refuses, it adds up, and it is the only one that can. Across months
#    and machines, keep a journal.
#
# ## Check yourself
#
# <details><summary>1. What did the preview cost?</summary>
#
# Nothing: it uses public numbers only, and counts the number of rows among them (section 4).
#
# </details>
#
# <details><summary>2. Which of the seven rows lets the server see exact sums of one clinic?</summary>
#
# "trusted" alone (section 2).
#
# </details>
#
# <details><summary>3. Why may a rehearsal not run on the private rows?</summary>
#
# Its costs are exact functions of the rows, and nothing pays for them (section 3).
#
# </details>
#
# <details><summary>4. A column lies between 0 and 10, and you give 0 to 1000. Is that unsafe?</summary>
#
# No, but the noise grows with the width. FastLloyd pays much for it, over-clustered Lloyd little
# (section 3).
#
# </details>
#
# <details><summary>5. May you publish how many visits got each label?</summary>
#
# Not as they are: labels of private rows are no part of the release (section 4).
#
# </details>
#
# <details><summary>6. A patient comes four times a year. What protects the patient?</summary>
#
# Not a statement about one row. Make one row of them, ask for ε/4, or protect one client: all rows of
# the patient (section 4).
#
# </details>
#
# <details><summary>7. Two departments fit the same rows, each with its own ledger. The total?</summary>
#
# The sum of both at most, and no ledger knows how much less (section 5; section 6, mistake 7).
#
# </details>
#
# <details><summary>8. The warning "too few rows" came. What was spent by then?</summary>
#
# Nothing: it follows from the plan (section 6).
#
# </details>
#
# ## References
#
# What runs behind the doors, and its papers: notebooks [01](01_fastlloyd.ipynb) to
# [04](04_rr_cluster.ipynb).
#
# * W. Wolberg, O. Mangasarian, N. Street, W. Street. *Breast Cancer Wisconsin (Diagnostic).* UCI, 1995.
#   (CC BY 4.0; ships with scikit-learn.)
# * J. Dong, A. Roth, W. Su. *Gaussian Differential Privacy.* JRSS B, 2022. (Section 5: squares of μ.)
