"""Owns what other programs ask of a store and get: line by line through a pipe, or over HTTP."""
