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
# # Locally private k-means: can one noised answer per user show the clusters?
#
# *You will build two algorithms from one coin flip, the paper's Algorithm 1 and a sketch, in 20 to 30
# lines, and know how many users that takes. 60 minutes; exercises 20 more.*
#
# An app wants to know the five places where its million users gather. No user trusts its server, the
# network, or other users. So every phone noises its own answer before it sends it.
#
# **You need** k-means, the binomial distribution, and $\epsilon$ and $\delta$ from notebook
# [00](00_start_here.ipynb). All symbols stand in [one table](../docs/symbols.md).
#
# | who | holds | sees | trusts |
# |---|---|---|---|
# | **user** | one point, $x$ | public questions, the released centres | the program on the own phone |
# | **server** | nothing private | one noised answer of each user | users to follow the rules |
#
# The paper is by Chaturvedi, Jones and Nguyen (2022). Hidden is **the value of one user**: any two points that
# the user may hold.

# %% tags=["settings"]
DATA = "app users"  # or "photograph": red and blue of 273,280 pixels
SEED, K, N_USERS = 5, 5, 1_000_000
EPSILON, LARGE = 1.0, 8.0  # of each user; another to compare with
DELTA = 1e-6  # where a guarantee needs one: vectors and shuffling

# %%
import matplotlib.pyplot as plt
import numpy as np

import studies
from fedclust_helpers.ldp_kmeans.frequency_oracles import walsh_hadamard
from studies.bench.plots import show
from studies.ldp_kmeans import figures as draw
from studies.ldp_kmeans import lesson
from studies.ldp_kmeans import widget as play

check, stream, seeds = lesson.begin(globals())

# %% [markdown]
# ## 1. What does one coin flip say?
#
# Ten thousand people are asked an embarrassing question; 3,000 of them would say yes. Each flips a
# biased coin in private, tells the truth with probability $e^\epsilon/(e^\epsilon+1)$, and lies otherwise.
# This is **randomised response** (Warner 1965).
#
# For any two values that its sender may hold, no answer is more than $e^\epsilon$ times as likely under one
# as under the other: truth over lie is exactly $e^\epsilon$. So an answer moves the odds of every guess about
# its sender by a factor of 2.7 at most. This is **local differential privacy**.
#
# **Predict.** The server counts the yes answers. Is their number on average below 3,000, 3,000, or
# above?


# %% tags=["algorithm"]
def flip(bits, epsilon, rng):
    """The truth with probability e^epsilon / (e^epsilon + 1), else a lie."""
    return bits ^ (rng.random(len(bits)) > 1 / (1 + np.exp(-epsilon)))


# %%
bits, rng, c = np.arange(10_000) < 3000, stream("coin"), 1 / np.tanh(EPSILON / 2)
naive = np.array([flip(bits, EPSILON, rng).sum() for _ in range(400)])
corrected = 5000 + c * (naive - 5000)
print(f"e^ε = {np.exp(EPSILON):.1f}, c = {c:.2f}, c √n / 2 = {c * 50:.0f}")
print(f"means {naive.mean():.0f}, {corrected.mean():.0f}; sd {corrected.std():.0f}")

# %% tags=["hide-input"]
check(naive.mean() > 3500, "the naive count is pulled towards one half")
off = abs(corrected.mean() - 3000)
check(off < corrected.std() / 5, "the corrected count has no bias that 400 runs show")
fig, ax = plt.subplots(figsize=(6.8, 3.0))
draw.plot_coin(ax, naive, corrected, bits.sum())
show(fig, "Histograms of 400 counts: naive counts miss the truth, corrected ones do not")

# %% [markdown]
# Answer: above, 4,078 on average. Lies pull every count towards one half. The server knows the share of lies,
# so it multiplies the distance from one half by $c = (e^\epsilon+1)/(e^\epsilon-1)$, here 2.16. That makes
# the histogram wider: its standard deviation (sd) is 100, a little below $c\sqrt n/2$. A trusted server would
# add noise of about 1, once. Here $n$ people add noise of their own, and their noises together grow like
# $\sqrt n$.
#
# **Take away.** Flip, count, undo: the count is right on average, and off by about $c\sqrt n/2$.

# %% [markdown]
# ## 2. Can one bit answer any question?
#
# *Where are you?* has more than two answers: say 65,536 places. Every user gets
# a public random **row of signs**, one for each place; in every row but the first, half are plus and half
# minus. (Rows and places are numbers. The sign is minus if row and place, in binary, have an odd number of
# ones in common: a Hadamard matrix.) The user flips the sign of its own place like the coin above, and sends it.
#
# To count a place, the server multiplies each answer by the sign which that user's row has at this place,
# adds up, and multiplies by $c$. A user of this place adds 1 on average. Anybody else adds 0, because in half
# of the rows the two places have equal signs, and in half opposite ones. This is a **frequency oracle**: it
# tells how many users hold a value, for any value.
#
# **Predict.** 200,000 phones, $\epsilon = 1$. Which places can be seen: those with 3,000 users, with
# 6,000, or only those with 20,000?


# %% tags=["algorithm"]
def one_bit(places, rows, epsilon, rng):
    """What leaves a phone: the sign of its place in its row, flipped."""
    minus = np.bitwise_count(places & rows) % 2 == 1
    return 1 - 2 * flip(minus, epsilon, rng)


