/* The Hamming search over tables. Included once for each instruction set; see platform.h. */
#include "search.h"

#include "bits_body.h"
#include "step_body.h"

/* A key within k of the query (as this table has it) was decoded: a match, unless this table's probe would not have
   looked at it (its block was read for a neighbour's sake) or an earlier table's probe reports it, or any other one's
   where it is of a table of which slots wait. So each match is reported once. A hostile code may add up to more than a
   key has bits. */
static __attribute__((noinline)) Status KERNEL(report)(Search *search, unsigned table_index, uint32_t query_index,
                                                       uint64_t query, uint64_t last_wanted, uint64_t key) {
    const Table *table = search->tables[table_index];
    uint64_t difference = key ^ query;
    if (UNLIKELY((key & ~low_bits(table->key_bits)) != 0)) return BAD_BLOCK;
    if (table->block_bytes != 0 && slot_of(key ^ last_wanted, table->probe_shift) != 0)
        return OK; /* another probe of this block reports it */
    if (KERNEL(ones)(difference & ~low_bits(table->permutation.below_bits)) > table->flips) return OK;
    uint64_t bits = KERNEL(invert)(&table->permutation, difference);
    const unsigned first = table_index - table_index % search->own_tables,
                   end = search->waits && table_index == first ? first + search->own_tables : table_index;
    for (unsigned earlier = first + search->waits; earlier < end; earlier++)
        if (KERNEL(ones)(bits & search->tables[earlier]->permutation.prefix_mask) <= search->tables[earlier]->flips)
            return OK;
    return search_add(search, query_index, KERNEL(invert)(&table->permutation, key), KERNEL(ones)(difference));
}

/* A block that is being scanned, and where that stands. */
typedef struct {
    uint64_t at, key, end, query, last_wanted;
    const DecodeEntry *decode;
    unsigned item; /* which of the queue's it is */
} Stream;

ALWAYS_INLINE Stream KERNEL(stream_of)(const Search *search, const Block *queue, unsigned item) {
    const Block *block = &queue[item];
    return (Stream){block->start, block->previous,    block->end,
                    block->query, block->last_wanted, search->tables[block->table]->decode,
                    item};
}

enum { STREAM_GOES_ON, STREAM_HAS_NO_BLOCK, STREAM_STOPS };

/* One code of a stream, which goes on with the queue's block *next where its own has ended. STREAM_STOPS: with *status,
   or as the search is done. */
ALWAYS_INLINE int KERNEL(stream_step)(Search *search, const Block *queue, unsigned count, unsigned *next,
                                      Stream *stream, int codec, unsigned raw_bits, unsigned distance,
                                      const uint8_t *base, Status *status) {
    const unsigned fixed_bits = codec == CODEC_RICE ? search->tables[queue[stream->item].table]->fixed_bits : raw_bits;
    *status = KERNEL(step)(base, stream->decode, fixed_bits, codec, &stream->at, &stream->key);
    if (UNLIKELY(*status != OK)) return STREAM_STOPS;
    if (UNLIKELY(KERNEL(ones)(stream->key ^ stream->query) <= distance)) {
        const Block *block = &queue[stream->item];
        *status = stream->at > stream->end ? BAD_BLOCK
                                           : KERNEL(report)(search, block->table, block->query_index, block->query,
                                                            stream->last_wanted, stream->key);
        if (*status != OK || search->done) return STREAM_STOPS;
    }
    if (UNLIKELY(stream->at >= stream->end || stream->key > stream->last_wanted)) {
        *status = stream->at > stream->end ? BAD_BLOCK : OK;
        if (UNLIKELY(*status != OK)) return STREAM_STOPS;
        if (*next == count) return STREAM_HAS_NO_BLOCK;
        *stream = KERNEL(stream_of)(search, queue, (*next)++);
    }
    return STREAM_GOES_ON;
}

/* Scan the blocks of queue[0..count) `width` at a time, as long as there are so many: a step of a stream waits for the
   one before it, so others fill the time. Every decoded key is compared with its block's query. What is left, begun or
   not, comes back as queue[0..*left). The streams are named one by one: in a loop over them, which gcc does not unroll,
   each step waits for what the one before it has stored. */
