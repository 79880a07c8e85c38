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
# *35 minutes to read, predict and run; exercises 15 more.* Ten lines lead from a CSV file to centres with a
# privacy statement, and most of what you have to decide is decided without spending anything.
#
# **You need** the words of notebook [00](00_start_here.ipynb): ε, δ, bounds, ledger. The letters are
# those of the [table of symbols](../docs/symbols.md).

# %%
import pandas as pd

from fedclust import PrivateKMeans, from_copies, load
from fedclust_helpers.accounting import Budget, PrivacyLedger
from studies.bench.plots import plt, show
from studies.own_data import experiments, figures, lesson

# %% tags=["settings"]
SEED = 6
DATA = "visits"  # or "tumours"
EPSILON, DELTA = 1.0, 1e-6  # of one fit
K, N, M = 4, 6000, 5  # groups, visits, clinics

# %%
check, stream, _ = lesson.begin(globals())
made = lesson.data(DATA, N, M, rng=stream("visits"))
files = lesson.written(made)

# %% [markdown]
# ## 1. What do ten lines buy?
#
# Clinics want groups of visits, and may not pool the rows. Two CSV files are all we need. One is private: the
# visits, each with its clinic (made up here, so that we may look). The other is public: the limits of each
# column, known from the protocol of the measurement and not from the rows. The noise is made for that width.

# %%
print(*files.rows.read_text().splitlines()[:3], "...", sep="\n")
print(files.bounds.read_text())

# %%
table = pd.read_csv(files.rows)
ledger = PrivacyLedger(budget=Budget(3 * EPSILON, 3 * DELTA))
free = {"mode": "teaching", "seed": SEED}  # leave out: then it is secure
ask = {"n_clusters": K, "epsilon": EPSILON, "delta": DELTA} | free
given = ask | {"bounds": files.bounds}
model = PrivateKMeans(**given, ledger=ledger)
model.preview(table, clients="clinic")
check(ledger.remaining == 1, "a preview costs nothing")
model.fit(table, clients="clinic").save(files.model)
off = lesson.off_by(made, model.cluster_centers_)  # in widths of a column
check(off < 0.01, "centres miss the groups by less than 1 %", f"{off:.1%}")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.6, 3.4))
_ = figures.map_of(ax, made, model.cluster_centers_)
show(fig, "Rows by their first two columns, and the released centres")

# %% [markdown]
# A preview makes the whole statement of a fit from public numbers (how many rows there are is one of them).
# **Read the figure.** The centres are in the units of the table. From a run in secure mode they may be published;
# the grey dots may not. With `mode="teaching"` this page stays as it is, but whoever reads the seed can remove
# the noise.
#
# `PrivateKMeans` chose its method, over-clustered sums ([05](05_side_by_side.ipynb)), and its trust, masks: each
# clinic adds random numbers that cancel in the total, and a share of the noise.
#
# **Predict.** The server and one of five clinics put together what they know. Which ε is left for a visit of
# another clinic: still 1, about 2, or none at all?

# %%
said = dict(model.statement().rows())
for row in "protects", "holds", "server sees", "clients see", "budget":
    print(f"{row:12} {said[row]}")

# %% [markdown]
# Answer: about 2 with five clinics and ε = 1 (*holds*). All clinics know the masks, so one that joins the server
# takes them off, and a visit has the noise of its own clinic alone. So **no clinic may join the server**.
#
# *Client* is a clinic here, *point* a row: one visit is protected. Of a patient who came four times make one row
# before you begin, or see "Going further". All clinics learn the noised sums, and may publish them.
#
# **Take away.** Preview, fit, then publish centres and statement, nothing else.
#
# ## 2. Whom must you trust, and how much ε do you need?
#
# A **rehearsal** runs the plan on rows that cost nothing, and compares with k-means without noise. We have no
# public rows of the same kind, so `like` holds groups made up between the public bounds.
#
# * **masked**: believe that all clinics follow the protocol, no clinic joins the server, and no two pool what
#   they know.
# * **serverless**: clinics exchange shares of their sums. Believe the same of them; there is no server.
# * **trusted**: believe that the server keeps each clinic's exact sums to itself.
# * **local**: each visit is noised before it leaves ([03](03_locally_private_kmeans.ipynb)); believe nobody.
#
# **Predict.** How much more than without noise does masked cost: 1 %, 20 %, or double? And local?

