"""Copies of the data: clustered again, drawn, saved, put together; post-processing and no more."""

import json

import matplotlib
import numpy as np
import pytest
from conftest import seeded as rng

import fedclust
from fedclust import FastLloydKMeans, LocalKMeans, PrivateKMeans
from fedclust.estimators.saving import as_json
from fedclust_helpers import kmeans, metrics
from fedclust_helpers._state import CopyRefusedError
from fedclust_helpers.accounting import PrivacyLedger

matplotlib.use("Agg")
GROUPS = np.array([[20.0, 20, 30], [70, 30, 60], [40, 80, 80], [80, 80, 10]])
pytestmark = pytest.mark.filterwarnings("ignore::fedclust.estimators.UncertainCentersWarning")


def batch(seed, n=4000):
    draw = rng(seed)
    return GROUPS[draw.integers(4, size=n)] + draw.normal(0, 4, (n, 3))


def fitted(rows, k=4, epsilon=2.0, **given):
    given = {"bounds": (0, 100), "trust": "ideal", "mode": "teaching", "seed": len(rows)} | given
    return PrivateKMeans(k, epsilon, 1e-6, **given).fit(np.array_split(rows, 3))


@pytest.fixture(scope="module")
def months():
    return [fitted(batch(seed), seed=seed) for seed in range(3)]


def test_another_clustering_reads_no_data_and_charges_nothing(months):
    model = months[0]
    before, sent = model.ledger_.releases, len(model.transcript_.to_frame())
    content = json.dumps(model._content())
    other = model.recluster(7)
    assert other.cluster_centers_.shape == (7, 3) and type(other) is type(model)
    assert model.ledger_.releases == before and len(model.transcript_.to_frame()) == sent
    assert json.dumps(model._content()) == content
    # a file of the release is all that it takes: no rows are there
    record = fedclust.estimators.saving.restored(PrivateKMeans, as_json(model))
    np.testing.assert_array_equal(record.recluster(7).cluster_centers_, other.cluster_centers_)
    text = str(other.statement())
    assert "7 clusters, found in the copy" in text and "Nothing more was released" in text
    assert "non-private k-means was added" not in text  # which is said of another k
    with pytest.raises(CopyRefusedError, match="record of releases"):
        other.fit([batch(0)])
    copy, box = model.copy_, model.result_.copy
    np.testing.assert_allclose(copy.points, (box.points + 1) * 50)
    np.testing.assert_array_equal(copy.weights, box.weights)
    assert copy.weights.sum() == pytest.approx(4000)


@pytest.mark.parametrize("trust", ["masked", "trusted", "serverless"])
def test_any_trust_model_in_secure_mode_leaves_a_copy(trust):
    model = fitted(batch(1), trust=trust, mode="secure", seed=None)
    assert model.copy_.weights.sum() == pytest.approx(4000)
    # groups are 12 standard deviations apart: noise has to move 1,000 rows' mean by half of that
    assert len(set(model.recluster(4).predict(GROUPS))) == 4
    assert 2 < model.recluster("auto", k_range=(2, 9))._n_found <= 9


def test_the_planned_k_again_is_close_to_the_fit(months):
    rows = batch(0)
    models = months[0], months[0].recluster(4)
    fit, again = (metrics.nicv(rows, model.cluster_centers_) for model in models)
    assert again < 1.03 * fit
    np.testing.assert_allclose(months[0].recluster(4).cluster_sizes_.sum(), 4000)


def test_too_many_clusters_are_refused_or_said(months):
    held = int((months[0].copy_.weights > 0).sum())
    with pytest.raises(ValueError, match=f"n_clusters must be at most {held}"):
        months[0].recluster(held + 1)
    assert months[0].recluster(held).cautions_
    with pytest.raises(ValueError, match="k_range"):
        months[0].recluster(3, k_range=(2, 5))
    with pytest.raises(TypeError, match="n_clusters"):
        months[0].recluster(2.5)


def test_methods_without_a_copy_say_so(tmp_path):
    lloyd = FastLloydKMeans(2, 1.0, 1e-6, bounds=(0, 100), trust="ideal", mode="teaching", seed=1)
    local = LocalKMeans(2, 2.0, bounds=(0, 100), method="one_round", mode="teaching", seed=1)
    for model in (lloyd.fit([batch(1)]), local.fit(batch(1))):
        assert not hasattr(model, "copy_")
        for refused in (lambda m: m.recluster(3), lambda m: fedclust.from_copies([m])):
            with pytest.raises(ValueError, match="only a fit by method='overclustered'"):
                refused(model)


