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
# *You will attack an exact answer, see what ε protects, and run one private step of k-means. 45 minutes;
# exercises 15 more.*
#
# **You need** Lloyd's algorithm (assign each record to its nearest centre, move each centre to the mean of its
# records, repeat), basic probability, and some NumPy.
#
# Twenty clinics want to find groups among their patients. None may hand out its patient list. They can send **sums**
# and add **noise**. Who sees the sums, who adds the noise, and how much is enough?
#
# | trust model | what the server sees | who adds noise | whom you trust |
# |---|---|---|---|
# | **trusted server** | each client's exact sum | the server | the server |
# | **ideal secure sum** | the noised sum | a box that adds up, and that nobody looks into | the box |
# | **masked** | random numbers, not even the sum | the server, blindly, or each client a share | all to follow the rules and not to pool what they know; a server that adds the noise must never learn the result |
# | **local** | a noised report of each client | each client | nobody |
#
# In all four, raw data stay with their clients, so a patient trusts her own clinic. Two more models, without a
# server and with a shuffler, are in [the page on trust](../docs/trust.md). Letters are in the [table of symbols](../docs/symbols.md).
#
# Change any setting and run all cells. A check prints ✓ and what it checked; with other settings it may print a
# remark instead. `stream("name")` is a random generator.

# %% tags=["settings"]
DATA = "four wards"  # made, so that we may look at them; or "tumours"
SEED, EPSILON, DELTA = 7, 1.0, 1e-5
K, N, M = None, None, 20  # clusters, patients (None: all), clinics

# %%
import numpy as np

from fedclust_helpers import accounting, fastlloyd, federation, kmeans
from studies.start import experiments, figures, lesson

check, stream, _ = lesson.begin(globals())
rows = lesson.data(DATA, N, M, rng=stream("data"))
points, clinics, n, k = rows.points, rows.clients(), len(rows.points), K or rows.k

# %% [markdown]
# ## 1. Who sees what?
#
# Three clients hold the sums 12, 7 and 9. They want the total, 28, with a noise of 2 on it.
#
# **Predict.** In how many of the four trust models does the server learn the 7: none, one, two, or three?
#
# In the masked model each client adds a **mask**, a random number of two digits, and keeps the last two digits
# of the sum. All clients know all masks, because they share a secret; the server does not. Two rounds, with fresh
# masks:

# %%
for masks in stream("masks").integers(0, 100, (2, 3)):
    words = (np.array([12, 7, 9]) + masks) % 100
    total = (words.sum() + 2 - masks.sum()) % 100  # without the masks
    check(total == 30, f"the server gets {words}, adds 2; unmasked: {total}")

# %% tags=["hide-input"]
import matplotlib.pyplot as plt

from studies.bench.plots import curves, finish, headline, show

_ = figures.plot_trust_models(plt.subplots(2, 2, figsize=(8.6, 7.2))[1], words)
show(plt.gcf(), "Three clients, a server, their messages in four trust models")

# %% [markdown]
# Answer: one, the trusted server. The clients know the masks and take their sum off. So **masks cancel**: they hide
# each number and do not blur the total.
#
# **Read the figure.** Exact numbers (red) leave the clients in models 1 and 2, but in model 2 they end in a box that
# nobody looks into. In model 3 the server adds noise to a sum that it cannot read. In model 4 nothing exact leaves a
# client, but three noises add up, so the total is usually worse: here 32 instead of 30.
#
# <!-- living: wire -->
#
# **Take away.** Ask of every message who can read it.
#
# ## 2. What does an exact mean give away?
#
# Suppose an attacker knows the values of all patients, Alice's too. It wants to know one thing only: was Alice's
# value in the published mean?
#
# **Predict.** Each patient is Alice once, and a fair coin says whether her value is in. In which share of the
# trials does the attacker guess right: a half, three quarters, or all?


