"""All mutants, in the order of the floors: the ground, wire, network, papers, and beyond."""

from __future__ import annotations

from tools.mutants import beyond, ground, network, papers, wire
from tools.mutants.base import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *ground.MUTANTS, *wire.MUTANTS, *network.MUTANTS, *papers.MUTANTS, *beyond.MUTANTS,
)  # fmt: skip
