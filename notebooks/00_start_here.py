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
# # Noise, sums and trust: how do you cluster data that nobody may see?
#
# *You will attack a published mean, see what ε protects, and write one private step of k-means. 50 minutes to
# read, predict and run; your turn 15 more; exercises 15 more.*
#
# **You need** Lloyd's algorithm (assign each record to its nearest centre, move each centre to their mean, repeat),
# basic probability, and some NumPy.
#
# Clinics want to find groups among their patients. None may hand out its patient list. They can send **sums** and add
# **noise**. Who sees the sums, who adds the noise, and how much is enough?
#
# | trust model | what the server sees | who adds noise | whom you trust |
# |---|---|---|---|
# | **trusted server** | each client's exact sum | the server | the server |
# | **ideal secure sum** | the noised sum | a box that adds up, and that nobody looks into | the box |
# | **masked** | random numbers, not even the sum | the server, blindly, or each client a share | all to follow the rules and not to pool what they know; a server that adds the noise must never learn the result |
# | **local** | a noised report of each client | each client | nobody |
#
# Raw data never leave their clients. [Two more models](../docs/trust.md); [letters](../docs/symbols.md). Change any
# setting and run all cells: a check prints ✓, its claim and what was found, or that the claim does not hold.
# `stream("name")` is a random generator.

# %% tags=["settings"]
DATA = "four wards"  # made, so that we may look at them; or "tumours"
SEED, EPSILON, DELTA = 7, 1.0, 1e-5
K, N, M = None, None, 20  # clusters, patients (None: all), clinics

# %%
import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from fedclust_helpers import accounting, federation, kmeans
from studies.start import experiments, figures, lesson

check, stream, _ = lesson.begin(globals())
rows = lesson.data(DATA, N, M, rng=stream("data"))
points, clinics = rows.points, rows.clients()
n, k = len(points), K or rows.k

# %% [markdown]
# ## 1. Who sees what?
#
# Three clients hold the sums 12, 7 and 9. They want the total, 28, with a noise of 2 on it. In the masked model each
# client adds a **mask**, a random number of two digits, and sends the last two digits. The clients share a secret, so
# each can compute all masks. The server cannot.
#
# **Predict.** The server and client 1 put together what they know. Do they learn nothing about the 7, the sum of 7
# and 9, or the 7?

# %%
held, masks = np.array([12, 7, 9]), stream("masks").integers(0, 100, 3)
words = (held + masks) % 100  # what the server sees
total = (words.sum() + 2 - masks.sum()) % 100  # noise 2, no masks
check(total == held.sum() + 2, "masks cancel", found=f"28 and 2 give {total}")

# %% tags=["hide-input"]
import matplotlib.pyplot as plt

from studies.bench.plots import finish, show

_ = figures.plot_trust_models(plt.subplots(2, 2, figsize=(8.6, 5.4))[1], words)
show(plt.gcf(), "Three clients, a server, their messages in four trust models")

# %% [markdown]
# Answer: the 7, because client 1 can take its mask off. The server alone sees random digits. **Masks cancel** in the
# total, and hide each number as long as no client joins the server.
#
# **Read the figure.** Red numbers are exact: in model 1 the server reads them, in model 2 nobody looks into the box. In
# model 3 the server adds the noise; in the package each client adds a share, unless you say otherwise. In model 4
# three noises add up.
#
# **Take away.** Ask of every message who can read it, and with whose help.
#
# ## 2. Does rounding hide a patient?
#
# An attacker knows the values of all patients, and wants to know one thing only: was Alice's in the published mean? It
# computes the mean with her and without her.
#
# **Predict.** Each patient is Alice once, and a fair coin says whether her value is in. The mean is rounded to three
# decimals. In which share of the trials is the guess right: a half, three quarters, or all?


# %%
def mean_attack(values, target, is_in, decimals):
    """Is the guess right, if the rounded mean is published?"""
    both = values.mean(), np.delete(values, target).mean()
    with_her, without = np.round(both, decimals)
    published = with_her if is_in else without
    return (published == with_her != without) == is_in


# %% tags=["hide-input"]
coins = stream("coins").random(n) < 0.5
for decimals in (15, 4, 3, 2):
    trials = (points[:, 0], range(n), coins, decimals)
    right = np.mean(np.vectorize(mean_attack, excluded=[0])(*trials))
    print(f"{decimals} decimals: right in {right:.0%}")

