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
# # What does it take to cluster data that nobody may see?
#
# *The door to this project: every later notebook builds on the words and pictures of this one.
# About two hours, exercises included. Runs offline, in about 20 s on 2 cores.*
#
# Twenty clinics want to find groups among their patients. No clinic may hand out its patient list.
# They can still send **sums**, and they can add **noise**. Who sees the sums, who adds the noise,
# and how much noise is enough: that is what this notebook is about.
#
# **You will be able to**
#
# 1. **tell** trust models apart by what crosses **the wire**, that is, by the messages that are sent,
# 2. **explain** ε, δ, sensitivity, neighbours and composition, each with an experiment of your own,
# 3. **run** a private step of Lloyd's algorithm, and read its transcript and its bill.
#
# **You need** Lloyd's algorithm (k-means), basic probability, and some NumPy. **It leads to**
# notebooks [01](01_fastlloyd.ipynb) to [04](04_rr_cluster.ipynb): one for each of four papers, which
# trust differently (section 13 says which is for you).
#
# **How to read.** Before most experiments stands a **Predict**: write your guess down, then run the
# cell. Every setting stands in one cell below; change any of them and run everything again.
#
# | trust model | what the server sees | what other clients see | who adds noise | whom you trust |
# |---|---|---|---|---|
# | **trusted server** | each client's exact sums | the noised sum | the server | the server |
# | **ideal secure sum** | the noised sum | the noised sum | an ideal box | the box |
# | **masked secure aggregation** | random words, not even the sum | the noised sum | the server, blindly (or each client a share) | all to follow the rules, and not to pool what they know; a server that adds the noise must never learn the result |
# | **serverless** | nothing: there is no server | random words of each, and the noised sum | each client a share | all to follow the rules, and only a few, as many as the plan says, to pool what they know |
# | **shuffled** | the noised reports of all, without names | the sum of the reports | each client | a shuffler, to mix the reports and not to pool what it knows with the server |
# | **local** | a noised report of each client | the sum of the reports | each client | nobody |
#
# (The *box* is a party of the imagination: it adds up, adds noise, and nobody looks into it. Papers
# call it an *ideal functionality*. A *word* is a whole number of fixed length, here 64 bits.)
#
# In all six, raw data stay with their clients. Four of them run below. The serverless one is the masked
# one among clients alone ([01](01_fastlloyd.ipynb), section 10). The shuffled one is the local one with
# less noise, because nobody knows whose report is whose (`simulate(users, "shuffled")`; what it gains:
# [beyond the papers](../studies/beyond/notes.md)).
#
# ## Notation
#
# Each symbol is explained in words where it is first used. This is the place to look it up; there is one
# [table of symbols](../docs/symbols.md) for all notebooks.
#
# | symbol | meaning | in code |
# |---|---|---|
# | $\epsilon$, $\delta$ | the privacy budget | `EPSILON`, `DELTA` |
# | $\Delta$ | sensitivity: the most that one record (or one client) changes what is released | `sensitivity` |
# | $\lambda$ | scale of Laplace noise, $\Delta/\epsilon$ | `Laplace.scale` |
# | $s$ | standard deviation of noise, in the units of what it is added to | `Gaussian.std` |
# | $\mu$ | strength of Gaussian DP; never a centre | `mu` |
# | $n$ | number of records, all clients together (in 03: users) | `N` |
# | $M$ | number of clients | `M` |
# | $k$ | number of clusters | `K` |
# | $T$ | number of rounds | `N_ROUNDS` |

# %%
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display
from scipy.stats import kstest, laplace, norm
from sklearn.datasets import load_breast_cancer

from fedclust_helpers import accounting, datasets, fastlloyd, kmeans
from fedclust_helpers.client_statistics import SUMS_AND_COUNTS, TOTAL
from fedclust_helpers.estimators import FastLloydKMeans
from fedclust_helpers.federation import ClientData, Randomness, simulate
from fedclust_helpers.mechanisms import Laplace
from fedclust_helpers.metrics import nicv
from studies.bench.plots import curves, finish, note, show
from studies.bench.style import DARK, use_style
from studies.start import figures, lesson
from studies.start import widget as play

# %% [markdown]
# The settings come first. Below them, `stream("name")` is a random generator of its own for each
# experiment, and `check(condition, text)` prints ✓ and the text if the condition holds. If not, it stops
# the notebook; with settings of your own it only remarks that the text does not hold.
#
# The data are made up, so that we may look at them (section 8 draws them): 1000 patients in four groups,
# two measurements each, scaled to $[-1, 1]$ with limits that are public. They are dealt to 20 clinics.

# %% tags=["settings"]
SEED = 7
EPSILON, DELTA = 1.0, 1e-5  # budget of one release or run
N, M = 1000, 20  # patients, clinics
K, N_ROUNDS = 4, 3  # clusters that we look for, rounds of Lloyd
N_TRIALS, N_ATTACKS, N_STEPS = 200_000, 20_000, 300  # repetitions

# %%
check, stream, _ = lesson.begin(globals())
use_style()
means = [[-0.55, -0.45], [0.5, -0.55], [0.45, 0.5], [-0.35, 0.55]]
sizes = np.diff((N * np.array([0, 0.3, 0.5, 0.8, 1])).astype(int))
data = datasets.gaussian_mixture(means, 0.02, sizes, rng=stream("data"))
points = np.clip(data.points, -1, 1)  # clipping makes the limits hold
owners = datasets.partition_iid(N, M, rng=stream("owners"))
clients = ClientData.from_owners(points, owners)

# %% [markdown]
# ## 1. Who sees what?
#
# Three clients have each added up their own rows: the sums are 12, 7 and 9. All want the total, 28,
# with noise on it. Here is the same task under each trust model.

# %% tags=["hide-input"]
fig, axes = plt.subplots(2, 2, figsize=(8.6, 7.2))
_ = figures.plot_trust_models(axes)
show(fig, "Three clients, a server, their messages in four trust models")

# %% [markdown]
# **Read the figure.** In models 1 and 2 exact numbers travel (red), but in model 2 they end in a box
# that nobody looks into. Model 3 builds that box from arithmetic: the clients add masks that only they
# can take away, and the server adds noise to a sum it cannot read. (The words are hexadecimal: 5c1f +
# d203 + 77e9 and the noise 2 make a60d, where a carry beyond four digits is dropped.) It knows that
# noise, so it must never see the result, or it could take the noise away (notebook 01 does it, and shows
# what to do where results are to be published). In model 4 nothing exact leaves a client, but three
# noises add up, so the total is worse: 32 instead of 30. **Trust is what crosses the wire.**
#
# <!-- living: wire -->
#
# ## 2. Why noise at all? Exact answers leak
#
# A mean over all patients looks harmless. Suppose an attacker knows the value of every other patient,
# and that of Alice too, and wants to know only whether she is among them: was her value in the mean?
#
# **Predict.** In which share of the trials does the attacker guess right from the exact mean? (Each
# patient is Alice once, and a coin says whether she took part.)


