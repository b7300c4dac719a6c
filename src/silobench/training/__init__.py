"""One party's part of a round, and the values of a round: replies, state and record. Engines decide where it runs."""