# %% [markdown]
# The third line has the answer. Without rounding every guess is right. Rounding hides some patients, and the data decide
# whom: who carries the mean across a rounding limit is seen for certain. So it promises nothing to anybody. Noise can
# make a promise to each patient, and ε says which.
#
# **Take away.** An answer without noise, rounded or not, is a fingerprint of its data.
#
# ## 3. How far apart may two worlds look?
#
# **Neighbours** are two data sets $D$ and $D'$ that differ in one patient, Alice say. A randomised answer $A$ is
# **ε-differentially private** when for all neighbours and every set $S$ of answers
#
# $$\Pr[A(D) \in S] \le e^{\epsilon}\, \Pr[A(D') \in S].$$
#
# With Alice no answer is more than $e^\epsilon$ times as likely as without her, nor the other way round.
#
# The **sensitivity** $\Delta$ of a question $F$ is the most that one patient can change its exact answer. A count
# has $\Delta = 1$.
#
# > **The Laplace mechanism.** Publish $F(D) + Z$, where $Z$ has the density $\frac{1}{2\lambda}
# > e^{-|z|/\lambda}$ with the scale $\lambda = \Delta/\epsilon$.
#
# *Proof.* The densities of an answer $y$ in the two worlds have the ratio
#
# $$e^{(|y - F(D')| - |y - F(D)|)/\lambda} \le e^{|F(D) - F(D')|/\lambda} \le e^{\Delta/\lambda} = e^\epsilon,$$
#
# by the triangle inequality. What holds for every $y$ holds for every set $S$ of them. ∎
#
# A count is 200 without Alice and 201 with her. With Laplace noise the answer 201 is $e^\epsilon$ times as likely with
# her as without.
#
# **Predict.** And the answer 205: fewer times, just as many, or more?


# %% tags=["algorithm"]
def laplace_mechanism(answer, sensitivity, epsilon, rng):
    """An epsilon-private answer: one number, or an array of them."""
    return answer + rng.laplace(0, sensitivity / epsilon, np.shape(answer))


# %% tags=["hide-input"]
rng, counts = stream("worlds"), (200, 201)
bins = 200.5 + 0.5 / max(1, EPSILON) * np.arange(-9, 10)
worlds = laplace_mechanism(np.full((200_000, 2), counts), 1, EPSILON, rng).T
seen, error, exact = experiments.log_ratios(worlds, counts, EPSILON, bins)
check(np.all(abs(seen - exact) < 4.5 * error), "the draws fit the formula")

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(8.6, 3.4))
_ = figures.plot_two_worlds(axes[0], *worlds, bins)
_ = finish(axes[0], f"200.5 at ε = {EPSILON:g} fits both", "released count")
_ = figures.plot_log_ratio(axes[1], bins, seen, error, EPSILON, exact)
show(fig, "Two overlapping histograms; the log of their ratio stays within ±ε")

# %% [markdown]
# Answer: just as many. **Read the figure.** Left: the histograms of many draws overlap, so one answer says little.
# Right: the log of their ratio (grey line; dots: measured) reaches -ε left of 200 and ε right of 201, and no more.
#
# **Take away.** Noise is scaled to sensitivity / ε.
#
# ## 4. What is a small ε?
#
# The attacker of section 2 sees the noised count. The best guess is that Alice is in when the answer is above 200.5.
# It is wrong when the noise leads across this middle, beyond 1/2: with probability $e^{-\epsilon/2}/2$.
#
# **Predict.** At which ε is the attacker right 9 times in 10: at about 0.3, 1, 3 or 10?

# %%
epsilons = np.array([0.1, 0.25, 0.5, 1, 2, 3.2, 8])
is_in = stream("coins").random((200_000, 7)) < 0.5
answers = laplace_mechanism(200 + is_in, 1, epsilons, stream("attack"))
success = ((answers > 200.5) == is_in).mean(axis=0)

# %% tags=["hide-input"]
near = abs(success - 1 + np.exp(-epsilons / 2) / 2).max() < 0.0056  # 5 sd
check(near, "a guess is right with probability 1 - exp(-ε/2)/2")
fig, ax = plt.subplots(figsize=(6.1, 3.8))
_ = figures.plot_attack(ax, epsilons, success)
_ = ax.set_title(f"The attacker is right in {success[5]:.0%} at ε = 3.2")
show(fig, "The attacker's success grows with ε from one half to certainty")

