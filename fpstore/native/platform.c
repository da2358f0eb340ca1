/* Which instructions this process may use: what the processor has, the system saves, and the environment allows. */
#include "platform.h"

#include "instruction_sets.h"

#define NAME(name, leaf, subleaf, output, bit) name,
#if FPSTORE_ARM64
static const char *const fast_features[] = {ARM64_FEATURE, NULL}, *const wide_features[] = {NULL};
#else
static const char *const fast_features[] = {FAST_FEATURES(NAME) NULL}, *const wide_features[] = {WIDE_FEATURES(NAME)
                                                                                                     NULL};
#endif

const char *const *instruction_set_features(InstructionSet set) {
    static const char *const none[] = {NULL};
    return set == SET_WIDE ? wide_features : set == SET_FAST ? fast_features : none;
}

#if FPSTORE_X86
#include <cpuid.h>

typedef enum { EAX, EBX, ECX, EDX } Output;

typedef struct {
    unsigned leaf, subleaf;
    Output output;
    unsigned bit;
} Feature;

#define ASKED(name, leaf, subleaf, output, bit) {leaf, subleaf, output, bit},
static const Feature fast_asked[] = {FAST_FEATURES(ASKED)}, wide_asked[] = {WIDE_FEATURES(ASKED)};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const Feature osxsave = {1, 0, ECX, 27}; /* the system says what it saves */
#define SAVED_FAST 0x06u                        /* XMM, YMM */
#define SAVED_WIDE 0xE6u                        /* and the masks, and both halves of ZMM */

static int cpu_has(const Feature *feature) {
    unsigned out[4] = {0};
    if (!__get_cpuid_count(feature->leaf, feature->subleaf, &out[EAX], &out[EBX], &out[ECX], &out[EDX])) return 0;
    return (out[feature->output] >> feature->bit) & 1;
}

static int cpu_has_all(const Feature *features, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!cpu_has(&features[i])) return 0;
    return 1;
}

/* The registers that the system saves when it turns to another process. */
static unsigned saved_registers(void) {
    unsigned low, high;
    if (!cpu_has(&osxsave)) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static const Feature avx512_fp16 = {7, 0, EDX, 23};

/* Of Intel's processors that the wide set is for, those without AVX512-FP16 are guarded against what a gather gave
   away: it takes several times as long there, as on AMD's (Zen 4). */
static int has_fast_gathers(void) { return processor_gains_by_asking() && cpu_has(&avx512_fp16); }

int processor_gains_by_asking(void) {
    unsigned leaf, maker[3];
    return __get_cpuid(0, &leaf, &maker[0], &maker[1], &maker[2]) && maker[0] == signature_INTEL_ebx;
}

static InstructionSet machine_set(void) {
    const unsigned saved = saved_registers();
    if ((saved & SAVED_FAST) != SAVED_FAST || !cpu_has_all(fast_asked, COUNT(fast_asked))) return SET_PORTABLE;
    if ((saved & SAVED_WIDE) != SAVED_WIDE || !cpu_has_all(wide_asked, COUNT(wide_asked))) return SET_FAST;
    return SET_WIDE;
}
#elif FPSTORE_ARM64
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif

static InstructionSet machine_set(void) { return getauxval(AT_HWCAP) & HWCAP_CRC32 ? SET_FAST : SET_PORTABLE; }
#else
static InstructionSet machine_set(void) { return SET_PORTABLE; }
#endif

#if !FPSTORE_X86
int processor_gains_by_asking(void) { return 0; }
static int has_fast_gathers(void) { return 0; }
#endif

static int environment_says(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
}

/* The sanitizer of addresses sees nothing of what a gather reads. */
#if defined(__SANITIZE_ADDRESS__)
enum { SEES_GATHERS = 0 };
#else
enum { SEES_GATHERS = 1 };
#endif

int processor_gathers(void) {
    const char *value = getenv("FPSTORE_GATHERS");
    return value != NULL && value[0] != '\0' ? strcmp(value, "0") != 0 : SEES_GATHERS && has_fast_gathers();
}

InstructionSet fpstore_instruction_set(void) {
    static int known = -1; /* written while the library is loaded, before there are threads of ours */
    if (known < 0) {
        InstructionSet set = environment_says("FPSTORE_PORTABLE") ? SET_PORTABLE : machine_set();
        known = set == SET_WIDE && environment_says("FPSTORE_NARROW") ? SET_FAST : set;
    }
    return (InstructionSet)known;
}
