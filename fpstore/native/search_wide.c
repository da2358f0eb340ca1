/* Searching with AVX-512. */
#include "search.h"

#include "wide.h"

#include "search_body.h"
