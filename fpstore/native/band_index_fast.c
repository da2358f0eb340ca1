/* Keys of bands with AVX2. */
#include "band_index.h"

#include "fast.h"

#include "band_index_body.h"
