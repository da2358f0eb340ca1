/* Hashes of what is long with AVX-512. */
#include "text_hash.h"

#include "wide.h"

#include "text_hash_body.h"