ALWAYS_INLINE Status KERNEL(scan_wide)(Search *search, Block *queue, unsigned count, unsigned *left,
                                       const unsigned width, int codec, unsigned raw_bits) {
    Stream streams[STREAMS];
    unsigned next = width, ended = 0;
    const uint8_t *base = search->pages->base;
    const unsigned distance = search->distance;
    Status status;
    int said;
    *left = count;
    if (count < width) return OK;
#define STREAM_BEGINS(i) \
    if ((i) < width) streams[i] = KERNEL(stream_of)(search, queue, i)
#define STREAM_STEPS(i)                                                                                                \
    if ((i) < width && UNLIKELY((said = KERNEL(stream_step)(search, queue, count, &next, &streams[i], codec, raw_bits, \
                                                            distance, base, &status)) != STREAM_GOES_ON)) {            \
        ended = i;                                                                                                     \
        break;                                                                                                         \
    }
#define STREAM_IS_LEFT(i)                        \
    if ((i) < width && (i) != ended) {           \
        begun[kept] = queue[streams[i].item];    \
        begun[kept].start = streams[i].at;       \
        begun[kept++].previous = streams[i].key; \
    }
    _Static_assert(STREAMS == 4, "each stream is named");
    STREAM_BEGINS(0);
    STREAM_BEGINS(1);
    STREAM_BEGINS(2);
    STREAM_BEGINS(3);
    for (;;) {
        STREAM_STEPS(0)
        STREAM_STEPS(1)
        STREAM_STEPS(2)
        STREAM_STEPS(3)
    }
    if (said == STREAM_STOPS) return status;
    unsigned kept = 0;
    Block begun[STREAMS];
    STREAM_IS_LEFT(0)
    STREAM_IS_LEFT(1)
    STREAM_IS_LEFT(2)
    STREAM_IS_LEFT(3)
    memcpy(queue, begun, kept * sizeof *queue);
    *left = kept;
    return OK;
#undef STREAM_BEGINS
#undef STREAM_STEPS
#undef STREAM_IS_LEFT
}

ALWAYS_INLINE Status KERNEL(scan_as)(Search *search, Block *queue, unsigned count, int codec, unsigned raw_bits) {
    Status status = KERNEL(scan_wide)(search, queue, count, &count, STREAMS, codec, raw_bits);
    while (status == OK && count >= 2 && !search->done)
        status = KERNEL(scan_wide)(search, queue, count, &count, 2, codec, raw_bits);
    if (status == OK && count == 1 && !search->done)
        status = KERNEL(scan_wide)(search, queue, count, &count, 1, codec, raw_bits);
    return status;
}

static Status KERNEL(scan)(Search *search, Block *queue, unsigned count) {
    const unsigned key_bits = search->tables[0]->key_bits;
    switch (search->tables[0]->codec) {
    case CODEC_GAP: return KERNEL(scan_as)(search, queue, count, CODEC_GAP, 0);
    case CODEC_XOR: return KERNEL(scan_as)(search, queue, count, CODEC_XOR, 0);
    case CODEC_RICE: return KERNEL(scan_as)(search, queue, count, CODEC_RICE, 0);
    default:
        if (key_bits == 64) return KERNEL(scan_as)(search, queue, count, CODEC_RAW, 64); /* faster where it is known */
        return KERNEL(scan_as)(search, queue, count, CODEC_RAW, key_bits);
    }
}

/* A block of a table of blocks begins with its first key as it is: report that, and move past it. Whether codes that
   are wanted follow: *more. */
ALWAYS_INLINE Status KERNEL(begin_block)(Search *search, Block *block, int *more) {
    const Table *table = search->tables[block->table];
    const uint64_t key = KERNEL(bits_at)(search->pages->base, block->start, table->key_bits);
    block->previous = key;
    block->start += table->key_bits;
    *more = block->start < block->end && key <= block->last_wanted;
    if (KERNEL(ones)(key ^ block->query) > search->distance) return OK;
    return KERNEL(report)(search, block->table, block->query_index, block->query, block->last_wanted, key);
}

/* Scan what was resolved one turn ago, whose payload has had time to arrive. */
static Status KERNEL(scan_waiting)(Search *search) {
    unsigned count = search->waiting_count, begun = 0;
    search->waiting_count = 0;
    search->blocks_scanned += count;
    for (unsigned i = 0; i < count; i++) {
        Block *block = &search->rows.waiting[i];
        int more = 1;
        Status status = pages_check(search->pages, block->start >> 3, (block->end - 1) >> 3);
        if (status == OK && search->tables[block->table]->block_bytes != 0)
            status = KERNEL(begin_block)(search, block, &more);
        if (UNLIKELY(status != OK || search->done)) return status;
        if (LIKELY(more)) search->rows.waiting[begun++] = *block;
    }
    count = begun;
    return count == 0 || search->done ? OK : KERNEL(scan)(search, search->rows.waiting, count);
}