# %%
like = lesson.lookalike(files.bounds, K, rng=stream("lookalike"))
size = {"n_rows": N, "n_clients": M, "seed": SEED}
only = {"n_clusters": (), "n_rounds": (), "epsilon": ()}  # compare nothing
costs = {}
for trust in ("masked", "serverless", "trusted", "local"):
    plan = PrivateKMeans(**given, trust=trust)
    costs[trust] = plan.rehearse(like, **only, **size).ratio[0]
    print(f"{trust:10}  {costs[trust]:.2f} times the cost without noise")
check(costs["masked"] < 1.1, "masked rows cost less than 10 % more")
other = only | {"epsilon": (EPSILON / 4, EPSILON / 100)}
nearby = PrivateKMeans(**given).rehearse(like, **other, **size)
nearby[["epsilon", "ratio", "too_few_rows"]].round(2)

# %% [markdown]
# Answer: at ε = 1 and 6000 visits masked costs less than 1 % more, local half as much again, because each visit
# brings noise of its own. **Read the table.** Where `ratio` is 1, more ε buys nothing. At a hundredth of ε the
# groups are lost, and the plan had warned: `too_few_rows`.
#
# How many groups *your* rows have, made-up rows cannot say. Ask public rows, or let `n_clusters="auto"` choose k
# from what the fit releases anyway.
#
# **Take away.** Rehearse trust and ε on rows that cost nothing, and k on public rows of the same kind.
#
# ## 3. Which bounds, if there are thirty columns?
#
# Bounds may not be read off the rows: the largest value is one person's record. Write down limits that follow
# from the measurement; too wide is safe. Leave a column of unknown size out, or **pay**: with `bounds="private"`
# a fifth of the squared strength μ² finds limits from noised counts, and the rest fits.
#
# Of 6000 made-up patients ten columns have known limits and hardly tell the groups apart. Twenty markers do, in
# units that nobody knows.
#
# **Predict.** The plan pays for limits of all thirty. Do the groups come out better than from the ten known
# columns, which have all of ε to themselves?

# %%
wide = lesson.thirty_columns(K, M, rng=stream("wide"))
paid = PrivateKMeans(K, EPSILON, DELTA, bounds="private", **free)
paid.fit(wide.table, clients="clinic")
print(lesson.limits(wide, paid, ["age", "marker 1", "marker 2"]))
check(paid.ledger_.epsilon(DELTA) <= EPSILON, "both together cost at most ε")
ways = lesson.three_ways(wide, K, EPSILON, DELTA, range(5))
agree = pd.DataFrame(ways).median()  # 1: the true groups, 0: chance
print(agree.round(2).to_string())
check(agree.iloc[1] > agree.iloc[0], "paying for bounds pays here")

# %% [markdown]
# Answer: yes, by far: here the markers carry the groups. Markers that carry nothing would not be worth it. **Read
# the table.** Limits are powers of two: counts with this much noise show no more. In each of the three columns
# nearly all values lie inside, which only we can know.
#
# **Take away.** Write down the limits you know, pay for the others, and never read them off the rows.
#
# ## 4. How often may you fit?
#
# New visits of the same people come each month. One ledger adds up all fits on these people; its budget refuses
# the fit that would exceed it, before a row is read. By default it adds up shares of ε and δ. With `filter="rdp"`
# it keeps a finer account, a curve of (ε, δ) pairs, and fresh noise adds up in squares
# ([00](00_start_here.ipynb), section 8).
#
# **Predict.** The budget is that of three fits. For how many months does it last with `"rdp"`: three, seven, or
# twelve?

# %%
for kind in ("basic", "rdp"):
    budget = Budget(3 * EPSILON, 3 * DELTA, filter=kind)
    year, months = PrivacyLedger(budget=budget), 0
    monthly = PrivateKMeans(**given, ledger=year)
    try:
        while True:
            monthly.fit(table, clients="clinic")
            months += 1
    except RuntimeError as refused:
        print(f"{kind}: {months} months, then {type(refused).__name__}")
check(months > 3, 'with "rdp" the budget lasts for more than three fits')

# %% [markdown]
# Answer: seven at ε = 1, and each month may depend on what the last one showed.
#
# **Take away.** One ledger for one set of people; and `filter="rdp"` for a series.
#
# ## 5. Which seven mistakes does everybody make?
#
# **Predict.** Which of the seven can no program notice?


# %%
def fit(rows, clients="clinic", **more):
    return lambda: PrivateKMeans(**ask | more).fit(rows, clients=clients)


