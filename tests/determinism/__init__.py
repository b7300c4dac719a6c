"""Whether the same experiment always gives the same bits: a matrix of kinds and surroundings, and stored digests."""