# %% [markdown]
# Answer: at about 3. The dotted **ceiling** $1/(1+e^{-\epsilon})$ holds for every attack on every ε-private release,
# also for an attacker who knows all other patients. *Reason:* the coin is fair. So the odds of "in" to "out", given the
# answer, are the ratio of its probabilities in the two worlds, at most $e^\epsilon$ to 1.
#
# **Take away.** Before a fair coin, ε caps every attack at $1/(1+e^{-\epsilon})$.
#
# ## 5. What does the same count cost under four kinds of trust?
#
# Each clinic counts its patients with a positive first measurement, and the noised total is released under each trust
# model. In the local model each clinic adds noise.
#
# **Predict.** With 20 clinics, how many times as large is the standard deviation of the noise on the local total: 1, 4.5
# or 20 times?

# %%
noises = laplace_mechanism(np.zeros((200_000, M)), 1, EPSILON, stream("local"))
times = noises.sum(axis=1).std() / noises[:, 0].std()

# %% tags=["hide-input"]
near = abs(times / M**0.5 - 1) < 0.02
check(near, f"noise of {M} clinics is √{M} times one", found=f"{times:.1f}")
flags = [(rows[:, :1] > 0).astype(float) for rows in clinics]
print(experiments.noised_counts(flags, EPSILON, SEED))

# %% [markdown]
# Answer: $\sqrt{20}$ = 4.5 times, for variances add up. The other three answers are equal, because here all
# noise comes from one seed.
#
# **Take away.** Masks hide and do not blur. Local noise blurs.
#
# ## 6. What may stick out?
#
# The sum of two normal noises is normal again, which is handy. But far out the ratio of the two worlds exceeds any
# $e^\epsilon$. So **(ε, δ)-differential privacy** allows a small excess of probability:
#
# $$\Pr[A(D) \in S] \le e^{\epsilon}\, \Pr[A(D') \in S] + \delta.$$
#
# > **The Gaussian mechanism.** Publish $F(D) + Z$ with $Z \sim N(0, s^2)$. Its **strength** is $\mu = \Delta/s$: in
# > units of $s$ the two worlds are $N(0,1)$ and, at worst, $N(\mu,1)$.
#
# The log of the ratio of these densities at $z$ is $\mu z - \mu^2/2$. It exceeds ε right of $c = \epsilon/\mu +
# \mu/2$, so $\delta = \Pr[N(\mu,1) > c] - e^{\epsilon} \Pr[N(0,1) > c]$. To choose noise, fix ε and δ, look for
# the largest μ, and take $s = \Delta/\mu$.


# %% tags=["algorithm"]
def delta_of(mu, epsilon):
    c = epsilon / mu + mu / 2
    return norm.sf(c - mu) - np.exp(epsilon) * norm.sf(c)


def mu_of(epsilon, delta):
    """The largest strength that is (epsilon, delta)-private."""
    return brentq(lambda mu: delta_of(mu, epsilon) - delta, 1e-3, 100)


# %% [markdown]
# Which δ? Think of a terrible mechanism: it publishes each patient's record in full with probability δ. It meets the
# definition with ε = 0.
#
# **Predict.** With δ = 1/n and n = 1000 patients, how likely is somebody exposed: 0.1 %, 37 % or 63 %?

# %%
mu = mu_of(EPSILON, DELTA)
same = np.isclose(mu, accounting.gdp_mu(EPSILON, DELTA))
check(same, "the library has the same μ", found=f"{mu:.3f}")
for delta in (1 / n, DELTA):
    print(f"δ = {delta:.0e}: somebody exposed in {1 - (1 - delta) ** n:.1%}")

# %% [markdown]
# Answer: 63 %. For this mechanism it is $n\delta$ at most, one percent for $\delta = 0.01/n$.
#
# **Take away.** δ is a probability that ε does not bound. Keep it at $0.01/n$ or below.
#
# ## 7. Whose presence is hidden?
#
# The **unit** says what one record is: a *point* is one patient, a *client* is one clinic with all its patients.
# To hide a clinic, noise is scaled to a public **cap** on the patients that one clinic may send.
# (Papers differ in **adjacency**, too: under **add/remove** a record leaves; under **replace-one** it is exchanged for
# another, and a sum can move twice as far.)
#
# **Predict.** The number of patients is released with noise for ε = 1 *per patient*. How often can an attacker
# tell whether clinic 3 took part: in about half of the trials, in 73 %, or always?

