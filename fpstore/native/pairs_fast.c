/* Joins with AVX2. */
#include "pairs.h"

#include "fast.h"

#include "pairs_body.h"
