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
# # Can two hospitals find the groups among all their patients, when nobody may see a sum?
#
# *Paper: A. Diaa, T. Humphries, F. Kerschbaum, "FastLloyd: Federated, Accurate, Secure, and Tunable
# k-Means Clustering with Differential Privacy". Implemented here: Algorithm 1 and the protocol of
# Figure 1. Reading: two and a half hours; running: under a minute on two cores, no network.*
#
# Two hospitals want to know into which groups their patients fall. Neither may show its records to
# anybody, not even a *sum* of records, as we are about to see. FastLloyd lets them run Lloyd's
# k-means together: a server adds up numbers that it cannot read, and adds noise to a total that it
# cannot see.
#
# **After this notebook you will be able to**
#
# 1. **attack** k-means that publishes exact sums, and show that the attack fails on FastLloyd;
# 2. **derive** every number of the algorithm: radius, noise, split of the budget, rounds;
# 3. **implement** Algorithm 1 in 40 lines, with masked aggregation that really masks;
# 4. **check** a privacy claim yourself: by a ledger, by an experiment, by an audit;
# 5. **run** it on a table of your own, and say when it is the wrong method.
#
# **You need** notebook 00 (what ε, δ, unit and adjacency mean) and Lloyd's algorithm. Two words return
# all the time: a data set's **neighbour** is the same data with one record added or removed, and the
# **sensitivity** of a query is the most that its answer can differ between neighbours. Notebook 02
# continues from here.
#
# ## Who trusts whom
#
# | who | holds | sees during a run | is trusted to |
# |---|---|---|---|
# | **client** (a hospital) | its own records; a secret that it shares with the other clients | the noised total of each round, nothing else from the others | follow the protocol; not to collude with the server |
# | **server** | its own source of noise | random words; no sum, no centre | follow the protocol; keep its noise to itself |
# | **everybody else** | nothing | nothing: what is published reaches the server too, and the server knows the noise (section 10) | nothing |
#
# The protected unit is **one record**, neighbours by **add/remove**. The number of records, the
# number of columns, the box that holds the data, $k$ and the number of rounds are **public**. (That
# $n$ is public although neighbours differ in it is the paper's convention.) At most one party is
# curious, and it still follows the protocol.
#
# ## Notation
#
# Each symbol is explained where it is first used. This is the place to look it up, not to begin.
#
# | symbol | meaning | in code |
# |---|---|---|
# | $x$ | one record (in 03: what one user holds) | a row of `points` |
# | $n$ | number of records, all clients together (in 03: users) | `n_records` |
# | $d$ | number of columns of a record | `n_features` |
# | $M$ | number of clients | `n_clients` |
# | $k$ | number of clusters | `n_clusters` |
# | $m_j$ | centre of cluster $j$ | `centers[j]` |
# | $n_j$ | number of records of cluster $j$ | `counts[j]` |
# | $S_j$ | sum of the records of cluster $j$ | `sums[j]` |
# | $R_j$ | relative sum of cluster $j$: the sum of $x-m_j$ | `relative_sums[j]` |
# | $b$ | half the side of the box $[-b,b]^d$ that holds the data; public | `bound`; 1 here |
# | $\eta$ | radius of a cluster: records farther away are left out | `radius` |
# | $\alpha$ | factor that scales the radius | `alpha` |
# | $\epsilon$, $\delta$ | the privacy budget | `epsilon`, `delta` |
# | $\mu$ | strength of Gaussian DP; never a centre | `mu` |
# | $\Delta$ | sensitivity: the most that one record (or one client) changes what is released | `sensitivity` |
# | $s$ | standard deviation of noise, in the units of what it is added to | `Gaussian.std` |
# | $\sigma$ | noise multiplier: standard deviation divided by sensitivity, $s/\Delta$ | `sigma` |
# | $\sigma^R$, $\sigma^C$ | the two parts of $\sigma$: for relative sums and for counts | `split_noise(sigma, d)` |
# | $\ell$ | length of the step of a centre in a round | `step` in section 5 |
# | $T$ | number of rounds | `n_rounds` |
# | $f$ | fractional bits of a fixed-point number | `fractional_bits` |
#
# The [table of symbols](../docs/symbols.md) of all notebooks also says which letters the paper uses. The
# cost of centres is **NICV**: the mean squared distance of a record to the nearest centre. *Eq.*,
# *Theorem*, *Algorithm* and *Figure* with a number are the paper's. A small link in brackets, like
# ([G4](../data/results/claims.md#G4)), leads to the same sentence on the page of claims, with the
# numbers that test it.
#
# Change any setting below and run all. A check prints ✓ and what it checked; one that was written for the
# settings of the text may then print a remark instead. All randomness comes from `SEED`, through **named
# streams**.
# (Why so strict? The paper's [released code](https://github.com/D-Diaa/FastLloyd) (`parties/server.py`,
# commit 5209565) seeds its noise with `params.seed * self.curr_iter`. In round 0 that is 0, so the first
# noise is the same for every seed.)

# %% tags=["settings"]
SEED = 2025
EPSILON = 1.0  # the budget of a run
DELTA = 1e-6  # of the run on real patients (section 15)
K, N = 5, 2000  # clusters asked for (there are five groups), patients
N_GUESSES, N_SCORES, N_CASES = 60, 300, 1500  # trials of sections 2 and 3
N_DRAWS, N_AUDIT, N_SETS, N_RUNGS = 400_000, 1000, 30, 12  # 4, 11, 13, 14

# %%
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display
from scipy import stats

import studies
from fedclust_helpers import accounting as acc
from fedclust_helpers import audit, datasets, estimators, kmeans
from fedclust_helpers import fastlloyd as fl
from fedclust_helpers.federation import Randomness, simulate
from fedclust_helpers.metrics import nicv
from studies.bench.plots import headline, show, use_style
from studies.fastlloyd import experiments, lesson
from studies.fastlloyd import figures as draw

use_style()
check, stream, seeds = lesson.begin(globals())

# %% [markdown]
# ## 1. The question, on data you can see
#
# Two thousand patients, two measurements each, scaled to the box $[-1,1]^2$ by public limits. There
# are five groups. Hospital A and hospital B treat different mixtures of them.
#
# **Predict.** Each hospital runs k-means on its own records with $k=5$. Does it find the five groups?

# %%
rng, fit = stream("data"), kmeans.weighted_kmeans
points, hospitals = experiments.two_hospitals(N, rng=rng)
parts = [hospitals.client(0), hospitals.client(1)]
best = [fit(x, None, K, rng=rng) for x in (*parts, points)]
alone = np.array([nicv(points, m) for m in best])
print("NICV of A, B, both:", alone.round(3))

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(7, 3.8), sharey=True)
_ = draw.plot_hospitals(axes, parts, best[:2], best[2])
times = alone[:2].min() / alone[2]
headline(fig, f"Alone, a hospital's centres cost {times:.0f} times as much")
show(fig, "Two scatter plots: centres found alone miss the rings of all")

# %% [markdown]
# **Read the figure.** Rings mark the centres of all records. Crosses mark what a hospital finds alone:
# it splits a group of which it has many patients, and misses or misplaces a group of which it has few.
# Working together is worth something. The rest of this notebook is about its price.
#
# ## 2. The naive answer: exact sums, and how they leak
#
# Lloyd's algorithm needs, per round and cluster, the sum and the count of the records. Sums over
# clients add up to sums over all records, so a federated version is easy. "We only exchange
# aggregates" sounds safe. Take two releases: the hospitals run the round in May, and again in June,
# when **one** patient has joined.
#
# **Predict.** An attacker knows both releases and no record. What can it say about the new patient?

# %%
record = np.array([[-0.1, -0.9]])  # joins in June; far from every group
worlds = points, np.vstack([points, record])  # May and June
start = kmeans.sphere_packing(K, 2, rng=stream("start"))  # public centres
cluster = kmeans.assign(record, start).labels[0]


def released(rows, planner, seed, **budget):
    """The arrays that a run of Lloyd releases, round by round."""
    room = simulate([rows], "ideal", seed=seed)
    plan = planner(room, n_clusters=K, initial=start, **budget)
    return fl.run(room, plan).released


may, later = (released(rows, fl.plan_lloyd, 0)[0] for rows in worlds)
exact = (later[0] - may[0])[cluster]  # sums of June minus sums of May
print(f"the record: {record[0]}; read off: {exact.round(6)}")

# %% [markdown]
# The record is read off, to the last digit, from two "aggregates". (Publishing centres and counts
# does not help: count times centre is the sum.) FastLloyd releases sums and counts with noise, as
# much as ε asks for; sections 3 to 6 derive how much. We try the same attack on FastLloyd, each time with
# fresh noise, and even tell the attacker the right cluster.
#
# Reconstruction is the crudest attack. **Membership** is the finest: the attacker knows *every* record
# except one, and the record itself, and asks only: was it in? Knowing all this, the best possible
# score (by Neyman and Pearson) weighs each release by how far the record would have moved it.
#
# How good can *any* attack be? Section 4 will show that a run of FastLloyd is no easier to attack than
# this game: you see one number, and say whether it was drawn around 0 or around μ, both with standard
# deviation 1. The smaller μ, the more the two overlap; ε and δ fix it. (In sections 2 to 14 δ is the paper's,
# $1/(n\ln n).$ It is below $1/n$ by the factor $\ln n$ only, and notebook 00 warns of it; section 15 asks for
# less.)
#
# Every threshold on the score gives a *detection rate* and a *false alarm rate*; together they draw the
# **ROC curve**. The area under it (AUC) is the chance that a run with the record scores above a run
# without it: 1 for a perfect attack, 0.5 for a coin toss. In the game with one number it is
# $\Phi(\mu/\sqrt2),$ with Φ the normal distribution function.
#
# **Predict.** What is the AUC of the attacker at ε = 1?