def all_counts(rows, answers, epsilon, size):
    """Users of each of `size` places: signs times answers, added up."""
    total = walsh_hadamard(np.bincount(rows, answers, size))
    return total / np.tanh(epsilon / 2)


# %%
places, popular, held = lesson.phones(rng=stream("phones"))
rng, size, sd = stream("signs"), 2**16, c * np.sqrt(len(places))
rows = rng.integers(size, size=len(places))
said = one_bit(places, rows, EPSILON, rng)
counted = all_counts(rows, said, EPSILON, size)
print(f"c √n {sd:.0f}, true {held},\ncounted {counted[popular].astype(int)}")

# %% tags=["hide-input"]
others, share = np.delete(counted, popular), lesson.above(5, held / sd).round(2)
check(abs(others.std() / sd - 1) < 0.05, f"sd of other places {others.std():.0f}: c √n within 5 %")
chance = size * lesson.above(5, 0)
check(chance < 0.02, f"in {chance:.1%} of runs noise is seen, popular places in {share}")
draw.plot_spectrum(plt.gca(), counted, popular, held, std=sd)
show(plt.gcf(), "A bell of noise around zero, popular places to its right")

# %% [markdown]
# Answer: those with 6,000, in 88 % of all runs; those with 3,000 hardly ever. Grey: the other places, a bell
# of width $c\sqrt n$ around zero. Triangles: popular places; ticks: the truth. A place is seen once it is
# counted above five sd (dashed): noise passes that line at any of so many places in 2 % of runs only. The
# width does not depend on how many places there are.
#
# **Take away.** Asking for 65,536 places takes one bit, as for two; only the line rises.

# %% [markdown]
# ## 3. Ten questions: split the users, or split the budget?
#
# Suppose we have ten questions. Either
# every user answers all ten, each with a tenth of $\epsilon$. Or every user answers one question with all of
# $\epsilon$, and each count rests on a tenth of the users and is multiplied by ten.
#
# **Predict.** Which has the smaller error at $\epsilon = 1$? And at $\epsilon = 8$?


# %%
def sd_of(epsilon, answers, questions=10):
    """Of a count, over √n, if each user answers some of the questions."""
    return np.sqrt(questions / answers) / np.tanh(epsilon / answers / 2)


answers = np.arange(1, 11)
for e in (EPSILON, LARGE):
    print(f"ε = {e:g}, error by number of answers:", sd_of(e, answers).round(1))

# %% tags=["hide-input"]
some = {e: lesson.empty_places_sd(e, (1, 4, 10), rng=stream("split")) for e in (EPSILON, LARGE)}
off = [abs(sd / sd_of(e, a) - 1) for e, marks in some.items() for a, sd in marks.items()]
check(max(off) < 0.04, "counts of simulated users agree with the formula within 4 %")
fig, ax = plt.subplots(figsize=(6.4, 3.2))
draw.plot_answers(ax, answers, {e: sd_of(e, answers) for e in some}, some)
show(fig, "Error of a count against the questions that a user answers, for two epsilons")

# %% [markdown]
# Answer: at $\epsilon = 1$ split the users: an error of 6.8 against 20.0, in units of $\sqrt n$. At
# $\epsilon = 8$ split the budget: 2.6 against 3.2, and three to five answers are best. Lines are the formula, marks
# simulated counts of places that nobody holds. For small $\epsilon$, $c$ is about $2/\epsilon$. So a tenth of
# the budget means ten times the noise, and a tenth of the users only $\sqrt{10}$ times. At large $\epsilon$ a
# user who never lies still says only one bit, so let each say more: about one answer for each 2 of
# $\epsilon$.
#
# **Take away.** At small $\epsilon$ split the users. Then each pays once, and no bill adds up.

# %% [markdown]
# ## 4. Which point stands for a cell, and how fine should cells be?
#
# Put a grid over the square that holds all users. The place of section 2 is now the cell of a user's
# point, and the server can run k-means on *cells* in place of users. It needs a point for each cell.
#
# From here on the users are five groups in the unit disc, or your own choice at the top. Costs are given
# as multiples of the best: that of k-means on all points, without privacy.
#
# **Predict.** Cells of side 1/4, no noise. What does k-means on cells cost with corners, and with centres?

# %%
users = lesson.data(DATA, N_USERS, rng=stream("users")).points
best, ratio = lesson.scorer(users, K, rng=stream("server"))  # cost / best
proxies = {}
for side in (1 / 2, 1 / 4, 1 / 8):
    cells, inside = np.unique(np.floor(users / side), axis=0, return_counts=True)
    proxies[side] = [ratio((cells + at) * side, inside) for at in (0, 0.5)]
    shown = "corners {:.2f}, centres {:.2f}".format(*proxies[side])
    print(f"side {side:<5} {shown}, fullest cell {inside.max() / len(users):.0%}")

# %% tags=["hide-input"]
check(proxies[1 / 4][1] < 1.1, "centres of cells of side 1/4 cost within 10 % of the best")
check(proxies[1 / 4][0] > 2, "their corners cost more than twice the best")
fig, axes = plt.subplots(1, 2, figsize=(8.2, 3.7))
draw.plot_corners(axes, users, 3, proxies)
show(fig, "Corners lie to one side of their cells; cost of corners and of centres by side")

