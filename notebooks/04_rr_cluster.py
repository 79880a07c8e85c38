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
# # RR-Cluster: must a server know who belongs to which cluster?
#
# *You will build private clustering of models, see what rebalancing buys and costs, and replace it by
# sums. 60 minutes; exercises 20 more.*
#
# A thousand phones hold twenty pictures of digits each. Every phone holds its pictures at one of four
# angles, and nobody knows at which. One common model serves nobody well. Four models would, one for each
# angle. Clients can find out together: each trains the model that suits it best. But a model tells about
# those who trained it.
#
# **You need** notebook [00](00_start_here.ipynb) and gradient descent. All symbols stand in
# [one table](../docs/symbols.md).
#
# | who | with RR-Cluster and a trusted server | with sums only, under masks (section 10) |
# |---|---|---|
# | **client** | holds its examples, sees the $k$ models of each round | the same; the clients move the models |
# | **server** | holds the $k$ models; draws clients, sees the update and the choice of each | sees random words and the noise that it adds; holds no model, reads no sum |
# | **everybody else** | sees the models | sees nothing |
#
# The paper is that of Yang, Hu, Kim and Li (2025; see the references). Hidden is **one client** with all its
# data: exchange it for another one, and what others see hardly changes.

# %% tags=["settings"]
DATA = "digits"  # or "lines": 20 points of each client on one of four lines
SEED, K, CLIP, PARTITIONS = 4, 4, 0.3, 3  # ways to deal the digits to the clients
EPSILON, EPSILONS, DELTA = 4.0, (1.0, 2.0, 4.0, 8.0), 1e-5
N_CLIENTS, COHORT, N_ROUNDS = 1000, 100, 50

# %%
import matplotlib.pyplot as plt
import numpy as np

import studies
from fedclust_helpers import rr_cluster as rr
from studies.bench.plots import show, use_style
from studies.rr_cluster import figures as draw
from studies.rr_cluster import lesson

use_style()
check, stream, seeds = lesson.begin(globals())

# %% [markdown]
# ## 1. What is a cluster of models?
#
# Lloyd's algorithm has two steps. Each point chooses the nearest centre; each centre moves to the mean of
# those who chose it. Now let a client hold many examples, and let a centre be a *model*. Near means: small
# loss on the client's examples. Moving means: train a little, then average. That is **IFCA** (Ghosh et al.
# 2020), which the paper builds on. With one number per client and one full gradient step on the squared
# loss it is Lloyd's algorithm.
#
# We try it on four hundred clients with 20 points each, on one of four lines. A model is a line.
#
# **Predict.** Four models start below all data. How many of the four lines are found: four, two, or at most one?


# %% tags=["algorithm"]
def ifca_round(learner, models, batch, n_steps=5, rate=0.1):
    """Each client trains the model that fits it best; a model moves to their mean."""
    choice = learner.losses(models, batch).argmin(axis=1)
    how = {"n_steps": n_steps, "learning_rate": rate}
    trained = learner.train(models[choice], batch, **how)
    moved = models.copy()
    for j in np.unique(choice):
        moved[j] = trained[choice == j].mean(axis=0)
    return moved


# %%
runs, starts = {}, seeds("starts", 8)
for kind in lesson.KINDS:
    runs[kind] = [lesson.lines_run(ifca_round, kind, s) for s in starts]
    print(f"{kind}: lines found in eight runs", [n for n, _ in runs[kind]])

# %% tags=["hide-input"]
spread, below = ([n for n, _ in found] for found in runs.values())
check(lesson.is_lloyd(ifca_round, rng=stream("points")), "a full step on numbers is Lloyd's step")
check(max(below) < min(spread), f"from below at most {max(below)} lines are found, else more")
fig, axes = plt.subplots(2, 4, figsize=(9.2, 4.8))
draw.plot_ifca(axes, runs, (0, 1, 5, 40))
show(fig, "Models that start spread out end on the true lines; those below mostly stay")

# %% [markdown]
# Answer: one at most in these runs. Coloured lines are models; of each kind of start the figure shows a run
# that found most. Below, one or two models are nearest to everybody, so everybody trains these, and they stay
# nearest. The others are never chosen, so they never move. This is **collapse**. It comes from the start, not
# from noise: there is none here. Spread-out starts find two or four lines.
#
# **Take away.** Clustering models is Lloyd's idea. A model that nobody chooses never moves, unless noise moves it.

# %% [markdown]
# ## 2. Why are small clusters noisy?
#
# Now privacy. A trusted server adds up the updates of a cluster, each cut to length $C$, adds noise, and
# divides by the number $N$ of updates. If one client is exchanged and all others stay in their clusters, one
# update goes and another one comes: the sum moves by up to $2C$. The noise hides $2C$, whatever $N$ is.
#
# A **plan** says how much noise $\epsilon = 4$ takes over 50 rounds, in which a tenth of the clients is drawn. It
# computes the noise multiplier $\sigma$ from $\epsilon$, $\delta$, the rounds and the share that is drawn: the smallest
# for which the bound of section 6 (blue) takes half of the Rényi cost that $\epsilon$ allows. The other half is for
# the choices of clients (section 7).
#
# **Predict.** $C$ = 0.3, so no mean of updates is longer. How long is the noise in the mean of 12 updates: 0.1,
# 0.3, or more than 1?

