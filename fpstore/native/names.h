/* Names, byte strings of up to 64 KiB, in order: blocks of them compressed, found, merged and sorted.

   A block is coded on its own: shared beginnings are left out, and what is left is written by a table of symbols, byte
   strings of 1 to 8 bytes that occur often in this very block (after FSST: Boncz, Neumann, Leis, "FSST: Fast Random
   Access String Compression", VLDB 2020). docs/format.md has every byte. Decoding trusts nothing. */
#ifndef FPSTORE_NAMES_H
#define FPSTORE_NAMES_H

#include "view.h"

enum {
    NAME_BYTES = 1 << 16,       /* the longest name */
    NAME_GROUP = 16,            /* names of a group, the unit decoded */
    NAME_BLOCK = 2048,          /* names of a block, at most */
    NAME_BLOCK_BYTES = 1 << 18, /* a block ends with the name that reaches so many bytes */
    NAME_SYMBOLS = 255,         /* of a block, at most */
    NAME_ESCAPE = 255,          /* the code before a byte that stands for itself */
    NAME_SLACK = 8,             /* bytes that are written past the end of what is decoded */
    NAME_LINE_BYTES = 64,       /* of a line of the filter */
    NAME_LINE_NAMES = 21,       /* names for which the filter has a line: 24 bits each */
    NAME_LINE_BITS = 7          /* bits that a name sets in its line, each by 9 bits of its hash */
};

/* Many names: name i is bytes [ends[i - 1] or 0, ends[i]) of data. */
typedef struct {
    const uint8_t *data;
    const int64_t *ends;
    uint64_t count;
} Names;

ALWAYS_INLINE int64_t name_start(const Names *names, uint64_t index) { return index ? names->ends[index - 1] : 0; }

/* The next 8 bytes, of which `left` are there and the others zero. */
ALWAYS_INLINE uint64_t load_some(const uint8_t *at, uint64_t left) {
    uint64_t word = 0;
    if (LIKELY(left >= 8)) return load64(at);
    for (uint64_t i = 0; i < left; i++) word |= (uint64_t)at[i] << 8 * i;
    return word;
}

/* The last `left` bytes, below 8, of so many that end there; the others are zero. */
ALWAYS_INLINE uint64_t load_last(const uint8_t *end, uint64_t bytes, uint64_t left) {
    if (UNLIKELY(bytes < 8)) return load_some(end - left, left);
    return left ? load64(end - 8) >> (64 - 8 * left) : 0; /* without a step for each byte */
}

/* By bytes; a name that another one begins with comes before it. */
int name_compare(const uint8_t *one, uint64_t one_bytes, const uint8_t *other, uint64_t other_bytes);

/* By which a filter, with the key 0, or a table in memory knows a name. No answer depends on it: two may share one. */
uint64_t name_hash(const uint8_t *name, uint64_t bytes, uint64_t key);

/* Those of many. */
void name_hashes(const Names *names, uint64_t key, uint64_t *hashes);

/* --- Writing --- */

typedef struct NameCoder NameCoder;
NameCoder *name_coder_new(void);
void name_coder_free(NameCoder *coder);

/* How many names, from `first` on, the next block holds. */
uint64_t name_block_count(const Names *names, uint64_t first);

/* The most bytes that a block of these names takes. */
uint64_t name_block_room(const Names *names, uint64_t first, uint64_t count);

/* Write a block of names [first, first + count), sorted and distinct; how many bytes it takes. It begins with
   the symbols of the block before, so that the same names in the same order give the same bytes. */
uint64_t name_block_write(NameCoder *coder, const Names *names, uint64_t first, uint64_t count, uint8_t *out);

/* --- Reading --- */

typedef struct {
    uint32_t count, groups, first_bytes, symbol_count;
    const uint8_t *first, *ends, *body, *end;
    uint64_t symbols[NAME_SYMBOLS];
    uint8_t lengths[NAME_SYMBOLS];
} NameBlock;

