"""The study of FedDP-KMeans: data problems, theory, tables, claims, figures, widget."""