# %%
def guess(seed):
    """June minus May through FastLloyd, as if there were no noise."""
    both = zip(worlds, seed.spawn(2), strict=True)
    runs = [released(x, fl.plan, s, epsilon=EPSILON) for x, s in both]
    return (runs[1][0][0] - runs[0][0][0] + start)[cluster]


def membership_score(run):
    """Log-likelihood ratio of "the record is in", over all rounds."""
    score = 0.0
    for t, seen in enumerate(run.released):
        at = run.history[t], run.plan.broadcasts("radius")[t]
        noises = run.plan.mechanisms[t]
        out, in_ = (experiments.relative_statistic(x, *at) for x in worlds)
        for a, b, y, noise in zip(out, in_, seen, noises, strict=True):
            score += ((y - (a + b) / 2) * (b - a)).sum() / noise.std**2
    return score


# %%
def planned(clients, kind="ideal", *, seed, **options):
    """A federation and its plan: the two arguments of `fastlloyd.run`."""
    room = simulate(clients, kind, seed=seed)
    return room, fl.plan(room, n_clusters=K, epsilon=EPSILON, **options)


def scores(rows, name):
    """The attacker's score of many runs of two rounds on these rows."""
    each = seeds(name, N_SCORES)
    runs = (fl.run(*planned([rows], seed=s, n_rounds=2)) for s in each)
    return np.array([membership_score(run) for run in runs])


guesses = np.array([guess(seed) for seed in seeds("guesses", N_GUESSES)])
out_scores = scores(worlds[0], "member-out")
in_scores = scores(worlds[1], "member-in")
auc = (in_scores[:, None] > out_scores).mean()
delta = fl.default_delta(len(points))  # 1 / (n ln n)
mu = acc.gdp_mu(EPSILON, delta)

# %%
miss, most = np.median(abs(guesses - record)), stats.norm.cdf(mu / 2**0.5)
print(f"miss {miss:.1f}; AUC {auc:.3f}, at most {most:.3f} (μ = {mu:.3f})")
print(f"spread of the score {out_scores.std():.2f}; δ = {delta:.1e}")
check(np.allclose(exact, record[0]), "two exact sums give the record away")
check(
    miss > 2,
    "the median guess misses the record by more than the box is wide",
)
check(
    auc < most + 4 / np.sqrt(6 * N_SCORES),
    "the AUC is below the limit of μ, or within 4 standard errors",
)

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(7.8, 4.6))
_ = draw.plot_reconstruction(axes[0], points, record[0], exact, guesses)
cuts = np.sort(np.r_[-np.inf, out_scores, in_scores, np.inf])[::-1]
both = out_scores, in_scores
rates = [(s[:, None] >= cuts).mean(axis=0) for s in both]
curves = {"exact sums": ([0, 0, 1], [0, 1, 1]), "FastLloyd": rates}
limit = f"most that μ = {mu:.2f} allows"
_ = draw.plot_roc(axes[1], curves, mu=mu, bound_label=limit)
headline(fig, f"Exact sums give the record away; noised miss by {miss:.0f}")
text = """Left: guesses from noised runs scatter far outside the box of
data, the guess from exact runs hits the record. Right: ROC curves, that of
FastLloyd close to the diagonal and below the bound."""
show(fig, text)

# %% [markdown]
# **Read the figure.** Left: the small black square is the box that holds all data, enlarged in the
# corner. The red cross (two exact runs) sits on the record. The blue guesses (two FastLloyd runs) are
# scattered far outside the box: they say nothing that was not known before. Right: the membership attack
# on exact sums never errs. On FastLloyd it stays close to the coin toss (AUC 0.52; the prediction's
# limit is 0.585), and, up to chance, below the curve that no attack can cross (into the grey area)
# whatever it knows. A curve well inside the grey area would refute the privacy claim.
#
# Why does the attack not come closer to the limit? The limit is for the worst record that there can
# be. The score of a record spreads by the strength with which *this* record moves the release: 0.14,
# less than half of μ. (Where it is far from every centre it is not even counted: section 3.)
# Section 11 attacks with a worst-case record.
#
# Two releases cost more than one, but not twice as much: each of the May and June runs spends ε = 1 on
# everybody who is in both, and together they cost about 1.5 at the same δ. Section 4 says why (strengths
# add up in squares), section 10 adds it up.
#
# <!-- living: lloyd -->
#
# ## 3. The paper's idea: send updates, not positions
#
# The first private Lloyd (Blum, Dwork, McSherry, Nissim 2005; "SuLloyd" with Laplace and "GLloyd" with
# Gaussian noise here) adds noise to the sum and to the count of each cluster and divides. A record at
# the corner of the box changes a sum by $b\sqrt d,$ wherever its cluster is, and the noise must hide
# that. FastLloyd does two things about it.
#
# *It measures from the centre.* Add up the steps from the old centre to the records, instead of the
# records: the **relative sum** $R_j$. The new centre is the old one plus $R_j/n_j,$ which is the same
# mean (Eq. 11), because $R_j=S_j-n_jm_j.$
#
# *It leaves out what is far away.* A record farther than a **radius** $\eta$ from its nearest centre
# does not count in this round. So one record adds a vector of length at most $\eta$: **Theorem 5.1**
# ([L1](../data/results/claims.md#L1)). How large should $\eta$ be? Cut the box into $k$ equal cubes.
# Each has the side $2b/k^{1/d},$ and from its middle to a corner it is $b\sqrt d/k^{1/d}.$ FastLloyd
# takes the fraction α = 0.8 of that (Eq. 25):
#
# $$\eta=\alpha\,b\sqrt d\,/\,k^{1/d}.$$
#
# In the plane with $k=15$ that is 0.29, and the plain sum's sensitivity was $\sqrt2=1.41.$ In many
# columns $k^{1/d}\to1,$ and the radius is hardly smaller than the box.
#
# **Predict.** Does the bound $\eta$ hold over all clusters *together*? And if a record is **replaced**
# by another one? (1500 random cases: dimension, clusters, centres and data are all drawn anew.)

# %%
rng, one_case = stream("neighbours"), experiments.one_record_moves
cases = np.array([one_case(rng=rng) for _ in range(N_CASES)])
print("largest / η: plain, relative, replaced", cases.max(axis=0).round(6))
check(
    0.999 < cases[:, 1].max() <= 1,
    "an added record moves all relative sums by η at most, and does",
)
check(1.99 < cases[:, 2].max() <= 2, "a replaced one by 2η at most, and does")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.1, 3.4))
_ = draw.plot_changes(ax, cases)
_ = ax.set_title("Adding a record moves relative sums by η, replacing by 2η")
text = "Share of cases with at most such a change: relative sums end at"
show(fig, text + " one radius, replaced records at two, plain sums later")

# %% [markdown]
# **Read the figure.** A curve says in how many cases the change was at most so large. The blue one (one
# record added) is complete at η. A third of the cases reach it, because half of the added records were
# put just inside the radius (those nearer to another centre move its sum, by less). Replacing a record
# reaches 2η. The plain sum goes beyond both. So all of FastLloyd's numbers are for **add/remove**; for
# replace-one the same noise gives about half the protection (exercise 1).
#
# **What it costs.** Records outside the radius are ignored. And a centre far from its group takes a long
# step. Noise on the count stretches that step, and the centre overshoots. That is why the error in section
# 5 contains the length of the step.
#
# ## 4. How much privacy is that? Gaussian differential privacy
#
# The game of section 2 is the definition: a release has **strength μ** (it is μ-GDP) if to tell any
# two neighbours from it is at least as hard as to tell one draw of $N(0,1)$ from one draw of
# $N(\mu,1).$ Three theorems do all the work. You met them in notebook 00 (sections 5 and 7); here are
# the paper's names:
#
# * **One release** (Theorem 2.1): noise of standard deviation $s$ on a query of sensitivity $\Delta$ has
#   strength $\Delta/s.$ *Why:* measure in units of $s$; the two worlds are at most $\Delta/s$ apart.
# * **Several releases** (Theorem 2.2, [G5](../data/results/claims.md#G5)): strengths add up in squares. *Why:*
#   releases are coordinates of one point, and the distance of two points is $\sqrt{\mu_1^2+\mu_2^2}.$
# * **Back to ε and δ** (Theorem 2.3, [G4](../data/results/claims.md#G4)): μ-GDP is (ε, δ(ε))-DP for all ε at once,
#
# $$\delta(\epsilon)=\Phi\!\left(-\tfrac{\epsilon}{\mu}+\tfrac{\mu}{2}\right)-e^{\epsilon}\,\Phi\!\left(-\tfrac{\epsilon}{\mu}-\tfrac{\mu}{2}\right).$$
#
# *Why:* (ε, δ)-DP asks that every event is at most $e^\epsilon$ times as likely with the record as
# without it, up to δ. The worst event is "the number lies above $\epsilon/\mu+\mu/2$"; the formula has
# its probability in both worlds. And what is computed from a release alone costs nothing more
# (post-processing).
#
# To check this we need no theory: δ(ε) is the average of $(1-e^{\epsilon-\mathrm{loss}})_+,$ where the
# *privacy loss* is the log-likelihood ratio of an output under the two data sets, and $(\cdot)_+$
# counts negative values as 0. Draw outputs, average.
#
# **Predict.** Two releases of strength 0.6 and 0.8. Together: 1.4, or 1.0?


