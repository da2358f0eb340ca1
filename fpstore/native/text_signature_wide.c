/* Signatures, with AVX-512. */
#include "text_signature.h"

#include "wide.h"

#include "text_signature_body.h"
