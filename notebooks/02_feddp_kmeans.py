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
# # FedDP-KMeans: can public records of another kind start a private clustering?
#
# *60 minutes; exercises 20 more.* You will build a private start from three noised sums, and tell from
# public numbers beforehand where it will win and where not. The method is that of J. Scott, C. H. Lampert and
# D. Saulpic (ICML 2025).
#
# **You need** notebook [00](00_start_here.ipynb) (ε, δ, sensitivity, the ledger) and eigenvectors. The
# letters are those of the [table of symbols](../docs/symbols.md).
#
# | who | holds | sees |
# |---|---|---|
# | **a hospital** | its patients' rows, each cut to a public length $r$ | a subspace, then centres |
# | **the secure sum** | nothing that stays | the hospitals' sums; it adds the noise |
# | **the server** | a few hundred public records | noised sums only |
#
# Everybody trusts the secure sum to add up, to add noise, and to tell nobody else. Hidden is **one row**,
# added or removed; section 8 hides a whole client.

# %%
import matplotlib.pyplot as plt
import numpy as np

from fedclust_helpers import accounting, audit, feddp_kmeans, kmeans
from studies.bench.plots import show, use_style
from studies.feddp_kmeans import bounds, figures, lesson

# %% tags=["settings"]
SEED = 5
DATA = "mixture"  # or "photograph"
EPSILON, DELTA = 1.0, 1e-6
K = 10  # groups to find
N_CLIENTS, N_ROWS = 100, 1000  # hospitals, rows of each

# %%
check, stream, seeds = lesson.begin(globals())
use_style()

# %% [markdown]
# ## 1. Which records of the server are like the patients?
#
# The paper tests its method on made data, so that the right answer is known (its Appendix G.1). Each
# hospital holds rows of $d = 100$ columns from a mixture of ten groups. The means of the groups are random
# points of the cube $[0, 1]^d$, and each column has variance 0.5 around them. The server owns 20 records of
# each group, and 100 more that are spread evenly over the cube: another kind. It does not know which is which.
#
# **Predict.** Look at the picture before you read its names. Which records are of the other kind: those in
# the middle, those at the rim, or can nobody tell?

# %%
data = lesson.problem(DATA, K, N_CLIENTS, N_ROWS, rng=stream("large"))
made, rows, server = data.made, data.rows.points, data.made.server_points
radius, d = made.radius, made.n_features
print(f"{len(rows):,} rows, d = {d}, r = {radius:g}; best {data.best:.2f}")
check(abs(data.best / d - 0.5) < 0.005, "the best cost is d / 2 per row")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(7.0, 3.8))
_ = figures.plot_server_data(ax, made)
show(fig, "Rows in grey, true means, and the server's points of both kinds")

# %% [markdown]
# Answer: those in the middle, mostly. **Read the figure.** Crosses are the true means, in the plane in
# which they differ most. (Only we can draw it: nobody in the protocol knows them.) Dots gather around crosses. Squares are of the other kind. In each direction their variance is a twelfth only, as that
# of any number even over $[0, 1]$, where a row has a half around its mean. So they stay in the middle.
#
# No clustering can do better than about 50 per row: each of the 100 columns contributes its variance of 0.5.
#
# **Take away.** The best cost is known, so all costs below are stated *above the best*.
#
# ## 2. Why does private k-means need a good start?
#
# Without privacy, a bad start costs more rounds. With privacy, all rounds share one budget, so more rounds mean
# more noise in each.
#
# We take a fifth of the rows and half of the budget, and compare two starts. **SpherePacking** spreads
# centres over the space and looks at no data. The other start *knows*, as no server does, which of its
# points belong to which group, and takes their means. After either, the rounds of Lloyd spend the whole
# budget.
#
# **Predict.** With noise, from the start that knows: which number of rounds T is best, 1, 4 or 8?

# %%
small = lesson.problem(DATA, K, N_CLIENTS, N_ROWS // 5, rng=stream("small"))
rounds, five = [1, 2, 4, 8], seeds("rounds", 5)
exact, noised = lesson.after_rounds(small, rounds, EPSILON / 2, DELTA, five)
print("exact", lesson.medians(exact), "\nnoised", lesson.medians(noised))
packed, knows = (np.median(runs, axis=1) for runs in noised.values())
check((np.diff(knows) > 0).all(), "from the start that knows, rounds harm")
check(packed.min() > 5 * knows[0], "packing stays at more than 5 times that")

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(9.4, 3.4), sharey=True)
_ = figures.plot_rounds(axes, rounds, exact, noised)
show(fig, "Cost after 1 to 8 rounds from two starts, exact and noised")

