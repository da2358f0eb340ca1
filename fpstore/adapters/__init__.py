"""Stores in the shape of other packages' indexes, each in a module of its package's name.

One that needs its package is imported by its own name: fpstore.adapters.threatexchange.
"""

from fpstore.adapters import datasketch, faiss, imagehash

__all__ = ["datasketch", "faiss", "imagehash"]
