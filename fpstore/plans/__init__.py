"""Plans: which tables a store keeps, the proof that no match is missed, and which plan to take."""
