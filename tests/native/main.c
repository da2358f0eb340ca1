/* The kernels of every instruction set that this machine has, beside plain twins, on drawn and on damaged tables.

       test_kernels ROUNDS SEED */
#include "harness.h"

const char *test_name;
uint64_t test_seed, random_state;
InstructionSet machine_set;

static void run(const char *name, void (*test)(void), uint64_t rounds, uint64_t seed) {
    test_name = name;
    for (uint64_t round = 0; round < rounds; round++) {
        random_state = test_seed = seed + round;
        test();
    }
}

int main(int count, char **words) {
    if (count != 3) return 2;
    const uint64_t rounds = strtoull(words[1], NULL, 10), seed = strtoull(words[2], NULL, 10);
    machine_set = fpstore_instruction_set();
    run("decode", test_decode, rounds, seed);
    run("search", test_search, rounds, seed);
    run("sort", test_sort, rounds, seed);
    run("pairs", test_pairs, rounds, seed);
    run("names", test_names, rounds, seed);
    run("json lines", test_json_lines, rounds, seed);
    run("distinct", test_distinct, rounds, seed);
    run("listed", test_listed, rounds, seed);
    run("interpreter", test_interpreter, rounds, seed);
    printf("sets 0..%d, %llu rounds\n", (int)machine_set, (unsigned long long)rounds);
    return 0;
}
