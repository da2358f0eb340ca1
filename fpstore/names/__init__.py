"""Ids that are names: files of them beside the segments, and how the store comes from a name to a handle and back."""
