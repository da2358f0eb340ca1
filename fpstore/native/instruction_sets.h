/* The one keeper of what the fast and the wide kernels are compiled for: setup.py makes compiler flags of the names,
   and platform.c asks the processor for each, by leaf, subleaf, register and bit of CPUID. What others imply is listed
   too. */
#ifndef FPSTORE_INSTRUCTION_SETS_H
#define FPSTORE_INSTRUCTION_SETS_H

#define FAST_FEATURES(FEATURE)       \
    FEATURE("sse3", 1, 0, ECX, 0)    \
    FEATURE("ssse3", 1, 0, ECX, 9)   \
    FEATURE("sse4.1", 1, 0, ECX, 19) \
    FEATURE("sse4.2", 1, 0, ECX, 20) \
    FEATURE("popcnt", 1, 0, ECX, 23) \
    FEATURE("avx", 1, 0, ECX, 28)    \
    FEATURE("bmi", 7, 0, EBX, 3)     \
    FEATURE("avx2", 7, 0, EBX, 5)    \
    FEATURE("bmi2", 7, 0, EBX, 8)    \
    FEATURE("lzcnt", 0x80000001, 0, ECX, 5)

#define WIDE_FEATURES(FEATURE)             \
    FEATURE("fma", 1, 0, ECX, 12)          \
    FEATURE("f16c", 1, 0, ECX, 29)         \
    FEATURE("avx512f", 7, 0, EBX, 16)      \
    FEATURE("avx512cd", 7, 0, EBX, 28)     \
    FEATURE("avx512bw", 7, 0, EBX, 30)     \
    FEATURE("avx512vl", 7, 0, EBX, 31)     \
    FEATURE("avx512vbmi", 7, 0, ECX, 1)    \
    FEATURE("avx512vbmi2", 7, 0, ECX, 6)   \
    FEATURE("avx512bitalg", 7, 0, ECX, 12) \
    FEATURE("avx512vpopcntdq", 7, 0, ECX, 14)

/* On 64-bit ARM the fast set is the checksum's instruction (name_arm64.c), and all else is portable. */
#define ARM64_FEATURE "crc"

#endif
