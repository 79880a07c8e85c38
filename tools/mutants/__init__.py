"""Mutants: small wrong versions of the package, each of which a test must notice.

`make mutants` applies each to a copy of the tree, runs the tests that are named with it, and says
which failed. A mutant that no test notices is a hole in the tests. Those of `mutants.txt` break one
property of privacy each and were thought of by people; `mechanical` draws others by chance.
"""
