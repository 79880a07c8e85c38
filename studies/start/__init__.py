"""The study of the first notebook: its figures and its widget."""
