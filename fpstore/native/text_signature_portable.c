/* Signatures, for any machine. */
#include "text_signature.h"

#include "portable.h"

#include "text_signature_body.h"