# %% [markdown]
# Answer: corners cost 2.2 times the best, centres 1.0 times. Corners lie to the lower left of their users, so
# every centre moves by half a cell. (Shaded: cells with 0.2 % of the users or more.) One grid is not enough.
# The fullest cell of side 1/8 holds 5 % of the users, that of side 1/2 holds 23 %. A cell is seen only if it
# holds more users than the noise. So the coarse grid needs fewer users, and the fine grid places them better.
#
# **Take away.** Take centres of cells, and two grids: a coarse one to find, a fine one to place.

# %% [markdown]
# ## 5. Algorithm 1 in twenty lines: how many users until every cluster lights up?
#
# One round of the paper's Algorithm 1, with parameters that work:
#
# 1. A public coin decides which grid a user is asked about, side 1/2 or side 1/4 (section 3).
# 2. The user sends one bit about its cell (section 2). The grids have 4 × 4 and 8 × 8 cells; rows of 16 × 16
#    signs serve both.
# 3. Half of the users answer for each grid, so a count has the sd $c\sqrt{2n}$.
# 4. Split a coarse cell into its four children if its count is above 2.5 sd: a wrong split does little harm.
#    Keep a child above 3.5 sd: noise passes that line at any of 80 cells in 2 % of runs.
# 5. What a coarse cell holds beyond its $m$ kept children is a difference of $1+m$ counts, with an sd
#    $\sqrt{1+m}$ times as large. Keep it too if it is above 3.5 of these.
# 6. Run k-means on the centres of what was kept, weighted by the counts.
#
# **Predict.** Will five clusters show with ten thousand users, a hundred thousand, or only a million?


# %% tags=["algorithm"]
def algorithm_1(points, epsilon, rng):
    """Centres of the cells that are kept, and how many users each holds."""
    n, tables = len(points), []
    sd = np.sqrt(2 * n) / np.tanh(epsilon / 2)
    rows, fine = rng.integers(256, size=n), rng.random(n) < 0.5  # public
    for m, asked in ((4, ~fine), (8, fine)):  # a grid of m x m cells
        cells = np.floor((points[asked] + 1) * m / 2).astype(int) @ [16, 1]
        answers = one_bit(cells, rows[asked], epsilon, rng)
        table = 2 * all_counts(rows[asked], answers, epsilon, 256)
        tables.append(table.reshape(16, 16)[:m, :m])
    coarse, small = tables
    split = coarse > 2.5 * sd
    small *= (small > 3.5 * sd) & split.repeat(2, axis=0).repeat(2, axis=1)
    children = small.reshape(4, 2, 4, 2)  # of each coarse cell
    rest = coarse - children.sum(axis=(1, 3))
    least = 3.5 * sd * np.sqrt(1 + (children > 0).sum(axis=(1, 3)))
    rest *= split & (rest > least)
    wide, narrow = (np.argwhere(kept > 0) + 0.5 for kept in (rest, small))
    centres = np.concatenate([wide / 2, narrow / 4]) - 1
    return centres, np.concatenate([rest[rest > 0], small[small > 0]])


