"""Owns stores that lie elsewhere, where fsspec reaches: read through a mirror on this machine, and put there whole."""
