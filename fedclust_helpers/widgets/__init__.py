"""Widgets of the notebooks: each calls the function that drew the static figure above it."""