/* A resolved block: ask for its first `bits`, as far as the scan is likely to come; when the list is full, scan. */
ALWAYS_INLINE Status KERNEL(want)(Search *search, const Block *block, uint64_t bits) {
    Status status;
    const uint8_t *byte = search->pages->base + (block->start >> 3),
                  *last = search->pages->base + ((block->start + bits) >> 3);
    bytes_ask(search->pages, block->start >> 3);
    for (byte += 64; byte <= last; byte += 64) __builtin_prefetch(byte);
    search->rows.resolved[search->resolved_count++] = *block;
    if (UNLIKELY(search->resolved_count == BATCH_BLOCKS)) {
        status = KERNEL(scan_waiting)(search);
        if (status != OK) return status;
        memcpy(search->rows.waiting, search->rows.resolved, sizeof search->rows.waiting);
        search->waiting_count = search->resolved_count;
        search->resolved_count = 0;
    }
    return OK;
}

/* Whether a block whose keys lie in [least, most] may hold one to report: bits above the highest one in which these
   bounds differ are the same in all its keys, and so are the errors in them. */
ALWAYS_INLINE int KERNEL(may_hold)(const Search *search, const Table *table, uint64_t query, uint64_t least,
                                   uint64_t most) {
    uint64_t errors = (least ^ query) & top_bits(64 - bit_length(least ^ most));
    return KERNEL(ones)(errors) <= search->distance &&
           KERNEL(ones)(errors & ~low_bits(table->permutation.below_bits)) <= table->flips;
}

/* The next block of a large slot that may hold what is wanted, from fence *index on, which moves past it; *index is
   fence_count where there is none. Fills of the block what fence_block() does. *bits: as far into it as the scan is
   likely to come. */
static __attribute__((noinline)) Status KERNEL(next_large)(const Search *search, const SlotProbe *probe,
                                                           uint64_t *index, Block *block, uint64_t *bits) {
    const Table *table = search->tables[probe->table];
    const uint64_t top = slot_end(probe->slot, table->probe_shift);
    while (*index < table->fence_count) {
        uint64_t last_key;
        Status status =
            fence_block(search->pages, table, slot_start(probe->slot, table->probe_shift), *index, block, &last_key);
        if (status != OK) return status;
        if (last_key > top) {
            if (table->block_bytes == 0) break;
            last_key = top; /* of those that follow, no key is the probe's */
        }
        *index = last_key >= probe->last_wanted ? table->fence_count : *index + 1;
        if (!KERNEL(may_hold)(search, table, probe->query, block->previous, last_key)) continue;
        /* The last key wanted lies so far between those at the block's ends, and so, nearly, does its code. */
        *bits = block->end - block->start;
        if (probe->last_wanted > block->previous && probe->last_wanted < last_key)
            *bits = (uint64_t)((double)*bits * (double)(probe->last_wanted - block->previous) /
                               (double)(last_key - block->previous));
        return OK;
    }
    *index = table->fence_count;
    block->start = block->end = 0;
    return OK;
}

/* The fence where the search of a large slot begins. */
static Status KERNEL(first_large)(const Search *search, const SlotProbe *probe, uint64_t *index) {
    const Table *table = search->tables[probe->table];
    const uint64_t from = slot_start(probe->slot, table->probe_shift);
    return fence_find(search->pages, table, probe->first_wanted > from ? probe->first_wanted : from, index);
}

static __attribute__((noinline)) Status KERNEL(want_large)(Search *search, const SlotProbe *probe, Block *block) {
    const Table *table = search->tables[probe->table];
    uint64_t index, bits;
    Status status = KERNEL(first_large)(search, probe, &index);
    while (status == OK && index < table->fence_count && !search->done) {
        status = KERNEL(next_large)(search, probe, &index, block, &bits);
        if (status == OK && block->end > block->start) status = KERNEL(want)(search, block, block->end - block->start);
    }
    return status;
}