# %%
def mean_attack(values, target, member):
    """The attacker compares a published mean with both worlds."""
    others = np.delete(values, target)
    published = values.mean() if member else others.mean()
    return abs(published - values.mean()) < abs(published - others.mean())


# %% tags=["nbval-check-output"]
is_in, first = stream("coins").random(N) < 0.5, points[:, 0]
guesses = [mean_attack(first, i, coin) for i, coin in enumerate(is_in)]
print(f"right in {np.sum(guesses == is_in)} of {N} trials")
check((guesses == is_in).all(), "the exact mean gives every patient away")

# %% [markdown]
# **Right every time.** An exact answer is a fingerprint of the data it was computed from. Noise must
# be large enough to hide one patient. *How large* is what ε says.
#
# ## 3. Epsilon: how far apart two worlds may look
#
# **Neighbours** are two data sets $D$ and $D'$ that differ in one patient, Alice say. A randomised
# answer $A$ is **ε-differentially private** when for all neighbours and every set $S$ of answers
#
# $$\Pr[A(D) \in S] \le e^{\epsilon}\, \Pr[A(D') \in S].$$
#
# In words: whatever is published, it could nearly as well have been published without Alice. No answer
# favours one world by more than the factor $e^\epsilon.$
#
# How do we get there? The **sensitivity** $\Delta$ of a question $F$ is the most that one patient can
# change its exact answer: $\Delta = \max |F(D) - F(D')|$ over all neighbours. A count has
# $\Delta = 1.$ Then all it takes is one line:
#
# > **The Laplace mechanism.** Publish $F(D) + Z,$ where $Z$ has the density
# > $\frac{1}{2\lambda} e^{-|z|/\lambda}$ with the scale $\lambda = \Delta / \epsilon.$ This is ε-differentially private.
#
# *Proof.* The densities of an answer $y$ in the two worlds have the ratio
# $e^{(|y - F(D')| - |y - F(D)|)/\lambda} \le e^{|F(D) - F(D')|/\lambda},$ by the triangle inequality,
# and that is at most $e^{\Delta/\lambda} = e^\epsilon.$ What holds for every $y$ holds for every set
# $S$ of them. ∎
#
# Try it: a count of patients is 200 without Alice, and 201 with her. It is released with noise. One
# number comes out. Which world was it?
#
# **Predict.** With ε = 1, how much more likely can any answer be in one world than in the other?


# %%
def laplace_mechanism(answer, sensitivity, epsilon, rng):
    """An epsilon-private answer: one number, or an array of them."""
    scale = sensitivity / epsilon
    return answer + rng.laplace(0, scale, np.shape(answer))


# %%
rng, counts = stream("worlds"), np.full(N_TRIALS, 200)
without = laplace_mechanism(counts, 1, EPSILON, rng)
with_alice = laplace_mechanism(counts + 1, 1, EPSILON, rng)
bins = np.arange(196, 205.5, 0.5)
a, b = (np.histogram(w, bins)[0] for w in (without, with_alice))
measured, error = np.log(b / a), np.sqrt(1 / a + 1 / b)

# %%
worlds = [laplace(count, 1 / EPSILON).cdf(bins) for count in (200, 201)]
exact = np.log(np.diff(worlds[1]) / np.diff(worlds[0]))
print(f"largest ratio {np.exp(exact.max()):.2f} = e^{EPSILON:g}")
check(
    np.isclose(abs(exact).max(), EPSILON),
    f"the exact log ratio reaches ε = {EPSILON:g} and never passes it",
)
check(
    (abs(measured - exact) < 5 * error).all(),
    "measured and exact log ratios differ by 5 standard errors at most",
)

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(8.6, 3.4))
_ = figures.plot_two_worlds(axes[0], without, with_alice, bins)
_ = finish(axes[0], "An answer near 200 fits both worlds")
_ = finish(axes[0], x="released count")
_ = figures.plot_log_ratio(axes[1], bins, measured, error, EPSILON, exact)
show(fig, "Two overlapping histograms; the log of their ratio within ±ε")

# %% [markdown]
# **Read the figure.** Left: the histograms overlap almost everywhere, so an answer near 200 says
# little. Right: bar by bar, the log of their ratio (error bars: two standard errors). The *exact*
# ratio (grey line) stays between -ε and ε, so $e^1 = 2.72$ is the answer to the prediction. Left of
# 200 and right of 201 it lies on the limit, and there the *measured* ratios are as often a little
# beyond it as below, by chance.
#
# ### What epsilon means for an attacker
#
# Repeat the attack of section 2 on the noised count. The best guess is: Alice is in when the answer
# is above 200.5.
#
# **Predict.** At which ε is the attacker right in 9 of 10 cases?

# %%
epsilons, success = np.array([0.1, 0.25, 0.5, 1, 2, 4, 8]), []
for epsilon in epsilons:
    is_in = stream("coins").random(N_TRIALS) < 0.5
    answers = laplace_mechanism(200 + is_in, 1, epsilon, stream("attack"))
    success.append(np.mean((answers > 200.5) == is_in))
    print(f"ε = {epsilon:<4g}  attacker is right in {success[-1]:.1%}")
best = 1 - np.exp(-epsilons / 2) / 2  # all but the noise beyond 1/2
check(
    abs(success - best).max() < 2.5 / N_TRIALS**0.5,
    "the attacker's success is 1 - exp(-ε/2)/2, to 5 standard errors",
)
check((best <= 1 / (1 + np.exp(-epsilons))).all(),
      "no success lies above the ceiling 1 / (1 + exp(-ε))")  # fmt: skip

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.1, 3.8))
_ = figures.plot_attack(ax, epsilons, success)
show(fig, "The attacker's success grows with ε from a coin to certainty")

# %% [markdown]
# **Read the figure.** Against exact answers the attacker is always right. At ε = 0.1 the guess is hardly
# better than a coin, at ε = 1 it is right in 70 % of the cases, at ε = 4 in 93 %: the prediction's 9 of
# 10 lies between 2 and 4. The dotted ceiling $1/(1+e^{-\epsilon})$ holds for *every* attack on *every*
# ε-private release, also for an attacker who knows all other patients. *Reason:* the coin is fair, so
# once the answer is known, the odds of "in" to "out" are the ratio of its probabilities in the two
# worlds. They are $e^\epsilon$ to 1 at most, and the better guess is right with probability
# $e^\epsilon/(e^\epsilon+1)$ at most. That is why we use this definition.
#
# <!-- living: alice -->
#
# ## 4. The same count, four times
#
# Back to the clinics. How many patients have a positive first measurement? Each clinic counts its own
# patients, and the noised total is released, once under each trust model. Sensitivity: 1. Mechanism:
# Laplace.
#
# `simulate` sets up the parties in this process, `TOTAL` is what each client computes (the sum of its
# rows), and the transcript keeps what the server received (round 0; the masked clients agree on their
# masks before it). Masks need whole numbers, so the masked model rounds to steps of $2^{-30},$ and the
# sensitivity allows for one step more. (`as_replace_one` is a matter of bookkeeping: reports are charged
# under another notion of neighbours, section 6.)
#
# **Predict.** With the same random seed, which of the four models give the same answer?

