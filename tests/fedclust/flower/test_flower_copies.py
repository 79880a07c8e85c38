"""The copy of the data that a study over a network leaves: a model that is clustered again."""

import json
from pathlib import Path

import numpy as np
import pytest
from flower_cases import Direct, client_rows, open_rooms, server, study

import fedclust
from fedclust.flower.process import MODEL, write_result
from fedclust_helpers.federation import ClientData, simulate

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]
UNITS = {"columns": ["age", "dose"], "lower": [0, 10], "upper": [100, 30], "bound": 2.0}


def model_of(folder: Path, receiver: str, run: str, seed: int):
    """What the receivers of a run write, the study, and the same run in one process."""
    agreed = study(
        run=run, method="fastlloyd_overclustered", options={"n_clusters": 3, "epsilon": 4.0},
        receiver=receiver, seed=seed, **UNITS,
    )  # fmt: skip
    folder.mkdir()
    rooms = open_rooms(folder, agreed)
    result = server(folder, agreed, Direct(rooms)).run()
    write_result(folder, agreed, rooms[0].result if result is None else result, "said")
    rows = ClientData.from_clients([agreed.scaled(rows) for rows in client_rows()])
    one = simulate(rows, "masked", **agreed.federation_options)
    return fedclust.load(folder / MODEL), agreed, agreed.follow(one, agreed.planned(one))


@pytest.mark.parametrize("receiver", ["clients", "server"])
def test_a_study_leaves_a_model_with_its_copy(tmp_path, receiver):
    jsonschema = pytest.importorskip("jsonschema")
    model, agreed, one = model_of(tmp_path / "a", receiver, "january", 5)
    schema = Path(fedclust.estimators.__file__).parent / "statement.schema.json"
    jsonschema.Draft202012Validator(json.loads(schema.read_text("utf-8"))).validate(
        json.loads((tmp_path / "a" / MODEL).read_text("utf-8"))
    )
    np.testing.assert_allclose(model.cluster_centers_, agreed.in_units(one.centers))
    np.testing.assert_allclose(model.copy_.points, agreed.in_units(one.copy.points))
    np.testing.assert_array_equal(model.copy_.weights, one.copy.weights)
    again = one.copy.centers(2, rng=np.random.default_rng(0))
    other = model.recluster(2)
    np.testing.assert_allclose(other.cluster_centers_, agreed.in_units(again))
    said = one.copy.around(again)
    np.testing.assert_allclose(other._center_std, said.center_std / agreed.bound)
    assert "over a network" in str(other.statement())
    february = model_of(tmp_path / "b", receiver, "february", 6)[0]
    both = fedclust.from_copies([model, february], 2)
    assert both.cluster_sizes_.sum() == pytest.approx(2 * agreed.n_records)
