/* Joins with AVX-512. */
#include "pairs.h"

#include "wide.h"

#include "pairs_body.h"
