/* Reading files of names. Every number is compared with what remains before it is followed. */
#include "ids.h"
#include "names.h"

enum { BYTES_STEP = 4 << 20 }; /* a large room grows by no more at a time, so that little of it is empty */

Status bytes_reserve(Bytes *bytes, uint64_t more) {
    if (more <= bytes->room - bytes->used) return OK;
    uint64_t room = bytes->room + (bytes->room / 2 < BYTES_STEP ? bytes->room / 2 : BYTES_STEP);
    if (room < bytes->used + more) room = bytes->used + more;
    uint8_t *data = realloc(bytes->data, room);
    if (data == NULL) return NO_MEMORY;
    bytes->data = data;
    bytes->room = room;
    return OK;
}

/* The next number of at most 3 bytes; 0 where it does not end there, or could be shorter. */
ALWAYS_INLINE int take_varint(const uint8_t **at, const uint8_t *end, uint32_t *value) {
    uint32_t found = 0;
    for (unsigned shift = 0; shift < 21 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        found |= (uint32_t)(byte & 127) << shift;
        if (byte < 128) {
            *value = found;
            return byte != 0 || shift == 0;
        }
    }
    return 0;
}

Status name_block_open(const uint8_t *data, uint64_t bytes, NameBlock *block) {
    const uint8_t *at = data, *end = data + bytes;
    uint32_t symbol_count = 0, symbol_bytes = 0, body_bytes;
    if (bytes < 5) return BAD_BLOCK;
    block->count = at[0] | (uint32_t)at[1] << 8;
    block->first_bytes = at[2] | (uint32_t)at[3] << 8 | (uint32_t)at[4] << 16;
    at += 5;
    if (block->count == 0 || block->count > NAME_BLOCK || block->first_bytes > NAME_BYTES) return BAD_BLOCK;
    if (block->first_bytes > (uint64_t)(end - at)) return BAD_BLOCK;
    block->first = at;
    at += block->first_bytes;
    if (end - at < 8) return BAD_BLOCK;
    const uint8_t *by_length = at;
    at += 8;
    for (unsigned i = 0; i < 8; i++) {
        symbol_count += by_length[i];
        symbol_bytes += by_length[i] * (i + 1);
    }
    if (symbol_count > NAME_SYMBOLS || symbol_bytes > (uint64_t)(end - at)) return BAD_BLOCK;
    block->symbol_count = symbol_count;
    uint32_t code = 0;
    for (unsigned length = 1; length <= 8; length++)
        for (unsigned i = 0; i < by_length[length - 1]; i++, code++, at += length) {
            uint64_t word = 0;
            memcpy(&word, at, length);
            block->symbols[code] = word;
            block->lengths[code] = (uint8_t)length;
        }
    block->groups = (block->count - 1) / NAME_GROUP + 1;
    if (4 * (uint64_t)block->groups > (uint64_t)(end - at)) return BAD_BLOCK;
    block->ends = at;
    block->body = at + 4 * block->groups;
    block->end = end;
    memcpy(&body_bytes, block->ends + 4 * (block->groups - 1), 4);
    return body_bytes == (uint64_t)(end - block->body) ? OK : BAD_BLOCK;
}

/* Where a group lies. */
ALWAYS_INLINE Status group_at(const NameBlock *block, uint32_t group, const uint8_t **from, const uint8_t **to) {
    uint32_t start = 0, end;
    if (group) memcpy(&start, block->ends + 4 * (group - 1), 4);
    memcpy(&end, block->ends + 4 * group, 4);
    if (start > end || end > (uint64_t)(block->end - block->body)) return BAD_BLOCK;
    *from = block->body + start;
    *to = block->body + end;
    return OK;
}

/* The next name of a group; `name` holds the one that it is coded after, of *bytes bytes, and then this one. */
ALWAYS_INLINE Status name_next(const NameBlock *block, const uint8_t **at, const uint8_t *end, uint8_t *name,
                               uint32_t *bytes, uint32_t *shared) {
    uint32_t coded, filled;
    if (!take_varint(at, end, shared) || !take_varint(at, end, &coded)) return BAD_BLOCK;
    if (*shared > *bytes || coded > (uint64_t)(end - *at)) return BAD_BLOCK;
    filled = *shared;
    const uint8_t *from = *at, *to = from + coded;
    *at = to;
    while (from < to) {
        unsigned code = *from++;
        if (LIKELY(code < block->symbol_count)) {
            if (UNLIKELY(block->lengths[code] > NAME_BYTES - filled)) return BAD_BLOCK;
            store64(name + filled, block->symbols[code]);
            filled += block->lengths[code];
        } else {
            if (code != NAME_ESCAPE || from == to || filled == NAME_BYTES) return BAD_BLOCK;
            name[filled++] = *from++;
        }
    }
    *bytes = filled;
    return OK;
}

/* Names of a group up to the one of index `last` in it; `name` holds that then. */
ALWAYS_INLINE Status group_read(const NameBlock *block, uint32_t group, uint32_t last, uint8_t *name, uint32_t *bytes) {
    const uint8_t *at, *end;
    uint32_t shared;
    Status status = group_at(block, group, &at, &end);
    if (status != OK) return status;
    memcpy(name, block->first, block->first_bytes);
    *bytes = block->first_bytes;
    for (uint32_t i = 0; i <= last && status == OK; i++) status = name_next(block, &at, end, name, bytes, &shared);
    return status;
}

