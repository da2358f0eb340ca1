/* Included before a *_body.h by the file that compiles it for FAST_FEATURES. */
#if !defined(__AVX2__) || !defined(__BMI2__) || !defined(__LZCNT__)
#error "this file is compiled without the flags of its name, see setup.py"
#endif
#include <immintrin.h>
#define KERNEL(name) name##_fast
#define KERNEL_IS_FAST
