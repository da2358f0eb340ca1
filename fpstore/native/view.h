/* A mapped segment as the kernels see it: the bytes, which pages have been checked, and its tables.

   Nothing here trusts the bytes: a page is checked against its checksum before its first use, and every offset
   read from the file is compared with what remains before it is followed. */
#ifndef FPSTORE_VIEW_H
#define FPSTORE_VIEW_H

#include "crc32c.h"
#include "layout.h"
#include "permute.h"
#include "source.h"

/* How one code word decodes, indexed by the next MAX_CODE_BITS bits of the stream. Low byte: bits of code and
   tail together; bits 8..11: bits of the code alone. A low byte of SLOW or more leaves the fast path. */
typedef uint16_t DecodeEntry;
enum { FAST_BITS = 57, SLOW_ZERO = 128, SLOW_BAD = 129 };

typedef struct {
    const uint8_t *base;      /* the whole file, mapped */
    uint64_t checked_bytes;   /* = checksums_offset: what the page checksums cover */
    const uint8_t *checksums; /* 4 bytes for each page */
    uint64_t checksums_bytes;
    const uint8_t *roots; /* 4 bytes for each page of checksums; checked when the file was opened */
    uint64_t *seen;       /* a bit for each page, then one for each page of checksums */
    uint64_t pages;
    uint64_t unseen;          /* how many of the pages have no bit yet */
    uint64_t bad_page_offset; /* where BAD_PAGE was found */
    uint64_t asked;           /* how many pages the system has been asked for before their first use */
    SourceFile *source;       /* where pages lie until they are first used; NULL for a file that is all here */
} Pages;

ALWAYS_INLINE int page_seen(const Pages *pages, uint64_t page) {
    return (__atomic_load_n(&pages->seen[page >> 6], __ATOMIC_ACQUIRE) >> (page & 63)) & 1;
}

/* Whether all pages have been checked: then no use needs to ask. */
ALWAYS_INLINE int pages_sound(const Pages *pages) { return __atomic_load_n(&pages->unseen, __ATOMIC_ACQUIRE) == 0; }

/* The first of bytes [first, end) whose page has not been checked; end where none is, or first is not below it. */
uint64_t pages_new(const Pages *pages, uint64_t first, uint64_t end);

/* Check a page that has not been used before, and the page of its checksum. */
Status page_check(Pages *pages, uint64_t page);

/* Pages [first, end) will be read soon. */
void pages_ask(Pages *pages, uint64_t first, uint64_t end);

/* Check the pages of checksums that have bytes [first, end) of these. */
Status sums_check(Pages *pages, uint64_t first, uint64_t end);

/* Map and check pages [first, end) that have not been used before. What is bad stays unchecked, for whoever uses it to
   tell. */
Status pages_warm(Pages *pages, uint64_t first, uint64_t end);

/* Ask the kernel, or the source, for a page, and for the page of its checksum, where they have not been used before:
   they may have to come from the disk, and several can come at once. */
void page_ask(Pages *pages, uint64_t page);

/* Byte `offset` will be read soon. Whether it lies in a page that was not used before. */
ALWAYS_INLINE int bytes_ask(Pages *pages, uint64_t offset) {
    const int new = !page_seen(pages, offset / PAGE_BYTES);
    if (UNLIKELY(new))
        page_ask(pages, offset / PAGE_BYTES);
    else
        __builtin_prefetch(pages->base + offset);
    return new;
}

/* Bytes [first, last] lie in pages whose checksums hold. The caller knows that last < checked_bytes. */
ALWAYS_INLINE Status pages_check(Pages *pages, uint64_t first, uint64_t last) {
    for (uint64_t page = first / PAGE_BYTES; page <= last / PAGE_BYTES; page++)
        if (UNLIKELY(!page_seen(pages, page))) {
            Status status = page_check(pages, page);
            if (status != OK) return status;
        }
    return OK;
}

/* Whether the lanes of a search have their words by gathers, see lanes.h. */
extern HIDDEN int lanes_gather;

enum { WIDE_BITS = 56, WIDE_DIFFERS = 64, WIDE_FAR = 128 };

/* How codes decode without a table in memory, see lanes.h: the low bytes of 64-bit lanes choose among 64. What a code
   has for a tail: its bits, or WIDE_FAR where the code is not known. */
