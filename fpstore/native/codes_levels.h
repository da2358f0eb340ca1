/* On which levels a search of wide codes looks. Part of codes_body.h.

   Tables that look up to level f each, from -1 on, catch each code within the distance where all f + 1 together are
   more than that: a table that misses it has more than f errors in its bits, which no other table has. So levels are
   looked on that are one more than the distance: those that cost least, and of each table the lower before the higher.

   A code that the first table does not catch, and that has E errors in its first bits, of which the others have none,
   has at most distance - E in those of the others. So of their levels distance + 1 - E are enough, and any will do:
   those that were chosen first. The one that is number p of them, from 1 on, is needed where p <= distance + 1 - E, and
   so where E <= distance + 1 - p. */

/* What a level costs, in entries: a slot that is looked at, and a code that is compared in the order of the first
   table. Measured at 10^6 and 10^7 codes of 256 bits. */
#define VISIT_ENTRIES 4.0F
#define ORDERED_ENTRIES 4.0F
/* How crowded the slots near the query's are is guessed by its own, which counts as so many, and those that differ from
   it in one of so many low bits: they lie in few lines of memory. */
#define AROUND_BITS 6
#define OWN_WEIGHT 3
#define SAME_LINE_BITS 4 /* that hardly change the line where a start is */
#define CROWD_SHARE 0.7F /* of how much more crowded a level is than all slots, what is left one level higher */

#define LEVEL_BITS 3 /* a number below MAX_LEVELS */
#define TABLE_BITS 7 /* and one below MAX_LEVEL_TABLES */
#define NEVER INT32_MAX

/* How many codes are in the slot of a query, and about how many in each that differs from it in one bit. */
typedef struct {
    float own, around;
} Crowd;

/* Ask for the starts of the query's own slot of every table, and of those around. */
ALWAYS_INLINE void KERNEL(name_own)(CodeSearch *search, int sound) {
    const Codes *codes = search->codes;
    for (unsigned t = 0; t < codes->table_count; t++) {
        const CodeTable *table = &codes->tables[t];
        const uint64_t slot = search->keys[t] >> table->tag_bits;
        KERNEL(ask)(search, table->starts_offset + slot * codes->start_bytes, sound);
        for (unsigned bit = SAME_LINE_BITS; bit < AROUND_BITS && bit < table->slot_bits; bit++)
            KERNEL(ask)(search, table->starts_offset + (slot ^ (uint64_t)1 << bit) * codes->start_bytes, sound);
    }
}

/* Add how many codes are in a slot. */
ALWAYS_INLINE Status KERNEL(count_slot)(CodeSearch *search, const CodeTable *table, uint64_t slot, uint64_t *count,
                                        int sound) {
    const unsigned bytes = search->codes->start_bytes;
    const uint64_t offset = table->starts_offset + slot * bytes;
    Status status = KERNEL(check)(search, offset, offset + 2 * bytes - 1, sound);
    if (UNLIKELY(status != OK)) return status;
    const uint8_t *at = search->pages->base + offset;
    *count += KERNEL(start_of)(at + bytes, bytes) - KERNEL(start_of)(at, bytes);
    return OK;
}

/* A number for a level of a table: the less it costs, the less that is. Of those of one table it grows. */
ALWAYS_INLINE int32_t KERNEL(priced)(float cost, unsigned t, unsigned level) {
    int32_t bits;
    memcpy(&bits, &cost, sizeof bits);
    const unsigned low = LEVEL_BITS + TABLE_BITS;
    return (bits & ~(int32_t)low_bits(low)) | (int32_t)(t << LEVEL_BITS | level);
}

/* The numbers of all levels of a table, NEVER for those that cannot be looked on. */
ALWAYS_INLINE void KERNEL(price_levels)(const Codes *codes, unsigned t, Crowd crowd, int32_t *prices) {
    const CodeTable *table = &codes->tables[t];
    const float entries = table->in_order ? ORDERED_ENTRIES : 1;
    const float average = (float)(int64_t)codes->count / (float)(int64_t)((uint64_t)1 << table->slot_bits);
    float most = VISIT_ENTRIES + entries * crowd.own, more = crowd.around - average;
    prices[0] = KERNEL(priced)(most, t, 0);
    for (unsigned level = 1; level <= codes->highest; level++, more *= CROWD_SHARE) {
        const uint64_t below = table->level_patterns[level - 1], all = table->level_patterns[level];
        const float cost = (float)(int64_t)(all - below) * (VISIT_ENTRIES + entries * (average + more));
        most = cost > most ? cost : most;
        prices[level] = all == NO_PATTERNS ? NEVER : KERNEL(priced)(most, t, level);
    }
}

/* Choose the levels that find all within the distance and cost least. TOO_LARGE where there are not enough, or where
   they look at more slots than take less time than all codes. */
static Status KERNEL(levels_of)(const Codes *codes, unsigned distance, const Crowd *crowds, Levels *levels) {
    int32_t prices[MAX_LEVEL_TABLES * MAX_LEVELS];
    const unsigned each = codes->highest + 1, count = codes->table_count * each;
    uint64_t visits = 0;
    unsigned chosen = 0;
    for (unsigned t = 0; t < codes->table_count; t++) KERNEL(price_levels)(codes, t, crowds[t], prices + t * each);
    for (unsigned t = 0; t < codes->table_count; t++) {
        levels->highest[t] = -1;
        for (unsigned level = 0; level < each; level++) {
            const int32_t price = prices[t * each + level];
            unsigned before = 0, of_first = 0;
            for (unsigned i = 0; i < count; i++) before += prices[i] < price;
            if (before > distance || price == NEVER) break;
            for (unsigned i = 0; i < each; i++) of_first += prices[i] < price;
            levels->highest[t] = (int)level;
            levels->reach[t][level] = t > 0 ? (int)of_first - (int)before : ANY_ERRORS;
            chosen++;
        }
        if (levels->highest[t] >= 0) visits += codes->tables[t].level_patterns[levels->highest[t]];
    }
    return chosen <= distance || visits > codes->count / VISIT_CODES ? TOO_LARGE : OK;
}

/* Decide on which levels each table is looked up. */
ALWAYS_INLINE Status KERNEL(choose_levels)(CodeSearch *search, int sound) {
    const Codes *codes = search->codes;
    Crowd crowds[MAX_LEVEL_TABLES];
    Status status = OK;
    KERNEL(name_own)(search, sound);
    for (unsigned t = 0; t < codes->table_count && status == OK; t++) {
        const CodeTable *table = &codes->tables[t];
        const uint64_t slot = search->keys[t] >> table->tag_bits;
        const unsigned bits = table->slot_bits < AROUND_BITS ? table->slot_bits : AROUND_BITS;
        uint64_t own = 0, others = 0;
        status = KERNEL(count_slot)(search, table, slot, &own, sound);
        for (unsigned bit = 0; bit < bits && status == OK; bit++)
            status = KERNEL(count_slot)(search, table, slot ^ (uint64_t)1 << bit, &others, sound);
        crowds[t].own = (float)(int64_t)own;
        crowds[t].around = (float)(int64_t)(OWN_WEIGHT * own + others) / (float)(int)(OWN_WEIGHT + bits);
    }
    return status == OK ? KERNEL(levels_of)(codes, search->distance, crowds, &search->levels) : status;
}