# %%
def simulated_delta(strengths, epsilon):
    """δ(ε) of releases N(μ_i, 1) against N(0, 1), from drawn losses."""
    mu = np.atleast_1d(strengths)
    outputs = stream("gdp").normal(mu, 1, (N_DRAWS, len(mu)))  # with it
    loss = ((outputs - mu / 2) * mu).sum(axis=1)
    return np.maximum(0, -np.expm1(epsilon - loss)).mean()


pair, one = simulated_delta([0.6, 0.8], 1.0), acc.gdp_delta(1.0, 1.0)
print(f"δ at ε = 1: 0.6 and 0.8 give {pair:.4f}, formula at 1.0 {one:.4f}")
check(abs(pair - one) < 0.002,
      "strengths 0.6 and 0.8 have the δ of 1.0, to 0.002")  # fmt: skip
# %% [markdown]
# Together 1.0, since $0.6^2+0.8^2=1.$ One μ stands for a whole curve of pairs (ε, δ) (notebook 00, section
# 5). The textbook calibrates noise by
# $s=\Delta\sqrt{2\ln(1.25/\delta)}/\epsilon$ instead, which is proved for ε < 1 only: there it wastes
# noise, and for δ = 1e-5 it is too small from ε = 8.42 on ([G1](../data/results/claims.md#G1),
# [G3](../data/results/claims.md#G3)). We invert the formula.
#
# From here on $\sigma=1/\mu$ is the noise multiplier of the **whole run**: everything that FastLloyd
# releases must share that one μ.
#
# ## 5. Splitting the budget, where the 4 comes from, and a formula that is off by $k$
#
# Each round releases relative sums and counts, with multipliers $\sigma^R$ and $\sigma^C.$ In a run of
# one round the squares of their strengths must add up to that of μ:
# $\;1/(\sigma^R)^2+1/(\sigma^C)^2=1/\sigma^2$ (Eq. 18); $T$ rounds multiply both by $\sqrt T.$ Which of
# the two should get more noise?
#
# *The error of one centre.* Its step is $R_j/n_j;$ call its length $\ell$. Noise on $R_j$ moves the end
# of the step by noise$\,/n_j$ in each of $d$ columns. Noise on $n_j$ stretches the step by the fraction
# noise$\,/n_j.$ Together (sd: standard deviation) the mean squared error is about
#
# $$\frac{(\text{sd of the count's noise})^2\,\ell^2+d\,(\text{sd of the sum's noise})^2}{n_j^2}.$$
#
# *The guess.* How long is the step? The paper takes $\ell=\eta/2.$ Then the count's part is
# $(\sigma^C)^2\eta^2/4,$ and the sum's part is $d\,(\sigma^R)^2\eta^2.$ Four times their sum is
# $\eta^2$ times $(\sigma^C)^2+4d\,(\sigma^R)^2$ (Eq. 17). **The 4 is the square of that 2.** Under
# Eq. 18 this is smallest for
#
# $$\sigma^C=\sqrt[4]{4d}\;\sigma^R \qquad\text{(Eq. 19)}.$$
#
# ([L4](../data/results/claims.md#L4).) With steps of another length $\ell$ the best ratio would be
# $\sqrt[4]{d\,\eta^2/\ell^2}$ ([F8](../data/results/claims.md#F8)).
#
# *The slip.* With $n_j=n/k$ and $\ell=\eta/2$ our formula begins with $\frac{k^2}{4n^2}.$ The paper
# prints $\frac{k^3}{4n^2},$ "for a single cluster" (Eq. 16).
#
# **Predict.** In 64 columns, is the best share of the budget $1/\sigma^2$ for counts a half, a fifth, or a
# seventeenth? And what will a simulation say of the printed error, for $k$ = 2, 3, 5, 10?

# %%
dims, ratio = np.array([1, 2, 10, 64, 784]), np.geomspace(0.3, 20, 200_001)
error = 1 + ratio**2 + 4 * dims[:, None] * (1 + ratio**-2)  # Eq. 17, 18
print("best σ^C / σ^R:", (best := ratio[error.argmin(axis=1)]).round(3),
      " share of counts: 1 /", (1 + best**2).round(1))  # fmt: skip
check(
    np.allclose(best, (4 * dims) ** 0.25, rtol=5e-5),
    "a search finds the ratio of Eq. 19 for every number of columns",
)


# %%
def printed_over_simulated(k, n=6000, sd_sums=3.0, sd_counts=2.0):
    """Eq. 16 over the error of one of k equal clusters, in the plane."""
    rng, step = stream("slips"), fl.max_radius(k, 2) / 2
    noisy_sums = rng.normal([n / k * step, 0], sd_sums, (200_000, 2))
    noisy_counts = rng.normal(n / k, sd_counts, (200_000, 1))
    miss = noisy_sums / noisy_counts - [step, 0]
    bracket = sd_counts**2 * (2 * step) ** 2 + 4 * 2 * sd_sums**2
    return k**3 / (4 * n**2) * bracket / (miss**2).sum(axis=1).mean()


printed = {k: printed_over_simulated(k) for k in (2, 3, 5, 10)}
ratios = [printed[k] / k for k in printed]
told = {k: float(round(ratio, 2)) for k, ratio in printed.items()}
print("printed / simulated error, by k:", told)
check(
    np.allclose(ratios, 1, rtol=0.02),
    "the printed error is k times the simulated one, within 2 %",
)

# %% [markdown]
# A seventeenth: the sum needs the budget. (Per unit of sensitivity counts have four times its noise there.)
# The printed formula is the sum over $k$ equal clusters, not the error of one; with $k^2$ it is right ([L5](../data/results/claims.md#L5),
# [F6](../data/results/claims.md#F6)). Two more limits: the formula holds only while a count is above
# ten standard deviations of its noise (near 0 the mean error is infinite,
# [L6](../data/results/claims.md#L6)), and a step of η/2 is a guess that fits the first round only
# ([L7](../data/results/claims.md#L7), [L8](../data/results/claims.md#L8)).
#
# *The rounds.* The formula also chooses $T$. More rounds mean more noise in each: with Eq. 19 put in,
# the printed error of one round of $T$ is
#
# $$\frac{k^3}{4n^2}\,\eta^2\,T\sigma^2\,(1+\sqrt{4d})^2.$$
#
# The paper tolerates 0.004 and takes the largest such $T$ (Eq. 21), but at least 2 and at most 7, and
# often it is one of these two limits that decides ([L9](../data/results/claims.md#L9)). None of this
# touches privacy, which holds for every split and every $T$.
#
# ## 6. Two details that matter: the radius of round 0, and the way back into the box
#
# *The radius.* At the start no centre is near its cluster. So the **Step** strategy uses $b\sqrt d$ in
# round 0, which leaves out nearly nothing, and η afterwards. **Constant** uses η throughout. Eq. 8
# writes one η for all rounds ([L2](../data/results/claims.md#L2)).
#
# *The box.* Noise throws centres out of the box. One may **truncate** to the wall, or **fold**:
# reflect at the wall, as often as needed. Both see released numbers only, so they are free. The paper
# prints folding as: take $(x+b)\bmod 2b;$ if the result exceeds $b$, subtract it from $2b$; subtract
# $b$. The reflection is: $y=(x+b)\bmod 4b;$ if $y>2b$, take $4b-y$; subtract $b$
# ([F5](../data/results/claims.md#F5)).
#
# **Predict.** An implementer reads Eq. 8 literally: radius $\sqrt d$ in round 0, but noise for η. The
# ledger says ε = 1. What is true, on S1 (a data set of the paper in the plane: 5000 records, $k=15$;
# seven rounds)? And what does the printed rule of folding make of 0.5, which is inside the box?

# %% tags=["fixed"]
radii, delta_s1 = fl.round_radii(7, 15, 2), fl.default_delta(5000)
sigma = np.sqrt(7) / acc.gdp_mu(1.0, delta_s1)  # of each of the 7 rounds
sd_r, sd_c = fl.split_noise(sigma, 2)
mus = np.r_[radii / (sd_r * radii[-1]), np.full(7, 1 / sd_c)]
wrong = acc.gdp_epsilon(float(np.linalg.norm(mus)), delta_s1)
sd_count = np.sqrt(2) * fl.split_noise(1 / acc.gdp_mu(0.1, delta_s1), 2)[1]

# %%
ours = planned(hospitals, seed=SEED)[1].mechanisms
x, mirrored = np.linspace(-1, 1, 1001), kmeans.fold_as_printed(0.5)
print(f"radii {radii[:2].round(3)}; true ε {wrong:.2f}; 0.5 → {mirrored}")
check(wrong > 1.9, "noise for η in round 0 breaks the promise of ε = 1")
check(np.ptp([r.gdp_mu for r, _ in ours]) < 1e-12,
      "in our plan every round has the same strength")  # fmt: skip