# %%
def mean_attack(values, target, is_in):
    """Is the guess right, if the exact mean is published?"""
    with_her, without = values.mean(), np.delete(values, target).mean()
    published = with_her if is_in else without
    return (abs(published - with_her) < abs(published - without)) == is_in


coins = stream("coins").random(n) < 0.5
right = sum(mean_attack(points[:, 0], i, c) for i, c in enumerate(coins))
check(right == n, f"with an exact mean {right} of {n} guesses are right")

# %% [markdown]
# All of them. The two means differ by a tiny amount, but they differ, and the attacker computes both. The same
# happens with sums, counts and the centres of k-means. Noise must be large enough to hide one patient. *How large*
# is what ε says.
#
# **Take away.** An exact answer is a fingerprint of the data it was computed from.
#
# ## 3. How far apart may two worlds look?
#
# **Neighbours** are two data sets $D$ and $D'$ that differ in one patient, Alice say. A randomised answer $A$ is
# **ε-differentially private** when for all neighbours and every set $S$ of answers
#
# $$\Pr[A(D) \in S] \le e^{\epsilon}\, \Pr[A(D') \in S].$$
#
# In words: with Alice no answer is more than $e^\epsilon$ times as likely as without her, nor the other way round.
#
# The **sensitivity** $\Delta$ of a question $F$ is the most that one patient can change its exact answer. A count
# has $\Delta = 1$. One line makes the answer private:
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
# A count of patients is 200 without Alice and 201 with her. It is released with noise for ε = 1. The answer 201 is
# $e^1 = 2.7$ times as likely with her as without.
#
# **Predict.** And the answer 205: fewer times, just as many, or more?


# %%
def laplace_mechanism(answer, sensitivity, epsilon, rng):
    """An epsilon-private answer: one number, or an array of them."""
    return answer + rng.laplace(0, sensitivity / epsilon, np.shape(answer))


rng, bins, counts = stream("worlds"), np.arange(196, 205.5, 0.5), (200, 201)
worlds = laplace_mechanism(np.full((200_000, 2), counts), 1, EPSILON, rng).T
seen, error, exact = experiments.log_ratios(worlds, counts, EPSILON, bins)
check(np.all(abs(seen - exact) < 4.5 * error), "the draws fit the formula")

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(8.6, 3.4))
_ = figures.plot_two_worlds(axes[0], *worlds, bins)
_ = finish(axes[0], f"An answer of 200.5 at ε = {EPSILON:g} fits both", "released count")
_ = figures.plot_log_ratio(axes[1], bins, seen, error, EPSILON, exact)
_ = finish(axes[1], f"Exact ratio (line): at most {np.exp(exact.max()):.2f} either way")
show(fig, "Two overlapping histograms; the log of their exact ratio stays within ±ε")

# %% [markdown]
# Answer: just as many. **Read the figure.** Left: the histograms overlap, so one answer says little. Right: the log of
# their ratio. The exact one (grey line) stays between -ε and ε, and reaches them left of 200 and right of 201. The
# measured ones (dots, with two standard errors) scatter around it by chance.
#
# **Take away.** Noise is scaled to sensitivity / ε.
#
# ## 4. What is a small ε?
#
# Repeat the attack of section 2 on the noised count. The best guess is that Alice is in when the answer is above
# 200.5. It is wrong when the noise leads across this middle, beyond 1/2: with probability $e^{-\epsilon/2}/2$.
#
# **Predict.** At which ε is the attacker right 9 times in 10: at about 0.3, 1, 3 or 10?