# %%
positive = (points[:, :1] > 0).astype(float)
flags = ClientData.from_owners(positive, owners)
grid = 2.0**-30  # of the whole numbers under the masks
noise = Laplace.from_budget(sensitivity=1 + grid, epsilon=EPSILON)

# %%
released, views, exact = {}, {}, positive.sum()
for model in ("trusted", "ideal", "masked", "local"):
    fed = simulate(flags, model, seed=SEED, keep_payloads=True)
    if model == "local":  # no sum without noise ever exists here
        (answer,) = fed.reports(TOTAL, [noise.as_replace_one()], round=0)
    else:
        (answer,) = fed.noisy_sum(TOTAL, [noise], round=0)
    released[model] = answer.sum()
    seen = [m for m in fed.transcript.view("server") if m.round == 0]
    views[model] = seen[0].payload
    print(f"{model:8} {answer.sum():.6f}  (exact: {exact:.0f})")

# %%
check(
    released["trusted"] == released["ideal"],
    "a trusted server and an ideal sum release the same number",
)
gap = abs(released["masked"] - released["ideal"])
check(gap <= 2 * grid,
      "the masked total differs by two steps of 2^-30 at most")  # fmt: skip
words = views["masked"].ravel() / 2.0**64
check(
    kstest(words, "uniform").pvalue > 1e-3,
    "a test finds no difference between masked words and uniform ones",
)

# %% tags=["hide-input"]
fig, axes = plt.subplots(2, 2, figsize=(6.1, 5.6))
truth = np.bincount(owners, weights=positive[:, 0])
_ = figures.plot_server_views(axes, views, truth)
show(fig, "Exact counts, one noised sum, random words, blurred counts")

# %% [markdown]
# **Read the figure.** The first three models give one and the same answer (the masked one up to its
# rounding): they differ only in what the server sees on the way. In the masked model it sees 20 random
# words. In the local model it sees every clinic's count, blurred (dark ticks: the exact counts). That
# answer is noisier: variances add up, so 20 noises have a standard deviation $\sqrt{20} \approx 4.5$
# times that of one (at equal ε; one replaced report is the stronger promise, section 6). Less trust can
# cost accuracy.
#
# ## 5. Delta: what may stick out
#
# Noise from the normal distribution is handy: it is round in many dimensions, and the sum of two such
# noises is normal again. But its tails fall so fast that far out the ratio of the two worlds exceeds any
# $e^{\epsilon}.$ We allow a small excess of probability, **δ**, and the definition becomes
# **(ε, δ)-differential privacy**:
#
# $$\Pr[A(D) \in S] \le e^{\epsilon}\, \Pr[A(D') \in S] + \delta.$$
#
# > **The Gaussian mechanism.** Publish $F(D) + Z$ with $Z \sim N(0, s^2).$ Its strength is $\mu = \Delta / s$:
# > telling two neighbours apart is at least as hard as telling $N(\mu, 1)$ from $N(0, 1).$ For every ε it is
# > (ε, δ)-private with $c = \epsilon/\mu + \mu/2$ and
# >
# > $$\delta = \Pr[N(\mu,1) > c] - e^{\epsilon} \Pr[N(0,1) > c].$$
#
# *Reason.* In units of $s$ the two worlds are $N(0,1)$ and, at worst, $N(\mu,1).$ The log of the ratio of their
# densities at $z$ is $\mu z - \mu^2/2,$ so it exceeds ε exactly where $z > c$. All those $z$ together
# are the worst set $S$, and δ is the excess of its probability under $N(\mu,1)$ over $e^\epsilon$
# times that under $N(0,1).$
#
# **Predict.** $\mu = 1$ (noise of standard deviation 1 on a count) and ε = 1. Is δ closer to 0.1 or to
# 0.3?


# %%
def gaussian_delta(epsilon, mu):
    """The smallest delta for which noise of strength mu is private."""
    c = epsilon / mu + mu / 2
    return norm.sf(c - mu) - np.exp(epsilon) * norm.sf(c)


one = 1.0  # the ε of this example, and its μ
z = one + stream("delta").standard_normal(N_TRIALS)  # answers with Alice
loss = norm.logpdf(z, one) - norm.logpdf(z, 0)  # log of the ratio
beyond = np.maximum(0, 1 - np.exp(one - loss))  # the part above e^ε
share, exact = np.mean(loss > one), gaussian_delta(one, mu=one)
print(f"δ: formula {exact:.4f}, experiment {beyond.mean():.4f}")
print(f"share of answers with a log ratio above ε: {share:.4f}")
exposed = 1 - (1 - 1 / N) ** N  # each of N patients, with probability 1/N
print(f"δ = 1/n may expose somebody with probability {exposed:.1%}")
often = 1 - (1 - fastlloyd.default_delta(2400)) ** 2400  # 1/(n ln n)
print(f"FastLloyd's δ, by default, for n = 2400: {often:.1%}")

# %%
tolerance = 5 * beyond.std() / np.sqrt(N_TRIALS)  # five standard errors
check(abs(beyond.mean() - exact) < tolerance,
      "formula and experiment agree to 5 standard errors")  # fmt: skip
packaged = accounting.gdp_delta(mu=one, epsilon=one)
check(np.isclose(exact, packaged), "the package has the same formula")
check(share > 1.5 * exact, "δ is much smaller than that share")

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(9.6, 3.8))
_ = figures.plot_delta(axes[0], one, one)
_ = figures.plot_delta_curves(axes[1], (0.25, 0.5, 1.0, 2.0))
show(fig, "δ as an area between densities, and δ against ε for four μ")

