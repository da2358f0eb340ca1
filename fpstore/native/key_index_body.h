/* Looking for keys in memory. Included once for each instruction set; see platform.h. */
#include "key_index.h"

#include "bits_body.h"

#if defined(KERNEL_IS_FAST) && !defined(KERNEL_IS_WIDE)
#define MARKS_AT_ONCE 8

/* A bit for each of eight marks that is within `most` bits of one: the bits of bytes are those of their halves. */
ALWAYS_INLINE unsigned KERNEL(near_of_marks)(const uint32_t *marks, uint32_t mark, unsigned most) {
    const __m256i ones = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, /* of each half */
                                          0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i half = _mm256_set1_epi8(15);
    const __m256i apart = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)marks), _mm256_set1_epi32((int)mark));
    const __m256i low = _mm256_shuffle_epi8(ones, _mm256_and_si256(apart, half));
    const __m256i high = _mm256_shuffle_epi8(ones, _mm256_and_si256(_mm256_srli_epi16(apart, 4), half));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_add_epi8(low, high), _mm256_set1_epi8(1));
    const __m256i counts = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    const __m256i near = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)most + 1), counts);
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(near));
}
#endif

/* A bit for each place of a line whose mark is within `most` bits of one. */
ALWAYS_INLINE unsigned KERNEL(marks_near)(const KeyLine *line, uint32_t mark, unsigned most) {
#if defined(KERNEL_IS_WIDE)
    const __m512i apart = _mm512_xor_si512(_mm512_loadu_si512(line), _mm512_set1_epi32((int)mark));
    return _mm512_cmple_epu32_mask(_mm512_popcnt_epi32(apart), _mm512_set1_epi32((int)most)) & ((1u << KEY_PLACES) - 1);
#elif defined(KERNEL_IS_FAST)
    const unsigned low = KERNEL(near_of_marks)(line->marks, mark, most);
    const unsigned high = KERNEL(near_of_marks)(line->marks + MARKS_AT_ONCE, mark, most); /* and what is behind them */
    return (low | high << MARKS_AT_ONCE) & ((1u << KEY_PLACES) - 1);
#else
    unsigned near = 0;
    for (unsigned i = 0; i < KEY_PLACES; i++) {
        near |= (unsigned)(KERNEL(ones)(line->marks[i] ^ mark) <= most) << i;
    }
    return near;
#endif
}

/* Whether the probes of an earlier table find what differs so from the query. */
ALWAYS_INLINE int KERNEL(was_met)(const KeyIndex *index, uint64_t apart, unsigned table) {
    for (unsigned earlier = 0; earlier < table; earlier++) {
        if (KERNEL(ones)(key_bucket(index, key_turned(apart, earlier))) <= index->flips[earlier]) return 1;
    }
    return 0;
}

void KERNEL(key_ask)(const KeyIndex *index, uint64_t query, unsigned first, unsigned last) {
    const KeyLine *lines = (const KeyLine *)index->lines.memory + first * key_buckets(index);
    for (unsigned table = first; table < last; table++, lines += key_buckets(index)) {
        const uint64_t bucket = key_bucket(index, key_turned(query, table));
        for (unsigned flips = 0; flips <= index->flips[table]; flips++) {
            const uint16_t *patterns = key_patterns + key_first_pattern(flips);
            for (unsigned i = 0; i < key_pattern_count(flips, index->band_bits); i++)
                __builtin_prefetch(&lines[bucket ^ patterns[i]]);
        }
    }
}

/* Places of lines whose marks are near that of the query. What each has is asked for, and looked at when that of others
   was asked for, too: one after the other they would take as long as memory does, each. */
#define WAITING_PLACES 64
typedef struct {
    struct {
        const uint32_t *row;
        unsigned table;
    } held[WAITING_PLACES];
    unsigned count;
} WaitingPlaces;

