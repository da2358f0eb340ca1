/* Texts, for any machine. */
#include "text_simhash.h"

#include "portable.h"

#include "text_simhash_body.h"
