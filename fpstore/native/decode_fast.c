/* Decoding with AVX2 and BMI2. */
#include "decode.h"

#include "fast.h"

#include "decode_body.h"
