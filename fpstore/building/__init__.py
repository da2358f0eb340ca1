"""From fingerprints in any order to a segment."""
