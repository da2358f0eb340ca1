/* What is done once for a page, a table or a fence. */
#define _GNU_SOURCE /* mremap */
#include "view.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

/* Of 2^MAX_CODE_BITS, for codes of one class: one of 64 keys. */
#define MOST_DIFFERENT (1 << (MAX_CODE_BITS - 6))

int lanes_gather;

__attribute__((constructor)) static void choose_gathers(void) { lanes_gather = processor_gathers(); }

static void page_mark(Pages *pages, uint64_t page) {
    const uint64_t bit = (uint64_t)1 << (page & 63);
    const uint64_t before = __atomic_fetch_or(&pages->seen[page >> 6], bit, __ATOMIC_RELEASE);
    if (page < pages->pages && (before & bit) == 0) __atomic_fetch_sub(&pages->unseen, 1, __ATOMIC_RELEASE);
}

/* How often a page is looked at again: one that was brought just now, one brought for this look, and once more, should
   it have been spoilt on its way. */
#define LOOKS_AGAIN 3

static int checksum_holds(const uint8_t *bytes, uint64_t offset, uint64_t end, const uint8_t *checksum) {
    uint32_t expected;
    memcpy(&expected, checksum, CRC_BYTES);
    return crc32c(0, bytes + offset, end - offset < PAGE_BYTES ? end - offset : PAGE_BYTES) == expected;
}

static int page_holds(const Pages *pages, uint64_t page) {
    return checksum_holds(pages->base, page * PAGE_BYTES, pages->checked_bytes, pages->checksums + CRC_BYTES * page);
}

static int sums_hold(const Pages *pages, uint64_t sum_page) {
    return checksum_holds(pages->checksums, sum_page * PAGE_BYTES, pages->checksums_bytes,
                          pages->roots + CRC_BYTES * sum_page);
}

/* A page whose checksum did not hold so many times; `index`: among all, those of checksums last. OK: look again. */
static Status page_bring(Pages *pages, uint64_t index, uint64_t offset, unsigned looks) {
    if (pages->source == NULL || looks == LOOKS_AGAIN) {
        __atomic_store_n(&pages->bad_page_offset, offset, __ATOMIC_RELAXED);
        return BAD_PAGE;
    }
    return source_fetch(pages->source, index);
}

static Status sum_page_check(Pages *pages, uint64_t sum_page) {
    const uint64_t index = pages->pages + sum_page;
    if (page_seen(pages, index)) return OK;
    for (unsigned looks = 0; !sums_hold(pages, sum_page); looks++) {
        const uint64_t offset = (uint64_t)(pages->checksums - pages->base) + sum_page * PAGE_BYTES;
        Status status = page_bring(pages, index, offset, looks);
        if (status != OK) return status;
    }
    page_mark(pages, index);
    return OK;
}

Status page_check(Pages *pages, uint64_t page) {
    Status status = sum_page_check(pages, CRC_BYTES * page / PAGE_BYTES);
    for (unsigned looks = 0; status == OK && !page_holds(pages, page); looks++)
        status = page_bring(pages, page, page * PAGE_BYTES, looks);
    if (status == OK) page_mark(pages, page);
    return status;
}

Status sums_check(Pages *pages, uint64_t first, uint64_t end) {
    Status status = OK;
    for (uint64_t sum_page = first / PAGE_BYTES; status == OK && sum_page * PAGE_BYTES < end; sum_page++)
        status = sum_page_check(pages, sum_page);
    return status;
}

/* Of a file that has a source: ask for a page that is not there. */
static void page_want(Pages *pages, uint64_t page) {
    const uint64_t sum_page = CRC_BYTES * page / PAGE_BYTES;
    if (!page_seen(pages, pages->pages + sum_page)) {
        if (!sums_hold(pages, sum_page)) {
            source_ask(pages->source, pages->pages + sum_page);
            return;
        }
        page_mark(pages, pages->pages + sum_page);
    }
    if (page_holds(pages, page)) {
        page_mark(pages, page);
        return;
    }
    __atomic_fetch_add(&pages->asked, 1, __ATOMIC_RELAXED);
    source_ask(pages->source, page);
}

uint64_t pages_new(const Pages *pages, uint64_t first, uint64_t end) {
    for (uint64_t page = first / PAGE_BYTES; page * PAGE_BYTES < end;)
        if (page % 64 == 0 && __atomic_load_n(&pages->seen[page >> 6], __ATOMIC_ACQUIRE) == UINT64_MAX)
            page += 64;
        else if (page_seen(pages, page))
            page++;
        else
            return page * PAGE_BYTES > first ? page * PAGE_BYTES : first;
    return end;
}

