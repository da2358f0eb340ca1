/* Joining sorted runs of keys. Included once for each instruction set; see platform.h. */
#include "pairs.h"

#include "bits_body.h"

#if defined(KERNEL_IS_WIDE)
#define KERNEL_LANES 16
#elif defined(KERNEL_IS_FAST)
#define KERNEL_LANES 8
#else
#define KERNEL_LANES 4
#endif

typedef uint32_t Lanes __attribute__((vector_size(4 * KERNEL_LANES)));
typedef uint32_t LanesAnywhere __attribute__((vector_size(4 * KERNEL_LANES), aligned(4)));
#define LANE_QUADS (KERNEL_LANES / QUAD)

#if defined(__clang__)
#define LANES_AT(lanes, ...) __builtin_shufflevector(lanes, lanes, __VA_ARGS__)
#else
#define LANES_AT(lanes, ...) __builtin_shuffle(lanes, (Lanes){__VA_ARGS__})
#endif

/* Lanes of differences are noted, and asked once for all whether one of them was near. Lanes lie in memory when they
   are passed, as no calling convention is common to all their widths. */
#if KERNEL_LANES == 16
#define LANES_OF(a, b, c, d) \
    a, b, c, d, a + 4, b + 4, c + 4, d + 4, a + 8, b + 8, c + 8, d + 8, a + 12, b + 12, c + 12, d + 12
#define NOTED_NONE (~(Lanes){0}) /* the least count of ones in each lane */

ALWAYS_INLINE void KERNEL(note)(Lanes *noted, const Lanes *difference, unsigned distance) {
    (void)distance;
    *noted = (Lanes)_mm512_min_epu32((__m512i)*noted, _mm512_popcnt_epi32((__m512i)*difference));
}

ALWAYS_INLINE unsigned KERNEL(noted_lanes)(const Lanes *noted, unsigned distance) {
    __mmask16 near = _mm512_cmple_epu32_mask((__m512i)*noted, _mm512_set1_epi32((int)distance));
    unsigned lanes;
    /* A conversion in C is compiled wrong by gcc 12.2: its combine pass makes one instruction of comparison and
       extension
       (*avx512f_ucmpv16si3_zero_extendsi), and splits it again without the extension. As long as the number stays in
       registers nobody notices; on the stack it has 16 bits that nobody wrote, so that lanes 16..31 look near. */
    __asm__("kmovw %1, %0" : "=r"(lanes) : "k"(near));
    return lanes;
}

ALWAYS_INLINE __m256i KERNEL(fold_eight)(const uint64_t *keys) {
    __m512i eight = _mm512_loadu_si512(keys);
    return _mm512_cvtepi64_epi32(_mm512_xor_si512(eight, _mm512_srli_epi64(eight, 32)));
}

/* In every width: the folds of as many keys as there are lanes, or of QUAD keys, those from the count-th on XOR pad;
   quads from several places. */
ALWAYS_INLINE void KERNEL(fold_lanes)(const uint64_t *keys, Lanes *lanes) {
    *lanes =
        (Lanes)_mm512_inserti64x4(_mm512_castsi256_si512(KERNEL(fold_eight)(keys)), KERNEL(fold_eight)(keys + 8), 1);
}

ALWAYS_INLINE void KERNEL(fold_quad)(const uint64_t *keys, uint32_t count, uint32_t pad, uint32_t *out) {
    __m128i folds = _mm256_castsi256_si128(KERNEL(fold_eight)(keys));
    __m128i held = _mm_cmpgt_epi32(_mm_set1_epi32((int)count), _mm_setr_epi32(0, 1, 2, 3));
    _mm_storeu_si128((__m128i *)out, _mm_xor_si128(folds, _mm_andnot_si128(held, _mm_set1_epi32((int)pad))));
}

ALWAYS_INLINE void KERNEL(load_quads)(const uint32_t *const quads[LANE_QUADS], Lanes *lanes) {
    __m512i all = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)quads[0]));
    all = _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)quads[1]), 1);
    all = _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)quads[2]), 2);
    *lanes = (Lanes)_mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)quads[3]), 3);
}
#else
#define NOTED_NONE ((Lanes){0}) /* all ones in each lane that was near */

