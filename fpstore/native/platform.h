/* What the C kernels share: fixed-width loads, statuses, and the choice of instruction set.

   A kernel body (a *_body.h file) is included once for each instruction set, between FAST_BEGIN and
   FAST_END for the fast one, with KERNEL(name) giving each copy its own names. Which copy runs is decided
   once, at import, by fpstore_is_fast(); FPSTORE_PORTABLE=1 in the environment turns the fast copies off,
   FPSTORE_NARROW=1 only those for AVX-512. */
#ifndef FPSTORE_PLATFORM_H
#define FPSTORE_PLATFORM_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "fpstore's formats and kernels are little-endian"
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#if defined(__x86_64__)
#define FPSTORE_X86 1
#include <cpuid.h>
#include <immintrin.h>
#if defined(__clang__)
#define WIDE_BEGIN _Pragma("clang attribute push(__attribute__((target(\"popcnt,lzcnt,bmi,bmi2,avx2,avx512f,avx512bw,avx512cd,avx512vl,avx512vbmi,avx512vbmi2,avx512vpopcntdq\"))), apply_to = function)")
#define FAST_BEGIN _Pragma("clang attribute push(__attribute__((target(\"popcnt,lzcnt,bmi,bmi2,avx2\"))), apply_to = function)")
#define FAST_END _Pragma("clang attribute pop")
#else
#define WIDE_BEGIN _Pragma("GCC push_options") _Pragma("GCC target(\"popcnt,lzcnt,bmi,bmi2,avx2,avx512f,avx512bw,avx512cd,avx512vl,avx512vbmi,avx512vbmi2,avx512vpopcntdq\")")
#define FAST_BEGIN _Pragma("GCC push_options") _Pragma("GCC target(\"popcnt,lzcnt,bmi,bmi2,avx2\")")
#define FAST_END _Pragma("GCC pop_options")
#endif
#define WIDE_END FAST_END
#else
#define FPSTORE_X86 0
#endif

/* Statuses of every kernel; _codec.pyx turns them into exceptions. */
typedef enum {
    OK = 0,
    NO_MEMORY = 1,
    BAD_PAGE = 2,      /* a page's checksum differs */
    BAD_DIRECTORY = 3, /* a directory line or fence points outside the payload, or backwards */
    BAD_BLOCK = 4,     /* a block does not decode: unknown code, past its end, or keys out of order */
    NOT_SORTED = 5,    /* the caller's keys are not strictly increasing */
    TOO_LARGE = 6      /* beyond what the format can address */
} Status;

ALWAYS_INLINE uint64_t load64(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

ALWAYS_INLINE void store64(uint8_t *at, uint64_t word) { memcpy(at, &word, 8); }

ALWAYS_INLINE uint64_t low_bits(unsigned count) { /* count is 0..64 */
    return count >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1;
}

ALWAYS_INLINE uint64_t top_bits(unsigned count) { /* count is 0..64 */
    return count == 0 ? 0 : ~(uint64_t)0 << (64 - count);
}

ALWAYS_INLINE unsigned bit_length(uint64_t value) { return value == 0 ? 0 : 64 - (unsigned)__builtin_clzll(value); }

static int environment_says(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
}

#if FPSTORE_X86
/* Not every compiler's __builtin_cpu_supports knows it. Without it the instruction runs as another one, BSR, without a trap. */
static int cpu_has_lzcnt(void) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) && (c >> 5 & 1);
}
#endif

static int fpstore_is_fast(void) {
    if (environment_says("FPSTORE_PORTABLE")) return 0;
#if FPSTORE_X86
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("sse4.2") && cpu_has_lzcnt();
#else
    return 0;
#endif
}

/* Whether eight keys go at once as well, with the instructions of WIDE_BEGIN. */
static int fpstore_is_wide(void) {
#if FPSTORE_X86
    return fpstore_is_fast() && !environment_says("FPSTORE_NARROW") && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("avx512vpopcntdq");
#else
    return 0;
#endif
}

#endif
