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
# # Your own data: from a table to centres that you may publish
#
# *30 minutes; exercises 15 more.* Ten lines lead from a CSV file to centres with a privacy statement, and
# nearly all that you have to decide is decided without spending anything.
#
# **You need** the words of notebook [00](00_start_here.ipynb): ε, δ, bounds, ledger. The letters are
# those of the [table of symbols](../docs/symbols.md).
#
# Who holds and sees what under masks, the default:
#
# | who | holds | sees |
# |---|---|---|
# | **a clinic** | its own rows and labels | noised sums |
# | **the server** | nothing | random words, then what the clinics publish |
# | **a reader of the result** | what the clinics publish | centres and statement |

# %%
import pandas as pd
from IPython.display import display

from fedclust import PrivateKMeans, from_copies, load, private_summary
from fedclust_helpers.accounting import Budget, PrivacyLedger
from studies.bench.plots import plt, show, use_style
from studies.own_data import experiments, figures, lesson

# %% tags=["settings"]
SEED = 6
DATA = "visits"  # or "tumours"
EPSILON, DELTA = 1.0, 1e-6  # of one fit
K, N, M = 4, 6000, 5  # groups, visits, clinics

# %%
check, stream, _ = lesson.begin(globals())
use_style()
files = lesson.written(made := lesson.data(DATA, N, M, rng=stream("visits")))

# %% [markdown]
# ## 1. What do ten lines buy?
#
# Five clinics keep a table of visits. They want groups of visits, and may not pool the rows. Two CSV
# files are all we need. One is private: the visits, each with its clinic (made up here, so that we may
# look). The other is public, and is printed whole: between which limits each column lies, known from the
# protocol of the measurement and not from the rows. The limits also set the weight of a column: each is
# scaled so that they become −1 and 1, and the noise is made for that width.

# %%
print(*files.rows.read_text().splitlines()[:3], "...", sep="\n")
print("\n" + files.bounds.read_text())

# %% [markdown]
# A *budget* goes on the ledger first, here that of three fits.
#
# **Predict.** `preview` reads the table and makes the whole statement of what a fit would release. How
# much of the budget does it cost: nothing, a third, or a little?

# %%
table = pd.read_csv(files.rows)
ledger = PrivacyLedger(budget=Budget(3 * EPSILON, 3 * DELTA))
free = {"mode": "teaching", "seed": SEED}
ask = {"n_clusters": K, "epsilon": EPSILON, "delta": DELTA} | free
model = PrivateKMeans(**ask, bounds=files.bounds, ledger=ledger)
model.preview(table, clients="clinic")  # section 4 shows it
check(ledger.remaining == 1, "after the preview all of the budget is left")
model.fit(table, clients="clinic").save(files.model)
print(model.cluster_centers_.round(1), f"left: {ledger.remaining:.0%}")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.6, 3.6))
_ = figures.map_of(ax, made, model.cluster_centers_)
show(fig, "Visits by age and blood pressure in grey, and a released centre in each group")

# %% [markdown]
# Answer: nothing. A preview uses public numbers only: the columns, their bounds, the clinics, and how
# many rows there are (say it, rounded if you like; it is not hidden). **Read the figure.** The centres
# are in years and mmHg, and lie where the groups are. From a run in secure mode they may be published.
# The grey dots may not: we can draw them here because we made them.
#
# `PrivateKMeans` chose its method, over-clustered sums under masks, from what it may know beforehand
# (`method="auto"`; the statement says why). `mode="teaching"` and `seed` are here so that this page stays
# as it is; whoever reads the seed can remove the noise. Leave both out, and noise and keys come from the
# operating system: secure mode is the default.
#
# One process has played all five clinics, so it holds all rows. The command `fedclust fit --config
# fit.toml` does the same from files. Clinics that keep their rows, each on its own machine, run
# `fedclust study`, `fedclust room` and `fedclust run`: [from notebook to
# deployment](../docs/deployment.md).
#
# **Take away.** Preview first, then fit: the statement is known before anything is spent.
#
# ## 2. Whom must you trust, and which k and ε?
#
# All of this can be rehearsed on data that cost nothing: public rows of the same kind, or groups made up
# between the public bounds, as here. A **rehearsal**, `model.rehearse(rows, n_rows=6000)`, runs the plan
# on them and compares with a run without noise. Four kinds of trust, and what you must believe:
#
# * **masked**: clinics send sums under random masks that cancel in the total, and each adds a share of
#   the noise. Believe that all clinics follow the protocol, that no clinic joins the server, and no two
#   pool what they know.
# * **serverless**: clinics exchange shares of their sums. Believe that all follow the protocol, and no two
#   pool what they know.
# * **trusted**: the server gets every clinic's exact sums, and adds the noise. Believe that it keeps the
#   sums to itself.
# * **local**: every visit is noised before it leaves (the sketch of [03](03_locally_private_kmeans.ipynb)).
#   Believe your own device.
#
# **Predict.** How much more than without noise does the masked row cost: 1 %, 20 %, or double? And the
# local row?

