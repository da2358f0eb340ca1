"""Stores in the shape of other packages' indexes, each in a module of its package's name."""

from fpstore.adapters import datasketch

__all__ = ["datasketch"]
