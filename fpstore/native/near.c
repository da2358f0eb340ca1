/* Room for pairs of a few keys, and the choice of how they are compared. */
#include "near.h"

static Status (*among)(const uint64_t *, uint64_t, unsigned, NearPairs *) = near_among_portable;

void near_choose(InstructionSet set) {
    among = near_among_portable;
#if FPSTORE_X86
    if (set == SET_FAST) among = near_among_fast;
    if (set == SET_WIDE) among = near_among_wide;
#else
    (void)set;
#endif
}

CHOSEN_AT_LOAD(near_choose)

Status near_among(const uint64_t *keys, uint64_t count, unsigned distance, NearPairs *pairs) {
    return among(keys, count, distance, pairs);
}

Status near_add(NearPairs *pairs, uint64_t later, uint64_t earlier) {
    if (pairs->count == pairs->room) {
        uint64_t room = pairs->room ? 2 * pairs->room : 64;
        int64_t *more = realloc(pairs->later, room * sizeof *more);
        if (more == NULL) return NO_MEMORY;
        pairs->later = more;
        more = realloc(pairs->earlier, room * sizeof *more);
        if (more == NULL) return NO_MEMORY;
        pairs->earlier = more;
        pairs->room = room;
    }
    pairs->later[pairs->count] = (int64_t)later;
    pairs->earlier[pairs->count++] = (int64_t)earlier;
    return OK;
}
