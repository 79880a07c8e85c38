"""pure-LDP's frequency oracles for `tools.rivals`."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import Any

import numpy as np
from pure_ldp.frequency_oracles import direct_encoding, hadamard_response, local_hashing
from pure_ldp.frequency_oracles import unary_encoding as unary
from serving import of_each_seed, serve


def made(oracle: str, *of: Any) -> tuple[Any, Any]:
    """Client and server of an oracle by our name for it, for epsilon and a number of values."""
    if oracle == "k-rr":
        return direct_encoding.DEClient(*of), direct_encoding.DEServer(*of)
    if oracle == "olh":
        options = {"use_olh": True}
        return local_hashing.LHClient(*of, **options), local_hashing.LHServer(*of, **options)
    if oracle == "oue":
        return unary.UEClient(*of, use_oue=True), unary.UEServer(*of, use_oue=True)
    server = hadamard_response.HadamardResponseServer(*of)
    hashes = server.get_hash_funcs()
    return hadamard_response.HadamardResponseClient(*of, hash_funcs=hashes), server


def errors(request: dict[str, Any]) -> dict[str, Any]:
    """Mean squared error of all counts of each run, and its processor time."""
    n_values = request["n_values"]

    def values_of(seed: int) -> Any:
        return np.random.default_rng(seed).integers(n_values, size=request["n"])

    def run(seed: int) -> list[float]:
        # it draws from the global generators, which are seeded by their names: ours never do that
        getattr(np.random, "seed")(seed)  # noqa: B009
        importlib.import_module("random").seed(seed)
        client, server = made(request["oracle"], request["epsilon"], n_values)
        for value in values_of(seed).tolist():
            server.aggregate(client.privatise(value + 1))  # its values are numbered from one
        return [server.estimate(i + 1, suppress_warnings=True) for i in range(n_values)]

    found, seconds = of_each_seed(request, run)
    exact = [np.bincount(values_of(seed), minlength=n_values) for seed in request["seeds"]]
    squares = ((np.array(found) - exact) ** 2).mean(axis=1)
    return {"squares": squares.tolist(), "seconds": seconds}


if __name__ == "__main__":
    serve(version("pure-ldp"), {"errors": errors})
