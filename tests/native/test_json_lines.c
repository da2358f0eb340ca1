/* Lines of JSON: whatever bytes there are, they are read within their bounds, which the sanitizers watch; and where a
   block is cut, and which instructions look through strings, changes nothing. */
#include "harness.h"
#include "json_lines.h"

static const char *const pieces[] = {
    "{\"text\": \"",
    "some words ",
    "\"}",
    "\n",
    "\"id\": 7, ",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u",
    "d83d",
    "\\ude00",
    "\\u00e9",
    "\xc3\xa4",
    "\xe4\xb8\xad",
    "\xf0\x9f\x98\x80",
    "\xed\xa0\x80",
    "\xff",
    "-0.5e+7",
    "0",
    "12345678901234567890",
    "true",
    "null",
    " ",
    "\r",
    "\t",
    "\0",
    "<p>",
    "{\"id\": \"a\", \"text\": \"b\"}\n",
    "\"text\": \"",
    "                                ",
    "\"more\": [{}, [1]], ",
};

enum { PIECES = sizeof pieces / sizeof *pieces, MOST = 1200 };

typedef struct {
    LineRows rows;
    uint64_t others; /* lines that were not read */
    LinesPlace place;
} Outcome;

/* Read bytes in blocks that end anywhere, each in memory of its own size, so that a read beyond is seen. */
static Outcome read_all(const uint8_t *data, uint64_t size, int with_name, int by_pieces) {
    const LineFields fields = {(const uint8_t *)"text", 4, (const uint8_t *)"id", 2, with_name,
                               (const uint8_t *)"in",   2};
    Outcome found = {0};
    uint64_t start = 0, end = by_pieces ? 0 : size;
    for (;;) {
        uint8_t *block = malloc(end - start ? end - start : 1);
        if (block == NULL) exit(2);
        if (end > start) memcpy(block, data + start, end - start);
        found.place.at = 0;
        for (;;) {
            EXPECT(lines_read(&fields, block, end - start, end == size, &found.place, &found.rows) == OK, "no memory");
            EXPECT(found.place.at <= end - start, "at %llu", (unsigned long long)found.place.at);
            if (found.place.stopped != LINES_OTHER) break;
            const uint8_t *line = block + found.place.at;
            const uint8_t *newline = memchr(line, '\n', end - start - found.place.at);
            EXPECT(newline != NULL || end == size, "a line that is cut was judged");
            found.place.at = newline == NULL ? end - start : (uint64_t)(newline - block) + 1;
            found.place.number++;
            found.place.is_begun = 1;
            found.others++;
        }
        start += found.place.at;
        EXPECT(lines_settle(&found.rows) == OK, "no memory");
        free(block);
        if (end == size) break;
        end += 1 + below(60);
        if (end > size) end = size;
    }
    EXPECT(start == size, "%llu of %llu bytes were read", (unsigned long long)start, (unsigned long long)size);
    return found;
}

static int same(const Packed *one, const Packed *other, uint64_t count) {
    if (one->used != other->used || (one->used && memcmp(one->bytes, other->bytes, one->used))) return 0;
    return count == 0 || memcmp(one->ends, other->ends, count * sizeof *one->ends) == 0;
}

void test_json_lines(void) {
    uint8_t data[MOST + 64];
    uint64_t size = 0, lines = 0;
    const uint64_t wanted = below(MOST);
    while (size < wanted) {
        const char *piece = pieces[below(PIECES)];
        const uint64_t length = *piece ? strlen(piece) : 1;
        memcpy(data + size, piece, length);
        size += length;
    }
    for (uint64_t changes = below(4); size && changes > 0; changes--) data[below(size)] = (uint8_t)draw();
    for (uint64_t i = 0; i < size; i++) lines += data[i] == '\n';
    const int with_name = (int)below(2);
    lines_choose(SET_PORTABLE);
    Outcome first = read_all(data, size, with_name, 0);
    EXPECT(first.place.number - lines <= 1, "%llu lines", (unsigned long long)first.place.number);
    EXPECT(first.rows.count + first.others <= first.place.number, "more rows than lines");
    for (int set = 0; set <= (int)machine_set; set++)
        for (int again = 0; again < 3; again++) {
            lines_choose((InstructionSet)set);
            Outcome other = read_all(data, size, with_name, again);
            EXPECT(other.rows.count == first.rows.count && other.others == first.others, "other rows by set %d", set);
            EXPECT(other.place.number == first.place.number && other.place.blank == first.place.blank, "other lines");
            EXPECT(same(&first.rows.texts, &other.rows.texts, first.rows.count), "other texts by set %d", set);
            EXPECT(same(&first.rows.names, &other.rows.names, first.rows.count), "other names by set %d", set);
            EXPECT(same(&first.rows.lines, &other.rows.lines, first.rows.count), "other lines by set %d", set);
            lines_free(&other.rows);
        }
    lines_choose(machine_set);
    lines_free(&first.rows);
}