# %%
lab = lesson.Runs(globals(), seeds)  # clients, and plans for them
federation, plan = lab.plan(rr.plan, n_clusters=K, min_size=COHORT // K)
std, p = plan.mechanisms[0][1].std, lab.problems[0].model.n_parameters
sizes = np.array([3, 6, 12, 25, 50, 100])
noise = stream("noise").normal(0, std, (6, 10, p))
lengths = np.linalg.norm(noise, axis=2) / sizes[:, None]
print(f"{p} parameters; noise on each: 2C × {std / (2 * CLIP):.2f} = {std:.2f}")
print(f"N = {sizes}: mean length {lengths.mean(1).round(1)}")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(5.8, 3.4))
draw.plot_noise_of_means(ax, sizes, lengths, std * np.sqrt(p) / sizes, bound=CLIP)
show(fig, "Noise in a mean falls as one over N and stays above the longest update")

# %% [markdown]
# Answer: more than 1, namely 3.4. The line is the formula $2C\sigma\sqrt p/N$, here $1.60\sqrt{650}/12$; dots
# are ten rounds each. $p$ is the number of parameters, and $\sigma$ = 2.66 the noise for each unit of what it
# hides. Half of the budget needs $\sqrt2$ times the noise of the whole. In one round the noise
# outweighs the longest update (dashed) in a cluster of any size. Training can still work, because updates of 50
# rounds point the same way and noises do not.
#
# **Take away.** Noise is divided by the members. So small clusters suffer most.

# %% [markdown]
# ## 3. What does RR-Cluster do about it?
#
# RR stands for *random rebalancing*. One round, in the paper's steps:
#
# 1. The server draws a **cohort** and sends it the models.
# 2. Each drawn client chooses a model, trains it, and sends its **update** (how far the parameters moved) and
#    its **identifier** (a vector of zeros with a one at the chosen model).
# 3. The server adds noise to every identifier. Its largest entry says in which cluster the update is put.
# 4. **Rebalancing:** clusters with fewer than $B$ updates get updates drawn at random from larger ones.
# 5. Updates are cut to $C$ and added up by cluster; each sum gets noise, is divided by its number of
#    updates, and moves its model.
#
# Without step 4 this is **DP-IFCA**. We change five things of the paper's algorithm:
#
# * An update is cut by its own length. The paper's line 11 has the length of the identifier, a misprint.
# * A larger cluster gives updates only while it has more than $B$. Otherwise it could end below $B$ itself.
# * Identifiers get noise for a change of $\sqrt2$, where the paper has 1 (section 7).
# * A cluster without updates keeps its model. The paper divides by their number, which is 0.
# * Clients take five gradient steps on all their examples.
#
# **Predict.** At $\epsilon = 4$ and $B$ = 25, which step puts more clients into a cluster that they did not choose:
# noise, rebalancing, or both alike?


# %% tags=["algorithm"]
def choose_and_train(learner, models, batch, clip):
    """What drawn clients send: an update, cut to length clip, and their choice."""
    choice = learner.losses(models, batch).argmin(axis=1)
    trained = learner.train(models[choice], batch, n_steps=5, learning_rate=0.3)
    updates = trained - models[choice]
    lengths = np.linalg.norm(updates, axis=1, keepdims=True)
    return updates / np.maximum(1, lengths / clip), choice


def rebalanced(clusters, k, b, coins):
    """Fill clusters up to b members by others, drawn by public coins."""
    sizes, clusters = np.bincount(clusters, minlength=k), clusters.copy()
    short = np.repeat(np.arange(k), np.maximum(b - sizes, 0)).tolist()
    givers = np.flatnonzero(sizes[clusters] >= b)
    for i in coins.permutation(givers) if short else ():
        if short and sizes[clusters[i]] > b:
            sizes[clusters[i]] -= 1
            clusters[i] = short.pop(0)
    return clusters


# %% tags=["algorithm"]
def rr_round(learner, models, batch, b, clip, stds, noise, coins):
    """One round; stds are those of the noise on identifiers and on sums."""
    updates, choice = choose_and_train(learner, models, batch, clip)
    identifiers, k = np.eye(len(models))[choice], len(models)
    identifiers += noise.normal(0, stds[0], identifiers.shape)
    noised = identifiers.argmax(axis=1)
    clusters = rebalanced(noised, k, b, coins)
    member = clusters == np.arange(k)[:, None]
    sums = member @ updates + noise.normal(0, stds[1], models.shape)
    step = sums / np.maximum(member.sum(axis=1), 1)[:, None]
    return models + step * member.any(axis=1)[:, None], (choice, noised, clusters)


# %%
models, history, put = lesson.follow(rr_round, lab, plan, K)  # 50 rounds
means = np.sort(np.mean(history, axis=0))[:, ::-1].round()
print("sizes: chosen {}, noised {}, rebalanced {}".format(*means))
print("put elsewhere by noise {:.1f}, by rebalancing {:.1f}".format(*put))