check(mirrored == -0.5,
      "the printed rule sends 0.5, which is inside, to -0.5")  # fmt: skip
check(
    np.allclose([kmeans.fold(x), kmeans.fold(2 - x)], x),
    "our folding keeps what is inside and reflects what is outside",
)

# %% [markdown]
# The truth is ε = 1.97: the noise of round 0 must follow the radius of round 0. `fastlloyd.plan` ties
# the two together, and the federation refuses a mechanism whose sensitivity is below that of the
# statistic, whoever made the plan. The printed folding sends every positive coordinate to the negative
# side ([L11](../data/results/claims.md#L11)). Folding rightly helps a centre in the middle as soon as
# the noise reaches the walls; near a wall, truncating can be better
# ([L12](../data/results/claims.md#L12)).
#
# ## 7. The wire: pads, and five ways to get them wrong
#
# The server must add up numbers that it cannot read. **Masked secure aggregation** (Figure 1 of the
# paper):
#
# 1. A client turns its number $v$ into an integer, $\mathrm{round}(v\,2^f),$ modulo $2^{32}$ or $2^{64}$ (a *ring*).
# 2. It adds a **pad**, a random integer that is uniform on the whole ring, and sends the result.
# 3. The server adds up all words, adds its own rounded noise, and sends the total back.
# 4. The clients know all pads (they share a secret), subtract their sum, and divide by $2^f$.
#
# A value plus a uniform pad is uniform whatever the value: perfect, **if** the pad covers the whole
# ring, and **if** it is used once ([L16](../data/results/claims.md#L16)).
#
# **Predict.** The server sees many words that hide −5000, 0 or +5000. Can it tell them apart? What if
# the pads were drawn from $[0,2^{31})$ on a ring of 32 bits, as the paper's released code does?


# %%
def to_ring(v, f=16):
    """Fixed point, 32 bits, f of them fractional: round(v 2^f) mod 2^32."""
    scaled = np.rint(np.asarray(v) * 2**f).astype(np.int64)
    return (scaled % 2**32).astype(np.uint32)


def from_ring(word, f=16):
    return np.asarray(word, dtype=np.uint32).view(np.int32) / 2**f


rng, hidden, full, half = stream("masks"), (-5000, 0, 5000), {}, {}
for v in hidden:  # 60,000 messages that hide v, under two kinds of pads
    pads = rng.integers(0, 2**32, (2, 60_000), dtype=np.uint32)
    full[str(v)] = to_ring(v) + pads[0]
    half[str(v)] = to_ring(v) + pads[1] // 2
sums_a, counts_a = experiments.relative_statistic(parts[0], start, 2**0.5)

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(8.4, 3.5), sharey=True)
titles = "pads on the whole ring", "pads on half of it"
_ = draw.plot_masked(axes, (full, half), titles, 32)
headline(fig, "Full-range pads hide the value, half-range pads do not")
show(fig, "Histograms of masked words: flat for full pads, not for half")


# %%
def read_off(words):
    """Sign and size of the value under half-range pads."""
    high = words[words >= 2**31]  # the right half, which should be empty
    size = len(high) / len(words) * 2**15
    return -size if len(high) and np.median(high) > 0.75 * 2**32 else size


values = np.round([read_off(words) for words in half.values()])
print(f"half ring: the server reads {values.tolist()}, true is {hidden}")
check(
    np.allclose(values, hidden, atol=300),
    "pads on half of the ring: the server reads each value within 300",
)
check(max(full["0"]) > 2**32 - 2**20, "the other pads use the whole ring")

# %% [markdown]
# **Read the figure.** Left: the three kinds of words look alike. Right, **mistake 1**: pads from half
# of the ring. Words that spill over its edges say the sign, and their number says how large. *The
# fix:* pads on the whole ring. Four more mistakes. *Predict* what each gives away (PRNG: a pseudo-random
# generator, which makes the same numbers from the same seed; released code: commit 5209565, as above):
#
# | mistake | where | what happens |
# |---|---|---|
# | **2. a pad used twice** | Figure 1 has the same pads, PRNG(seed, round), for sums and counts ([L.code.pads](../data/results/claims.md#L.code.pads)) | the server subtracts the two messages |
# | **3. one seed for all** | released code: the server's noise has the seed of the clients' pads ([L.code.seed](../data/results/claims.md#L.code.seed)) | hospital A sees the noised total |
# | **4. a ring too small** | 32 bits with 16 after the point hold numbers below $2^{15}$ ([L15](../data/results/claims.md#L15)) | 40000 records report their count |
# | **5. one stream, two noises** | released code: sums and counts take theirs from one stream | section 11 catches it |

# %%
pad = stream("reuse").integers(0, 2**32, K, dtype=np.uint32)  # mistake 2
reads = from_ring(to_ring(sums_a[:, 0]) + pad - (to_ring(counts_a) + pad))
print("mistake 2: the server computes R - n =", reads.round(1).tolist())
check(
    np.allclose(reads, sums_a[:, 0] - counts_a, atol=2**-15),
    "a pad used twice gives the server R - n, to a step of the ring",
)


# %%
def a_learns(server, client):
    """Error of what A computes of B; server and client draw the noise."""
    noise, shape = ours[0][0], (K, 2)
    sums_b = experiments.relative_statistic(parts[1], start, 2**0.5)[0]
    total = sums_a + sums_b + noise.sample(shape, rng=server)
    own = noise.sample(shape, rng=client) + sums_a  # what A takes away
    return np.abs(total - own - sums_b).max()


same = a_learns(*map(np.random.default_rng, (42, 42)))  # mistake 3
print(f"mistake 3: A knows the sums of B to {same:.0e}")
check(same < 1e-9, "with one seed A has the exact sums of B")
check(a_learns(stream("wire"), stream("solutions")) > 1,
      "with two seeds A is off by more than 1")  # fmt: skip


# %%
import copy

from fedclust_helpers.secure_aggregation import PadBook


def refused(attempt):
    """What the package says to an attempt that it must not allow."""
    try:
        attempt()
    except (RuntimeError, TypeError, ValueError) as error:
        print("the fix:", str(error).split(": ")[0].split(", but")[0])


book = PadBook(secret=bytes(32), session=b"demo")
_ = book.pads("R", 0, 1, (K,)), book.pads("n", 0, 1, (K,))  # other pads
refused(lambda: book.pads("R", 0, 1, (K,)))  # each pad once
refused(lambda: copy.deepcopy(book))  # and a copy would begin anew
totals = 32767, 32768, 40000, 48842, 65536  # mistake 4
wrapped = [from_ring(to_ring(total)).item() for total in totals]
print(f"mistake 4: {totals} decode as {wrapped}")
small = simulate([np.resize(points, (40_000, 2))], "masked", seed=0, bits=32)
refused(lambda: fl.plan(small, n_clusters=K, epsilon=EPSILON))

# %% [markdown]
# **What they give away.** (2) The difference of sum and count, exactly. A `PadBook` hands out each
# page of pads once, and refuses to be copied: a copy would begin anew. (3) The exact sums of B. (4)
# Nothing, but the total wraps around without any error. So the plan refuses too small a ring before
# the run, from public bounds: a check on the data would leak.
#
# ## 8. Noise on integers: round, never truncate
#
# The noise becomes an integer too. Rounding commutes with adding an integer, so rounded noise is
# post-processing of real noise (Theorem A.2, [L13](../data/results/claims.md#L13)). Casting, as
# `astype(int)` does, **truncates toward zero** and does not commute: all of $(-1,1)$ goes to 0, which
# gets twice the mass of its neighbours: a *double atom*. Release the count of a cluster that has no
# record, and of its neighbour with one: the double atom sits at 0 or at 1, and shows which. Both
# distributions are known, so δ can be computed exactly.
#
# **Predict.** Is it a matter of taste, or of privacy? (One count of a run of two rounds, S1, ε = 0.1.)


# %%
def mass(m, sd, rule):
    """Probability that noise becomes m; upper tails are precise."""
    low, high = np.abs(m) - 0.5, np.abs(m) + 0.5
    if rule == "truncated":
        low, high = np.where(m == 0, -1, np.abs(m)), np.abs(m) + 1
    return stats.norm.sf(low / sd) - stats.norm.sf(high / sd)


def exact_delta(epsilon, sd, rule):
    """δ(ε) of a count that is 0 or 1."""
    m = np.arange(-int(30 * sd), int(30 * sd) + 1)
    p, q = mass(m, sd, rule), mass(m - 1, sd, rule)
    both = p - np.exp(epsilon) * q, q - np.exp(epsilon) * p
    return max(np.maximum(excess, 0).sum() for excess in both)


cut, fine = (exact_delta(0.1, sd_count, r) for r in ("truncated", "rounded"))
check(round(cut / delta_s1) == 193,
      "truncated noise: δ is 193 times the claim")  # fmt: skip
check(fine < delta_s1, "rounded noise: δ stays below the claim")

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(8.4, 3.5))
_ = draw.plot_rounding(axes, mass, exact_delta, sd_count, (0.1, delta_s1))
headline(fig, "Truncated noise has a double atom, and δ does not fall")
text = "Left: an atom that moves with the record. Right: delta over epsilon"
show(fig, text + ", level if noise is truncated, falling if rounded")