def test_a_saved_model_keeps_its_copy_and_old_files_are_read(months, tmp_path):
    months[0].save(tmp_path / "january.json")
    again = fedclust.load(tmp_path / "january.json")
    for one, other in zip(again.copy_, months[0].copy_, strict=True):
        np.testing.assert_array_equal(one, other)
    content = json.loads((tmp_path / "january.json").read_text())
    del content["content"]["copy"]
    (tmp_path / "old.json").write_text(json.dumps(content))
    old = fedclust.load(tmp_path / "old.json")
    assert not hasattr(old, "copy_")
    np.testing.assert_array_equal(old.cluster_centers_, again.cluster_centers_)


def test_files_of_other_clusterings_and_batches_follow_the_schema(months, tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    path = fedclust.estimators.saving.__file__.replace("saving.py", "statement.schema.json")
    with open(path, encoding="utf-8") as file:
        schema = jsonschema.Draft202012Validator(json.load(file))
    for i, model in enumerate((months[1].recluster(3), fedclust.from_copies(months, 4))):
        schema.validate(as_json(model))
        model.save(tmp_path / f"{i}.json")
        again = fedclust.load(tmp_path / f"{i}.json")
        assert str(again.statement()) == str(model.statement())
        np.testing.assert_array_equal(again.predict(GROUPS), model.predict(GROUPS))


def test_batches_together_are_one_model_of_all_rows(months, tmp_path):
    """As close to k-means of all rows as a fit; each row pays once, a person in several the sum."""
    rows = np.concatenate([batch(seed) for seed in range(3)])
    best = kmeans.weighted_kmeans(rows, None, 4, rng=rng(9), n_init=5)
    quarter = fedclust.from_copies(months, 4)
    assert metrics.nicv(rows, quarter.cluster_centers_) < 1.05 * metrics.nicv(rows, best)
    assert quarter.cluster_sizes_.sum() == pytest.approx(12_000)
    facts = quarter.statement().facts
    assert (facts["epsilon"], facts["n_records"], len(facts["batches"])) == (2.0, 12_000, 3)
    one = PrivacyLedger(releases=[r for m in months for r in m.result_.ledger.releases])
    assert facts["in_all_batches"] == {"epsilon": one.epsilon(1e-6), "delta": 1e-6}
    # records do not hold releases: they are added up
    months[2].save(tmp_path / "march.json")
    half = fedclust.from_copies(months[:2], 4)
    whole = fedclust.from_copies([half, fedclust.load(tmp_path / "march.json")], 4)
    own = whole.statement().facts
    assert own["batches"] == facts["batches"]
    first = half.statement().facts["in_all_batches"]["epsilon"]
    assert own["in_all_batches"]["epsilon"] == pytest.approx(first + 2.0)
    assert own["in_all_batches"]["delta"] == pytest.approx(2e-6)
    np.testing.assert_array_equal(whole.copy_.points, quarter.copy_.points)
    assert "one row, one batch" in str(whole.statement())


def test_what_does_not_belong_together_is_refused_by_name(months):
    rows = batch(7)
    for given, name in (
        ({"bounds": (0, 101)}, "upper"), ({"trust": "trusted"}, "trust"),
        ({"mode": "secure", "seed": None}, "mode"),
        ({"bounds": {"a": (0, 100), "b": (0, 100), "c": (0, 100)}}, "columns"),
    ):  # fmt: skip
        if name == "columns":
            pd = pytest.importorskip("pandas")
            other = PrivateKMeans(
                4, 2.0, 1e-6, trust="ideal", mode="teaching", seed=1, **given
            ).fit([pd.DataFrame(rows, columns=list("abc"))])  # fmt: skip
        else:
            other = fitted(rows, **given)
        with pytest.raises(ValueError, match=f"models must have the same {name}:.*number 1"):
            fedclust.from_copies([months[0], other])
    with pytest.raises(ValueError, match="bounds='private' finds others"):
        found = [fitted(rows * scale, bounds="private") for scale in (1, 100)]
        fedclust.from_copies(found)
    for twice in ([months[0]] * 2, [months[0].recluster(3), fedclust.from_copies(months[:2])]):
        with pytest.raises(ValueError, match="there twice"):
            fedclust.from_copies(twice)
    for wrong in (months[0], [], [months[0], "march.json"], [PrivateKMeans(3, 1.0)]):
        with pytest.raises((TypeError, ValueError), match="models must"):
            fedclust.from_copies(wrong)


@pytest.mark.parametrize("columns", [None, [0, 2], [1]])
def test_a_picture_of_the_copy_shows_noise_as_noise(months, columns):
    drawn = months[0].plot(columns=columns, copy=True)
    copy = months[0].copy_
    sure = copy.weights > 3 * copy.weight_std
    full, rings = drawn.collections[:2]
    assert len(full.get_offsets()) == sure.sum()
    assert len(rings.get_offsets()) == (~sure & (copy.weights > 0)).sum()
    assert len(rings.get_facecolor()) == 0
    matplotlib.pyplot.close("all")
