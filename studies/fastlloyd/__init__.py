"""The study of FastLloyd: data problems, tables, claims, figures, widget."""
