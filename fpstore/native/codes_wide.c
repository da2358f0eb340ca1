/* Searching wide codes, with AVX-512. */
#include "codes.h"

#include "wide.h"

#include "codes_body.h"
