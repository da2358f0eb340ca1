"""Wide fingerprints, 128 or 256 bits: one copy of them in order, and tables that tell which share a prefix."""