# %% [markdown]
# Answer: one. **Read the figure.** Lines are medians of five draws, areas their range. On the left, without
# noise, packing needs eight rounds and gets close. On the right, with noise, the start that knows is best
# after one round, and every further round makes it worse. Packing gains for four rounds, then noise takes
# over, and it never gets near.
#
# **Take away.** With noise, more rounds cannot repair a bad start. So a good one is worth paying for.
#
# ## 3. Step 1: in which directions do the groups differ?
#
# Ten means and the origin span ten directions of a hundred. All others hold nothing but scatter, and scatter
# is where a clustering goes wrong. How do we find the ten without seeing a row?
#
# Every hospital multiplies each row $x$ with itself, $x x^T$, and adds up. This **outer product** has $d
# \times d$ entries; its eigenvectors with the largest eigenvalues point where rows are long: towards the
# means. One row of length $r$ changes the sum by $r^2$ at most, so the noise has to hide $r^2$.
#
# When does this work? The data offer a **gap** $g$ (*eigengap*): by how much the tenth eigenvalue exceeds
# the eleventh. Noise with standard deviation $s$ in each entry has eigenvalues up to about $s\sqrt{2d}$,
# once the matrix is made symmetric. Where that exceeds $g$, the subspace should drown.
#
# **Predict.** $r = 11$, $d = 100$, the gap is about 42,000, and $s$ is about $4 r^2/ε$. At which ε do
# noise and gap meet: 0.02, 0.2 or 2?


# %%
def noised_outer(outer, radius, epsilon, rng):  # (epsilon, DELTA)-DP
    sigma = accounting.gaussian_sigma_analytic(epsilon, DELTA)
    return outer + rng.normal(0, radius**2 * sigma, outer.shape)


def subspace(noised):  # the K largest eigenvalues
    return np.linalg.eigh((noised + noised.T) / 2)[1][:, ::-1][:, :K]


# %%
outer, rng, energy = rows.T @ rows, stream("subspace"), []
gap = bounds.eigengap(outer, K)
meets = accounting.gdp_epsilon(radius**2 * np.sqrt(2 * d) / gap, DELTA)
grid = np.array([0.02, 0.05, 0.1, 0.2, 0.5, 1, 2])
for epsilon in np.repeat(grid, 5):
    basis = subspace(noised_outer(outer, radius, epsilon, rng))
    energy.append(bounds.subspace_energy(basis, made.true_centers))
kept = np.reshape(energy, (-1, 5)).mean(axis=1)
gaps = lesson.gaps_of(grid, radius, d, gap, DELTA)
print(f"gap {gap:,.0f}, met by the noise at ε = {meets:.2f}")
print("noise in gaps", gaps.round(1), "\nenergy kept ", kept.round(2))
check(gaps[-1] < 0.5 and kept[-1] > 0.95, "at ε = 2 nearly all is kept")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.1, 3.4))
_ = figures.plot_subspace(ax, grid, np.reshape(energy, (-1, 5)), meets, gaps)
show(fig, "Share of energy kept, rising to one around the predicted epsilon")

# %% [markdown]
# Answer: at 0.15, and 0.2 is nearest. **Read the figure.** *Energy* is the sum of the squared distances
# of the means from their middle; a subspace keeps the part of it that lies inside. Mean and range of five
# draws. Right of the dashed line the subspace keeps nearly everything. Left of it a part is lost: at 3 gaps
# of noise it keeps about half, at 6 a quarter, where ten random directions of a hundred would keep a tenth.
#
# The line was computed before any noise was drawn. It needs the gap, which is private; section 8 predicts
# the gap from the server's own records.
#
# **Take away.** The subspace is whole where noise is below the gap, and comes apart slowly above.
#
# ## 4. Step 2: which records of the server should we believe?
#
# The server's points, its public records, have no privacy to lose. The server projects them on the
# subspace, written $\Pi$, and asks every hospital: *for each of my records, how many of your rows have it
# as their nearest?* One row changes one count by one, so Laplace noise of scale $1/ε$ hides it. The
# noised counts are the **weights** $w$.
#
# **Predict.** A third of the records are of the other kind. Which share of the weight do they get: a third,
# a fifth, or less than a tenth?


# %%
def noised_weights(rows, basis, server, epsilon, rng):  # epsilon-DP
    nearest = kmeans.assign(rows @ basis, server @ basis).labels
    counts = np.bincount(nearest, minlength=len(server))
    return counts + rng.laplace(0, 1 / epsilon, len(server))


