"""Seconds per round of IFCA in Flower's simulation engine, for `run.py`; needs flwr[simulation].

Runs in an environment of its own (Flower pins many packages) and uses nothing of this repository:

    python -m venv flower-env && flower-env/bin/pip install "flwr[simulation]"
    FEDCLUST_FLOWER_PYTHON=flower-env/bin/python python tools/bench/run.py

    python tools/bench/flower_round.py FOLDER ROUNDS

FOLDER holds points.npy (M, n, p), labels.npy (M, n) and models.npy (k, d). Prints one JSON list:
the seconds of each round after the first, which starts the engine. Every client is a ClientApp that
evaluates k losses, takes 5 gradient steps and answers with its choice and its clipped update.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

FOLDER, ROUNDS = Path(sys.argv[1]), int(sys.argv[2])
COHORT, STEPS, RATE, CLIP = 100, 5, 0.3, 0.3


def respond(models: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[int, np.ndarray]:
    """The choice and clipped update of one client: points (n, p), labels (n,)."""
    n, p = x.shape
    aims = np.eye(10)[y]
    weights = models.reshape(len(models), p + 1, 10)
    losses = []
    for matrix in weights:
        z = x @ matrix[:-1] + matrix[-1]
        losses.append((np.log(np.exp(z).sum(axis=1)) - z[np.arange(n), y]).mean())
    choice = int(np.argmin(losses))
    w = weights[choice].copy()
    for _ in range(STEPS):
        z = np.exp(x @ w[:-1] + w[-1])
        error = (z / z.sum(axis=1, keepdims=True) - aims) / n
        w[:-1] -= RATE * x.T @ error
        w[-1] -= RATE * error.sum(axis=0)
    update = (w - weights[choice]).ravel()
    return choice, update * min(1.0, CLIP / np.linalg.norm(update))


client_app = ClientApp()
server_app = ServerApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """One client's answer to the models of a round."""
    i = int(context.node_config["partition-id"])
    points, labels = (
        np.load(FOLDER / f"{name}.npy", mmap_mode="r") for name in ("points", "labels")
    )
    models = message.content["models"].to_numpy_ndarrays()[0]
    choice, update = respond(models, np.asarray(points[i]), np.asarray(labels[i]))
    content = {"update": ArrayRecord([update]), "choice": ConfigRecord({"choice": choice})}
    return Message(content=RecordDict(content), reply_to=message)


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """Rounds of 100 drawn clients; prints their times."""
    rng = np.random.default_rng(0)
    models = np.load(FOLDER / "models.npy")
    n_clients = len(np.load(FOLDER / "labels.npy", mmap_mode="r"))
    while len(nodes := list(grid.get_node_ids())) < n_clients:
        time.sleep(0.1)
    seconds = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        content = RecordDict({"models": ArrayRecord([models])})
        replies = grid.send_and_receive(
            [
                Message(content=content, message_type=MessageType.TRAIN, dst_node_id=nodes[i])
                for i in rng.choice(n_clients, COHORT, replace=False)
            ]
        )
        sums, counts = np.zeros_like(models), np.zeros(len(models))
        for reply in replies:
            choice = int(reply.content["choice"]["choice"])
            sums[choice] += reply.content["update"].to_numpy_ndarrays()[0]
            counts[choice] += 1
        assert counts.sum() == COHORT, f"{COHORT - counts.sum():g} clients did not answer"
        models = models + sums / np.maximum(counts, 1)[:, None]
        seconds.append(time.perf_counter() - start)
    print("seconds per round:", json.dumps(seconds[1:]), flush=True)


if __name__ == "__main__":
    run_simulation(
        server_app, client_app, num_supernodes=len(np.load(FOLDER / "labels.npy", mmap_mode="r")),
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )  # fmt: skip
