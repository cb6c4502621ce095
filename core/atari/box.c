/* Loops over a mask's three words are not to become vectors: what was just written as words would be read as one. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-vectorize")
#endif

#define ATARI_INLINE static inline __attribute__((always_inline))
#define ATARI_APART static __attribute__((noinline))

#include "box.h"
#include "check.h"
#include "machine.h"

#include <stddef.h>

struct atari_rom paceline_atari_rom(const uint8_t *image, uint32_t size, uint32_t scheme, uint32_t *code) {
  return atari_rom_of(image, size, scheme, code);
}

void paceline_atari_reset(struct atari *m, struct atari_rom rom, uint8_t timer) { atari_reset(m, &rom, timer); }

static void frame_generic(struct atari *m, const struct atari_rom *rom) { atari_frame(m, rom); }

static void (*frame)(struct atari *m, const struct atari_rom *rom) = frame_generic;

void paceline_atari_use(enum paceline_atari_units units) {
  frame = frame_generic;
#if defined(__x86_64__)
  if (units == PACELINE_ATARI_AVX2) frame = paceline_atari_frame_avx2;
  if (units == PACELINE_ATARI_AVX512) frame = paceline_atari_frame_avx512;
#endif
}

void paceline_atari_frame(struct atari *m, struct atari_rom rom) { frame(m, &rom); }

/*
 * A frame that is run with `draw` 0 costs less and leaves its image as it was. It can
 * be drawn later, from the state in which it began: a machine without its images.
 */
enum { ATARI_STATE = offsetof(struct atari, image) };

/* Whether the image has rows left that this frame did not reach, which then show an older one. */
static int atari_short(const struct atari *m) { return m->unfinished || m->tia.drawn < m->tia.window_end; }

static void atari_copy_state(uint8_t *to, const uint8_t *from) {
  for (uint32_t i = 0; i < ATARI_STATE; i += 8) copy_word(to + i, from + i);
}

_Static_assert(ATARI_STATE <= 1024 && ATARI_STATE % 8 == 0, "a state fits struct atari_waiting");

static void draw_from(struct atari *m, struct atari_rom rom, const uint8_t *began) {
  atari_copy_state((uint8_t *)m, began);
  m->draw = 1;
  paceline_atari_frame(m, rom);
}

/* Draws an earlier frame. */
static void draw_again(struct atari *m, struct atari_rom rom, const uint8_t *began) {
  uint8_t now[ATARI_STATE];
  atari_copy_state(now, (const uint8_t *)m);
  draw_from(m, rom, began);
  atari_copy_state((uint8_t *)m, now);
}

void paceline_atari_settle(struct atari *m, struct atari_rom rom, struct atari_waiting *w) {
  for (int i = 0; i < 2; i++)
    if (w->waits[i]) {
      w->waits[i] = 0;
      draw_again(m, rom, w->began[i]);
    }
}

void paceline_atari_frame_or_not(struct atari *m, struct atari_rom rom, struct atari_waiting *w, int draw) {
  uint8_t began[ATARI_STATE];
  const int buffer = m->unfinished ? m->tia.buffer : m->tia.buffer ^ 1;
  atari_copy_state(began, (const uint8_t *)m);
  m->draw = (uint8_t)draw;
  paceline_atari_frame(m, rom);
  m->draw = 1;
  if (!atari_short(m)) {
    w->waits[buffer] = !draw;
    if (!draw) atari_copy_state(w->began[buffer], began);
    return;
  }
  const int older = w->waits[buffer];
  if (older) {
    w->waits[buffer] = 0;
    draw_again(m, rom, w->began[buffer]);
  }
  if (older || !draw)
    draw_from(m, rom, began); /* and goes on from there: what is drawn of an unfinished line is part of the state */
}

int paceline_atari_accept(const struct atari *m, struct atari_rom rom) { return atari_accept(m, &rom); }