# %%
basis = subspace(noised_outer(outer, radius, EPSILON, rng))
weights = noised_weights(rows, basis, server, EPSILON, stream("weights"))
other = weights[~made.in_distribution].sum() / weights.sum()
for name, w in {"equal": None, "noised": np.maximum(weights, 0)}.items():
    xi = kmeans.weighted_kmeans(server @ basis, w, K, rng=rng) @ basis.T
    print(f"k-means, {name} weights: {data.above(xi):.2f} above the best")
check(other < 0.1, f"the other kind gets {other:.1%} of the weight")

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(9.0, 4.2))
_ = figures.plot_weights(axes, made, weights)
show(fig, "The server's points before and after: squares lose their weight")

# %% [markdown]
# Answer: less than a tenth. With these weights k-means on the records ends at less than half of the cost
# above the best. **Read the figure.** The area of a mark is its weight. On the left all records weigh the
# same. On the right the squares shrink and some dots grow: squares lie between the groups, and few rows are
# nearest to them.
#
# So records of another kind do less harm. Can they help? Where the server has no record near some rows, a
# record of another kind may be the nearest, and the rows vote for it. Section 10 shows such a case.
#
# The server can now cluster its own weighted records, again and again, without spending privacy: whatever
# one computes from a noised answer is as private as the answer (**post-processing**).
#
# **Take away.** The hospitals' counts turn public records into a stand-in for the patients.
#
# ## 5. What is the whole algorithm, and who pays for what?
#
# One step is left. The server clusters its weighted records in the subspace and sends the centres. Each
# hospital assigns its rows to the nearest of them, and sends the sum and the count of each group. Noised
# sums over noised counts are the new centres, now in all columns. That is FedDP-Init, the paper's
# Algorithm 1. Rounds of Lloyd may follow (Algorithm 2): `noised_means` again, with labels from all columns.
# Our plan has none.
#
# | step | a hospital sends | the server sees | one row moves it by |
# |---|---|---|---|
# | 1 | its outer product, $d \times d$ | the noised sum | $r^2$ |
# | 2 | a count for each record | noised weights | 1 |
# | 3 | $k$ sums and $k$ counts | noised sums and counts | $r$ and 1 |
#
# **Predict.** Which step sends the most numbers? And how far above the best do 100,000 rows end at ε = 1:
# by 0.01, 0.1 or 1?
#
# (Comments are the lines of Algorithm 1; `e` holds a budget for each step.)


# %% tags=["algorithm"]
def noised_means(rows, labels, radius, e, noise):
    sums, counts = kmeans.group_sums(rows, labels, K)
    sigma = accounting.gaussian_sigma_analytic(e.sums, DELTA)
    sums = sums + noise.normal(0, radius * sigma, sums.shape)
    return sums / (counts + noise.laplace(0, 1 / e.counts, K))[:, None]


def feddp_init(rows, server, e, radius, noise, rng):
    outer = noised_outer(rows.T @ rows, radius, e.outer, noise)  # 2-6
    basis = subspace(outer)  # 7
    w = noised_weights(rows, basis, server, e.weights, noise)  # 8-15
    kept = w >= 5  # a rule of the authors' code
    xi = kmeans.weighted_kmeans((server @ basis)[kept], w[kept], K, rng=rng)
    labels = kmeans.assign(rows @ basis, xi).labels  # 18-20
    return noised_means(rows, labels, radius, e, noise)  # 21-24


# %% [markdown]
# A **plan** shares ε over the steps in the paper's proportions (Appendix H.1: a fifth for the outer
# product, a fifth for the weights, nearly half for the sums, the rest for the counts), then scales all
# shares until the *exact* total is ε. It is made before anything is sent, from public numbers alone.

# %%
ask = {"n_clusters": K, "epsilon": EPSILON, "delta": DELTA}
plan = feddp_kmeans.plan(fed := data.federation(SEED), server, **ask)
run = feddp_kmeans.run(fed, plan, rng=lesson.draws(SEED)[1])
ours = feddp_init(rows, server, plan.dial, radius, *lesson.draws(SEED))
print("numbers sent by a hospital:", [part.numbers for part in plan.releases])
print(f"budgets {plan.dial.epsilon_sum:.2f}, exact ε {run.epsilon:.3f}")
check(np.allclose(ours, run.centers, atol=1e-8), "ours equals the package's")
excess = data.above(ours)
check(excess < 0.1, f"it ends {excess:.3f} above the best")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(7.0, 3.8))
_ = figures.plot_found(ax, made, ours, excess)
show(fig, "Released centres lie on the true means in the plane of the means")

