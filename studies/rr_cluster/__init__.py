"""The study of RR-Cluster: problems, theory, tables, claims, figures, widget, torch models."""
