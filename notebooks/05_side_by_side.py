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
# # Side by side: which one should I run?
#
# *35 minutes to read, predict and run; exercises 15 more.* A table comes first, then what stands behind it.
#
# **You need** notebook [00](00_start_here.ipynb). The methods are explained in [01](01_fastlloyd.ipynb) to
# [04](04_rr_cluster.ipynb), letters in the [table of symbols](../docs/symbols.md). Every run promises ε = 1 at
# δ = 1e-6 **for one replaced record**, unless a line says otherwise. Your settings change live runs (sections 1
# to 3); the other numbers come from committed tables.

# %%
import numpy as np

import studies
from fedclust_helpers.accounting import gdp_epsilon, gdp_mu
from fedclust_helpers.kmeans import kmeans_cost, weighted_kmeans
from studies.bench.plots import plt, show
from studies.side_by_side import figures, lesson, reading
from studies.side_by_side.cells import asked

# %% tags=["settings"]
SEED = 4
DATA = "mixture"  # or "tumours", "photograph"
EPSILON, DELTA = 1.0, 1e-6  # of the live runs, for one replaced record
N, K = 20_000, 5  # records, clusters

# %%
check, stream, seeds = lesson.begin(globals())
names = "decisions", "side_by_side", "rivals", "better_local"
runs, table, rivals, better = map(studies.load_results, names)

# %% [markdown]
# ## 1. The answer first: which row is yours?
#
# *made* data are round clusters in the unit ball ([20 runs](../data/results/decisions.csv) of each method), the
# others fixed sets (s1 made). An entry is the median cost over the best clustering without privacy, and in
# brackets the share of runs above 1.5 times it. A *sketch* takes one noised answer of each user; a *shuffler* mixes
# all answers and forgets the senders.
#
# **Predict.** 50,000 records, 10 columns, 10 clusters, masks between ten hospitals: how often does
# FastLloyd end above 1.5: never, in half of the runs, or always?

# %%
places = (50_000, 10, 10), (1000, 2, 5)
lesson.as_table(lesson.decision(runs, table, *places))

# %% [markdown]
# Answer: always; FastLloyd's start looks at no data, and among ten clusters some centre begins in the wrong place.
#
# Public rows spend no ε, so they are the bar to beat. Here they are 1 % of the records (at least 10 k, at most 1000)
# and **come from the same source**; FedDP-KMeans is measured where its authors would not use it. Medians of three
# runs in their own case, 100,000 records in 100 columns, where a third of the public rows is of another kind:

# %%
lesson.as_table(lesson.other_kind(3, EPSILON, DELTA))

# %% [markdown]
# There FedDP-KMeans is best, closely before over-clustered sums, which need no public rows.
#
# **Find one number.** In two columns, five clusters, ε = 1: from which n on is Algorithm 1 below 1.5?

# %% tags=["widget", "nbval-ignore-output"]
from studies.side_by_side import widget as play

_ = play.explore(epsilon=EPSILON, seed=SEED)

# %% [markdown]
# **Take away.** Find your row, then read its notebook.
#
# ## 2. Are the promises equal?
#
# Sums hide that one record is *added or removed*, reports *which value* a user has: to remove one value and add
# another.
#
# **Predict.** You want ε = 1 for one replaced record. What do you ask of a plan with Gaussian noise that
# counts add/remove: 0.25, a little less than 0.5, or 2?

# %%
for method in ("sketch", "sulloyd", "feddp", "overclustered"):
    budget, small = asked(method, EPSILON, DELTA)
    print(f"{method:13} ask for ε = {budget:.3f} at δ = {small:.1e}")

# %% tags=["hide-input"]
check(budget < EPSILON / 2, "for Gaussian noise one asks less than half")

# %% [markdown]
# Answer: a little less than half. Gaussian noise of strength μ against one added record has 2μ against one replaced,
# and ε grows faster than μ. For pure noise (SuLloyd) the factor is two; FedDP-KMeans mixes kinds of noise, so twice
# (ε', δ') makes (2ε', (1 + e^ε')δ'). Reports hide a replaced value as they are.
#
# **Take away.** Make unit, relation and δ equal before you compare.
#
# ## 3. What do over-clustered sums do?
#
# (1) Noised counts of cells say where records are. (2) k-means of the full cells places $2k$ centres, free of
# charge. (3) Each record pulls its nearest centre by a step that is cut to a radius, not dropped; so the radius, and
# the noise with it, may be small. (4) The $2k$ centres with their noised counts are a small copy of the data: k-means
# of it gives $k$ centres, free again, and one more round settles them. The shares of μ² add up to 1.
#
# **Predict.** The same plan with a trusted server, over an ideal secure sum, and under masks: how do the costs
# differ?

