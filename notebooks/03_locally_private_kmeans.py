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
# # Can a server find clusters when it gets one noised bit of each user?
#
# *Paper: A. Chaturvedi, M. Jones, H. L. Nguyen, "Locally Private k-Means Clustering with Constant
# Multiplicative Approximation and Near-Optimal Additive Error" (full version). Implements Algorithms 1
# to 6. Reading: nearly three hours. Running: about 40 s on 2 cores, offline.*
#
# An app wants to know the five places where its million users gather. No user trusts the app, the
# network, or anybody else. So every phone noises its own answer before it sends it. We start from one
# coin flip and end with the paper's two algorithms, of which we know no earlier
# implementation: one with a single round of questions, one with four.
#
# **You will be able to**
#
# 1. **build** counts and vector sums from one short report per user,
# 2. **run** locally private k-means, and read what one user said in each round,
# 3. **predict** from the numbers of users, clusters and columns whether it can work, and **judge**
#    whether it should be used at all.
#
# **You need** notebook [00](00_start_here.ipynb) (ε, δ, sensitivity, neighbours, ledger), k-means, and
# the binomial distribution. **It leads to** section 17, where you choose a trust model, and to section
# 18, where you run the method on a table of your own. **In a hurry to choose?** Read section 17 first:
# clinics or banks that hold many rows each need none of this.
#
# | who | holds | sees | trusts |
# |---|---|---|---|
# | **user** | one point in the unit ball | public questions, the released centres | nobody |
# | **server** | nothing private | one randomised report per question and user | users to follow the rules |
# | **everybody else** | | questions and reports, if they like | |
#
# Neighbouring data sets differ in **the value of one user** (replace-one): any two values.
#
# ## Notation
#
# | symbol | meaning | in code |
# |---|---|---|
# | $\epsilon$, $\delta$ | the privacy budget | `EPSILON`, `DELTA` |
# | $n$ | number of records, all clients together (in 03: users) | `N_USERS`, `n` |
# | $d$ | number of columns of a record | `n_features` |
# | $d_{\mathrm{low}}$ | number of columns after a projection | `n_outputs` |
# | $k$ | number of clusters | `K`, `n_clusters` |
# | $s$ | standard deviation of noise, in the units of what it is added to | `mechanism.std` |
# | $c_\epsilon$ | factor that takes the bias out of a randomised bit, $(e^\epsilon+1)$ / $(e^\epsilon-1)$ | `debias` |
# | $l$ | level of the nested grid; cells of level $l$ have side $2^{1-l}$ | `depth` |
# | $H_l$ | heavy cells of level $l$ | `HeavyCells` |
# | $L$ | number of questions that the users share, such as levels of the grid | `n_levels` |
# | $a$ | questions that one user answers | `participations` |
# | $h$ | part of all users that a cell holds | `share` |
# | $W$ | table of signs, $\pm1$: one row for each user, one column for each bucket | `walsh_hadamard` |
# | $g(x)$ | the vector that one user adds to a sum, often $x$ itself | `encode` |
# | $t$ | number of dimensions in which a hash carves balls | `t` |
# | $p(u)$ | probability that two points at distance $u$, in radii, fall into one bucket of the hash | in `lsh` |
#
# The [table of symbols](../docs/symbols.md) of all notebooks says what the paper calls them. Codes such
# as [P.split](../data/results/claims.md#P.split) lead to a claim, the check behind it, and our verdict.

# %% tags=["settings"]
SEED = 5
EPSILON = 1.0  # of each user
EPSILON_LARGE = 8.0  # to compare with
DELTA = 1e-6
K = 5
N_USERS = 1_000_000
N_PHONES = 200_000  # of section 2, each in one place
N_PEOPLE = 10_000  # who are asked one question

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import display

import studies
from fedclust_helpers import accounting, audit, datasets, kmeans
from fedclust_helpers import ldp_kmeans as ldp
from fedclust_helpers.federation import simulate
from fedclust_helpers.ldp_kmeans import frequency_oracles as fo
from fedclust_helpers.ldp_kmeans import local_randomizers as lr
from studies.bench.plots import show, use_style
from studies.ldp_kmeans import encodings, lesson, theory
from studies.ldp_kmeans import figures as draw

use_style()
check, stream, seeds = lesson.begin(globals())

# %% [markdown]
# ## 1. One coin flip
#
# **Randomised response** is the oldest local mechanism (Warner, 1965). Ten thousand people are asked an
# embarrassing yes/no question; 3000 of them would say yes. Each tosses a biased coin in private, tells
# the truth with probability $e^\epsilon/(e^\epsilon+1)$ and lies otherwise. At ε = 1 that is 73 % truth.
#
# **Local differential privacy.** A report is ε-private if for any two values $x$, $x'$ that its sender
# may hold, and for every report $y$, $P(y \mid x) \le e^\epsilon\,P(y \mid x')$. For the coin the
# largest ratio is truth over lie, exactly $e^\epsilon$. So one answer does say something: it moves the
# odds of any guess about its sender by a factor of up to $e^\epsilon$, 2.7 at ε = 1, and never by more.
#
# **Predict.** The server counts the yes answers. What is the expected number: below 3000, 3000, or
# above?


# %%
def flip(bits, epsilon, rng):
    """Tell the truth with probability e^epsilon/(e^epsilon + 1)."""
    honest = rng.random(len(bits)) < 1 / (1 + np.exp(-epsilon))
    return bits ^ ~honest


def undo(reports, epsilon):
    """Unbiased number of ones: take the expected lies away, rescale."""
    lie = 1 / (1 + np.exp(epsilon))
    return (reports.sum() - lie * len(reports)) / (1 - 2 * lie)


coin = lr.RandomizedResponse(EPSILON)
bits, rng = np.arange(N_PEOPLE) < 0.3 * N_PEOPLE, stream("coin")
answers = [flip(bits, EPSILON, rng) for _ in range(400)]
naive = np.array([reports.sum() for reports in answers])
debiased = np.array([undo(reports, EPSILON) for reports in answers])
for e in (EPSILON, 4 * EPSILON):
    print(f"ε = {e:g}: the truth in {lr.RandomizedResponse(e).keep:.0%}")

# %%
formula = coin.std(N_PEOPLE, bits.sum())
print(f"de-biased: sd {debiased.std():.0f}, formula {formula:.0f}")
check(naive.mean() > bits.sum() + 5 * naive.std(),
      "the naive count is pulled towards one half")  # fmt: skip
check(abs(debiased.mean() - bits.sum()) < debiased.std() / 5,
      "the de-biased count has no bias that 400 runs show")  # fmt: skip
check(np.isclose(coin.keep / coin.other, np.exp(EPSILON)),
      "truth over lie is exp(ε)")  # fmt: skip

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.8, 3.2))
draw.plot_coin(ax, naive, debiased, bits.sum())
show(fig, "Histograms: naive counts miss the truth, de-biased ones do not")

# %% [markdown]
# **Read the figure.** Over 400 repetitions the naive count lies near 4080: every answer is pulled
# towards one half, however many people are asked. Undoing the coin moves the histogram to the truth,
# and makes it wider: its standard deviation is a little below $c_\epsilon\sqrt n/2 = 108$, with
# $c_\epsilon = (e^\epsilon+1)/(e^\epsilon-1) = 2.16$ at ε = 1. That $\sqrt n$ will follow us to the
# end. It is the price of everybody adding noise of their own; a trusted server would add noise of
# about size 1, once.
#
# ## 2. One bit for any question
#
# *Where are you?* has more than two answers: here any word of 52 bits. Still one bit is enough. Let a
# public hash put the words into $2^{16}$ buckets, and give every user a public random row of the
# Hadamard matrix $W$, a table of signs $W[\text{row}, \text{bucket}] = \pm1$ in which any two columns
# agree in exactly half of the rows. The user sends the sign of its own bucket through the coin: one
# yes/no answer about a random half of the buckets. Adding up $c_\epsilon\,W[\text{row}, v]$ times the
# report over all users estimates the count of bucket $v$: a user in $v$ adds 1 on average, any
# other user adds 0. One Walsh-Hadamard transform does it for all 65,536 buckets. Whatever tells in this
# way how many users hold a value, for any value that one thinks of, is called a **frequency oracle**.
#
# 200,000 phones: eight popular places with 20,000 down to 3,000 users, everybody else alone somewhere.
#
# **Predict.** ε = 1. Is a place with 6,000 of 200,000 users visible? And one with 3,000?


# %%
def one_bit(buckets, rows, epsilon, rng):
    """The sign W[row, bucket] of the user's public row, through the coin."""
    ones = np.bitwise_count(buckets & rows) % 2 == 1
    return 1 - 2 * flip(ones, epsilon, rng).astype(int)


def all_counts(rows, reports, epsilon, n_buckets=2**16):
    """Estimates for all buckets from one transform."""
    sums = np.bincount(rows, weights=reports, minlength=n_buckets)
    return fo.walsh_hadamard(sums) * lr.RandomizedResponse(epsilon).debias