# %% tags=["hide-input"]
package = rr.run(federation, plan)
check(np.allclose(models, package.models), "the page and the package train the same models")
check(package.epsilon <= EPSILON, "the ledger's total is ε at most")
fig, axes = plt.subplots(1, 3, figsize=(9.4, 3.0), sharey=True)
draw.plot_sizes(axes, history, COHORT // K)
show(fig, "Sizes of four clusters by round: as chosen, after noise, after rebalancing")

# %% [markdown]
# Answer: noise, by far: 67.5 of 100 clients in a round, against 7.4 by rebalancing. Left: clients choose very
# different models, and the largest cluster has on average 35 of them, the smallest 10. Middle: noise deals them
# out nearly evenly, 27 to 23. Right: rebalancing to $B$ = 25, an equal share, makes all sizes equal.
#
# **Take away.** Two things leave a client, its choice and its update, and both need noise.

# %% [markdown]
# ## 4. What does moving clients do?
#
# First without noise, on the four lines of section 1. Rebalancing hands clients to models that nobody chose.
# An update says how far the model that the client *chose* has moved. It is added to another model.
#
# **Predict.** Where does filling up to $B$ = 15 of 100 clients clearly help: from starts below
# all data, from spread-out starts, or from both?

# %%
woken, starts = {}, seeds("woken", 20)
for kind in lesson.KINDS:
    for b in (0, 15):
        found = woken[kind, b] = lesson.lines_woken(rr_round, kind, b, starts)
        print(f"{kind}, B = {b}: four lines in {found.count(4)} of 20 runs")
far = studies.load_results("rr_lines").query("init == 'normal5'")
for name, n in far.groupby("method")["all_found"]:
    print(f"scattered widely, {name}: {min(n)} to {max(n)} of 20 runs")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.0, 2.6))
draw.plot_woken(ax, woken)
show(fig, "Lines found without and with rebalancing, for two kinds of starts")

# %% [markdown]
# Answer: clearly from below. There no run of 20 finds four lines without rebalancing, and 19 do with it.
# Clients that are handed over drag idle models to the data, and there they can be chosen. From spread-out
# starts it is 17 and 20; three runs more can be chance.
#
# From starts scattered five times as widely it hardly helps: in four settings of the table
# [rr_lines](../data/results/rr_lines.csv) 0 to 3 of 20 runs find four lines without rebalancing (`ifca`), 0 to 4 with it
# (`rr_ifca`, $B$ = 4 to 25), and 16 to 20 with re-seeding (section 9).
#
# What does it cost? The paper's analysis expects a bias: a moved client pulls a model towards the wrong group.
# But its update belongs to the model that it *chose*. Near the optimum such updates average to nothing, wherever
# they are put. So they bring no bias and only enlarge the divisor of the mean (*Going further* has both cases).
#
# **Take away.** Rebalancing wakes models that start on the wrong side. It does not tell who belongs together.

# %% [markdown]
# ## 5. Whose neighbour, and who was drawn?
#
# Two choices hide in one $\epsilon$.
#
# * **Relation.** *Replace-one:* a client is exchanged for another one, and a sum moves by $2C$. *Add/remove:* a
#   client is there or not, and a sum moves by $C$.
# * **Sampling.** *Fixed size:* exactly 100 clients are drawn, which goes with replace-one: if a client leaves,
#   somebody else is drawn. *Poisson:* each client joins with probability $q$, which goes with add/remove.
#
# Those who see the models are not told who was drawn. That **amplifies** privacy against them, because most of the time
# the client in question was not there. The server draws, so it gains nothing against the server, which is trusted here.
# The paper defines add/remove, and quotes a theorem for cohorts of fixed size.
#
# **Predict.** The same sums, the same $\epsilon$, 50 rounds. By which factor does the noise differ between the
# two promises: 1, 2, or more?

# %%
from studies.rr_cluster import accountants as acc

who, epsilons = {"n_clients": N_CLIENTS, "cohort": COHORT}, sorted({*EPSILONS, EPSILON})
how = who | {"delta": DELTA, "n_rounds": N_ROUNDS}
print("noise for replace-one and fixed size, for add/remove and Poisson:")
for e in epsilons:
    replace = 2 * acc.calibrate(e, accountant="wor_rdp", **how)
    remove = acc.calibrate(e, accountant="poisson_rdp", **how)
    print(f"ε = {e:g}: {replace:.1f} C, {remove:.1f} C, factor {replace / remove:.1f}")

# %% [markdown]
# Answer: more, 2.7 to 3.8 times. A factor of 2 is the relation; the rest is sampling, and how well it can be
# bounded. Numbers of $\epsilon$ under the two promises must not be compared. We take replace-one: section 8 shows a case
# where one client that leaves moves the sums of RR-Cluster by more than $2C$.
#
# **Take away.** Equal $\epsilon$ is not equal protection. Compare methods under one relation only.

