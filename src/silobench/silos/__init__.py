"""Learning between real organisations: what a silo answers, and what a lead asks."""
