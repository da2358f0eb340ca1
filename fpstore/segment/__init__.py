"""Segments: one immutable file with every table of one set of fingerprints."""
