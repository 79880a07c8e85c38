"""What all workers do: one request a line (JSON) from standard input, one line of answer to each.

A worker runs in the environment of its rival, so nothing of ours is imported here.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

Answer = Callable[[dict[str, Any]], dict[str, Any]]


def serve(version: str, answers: dict[str, Answer]) -> None:
    """Tell the version, then answer until there are no more requests."""
    warnings.simplefilter("ignore")
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(answers[request.pop("ask")](request)), flush=True)


def of_each_seed(
    request: dict[str, Any], run: Callable[[int], Any]
) -> tuple[list[Any], list[float]]:
    """What `run` gives for each seed of a request, and the processor time of each."""
    found, seconds = [], []
    for seed in request["seeds"]:
        begin = time.process_time()
        found.append(run(seed))
        seconds.append(time.process_time() - begin)
    return found, seconds
