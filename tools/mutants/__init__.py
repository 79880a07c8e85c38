"""Mutants: small wrong versions of the package, each of which a test must notice.

A mutant replaces a piece of text by another one and breaks one property of privacy. `make mutants`
applies each to a copy of the tree, runs the tests that are named with it, and prints which of them
failed. A mutant that no test notices is a hole in the tests.
"""

from __future__ import annotations

from tools.mutants.base import Edit, Mutant, PatchError
from tools.mutants.catalogue import MUTANTS

__all__ = ["MUTANTS", "Edit", "Mutant", "PatchError"]