# %%
rng, held = stream("phones"), np.array([20, 17, 14, 12, 10, 8, 6, 3])
held = held * N_PHONES // 200
places = rng.integers(2**52, size=N_PHONES, dtype=np.uint64)
popular = rng.integers(2**52, size=len(held), dtype=np.uint64)
places[: held.sum()] = np.repeat(popular, held)
bucket = fo.BucketHash(2**16, rng=rng)
rows = rng.integers(2**16, size=N_PHONES)
reports = one_bit(bucket(places).astype(int), rows, EPSILON, rng)
estimates = all_counts(rows, reports, EPSILON)
at = bucket(popular).astype(int)
std, z = coin.debias * np.sqrt(N_PHONES), np.sqrt(2 * np.log(2**16)) + 0.5
others, seen = np.delete(estimates, at), estimates[at] > z * std

# %%
print(f"sd of a count {others.std():.0f}, theory {std:.0f}")
print(f"threshold {z:.1f} sd = {z * std:.0f} users; popular seen: {seen}")
print(f"largest noise {others.max() / std:.1f} sd")
check(abs(others.std() / std - 1) < 0.03,
      "the noise of empty buckets is as in theory, within 3 %")  # fmt: skip
check(others.max() < z * std, "no empty bucket passes the threshold")
check(seen[:5].all() and not seen[-1],
      "places with 5 % of the users are seen, with 1.5 % not")  # fmt: skip

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(7.0, 3.5))
draw.plot_spectrum(ax, estimates, at, held, std=std, z=z)
show(fig, "A bell of noise around zero, popular places to its right")

# %% [markdown]
# **Read the figure.** Grey: the other 65,528 buckets, a bell of width $c_\epsilon\sqrt n$ (line)
# around zero, twice that of section 1, because a sign is −1 or 1 and a yes 0 or 1. Popular places
# stand out once they hold five times that width, about 5,000 users: the one with 6,000 is just seen,
# the one with 3,000 is lost in the noise. (The largest of 65,536 draws of noise, printed above, is rarely
# beyond $\sqrt{2\ln 65536} = 4.7$ standard deviations; the dashed line leaves half a one more, and is passed
# in 0.6 % of the runs. The heights
# of the triangles mean nothing: they only keep them apart.) The width does not depend on the number
# of buckets: asking for 65,536 places costs no more than asking for two, except that more candidates
# need a higher threshold.
#
# ### Why this oracle?
#
# Others send more: randomised response on all values (k-ary), one noised bit for each value (unary),
# or a hash of their own per user (local hashing).
#
# **Predict.** For 256 values: which is best at ε = 1, and does one bit ever lose?

# %%
oracles = {
    "k-ary": lambda e: lr.RandomizedResponse(e, 256).std(1),
    "unary": lambda e: encodings.UnaryEncoding(e, 256).std(1),
    "hashing": lambda e: encodings.LocalHashing(e, 256, seed=1).std(1),
    "one bit": lambda e: lr.RandomizedResponse(e).debias,
}
table = pd.DataFrame(
    {name: {e: sd(e) for e in (0.5, 1.0, 2.0, 4.0, 8.0)}
     for name, sd in oracles.items()}
).assign(users=lambda t: (t["one bit"] / t.min(axis=1)) ** 2)  # fmt: skip
display(table.rename_axis("sd / √n at ε").round(2))
check(table.users[1.0] < 1.3,
      "at ε = 1 one bit needs at most 30 % more users")  # fmt: skip
check(2.2 < table.users[2.0] < 2.6,
      "at ε = 2 one bit needs about 2.4 times the users")  # fmt: skip
check(table.users[8.0] > 25,
      "at ε = 8 one bit needs more than 25 times the users")  # fmt: skip

# %% [markdown]
# Standard deviations (sd) of a count, over √n. The last column: how many times the users
# of the best oracle one bit needs. At ε = 1 the best are unary and local hashing, and one bit needs
# 1.27 times their users, for an eighth of a byte. At ε = 2 it already takes 2.4 times the users, and
# then it stops improving: a user who never lies still says only one bit. The other three go on
# falling. So at small ε use one bit, and at large ε let users answer *more questions*, which is the
# next section.
#
# ## 3. Many questions: split the users or split the budget?
#
# Clustering needs $L$ counts per user, not one (say, one histogram for each of $L$ grids). Two ways.
# Everybody answers everything with ε/L each: $c_{\epsilon/L}\sqrt n \approx (2L/\epsilon)\sqrt n$. Or
# each user answers one question with all of ε, and the server scales the $L$ groups up:
# $c_\epsilon\sqrt{L n}$.
#
# **Predict.** L = 10 and ε = 1: which error is smaller, and by how much? Does it still hold at ε = 8?

# %%
questions = np.array([1, 2, 3, 5, 7, 10, 14, 20, 28, 40])
answered = {  # by one user, of L questions
    "split the budget": lambda e, L: L,
    "split the users": lambda e, L: 1,
    "mixed": lr.participations,  # ε/2.18, rounded; from 1 to L
}
curves = {e: {
    name: [theory.split_users_std(1, e, L, a(e, L)) for L in questions]
    for name, a in answered.items()
} for e in (EPSILON, EPSILON_LARGE)}  # fmt: skip
rng = stream("split")
marks = pd.DataFrame({e: {  # simulated: 20,000 users, ten questions
    name: lesson.empty_buckets_std(e, a(e, 10), rng=rng)
    for name, a in answered.items()
} for e in curves})  # fmt: skip

# %%
formula = pd.DataFrame(curves).map(lambda line: line[5])  # L = 10
print("measured\n", marks.round(2), "\nformula\n", formula.round(2))
check((abs(marks / formula - 1) < 0.04).all(axis=None),
      "measured and formula agree within 4 %")  # fmt: skip
check((formula.min() > 0.99 * formula.loc["mixed"]).all(),
      "the mixed rule is never worse than the other two")  # fmt: skip
check(2.5 < formula[EPSILON].max() / formula[EPSILON].min() < 3.5,
      "splitting the budget has about √10 times the error")  # fmt: skip

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(8.8, 3.5), sharey=True)
draw.plot_splits(axes, questions, curves, marks)
show(fig, "Error of a count against the number of questions, two budgets")

# %% [markdown]
# **Read the figure.** Lines: formulas; marks: measured. At ε = 1 splitting the users is three times
# better at L = 10 and wins by about $\sqrt L$. The paper splits the budget; for 20 grids and 2 oracles
# that alone costs a factor of six in error, so more than thirty in users. At ε = 8 it does not hold: ten
# questions are better answered by splitting the budget (2.6 against 3.2). At large ε one bit saturates
# and the optimum lies between: each user answers $a = \epsilon/2.18$ questions with $\epsilon/a$ each
# (the minimum of $c_{\epsilon/a}^2/a$). Nobody answers a part of a question, so $a$ is rounded to the
# nearest whole number, at least one and at most $L$: one question at ε = 1, four at ε = 8.
#
# ### The bill of one user
#
# Privacy is easy to state: who answers what is decided by public coins, not by data. A user who
# answers one question of (ε, δ) has spent (ε, δ). What users of different parts spend does not add
# up, because neighbouring data sets differ in one user. The ledger keeps one group for each part, and
# a budget refuses a second question to the same users.

# %%
fed = simulate(np.zeros((1000, 2)), "local", seed=SEED,
               budget=accounting.Budget(EPSILON))  # fmt: skip
fed.divide({"morning": 0.5, "evening": 0.5})
for part, share in (("morning", 1), ("evening", 1), ("evening", 0.5)):
    query = fo.OneBitCounts(
        lambda points, _: fo.Question((points[:, 0] > 0).astype(np.uint64)),
        share * EPSILON, rng=fed.randomness.public, n_buckets=2, name=part,
    )  # fmt: skip
    try:
        fed.ask(query, round=0, part=part)
        print(f"{part}: the whole run has ε = {fed.ledger.pure_epsilon():g}")
    except accounting.BudgetExceededError as refusal:
        print("refused:", str(refusal).split(";")[0])
check(fed.ledger.pure_epsilon() <= EPSILON,
      "two groups of users cost as much as one")  # fmt: skip

# %% [markdown]
# ## 4. Heavy hitters without listing the universe
#
# Values that many users hold are called **heavy hitters**. In section 2 we knew which places to look
# up. A server that knows nothing would have to look up all $2^{52}$. **Bitstogram** (Bassily et al.;
# the paper's Lemma 2.11) asks bit by bit. Users are split over as many groups as a value has bits;
# those of one group send the same report as before, but with the sign turned if *their* bit of the
# value is 1. If one value dominates a bucket, the sign of that bucket's count *is* the bit. Read the
# signs of all groups, get a candidate for each bucket; a last group of users confirms it. It works as
# promised ([P.bitstogram](../data/results/claims.md#P.bitstogram)); splitting the users over 52 bits makes the
# error $\sqrt{52}$ times as large.
#
# Cells of nested grids need no bits: their *parents* are known. The server looks at the coarse cells,
# then only at the children of those that stood out, and one group of users per grid is enough. The
# reports are the same, only the reading is different. From here on we read grids this way.
#
# ## 5. Sums in the same round
#
# Counting people in a cell is not enough: centres are means. Let the user send a *vector*: the sign
# $W[\text{row}, v]$ of its bucket $v$ times its point $x$, plus Gaussian noise of standard deviation
# $s$ in every column. Multiplied by the signs of any bucket and added up, the reports give on average
# the sum of the points in that bucket, for any bucket that the server thinks of later. An oracle of
# section 2 tells counts; this one tells sums. The paper calls it **HeavySumsOracle** (Algorithm 6), and
# allows any vector $g(x)$ computed from the point. No second round is needed, but users are: those who
# send a vector send no bit (section 3).
#
# How much noise? The report $+x$ of one user and $-x'$ of a neighbour differ by at most 2, the
# sensitivity in the unit ball. At ε = 1, δ = $10^{-6}$ that takes $s = 8.5$.
#
# **Predict.** How does the error of such a sum grow with the number of users?


