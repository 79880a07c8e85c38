"""Findings in released code of others, checked on that code itself: `docs/findings.md` has them.

    python -m tools.findings                      Flower, where it is installed
    python -m tools.findings --fastlloyd FOLDER   a copy of FastLloyd's code (needs diffprivlib)

Each function returns the numbers that the page prints; nothing is sent anywhere.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from fedclust_helpers.accounting import gdp_delta

Numbers = dict[str, Any]


def flower_masks() -> Numbers:
    """Masks of SecAgg and SecAgg+ are drawn from a seed of 32 bits, and below the last residue."""
    from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

    key = bytes(range(32))
    other = key[4:] + key[:4]  # the words of a key are XORed: their order does not count
    masks = [pseudo_rand_gen(k, 1 << 22, [(1000,)])[0] for k in (key, other)]
    tiny = pseudo_rand_gen(key, 4, [(100_000,)])[0]
    return {
        "version": version("flwr"), "keys_differ": key != other,
        "one_mask": bool(np.array_equal(*masks)), "of_four_residues": sorted(set(tiny.tolist())),
    }  # fmt: skip


def flower_local_dp(epsilon: float = 20.0, delta: float = 1e-5) -> Numbers:
    """Noise of `LocalDpMod`, measured on 100,000 numbers, and the delta that it really keeps."""
    from flwr.app import Array, ArrayRecord, RecordDict
    from flwr.clientapp.mod import LocalDpMod

    def message(value: float) -> Any:
        record = ArrayRecord({"w": Array(np.full(100_000, value))})
        return SimpleNamespace(content=RecordDict({"arrays": record}), has_error=lambda: False)

    np.random.seed(0)  # noqa: NPY002  (where the module draws from)
    run: Any = LocalDpMod(1.0, 1.0, epsilon, delta)
    sent = run(message(0.0), None, lambda *_: message(1e-9))  # a length of 0 is not clipped
    std = float(sent.content["arrays"]["w"].numpy().std())
    return {
        "epsilon": epsilon, "claimed": delta, "std": std, "kept": gdp_delta(1 / std, epsilon),
    }  # fmt: skip


def fastlloyd_server(folder: Path) -> Numbers:
    """Noise of its server in the first two rounds: for two seeds, of sums and of counts."""
    for name in ("data_io", "configs"):  # not needed for noise
        sys.modules.setdefault(name, ModuleType(name))
    vars(sys.modules["data_io"]).update(to_fixed=float, to_int=float)
    vars(sys.modules["configs"]).update(Params=object)
    spec = importlib.util.spec_from_file_location("released", folder / "parties" / "server.py")
    assert spec is not None and spec.loader is not None
    released = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(released)

    def noise(seed: int, n_rounds: int) -> list[np.ndarray]:
        params = SimpleNamespace(
            dp="gaussiananalytic", seed=seed, data_size=1000, dim=2, rho=0.225, eps=1.0,
            method="none", iters=7, max_dist=math.inf,
        )  # fmt: skip
        server = released.Server(params)
        for _ in range(n_rounds):
            zeros = [np.zeros(6)], [np.zeros(6)]
            drawn = server.step(*zeros)
        scales = server.sum_mech._scale, server.count_mech._scale
        return [np.asarray(d) / s for d, s in zip(drawn, scales, strict=True)]

    rounds = {(seed, n): noise(seed, n) for seed in (1, 2) for n in (1, 2)}
    return {
        "round_0_of_two_seeds_equal": bool(np.allclose(rounds[1, 1][0], rounds[2, 1][0])),
        "round_1_of_two_seeds_equal": bool(np.allclose(rounds[1, 2][0], rounds[2, 2][0])),
        "sums_and_counts_have_one_noise": all(np.allclose(*each) for each in rounds.values()),
    }


def main() -> None:
    """Print what is found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fastlloyd", type=Path)
    folder = parser.parse_args().fastlloyd
    checks = [lambda: fastlloyd_server(folder)] if folder else [flower_masks, flower_local_dp]
    for check in checks:
        print(check())


if __name__ == "__main__":
    main()