# %% [markdown]
# **Read the figure.** Left: right of the thin line, the density with Alice (dark) is higher than
# $e^{\epsilon}$ times the density without her (dashed). The red area between them is δ = 0.127: closer
# to 0.1. It is *not* the probability that the log ratio exceeds ε: that is 0.31, the whole area under
# the dark curve right of the line. Right: **one noise has many (ε, δ)**, a whole curve of them, and μ
# names the curve. Who says "ε = 1" has picked one point of it. So the way to choose noise is: fix δ,
# find the μ whose curve passes through (ε, δ), and take $s = \Delta/\mu.$ `accounting.gdp_mu(epsilon,
# delta)` finds this μ, and `gdp_epsilon(mu, delta)` goes back. (GDP: *Gaussian differential privacy*,
# the name of privacy that is measured by μ.)
#
# Which δ? A δ of 0.127 is for the picture only. Think of a terrible mechanism: publish each patient's
# record in full with probability δ, each on its own. It satisfies the definition with ε = 0. With
# $\delta = 1/n$ somebody is exposed with probability $1 - (1 - 1/n)^n$, 63 % (printed above). So **δ must be far
# below $1/n$**. Here $n = 1000$ and $\delta = 10^{-5}.$ (Not all defaults are far below: FastLloyd's paper
# takes $1/(n \ln n)$, and so does its estimator if nothing is said. Then $n\delta = 1/\ln n$: with 2400 records
# that mechanism exposes somebody in 12 % of its runs. Give a δ of your own, $10^{-6}$ say.)
#
# ## 6. Whose presence is hidden?
#
# **Adjacency** says which data sets count as neighbours. Two conventions are in use, and papers mix
# them. **add/remove**: one record more or less. **replace-one**: one record is exchanged for another,
# and the number of records stays. The sum of points in $[-1,1]^2,$ for instance, moves by at most
# $\sqrt2$ when a point in a corner leaves, and by $2\sqrt2$ when it jumps to the opposite corner. So
# one and the same noise has *two* epsilons, and "ε = 1" without the adjacency says nothing. (We
# measured the move of a vector by its length, the $L_2$ norm, which is right for Gaussian noise.
# Laplace noise goes with $L_1$, the sum of the absolute moves of all coordinates.)
#
# **Unit** says what a record is. A *point* is one patient. A *client* is one clinic with 50 patients.
# Noise that hides a patient need not hide a clinic.
#
# **Predict.** The number of patients is released with Laplace noise for ε = 1 **per patient**. Can
# an attacker tell whether clinic 3, with its 50 patients, took part? (Code counts from 0.)

# %%
held, rng, answers = len(clients.client(2 % M)), stream("unit"), {}
took_part = rng.random(N_ATTACKS) < 0.5
for unit, sensitivity in (("point", 1), ("client", held)):
    patients = np.where(took_part, N, N - held)
    answer = laplace_mechanism(patients, sensitivity, EPSILON, rng)
    right = np.mean((answer > N - held / 2) == took_part)
    std, answers[unit] = np.sqrt(2) * sensitivity / EPSILON, answer
    print(f"{unit:6} noise std {std:.1f}, attacker right {right:.1%}")
    theory = 1 - np.exp(-EPSILON * held / sensitivity / 2) / 2
    check(
        abs(right - theory) < 2.5 / N_ATTACKS**0.5,
        f"noise for a {unit}: theory agrees to 5 standard errors",
    )

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(8.6, 3.4))
_ = figures.plot_units(axes, answers, took_part, who="clinic 3")
show(fig, "Noise for a point: two peaks apart; for a client: they merge")

# %% [markdown]
# **Read the figure.** Left: with noise for one patient the two worlds do not even touch, and the
# attacker is always right. Right: noise for one clinic is 50 times larger (standard deviation 71
# instead of 1.4). It hides the clinic as well as ε = 1 should: the attacker is right in 70 % of the
# cases, as in section 3. The price is a count that is off by 7 %. (In other words: what
# is 1-private for a patient is only 50-private for a clinic.) State the unit first; it decides what is
# possible at all.
#
# ## 7. Composition: asking again costs again
#
# Three theorems carry everything that follows.
#
# > **Post-processing.** What is computed from a private answer alone is just as private.
# > *Reason:* "the result lies in $S'$" is the same as "the answer lies in some $S$", and the definition holds for all $S$.
# >
# > **Sequential composition.** Answers that cost $\epsilon_1$ and $\epsilon_2$ cost at most $\epsilon_1 + \epsilon_2$
# > together, also if the first decides what the second asks; deltas add too. *Reason:* densities multiply, so the logs
# > of their ratios add.
# >
# > **Parallel composition.** Questions about *disjoint parts* of the records, each answered with ε, cost ε
# > together (add/remove). *Reason:* Alice is in one part only; the other answers do not change.
#
# The counts of all clusters, say, cost as much as the count of one. But k-means also needs several
# *rounds*, and every round asks about everybody. For Gaussian noise sequential composition has an
# exact form: **the squares of μ add up**. *Reason:* the mean of $T$ equally noisy answers carries all
# that they say about Alice, and its noise is $s/\sqrt T;$ so $T$ answers are as strong as one with
# $\mu\sqrt T.$
#
# Let each answer be a count with Gaussian noise of standard deviation 4, so that $\mu = 1/4.$
#
# **Predict.** After 16 answers, is the total ε about 16 times, 5 times, or 2 times that of one answer?

# %%
rounds, mu, rng = 2 ** np.arange(7), 1 / 4, stream("rounds")
is_in = rng.random((N_ATTACKS, 1)) < 0.5
answers = is_in + rng.normal(0, 1 / mu, size=(N_ATTACKS, 64))
averages = np.cumsum(answers, axis=1)[:, rounds - 1] / rounds
right = np.mean((averages > 0.5) == is_in, axis=0)
print("after T =     ", rounds)
print("attacker right", right.round(2))
basic = [t * accounting.gdp_epsilon(mu, DELTA / t) for t in rounds]
exact = [accounting.gdp_epsilon(mu * np.sqrt(t), DELTA) for t in rounds]
print("adding ε ", np.round(basic, 1))
print("adding μ²", np.round(exact, 1))
print(f"16 answers cost {exact[4] / exact[0]:.1f} times one answer")

# %%
theory = norm.cdf(mu * np.sqrt(rounds) / 2)
five_errors = 2.5 / np.sqrt(N_ATTACKS)  # of a share of the attacks
check(
    (abs(right - theory) < five_errors).all(),
    "T answers help the attacker as much as one of strength μ √T",
)
check((np.array(basic[1:]) > exact[1:]).all(),
      "the sum of ε is above the exact total for every T > 1")  # fmt: skip

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(9.4, 3.6))
_ = figures.plot_success(axes[0], rounds, right, "answers T", theory)
_ = finish(axes[0], "Asking again averages noise away", ylim=(0.45, 1.02))
_ = curves(axes[1], rounds, {"adding ε": basic, "adding μ²": exact})
_ = finish(axes[1], "Good accounting saves budget", names="upper left")
_ = finish(axes[1], "", "answers T", "total ε", xticks=rounds[3:])
show(fig, "Attacker's success and total ε (two rules) against answers")

