/* Hashes of what is long with AVX2 and BMI2. */
#include "text_hash.h"

#include "fast.h"

#include "text_hash_body.h"
