/* Reading lines of JSON: what is in them is validated as a whole, and two fields are taken. */
#include "json_lines.h"
#include "text_unicode.h"

static PlainBytes plain_bytes = plain_bytes_portable;

void lines_choose(InstructionSet set) {
    plain_bytes = plain_bytes_portable;
#if FPSTORE_X86
    if (set >= SET_FAST) plain_bytes = plain_bytes_fast;
#else
    (void)set;
#endif
}

CHOSEN_AT_LOAD(lines_choose)

/* --- What grows --- */

static Status make_room(Packed *packed, uint64_t size) {
    if (size <= packed->room - packed->used) return OK;
    if (size > UINT64_MAX / 4 - packed->used) return NO_MEMORY;
    const uint64_t least = 2 * (packed->used + size) + 4096;
    const uint64_t room = packed->bytes == NULL && packed->expected > least ? packed->expected : least;
    uint8_t *bytes = realloc(packed->bytes, room);
    if (bytes == NULL) return NO_MEMORY;
    packed->bytes = bytes;
    packed->room = room;
    return OK;
}

static Status more_ends(Packed *packed, uint64_t room) {
    uint64_t *ends = realloc(packed->ends, room * sizeof *ends);
    if (ends == NULL) return NO_MEMORY;
    packed->ends = ends;
    return OK;
}

/* Room for one more row. */
static Status make_row(LineRows *rows) {
    if (rows->count < rows->room) return OK;
    const uint64_t room = 2 * rows->room + 1024;
    uint8_t *tags = realloc(rows->may_have_tags, room);
    if (tags == NULL) return NO_MEMORY;
    rows->may_have_tags = tags;
    uint64_t *numbers = realloc(rows->numbers, room * sizeof *numbers);
    if (numbers == NULL) return NO_MEMORY;
    rows->numbers = numbers;
    if (more_ends(&rows->texts, room) != OK || more_ends(&rows->names, room) != OK ||
        more_ends(&rows->lines, room) != OK)
        return NO_MEMORY;
    rows->room = room;
    return OK;
}

ALWAYS_INLINE void put(Packed *packed, const uint8_t *at, uint64_t size) {
    if (size) memcpy(packed->bytes + packed->used, at, size);
    packed->used += size;
}

Status lines_settle(LineRows *rows) {
    if (rows->block == NULL) return OK;
    const uint64_t size = rows->count ? rows->lines.ends[rows->count - 1] - rows->first : 0;
    if (make_room(&rows->lines, size) != OK) return NO_MEMORY;
    put(&rows->lines, rows->block + rows->first, size);
    for (uint64_t i = 0; i < rows->count; i++) rows->lines.ends[i] -= rows->first;
    rows->block = NULL;
    return OK;
}

/* Have a place for the line of the next row: where it lies, if those before it lie there, in front of it. */
static Status place_line(LineRows *rows, const uint8_t *block, uint64_t at, uint64_t size) {
    if (rows->count == 0) {
        rows->block = block;
        rows->first = at;
    } else if (rows->block != NULL && (rows->block != block || rows->lines.ends[rows->count - 1] != at)) {
        if (lines_settle(rows) != OK) return NO_MEMORY;
    }
    return rows->block == NULL ? make_room(&rows->lines, size) : OK;
}

/* The values that were put are those of a row, whose line ends at line_end. */
ALWAYS_INLINE void end_row(LineRows *rows, uint64_t text_start, uint64_t line_end, uint64_t number) {
    const uint64_t text_size = rows->texts.used - text_start;
    const uint64_t looked_at = text_size < TAGS_WITHIN_BYTES ? text_size : TAGS_WITHIN_BYTES;
    rows->may_have_tags[rows->count] = looked_at && memchr(rows->texts.bytes + text_start, '<', looked_at) != NULL;
    rows->numbers[rows->count] = number;
    rows->texts.ends[rows->count] = rows->texts.used;
    rows->names.ends[rows->count] = rows->names.used;
    rows->lines.ends[rows->count] = line_end;
    rows->count++;
}

Status lines_add(LineRows *rows, const uint8_t *text, uint64_t text_size, const uint8_t *name, uint64_t name_size,
                 const uint8_t *line, uint64_t line_size) {
    const uint64_t text_start = rows->texts.used;
    if (lines_settle(rows) != OK || make_row(rows) != OK || make_room(&rows->texts, text_size) != OK ||
        make_room(&rows->names, name_size) != OK || make_room(&rows->lines, line_size) != OK)
        return NO_MEMORY;
    put(&rows->texts, text, text_size);
    put(&rows->names, name, name_size);
    put(&rows->lines, line, line_size);
    end_row(rows, text_start, rows->lines.used, 0);
    rows->may_have_tags[rows->count - 1] = 0; /* who read it has looked */
    return OK;
}

