/* Included before a *_body.h by the file that compiles it for FAST_FEATURES and WIDE_FEATURES. */
#if !defined(__AVX512VBMI2__) || !defined(__AVX512VPOPCNTDQ__) || !defined(__LZCNT__)
#error "this file is compiled without the flags of its name, see setup.py"
#endif
#include <immintrin.h>
#define KERNEL(name) name##_wide
#define KERNEL_IS_FAST
#define KERNEL_IS_WIDE
