/* Searching wide codes, with AVX2. */
#include "codes.h"

#include "fast.h"

#include "codes_body.h"