static void packed_free(Packed *packed) {
    free(packed->bytes);
    free(packed->ends);
}

void lines_free(LineRows *rows) {
    packed_free(&rows->texts);
    packed_free(&rows->names);
    packed_free(&rows->lines);
    free(rows->may_have_tags);
    free(rows->numbers);
    memset(rows, 0, sizeof *rows);
}

/* --- Values. Each function gives where what it looks for ends, NULL for what is not read here. --- */

typedef struct {
    const uint8_t *at; /* without the quotation marks of a string */
    uint64_t size;
    int is_string;
    int has_escapes;
} Value;

typedef struct {
    const LineFields *fields;
    Value text, name;
    int has_text, has_name;
} Found;

ALWAYS_INLINE const uint8_t *skip_space(const uint8_t *at, const uint8_t *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
    return at;
}

ALWAYS_INLINE int is_follower(uint8_t byte) { return (byte & 0xC0) == 0x80; }

/* Behind one character that is not ASCII, of strict UTF-8. */
ALWAYS_INLINE const uint8_t *skip_character(const uint8_t *at, const uint8_t *end) {
    const uint8_t first = *at;
    const uint64_t left = (uint64_t)(end - at);
    if (first < 0xC2) return NULL;
    if (first < 0xE0) return left >= 2 && is_follower(at[1]) ? at + 2 : NULL;
    if (first < 0xF0) {
        if (left < 3 || !is_follower(at[1]) || !is_follower(at[2])) return NULL;
        const unsigned point = (first & 15u) << 6 | (at[1] & 63u);
        return point >= 0x20 && point - (0xD800 >> 6) >= 0x20 ? at + 3 : NULL; /* the top ten of its bits */
    }
    if (left < 4 || !is_follower(at[1]) || !is_follower(at[2]) || !is_follower(at[3])) return NULL;
    const unsigned plane = (first & 15u) << 2 | (at[1] >> 4 & 3u);
    return first < 0xF5 && plane - 1 < 16 ? at + 4 : NULL;
}

/* The number that four hexadecimal digits are; over 0xFFFF for what is none. */
static uint32_t hexadecimal(const uint8_t *at, uint64_t size) {
    uint32_t number = 0;
    if (size < 4) return UINT32_MAX;
    for (int i = 0; i < 4; i++) {
        const uint8_t digit = at[i], letter = digit | 0x20;
        if (digit >= '0' && digit <= '9')
            number = number << 4 | (uint32_t)(digit - '0');
        else if (letter >= 'a' && letter <= 'f')
            number = number << 4 | (uint32_t)(letter - 'a' + 10);
        else
            return UINT32_MAX;
    }
    return number;
}

/* Read what follows a backslash into *point; half of a surrogate pair is not read. */
static const uint8_t *read_escape(const uint8_t *at, const uint8_t *end, uint32_t *point) {
    if (at == end) return NULL;
    switch (*at++) {
    case '"': *point = '"'; return at;
    case '\\': *point = '\\'; return at;
    case '/': *point = '/'; return at;
    case 'b': *point = '\b'; return at;
    case 'f': *point = '\f'; return at;
    case 'n': *point = '\n'; return at;
    case 'r': *point = '\r'; return at;
    case 't': *point = '\t'; return at;
    case 'u': break;
    default: return NULL;
    }
    const uint32_t first = hexadecimal(at, (uint64_t)(end - at));
    if (first > 0xFFFF) return NULL;
    at += 4;
    *point = first;
    if (first - 0xD800 >= 0x800) return at;
    if (first >= 0xDC00 || end - at < 6 || at[0] != '\\' || at[1] != 'u') return NULL;
    const uint32_t second = hexadecimal(at + 2, 4);
    if (second - 0xDC00 >= 0x400) return NULL; /* what is no number too */
    *point = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    return at + 6;
}

/* at: behind the first quotation mark; what is given is behind the last. */
static const uint8_t *read_string(const uint8_t *at, const uint8_t *end, Value *value) {
    value->at = at;
    value->is_string = 1;
    value->has_escapes = 0;
    while (at < end) {
        at += plain_bytes(at, (uint64_t)(end - at));
        while (at < end && *at >= 0x20 && *at < 0x80 && *at != '"' && *at != '\\') at++;
        if (at == end) return NULL;
        if (*at == '"') {
            value->size = (uint64_t)(at - value->at);
            return at + 1;
        }
        if (*at == '\\') {
            uint32_t point;
            value->has_escapes = 1;
            at = read_escape(at + 1, end, &point);
            if (at == NULL) return NULL;
        } else if (*at < 0x20) {
            return NULL;
        } else {
            while (at < end && *at >= 0x80) {
                at = skip_character(at, end);
                if (at == NULL) return NULL;
            }
        }
    }
    return NULL;
}