# %% [markdown]
# **Read the figure.** Left: by averaging 64 answers the attacker climbs from 55 % to 84 % (line: theory,
# $\Phi(\mu\sqrt T/2),$ with Φ the distribution function of $N(0,1)$). Right: two ways to add up, both
# for a total of $\delta = 10^{-5}.$ After 16 answers μ has grown by $\sqrt{16} = 4$ and ε by about 5;
# after 64 the exact bill is 10 and the sum of epsilons 74.
#
# ## 8. A first private step of Lloyd's algorithm
#
# One step of Lloyd: assign each point to its nearest centre, then move each centre to the mean of its
# points. A mean is a **sum** divided by a **count**, and we know how to noise both. What one patient
# can change:
#
# * the sums by $\sqrt2$ (a point of $[-1,1]^2,$ in one cluster only): noise $s = \sqrt2 / \mu_1;$
# * the counts by 1 (in one cluster only: parallel composition): noise $s = 1 / \mu_2;$
# * both are asked, so $\mu_1^2 + \mu_2^2 = \mu^2$ (sequential composition): half of $\mu^2$ for each;
# * dividing and clipping the answers costs nothing (post-processing).
#
# The starting centres come from **sphere packing**: spread over the box without looking at the data,
# so they cost nothing. Then 20 clinics run the same step through the tested helpers. There the
# federation makes the noise, since it knows its own box; we say how many sensitivities the standard
# deviation shall be: $1/\mu_1 = \sqrt2/\mu.$ With the same stream of noise, and under every trust
# model that sums, the centres must be the same.
#
# **Predict.** 1000 points, ε = 1. Will you see the difference to the exact step?


# %%
def private_lloyd_step(points, centers, *, mu, rng):
    """One step in the box [-1, 1]^d: strength mu, add/remove one point."""
    (k, d), half = centers.shape, mu / np.sqrt(2)
    distances = ((points[:, None, :] - centers) ** 2).sum(axis=2)
    member = np.eye(k)[distances.argmin(axis=1)]
    sums, counts = member.T @ points, member.sum(axis=0)
    sums += rng.normal(0, np.sqrt(d) / half, size=(k, d))
    counts += rng.normal(0, 1 / half, size=k)
    return np.clip(sums / np.maximum(counts, 1)[:, None], -1, 1)


# %%
mu = accounting.gdp_mu(EPSILON, DELTA)
start = kmeans.sphere_packing(K, 2, rng=stream("start"), method="largest")
same_noise = Randomness.teaching(SEED).noise
scratch = private_lloyd_step(points, start, mu=mu, rng=same_noise)
print(f"μ {mu:.3f}, noise on sums {2 / mu:.1f}, counts {2**0.5 / mu:.1f}")

# %%
asked, parts = SUMS_AND_COUNTS, ("sums", "counts")
for model in ("trusted", "ideal", "masked"):
    fed = simulate(clients, model, seed=SEED, keep_payloads=True)
    pair = [fed.gaussian(asked, p, multiplier=2**0.5 / mu) for p in parts]
    sums, counts = fed.noisy_sum(asked, pair, round=0, centers=start)
    step = np.clip(sums / np.maximum(counts, 1)[:, None], -1, 1)
    difference = np.abs(step - scratch).max()
    print(f"{model:8} differs by {difference:.0e}")
    check(difference < 1e-7, f"{model}: the same centres, to steps of 2^-30")

# %% [markdown]
# Equal, up to rounding. How far from the exact means? Each coordinate of a sum has noise of standard
# deviation 7.5 (printed above), and the mean divides it by the number of points in the cluster. Repeat
# the step 300 times:

# %%
exact_sums, exact_counts = kmeans.sums_and_counts(points, start)
exact = exact_sums / np.maximum(exact_counts, 1)[:, None]
rng = stream("steps")
steps = [private_lloyd_step(points, start, mu=mu, rng=rng)
         for _ in range(N_STEPS)]  # fmt: skip
off = np.sqrt(((steps - exact) ** 2).mean(axis=(0, 2)))  # per coordinate
print("points in the cluster  ", exact_counts)
print("root mean square error ", off.round(3))
print("noise / points         ", (pair[0].std / exact_counts).round(3))
missed = {"the start": start, "this release": scratch}
for name, centers in missed.items():
    missed[name] = np.linalg.norm(centers - exact, axis=1)
    print(f"{name:12} is off by ", missed[name].round(3))

# %%
large = exact_counts > 0.15 * N  # where the noise on the count matters little
rest = off[large] * exact_counts[large] / pair[0].std
check(
    (abs(rest - 1) < 0.3).all(),
    "in large clusters the error is noise / points, within 30 %",
)
nearer = missed["this release"] < missed["the start"]
check(not nearer.all(), "a released centre is farther off than its start was")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(5.0, 4.8))
_ = figures.plot_step(ax, points, start, exact, scratch)
show(fig, "Arrows from public starts to released and exact means")

# %% [markdown]
# **Read the figure.** White circles: the public start, with an arrow to where each centre goes (three
# are near already). Crosses: the exact means, which nobody releases. Orange squares: the released
# centres. The difference is visible, but small against the clusters. Two of the four released centres are
# *farther* from the exact mean than the public start was: a start that is near already has nothing to gain
# from a noised step.
# The noise is the same for every cluster, but it is divided by the number of points. That is why
# **private clustering is a matter of points per cluster**. (Where a centre is off by a little more than
# noise / points, the count's own noise adds to it.)
#
# ## 9. What did the server see? What was charged?
#
# Every federation writes two records. The **transcript** lists what crossed the wire. The **ledger**
# lists what was released, and what it costs. They are different things: a message may cost nothing,
# and one release may be sent to many. This is the masked step from above: first two words that clinic
# 1 sent for its sums, and two of the noised total as the server saw it; then all messages of the step;
# then the ledger.

# %%
seen = {m.name: m.payload for m in fed.transcript.messages if m.round == 0}
for name in ("sums", "masked noisy sums"):
    print(f"{name:18}", *[f"{w:016x}" for w in seen[name].ravel()[:2]])
wire = fed.transcript.to_frame()
wire[wire["round"] == 0].drop(columns="round").reset_index(drop=True)

# %%
bill = fed.ledger.epsilon(DELTA)
print(f"ε = {bill:.4f} at δ = {DELTA:g}, one {fed.ledger.unit}")
check(abs(bill - EPSILON) < 1e-6, "the halves of μ² add up to the budget")
fed.ledger.to_frame().drop(columns=["sampling", "group"]).round(3)

# %% [markdown]
# Random words, before and after the sum: twenty clinics send eight sums and four counts each, as
# 64-bit words, and receive as many. And one release, two mechanisms on the same points, ε = 1 in
# total. The trust model does not appear in the bill. It decides *who has to be trusted* for the bill
# to be true.
#
# ### Teaching mode is not private
#
# In these notebooks all randomness comes from one seed, so that you can repeat every number. But
# whoever knows the seed can draw the same noise and take it away.
#
# **Predict.** How close does such an attacker get to the exact counts?

# %%
attacker, guess = Randomness.teaching(SEED).noise, []  # knows the seed
for mechanism, answer in zip(pair, (sums, counts), strict=True):
    guess.append(answer - mechanism.sample(answer.shape, rng=attacker))
print("released", counts.round(1), " attacker", guess[1].round(1))
check(np.allclose(guess[0], exact_sums), "the attacker has the exact sums")
check(np.allclose(guess[1], exact_counts), "and the exact counts")