/* The keys at places that wait which are near the query. */
ALWAYS_INLINE Status KERNEL(look_at_waiting)(const KeyIndex *index, uint64_t query, WaitingPlaces *waiting,
                                             KeyNears *found) {
    const uint64_t *keys = index->keys.memory;
    const uint32_t *next = index->next.memory;
    uint32_t rows[WAITING_PLACES];
    unsigned count = 0;
    for (unsigned i = 0; i < waiting->count; i++) {
        const uint32_t row = *waiting->held[i].row;
        if (row == 0) continue; /* nothing is there yet */
        waiting->held[count].table = waiting->held[i].table;
        rows[count++] = row - 1;
        __builtin_prefetch(&keys[row - 1]);
        __builtin_prefetch(&next[row - 1]); /* for who lists the rows of the key */
    }
    waiting->count = 0;
    for (unsigned i = 0; i < count; i++) {
        const uint64_t key = keys[rows[i]], apart = key ^ query;
        const unsigned distance = KERNEL(ones)(apart);
        if (distance > index->distance || KERNEL(was_met)(index, apart, waiting->held[i].table)) continue;
        const Status status = key_index_met(found, key, rows[i], distance);
        if (status != OK) return status;
    }
    return OK;
}

/* Have the places of one line wait whose marks are near. */
ALWAYS_INLINE Status KERNEL(collect_line)(const KeyIndex *index, uint64_t query, unsigned table, uint64_t at,
                                          uint32_t mark, unsigned most, WaitingPlaces *waiting, KeyNears *found) {
    const KeyRows *rows = index->line_rows.memory;
    unsigned near = KERNEL(marks_near)((const KeyLine *)index->lines.memory + at, mark, most);
    for (; UNLIKELY(near != 0); near &= near - 1) {
        if (waiting->count == WAITING_PLACES && KERNEL(look_at_waiting)(index, query, waiting, found) != OK)
            return NO_MEMORY;
        const uint32_t *row = &rows[at].rows[__builtin_ctz(near)];
        __builtin_prefetch(row);
        waiting->held[waiting->count].row = row;
        waiting->held[waiting->count++].table = table;
    }
    return OK;
}

Status KERNEL(key_collect)(const KeyIndex *index, uint64_t query, unsigned first_table, unsigned last_table,
                           KeyNears *found) {
    const KeyLine *lines = index->lines.memory;
    WaitingPlaces places;
    places.count = 0;
    uint32_t behind[KEY_PATTERNS]; /* lines that are looked at when those before them were, as they have to come */
    for (unsigned table = first_table; table < last_table; table++) {
        const uint64_t turned = key_turned(query, table), first = table * key_buckets(index);
        const uint32_t mark = key_mark(index, turned);
        for (unsigned flips = 0; flips <= index->flips[table]; flips++) {
            const unsigned most = index->distance - flips, count = key_pattern_count(flips, index->band_bits);
            const uint16_t *patterns = key_patterns + key_first_pattern(flips);
            unsigned waiting = 0;
            for (unsigned i = 0; i < count; i++) {
                const uint64_t at = first + (key_bucket(index, turned) ^ patterns[i]);
                const uint32_t next = lines[at].behind;
                if (KERNEL(collect_line)(index, query, table, at, mark, most, &places, found) != OK) return NO_MEMORY;
                __builtin_prefetch(&lines[next]);
                behind[waiting] = next;
                waiting += next != 0;
            }
            while (waiting > 0) {
                unsigned left = 0;
                for (unsigned i = 0; i < waiting; i++) {
                    const uint32_t at = behind[i], next = lines[at].behind;
                    if (KERNEL(collect_line)(index, query, table, at, mark, most, &places, found) != OK)
                        return NO_MEMORY;
                    __builtin_prefetch(&lines[next]);
                    behind[left] = next;
                    left += next != 0;
                }
                waiting = left;
            }
        }
    }
    return KERNEL(look_at_waiting)(index, query, &places, found);
}
