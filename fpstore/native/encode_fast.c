/* Encoding with AVX2 and BMI2. */
#include "encode.h"

#include "fast.h"

#include "encode_body.h"