# %%
like = lesson.lookalike(files.bounds, K, rng=stream("lookalike"))
size = {"n_rows": N, "n_clients": M, "repeats": 3, "seed": SEED}
given = ask | {"bounds": files.bounds}
display(cost := experiments.decide(given, table, like, **size))
display(experiments.nearby(given, like, **size))
check(cost["cost / no noise"]["masked"] < 1.1, "masks cost less than 10 %")

# %% [markdown]
# Answer: no more than 1 %, and the local row more than half as much again. **Read the tables.** In the
# first, `cost / no noise` is the mean squared distance to the nearest centre over that of a run without
# noise, and *kB of all* are the thousands of bytes that all clients send and receive. Masks cost bytes,
# not accuracy. Not to trust anybody costs accuracy, because every visit brings noise of its own.
#
# The second turns one dial at a time. Look at `ratio` for ε: where it is 1, more budget buys nothing; at
# a hundredth of ε the groups are lost, and `too_few_rows` says that the plan had warned beforehand. Look
# at `nicv`, the mean squared distance, for k: where one more cluster hardly lowers it, stop. (Our made-up
# rows have four groups because we put four in. About k ask public rows, or let `n_clusters="auto"` choose
# it from what the fit releases anyway.)
#
# **Take away.** Decide trust, k and ε on data that cost nothing.
#
# ## 3. Which bounds, if there are thirty columns?
#
# Bounds may not be read off the rows: the largest value of a column is one person's record. Start from
# the data dictionary. Write down the limits that follow from the measurement; too wide is safe, and costs
# the default method little ("Going further" tries 30 times). For a column of unknown size there are two
# ways: leave it out, or **pay**. With `bounds="private"` one plan finds limits from noised counts first,
# and then fits. A fifth of the budget goes to the limits, and both together cost ε.
#
# We make 6000 patients with thirty columns. Ten have known limits and hardly tell the groups apart.
# Twenty markers do, and nobody knows whether they are counted in thousandths or in millions.
#
# **Predict.** The plan pays for limits of all thirty columns. Do the groups come out better than from the
# ten known columns, which have all of ε to themselves?

# %%
wide = lesson.thirty_columns(K, N, M, rng=stream("wide"))
paid = PrivateKMeans(K, EPSILON, DELTA, bounds="private", **free)
paid.fit(wide.table, clients="clinic")
display(lesson.limits(wide, paid, ["age", "marker 1", "marker 2"]))
check(paid.ledger_.epsilon(DELTA) <= EPSILON, "limits and fit together cost no more than ε")

# %% tags=["hide-input"]
ways = lesson.three_ways(wide, K, EPSILON, DELTA, range(5))
fig, ax = plt.subplots(figsize=(6.4, 2.6))
_ = figures.agreements(ax, ways)
show(fig, "Agreement with the true groups for three ways to get bounds, five runs each")

# %% [markdown]
# Answer: yes, by far, because here the markers carry the groups; markers that carry nothing would not be
# worth their price. **Read the table.** The limits that were found are powers of two, because counts with
# this much noise show no more. Where noise is smaller, the plan looks closer. Nearly all rows lie inside,
# which only we can know. **Read the figure.** Each dot is one run, the bar the median of five: 1 means the
# true groups, 0 chance. The ten known columns hardly show the groups. With limits that are paid for, the
# fit is in most runs nearly as good as if somebody had known all limits.
#
# **A summary before you cluster.** Number, mean, spread and quartiles of every column can be bought the
# same way, each with an interval that holds the true value in nineteen of twenty cases. Here for the
# visits, with ε/4, on the same ledger as the fit:

# %%
summary = private_summary(table, EPSILON / 4, owners="clinic", delta=DELTA / 4,
                          bounds=files.bounds, ledger=ledger, **free)  # fmt: skip
