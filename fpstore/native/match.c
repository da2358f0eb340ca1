#include "match.h"

int match_order(const void *a, const void *b) {
    const Match *left = a, *right = b;
    if (left->query != right->query) return left->query < right->query ? -1 : 1;
    if (left->distance != right->distance) return left->distance < right->distance ? -1 : 1;
    return left->fingerprint < right->fingerprint ? -1 : left->fingerprint > right->fingerprint;
}
