/* Wide codes, 128 or 256 bits: one copy of them, sorted, and for each table which of them share a prefix.

   A code is 2 or 4 words, the most significant first; its index in the order of codes is its rank. A table cuts the
   bits of its mask, in their order, into a slot (the top slot_bits) and a tag (the tag_bits below). Its starts tell
   where a slot's entries begin, and an entry is a rank and a tag. Where the mask is the top of a code the codes are in
   the table's order: it has no entries, and starts count codes.

   **Levels.** What a table looks for on level e differs from the query in e of its bits. A code within the distance has
   few errors left for all other tables where it has many in its first bits, which none of those has, and then not every
   table has to look on every level. A rank tells most of these bits, as codes are in their order. Which levels are
   looked on is decided for each query, by what it would cost: see codes_levels.h. */
#ifndef FPSTORE_CODES_H
#define FPSTORE_CODES_H

#include "match.h"
#include "view.h"

#define MAX_CODE_WORDS 4
#define MAX_ENTRY_BITS 56 /* a load of 64 bits has one of any shift */
#define MAX_TAG_BITS 8
#define VISITS 24                       /* slots at a stage */
#define VISIT_CODES 24                  /* codes that are read in order while a slot is looked at */
#define NO_PATTERNS ((uint64_t)1 << 40) /* too many to hold, for a table that no search asks */

/* A pattern: which bits of a slot to invert, and above PATTERN_BITS how many these are. */
#define PATTERN_BITS 56

#define MAX_LEVELS 8         /* of tables that need not look on all of theirs */
#define MAX_LEVEL_TABLES 128 /* of them */
#define ANY_ERRORS (1 << 20)

typedef struct {
    uint64_t mask[MAX_CODE_WORDS]; /* slot_bits + tag_bits of them */
    unsigned slot_bits, tag_bits, flips;
    int in_order; /* no entries */
    uint64_t starts_offset, entries_offset;
    const uint64_t *patterns; /* those that invert fewer bits first */
    uint64_t pattern_count;
    uint64_t level_patterns[MAX_LEVELS]; /* how many invert so many bits or fewer; NO_PATTERNS where not all are held */
} CodeTable;

/* What ranks tell. Of each 2^shift in order, the first bits of the first of them, from GUIDE_BITS on, and in these how
   many of the low ones are not known to be those of all. It is made where there have been GUIDE_AFTER searches, of the
   starts of the first table: it costs as much as it spares these. Ranges that lie in one slot are looked up in the codes
   where there have been GUIDE_READ_AFTER, and all pages were read. */
#define GUIDE_BITS 5
#define GUIDE_AFTER 64
#define GUIDE_READ_AFTER 1024
typedef struct {
    uint64_t searches;
    unsigned shift, dropped; /* the lowest of the first bits, which it does not have */
    uint32_t *ranges;        /* NULL until it is made */
} CodeGuide;

typedef struct {
    unsigned words, table_count, rank_bits, start_bytes;
    uint64_t count, codes_offset;
    CodeTable *tables;
    CodeGuide *guide;    /* NULL where every table looks on all its levels */
    unsigned highest;    /* level of any table, where there is a guide */
    unsigned first_bits; /* there: the bits of the first table, and those below them that no other table has */
} Codes;

/* Rows in memory, codes and their ids, in no order. ids: NULL where there are none. */
typedef struct {
    const uint64_t *codes, *ids;
    unsigned words;
} HeldCodes;

/* Matches so far; their fingerprint is a rank. most: how many the caller takes, TOO_MANY where there are more.

   keep: 0, or how many of each query are kept, those that come first: by distance, then by rank. Of the query under
   way, whose own begin at `begin`, only those are that come after `after`, unless that is NULL. rows: of what ranks
   are indexes where they do not tell the order, which is that by code, id and index then; NULL else. */
typedef struct {
    Match *found;
    uint64_t count, room, most;
    int first_only, scanned;
    uint64_t keep, begin;
    const Match *after;
    const HeldCodes *rows;
} CodeMatches;

/* How many patterns of at most so many flips there are of slot_bits bits; NO_PATTERNS where they are most or more. */
uint64_t code_pattern_count(unsigned slot_bits, unsigned flips, uint64_t most);

/* Fill them in: as many as there are. */
void code_patterns(unsigned slot_bits, unsigned flips, uint64_t *patterns);

/* Whether levels are spared: only where the tables' bits are disjoint, and codes are in the order of the first. Then
   codes->highest is up to which level a table may look, one more than any has to by its plan, and codes->first_bits are
   known. */
int codes_are_levelled(Codes *codes);

/* The first bits of a code, by its first word. */
ALWAYS_INLINE uint64_t codes_first_key(const Codes *codes, uint64_t word) {
    return word >> 1 >> (63 - codes->first_bits);
}

/* Of each table up to which level it looks, below 0 for none; and by how much the errors of a code in its
   first bits may be more than the distance of a search that looks for it on a level of another table. */
typedef struct {
    int highest[MAX_LEVEL_TABLES], reach[MAX_LEVEL_TABLES][MAX_LEVELS];
} Levels;

/* How many slots are looked at where all tables are as crowded, or a number above `most`. */
uint64_t codes_visits(const Codes *codes, unsigned distance, uint64_t most);

/* Every code within distance of the query, which is number `index`, each once, in no order. Reads all codes where that
   costs less than the tables. */
Status codes_search(Pages *pages, const Codes *codes, const uint64_t *query, uint32_t index, unsigned distance,
                    CodeMatches *matches);

/* The same, by reading all codes. */
Status codes_scan(Pages *pages, const Codes *codes, const uint64_t *query, uint32_t index, unsigned distance,
                  CodeMatches *matches);

/* The same among `count` codes in memory from the one of index `first` on, whose ranks are their indexes. */
Status codes_near(const uint64_t *codes, uint64_t first, uint64_t count, unsigned words, const uint64_t *query,
                  uint32_t index, unsigned distance, CodeMatches *matches);

/* The bits of `mask` (words of them) of each of count codes, in their order, at the low end of a word: 64 at most. */
void codes_keys(const uint64_t *codes, uint64_t count, unsigned words, const uint64_t *mask, uint64_t *keys);

/* One match more. */
Status codes_match(CodeMatches *matches, uint64_t rank, uint32_t query, unsigned distance);

/* Whether codes that are read in order are asked for one by one with AVX-512; else a page is, when the one before is
   begun. Without AVX-512 each line is asked for. */
extern HIDDEN int codes_ask;

void codes_choose(InstructionSet set);

#define CODES_KERNELS(set)                                                                                        \
    Status codes_search_##set(Pages *, const Codes *, const uint64_t *, uint32_t, unsigned, CodeMatches *);       \
    Status codes_scan_##set(Pages *, const Codes *, const uint64_t *, uint32_t, unsigned, CodeMatches *);         \
    Status codes_near_##set(const uint64_t *, uint64_t, uint64_t, unsigned, const uint64_t *, uint32_t, unsigned, \
                            CodeMatches *);                                                                       \
    void codes_keys_##set(const uint64_t *, uint64_t, unsigned, const uint64_t *, uint64_t *);
CODES_KERNELS(portable)
CODES_KERNELS(fast)
CODES_KERNELS(wide)
#undef CODES_KERNELS

#endif
