"""Mistakes in plans, and how a plan is chosen."""

from mutants.record import Mutant

MUTANTS = (
    Mutant(
        "a proof takes each table to catch an error less",
        "fpstore/plans/proof.py",
        "max(self._needs.get(owned, 0), flips + 1)",
        "max(self._needs.get(owned, 0), flips)",
        "sound plans are refused",
        ("tests/test_plan.py::test_a_named_plan_proves_itself_and_keeps_its_name",),
    ),
    Mutant(
        "a proof gives up with just as many errors as it needs",
        "fpstore/plans/proof.py",
        "return needed > errors_left",
        "return needed >= errors_left",
        "a plan that misses is taken for exact",
        ("tests/test_plan.py::test_the_proof_agrees_with_trying_every_error_pattern",),
    ),
    Mutant(
        "a proof does not try to spare an atom",
        "fpstore/plans/proof.py",
        "return self._escape(*_without_room(needs, room, i), errors_left)",
        "return None",
        "errors that escape are not found",
        ("tests/test_plan.py::test_a_plan_with_one_table_left_out_is_refused_with_a_pattern_that_escapes",),
    ),
    Mutant(
        "tables that merge keep the smaller need",
        "fpstore/plans/proof.py",
        "narrower[rest] = max(narrower.get(rest, 0), need)",
        "narrower[rest] = min(narrower.get(rest, need), need)",
        "errors that one of the two catches are said to escape",
        ("tests/test_plan.py::test_the_proof_agrees_with_trying_every_error_pattern_of_tangled_tables",),
    ),
    Mutant(
        "a plan for a smaller distance is taken",
        "fpstore/plans/choice.py",
        "if self.plan.max_distance < k:",
        "if self.plan.max_distance < k - 1:",
        "a store promises a distance that its plan does not answer",
        ("tests/test_builder.py::test_a_wrong_argument_is_refused_and_nothing_is_written",),
    ),
    Mutant(
        "a plan of the caller's is not proven",
        "fpstore/plans/choice.py",
        "self.plan.prove()",
        "pass",
        "a store misses matches",
        ("tests/test_builder.py::test_a_plan_that_could_miss_is_refused_with_what_it_misses",),
    ),
    Mutant(
        "the wider bands come last",
        "fpstore/plans/families.py",
        "min(index, wider_count)",
        "max(0, index - count + wider_count)",
        "the bytes of a named plan are others",
        ("tests/test_plan.py::test_flips_on_even_bands_put_wider_bands_first",),
    ),
    Mutant(
        "a plan from a store is not proven",
        "fpstore/living/opening.py",
        "plan.prove()",
        "pass",
        "a store whose plan was changed answers less without an error",
        ("tests/test_store_damage.py::test_a_catalog_whose_plan_does_not_hold_is_refused",),
    ),
    Mutant(
        "k above the plan's is taken from a store",
        "fpstore/living/opening.py",
        "if settings.max_distance > plan.max_distance:",
        "if settings.max_distance > plan.max_distance + 1:",
        "a store promises a distance that its plan does not answer",
        ("tests/test_store_damage.py::test_a_catalog_whose_plan_does_not_hold_is_refused",),
    ),
)
