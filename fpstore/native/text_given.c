/* From the units of a str to UTF-8. */
#include "text_given.h"

#include "text_unicode.h"

#define UNITS_AT_ONCE 16

ALWAYS_INLINE uint32_t unit_at(const void *data, unsigned width, size_t index) {
    if (width == 1) return ((const uint8_t *)data)[index];
    if (width == 2) return ((const uint16_t *)data)[index];
    return ((const uint32_t *)data)[index];
}

/* Write the UTF-8 of a str, with U+FFFD for a lone surrogate; how many bytes. */
ALWAYS_INLINE size_t write_units(const void *data, unsigned width, size_t size, uint8_t *out) {
    const uint8_t *first = out;
    for (size_t i = 0; i < size;) {
        const size_t some = size - i < UNITS_AT_ONCE ? size - i : UNITS_AT_ONCE;
        uint32_t any = some < UNITS_AT_ONCE ? 0x80 : 0;
        if (some == UNITS_AT_ONCE)
            for (size_t j = 0; j < UNITS_AT_ONCE; j++) any |= unit_at(data, width, i + j);
        if (any < 0x80) {
            for (size_t j = 0; j < UNITS_AT_ONCE; j++) out[j] = (uint8_t)unit_at(data, width, i + j);
            out += UNITS_AT_ONCE;
        } else {
            for (size_t j = 0; j < some; j++) {
                const uint32_t point = unit_at(data, width, i + j);
                out += utf8_write(point - 0xD800 < 0x800 ? REPLACEMENT : point, out);
            }
        }
        i += some;
    }
    return (size_t)(out - first);
}

Status given_utf8(const Given *given, Utf8 *room, const uint8_t **text, size_t *size) {
    *text = given->data;
    *size = given->size;
    if (given->width == 0) return OK;
    const size_t most = given->size * (given->width < 3 ? given->width + 1 : 4);
    if (most > room->room) {
        free(room->bytes);
        room->room = 0;
        room->bytes = malloc(most);
        if (room->bytes == NULL) return NO_MEMORY;
        room->room = most;
    }
    *text = room->bytes;
    *size = given->width == 1   ? write_units(given->data, 1, given->size, room->bytes)
            : given->width == 2 ? write_units(given->data, 2, given->size, room->bytes)
                                : write_units(given->data, 4, given->size, room->bytes);
    return OK;
}
