/* Loops over a mask's three words are not to become vectors: what was just written as words would be read as one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-vectorize")
#endif

#define ATARI_INLINE static inline __attribute__((always_inline))

#include "box.h"
#include "machine.h"

struct atari_rom paceline_atari_rom(const uint8_t *image, uint32_t size, uint32_t scheme)
{
	return atari_rom_of(image, size, scheme);
}

void paceline_atari_reset(struct atari *m, struct atari_rom rom, uint8_t timer) { atari_reset(m, &rom, timer); }

void paceline_atari_frame(struct atari *m, struct atari_rom rom)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2")) {
		paceline_atari_frame_avx512(m, &rom);
		return;
	}
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) {
		paceline_atari_frame_avx2(m, &rom);
		return;
	}
#endif
	atari_frame(m, &rom);
}
