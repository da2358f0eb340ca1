/* Texts as Python holds them, and their UTF-8. */
#ifndef FPSTORE_TEXT_GIVEN_H
#define FPSTORE_TEXT_GIVEN_H

#include "platform.h"

/* size units of width bytes: UTF-8 where the width is 0, else the code points of a str, of 1, 2 or 4 bytes each. */
typedef struct {
    const void *data;
    size_t size;
    unsigned width;
} Given;

typedef struct {
    uint8_t *bytes;
    size_t room;
} Utf8;

/* The UTF-8 of a text as text and size: its own, or that written to room. */
Status given_utf8(const Given *given, Utf8 *room, const uint8_t **text, size_t *size);

#endif