few, gaps = table[: N // 10], table.replace(table.iloc[7, 0], float("nan"))
nobodys, known = table.drop(columns="clinic"), {"bounds": files.bounds}

# %%
tell = experiments.attempt
noticed = [
    tell("1 no bounds", fit(table)),
    tell("2 bounds read off the rows", fit(table, public_data=True)),
    tell("3 bounds in other units", fit(table, bounds=(0, 1))),
    tell("4 missing values", fit(gaps, **known)),
    tell("5 rows that nobody owns", fit(nobodys, None, **known)),
    tell("6 too few rows", fit(few, **known, epsilon=EPSILON / 50)),
    tell("7 a new ledger for each fit", fit(table, **known)),
]
check(noticed == 6 * [True] + [False], "all but the seventh are noticed")

# %% [markdown]
# Answer: the seventh. Two departments that fit the same rows, each with its own ledger, cost up to the sum of
# both. Two more are as silent: to look up the largest age and type it into the file of bounds; and to choose k,
# ε or bounds by results on the private rows, a release for each look.
#
# **Do not use it** where groups have only a few dozen rows (exercise 2); where single rows matter (fraud, rare
# diseases), since noise hides exactly these; or where clinics may cheat or join the server. Clinics that keep
# their rows on machines of their own follow [from notebook to deployment](../docs/deployment.md).
#
# **Take away.** One ledger; bounds from outside; whoever looks at results pays.
#
# ## Try it
#
# 1. What is left of a new budget if the first fit asks for half of ε and half of δ?
# 2. Rehearse with 300 rows, and ε = 0.5, 1, 2 and 4. From which on does the plan not warn? And what does ε = 1
#    cost there?
# 3. Save a model, change a centre in the file, and load it. Who notices?
#
# <details><summary>Solutions</summary>
#
# 1: shares add up, so half of a third is taken and five sixths are left. 2: only at 4; what ε = 1 costs is printed
# below. 3: nobody. The file is not signed; publish it where its readers trust the place.
#
# </details>

# %% tags=["solution"]
fresh = PrivacyLedger(budget=Budget(3 * EPSILON, 3 * DELTA))
less = given | {"epsilon": EPSILON / 2, "delta": DELTA / 2}
_ = PrivateKMeans(**less, ledger=fresh).fit(table, clients="clinic")
check(abs(fresh.remaining - 5 / 6) < 1e-6, "1: half of a fit takes a sixth")
tried, small = only | {"epsilon": (0.5, 1, 2, 4)}, size | {"n_rows": 300}
found = PrivateKMeans(**given).rehearse(like, **tried, **small)[1:]
print("2:", found[["epsilon", "ratio", "too_few_rows"]].round(2), sep="\n")
again = load(lesson.forged(files.model))
moved = abs(again.cluster_centers_ - load(files.model).cluster_centers_).max()
check(moved > 1, "3: a centre that was moved loads without a word",
      found=f"by {moved:.0f}")  # fmt: skip

# %% [markdown]
# ## What is claimed, and what we found
#
# This notebook has no paper. What stands behind its defaults:

# %%
import studies

studies.end_table(
    "B.central.fresh", "B.central.bounds", "B.sketch.few", "B.sketch.wide",
    "S.rivals.better",
)  # fmt: skip

# %% [markdown]
# All claims, with figures and readings, stand on [one page](../data/results/claims.md).
#
# ## Going further
#
# **A summary before you cluster** (2 minutes). Number, mean, spread and quartiles of each column can be bought,
# each with an interval that holds the true value in nineteen of twenty cases. A summary is a release like any other,
# so the ledger has less left. Quartiles are read off noised counts, so their intervals are wider.

# %%
from fedclust import private_summary

summary = private_summary(
    table, EPSILON / 4, owners="clinic", delta=DELTA / 4,
    bounds=files.bounds, ledger=ledger, **free)  # fmt: skip
print(f"left: {ledger.remaining:.0%}")
summary.table()[["mean", "50 %"]].round(1)

# %% [markdown]
# **A patient who comes four times** (2 minutes). Keep at most $m$ visits of a patient
# (`table.groupby("patient").head(m)`) and ask for ε/m: who hides one row with (ε/m, δ) hides $m$ rows with
# (ε, $m\,e^{(m-1)ε/m}\,δ$). For ε = 1 and $m$ = 4 that is more than eight times δ, so ask for a ninth of δ. Or
# protect whole clients, one for each patient, with `unit="client"`; for a start that takes public rows of the
# same kind ([02](02_feddp_kmeans.ipynb)).
#
# **Fits that are fixed beforehand** (3 minutes). Their exact total is the blue line; a fit more than with `"rdp"`
# may be paid for, because nothing depends on what an earlier fit showed. **Find one number.** Which ε a month lets a
# budget of 3 last for twelve months?

# %% tags=["widget", "nbval-ignore-output"]
from studies.own_data import widget as play

play.explore(epsilon=EPSILON, delta=DELTA, budget=3 * EPSILON)

# %%
low = 10**-0.1  # a step of the slider below 1
(year,) = figures.total(low, DELTA, 12, 3 * DELTA)
print(f"twelve months of {low:.2f} cost {year:.2f}")

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.2, 3.4))
_ = figures.months(ax, epsilon=EPSILON, delta=DELTA, budget=3 * EPSILON)
show(fig, "Total epsilon of 1 to 12 fits: shares added up, and exact")

