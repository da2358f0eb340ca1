/* One query of a whole state of a store of wide codes, as single.h is of keys: what its segments have, each match a row
   for each of its ids. */
#ifndef FPSTORE_CODES_ROWS_H
#define FPSTORE_CODES_ROWS_H

#include "codes.h"
#include "ids.h"

/* A segment. */
typedef struct {
    Pages *pages;
    const Codes *codes;
    const Ids *ids; /* NULL without */
} CodePart;

/* Words of the code that it does not have are 0. */
typedef struct {
    uint64_t code[MAX_CODE_WORDS], id;
    uint32_t distance;
} CodeRow;

/* Rows that were found, at most `most`; the caller frees them. keep: 0, or how many rows are wanted, those that come
   first: of each segment only the rows of its nearest so many codes are had. scan: all codes are read, whatever that
   costs. scanned: all codes of some segment were read. */
typedef struct {
    CodeRow *rows;
    uint64_t count, room, most, keep;
    int scan, scanned;
} CodeRows;

/* Every row within `distance` of query, in the order of an answer, each once. TOO_MANY where there are more. */
Status codes_rows(const CodePart *parts, unsigned part_count, const uint64_t *query, unsigned distance,
                  CodeRows *found);

/* Whether any code is within `distance` of query; stops at the first. */
Status codes_any(const CodePart *parts, unsigned part_count, const uint64_t *query, unsigned distance, int *any);

#endif
