/* The runs of ASCII among the tokens. Included once for each instruction set; see platform.h. */

/* Where the ASCII that begins at `at` ends. */
ALWAYS_INLINE const uint8_t *KERNEL(ascii_end)(const uint8_t *at, const uint8_t *stop) {
    while (stop - at >= 8 && (load64(at) & 0x8080808080808080u) == 0) at += 8;
    while (at < stop && *at < 0x80) at++;
    return at;
}

/* Append what lies in from..to, all of it ASCII that nothing joins. */
static void KERNEL(put_ascii)(Tokens *tokens, const TokenSteps *steps, const uint8_t *from, const uint8_t *to) {
    const unsigned fold = steps->flags & FOLD_CHANGES ? 0x20 : 0;
    for (; from < to; from++) {
        const unsigned is_upper = (unsigned)(*from - 'A') < 26;
        put_point(tokens, steps->kind, *from | (is_upper ? fold : 0));
    }
}

/* Read the document from *at to stop, or a bit over. Nothing before *at joins what is there. */
static Status KERNEL(put_piece)(Tokens *tokens, const TokenSteps *steps, const uint8_t **at, const uint8_t *stop,
                                const uint8_t *end) {
    const size_t size = (size_t)(stop - *at);
    if (tokens_reserve(tokens, 3 * size, 2 * size) != OK) return NO_MEMORY;
    tokens->starts[0] = 0;
    while (*at < stop) {
        const uint8_t *run = KERNEL(ascii_end)(*at, stop);
        const int joined = joins_at(steps, run, end);
        if (joined && run > *at) run--;
        KERNEL(put_ascii)(tokens, steps, *at, run);
        *at = run;
        if (run < stop && put_others(tokens, steps, at, stop, end) != OK) return NO_MEMORY;
    }
    return OK;
}