# %% [markdown]
# Of privacy. **Read the figure.** Left: probabilities of a released count near 0. All values are almost
# equally likely, except for the double atom, which moves with the record. Right: exact δ of this single
# release. With truncated noise it stays at the size of the atom, whatever ε: 193 times what the whole
# run claims (diamond; [L.code.truncation](../data/results/claims.md#L.code.truncation)). The values are
# rounded as well, which adds $\sqrt d\,2^{-f}$ to η ([L14](../data/results/claims.md#L14));
# `fastlloyd.plan` counts it.
#
# ## 9. Algorithm 1, line by line
#
# Everything is in place; what is left to write is the loop. The paper's pseudo-code (with our letters;
# GlobalMSA is the masked secure aggregation of section 7), with the protocol of Figure 1 where it is
# called:
#
# ```text
# Algorithm 1, client i
#  1  input: its data set D_i
#  3  m <- Initialization(seed)
#  4  for t = 1 ... T:
#  6    for x in D_i:
#  7      j <- nearest centre of x
#  8      if |x - m_j| < eta:
#  9        put x into O_ij
# 12    R_ij <- sum over O_ij of (x - m_j)
# 13    n_ij <- |O_ij|
# 15    R <- GlobalMSA(R_i, seed, t)
# 16    n <- GlobalMSA(n_i, seed, t)
# 19    m <- R/n + m, step cut to length eta  (cut: text of 5.3.5)
# 20    m <- Fold(m)
#
# Figure 1, GlobalMSA(v_i, seed, t)
#     clients: pad_1 ... pad_M <- PRNG
#     clients: send round(v_i 2^f) + pad_i
#     server:  add them up, add round(noise 2^f), send back
#     clients: subtract pad_1 + ... + pad_M, divide by 2^f
# ```
#
# The start (line 3) is **sphere packing**: $k$ points of the box as far from each other and from the
# walls as can be, found without looking at the data. Line 19 cuts a step that is longer than the radius:
# records within η have their mean within η, so only noise can make it longer. A noised count below 1 is
# taken as 1. Both are free: post-processing. The second cell compares with the package's function on the
# same noise: they must agree to the resolution of the ring. (The pads differ: they cancel.)


# %% tags=["algorithm"]
def from_scratch(clients, k, epsilon, streams, secret, f=30, alpha=0.8):
    """Algorithm 1 and Figure 1; comments name lines of the pseudo-code."""
    n, d = sum(len(c) for c in clients), clients[0].shape[1]
    sigma = 1 / acc.gdp_mu(epsilon, 1 / (n * np.log(n)))  # Theorem 2.3
    eta, root = alpha * np.sqrt(d) / k ** (1 / d), np.sqrt(4 * d)  # Eq. 25
    most = 0.016 * n**2 / (k**3 * (eta * sigma * (1 + root)) ** 2)  # Eq. 21
    T = int(np.clip(np.floor(most), 2, 7))
    sd_c = sigma * np.sqrt(1 + root) * np.sqrt(T)  # Eq. 7 and 9
    sd_r = sd_c / np.sqrt(root)  # Eq. 19, per unit of radius

    def ring(v):
        return np.rint(v * 2.0**f).astype(np.int64).view(np.uint64)

    def global_msa(values, sd):  # lines 15 and 16; values (M, ...)
        pads = secret.integers(0, 2**64, values.shape, dtype=np.uint64)
        words = ring(values) + pads  # clients send, server sees
        noise = ring(streams.noise.normal(0, sd, values.shape[1:]))
        total = words.sum(axis=0) + noise  # server
        return (total - pads.sum(axis=0)).view(np.int64) / 2**f  # clients

    m = kmeans.sphere_packing(k, d, rng=streams.public)  # line 3
    for t in range(T):  # line 4
        radius = np.sqrt(d) if t == 0 else eta  # Step, section 6
        sums = np.zeros((len(clients), k, d))
        counts = np.zeros((len(clients), k))
        for i, x in enumerate(clients):  # each client for itself
            squared = ((x[:, None] - m) ** 2).sum(axis=2)
            inside = squared.min(axis=1) <= radius**2  # line 8
            nearest = squared.argmin(axis=1)  # line 7
            member = inside[:, None] * np.eye(k)[nearest]  # line 9
            counts[i] = member.sum(axis=0)  # line 13
            sums[i] = member.T @ x - counts[i][:, None] * m  # line 12
        reach = radius + np.sqrt(d) * 2.0**-f  # sections 3 and 8
        r, c = global_msa(sums, sd_r * reach), global_msa(counts, sd_c)
        step = r / np.maximum(c, 1)[:, None]
        length = np.linalg.norm(step, axis=1, keepdims=True)
        m = kmeans.fold(m + step * np.minimum(1, radius / length))  # 19
    return m


# %%
clients = parts, K, EPSILON, Randomness.teaching(SEED)
my = from_scratch(*clients, stream("wire"))
theirs = fl.run(*planned(parts, "masked", seed=SEED)).centers
check(
    np.allclose(my, theirs, atol=1e-8),
    "from scratch and the package end on the same centres, to 1e-8",
)

# %% [markdown]
# ## 10. The full run: who saw what, and what did it cost
#
# A run is **planned** before it is made. The plan is public, every party can read it before it sends
# anything, and it prints as the privacy statement of the run. `run` only follows it: the federation
# makes these releases, in this order, and refuses all others.
#
# **Predict.** Two clients, $k=5$, $d=2$, words of 8 bytes. How many bytes cross the wire in one round?
# And two such runs on one data set, as in May and June: which ε?

# %%
first, *others = seeds("run", 101)
room = simulate(hospitals, "masked", seed=first, keep_payloads=True)
plan = fl.plan(room, n_clusters=K, epsilon=EPSILON)
run = fl.run(room, plan)
more = [fl.run(*planned(hospitals, seed=s)).centers for s in others]
over = [nicv(points, m) / alone[2] for m in (run.centers, *more)]
bad = np.mean(np.array(over[1:]) > 1.5)
print(f"100 more starts: {bad:.0%} end above 1.5 times k-means")
plan

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(4.8, 4.4))
last = run.plan.broadcasts("radius")[-1]
_ = draw.plot_run(ax, points, run.history, radius=last)
title = f"{plan.n_rounds} rounds at ε = {EPSILON:g}: "
_ = ax.set_title(title + f"{over[0]:.2f} times k-means")
show(fig, "Scatter plot: centres wander from a start into the groups")

# %% [markdown]
# **Read the plan.** *guarantee*: what will be charged. Each *round* line is one release of two arrays:
# the noise and the largest change by one record that it hides; sections 3 to 6 derived them.
# *predicted* is the error of section 5 (so $k^2$, not the printed $k^3$) for a step of length 0, as in
# the last round. **Read the figure.** Hollow marks: the public start. Lines: the way of each centre.
# Dotted circles: the radius η; records outside all of them do not count. Not every start ends so well:
# the line above the plan says how many of 100 end far above k-means, and section 13 why.
#
# **Predict**, then play: at α = 0.2, which is worse, Step or Constant?
#
# <details><summary>What you will see</summary>
#
# Constant. A small radius in round 0 sees no record of a cluster that is far away, and a centre without
# records does not move. On the paper's 48 synthetic sets at ε = 0.1 it is the same: at α = 0.2 Constant
# costs 1.73 times as much as GLloyd and Step 1.25 times, at 0.8 they are near each other, 0.83 and 0.79
# ([table](../data/results/fastlloyd_ablation.csv), folded, steps cut: column `normalised`).
#
# </details>

# %% tags=["widget", "nbval-ignore-output"]
from studies.fastlloyd import widget as play

_ = play.explore(hospitals, seed=SEED)

# %%
frame = room.transcript.to_frame().query("round <= 0")
display(frame.set_index(["round", "sender", "receiver"]))
wire = [m.payload for m in room.transcript.view("server") if m.round >= 0]
high = np.concatenate([w.ravel() for w in wire]) >= 2**63  # top bits
ledger, columns = room.ledger, ["round", "mechanism", "sensitivity", "std"]
bill = [round(ledger.epsilon(run.delta, method=m), 4) for m in ("gdp", "pld")]
twice = acc.gdp_epsilon(np.sqrt(2) * ledger.gdp_mu(), run.delta)
ledger.to_frame()[columns].head(4)

# %%
n_bytes = room.transcript.n_bytes(round=1)
print(f"{n_bytes} bytes a round; top bit set in {high.mean():.0%}")
print(f"ε (GDP, PLD): {bill}; of two runs {twice:.2f}")
check(n_bytes == 8 * K * 3 * 4,
      "a round is 8 bytes x k(d + 1) numbers x 4 messages")  # fmt: skip
check(
    abs(high.mean() - 0.5) < 2.5 / len(high) ** 0.5,
    "the top bits of masked words are fair coins, to 5 standard errors",
)
check(np.allclose(bill, EPSILON, rtol=0.01),
      "both accountants find the ε asked for")  # fmt: skip
check(1.4 < twice / EPSILON < 1.6,
      "two runs cost about 1.5 times the ε of one")  # fmt: skip

