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
# *You will build two algorithms from one coin flip, a grid after the paper's Algorithm 1 and a sketch of our own,
# in 10 to 25 lines, and know how many users that takes. 65 minutes to read, predict and run; your turn 15 more;
# exercises 20 more.*
#
# An app wants to know the five places where its million users gather. No user trusts its server, the
# network, or other users: every phone noises its own answer before it sends it.
#
# **You need** k-means, the binomial distribution, and $\epsilon$ and $\delta$ from notebook
# [00](00_start_here.ipynb). All symbols stand in [one table](../docs/symbols.md).
#
# | who | holds | sees | trusts |
# |---|---|---|---|
# | **user** | one point, $x$ | public questions, the released centres | the program on the own phone |
# | **server** | nothing private | one noised answer of each user | users to follow the rules |
#
# The paper is by Chaturvedi, Jones and Nguyen (2022). Hidden is **the value of one user**.

# %% tags=["settings"]
DATA = "app users"  # or "photograph": red and blue of 273,280 pixels
SEED, K, N_USERS = 5, 5, 1_000_000
EPSILON, LARGE = 1.0, 8.0  # of each user; another to compare with
DELTA = 1e-6  # where a guarantee needs one: vectors ("Going further")

# %%
import matplotlib.pyplot as plt
import numpy as np

import studies
from studies.bench.plots import show
from studies.ldp_kmeans import figures as draw
from studies.ldp_kmeans import lesson
from studies.ldp_kmeans import widget as play
from studies.side_by_side.reading import falls_below

check, stream, seeds = lesson.begin(globals())

# %% [markdown]
# ## 1. What does one coin flip say?
#
# Ten thousand people are asked an embarrassing question; 3,000 would say yes. Each flips a biased coin in private, tells
# the truth with probability $e^\epsilon/(e^\epsilon+1)$, and lies otherwise: **randomised response** (Warner 1965).
#
# No answer is more than $e^\epsilon$ times as likely under one value of its sender as under another: truth over lie is
# exactly $e^\epsilon$. So an answer moves the odds of every guess about its sender by that factor at most, 2.7 at
# $\epsilon = 1$: **local differential privacy**.
#
# **Predict.** The server counts the yes answers. Is their number on average below 3,000, 3,000, or
# above?


# %% tags=["algorithm"]
def flip(bits, epsilon, rng):
    """The truth with probability e^epsilon / (e^epsilon + 1), else a lie."""
    return bits ^ (rng.random(len(bits)) > 1 / (1 + np.exp(-epsilon)))


# %%
bits, rng = np.arange(10_000) < 3000, stream("coin")
c = 1 / np.tanh(EPSILON / 2)
naive = np.array([flip(bits, EPSILON, rng).sum() for _ in range(400)])
corrected = 5000 + c * (naive - 5000)
print(f"c = {c:.2f}; counted {naive.mean():.0f}, corrected", end=" ")
print(f"{corrected.mean():.0f}, sd {corrected.std():.0f} of {c * 50:.0f}")

# %% tags=["hide-input"]
print(f"e^ε = {np.exp(EPSILON):.1f}")
check(naive.mean() > 3200, "the naive count is pulled towards one half")
off = abs(corrected.mean() - 3000) / corrected.std()
check(off < 1 / 5, "400 runs show no bias of the corrected count")

# %% [markdown]
# Answer: above, because lies pull every count towards one half. The server knows the share of lies, so it multiplies
# the distance from one half by $c = (e^\epsilon+1)/(e^\epsilon-1)$. The noise grows as much: the standard deviation (sd)
# is a little below $c\sqrt n/2$ (printed last). A trusted server would add noise of about 1, once. Here $n$ people add
# noise of their own, and their noises together grow like $\sqrt n$.
#
# **Take away.** Flip, count, undo: the count is right on average, and off by about $c\sqrt n/2$.

# %% [markdown]
# ## 2. Can one bit answer any question?
#
# *Where are you?* has more than two answers: say 65,536 places. Every user gets a public random **row of signs**,
# one for each place; in every row but the first, half are plus and half minus. The user flips the sign of its own
# place like the coin above, and sends it. Four places have these four rows (the sign is minus if row and place, in
# binary, have an odd number of ones in common: a Hadamard matrix):
#
# | row | place 0 | place 1 | place 2 | place 3 |
# |---|---|---|---|---|
# | 0 | + | + | + | + |
# | 1 | + | − | + | − |
# | 2 | + | + | − | − |
# | 3 | + | − | − | + |
#
# To count a place, the server multiplies each answer by the sign which that user's row has at this place,
# adds up, and multiplies by $c$. A user of this place adds 1 on average. Anybody else adds 0 on average, because in
# half of the rows the two places have equal signs, and in half opposite ones. So a count has noise of about
# $c\sqrt n$. This is a **frequency oracle**: it tells how many users hold a value, for any value.
#
# A place is *seen* if it is counted above five sd of this noise: noise passes that line at any of 65,536 places in
# 2 % of runs only.
#
# **Predict.** 200,000 phones, $\epsilon = 1$. Which places are seen: those with 3,000 users, with
# 6,000, or only those with 20,000?