void pages_ask(Pages *pages, uint64_t first, uint64_t end) {
    for (uint64_t page = first; page < end; page++)
        if (!page_seen(pages, page)) page_ask(pages, page);
}

#if defined(__linux__) && !defined(MADV_POPULATE_READ)
#define MADV_POPULATE_READ 22 /* since Linux 5.14; others say that they do not know it */
#endif

#if defined(__linux__) && defined(MADV_HUGEPAGE)
#define LARGE_PAGE_BYTES ((uint64_t)1 << 21)

/* What is not in memory comes from the disk in large pages, as far as the file system has these, by the first fault in
   each. Asked of a second mapping of the same bytes, which is gone at once: the first one would go on to read as much
   for each page that a search lacks. */
static void bring_large(void *at, uint64_t bytes) {
    uint8_t *again = bytes < LARGE_PAGE_BYTES ? MAP_FAILED : mremap(at, 0, bytes, MREMAP_MAYMOVE);
    if (again == MAP_FAILED) return;
    if (madvise(again, bytes, MADV_HUGEPAGE) == 0)
        for (uint64_t offset = 0; offset < bytes; offset += LARGE_PAGE_BYTES)
            (void)madvise(again + offset, PAGE_BYTES, MADV_POPULATE_READ);
    munmap(again, bytes);
}
#endif

Status pages_warm(Pages *pages, uint64_t first, uint64_t end) {
#if defined(__linux__)
    /* The mapping is for random access, which would read a cold file page by page. */
    void *at = (void *)(pages->base + first * PAGE_BYTES);
#if defined(MADV_HUGEPAGE)
    bring_large(at, (end - first) * PAGE_BYTES);
#endif
    (void)madvise(at, (end - first) * PAGE_BYTES, MADV_WILLNEED);
    (void)madvise(at, (end - first) * PAGE_BYTES, MADV_POPULATE_READ);
#endif
    if (pages->source != NULL) pages_ask(pages, first, end);
    Status status = OK; /* a damaged page is for who uses it; where one cannot be brought, the others would not come */
    for (uint64_t page = first; page < end && status != NOT_BROUGHT; page++)
        if (!page_seen(pages, page)) status = page_check(pages, page);
    return status == NOT_BROUGHT ? status : OK;
}

void page_ask(Pages *pages, uint64_t page) {
    if (pages->source != NULL) {
        page_want(pages, page);
        return;
    }
#if defined(__linux__)
    uint64_t sum_page = CRC_BYTES * page / PAGE_BYTES;
    if (madvise((void *)(pages->base + page * PAGE_BYTES), PAGE_BYTES, MADV_WILLNEED) == 0)
        __atomic_fetch_add(&pages->asked, 1, __ATOMIC_RELAXED);
    if (!page_seen(pages, pages->pages + sum_page)) {
        uintptr_t sum = (uintptr_t)pages->checksums + sum_page * PAGE_BYTES;
        (void)madvise((void *)(sum & ~(uintptr_t)(PAGE_BYTES - 1)), 2 * PAGE_BYTES, MADV_WILLNEED);
    }
#else
    (void)pages, (void)page;
#endif
}

int traces_note(const Table *table, const uint64_t *keys, uint64_t count, uint64_t first, uint64_t *last,
                uint16_t *of_keys, uint32_t *starts) {
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t key = keys[i], number = first + i;
        if ((key & ~low_bits(table->key_bits)) != 0 || (number > 0 && key <= *last)) return 0;
        *last = key;
        of_keys[number] = trace_of(table, key);
        starts[slot_of(key, table->slot_shift) + 1]++;
    }
    return 1;
}

void decode_init(DecodeEntry *decode, const uint8_t *code_lengths) {
    for (int index = 0; index < 1 << MAX_CODE_BITS; index++) decode[index] = SLOW_BAD;
    unsigned code = 0, previous = 0;
    for (unsigned length = 1; length <= MAX_CODE_BITS; length++)
        for (unsigned symbol = 0; symbol < SYMBOLS; symbol++) {
            if (code_lengths[symbol] != length) continue;
            code <<= length - previous;
            previous = length;
            unsigned reversed = 0;
            for (unsigned bit = 0; bit < length; bit++) reversed |= ((code >> bit) & 1) << (length - 1 - bit);
            unsigned advance = symbol > 0 ? length + symbol - 1 : SLOW_ZERO;
            for (unsigned rest = 0; rest < 1u << (MAX_CODE_BITS - length); rest++)
                decode[reversed | rest << length] = (DecodeEntry)(advance | length << 8);
            code++;
        }
}

