/*
 * Checks whether bytes from outside are a machine's state.
 *
 * A machine trusts its state: it uses the state's numbers as indices and expects times near each
 * other. atari_accept accepts every state of a machine between two frames. After an accepted state
 * no frame accesses memory outside the struct and the cartridge, overflows a signed integer or runs
 * forever. An accepted state need not be reachable by playing.
 *
 * The caller sets swcha, swchb, button, paddle, charge and draw anyway. The caller must itself
 * compare first_line, rows, comb_exists and pal with the values for its cartridge.
 */
#ifndef ATARI_CHECK_H
#define ATARI_CHECK_H

#include "machine.h"

ATARI_FN int check_cpu(const struct atari_cpu *p) {
  return p->c <= 1 && p->v <= 1 && p->d <= 1 && p->i <= 1 && p->jammed <= 1;
}

ATARI_FN int check_riot(const struct atari_riot *r) {
  return (r->shift == 0 || r->shift == 3 || r->shift == 6 || r->shift == 10) && r->timer_was_read <= 1;
}

ATARI_FN int check_bank(const struct atari_cartridge *c, uint32_t banks) {
  return c->slice[0] % 4096 == 0 && c->slice[0] / 4096 < banks && c->slice[1] == c->slice[0] + 1024 &&
         c->slice[2] == c->slice[0] + 2048 && c->slice[3] == c->slice[0] + 3072;
}

ATARI_FN int check_cartridge(const struct atari_cartridge *c, uint32_t scheme) {
  for (int i = 0; i < 8; i++)
    if (c->fetcher[i].counter > 2047 || c->fetcher[i].music > 1) return 0;
  if (!(c->music_fraction > -1 && c->music_fraction < 1)) return 0;
  switch (scheme) {
    case ATARI_E0:
      for (int i = 0; i < 3; i++)
        if (c->slice[i] % 1024 != 0 || c->slice[i] >= 8192) return 0;
      return c->slice[3] == 7 * 1024;
    case ATARI_F8:
    case ATARI_F8SC:
    case ATARI_DPC: return check_bank(c, 2);
    case ATARI_F6:
    case ATARI_F6SC: return check_bank(c, 4);
    default: return check_bank(c, 1); /* addresses select FE's bank */
  }
}

/* Checks the position of the beam in an unfinished frame. The start of a frame sets all of it. */
ATARI_FN int check_beam(const struct atari *m) {
  const struct atari_tia *t = &m->tia;
  const int32_t start = t->frame_start + ATARI_LINE * m->first_line;
  if ((t->window_start != start && (t->window_start != 0 || t->frame_start != 0)) ||
      t->draws_from != start) /* 0: after a reset within a frame */
    return 0;
  if (t->window_end != t->window_start + ATARI_LINE * m->rows) return 0;
  if (t->drawn < t->window_start || t->drawn > t->window_end || t->line_start < t->window_start ||
      t->line_start >= t->window_end)
    return 0;
  if ((t->line_start - t->window_start) % ATARI_LINE != 0 || t->drawn < t->line_start ||
      t->drawn > t->line_start + ATARI_LINE)
    return 0;
  const int32_t pixels = t->drawn - t->line_start - ATARI_HBLANK;
  return t->flushed <= (pixels < 0 ? 0 : pixels);
}

ATARI_FN int check_tia(const struct atari *m) {
  const struct atari_tia *t = &m->tia;
  for (int i = 0; i < 5; i++)
    if (t->position[i] >= ATARI_WIDTH) return 0;
  if (t->buffer > 1 || t->ark_count > 3 || t->ark_m0 > 2 || t->dirty > 0x7F) return 0;
  if (t->frame_start > 0 || t->frame_start <= -ATARI_LINE || t->fast_until > tia_fast_until(m)) return 0;
  return !m->unfinished || check_beam(m);
}

/* Returns 1 if the struct can be the state of a machine with this cartridge, otherwise 0. */
ATARI_FN int atari_accept(const struct atari *m, const struct atari_rom *rom) {
  if (m->unfinished > 1 || m->cycles < 0 || m->cycles > ATARI_MAX_CYCLES + (m->unfinished ? 0 : ATARI_CALL_CYCLES))
    return 0;
  if (m->first_line < 0 || m->first_line > 1000 || m->rows < 1 || m->rows > ATARI_ROWS) return 0;
  return check_cpu(&m->cpu) && check_riot(&m->riot) && check_cartridge(&m->cart, rom->scheme) && check_tia(m);
}

#endif
