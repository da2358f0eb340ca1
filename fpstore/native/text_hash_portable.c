/* Hashes of what is long, for any machine. */
#include "text_hash.h"

#include "portable.h"

#include "text_hash_body.h"