/* The tail of an entry of decode[], of which so many bits are looked at. */
static uint8_t wide_entry(WideCode *wide, unsigned entry, unsigned bits) {
    const unsigned advance = entry & 255, tail = advance - (entry >> 8);
    if (advance > WIDE_BITS || entry >> 8 > bits) return WIDE_FAR;
    wide->advance[tail] = (uint8_t)advance;
    return (uint8_t)tail;
}

/* With how many ones all codes begin, at least, that are longer than 6 bits. */
static unsigned far_ones_of(const DecodeEntry *decode) {
    unsigned least = MAX_CODE_BITS - 7;
    for (unsigned i = 0; i < 1 << MAX_CODE_BITS; i++) {
        unsigned ones = (unsigned)__builtin_ctz(~i);
        if (((decode[i] & 255) == SLOW_BAD || decode[i] >> 8 > 6) && ones < least) least = ones;
    }
    return least;
}

static void wide_fill(WideCode *wide, const DecodeEntry *decode, unsigned far_ones) {
    memset(wide->advance, 0, sizeof wide->advance);
    wide->far_ones = far_ones;
    for (unsigned i = 0; i < 128; i++) {
        unsigned near = decode[i % 64], far = decode[((i + 1) << far_ones) - 1];
        wide->near_tail[i % 64] = wide_entry(wide, near, 6);
        wide->far_tail[i] = wide_entry(wide, far, 7 + far_ones);
    }
}

void wide_init(WideCode *wide, const DecodeEntry *decode) { wide_fill(wide, decode, far_ones_of(decode)); }

/* Whether two codes decode alike where they have these tails. */
static int wide_alike(const WideCode *wide, unsigned tail, const WideCode *other, unsigned other_tail) {
    return tail == other_tail && (tail == WIDE_FAR || wide->advance[tail] == other->advance[tail]);
}

/* Mark what another code does in another way. Returns of how many of the 2^MAX_CODE_BITS next bits that there can be.
 */
static unsigned wide_mark(WideCode *wide, const DecodeEntry *decode) {
    WideCode other;
    unsigned marked = 0;
    const unsigned ones = (1u << wide->far_ones) - 1;
    wide_fill(&other, decode, wide->far_ones);
    for (unsigned i = 0; i < 64; i++) {
        if (wide_alike(wide, wide->near_tail[i] & ~WIDE_DIFFERS, &other, other.near_tail[i])) continue;
        wide->near_tail[i] |= WIDE_DIFFERS;
        if ((i & ones) != ones) marked += 1 << (MAX_CODE_BITS - 6);
    }
    for (unsigned i = 0; i < 128; i++) {
        if (wide_alike(wide, wide->far_tail[i] & ~WIDE_DIFFERS, &other, other.far_tail[i])) continue;
        wide->far_tail[i] |= WIDE_DIFFERS;
        marked += 1 << (MAX_CODE_BITS - 7 - wide->far_ones);
    }
    return marked;
}

void tables_share_codes(Table *const *tables, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        tables[i]->code_class = i;
        wide_init(&tables[i]->own, tables[i]->decode);
        tables[i]->common = tables[i]->own;
        for (unsigned leader = 0; leader < i; leader++) {
            WideCode common = tables[leader]->common;
            if (tables[leader]->code_class != leader || wide_mark(&common, tables[i]->decode) > MOST_DIFFERENT)
                continue;
            tables[leader]->common = common;
            tables[i]->code_class = leader;
            break;
        }
    }
}

unsigned codes_share(Table *const *tables, unsigned count, WideCode *codes, uint16_t *code_of) {
    unsigned found = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned code = 0;
        for (; code < found; code++) {
            WideCode common = codes[code];
            if (wide_mark(&common, tables[i]->decode) > MOST_DIFFERENT) continue;
            codes[code] = common;
            break;
        }
        if (code == found) codes[found++] = tables[i]->own;
        code_of[i] = (uint16_t)code;
    }
    return found;
}

/* Reads of a directory of blocks that go where the key would be if keys lay evenly; after these a few more look around
   there, further and further away, and the rest halve what is left. */
#define INTERPOLATED 3

/* Where among fences [low, high) the first one is whose last key is at least `key`: they lie behind `least`, and what
   follows them is `most`. */