# %% [markdown]
# ## 6. What do the rounds cost? (theory check)
#
# Theorem 4.2 bounds what $T$ rounds with noise $\sigma$ cost when a share $q$ of the clients is drawn. With
# probability $q$ the client in question was drawn, so two neighbouring outputs differ in a part $q$ only. It
# bounds Rényi divergences of each order $\nu$ by $T/(\nu-1)\,\log(1 + b_2 + \dots + b_\nu)$, where $b_j$ is
# about $2\,(q\nu)^j e^{j(j-1)/2\sigma^2}/j!$ from $j = 3$ on, and $b_2$ goes to 0 as $\sigma$ grows. Adding
# $\log(1/\delta)/(\nu-1)$ makes an $\epsilon$ of it, and the best order counts.
#
# **Predict.** Let the noise grow without end. Does the $\epsilon$ of this bound go to 0?

# %%
for delta in (1e-3, DELTA):
    for rounds in (2 * N_ROUNDS, N_ROUNDS):
        how = {"delta": delta, "n_rounds": rounds, **who}
        floor = acc.certified_epsilon(np.inf, accountant="paper", **how)
        print(f"δ = {delta:g}, {rounds} rounds: ε is at least {floor:.2f}")
for order in (2, 5, 8, 11):  # infinite noise: bound and log(1/δ)/(ν-1)
    bound = N_ROUNDS * acc.theorem_4_2_rdp(order, np.inf, COHORT / N_CLIENTS)
    print(f"order {order}: {bound:.2f} + {-np.log(DELTA) / (order - 1):.2f}")

# %% tags=["hide-input"]
check(floor > 2, "with infinite noise the printed bound still says more than ε = 2")
grid, names = np.geomspace(0.9, 24, 6), ("paper", "wor_rdp")
costs = {n: [acc.certified_epsilon(s, accountant=n, **how) for s in grid] for n in names}
fig, ax = plt.subplots(figsize=(5.8, 3.8))
draw.plot_accountants(ax, grid, costs, floor, n_rounds=N_ROUNDS)
show(fig, "Epsilon against noise: the printed bound levels off at its floor")

# %% [markdown]
# Answer: no. Each line is one way to count the same 50 rounds under one promise, replace-one and fixed size.
# With infinite noise the printed bound (red) still says 2.50, because the factor 2 in $b_3$ does not shrink. In
# the theorem that the paper quotes this factor is the smaller of 2 and a term in the largest privacy loss,
# which is infinite for Gaussian noise. Order 2 has no $b_3$, but there $\log(1/\delta)/(\nu-1)$ alone is 11.5.
# Higher orders pay less of that and more for $b_3$ and its successors; order 8 is best, with 0.86 + 1.64. The
# library bounds the Gaussian case by itself (blue), and its line has no floor.
#
# At the paper's $\delta$ of 0.001 the floor is lower, 1.77 after 50 rounds and 2.23 after 100. But 0.001 is
# $1/M$ for $M$ = 1000 clients: a mechanism that publishes all data of each client with probability $\delta$
# would expose one client on average. So all runs here have $\delta = 10^{-5}$.
#
# **Verdict: the bound holds, and is loose.** It can certify $\epsilon$ = 2 for 50 rounds at $\delta$ = 0.001,
# but neither for 100 rounds nor at $\delta = 10^{-5}$.
#
# **Take away.** A valid bound can be too loose to use: look at what it says when the noise is infinite.

# %% [markdown]
# ## 7. How often is the noised choice right?
#
# To rebalance, the server must know who is in which cluster. So identifiers get noise, for the other half of the budget.
# Noise for which change? If a client is exchanged, a 1 moves to another place: two entries change, by $\sqrt2$ together.
# If a client leaves, one entry changes, by 1, and this is what the paper has. **But under add/remove the $2C$ for the
# sums is wrong (section 8), and under replace-one the 1 for identifiers.** We take replace-one, $2C$ and $\sqrt2$.
#
# The largest of $k$ noised entries is the true one with probability
# $E[\Phi(1/s + Z)^{k-1}]$, one integral; $s$ is the noise, $Z$ is standard normal, $\Phi$ its distribution.
#
# **Predict.** At $\epsilon = 4$, $k = 4$: which share of identifiers comes out wrong: 5 %, a third, or two thirds? (A
# blind guess: 75 %.)

# %%
from studies.rr_cluster.theory import argmax_accuracy

simulated = {}
for e in epsilons:
    std = lab.plan(rr.plan, n_clusters=K, epsilon=e)[1].mechanisms[0][0].std
    noisy = np.eye(K)[0] + stream("argmax").normal(0, std, (20_000, K))
    simulated[std] = np.mean(noisy.argmax(axis=1) == 0)
    wrong = 1 - simulated[std], 1 - argmax_accuracy(std, K)
    print("ε = {:g}: noise {:.1f}, wrong {:.0%}, integral {:.0%}".format(e, std, *wrong))

# %% tags=["hide-input"]
worst = max(abs(share - argmax_accuracy(s, K)) for s, share in simulated.items())
check(worst < 0.015, "simulation and integral agree within 1.5 points")
fig, ax = plt.subplots(figsize=(5.8, 3.4))
draw.plot_identifiers(ax, lambda s: argmax_accuracy(s, K), simulated, K)
show(fig, "Probability of a right identifier by noise, with the simulated shares")