# %% [markdown]
# Answer: step 1 sends the most, and the centres end about 0.01 above the best. **Read the figure.** A
# released centre lies on each cross: the start is already the answer, and further rounds could only add
# noise.
#
# **Who pays?** The step budgets add up to more than ε, and yet the exact total is ε. Theorem 1 of the paper
# adds up epsilons, which overcharges: the noises are independent, and independent noises add up in squares
# (00, section 8). And δ? Laplace noise has none. Each of the two Gaussian steps may fail with probability δ, so
# adding up allows 2δ (with rounds 3δ). Theorem 1 states one δ, and it holds: Gaussian noise for ε has $μ = ε /
# \sqrt{2 \ln(1.25/δ)}$, and the root of a sum of squares is at most the sum (last table). The ledger adds up
# exactly, from the *privacy loss distribution* of each noise (PLD).
#
# **What crosses the wire?** Hospitals send to the secure sum only. The server must read every noised sum. So
# masks that only hospitals can take off, as in 01, do not fit here.
#
# The widget answers: *which of the four shares may shrink to a tenth before the cost notices?* First, the
# still picture, with a fifth of the rows. On the left, eigenvalues with noise (bars) and without (marks). The
# first is more than ten times the others, for it belongs to the middle of all rows. In the middle, weighted records; on
# the right, centres. (Here the four budgets add up to ε, so the exact total in the title is smaller.)

# %% tags=["hide-input"]
from studies.feddp_kmeans import widget as play

fig, axes = plt.subplots(1, 3, figsize=(9.4, 3.4))
play.init_run(axes, small.made, epsilon=EPSILON, shares=play.SHARES, seed=SEED)
show(fig, "Eigenvalues over noise, weighted server points, released centres")

# %% tags=["widget", "nbval-ignore-output"]
_ = play.explore(small.made, seed=SEED)

# %% [markdown]
# Weights and counts may shrink (exercise 3). The outer product may not, for the subspace is lost; nor may
# the sums, for their noise moves every centre. In the picture noise is more than 4 gaps, and half of the subspace is left:
# enough to take weight from the wrong records.
#
# **Take away.** Three noised sums make the start, and one ledger bills them.
#
# ## 6. How far from the truth does it end? (theory check)
#
# The paper's Theorem 3 is about well separated groups. In words: without noise, rounds carry the centres to
# the means; noise leaves an error, the **floor**. For one round and four equal groups the floor is
#
# $$ζ\,\frac{r \ln n}{ε\,n/4},$$
#
# with a constant ζ that is not given (we take 1). So the noise of a sum, about $r/ε$, is divided by the
# number of rows in a group, $n/4$. The number of columns $d$ does not stand in it, except in $r$.
#
# **Predict.** One round from the true means, $d$ from 4 to 256. Does the error grow no faster than $r$,
# like $r\sqrt d$, or like $r\,d$?

# %%
dims, n, rng = np.array([4, 16, 64, 256]), 10_000, stream("floor")
runs = [lesson.one_round(d, n, EPSILON, DELTA, rng=rng) for d in dims]
errors, r = (np.array(part) for part in zip(*runs, strict=True))
printed = r * np.log(n) / (EPSILON * n / 4)
corrected = printed * np.sqrt(8 * dims * np.log(1.25 / DELTA)) / np.log(n)
off, left = (errors.mean(axis=1) / floor for floor in (printed, corrected))
print("error / printed floor:", off.round(2), "/ corrected:", left.round(2))
check(5 < off[-1] / off[0] < 12, "over the printed floor it grows like √64")
check(np.abs(left - 1).max() < 0.35, "the corrected floor fits within 35 %")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.1, 3.5))
_ = figures.plot_floor(ax, dims, errors, printed, corrected)
show(fig, "The error grows along the corrected floor, not the printed one")

# %% [markdown]
# Answer: like $r\sqrt d$. **Read the figure.** Noise in $d$ numbers of size $s$ is a vector of length
# $s\sqrt d$. The dashed line, as printed, has no room for that. Half of ε pays for the sums, so $s = 2r
# \sqrt{2 \ln(1.25/δ)}/ε$. The grey line is $s\sqrt d$ over the rows of a group, and the errors lie on it.
#
# Did the authors overlook it? No. Theorem 15, in their appendix, has "$k d T \log^2 n\; σ_{\max}
# \sqrt{\ln(T/δ)}$" in its floor, where $σ_{\max}$ is the spread of a group. One $\sqrt d$ of its $d$ is that
# of the noise; the other stands for $r$, which the theorem bounds by a multiple of $\sqrt d$.
#
# One limit of this check: the paper's own mixture is not separated as the theorem asks.
#
# **Verdict: the main text drops factors that the appendix has.** They are $\sqrt d$ and the root of $\ln(1/δ)$.
#
# ## 7. Would you notice a missing square?
#
# We make a slip on purpose: Step 1 with noise for $r$ where $r^2$ is right. The program runs, and its ledger
# prints the same ε, for it believes the sensitivity that it is told.
#
# An outsider can notice, by an **audit** as in 01, section 8. Take one row of the greatest length, $(r,
# 0, \dots, 0)$. Release the sum many times with and without it. It moves one entry, by $r^2$. How well
# can the two be told apart? Noise for a step of ε = 1 puts the two bells μ = 0.24 standard deviations
# apart.
#
# **Predict.** Noise for $r$ is 11 times too small. An audit of 20,000 releases bounds ε from below. Does it
# find at least 0.5, 5 or 50?

