#if defined(__x86_64__)

#pragma GCC target("avx2,bmi,bmi2")

#define ATARI_INLINE static inline __attribute__((always_inline))

#include "box.h"
#include "machine.h"

void paceline_atari_frame_avx2(struct atari *m, const struct atari_rom *rom) { atari_frame(m, rom); }

#endif
