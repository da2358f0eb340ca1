/* Which documents of a store share a band with signatures: the rows of exact keys, in segments and pending; documents
   of these rows; their similarity by the sketches beside the segments.

   Latency here is memory latency: each stage goes over a batch of keys and asks for what the next one reads. */
#ifndef FPSTORE_SIMILAR_H
#define FPSTORE_SIMILAR_H

#include "ids.h"
#include "pending.h"
#include "sketches.h"

/* A segment, and the file of sketches beside it. ids: NULL in a store without. */
typedef struct {
    Pages *pages;
    const Table *table;
    const Ids *ids;
    uint64_t position;
} BandPart;

/* A handle is an id, or, where the segment lists these, its place there: then what is written of it is how far behind
   it its sketch is. handle_bytes: 0 where that of sketch i is base + i. */
typedef struct {
    Pages *pages; /* NULL where there is none */
    uint64_t count, base, last, handles_offset, sketches_offset;
    unsigned handle_bytes, listed;
} SketchFile;

/* A row with one of the keys asked for. position: when it was stored, which decides whether a removal masks it. */
typedef struct {
    uint64_t id, position;
    uint32_t key; /* its index */
} BandRow;

/* At most `most`; the caller frees them. */
typedef struct {
    BandRow *rows;
    uint64_t count, room, most;
} BandRows;

typedef struct {
    uint64_t id;
    uint32_t query;
    float similarity;
    uint16_t shared;
} Candidate;

/* Add the rows of keys[0..count). TOO_MANY where there are more than `most` in all. */
Status band_rows_of_part(const BandPart *part, const uint64_t *keys, uint64_t count, BandRows *found);
Status band_rows_of_pending(const Pending *pending, uint32_t end, const uint64_t *keys, uint64_t count,
                            BandRows *found);

/* The documents of rows, by query, then id; key i is of query i / bands. Puts the rows in order. candidates has room
   for as many as there are rows; how many there are. Their similarity is `unknown`. NO_MEMORY. */
Status candidates_of(BandRows *found, uint32_t bands, uint64_t query_count, float unknown, Candidate *candidates,
                     uint64_t *count);

/* Have the similarity of each candidate be at least that of each sketch of its id in the file. sketches: those of the
   queries. places: where each id is in the list of the segment's, -1 where it is not; NULL where it is the handle.
   masked: NULL, or which candidates to pass over. */
Status candidates_estimate(const SketchFile *file, const Sketches *shape, const uint64_t *sketches,
                           const int64_t *places, const uint8_t *masked, Candidate *candidates, uint64_t count);

/* Put the candidates of each query in the order of an answer: the most similar first, then by id. */
void candidates_order(Candidate *candidates, uint64_t count);

#endif