# %%
claimed, rng = accounting.gdp_mu(EPSILON, DELTA), stream("audit")
promise = {"claimed_mu": claimed, "claimed_epsilon": EPSILON}
print("exact", round(accounting.gdp_epsilon(radius * claimed, DELTA), 1))
scores, reports = {}, {}
for name, size in (("noise for r²", radius**2), ("noise for r", radius)):
    without, with_ = rng.normal(0, size / claimed, (2, 20_000))
    scores[name] = claimed / size * np.array([without, with_ + radius**2])
    found = audit.audit_canary(*scores[name], delta=DELTA, **promise)
    reports[name] = found
    print(f"{name}: ε is at least {found.epsilon_lower_bound:.2f}")
good, bad = reports.values()
check(good.passed and bad.epsilon_alarm, "the slip raises the alarm")

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(8.6, 3.3))
_ = figures.plot_audit(axes, scores, claimed, (good, bad))
show(fig, "Scores with and without the row: together left, apart right")

# %% [markdown]
# Answer: at least 5, where the exact ε is 15. **Read the figure.** Grey: releases without the row; outline:
# with it; dashed: what the claim allows. On the left one release tells next to nothing; 20,000 show a shift,
# and it is no larger than claimed. On the right the bells separate, by $11 \cdot 0.24 = 2.6$ of their own
# widths.
#
# A pass proves nothing: another row might do worse. An alarm is false in one case of twenty at most.
#
# **The slip is real.** In the authors' released code (`configs/gaussians_data_privacy.yaml`, line 18) one
# number, 11, is the length to which rows are cut and also the scale of the noise of Step 1. The code reports ε
# = 2.56 there, and it is 16.2 (last table). The paper's Algorithm 1 has the square, and with it we see
# what its Figure 1 shows.
#
# **Take away.** A sensitivity is a number that can be audited.
#
# ## 8. When does it win?
#
# Section 3 gave a rule: compare noise with gap. The server can apply it beforehand. Its own records,
# clustered, show how far groups are apart in a direction, on average; that times the number of rows predicts
# the gap. The noise follows from ε, $r$ and $d$. All of it is public.
#
# **One client instead of one row.** Where each client is one person's phone, the whole client must be
# hidden (client-level privacy, the paper's Section 5.2). Then each client cuts its *whole statistic* to a public
# length: for the outer product of 50 rows the authors take twelve times $r^2$. That length
# and the gap both grow with the rows of a client, so at one ε only more clients make the ratio smaller.
#
# The [committed table](../data/results/feddp_cost.csv) has 20 settings of the mixture: 1000, 2000 and 5000
# clients of 50 rows, and 100 hospitals of 1000 rows where one row is hidden. Four more are of the photograph of
# section 10. The rival is the best **public start**: SpherePacking, k-means on the server's records
# (**ServerLloyds**), or $k$ of these records far apart (ServerKMeans++). Each method has the number of private
# rounds that suits it.
#
# **Predict.** 1000 clients at ε = 0.25, and 5000 clients at ε = 4: where does FedDP-KMeans win?

# %% tags=["fixed"]
table = lesson.against_starts()
over = lesson.noise_over_gap(table, DELTA, rng=stream("planning"))
fresh = lesson.on_photograph(DELTA, seeds("fresh", 3))
both = lesson.beside(table, over, fresh)
print(both.loc["client"].loc[[(1000, 0.25), (5000, 4.0)]].round(2))
print("photograph, per cent\n", fresh.loc["photograph", 64].round(2))
paper, ours, gaps = both["feddp"], both["feddp_adaptive"], both["gaps"]
check((paper[gaps < 1] < 0.8).all(), "below 1 gap it wins on both data sets")
check((paper[gaps > 14] > 1).all(), "above 14 gaps a public start is better")
print(f"variant ahead of it in {(ours < paper).sum()}, of public starts in {(ours < 1).sum()}")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.1, 3.9))
_ = figures.plot_planning(ax, gaps, both[["feddp", "feddp_adaptive"]])
show(fig, "Cost over that of the best public start, against noise over gap")