# %% tags=["algorithm"]
def one_bit(places, rows, epsilon, rng):
    """What leaves a phone: the sign of its place in its row, flipped."""
    minus = np.bitwise_count(places & rows) % 2 == 1
    return 1 - 2 * flip(minus, epsilon, rng)


def all_counts(rows, answers, epsilon, size):
    """Users of each of `size` places: signs times answers, added up."""
    total = np.bincount(rows, answers, size)  # of the answers in each row
    for half in 2 ** np.arange(size.bit_length() - 1):  # bit by bit of a place
        one, other = total.reshape(-1, 2, half).transpose(1, 0, 2)
        total = np.stack([one + other, one - other], axis=1).ravel()
    return total / np.tanh(epsilon / 2)


# %%
places, popular, held = lesson.phones(rng=stream("phones"))
rng, size, sd = stream("signs"), 2**16, c * np.sqrt(len(places))
rows = rng.integers(size, size=len(places))
said = one_bit(places, rows, EPSILON, rng)
counted = all_counts(rows, said, EPSILON, size)
print(f"c √n {sd:.0f}, true {held},\ncounted {counted[popular].astype(int)}")

# %% tags=["hide-input"]
others = np.delete(counted, popular)
check(abs(others.std() / sd - 1) < 0.05, "other places have the sd c √n")
share = lesson.above(5, held / sd).round(2)
chance = size * lesson.above(5, 0)
print(f"five sd {5 * sd:.0f}; noise passes them in {chance:.1%} of runs,")
print(f"popular places in {share}")

# %% tags=["hide-input"]
draw.plot_spectrum(plt.gca(), counted, popular, held, std=sd)
show(plt.gcf(), "A bell of noise around zero, popular places to its right")

# %% [markdown]
# Answer: at $\epsilon = 1$ those with 6,000 are seen in most runs, those with 3,000 hardly ever. Grey: the other places,
# a bell of width $c\sqrt n$ around zero. Triangles: counts of popular places; the tick below each: the truth.
#
# **Take away.** Asking for 65,536 places takes one bit, as for two; only the line rises.

# %% [markdown]
# ## 3. Which point stands for a cell, and how fine should cells be?
#
# Put a grid over the square that holds all users. The place of section 2 is now the cell of a user's
# point, and the server runs k-means on *cells*. It needs a point for each cell. From here on the users are five groups
# in the unit disc, and costs are multiples of the best: that of k-means on all points, without privacy.
#
# **Predict.** Cells of side 1/4, no noise. What does k-means on cells cost with corners, and with centres?

# %%
users = lesson.data(DATA, N_USERS, rng=stream("users")).points
best, ratio = lesson.scorer(users, K, rng=stream("server"))  # cost / best
proxies = {}
for side in (1 / 2, 1 / 4, 1 / 8):
    at = np.floor(users / side)
    cells, inside = np.unique(at, axis=0, return_counts=True)
    proxies[side] = [ratio((cells + at) * side, inside) for at in (0, 0.5)]
    shown = "corners {:.2f}, centres {:.2f}".format(*proxies[side])
    print(f"side {side}: {shown}, fullest {inside.max() / len(users):.0%}")

# %% tags=["hide-input"]
at = proxies[1 / 4]
check(at[1] < 1.1, "centres of cells of side 1/4 cost within 10 % of the best")
check(at[0] > 1.3, "their corners cost a third more than the best, or worse")

# %% [markdown]
# Answer: corners cost twice the best, centres hardly more than it. Corners lie to the lower left of their users, so
# every centre moves by half a cell. A cell is seen only if it holds more users than the noise, and a large cell holds
# more of them (*fullest*). So a coarse grid needs fewer users, and a fine grid places them better.
#
# **Take away.** Take centres of cells. Their side is a bet on how many users there are.

