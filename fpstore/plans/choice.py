"""What a caller asks for as a plan, and the plan that comes of it once the number of fingerprints is known."""

from dataclasses import dataclass, replace
from math import inf

from fpstore.arrays import as_integer
from fpstore.checks import wrong
from fpstore.errors import PlanError
from fpstore.format import KEY_BITS
from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan
from fpstore.plans.planner import MAX_DISTANCE

# The number of fingerprints that a plan is chosen for when it is not known yet.
EXPECTED_KEYS = 10**7


@dataclass(frozen=True)
class PlanChoice:
    """A distance and an aim, a number of bytes per fingerprint, a name, or a Plan; checked when it is made.

    Raises ValueError for what is none of these, PlanError for a plan that would miss or answers less than k.
    """

    k: int
    plan: str | float | Plan

    def __post_init__(self) -> None:
        k = as_integer(self.k)
        if k is None or not 0 <= k <= MAX_DISTANCE:
            raise ValueError(f"k: found {self.k!r}, expected an integer from 0 to {MAX_DISTANCE}")
        object.__setattr__(self, "k", k)
        if isinstance(self.plan, str):
            if self.plan not in planner.AIMS:
                object.__setattr__(self, "plan", plans.named(self.plan, k))
        elif isinstance(self.plan, Plan):
            if self.plan.key_bits != KEY_BITS:
                raise PlanError(wrong(f"plan {self.plan.name}, key_bits", f"{self.plan.key_bits}", KEY_BITS))
            if self.plan.k < k:
                raise PlanError(wrong(f"plan {self.plan.name}, k", f"{self.plan.k}", f"{k} or more"))
            self.plan.prove()
        elif not isinstance(self.plan, int | float) or isinstance(self.plan, bool) or not 0 < self.plan < inf:
            aims = ", ".join(planner.AIMS)
            raise ValueError(f"plan: found {self.plan!r:.40}, expected {aims}, bytes per fingerprint, a name or a Plan")

    def for_count(self, count: int) -> Plan:
        """The plan for so many fingerprints."""
        return self.plan if isinstance(self.plan, Plan) else planner.choose(count, self.k, self.plan)

    def shuffled(self, seed: int | None, count: int = EXPECTED_KEYS) -> "PlanChoice":
        """The choice with the plan's bits shuffled by the seed; with None as it is. ValueError for any other seed.

        The order of table 0 then depends on the plan, which so has to be chosen before the keys are read: for count.
        """
        if seed is None:
            return self
        number = as_integer(seed)
        if number is None:
            raise ValueError(f"seed: found {seed!r:.40}, expected an integer or None")
        return replace(self, plan=self.for_count(count).shuffled(number))

    @property
    def first_permutation(self) -> Permutation:
        """Table 0's, known before the count is: the planner's own plans all begin with the identity."""
        mask = self.plan.tables[0].prefix_mask if isinstance(self.plan, Plan) else 0
        return Permutation(mask)
