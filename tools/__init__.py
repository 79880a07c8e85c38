"""Tools that look for holes in the package: mutants of its code, and bad input to its functions."""
