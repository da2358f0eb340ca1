/* Blocks of names: what is written is read, sorted and merged as it was, and hostile bytes are refused or read within
   their bounds, which the sanitizers of `make gate` watch. */
#include "harness.h"
#include "names.h"

enum { MOST = 400, LONGEST = 90 };

typedef struct {
    uint8_t *data;
    int64_t ends[MOST];
    uint64_t count;
} Drawn;

/* Distinct names in order: numbers behind one of a few beginnings, so that many begin alike. */
static void draw_names(Drawn *drawn) {
    static const char *const beginnings[] = {"", "a", "http://example.org/", "http://example.org/\xff", "\x01\x02"};
    uint64_t count = 1 + below(MOST), used = 0;
    uint8_t *data = room(count * LONGEST, 1), *sorted = room(count * LONGEST, 1);
    int64_t *ends = room(count, sizeof *ends);
    uint32_t *order = room(count, sizeof *order);
    for (uint64_t i = 0; i < count; i++) {
        const char *beginning = beginnings[below(5)];
        memcpy(data + used, beginning, strlen(beginning));
        used += strlen(beginning);
        for (uint64_t left = below(12); left > 0; left--)
            data[used++] = below(3) ? (uint8_t)('a' + below(4)) : (uint8_t)draw();
        ends[i] = (int64_t)used;
        order[i] = (uint32_t)i;
    }
    const Names all = {data, ends, count};
    EXPECT(names_sort(&all, order, count) == OK, "no memory");
    drawn->data = sorted;
    drawn->count = 0;
    used = 0;
    for (uint64_t i = 0; i < count; i++) {
        int64_t start = name_start(&all, order[i]), before = drawn->count ? drawn->ends[drawn->count - 1] : 0;
        int64_t from = drawn->count > 1 ? drawn->ends[drawn->count - 2] : 0;
        uint64_t bytes = (uint64_t)(ends[order[i]] - start);
        int compared = drawn->count ? name_compare(sorted + from, (uint64_t)(before - from), data + start, bytes) : -1;
        EXPECT(compared <= 0, "name %llu is not in order", (unsigned long long)i);
        if (compared == 0) continue;
        memcpy(sorted + used, data + start, bytes);
        used += bytes;
        drawn->ends[drawn->count++] = (int64_t)used;
    }
    free(data);
    free(ends);
    free(order);
}

/* All that a reader does with a block; whether it was read without a word. */
static int read_block(const uint8_t *data, uint64_t bytes, const Names *asked) {
    NameBlock block;
    Bytes out = {0};
    int64_t *ends = room(NAME_BLOCK, sizeof *ends);
    uint8_t *name = room(NAME_BYTES + NAME_SLACK, 1);
    int sound = name_block_open(data, bytes, &block) == OK, found;
    uint32_t index, size;
    if (sound) {
        for (uint64_t i = 0; i < asked->count; i++) {
            int64_t start = name_start(asked, i);
            sound &= name_block_find(&block, asked->data + start, (uint64_t)(asked->ends[i] - start), name, &index,
                                     &found) == OK;
            sound &= found && index == i;
            sound &= name_block_read(&block, (uint32_t)i, name, &size) == OK;
            sound &= name_compare(name, size, asked->data + start, (uint64_t)(asked->ends[i] - start)) == 0;
        }
        sound &= name_block_all(&block, &out, ends) == OK && block.count == asked->count;
        sound = sound && out.used == (uint64_t)asked->ends[asked->count - 1] &&
                memcmp(out.data, asked->data, out.used) == 0;
        sound = sound && memcmp(ends, asked->ends, asked->count * sizeof *ends) == 0;
    }
    free(out.data);
    free(ends);
    free(name);
    return sound;
}

static void merge_halves(const Drawn *drawn) {
    NameSource sources[2];
    uint64_t *values = room(MOST, sizeof *values), *merged = room(MOST, sizeof *merged), count;
    int64_t *ends = room(MOST + 1, sizeof *ends);
    Bytes out = {0};
    NameLast last = {NULL, 0, 0};
    for (uint64_t i = 0; i < MOST; i++) values[i] = i;
    for (int i = 0; i < 2; i++)
        sources[i] = (NameSource){{drawn->data, drawn->ends, drawn->count}, values, i ? drawn->count / 2 : 0, 1};
    EXPECT(names_merge(sources, 2, 1, last, &out, ends, merged, &count) == OK, "one name has two handles");
    EXPECT(count == drawn->count, "found %llu", (unsigned long long)count);
    EXPECT(out.used == 0 || memcmp(out.data, drawn->data, out.used) == 0, "other names");
    free(values);
    free(merged);
    free(ends);
    free(out.data);
}

void test_names(void) {
    Drawn drawn;
    NameCoder *coder = name_coder_new();
    draw_names(&drawn);
    const Names names = {drawn.data, drawn.ends, drawn.count};
    for (int again = 0; again < 2; again++) { /* the second begins with the symbols of the first */
        uint8_t *written = room(name_block_room(&names, 0, drawn.count), 1);
        uint64_t bytes = name_block_write(coder, &names, 0, drawn.count, written);
        uint8_t *data = malloc(bytes); /* no byte more, so that a read beyond is seen */
        if (data == NULL) exit(2);
        memcpy(data, written, bytes);
        EXPECT(read_block(data, bytes, &names), "%llu names do not read back", (unsigned long long)drawn.count);
        for (int change = 0; change < 60; change++) {
            memcpy(data, written, bytes);
            for (uint64_t left = 1 + below(3); left > 0; left--) data[below(bytes)] = (uint8_t)draw();
            read_block(data, bytes, &names);
        }
        for (uint64_t end = 0; end < bytes; end += 1 + below(40)) {
            uint8_t *cut = malloc(end ? end : 1);
            if (cut == NULL) exit(2);
            memcpy(cut, written, end);
            EXPECT(!read_block(cut, end, &names), "%llu bytes of a block are one", (unsigned long long)end);
            free(cut);
        }
        free(written);
        free(data);
    }
    merge_halves(&drawn);
    name_coder_free(coder);
    free(drawn.data);
}