ALWAYS_INLINE const uint8_t *skip_digits(const uint8_t *at, const uint8_t *end) {
    while (at < end && *at >= '0' && *at <= '9') at++;
    return at;
}

static const uint8_t *skip_number(const uint8_t *at, const uint8_t *end) {
    const uint8_t *first = at, *digits;
    if (at < end && *at == '-') at++;
    digits = at;
    at = skip_digits(at, end);
    if (at == digits || (*digits == '0' && at - digits > 1)) return NULL;
    if (at < end && *at == '.') {
        digits = ++at;
        at = skip_digits(at, end);
        if (at == digits) return NULL;
    }
    if (at < end && (*at | 0x20) == 'e') {
        at++;
        if (at < end && (*at == '+' || *at == '-')) at++;
        digits = at;
        at = skip_digits(at, end);
        if (at == digits) return NULL;
    }
    return at - first <= MAX_NUMBER_BYTES ? at : NULL;
}

ALWAYS_INLINE const uint8_t *skip_word(const uint8_t *at, const uint8_t *end, const char *word, uint64_t size) {
    return (uint64_t)(end - at) >= size && memcmp(at, word, size) == 0 ? at + size : NULL;
}

static const uint8_t *read_object(const uint8_t *at, const uint8_t *end, unsigned depth, Found *found);

static const uint8_t *skip_array(const uint8_t *at, const uint8_t *end, unsigned depth, Found *found);

/* A value that begins at at. depth: of what it is in. */
static const uint8_t *read_value(const uint8_t *at, const uint8_t *end, unsigned depth, Found *found, Value *value) {
    if (at == end) return NULL;
    value->at = at;
    value->is_string = value->has_escapes = 0;
    switch (*at) {
    case '"': return read_string(at + 1, end, value);
    case '{': at = depth < MAX_DEPTH ? read_object(at + 1, end, depth + 1, found) : NULL; break;
    case '[': at = depth < MAX_DEPTH ? skip_array(at + 1, end, depth + 1, found) : NULL; break;
    case 't': at = skip_word(at, end, "true", 4); break;
    case 'f': at = skip_word(at, end, "false", 5); break;
    case 'n': at = skip_word(at, end, "null", 4); break;
    default: at = skip_number(at, end);
    }
    if (at != NULL) value->size = (uint64_t)(at - value->at);
    return at;
}

static const uint8_t *skip_array(const uint8_t *at, const uint8_t *end, unsigned depth, Found *found) {
    Value value;
    at = skip_space(at, end);
    if (at < end && *at == ']') return at + 1;
    for (;;) {
        at = read_value(skip_space(at, end), end, depth, found, &value);
        if (at == NULL) return NULL;
        at = skip_space(at, end);
        if (at == end) return NULL;
        if (*at == ']') return at + 1;
        if (*at++ != ',') return NULL;
    }
}

/* Whether a key with escapes, which was read, says name. */
static int says(const Value *key, const uint8_t *name, uint64_t size) {
    const uint8_t *at = key->at, *end = at + key->size;
    while (at < end) {
        uint8_t bytes[4];
        uint32_t point;
        uint64_t count = 1;
        if (*at == '\\') {
            at = read_escape(at + 1, end, &point);
            count = utf8_write(point, bytes);
        } else {
            bytes[0] = *at++;
        }
        if (size < count || memcmp(bytes, name, count) != 0) return 0;
        name += count;
        size -= count;
    }
    return size == 0;
}

ALWAYS_INLINE int is_called(const Value *key, const uint8_t *name, uint64_t size) {
    if (key->has_escapes) return says(key, name, size);
    return key->size == size && memcmp(key->at, name, size) == 0;
}

/* at: behind its brace. That of the line, at depth 1, leaves its fields in found. One that has such a field twice, at
   any depth, is not read. */
static const uint8_t *read_object(const uint8_t *at, const uint8_t *end, unsigned depth, Found *found) {
    const LineFields *fields = found->fields;
    int has_text = 0, has_name = 0;
    Value key, value;
    at = skip_space(at, end);
    if (at < end && *at == '}') return at + 1;
    for (;;) {
        at = skip_space(at, end);
        if (at == end || *at != '"') return NULL;
        at = read_string(at + 1, end, &key);
        if (at == NULL) return NULL;
        at = skip_space(at, end);
        if (at == end || *at != ':') return NULL;
        at = read_value(skip_space(at + 1, end), end, depth, found, &value);
        if (at == NULL) return NULL;
        if (is_called(&key, fields->text, fields->text_size)) {
            if (has_text++) return NULL;
            if (depth == 1) found->text = value, found->has_text = 1;
        }
        if (fields->has_name && is_called(&key, fields->name, fields->name_size)) {
            if (has_name++) return NULL;
            if (depth == 1) found->name = value, found->has_name = 1;
        }
        at = skip_space(at, end);
        if (at == end) return NULL;
        if (*at == '}') return at + 1;
        if (*at++ != ',') return NULL;
    }
}

