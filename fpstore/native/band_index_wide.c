/* Keys of bands with AVX-512. */
#include "band_index.h"

#include "wide.h"

#include "band_index_body.h"
