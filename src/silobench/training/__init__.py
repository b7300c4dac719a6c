"""One party's part of a round, and the values that a round hands on. Engines decide where it runs."""
