/* Keys in memory with AVX2. */
#include "key_index.h"

#include "fast.h"

#include "key_index_body.h"
