/* The way of a scan over the slots of a table, and the choice of how keys are compared. */
#include "scan.h"

typedef struct {
    Status (*block)(Scan *, const uint64_t *, uint64_t);
    void (*unpack)(const uint8_t *, uint64_t, unsigned, uint64_t, uint64_t *);
} Kernels;

#define KERNELS_OF(set) \
    (Kernels) { scan_block_##set, scan_unpack_##set }

static Kernels kernels = {scan_block_portable, scan_unpack_portable};

KERNELS_CHOSEN_AT_LOAD(scan_choose)

/* Where in the payload a scan from the group of `slot` on begins, or one of all slots ends: a bit. The blocks of a
   group's large slots lie before it, so these go with the groups before, but for those of the first one. */
static Status group_start(Pages *pages, const Table *table, uint64_t slot, uint64_t *start) {
    *start = slot == 0 ? 0 : table->payload_bits;
    if (slot == 0 || slot >> table->slot_bits != 0) return OK;
    const uint64_t offset = line_offset(table, slot);
    Status status = pages_check(pages, offset, offset);
    if (status != OK) return status;
    *start = load64(pages->base + offset) & low_bits(OFFSET_BITS);
    return *start > table->payload_bits ? BAD_DIRECTORY : OK;
}

/* Keys that are not coded lie side by side, whatever their blocks: those of 64 bits are compared where they are. */
static Status scan_raw(Scan *scan, uint64_t first, uint64_t end, uint64_t *room) {
    Pages *pages = scan->search->pages;
    const Table *table = scan->search->tables[0];
    const unsigned key_bits = table->key_bits;
    uint64_t start, stop;
    Status status = group_start(pages, table, first, &start);
    if (status == OK) status = group_start(pages, table, end, &stop);
    if (status != OK) return status;
    if (start > stop) return BAD_DIRECTORY;
    if ((stop - start) % key_bits != 0) return BAD_BLOCK;
    uint64_t at = table->payload_offset * 8 + start;
    for (uint64_t left = (stop - start) / key_bits; left > 0 && status == OK && !scan->search->done;) {
        uint64_t count = left < SCAN_RAW_KEYS ? left : SCAN_RAW_KEYS;
        status = pages_check(pages, at >> 3, (at + count * key_bits - 1) >> 3);
        if (status != OK) return status;
        if (key_bits == 64 && at % 64 == 0) {
            /* With all that follow whose pages are known, in one run: in pieces the processor foresees less of what comes,
               and takes 1.3 to 1.5 times as long wherever they begin at the wrong line of four (Xeon). */
            const uint64_t begin = at >> 3, known = pages_new(pages, begin + 8 * count, begin + 8 * left);
            count = (known - begin) / 8;
            status = kernels.block(scan, (const uint64_t *)(const void *)(pages->base + begin), count);
        } else {
            kernels.unpack(pages->base, at, key_bits, count, room);
            status = kernels.block(scan, room, count);
        }
        at += count * key_bits;
        left -= count;
    }
    return status;
}

Status scan_slots(Scan *scan, uint64_t first, uint64_t end, Chunk *chunk, uint64_t *room) {
    const Table *table = scan->search->tables[0];
    Cursor cursor = {.slot = first, .end_slot = end, .chunk = chunk};
    Status status = OK;
    if (first == end) return OK;
    if (table->codec == CODEC_RAW && table->block_bytes == 0) return scan_raw(scan, first, end, room);
    while (status == OK && cursor.slot < end && !scan->search->done) {
        uint64_t count = 0;
        status = cursor_decode(scan->search->pages, table, &cursor, room, CHUNK_ROOM, &count);
        if (status == OK) status = kernels.block(scan, room, count);
    }
    return status;
}

void scan_end(Search *search) {
    if (search->keep != 0)
        search->match_count = match_keep(search->matches, search->match_count, sizeof(Match), search->keep, NULL);
    else if (search->match_count > 1)
        qsort(search->matches, search->match_count, sizeof(Match), match_order);
}