# %% tags=["algorithm"]
rows = lesson.data(DATA, N, K, rng=stream("data"))
points, box = lesson.in_ball(rows)
mu, rng = gdp_mu(*asked("overclustered", EPSILON, DELTA)), stream("page")


def noised(exact, share):  # which one record moves by 1 at most
    sd = 1 / (mu * share**0.5)
    return exact + rng.normal(0, sd, np.shape(exact))


def cut_round(centers, radius):
    near = ((points[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    step = (points - centers[near]) / radius
    step /= np.maximum(1, np.linalg.norm(step, axis=1))[:, None]
    sums = [step[near == j].sum(axis=0) for j in range(len(centers))]
    counts = noised(np.bincount(near, minlength=len(centers)), 1 / 8)
    pull = noised(sums, 1 / 4) / np.maximum(counts, 1)[:, None]
    return centers + radius * pull, counts.clip(0)


# %%
n, d = points.shape
edges = np.linspace(-box, box, 2 + round((mu * n) ** (1 / d) / 2))
cells = noised(np.histogramdd(points, d * [edges])[0], 1 / 4).ravel()
middle = (edges[1:] + edges[:-1]) / 2
grid = np.stack(np.meshgrid(*d * [middle], indexing="ij"), -1).reshape(-1, d)
full = cells.argsort()[-max(2 * K, (cells > 6 / mu).sum()) :]  # three sd
many = weighted_kmeans(grid[full], cells[full].clip(1), 2 * K, rng=rng)
many, counts = cut_round(many, box / 5)
few = weighted_kmeans(many, counts, K, rng=rng, n_init=20)
few, _ = cut_round(few, box / 5)

# %%
best = weighted_kmeans(points, None, K, rng=stream("best"))
best = kmeans_cost(points, best)
page = kmeans_cost(points, few) / best
how = {"epsilon": EPSILON, "delta": DELTA, "bound": box, "seed": SEED}
cost = lesson.package(points, K, **how) / best
print(f"this page {page:.3f}", cost.round(3).to_string(), sep="\n")

# %% tags=["hide-input"]
check(np.ptp(cost[:3]) < 0.01, "three kinds of trust cost the same to 1 %")
check(page < 1.05, "the page is within 5 % of the best", f"{page:.3f}")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.6, 3.8))
_ = figures.plot_copy(ax, points, many, counts, few)
show(fig, "Records, their noised copy, and the centres that were found in it")

# %% [markdown]
# Answer: hardly. The trusted server and the ideal sum have the same noise. Masked or serverless, each of ten clients
# adds a share, and nine must suffice: a ninth more variance. Whom you trust decides who sees what. **Read the figure.**
# The copy is what noise leaves to see; k-means of it may start twenty times for nothing, where FastLloyd has one
# start. (In more columns the package looks at means and variances.)
#
# **Take away.** Look first, move many centres, merge for free.
#
# ## 4. What does less trust cost: records, ε, columns, clusters?
#
# **Predict.** At ε = 1 the median of over-clustered sums is within 5 % of the best at 1,000 records, the fewest that
# we ran. How many users does it take if nobody is trusted: 3,000, 20,000 or 300,000? And with a shuffler?

# %%
sizes = lesson.crossings(table, "n", (1.0, 4.0), **lesson.PLANE)
lesson.as_table(lesson.said(sizes))

# %% tags=["hide-input"]
at = sizes[1.0]["at"]
times = at["local", "sketch"] / at["masked", "overclustered"]
check(times > 10, "a sketch needs over ten times the records", f"{times:.0f}")

# %% tags=["hide-input"]
fig, axes = plt.subplots(2, 2, figsize=(8.6, 7.2), sharey=True)
_ = figures.plot_excess(axes, table)
show(fig, "Excess cost over records, epsilon, columns and clusters")

# %% [markdown]
# Answer: 22,000 with the sketch, thirteen times that with Algorithm 1 (below 1.5 from about 40,000); with a shuffler about
# as many as with masks. **Read the figure.** Lines are medians of 20 data sets; what is not turned stays at
# n = 100,000, d = 2, k = 5 and ε = 1 ([table](../data/results/side_by_side.csv)). Dotted is what the noise of a sum
# adds if all groups were known beforehand. ε helps local reports most; columns hurt Algorithm 1
# and FastLloyd most.
#
# **Take away.** Trusting nobody costs tens of times the records; a shuffler saves most of that.
#
# ## 5. How good is it against what people use, and when is it no good?
#
# Three rivals trust a server with all rows: **diffprivlib** 0.6.6, **Google's LSH clustering** (commit
# b5b0286), and **PE-means** (2026; written by us from its paper). Ours ran under masks, with two clients and the
# server's noise ([table](../data/results/rivals.csv)), at the same ε and δ, add/remove. But diffprivlib has δ = 0 and
# states no relation: compare it with SuLloyd, the same method under masks.
#
# **Predict.** On ten small sets, what does FastLloyd cost, over Google's and over PE-means: half, about the same, or
# double? And on three large ones?

# %%
for theirs in ("google_lsh", "pe_means"):
    ratio = reading.ratio(rivals, "fastlloyd", theirs)  # of small sets
    print(f"FastLloyd / {theirs}: {ratio.median():.2f} in the median")
lesson.as_table(lesson.large(rivals))

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(8.2, 5.0))
_ = figures.plot_over_best(ax, lesson.over_best(rivals))
show(fig, "Cost over the best: three rivals, three of ours, by set")