Status name_block_read(const NameBlock *block, uint32_t index, uint8_t *name, uint32_t *bytes) {
    if (index >= block->count) return BAD_DIRECTORY;
    return group_read(block, index / NAME_GROUP, index % NAME_GROUP, name, bytes);
}

Status name_block_find(const NameBlock *block, const uint8_t *name, uint64_t bytes, uint8_t *scratch, uint32_t *index,
                       int *found) {
    uint32_t low = 0, high = block->groups, held, shared;
    const uint8_t *at, *end;
    *found = 0;
    while (high - low > 1) { /* the last group whose first name is not above */
        uint32_t middle = low + (high - low) / 2;
        Status status = group_read(block, middle, 0, scratch, &held);
        if (status != OK) return status;
        if (name_compare(scratch, held, name, bytes) <= 0)
            low = middle;
        else
            high = middle;
    }
    Status status = group_at(block, low, &at, &end);
    memcpy(scratch, block->first, block->first_bytes);
    held = block->first_bytes;
    for (*index = low * NAME_GROUP; status == OK && at < end; ++*index) {
        status = name_next(block, &at, end, scratch, &held, &shared);
        if (status != OK) break;
        int order = name_compare(scratch, held, name, bytes);
        if (order >= 0) {
            *found = order == 0 && *index < block->count;
            return OK;
        }
    }
    return status;
}

Status name_block_all(const NameBlock *block, Bytes *out, int64_t *ends) {
    uint64_t before = 0; /* where in out the name before begins */
    uint32_t before_bytes = 0;
    for (uint32_t group = 0; group < block->groups; group++) {
        const uint8_t *at, *end;
        Status status = group_at(block, group, &at, &end);
        if (status != OK) return status;
        uint32_t here = block->count - group * NAME_GROUP < NAME_GROUP ? block->count - group * NAME_GROUP : NAME_GROUP;
        for (uint32_t i = 0; i < here; i++) {
            status = bytes_reserve(out, NAME_BYTES + NAME_SLACK);
            if (status != OK) return status;
            uint8_t *name = out->data + out->used;
            const uint8_t *other = i ? out->data + before : block->first;
            uint32_t other_bytes = i ? before_bytes : block->first_bytes, bytes = other_bytes, shared;
            const uint8_t *coded = at;
            if (!take_varint(&coded, end, &shared) || shared > other_bytes) return BAD_BLOCK;
            memcpy(name, other, shared);
            status = name_next(block, &at, end, name, &bytes, &shared);
            if (status != OK) return status;
            uint32_t index = group * NAME_GROUP + i;
            if (index == 0 ? shared != block->first_bytes || bytes != shared
                           : bytes == shared || (shared < other_bytes && name[shared] <= other[shared]))
                return BAD_BLOCK;
            if (i == 0 && index > 0 && name_compare(out->data + before, before_bytes, name, bytes) >= 0)
                return BAD_BLOCK;
            before = out->used;
            before_bytes = bytes;
            out->used += bytes;
            ends[index] = (int64_t)out->used;
        }
        if (at != end) return BAD_BLOCK;
    }
    return OK;
}

/* --- Files --- */

enum { ENTRY_BYTES = 16 }; /* of the directory: where a block begins, and its first rank */

ALWAYS_INLINE Status entry_read(Pages *pages, const NameFile *file, uint64_t index, uint64_t *offset, uint64_t *rank) {
    uint64_t at = file->directory_offset + ENTRY_BYTES * index;
    Status status = pages_check(pages, at, at + ENTRY_BYTES - 1);
    if (status != OK) return status;
    *offset = load64(pages->base + at);
    *rank = load64(pages->base + at + 8);
    return OK;
}

Status name_file_block(Pages *pages, const NameFile *file, uint64_t index, NameBlock *block, uint64_t *first_rank,
                       uint64_t *end_rank) {
    uint64_t from, to, room = file->blocks_end - file->blocks_offset;
    if (index >= file->block_count) return BAD_DIRECTORY;
    Status status = entry_read(pages, file, index, &from, first_rank);
    if (status == OK) status = entry_read(pages, file, index + 1, &to, end_rank);
    if (status != OK) return status;
    if (from >= to || to > room || *end_rank > file->count || *first_rank >= *end_rank) return BAD_DIRECTORY;
    from += file->blocks_offset;
    to += file->blocks_offset;
    status = pages_check(pages, from, to - 1);
    if (status == OK) status = name_block_open(pages->base + from, to - from, block);
    if (status == OK && block->count != *end_rank - *first_rank) status = BAD_DIRECTORY;
    return status;
}

Status name_file_locate(Pages *pages, const NameFile *file, uint64_t rank, uint64_t *index) {
    uint64_t low = 0, high = file->block_count;
    if (rank >= file->count || high == 0) return BAD_DIRECTORY;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2, offset, first;
        Status status = entry_read(pages, file, middle, &offset, &first);
        if (status != OK) return status;
        if (first <= rank)
            low = middle;
        else
            high = middle;
    }
    *index = low;
    return OK;
}

