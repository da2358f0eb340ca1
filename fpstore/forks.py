"""Counts forks, so that what a fork inherits and must not use can be told without asking the system."""

import os

# How many forks lie between the process that imported this and the one that asks.
generation = 0


def _count() -> None:
    global generation
    generation += 1


os.register_at_fork(after_in_child=_count)