# %% [markdown]
# ## 4. A grid, after Algorithm 1: how many users until every cluster lights up?
#
# 1. The user sends one bit about its cell (section 2), of 8 × 8 cells of side 1/4.
# 2. The server counts all cells, and keeps those above 3.5 sd: noise passes that line at any of 64 cells in 1.5 % of
#    runs.
# 3. It runs k-means on the centres of what was kept, weighted by the counts.
#
# | | the paper's Algorithm 1 | this page | the package (`one_round`) |
# |---|---|---|---|
# | grids | about lg $n$ sides | one | one to three, planned from $n$ |
# | a cell stands for | its corner, then the mean of its users by noised vectors | its centre | its centre (vectors from seven columns on) |
# | kept | the largest counts, greedily | above 3.5 sd | above 3.5 sd, fine cells within coarse ones |
# | columns | projected to a few | as they are | as they are, or projected |
# | one user answers | every question, with a share of $\epsilon$ | one, with all of it | one, with all of it |
#
# **Predict.** At $\epsilon = 1$, will five clusters show with ten thousand users, a hundred thousand, or only a million?


# %% tags=["algorithm"]
def one_grid(points, epsilon, rng):
    """Centres of the cells that are kept, and how many users each holds."""
    rows = rng.integers(64, size=len(points))  # public
    cells = np.floor((points + 1) * 4).astype(int) @ [8, 1]
    said = one_bit(cells, rows, epsilon, rng)
    table = all_counts(rows, said, epsilon, 64).reshape(8, 8)
    kept = table > 3.5 * np.sqrt(len(points)) / np.tanh(epsilon / 2)
    return (np.argwhere(kept) + 0.5) / 4 - 1, table[kept]