# %% [markdown]
# Exactly right. So there are two modes, by name. **Teaching mode** takes a seed and says in every
# result that it is not private against anyone who knows it. **Secure mode** takes noise and keys
# from the operating system and has no seed: section 14 uses it.
#
# ## 10. Several rounds: play with ε and k
#
# Real runs take several steps. Three rounds share the budget, $\mu^2/3$ each. What a run will do is
# fixed before its first message, in a **plan**: a public object that every party may read.
#
# (`glloyd` is Lloyd with Gaussian noise, as in section 8, but it gives the sums about three quarters of
# $\mu^2$ and the counts one quarter: the sums matter more.) The plan below prints line by line:
#
# * *protects*, *guarantee*: what will be charged, ε for one point, in all;
# * *trust*, *server sees*, *clients see*, *noise*: who learns what, and who adds the noise (the *ideal
#   functionality* is the box of section 1);
# * *public*: what everybody may know. *Box of size 1* is another box: the square $[-1,1]^2$ that holds
#   the data;
# * *round 0 to 2*: three releases, the standard deviation of their noise (std), and the largest change
#   by one patient that it hides; `L2`: measured by length (section 6);
# * *wire*: the bytes of these releases, 8 for each number; under masks each number of each client
#   crosses twice, masked to the server and in the masked total back.
#
# `run` makes these releases and no others; the federation refuses anything else, and it refuses a plan
# that costs more than it says.

# %%
budget = {"epsilon": EPSILON, "delta": DELTA, "n_rounds": N_ROUNDS}
room = simulate(clients, "ideal", seed=SEED)
plan = fastlloyd.plan_glloyd(room, n_clusters=K, initial=start, **budget)
plan

# %%
result = fastlloyd.run(room, plan)
paid = room.ledger.epsilon(DELTA)
print(f"planned: ε = {plan.epsilon}, charged: ε = {paid:.6f}")
check(abs(paid - plan.epsilon) < 1e-6,
      "the ledger charges what the plan says")  # fmt: skip

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(4.6, 4.8))
plain = kmeans.lloyd(points, start, n_rounds=N_ROUNDS)
run = {"start": start, "epsilon": EPSILON}
_ = figures.plot_private_clusters(ax, points, result.centers, plain, **run)
show(fig, "Public start, released centres, and those of Lloyd without noise")

# %% [markdown]
# **Read the figure.** This is what the planned run released, from its public start (circles). NICV is the
# mean squared distance of a point to its nearest centre: smaller is better. The title has the cost of the
# released centres (squares) and of the same rounds without noise (crosses).
#
# Now move the sliders. **Predict first.** At which ε do the centres leave the clusters? What happens
# with k = 8 at ε = 0.5: why do some centres wander? Each position of a slider is one more release. On
# real data each would be charged. These data are made up, so play freely.
#
# <details><summary>What you will see</summary>
#
# The smaller ε is, the farther the squares stray from the crosses, until one stands outside its cluster.
# With k = 8 some clusters have few points, and the noise on their sums is as large as on those of the
# others: divided by a small count, it throws a centre anywhere (section 8: points per cluster).
#
# </details>

# %% tags=["widget", "nbval-ignore-output"]
_ = play.explore(clients, seed=SEED)

# %% [markdown]
# ## 11. Choosing bounds
#
# The noise on a sum is measured against the box that contains the data. Where do its walls come from?
# A tempting answer is: from the data. Try it on real patients: the mean area of the cell nuclei of a
# tumour, in scikit-learn's breast cancer data.
#
# **Predict.** The largest area is published as the limit of the scale. Whose data does it reveal?

# %% tags=["nbval-check-output"]
tumours = load_breast_cancer()
areas = tumours.data[:, list(tumours.feature_names).index("mean area")]
without_her = np.delete(areas, areas.argmax()).max()
print(f"published limit {areas.max():g}: patient {areas.argmax()}")
print(f"without that patient it would be {without_her:g}")

# %% [markdown]
# The limit *is* the record of one patient, to the last digit, and no ε pays for it. So bounds must be
# **public** (the range of the instrument, a law, a textbook), and each client clips what lies beyond;
# **or they must be paid for**, like any other answer.
#
# How that goes: suppose it is public only that areas lie below $2^{16} = 65536.$ The sensitivity of a
# clipped sum is its bound, so a large bound means much noise, and a small one cuts values off. Spend
# half of ε on a noised histogram of the areas. Every patient is in one bin only, so all bins together
# cost what one costs (parallel composition).
#
# **Predict.** A private mean with the bound 65536 and all of ε, or with a bound that took half of ε
# and leaves half: which is closer, and by which factor?

# %%
ladder = 2.0 ** np.arange(6, 17)  # 64, 128, ... 65536: public


def choose_bound(values, epsilon, rng):
    """The smallest bound with less than about 5 % of the values above."""
    bins = np.histogram(values, np.append(0, ladder))[0]
    noised = laplace_mechanism(bins, 1, epsilon, rng)  # parallel
    above = noised.sum() - noised.cumsum()
    few = above < 0.05 * noised.sum()  # from here on: post-processing
    return ladder[np.argmax(few)]


def private_mean(values, bound, epsilon, rng):
    """Clipped sum and count, each with half of epsilon: sequential."""
    clipped, half = np.clip(values, 0, bound), epsilon / 2
    total = laplace_mechanism(clipped.sum(), bound, half, rng)
    return total / max(1, laplace_mechanism(len(values), 1, half, rng))


# %%
rng, chosen, errors = stream("bound"), [], []
for _ in range(N_STEPS):
    chosen.append(choose_bound(areas, EPSILON / 2, rng))
    mean = private_mean(areas, chosen[-1], EPSILON / 2, rng)
    errors.append(abs(mean - areas.mean()))
print(f"exact mean {areas.mean():.0f}; off by {np.median(errors):.0f}")
print("bounds chosen, how often:", *np.unique(chosen, return_counts=True))

# %%
off = []  # what each bound costs, were it public, with all of ε
for bound in ladder:
    means = [private_mean(areas, bound, EPSILON, rng) for _ in chosen]
    off.append(np.median(np.abs(means - areas.mean())))
print("public bound 65536: off by", off[-1].round())
check(np.isin(chosen, (1024, 2048)).mean() > 0.9,
      "nine times in ten the bound bought is 1024 or 2048")  # fmt: skip
check(
    np.median(errors) < off[-1] / 5,
    "a bound bought with ε/2 makes the error 5 times smaller at least",
)

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.1, 3.6))
some = ladder[::2]
_ = curves(ax, ladder, {"public bound, all of ε": off})
title = "Too small a bound cuts, too large a bound drowns in noise"
_ = finish(ax, title, "bound", "error of the mean", log="xy", xticks=some)
at = (np.median(chosen), np.median(errors))
_ = ax.plot(*at, "D", color=DARK, markersize=9)
note(ax, "bound paid with ε/2,\nmean with ε/2", at, (-25, 50), line=True)
note(ax, "public bound, all of ε", (ladder[3], off[3]), (8, 6))
show(fig, "Error of the mean over the bound: a valley; we are near it")

