"""The study of the notebook on own data: its figures and its widget."""
