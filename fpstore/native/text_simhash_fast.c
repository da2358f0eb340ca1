/* Texts with AVX2 and BMI2. */
#include "text_simhash.h"

#include "fast.h"

#include "text_simhash_body.h"
