"""All mutants, in the order of the floors: the ground, the wire, the papers, and beyond."""

from __future__ import annotations

from tools.mutants import beyond, ground, papers, wire
from tools.mutants.base import Mutant

MUTANTS: tuple[Mutant, ...] = (*ground.MUTANTS, *wire.MUTANTS, *papers.MUTANTS, *beyond.MUTANTS)