# %%
size, cap, rng = len(clinics[2]), -(-n // M), stream("unit")
took_part = rng.random(20_000) < 0.5
for unit, most in {"point": 1, "client": cap}.items():
    answers = laplace_mechanism(n - size * ~took_part, most, EPSILON, rng)
    right = np.mean((answers > n - size / 2) == took_part)
    print(f"{unit}: std {2**0.5 * most / EPSILON:.1f}, right in {right:.0%}")

# %% [markdown]
# Always: what is 1-private for a patient is only 50-private for a clinic of 50. Noise for a client hides the clinic as
# well as ε should, at the price of the second standard deviation above.
#
# **Take away.** Say first whether ε is to hide a patient or a clinic.
#
# ## 8. What does asking again cost?
#
# > **Post-processing.** What is computed from a private answer alone is at least as private.
# >
# > **Sequential composition.** Answers about the same records cost $\epsilon_1 + \epsilon_2$ at most, also if the
# > first decides what the second asks; deltas add too. For Gaussian noise **the squares of μ add up**, exactly.
# >
# > **Parallel composition.** Questions about *disjoint parts* of the records, each answered with ε, cost ε
# > together (add/remove): Alice is in one part only.
#
# *Reason for the squares.* The mean of $T$ answers, each with noise $s$, carries all that they say about Alice. Its
# noise is $s/\sqrt T$, so $T$ answers are as strong as one with $\mu\sqrt T$, whose square is $T\mu^2$.
#
# **Predict.** Each answer is a count with μ = 1/4. After 16 answers, is ε 16, 5 or 2 times that of one?

# %%
m, one = 1 / 4, accounting.gdp_epsilon(1 / 4, DELTA)
for t in (4, 16, 64):
    squares = accounting.gdp_epsilon(m * t**0.5, DELTA) / one
    added = t * accounting.gdp_epsilon(m, DELTA / t) / one
    print(f"{t} answers: {squares:.1f} times ε; added up {added:.1f} times")

# %% [markdown]
# Answer: 5 times. μ grows by $\sqrt{16} = 4$, and ε a little faster. Both bills are correct, for the same δ.
#
# **Take away.** Squares of μ add up. The **ledger** of a run keeps this account.
#
# ## 9. What does one private step of Lloyd's algorithm look like?
#
# A mean is a **sum** divided by a **count**. The values lie in a public box, from -1 to 1: each client **clips** to it,
# which cuts a value beyond to the bound. (A bound that is read off the data is an exact answer, and no ε pays for it.)
# What one patient can change, in $d$ columns:
#
# * the sums by half the diagonal of the box, $\sqrt d$, and the counts by 1, each in one cluster only (parallel);
# * both are asked (sequential), so here each gets half of $\mu^2$;
# * dividing and clipping cost nothing (post-processing).
#
# The public start, **sphere packing**, spreads centres over the box without a look at the data.
#
# **Predict.** A cluster has 300 points, another 200, and both get the same noise. How far does a released centre miss in
# the small one: as far as in the large one, 1.2 times or 1.5 times as far?


# %% tags=["algorithm"]
def private_lloyd_step(points, centers, mu, rng):
    """One step in the box [-1, 1]^d: strength mu, add/remove one point."""
    k, d = centers.shape
    sums, counts = kmeans.sums_and_counts(points, centers)
    sums = sums + rng.normal(0, (2 * d) ** 0.5 / mu, (k, d))
    counts = counts + rng.normal(0, 2**0.5 / mu, k)
    return np.clip(sums / np.maximum(counts, 1)[:, None], -1, 1)


# %%
start = kmeans.sphere_packing(k, 2, rng=stream("start"), method="largest")
sums, counts = kmeans.sums_and_counts(points, start)
exact, rng = sums / np.maximum(counts, 1)[:, None], stream("steps")
steps = [private_lloyd_step(points, start, mu, rng) for _ in range(300)]

# %% tags=["hide-input"]
miss = ((np.array(steps) - exact) ** 2).sum(axis=2).mean(axis=0) ** 0.5
print("points", counts, "miss", miss.round(3), (miss / miss.min()).round(1))
unit = mu * counts / (8 + 2 * (exact**2).sum(1)) ** 0.5  # points / noise
near = abs(miss * unit - 1)[counts > 0.15 * n] < 0.15
check(all(near), "clusters of 15 % or more miss by noise / points")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(5.4, 5.4))
_ = figures.plot_step(ax, points, start, exact, steps[0])
show(fig, "Arrows from public starts to released and exact means")

