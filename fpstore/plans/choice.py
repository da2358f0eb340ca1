"""What a caller asks for as a plan, and the plan that comes of it once the number of fingerprints is known."""

from dataclasses import dataclass, replace
from math import inf

from fpstore.arrays import as_integer
from fpstore.checks import wrong
from fpstore.errors import PlanError
from fpstore.format import (
    BITS_STEP,
    BLOCK_BYTES,
    KEY_BITS,
    MAX_BLOCK_BYTES,
    MAX_KEY_BITS,
    MIN_BLOCK_BYTES,
    MIN_KEY_BITS,
    WIDE_BITS,
)
from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan
from fpstore.plans.planner import MAX_DISTANCE
from fpstore.plans.wide import MAX_WIDE_DISTANCE, SLOT_CODES, choose_wide
from fpstore.types import LAYOUTS

# The number of fingerprints that a plan is chosen for when it is not known yet.
EXPECTED_KEYS = 10**7


def plan_asked(plan: str | Plan, max_bytes: float | None) -> str | float | Plan:
    """What PlanChoice takes of a caller's two arguments: the most bytes per fingerprint, or else plan itself.

    ValueError for both, and for a plan that is a number.
    """
    if max_bytes is None:
        if not isinstance(plan, str | Plan):
            raise ValueError(f"plan: found {plan!r:.40}, expected {', '.join(planner.AIMS)}, a name or a Plan")
        return plan
    if plan != "balanced":
        raise ValueError(f"plan and max_bytes: found {plan!r:.40} and {max_bytes!r:.40}, expected one of the two")
    number = isinstance(max_bytes, int | float) and not isinstance(max_bytes, bool)
    if not number or not 0 < max_bytes < inf:
        raise ValueError(f"max_bytes: found {max_bytes!r:.40}, expected a number of bytes per fingerprint")
    return float(max_bytes)


def block_bytes_asked(layout: str, block_bytes: int | None) -> int:
    """What PlanChoice takes of a caller's two arguments: 0 for layout slots. ValueError for what cannot be."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout: found {layout!r:.40}, expected {' or '.join(LAYOUTS)}")
    if layout == "slots":
        if block_bytes is not None:
            raise ValueError(f"block_bytes: found {block_bytes!r:.40} with layout slots, expected layout blocks")
        return 0
    number = as_integer(BLOCK_BYTES if block_bytes is None else block_bytes)
    if number is None or not MIN_BLOCK_BYTES <= number <= MAX_BLOCK_BYTES:
        expected = f"an integer from {MIN_BLOCK_BYTES} to {MAX_BLOCK_BYTES}"
        raise ValueError(f"block_bytes: found {block_bytes!r:.40}, expected {expected}")
    return number


def expect_bits(bits: object, step: int = BITS_STEP, *, wide: bool = True) -> int:
    """bits, those of a store's fingerprints, as an int, a multiple of step. ValueError for what no store has.

    wide: whether wide fingerprints will do, too.
    """
    number = as_integer(bits)
    if wide and number is not None and number in WIDE_BITS:
        return number
    if number is None or not MIN_KEY_BITS <= number <= MAX_KEY_BITS or number % step:
        kind = "an integer" if step == 1 else f"a multiple of {step}"
        expected = f"{kind} from {MIN_KEY_BITS} to {MAX_KEY_BITS}"
        expected += f", or {' or '.join(map(str, WIDE_BITS))}" if wide else ""
        wider = next((each for each in WIDE_BITS if wide and number is not None and MAX_KEY_BITS < number < each), None)
        if wider is not None:  # zeros in the same places of all change no distance; above, they would be the first band
            expected += f"; {number} bits are kept as {wider}, with zeros below them"
        raise ValueError(f"bits: found {bits!r:.40}, expected {expected}")
    return number


def most_distance(bits: int) -> int:
    """The largest max_distance that a store of fingerprints of so many bits is made for."""
    return MAX_WIDE_DISTANCE if bits in WIDE_BITS else min(MAX_DISTANCE, bits)


@dataclass(frozen=True)
class PlanChoice:
    """A distance and an aim, a number of bytes per fingerprint, a name, or a Plan; checked when it is made.

    bits: of a fingerprint. block_bytes: of a plan that has none, what it gets. Raises ValueError for what is none of
    these, PlanError for a plan that would miss, is of other fingerprints or answers a smaller distance.
    """

    max_distance: int
    plan: str | float | Plan
    bits: int = KEY_BITS
    block_bytes: int = 0

    def __post_init__(self) -> None:
        step = 1 if isinstance(self.plan, Plan) else BITS_STEP  # of the plan of another store, which has what it has
        object.__setattr__(self, "bits", expect_bits(self.bits, step))
        k = as_integer(self.max_distance)
        most = most_distance(self.bits)
        if k is None or not 0 <= k <= most:
            raise ValueError(f"max_distance: found {self.max_distance!r}, expected an integer from 0 to {most}")
        object.__setattr__(self, "max_distance", k)
        if self.is_wide and self.block_bytes:
            raise ValueError(f"layout: found 'blocks' with {self.bits} bits, expected 'slots'")
        if isinstance(self.plan, str):
            if self.plan not in planner.AIMS:
                plan = plans.named(self.plan, k, self.bits, others=planner.AIMS)
                object.__setattr__(self, "plan", replace(plan, slot_keys=SLOT_CODES) if self.is_wide else plan)
        elif isinstance(self.plan, Plan):
            if self.plan.bits != self.bits:
                raise PlanError(wrong(f"plan {self.plan.name}, bits", f"{self.plan.bits}", self.bits))
            if self.plan.max_distance < k:
                where = f"plan {self.plan.name}, max_distance"
                raise PlanError(wrong(where, f"{self.plan.max_distance}", f"{k} or more"))
            self.plan.prove()
        elif not isinstance(self.plan, int | float) or isinstance(self.plan, bool) or not 0 < self.plan < inf:
            aims = ", ".join(planner.AIMS)
            raise ValueError(f"plan: found {self.plan!r:.40}, expected {aims}, bytes per fingerprint, a name or a Plan")

    @property
    def is_wide(self) -> bool:
        """Whether fingerprints are wide codes, which no key is made of."""
        return self.bits in WIDE_BITS

    def for_count(self, count: int) -> Plan:
        """The plan for so many fingerprints, or as many as there can be."""
        if isinstance(self.plan, Plan):
            return (
                self.plan if self.is_wide else replace(self.plan, block_bytes=self.block_bytes or self.plan.block_bytes)
            )
        if self.is_wide:
            return choose_wide(count, self.max_distance, self.plan, self.bits)
        plan = planner.choose(min(count, 1 << self.bits), self.max_distance, self.plan, self.bits)
        return replace(plan, block_bytes=self.block_bytes)

    def shuffled(self, shuffle: int | None, count: int = EXPECTED_KEYS) -> "PlanChoice":
        """The choice with the plan's bits shuffled by this number; with None as it is. ValueError for anything else.

        The order of table 0 then depends on the plan, which so has to be chosen before the keys are read: for count.
        """
        if shuffle is None:
            return self
        number = as_integer(shuffle)
        if number is None:
            raise ValueError(f"shuffle: found {shuffle!r:.40}, expected an integer or None")
        return replace(self, plan=self.for_count(count).shuffled(number))

    @property
    def first_permutation(self) -> Permutation:
        """Table 0's, known before the count is: the planner's own plans all begin with the identity."""
        mask = self.plan.tables[0].prefix_mask if isinstance(self.plan, Plan) else 0
        return Permutation(mask, self.bits)