display(summary.table()[["mean", "50 %"]].round(1))
print(f"left: {ledger.remaining:.0%}")

# %% [markdown]
# The interval of a median is wider than that of a mean: quartiles are read off noised counts. A summary is
# a release like any other, so the ledger has less left.
#
# **Take away.** Write down the limits you know, pay for the others, and never read them off the rows.
#
# ## 4. What does the statement say?
#
# The statement goes beside the result. It holds public numbers only.
#
# **Predict.** One visit is protected. Does the statement promise the same for a patient who came four
# times?

# %%
model.statement()

# %% [markdown]
# Answer: no. **Read the statement**; it says *client* for a clinic, *point* or *record* for a row:
#
# * *protects*: one visit. Four visits of one patient are not one row.
# * *guarantee*: ε at δ, and the releases below add up to it.
# * *server sees*: random words. *clients see*: the noised sums. So all clinics learn them, and may publish
#   them.
# * *public*: the numbers that the plan was made from, the number of rows among them.
# * *round 3*: how much noise the total has (std), and what it hides: one visit changes the release by at
#   most 1 in length (`L2`). The unit is the radius at which steps are cut ([01](01_fastlloyd.ipynb), section
#   2).
# * *stays local*: labels, distances, and how many rows were cut off. These are no part of the release.
# * *budget* and *WARNING*: what is left; and that this run had a seed, so it is not private.
#
# **A patient who comes four times.** Make one row of each patient before you begin. Or keep at most $m$
# visits of a patient (`table.groupby("patient").head(m)`) and ask for ε/m: who hides one row with (ε/m, δ)
# hides $m$ rows with (ε, $m\,e^{(m-1)ε/m}\,δ$). For ε = 1 and $m$ = 4 that is more than eight times δ, so
# ask for a ninth of δ. Or protect whole clients, one for each patient, with `unit="client"`; for a start that takes
# public rows of the same kind ([02](02_feddp_kmeans.ipynb)).
#
# **Take away.** Publish centres and statement; everything else stays where the rows are.
#
# ## 5. How often may you fit?
#
# New visits of the same people come every month, and the model is fitted again. One ledger adds up all
# fits on these people, across estimators; its budget refuses the fit that would exceed it, before a row is
# read. (A month with new people only needs no sum: each person is in one fit.)
#
# **Predict.** The budget was made for three fits of ε = 1. Which month is refused? And if a ledger adds up
# more closely, with `Budget(..., filter="rdp")`: does it pay for three fits, for seven, or for twelve?

# %%
for month in (2, 3):
    experiments.attempt(f"month {month}", lambda: model.fit(table, clients="clinic"))
    print(f"month {month}, left: {ledger.remaining:.0%}")
# as if we began again:
rdp = PrivacyLedger(budget=Budget(3 * EPSILON, 3 * DELTA, filter="rdp"))
_ = PrivateKMeans(**given, ledger=rdp).fit(table, clients="clinic")
print(f"a fit takes {1 - rdp.remaining:.0%}, so {int(1 / (1 - rdp.remaining))} fits")
check(rdp.remaining > 2 / 3, "a fit takes less than a third with 'rdp'")

# %% tags=["hide-input"]
from studies.own_data import widget as play

fig, ax = plt.subplots(figsize=(6.2, 3.6))
_ = figures.months(ax, epsilon=EPSILON, delta=DELTA, budget=3 * EPSILON)
show(fig, "Total epsilon of one to twelve fits: shares added up, and the exact total")

# %% [markdown]
# Answer: month 3, since the summary took its part; and seven. **Read the figure.** Each month is a fit that
# may depend on what the last one showed. The default budget then adds up shares of ε and δ. But noises that
# are drawn anew add up in squares (00, section 8), so many fits cost far less than their sum: the blue line
# is the exact total of fits whose noise is fixed beforehand. A Rényi budget comes close to it and lets you
# choose each fit after the last. So who expects a series chooses `filter="rdp"` when the ledger is made;
# nothing else has to be planned. The widget answers: *for how many months does the budget last?*

# %% tags=["widget"]
play.explore(delta=DELTA)

# %% [markdown]
# **New people in every batch**, each row in one of them, need no sum. Each fit leaves a small weighted copy of
# its rows, released already. Copies are put together and clustered again, for any k, at no cost.