# %% [markdown]
# Answer: two thirds, 68 %. From $\epsilon$ = 1 to 8 it is 73 to 63 %. Simulation and integral agree, so this is
# arithmetic, and no matter of data. (Section 5 has the same 3.8 for the whole budget and a change of 2.
# Here it is $\sqrt2\cdot2.66$: half of the budget needs $\sqrt2$ times the noise, for a change of $\sqrt2$.)
#
# **Take away.** Half of the budget buys answers that are mostly wrong.

# %% [markdown]
# ## 8. How far does one client reach, and is anybody moved?
#
# The paper takes add/remove and says (Appendix A.2) that all sums together change by $2C$ at most. The smallest case:
# two clusters, $B$ = 2. Cluster 1 has A and another client, both with update $+C$. Cluster 2 has
# three clients with $-C$. Now A leaves, and cluster 1 takes one from cluster 2.
#
# What if A is exchanged instead, and the noised choices count as released? Then these and the public coins alone
# decide who is put where. So nobody else moves, and one sum changes, by $2C$.
#
# **Predict.** By how much do both sums change when A leaves? And with noised choices, from which $B$ on is
# anybody moved at all: 4, 8, 12, 16 or 25, an equal share?

# %%
with_a, without = [[1, 1], [-1, -1, -1]], [[1, -1], [-1, -1]]
change = [sum(a) - sum(b) for a, b in zip(with_a, without, strict=True)]
print(f"sums change by {change} C, together by {np.linalg.norm(change):.2f} C")
sizes = [b for b in (0, 4, 8, 12, 16) if b * K <= COHORT] + [COHORT // K]
moved, same = lesson.moved_by(lab, sizes, n_clusters=K, epsilon=max(epsilons))
print("moved in a round, by B:", {b: round(m, 2) for b, m in moved.items()})
print("models equal in every bit to those without rebalancing: B =", same)

# %% tags=["hide-input"]
fig, axes = plt.subplots(1, 2, figsize=(8.4, 3.4))
draw.plot_counter_example(axes, {"With A: nothing moved": with_a, "Without A: one moved": without})
show(fig, "Client A leaves, an update is moved: both sums of arrows change")

# %% tags=["hide-input"]
from studies.rr_cluster import widget as play

toy, short = lesson.federated("digits", 200, rng=stream("toy")), {"cohort": 40, "n_rounds": 20}
fig, axes = plt.subplots(1, 2, figsize=(7.4, 3.5))
play.stills(axes, toy, seed=SEED, **short)
show(fig, "One small run with B = 8: share of wrong identifiers and cluster sizes")

# %% tags=["widget", "nbval-ignore-output"]
_ = play.explore(toy, sizes=(0, 4, 8, 10), epsilons=(4.0, 16.0, 64.0), seed=SEED, **short)

# %% [markdown]
# Answer: by $\sqrt5\,C$, 2.24 and not 2. The appendix considers this case and takes the larger change, with the
# words "we privatize each cluster model separately". But both sums are published. With more clusters the change
# can be larger. So we exchange clients, and count the noised choices as released.
#
# Is anybody moved? From $B$ = 16 on: one client in five rounds, and at $B$ = 25 eight in a round. At $\epsilon$ = 8, where choices are least noisy, nobody is moved up to $B$ =
# 12: RR-Cluster is DP-IFCA there, equal in every bit. The paper searches 4, 8 and 12. On FashionMNIST, also
# with 100 drawn, $B$ = 12 moves one client in 40 rounds.
#
# In the second picture 40 of 200 clients are drawn, $\epsilon$ is 16, and $B$ = 8 moves about two of them in a
# round. Move $B$ and $\epsilon$: from which $B$ on is anybody moved?
#
# **Take away.** At these $\epsilon$ noise leaves no cluster small, so a small $B$ has nothing left to move.

# %% [markdown]
# ## 9. Sums only: what if choices are not released?
#
# Identifiers cost half of the budget and come out wrong. They are needed for rebalancing, which then moves
# hardly anybody at the paper's $B$. So **do not release them.** Each drawn client fills a table with one row
# for each model: its cut update in the row that it chose, and a count, $C$. All tables are added up, also under
# masks, and everything gets noise, also rows that nobody chose. If one client is exchanged, either one row
# moves by $2C$, or two rows and their counts move by $C$ each: together $2C$ as well. So counts are free. A
# noised count may be near 0 or negative. So the divisor is at least $b$, a third of an equal share.
#
# Counts also show which models are dead. **Re-seeding** overwrites a model whose mean count over three rounds
# is below a tenth of an equal share: the largest model is split into two copies, which a small random step
# parts. That reads released numbers only, so it is free.
#
# **Predict.** From which $\epsilon$ on do sums beat one common model (DP-FedAvg): 1, 2, or 8?


# %% tags=["algorithm"]
def sums_round(learner, models, batch, b, clip, std, noise):
    """One round without identifiers: one noised table of sums and counts."""
    updates, choice = choose_and_train(learner, models, batch, clip)
    rows = np.column_stack([updates, np.full(len(updates), clip)])
    table = np.eye(len(models))[choice].T @ rows
    table += noise.normal(0, std, table.shape)  # all that leaves the sum
    return models + table[:, :-1] / np.maximum(table[:, -1:] / clip, b)


# %%
scores = lab.compare(("fedavg", "rr_ifca", "sums_ifca", "sums_ifca_reseed"), epsilons, K)
for name, by_epsilon in scores.items():
    print(f"{name:17}", {e: round(float(values.mean()), 2) for e, values in by_epsilon.items()})
alone = lab.alone()
table = studies.load_results("rr_reseeding").query("below == 0.1")["gain_mean"]
print(f"alone: {alone:.2f}; re-seeding gains {table.min():.3f} to {table.max():.3f} in the table")

# %% tags=["hide-input"]
alike = lesson.is_sums_only(sums_round, lab, K)
check(alike, "a round of the page and of the package move models alike")
fig, ax = plt.subplots(figsize=(6.2, 3.8))
draw.plot_comparison(ax, scores, alone)
show(fig, "Accuracy by epsilon for four methods and for each client alone")

# %% [markdown]
# Answer: from $\epsilon$ = 1 on in the mean, 0.44 against 0.41, less than partitions differ; by far from 2 on.
# (Means of three partitions; faint marks are single ones.) At $\epsilon$ = 4 sums only reaches 0.81 without and
# 0.86 with re-seeding, one common model 0.53, and RR-Cluster with $B$ = 12, which is DP-IFCA (section 8), 0.36.
# Re-seeding helps at every $\epsilon$ here, in the mean. On FashionMNIST
# ([rr_reseeding](../data/results/rr_reseeding.csv), $k$ = 2 to 8, mostly add/remove) its gain lies between
# -0.002 and 0.041, so both are shown. A client that trains alone has 0.62: sums only beat it from $\epsilon$ =
# 2 on, the other two at no $\epsilon$ here.
#
# One word on fairness. All methods have one relation, one $\delta$, one $C$ and one number of rounds. A race with clips
# tuned for each of them, and re-seeding on and off, stands at the end (*Is the comparison fair?*).
#
# **Take away.** Release less: sums only, and the whole budget for them.

# %% [markdown]
# ## 10. Is it worth taking part?
#
# At $\epsilon = 1$ a tenth of the clients in each round is not enough. So let **everybody** take part in every
# round. Then nothing is amplified, but the cost of $T$ Gaussian rounds is known exactly (the curve of notebook
# 00 with $\mu = \sqrt T/\sigma$). Sums travel masked; clients unmask them and move the models. The server sees
# random words. It adds the noise, so no model may ever reach it: it would subtract its noise and read the exact
# sums. To publish models, let the clients add the noise, in shares (01).
#
# **Predict.** At $\epsilon = 1$, does it pay to take part, compared with training alone?

# %%
everybody = {"cohort": N_CLIENTS, "n_rounds": 30, "n_clusters": K}
for reseed in (False, True):
    joined = lab.scores(rr.plan_sums_only, epsilon=epsilons[0], reseed=reseed, **everybody)
    print(f"ε = {epsilons[0]:g}, re-seeding {reseed}: {joined.mean():.2f}; alone {alone:.2f}")
for n in (N_CLIENTS // 2, 8 * N_CLIENTS // 10):
    few = lesson.Runs(globals(), seeds, N_CLIENTS=n, COHORT=n)
    found = few.scores(rr.plan_sums_only, **everybody | {"cohort": n, "epsilon": epsilons[0]})
    print(f"{n} clients: {found.mean():.2f}; alone {few.alone():.2f}")
fed, secure_plan = lab.plan(rr.plan_sums_only, trust="masked", mode="secure", **everybody)
secure, (taught, score) = rr.run(fed, secure_plan), lab.train(rr.plan_sums_only, **everybody)
print(f"ε = {EPSILON:g}, teaching: {score.accuracy:.2f}\n{secure_plan}")

# %% tags=["hide-input"]
paid = secure.private and secure.epsilon <= EPSILON
check(paid, "the secure run has no seed and costs ε at most")
check(joined.min() > alone, f"ε = {epsilons[0]:g}: each partition gains over training alone")
fig, axes = plt.subplots(1, K, figsize=(2.2 * K, 2.6), squeeze=False)
draw.plot_threes(axes, taught.models, score, lab.problems[0].made)
show(fig, "Weights of each model for a three, and how many clients of which group chose it")

# %% [markdown]
# Answer: yes. At $\epsilon$ = 1, with everybody in every round, it is better than training alone, and re-seeding
# helps here too: its counts are less noisy. With 800 clients it is still better (0.72 against 0.61), with 500
# worse. The plan above is that of the secure run. Its models differ in every run,
# so the page shows a teaching run at $\epsilon$ = 4. The pictures are the weights of a "3" in each model (orange:
# ink counts for it); on 8 by 8 pixels they show no digit to the eye. Below each stands
# how many clients chose it, and from which group most of them come.
#
# RR-Cluster can do without a trusted server too, if everybody takes part: each client noises its own identifier, and
# the sums are masked (`trust="masked"`; the proof stands in `rr.plan`). The noise, and so the accuracy, is the same.
#
# Each client sends $k(p+1)$ numbers in each of 30 rounds, and gets as many back: 1.2 MB together. **Do not use
# it** if groups hold a tenth of the clients or less (exercise 3), with 500 clients or fewer at
# $\epsilon$ = 1, with models of millions of parameters, or if you want $\epsilon$ far below 1. Judge the models
# on data of clients who agreed to that.
#
# **Take away.** Everybody, sums only, masked: then it pays to take part from $\epsilon = 1$ on.

# %% [markdown]
# ## Try it
#
# 1. *(5 minutes)* Six models, 100 clients a round, and you hope for a group that holds 6 % of the clients. Which
#    thresholds of re-seeding, as a share of an equal share, call its model dead on average, without noise?
# 2. *(5 minutes)* Sums only under replace-one, a count of $w$ in place of $C$. For which $w$ are counts free, and
#    how much more noise does everything need at $w = 2C$?
# 3. *(10 minutes)* A true group holds 5 % of the clients. Does it get a model of its own at $\epsilon = 4$? Deal the
#    clients with `lesson.federated(..., weights=...)` and look at the accuracy in the group.

# %% tags=["solution"]
print(f"1: an equal share is {100 / 6:.1f} clients, the group sends 6 a round:")
print(f"   thresholds above {6 / (100 / 6):.2f}; noise and the draw blur that")

# %% tags=["solution"]
for w in (0.5, 1, 2):  # one row moves by 2 C, or two with their counts
    change = max(2, np.sqrt(2 + 2 * w**2))
    print(f"2: w = {w} C: {change:.2f} C, so {change / 2:.2f} times the noise")
print("   free up to w = C")

# %% tags=["solution"]
for share in (0.25, 0.10, 0.05):
    weights = [(1 - share) / 3] * 3 + [share]
    made = lesson.federated(DATA, N_CLIENTS, rng=stream("small"), weights=weights)
    dealt = lesson.problem(made)
    found = lab.train(rr.plan_sums_only, problem=dealt, n_clusters=K)[1]
    inside = found.per_client[dealt.made.groups == 3].mean()
    print(f"3: a group of {share:.0%}: accuracy {inside:.2f}, of all {found.accuracy:.2f}")

# %% [markdown]
# ## What the paper says, and what we found

# %% tags=["hide-input"]
rows = "R2", "R.alg2", "R4", "R3", "R6", "R8", "R15", "R.same", "R.table1.rr"
studies.end_table(*rows)

# %% [markdown]
# The verdicts: *reproduced*: our numbers agree. *In shape*: they agree in some of the cases; the second column
# says where, in brackets. *Undecided*: ties, or a text with two readings that differ. *Refuted*: arithmetic says otherwise;
# in brackets whether it is a misprint, or of substance. Rows marked (ours) are no claims of the paper. No
# accuracy table of the paper is reproduced or refuted here, because pixels, networks, rounds and learning rates
# are not the paper's. Theorem 4.10 on convergence, and every row with its check:
# [claims](../data/results/claims.md).
#
# ## Going further
#
# **Is the comparison fair?** *(4 minutes)* The next cell shows a race (table
# [rr_race](../data/results/rr_race.csv), with intervals): FashionMNIST, 1000 clients of 60 images, replace-one,
# $\epsilon = 1$, $\delta = 10^{-5}$, clips from 0.001 to 1 tuned for each method on another partition. `gain_mean` is over
# each client alone. Methods with several models stand without and with re-seeding; RR-Cluster and DP-FeSEM re-seed by what
# their noised identifiers say of the sizes. Which of the two before the run? A public rule says it (`rule` is 1: re-seed):
# yes where noise alone makes a model with an equal share look dead in less than one of 1000 windows of three rounds. It
# needs $\epsilon$, $\delta$, the rounds, $M$, $q$ and $k$, and no data. In `fedper` and `fesem` a client keeps something
# from round to round. With everybody they pay the exact curve, like all others; in `fedper_fresh` clients forget, so
# that sampling amplifies. `sketched_start` and `mixture_start` are ours, after the ideas of two other papers (PINA,
# R-DPCFL). In `sums_work` clients take 20 steps. In `sums_mixed` a client mixes 0.3 of its own model into the released
# one, for itself alone, which costs no privacy: the best row. *Not covered:* the paper's networks.

# %%
race = studies.load_results("rr_race").query("delta < 0.001")
rows = race.query("epsilon == 1").set_index(["method", "who", "B", "reseed"])
rows[["acc_mean", "gain_mean", "rule"]].round(3)

# %% [markdown]
# And with a smaller or a larger $\epsilon$? Accuracy, with re-seeding where a method has several models.

# %%
alone = race.query("method == 'alone'")["acc_mean"].item()
print(f"each client alone, at every ε: {alone:.3f}")
by = race.query("reseed != 'off' and epsilon > 0")
by = by.pivot(index=["method", "who"], columns="epsilon", values="acc_mean")
by.sort_values(8.0, ascending=False).round(3)

# %% [markdown]
# **Read the table.** At 0.5 no released model is as good as a client's own, and mixing the two is barely above it. At
# 8 the released models are so good that mixing loses, and longer local work gains two points. RR-Cluster with everybody
# stays behind each client alone even there, and 13 points or more behind sums only at every $\epsilon$.
#
# **Should I join?** *(2 minutes)* Your prediction needs neither model alone: `RRCluster(usual_rows=60)` mixes the released
# one with your own, on your machine, and releases nothing more. How much of the released one? That depends on public
# numbers: the noise of a round against the clip, the rounds, the parameters, and how many clients share a model
# (`rr_cluster.released_weight`); and on your rows: with ten times as many you need the others less. The next cell shows,
# for ten partitions that chose nothing (table [rr_mixed](../data/results/rr_mixed.csv)), each part alone, the mixture,
# and the best weight that anybody could have taken.

# %%
columns = ["alone", "released", "mixed", "validated", "best", "weight"]
studies.load_results("rr_mixed").set_index(["epsilon", "work"])[columns].round(3)

# %% [markdown]
# **Does moving clients bring a bias?** *(2 minutes)* Two groups of 90 and 10 clients whose models are means: the
# squared error of the small group's model after 20 rounds at noise 1, with updates as Equation 22 has them
# (*inserted*: relative to the model that the client goes to) and as Algorithm 2 sends them (*trained*). `bias2` is
# the squared bias. Only inserted updates have one, and it grows with $B$; trained ones have the larger variance.

# %%
error = studies.load_results("rr_rebalancing").query("sigma_theta == 1 and B > 10")
values = ["bias2", "variance"]
error.pivot(index="B", columns="reference", values=values).round(2) + 0.0

# %% [markdown]
# **An audit of sums only.** *(3 minutes)* Twelve clients; one pulls a model up as hard as it can, or down. An attacker
# sees 600 releases of each and says which is which. How often it is right gives a lower bound on $\mu$ (notebook 01).
# An *alarm* is a bound above 1, which is claimed. The second line has half of the noise, so that $\mu$ = 2 is true.

# %%
from studies.rr_cluster import live

canaries = seeds("canary", 5)
for factor in (1.0, 0.5):
    found = [live.audited_sums(factor, rng=np.random.default_rng(s)) for s in canaries]
    bounds = [round(float(one.mu_lower_bound), 2) for one in found]
    alarms = sum(one.mu_alarm for one in found)
    print(f"noise times {factor:g}: mu at least {bounds}, alarms {alarms} of 5")

# %% [markdown]
# With the right noise the bound is 0.49 to 0.68, and no alarm sounds. That does not prove that 1 is right: it
# shows that this attack finds no more. With half of the noise all five audits raise the alarm, so the attack is
# strong enough to notice an error of that size.
#
# ## Check yourself
#
# <details><summary>1. Why does a model that nobody chooses stay as it is, and is noise to blame?</summary>
#
# Only those who choose a model train it. It comes from the start: all clients prefer the same one or two (section 1).
#
# </details>
#
# <details><summary>2. By how much does noise in a model grow if its cluster is four times smaller?</summary>
#
# Four times: the noise on a sum is fixed, and the mean divides it by the number of updates (section 2).
#
# </details>
#
# <details><summary>3. Which two things leave a client in RR-Cluster, and how much do they move?</summary>
#
# Its identifier, by $\sqrt2$, and its update, by $2C$, when the client is exchanged (section 2, and section 7).
#
# </details>
#
# <details><summary>4. Why does a small B move nobody in a private run?</summary>
#
# The noise on identifiers deals clients out nearly evenly, so at small ε no cluster is small (section 8).
#
# </details>
#
# <details><summary>5. What does sums only release, and why are counts free?</summary>
#
# One noised table of sums and counts. An exchanged client moves one row by $2C$, or two rows and two counts by $C$
# each, which together is $2C$ as well (section 9).
#
# </details>
#
# ## References
#
# * X. Yang, S. Hu, S. Kim, T. Li. *Differentially Private Federated Clustering with Random Rebalancing.* 2025
#   (arXiv 2508.06183).
# * A. Ghosh, J. Chung, D. Yin, K. Ramchandran. *An Efficient Framework for Clustered Federated Learning.* NeurIPS
#   2020. (IFCA.)
# * Y.-X. Wang, B. Balle, S. Kasiviswanathan. *Subsampled Rényi Differential Privacy and Analytical Moments
#   Accountant.* AISTATS 2019. (The theorem behind Theorem 4.2.)
# * H. B. McMahan, D. Ramage, K. Talwar, L. Zhang. *Learning Differentially Private Recurrent Language Models.* ICLR
#   2018. (DP-FedAvg.)
# * J. Dong, A. Roth, W. Su. *Gaussian Differential Privacy.* JRSS B 2022. (The exact curve.)
