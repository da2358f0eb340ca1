/* One query of a whole state of a store: its segments, then what is pending; each match a row for each of its ids.

   What is uncommon is not answered: any status but OK says so, and the caller asks in another way, which finds out. */
#ifndef FPSTORE_SINGLE_H
#define FPSTORE_SINGLE_H

#include "ids.h"
#include "pending.h"
#include "scan.h"

/* A segment. several: it and those after it, as many as that says, where they are looked up together; or NULL. */
typedef struct {
    Pages *pages;
    Table *const *tables;
    unsigned table_count;
    const Ids *ids; /* NULL without */
    uint64_t position, key_count;
    Several *several;
} Part;

/* Fill in `several` of all parts that have none, for parts_free_several() to free. */
void parts_make_several(Part *parts, unsigned count);
void parts_free_several(Part *parts, unsigned count);

/* How many parts are looked up together from this one on; 0 where it is not the first of several. */
unsigned part_together(const Part *part);

/* Ask for what is said of a part, of which after other work no near cache has any; of none where tables are NULL. */
void part_ask(const Part *part);

/* Where keys are decoded to that are all looked at: memory of one search at a time. room has room for CHUNK_ROOM. */
typedef struct {
    Chunk *chunk;
    uint64_t *room;
} ScanRoom;

#define FEW_ROWS_FOUND 16

/* position: when it was stored, which decides whether a removal masks it. */
typedef struct {
    uint64_t fingerprint, id, position;
    uint32_t distance;
} FoundRow;

typedef struct {
    const Part *parts;
    unsigned part_count;
    const Pending *pending;
    uint32_t pending_end; /* rows numbered up to it belong to the answer */
} Sources;

/* Rows that were found, at most `most`, from found_init() to found_free(). keep: 0, or how many rows are wanted, those that come
   first: of each segment only the rows of its nearest so many fingerprints are had. */
typedef struct {
    FoundRow *rows;
    uint64_t count, room, most, keep;
    FoundRow few[FEW_ROWS_FOUND]; /* the first ones, which need no memory of their own */
} FoundRows;

ALWAYS_INLINE void found_init(FoundRows *found, uint64_t most, uint64_t keep) {
    found->rows = found->few, found->room = FEW_ROWS_FOUND, found->count = 0, found->most = most, found->keep = keep;
}

void found_free(FoundRows *found);

/* Code that is asked for together, noted once: of each piece the number of its first line, above 8 bits of how many it
   has. So a loop over a few lines of memory does what each piece would take a line of code for. */
#define NOTED_CODES 31
typedef struct {
    uint64_t count, pieces[NOTED_CODES];
} NotedCode;

void code_note(NotedCode *noted, const void *code, unsigned lines);
static inline void code_ask(const NotedCode *noted) {
    for (unsigned i = 0; i < noted->count; i++)
        ask_code_at((const void *)(uintptr_t)((noted->pieces[i] >> 8) * CACHE_LINE), noted->pieces[i] & 255);
}

/* What a query for the nearest goes through beside what search_ask_code() asks for: up to the scan, which is asked for
   when the call begins, and from the scan on, when that begins. Asked for at once, what comes first waits for all. */
extern HIDDEN NotedCode code_before_scan, code_from_scan;

/* Note what of it is here. */
void single_note_code(void);

/* Add what is within `distance` of query to found, in no order and maybe twice. TOO_MANY where there are more. scan:
   NULL where segments are looked up, or for a look at all their keys. */
Status single_search(const Sources *sources, uint64_t query, unsigned distance, ScanRoom *scan, FoundRows *found);

/* Whether anything is within `distance` of query; stops at the first. */
Status single_any(const Sources *sources, uint64_t query, unsigned distance, ScanRoom *scan, int *any);

/* Put the rows in the order of an answer, each once. */
void single_order(FoundRows *found);

#endif
