/* Scanning, for any machine. */
#include "scan.h"

#include "portable.h"

#include "scan_body.h"