# %% [markdown]
# Answer: about 1.5 times, as 300 is to 200: the same noise is divided by the number of points (printed: root mean
# squares of 300 releases). **Read the figure.** Crosses are exact means, which nobody releases, squares one draw of
# released centres.
#
# All noise here comes from a seed (**teaching mode**), and whoever knows it can take the noise away. **Secure mode** (06)
# draws from the operating system.
#
# **Take away.** Noise on sums and on counts, then divide: a centre needs points.
#
# ## Your turn

# %% [markdown] tags=["your-turn"]
# Write the heart of the private step from memory: sums and counts with noise, before anything is divided.
# `mine(points, centers, mu, rng)` gets the points of all patients in the box $[-1,1]^d$, with any number $d$ of columns,
# $k$ public centres, and the strength of the whole answer: who sees sums *and* counts must not learn more than μ about one
# patient who leaves. Return the noised sums, shape (k, d), and the noised counts, shape (k,).
# `kmeans.sums_and_counts(points, centers)` does the counting. `examine` tries two and three columns.


# %% tags=["your-turn"]
def mine(points, centers, mu, rng):
    """Noised sums and noised counts: your lines go here."""


# %% tags=["your-turn"]
from studies.start.exercise import examine

examine(mine)


# %% tags=["your-turn", "solution", "hide-input"]
def answer(points, centers, mu, rng):
    k, d = centers.shape
    sums, counts = kmeans.sums_and_counts(points, centers)
    half = mu / 2**0.5  # for each, since squares add up
    sums = sums + rng.normal(0, d**0.5 / half, (k, d))
    return sums, counts + rng.normal(0, 1 / half, k)


check(examine(answer).passed, "the solution in this cell passes")

# %% [markdown]
# ## Try it
#
# 1. *(warm-up)* How small must ε be so that *no* attack is right more often than in 55 % of the cases?
# 2. *(experiment)* Make the box of section 9 twice as wide as it needs to be. By which factor does the mean squared
#    error of the released centres grow? (`w * private_lloyd_step(points / w, start / w, mu, rng)` works in a box
#    `w` times too wide.)
# 3. *(break it)* Two hospitals answer the same query with the same seed. What does the difference of their answers
#    reveal?
#
# <details><summary>Solutions: the cells below</summary>
#
# 1: the ceiling $1/(1+e^{-\epsilon})$ is 0.55 at $\epsilon = \ln(0.55/0.45)$. 2: in the wide box the data are half
# as large and the noise is the same. Scaled back, the noise on the sums doubles, so the squared error grows by
# about four. 3: both added the same noise, so the difference of the answers is that of the exact counts.
# </details>

# %% tags=["solution"]
print(f"1: ε = {np.log(0.55 / 0.45):.2f}")

# %% tags=["solution"]
large, errors, rng = counts > 0.15 * n, {}, stream("wide")
for w in (1, 2):
    asked = points / w, start / w, mu
    made = [w * private_lloyd_step(*asked, rng) for _ in range(300)]
    errors[w] = np.mean((np.array(made) - exact)[:, large] ** 2)
    print(f"2: box {w} times too wide: squared error {errors[w]:.5f}")
grows = errors[2] / errors[1]
check(2.5 < grows < 5, "2: it grows by about four", found=f"{grows:.1f}")

# %% tags=["solution"]
pair = [
    laplace_mechanism(count, 1, EPSILON, np.random.default_rng(SEED))
    for count in (312, 254)
]
same = np.isclose(pair[0] - pair[1], 312 - 254)
check(same, "3: the difference is exact", found=f"{pair[0] - pair[1]:.0f}")

# %% [markdown]
# ## What is claimed, and what we found
#
# This notebook has no paper of its own. Three claims use its words: two of FastLloyd (its Theorem 2.2, and its released
# code), one of ours about another library.

# %%
from studies import end_table

