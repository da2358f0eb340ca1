/* Decoding, for any machine. */
#include "decode.h"

#include "portable.h"

#include "decode_body.h"
