/* What Go calls of the machine. */
#ifndef PACELINE_ATARI_BOX_H
#define PACELINE_ATARI_BOX_H

#include "state.h"

#pragma GCC visibility push(hidden)

struct atari_rom paceline_atari_rom(const uint8_t *image, uint32_t size, uint32_t scheme);
void paceline_atari_reset(struct atari *m, struct atari_rom rom, uint8_t timer);
void paceline_atari_frame(struct atari *m, struct atari_rom rom);

#pragma GCC visibility pop

#endif