# %%
sizes, costs = [len(users) // m for m in (100, 10, 1)], {}
rng = stream("cells")
for n in sizes:
    runs = [one_grid(users[:n], EPSILON, rng) for _ in range(5)]
    costs[n] = np.array([ratio(*kept) for kept in runs])
    needs, found = 3.5 * c / np.sqrt(n), [len(w) for _, w in runs]
    print(f"{n:,} users: a cell needs {needs:.1%}; {found} cells,")
    print(f"   cost {costs[n].round(2)}")

# %% tags=["hide-input"]
some, one = users[: sizes[1]], np.median(costs[sizes[1]])
how = "alg1", some, K, EPSILON, ratio
alone, two = (lesson.package_cost(*how, depths=d) for d in ((3,), (2, 3)))
print(f"the package with one grid {alone:.2f}, with two {two:.2f}")

# %% tags=["hide-input"]
check(abs(one / alone - 1) < 0.1, "the package agrees within 10 %")
check(alone < 1.1 * two, "one grid does as well as two, within a tenth")
wrong = 64 * lesson.above(3.5, 0)
print(f"noise passes 3.5 sd at any of 64 cells in {wrong:.1%} of runs")

# %% tags=["hide-input"]
axes, how = plt.subplots(1, 3, figsize=(9.6, 4.2))[1], {"n_clusters": K}
play.stills(axes, users, sizes, epsilon=EPSILON, seed=SEED, best=best, **how)
show(plt.gcf(), "Kept cells and centres in a disc, for three numbers of users")

# %% [markdown]
# Answer: with a hundred thousand. With a tenth of them a cell must hold three times the share of all users, and
# where fewer than five cells are kept, five centres cannot be placed (`nan`). The pictures are runs of the package
# with two grids, a coarse one (sides 1/2, outlines) to find and a fine one to place: squares are the cells that were
# kept, triangles the centres, crosses the best. The second grid buys nothing here, as each count then rests on half
# of the users. But it spares you the choice of a side: the coarse grid still finds something where the fine one sees
# nothing.
#
# **Take away.** A histogram of noised bits, a threshold, k-means on cell centres: that is the
# algorithm. Each user said one bit, and paid $\epsilon$.

# %% [markdown]
# ## 5. How many users does a cell need?
#
# A cell is kept when its count is above 3.5 sd, $3.5\,c\sqrt n$. Let it hold the share $h$ of all users, $nh$ on
# average. Setting both equal and solving for $n$:
#
# $$n \ge \left(\frac{3.5\,c}{h}\right)^2 .$$
#
# **Predict.** How many users does a cell with 2 % of them need at $\epsilon = 1$? And with so many users,
# how often is it seen: always, or every second time?

# %%
h, keep = 0.02, 1 / (1 + np.exp(-EPSILON))
need, rng, seen = round((3.5 * c / h) ** 2), stream("need"), {}
for times in (0.25, 0.5, 1, 2, 4):
    n = round(times * need)
    inside = rng.binomial(n, h, size=2000)  # users in the cell, 2000 runs
    votes = rng.binomial(inside, keep) + rng.binomial(n - inside, 0.5)
    seen[n] = np.mean(c * (2 * votes - n) > 3.5 * c * np.sqrt(n))
print("seen, by users:", {n: f"{share:.0%}" for n, share in seen.items()})

# %% tags=["hide-input"]
half = abs(seen[need] - 0.5) < 0.05
check(half, "at the number of the formula half of the runs see the cell")

# %% [markdown]
# Answer: 143,408 users at $\epsilon = 1$, and then every second time, because the noise is as often above its mean as
# below. So plan for twice as many. The need grows with $1/h^2$: twice as many clusters have cells of half the share.
# Half of a small $\epsilon$ doubles $c$.
#
# **Take away.** Half the share, or half of $\epsilon$: four times the users.

# %% [markdown]
# ## 6. The sketch: is one colour of a chessboard enough?
#
# A grid cuts groups apart, and each part must be seen. The **sketch** of this library, no part of the paper, asks
# about many grids at once.
#
# The server deals 750 chessboards of four colours. Each is turned and shifted at random, and its squares have
# a side of 0.35, 0.5, 0.7 or 1. All that is public. A user gets one board, and names the colour of the square
# that holds its point: the true colour with probability $e^\epsilon/(e^\epsilon+3)$, or else one of the other
# three. (Four colours suit $\epsilon = 1$; the package takes about $e^\epsilon+1$.) Each place of the disc has its own
# list of 750 colours. So the server looks for the weights of places that make all answers most likely. It
# begins with equal weights. In each pass it multiplies the weight of a place by how well that place explains
# the answers, compared with all places together. (Expectation maximisation, EM.)
#
# **Predict.** At $\epsilon = 1$, are more than half of the colours true? And can ten thousand users show five
# clusters, where grids could not?


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
    said = (true + lies * rng.integers(1, 4, len(points))) % 4
    return boards, np.bincount(4 * own + said, minlength=4 * m)


# %% tags=["algorithm"]
def fit(boards, counts, epsilon, n_passes=300):
    """Places of a lattice, and the weights that make the answers likeliest."""
    p, axis = 1 / (1 + 3 * np.exp(-epsilon)), np.linspace(-0.95, 0.95, 24)
    places = np.array([(x, y) for x in axis for y in axis])
    places = places[(places**2).sum(axis=1) < 1]
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
    print(f"{n:,} users:", np.round([ratio(*one) for one in fitted], 2))

# %% tags=["hide-input"]
from fedclust_helpers.ldp_kmeans import sketch_users_needed

print(f"{1 / (1 + 3 / np.exp(EPSILON)):.0%} of the colours are true")
for share in (0.2, 0.1, 0.02):
    needed = sketch_users_needed(share, EPSILON, 2, n_clusters=K)
    print(f"a group of {share:.0%} is seen from {needed:,} users on")

# %% tags=["hide-input"]
how, own = {"n_runs": 1}, ratio(*fitted[0])
package = lesson.package_cost("sketch", users[:n], K, EPSILON, ratio, **how)
check(abs(own / package - 1) < 0.1, "the package agrees within 10 %")

# %% tags=["hide-input"]
text = f"Fit to {n:,} colours: {own:.2f} times the best cost"
fig, axes = plt.subplots(1, 2, figsize=(8.4, 4.4))
draw.plot_sketch(axes, users, (colour, runs[0][0]), fitted[0], best, text)
show(fig, "A board of four colours under the users; fitted weights of places")

# %% [markdown]
# Answer: no, 48 % at $\epsilon = 1$. And yes, ten thousand will do: compare these costs with the `nan` of section 4.
# Circles show where the fit puts users. The log-likelihood is concave in the weights, so equal weights are a good
# start. The fit reads answers only: it costs no privacy. The printed plan (`ldp_kmeans.sketch_users_needed`) grows
# with $1/h^2$ too, but $h$ is the share of a whole group, not of one of its cells.
#
# **Take away.** No answer says where a group is; all answers together do.

# %% [markdown]
# ## 7. What does trusting nobody cost?
#
# The table has costs of five groups in the plane at $\epsilon = 1$, under three kinds of trust.
# *Nobody:* grids (`one_round`) and the sketch. *A shuffler* takes the senders off the answers and mixes
# them: an answer hides among others, so a phone may lie less ([who must be trusted then](../docs/trust.md)). *A sum*
# is added up under masks, or by a trusted party that adds noise once ([01](01_fastlloyd.ipynb)).
# ([Table](../data/results/side_by_side.csv).)
#
# **Predict.** A count by a sum has noise of about 1; by answers of users, of about $2\sqrt n$. How many times the
# users of a sum does the sketch need if nobody is trusted: twice, tens of times, or thousands?

# %%
trust = lesson.cost_by_trust(studies.load_results("side_by_side"))
print(trust.round(3))
few = {name: falls_below(trust[name], 1.05) for name in trust}
print("users for 5 %:", {k: int(round(n, -3)) for k, n in few.items()})

# %% tags=["hide-input"]
over = (trust["sketch"] - 1) / (least := lesson.least_by_users(trust.index))
check((over > 1).all(), "the sketch stays above the bound for local methods")
print(f"from 10,000 users on {over.loc[10_000:].mean():.1f} times the bound")

# %% tags=["hide-input"]
draw.plot_trust(plt.figure(figsize=(6.6, 3.6)).gca(), trust, least, few)
show(plt.gcf(), "Cost above the best by the number of users, for four methods")

# %% [markdown]
# Answer: tens of times. Between measured numbers the last line interpolates: 22,000 users for the sketch. A sum is
# there with the fewest that were tried, a thousand, so 22 times is a lower bound of the ratio. Grey is a bound: **no**
# method with one such answer of each user adds less to the cost, even where the groups are nearly known.
#
# **Take away.** To let somebody add up, or only mix the answers, saves most of the users; but then somebody must
# be trusted.

# %% [markdown]
# ## 8. Can 273,280 users, each one pixel, give back a photograph?
#
# `LocalKMeans` needs one table in its own units, row $i$ the only one of user $i$, and public bounds of every
# column, never taken from the data. It runs the sketch unless told otherwise. Here the users are pixels with three
# colours from 0 to 255. `model` is a run in **secure mode**, the default: its noise comes from the operating system and
# differs in every run, so the picture is of a seeded run (teaching mode).
#
# **Predict.** At $\epsilon = 1$ a group of 2 % of users in two columns takes 256,000 of them (section 6); three columns
# take a few more. Which groups of pixels will be found: those with 20 %, with 10 %, with 2 %?

# %%
from fedclust.estimators import LocalKMeans

colours, ratio_of = lesson.pixels(K, rng=stream("photograph"))
how = {"bounds": (0, 255)}  # public
model = LocalKMeans(K, EPSILON, **how).fit(colours)  # in secure mode
told = str(model.statement()).splitlines()
print(*told[:3], *[x for x in told if "predicted" in x], sep="\n")
taught = LocalKMeans(K, EPSILON, **how, mode="teaching", seed=SEED)
shown = taught.fit(colours).cluster_centers_
print(f"a seeded run: {ratio_of(shown):.2f} times the best")

# %% tags=["hide-input"]
spent = model.ledger_.pure_epsilon()
check(spent <= EPSILON, "the run that counts spends ε at most, and no δ")
axes, photo = plt.subplots(1, 2, figsize=(6.4, 2.5))[1], (427, 640, 3)
draw.plot_photograph(axes, colours.reshape(photo), shown, ratio_of(shown))
show(plt.gcf(), "A photograph, and the same in the released colours")

# %% [markdown]
# Answer: the statement's line *predicted* says from which share of the users on, and `preview(colours)` prints it before
# anything is spent.
#
# | your situation, at $\epsilon = 1$ | take |
# |---|---|
# | somebody may add up (clinics, masks) | not this: notebook [01](01_fastlloyd.ipynb) or [06](06_your_own_data.ipynb) |
# | somebody may mix the answers | the sketch behind a shuffler, `trust="shuffled"`: read [trust models](../docs/trust.md) first |
# | ten thousand users | the sketch for five groups in two columns (1.13 times the best [on average](../data/results/better_local.csv); in four columns 1.62, with ten groups 1.85) |
# | a hundred thousand users | the sketch (round groups: 1.01 to 1.14 times the best, ten columns with five groups only; other shapes to 1.24) |
#
# **When not to use it:** with fewer users than the plan asks for; week after week (ten answers cost ten times
# $\epsilon$); where many may cheat. Who skips the coin counts $c$ times with the bit of section 2 (exercise 3), and nobody
# can check an answer.
#
# **Take away.** No server has to be trusted; the program on the phone has to be. The price is the number of
# users.

# %% [markdown] tags=["your-turn"]
# ## Your turn: a report and an estimate
#
# Write the heart of this page again, without looking up. `report(bits, epsilon, rng)` is what leaves the phones:
# `bits` holds one yes or no (0 or 1) of each user, and one such answer is due of each, so that no answer is more
# than $e^\epsilon$ times as likely under one value as under the other, and no more noise than that takes.
# `estimate(said, epsilon)` is what the server makes of all answers: how many users hold a 1, right on average.

# %% tags=["your-turn"]
from studies.ldp_kmeans.exercise import examine


def report(bits, epsilon, rng): ...


def estimate(said, epsilon): ...


# %% tags=["your-turn"]
examine(report, estimate)


# %% tags=["your-turn", "solution", "hide-input"]
def a_report(bits, epsilon, rng):
    lies = rng.random(len(bits)) > 1 / (1 + np.exp(-epsilon))
    return np.where(lies, 1 - bits, bits)


def an_estimate(said, epsilon):
    truth = 1 / (1 + np.exp(-epsilon))
    return (np.sum(said) - len(said) * (1 - truth)) / (2 * truth - 1)


answer = examine(a_report, an_estimate)
check(answer.passed, "the solution passes")
answer

# %% [markdown]
# ## Try it
#
# 1. *(5 minutes)* A poll of 100 people uses the coin of section 1 at $\epsilon = 1$, and half of them
#    would say yes. How large is the standard deviation of the corrected *share*? Simulate it.
# 2. *(5 minutes)* Twice as many clusters of equal size, each in three cells: how many more users? And a
#    quarter of a small $\epsilon$? Use the formula of section 5.
# 3. *(10 minutes)* An attack: 4,000 of the phones of section 2 say that they are in one unpopular place. How many
#    users does the server count there, and is the place seen? First they follow the rules, then they skip the
#    coin. Take the mean of 20 runs. How many times would they count in the sketch?

# %% tags=["solution"]
poll, rng = np.arange(100) < 50, stream("poll")
shares = [
    0.5 + c * (flip(poll, EPSILON, rng).mean() - 0.5) for _ in range(4000)
]
print(f"1: sd {np.std(shares):.3f}: ten points of a hundred, so no poll")
theory = c * np.sqrt(keep * (1 - keep) / 100)
off = abs(np.std(shares) - theory)
check(off < 0.01, "1: the sd is c √(p(1-p)/n), p the chance of the truth")

# %% tags=["solution"]
needed = {
    (h, e): (3.5 / np.tanh(e / 2) / h) ** 2
    for h in (0.02, 0.01)
    for e in (0.2, 0.05)
}
half, quarter = (
    needed[0.01, 0.2] / needed[0.02, 0.2],
    needed[0.02, 0.05] / needed[0.02, 0.2],
)
print(f"2: {half:.1f} times, and {quarter:.1f} times")

# %% tags=["solution"]
crowd, liars, empty, rng = (
    places.copy(),
    4000,
    places.max() - 1,
    stream("poll"),
)
crowd[-liars:], found = empty, {"rules": [], "no coin": []}
for _ in range(20):
    rows = rng.integers(size, size=len(crowd))
    said = one_bit(crowd, rows, EPSILON, rng)
    found["rules"].append(all_counts(rows, said, EPSILON, size)[empty])
    said[-liars:] = one_bit(
        crowd[-liars:], rows[-liars:], np.inf, rng
    )  # never a lie
    found["no coin"].append(all_counts(rows, said, EPSILON, size)[empty])
rules, bold = (np.mean(counts) for counts in found.values())
print(f"3: {liars:,} liars count {rules:,.0f} by the rules,")
print(f"   {bold:,.0f} without the coin; five sd: {5 * sd:,.0f};")
print(f"   sd of a mean of 20 runs: {sd / np.sqrt(20):.0f}")
ok = abs(bold / liars / c - 1) < 0.2
check(ok, "3: who skips the coin counts c times, within a fifth")
four = (np.exp(EPSILON) + 3) / (np.exp(EPSILON) - 1)
print(f"   with four colours {four:.1f}: 1 / (chance of truth - of each lie)")

# %% [markdown]
# ## What the paper says, and what we found
#
# **Theorem 1.1.** After one round, but with a small chance of failure, Algorithm 1 costs at most
# $(1+O(\alpha))\,\eta$ times the best, plus an additive error that grows with the number of users like $\sqrt n$, up
# to logarithms. ($\eta$ is the factor of the k-means that the server runs, $\alpha$ is chosen; the smaller it is,
# the faster the error grows with $k$.) **Theorem 1.2.** After four rounds, Algorithm 4 costs at most a constant
# times the best, plus such an error, nearly linear in $k$. Costs are added up over users. So, for each user, the
# additive error falls like $1/\sqrt n$: with enough users only the factor stays. The paper has no experiments.
#
# In the table $d'$ is our $d$. All claims and their rules stand on [one
# page](../data/results/claims.md#P.table1.alg1).

# %% tags=["hide-input"]
studies.end_table(
    "P.thm1.1", "P.thm1.1.printed", "P.thm1.2", "P.table1.alg1",
    "P.alg1.grid", "P9", "P7", "P.alg5",
)  # fmt: skip

# %% [markdown]
# ## Going further

# %% [markdown]
# **From how many users on do all clusters light up?** *(3 minutes)* The sliders run the package with two grids. What is
# the smallest number of users at which a cell is kept at each of the five crosses, at $\epsilon = 1$, and at 2?

# %% tags=["widget", "nbval-ignore-output"]
_ = play.explore(users, n_clusters=K, seed=SEED, best=best)

# %% [markdown]
# <details><summary>Answer: the cell below</summary>
#
# From 20,000 to 40,000 users on at $\epsilon = 1$, and from 4,000 to 13,000 on at 2, by the draw of the noise: press
# "another draw". About a third will do, as a cell is kept above $3.5\,c\sqrt n$, $c$ falls from 2.2 to 1.3, and the
# users fall with its square.
#
# </details>

# %% tags=["solution", "hide-input"]
for e in (1.0, 2.0):
    lit = [
        play.all_lit(users, best, epsilon=e, seed=SEED + i) for i in range(5)
    ]
    print(f"ε = {e:g}, c = {1 / np.tanh(e / 2):.1f}: from n = {lit}")

# %% [markdown]
# **Ten questions: split the users, or split the budget?** *(4 minutes)* Suppose we have ten questions. Either
# every user answers all ten, each with a tenth of $\epsilon$. Or every user answers one question with all of
# $\epsilon$, and each count rests on a tenth of the users and is multiplied by ten.


# %%
def sd_of(epsilon, answers, questions=10):
    """Of a count, over √n, if each user answers some of the questions."""
    return np.sqrt(questions / answers) / np.tanh(epsilon / answers / 2)


answers = np.arange(1, 11)
for e in (EPSILON, LARGE):
    print(
        f"ε = {e:g}, error by number of answers:", sd_of(e, answers).round(1)
    )

# %% tags=["hide-input"]
off, rng = [], stream("split")
for e in (EPSILON, LARGE):
    found = lesson.empty_places_sd(e, (1, 4, 10), rng=rng)
    off += [abs(x / sd_of(e, a) - 1) for a, x in found.items()]
check(max(off) < 0.04, "simulated counts agree with the formula within 4 %")

# %% [markdown]
# At $\epsilon = 1$ split the users: an error of 6.8 against 20.0, in units of $\sqrt n$. At $\epsilon = 8$ split the
# budget: 2.6 against 3.2, and three to five answers are best. For small $\epsilon$, $c$ is about $2/\epsilon$. So a
# tenth of the budget means ten times the noise, and a tenth of the users only $\sqrt{10}$ times. At large $\epsilon$
# a user who never lies still says only one bit, so let each say more: about one answer for each 2 of $\epsilon$.

# %% [markdown]
# **Many columns: what does the paper do?** *(5 minutes)* A grid in $d$ columns has $8^d$ cells. The paper first maps
# points to a few random directions (Johnson-Lindenstrauss), and finds cells there. To come back to the columns it asks
# for **vectors**: what leaves the phone is the sign of its row (section 2) times its point, plus Gaussian noise in
# every column, and the signed sums give the mean of each group. Two such vectors differ by up to 2, so the noise is
# large, and the promise is $(\epsilon, \delta)$. Algorithm 4 takes four rounds: heavy cells; candidates in them; votes
# (which candidate is nearest?); and the means of the voters, by vectors. Each user is asked in one of them, once.

# %%
from fedclust_helpers.accounting import gaussian_sigma_analytic

some, rng = users[:100_000], stream("noisy")
std = 2 * gaussian_sigma_analytic(EPSILON, DELTA)  # two points differ by 2
signs = rng.choice([-1, 1], size=(len(some), 1))  # the public rows
left = signs * some + rng.normal(0, std, some.shape)  # leaves the phones
mean = (signs * left).mean(axis=0)
error = np.linalg.norm(mean - some.mean(axis=0)).round(3)
print(f"noise sd {std:.2f}; the mean of all is off by {error},")
print(f"of one group of five by about {std * np.sqrt(50 / len(some)):.3f}")
done = lesson.four_rounds(users, K, EPSILON, DELTA, seed=SEED)
steps = done.low_centers, done.centers
print("cost before and after round 4:", [round(ratio(m), 2) for m in steps])
tables = map(studies.load_results, ("ldp_cost", "better_local"))
print("\ncost by number of columns:")
print(by_columns := lesson.cost_by_columns(*tables, n=10**7).round(2))
less = by_columns.iloc[2, -1] < by_columns.iloc[1, -1]
check(less, "in ten columns the sketch beats four rounds with fewer users")

# %% [markdown]
# In the plane nothing was projected, so a run may stop before round 4; at $\epsilon = 1$ it had better, as the noise
# of vectors moves centres by more than the votes were off. After a projection vectors are the way back, and the
# paper needs them. The table has mixtures of five groups at $\epsilon = 1$: from seven columns on (here: ten) the
# package's grids use vectors too. The sketch asks for none.

# %% [markdown]
# **Which way to send one value is best?** *(2 minutes)* Others send more than one bit: one of all values
# (k-ary), one noised bit for each value (unary), or the value's hash under a function of one's own
# (hashing). Standard deviations of a count over $\sqrt n$, for 256 values: at $\epsilon = 1$ one bit
# needs 1.3 times the users of the best, at $\epsilon = 2$ 2.4 times, because a bit that is never flipped is
# still one bit. So at large $\epsilon$ answer more questions (above) or use more colours (section 6).

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
table = pd.DataFrame(
    {
        name: {e: sd(e) for e in (0.5, 1, 2, 4, 8)}
        for name, sd in oracles.items()
    }
)
table["users of one bit / best"] = (table["one bit"] / table.min(axis=1)) ** 2
print(table.round(2).to_string())

# %% [markdown]
# **How does one find popular values without a list?** *(4 minutes)* Section 2 looked at every place.
# Bitstogram (Bassily et al.; Lemma 2.11 of the paper) reads a value bit by bit. Users are split over as many
# groups as a value has bits, and one more. Those of group $b$ turn their sign if bit $b$ of their value is 1.
# Where one value dominates a bucket, the sign of the bucket's count *is* the bit. The last group counts the
# bucket of each candidate. A count rests on one of 17 groups, so its sd is $c\sqrt{17n}$. Among 1,024 buckets
# noise passes four of these in 3 % of runs: what is counted above that line is popular, and below it nobody knows.

# %%
rng, bucket = (
    stream("bits"),
    lambda v: (40_503 * v >> 6) % 1024,
)  # 1024 buckets for 65,536 values
group, rows = (
    rng.integers(17, size=len(places)),
    rng.integers(1024, size=len(places)),
)
values = np.zeros(1024, dtype=int)
for b in range(16):
    mine = group == b
    ones = (
        np.bitwise_count(bucket(places[mine]) & rows[mine])
        + (places[mine] >> b)
    ) % 2 == 1
    signs = 1 - 2 * flip(ones, EPSILON, rng)
    values += (all_counts(rows[mine], signs, EPSILON, 1024) < 0) << b
mine = group == 16
said = one_bit(bucket(places[mine]), rows[mine], EPSILON, rng)
confirmed = 17 * all_counts(rows[mine], said, EPSILON, 1024)
top = [
    (values[i] in popular, int(confirmed[i].round(-2)))
    for i in confirmed.argsort()[::-1][:4]
]
print("the four largest counts (is it a popular place, users):", top)
print(f"four sd: {4 * c * np.sqrt(17 * len(places)):,.0f}")

# %% [markdown]
# **Is the printed noise of a vector enough?** *(3 minutes)* Algorithm 6 in print scales the noise of a vector by
# twice $\sup\lVert g(x)-g(y)\rVert$, but what leaves the phone is $\pm g(x)$, and the sign depends on the place. Let
# all $g(x)$ lie within 0.05 of a point at distance 0.5 from 0. Two reports may then differ by 1.1; the printed noise
# is made for 0.2. An audit of 20,000 reports of each finds it. (The printed line has the classical formula, the
# corrected one the analytic: at the same reach of 1.1 and $\epsilon = 1$ the classical noise would be 5.83.) Inside
# the paper $g$ lies around 0, where the printed noise is enough. A library must not copy the line.

# %%
from fedclust_helpers import audit
from fedclust_helpers.federation.reports import gaussian_report
from studies.ldp_kmeans import theory

printed = theory.printed_sums_truth(
    EPSILON, DELTA, center_norm=0.5, radius=0.05
)
for name, std in (
    ("printed", printed.std),
    ("corrected", gaussian_report(0.55, EPSILON, DELTA).std),
):
    one, other = (
        m + stream("bits").normal(0, std, 20_000) for m in (-0.55, 0.55)
    )
    report = audit.audit_canary(
        one, other, delta=DELTA, claimed_epsilon=EPSILON
    )
    print(
        f"{name}: sd {std:.2f}, ε is at least {report.epsilon_lower_bound:.2f}"
    )
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
# ("Going further"; section 4 has one question to each user).
#
# </details>
#
# <details><summary>4. You double the number of clusters. How many more users do you need?</summary>
#
# Four times as many: cells hold half the share, and the need grows with one over its square (section 5).
#
# </details>
#
# <details><summary>5. How can colours of which half are lies show where groups are?</summary>
#
# Every place has its own list of colours over 750 boards. The fit finds the weights of places that make all
# answers most likely, and lies are equally likely for all of them (section 6).
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