ALWAYS_INLINE uint64_t interpolated(uint64_t low, uint64_t high, uint64_t least, uint64_t most, uint64_t key) {
    if (key >= most || key <= least) return key <= least ? low : high - 1;
    const double share = (double)(key - least) / ((double)(most - least) + 1);
    const uint64_t guess = low + (uint64_t)(share * (double)(high - low));
    return guess < high ? guess : high - 1;
}

Status fence_find(Pages *pages, const Table *table, uint64_t key, uint64_t *found) {
    uint64_t low = 0, high = table->fence_count, least = 0, most = low_bits(table->key_bits), away = 0, last_key, word;
    int below = 0;
    for (unsigned step = 0; low < high; step++) {
        uint64_t middle = low + (high - low) / 2;
        if (table->block_bytes != 0 && step < INTERPOLATED) {
            middle = interpolated(low, high, least, most, key);
        } else if (table->block_bytes != 0 && away < (high - low) / 2) {
            middle = below ? low + away : high - 1 - away;
            away = 2 * away + 1;
        }
        Status status = fence_read(pages, table, middle, &last_key, &word);
        if (status != OK) return status;
        below = last_key < key;
        if (below)
            low = middle + 1, least = last_key;
        else
            high = middle, most = last_key;
    }
    *found = low;
    return OK;
}

/* Each page is looked at as it is now, in a copy: of a file that is cut short meanwhile the rest of a page reads as
   zeros. An answer made of these is not believed, see guard.h; what is noted here would be, once the file is whole. */
void fences_note(Table *table, const Pages *pages) {
    const uint64_t count = table->fence_count, end = table->fences_offset + count * FENCE_BYTES;
    uint64_t at = table->fences_offset, index = 0;
    unsigned top = 0;
    int holds = 1, unknown = FENCES_UNKNOWN;
    if (count < FENCES_NOTED || count > UINT32_MAX || table->block_bytes != 0) return;
    if (!__atomic_compare_exchange_n(&table->fences, &unknown, FENCES_BEGUN, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    while (holds && at < end) {
        const uint64_t page = at / PAGE_BYTES, begin = page * PAGE_BYTES, rest = pages->checked_bytes - begin,
                       size = rest < PAGE_BYTES ? rest : PAGE_BYTES;
        uint8_t now[PAGE_BYTES];
        memcpy(now, pages->base + begin, size);
        holds = checksum_holds(now, 0, size, pages->checksums + CRC_BYTES * page);
        for (; at < end && at < begin + size; at += FENCE_BYTES, index++) {
            const uint64_t last_key = load64(now + (at - begin));
            for (; top < 1 << FENCE_BITS && (uint64_t)top << fence_shift(table) <= last_key; top++)
                table->first_fence[top] = (uint32_t)index;
        }
    }
    for (; top <= 1 << FENCE_BITS; top++) table->first_fence[top] = (uint32_t)count;
    __atomic_store_n(&table->fences, holds ? FENCES_KNOWN : FENCES_UNKNOWN, __ATOMIC_RELEASE);
}

Status fence_block(Pages *pages, const Table *table, uint64_t begin, uint64_t index, Block *block, uint64_t *last_key) {
    uint64_t word, before_key = 0, before_word;
    Status status = fence_read(pages, table, index, last_key, &word);
    if (status != OK) return status;
    block->previous = begin;
    block->first_of_slot = 1;
    if (index > 0) {
        status = fence_read(pages, table, index - 1, &before_key, &before_word);
        if (status != OK) return status;
        if (before_key >= *last_key) return BAD_DIRECTORY;
        /* Blocks lie one after another, so that a walk over fences decodes no bit twice. */
        if ((word & low_bits(OFFSET_BITS)) < (before_word & low_bits(OFFSET_BITS)) + (before_word >> OFFSET_BITS))
            return BAD_DIRECTORY;
        if (before_key >= begin) {
            block->previous = before_key;
            block->first_of_slot = 0;
        }
    }
    uint64_t start = word & low_bits(OFFSET_BITS), bits = word >> OFFSET_BITS;
    if (bits == 0 || start > table->payload_bits || bits > table->payload_bits - start) return BAD_DIRECTORY;
    if (table->block_bytes != 0 && (bits < table->key_bits || bits > 8 * table->block_bytes)) return BAD_DIRECTORY;
    block->start = table->payload_offset * 8 + start;
    block->end = block->start + bits;
    return OK;
}