/* Read the head of a block; BAD_BLOCK where it is none. */
Status name_block_open(const uint8_t *data, uint64_t bytes, NameBlock *block);

/* One name, to `name`, which has room for NAME_BYTES + NAME_SLACK. */
Status name_block_read(const NameBlock *block, uint32_t index, uint8_t *name, uint32_t *bytes);

/* The index of a name in the block, or *found 0. scratch: as name. */
Status name_block_find(const NameBlock *block, const uint8_t *name, uint64_t bytes, uint8_t *scratch, uint32_t *index,
                       int *found);

/* All names of a block, appended to out, which grows; their ends, as many as the block has, from *used on.
   BAD_BLOCK where they are not as a writer leaves them: increasing, and as short as they can be. */
typedef struct {
    uint8_t *data;
    uint64_t used, room;
} Bytes;
Status bytes_reserve(Bytes *bytes, uint64_t more);
Status name_block_all(const NameBlock *block, Bytes *out, int64_t *ends);

/* A file of names: where its parts lie, which the caller has compared with the file. */
typedef struct {
    uint64_t count, block_count, line_count, handle_base;
    unsigned handle_width, rank_width;
    uint64_t blocks_offset, blocks_end, directory_offset, filter_offset, handles_offset, order_offset;
} NameFile;

/* Block `index`, its first rank and the one after its last. */
Status name_file_block(Pages *pages, const NameFile *file, uint64_t index, NameBlock *block, uint64_t *first_rank,
                       uint64_t *end_rank);

/* The index of the block that holds a rank below count. */
Status name_file_locate(Pages *pages, const NameFile *file, uint64_t rank, uint64_t *index);

/* Whether the filter has a name of this hash, with the key 0. */
Status name_file_may_have(Pages *pages, const NameFile *file, uint64_t hash, int *found);

/* The rank of a name; *found 0 where it is not there. scratch: NAME_BYTES + NAME_SLACK. */
Status name_file_find(Pages *pages, const NameFile *file, const uint8_t *name, uint64_t bytes, uint8_t *scratch,
                      NameBlock *block, uint64_t *rank, int *found);

/* Say that a name of this hash will be looked for soon. */
void name_file_expect(const Pages *pages, const NameFile *file, uint64_t hash);

/* The rank of a handle, and the handle of a rank below count. */
Status name_file_rank(Pages *pages, const NameFile *file, uint64_t handle, uint64_t *rank, int *found);
Status name_file_handle(Pages *pages, const NameFile *file, uint64_t rank, uint64_t *handle);

/* --- In memory --- */

/* Put the names of these indexes, uint32[count], in order; equal ones stay in the order in which they are. */
Status names_sort(const Names *names, uint32_t *order, uint64_t count);

/* How many of some names in order, at most 255, are not above each name: uint8[names->count]. */
void names_part(const Names *names, const Names *bounds, uint8_t *parts);

/* Put what the next block holds of names in this order, uint32[count], from `first` on, into data, which is emptied
   first, and ends, int64[NAME_BLOCK]; how many these are. BAD_BLOCK where one is not above the one before it. */
Status names_gather(const Names *names, const uint32_t *order, uint64_t first, uint64_t count, Bytes *data,
                    int64_t *ends, uint64_t *gathered);

/* Sorted names with a value each, merged from `at` on; ended: no more come after those. */
typedef struct {
    Names names;
    const uint64_t *values;
    uint64_t at;
    int ended;
} NameSource;

/* What was merged last; bytes NULL at first. */
typedef struct {
    const uint8_t *bytes;
    uint64_t count, value;
} NameLast;

/* Merge sources until one that has not ended has none left; how many names that gives, with their values. once: a name
   that equals the last one is left out, and BAD_BLOCK where its value is another. */
Status names_merge(NameSource *sources, uint64_t count, int once, NameLast last, Bytes *out, int64_t *ends,
                   uint64_t *values, uint64_t *merged);

#endif