# %%
def sums_error(n, rng, d=4):  # root mean square, 16 sums; and theory
    s = 2 * accounting.gaussian_sigma_analytic(EPSILON, DELTA)
    keys, rows = rng.integers(16, size=(2, n))
    points = rng.normal(size=(n, d)) + 3 * np.eye(16)[keys, :d]
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    signs = 1 - 2 * (np.bitwise_count(np.arange(16)[:, None] & rows) % 2.0)
    reports = signs[keys, np.arange(n)][:, None] * points
    reports += rng.normal(0, s, reports.shape)
    wrong = signs @ reports - kmeans.group_sums(points, keys, 16)[0]
    predicted = np.sqrt(n * (15 / 16 + d * s**2))
    return s, np.sqrt((wrong**2).sum(axis=1).mean()), predicted


for n in (10_000, 40_000, 160_000):
    s, rms, predicted = sums_error(n, stream("sums"))
    print(f"{n:>7,}: s = {s:.2f}, error {rms:6.0f}, theory {predicted:6.0f}")
    check(abs(rms / predicted - 1) < 0.4,
          "the error of 64 numbers is within 40 % of theory")  # fmt: skip

# %% [markdown]
# Like $\sqrt{n}$ again: the error is about $s\sqrt{dn}$, in four dimensions $17\sqrt n$, where that
# of a count is $2.2\sqrt n$. Sums are the expensive part. (The bound of Lemma 2.12 is 6 to 15 times
# the 99 % quantile of this error, and 3 to 6 times that with the larger noise which the paper prints:
# [P6](../data/results/claims.md#P6).)
#
# ## 6. A worked audit: whose sensitivity?
#
# Algorithm 6 scales its noise by $\sup\lVert g(x)-g(y)\rVert$, the sensitivity of $g$. But what
# leaves the phone is $\pm g(x)$, and the sign depends on the user's bucket. Suppose all $g(x)$ lie in a
# small ball of radius 0.05 that is 0.5 away from the origin.
#
# **Predict.** What is the true ε of a report that claims ε = 1?

# %%
from fedclust_helpers.federation.reports import gaussian_report

noises = {
    "Printed noise: exposed": theory.printed_sums_truth(
        EPSILON, DELTA, center_norm=0.5, radius=0.05),
    "Corrected: hidden": gaussian_report(0.55, EPSILON, DELTA),
}  # fmt: skip
rng, scores, lower = stream("audit"), {}, {}
for title, noise in noises.items():  # +g(x), and -g(y) of another bucket
    x, y = (m + rng.normal(0, noise.std, 20_000) for m in (0.55, -0.55))
    scores[title] = y, x
    tail = (x > 2 * noise.std).mean() / (y > 2 * noise.std).mean()
    report = audit.audit_canary(y, x, delta=DELTA, claimed_epsilon=EPSILON)
    lower[title] = bound = report.epsilon_lower_bound
    far = f"{1.1 / noise.std:.2f} s apart, beyond 2 s {tail:.1f} : 1"
    print(f"{title:23} s = {noise.std:.2f}, {far}, ε at least {bound:.2f}")

# %%
exposed, hidden = lower.values()
true_epsilon = noises["Printed noise: exposed"].true_epsilon
print(f"printed noise: true ε {true_epsilon:.2f}, by the Gaussian curve")
check(1.1 * EPSILON < exposed < true_epsilon,
      "20,000 reports refute the claim of the printed noise")  # fmt: skip
check(hidden < EPSILON, "the corrected noise gives no alarm")

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(8.8, 3.2))
draw.plot_noise_audit(axes, scores, lower, EPSILON)
show(fig, "A user's report for two values: printed and corrected noise")

# %% [markdown]
# **Read the figure.** One user's report (its part along $g$, over its noise), for two
# values that differ in their bucket: filled for one, outlined for the other. With the printed noise
# the two histograms lie about one standard deviation apart. They still overlap, but beyond 2 the
# outlined one is more than ten times as high, where ε = 1 allows 2.7 times; 20,000 reports prove that
# ε is well above the claim (the exact value is 5.1; an audit only bounds it from below). With noise
# for $2\sup\lVert g\rVert$ they lie a quarter of a standard deviation apart, and beyond 2 one is less
# than twice as high as the other. A constant $g$ would get no noise, and the sign would reveal the
# bucket. Inside the paper $g$ ranges over a ball around the origin, where the printed noise is 2.5
# times as large as needed, so its algorithms are safe; a library must not copy the line
# ([P7](../data/results/claims.md#P7), [F13](../data/results/claims.md#F13)). Algorithm 5 has a related
# slip: it assumes that two points differ by $\sqrt2$, but $x$ and $-x$ of one cluster differ by 2
# ([P.alg5](../data/results/claims.md#P.alg5)).
#
# ## 7. From counts to clusters: why corners fail and centres work
#
# Put a grid over the ball and ask every user for the cell of its point (section 2). Now the server has
# a noised histogram, and clusters its *cells* in place of the points: a proxy data set. Which point
# stands for a cell? The paper rounds down coordinate by coordinate (line 8: the floor), so that the
# grids nest. As an index that is fine. As a place it is the cell's lower corner.
#
# From here on: made data, five clusters in the unit ball, spread 0.15 around each centre. The cost is
# the mean squared distance of a user to the nearest centre; the best is about 0.0225 = 0.15².
#
# **Predict.** No privacy, side 1/4, d = 4. What does the proxy cost with corners, and with centres?


# %%
def mixture(n_features, name):
    """Users in the unit ball, the means of their clusters, and the cost."""
    made = datasets.make_ball_mixture(
        N_USERS, n_features, K, rng=stream(name)
    )  # fmt: skip
    sums, sizes = kmeans.group_sums(made.points, made.labels, K)
    means = sums / np.maximum(sizes, 1)[:, None]
    return made.points, means, cost(made.points, means)


def cost(points, centers):
    """k-means cost per point, over the first 50,000."""
    return kmeans.kmeans_cost(points[:50_000], centers, normalize=True)


plane, plane_means, plane_best = mixture(2, "plane")
space, space_means, best = mixture(4, "space")

# %%
floors = {
    where: {level: theory.discretised_cost(
        space[:50_000], level, K, where=where, rng=stream("proxies"))
        for level in (1, 2, 3, 4)}
    for where in ("corner", "center")
}  # fmt: skip
print(pd.DataFrame(floors).round(4).to_string(), f"\nbest {best:.4f}")
check(
    floors["center"][3] < 1.1 * best,
    "centres of cells of side 1/4 cost within 10 % of the points",
)
check(floors["corner"][3] > 3 * best,
      "corners of these cells cost more than 3 times as much")  # fmt: skip

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 3, figsize=(9.8, 3.7))
draw.plot_corners(axes[:2], plane, 3, floors, best=best)
draw.plot_shells(axes[2], (0.13, 0.07), 0.5 ** np.arange(1, 5))
show(fig, "Corners lie to one side of their cells; cost of both; shells")

# %% [markdown]
# **Read the figure.** Left, in two dimensions: corners all lie to the lower left of their users, so
# every centre moves that way by half a cell in each direction, which adds $d\,(\text{side}/2)^2$ to
# the cost. Middle, in four dimensions: at side 1/4 cell centres are as good as the points, corners
# are four times worse. The paper is not hit by this: it uses corners as an index only, and returns means from
# vector sums. We leave these sums out where d is small, because they cost more than they
# bring ([P.alg1.sums](../data/results/claims.md#P.alg1.sums)), so our proxies must be centres.
#
# ## 8. Why several levels
#
# Which side is right? It is enough to move each point by a small part of its distance to the nearest
# centre: then the cost changes by a small part. So cells may *grow with the distance*: a shell of
# twice the radius needs cells of twice the side, that is, the next coarser grid (right panel above).
# Each shell needs about as many cells as the next, so about $\lg n$ (base 2) nested grids cover all
# scales with few cells each. The other side: the number per shell is exponential in the dimension,
# and the bound from the paper's proof is true but useless as a number
# ([P.lemma3.3](../data/results/claims.md#P.lemma3.3)).
#
# At laptop n there is a second limit. A cell must hold more users than the noise, a multiple of
# $\sqrt n$. Users spread over the plane leave $n\,\text{side}^2$ to a cell, so sides below about
# $n^{-1/4}$ cannot pay; in $d$ dimensions $n^{-1/(2d)}$, which is coarser. Two levels are enough:
# sides 1/2 and 1/4.
#
# ## 9. One round: cells light up
#
# Algorithm 1 with parameters that work. Every user answers for one of the two grids (a public coin
# says which), one bit, with all of ε. Then the server works alone:
#
# * look at the coarse cells, then at the children of those that stand out by 2.5 sd (section 4);
# * fine to coarse: choose a cell when what it holds *beyond its chosen children* exceeds 3.5 sd
#   (lines 13 to 30, but with a threshold instead of a fixed number of cells);
# * weighted k-means on the centres of the chosen cells.
#
# Before anybody is asked, all public numbers of a run are fixed in one object: the **plan**. It is made
# from the users who will follow it, and it prints as the privacy statement of the run. `run` follows it:
# a question that is not the next one of the plan, or that would cost more than the plan says, is refused
# before a user hears it. (Unless told otherwise, a plan takes the depths that are predicted to cost
# least: [P.depths.best](../data/results/claims.md#P.depths.best). Here they are fixed.)
#
# **Predict.** Two levels, ε = 1. Which share of the users must a cell hold to be seen, for $n = 10^4$,
# $10^5$, $10^6$? ($3.5\,c_\epsilon\sqrt{2n}$ of n.)


