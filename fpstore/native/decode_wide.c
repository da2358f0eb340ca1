/* Decoding with AVX-512. */
#include "decode.h"

#include "wide.h"

#include "decode_body.h"
