/* Loops over a mask's three words must not become vectors: a wide load after narrow stores is slow (machine/mask.h). */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-vectorize")
#endif

#define ATARI_INLINE static inline __attribute__((always_inline))
#define ATARI_NOINLINE static __attribute__((noinline))

#include "native.h"
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
 * A frame that runs with `draw` 0 costs less and leaves its image unchanged. The frame can be drawn
 * later from its start state. A start state is a struct atari without the images.
 */
enum { ATARI_STATE = offsetof(struct atari, image) };

/* Whether the frame did not reach the image's last rows, which then show an older frame. */
static int image_is_partial(const struct atari *m) { return m->unfinished || m->tia.drawn < m->tia.window_end; }

static void atari_copy_state(uint8_t *to, const uint8_t *from) {
  for (uint32_t i = 0; i < ATARI_STATE; i += 8) copy_word(to + i, from + i);
}

_Static_assert(ATARI_STATE <= 1024 && ATARI_STATE % 8 == 0, "a start state fits struct atari_pending");

static void draw_from(struct atari *m, struct atari_rom rom, const uint8_t *start) {
  atari_copy_state((uint8_t *)m, start);
  m->draw = 1;
  paceline_atari_frame(m, rom);
}

/* Draws an earlier frame and keeps the machine's current state. */
static void draw_earlier(struct atari *m, struct atari_rom rom, const uint8_t *start) {
  uint8_t now[ATARI_STATE];
  atari_copy_state(now, (const uint8_t *)m);
  draw_from(m, rom, start);
  atari_copy_state((uint8_t *)m, now);
}

void paceline_atari_draw_pending(struct atari *m, struct atari_rom rom, struct atari_pending *p) {
  for (int i = 0; i < 2; i++)
    if (p->pending[i]) {
      p->pending[i] = 0;
      draw_earlier(m, rom, p->start[i]);
    }
}

void paceline_atari_frame_lazy(struct atari *m, struct atari_rom rom, struct atari_pending *p, int draw) {
  uint8_t start[ATARI_STATE];
  const int buffer = m->unfinished ? m->tia.buffer : m->tia.buffer ^ 1;
  atari_copy_state(start, (const uint8_t *)m);
  m->draw = (uint8_t)draw;
  paceline_atari_frame(m, rom);
  m->draw = 1;
  if (!image_is_partial(m)) {
    p->pending[buffer] = !draw;
    if (!draw) atari_copy_state(p->start[buffer], start);
    return;
  }
  const int older = p->pending[buffer];
  if (older) {
    p->pending[buffer] = 0;
    draw_earlier(m, rom, p->start[buffer]);
  }
  if (older || !draw)
    draw_from(m, rom, start); /* the machine keeps this state, which contains the pixels of an unfinished line */
}

int paceline_atari_accept(const struct atari *m, struct atari_rom rom) { return atari_accept(m, &rom); }