# %%
halves = [
    PrivateKMeans(**given | {"seed": SEED + i}).fit(table[i::2], clients="clinic") for i in (0, 1)
]
both = from_copies(halves, K)
said = both.statement().facts
print(both.statement())
check(said["epsilon"] == EPSILON, "a row that is in one half pays for one fit")
check(said["in_all_batches"]["epsilon"] > EPSILON, "a person with rows in both pays more")
print(halves[0].recluster(K + 1).cluster_centers_.round(0))

# %% [markdown]
# **Take away.** One ledger for one set of people; a Rényi budget for a series; copies for new people.
#
# ## 6. Which seven mistakes does everybody make?
#
# No bounds; bounds read off the rows; bounds in other units; missing values; rows that nobody owns; too few
# rows; a new ledger for every fit. The cell makes the mistakes and prints what you would see.
#
# **Predict.** Which of the seven can no program notice?

# %%
check(all(experiments.mistakes(table, files, **ask)), "six are refused or warned of")

# %% [markdown]
# Answer: the seventh. Two departments that fit the same rows, each with its own ledger, cost up to the sum
# of both, and no program knows. Two more are as silent. The second mistake is noticed only if the package
# reads the bounds; who looks up the largest age and types it into the file hears nothing. And choosing k, ε
# or bounds by results on the private rows is a release for each look. Rehearse instead.
#
# **Take away.** One ledger; bounds from outside; whoever looks at results pays.
#
# ## 7. What comes out on real tumours?
#
# 569 tumours, dealt at random to three hospitals, and two columns: the mean radius of the cell nuclei, and
# their texture (how much the grey levels vary). The bounds are round numbers, such as the maker of the
# microscope could name. To compare with: k-means without privacy, and the diagnosis, which no clustering
# sees.
#
# **Predict.** In how many of 100 cases do private labels agree with the diagnosis, if k-means without
# privacy agrees in 83: about 60, about 70, or as many?

# %%
real = lesson.data("tumours", 569, 3, rng=stream("owners"))
last = PrivateKMeans(2, EPSILON, DELTA, bounds=(real.lower, real.upper), **free)
labels = last.fit_predict(real.table(), clients=real.owners)
plain, agree = lesson.diagnosed(real, labels, SEED)
check(agree["private"] > 0.8, f"agreement with the diagnosis: {agree}")
print("bounds", real.lower, real.upper, "centres", *last.cluster_centers_.round(1))

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.6, 3.6))
_ = figures.map_of(ax, real, last.cluster_centers_, plain)
show(fig, "Tumours by radius and texture in grey, two released centres, and those of k-means")

# %% [markdown]
# Answer: as many, in this run. **Read the figure.** Each centre is in the units of the table, and the
# crosses are the centres of k-means without privacy. The labels stay with the hospitals: each computes its
# own by `predict`.
#
# **Do not use it** where groups have only a few dozen rows (exercise 2 tries such groups); where
# single rows matter (fraud, rare diseases), since noise hides exactly these; or where clients may cheat
# or drop out, since masks need all of them to follow the protocol. On machines of your own read [from
# notebook to deployment](../docs/deployment.md) first. Which method and which trust suit which size of
# data says [05](05_side_by_side.ipynb).
#
# **Take away.** Read the plan before, publish the centres and the statement after.
#
# ## Try it
#
# 1. What is left of a new budget if the first fit asks for half of ε and half of δ?
# 2. Rehearse with 300 rows. From which ε on does the plan not warn?
# 3. Save a model, change a centre in the file, and load it. Who notices?
#
# <details><summary>Solutions</summary>
#
# 1: shares add up, so half of a third is taken and five sixths are left. 2: of those tried, from 0.4 on.
# 3: nobody. The file is not signed; publish it where its readers trust the place.
#
# </details>

# %% tags=["solution"]
fresh = PrivacyLedger(budget=Budget(3 * EPSILON, 3 * DELTA))
less = ask | {"epsilon": EPSILON / 2, "delta": DELTA / 2, "bounds": files.bounds}
_ = PrivateKMeans(**less, ledger=fresh).fit(table, clients="clinic")
few = size | {"n_rows": 300}
grid = {"ks": (), "factors": (0.1, 0.2, 0.4, 0.8)}
tried = experiments.nearby(given, like, **grid, **few).set_index("epsilon").too_few_rows
print(f"1: left {fresh.remaining:.1%}. 2: too few rows? {tried.to_dict()}")
again = load(lesson.forged(files.model))
check(abs(fresh.remaining - 5 / 6) < 1e-6, "1: half of a fit takes a sixth")
moved = abs(again.cluster_centers_ - load(files.model).cluster_centers_).max()
check(moved > 1, f"3: a centre that was moved by {moved:.0f} loads without a word")