# %% [markdown]
# **Read the figure.** At the left the error is what clipping cuts off; at the right every doubling of
# the bound doubles the noise. Our way (diamond) finds the bottom of the valley without knowing it, at
# twice the noise; the two lines "off by" above say how much closer the mean is than with the public bound
# and all of ε.
#
# ## 12. Choosing ε and k, and why tuning spends budget
#
# **ε** is a promise to the patients: fix it first, with the attack curve of section 3 in hand. Then
# ask whether the data are large enough, on *public or simulated* data like ours. What does not work:
# try on the private data until the result looks good.
#
# Try it with the smallest example. A count is released with ε/2. You make m runs, compare each
# with the truth, and publish only the best.
#
# **Predict.** You published a single number with "ε = 0.5". How often is the attacker right?

# %%
right, rng = [], stream("best")
ceiling = 1 / (1 + np.exp(-EPSILON / 2))  # of a single run
for m in (1, 3, 10, 30, 100, 300):
    is_in = rng.random(N_ATTACKS) < 0.5
    runs = laplace_mechanism(np.zeros((N_ATTACKS, m)), 1, EPSILON / 2, rng)
    best = runs[np.arange(N_ATTACKS), abs(runs).argmin(axis=1)]
    right.append(np.mean((200 + is_in + best > 200.5) == is_in))
    print(f"best of {m:<4} right in {right[-1]:.1%}, one run: {ceiling:.1%}")
check(right[0] < ceiling + five_errors, "one run stays under its ceiling")
check(right[1] > ceiling + five_errors, "the best of 3 breaks the ceiling")
check(right[-2] > 0.99, "the best of 100 gives Alice away")

# %% [markdown]
# A single run stays under its ceiling of 62 % (last number of each line). The best of 3 already breaks
# it, and the best of 100 gives Alice away: *the choice itself* is a function of the data. Picking the
# nicest of several private clusterings by its cost on the private data is the same mistake. (A choice
# can be private too: put noise on every candidate's *score* and publish only which candidate wins.
# Such **private selection** is paid once, not once for each score. Candidates that were themselves made
# from the data, as private runs are, have to be paid for as well.)
#
# **k** is no different. The elbow method runs k-means for several k and looks at all the costs. Each
# run is a release. Put a **budget** on the ledger and let it watch. Whoever looks at one result before
# choosing the next run needs a rule for adding up that still holds then, a *filter*. The default,
# `"basic"`, takes every mechanism and adds shares of (ε, δ), one for each plan. `"gdp"` adds squares
# of μ, and takes Gaussian noise only.
#
# **Predict.** Total budget ε = 2. Each run costs ε = 1. How many values of k can be tried under each
# rule?


# %%
def try_until_refused(rule):
    """Runs for k = 2, 3, ... on one ledger with a budget of 2 ε."""
    total = accounting.Budget(2 * EPSILON, DELTA, filter=rule)
    ledger = accounting.PrivacyLedger(budget=total)
    for k in range(2, 9):
        fed = simulate(clients, "ideal", seed=SEED, ledger=ledger)
        plan = fastlloyd.plan_glloyd(fed, n_clusters=k, **budget)
        try:
            fastlloyd.run(fed, plan)
        except accounting.BudgetExceededError as error:
            print(f"{rule} refuses k={k}:\n ", str(error).split(": ")[1])
            return len(ledger.releases) // N_ROUNDS


tried = {rule: try_until_refused(rule) for rule in ("basic", "gdp")}
check(tried["basic"] == 1, '"basic" lets one run through')
check(tried["gdp"] == 3, '"gdp" lets three runs through')

# %% [markdown]
# One value of k, or three, and then the run is refused as a whole, *before* its first message: μ² at 2ε
# is 3.5 times that at ε. (Under
# `"basic"` one run takes a little more than half of the budget, because half of it is (1, δ/2) and not
# (1, δ).) And we have not even paid for looking at the costs, which are functions of the private data
# too. What you can do instead: take k from the task (four wards, four treatments); choose it on public
# or simulated data of the same shape and size; or set aside a declared share of the budget for tuning,
# and charge it.
#
# ## 13. Which algorithm for which data?
#
# | your situation | use | you leave with |
# |---|---|---|
# | few or many clients; nobody may see another's sums, but a server can help; you want the accuracy of a trusted server | **FastLloyd** ([01](01_fastlloyd.ipynb)): masked sums, noise added blindly | an algorithm taken apart, attacked, audited and run on real data |
# | the server owns *related public data*, and starting centres matter (large k, many dimensions); a box that adds up and noises (or a trusted server in its place) | **FedDP-KMeans** ([02](02_feddp_kmeans.ipynb)): a private initialisation from server data | a private start, budgeted and audited |
# | each user holds one point and trusts nobody; there are very many users | **locally private k-means** ([03](03_locally_private_kmeans.ipynb)): noised reports, few rounds | one-bit oracles, and when to trust nobody |
# | you cluster *clients by the model that fits them*, not points; a trusted server | **RR-Cluster** ([04](04_rr_cluster.ipynb)): rebalancing; or, better, sums only | client-level accounting, and sums only |
#
# Ask in this order: *Whose presence must be hidden* (unit)? *Who may see what* (trust model)? *How
# many records are there per cluster* (section 8)? Local noise grows with the number
# of reports, so local privacy needs far more points. (The last column names what its notebook explains.)
#
# ## 14. On your own data
#
# Take an estimator. It wants the data in their own units, with **public bounds** for every column
# (section 11), and gives the centres back in these units. Here: age in years and blood pressure in mmHg,
# at three clinics, made up from our points. Without a `mode` it is secure: noise and keys from the
# operating system, and noise that is drawn as a whole number of steps of a grid (*discrete*), so that no
# rounding can break the promise.
#
# One trap, shown by the first check: a *federation* works in the box $[-1,1]^d$ and clips to it, so
# raw units would all end up in one corner. The estimator scales by its bounds first. (With `simulate`,
# call `datasets.scale_to_box` yourself.)