typedef struct {
    uint8_t near_tail[64]; /* by the next 6 bits */
    uint8_t far_tail[128]; /* by the 7 bits after far_ones, where these are all ones */
    uint8_t advance[64];   /* by the tail: as many bits have the code word and the tail together */
    unsigned far_ones;
} WideCode;

/* What is noted of the keys of a table of slots, in memory, so that a search reads of the file only slots of which one
   key may be near. of_keys: the trace of each key in order, see trace_of(); NULL where nobody knows. starts: which of
   them is the first of each slot, and behind the last one how many there are. */
enum { TRACE_BITS = 16 };
typedef struct {
    const uint16_t *of_keys;
    const uint32_t *starts;
} Traces;

/* Where among a table's fences a key's place is sought, in memory, by its top FENCE_BITS bits: of each number of so many
   bits the first fence whose last key is not below all keys that begin with it. Fences of which no near cache has any
   are waited for at each step of a search: so 4 steps are left of 12, in a table of 3,000. */
enum { FENCE_BITS = 8, FENCES_NOTED = 64 /* of fewer there are few steps */ };
enum { FENCES_UNKNOWN, FENCES_BEGUN, FENCES_KNOWN };

typedef struct {
    int codec;
    unsigned key_bits, slot_bits, slot_shift, flips;
    unsigned fixed_bits;              /* of a code without a code word: those of a Rice remainder, or of a raw key */
    unsigned block_bytes;             /* of a table of blocks, what one has at most; 0 where each slot has its own */
    unsigned probe_bits, probe_shift; /* a probe looks for all keys that share these top bits: as slot_bits */
    /* Tables whose codes are nearly alike, so that blocks of all of them are decoded side by side: the first of them.
     */
    unsigned code_class;
    int fences; /* whether first_fence is FENCES_KNOWN */
    Traces traces;
    uint64_t payload_offset, payload_bits, directory_offset, fences_offset, fence_count;
    Permutation permutation; /* what is needed for each probe stands before it, and at its begin */
    DecodeEntry decode[1 << MAX_CODE_BITS];
    WideCode own;    /* of this table alone */
    WideCode common; /* of the first table of a class: its own; tails by which others do not go have WIDE_DIFFERS */
    uint32_t first_fence[(1 << FENCE_BITS) + 1]; /* the last one: how many there are */
} Table;

/* Note first_fence of a table of slots whose pages have all been checked, unless it is, or is being, noted, or a page of
   the fences has another checksum by now. */
void fences_note(Table *table, const Pages *pages);

ALWAYS_INLINE int fences_known(const Table *table) {
    return __atomic_load_n(&table->fences, __ATOMIC_ACQUIRE) == FENCES_KNOWN;
}

ALWAYS_INLINE unsigned fence_shift(const Table *table) {
    return table->key_bits > FENCE_BITS ? table->key_bits - FENCE_BITS : 0;
}

/* fence_find() of a key finds one of [*low, *high]. */
ALWAYS_INLINE void fences_around(const Table *table, uint64_t key, uint64_t *low, uint64_t *high) {
    *low = 0, *high = table->fence_count;
    if (!fences_known(table)) return;
    const uint32_t *first = table->first_fence + (key >> fence_shift(table));
    *low = first[0], *high = first[1];
}

/* Fill in what follows from key_bits, slot_bits, block_bytes and the permutation. Slots of a table of blocks are ranges
   of keys, which no block keeps to; there a probe needs no more of them than its prefix tells apart. */
ALWAYS_INLINE void table_set_shifts(Table *table) {
    const unsigned prefix_bits = table->permutation.prefix_bits;
    const int few = table->block_bytes != 0 && prefix_bits < table->slot_bits;
    table->slot_shift = table->key_bits - table->slot_bits;
    table->probe_bits = few ? prefix_bits : table->slot_bits;
    table->probe_shift = table->key_bits - table->probe_bits;
}

/* Of a key the highest bits below those of its slot, TRACE_BITS of them or as many as there are. */
ALWAYS_INLINE uint16_t trace_of(const Table *table, uint64_t key) {
    const unsigned shift = table->slot_shift;
    const uint64_t below = key & low_bits(shift);
    return (uint16_t)(shift > TRACE_BITS ? below >> (shift - TRACE_BITS) : below);
}

/* Of a trace the bits that belong to the prefix. */
ALWAYS_INLINE uint16_t trace_prefix(const Table *table) {
    const unsigned bits = table->slot_shift < TRACE_BITS ? table->slot_shift : TRACE_BITS,
                   prefix = table->permutation.prefix_bits - table->slot_bits;
    return (uint16_t)(low_bits(bits) & ~low_bits(bits - (prefix < bits ? prefix : bits)));
}