# %%
epsilons = np.array([0.1, 0.25, 0.5, 1, 2, 3.2, 8])
is_in = stream("coins").random((200_000, 7)) < 0.5
answers = laplace_mechanism(200 + is_in, 1, epsilons, stream("attack"))
success = ((answers > 200.5) == is_in).mean(axis=0)
print(dict(zip(epsilons.tolist(), success.round(2).tolist(), strict=True)))
near = abs(success - 1 + np.exp(-epsilons / 2) / 2).max() < 0.0056
check(near, "right with probability 1 - exp(-ε/2)/2, to 5 standard errors")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.1, 3.8))
_ = figures.plot_attack(ax, epsilons, success)
_ = finish(
    ax, f"The attacker is right in {success[3]:.0%} at ε = 1, in {success[5]:.0%} at ε = 3.2"
)
show(fig, "The attacker's success grows with ε from one half to certainty")

# %% [markdown]
# Answer: at about 3 (3.2). At ε = 0.1 the guess is hardly better than a coin, at ε = 1 it is right in 70 %.
#
# The dotted **ceiling** $1/(1+e^{-\epsilon})$ holds for every attack on every ε-private release, also for an
# attacker who knows all other patients. *Reason:* the coin is fair. So the odds of "in" to "out", given the answer,
# are the ratio of its probabilities in the two worlds, at most $e^\epsilon$ to 1. The better guess is right with
# probability $e^\epsilon/(e^\epsilon+1)$ at most.
#
# What do others promise? Apple collects statistics from its users in the local model. Damien Desfontaines'
# [list of deployments](https://desfontain.es/blog/real-world-differential-privacy.html) gives ε for one user and one day:

# %%
for what, e in {"health": 2, "emoji": 4, "new words": 16}.items():
    print(f"{what}, ε = {e}: at least one guess in {1 + np.exp(e):,.1f} wrong")

# %% [markdown]
# At ε = 2 an attack on one day's reports may be right seven times in eight; at ε = 16 the promise alone protects
# almost nobody. The days of a year add up (section 8). So an ε needs four things beside it: **whose presence** it
# hides (section 7), for **which period**, with **which δ** (section 6), and **whom one has to trust**.
#
# <!-- living: alice -->
#
# **Take away.** Before a fair coin, ε caps every attack at $1/(1+e^{-\epsilon})$.
#
# ## 5. What does the same count cost under four kinds of trust?
#
# How many patients have a positive first measurement (scaled to the box from -1 to 1)? Each clinic counts its own,
# and the noised total is released, once under each trust model.
#
# **Predict.** All four draw noise from the same seed. Which answers are equal: none, two, three, or all four?

# %%
flags = [(rows[:, :1] > 0).astype(float) for rows in clinics]
released, views = experiments.noised_counts(flags, EPSILON, SEED)
print({model: round(answer, 2) for model, answer in released.items()})
check(np.ptp([*released.values()][:3]) < 2**-28, "three answers are equal")
many = laplace_mechanism(np.zeros((200_000, M)), 1, EPSILON, stream("local"))
one, total = many[:, 0].std(), many.sum(axis=1).std()
check(abs(total / one / M**0.5 - 1) < 0.02, f"local: std {total / one:.1f} times as large")

# %% tags=["hide-input"]
fig, axes = plt.subplots(2, 2, figsize=(6.1, 5.6))
truth = [part.sum() for part in flags]
_ = figures.plot_server_views(axes, views, truth)
headline(fig, f"Std of the noise: {one:.1f} in three models, {total:.1f} in the local one")
show(fig, "Exact counts, one noised sum, random words, blurred counts")

