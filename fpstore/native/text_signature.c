/* How a signature begins and ends, and the choice of how hashes are taken in. */
#include "text_signature.h"

typedef struct {
    void (*take)(Signature *, const Signer *, const uint64_t *, size_t);
    void (*finish)(Signature *, const Signer *); /* of BINNED: bring in what waits, and fill the empty bins */
} Kernels;

#define KERNELS_OF(set) \
    (Kernels) { signature_take_##set, signature_finish_##set }

static Kernels kernels = {signature_take_portable, signature_finish_portable};

KERNELS_CHOSEN_AT_LOAD(signature_choose)

void signature_begin(Signature *signature, const Signer *signer) {
    const size_t room = padded_values(signer);
    memset(&signature->least, 0xFF, room * value_bytes(signer));
    /* The schemes of 64 bits that are folded to 32 have no greater value. */
    if (signer->kind == LEGACY)
        for (size_t i = 0; i < room; i++) signature->least.wide_values[i] = UINT32_MAX;
    signature->waiting = 0;
    signature->has_spare = signature->is_full = 0;
}

void signature_take(Signature *signature, const Signer *signer, const uint64_t *hashes, size_t count) {
    kernels.take(signature, signer, hashes, count);
}

void signature_end(Signature *signature, const Signer *signer, void *values) {
    if (signer->kind == BINNED) kernels.finish(signature, signer);
    memcpy(values, &signature->least, signer->values * value_bytes(signer));
}

void signatures_of(Signature *signature, const Signer *signer, const uint64_t *hashes, const uint64_t *ends,
                   size_t count, void *values) {
    uint64_t first = 0;
    for (size_t i = 0; i < count; first = ends[i++]) {
        signature_begin(signature, signer);
        if (ends[i] > first) signature_take(signature, signer, hashes + first, ends[i] - first);
        signature_end(signature, signer, (uint8_t *)values + i * signer->values * value_bytes(signer));
    }
}