/* Read the directory lines of the slots collected so far, ask for their blocks, and scan those asked for before. */
static Status KERNEL(resolve)(Search *search) {
    for (unsigned i = 0; i < search->slot_count; i++) {
        const SlotProbe *probe = &search->rows.slots[i];
        const Table *table = search->tables[probe->table];
        Block block;
        int large = 1;
        Status status = table->block_bytes != 0
                            ? OK
                            : slot_read(search->pages, table, probe->slot, &block.start, &block.end, &large);
        if (UNLIKELY(status != OK)) return status;
        block.query = probe->query;
        block.last_wanted = probe->last_wanted;
        block.query_index = probe->query_index;
        block.table = probe->table;
        block.previous = slot_start(probe->slot, table->probe_shift);
        block.first_of_slot = 1;
        if (UNLIKELY(large)) {
            status = KERNEL(want_large)(search, probe, &block);
        } else if (block.end > block.start) {
            /* The last key wanted lies so many 256ths into the slot, and so, nearly, does its code in the block. */
            uint64_t reach = ((block.last_wanted - block.previous) >> reach_shift(table->slot_shift)) + 1;
            uint64_t bits = block.end - block.start;
            status = KERNEL(want)(search, &block, reach < 256 ? bits * reach >> 8 : bits);
        }
        if (UNLIKELY(status != OK)) return status;
    }
    search->slot_count = 0;
    Status status = KERNEL(scan_waiting)(search);
    if (status != OK) return status;
    memcpy(search->rows.waiting, search->rows.resolved, search->resolved_count * sizeof(Block));
    search->waiting_count = search->resolved_count;
    search->resolved_count = 0;
    return OK;
}

/* The flips that are left can reach up to the highest zero bits of the window set, down to the highest ones cleared. */
ALWAYS_INLINE void KERNEL(widen_wanted)(uint64_t window, uint64_t key, unsigned left, uint64_t *first_wanted,
                                        uint64_t *last_wanted) {
    uint64_t zeros = window & ~key, ones = window & key;
    for (; left > 0; left--) {
        if (zeros != 0) {
            uint64_t bit = (uint64_t)1 << (bit_length(zeros) - 1);
            *last_wanted |= bit;
            zeros &= ~bit;
        }
        if (ones != 0) {
            uint64_t bit = (uint64_t)1 << (bit_length(ones) - 1);
            *first_wanted &= ~bit;
            ones &= ~bit;
        }
    }
}

/* Where the directory tells of a slot; of a table of blocks, where it likely tells of a key. */
ALWAYS_INLINE uint64_t KERNEL(place_of)(const Table *table, uint64_t slot, uint64_t key) {
    return table->block_bytes != 0 ? fence_guess(table, key) : line_offset(table, slot);
}

/* Probe with the prefix of `key` (flips applied) and up to `left` more flips of prefix bits below the slot's bits. */
ALWAYS_INLINE Status KERNEL(probe_slots)(Search *search, unsigned table_index, uint64_t query, uint64_t key,
                                         unsigned left) {
    const Table *table = search->tables[table_index];
    unsigned prefix_bits = table->permutation.prefix_bits, slot_bits = table->probe_bits;
    uint64_t below = low_bits(table->permutation.below_bits), first = slot_of(key & ~below, table->probe_shift),
             slots = 1;
    SlotProbe probe = {first, query, key & ~below, key | below, search->query_index, (uint16_t)table_index};
    if (prefix_bits < slot_bits) {
        slots = (uint64_t)1 << (slot_bits - prefix_bits);
    } else {
        KERNEL(widen_wanted)
        (low_bits(table->probe_shift) & ~below, key, left, &probe.first_wanted, &probe.last_wanted);
    }
    for (; slots > 0; slots--, probe.slot++) {
        bytes_ask(search->pages, KERNEL(place_of)(table, probe.slot, probe.first_wanted));
        search->rows.slots[search->slot_count++] = probe;
        if (UNLIKELY(search->slot_count == BATCH_SLOTS)) {
            Status status = KERNEL(resolve)(search);
            if (status != OK || search->done) return status;
        }
    }
    return OK;
}

/* Every choice of at most `left` flips among the top `bits` bits of the key that lie below bit `from`. */
static Status KERNEL(probe_flips)(Search *search, unsigned table, uint64_t query, uint64_t key, unsigned from,
                                  unsigned bits, unsigned left) {
    Status status = KERNEL(probe_slots)(search, table, query, key, left);
    if (left == 0) return status;
    const unsigned top = search->tables[table]->key_bits - 1;
    for (unsigned bit = from; bit < bits && status == OK && !search->done; bit++)
        status = KERNEL(probe_flips)(search, table, query, key ^ (uint64_t)1 << (top - bit), bit + 1, bits, left - 1);
    return status;
}

#ifdef KERNEL_IS_WIDE
#include "search_many.h"
#include "search_one.h"
#include "search_several.h"
/* Tables of codes are searched by columns, others by rows. */
#define ONE_OF(by_columns, by_rows) \
    (search->table_count > 0 && search->tables[0]->codec <= CODEC_XOR ? (by_columns) : (by_rows))