# %% [markdown]
# Answer: three, up to rounding. **Read the figure.** It shows the server's part of the **transcript**, the record
# of messages: every count; the noised sum; random numbers; every count, blurred (ticks: the exact ones).
#
# In the local model each of 20 clinics adds noise. Variances add up, so the standard deviation is $\sqrt{20}$ = 4.5
# times that of one noise.
#
# **Take away.** Masks hide and do not blur. Local noise blurs.
#
# ## 6. What may stick out?
#
# Normal noise is handy: the sum of two normal noises is normal again. But far out the ratio of the two worlds exceeds
# any $e^\epsilon$. So **(ε, δ)-differential privacy** allows a small excess of probability:
#
# $$\Pr[A(D) \in S] \le e^{\epsilon}\, \Pr[A(D') \in S] + \delta.$$
#
# > **The Gaussian mechanism.** Publish $F(D) + Z$ with $Z \sim N(0, s^2)$. Its **strength** is $\mu = \Delta/s$: in
# > units of $s$ the two worlds are $N(0,1)$ and, at worst, $N(\mu,1)$.
#
# To choose noise, fix ε and δ, ask `accounting.gdp_mu(epsilon, delta)` for μ, and take $s = \Delta/\mu$.
#
# Which δ? Think of a terrible mechanism: it publishes each patient's record in full with probability δ. It meets
# the definition with ε = 0.
#
# **Predict.** With δ = 1/n and n = 1000 patients, how likely is somebody exposed: 0.1 %, 37 % or 63 %?

# %%
mu, finer = (accounting.gdp_mu(EPSILON, d) for d in (DELTA, DELTA / 10))
print(f"μ = {mu:.3f}; a tenth of δ takes {mu / finer:.2f} times the noise")
for delta in (1 / n, DELTA):
    exposed = (stream("delta").binomial(n, delta, 100_000) > 0).mean()
    near = abs(exposed - 1 + (1 - delta) ** n) < 5 * (n * delta / 1e5) ** 0.5
    check(near, f"δ = {delta:.0e}: {exposed:.1%} of trials expose somebody")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(5.6, 3.8))
_ = figures.plot_delta(ax, 1.0, 1.0)
sticks_out = accounting.gdp_delta(1, 1)
_ = finish(ax, f"μ = 1: {sticks_out:.3f} sticks out above $e^{{ε}}$, for ε = 1")
show(fig, f"Two densities; what sticks out above the other, enlarged, is δ = {sticks_out:.3f}")

# %% [markdown]
# Answer: 63 %. For this mechanism it is $n\delta$ at most. We allow one percent, so δ is a hundredth of $1/n$ at most: for
# 1000 patients $10^{-5}$. Being stricter is cheap: a tenth of δ takes 1.13 times the noise.
#
# **Read the figure.** Right of the thin line the density with Alice is higher than $e^\epsilon$ times that without
# her. The red area between them is δ (0.127 is for the picture only). *Reason:* the log of the ratio of the
# densities at $z$ is $\mu z - \mu^2/2$. It exceeds ε right of $c = \epsilon/\mu + \mu/2$, so $\delta = \Pr[N(\mu,1) >
# c] - e^{\epsilon} \Pr[N(0,1) > c]$. **One noise has a whole curve of (ε, δ)**, and μ names it. The ceiling of
# section 4 rises by less than δ.
#
# **Take away.** δ is a probability that ε does not bound. Keep it at $0.01/n$ or below.
#
# ## 7. Whose presence is hidden?
#
# The **unit** says what one record is: a *point* is one patient, a *client* is one clinic with all its patients.
# To hide a clinic, noise is scaled to a public **cap** on the patients that one clinic may send, here 50.
# (Papers also differ in **adjacency**, what neighbours are. With **add/remove** a record leaves; with **replace-one**
# it is exchanged for another, so a sum can move twice as far.)
#
# **Predict.** The number of patients is released with noise for ε = 1 *per patient*. How often can an attacker
# tell whether clinic 3 took part: in about half of the trials, in 73 %, or always?

# %%
held, cap, rng = len(clinics[2]), -(-n // M), stream("unit")
took_part, answers = rng.random(20_000) < 0.5, {}
for unit, size in {"point": 1, "client": cap}.items():
    answers[unit] = laplace_mechanism(n - held * ~took_part, size, EPSILON, rng)
    right = np.mean((answers[unit] > n - held / 2) == took_part)
    print(f"{unit}: std {2**0.5 * size / EPSILON:.1f}, right in {right:.0%}")

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(8.6, 3.4))
_ = figures.plot_units(axes, answers, took_part, who="clinic 3")
for ax, (unit, a) in zip(axes, answers.items(), strict=True):
    finish(ax, f"For one {unit}: right in {np.mean((a > n - held / 2) == took_part):.0%}")
