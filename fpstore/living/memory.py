"""What is in memory alone, searched as in a store: rows, as one state of it that has no file, and signatures."""

from pathlib import Path

from fpstore.arrays import as_similarity
from fpstore.format import KEY_BITS
from fpstore.living import changes
from fpstore.living.changes import Change
from fpstore.living.removals import Removals
from fpstore.living.snapshot import Snapshot
from fpstore.living.state import Settings, State, new_identity
from fpstore.living.waiting import MIN_PENDING_ROOM, pending_index
from fpstore.living.wide import WideSnapshot
from fpstore.plans.choice import PlanChoice
from fpstore.query.key_memory import MOST_DISTANCE, KeyMemory
from fpstore.query.matches import Matches
from fpstore.sketches.bands import Banding
from fpstore.sketches.kept import Kept, bits_for
from fpstore.sketches.memory import SketchMemory
from fpstore.types import Ids, Keys

# The bits of a key of a band in memory.
MEMORY_BITS = 64


def sketch_memory(values: int, bands: int, rows_per_band: int, first_id: int = 0) -> SketchMemory:
    """Documents by their signatures of so many values. ValueError for bands that these do not have."""
    banding = Banding(bands, rows_per_band, MEMORY_BITS)
    banding.expect_sound(values)
    return SketchMemory(banding, Kept(values, bits_for(values)), first_id)


def as_least(min_similarity: object) -> float | None:
    """A similarity that is asked for, if one is. ValueError, TypeError for what is none."""
    return None if min_similarity is None else as_similarity(min_similarity, "min_similarity")


def key_memory(max_distance: int, count: int, bits: int = KEY_BITS, threads: int = 1) -> "KeyMemory | Memory":
    """Fingerprints of so many bits, for rows whose ids are 0, 1, ...; the arguments are those of both."""
    most = PlanChoice(max_distance, "balanced", bits).max_distance
    if bits == KEY_BITS and most <= MOST_DISTANCE:
        return KeyMemory(most, threads=threads)
    return Memory(max_distance, count, bits)


class Memory:
    """Fingerprints with ids that are numbers. It takes 72 to 88 bytes a row, and has one user at a time.

    max_distance: what it is searched by at most. count: for how many rows the plan is to be good. bits: of each; those
    of more than 64 take a few bytes more than their own, and each is looked at for each question.
    """

    path = Path("memory")

    def __init__(self, max_distance: int, count: int, bits: int = KEY_BITS) -> None:
        """Raises ValueError for a max_distance that no store has."""
        choice = PlanChoice(max_distance, "balanced", bits)
        plan = choice.for_count(max(1, count))
        settings = Settings(choice.max_distance, plan.to_json(), "gap", "uint64", None, bits)
        identity = new_identity()
        state = State(settings, (), 1, 1, identity=identity, origin=identity)
        pending = pending_index(plan, settings, MIN_PENDING_ROOM)
        snapshot_of: type[Snapshot] = WideSnapshot if settings.is_wide else Snapshot
        self._snapshot = snapshot_of(self.path, state, plan, (), pending, 0, Removals.none())

    def nearest_many(
        self, fingerprints: Keys, count: int = 1, *, max_distance: int | None = None, threads: int | None = None
    ) -> Matches:
        """As Store.nearest_many, by one thread."""
        distance = self._snapshot.settings.max_distance if max_distance is None else max_distance
        if count == 1:
            return self._snapshot.nearest(fingerprints, distance)
        return self._snapshot.first(fingerprints, distance, count)

    def probe_many(self, fingerprints: Keys, *, max_distance: int | None = None) -> Matches:
        """As Store.probe_many."""
        distance = self._snapshot.settings.max_distance if max_distance is None else max_distance
        return self._snapshot.search(fingerprints, distance)

    def add(self, fingerprints: Keys, *, ids: Ids) -> None:
        """As Store.add."""
        if len(fingerprints):
            number = self._snapshot.state.next_change
            change = Change(number, changes.ADDED, (fingerprints, ids))
            self._snapshot = self._snapshot.extended([change], self._snapshot.state.after(1))
