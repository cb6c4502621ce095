/*
 * The machine's functions that Go calls. native.c, native_avx2.c and native_avx512.c compile a
 * frame for one set of vector units each. All return the same bytes.
 */
#ifndef PACELINE_ATARI_NATIVE_H
#define PACELINE_ATARI_NATIVE_H

#include "machine/state.h"

#pragma GCC visibility push(hidden)

struct atari_rom paceline_atari_rom(const uint8_t *image, uint32_t size, uint32_t scheme, uint32_t *code);
void paceline_atari_reset(struct atari *m, struct atari_rom rom, uint8_t timer);

/* The vector units that a frame is compiled for. */
enum paceline_atari_units { PACELINE_ATARI_GENERIC, PACELINE_ATARI_AVX2, PACELINE_ATARI_AVX512 };

/*
 * Sets the vector units that later frames use. The default is GENERIC. AVX2 needs a processor with
 * AVX2, BMI1 and BMI2; AVX512 also needs AVX-512 F, BW, DQ and VL. No frame may be running.
 */
void paceline_atari_use(enum paceline_atari_units units);

void paceline_atari_frame(struct atari *m, struct atari_rom rom);

/* For each of the machine's two images: whether it is still to be drawn, and the start of its frame. */
struct atari_pending {
  uint8_t pending[2];
  uint8_t start[2][1024]; /* the first bytes of a struct atari */
};

/*
 * Runs a frame; draw 0 leaves its image to paceline_atari_draw_pending. If the frame does not reach
 * the image's last rows, the function draws the frame and an older pending frame at once.
 */
void paceline_atari_frame_lazy(struct atari *m, struct atari_rom rom, struct atari_pending *p, int draw);

/* Whether the bytes can be a machine's state. Otherwise the caller must not run a frame from them. */
int paceline_atari_accept(const struct atari *m, struct atari_rom rom);

/* Draws the pending images. */
void paceline_atari_draw_pending(struct atari *m, struct atari_rom rom, struct atari_pending *p);

void paceline_atari_frame_avx2(struct atari *m, const struct atari_rom *rom);
void paceline_atari_frame_avx512(struct atari *m, const struct atari_rom *rom);

#pragma GCC visibility pop

#endif