# %% [markdown]
# Answer: the second only. **Read the figure.** Each mark is one setting, a mean of ten data sets (stars: a
# median of three runs). Below 1 gap FedDP-KMeans beats the best public start on both data sets. Above 14 gaps it
# loses. In between it depends on the data: on the mixture a part of the subspace is enough, and it is ahead up to
# 11 gaps; on the photograph it loses at 5.
#
# **A variant of ours** (`plan_adaptive`) reads the ratio. Where it predicts more than half a gap of noise, it
# buys no subspace and starts from the server's records. It then asks for sums of *residuals*, rows minus
# their centre, which are shorter and need less noise, and it shortens each step by the share that noise explains
# ("Going further"). It is ahead of the best public start in all 24 settings; of FedDP-KMeans always on the mixture. On the
# photograph neither is always ahead.
#
# **Take away.** In these 24 settings: below 1 gap of predicted noise it wins; above 14 a public start does.
#
# ## 9. Where does it break?
#
# Two things are assumed. The server has a record of every group. And somebody chooses a radius $r$ that suits
# the rows, without looking at them. A short one cuts rows: they move towards zero, and centres with them. A
# long one raises the noise of Step 1 by its square. We try multiples of a public length, that of the server's
# longest record, on a fifth of the mixture and on the photograph, five times.
#
# **Predict.** Which costs most: five of ten groups unseen by the server, a radius twice as long as its longest
# record, or half as long?