ALWAYS_INLINE void KERNEL(note)(Lanes *noted, const Lanes *difference, unsigned distance) {
    Lanes rest = *difference;
    for (unsigned bit = 0; bit < distance; bit++) rest &= rest - 1;
    *noted |= (Lanes)(rest == 0);
}

ALWAYS_INLINE void KERNEL(fold_quad)(const uint64_t *keys, uint32_t count, uint32_t pad, uint32_t *out) {
    for (unsigned i = 0; i < QUAD; i++) out[i] = fold(keys[i]) ^ (i < count ? 0 : pad);
}

ALWAYS_INLINE void KERNEL(fold_lanes)(const uint64_t *keys, Lanes *lanes) {
    for (unsigned i = 0; i < KERNEL_LANES; i++) (*lanes)[i] = fold(keys[i]);
}

#if KERNEL_LANES == 8
#define LANES_OF(a, b, c, d) a, b, c, d, a + 4, b + 4, c + 4, d + 4

ALWAYS_INLINE unsigned KERNEL(noted_lanes)(const Lanes *noted, unsigned distance) {
    (void)distance;
    return (unsigned)_mm256_movemask_ps((__m256)*noted);
}

ALWAYS_INLINE void KERNEL(load_quads)(const uint32_t *const quads[LANE_QUADS], Lanes *lanes) {
    __m256i first = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)quads[0]));
    *lanes = (Lanes)_mm256_inserti128_si256(first, _mm_loadu_si128((const __m128i *)quads[1]), 1);
}
#else
#define LANES_OF(a, b, c, d) a, b, c, d

ALWAYS_INLINE unsigned KERNEL(noted_lanes)(const Lanes *noted, unsigned distance) {
    uint64_t low, high;
    (void)distance;
    memcpy(&low, noted, 8);
    memcpy(&high, (const char *)noted + 8, 8);
    return (low | high) == 0 ? 0 : (unsigned)((low & 1) | (low >> 62 & 2) | (high & 1) << 2 | (high >> 60 & 8));
}

ALWAYS_INLINE void KERNEL(load_quads)(const uint32_t *const quads[LANE_QUADS], Lanes *lanes) {
    *lanes = *(const LanesAnywhere *)quads[0];
}
#endif
#endif

ALWAYS_INLINE unsigned KERNEL(near_lanes)(const Lanes *difference, unsigned distance) {
    Lanes noted = NOTED_NONE;
    KERNEL(note)(&noted, difference, distance);
    return KERNEL(noted_lanes)(&noted, distance);
}

void KERNEL(fold_keys)(const uint64_t *keys, uint64_t count, uint32_t *folds) {
    for (uint64_t i = 0; i < count; i++) folds[i] = fold(keys[i]);
}

/* Report the pair if it is wanted, near, and this table's to report, without a branch that would have to be guessed. */
static __attribute__((noinline)) void KERNEL(add_pair)(Found *found, uint64_t left, uint64_t right, unsigned wanted) {
    const Table *table = found->tables[found->table];
    uint64_t difference = left ^ right, bits = KERNEL(invert)(&table->permutation, difference);
    unsigned distance = KERNEL(ones)(difference);
    if (UNLIKELY(difference == 0)) found->repeated |= (int)wanted; /* whichever table is the first to catch it */
    wanted &= distance <= found->distance;
    wanted &= KERNEL(ones)(bits & table->permutation.prefix_mask) <= table->flips;
    for (unsigned earlier = 0; earlier < found->table; earlier++)
        wanted &= KERNEL(ones)(bits & found->tables[earlier]->permutation.prefix_mask) > found->tables[earlier]->flips;
    if (found->first != NULL) {
        uint64_t first = KERNEL(invert)(&table->permutation, left), second = first ^ bits;
        int swap = !found->is_query && second < first;
        found->first[found->found] = swap ? second : first;
        found->second[found->found] = swap ? first : second;
        found->bits[found->found] = (uint8_t)distance;
    }
    found->found += wanted;
}

