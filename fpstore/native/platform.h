/* What all of the kernels share: fixed-width loads, statuses, and which instructions this process may use.

   Every .c file here is compiled once. What its name ends in says for which processor: name_fast.c and name_wide.c are
   compiled for the instructions of instruction_sets.h, name_arm64.c for those of 64-bit ARM, all others for any
   machine. A kernel that is there more than once is a *_body.h, which name_portable.c, name_fast.c and name_wide.c
   include; KERNEL(name), of portable.h, fast.h or wide.h, gives each copy names of its own. name.c holds which copy is
   in use, and CHOSEN_AT_LOAD chooses it before anything else of the library can run. Functions in headers are inlined
   or static, so that none compiled for one processor is linked for another. */
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
enum { CACHE_LINE = 64 }; /* bytes that memory is asked for by */

/* Ask for so many lines of code before it runs. How long each function is the compiler decides: a line too many or too
   few only takes time, some 12 ns each where no near cache has it. */
static inline void ask_code_at(const void *code, unsigned lines) {
    for (unsigned line = 0; line < lines; line++) __builtin_prefetch((const char *)code + CACHE_LINE * line, 0, 2);
    /* gcc takes a function that does nothing but this for one that does nothing, and leaves calls of it out. */
    __asm__ volatile("");
}
#define HIDDEN __attribute__((visibility("hidden"))) /* of data: read without a detour */

#if defined(__x86_64__)
#define FPSTORE_X86 1
#else
#define FPSTORE_X86 0
#endif
#if defined(__aarch64__) && defined(__linux__)
#define FPSTORE_ARM64 1
#else
#define FPSTORE_ARM64 0
#endif

/* Statuses of every kernel; the .pyx that calls it turns them into exceptions. */
typedef enum {
    OK = 0,
    NO_MEMORY = 1,
    BAD_PAGE = 2,      /* a page's checksum differs */
    BAD_DIRECTORY = 3, /* a directory line or fence points outside the payload, or backwards */
    BAD_BLOCK = 4,     /* a block does not decode: unknown code, past its end, or keys out of order */
    NOT_SORTED = 5,    /* the caller's keys are not strictly increasing */
    TOO_LARGE = 6,     /* beyond what the format can address */
    TOO_MANY = 7,      /* more matches than the caller takes */
    TOO_WIDE = 8,      /* a key that has more bits than the store's */
    NOT_BROUGHT = 9    /* a page that lies elsewhere, and could not be had from there */
} Status;

/* Each has all that those before it have. */
typedef enum { SET_PORTABLE = 0, SET_FAST = 1, SET_WIDE = 2 } InstructionSet;

/* The best that this machine has, unless the environment says otherwise: FPSTORE_PORTABLE=1 leaves the portable set
   only, FPSTORE_NARROW=1 all but the wide one. The same for as long as the process lives. */
InstructionSet fpstore_instruction_set(void);

/* The instructions that a set, the fast or the wide one, asks for besides those of the one below it; NULL at the end.
 */
const char *const *instruction_set_features(InstructionSet set);

/* Whether memory that is read in order is to be asked for long before. Intel's processors gain by it where no near
   cache has it, AMD's lost by it. Asked once: a virtual machine takes long to tell. */
int processor_gains_by_asking(void);

/* Whether a gather is faster than as many loads. FPSTORE_GATHERS=1 or 0 in the environment decides, for tests. Asked
   once, too. */
int processor_gathers(void);

/* Which of the copies of a kernel runs, by one function of the file that holds the choice. */
#define CHOSEN_AT_LOAD(choose) \
    __attribute__((constructor)) static void choose##_at_load(void) { choose(fpstore_instruction_set()); }

/* The same for a file that has its kernels in `kernels` and says which those of a set are as KERNELS_OF. */
#if FPSTORE_X86
#define NEWEST_KERNELS(set) \
    (set) == SET_WIDE ? KERNELS_OF(wide) : (set) == SET_FAST ? KERNELS_OF(fast) : KERNELS_OF(portable)
#else
#define NEWEST_KERNELS(set) ((void)(set), KERNELS_OF(portable))
#endif
#define KERNELS_CHOSEN_AT_LOAD(choose)                                 \
    void choose(InstructionSet set) { kernels = NEWEST_KERNELS(set); } \
    CHOSEN_AT_LOAD(choose)

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

#endif