end_table("G5", "L.code.truncation", "S.rivals.empty")

# %% [markdown]
# [All claims](../data/results/claims.md), with the checks and tables behind them.
#
# ## Going further
#
# **Which notebook next?** (1 minute) Ask in this order: *whose presence* must be hidden, *who may see what*, *how many
# records* a cluster has.
#
# | your situation | read |
# |---|---|
# | nobody may see another's sums, but a server can help | [01 FastLloyd](01_fastlloyd.ipynb): masked sums |
# | the server owns related public data; the start matters | [02 FedDP-KMeans](02_feddp_kmeans.ipynb) |
# | each user holds one point and trusts nobody | [03 Locally private k-means](03_locally_private_kmeans.ipynb) |
# | you cluster clients by the model that fits them | [04 RR-Cluster](04_rr_cluster.ipynb) |
# | you have a table and want centres | [06 Your own data](06_your_own_data.ipynb), and [05](05_side_by_side.ipynb) to compare |
#
# **How many centres can these patients bear?** (6 minutes) Three such steps share the budget, $\mu^2/3$ each. Too
# much noise leads a released centre astray: it ends nearer to another cluster's centre (without noise) than to its
# own.
#
# **Predict**, then play: move ε down until half of the squares are astray. Is this ε about 3, 1, 0.3 or 0.1? And with
# twice as many centres? Write both down. (The title has NICV, the mean squared distance of a point to its nearest centre.)

# %% tags=["widget", "nbval-ignore-output"]
from studies.start import widget as play

_ = play.explore(federation.ClientData.from_clients(clinics), seed=SEED)


# %%
def astray(centers, epsilon, rng):
    released, plain = centers, kmeans.lloyd(points, centers, n_rounds=3)
    step = mu_of(epsilon, DELTA) / 3**0.5
    for _ in range(3):
        released = private_lloyd_step(points, released, step, rng)
    nearest = kmeans.assign(released, plain).labels
    return np.mean(nearest != np.arange(len(centers)))


rng = stream("strays")
for size in (k, 2 * k):
    spread = kmeans.sphere_packing(size, 2, rng=rng, method="largest")
    for e in (3, 1, 0.3, 0.1):
        share = np.mean([astray(spread, e, rng) for _ in range(50)])
        print(f"{size} centres, ε = {e}: {share:.0%} astray")

# %% [markdown]
# The answers are the lines nearest to a half (50 runs). More clusters have fewer points each and lie closer together.
# Each position of the sliders is one more release: on real data it would be charged. So would a k that was
# chosen by looking: choose bounds, k and ε by what is public, or pay for them.
#
# **The best of a hundred runs** (3 minutes). Somebody makes 100 private runs and publishes only the one that is nearest
# to the truth. It looks like one release. *Predict* how often the attacker of section 4 is right.

# %%
runs = laplace_mechanism(np.zeros((20_000, 100)), 1, EPSILON, stream("best"))
found = np.mean(abs(runs).min(axis=1) < 0.5)  # then the guess is right
check(found > 0.99, "the best of 100 gives Alice away", found=f"{found:.1%}")

# %% [markdown]
# *The choice itself* reads the private data: among 100 runs one is nearly surely next to the truth, and the choice shows
# it. Picking the best of several clusterings, or k by an elbow, is the same mistake, unless all runs are charged and the
# choice uses released numbers only.
#
# **What do others promise?** (2 minutes) Apple collects statistics from its users in the local model. Damien
# Desfontaines' [list of deployments](https://desfontain.es/blog/real-world-differential-privacy.html) gives ε for one
# user and one day; the days add up.

# %%
for what, e in {"health": 2, "emoji": 4, "new words": 16}.items():
    print(f"{what}, ε = {e}: 1 guess in {1 + np.exp(e):,.1f} wrong, or more")

# %% [markdown]
# At ε = 2 an attack on one day's reports may be right seven times in eight. At ε = 16 the promise alone protects almost
# nobody. In the book, two figures play messages and guesses through.
#
# <!-- living: wire -->
#
# <!-- living: alice -->
#
# **Pictures of δ** (3 minutes). Right of the thin line, at $c$ (section 6), the density with Alice is above $e^\epsilon$
# times that without her. The red area between them is δ, far too large here, so that it can be seen. Below are the curves
# of μ: who says "ε = 1" has picked one point of a curve.

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(5.6, 3.8))
_ = figures.plot_delta(ax, 1.0, 1.0)
_ = finish(ax, f"μ = 1: {delta_of(1, 1):.3f} sticks out, for ε = 1")
show(fig, "Two densities; what sticks out above the other, enlarged, is δ")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(5.6, 3.8))
_ = figures.plot_delta_curves(ax, (0.25, 0.5, 1.0, 2.0))
show(fig, "δ (logarithmic) against ε, one falling curve for each strength")

