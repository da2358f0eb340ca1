"""The C kernels (fpstore/native): which instructions they use, and that they compute with them what they should.

Every compiled module of the package imports this one first. ImportError where a known answer is another.
"""


cdef class KernelsAreRight:
    """Declared in _native.pxd, so that every module that uses the kernels imports this one."""


cdef features_of(InstructionSet instruction_set):
    cdef const char *const *names = instruction_set_features(instruction_set)
    cdef list found = []
    while names[0] != NULL:
        found.append(names[0].decode())
        names += 1
    return tuple(found)


INSTRUCTION_SETS = ("portable", "fast", "wide")
# What the kernels of each set ask the processor for, besides what those of the set before it do.
FEATURES = {"portable": (), "fast": features_of(SET_FAST), "wide": features_of(SET_WIDE)}
# The one that this process uses.
INSTRUCTION_SET = INSTRUCTION_SETS[fpstore_instruction_set()]


def refuse(str part not None):
    """ImportError: this part of the kernels, as they were chosen, computes something else than its known answer."""
    raise ImportError(
        f"the kernels for the {INSTRUCTION_SET} instructions compute something wrong here ({part}): the processor or the "
        "compiler is not what they need; the environment's FPSTORE_PORTABLE=1 does without the fast and the wide ones"
    )


cdef check_known_answer():
    cdef const char *wrong = known_answer_wrong()
    if wrong != NULL:
        refuse(wrong.decode())


check_known_answer()