/* How the first name of block `index`, which lies right at its start, compares with a name. */
static Status first_of_block(Pages *pages, const NameFile *file, uint64_t index, const uint8_t *name, uint64_t bytes,
                             int *order) {
    uint64_t offset, rank, room = file->blocks_end - file->blocks_offset;
    Status status = entry_read(pages, file, index, &offset, &rank);
    if (status != OK) return status;
    if (offset > room || room - offset < 5) return BAD_DIRECTORY;
    uint64_t at = file->blocks_offset + offset;
    status = pages_check(pages, at, at + 4);
    if (status != OK) return status;
    const uint8_t *head = pages->base + at;
    uint32_t first_bytes = head[2] | (uint32_t)head[3] << 8 | (uint32_t)head[4] << 16;
    if (first_bytes > room - offset - 5) return BAD_BLOCK;
    if (first_bytes) status = pages_check(pages, at + 5, at + 4 + first_bytes);
    if (status == OK) *order = name_compare(head + 5, first_bytes, name, bytes);
    return status;
}

ALWAYS_INLINE uint64_t filter_line(const NameFile *file, uint64_t hash) {
    return file->filter_offset + NAME_LINE_BYTES * ((hash >> 32) * file->line_count >> 32);
}

void name_file_expect(const Pages *pages, const NameFile *file, uint64_t hash) {
    if (file->count) __builtin_prefetch(pages->base + filter_line(file, hash));
}

Status name_file_may_have(Pages *pages, const NameFile *file, uint64_t hash, int *found) {
    *found = 0;
    if (file->count == 0) return OK;
    uint64_t at = filter_line(file, hash), bits = hash * 0x9E3779B97F4A7C15u;
    Status status = pages_check(pages, at, at + NAME_LINE_BYTES - 1);
    if (status != OK) return status;
    const uint8_t *filter = pages->base + at;
    for (unsigned i = 0; i < NAME_LINE_BITS; i++, bits >>= 9)
        if (!(filter[(bits & 511) >> 3] >> (bits & 7) & 1)) return OK;
    *found = 1;
    return OK;
}

Status name_file_find(Pages *pages, const NameFile *file, const uint8_t *name, uint64_t bytes, uint8_t *scratch,
                      NameBlock *block, uint64_t *rank, int *found) {
    Status status = OK;
    *found = 0;
    if (file->count == 0) return OK;
    uint64_t low = 0, high = file->block_count, first, end;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        int order;
        status = first_of_block(pages, file, middle, name, bytes, &order);
        if (status != OK) return status;
        if (order <= 0)
            low = middle;
        else
            high = middle;
    }
    uint32_t index;
    status = name_file_block(pages, file, low, block, &first, &end);
    if (status == OK) status = name_block_find(block, name, bytes, scratch, &index, found);
    if (status == OK && *found) *rank = first + index;
    return status;
}

Status name_file_handle(Pages *pages, const NameFile *file, uint64_t rank, uint64_t *handle) {
    uint64_t found = rank;
    if (file->handle_width) {
        Status status = packed_get(pages, file->handles_offset, file->handle_width, rank, &found);
        if (status != OK) return status;
    }
    *handle = file->handle_base + found;
    return *handle < found ? BAD_DIRECTORY : OK;
}

/* The handle at a place in their order, and its rank. */
static Status handle_at(Pages *pages, const NameFile *file, uint64_t place, uint64_t *rank, uint64_t *handle) {
    Status status = packed_get(pages, file->order_offset, file->rank_width, place, rank);
    if (status == OK && *rank >= file->count) status = BAD_DIRECTORY;
    return status == OK ? name_file_handle(pages, file, *rank, handle) : status;
}

Status name_file_rank(Pages *pages, const NameFile *file, uint64_t handle, uint64_t *rank, int *found) {
    *found = 0;
    if (file->count == 0 || handle < file->handle_base) return OK;
    if (file->handle_width == 0) {
        *rank = handle - file->handle_base;
        *found = *rank < file->count;
        return OK;
    }
    /* Handles are given one after the other, so most of them lie near where their size says; in an order that somebody
       has thought out, halving comes to an end all the same. */
    uint64_t low = 0, high = file->count, least = file->handle_base, most, there;
    Status status = handle_at(pages, file, high - 1, rank, &most);
    if (status != OK || handle > most) return status;
    for (unsigned step = 0; low < high; step++) {
        uint64_t middle = low + (high - low) / 2;
        if (step % 3 != 2 && most > least && handle >= least && handle <= most)
            middle = low + (uint64_t)((double)(handle - least) / (double)(most - least) * (double)(high - 1 - low));
        if (middle >= high) middle = high - 1;
        status = handle_at(pages, file, middle, rank, &there);
        if (status != OK) return status;
        if (there == handle) {
            *found = 1;
            return OK;
        }
        if (there < handle) {
            low = middle + 1;
            least = there;
        } else {
            high = middle;
            most = there;
        }
    }
    return OK;
}
