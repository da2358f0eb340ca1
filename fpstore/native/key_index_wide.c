/* Keys in memory with AVX-512. */
#include "key_index.h"

#include "wide.h"

#include "key_index_body.h"