#else
#define ONE_OF(by_columns, by_rows) (by_rows)
#endif

/* Name the slots of one table that can hold a match of a query, which is `key` there. */
ALWAYS_INLINE Status KERNEL(probe)(Search *search, unsigned table_index, uint64_t key) {
    const Table *table = search->tables[table_index];
    const unsigned prefix_bits = table->permutation.prefix_bits,
                   bits = prefix_bits < table->probe_bits ? prefix_bits : table->probe_bits;
    return ONE_OF(KERNEL(name_probes)(search, table_index, key, key, 0, bits, table->flips),
                  KERNEL(probe_flips)(search, table_index, key, key, 0, bits, table->flips));
}

#include "search_traces.h"

void KERNEL(ask_code)(void) {
#ifdef KERNEL_IS_WIDE
    KERNEL(ask_code_of_one)();
#endif
}

Status KERNEL(search_begin)(Search *search, const uint64_t *queries, uint64_t count, uint64_t first_index) {
    Status status = OK;
    search->slot_count = search->resolved_count = search->waiting_count = search->waits = 0;
#ifdef KERNEL_IS_WIDE
    search->is_one = ONE_OF(KERNEL(is_one)(search, count), 0);
    if (search->is_one) {
        search->query_index = (uint32_t)first_index;
        KERNEL(begin_one)(search, queries[0]);
        return OK;
    }
#endif
    ONE_OF(KERNEL(begin_many)(search), (void)0);
    for (unsigned t = 0; t < search->table_count; t++)
        if (KERNEL(is_traced)(search->tables[t])) return KERNEL(begin_traced)(search, queries, count, first_index);
    for (uint64_t i = 0; i < count && status == OK && !search->done; i++) {
        search->query_index = (uint32_t)(first_index + i);
        for (unsigned t = 0; t < search->table_count && status == OK && !search->done; t++) {
            status = KERNEL(probe)(search, t, KERNEL(apply)(&search->tables[t]->permutation, queries[i]));
        }
    }
    return status;
}

Status KERNEL(search_ask)(Search *search) {
    return ONE_OF(search->is_one ? KERNEL(ask_one)(search) : KERNEL(resolve_many)(search), KERNEL(resolve)(search));
}

Status KERNEL(search_end)(Search *search) {
    return ONE_OF(search->is_one ? KERNEL(end_one)(search) : KERNEL(turn_many)(search), KERNEL(scan_waiting)(search));
}

uint64_t KERNEL(scan_keys)(const uint64_t *keys, uint64_t count, uint64_t query, unsigned distance) {
    uint64_t found = 0, i = 0;
#ifdef KERNEL_IS_WIDE
    const __m512i wanted = _mm512_set1_epi64((long long)query), limit = _mm512_set1_epi64(distance);
    for (; i + 8 <= count; i += 8) {
        __m512i ones = _mm512_popcnt_epi64(_mm512_xor_si512(_mm512_loadu_si512(keys + i), wanted));
        found += (uint64_t)__builtin_popcount(_mm512_cmple_epu64_mask(ones, limit));
    }
#endif
    for (; i < count; i++) found += KERNEL(ones)(keys[i] ^ query) <= distance;
    return found;
}

uint64_t KERNEL(touch)(Table *const *tables, unsigned table_count, const Pages *pages, const uint64_t *queries,
                       uint64_t count) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t query = queries[i] ^ (sum == 1); /* which is known when the one before is done */
        for (unsigned t = 0; t < table_count; t++) {
            const Table *table = tables[t];
            if (table->block_bytes != 0) { /* a fence, and the block of it */
                const uint64_t key = KERNEL(apply)(&table->permutation, query);
                if (table->fence_count == 0) continue;
                const uint64_t begin = load64(pages->base + fence_guess(table, key) + 8) & low_bits(OFFSET_BITS);
                const uint64_t at = table->payload_offset * 8 + (begin < table->payload_bits ? begin : 0);
                sum += load64(pages->base + (at >> 3)) | 2;
                continue;
            }
            const uint64_t slot = slot_of(KERNEL(apply)(&table->permutation, query), table->slot_shift);
            const uint8_t *line = pages->base + line_offset(table, slot);
            uint16_t end;
            memcpy(&end, line + 8 + 2 * (slot % GROUP_SLOTS), 2);
            uint64_t bit = (load64(line) & low_bits(OFFSET_BITS)) + end;
            bit = table->payload_offset * 8 + (bit < table->payload_bits ? bit : table->payload_bits);
            sum += load64(pages->base + (bit >> 3)) | 2;
        }
    }
    return sum;
}
