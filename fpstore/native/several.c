/* Which segments are searched together. */
#include "several.h"

#include "search.h"

/* Slots of a segment. Ten of 400,000 keys take 0.84 of the time together where they have 17 slots each (balanced), and
   1.04 where they have 32 (size): the more there is to do in each, the less it waits. */
enum { MOST_SLOTS = 28 };

static int is_wide;

void several_choose(InstructionSet set) { is_wide = set == SET_WIDE; }

CHOSEN_AT_LOAD(several_choose)

/* How many slots a query names in a table: 0 where they are not within a prefix, or too many to be named together. */
static unsigned slots_of(const Table *table) {
    const unsigned bits = table->slot_bits;
    if (table->codec > CODEC_XOR || table->block_bytes != 0) return 0;
    if (bits > table->permutation.prefix_bits || table->flips > 2) return 0;
    return 1 + (table->flips > 0 ? bits : 0) + (table->flips > 1 ? bits * (bits - 1) / 2 : 0);
}

/* Whether a table catches what another one does, and is written in the same way. */
static int is_alike(const Table *one, const Table *other) {
    return one->codec == other->codec && one->key_bits == other->key_bits && one->flips == other->flips &&
           one->permutation.prefix_mask == other->permutation.prefix_mask;
}

/* How many slots a query has in a segment; 0 where it cannot be looked up with that of `first`. */
static unsigned slots_of_part(Table *const *tables, Table *const *first, unsigned table_count) {
    unsigned slots = 0;
    for (unsigned t = 0; t < table_count; t++) {
        const unsigned own = slots_of(tables[t]);
        if (own == 0 || !is_alike(tables[t], first[t])) return 0;
        slots += own;
    }
    return slots;
}

unsigned several_count(Table *const *const *tables, unsigned table_count, unsigned count) {
    unsigned slots = 0, part = 0;
    if (!is_wide || table_count == 0 || table_count > SEVERAL_TABLES) return 0;
    for (; part < count && part < SEVERAL_PARTS; part++) {
        const unsigned own = slots_of_part(tables[part], tables[0], table_count);
        if (own == 0 || own > MOST_SLOTS || slots + own > SEVERAL_SLOTS) break;
        slots += own;
    }
    /* One alone takes 0.7 to 0.9 of the time where each table has one slot, and 1.2 with flips. */
    return part == 1 && slots > table_count ? 0 : part;
}

static void add_row(const Several *several, unsigned index, uint64_t flip, unsigned left) {
    SeveralColumns *columns = several->columns;
    const unsigned part = index / several->table_count, i = columns->slot_count++;
    const Table *table = several->tables[index];
    columns->table[i] = index % several->table_count, columns->flip[i] = flip;
    columns->shift[i] = table->slot_shift, columns->below[i] = low_bits(table->permutation.below_bits);
    columns->directory[i] = table->directory_offset + several->moved[part];
    columns->payload[i] = (table->payload_offset + several->moved[part]) * 8;
    columns->payload_bits[i] = table->payload_bits, columns->scale[i] = reach_shift(table->slot_shift);
    columns->tag[i] = (uint64_t)part << 32 | index << 8 | WIDE_FAR | WIDE_DIFFERS;
    columns->window[i] = low_bits(table->slot_shift) & ~columns->below[i];
    columns->left[i] = (uint16_t)left;
    columns->moved[i] = several->moved[part], columns->seen[i] = (uintptr_t)several->pages[part]->seen;
    if (left > 0) columns->widened[columns->widened_count++] = (uint16_t)i;
}

/* The slots of every query, and what is known of them before there is one. */
static void fill_columns(const Several *several) {
    SeveralColumns *columns = several->columns;
    for (unsigned index = 0; index < several->part_count * several->table_count; index++) {
        const Table *table = several->tables[index];
        const uint64_t top = (uint64_t)1 << (table->key_bits - 1);
        add_row(several, index, 0, table->flips);
        for (unsigned one = 0; table->flips > 0 && one < table->slot_bits; one++) {
            add_row(several, index, top >> one, table->flips - 1);
            for (unsigned two = one + 1; table->flips > 1 && two < table->slot_bits; two++)
                add_row(several, index, top >> one | top >> two, 0);
        }
    }
    for (unsigned i = columns->slot_count; i < SEVERAL_ROWS; i++)
        columns->directory[i] = columns->directory[0], columns->shift[i] = 64, columns->moved[i] = columns->moved[0],
        columns->seen[i] = columns->seen[0];
}

Several *several_make(Pages *const *pages, Table *const *const *tables, unsigned table_count, unsigned count) {
    const size_t all = (size_t)count * table_count;
    Several *several = calloc(1, sizeof *several);
    if (several == NULL) return NULL;
    several->pages = calloc(count, sizeof *several->pages);
    several->moved = calloc(count, sizeof *several->moved);
    several->tables = calloc(all, sizeof *several->tables);
    several->code_of = calloc(all, sizeof *several->code_of);
    several->codes = calloc(all, sizeof *several->codes);
    several->columns = calloc(1, sizeof *several->columns);
    if (!several->pages || !several->moved || !several->tables || !several->code_of || !several->codes ||
        !several->columns) {
        several_free(several);
        return NULL;
    }
    several->part_count = count, several->table_count = table_count;
    several->base = pages[0]->base;
    for (unsigned part = 1; part < count; part++)
        if ((uintptr_t)pages[part]->base < (uintptr_t)several->base) several->base = pages[part]->base;
    for (unsigned part = 0; part < count; part++) {
        several->pages[part] = pages[part];
        several->moved[part] = (uint64_t)((uintptr_t)pages[part]->base - (uintptr_t)several->base);
        memcpy(several->tables + part * table_count, tables[part], table_count * sizeof(Table *));
    }
    several->code_count = codes_share(several->tables, (unsigned)all, several->codes, several->code_of);
    if (several->code_count > SEVERAL_CODES) {
        several_free(several);
        return NULL;
    }
    fill_columns(several);
    return several;
}

void several_free(Several *several) {
    if (several == NULL) return;
    free(several->pages);
    free(several->moved);
    free(several->tables);
    free(several->code_of);
    free(several->codes);
    free(several->columns);
    free(several);
}
