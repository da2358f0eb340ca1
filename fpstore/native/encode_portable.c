/* Encoding, for any machine. */
#include "encode.h"

#include "portable.h"

#include "encode_body.h"
