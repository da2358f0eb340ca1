/* The Hamming search: for each query, each table, each flip, the slots that can hold a match; their blocks; their keys.

   Latency here is memory latency, so the work goes in three stages, a batch at a time: collect slots (asking for their
   directory lines), resolve them to blocks (asking for their bytes), scan the blocks asked for a batch ago. */
#ifndef FPSTORE_SEARCH_H
#define FPSTORE_SEARCH_H

#include "decode.h"
#include "match.h"

#define STREAMS 4
#define BATCH_SLOTS 64
#define BATCH_BLOCKS 96

typedef struct {
    uint64_t slot, query, first_wanted, last_wanted;
    uint32_t query_index;
    uint16_t table;
} SlotProbe;

typedef struct {
    Pages *pages;
    Table *const *tables; /* all of one codec */
    unsigned table_count;
    unsigned distance;
    int first_only; /* stop at the first match */
    int done;
    uint32_t query_index;

    Match *matches;
    uint64_t match_count, match_room;
    uint64_t match_limit; /* what a sound file cannot exceed: a hostile one may hold a key any number of times */
    uint64_t blocks_scanned;

    SlotProbe slots[BATCH_SLOTS];
    unsigned slot_count;
    Block resolved[BATCH_BLOCKS];
    unsigned resolved_count;
    Block waiting[BATCH_BLOCKS];
    unsigned waiting_count;
} Search;

static Status search_add(Search *search, uint32_t query, uint64_t fingerprint, unsigned distance) {
    if (search->match_count == search->match_limit) return BAD_BLOCK;
    if (search->match_count == search->match_room) {
        uint64_t room = search->match_room ? 2 * search->match_room : 16;
        Match *matches = realloc(search->matches, room * sizeof *matches);
        if (matches == NULL) return NO_MEMORY;
        search->matches = matches;
        search->match_room = room;
    }
    search->matches[search->match_count++] = (Match){fingerprint, query, distance};
    search->done = search->first_only;
    return OK;
}

#define KERNEL(name) name##_portable
#include "search_body.h"
#undef KERNEL

#if FPSTORE_X86
FAST_BEGIN
#define KERNEL(name) name##_fast
#define KERNEL_IS_FAST
#include "search_body.h"
#undef KERNEL_IS_FAST
#undef KERNEL
FAST_END
#endif

#if FPSTORE_X86
__attribute__((target("avx512f,avx512vpopcntdq"))) static uint64_t scan_keys_avx512(const uint64_t *keys, uint64_t count,
                                                                                     uint64_t query, unsigned distance) {
    uint64_t found = 0, i = 0;
    const __m512i wanted = _mm512_set1_epi64((long long)query), limit = _mm512_set1_epi64(distance);
    for (; i + 8 <= count; i += 8) {
        __m512i ones = _mm512_popcnt_epi64(_mm512_xor_si512(_mm512_loadu_si512(keys + i), wanted));
        found += (uint64_t)__builtin_popcount(_mm512_cmple_epu64_mask(ones, limit));
    }
    return found + scan_keys_portable(keys + i, count - i, query, distance);
}
#endif

typedef Status (*SearchRun)(Search *, const uint64_t *, uint64_t, uint64_t);
typedef uint64_t (*ScanKeys)(const uint64_t *, uint64_t, uint64_t, unsigned);

static SearchRun search_run = search_portable;
static ScanKeys scan_keys = scan_keys_portable;

static void search_choose(int fast) {
#if FPSTORE_X86
    search_run = fast ? search_fast : search_portable;
    scan_keys = fast ? scan_keys_fast : scan_keys_portable;
    if (fpstore_is_wide()) scan_keys = scan_keys_avx512;
#else
    (void)fast;
#endif
}

#endif
