#if defined(__x86_64__)

#pragma GCC target("avx2,bmi,bmi2")

/* Loops over a mask's three words must not become vectors: a wide load after narrow stores is slow (machine/mask.h). */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-vectorize")
#endif

#define ATARI_INLINE static inline __attribute__((always_inline))
#define ATARI_NOINLINE static __attribute__((noinline))

#include "native.h"
#include "machine.h"

void paceline_atari_frame_avx2(struct atari *m, const struct atari_rom *rom) { atari_frame(m, rom); }

#endif