# %%
missing, factors = [0, 1, 2, K // 2], [0.5, 0.75, 1, 1.5, 2]
how, five = (EPSILON, DELTA), seeds("missing", 5)
unseen = lesson.without_some(missing, K, N_ROWS // 5, *how, five)
cut, gaps = lesson.with_radius(factors, K, N_ROWS // 5, *how, five)
print("unseen", *lesson.medians(unseen).items(), sep="\n  ")
print("radius", *lesson.medians(cut).items(), sep="\n  ")
print("predicted noise in gaps", *gaps.items(), sep="\n  ")
worst = np.median(unseen["feddp"][-1])  # half of the groups
check(np.median(cut["mixture"][0]) > worst, "half of the radius costs more")

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(9.4, 3.6))
_ = figures.plot_limits(axes, missing, unseen, K, factors, cut)
show(fig, "Cost as groups go missing, and as the radius does not fit")

# %% [markdown]
# Answer: half the radius, on both data sets. **Read the figure.** Medians and ranges of five draws, in per
# cent above the best cost (1 per cent of the mixture's is 0.5 per row). On the left, FedDP-KMeans loses slowly:
# records of other groups stand in for those that are missing. Our variant is ahead while two groups at most
# are missing. With five it is worse, because it takes more from the server. No plan can tell.
#
# On the right, the longest public record is a good radius for both. Half of it costs the mixture 12 per cent
# and the photograph 221. Twice its length costs the mixture 8, and the photograph nothing. The printed
# predictions say why: on the mixture noise grows from 2.9 to 11 gaps, on the photograph it stays below 0.2.
#
# **How do you choose $r$ for your own table?** Put zero at a public middle, and give all columns a similar unit,
# so that rows are short (06 does both). Take the length of the longest public record, as the paper does. Then
# look at the predicted noise: if twice that length stays below 1 gap, take twice, for rows that no record is
# like. Without public records take the longest row that the bounds of the columns allow.
#
# **Take away.** Cover the groups. A short radius always hurts, a long one only where noise is near the gap.
#
# ## 10. Can it cluster a photograph that nobody may see?
#
# Now real data. 64 hospitals hold strips of a photograph, as patches of 2 × 2 pixels. The 12 numbers
# of a patch go from -1 to 1 over $\sqrt{12}$, so $r = 1$ for every possible picture. The server has 20
# patches of that picture, and 300 of *another* one. Find eight colours for the hidden picture, at ε = 0.25 for
# one patch.
#
# **Predict.** The other picture shows a flower. Without its 300 patches, would FedDP-KMeans end nearer to the
# best colours, farther away, or neither?

# %%
photo = lesson.photograph(8, 64, rng=stream("photo"))
colours, times = lesson.coloured(photo, EPSILON / 4, DELTA, SEED)
print("cost / best:", times, "\nred, green, blue:", *figures.rgb(colours))
kinds = lesson.with_kinds(photo, EPSILON / 4, DELTA, seeds("kinds", 5), 8)
print("per cent above the best\n", kinds.round(1))
both, own, _ = kinds["FedDP-KMeans"]
check(both < own, "with the flower FedDP-KMeans ends nearer to the best")
vote = lesson.nearest_is_other(photo)
check(vote > 0.2, f"for {vote:.0%} of the patches a flower patch is nearest")

# %% tags=["hide-input"]
layout = [["hidden", "public"], ["server_lloyds", "feddp"], ["colours"] * 2]
fig, axes = plt.subplot_mosaic(layout, figsize=(6.6, 5.6), height_ratios=[4, 4, 1])
_ = figures.plot_photographs(axes, colours)
show(fig, "Hidden temple, public flower, the temple in eight colours twice")

# %% [markdown]
# Answer: farther away. The other picture helps, once the hospitals have said which of its patches to believe.
# **Read the figure.** ServerLloyds, with 8 rounds, starts from the server's records as they are, so it spends
# colours on the flower, and has fewer for the temple. FedDP-KMeans weighs the flower's colours by the temple's
# patches. The strip at the bottom is what may be published.
#
# **Why does it help?** Twenty patches miss some colours of the temple. For more than a third of its patches a
# flower patch is the nearest record, and they vote for it. With the flower FedDP-KMeans ends 6 per cent above the best,
# without it 11. ServerLloyds, which cannot ask, goes from 9, then the better of the two, to 23 with it. Luck of the twenty patches
# has a part: with SEED = 3 FedDP-KMeans gains nothing. (On the mixture the other kind only harms: "Going further".)
#
# For a run that counts, take **secure mode**: the last cell under "Going further" changes one word, and
# prints the plan, which is the statement to publish with the colours. Notebook
# [06](06_your_own_data.ipynb) does the same for a table in its own units, with `FedDPKMeans`.
#
# **Do not use it** where no record of the server is near the rows, where predicted noise is far above the gap,
# or where nobody may be trusted with exact sums: masks of 01 do without such a party, and 03 does
# without any sum.
#
# **Take away.** Public records of another kind can fill gaps among your own, if noised counts choose.
#
# ## Try it
#
# 1. Replace one row by another, instead of adding one. By how much do outer product, weights and sums
#    change at most?
# 2. The gap grows with the number of rows. At which ε does the subspace appear with twice the rows?
# 3. Which of the four step budgets may shrink to a tenth? Try them one at a time.
#
# <details><summary>Solutions</summary>
#
# 1: by $\sqrt2\,r^2$ (rows at a right angle), 2 (one count falls, one rises), and $2r$ (from $x$ to $-x$).
# 2: noise may be twice as large, and for small ε it is nearly proportional to 1/ε: at about half of it.
# 3: those of weights and counts. With a tenth for the outer product the subspace is lost; with a tenth
# for the sums noise moves every centre.
#
# </details>

# %% tags=["solution"]
x, y = radius * np.eye(d)[:2]
change = [np.linalg.norm(np.outer(x, x) - np.outer(b, b)) for b in (y, -x)]
twice = radius**2 * np.sqrt(2 * d) / (2 * gap)  # the gap of twice the rows
half = accounting.gdp_epsilon(twice, DELTA) / meets
ends = lesson.with_tenths(small, EPSILON, DELTA, seeds("rounds", 5))
print("1:", np.round(np.array(change) / radius**2, 2), f"2: {half:.2f}")
print("3:", ends)
check(np.isclose(max(change), 2**0.5 * radius**2), "1: the root of two")
check(abs(half - 0.5) < 0.1, "2: about half of the ε")
needed = min(ends["outer"], ends["sums"])
cheap = max(ends["weights"], ends["counts"])
check(needed > 2 * cheap, "3: outer product and sums need their budgets")

# %% [markdown]
# ## What the paper says, and what we found

# %%
import studies

studies.end_table(
    "K1", "K4", "K13", "K15", "K.code", "K.fig1.best", "K.fig2.best", "K.fig6"
)  # fmt: skip

# %% [markdown]
# All claims, with figures and readings, stand on [one page](../data/results/claims.md).
#
# ## Going further
#
# **Mirror or average?** (2 minutes) As printed, noise makes the outer product asymmetric. One may mirror
# one triangle, or average with the transpose, as we do. Which keeps more?

# %%
noisy = noised_outer(outer, radius, EPSILON / 10, stream("subspace"))
mirrored = np.triu(noisy) + np.triu(noisy, 1).T
means = made.true_centers
mirror, mean = (
    bounds.subspace_energy(subspace(m), means) for m in (mirrored, noisy)
)  # fmt: skip
print(f"energy kept: mirrored {mirror:.2f}, averaged {mean:.2f}")
check(mean > mirror, "averaging keeps more")

# %% [markdown]
# **Does the other kind help on the mixture?** (1 minute) The server owns 20 records of each group. Predict, then
# compare with section 10.

# %%
kinds = lesson.with_kinds(small, EPSILON, DELTA, seeds("kinds", 5), 1)
print(kinds.round(1))
both, own, _ = kinds["FedDP-KMeans"]
check(both > own, "own kind alone is better: nothing is missing")

# %% [markdown]
# **James and Stein** (3 minutes). A step of length 1 in 100 columns is measured with noise $s = 0.1$ in
# each. On average $d s^2$ of the squared length is noise. Shorten the step by that share: how far off is it
# then? (Not to move is off by 1.)

# %%
step, s = np.eye(100)[0], 0.1
measured = stream("james stein").normal(step, s, (1000, 100))
squares = (measured**2).sum(axis=1, keepdims=True)
short = np.maximum(0, 1 - 100 * s**2 / squares) * measured
off, less = (np.linalg.norm(m - step, axis=1).mean() for m in (measured, short))
print(f"off by {off:.2f} as measured, by {less:.2f} if shortened")
check(less < 0.8 * min(off, 1), "shortened it is nearer than both")

# %% [markdown]
# **How many groups?** (3 minutes) Run FedDP-Init with twice the groups. Its weighted records can be
# clustered for every k without further cost. Where does the curve of costs bend?

# %%
from fedclust_helpers.feddp_kmeans import selection

fed, twice = data.federation(SEED), ask | {"n_clusters": 2 * K}
more = feddp_kmeans.plan(fed, server, **twice)
init = feddp_kmeans.run(fed, more, rng=np.random.default_rng(SEED)).init
ks = list(range(2, 2 * K + 1))
costs = selection.server_cost_curve(init, ks, rng=stream("k"))
bend = selection.elbow(ks, costs)
print(f"bend at {bend}, true number {K}")
check(abs(bend - K) <= 1, "the bend is within one of the true number")

# %% [markdown]
# **Secure mode** (2 minutes). One word changes: the noise comes from the operating system, in whole
# numbers, and has no seed (`rng` only starts the server's own k-means). The plan states what is protected, from whom, and by how much noise.

# %% tags=["nbval-ignore-output"]
fed = photo.federation(None, mode="secure")
q, ask = photo.made.server_points, {"n_clusters": photo.made.n_clusters}
plan = feddp_kmeans.plan(fed, q, epsilon=EPSILON / 4, delta=DELTA, **ask)
secure = feddp_kmeans.run(fed, plan, rng=np.random.default_rng())
spent = secure.epsilon
check(secure.private and spent <= EPSILON / 4, "it is private, at ε / 4")
plan

# %% [markdown]
# ## Check yourself
#
# <details><summary>1. Why not run more private rounds from a bad start?</summary>
#
# All rounds share one budget, so each gets more noise; the rounds that would repair the start drown in it
# (section 2).
#
# </details>
#
# <details><summary>2. Which two numbers decide whether the subspace is any good?</summary>
#
# The gap of the data and the size of the noise (section 3).
#
# </details>
#
# <details><summary>3. Some of the server's records are of another kind. When do they harm, when help?</summary>
#
# Where records of the rows' own kind are nearer they get little weight, and harm a little (section 4). Where they are the
# nearest to some rows they stand in for records that the server lacks, and may help (section 10).
#
# </details>
#
# <details><summary>4. A ledger reports ε = 1. How can an outsider find out that it is more?</summary>
#
# By an audit: release often with and without one worst row, and see how well both can be told apart
# (section 7).
#
# </details>
#
# <details><summary>5. The server predicts 20 gaps of noise. What do you do?</summary>
#
# Take the variant that buys no subspace, or a public start, if the server's records cover all groups
# (section 8; section 9).
#
# </details>
#
# ## References
#
# * J. Scott, C. H. Lampert, D. Saulpic. *Differentially Private Federated k-Means Clustering with
#   Server-Side Data.* ICML 2025.
# * C. Dwork, K. Talwar, A. Thakurta, L. Zhang. *Analyze Gauss: Optimal Bounds for Privacy-Preserving
#   Principal Component Analysis.* STOC 2014. (Step 1.)
# * B. Balle, Y.-X. Wang. *Improving the Gaussian Mechanism for Differential Privacy.* ICML 2018. (The
#   noise.)
# * M. Nasr et al. *Tight Auditing of Differentially Private Machine Learning.* USENIX Security 2023. (The
#   audit.)
# * W. James, C. Stein. *Estimation with Quadratic Loss.* Berkeley Symposium 1961. (Shorter steps.)
