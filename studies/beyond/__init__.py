"""Beyond the papers: better releases at the same guarantee, measured beside what they improve."""
