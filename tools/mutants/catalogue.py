"""All mutants, in the order of the floors."""

from __future__ import annotations

from tools.mutants import beyond, ground, network, papers, programs, wire
from tools.mutants.base import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *ground.MUTANTS, *wire.MUTANTS, *network.MUTANTS, *programs.MUTANTS, *papers.MUTANTS,
    *beyond.MUTANTS,
)  # fmt: skip
