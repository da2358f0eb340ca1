/* Memory that is held for long and grows. */
#define _GNU_SOURCE
#include "large.h"

#include <sys/mman.h>

Status large_make(Large *large, uint64_t bytes, int whole) {
    if (bytes >= LARGE_BYTES) {
        /* A page at a time costs as much as all that is done with it. */
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (whole ? MAP_POPULATE : 0);
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (memory == MAP_FAILED) return NO_MEMORY;
        *large = (Large){memory, bytes};
        return OK;
    }
    void *memory = aligned_alloc(LARGE_LINE_BYTES, (bytes / LARGE_LINE_BYTES + 1) * LARGE_LINE_BYTES);
    if (memory == NULL) return NO_MEMORY;
    memset(memory, 0, bytes);
    *large = (Large){memory, bytes};
    return OK;
}

Status large_reserve(Large *large, uint64_t bytes) {
    if (bytes <= large->bytes) return OK;
    const uint64_t half_more = large->bytes + large->bytes / 2, room = half_more < bytes ? bytes : half_more;
    if (large->bytes >= LARGE_BYTES) {
        void *memory = mremap(large->memory, large->bytes, room, MREMAP_MAYMOVE);
        if (memory == MAP_FAILED) return NO_MEMORY;
        *large = (Large){memory, room};
        return OK;
    }
    Large larger = {NULL, 0};
    if (large_make(&larger, room, 0) != OK) return NO_MEMORY;
    if (large->bytes > 0) memcpy(larger.memory, large->memory, large->bytes);
    large_free(large);
    *large = larger;
    return OK;
}

void large_advise(const Large *large) {
#ifdef MADV_HUGEPAGE
    if (large->bytes >= LARGE_BYTES) (void)madvise(large->memory, large->bytes, MADV_HUGEPAGE);
#else
    (void)large;
#endif
}

/* Pages of a stretch of memory, from where the first begins: up to where the last ends, or those that lie in it. */
static void advise(void *start, uint64_t bytes, uint64_t slack, int advice) {
    const uint64_t page = 4096, skipped = (uintptr_t)start % page;
    (void)madvise((char *)start - skipped, (bytes + skipped + slack) / page * page, advice);
}

void large_pages(void *start, uint64_t bytes) {
#ifdef MADV_HUGEPAGE
    advise(start, bytes, 4095, MADV_HUGEPAGE);
#else
    (void)start, (void)bytes;
#endif
}

void large_populate(void *start, uint64_t bytes) {
    const int populate_write = 23; /* Linux, since 5.14; others refuse it */
    advise(start, bytes, 0, populate_write);
}

void large_free(Large *large) {
    if (large->bytes >= LARGE_BYTES)
        munmap(large->memory, large->bytes);
    else
        free(large->memory);
    *large = (Large){NULL, 0};
}
