/* Searching with AVX2 and BMI2. */
#include "search.h"

#include "fast.h"

#include "search_body.h"