# %% [markdown]
# **A run of the package** (5 minutes). A run takes several steps. A **plan** fixes it before its first message, and every
# party may read it. `simulate` sets up a **federation**: the clients, and what may cross the wire. `run` makes the
# releases of the plan and no others, and the **ledger** charges each.

# %%
from fedclust_helpers import fastlloyd

fed = federation.simulate(clinics, "ideal", seed=SEED)
asked = {"epsilon": EPSILON, "delta": DELTA, "initial": start, "n_rounds": 3}
plan = fastlloyd.plan_glloyd(fed, **asked, n_clusters=k)
result = fastlloyd.run(fed, plan)
spent = fed.ledger.epsilon(DELTA)
check(np.isclose(spent, EPSILON), "the bill is ε", found=f"{spent:.3f}")
plan

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(5.2, 5.4))
plain = kmeans.lloyd(points, start, n_rounds=3)
told = {"start": start, "epsilon": EPSILON, "reference": plain}
_ = figures.plot_private_clusters(ax, points, result.centers, **told)
show(fig, "Public start, released centres, and those of Lloyd without noise")

# %% [markdown]
# **Read the plan.** NICV is the mean squared distance of a point to its nearest centre. *glloyd* is Lloyd's
# algorithm with Gaussian noise. *std* is the standard deviation of the noise, *hides* the sensitivity (`L2`: as a
# length). The *ideal functionality* is the box of section 1; the *box of size 1* goes from -1 to 1. The number of
# records is public; a bound will do, for no noise here depends on it. The sums get three quarters of $\mu^2$, not
# half: noise on a count moves a centre in proportion to its distance from the middle of the box, so counts need
# less.

# %% [markdown]
# ## Check yourself
#
# <details><summary>1. A server learns nothing but random numbers. Who can still take the noise off the result?</summary>
#
# Whoever drew it: a server that adds the noise knows it, so it must never see the result without masks (section 1).
# </details>
#
# <details><summary>2. A sum of incomes, clipped to [0, 100000], is to be released with ε = 0.5. Which noise?</summary>
#
# One person changes it by 100000 at most, so Laplace noise of scale 100000 / 0.5 = 200000 (section 3).
# </details>
#
# <details><summary>3. An attacker is right in 80 % of the cases against a release with "ε = 1". What do you conclude?</summary>
#
# With a fair coin and δ = 0, no attack on a 1-private release exceeds $1/(1+e^{-1}) = 73\,\%$ (section 4). So the
# claim is wrong, or it is made for another unit than the one attacked (section 7), or δ is large, or the attacker
# knew beforehand that most people are in.
# </details>
#
# <details><summary>4. "Our histogram of 50 age groups is ε-private." Must the authors divide ε by 50?</summary>
#
# No, if each person is in one group only and neighbours are add/remove: parallel composition (section 8).
# </details>
#
# <details><summary>5. You scaled each column to its own smallest and largest value, then ran with ε = 1. What is your ε?</summary>
#
# There is none: the limits are exact records of single people, and no budget paid for them (section 9).
# </details>
#
# ## References
#
# * C. Dwork, A. Roth. *The Algorithmic Foundations of Differential Privacy.* 2014. (Sections 3 to 8.)
# * J. Dong, A. Roth, W. Su. *Gaussian Differential Privacy.* JRSS B, 2022. (μ, composition.)
# * A. Blum, C. Dwork, F. McSherry, K. Nissim. *Practical Privacy: the SuLQ Framework.* PODS 2005. (Noised sums and
#   counts, section 9.)
# * D. Desfontaines. *A list of real-world uses of differential privacy.* Web page, 2021, updated since. ("What do
#   others promise?")
# * N. Papernot, T. Steinke. *Hyperparameter Tuning with Rényi Differential Privacy.* ICLR 2022. (What tuning costs
#   when it is done properly.)
