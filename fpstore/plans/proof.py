"""The proof that tables catch every pattern of a given number of errors: an exact search for one that escapes."""

from collections.abc import Iterator, Sequence

from fpstore.checks import wrong
from fpstore.errors import PlanError

# A proof visits tables; the plans in the product need some thousands of visits, and this many take seconds.
# A plan is a stranger's when it comes from a store, so the search must end.
MAX_PROOF_VISITS = 1_000_000

# A prefix mask, and how many errors within it the table catches.
Table = tuple[int, int]


def escape(bands: Sequence[int], tables: Sequence[Table], errors: int) -> int | None:
    """At most so many errors, as a bit mask, that no table catches; None if every pattern is caught.

    bands: disjoint masks of which every prefix mask is a union. Not a formula: it holds for any masks and flips. Raises
    PlanError where the tables are too tangled to be decided in MAX_PROOF_VISITS.
    """
    return _EscapeSearch(tables, _atoms(bands, tables), errors).run()


def ones(mask: int) -> Iterator[int]:
    """The positions of the bits of mask that are set, from the least significant on."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _atoms(bands: Sequence[int], tables: Sequence[Table]) -> tuple[int, ...]:
    """The bands merged where the same tables hold them: which bit of an atom is wrong does not matter."""
    merged: dict[tuple[int, ...], int] = {}
    for band in bands:
        owners = tuple(index for index, table in enumerate(tables) if table[0] & band)
        merged[owners] = merged.get(owners, 0) | band
    return tuple(merged[owners] for owners in merged if owners)


# Tables still to be escaped: a set of atoms (bit i = atom i), and how many more errors must fall on them.
_Needs = dict[int, int]


class _EscapeSearch:
    """Looks for few errors that give every table more of them than it has flips.

    Depth-first: some atom of a table that still catches either gets another error, or none ever, so no pattern is
    visited twice. A branch ends when tables that share no atom need more errors than are left, or one table more than
    its atoms have room for. Remembering hopeless states would only halve the visits.
    """

    def __init__(self, tables: Sequence[Table], atoms: tuple[int, ...], errors: int) -> None:
        self._atoms = atoms
        self._errors_left = errors
        self._needs: _Needs = {}
        for prefix_mask, flips in tables:
            owned = sum(1 << i for i, atom in enumerate(atoms) if atom & prefix_mask)
            self._needs[owned] = max(self._needs.get(owned, 0), flips + 1)
        self._visits_left = MAX_PROOF_VISITS

    def run(self) -> int | None:
        """The errors as a bit mask, or None when no pattern escapes."""
        room = tuple(atom.bit_count() for atom in self._atoms)
        path = self._escape(self._needs, room, self._errors_left)
        if path is None:
            return None
        errors = 0
        for i in path:
            spare = self._atoms[i] & ~errors
            errors |= 1 << (spare.bit_length() - 1)
        return errors

    def _escape(self, needs: _Needs, room: tuple[int, ...], errors_left: int) -> list[int] | None:
        """The atoms to give an error to, one entry for each error, or None when errors_left are too few."""
        if not needs:
            return []
        if self._is_hopeless(needs, room, errors_left):
            return None
        tightest = min(needs, key=lambda owned: (owned.bit_count(), -needs[owned], owned))
        # The atom that serves most of the tables in need: doing without it prunes most.
        i = max(ones(tightest), key=lambda atom: sum(owned >> atom & 1 for owned in needs))
        path = self._escape(*_with_error(needs, room, i), errors_left - 1)
        if path is not None:
            return [i, *path]
        return self._escape(*_without_room(needs, room, i), errors_left)

    def _is_hopeless(self, needs: _Needs, room: tuple[int, ...], errors_left: int) -> bool:
        self._visits_left -= len(needs)
        if self._visits_left < 0:
            raise PlanError(wrong("tables", f"no proof in {MAX_PROOF_VISITS} steps", "fewer or simpler ones"))
        needed = 0
        taken = 0
        for owned in sorted(needs, key=int.bit_count):
            need = needs[owned]
            if need > errors_left or need > sum(room[i] for i in ones(owned)):
                return True
            if not owned & taken:
                taken |= owned
                needed += need
        return needed > errors_left


def _with_error(needs: _Needs, room: tuple[int, ...], i: int) -> tuple[_Needs, tuple[int, ...]]:
    """The state after one more error on atom i."""
    fewer = {owned: need - (owned >> i & 1) for owned, need in needs.items()}
    still_needy = {owned: need for owned, need in fewer.items() if need}
    if room[i] == 1:
        return _without_room(still_needy, room, i)
    return still_needy, (*room[:i], room[i] - 1, *room[i + 1 :])


def _without_room(needs: _Needs, room: tuple[int, ...], i: int) -> tuple[_Needs, tuple[int, ...]]:
    """The state in which atom i gets no further error. Tables that then hold the same atoms become one."""
    narrower: _Needs = {}
    for owned, need in needs.items():
        rest = owned & ~(1 << i)
        narrower[rest] = max(narrower.get(rest, 0), need)
    return narrower, (*room[:i], 0, *room[i + 1 :])
