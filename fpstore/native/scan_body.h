/* Comparing many keys with many queries. Included once for each instruction set; see platform.h. */
#include "scan.h"

#include "bits_body.h"
#include "step_body.h"

/* Compare keys[0..count) one by one; of one that is near enough the search is told. */
static __attribute__((noinline)) Status KERNEL(scan_few)(Scan *scan, uint64_t query, const uint64_t *keys,
                                                         uint64_t count) {
    Search *search = scan->search;
    const Permutation *permutation = &search->tables[0]->permutation;
    for (uint64_t i = 0; i < count && !search->done; i++) {
        const unsigned distance = KERNEL(ones)(keys[i] ^ scan->queries[query]);
        if (LIKELY(distance > scan->limits[query])) continue;
        Status status = search_add(search, (uint32_t)query, KERNEL(invert)(permutation, keys[i]), distance);
        if (status != OK) return status;
        if (search->keep == 1 && search->after == NULL)
            scan->limits[query] = distance;
        else if (search->bounds != NULL && search->bounds[query].distance < scan->limits[query])
            scan->limits[query] = search->bounds[query].distance;
    }
    return OK;
}

/* The same for many keys, of which few are near. */
static Status KERNEL(scan_tile)(Scan *scan, uint64_t query, const uint64_t *keys, uint64_t count) {
    enum { AT_ONCE = 32 };
    Status status = OK;
    uint64_t i = 0;
#ifdef KERNEL_IS_WIDE
    const __m512i wanted = _mm512_set1_epi64((long long)scan->queries[query]);
    __m512i limit = _mm512_set1_epi64((long long)scan->limits[query]);
#define NEAR(place)                                                                                                \
    _mm512_cmple_epu64_mask(_mm512_popcnt_epi64(_mm512_xor_si512(_mm512_loadu_si512(keys + i + (place)), wanted)), \
                            limit)
    for (; i + AT_ONCE <= count && status == OK; i += AT_ONCE) {
        /* Each vector is compared before the next is loaded: from memory that takes 0.9 of the time of four loads
           together, and from the cache the same. */
        if (LIKELY((NEAR(0) | NEAR(8) | NEAR(16) | NEAR(24)) == 0)) continue;
        status = KERNEL(scan_few)(scan, query, keys + i, AT_ONCE);
        if (scan->search->done) return status;
        limit = _mm512_set1_epi64((long long)scan->limits[query]);
    }
#undef NEAR
#else
    const uint64_t wanted = scan->queries[query];
    for (; i + AT_ONCE <= count && status == OK; i += AT_ONCE) {
        unsigned least = 64;
        for (unsigned j = 0; j < AT_ONCE; j++) {
            const unsigned distance = KERNEL(ones)(keys[i + j] ^ wanted);
            least = distance < least ? distance : least;
        }
        if (LIKELY(least > scan->limits[query])) continue;
        status = KERNEL(scan_few)(scan, query, keys + i, AT_ONCE);
        if (scan->search->done) return status;
    }
#endif
    return status == OK ? KERNEL(scan_few)(scan, query, keys + i, count - i) : status;
}

Status KERNEL(scan_block)(Scan *scan, const uint64_t *keys, uint64_t count) {
    Status status = OK;
    const uint64_t most = scan->query_count > 1 ? SCAN_TILE : count;
    scan->key_count += count;
    for (uint64_t first = 0; first < count && status == OK; first += most) {
        const uint64_t tile = count - first < most ? count - first : most;
        for (uint64_t query = 0; query < scan->query_count && status == OK && !scan->search->done; query++)
            status = KERNEL(scan_tile)(scan, query, keys + first, tile);
    }
    return status;
}

void KERNEL(scan_unpack)(const uint8_t *base, uint64_t at, unsigned key_bits, uint64_t count, uint64_t *out) {
    for (uint64_t i = 0; i < count; i++, at += key_bits) out[i] = KERNEL(bits_at)(base, at, key_bits);
}
