/*
 * Arbitrary bytes as a machine's state. If atari_accept accepts the state, frames from it access
 * only the machine's memory and return, and atari_accept accepts their states again. For clang's
 * libFuzzer.
 *
 * Random bytes are rarely a valid state. So the input is one of three things: bytes to change in a
 * state that playing has reached; a struct with the checked fields moved into their bounds; or an
 * unchanged struct.
 */
#include <stddef.h>

#include "programs.h"

static struct atari m;
static struct cart cart;

/* Loads a state that one of 64 cartridges reaches in a frame or two. The states are cached, because playing is slow. */
static void played(uint32_t which) {
  static struct {
    int known;
    struct atari m;
    struct cart cart;
  } states[64];
  struct rng r = {which %= 64};
  if (!states[which].known) {
    if (which % 2) {
      random_program(&cart, &r);
    } else {
      for (uint32_t i = 0; i < sizeof cart.image; i++) cart.image[i] = byte(&r);
      load(&cart, (int)(which / 2 % 8));
    }
    power_on(&m, NULL, &cart, 34, 210, 50);
    for (uint32_t i = 1 + below(&r, 2); i > 0; i--) atari_frame(&m, &cart.rom);
    states[which].known = 1;
    states[which].m = m;
    states[which].cart = cart;
  }
  m = states[which].m;
  cart = states[which].cart;
}

static uint16_t word(const uint8_t *data) { return (uint16_t)(data[0] | data[1] << 8); }

static void move_into_bounds(void) {
  m.cycles = (int32_t)((uint32_t)m.cycles % (max_cycles + 1));
  m.unfinished &= 1;
  m.first_line &= 63;
  m.rows = (int16_t)(1 + (uint16_t)m.rows % ATARI_ROWS);
  m.cpu.c &= 1, m.cpu.v &= 1, m.cpu.d &= 1, m.cpu.i &= 1, m.cpu.jammed &= 1;
  m.riot.shift = (uint8_t[]){0, 3, 6, 10}[m.riot.shift & 3];
  m.riot.timer_was_read &= 1;
  struct atari_tia *const t = &m.tia;
  for (int i = 0; i < 5; i++) t->position[i] %= 160;
  t->buffer &= 1, t->ark_count &= 3, t->ark_m0 %= 3, t->dirty &= 0x7F;
  t->frame_start = -(int32_t)((uint32_t)t->frame_start % 228);
  t->draws_from = t->frame_start + 228 * m.first_line;
  t->window_start = t->frame_start == 0 && t->window_start & 1 ? 0 : t->draws_from; /* 0: a reset within a frame */
  t->window_end = t->window_start + 228 * m.rows;
  t->line_start = t->window_start + 228 * (int32_t)((uint32_t)t->line_start % (uint32_t)m.rows);
  t->drawn = t->line_start + (int32_t)((uint32_t)t->drawn % 229);
  if (t->fast_until > tia_fast_until(&m)) t->fast_until = tia_fast_until(&m);
  const int pixels = t->drawn - t->line_start - 68;
  t->flushed = (uint8_t)(pixels <= 0 ? 0 : t->flushed % (pixels + 1));
  const uint32_t banks = cart.scheme == ATARI_F6 || cart.scheme == ATARI_F6SC ? 4
                         : cart.scheme == ATARI_4K || cart.scheme == ATARI_FE ? 1
                                                                              : 2;
  for (uint32_t i = 0; i < 4; i++)
    m.cart.slice[i] = cart.scheme == ATARI_E0 ? (i == 3 ? 7 : m.cart.slice[i] & 7) * 1024
                                              : (i == 0 ? m.cart.slice[0] % banks * 4096 : m.cart.slice[0] + 1024 * i);
  for (int i = 0; i < 8; i++) m.cart.fetcher[i].counter &= 2047, m.cart.fetcher[i].music &= 1;
  if (!(m.cart.music_fraction > -1 && m.cart.music_fraction < 1)) m.cart.music_fraction = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const size_t head = offsetof(struct atari, image);
  if (size < 8) return -1;
  played(word(data + 1));
  if (data[0] % 3 == 0) {
    for (size_t i = 3; i + 2 < size; i += 3) ((uint8_t *)&m)[word(data + i) % head] = data[i + 2];
  } else {
    memcpy(&m, data + 3, size - 3 < head ? size - 3 : head);
    if (data[0] % 3 == 1) move_into_bounds();
  }
  if (!atari_accept(&m, &cart.rom)) {
    if (data[0] % 3 == 1) abort();
    return 0;
  }
  for (int frame = 0; frame < 3; frame++) {
    m.draw = data[0] >> (2 + frame) & 1;
    atari_frame(&m, &cart.rom);
    if (!atari_accept(&m, &cart.rom)) abort();
  }
  return 0;
}