# %% [markdown]
# **Read the transcript** (key agreement, then round 0). To the server went public keys, a sealed secret
# that it relayed, and masked words; their top bit is a coin toss. To the clients went masked totals with
# noise. No row holds a centre: every client computes them from what it unmasked. It sees the noised
# total and can take its own part away: with two hospitals, A learns the noised total of B, which is what
# ε protects. A round is 480 bytes: 15 numbers of 8 bytes, sent and received by two clients (as in the
# paper's Table 3, [L.table3](../data/results/claims.md#L.table3)). **Read the ledger** (two rounds are
# shown; Gaussian DP adds them up). Its closed form (GDP) and an independent library, which adds up whole
# distributions of the privacy loss (PLD), agree: ε = 1. Two such runs cost ε = 1.48.
#
# ### Publishing the result
#
# The server added the noise, so it knows it. That does no harm as long as it never sees a result.
# Suppose the hospitals put their centres on a web page, after one round from the public start.
#
# **Predict.** A published centre is the old one plus (sum + noise) / (count + noise). The server knows
# the old one and both noises. Can it find the sum and the count? (It tries every count: only with the
# true one, the sum is a whole number of steps of the fixed-point grid.)

# %%
bad, safe = (  # who adds the noise
    experiments.read_published(parts, start, noise_from=who, n_clusters=K,
                               epsilon=EPSILON, seed=seeds("publish", 1)[0])
    for who in ("server", "clients")
)  # fmt: skip
larger = safe.planned_error / bad.planned_error
print(
    f"true counts {bad.true_counts}\nfound, if the server adds the noise: "
    f"{bad.counts}\nif clients do: {safe.counts}; error x {larger:.2f}"
)
check(
    (bad.counts == bad.true_counts).mean() > 0.5,
    "noise from the server: it finds more than half of the counts",
)
check(bad.largest_error < 1e-6,
      "where it has the count, it has the exact sum")  # fmt: skip
check(
    (safe.counts == bad.true_counts).mean() < 0.5,
    "noise from the clients: it finds less than half of the counts",
)
check(abs(larger / 2**0.5 - 1) < 0.01,
      "two clients: the error is sqrt(2) larger")  # fmt: skip

# %% [markdown]
# Where the two lines of counts agree, the server has the count and with it the exact sum, from the centres
# alone. With noise from the server, **nothing may send it the result**, and
# a web page does. The fix is `noise_from="clients"`: every client adds a share of the noise before it
# masks, and the server adds none. The other clients' shares must suffice alone, because each client
# knows its own. With $M$ clients the noise is larger by $\sqrt{M/(M-1)},$ so for two hospitals the error
# grows by $\sqrt2.$ (Shares are whole numbers of steps of the grid, and their sum is not quite a Gaussian
# either; the ledger counts a proved gap, next to nothing on so fine a grid.) The same shares make a run without any server (the paper's Appendix C.1):
# `simulate(data, "serverless", ...)`.
#
# ## 11. Do not believe us: an audit
#
# A proof covers the algorithm on paper. Between paper and code lie slips: a noise that is too small, a
# sensitivity for the wrong neighbours, one stream used for two things. An audit treats the release as a
# black box. A pass proves nothing; a failure proves a bug. We audit one round of the masked protocol,
# through the wire, with a budget of μ = 1 (an audit needs a loud signal).
#
# **A. Noise scale.** Repeat the release on fixed data: is the spread as claimed, and are all noises
# independent? **B. Canary.** Release with and without one worst-case record, score each release by the
# attack of section 2, and turn hits and false alarms into a lower bound on μ (95 % confidence).
#
# **Predict.** Mistake 5 of section 7: counts and sums share one stream of noise. Is the spread of each
# wrong? And for the code that is right: how close to 1 does the bound on μ come, in six audits?

# %%
two = [parts[0][:150], parts[1][:150]]  # two small hospitals
tiny, audited = 1e-5, simulate(two, "masked", seed=0)
budget = dict(epsilon=acc.gdp_epsilon(1.0, tiny), delta=tiny, n_rounds=1)
loud = fl.plan(audited, n_clusters=K, strategy="constant", **budget)
at = start, loud.broadcasts("radius")[0]
stds = tuple(noise.std for noise in loud.mechanisms[0])
truth = experiments.relative_statistic(np.vstack(two), *at)


def one_stream(rng, n_runs):
    """Mistake 5: the counts reuse the noise of the sums."""
    z = rng.normal(size=(n_runs, K, 2))
    z_counts = z.reshape(n_runs, -1)[:, :K]
    return truth[0] + stds[0] * z, truth[1] + stds[1] * z_counts


# %%
first, second, third = seeds("noise-scale", 3)
claim = dict(n_runs=N_AUDIT, vectorized=False)
release = experiments.through_the_wire(two, loud, start, first)
rngs = stream("noise-scale"), stream("broken")
scale = audit.audit_noise_scale(release, truth, stds, rng=rngs[0], **claim)
twins = audit.audit_noise_scale(one_stream, truth, stds, rng=rngs[1])
canary = start[:1] + at[1] * (1 - 1e-7) * np.array([[1.0, 0.0]])
truth_with = experiments.relative_statistic(np.vstack([*two, canary]), *at)
wire, more = experiments.through_the_wire, [*two, canary]
pair = wire(two, loud, start, second), wire(more, loud, start, third)
how = dict(claimed_mu=1.0, rng=stream("canary"), **claim)
bound = audit.audit_release(*pair, truth, truth_with, stds, **how)


# %%
def all_at_once(exact):
    """The same release without the wire: exact sums, counts and noise."""

    def release(rng, n):
        noised = zip(exact, stds, strict=True)
        return tuple(x + rng.normal(0, s, (n, *x.shape)) for x, s in noised)

    return release


again, lower = (all_at_once(truth), all_at_once(truth_with)), []
for seed in seeds("search", 5):
    how = {"claimed_mu": 1.0, "rng": np.random.default_rng(seed)}
    how |= {"n_runs": N_AUDIT}
    found = audit.audit_release(*again, truth, truth_with, stds, **how)
    lower.append(round(found.mu_lower_bound, 2))

# %%
print(f"A: {scale.verdict}; mistake 5 correlates {twins.max_correlation:.0%}")
print(f"B: {bound.verdict}; claimed μ 1, at least {bound.mu_lower_bound:.2f};"
      f" in five more audits at least {lower}")  # fmt: skip
check(scale.passed and bound.passed,
      "the code that is right passes both audits")  # fmt: skip
check(twins.correlated, "one stream for two noises shows as a correlation")
check(0.1 < min(lower) < max(lower) < 1.1, "bounds on μ differ by luck")

# %% [markdown]
# The code that is right passes both. (A false alarm has a chance of 1e-3 in A and of 5 % in B.) How much
# of μ = 1 the canary shows is luck: the bounds printed above differ. The shared stream
# fails, although the spread of each query is as it should be: only a look at both together finds that
# they are copies (correlation 100 %). (An audit of each query alone finds other slips: counts carry a
# small part of the budget, so a mistake in their noise hardly shows in a score of everything.)
#
# ## 12. Does it cluster well? The paper's figures, counted
#
# The paper shows its results as curves without numbers. We ran the same sweeps with two clients. Columns are
# mapped to $[-1,1]$ by their own minimum and maximum, as in the paper (**not private**). Each row of the
# figure counts comparisons: in how many are two 95 % intervals apart? One comparison is a data set at one ε in
# Figures 2 and 6 to 8 (ten sets, five ε, 30 to 100 runs), a data set and a rival in Figures 3 and 4 (21 to 100
# runs; AUC: the area under the cost over ε, small is good), and one choice of the other options in Figure 5
# (48 sets, 20 runs each).
#
# **Predict.** FastLloyd folds its steps back into the box, and the paper's baselines may not. How much
# of its lead is left against baselines that fold too?

# %% tags=["hide-input"]
wins = studies.claims("fastlloyd", "tables").set_index("id")
fig, ax = plt.subplots(figsize=(8.6, 5.4))
_ = draw.plot_wins(ax, wins)
show(fig, "Dot plot: the share won and lost of the comparisons in each row")

# %%
designs = [(k, d) for k in (2, 4, 8, 16) for d in (2, 4, 8, 16)]  # Figure 5
wide = [fl.max_radius(k, d, alpha=2.0) > np.sqrt(d) for k, d in designs]
print(studies.claims("fastlloyd")["verdict"].value_counts().to_string())
check(sum(wide) == 12,
      "at α = 2, η exceeds the radius of round 0 in 12 of 16")  # fmt: skip

