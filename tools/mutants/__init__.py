"""The mistakes that tools/check_mutants.py plants, each with the tests that catch it.

A mistake is one that somebody could make: a bound one off, a case left out, a sync lost, a tie broken in another way.
What cannot change an answer, a file or a promise is none.
"""

from mutants import adapters, building, clusters, living, native, plans, segment, serving, signatures, wings
from mutants.record import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *plans.MUTANTS,
    *segment.MUTANTS,
    *building.MUTANTS,
    *living.MUTANTS,
    *wings.MUTANTS,
    *serving.MUTANTS,
    *signatures.MUTANTS,
    *clusters.MUTANTS,
    *native.MUTANTS,
    *adapters.MUTANTS,
)
