"""Runs pure-LDP's frequency oracles for `tools.rivals`, in an environment of its own.

Reads one request a line (JSON) from standard input, answers with one line. Imports nothing of ours.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from importlib.metadata import version
from typing import Any

import numpy as np
from pure_ldp.frequency_oracles import direct_encoding, hadamard_response, local_hashing
from pure_ldp.frequency_oracles import unary_encoding as unary


def made(oracle: str, epsilon: float, n_values: int) -> tuple[Any, Any]:
    """Client and server of an oracle by our name for it."""
    if oracle == "k-rr":
        kinds = direct_encoding.DEClient, direct_encoding.DEServer
        return kinds[0](epsilon, n_values), kinds[1](epsilon, n_values)
    if oracle == "olh":
        options = {"use_olh": True}
        return (
            local_hashing.LHClient(epsilon, n_values, **options),
            local_hashing.LHServer(epsilon, n_values, **options),
        )
    if oracle == "oue":
        return (
            unary.UEClient(epsilon, n_values, use_oue=True),
            unary.UEServer(epsilon, n_values, use_oue=True),
        )
    server = hadamard_response.HadamardResponseServer(epsilon, n_values)
    client = hadamard_response.HadamardResponseClient(
        epsilon, n_values, hash_funcs=server.get_hash_funcs()
    )
    return client, server


def errors(request: dict[str, Any]) -> dict[str, Any]:
    """Mean squared error of all counts of each run, and its processor time."""
    squares, seconds, n_values = [], [], request["n_values"]
    for seed in request["seeds"]:
        # it draws from the global generators, which are seeded by their names: ours never do that
        getattr(np.random, "seed")(seed)  # noqa: B009
        importlib.import_module("random").seed(seed)
        values = np.random.default_rng(seed).integers(n_values, size=request["n"])
        begin = time.process_time()
        client, server = made(request["oracle"], request["epsilon"], n_values)
        for value in values.tolist():
            # its values are numbered from one
            server.aggregate(client.privatise(value + 1))
        found = [server.estimate(i + 1, suppress_warnings=True) for i in range(n_values)]
        seconds.append(time.process_time() - begin)
        squares.append(float(np.mean((found - np.bincount(values, minlength=n_values)) ** 2)))
    return {"squares": squares, "seconds": seconds}


def main() -> None:
    """Answer until there are no more requests."""
    print(json.dumps({"version": version("pure-ldp")}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        assert request.pop("ask") == "errors"
        print(json.dumps(errors(request)), flush=True)


if __name__ == "__main__":
    main()
