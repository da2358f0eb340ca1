/* Signatures, with AVX2 and BMI2. */
#include "text_signature.h"

#include "fast.h"

#include "text_signature_body.h"
