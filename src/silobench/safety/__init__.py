"""What keeps secrets and readers safe: files that only their owner may read, and names of others as harmless text."""