# %% [markdown]
# **Pay for some columns only** (2 minutes). Ten limits are known. Half of ε buys those of the markers, and
# the other half fits. The figure shows the five runs of section 3.

# %%
from fedclust import private_bounds

one = PrivacyLedger(budget=Budget(EPSILON, DELTA))
half = {"delta": DELTA / 2, "ledger": one} | free
bought = private_bounds(
    wide.table, EPSILON / 2, columns=wide.rest, owners="clinic", **half
)
limits = wide.known | bought.bounds
mixed = PrivateKMeans(K, EPSILON / 2, bounds=limits, **half)
mixed.fit(wide.table, clients="clinic")
both = [round(lesson.agreement(wide, each), 2) for each in (paid, mixed)]
print("agreement, all thirty paid for and twenty:", both)

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.4, 2.4))
_ = figures.agreements(ax, ways)
show(fig, "Agreement with the true groups for three ways to get bounds")

# %% [markdown]
# **New people in every batch** (2 minutes), each row in one of them, need no sum. Each fit leaves a small
# weighted copy of its rows, released already. Copies are put together and clustered again, for any k, at no
# cost.

# %%
parts = [
    PrivateKMeans(**given | {"seed": SEED + i}) for i in (0, 1)
]  # fmt: skip
for i, part in enumerate(parts):
    part.fit(table[i::2], clients="clinic")
whole = from_copies(parts, K)
facts = whole.statement().facts
once, every = facts["epsilon"], facts["in_all_batches"]["epsilon"]
check(once == EPSILON, "a row that is in one half pays for one fit")
check(every > once, "a person with rows in both pays more", f"{every:.2f}")
print(parts[0].recluster(K + 1).cluster_centers_.round(0))

# %% [markdown]
# **Bounds that are too wide** (2 minutes). Safe, but what do they cost?

# %%
factors = [1, 3, 10, 30]
widths = experiments.too_wide(made, like, factors, ask, **size)

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(6.2, 3.4))
_ = figures.ratios(ax, factors, widths)
show(
    fig,
    "Cost by width of the bounds for over-clustered sums and for FastLloyd",
)

# %% [markdown]
# FastLloyd's noise follows the width of the box. The default method finds groups by counts first. On harder data
# it pays, too (table above).
#
# **Secure mode** (1 minute). The same lines without `**free`. Centres differ each time, and are not
# printed here.

# %% tags=["nbval-ignore-output", "secure-keys"]
secure = PrivateKMeans(K, EPSILON, DELTA, bounds=files.bounds)
statement = secure.fit(table, clients="clinic").statement()
warned = statement.facts["warnings"]
check(not warned, "the statement has no warning")

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
# <details><summary>4. Five clinics, masks. One of them runs the server. What is left of ε = 1?</summary>
#
# For the visits of the other clinics about 2 (section 1): it knows the masks. Take serverless or another server.
#
# </details>
#
# <details><summary>5. Two departments fit the same rows, each with its own ledger. The total?</summary>
#
# The sum of both at most, and no ledger knows how much less (section 5).
#
# </details>
#
# ## References
#
# The methods are those of notebooks [01](01_fastlloyd.ipynb) to [04](04_rr_cluster.ipynb), which name
# their papers.
#
# * W. Wolberg, O. Mangasarian, N. Street, W. Street. *Breast Cancer Wisconsin (Diagnostic).* UCI, 1995.
#   (CC BY 4.0; ships with scikit-learn; the setting "tumours".)
# * J. Dong, A. Roth, W. Su. *Gaussian Differential Privacy.* JRSS B, 2022. (Section 4: squares add up.)