ALWAYS_INLINE int KERNEL(must_stop)(const Found *found) {
    return found->room - found->found < JOIN_ROOM || found->work >= JOIN_WORK;
}

/* Whether the window of any of the keys compared from i on reaches `step` keys further. */
ALWAYS_INLINE int KERNEL(window_goes_on)(const NeighbourJoin *join, uint64_t i, uint64_t step) {
    const uint64_t limit = low_bits(join->window_shift), *keys = join->keys + i;
    uint64_t end = join->count - i < step ? 0 : join->count - i - step;
    int on = 0;
#if KERNEL_LANES == 16
    if (LIKELY(end >= KERNEL_LANES)) {
        const __m512i low = _mm512_xor_si512(_mm512_loadu_si512(keys), _mm512_loadu_si512(keys + step));
        const __m512i high = _mm512_xor_si512(_mm512_loadu_si512(keys + 8), _mm512_loadu_si512(keys + 8 + step));
        const __m512i most = _mm512_set1_epi64((long long)limit);
        __mmask16 within = _mm512_cmple_epu64_mask(_mm512_min_epu64(low, high), most);
        unsigned lanes;
        __asm__("kmovw %1, %0" : "=r"(lanes) : "k"(within)); /* as in noted_lanes() */
        return (lanes & 0xFF) != 0;
    }
#endif
    if (LIKELY(end >= KERNEL_LANES))
        for (unsigned lane = 0; lane < KERNEL_LANES; lane++) on |= (keys[lane] ^ keys[lane + step]) <= limit;
    else
        for (unsigned lane = 0; lane < end; lane++) on |= (keys[lane] ^ keys[lane + step]) <= limit;
    return on;
}

/* How a vector of keys differs from those `step` behind each, by their folds. */
ALWAYS_INLINE void KERNEL(behind_each)(const NeighbourJoin *join, uint64_t i, uint64_t step, Lanes *difference) {
    *difference = *(const LanesAnywhere *)(join->folds + i) ^ *(const LanesAnywhere *)(join->folds + i + step);
}

/* How it differs from the one key that is `step` behind its first. */
ALWAYS_INLINE void KERNEL(behind_all)(const NeighbourJoin *join, uint64_t i, uint64_t step, Lanes *difference) {
    *difference = *(const LanesAnywhere *)(join->folds + i) ^ join->folds[i + step];
}

/* Of NEIGHBOUR_STEP steps, behind each key or all of them. */
static __attribute__((noinline)) void KERNEL(add_neighbours)(NeighbourJoin *join, uint64_t i, uint64_t step, int each) {
    const uint64_t limit = low_bits(join->window_shift);
    for (uint64_t end = step + NEIGHBOUR_STEP; step < end; step += QUAD) {
        uint64_t near = 0; /* of several steps: one loop to leave */
        for (unsigned more = 0; more < QUAD; more++) {
            Lanes difference;
            if (each)
                KERNEL(behind_each)(join, i, step + more, &difference);
            else
                KERNEL(behind_all)(join, i, step + more, &difference);
            near |= (uint64_t)KERNEL(near_lanes)(&difference, join->found.distance) << more * KERNEL_LANES;
        }
        join->near += KERNEL(ones)(near);
        for (; near != 0; near &= near - 1) {
            unsigned bit = (unsigned)__builtin_ctzll(near), lane = bit % KERNEL_LANES;
            uint64_t other = i + step + bit / KERNEL_LANES + (each ? lane : 0);
            if (other >= join->count) continue;
            if (!each && other - i - lane <= EACH_STEPS) continue; /* it was compared with each key, and may be near */
            uint64_t one = join->keys[i + lane], another = join->keys[other];
            KERNEL(add_pair)(&join->found, one, another, (one ^ another) <= limit);
        }
    }
}

/* The vector of keys at join->i with those that are more than EACH_STEPS behind. In so large windows each of these
   meets the whole vector, which takes no load across two lines of the cache. 0: stopped before the end. */
