/* Lines of JSON: one object each, of which one field is the text of a document, and another may be its name.

   What is read here is less than what JSON allows: a line with anything out of the ordinary is left to who reads JSON
   in full. So a line that is read has an outcome here that it would have there too. */
#ifndef FPSTORE_JSON_LINES_H
#define FPSTORE_JSON_LINES_H

#include "platform.h"

/* Values one after the other: value i is bytes[ends[i - 1]] to bytes[ends[i]], the first begins at 0. */
typedef struct {
    uint8_t *bytes;
    uint64_t used, room;
    uint64_t expected; /* so many bytes there may be at first, as long as there are none */
    uint64_t *ends;
} Packed;

/* block: of lines that lie side by side in it, from `first` on, and are not copied: their ends are those in the block. It
   stays as it is until they are settled. NULL where lines has them. */
typedef struct {
    Packed texts, names, lines;
    const uint8_t *block;
    uint64_t first;
    uint8_t *may_have_tags; /* whether there is a `<` near the beginning of the text, of rows that were read here */
    uint64_t *numbers;      /* of the lines of rows that were read here, from 1 on */
    uint64_t count, room;
} LineRows;

typedef struct {
    const uint8_t *text; /* the field of the text, which no escape is needed for */
    uint64_t text_size;
    const uint8_t *name; /* that of the name; without one a name is the source, `:` and the number of the line */
    uint64_t name_size;
    int has_name;
    const uint8_t *source;
    uint64_t source_size;
} LineFields;

/* Why the reading stopped: at the end of the block, before the end of its last line, which is not here, or at a line
   that is not read here. */
typedef enum { LINES_END, LINES_CUT, LINES_OTHER } LinesStop;

typedef struct {
    uint64_t number;   /* lines read so far */
    uint64_t blank;    /* blank ones behind the first that is not */
    uint64_t at;       /* where the next one begins, in the block */
    int is_begun;      /* whether one that is not blank was there */
    LinesStop stopped; /* what at is at */
} LinesPlace;

#define MAX_DEPTH 64            /* of containers in each other */
#define MAX_NUMBER_BYTES 300    /* json refuses numbers of thousands of digits */
#define MAX_INTEGER_BYTES 19    /* of a name; readers of JSON differ about those over 2**64 */
#define MAX_NAME_BYTES 10000    /* so that it has no more characters */
#define TAGS_WITHIN_BYTES 16384 /* 4096 characters */

/* Append the rows of a block of size bytes, from place->at on, to rows. is_last: nothing comes behind the block. */
Status lines_read(const LineFields *fields, const uint8_t *block, uint64_t size, int is_last, LinesPlace *place,
                  LineRows *rows);

/* Copy the lines that lie in a block. */
Status lines_settle(LineRows *rows);

/* Append a row that was read elsewhere. */
Status lines_add(LineRows *rows, const uint8_t *text, uint64_t text_size, const uint8_t *name, uint64_t name_size,
                 const uint8_t *line, uint64_t line_size);

void lines_free(LineRows *rows);

/* How many bytes of a string of JSON, from at on, need no look of their own: no `"`, no `\`, no control character,
   nothing that is not ASCII. Up to 31 fewer than there are. */
typedef uint64_t (*PlainBytes)(const uint8_t *at, uint64_t size);
uint64_t plain_bytes_portable(const uint8_t *at, uint64_t size);
uint64_t plain_bytes_fast(const uint8_t *at, uint64_t size);

void lines_choose(InstructionSet set);

#endif