# %% tags=["algorithm"]
from fedclust_helpers.ldp_kmeans.grids import NestedGrid
from fedclust_helpers.ldp_kmeans.projections import BallProjection


def one_round(points, coarse=2, fine=3, z=3.5):
    """Chosen cells (level, cell, count) from one bit of each user."""
    users = simulate(points, "local", seed=SEED)
    grid, public = NestedGrid(points.shape[1]), users.randomness.public
    ball = BallProjection(*points.shape[1:] * 2, rng=public, kind="identity")
    counts = ldp.CellCounts(
        grid, (coarse, fine), EPSILON, rng=public, projection=ball
    )  # fmt: skip
    users.ask(counts, round=0)  # lines 9 to 12
    cells = grid.all_cells(coarse, radius=1.0)
    users_in, sd = counts.count(cells, coarse), counts.depth_std(coarse)
    cells, users_in = (a[users_in > 2.5 * sd] for a in (cells, users_in))
    children = grid.children(cells, coarse, fine)
    children = children[grid.meets_ball(children, fine, 1.0)]
    below = counts.count(children, fine)
    picked = below > z * counts.depth_std(fine)  # line 20, fine cells
    parents = grid.keys(children[picked] >> (fine - coarse), coarse)
    found = zip(children[picked], below[picked], strict=True)
    chosen = [(fine, cell, count) for cell, count in found]
    for cell, count in zip(cells, users_in, strict=True):
        mine = parents == grid.keys(cell[None], coarse)
        rest = count - below[picked][mine].sum()  # lines 17 and 18
        if rest > z * sd * np.sqrt(1 + mine.sum()):
            chosen.append((coarse, cell, rest))  # line 20, coarse cells
    return chosen, users


chosen, users = one_round(plane)
print(len(chosen), "cells; the wire:", users.transcript.to_frame()
      .loc[0, ["name", "count", "dtype", "n_bytes"]].to_dict())  # fmt: skip

# %%
runs, costs = {}, {}
for n in (N_USERS // 100, N_USERS // 10, N_USERS):
    users = simulate(plane[:n], "local", seed=SEED)
    plan = ldp.plan(
        users, n_clusters=K, epsilon=EPSILON, depths=(2, 3)
    )  # fmt: skip
    runs[n] = ldp.run(users, plan, rng=stream("server"))
    costs[n] = cost(plane, runs[n].centers)
    share = ldp.detection_threshold(n, EPSILON, 2) / n
    print(f"n = {n:>9,}: a cell needs {share:.1%}, cost {costs[n]:.4f}")
twins = pd.Series(runs[N_USERS].weights).duplicated(keep=False).sum()
print(f"cells of the last run that share a bucket, and so a count: {twins}")
print(f"best cost without privacy {plane_best:.4f}\n\nThe last plan:\n{plan}")

# %%
seen = [np.sort(run.weights) for run in runs.values()]
check(np.allclose(sorted(c for *_, c in chosen), seen[-1]),
      "from scratch and the package choose the same cells")  # fmt: skip
check(len(seen[0]) < len(seen[-1]), "more users light up more cells")
check(costs[N_USERS] < 1.15 * plane_best,
      "all users together: within 15 % of the best cost")  # fmt: skip
check(users.ledger.pure_epsilon() <= EPSILON, "every user spends ε at most")

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 3, figsize=(9.4, 3.8))
draw.plot_lights(axes, plane, runs, costs, plane_means)
show(fig, "Chosen cells and centres in a disc, for three numbers of users")

# %% [markdown]
# **Read the figure.** Grey: users; crosses: true means; light squares: coarse cells,
# dark squares: fine ones. With ten thousand users a cell needs a tenth of them all: six stand out,
# half of them coarse, and centres (triangles) land beside the crosses. That every cross lies in one of
# them is luck: with other coins (Play, at the end) one group is not seen at all. With a million one
# per cent is enough, and the centres sit on the crosses, at a cost of 0.0226 where the best is 0.0224.
# (The lone square at the upper left of that panel holds hardly anybody: the hash of section 2 put it
# into one bucket with a cell of the cluster to its right, and both got that bucket's count. Of 64
# cells in 65,536 buckets two meet in 3 % of the runs.) Each user said **one bit**: the transcript
# above has a million messages of one bit (a byte on the wire), and the bill of every user is ε = 1, δ
# = 0.
#
# ## 10. Against the obvious alternatives
#
# Same trust, same ε = 1 for each user, four dimensions:
#
# * **one grid**: the histogram of section 7 with a single level, too coarse, right, or too fine;
# * **four rounds**: the paper's other algorithm (section 15; three rounds where it does not hash);
# * **local Lloyd**: users split over five rounds, random start;
# * **noisy points**: send the point plus Gaussian noise, run k-means on what arrives;
# * **one private mean**: give up on clusters.
#
# **Predict.** Noise that hides a point of the unit ball at ε = 1 has standard deviation 8.5. What does
# k-means find among the noisy points?


# %%
import warnings

warnings.simplefilter("ignore", ldp.NothingDetectedWarning)  # section 16


def local_cost(method, points, seed, **options):
    """Cost of one locally private run."""
    users = simulate(points, "local", seed=seed)
    call = {"n_clusters": K, "epsilon": EPSILON, "delta": DELTA} | options
    plan = ldp.PLANS[method](users, **call)
    result = ldp.run(users, plan, rng=np.random.default_rng(seed))
    return cost(space, result.centers)


single = cost(space, np.zeros((1, 4)))  # one centre at the origin

# %%
methods = {
    "one round, two levels": ("alg1", {"depths": (2, 3)}),
    "one grid, side 1/2": ("grid_histogram", {"depth": 2}),
    "one grid, side 1/4": ("grid_histogram", {"depth": 3}),
    "one grid, side 1/8": ("grid_histogram", {"depth": 4}),
    "four rounds": ("alg4", {"depths": (1, 2, 3)}),
    "local Lloyd": ("ldp_lloyd", {}),
    "noisy points": ("gaussian_report", {}),
    "one private mean": ("private_mean", {}),
}
found = {
    name: {n: [local_cost(method, space[:n], s, **options)
               for s in seeds("methods", 3)] for n in list(runs)[1:]}
    for name, (method, options) in methods.items()
}  # fmt: skip

# %%
median = {name: np.median(n[N_USERS]) for name, n in found.items()}
two, *grids = [median[name] for name in list(methods)[:4]]
print({name: float(cost.round(3)) for name, cost in median.items()})
check(
    two < min(1.3 * best, median["four rounds"]),
    "two levels are within 30 % of the best, and beat four rounds",
)
check(max(grids) > 2 * two,
      "a grid of the wrong side costs more than twice as much")  # fmt: skip
check(
    median["noisy points"] > 0.5 * single,
    "noisy points cost more than half of what one centre costs",
)

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(7.4, 4.3))
draw.plot_methods(ax, found, best=best, single=single)
show(fig, "Cost of eight local methods for two numbers of users each")

# %% [markdown]
# **Read the figure.** Three seeds each; ticks, and numbers at the right, are their medians. Noisy
# points are no better than one centre at the origin that costs no privacy at all: k-means clusters
# the noise. Local Lloyd does not repair its random start: with a million users it still costs six
# times the optimum. Two levels and a grid of the right side win; a grid of the wrong side can lose to one
# private mean (printed above). Four rounds are *worse* than one in four dimensions (section 15 says why).
#
# ## 11. What a second level buys
#
# Look again at the three rows of a single grid, the plainest baseline, which the paper does not
# mention. Here two levels beat each of them, with a million users by a hair: 0.024 against 0.025 at
# side 1/4. Too coarse, and cells are larger than clusters; too fine, and every cell sinks below the
# noise. What is right depends on n, ε and the data, and a server that may not look at the data has to
# guess. **Several levels buy robustness** against that guess. Whether they also buy accuracy depends
# on the data: against a single grid of the right side they win on some data sets and lose on others,
# and over all that we made nearly every comparison is a tie
# ([P.alg1.grid](../data/results/claims.md#P.alg1.grid)).
#
# ## 12. The price of the trust model, and what grows like √n
#
# The same question (which cell of side 1/4?), three trust models. A secure sum or a trusted server adds
# Laplace noise of scale $2/\epsilon$ to each cell **once** (one user who moves changes two counts by 1);
# local users each add their own.
#
# **Predict.** How many times more users does the local model need for the same cost?

