/* Segments of one plan that a query looks up together: the slots of all of them are named before any is read, and their
   blocks fill the same lanes. Of few segments, or few slots of each, one after the other would wait, and leave lanes
   empty, once for each of them. */
#ifndef FPSTORE_SEVERAL_H
#define FPSTORE_SEVERAL_H

#include "view.h"

#define SEVERAL_PARTS 32
#define SEVERAL_TABLES 16 /* of each */
#define SEVERAL_CODES 32
#define SEVERAL_SLOTS 191
#define SEVERAL_ROWS 200 /* the slots, in vectors of eight */

/* What is the same for each query of each slot, of places behind `base`; see SlotColumns. table: which of one
   segment's; flip: what is inverted of the query's key there; below: the bits of a key that its prefix does not have.
   There are more rows than slots, for lanes that have none. widened: the rows in which up to `left` more bits may be
   inverted, of those of `window`. moved: how far the segment lies behind `base`; seen: the address of its pages' bits
   of that name. */
typedef struct {
    unsigned slot_count, widened_count;
    uint64_t table[SEVERAL_ROWS], flip[SEVERAL_ROWS], shift[SEVERAL_ROWS], below[SEVERAL_ROWS], directory[SEVERAL_ROWS],
        payload[SEVERAL_ROWS], payload_bits[SEVERAL_ROWS], scale[SEVERAL_ROWS], tag[SEVERAL_ROWS], window[SEVERAL_ROWS],
        moved[SEVERAL_ROWS], seen[SEVERAL_ROWS];
    uint16_t widened[SEVERAL_ROWS], left[SEVERAL_ROWS];
} SeveralColumns;

/* The segments lie behind one address, `base`, each so many bytes (`moved`): so a place in any of them is an offset. Of
   their tables those of the first segment come first. A code is that of several tables, as far as these agree. */
typedef struct {
    const uint8_t *base;
    unsigned part_count, table_count; /* segments; tables of each */
    unsigned code_count;
    Pages **pages;
    uint64_t *moved;
    Table **tables;
    uint16_t *code_of; /* of each table, which of the codes */
    WideCode *codes;
    SeveralColumns *columns;
} Several;

/* Of segments, which have their tables and so many each, how many from the first on go together: those of one plan
   whose slots can be named together; one, where that takes less alone, too. None where this machine has no lanes. */
unsigned several_count(Table *const *const *tables, unsigned table_count, unsigned count);

/* Those of several_count(), to be freed by several_free(). NULL where there is no memory, or they have more codes than
   are worth it: then each is searched alone. */
Several *several_make(Pages *const *pages, Table *const *const *tables, unsigned table_count, unsigned count);

void several_free(Several *several);

void several_choose(InstructionSet set);

#endif
