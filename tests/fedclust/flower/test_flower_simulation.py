"""The same rooms behind Flower's simulation engine: round by round what one process gives.

In the tier of `make federation-test`; needs Ray: FLOWER='flwr[simulation]==1.41.0'.
"""

from pathlib import Path

import pytest
from flower_cases import LOCAL, SERVERLESS, assert_same, open_room, open_rooms, server, study

pytestmark = [
    pytest.mark.federation,
    pytest.mark.filterwarnings("ignore"),  # the engine's own
]
pytest.importorskip("flwr", reason="needs Flower: make federation-test")
pytest.importorskip("ray", reason="needs Ray: make federation-test FLOWER='flwr[simulation]'")

STUDIES = {
    "masked": study(noise_from="server"),
    "serverless": study(**SERVERLESS),
    "local": study(
        method="ldp_one_round", options={"n_clusters": 2, "epsilon": 6.0, "sums": True}, **LOCAL
    ),
}  # fmt: skip


def client_app(folder: Path):
    """A client that opens its rooms for each message, as a room that is started again would."""
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query()
    def query(message, context):
        name, request = (folder / "now").read_text(), message.content["fedclust"]["message"]
        room = open_room(folder / name, STUDIES[name], int(context.node_config["partition-id"]))
        content = RecordDict({"fedclust": ConfigRecord({"message": room.answer(request)})})
        return Message(content=content, reply_to=message)

    return app


def test_rounds_are_those_of_one_process(tmp_path, monkeypatch):
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    from fedclust.flower.server import FlowerTransport

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "0")
    returned, app = {}, ServerApp()

    @app.main()
    def main(grid, context):
        for name, agreed in STUDIES.items():
            (tmp_path / name).mkdir()
            (tmp_path / "now").write_text(name)
            transport = FlowerTransport(grid, agreed.n_clients)
            room = server(tmp_path / name, agreed, transport, deadline=300.0, patience=60.0)
            returned[name] = room.run()

    run_simulation(
        app, client_app(tmp_path), num_supernodes=3,
        backend_config={"init_args": {"num_cpus": 1}, "client_resources": {"num_cpus": 1}},
    )  # fmt: skip
    for name, agreed in STUDIES.items():
        rooms = open_rooms(tmp_path / name, agreed)
        assert_same(agreed, returned[name], rooms)
