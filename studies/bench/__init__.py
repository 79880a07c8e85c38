"""What all studies share: the runner of tables, timing, the style of figures."""