# %% [markdown]
# Answer: seven tenths of Google's, and about the same as PE-means. On the large ones FastLloyd costs more than
# Google's, because its start misses clusters; over-clustered sums and PE-means reach the best.
#
# **Be fair.** The constants of over-clustered sums were chosen on the first seven sets; of the next three only
# synth_12_6_7 was new to us. Two clients with the server's noise are the best case for masks. When to use none:

# %%
lesson.as_table(lesson.none_of_these(runs, table, rivals, better))

# %% [markdown]
# Nor where the groups you look for are rare, since privacy hides just these; where bounds, k or ε would be read off
# the private rows; or where clients may lie or collude.
#
# **Take away.** Count your records first, and look for public ones like yours.
#
# ## Try it
#
# 1. A paper reports ε = 2, add/remove, Gaussian noise, δ = 1e-6. What is that for one replaced record?
# 2. At which of the settings of the decisions does a shuffled sketch end above 1.5 more often than masked
#    over-clustered sums? (`lesson.failures(runs)`)
# 3. Give `cut_round` of section 3 ten times the radius, with the noise that goes with it. What does the page cost?
#
# <details><summary>Solutions: the cell below</summary>
#
# 3: nothing is cut, and the sums get ten times the noise. Among 20,000 records that is still little; take N = 2000 to
# see it.
#
# </details>

# %% tags=["solution"]
two = gdp_epsilon(2 * gdp_mu(2, DELTA), DELTA)
share = lesson.failures(runs).set_index("n, d, k")
share = share.map(lambda text: float(text.rstrip("%")))
mixed, masked = share["shuffled, sketch"], share["masked, over-clustered"]
worse = share[mixed > masked].index.tolist()
print(f"1: {two:.2f}. 2: {worse or 'at none'}.")
check(two > 4, "1: more than twice as much")
wide, counts = cut_round(many, 2 * box)
wide, _ = cut_round(weighted_kmeans(wide, counts, K, rng=rng), 2 * box)
print(f"3: {kmeans_cost(points, wide) / best:.3f} instead of {page:.3f}")

# %% [markdown]
# ## What we claim, and what we found
#
# All rows are claims of ours; those of the papers stand at the ends of 01 to 04.

# %%
studies.end_table(
    "S.side.equal", "S.side.catch_up", "S.rivals.pure", "S.rivals.better",
    "S.rivals.split", "S.rivals.empty", "B.central.fresh", "B.sketch.few",
)  # fmt: skip