# %%
lowest, highest = np.array([18, 80]), np.array([98, 200])  # public
raw = lowest + (points + 1) / 2 * (highest - lowest)
my_clients = np.split(raw, [2 * N // 5, 7 * N // 10])  # three clinics
check((np.clip(raw, -1, 1) == 1).all(), "raw units are all cut to one corner")

# %%
asked = {"epsilon": EPSILON, "delta": DELTA}
model = FastLloydKMeans(K, lower=lowest, upper=highest, **asked)
try:  # the secure source of noise is an optional package
    found = model.fit(my_clients).cluster_centers_
except ImportError as message:
    print(message)
else:
    display(model.plan_)
    paid = model.ledger_.epsilon(DELTA)
    check(paid < EPSILON + 1e-6 and not model.result_.warning,
          "the run is private, and costs no more than was asked")  # fmt: skip
    check(((found > lowest) & (found < highest)).all(),
          "no centre is in a corner")  # fmt: skip
    one_group = nicv(raw, raw.mean(axis=0, keepdims=True))
    check(nicv(raw, found) < one_group / 2,
          "its cost is below half that of one group")  # fmt: skip

# %% [markdown]
# The centres are in `model.cluster_centers_`, in years and mmHg. They are not printed here, because in
# secure mode they differ from run to run, and this page is to stay the same. You may publish them: by
# default every client adds a share of the noise, so that not even the server can take it away (*noise*
# in the plan). A client knows its own share, so the shares of the other two must reach the printed std
# alone; with all three the variance, and *predicted* with it, is 3/2 of what that std gives. The plan's
# other new words belong to FastLloyd: *relative* sums are measured from the old centre, and so hide less
# after round 0; *Eq. 16* is the paper's. Notebook 01 explains all three (its sections 3, 5 and 10).
#
# `make lab` opens copies of the notebooks in JupyterLab. `make test` runs the tests, these notebooks
# included. To change a notebook, edit the `.py` file beside it, then `make notebooks`.
#
# ## Exercises
#
# 1. *(warm-up)* How small must ε be so that *no* attack is right more often than in 55 % of the
#    cases?
# 2. *(derive)* Under replace-one, what is the $L_2$ sensitivity of (a) the total number of patients,
#    (b) the vector of cluster counts?
# 3. *(experiment)* Make the box of section 8 twice as wide as it needs to be. By which factor does the
#    mean squared error of the released centres grow? (Skeleton: `w * private_lloyd_step(points / w,
#    start / w, mu=mu, rng=rng)` works in a box `w` times too wide.)
# 4. *(break it)* Two hospitals run the same query in teaching mode with the same seed. What does the
#    difference of their answers reveal? (Skeleton: `laplace_mechanism` with `np.random.default_rng(SEED)`, twice.)
#
# <details><summary>Solution 1</summary>
#
# The ceiling is $1/(1+e^{-\epsilon}) = 0.55,$ so $\epsilon = \ln(0.55/0.45) \approx 0.2.$
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# (a) 0: the number of records does not change, so it is public under replace-one. (b) One count falls by
# one and another rises by one: $\sqrt{1^2 + 1^2} = \sqrt2.$ Under add/remove both are 1.
#
# </details>
#
# <details><summary>Solutions 3 and 4: the cell below</summary>
#
# 3: in the wide box the data are half as large and the noise is the same; scaled back, the noise on
# the sums doubles, so the squared error grows by about four. 4: both added the same noise, so the
# difference of the answers is the exact difference of the counts. A seed must never be used for two
# data sets.
#
# </details>

# %% tags=["solution"]
errors, rng = {}, stream("wide")
for w in (1, 2):
    made = [w * private_lloyd_step(points / w, start / w, mu=mu, rng=rng)
            for _ in range(N_STEPS)]  # fmt: skip
    errors[w] = np.mean((made - exact)[:, large] ** 2)
    print(f"box {w} times too wide: mean squared error {errors[w]:.5f}")
answers = [laplace_mechanism(n, 1, EPSILON, np.random.default_rng(SEED))
           for n in (312, 254)]  # fmt: skip
check(2.5 < errors[2] / errors[1] < 5, "3: the error grows by about four")
check(np.isclose(answers[0] - answers[1], 58), "4: the noise cancels")

# %% [markdown]
# ## Recap
#
# 1. **Trust is what crosses the wire.** Four models, four views of the server; three of them with one and
#    the same answer.
# 2. **Noise = sensitivity / ε.** ε caps every membership attack at $1/(1+e^{-\epsilon}).$ **δ** is what may stick out;
#    keep it far below $1/n$. **μ** names the whole curve of (ε, δ).
# 3. **Adjacency** and **unit** say *what* is hidden. The same noise has another ε for another choice.
# 4. **Post-processing is free, sequential costs add, parallel costs do not.** A private Lloyd step is noised sums over
#    noised counts. Transcript and ledger answer: who saw what, and what does it cost?
# 5. **Bounds, k and ε chosen by looking at private data are releases.** Take them from public knowledge,
#    or pay.
#
# ## Check yourself
#
# <details><summary>1. A server learns nothing but random words. Who can still take the noise off the result?</summary>
#
# Whoever drew it: a server that adds the noise knows it, so it must never see the unmasked result
# (section 1).
#
# </details>
#
# <details><summary>2. A sum of incomes, clipped to [0, 100000], is to be released with ε = 0.5. Which noise?</summary>
#
# One person changes it by 100000 at most, so Laplace noise of scale 100000 / 0.5 = 200000 (section 3).
#
# </details>
#
# <details><summary>3. An attacker is right in 80 % of the cases against a release with "ε = 1". What do you conclude?</summary>
#
# No attack on a 1-private release can exceed $1/(1+e^{-1}) = 73\,\%.$ So the claim is wrong (section 3),
# or it is made for another unit than the one attacked: 1-private for a patient is not 1-private for a
# clinic (section 6).
#
# </details>
#
# <details><summary>4. Why is the local answer noisier by the square root of the number of clients?</summary>
#
# Every client adds a noise of its own, and variances add up (section 4).
#
# </details>
#
# <details><summary>5. One report says (1, 1e-5), another (1.5, 1e-9). Can both describe the same noise?</summary>
#
# Yes: one Gaussian noise has a whole curve of (ε, δ), named by μ; a smaller δ goes with a larger ε
# (section 5).
#
# </details>
#
# <details><summary>6. "Our histogram of 50 age groups is ε-private." Must the authors divide ε by 50?</summary>
#
# No, if each person is in one group only and neighbours are add/remove: parallel composition
# (section 7).
#
# </details>
#
# <details><summary>7. Rounding the released centres to two digits: what does it cost?</summary>
#
# Nothing: it looks at the answer only, so it is post-processing (section 7).
#
# </details>
#
# <details><summary>8. You scaled each column to its own smallest and largest value, then ran with ε = 1. What is your ε?</summary>
#
# There is none: the limits are exact records of single people, and no budget paid for them (section 11).
#
# </details>
#
# ## References
#
# * C. Dwork, A. Roth. *The Algorithmic Foundations of Differential Privacy.* 2014. (Sections 3 to 7.)
# * J. Dong, A. Roth, W. Su. *Gaussian Differential Privacy.* JRSS B, 2022. (μ, composition.)
# * A. Blum, C. Dwork, F. McSherry, K. Nissim. *Practical Privacy: the SuLQ Framework.* PODS 2005. (Section 8:
#   noised sums and counts.)
# * A. Diaa, T. Humphries, F. Kerschbaum. *FastLloyd: Federated, Accurate, Secure, and Tunable k-Means
#   Clustering with Differential Privacy.* USENIX Security 2025. (Masked aggregation; notebook 01.)
# * N. Papernot, T. Steinke. *Hyperparameter Tuning with Rényi Differential Privacy.* ICLR 2022. (What
#   tuning costs when it is done properly; left out here.)
