/*
 * The machine as a separate object. The tests are compiled once and linked with this object in
 * every build: each vector unit, both dispatches, sanitizers. under_test.h declares the functions
 * that the tests call.
 */
#define ATARI_FN
#ifdef AS_THE_LIBRARY /* forced inlining compiles too slowly under sanitizers */
#define ATARI_INLINE static inline __attribute__((always_inline))
#define ATARI_NOINLINE static __attribute__((noinline))
#endif

#include "../check.h"

const int32_t max_cycles = ATARI_MAX_CYCLES;