# %% [markdown]
# All claims, with figures and readings, stand on [one page](../data/results/claims.md).
#
# ## Going further
#
# **The price of trust, to move** (2 minutes).
#
# <!-- living: price -->
#
# **What goes over the wire?** (3 minutes) Bytes are those that one client sends in a run; seconds are one processor's,
# for all parties together. A phone sends a byte to a sketch; a hospital sends kilobytes to masked sums, and at most
# a few megabytes. In one or two columns over-clustered sums count cells, more of them with more records.

# %%
lesson.as_table(lesson.wire(table))

# %% [markdown]
# **What do shares of noise cost?** (2 minutes) For a result that everybody may see, each client adds a
# share, and the others' shares must hide a client from itself. Over-clustered sums on five mixtures,
# medians of 40 runs:

# %%
price = lesson.publishing(EPSILON, DELTA)
check(price["variance"].iloc[2] == 2, "two clients add twice the variance")
lesson.as_table(price)

# %% [markdown]
# **What if the shuffler talks?** (1 minute) Then each user is left with the promise of the own report, in
# two columns:

# %%
for users in (1000, 100_000, 1_000_000):
    report = lesson.report_alone(users, 2, EPSILON, DELTA)
    print(f"{users:>9,} users: one report has ε = {report:.2f}")
check(report > EPSILON, "a report alone promises less than the crowd")

# %% [markdown]
# **A slip worth knowing.** In diffprivlib 0.6.6 two shares of the budget are exchanged between a function
# and its caller ([S.rivals.split](../data/results/claims.md#S.rivals.split)), and an empty cluster is
# skipped without noise ([S.rivals.empty](../data/results/claims.md#S.rivals.empty)).
#
# ## Check yourself
#
# <details><summary>1. Method A says ε = 1 (add/remove), method B says ε = 1 (replace-one). Which promises more?</summary>
#
# B: for one replaced record A costs twice as much or more (section 2).
#
# </details>
#
# <details><summary>2. Masked sums cost what they cost with a trusted server. Why?</summary>
#
# Masks cancel in the sum, and shares of ten clients add little noise (section 3).
#
# </details>
#
# <details><summary>3. 5,000 phones, 15 clusters, nobody trusted, ε = 1. What do you do?</summary>
#
# None of these: so few users need a shuffler, or public rows (section 4; section 5).
#
# </details>
#
# <details><summary>4. Over-clustered sums may start k-means twenty times. Why does that cost nothing?</summary>
#
# It runs on the noised copy, which is released already (section 3).
#
# </details>
#
# <details><summary>5. Over-clustered sums win on the first seven sets. Why is that not the number to quote?</summary>
#
# Their constants were chosen on these sets (section 5).
#
# </details>
#
# ## References
#
# * A. Diaa, T. Humphries, F. Kerschbaum. *FastLloyd: Federated, Accurate, Secure, and Tunable k-Means
#   Clustering with Differential Privacy.* USENIX Security 2025. (FastLloyd: 01.)
# * J. Scott, C. H. Lampert, D. Saulpic. *Differentially Private Federated k-Means Clustering with
#   Server-Side Data.* ICML 2025. (FedDP-KMeans: 02.)
# * A. Chaturvedi, M. Jones, H. L. Nguyen. *Locally Private k-Means Clustering with Constant Multiplicative
#   Approximation and Near-Optimal Additive Error.* AAAI 2022. (Algorithms 1 and 4: 03.)
# * J. Dong, A. Roth, W. Su. *Gaussian Differential Privacy.* JRSS B, 2022. (Group privacy: section 2.)
# * D. Su, J. Cao, N. Li, E. Bertino, H. Jin. *Differentially Private k-Means Clustering.* CODASPY 2016.
#   (diffprivlib's method.)
# * N. Holohan, S. Braghin, P. Mac Aonghusa, K. Levacher. *Diffprivlib: The IBM Differential Privacy
#   Library.* 2019.
# * A. Chang, B. Ghazi, R. Kumar, P. Manurangsi. *Locally Private k-Means in One Round.* ICML 2021. (What
#   Google's library builds on.)
# * T. Humphries, Z. Lin, S. Yekhanin. *PE-means: Improved Differentially Private k-means Clustering through
#   Private Evolution.* arXiv 2606.00342, 2026. (In our version.)