show(fig, "Noise for a point: two peaks apart; for a client: they merge")

# %% [markdown]
# Always. **Read the figure.** Left: with noise for one patient the two worlds do not even touch. Right: noise for
# one clinic is 50 times larger, and hides the clinic as well as ε = 1 should. The price is a standard deviation of 71
# for a count of 1000. What is 1-private for a patient is only 50-private for a clinic.
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
# **Predict.** Each answer is a count with μ = 1/4. After 16 answers, is ε 16, 5 or 2 times that of one? And
# somebody makes 100 private runs and publishes only the one that is nearest to the truth: how often is the attacker
# right?

# %%
table = experiments.asking_again(1 / 4, DELTA, rng=stream("rounds"))
near = abs(table["right"] - table["theory"]).max() < 0.0175
check(near, "the attacker is as good as theory says, to 5 standard errors")
runs = laplace_mechanism(np.zeros((20000, 100)), 1, EPSILON, stream("best"))
found = np.mean(abs(runs).min(axis=1) < 0.5)  # then the guess is right
check(found > 0.99, f"the nicest of 100 runs gives Alice away in {found:.0%}")
table.round(2)

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(9.4, 3.6))
_ = figures.plot_success(axes[0], table.index, table["right"], "answers T", table["theory"])
_ = curves(axes[1], None, table[["adding ε", "adding μ²"]])
_ = finish(axes[1], "", "answers T", "total ε", names="upper left")
headline(fig, f"64 answers: ε is {table['adding μ²'][64]:.0f}, not {table['adding ε'][64]:.0f}")
show(fig, "Attacker's success and total ε (two rules) against answers")

# %% [markdown]
# Answers: about 5 times, and always. μ grows by $\sqrt{16} = 4$, and ε a little faster, by 4.7. **Read the figure.**
# Left: what averaging gives the attacker (line: theory). Right: two correct bills for the same δ in total. Adding
# 64 times ε, each at δ/64, gives 74. Adding squares gives 10, which is exact. Yet the attacker is right in 84 % only;
# Laplace noise gave 99 % at ε = 8. With normal noise ε speaks of rare answers, and μ of the usual ones.
#
# The nicest run looks like one release, but *the choice itself* reads the private data: among 100 runs one is nearly
# surely next to the truth, and the choice shows it. Picking the best of several clusterings, or k by an elbow, is
# the same mistake, unless all runs are charged and the choice uses released numbers only.
#
# **Take away.** Squares of μ add up. Choosing an answer by the truth is one more question to the data.
#
# ## 9. What does one private step of Lloyd's algorithm look like?
#
# A mean is a **sum** divided by a **count**. What one patient can change, in $d = 2$ columns:
#
# * the sums by half the diagonal of the box, $\sqrt2$, and the counts by 1, each in one cluster only (parallel);
# * both are asked (sequential), so here each gets half of $\mu^2$;
# * dividing and clipping cost nothing (post-processing).
#
# The start is **sphere packing**: centres spread over the box without a look at the data, so they are public.
#
# **Predict.** Two clusters have about 300 points, two have 200, and all get the same noise. How far does a released
# centre miss in the small ones: as far as in the large ones, 1.2 times or 1.5 times as far?


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
miss = ((np.array(steps) - exact) ** 2).sum(axis=2).mean(axis=0) ** 0.5
print("points", counts, "miss", miss.round(3), (miss / miss.min()).round(1))
unit = mu * counts / (8 + 2 * (exact**2).sum(1)) ** 0.5  # points / noise
near = abs(miss * unit - 1)[counts > 0.15 * n] < 0.15
check(all(near), "clusters miss by noise / points, to 15 %")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(5.0, 4.8))
_ = figures.plot_step(ax, points, start, exact, steps[0])
show(fig, "Arrows from public starts to released and exact means")

