/* Keys of bands for any machine. */
#include "band_index.h"

#include "portable.h"

#include "band_index_body.h"
