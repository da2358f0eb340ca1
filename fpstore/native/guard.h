/* Mapped files that lose bytes under their readers.

   A page of a mapping that cannot be had, because the file was cut short or its disk fails, is SIGBUS. The handler here
   puts zeros in place of the whole mapping and marks it as lost, so that the kernel under way, which is safe for any
   bytes, runs to its end. A file cut short within a page reads as zeros from there on, without a signal; then its last
   bytes are no longer what they were. Whoever has read a mapping asks guard_lost() and guard_changed() before giving an
   answer. Signals that concern no mapping of ours go to the handler that was there before. */
#ifndef FPSTORE_GUARD_H
#define FPSTORE_GUARD_H

#include "platform.h"

typedef struct Guard {
    uintptr_t base; /* 0: not in use */
    size_t bytes;
    uint64_t lost; /* 0, or one more than the offset of a page that could not be had; then it stays so */
    uint64_t last; /* the last 8 bytes, as they were at first */
    struct Guard *next;
} Guard;

/* Guard a mapping of 8 bytes or more until guard_remove(); NULL without memory. Other memory comes to no harm. */
Guard *guard_add(const void *base, size_t bytes);

/* Nobody reads the mapping any more, and it is still mapped. */
void guard_remove(Guard *guard);

ALWAYS_INLINE const uint8_t *guard_end(const Guard *guard) { return (const uint8_t *)guard->base + guard->bytes - 8; }

/* Ask for what guard_changed() reads: of many files no near cache has the end. */
ALWAYS_INLINE void guard_ask(const Guard *guard) { __builtin_prefetch(guard_end(guard)); }

/* Whether the file's end is another than at first: then what was read before this may be. */
ALWAYS_INLINE int guard_changed(const Guard *guard) { return load64(guard_end(guard)) != guard->last; }

/* Whether bytes read before this may have been zeros of ours: guard->lost. */
ALWAYS_INLINE uint64_t guard_lost(const Guard *guard) {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&guard->lost, __ATOMIC_RELAXED);
}

#endif
