"""The C kernels (fpstore/native): which instructions they use.

Every compiled module of the package imports this one first.
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