/* --- Rows --- */

/* What a string says, which is no longer than it is written; it was read, so its escapes are right. */
static void put_string(Packed *packed, const Value *value) {
    const uint8_t *at = value->at, *end = at + value->size;
    if (!value->has_escapes) {
        put(packed, at, value->size);
        return;
    }
    while (at < end) {
        const uint8_t *next = memchr(at, '\\', (size_t)(end - at));
        const uint8_t *stop = next == NULL ? end : next;
        uint32_t point = 0;
        put(packed, at, (uint64_t)(stop - at));
        if (next == NULL) return;
        at = read_escape(next + 1, end, &point);
        packed->used += utf8_write(point, packed->bytes + packed->used);
    }
}

/* Whether a value is a name: a string, or a whole number of few digits. */
static int is_name(const Value *value) {
    if (value->is_string) return value->size > 0 && value->size <= MAX_NAME_BYTES;
    const int is_negative = value->at[0] == '-';
    if (value->size > MAX_INTEGER_BYTES || (is_negative && value->at[1] == '0')) return 0;
    for (uint64_t i = (uint64_t)is_negative; i < value->size; i++)
        if (value->at[i] < '0' || value->at[i] > '9') return 0;
    return 1;
}

static void put_number(Packed *packed, uint64_t number) {
    uint8_t digits[20];
    unsigned first = sizeof digits;
    do digits[--first] = (uint8_t)('0' + number % 10);
    while ((number /= 10) != 0);
    put(packed, digits + first, sizeof digits - first);
}

#define MOST_DIGITS 20

/* Append the row of a line at a place of a block, which has size bytes; *is_read: whether it is one. */
static Status read_line(const LineFields *fields, const uint8_t *block, uint64_t place, uint64_t size, uint64_t number,
                        LineRows *rows, int *is_read) {
    const uint8_t *line = block + place, *end = line + size, *at = skip_space(line, end);
    const uint64_t text_start = rows->texts.used;
    Found found = {.fields = fields};
    *is_read = 0;
    if (at == end || *at != '{') return OK;
    at = read_object(at + 1, end, 1, &found);
    if (at == NULL || skip_space(at, end) != end) return OK;
    if (!found.has_text || !found.text.is_string) return OK;
    if (fields->has_name && (!found.has_name || !is_name(&found.name))) return OK;
    const uint64_t name_room = fields->has_name ? found.name.size : fields->source_size + 1 + MOST_DIGITS;
    if (make_row(rows) != OK || make_room(&rows->texts, found.text.size) != OK ||
        make_room(&rows->names, name_room) != OK || place_line(rows, block, place, size) != OK)
        return NO_MEMORY;
    put_string(&rows->texts, &found.text);
    if (fields->has_name) {
        put_string(&rows->names, &found.name);
    } else {
        put(&rows->names, fields->source, fields->source_size);
        put(&rows->names, (const uint8_t *)":", 1);
        put_number(&rows->names, number);
    }
    if (rows->block == NULL) put(&rows->lines, line, size);
    end_row(rows, text_start, rows->block == NULL ? rows->lines.used : place + size, number);
    *is_read = 1;
    return OK;
}

/* As bytes.strip() has it. */
static int is_blank(const uint8_t *at, uint64_t size) {
    for (uint64_t i = 0; i < size; i++)
        if (at[i] != ' ' && (at[i] < '\t' || at[i] > '\r')) return 0;
    return 1;
}

Status lines_read(const LineFields *fields, const uint8_t *block, uint64_t size, int is_last, LinesPlace *place,
                  LineRows *rows) {
    while (place->at < size) {
        const uint8_t *line = block + place->at;
        const uint64_t left = size - place->at;
        const uint8_t *newline = memchr(line, '\n', left);
        int is_read;
        if (newline == NULL && !is_last) {
            place->stopped = LINES_CUT;
            return OK;
        }
        const uint64_t line_size = newline == NULL ? left : (uint64_t)(newline - line) + 1;
        const Status status = read_line(fields, block, place->at, line_size, place->number + 1, rows, &is_read);
        if (status != OK) return status;
        if (!is_read) {
            if (!is_blank(line, line_size)) {
                place->stopped = LINES_OTHER;
                return OK;
            }
            place->blank += (uint64_t)place->is_begun;
        } else {
            place->is_begun = 1;
        }
        place->number++;
        place->at += line_size;
    }
    place->stopped = LINES_END;
    return OK;
}
