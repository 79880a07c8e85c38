"""Carries the messages of a fedclust study."""