# %% [markdown]
# ## What is claimed, and what we found
#
# This notebook has no paper. What stands behind its defaults:

# %%
import studies

studies.end_table(
    "B.central.fresh", "B.central.bounds", "B.sketch.few", "B.sketch.wide", "S.rivals.better"
)  # fmt: skip

# %% [markdown]
# All claims, with figures and readings, stand on [one page](../data/results/claims.md).
#
# ## Going further
#
# **Three more kinds of trust** (2 minutes). An *ideal* box that adds up and tells nobody; a *shuffler*
# that mixes noised reports; and masks where the server adds the noise and must never see the result
# (`publish=False`, as in FastLloyd's paper).

# %%
more = experiments.decide(given, table, like, ("ideal", "shuffled"), **size)
closed = PrivateKMeans(**given, publish=False).preview(table, clients="clinic")
print("publish=False: the server sees", dict(closed.facts["sees"])["server"])
more

# %% [markdown]
# **Pay for some columns only** (1 minute). Ten limits are known. Half of ε buys those of the markers, and
# the other half fits.

# %%
from fedclust import private_bounds

half = {"delta": DELTA / 2, "ledger": PrivacyLedger(budget=Budget(EPSILON, DELTA))} | free
bought = private_bounds(wide.table, EPSILON / 2, columns=wide.rest, owners="clinic", **half)
mixed = PrivateKMeans(K, EPSILON / 2, bounds=wide.known | bought.bounds, **half)
mixed.fit(wide.table, clients="clinic")
both = [lesson.agreement(wide, model) for model in (paid, mixed)]
print("agreement, all thirty paid for and twenty:", [round(value, 2) for value in both])

# %% [markdown]
# **Bounds that are too wide** (2 minutes). Safe, but what do they cost?

# %%
factors = [1, 3, 10, 30]
costs = experiments.too_wide(made, like, factors, ask, **size)

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.2, 3.4))
_ = figures.ratios(ax, factors, costs)
show(fig, "Cost by width of the bounds for over-clustered sums and for FastLloyd")

# %% [markdown]
# FastLloyd's noise follows the width of the box. The default method finds groups by counts first, and
# hardly notices here. On harder data it pays, too (table above).
#
# **Secure mode** (1 minute). The same lines without `**free`. Centres differ each time, and are not
# printed here.

# %% tags=["nbval-ignore-output"]
secure = PrivateKMeans(K, EPSILON, DELTA, bounds=files.bounds)
statement = secure.fit(table, clients="clinic").statement()
check(not statement.facts["warnings"], "the statement has no warning")

# %% [markdown]
# ## Check yourself
#
# <details><summary>1. What did the preview cost?</summary>
#
# Nothing: it uses public numbers, and the number of rows is among them (section 1).
#
# </details>
#
# <details><summary>2. Why may a rehearsal not run on the private rows?</summary>
#
# Its costs are exact functions of the rows, and nothing pays for them (section 2).
#
# </details>
#
# <details><summary>3. Twenty columns have no known limits. What are your two ways?</summary>
#
# Leave them out, or pay: `bounds="private"` finds limits from noised counts, within the same ε. (If you can
# guess a limit from outside, guess wide; section 3.)
#
# </details>
#
# <details><summary>4. A patient comes four times a year. What protects the patient?</summary>
#
# Not a statement about one row. Make one row of them, or ask for ε/4 and a ninth of δ, or protect one
# client (section 4).
#
# </details>
#
# <details><summary>5. Two departments fit the same rows, each with its own ledger. The total?</summary>
#
# The sum of both at most, and no ledger knows how much less (section 6).
#
# </details>
#
# ## References
#
# The methods are those of notebooks [01](01_fastlloyd.ipynb) to [04](04_rr_cluster.ipynb), which name
# their papers.
#
# * W. Wolberg, O. Mangasarian, N. Street, W. Street. *Breast Cancer Wisconsin (Diagnostic).* UCI, 1995.
#   (CC BY 4.0; ships with scikit-learn.)
# * J. Dong, A. Roth, W. Su. *Gaussian Differential Privacy.* JRSS B, 2022. (Section 5: squares add up.)