# %%
sizes, costs = [len(users) // m for m in (100, 10, 1)], {}
rng = stream("cells")
for n in sizes:
    runs = [algorithm_1(users[:n], EPSILON, rng) for _ in range(5)]
    costs[n] = np.array([ratio(*kept) for kept in runs])
    print(f"{n:,} users: a fine cell needs {3.5 * c * np.sqrt(2 / n):.1%};")
    print(f"   {[len(w) for _, w in runs]} cells, cost {costs[n].round(2)}")

# %% tags=["hide-input"]
package = lesson.package_cost("alg1", users[: sizes[1]], K, EPSILON, ratio, depths=(2, 3))
check(abs(np.median(costs[sizes[1]]) / package - 1) < 0.1, "the package agrees within 10 %")
check(80 * lesson.above(3.5, 0) < 0.02, "noise passes 3.5 sd at any of 80 cells in < 2 % of runs")
axes = plt.subplots(1, 3, figsize=(9.6, 4.2))[1]
play.stills(axes, users, sizes, epsilon=EPSILON, n_clusters=K, seed=SEED, best=best)
show(plt.gcf(), "Kept cells and centres in a disc, for three numbers of users")

# %% tags=["widget", "nbval-ignore-output"]
_ = play.explore(users, n_clusters=K, seed=SEED, best=best)

# %% [markdown]
# Answer: with a hundred thousand. With ten thousand a fine cell must hold 10.7 % of all users, fewer than
# five cells are kept, and five centres cannot be placed (`nan`). With a million more fine cells are seen. The
# pictures are runs of the package, which puts centres that it cannot place in the middle. Outlines are coarse
# cells that were split, squares the cells that were kept, triangles the centres, crosses the best. Move the
# sliders to see where every cluster lights up (depth 3: the finer side is 1/4).
#
# **Take away.** A histogram of noised bits, two thresholds, k-means on cell centres: that is the
# algorithm. Each user said one bit, and paid $\epsilon$.

# %% [markdown]
# ## 6. How many users does a cell need? (theory check)
#
# A fine cell is kept when its count is above 3.5 sd, $3.5\,c\sqrt{2n}$. Let it hold the
# share $h$ of all users, $nh$ on average. Setting both equal and solving for $n$:
#
# $$n \ge 2\left(\frac{3.5\,c}{h}\right)^2 .$$
#
# In the package: `ldp_kmeans.users_needed(h, epsilon, 2)`.
#
# **Predict.** How many users does a cell with 2 % of them need at $\epsilon = 1$? And with so many users,
# how often is it seen: always, or every second time?

# %%
h, keep = 0.02, 1 / (1 + np.exp(-EPSILON))
need, rng, seen = round(2 * (3.5 * c / h) ** 2), stream("need"), {}
for times in (0.25, 0.5, 1, 2, 4):
    n = round(times * need)
    asked = rng.binomial(n, 0.5, size=2000)  # users of the fine grid, 2000 runs
    inside = rng.binomial(asked, h)  # those in the cell
    votes = rng.binomial(inside, keep) + rng.binomial(asked - inside, 0.5)
    seen[n] = np.mean(2 * c * (2 * votes - asked) > 3.5 * c * np.sqrt(2 * n))
print("seen, by users:", {n: f"{share:.0%}" for n, share in seen.items()})

# %% tags=["hide-input"]
check(abs(seen[need] - 0.5) < 0.05, "at the number of the formula half of the runs see the cell")
fig, ax = plt.subplots(figsize=(6.0, 3.0))
draw.plot_seen(ax, seen, need, h)
show(fig, "Share of runs that see the cell against the number of users: an S-curve")

# %% [markdown]
# Answer: 286,815 users, and then every second time (52 %), because the noise is as often above its mean as
# below. With half as many users the cell shows in 14 % of the runs, with twice as many in 91 %.
#
# **Verdict: the formula holds**, if it is read as "seen every second time". Plan for twice as many. The need
# grows with $1/h^2$: twice as many clusters have cells of half the share, so they take four times the users.
# Half of a small $\epsilon$ doubles $c$, and takes four times the users as well. (The error of a count grows
# like $\sqrt n$, the paper's Lemma 2.11 up to a logarithm. Its own parameters serve a proof, and need far
# more users: table at the end.)
#
# **Take away.** Half the share, or half of $\epsilon$: four times the users.

# %% [markdown]
# ## 7. The sketch: is one colour of a chessboard enough?
#
# A grid has lines that cut groups apart: a group in four cells must fill each of them. The
# **sketch** of this library, no part of the paper, asks about many grids at once.
#
# The server deals 750 chessboards of four colours. Each is turned and shifted at random, and its squares have
# a side of 0.35, 0.5, 0.7 or 1. All that is public. A user gets one board, and names the colour of the square
# that holds its point: the true colour with probability $e^\epsilon/(e^\epsilon+3)$, or else one of the other
# three. (About $e^\epsilon+1$ colours tell most: four at $\epsilon = 1$.) Each place of the disc has its own
# list of 750 colours. So the server looks for the weights of places that make all answers most likely. It
# begins with equal weights. In each pass it multiplies the weight of a place by how well that place explains
# the answers, compared with all places together (EM).
#
# **Predict.** At $\epsilon = 1$, are more than half of the colours true? And can ten thousand users show five
# clusters, where Algorithm 1 could not?


# %% tags=["algorithm"]
def colour(points, turn, side, shift):
    """Colour 0, 1, 2 or 3 of every point on every board."""
    stripes = np.floor(points @ turn / side[:, None, None] + shift[:, None])
    return (stripes.astype(int) % 2) @ [1, 2]


def ask(points, epsilon, rng, m=750):
    """The public boards, and how often each colour was named on each."""
    turn = np.linalg.qr(rng.normal(size=(m, 2, 2)))[0]
    boards = turn, rng.choice([0.35, 0.5, 0.7, 1], m), rng.random((m, 2))
    own = rng.integers(m, size=len(points))  # each user's board
    true = colour(points[:, None], *(part[own] for part in boards))[:, 0]
    lies = rng.random(len(points)) > 1 / (1 + 3 * np.exp(-epsilon))
    said = (true + lies * rng.integers(1, 4, len(points))) % 4  # leaves a phone
    return boards, np.bincount(4 * own + said, minlength=4 * m)


# %% tags=["algorithm"]
def fit(boards, counts, epsilon, n_passes=300):
    """Places of a lattice, and the weights that make the answers likeliest."""
    p, axis = 1 / (1 + 3 * np.exp(-epsilon)), np.linspace(-0.95, 0.95, 24)
    places = np.array([(x, y) for x in axis for y in axis if x * x + y * y < 1])
    true = colour(places, *boards)[:, None] == np.arange(4)[:, None]
    chance = np.where(true, p, (1 - p) / 3).reshape(-1, len(places))
    weights = np.full(len(places), 1 / len(places))
    for _ in range(n_passes):
        likely = chance @ weights  # chance of each answer, given the weights
        weights *= chance.T @ (counts / likely) / counts.sum()
    return places, weights


# %%
rng = stream("boards")
for n in sizes[:2]:
    runs = [ask(users[:n], EPSILON, rng) for _ in range(5)]
    fitted = [fit(*run, EPSILON) for run in runs]
    print(f"{n:>9,} users: costs {np.round([ratio(*one) for one in fitted], 2)}")

# %% tags=["hide-input"]
from fedclust_helpers.ldp_kmeans import sketch_users_needed

print(f"{1 / (1 + 3 / np.exp(EPSILON)):.0%} of the colours are true, 24⁴ = {24**4:,}")
for share in (0.2, 0.1, 0.02):
    needed = sketch_users_needed(share, EPSILON, 2, n_clusters=K)
    print(f"a group of {share:.0%} is seen from {needed:,} users on")

# %% tags=["hide-input"]
package = lesson.package_cost("sketch", users[:n], K, EPSILON, ratio, n_runs=1)
check(abs(ratio(*fitted[0]) / package - 1) < 0.05, "the package agrees within 5 %")
text = f"Fit to {n:,} colours: {ratio(*fitted[0]):.2f} times the best cost"
fig, axes = plt.subplots(1, 2, figsize=(8.4, 4.4))
draw.plot_sketch(axes, users, (colour, runs[0][0]), fitted[0], best, text)
show(fig, "One board of four colours under the users, and the weights that the fit puts on places")

# %% [markdown]
# Answer: no, 48 %. And yes, ten thousand will do, at 1.07 to 1.11 times the best. Circles show where the fit
# puts users. The likelihood of weights has one top only, so a start of equal weights is good. The fit reads answers only,
# so it costs no privacy. The printed plan (`ldp_kmeans.sketch_users_needed`) grows with $1/h^2$ too, but $h$
# is the share of a whole group, not of one of its cells.
#
# **The package** agrees here, but has no lattice: 24 places a column are 331,776 in four columns. It
# describes the users by round groups, each with a place, a width and a weight, and an even background. It
# begins with one wide group, adds another where the answers ask for one most, and lets all of them move,
# widen and gain weight until the answers are most likely (L-BFGS). Beyond $k$ groups a new one must stand out
# of the noise, and one that is hardly missed goes. It does so for wide and for narrow groups, takes the
# likelier fit, tries other places for single groups, and runs k-means on points drawn from the result.
#
# **Take away.** No answer says where a group is; all answers together do.

# %% [markdown]
# ## 8. More columns: what would the paper do?
#
# A grid in $d$ columns has $8^d$ cells. In many columns the paper first maps points to a few random
# directions (Johnson-Lindenstrauss), and finds cells there. Then it asks for **vectors**: the user sends its
# point, with a sign from its row as in section 2, plus Gaussian noise in every column. Signed sums give the
# mean of each group. The price: two points of the unit ball, with signs, differ by up to 2, so the noise is
# large (sd 8.45 at $\epsilon = 1$), and the promise is $(\epsilon, \delta)$. Algorithms 2 to 5 take four
# rounds; here each user is asked in one of them, once:
#
# | round | the question to a user |
# |---|---|
# | 1 heavy cells | one bit about the cell, on one of several grids |
# | 2 candidates | in a heavy cell: one bit about a finer bucket, or one noised vector |
# | 3 votes | one bit: which candidate is nearest? |
# | 4 means | one bit (which centre is nearest?), or one noised vector |
#
# **Predict.** In the plane, are the centres better before round 4, which finds means, or after it?

# %%
done, talk = lesson.four_rounds(users, K, EPSILON, DELTA, seed=SEED)
before, after = ratio(done.low_centers), ratio(done.centers)
print(f"cost before round 4: {before:.2f}, after it: {after:.2f} times the best")
talk

# %% tags=["hide-input"]
noisy, std = lesson.noisy_points(users[:100_000], EPSILON, DELTA, rng=stream("noisy"))
print(f"noise of a vector: sd {std:.2f} in each column\n\ncost by number of columns:")
tables = map(studies.load_results, ("ldp_cost", "better_local"))
print(by_columns := lesson.cost_by_columns(*tables, n=10**7).round(2))
more = by_columns.iloc[2, -1] < by_columns.iloc[1, -1]
check(more, "in ten columns the sketch beats four rounds with a hundredth of their users")

# %% tags=["hide-input"]
check(before < after, "in the plane round 4 makes the centres worse")
fig, axes = plt.subplots(1, 4, figsize=(10.4, 3.6))
draw.plot_rounds(axes, users, done, best, (before, after))
show(fig, "Four discs: heavy cells, candidates, votes, and centres before and after round 4")

# %% [markdown]
# Answer: before it, 1.02 against 2.23. The noise of vectors moves centres by more than the votes were off.
# The first table shows what some users said: bits, and vectors that are mostly noise. (LSH: a hash that often
# puts near points into one bucket.) The second has mixtures of five groups at $\epsilon = 1$. In two and four
# columns Algorithm 1 beats four rounds. In ten its one round needs vectors too: 6.24 against 1.40. The sketch
# asks for none, and beats both.
#
# **Take away.** Vectors are expensive: do without them.

# %% [markdown]
# ## 9. What does trusting nobody cost?
#
# Other data, $\epsilon = 1$, three kinds of trust. *Nobody:* Algorithm 1 and the sketch. *A
# shuffler* takes the senders off the answers and mixes them. An answer hides among others, so a phone may
# lie less. Its **local** $\epsilon$ is the largest for which all mixed
# answers are $(\epsilon, \delta)$. *A sum* is added up under masks, or by a trusted party that adds
# noise once ([01](01_fastlloyd.ipynb)).
#
# **Predict.** How many times the users of a sum does the sketch need if nobody is trusted: twice, tens of
# times, or thousands? And how large may the local $\epsilon$ of a million shuffled phones be: 1.1, 3 or 10?

# %%
trust = lesson.cost_by_trust(studies.load_results("side_by_side"))
local = np.array([lesson.local_epsilon(n, delta=DELTA) for n in trust.index])
print(trust.round(3).assign(local_ε=local.round(1), odds=np.exp(local).astype(int)))
print("users for 5 % above the best:", (few := (trust < 1.05).idxmax()).to_dict())

# %% tags=["hide-input"]
check(10 <= few["sketch"] / few["sum"] <= 100, "the sketch takes tens of times the users of a sum")
check((local > 3).all(), "a shuffled phone may say more than three times the ε of all together")
one, text = ratio(np.zeros((K, 2))), f"noisy points cost {ratio(noisy):.0f} times the best,"
check(ratio(noisy) > one, f"{text} more than one centre for all ({one:.0f})")

# %% tags=["hide-input"]
over = (trust["sketch"] - 1) / (least := lesson.least_by_users(trust.index))
check((over > 1).all(), f"the sketch adds {over.loc[10_000:].mean():.1f} times the least possible")
draw.plot_trust(plt.figure(figsize=(6.6, 3.6)).gca(), trust, least)
show(plt.gcf(), "Cost above the best against the number of users, for four methods")

# %% [markdown]
# Answer: tens of times, and 10. The last line says from how many users on each method is within 5 % of the
# best (medians over data sets, [side_by_side](../data/results/side_by_side.csv)). Fewer than a thousand were
# not tried, and steps are of about three, so the ratio is a rough "at least". Points of users plus the noise
# of section 8 are no answer at all: k-means clusters the noise. Grey is a bound: **no** method with one such
# answer of each user adds less, even where the groups are nearly known.
#
# **What if the shuffler talks,** or keeps the senders? Then a phone is left with its local $\epsilon$ (column
# `local_ε`, by `accounting.local_epsilon_for`). Its answer may move the odds of a guess by $e$ to that power
# (`odds`): 428 with ten thousand users, where the sketch without a shuffler has 2.7. That is hardly a
# promise.
#
# **Take away.** To let somebody add up, or only mix the answers, saves most of the users; but a shuffler must
# be trusted.

# %% [markdown]
# ## 10. Can 273,280 users, each one pixel, give back a photograph?
#
# `LocalKMeans` takes one table in its own units, row $i$ the only one of user $i$, and public bounds of every
# column, never taken from the data. It runs the sketch unless told otherwise. Here the users are pixels, each
# with three colour values from 0 to 255. `model` is a run in **secure mode**, the default: all noise comes
# from the operating system. Its centres differ in every run, so the page shows seeded runs (teaching mode).
#
# **Predict.** How much does the sketch cost over k-means here: 1.0 to 1.2 times, or 2 to 4 times?

# %%
from fedclust.estimators import LocalKMeans

colours, ratio_of = lesson.pixels(K, rng=stream("photograph"))
how, taught = {"epsilon": EPSILON, "lower": 0, "upper": 255}, {}
model = LocalKMeans(K, **how).fit(colours)  # secure: the run that counts
for name in ("sketch", "one_round"):
    how |= {"method": name, "mode": "teaching"}
    runs = [LocalKMeans(K, seed=SEED + i, **how).fit(colours) for i in range(3)]
    taught[name] = [one.cluster_centers_ for one in runs]
    print(name, np.round([*map(ratio_of, taught[name])], 2), "times the best")
print(model.statement())

# %% tags=["hide-input"]
check(model.ledger_.pure_epsilon() <= EPSILON, "the run that counts spends ε at most, and no δ")
shown = taught["sketch"][0]
fig, axes = plt.subplots(1, 2, figsize=(6.4, 2.5))
draw.plot_photograph(axes, colours.reshape(427, 640, 3), shown, ratio_of(shown))
show(fig, "A photograph, and the same photograph in the released colours")
print("released colours (red, green, blue):", shown.round().astype(int).tolist())

# %% tags=["hide-input"]
print("cost of mixtures over the best, by users, columns d and groups k:")
table = lesson.over_best(studies.load_results("better_local"))
print(table.round(2).to_string(na_rep="not run"))

# %% [markdown]
# Answer: 1.0 to 1.2 times in three runs, and Algorithm 1 (`one_round`) is hardly worse here. The statement's
# line *predicted* says how large a group must be to be seen; `preview(colours)` prints it before anything is
# spent. The last table has means over data sets at $\epsilon = 1$
# ([better_local](../data/results/better_local.csv)).
#
# | your situation | take |
# |---|---|
# | somebody may add up (clinics, masks) | not this: notebook [01](01_fastlloyd.ipynb) or [06](06_your_own_data.ipynb) |
# | somebody may mix the answers | the sketch behind a shuffler, `trust="shuffled"`: read section 9 first |
# | ten thousand users, up to four columns | the sketch, for five groups; for ten it is not good enough |
# | a hundred thousand users, up to ten columns | the sketch (ten columns were tried with five groups) |
# | you look for small groups | the plan of section 7: below its number most runs miss them |
#
# **When not to use it:** with fewer users than the plan asks for; week after week (ten answers at
# $\epsilon = 1$ are $\epsilon = 10$); where many users may cheat. Who skips the coin counts $c$ times: a hundredth of the
# users can put more than two hundredths into any cell, and nobody can check an answer.
#
# **Take away.** No server has to be trusted; the program on the phone has to be. The price is the number of
# users.

# %% [markdown]
# ## Try it
#
# 1. *(5 minutes)* A poll of 100 people uses the coin of section 1 at $\epsilon = 1$, and half of them
#    would say yes. How large is the standard deviation of the corrected *share*? Simulate it.
# 2. *(5 minutes)* Twice as many clusters of equal size, each in three cells: how many more users? And a
#    quarter of a small $\epsilon$? Use the formula of section 6.
# 3. *(10 minutes)* An attack: 4,000 of the phones of section 2 say that they are in one unpopular place. How many
#    users does the server count there, and is the place seen? First they follow the rules, then they skip the
#    coin. Take the mean of 20 runs.

# %% tags=["solution"]
poll, rng = np.arange(100) < 50, stream("poll")
shares = [0.5 + c * (flip(poll, EPSILON, rng).mean() - 0.5) for _ in range(4000)]
print(f"1: sd {np.std(shares):.3f}: ten points of a hundred, so no poll")
theory = c * np.sqrt(keep * (1 - keep) / 100)
off = abs(np.std(shares) - theory)
check(off < 0.005, "1: the sd is c √(p(1-p)/n), p the chance of the truth")

# %% tags=["solution"]
needed = {(h, e): 2 * (3.5 / np.tanh(e / 2) / h) ** 2 for h in (0.02, 0.01) for e in (0.2, 0.05)}
half, quarter = needed[0.01, 0.2] / needed[0.02, 0.2], needed[0.02, 0.05] / needed[0.02, 0.2]
print(f"2: {half:.1f} times, and {quarter:.1f} times")

# %% tags=["solution"]
crowd, liars, empty, rng = places.copy(), 4000, places.max() - 1, stream("poll")
crowd[-liars:], found = empty, {"rules": [], "no coin": []}
for _ in range(20):
    rows = rng.integers(size, size=len(crowd))
    said = one_bit(crowd, rows, EPSILON, rng)
    found["rules"].append(all_counts(rows, said, EPSILON, size)[empty])
    said[-liars:] = one_bit(crowd[-liars:], rows[-liars:], np.inf, rng)  # never a lie
    found["no coin"].append(all_counts(rows, said, EPSILON, size)[empty])
rules, bold = (np.mean(counts) for counts in found.values())
print(f"3: {liars:,} liars count {rules:,.0f} by the rules, {bold:,.0f} without the coin")
print(f"   five sd: {5 * sd:,.0f}; sd of a mean of 20 runs: {sd / np.sqrt(20):.0f}")
check(abs(bold / liars / c - 1) < 0.2, "3: who skips the coin counts c times, within a fifth")

# %% [markdown]
# ## What the paper says, and what we found
#
# **Theorem 1.1.** After one round, Algorithm 1 costs at most $(1+O(\alpha))\,\eta$ times the best, plus an
# additive error that grows with the number of users like $\sqrt n$, up to logarithms. ($\eta$ is the factor of the k-means that
# the server runs, $\alpha$ is chosen; the smaller it is, the faster the error grows with $k$.) **Theorem
# 1.2.** After four rounds, Algorithm 4 costs at most a constant times the best, plus such an error, nearly
# linear in $k$. Costs are added up over users. So, for each user, the additive error falls like $1/\sqrt n$:
# with enough users only the factor stays. The paper has no experiments.
#
# In the table $d'$ is our $d$. *In shape*: it holds in part, or with another constant. *Refuted* is a formula
# as printed, by a factor (constant) or as it stands (substance); larger noise mends both, and the theorems
# stand. *Not possible here*: it needs more users than we can run. All claims and their rules stand on
# [one page](../data/results/claims.md#P.table1.alg1).

# %% tags=["hide-input"]
studies.end_table(
    "P.thm1.1", "P.thm1.1.printed", "P.thm1.2", "P.table1.alg1", "P9", "P7", "P.alg5"
)  # fmt: skip

# %% [markdown]
# ## Going further
#
# **Which way to send one value is best?** *(2 minutes)* Others send more than one bit: one of all values
# (k-ary), one noised bit for each value (unary), or the value's hash under a function of one's own
# (hashing). Standard deviations of a count over $\sqrt n$, for 256 values: at $\epsilon = 1$ one bit
# needs 1.3 times the users of the best, at $\epsilon = 2$ 2.4 times, because a bit that is never flipped is
# still one bit. So at large $\epsilon$ answer more questions (section 3) or use more colours (section 7).

# %%
import pandas as pd

from fedclust_helpers.ldp_kmeans.local_randomizers import RandomizedResponse
from studies.ldp_kmeans.encodings import LocalHashing, UnaryEncoding

oracles = {
    "k-ary": lambda e: RandomizedResponse(e, 256).std(1),
    "unary": lambda e: UnaryEncoding(e, 256).std(1),
    "hashing": lambda e: LocalHashing(e, 256, seed=1).std(1),
    "one bit": lambda e: RandomizedResponse(e).debias,
}
table = pd.DataFrame({name: {e: sd(e) for e in (0.5, 1, 2, 4, 8)} for name, sd in oracles.items()})
table["users of one bit / best"] = (table["one bit"] / table.min(axis=1)) ** 2
print(table.round(2).to_string())

# %% [markdown]
# **How does one find popular values without a list?** *(4 minutes)* Section 2 looked at every place.
# Bitstogram (Bassily et al.; Lemma 2.11 of the paper) reads a value bit by bit. Users are split over as many
# groups as a value has bits, and one more. Those of group $b$ turn their sign if bit $b$ of their value is 1.
# Where one value dominates a bucket, the sign of the bucket's count *is* the bit. The last group counts the
# bucket of each candidate. A count rests on one of 17 groups, so its sd is $c\sqrt{17n}$. Among 1,024 buckets
# noise passes four of these in 3 % of runs: what is counted above that line is popular, and the fourth below
# is not.

# %%
rng, bucket = stream("bits"), lambda v: (40_503 * v >> 6) % 1024  # 1024 buckets for 65,536 values
group, rows = rng.integers(17, size=len(places)), rng.integers(1024, size=len(places))
values = np.zeros(1024, dtype=int)
for b in range(16):
    mine = group == b
    ones = (np.bitwise_count(bucket(places[mine]) & rows[mine]) + (places[mine] >> b)) % 2 == 1
    signs = 1 - 2 * flip(ones, EPSILON, rng)
    values += (all_counts(rows[mine], signs, EPSILON, 1024) < 0) << b
mine = group == 16
said = one_bit(bucket(places[mine]), rows[mine], EPSILON, rng)
confirmed = 17 * all_counts(rows[mine], said, EPSILON, 1024)
top = [(values[i] in popular, int(confirmed[i].round(-2))) for i in confirmed.argsort()[::-1][:4]]
print("the four largest counts (is it a popular place, users):", top)
print(f"four sd: {4 * c * np.sqrt(17 * len(places)):,.0f}")

# %% [markdown]
# **Is the printed noise of a vector enough?** *(3 minutes)* Algorithm 6 in print scales the noise of a vector by
# $\sup\lVert g(x)-g(y)\rVert$, but what leaves the phone is $\pm g(x)$, and the sign depends on the place. Let
# all $g(x)$ lie within 0.05 of a point at distance 0.5 from 0. Two reports may then differ by 1.1, not 0.1.
# An audit of 20,000 reports of each finds it. Inside the paper $g$ lies around 0, where the printed noise is
# enough. A library must not copy the line.

# %%
from fedclust_helpers import audit
from fedclust_helpers.federation.reports import gaussian_report
from studies.ldp_kmeans import theory

printed = theory.printed_sums_truth(EPSILON, DELTA, center_norm=0.5, radius=0.05)
for name, std in (
    ("printed", printed.std),
    ("corrected", gaussian_report(0.55, EPSILON, DELTA).std),
):
    one, other = (m + stream("bits").normal(0, std, 20_000) for m in (-0.55, 0.55))
    report = audit.audit_canary(one, other, delta=DELTA, claimed_epsilon=EPSILON)
    print(f"{name}: sd {std:.2f}, ε is at least {report.epsilon_lower_bound:.2f}")
print(f"printed noise: true ε {printed.true_epsilon:.2f}")

# %% [markdown]
# ## Check yourself
#
# <details><summary>1. What does one answer at ε = 1 tell about its sender?</summary>
#
# It moves the odds of any guess by a factor of 2.7 at most (section 1).
#
# </details>
#
# <details><summary>2. Why does the error of a count grow with the square root of n?</summary>
#
# Every user adds noise of its own, and $n$ independent noises add up to a multiple of $\sqrt n$ (section 1, and section 2).
#
# </details>
#
# <details><summary>3. Ten questions at ε = 1: should everybody answer all, or a tenth of the users each?</summary>
#
# A tenth each: three times less error. At large $\epsilon$ a user answers about one question for each 2 of it
# (section 3).
#
# </details>
#
# <details><summary>4. You double the number of clusters. How many more users do you need?</summary>
#
# Four times as many: cells hold half the share, and the need grows with one over its square (section 6).
#
# </details>
#
# <details><summary>5. How can colours of which half are lies show where groups are?</summary>
#
# Every place has its own list of colours over 750 boards. The fit finds the weights of places that make all
# answers most likely, and lies are equally likely for all of them (section 7).
#
# </details>
#
# ## References
#
# * A. Chaturvedi, M. Jones, H. L. Nguyen. *Locally Private k-Means Clustering with Constant Multiplicative
#   Approximation and Near-Optimal Additive Error.* AAAI 2022, full version (arXiv 2105.15007).
# * S. L. Warner. *Randomized Response: A Survey Technique for Eliminating Evasive Answer Bias.* JASA 1965.
# * R. Bassily, K. Nissim, U. Stemmer, A. Thakurta. *Practical Locally Private Heavy Hitters.* JMLR 2020.
# * T. Wang, J. Blocki, N. Li, S. Jha. *Locally Differentially Private Protocols for Frequency Estimation.*
#   USENIX Security 2017.
# * N. Keriven, N. Tremblay, Y. Traonmilin, R. Gribonval. *Compressive K-means.* ICASSP 2017. (The idea behind
#   the sketch.)
