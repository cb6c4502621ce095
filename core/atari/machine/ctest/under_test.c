/*
 * The machine as an object of its own. The tests are compiled once and linked with it
 * as the compiler builds it for each vector unit, with either dispatch, and under the
 * sanitizers; under_test.h says what they call.
 */
#define ATARI_FN
#ifdef AS_THE_LIBRARY /* under the sanitizers that would take the compiler a minute */
#define ATARI_INLINE static inline __attribute__((always_inline))
#define ATARI_APART static __attribute__((noinline))
#endif

#include "../check.h"

const int32_t most_cycles = ATARI_MOST_CYCLES;