# %% tags=["algorithm"]
from fedclust_helpers.client_statistics import COUNT, ClientStatistic
from fedclust_helpers.mechanisms import Laplace

grid = NestedGrid(4)


def cell_counts(points, offsets):
    """One row of 4096 counts for each client: its users by cell."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    cell = 4096 * owner + grid.keys(grid.cells(points, 3), 3).astype(int)
    counts = np.bincount(cell, minlength=4096 * (len(offsets) - 1))
    return (counts.reshape(-1, 4096).astype(float),)


CELLS = ClientStatistic("cells", ("count",), cell_counts,
                        changes=lambda **_: {"count": COUNT})  # fmt: skip


def central_cost(trust, points, seed):
    """The same cells, counted by a noised sum (replace-one)."""
    ledger = accounting.PrivacyLedger(adjacency="replace-one")
    fed = simulate([points], trust, ledger=ledger, seed=seed,
                   bound=1.0, domain="ball")  # fmt: skip
    noise = Laplace.from_budget(2.0, EPSILON, adjacency="replace-one")
    (counts,) = fed.noisy_sum(CELLS, [noise], round=0)
    kept = np.flatnonzero(counts > 3.5 * noise.std)
    places = grid.centers(grid.unpack(kept.astype(np.uint64), 3), 3)
    rng = np.random.default_rng(seed)
    return cost(space, kmeans.weighted_kmeans(
        places, counts[kept], K, n_init=10, rng=rng))  # fmt: skip


# %%
sizes = N_USERS // np.array([1000, 300, 100, 30, 10, 3, 1])
trusts = {name: [] for name in ("local", "secure sum", "trusted")}
for n in sizes:
    for name, trust in (("secure sum", "ideal"), ("trusted", "trusted")):
        two = [central_cost(trust, space[:n], s) for s in seeds("trust", 2)]
        trusts[name].append(two * 2)
    four = [local_cost("alg1", space[:n], s, depths=(2, 3))
            for s in seeds("trust", 4)]  # fmt: skip
    trusts["local"].append(four)
means = {name: np.mean(costs, axis=1) for name, costs in trusts.items()}
means = pd.DataFrame(means, sizes)
display((means / best).rename_axis("cost / best cost at n").round(2))

# %%
reach = (means < 1.5 * best).idxmax()
print("users for 50 % above the optimum\n", reach.to_string())
check(reach["local"] >= 30 * reach["secure sum"],
      "local cells need 30 times the users of a sum at least")  # fmt: skip
same = (means["trusted"] / means["secure sum"])[2:].between(0.9, 1.1)
check(same.all(), "a secure sum gives what a trusted server gives")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(7.0, 3.7))
draw.plot_trust(ax, sizes, trusts, best=best)
show(fig, "Cost against the number of users, for three trust models")

# %% [markdown]
# **Read the figure.** Mean and range of a few runs, ε = 1. Circles and diamonds coincide: a secure sum
# gives what a trusted server gives, and no server sees a point. With nobody to trust, Algorithm 1 takes a
# hundred times as many users for the same cost, and hundreds of times near the optimum (the sketch of section
# 18 takes tens of times: notebook [05](05_side_by_side.ipynb), section 3, which also puts a shuffler in
# between). The reason is in the
# thresholds: a cell must hold $3.5\,c_\epsilon\sqrt{2n}$ users here and $3.5\sqrt8/\epsilon$ there,
# about ten, whatever n is.
#
# ### Table 1 as an experiment
#
# The paper's headline is an additive error of $\tilde O(\sqrt n)$, down from $\sqrt n$ times a small
# power of n, and there is a lower bound of $\Omega(\sqrt n)$ for any local algorithm. Total cost is n
# times the cost per point.
#
# **Predict.** The excess per user in the figure above falls by a factor of tens between $10^4$ and
# $10^6$; a total that grows like $\sqrt n$ would make it ten. What is the slope of the *total* excess
# in n?

# %%
table = studies.load_results("ldp_scaling").drop_duplicates("quantity")
fits = table.set_index("quantity").filter(like="slope")
display(fits.round(2))
check(fits.slope_high["excess_alg1"] < 0.5,
      "the excess of Algorithm 1 grows slower than √n")  # fmt: skip
check(fits.slope_low["zipf_missed"] > 0.7,
      "users missed in a long tail grow faster than n^0.7")  # fmt: skip

# %% [markdown]
# Slopes in n with their 95 % intervals (low, high), up to ten million users, with new
# data for every run (table [ldp_scaling](../data/results/ldp_scaling.csv); claims
# [P.table1.alg1](../data/results/claims.md#P.table1.alg1),
# [P.table1.alg4](../data/results/claims.md#P.table1.alg4),
# [P.table1.oracle](../data/results/claims.md#P.table1.oracle),
# [P.table1.detection](../data/results/claims.md#P.table1.detection),
# [P.table1.sums](../data/results/claims.md#P.table1.sums) and
# [P.zipf](../data/results/claims.md#P.zipf)). The error of a count and the smallest detectable cell
# grow like $\sqrt n$. The excess cost of one round grows slower, like $n^{0.2}$: a centre made of
# $n/k$ users with an error of $\sqrt n$ users moves by $1/\sqrt n$, and that costs $n \cdot 1/n =
# O(1)$. The interval leaves out 0, so this is not all: it ignores users in cells that were not chosen,
# and the size of the cells, which does not shrink; we did not tell the two apart. The theorem's $\sqrt
# n$ is a worst case: a few cells just below the threshold, each hiding $\sqrt n$ users. With a long
# tail of small cells (Zipf) it gets worse than $\sqrt n$: nearly everything is below the threshold.
# And from the same good start local Lloyd with a million users is worse than FastLloyd through a
# secure sum with a thousand: an excess per user of 0.078 against 0.0055 (medians in the table
# [ldp_trust](../data/results/ldp_trust.csv); at equal numbers of users
# [P.trust.1](../data/results/claims.md#P.trust.1)).
#
# ## 13. More than six dimensions
#
# (Sections 13 to 15 are the rest of the paper. Whoever has few columns may go on with section 16.)
#
# A grid in $d = 20$ dimensions has too many cells. So Algorithm 1 first maps the points by a random
# matrix (a **Johnson-Lindenstrauss projection**) to $d_{\mathrm{low}} = O(\log k)$ columns and looks
# for heavy cells there. The centres come from vector sums (section 5) over these cells, in all $d$
# columns. Theorem 2.7 says when that works: with about $\ln k/\gamma^2$ columns the cost of a
# clustering changes by a factor between $1-\gamma$ and $1+\gamma$ only. For ten clusters, $\gamma$ =
# 0.2 and a failure in one map of ten, the proof takes $\ln(10\,k/\gamma)/\gamma^2 = 156$ columns.
#
# **Predict.** Ten clusters in 300 columns, mapped to 4. What happens to the cost of the clustering?
# And to the longest point?

# %%
rng = stream("maps")
for columns in (4, 16, 156):
    made = datasets.make_ball_mixture(2000, 300, 2 * K, rng=rng)
    ratio = theory.projected_cost_ratio(
        made.points, made.labels, columns, rng=rng, n_maps=20
    )  # fmt: skip
    longest = theory.longest_stretch(made.points, columns, rng=rng)
    shrink = BallProjection(300, columns, rng=rng).scale
    print(f"{columns:>3} columns: cost x {ratio.min():.2f} to "
          f"{ratio.max():.2f}, longest point x {longest:.2f}, all / "
          f"{shrink:.2f}")  # fmt: skip
check(1 / 1.2 < ratio.min() and ratio.max() < 1.2,
      "in 156 columns the cost changes by less than a fifth")  # fmt: skip
check(longest > 1, "the longest point gets longer")
print("noise of a centre in ten columns:", round(theory.sums_center_error(
    10**6, 10, EPSILON, DELTA, cluster_size=10**6 / K), 2))  # fmt: skip

# %% [markdown]
# **Read the output.** The map is the harmless part; two other things hurt.
#
# * *The cost survives*, nearly even in four columns: a squared distance becomes an average of
#   $d_{\mathrm{low}}$ independent squares.
# * *The longest point leaves the ball*, so everything is divided by 1.8. A cell of side 1/4 is then
#   0.45 wide in the original space, where clusters of radius 0.15 merge
#   ([P.depth](../data/results/claims.md#P.depth)). (As printed, Lemma 2.8
#   promises that in 156 columns no point is longer than 0.63 times before; the "1 +" of its proof is
#   missing, [P4](../data/results/claims.md#P4), [F14](../data/results/claims.md#F14).)
# * *The vector sums are noisy.* With a million users and ε = 1 a centre moves by 0.28 in ten columns,
#   nearly twice the spread of a cluster: it fills about three cells, the sum of each is off by
#   $s\sqrt{dn}$ (section 5), and only 70 % of the users send vectors. Section 16 has the bill.
#
# ## 14. Locality-sensitive hashing (LSH): why distance and dimension decide
#
# Algorithm 4 replaces fine cells by **buckets**: balls thrown at random in $t$ dimensions; points in
# the same ball share a bucket. Two points at distance 1, the radius of a cluster, share one with
# probability $p(1)$, points at a larger distance $u$ with a smaller $p(u)$. Ask for heavy buckets and
# take the mean of each. Strangers in a bucket pull its mean aside; Lemma 2.16 says that they do
# little where the damping $p(1)^2/p(u)$ is large.
#
# By which factor are users damped that are $u$ radii away? (Table [ldp_lsh](../data/results/ldp_lsh.csv),
# column `p1_squared_over_p`; t = 4 is the most that a laptop can hash.)
#
# * *At twice the radius* it is close to 1 up to t = 8: such users are not damped at all.
# * *At 1.5 times*, which the theorem allows, it **falls** with t.
# * *Damping of 30* takes six times the radius at t = 4, hence a factor $6^2 = 36$ in the cost, or a larger
#   t, where hashing takes $t^{O(t)}$ balls.
#
# The lemmas hold ([P11](../data/results/claims.md#P11), [P14](../data/results/claims.md#P14)), two
# steps of their proofs do not ([P12](../data/results/claims.md#P12),
# [P13](../data/results/claims.md#P13)). In our runs LSH made no difference that could be seen
# ([P.alg4.lsh](../data/results/claims.md#P.alg4.lsh)); `lsh=False` is the default.
#
# ## 15. Four rounds, and what each user said
#
# | round | the question to a user | in the paper |
# |---|---|---|
# | 1 **heavy cells** | one bit about the cell, on one level of a hierarchy of grids | Algorithm 2 |
# | 2 **candidates** | in a heavy cell: one bit about the LSH bucket, or one noised vector | Algorithm 3 |
# | 3 **votes** | which candidate is nearest? | weighted k-means on the votes |
# | 4 **means** | which centre is nearest? And one noised vector, in all d columns | Algorithm 5 |
#
# The grids are shifted at random, so that a centre touches about five cells and not all $2^d$ of a
# corner ([P10](../data/results/claims.md#P10)). The paper repeats round 2 for many guesses, levels
# and scales at once: 38,400 questions for $n = 10^6$, which leaves 26 users for each
# ([P.thm1.2.printed](../data/results/claims.md#P.thm1.2.printed)). We repeat it twice. Without LSH,
# the default, the centres of the heavy cells are the candidates: nobody is asked in round 2, and
# *three* rounds are left (as in the tables of notebook [05](05_side_by_side.ipynb)). Here it runs
# with LSH.
#
# **Predict.** Which is better here, the centres before round 4 or after it? And what does one user say?

# %%
users = simulate(plane, "local", seed=SEED, keep_payloads=True)
plan = ldp.plan_four_rounds(
    users, n_clusters=K, epsilon=EPSILON, delta=DELTA, lsh=True, t=2,
    depths=(1, 2, 3),
)  # fmt: skip
four = ldp.run(users, plan, rng=stream("rounds"))
after, before = cost(plane, four.centers), cost(plane, four.low_centers)
print(f"cost {before:.4f} before round 4, {after:.4f} after it")
print(f"one round {costs[N_USERS]:.4f}, best {plane_best:.4f}")

# %%
answers = sum(message.count for message in users.transcript.view("server"))
check(answers == N_USERS,
      "every user answers one question, in one of the rounds")  # fmt: skip
check(users.ledger.epsilon(DELTA) < 1.002 * EPSILON,
      "nobody spends more than ε")  # fmt: skip
check(before < after, "in two dimensions round 4 makes the cost larger")
lesson.said_by_users(users, plane)

# %% tags=["hide-input"]
fig, axes = plt.subplots(2, 2, figsize=(6.6, 7.0))
draw.plot_rounds(axes, plane, four, plane_means)
show(fig, "Four discs: heavy cells, candidates, votes, and final centres")

# %% [markdown]
# **Read the table.** One row is one user. A bit (±1) is about a random half of all cells, and one
# time in four it is a lie. The vector of another has noise of 8.5 in each column on a point of length
# below 1. That is all the server ever gets. A single bit moves the odds of any guess about its sender
# by a factor of $e = 2.7$ at most; a million of them draw this picture.
#
# **Read the figure.** 1: heavy cells, coarse to fine. 2: candidates, which are centres of heavy cells
# and means of heavy buckets. 3: the votes (area). 4: k-means on the votes (squares), the means of the
# last round (triangles), the truth (crosses).
#
# It works, and costs more than one round did, since the same users are shared by more questions. In two
# dimensions round 4 even makes the centres worse; it pays where the votes were taken in a projection
# (section 16).
#
# ## 16. Where it breaks
#
# **Too few users.** A cell stands out when its users exceed 3.5 standard deviations of a count
# (section 3). Solved for n: with $L$ levels, of which each user answers $a$, a cell that holds a share
# $h$ of all users needs
#
# $$n \ge \frac{L}{a}\left(\frac{3.5\;c_{\epsilon/a}}{h}\right)^2 ,$$
#
# in code `ldp.users_needed(h, epsilon, n_levels)`. For clusters of equal size that spread over three
# cells each, $h = 1/(3k)$: the need grows like $k^2$. A secure sum needs $3.5\sqrt8/(\epsilon h)$.
# The parameters *as printed* give each of $2L$ oracles $\epsilon/(2L)$, with $L = \lg n$ grids, and let
# all users answer all.
#
# **Too many columns.** Beyond six it takes a projection and vector sums, and their noise (section 13).
#
# **Predict.** How many users does it take to see a cell that holds 2 % of them at ε = 1: with two
# levels, as printed, with a secure sum?

# %% tags=["fixed"]
from studies.ldp_kmeans import as_printed

needed = pd.DataFrame({e: {
    "as printed": as_printed.users_needed_as_printed(0.02, e),
    "two levels": ldp.users_needed(0.02, e, 2),
    "secure sum": 3.5 * np.sqrt(8) / (e * 0.02),
} for e in (0.5, 1, 2, 4, 8, 16, 32, 64)})  # fmt: skip
few = needed[[1, 4, 16, 64]].rename_axis("users needed at ε")
display(few.map("{:.1e}".format))
ratios = lesson.cost_ratios(studies.load_results("ldp_cost"), epsilon=1)
one, four, mean = (ratios.loc[m].unstack("k") for m in lesson.COMPARED)
print("one round, then one private mean: cost / best cost, ε = 1")
display(one.loc[:1e6, [2, 4, 6]].round(2))
display(mean.loc[[1e4], [2, 4]].round(1))
print(f"four rounds, d = 10, k = 5, 10⁷ users: {four.loc[1e7, (10, 5)]:.2f}")

# %%
printed, two, central = needed[1]
check(abs(two / (2 * (3.5 * 2.164 / 0.02) ** 2) - 1) < 0.01,
      "code and formula agree within 1 %")  # fmt: skip
check(
    printed > 1350 * two and two > 550 * central,
    "as printed needs 1350 times two levels, these 550 times a sum",
)
low, some, many = (one.loc[n, [2, 4]].unstack() for n in (1e4, 1e5, 1e6))
check(low.min(axis=None) > 1.8 and low.max(axis=None) < 14,
      "10⁴ users: 1.8 to 14 times the best")  # fmt: skip
check(mean.loc[1e4, [2, 4]].between(11, 18.5).all(),
      "one private mean: 11 to 18.5 times")  # fmt: skip
check(some[[3, 5]].max(axis=None) < 1.5,
      "10⁵ users, 3 or 5 clusters: below 1.5 times")  # fmt: skip
check(1.6 < some[10].min() and some[10].max() < 3.2,
      "10⁵ users, 10 clusters: 1.6 to 3.2 times")  # fmt: skip
check(many.max(axis=None) < 1.25, "10⁶ users: within a quarter of the best")
check(four.loc[1e7, (10, 5)] < 1.5 < one.loc[1e7, (10, 5)],
      "d = 10, 10⁷ users: four rounds beat one")  # fmt: skip

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(9.4, 4.0))
draw.plot_limits(axes, needed.T, ratios.xs(5, level="k"))
show(fig, "Users needed against epsilon; cost ratio against the dimension")

# %% [markdown]
# **Read the figure.** Left: as printed it takes 410 million users at ε = 1, who answer
# for $L = 29$ grids, to see a cell that holds 2 % of them
# ([P.thm1.1.printed](../data/results/claims.md#P.thm1.1.printed)). Splitting users over two levels
# needs 1400 times fewer, and a secure sum 600 times fewer again. Right: from the committed result
# table (five clusters, means over data sets, ε = 1). Up to four dimensions one round comes near the
# optimum with $10^6$ users. Six are the edge. Beyond, it costs several times the optimum even with
# $10^7$ users, and four rounds earn their keep: 1.4 times the optimum at d = 10 with $10^7$ users.
#
# ## 17. When is local privacy the right choice?
#
# It depends on n, ε, d **and k**. The numbers here were read, by the checks above, from the output
# above the figure (rows of the table [ldp_cost](../data/results/ldp_cost.csv)): cost over best cost
# for 3, 5 and 10 clusters, means over data sets. Those of the sketch (section 18) stand in the table
# [better_local](../data/results/better_local.csv), for mixtures of 5 and 10 clusters, column `over_optimum`.
#
# | your situation | take |
# |---|---|
# | the rows already lie with organisations (clinics, banks) | **not this**: they can add up; notebook [06](06_your_own_data.ipynb) |
# | somebody may add up (a secure sum, two servers, masks) | **not this**: notebook [01](01_fastlloyd.ipynb), tens of times fewer users |
# | related public data at the server | notebook [02](02_feddp_kmeans.ipynb), with a secure sum |
# | nobody may add up, $10^4$ users, d ≤ 4 | the sketch: 1.2 times the optimum for 5 clusters, 1.8 to 4.1 for 10 (one round: 2 to 14 times, one private mean 11 to 19) |
# | $10^5$ users, d ≤ 4 | the sketch: 1.0 to 1.2 times (one round: within a half for 3 or 5 clusters, 1.7 to 3.2 times for 10) |
# | $10^6$ users, d ≤ 4 | the sketch, or one round (within a quarter of the optimum for up to 10 clusters) |
# | more columns | the sketch: at d = 10, k = 5, 3.4 times with $10^4$ users, 1.1 with $10^5$ (of the paper's, four rounds with $10^7$ users: 1.4) |
# | a long tail of small groups is what you want to find | not possible: below $3.5\,c_\epsilon\sqrt{2n}$ nobody is seen |
#
# All at ε = 1. Local privacy buys something no other model has: *there is nothing to trust and
# nothing to breach*. The server may be hacked, sold or subpoenaed: it never had more than one noised
# answer per user. Three warnings. ε = 4 or 8 per user is large: at ε = 4 a coin tells the truth 98 %
# of the time (section 1). Asking again next week spends the budget again. And nobody can check a
# report: whoever controls 1 % of the users can put 1 % of them into any cell (exercise 4).
#

# **The paper's claims.** They stand on [one page](../data/results/claims.md), each with its check, and
# `studies.grade("P7")` runs one again. Not checked: lower bounds (they hold for every algorithm) and
# constants hidden in $\tilde O$.
#
# ## 18. Run it on data that matters
#
# `LocalKMeans` takes one table in its own units, row i the only one of user i, and public bounds of
# every column. In secure mode, the default, every coin comes from the operating system. Here the
# users are the 273,280 pixels of a photograph that ships with scikit-learn, each with its three
# colour values: put your own table in their place.
#
# One thing happens inside that you should know. The method lives in the unit *ball*, your bounds make
# a *box*. So the box is scaled to $[-1, 1]^d$ and **shrunk by $1/\sqrt d$ into the ball**. A cell of
# side 1/4 is then a square of $\sqrt d/8$ of the range of each column: a fifth for three columns.
# Clusters that are nearer to each other are not told apart, and narrower bounds help directly. Never
# take them from the data.
#
# First the plans, one of Algorithm 1 and one of the **sketch**, which is explained below. A plan is
# public and costs nothing: print it before anybody is asked. It needs the numbers of users and columns
# only, so zeros stand in for the colours.

# %%
from sklearn.cluster import KMeans
from sklearn.datasets import load_sample_image

from fedclust_helpers.estimators import LocalKMeans

colours = load_sample_image("china.jpg").reshape(-1, 3).astype(float)
users = simulate(np.zeros_like(colours), "local", mode="secure")
for planner in (ldp.plan, ldp.plan_sketch):
    print(planner(users, n_clusters=K, epsilon=EPSILON), end="\n\n")

how = {"epsilon": EPSILON, "lower": 0, "upper": 255}
model = LocalKMeans(K, **how).fit(colours)  # secure: the run that counts
found = {method: [  # again with seeds, to compare
    LocalKMeans(K, method=method, mode="teaching", seed=SEED + i, **how)
    .fit(colours).cluster_centers_ for i in range(3)]
    for method in ("one_round", "sketch")}  # fmt: skip
table = pd.DataFrame(found).map(lambda m: kmeans.kmeans_cost(colours, m))
table /= KMeans(K, n_init=3, random_state=SEED).fit(colours).inertia_

# %%
need = ldp.sketch_users_needed(1 / K, EPSILON, 3, n_clusters=K)
print(f"the sketch needs about {need:,} users to see {K} equal clusters")
print("cost / cost without privacy\n", table.round(2).to_string())
check(table.sketch.median() < table.one_round.median(),
      "the sketch is closer than Algorithm 1, in the median")  # fmt: skip
check(model.ledger_.pure_epsilon() <= EPSILON,
      "the run that counts spends ε at most")  # fmt: skip

# %% [markdown]
# **The better release: the sketch.** `LocalKMeans` runs it unless it is told otherwise; it goes beyond the
# paper. The server deals $m$ public *chessboards* of four colours, $m = 1000$ at ε = 1 in the plane. Board $j$
# has two orthonormal directions $a_1, a_2$ and two shifts $b_1, b_2$, all random, and squares of side $w$, which
# is 0.5, 0.7, 1 or 1.4 over $\sqrt d$ in equal numbers. A user with the point $x$ gets one board, and reads the
# two bins $\lfloor a_i \cdot x / w + b_i \rfloor \bmod 2$: together one of four colours. The phone sends the true
# colour with probability $e^\epsilon/(e^\epsilon+3)$, or else one of the other three. The server then looks for
# the weights $p$ of places that make all answers likely, that is, it maximises
# $\sum_{\text{answers}} \log \sum_{\text{places } z} p(z)\,P(\text{answer} \mid z).$
#
# **Predict.** At ε = 1, is more than half of the answers true? Can a tenth of our users show five clusters?


# %%
def colour(places, turn, side, shift):
    """Colour 0, 1, 2 or 3 of every place on every board."""
    bins = np.floor(places @ turn / side[:, None, None] + shift[:, None])
    return (bins.astype(int) % 2) @ [1, 2]


rng, n, m = stream("palette"), N_USERS // 10, 1000
turn = np.linalg.qr(rng.normal(size=(m, 2, 2)))[0]
side = rng.choice([0.5, 0.7, 1.0, 1.4], m) / np.sqrt(2)
boards, own = (turn, side, rng.random((m, 2))), rng.integers(m, size=n)
keep = np.exp(EPSILON) / (np.exp(EPSILON) + 3)
said = colour(plane[:n, None], *(part[own] for part in boards))[:, 0]
lie = (rng.random(n) > keep) * rng.integers(1, 4, n)
said = (said + lie) % 4  # all that leaves a phone

# %%
axis = np.linspace(-0.95, 0.95, 24)
places = np.array([(x, y) for x in axis for y in axis if x * x + y * y < 1])
fits = colour(places, *boards)[:, None] == np.arange(4)[:, None]
chance = np.where(fits, keep, (1 - keep) / 3).reshape(-1, len(places))
counts = np.bincount(4 * own + said, minlength=4 * m)
weights = np.full(len(places), 1 / len(places))  # users may be anywhere
for _ in range(300):  # EM: each pass makes the answers more likely
    weights *= chance.T @ (counts / (chance @ weights)) / n
fitted = kmeans.weighted_kmeans(places, weights, K, rng=rng)
times = cost(plane, fitted) / plane_best
print(f"{keep:.0%} of {n:,} answers are true; {times:.2f} times the best")

# %% [markdown]
# Fewer than half are true, and together they show the groups. The fit reads reports only, so it costs no
# privacy. (The package fits $k$ round Gaussians and a uniform background in place of weights, which also works
# in many columns, and runs k-means on 20,000 points drawn from them. At larger ε a board has more colours, about
# $e^\epsilon + 1$; starts: `sketch_fit.py`.)
# With $10^5$ users or more it is nowhere worse than Algorithms 1 and 4 in our tables of
# mixtures ([B.sketch.mixtures](../data/results/claims.md#B.sketch.mixtures)); for data that is no
# mixture see [B.sketch.odd](../data/results/claims.md#B.sketch.odd). Its price is seconds at the
# server. What it gains and where it loses: [beyond the papers](../studies/beyond/notes.md).
#
# The table compares them by three seeds each, in teaching mode, so that it is the same on every machine.
# `model`, the secure run, differs every time, and now and then one run of Algorithm 1 is the closer one:
# so only its price is checked. (On private data run one of them, once: two fits of the same users spend
# ε twice, and a cost is computed from the data, so it would be a further release.)
#
# * **Who sees what**: the server one noised bit, or symbol, of each user, and who sent it; everybody
#   the centres.
# * **Check**: `print(model.plan_)`, above all "predicted", the share of the users below which a group is
#   not seen; `model.ledger_`; `model.transcript_`; after Algorithm 1, how many cells stood out
#   (`len(model.result_.weights)`: fewer than k means guesses).
# * **When not to use it**: with fewer users than it needs (in the plan of Algorithm 1; for the sketch by
#   `ldp.sketch_users_needed`, above), with `method="one_round"` beyond six columns, for groups below the
#   threshold, when somebody may add up, and not twice on the same users without a common `ledger=`.
#
# ## Play: what does the server see?
#
# First still pictures like those of section 9, with coins of their own, so cells and costs are not the
# same to the last digit. The titles say which share of the users a cell needs. Then move the sliders;
# depth is the level of the finer grid (2 × 2 squares of side 1 at depth 1, halved at each level).
# **Predict first:** at n = 10,000, which ε does it take to see all five clusters? At n = $10^6$ and ε
# = 1, what happens at depth 6?

# %% tags=["hide-input"]
from studies.ldp_kmeans import widget as play

fig, axes = plt.subplots(2, 2, figsize=(7.6, 8.2))
how = {"n_clusters": K, "seed": SEED, "means": plane_means}
play.stills(axes, plane, n=N_USERS, epsilon=EPSILON, **how)
show(fig, "Four discs with chosen cells, centres, means: two ε, two depths")

# %% tags=["widget", "nbval-ignore-output"]
_ = play.explore(plane, **how)

# %% [markdown]
# **What you will see.** With 10,000 users (above) one group has no cell at ε = 1, and
# its centre lands in the middle; it takes ε of about 4: a cell then needs 4.6 % of them, and every
# cluster has one. At depth 6 cells of side 1/32 sink below the noise again: fewer of them stand out
# than at depth 4, and the cost doubles.
#
# ## Exercises
#
# 1. *(warm-up)* A poll of 100 people uses the coin of section 1 at ε = 1. How large is the standard
#    deviation of the de-biased *share* when half of them say yes? What happens as ε goes to 0?
# 2. *(derive)* The mixed rule of section 3: minimise $c_{\epsilon/a}^2/a$ over real $a$, and show that
#    $x = \epsilon/a$ solves $\sinh x = 2x$.
# 3. *(derive)* How does the number of users that a 2 % cell needs depend on ε, for small ε? And on k, for
#    clusters of three cells each? Check both with `ldp.users_needed(share, epsilon, n_levels)`.
# 4. *(experiment)* An attack: 1 % of the users agree to report one empty cell. How many users does the
#    server count there? Skeleton: `ldp.CellCounts(NestedGrid(2), (3,), EPSILON, rng=..., projection=...)`
#    as in section 9, then `users.ask(query, round=0)` and `query.count(cell, 3)`.
#
# <details><summary>Solution 1</summary>
#
# With $p = 0.73$ the chance of the truth, a report is right or wrong with variance $p(1-p)$, whatever
# is true. So the share of yes reports has a standard deviation of $\sqrt{p(1-p)/n} = 0.044$, and
# undoing the coin multiplies it by $c_\epsilon = 1/(2p-1) = 2.16$: 0.096. Ten percentage points: no
# poll. As ε goes to 0 this grows without bound, like $1/(\epsilon\sqrt n)$: at ε = 0 the reports are
# fair coins, $2p - 1 = 0$, and nothing can undo them. So the formula, like the coin, asks for ε > 0.
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# $c_x = \coth(x/2)$. With $a = \epsilon/x$ minimise $x\coth^2(x/2)$: the derivative is zero where
# $\coth(x/2) = x/\sinh^2(x/2)$, that is $\sinh(x/2)\cosh(x/2) = x$, or $\sinh x = 2x$; x = 2.18.
#
# </details>
#
# <details><summary>Solutions 3 and 4: see also the cell below</summary>
#
# 3: $c_\epsilon \approx 2/\epsilon$, and the need grows with $c_\epsilon^2$: a quarter of the ε,
# sixteen times the users. With $h = 1/(3k)$ twice the clusters need four times the users. 4: nothing
# stops them. Whoever controls a share of users controls that share of every count; with de-biasing a
# *report* can even be chosen to count $c_\epsilon$ times.
#
# </details>

# %% tags=["solution"]
poll, rng = np.arange(100) < 50, stream("poll")
shares = [undo(flip(poll, 1.0, rng), 1.0) / 100 for _ in range(4000)]
print(f"1: sd of the share {np.std(shares):.3f}")
need = [ldp.users_needed(h, e, 2)
        for h, e in ((0.02, 0.2), (0.02, 0.05), (0.01, 0.2))]  # fmt: skip
print(f"3: {need[1] / need[0]:.1f} and {need[2] / need[0]:.1f} times more")
liars, spot = N_USERS // 100, np.array([[0.62, 0.62]])
crowd = np.concatenate([plane[:-liars], np.repeat(spot, liars, axis=0)])
users, flat = simulate(crowd, "local", seed=SEED), NestedGrid(2)
query = ldp.CellCounts(flat, (3,), EPSILON, rng=users.randomness.public,
                       projection=runs[N_USERS].projection)  # fmt: skip
users.ask(query, round=0)
counted, std = query.count(flat.cells(spot, 3), 3)[0], query.depth_std(3)
print(f"4: {counted:.0f} users counted, {liars} liars, sd {std:.0f}")

# %% tags=["solution"]
check(abs(np.std(shares) - 0.096) < 0.005,
      "1: the share has a standard deviation of 0.096")  # fmt: skip
check(abs(need[1] / need[0] - 16) < 0.2,
      "3: a quarter of a small ε needs 16 times the users")  # fmt: skip
check(abs(need[2] / need[0] - 4) < 0.01,
      "3: half the share needs 4 times the users")  # fmt: skip
check(counted > liars - 5 * std, "4: the liars are counted in full")

# %% [markdown]
# ## Recap
#
# 1. **One bit is a report.** Flip, add up, undo: every count of a partition comes out with an error of
#    $c_\epsilon\sqrt n$, sums with $s\sqrt{dn}$.
# 2. **Split users, not budget**, and every user's bill is one line.
# 3. **Clusters come from cells**: centres instead of corners, two levels, a threshold. Good from $10^5$
#    users on, nearly optimal at $10^6$, for five clusters and d ≤ 4 at ε = 1; ten clusters need more. Six
#    dimensions are the edge.
# 4. **The rest of the paper is asymptotics**: as printed it needs hundreds of millions of users; LSH
#    damps only what is far away; Algorithm 5 needs more noise than printed, and Algorithm 6 does where its
#    vectors do not lie around the origin.
# 5. **Trust is worth a factor in users**: hundreds with the paper's methods, tens with the sketch. Take local
#    privacy when nobody may add up.
#
# ## Check yourself
#
# <details><summary>What does one answer at ε = 1 tell about its sender?</summary>
#
# It moves the odds of any guess by a factor of up to $e = 2.7$, never more: section 1.
#
# </details>
#
# <details><summary>Why does the error of a count grow with the square root of n?</summary>
#
# Every user adds a noise of its own, and n independent noises add up to a standard deviation of
# $c_\epsilon\sqrt n$. A trusted server adds one: sections 1 and 12, seen in section 2.
#
# </details>
#
# <details><summary>Ten questions, ε = 1: let everybody answer all, or a tenth of the users each?</summary>
#
# A tenth each: three times less error. At large ε each user answers about ε/2.18 of them: section 3.
#
# </details>
#
# <details><summary>Why is the sensitivity of a signed vector report not the spread of g?</summary>
#
# The sign depends on the bucket, so the report can change from +g(x) to −g(y): the noise must hide
# 2 sup‖g‖. Section 6 audits what happens otherwise.
#
# </details>
#
# <details><summary>Why does the server cluster the centres of cells and not their corners?</summary>
#
# Corners all lie to one side of their users; half a cell in each direction is added to the cost.
# Moving them is post-processing and free: section 7.
#
# </details>
#
# <details><summary>You double the number of clusters. How many more users do you need?</summary>
#
# Four times as many: each cell holds half the share, and the need grows like one over its square.
# The formula is in section 16, the price in cost in section 17.
#
# </details>
#
# <details><summary>A colleague offers a secure sum. Do you stay with local privacy?</summary>
#
# No: the same cost needs tens to hundreds of times fewer users there, section 12; the table of section 17
# says when local privacy is right.
#
# </details>
#
# <details><summary>Your table has bounds 0 to 255 in three columns. How fine are the cells?</summary>
#
# The box is shrunk by 1/√3 into the ball, so a cell of side 1/4 is about a fifth of the range, 55 units:
# section 18.
#
# </details>
#
# ## References
#
# * A. Chaturvedi, M. Jones, H. L. Nguyen. *Locally Private k-Means Clustering with Constant Multiplicative
#   Approximation and Near-Optimal Additive Error.* AAAI 2022, full version. (Sections 2 to 4, appendices
#   B and C.)
# * S. L. Warner. *Randomized Response: A Survey Technique for Eliminating Evasive Answer Bias.* JASA 1965.
# * R. Bassily, K. Nissim, U. Stemmer, A. Thakurta. *Practical Locally Private Heavy Hitters.* JMLR 2020.
#   (Hashtogram, Bitstogram, TreeHist.)
# * T. Wang, J. Blocki, N. Li, S. Jha. *Locally Differentially Private Protocols for Frequency Estimation.*
#   USENIX Security 2017. (The other oracles.)
# * K. Makarychev, Y. Makarychev, I. Razenshteyn. *Performance of Johnson-Lindenstrauss Transform for
#   k-Means and k-Medians Clustering.* STOC 2019. (Theorem 2.7.)
# * A. Andoni, P. Indyk. *Near-Optimal Hashing Algorithms for Approximate Nearest Neighbor in High
#   Dimensions.* FOCS 2006. (Ball carving.)
# * U. Stemmer. *Locally Private k-Means Clustering.* SODA 2020. (The lower bound.)
