/*
 * What Go calls of the machine. A frame is compiled once for each kind of processor
 * (box.c, box_avx2.c, box_avx512.c); all give the same bytes.
 */
#ifndef PACELINE_ATARI_BOX_H
#define PACELINE_ATARI_BOX_H

#include "machine/state.h"

#pragma GCC visibility push(hidden)

struct atari_rom paceline_atari_rom(const uint8_t *image, uint32_t size, uint32_t scheme, uint32_t *code);
void paceline_atari_reset(struct atari *m, struct atari_rom rom, uint8_t timer);

/* The kinds of processor that a frame is compiled for. */
enum paceline_atari_units { PACELINE_ATARI_GENERIC, PACELINE_ATARI_AVX2, PACELINE_ATARI_AVX512 };

/*
 * Says which of them every later frame is for: GENERIC where nothing is said. The
 * processor must have AVX2, BMI1 and BMI2 for AVX2, and AVX-512 F, BW, DQ and VL beside
 * them for AVX512. No frame may be running.
 */
void paceline_atari_use(enum paceline_atari_units units);

void paceline_atari_frame(struct atari *m, struct atari_rom rom);

/* Images that wait to be drawn, one for each of the machine's two. */
struct atari_waiting {
  uint8_t waits[2];
  uint8_t began[2][1024]; /* the first bytes of a struct atari */
};

/*
 * Runs a frame, drawing it or not. Where an older image that was not drawn would
 * show beside it, both are drawn.
 */
void paceline_atari_frame_or_not(struct atari *m, struct atari_rom rom, struct atari_waiting *w, int draw);

/* Whether the bytes could be a machine's state; no frame of one that is refused may be run. */
int paceline_atari_accept(const struct atari *m, struct atari_rom rom);

/* Draws what waits. */
void paceline_atari_settle(struct atari *m, struct atari_rom rom, struct atari_waiting *w);

void paceline_atari_frame_avx2(struct atari *m, const struct atari_rom *rom);
void paceline_atari_frame_avx512(struct atari *m, const struct atari_rom *rom);

#pragma GCC visibility pop

#endif