# %% [markdown]
# **Read the figure.** In brackets: the number of comparisons. Dots: those that FastLloyd (or the first of
# two options) wins; crosses: those that it loses. The rest are ties, and a tie is no evidence.
#
# * *Cost.* FastLloyd is better than GLloyd in 72 % of 50 comparisons, and worse in none. Against GLloyd that
#   folds, as FastLloyd does, it is better in 62 % and worse in 6 %: part of the lead is folding
#   ([L.fig2.glloyd_fold](../data/results/claims.md#L.fig2.glloyd_fold)).
# * *Other measures* of a clustering (Figures 6 to 8): mostly ties. The *silhouette* compares how near a record is to
#   its own cluster and to the next one, *Davies-Bouldin* the width of clusters with their distance; *centroid error*
#   is the squared distance to the best centres. (*Synth* and *Synth-K* are mixtures that we drew as the paper says, with
#   $k$ clusters in $d$ columns and in the plane.)
# * *Step against Constant* ([L.fig5.constant](../data/results/claims.md#L.fig5.constant)): Step loses three of 42, all
#   with α = 2. There its first radius, which should be the wider one, is the narrower one (the last check)
#   and drops records that Constant keeps. At the α = 0.8 of the paper Step wins or ties.
#
# The table counts the verdicts on all claims: *in shape* agree in most places, *undecided* are
# mostly ties (rules: [page of claims](../data/results/claims.md)). The privacy theorems hold for add/remove, up
# to one slip: rounding does not keep the sensitivity, by a hair ([L14](../data/results/claims.md#L14); section 8).
# Among the refuted are an error formula, misprints such as the folding rule, the protocol figure taken literally,
# shortcuts of the released code that would undo the protection in practice, and our own guess that the lead
# does not need folding.
#
# ## 13. Where it breaks
#
# A radius, a fixed start, and noise that ignores the size of a cluster: each has a price.
#
# **Predict.** Which of these hurts at ε = 1: few records? many columns? And how much of the loss is
# privacy, how much the start? (What would tell them apart?)


# %%
def losses(n, d):
    """For each data set: private / exact Lloyd, exact Lloyd / k-means."""
    for seed in seeds("breaks", N_SETS):
        of_data, of_run = seed.spawn(2)
        rng = np.random.default_rng(of_data)
        groups = rng.uniform(-0.7, 0.7, (K, d))
        data = groups[np.arange(n) % K] + rng.normal(0, 0.1, (n, d))
        data = np.clip(data, -1, 1)
        best = nicv(data, kmeans.lloyd(data, groups, n_rounds=5))
        room = simulate([data], "ideal", seed=of_run)  # one start for both
        exact = fl.run(room, fl.plan_lloyd(room, n_clusters=K)).centers
        private = fl.run(*planned([data], seed=of_run)).centers
        cost = nicv(data, exact)
        yield nicv(data, private) / cost, cost / best


# %%
by_n = {n: np.array(list(losses(n, 2))) for n in (100, 300, 1000, 3000)}
by_d = {d: np.array(list(losses(2000, d))) for d in (2, 8, 32, 64)}
privacy, lost = experiments.privacy_and_start(by_n, by_d)
check(
    privacy[0] > 1.3 > 1.2 > privacy[1],
    "privacy costs a factor with few records, and little with many",
)
check(
    lost[1] > max(0.25, lost[0]),
    "in many columns the start alone doubles the cost more often",
)

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(8.4, 3.6))
_ = draw.plot_breaks(axes, by_n, by_d)
few = f"Privacy costs a factor of {privacy[0]:.1f} with {min(by_n)} records"
headline(fig, few + f", {privacy[1]:.1f} with {max(by_n)}")
show(fig, "Cost of privacy falls with n, cost of the start rises with d")

# %% [markdown]
# **Read the figure.** Medians of 30 data sets, bars from 10 to 90 %. Both runs have the same public
# start. So circles (FastLloyd over exact Lloyd) are what privacy costs, and squares (exact Lloyd over
# k-means from the true means) are what the start costs, with no noise at all. Left: with 100 records, 20
# a group, privacy more than doubles the cost; with 3000 it is nearly free, and what is left is the
# start. Right: in many columns sphere packing, which does not look at the data, often leaves a group
# without a centre of its own; then exact Lloyd ends several times above k-means, too. Privacy comes on
# top (the noise of a sum grows with $\sqrt d$), but as a factor on a cost that the start has multiplied
# already, so the blue line falls again. Who compares FastLloyd with k-means alone blames privacy for all
# of it. The bars are long: a private run may end in another optimum than the exact one, a better or a
# worse one.
#
# ## 14. The better release
#
# The same guarantee buys more, in three steps; each run has a ledger of its own, and adds up to the same ε:
#
# 1. **Find the data first.** In few columns one noised histogram shows where the records are: sensitivity
#    1, whatever the radius. k-means on its cells costs nothing more.
# 2. **Then cut, do not leave out.** One round from there, in which a far record pulls with length η
#    instead of none. Centres are near their groups by now, so η can be smaller than FastLloyd's.
# 3. **Over-cluster.** The cut round moves $2k$ centres, which are merged to $k$ (free); a last round
#    settles them. Before the histogram two coarse and cheap ones find the box that holds the data,
#    so that its cells are finer: five releases, and not all of the gain is over-clustering. This is
#    `fastlloyd.plan_overclustered`, or `FastLloydKMeans(method="overclustered")`.
#
# **Predict.** Three times as many groups as so far, 3000 records. Which step gains most? And how many
# releases does it make? (FastLloyd makes one in each round.)

# %%
ladder = experiments.ladder(3 * K, EPSILON, seeds("ladder", N_RUNGS))
display(ladder.round(2))
check((ladder["epsilon"] <= EPSILON * (1 + 1e-6)).all(),
      "all have one guarantee")  # fmt: skip
check(ladder["high"].iloc[1] < 1, "the histogram gains, beyond chance")
check(ladder["high"].iloc[-1] < 0.9, "the last one gains a tenth at least")

# %% [markdown]
# **Read the table.** NICV over FastLloyd's (geometric mean over 12 draws of the data, with its 95 %
# interval): most is gained by looking for the data first, with a single release. Whether the cut alone gains
# anything, 12 draws cannot tell. In many columns other releases take the place of the histogram: the mean
# and the spread of each column (*moments*), and *votes*, each record's for the nearest of many public
# candidates; how it does on data sets made later says
# [B.central.fresh](../data/results/claims.md#B.central.fresh), and against other libraries notebook
# [05](05_side_by_side.ipynb). With `n_clusters="auto"` the server reads $k$
# off the same releases; [B.k.elbow](../data/results/claims.md#B.k.elbow) says where that fails.
#
# *Tried in vain:* more budget for the histogram, fewer rounds, stronger shrinkage, and more:
# [a table](../studies/beyond/notes.md#tried-in-vain).
#
# ## 15. Run it on data that matters
#
# Everything above was **teaching mode**: one seed, reproducible, private against nobody who knows it.
# **Secure mode** takes keys and discrete noise from the operating system and accepts no seed. The
# estimator `FastLloydKMeans` takes a table (or one per hospital) in its own units, and bounds that you
# know *without looking at the data*. Here: tumours of 569 patients, four hospitals, and limits of 0 and 40,
# round and wide. δ is $10^{-6}$, said expressly. The default is the paper's $1/(n\ln n)$: a mechanism that
# publishes each record with that probability exposes somebody in 15 % of its runs (printed below). With a
# file of your own, the first line is `table = pd.read_csv("patients.csv")`; the last column says who owns the
# row. Read the plan before you run:
#
# * **Is the noise small against what you look for?** *predicted* is the mean squared distance by which
#   noise moves a centre, here in units of the spread of the data. Its root (printed above the plan) should be well below half the
#   gap between groups.
# * **Is the budget what was agreed**, for the right unit (one row!), and is one ledger used for all runs on
#   these data?

# %%
from importlib.util import find_spec

from sklearn.datasets import load_breast_cancer

table = load_breast_cancer(as_frame=True).data.iloc[:, :2]
table["hospital"] = [f"hospital {i % 4}" for i in range(len(table))]
low, high, kinds = np.array([0, 0]), np.array([40, 40]), 2  # public
secure = find_spec("opendp") is not None  # pip install 'fedclust[secure]'
mode = dict(mode="secure") if secure else dict(mode="teaching", seed=SEED)
rows = [part.iloc[:, :2] for _, part in table.groupby("hospital")]
boxed = [datasets.scale_to_box(part, low, high) for part in rows]
room = simulate(boxed, "masked", noise_from="clients", **mode)
asked = {"epsilon": EPSILON, "delta": DELTA}
real = fl.plan_overclustered(room, n_clusters=kinds, **asked)
for delta in (fl.default_delta(len(table)), DELTA):
    somebody = 1 - (1 - delta) ** len(table)
    print(f"δ = {delta:.1e} may expose somebody in {somebody:.2%} of runs")
print(f"noise moves a centre by about {real.predicted_error**0.5:.2f}")
real

# %%
asked |= {"lower": low, "upper": high}
better, box = {"method": "overclustered"}, np.vstack(boxed)
model = estimators.FastLloydKMeans(kinds, **asked, **better, **mode)
_ = model.fit(table, clients="hospital")  # plans, runs, charges
best = fit(box, None, kinds, rng=stream("solutions"))


def taught(seed, **method):
    """Centres of a teaching run, and their cost over that of k-means."""
    how = {"mode": "teaching", "seed": seed}
    run = estimators.FastLloydKMeans(kinds, **asked, **method, **how)
    found = run.fit(table, clients="hospital").cluster_centers_
    scaled = datasets.scale_to_box(found, low, high)
    return found, nicv(box, scaled) / nicv(box, best)


found, times = taught(SEED, **better)
for name, method in (("section 14", better), ("FastLloyd", {})):
    over = np.array([taught(seed, **method)[1] for seed in range(12)])
    print(f"{name}: median {np.median(over):.2f}; > 1.35:", sum(over > 1.35))