static __attribute__((noinline)) int KERNEL(join_following)(NeighbourJoin *join) {
    Found *found = &join->found;
    const uint64_t limit = low_bits(join->window_shift), i = join->i, last = join->keys[i + KERNEL_LANES - 1];
    const uint32_t *const following = join->folds + i;
    const Lanes left = *(const LanesAnywhere *)following;
    const unsigned distance = found->distance;
    uint64_t step = join->step;
    for (; i + step < join->count && (join->keys[i + step] ^ last) <= limit; step += NEIGHBOUR_STEP) {
        if (UNLIKELY(KERNEL(must_stop)(found))) {
            join->step = step;
            return 0;
        }
        Lanes noted = NOTED_NONE;
#pragma GCC unroll 8
        for (unsigned more = 0; more < NEIGHBOUR_STEP; more++) {
            Lanes difference = left ^ following[step + more]; /* also of what is too near, which is seldom near */
            KERNEL(note)(&noted, &difference, distance);
        }
        if (UNLIKELY(KERNEL(noted_lanes)(&noted, distance))) KERNEL(add_neighbours)(join, i, step, 0);
        found->work += 2;
    }
    return 1;
}

/* Each key is compared with those behind it, a vector of keys at a time with the next NEIGHBOUR_STEP of each, which is
   further than most windows go: so there is hardly a branch on where they end. */
void KERNEL(neighbour_join_run)(NeighbourJoin *join) {
    Found *found = &join->found;
    const unsigned distance = found->distance;
    for (; join->i < join->count; join->i += KERNEL_LANES, join->step = 1) {
        int goes_on = 1;
        while (goes_on && join->step <= EACH_STEPS) {
            if (KERNEL(must_stop)(found)) return;
            Lanes noted = NOTED_NONE;
#pragma GCC unroll 8
            for (unsigned more = 0; more < NEIGHBOUR_STEP; more++) {
                Lanes difference;
                KERNEL(behind_each)(join, join->i, join->step + more, &difference);
                KERNEL(note)(&noted, &difference, distance);
            }
            if (UNLIKELY(KERNEL(noted_lanes)(&noted, distance))) KERNEL(add_neighbours)(join, join->i, join->step, 1);
            found->work += 2;
            join->step += NEIGHBOUR_STEP;
            goes_on = KERNEL(window_goes_on)(join, join->i, join->step);
        }
        if (UNLIKELY(goes_on) && join->count - join->i >= KERNEL_LANES && !KERNEL(join_following)(join)) return;
    }
    found->done = 1;
}

void KERNEL(query_join_run)(QueryJoin *join) {
    Found *found = &join->found;
    const unsigned distance = found->distance;
    for (; join->i < join->query_count; join->i++, join->place = 0) {
        if (KERNEL(must_stop)(found)) return;
        uint64_t query = join->queries[join->i],
                 window = window_of(query ^ join->flips, join->window_shift) - join->first_window;
        uint64_t start = join->starts[window], count = join->starts[window + 1] - start;
        const Lanes left = (Lanes){0} + fold(query);
        for (; join->place < count; join->place += KERNEL_LANES) {
            if (KERNEL(must_stop)(found)) return;
            const uint64_t *keys = join->keys + start + join->place;
            Lanes difference;
            KERNEL(fold_lanes)(keys, &difference);
            difference ^= left;
            unsigned near = KERNEL(near_lanes)(&difference, distance);
            if (count - join->place < KERNEL_LANES) near &= (1u << (count - join->place)) - 1;
            for (; UNLIKELY(near != 0); near &= near - 1) KERNEL(add_pair)(found, query, keys[__builtin_ctz(near)], 1);
            found->work++;
        }
        found->work++;
    }
    found->done = 1;
}