# %% [markdown]
# Answer: 1.5 times (root mean square of 300 releases). The noise on a sum is the same for every cluster, but it is
# divided by the number of points. **Read the figure.** White circles are the public start, crosses the exact means,
# which nobody releases, and squares one draw of released centres.
#
# A run takes several steps. A **plan** fixes it before its first message, and every party may read it. `simulate`
# sets up a **federation**: the clients, and what may cross the wire. Three rounds share the budget, $\mu^2/3$ each.

# %%
fed = federation.simulate(clinics, "ideal", seed=SEED)
asked = {"epsilon": EPSILON, "delta": DELTA, "initial": start, "n_rounds": 3}
plan = fastlloyd.plan_glloyd(fed, **asked, n_clusters=k, postprocess="truncate")
result = fastlloyd.run(fed, plan)
check(np.isclose(fed.ledger.epsilon(DELTA), EPSILON), "the bill is ε")
plan

# %% tags=["hide-input"]
from studies.start import widget as play

fig, ax = plt.subplots(figsize=(4.6, 4.8))
told = {"start": start, "epsilon": EPSILON, "reference": kmeans.lloyd(points, start, n_rounds=3)}
_ = figures.plot_private_clusters(ax, points, result.centers, **told)
show(fig, "Public start, released centres, and those of Lloyd without noise, after three rounds")

# %% [markdown]
# **Read the plan.** *glloyd* is Lloyd's algorithm with Gaussian noise. *std* is the standard deviation of the noise,
# *hides* the sensitivity (`L2`: as a length). The *ideal functionality* is the box of section 1; the *box of size 1* goes
# from -1 to 1. The number of records is public; a bound will do, for no noise here depends on it. The sums
# get three quarters of $\mu^2$, $(1.414/10.49)^2$ against $(1/13.15)^2$: noise on a count moves a centre in proportion to the
# centre's distance from the middle of the box. `run` makes these releases and no others; the **ledger** charges each.
#
# **Read the figure.** Crosses are now Lloyd's centres after three rounds without noise. NICV (normalised
# intra-cluster variance) is the mean squared distance of a point to its nearest centre.
#
# In this **teaching mode** noise comes from a seed: you can repeat every number, and whoever knows the seed can take
# the noise away. **Secure mode** (notebook 06) draws noise and keys from the operating system.
#
# **Predict**, then play: at which ε have most of four released centres left their clusters: 3, 1, 0.3 or 0.1? And of
# eight? (*Left*: farther from the centre without noise than halfway to the next one.)

# %%
experiments.strays(clinics, DELTA, (k, 2 * k), rng=stream("strays"))

# %% tags=["widget", "nbval-ignore-output"]
_ = play.explore(federation.ClientData.from_clients(clinics), seed=SEED)

# %% [markdown]
# Answer: of four at 0.1 (66 % in 30 runs), of eight at 1 already. Eight clusters have fewer points each and lie closer
# together. The sliders draw a start of their own. Each position is one more release: on real data it would be charged.
#
# **Take away.** A centre needs points, and a neighbour that is not too near.
#
# ## 10. Where do bounds come from, and where next?
#
# Noise on a sum is scaled to the box that holds the data.
#
# **Predict.** The largest mean area of cell nuclei among 569 tumours is published as the limit of the scale. Whose
# data does it reveal: nobody's, one patient's, or everybody's?

# %%
from sklearn.datasets import load_breast_cancer

areas = load_breast_cancer(as_frame=True).data["mean area"].nlargest(2)
print(f"published {areas.iloc[0]:g} (patient {areas.index[0]}); without it {areas.iloc[1]:g}")