# %%
print("centres of the teaching run:", found.round(1).tolist())
spent = model.ledger_.epsilon(model.result_.delta)
check(spent <= EPSILON * (1 + 1e-6), "the run costs no more than was asked")
check(model.result_.private == secure, "no seed takes its noise away")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(5.4, 4.0))
_ = draw.plot_table(ax, table, found, (best + 1) / 2 * (high - low) + low)
_ = ax.set_title(f"Tumours at ε = {EPSILON:g}: {times:.2f} times k-means")
show(fig, "Tumours by radius and texture, centres of both kinds of k-means")

# %% [markdown]
# **Read the figure.** Blue: centres of a teaching run of the plan above, in the units of the table (the secure
# run differs each time). Crosses: k-means without privacy. Nobody in the protocol could draw it. The better
# release of section 14 is used, for a reason that is printed: of twelve seeds FastLloyd ends far above k-means
# more often. In wide bounds its start often lies where there is no data.
#
# **Who saw what.** The server: words. Each hospital: the noised totals and, from them, the centres;
# its own number of rows outside the bounds is in `model.clipped_counts_` (for its eyes only: many mean
# that the bounds are wrong). Everybody: the centres, `model.cluster_centers_`. Labels come from
# `model.predict(rows)`, where the rows are.
#
# **When not to use FastLloyd**
#
# * Fewer than about a hundred records per cluster at ε = 1 (section 13); at half the ε, about twice as many,
#   because the noise is twice as large and is divided by the number of records.
# * Many columns, where the start finds only a part of the groups (section 13).
# * Groups that are rare or small against the noise of a count: they drown, and the radius ignores outliers.
# * The server has data of the same kind: it can find a better start (notebook 02).
# * Clients are persons with one row each who trust nobody: notebook 03. Or one model per client group: notebook 04.
# * A party may lie, pool what it knows with another, or drop out: one drop-out stops a round. With two hospitals, each sees
#   the other's noised total.
#
# ## Exercises
#
# 1. *(warm-up)* Your lawyers want **replace-one**. Which μ and ε does the run of section 10 give? Sums move by 2η,
#    two counts by 1 each. (`for sums, counts in plan.mechanisms: sums.gdp_mu, counts.gdp_mu`, and `acc.gdp_epsilon`.)
# 2. *(derive)* Show Eq. 19: minimise $(\sigma^C)^2+4d(\sigma^R)^2$ under Eq. 18.
# 3. *(derive)* Section 5.3.4 says that the protocol returns the *average* over clients; it returns the sum
#    ([L20](../data/results/claims.md#L20)). With the average, would anything be gained?
# 4. *(break)* Let hospital A collude with the server. What do they learn in round 0?
# 5. *(experiment)* You try seven values of α at ε = 1 each and keep the best. What was really spent?
#
# <details><summary>Solutions 1 and 5: the cells below</summary>
#
# 1: the strength of the sums doubles, that of the counts grows by $\sqrt2$ (two of them move by 1 each).
# Together 1.86 μ, and ε = 2.03. 5: all seven runs were made, so all seven are charged: about
# $\sqrt7\,\mu,$ ε = 3.03, and the look at the costs of the best is not even paid for.
# </details>
#
# <details><summary>Solution 2</summary>
#
# Put $a=\sigma^C/\sigma^R.$ Eq. 18 gives $(\sigma^R)^2=\sigma^2(1+a^{-2})$ and
# $(\sigma^C)^2=\sigma^2(1+a^2).$ The objective is $\sigma^2\,(1+a^2+4d+4d\,a^{-2}).$ Its derivative in
# $a$ is $2a-8d\,a^{-3},$ zero at $a^4=4d.$ The minimum is $\sigma^2(1+\sqrt{4d})^2,$ as in Eq. 20.
# </details>
#
# <details><summary>Solution 3</summary>
#
# One record changes the average by η/M, so noise with standard deviation smaller by the factor $M$ gives
# the same privacy. But sum and average differ by the same factor: after division by the count the centre
# is the same. Nothing is gained, and fixed point loses $\log_2 M$ bits.
# </details>
#
# <details><summary>Solution 4</summary>
#
# The server has the words and its own noise, and A has the secret, so all pads. The words of B minus
# its pads are B's exact sums: Theorem 5.2 covers one corrupted party, and no more.
# </details>

# %% tags=["solution"]
pairs = [(2 * r.gdp_mu, np.sqrt(2) * c.gdp_mu) for r, c in plan.mechanisms]
mu_replace, tuned = float(np.linalg.norm(pairs)), acc.PrivacyLedger()
for alpha in (0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0):
    room = simulate(hospitals, "ideal", seed=SEED, ledger=tuned)
    fl.run(room, fl.plan(room, n_clusters=K, epsilon=EPSILON, alpha=alpha))

# %% tags=["solution"]
ledgers = acc.gdp_epsilon(mu_replace, run.delta), tuned.epsilon(run.delta)
print(f"1: {mu_replace / mu:.2f} μ; ε in 1 and 5:", np.round(ledgers, 2))
check(1.6 < mu_replace / mu < 2,
      "1: replace-one costs between 1.6 and 2 times μ")  # fmt: skip
check(2.5 < ledgers[1] / EPSILON < 4,
      "5: seven runs cost 2.5 to 4 times the ε of one")  # fmt: skip

# %% [markdown]
# ## Recap
#
# 1. **Attack.** Two exact sums give a record away; the same attack on FastLloyd stays under the curve that
#    Gaussian DP allows.
# 2. **Derive.** Relative sums have sensitivity η instead of $b\sqrt d.$ The budget is split as
#    $\sigma^C=\sqrt[4]{4d}\,\sigma^R;$ the noise follows the radius of its round.
# 3. **Implement.** Forty lines, with pads that cover the ring, are used once, and come from a secret that the
#    server does not have; noise from a source that the clients do not have, or from all clients where the result
#    is published; rounding, never truncation. Nothing that holds pads, noise or a budget is copied.
# 4. **Check.** A ledger adds up, simulation tests a formula, an audit tests the code. Audit queries alone and together.
# 5. **Run.** Public bounds, the plan before the run, one ledger, secure mode; thousands of records and few columns.
#
# **Next:** notebook 02 keeps the idea of noised sums and asks for a better start, because sphere
# packing was the weakest link here.
#
# ## Check yourself
#
# <details><summary>1. Why do two exact sums give a record away, and two noised ones not?</summary>
#
# Their difference is the record. With noise the difference is the record plus noise that is larger
# than the box (section 2).
#
# </details>
#
# <details><summary>2. What does μ say about the best attacker?</summary>
#
# It does no better than somebody who tells one draw of $N(0,1)$ from one of $N(\mu,1)$ (section 2,
# section 4).
#
# </details>
#
# <details><summary>3. Why is the sensitivity η and not the diagonal of the box?</summary>
#
# Sums are measured from the centre, and records farther than η from it are left out. Replacing a
# record costs 2η (section 3).
#
# </details>
#
# <details><summary>4. Where does the 4 in 4d come from?</summary>
#
# From the guess that a centre moves by half the radius in a round: $1/(1/2)^2$ (section 5).
#
# </details>
#
# <details><summary>5. Which two conditions make a pad perfect?</summary>
#
# It is uniform on the whole ring, and it is used once, which copies of a pad book would break
# (section 7).
#
# </details>
#
# <details><summary>6. Why is noise rounded, not cast to an integer?</summary>
#
# Rounding is post-processing; a cast makes a double atom at 0 that shows where the true count is
# (section 8).
#
# </details>
#
# <details><summary>7. The hospitals publish their centres. Who learns what, and what must they change?</summary>
#
# The server takes its noise away and has exact sums and counts. The clients must add the noise
# (section 10).
#
# </details>
#
# <details><summary>8. FastLloyd ends far above k-means in 64 columns. Is that the price of privacy?</summary>
#
# Only in part: often exact Lloyd from the same start ends there too. Divide by it before you blame the
# noise (section 13).
#
# </details>
#
# ## References
#
# * A. Diaa, T. Humphries, F. Kerschbaum. *FastLloyd: Federated, Accurate, Secure, and Tunable k-Means
#   Clustering with Differential Privacy.* USENIX Security 2025. Sections 2 (Gaussian DP), 5 (algorithm, analysis), 6 (evaluation),
#   appendices A (proofs), B (ablation), C (serverless), D (other metrics). Left out: MohLloyd's running times
#   and the House data set, which we do not have.
# * J. Dong, A. Roth, W. Su. *Gaussian Differential Privacy.* JRSS B, 2022.
# * B. Balle, Y.-X. Wang. *Improving the Gaussian Mechanism for Differential Privacy.* ICML 2018.
# * D. Su, J. Cao, N. Li, E. Bertino, H. Jin. *Differentially Private k-Means Clustering.* CODASPY 2016.
# * A. Blum, C. Dwork, F. McSherry, K. Nissim. *Practical Privacy: the SuLQ Framework.* PODS 2005.
# * K. Bonawitz et al. *Practical Secure Aggregation for Privacy-Preserving Machine Learning.* CCS 2017.
# * P. Kairouz, Z. Liu, T. Steinke. *The Distributed Discrete Gaussian Mechanism for Federated Learning with
#   Secure Aggregation.* ICML 2021.
# * M. Nasr et al. *Tight Auditing of Differentially Private Machine Learning.* USENIX Security 2023.
