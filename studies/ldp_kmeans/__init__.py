"""The study of locally private k-means: problems, theory, tables, claims, figures, widget."""