# %% [markdown]
# One patient's, to the last digit, and no ε pays for it. Bounds must be public (the range of an instrument, a
# law, a textbook), or bought with a part of the budget (notebook 06). Each client **clips** to them: a value
# beyond is cut to the bound. Too tight a bound cuts values off; too wide a bound means more noise.
#
# Ask in this order: *whose presence* must be hidden, *who may see what*, *how many records* a cluster has.
#
# | your situation | read |
# |---|---|
# | nobody may see another's sums, but a server can help | [01 FastLloyd](01_fastlloyd.ipynb): masked sums |
# | the server owns related public data; the start matters | [02 FedDP-KMeans](02_feddp_kmeans.ipynb) |
# | each user holds one point and trusts nobody | [03 Locally private k-means](03_locally_private_kmeans.ipynb) |
# | you cluster clients by the model that fits them | [04 RR-Cluster](04_rr_cluster.ipynb) |
# | you have a table and want centres | [06 Your own data](06_your_own_data.ipynb), and [05](05_side_by_side.ipynb) to compare |
#
# **Take away.** Bounds, k and ε that were chosen by a look at private data are releases.
#
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
    made = [w * private_lloyd_step(points / w, start / w, mu, rng) for _ in range(300)]
    errors[w] = np.mean((np.array(made) - exact)[:, large] ** 2)
    print(f"2: box {w} times too wide: mean squared error {errors[w]:.5f}")
check(2.5 < errors[2] / errors[1] < 5, "2: the error grows by about four")

# %% tags=["solution"]
pair = [laplace_mechanism(count, 1, EPSILON, np.random.default_rng(SEED)) for count in (312, 254)]
check(
    np.isclose(pair[0] - pair[1], 312 - 254), f"3: the difference is exact, {pair[0] - pair[1]:.0f}"
)

# %% [markdown]
# ## What is claimed, and what we found
#
# This notebook has no paper of its own. These sentences, of the papers of the later notebooks, of their code and of
# this project, use its words. Verdicts are about a sentence, not about a method.

# %%
from studies import end_table

end_table("L16", "L.code.seed", "L.code.truncation", "G5", "S.rivals.empty", "P.trust.1")

# %% [markdown]
# [All claims](../data/results/claims.md), with the checks and tables behind them.
#
# ## Going further
#
# **The curves of μ** (2 minutes). Who says "ε = 1" has picked one point of a curve. A smaller δ goes with a larger
# ε.

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(5.6, 3.8))
_ = figures.plot_delta_curves(ax, (0.25, 0.5, 1.0, 2.0))
show(fig, "δ against ε on a logarithmic axis, one falling curve for each of four strengths")

# %% [markdown]
# **Transcript and ledger** (3 minutes). The transcript lists the messages, the ledger what was released and what
# each is charged for. A message may cost nothing, and one release may be sent to many. Here are the first messages of
# the run of section 9, and its ledger: three rounds, and two mechanisms in each. How the clients reach the box of the ideal model
# is left open, so those messages are not listed.

# %%
fed.transcript.to_frame().head(3)

# %%
fed.ledger.to_frame().drop(columns=["sampling", "group"]).round(3)

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
# There is none: the limits are exact records of single people, and no budget paid for them (section 10).
# </details>
#
# ## References
#
# * C. Dwork, A. Roth. *The Algorithmic Foundations of Differential Privacy.* 2014. (Sections 3 to 8.)
# * J. Dong, A. Roth, W. Su. *Gaussian Differential Privacy.* JRSS B, 2022. (μ, composition.)
# * A. Blum, C. Dwork, F. McSherry, K. Nissim. *Practical Privacy: the SuLQ Framework.* PODS 2005. (Noised sums and
#   counts, section 9.)
# * D. Desfontaines. *A list of real-world uses of differential privacy.* Web page, 2021, updated since. (Section 4.)
# * N. Papernot, T. Steinke. *Hyperparameter Tuning with Rényi Differential Privacy.* ICLR 2022. (What tuning costs
#   when it is done properly.)