static void KERNEL(tile_load)(const FlipJoin *join, uint64_t base, Tile *tile) {
    unsigned low_bit = join->flips[join->group].low_bit;
    for (uint64_t row = 0; row < (uint64_t)1 << tile_row_bits(join); row++) {
        const uint32_t *starts = join->starts + base + (row << low_bit);
        uint32_t *folds = tile->folds + (row << ROW_BITS) * QUAD;
        uint64_t crowded = 0, odd = ODD_ONES ^ (0 - (KERNEL(ones)(row) & 1));
        for (unsigned i = 0; i < 1u << ROW_BITS; i++) {
            uint32_t count = starts[i + 1] - starts[i];
            KERNEL(fold_quad)(join->keys + starts[i], count, odd >> i & 1 ? ODD_PAD : EVEN_PAD, folds + i * QUAD);
            crowded |= (uint64_t)(count > QUAD) << i;
        }
        tile->crowded[row] = crowded;
    }
}

/* The pair of the keys with these places in a window of the tile and in its partner, if the windows have so many; they
   are KEYS_PAD at most behind the last. */
ALWAYS_INLINE void KERNEL(add_places)(FlipJoin *join, uint64_t base, const Flip *flip, uint64_t at, uint64_t place,
                                      uint64_t partner_place) {
    const uint32_t *starts = join->starts + tile_window(base, flip->low_bit, at);
    const uint32_t *partner_starts = join->starts + tile_window(base ^ flip->outside, flip->low_bit, at ^ flip->inside);
    unsigned both = (place < starts[1] - starts[0]) & (partner_place < partner_starts[1] - partner_starts[0]);
    KERNEL(add_pair)(&join->found, join->keys[starts[0] + place], join->keys[partner_starts[0] + partner_place], both);
}

/* A quad of each window, turned in every way, so that all its keys meet all of another. Lane i of turn r is of place i
 * + r. */
typedef struct {
    Lanes by[QUAD];
} Turns;

ALWAYS_INLINE void KERNEL(turn)(const Lanes *lanes, Turns *turns) {
    turns->by[0] = *lanes;
    turns->by[1] = LANES_AT(*lanes, LANES_OF(1, 2, 3, 0));
    turns->by[2] = LANES_AT(*lanes, LANES_OF(2, 3, 0, 1));
    turns->by[3] = LANES_AT(*lanes, LANES_OF(3, 0, 1, 2));
}

ALWAYS_INLINE unsigned KERNEL(turns_near)(const Turns *turns, const Lanes *others, unsigned distance) {
    Lanes noted = NOTED_NONE;
#pragma GCC unroll 4
    for (unsigned i = 0; i < QUAD; i++) {
        Lanes difference = turns->by[i] ^ *others;
        KERNEL(note)(&noted, &difference, distance);
    }
    return KERNEL(noted_lanes)(&noted, distance);
}

/* Which lanes are near: for each turn KERNEL_LANES bits. */
ALWAYS_INLINE uint64_t KERNEL(near_by_turn)(const Turns *turns, const Lanes *others, unsigned distance) {
    uint64_t near = 0;
    for (unsigned turn = 0; turn < QUAD; turn++) {
        Lanes difference = turns->by[turn] ^ *others;
        near |= (uint64_t)KERNEL(near_lanes)(&difference, distance) << turn * KERNEL_LANES;
    }
    return near;
}