/* Note keys of a table, the first of which is number `first`: their traces, and in starts[slot + 1] how many a slot has.
   Whether they are keys, each larger than the one before; before the first one is *last, unless that has number 0. */
int traces_note(const Table *table, const uint64_t *keys, uint64_t count, uint64_t first, uint64_t *last,
                uint16_t *of_keys, uint32_t *starts);

/* Fill decode[] from code lengths that huffman.check_lengths has passed. */
void decode_init(DecodeEntry *decode, const uint8_t *code_lengths);

void wide_init(WideCode *wide, const DecodeEntry *decode);

/* Fill code_class and common of a segment's tables, which have their decode[]. Tables are of one class where what their
   codes have in common is nearly all that each knows. */
void tables_share_codes(Table *const *tables, unsigned count);

/* The same of tables that have their own[], without a change to them: the codes, each with what it has in common with
   the tables that it is used for, and which of them is used for each table. How many there are, at most `count`. */
unsigned codes_share(Table *const *tables, unsigned count, WideCode *codes, uint16_t *code_of);

/* A block to decode: bits [start, end) of the file, the key before its first one, and what the search wants. */
typedef struct {
    uint64_t start, end;  /* bits from the start of the file */
    uint64_t previous;    /* the key that the first delta refers to */
    uint64_t query;       /* the query under the table's permutation */
    uint64_t last_wanted; /* no match of this probe has a larger key */
    uint32_t query_index;
    uint16_t table;
    uint16_t first_of_slot; /* the first delta may be 0 */
} Block;

ALWAYS_INLINE uint64_t line_offset(const Table *table, uint64_t slot) {
    return table->directory_offset + slot / GROUP_SLOTS * LINE_BYTES;
}

/* Where slot's inline block lies. *large says that it has none and fences tell instead. */
ALWAYS_INLINE Status slot_read(Pages *pages, const Table *table, uint64_t slot, uint64_t *start, uint64_t *end,
                               int *large) {
    uint64_t offset = line_offset(table, slot);
    unsigned index = (unsigned)(slot % GROUP_SLOTS);
    Status status = pages_check(pages, offset, offset);
    if (UNLIKELY(status != OK)) return status;
    const uint8_t *line = pages->base + offset;
    uint64_t word = load64(line), base = word & low_bits(OFFSET_BITS);
    uint16_t from = 0, to;
    memcpy(&to, line + 8 + 2 * index, 2);
    if (index > 0) memcpy(&from, line + 6 + 2 * index, 2);
    *large = (word >> (OFFSET_BITS + index)) & 1;
    if (UNLIKELY(to < from || base > table->payload_bits || to > table->payload_bits - base ||
                 to - from > MAX_BLOCK_BITS))
        return BAD_DIRECTORY;
    if (UNLIKELY(*large && to != from)) return BAD_DIRECTORY;
    *start = table->payload_offset * 8 + base + from;
    *end = table->payload_offset * 8 + base + to;
    return OK;
}

ALWAYS_INLINE Status fence_read(Pages *pages, const Table *table, uint64_t index, uint64_t *last_key, uint64_t *word) {
    uint64_t offset = table->fences_offset + index * FENCE_BYTES;
    Status status = pages_check(pages, offset, offset);
    if (UNLIKELY(status != OK)) return status;
    *last_key = load64(pages->base + offset);
    *word = load64(pages->base + offset + 8);
    return OK;
}

/* Of a table of blocks, where the fence of a key lies if keys lie evenly: byte offset. */
ALWAYS_INLINE uint64_t fence_guess(const Table *table, uint64_t key) {
    const double share = (double)key / ((double)low_bits(table->key_bits) + 1);
    uint64_t index = (uint64_t)(share * (double)table->fence_count);
    return table->fences_offset + (index < table->fence_count ? index : 0) * FENCE_BYTES;
}

/* Index of the first fence whose last key is at least key; fence_count when there is none. */
Status fence_find(Pages *pages, const Table *table, uint64_t key, uint64_t *found);

/* The block that fence `index` closes, of which keys from `begin` on matter: those of a large slot, whose first key may
   be that. Fills start, end, previous, first_of_slot, and *last_key. */
Status fence_block(Pages *pages, const Table *table, uint64_t begin, uint64_t index, Block *block, uint64_t *last_key);

#endif
