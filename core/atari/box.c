#define ATARI_INLINE static inline __attribute__((always_inline))

#include "box.h"
#include "machine.h"

struct atari_rom paceline_atari_rom(const uint8_t *image, uint32_t size, uint32_t scheme)
{
	return atari_rom_of(image, size, scheme);
}

void paceline_atari_reset(struct atari *m, struct atari_rom rom, uint8_t timer) { atari_reset(m, &rom, timer); }
void paceline_atari_frame(struct atari *m, struct atari_rom rom) { atari_frame(m, &rom); }