ALWAYS_INLINE void KERNEL(load_vector)(const FlipJoin *join, const Tile *partners, const Flip *flip, uint64_t vector,
                                       Lanes *left, Lanes *right) {
    *left = *(const Lanes *)(join->tile->folds + vector * KERNEL_LANES);
    *right = *(const Lanes *)(partners->folds + (vector ^ flip->inside / LANE_QUADS) * KERNEL_LANES);
#if KERNEL_LANES == 8
    if (flip->inside & 1) *right = LANES_AT(*right, 4, 5, 6, 7, 0, 1, 2, 3);
#elif KERNEL_LANES == 16
    if (flip->inside & 1) *right = LANES_AT(*right, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    if (flip->inside & 2) *right = LANES_AT(*right, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
#endif
}

static __attribute__((noinline)) void KERNEL(add_quads)(FlipJoin *join, const Tile *partners, const Flip *flip,
                                                        uint64_t base, uint64_t vector) {
    Lanes left, right;
    Turns turns;
    KERNEL(load_vector)(join, partners, flip, vector, &left, &right);
    KERNEL(turn)(&left, &turns);
    for (uint64_t near = KERNEL(near_by_turn)(&turns, &right, join->found.distance); near != 0; near &= near - 1) {
        unsigned bit = (unsigned)__builtin_ctzll(near), lane = bit % KERNEL_LANES, turn = bit / KERNEL_LANES;
        uint64_t at = vector * LANE_QUADS + lane / QUAD;
        if (!(at & flip->highest)) KERNEL(add_places)(join, base, flip, at, (lane + turn) % QUAD, lane % QUAD);
    }
}

/* The first QUAD keys of each window with those of its partners, as many windows at a time as a vector holds. 0:
   stopped before the end. */
static int KERNEL(join_quads)(FlipJoin *join, uint64_t base, const Tile *partners) {
    Found *found = &join->found;
    const unsigned distance = found->distance;
    const uint64_t vectors = ((uint64_t)1 << tile_row_bits(join) << ROW_BITS) / LANE_QUADS;
    for (; join->flip < join->group_end; join->flip++, join->at = 0) {
        const Flip *flip = &join->flips[join->flip];
        /* Vectors whose number is without the highest flipped bit; all, where what is flipped is within a vector. */
        const uint64_t highest = flip->highest / LANE_QUADS, above = 0 - highest, end = highest ? vectors / 2 : vectors;
        if (KERNEL(must_stop)(found)) return 0;
        found->work += end - join->at;
        for (; join->at < end; join->at++) {
            uint64_t vector = join->at + (join->at & above);
            Lanes left, right;
            Turns turns;
            KERNEL(load_vector)(join, partners, flip, vector, &left, &right);
            KERNEL(turn)(&left, &turns);
            if (UNLIKELY(KERNEL(turns_near)(&turns, &right, distance))) {
                KERNEL(add_quads)(join, partners, flip, base, vector);
                if (UNLIKELY(found->room - found->found < JOIN_ROOM)) {
                    join->at++;
                    return 0;
                }
            }
        }
    }
    return 1;
}

/* The quad at join->place, turned, with others: the first quads of the flips' partners, or one's keys from
   partner_place on. lane_count: how many lanes have partners. */
static __attribute__((noinline)) void KERNEL(add_crowded)(FlipJoin *join, uint64_t base, const Flip *flips,
                                                          const Turns *turns, const Lanes *others, unsigned lane_count,
                                                          uint64_t partner_place) {
    for (uint64_t near = KERNEL(near_by_turn)(turns, others, join->found.distance); near != 0; near &= near - 1) {
        unsigned bit = (unsigned)__builtin_ctzll(near), lane = bit % KERNEL_LANES, turn = bit / KERNEL_LANES;
        uint64_t place = join->place + (lane + turn) % QUAD;
        if (partner_place)
            KERNEL(add_places)(join, base, flips, join->at, place, partner_place + lane);
        else if (lane < lane_count)
            KERNEL(add_places)(join, base, flips + lane / QUAD, join->at, place, lane % QUAD);
    }
}

/* Join the quad at join->place of the crowded window join->at with its partners: first quads, LANE_QUADS of them in one
   step; then what else crowded partners have, one partner in a step. */
ALWAYS_INLINE int KERNEL(join_crowded_quad)(FlipJoin *join, uint64_t base, const Tile *partners, const uint64_t *keys) {
    Found *found = &join->found;
    const Flip *flips = join->flips + join->group;
    const unsigned distance = found->distance, count = join->group_end - join->group;
    const unsigned first_steps = (count + LANE_QUADS - 1) / LANE_QUADS;
    uint32_t folds[QUAD];
    const uint32_t *quads[LANE_QUADS];
    Lanes quad, others;
    Turns turns;
    KERNEL(fold_quad)(keys, QUAD, 0, folds);
    for (unsigned i = 0; i < LANE_QUADS; i++) quads[i] = folds;
    KERNEL(load_quads)(quads, &quad);
    KERNEL(turn)(&quad, &turns);
    for (; join->flip < first_steps; join->flip++) {
        if (UNLIKELY(KERNEL(must_stop)(found))) return 0;
        unsigned begin = join->flip * LANE_QUADS, left = count - begin;
        for (unsigned i = 0; i < LANE_QUADS; i++)
            quads[i] = partners->folds + (join->at ^ flips[begin + (i < left ? i : 0)].inside) * QUAD;
        KERNEL(load_quads)(quads, &others);
        if (UNLIKELY(KERNEL(turns_near)(&turns, &others, distance)))
            KERNEL(add_crowded)(join, base, flips + begin, &turns, &others, left * QUAD, 0);
        found->work++;
    }
    for (; join->flip < first_steps + count; join->flip++, join->partner_place = QUAD) {
        const Flip *flip = &flips[join->flip - first_steps];
        uint64_t at = join->at ^ flip->inside;
        uint64_t crowded = partners->crowded[at >> ROW_BITS] >> (at & low_bits(ROW_BITS));
        if (LIKELY(!(crowded & !(join->at & flip->highest)))) continue;
        uint64_t partner = tile_window(base ^ flip->outside, flip->low_bit, at), start = join->starts[partner];
        for (; join->partner_place < join->starts[partner + 1] - start; join->partner_place += KERNEL_LANES) {
            if (UNLIKELY(KERNEL(must_stop)(found))) return 0;
            KERNEL(fold_lanes)(join->keys + start + join->partner_place, &others);
            if (UNLIKELY(KERNEL(turns_near)(&turns, &others, distance)))
                KERNEL(add_crowded)(join, base, flip, &turns, &others, KERNEL_LANES, join->partner_place);
            found->work++;
        }
    }
    return 1;
}

/* The keys of crowded windows behind their first QUAD with all keys of their partners. 0: stopped before the end. */
static int KERNEL(join_crowded)(FlipJoin *join, uint64_t base, const Tile *partners) {
    const uint64_t end = (uint64_t)1 << tile_row_bits(join) << ROW_BITS;
    const unsigned low_bit = join->flips[join->group].low_bit;
    while (join->at < end) {
        uint64_t crowded = join->tile->crowded[join->at >> ROW_BITS] >> (join->at & low_bits(ROW_BITS));
        if (crowded == 0) {
            join->at = ((join->at >> ROW_BITS) + 1) << ROW_BITS;
            continue;
        }
        join->at += (uint64_t)__builtin_ctzll(crowded);
        uint64_t window = tile_window(base, low_bit, join->at), start = join->starts[window];
        for (; join->place < join->starts[window + 1] - start; join->place += QUAD, join->flip = 0)
            if (!KERNEL(join_crowded_quad)(join, base, partners, join->keys + start + join->place)) return 0;
        join->at++;
        join->place = QUAD;
    }
    return 1;
}

void KERNEL(flip_join_run)(FlipJoin *join) {
    for (; join->group < join->flip_count; join->group = join->group_end, join->tile_number = 0) {
        const Flip *flip = &join->flips[join->group], *next = flip;
        const Tile *partners = flip->outside ? join->partner : join->tile;
        const uint64_t tiles = (uint64_t)1 << (join->index_bits - ROW_BITS - tile_row_bits(join));
        while (next < join->flips + join->flip_count && next->low_bit == flip->low_bit &&
               next->outside == flip->outside)
            next++;
        join->group_end = (unsigned)(next - join->flips);
        for (; join->tile_number < tiles; join->tile_number++, join->stage = TILE_LOAD) {
            uint64_t base = tile_base(join);
            if (join->stage == TILE_LOAD) {
                KERNEL(tile_load)(join, base, join->tile);
                if (flip->outside) KERNEL(tile_load)(join, base ^ flip->outside, join->partner);
                join->found.work += TILE_WINDOWS;
                join->stage = TILE_QUADS;
                join->flip = join->group;
                join->at = 0;
            }
            if (join->stage == TILE_QUADS) {
                if (!KERNEL(join_quads)(join, base, partners)) return;
                join->stage = TILE_CROWDED;
                join->flip = 0;
                join->at = 0;
                join->place = join->partner_place = QUAD;
            }
            if (!KERNEL(join_crowded)(join, base, partners)) return;
        }
    }
    join->found.done = 1;
}
