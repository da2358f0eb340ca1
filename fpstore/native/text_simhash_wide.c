/* Texts with AVX-512. */
#include "text_simhash.h"

#include "wide.h"

#include "text_simhash_body.h"
