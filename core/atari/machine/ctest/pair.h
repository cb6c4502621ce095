/* A cartridge, and the comparison of a machine with the naive machine. */
#ifndef PAIR_H
#define PAIR_H

#include "t.h"

#include "naive.h"
#include "under_test.h"

/* Sizes and names by scheme. */
static const uint32_t scheme_size[8] = {4096, 8192, 16384, 8192, 8192, 16384, 8192, 10495};
static const char *const scheme_name[8] = {"4K", "F8", "F6", "E0", "F8SC", "F6SC", "FE", "DPC"};

struct cart {
  uint8_t image[16384 + 64];
  uint32_t code[16384 + 64];
  int scheme;
  struct atari_rom rom;
};

static void load(struct cart *c, int scheme) {
  c->scheme = scheme;
  c->rom = atari_rom_of(c->image, scheme_size[scheme], (uint32_t)scheme, c->code);
}

/* Changes a byte of a loaded cartridge. Up to five words of code depend on the byte. */
static void burn(struct cart *c, uint32_t at, uint8_t value) {
  c->image[at] = value;
  for (uint32_t i = at < 4 ? 0 : at - 4; i <= at; i++) c->code[i] = code_of((uint32_t)c->scheme, c->image, i);
}

/* Turns both machines on with the cartridge. n may be NULL. */
static void power_on(struct atari *m, struct naive *n, struct cart *c, int first_line, int rows, uint8_t timer) {
  memset(m, 0, sizeof *m);
  m->first_line = (int16_t)first_line, m->rows = (int16_t)rows;
  m->draw = m->comb_exists = 1;
  m->swcha = 0xFF, m->swchb = 0x3F;
  m->button[0] = m->button[1] = 1;
  atari_reset(m, &c->rom, timer);
  if (!n) return;
  memset(n, 0, sizeof *n);
  n->rom = c->image, n->scheme = (enum naive_scheme)c->scheme;
  n->first_line = first_line, n->rows = rows, n->comb_exists = 1;
  n->swcha = 0xFF, n->swchb = 0x3F;
  n->button[0] = n->button[1] = 1;
  naive_reset(n, timer);
}

/* Returns the first difference between the two machines, or NULL. */
static const char *differs(const struct atari *m, const struct naive *n) {
  static char text[200];
#define SAME(what, is, want)                                                                             \
  do {                                                                                                   \
    if ((long long)(is) != (long long)(want)) {                                                          \
      snprintf(text, sizeof text, "%s is %lld, must be %lld", what, (long long)(is), (long long)(want)); \
      return text;                                                                                       \
    }                                                                                                    \
  } while (0)
  SAME("the cycle", m->cycles, n->cycles);
  SAME("PC", m->cpu.pc, n->pc);
  SAME("A", m->cpu.a, n->a);
  SAME("X", m->cpu.x, n->x);
  SAME("Y", m->cpu.y, n->y);
  SAME("SP", m->cpu.sp, n->sp);
  SAME("P", cpu_flags(&m->cpu), naive_flags(n));
  SAME("jammed", m->cpu.jammed, n->jammed);
  if (!n->jammed) /* a jammed CPU does not update the latch */
    SAME("the bus", m->latch, n->bus);
  SAME("end of frame", m->frame_over, n->frame_over);
  for (int i = 0; i < 128; i++)
    if (m->ram[i] != n->ram[i]) {
      snprintf(text, sizeof text, "RAM $%02X is $%02X, must be $%02X", 0x80 + i, m->ram[i], n->ram[i]);
      return text;
    }
  for (int i = 0; i < 128; i++) SAME("the board's RAM", m->cart.ram[i], n->board_ram[i]);
  return NULL;
}

/*
 * Pixels that are not compared: in an unfinished frame, up to three pixels that ALE draws after the
 * beam (naive_draw). The naive machine draws them as before the last write, the machine as after
 * it. The difference only remains if no other write follows.
 */
static int beyond_the_beam(const struct naive *n, int row, int x) {
  const int64_t clocks = n->drawn - n->frame_start - NAIVE_LINE * n->first_line;
  const int at = (int)(clocks % NAIVE_LINE) - NAIVE_HBLANK;
  return n->unfinished && row == clocks / NAIVE_LINE && at > 0 && x >= at && x < (at + 3) / 4 * 4;
}

/* The same for positions and collisions; valid only after a frame. */
static const char *objects_differ(const struct atari *m, const struct naive *n) {
  static char text[200];
  for (int i = 0; i < 8; i++) SAME("a collision latch", (m->tia.collisions >> 2 * i & 3) << 6, n->cx[i]);
  for (int i = 0; i < 5; i++) SAME("a position", m->tia.position[i], n->position[i]);
  return NULL;
}

/* The same for the image, positions and collisions of the last frame. */
static const char *image_differs(const struct atari *m, const struct naive *n) {
  static char text[200];
  const char *wrong = objects_differ(m, n);
  if (wrong) return wrong;
  for (int row = 0; row < n->rows; row++) {
    const uint8_t *const is = m->image[m->tia.buffer] + row * 160, *const want = n->image[n->buffer][row];
    for (int x = 0; x < 160 && memcmp(is, want, 160) != 0; x++)
      if (is[x] != want[x] && !beyond_the_beam(n, row, x)) {
        snprintf(text, sizeof text, "pixel %d of row %d is $%02X, must be $%02X", x, row, is[x], want[x]);
        return text;
      }
  }
  return NULL;
}

#endif
