/*
 * The TIA of the naive machine; see naive.h. Each pixel is computed separately from the registers,
 * when the image is drawn up to the pixel.
 */
#ifndef NAIVE_TIA_H
#define NAIVE_TIA_H

#include "naive.h"

enum { N_P0, N_P1, N_M0, N_M1, N_BL };

static int64_t naive_clock(const struct naive *m) { return 3 * m->cycles; }
static int naive_phase(const struct naive *m) { return (int)((naive_clock(m) - m->frame_start) % NAIVE_LINE); }
static int naive_around(int x) { return ((x % NAIVE_WIDTH) + NAIVE_WIDTH) % NAIVE_WIDTH; }

/* ----------------------------------------------------------------- objects */

static int naive_stretch(int nusiz) { return (nusiz & 7) == 5 ? 2 : (nusiz & 7) == 7 ? 4 : 1; }

/* The offset of copy i of a player or missile, or -1. */
static int naive_copy(int nusiz, int i) {
  static const int offsets[8][3] = {{0, -1, -1}, {0, 16, -1}, {0, 32, -1}, {0, 16, 32},
                                    {0, 64, -1}, {0, -1, -1}, {0, 32, 64}, {0, -1, -1}};
  return offsets[nusiz & 7][i];
}

static int naive_graphics(const struct naive *m, int p) { return m->vdelp[p] & 1 ? m->old_grp[p] : m->grp[p]; }
static int naive_ball_on(const struct naive *m) { return ((m->vdelbl & 1 ? m->old_enabl : m->enabl) & 2) != 0; }
static int naive_missile_on(const struct naive *m, int i) { return m->enam[i] & 2 && !(m->resmp[i] & 2); }

/* Whether a set bit of these eight bits of a player is at x. */
static int naive_player_at(const struct naive *m, int p, int x, int bits) {
  const int wide = naive_stretch(m->nusiz[p]);
  for (int i = 0; i < 3; i++) {
    const int offset = naive_copy(m->nusiz[p], i);
    if (offset < 0 || (i == 0 && m->skip[p])) continue;
    const int d = naive_around(x - m->position[p] - offset - (wide > 1)) / wide;
    if (d < 8 && bits >> (m->refp[p] & 8 ? d : 7 - d) & 1) return 1;
  }
  return 0;
}

static int naive_player_lit(const struct naive *m, int p, int x) {
  return naive_player_at(m, p, x, naive_graphics(m, p));
}

static int naive_missile_lit(const struct naive *m, int k, int x) {
  int width = m->nusiz[k] >> 4 & 3;
  if (!naive_missile_on(m, k) || (k == 0 && m->ark_m0 == 2)) return 0;
  if (k == 0 && m->ark_m0 == 1) width |= 1;
  for (int i = 0; i < 3; i++) {
    const int offset = naive_copy(m->nusiz[k], i);
    if (offset >= 0 && naive_around(x - m->position[N_M0 + k] - offset) < 1 << width) return 1;
  }
  return 0;
}

static int naive_ball_lit(const struct naive *m, int x) {
  return naive_ball_on(m) && naive_around(x - m->position[N_BL]) < 1 << (m->ctrlpf >> 4 & 3);
}

static int naive_playfield_lit(const struct naive *m, int x) {
  int bit = x / 4;
  if (bit >= 20) bit = m->reflect ? 39 - bit : bit - 20;
  return bit<4 ? m->pf[0] >> (4 + bit) & 1 : bit<12 ? m->pf[1] >> (11 - bit) & 1 : m->pf[2]>>(bit - 12) & 1;
}

/* ------------------------------------------------------------------ pixels */

static int naive_score(const struct naive *m) {
  if (!(m->ctrlpf & 2)) return 0;
  if (!(m->ctrlpf & 4)) return 1;
  return !naive_graphics(m, 0) && !naive_graphics(m, 1) && !naive_missile_on(m, 0) && !naive_missile_on(m, 1) &&
         !naive_ball_on(m);
}

static void naive_pixel(struct naive *m, int64_t row, int x) {
  uint8_t *const out = &m->image[m->buffer][row][x];
  *out = 0;
  if (m->vblank & 2) return;
  const int p0 = naive_player_lit(m, 0, x), p1 = naive_player_lit(m, 1, x);
  const int m0 = naive_missile_lit(m, 0, x), m1 = naive_missile_lit(m, 1, x);
  const int bl = naive_ball_lit(m, x), pf = naive_playfield_lit(m, x);
  const int both[8][2] = {
      {m0 && p1, m0 && p0}, {m1 && p0, m1 && p1}, {p0 && pf, p0 && bl}, {p1 && pf, p1 && bl},
      {m0 && pf, m0 && bl}, {m1 && pf, m1 && bl}, {bl && pf, 0},        {p0 && p1, m0 && m1},
  };
  for (int i = 0; i < 8; i++) m->cx[i] |= (uint8_t)(both[i][0] << 7 | both[i][1] << 6);

  const int score = naive_score(m) && pf, left = x < 80;
  const uint8_t *const colour = m->colour;
  if (m->ctrlpf & 4 && (bl || (pf && !score)))
    *out = colour[2];
  else if (p0 || m0 || (score && left))
    *out = colour[0];
  else if (p1 || m1 || (score && !left))
    *out = colour[1];
  else if (bl || pf)
    *out = colour[2];
  else
    *out = colour[3];
}

static void naive_next_line(struct naive *m) {
  static const int steps[4] = {18, 33, 0, 17};
  m->reflect = m->ctrlpf & 1;
  m->skip[0] = m->skip[1] = 0;
  if (!m->ark) return;
  m->ark_count = (m->ark_count + 1) & 3;
  m->position[N_M0] = naive_around(m->position[N_M0] - steps[m->ark_count]);
  m->ark_m0 = m->ark_count == 1 ? 1 : m->ark_count == 2 ? 2 : 0;
}

/* Whether ALE draws four pixels at a time with the objects that are on. */
static int naive_in_fours(const struct naive *m) {
  static const char *const sets[] = {"F", "0", "1", "01", "m", "n", "mn", "b", "mb", "nb", "1b", NULL};
  static const char *const unless_score[] = {"F0", "F1", "Fb", NULL};
  char on[7] = "";
  if (m->pf[0] >> 4 || m->pf[1] || m->pf[2]) strcat(on, "F");
  if (naive_graphics(m, 0)) strcat(on, "0");
  if (naive_graphics(m, 1)) strcat(on, "1");
  if (naive_missile_on(m, 0)) strcat(on, "m");
  if (naive_missile_on(m, 1)) strcat(on, "n");
  if (naive_ball_on(m)) strcat(on, "b");
  for (int i = 0; sets[i]; i++)
    if (strcmp(on, sets[i]) == 0) return 1;
  for (int i = 0; unless_score[i] && !(m->ctrlpf & 2); i++)
    if (strcmp(on, unless_score[i]) == 0) return 1;
  return 0;
}

/* Draws clocks `begin` to end-1 of a line of the image. */
static void naive_draw(struct naive *m, int64_t row, int begin, int end) {
  const int first = begin < NAIVE_HBLANK ? 0 : begin - NAIVE_HBLANK, four = (end - NAIVE_HBLANK) / 4 * 4;
  int x = first;
  for (; x < end - NAIVE_HBLANK; x++) naive_pixel(m, row, x);
  /* ALE draws all pixels of a step of four, which is visible only if the image ends within the step. */
  int plain = end > NAIVE_HBLANK && first <= four && !(m->vblank & 2) && naive_in_fours(m);
  for (int i = four; i < four + 4 && plain; i++) {
    for (int p = 0; p < 2; p++) /* dark pixels of a player that is on count, too */
      plain &= !naive_graphics(m, p) || !naive_player_at(m, p, i, 0xFF);
    plain &= !naive_missile_lit(m, 0, i) && !naive_missile_lit(m, 1, i) && !naive_ball_lit(m, i);
  }
  for (; plain && x % 4 != 0; x++) naive_pixel(m, row, x);
  /* HMOVE's black pixels: the rest of eight, and more if the beam is not yet at the first pixel. */
  const int at = begin >= NAIVE_HBLANK ? begin : end < NAIVE_HBLANK ? end : NAIVE_HBLANK;
  if (!m->comb || at >= NAIVE_HBLANK + 8) return;
  memset(m->image[m->buffer][row] + (at > NAIVE_HBLANK ? at - NAIVE_HBLANK : 0), 0, (size_t)(NAIVE_HBLANK + 8 - at));
  if (end >= NAIVE_HBLANK + 8) m->comb = 0;
}

static void naive_catch_up(struct naive *m, int64_t to) {
  /* After a reset within a frame row 0 is line 0, but drawing starts at the usual first line. */
  const int64_t start = m->top, end = start + NAIVE_LINE * m->rows;
  if (to < m->frame_start + NAIVE_LINE * m->first_line || m->drawn >= end || to <= m->drawn) return;
  if (to > end) to = end;
  while (m->drawn < to) {
    const int64_t row = (m->drawn - start) / NAIVE_LINE, next = start + NAIVE_LINE * (row + 1);
    const int h = (int)(m->drawn - start - NAIVE_LINE * row);
    if (h == 0 && row > 0) naive_next_line(m);
    m->drawn = to < next ? to : next;
    naive_draw(m, row, h, (int)(m->drawn - start - NAIVE_LINE * row));
  }
}

/* ------------------------------------------------------------------- reads */

static uint8_t naive_tia_read(struct naive *m, uint32_t reg) {
  uint8_t value = 0;
  naive_catch_up(m, naive_clock(m));
  if (reg < 8)
    value = m->cx[reg];
  else if (reg < 12) {
    const uint32_t i = reg - 8;
    if (m->paddle[i] == 1)
      value = 0x80;
    else if (m->paddle[i] == 2 && !(m->vblank & 0x80) && (uint32_t)m->cycles > (uint32_t)(m->dump_end + m->charge[i]))
      value = 0x80;
  } else if (reg < 14)
    value = m->button[reg - 12] ? 0x80 : 0;
  return value | (m->bus & 0x3F);
}

/* ------------------------------------------------------------------ writes */

static void naive_reset_player(struct naive *m, int p) {
  const int h = naive_phase(m), size = 4 + 8 * naive_stretch(m->nusiz[p]);
  const int n = h < NAIVE_HBLANK ? 3 : naive_around(h - NAIVE_HBLANK + 5);
  int begins = 0, within = 0;
  for (int i = 0; i < 3; i++) {
    const int offset = naive_copy(m->nusiz[p], i);
    if (offset < 0) continue;
    const int q = naive_around(n - m->position[p] - offset);
    begins |= q < 4;
    within |= q >= 4 && q < size;
  }
  if (!begins && within) naive_catch_up(m, naive_clock(m) + 11);
  m->position[p] = n;
  m->skip[p] = !begins;
}

static void naive_reset_missile(struct naive *m, int object) {
  const int h = naive_phase(m);
  const int64_t u = naive_clock(m) - m->hmove_at;
  int n = h < NAIVE_HBLANK ? 2 : naive_around(h - NAIVE_HBLANK + 4);
  if (object == N_M0 && u == 60 && h == 69) n = 8;
  if (object == N_M1 && u == 9 && h == 18) n = 3;
  if (object == N_BL)
    n = u == 54 && (h == 60 || h == 69) ? 10
        : u == 9 && h == 18             ? 3
        : u == 21 && h == 30            ? 6
        : u == 18 && h == 27            ? 5
                                        : n;
  m->position[object] = n;
  if (object == N_M0) m->ark_m0 = 0;
}

/*
 * The motion in pixels to the left by an HMOVE in this cycle of the line. The pulses come every
 * four clocks after the write. Pulses that no longer fit in the blank are lost, and the object ends
 * up further to the right.
 */
static int naive_motion(int nibble, int cycle) {
  const int wanted = (nibble & 15) ^ 8;
  if (cycle == 75) return wanted - 8;
  if (cycle <= 20) {
    int left = 17 - (3 * cycle + 1) / 4;
    if (left > 15) left = 15;
    return (wanted < left ? wanted : left) - 8;
  }
  if (cycle <= 54) return 0;
  const int lost = 3 * (74 - cycle) / 4;
  return wanted > lost ? wanted - lost : 0;
}

static void naive_hmove(struct naive *m) {
  const int cycle = naive_phase(m) / 3;
  for (int i = 0; i < 5; i++) m->position[i] = naive_around(m->position[i] - naive_motion(m->hm[i] >> 4, cycle));
  if (m->comb_exists && (cycle <= 20 || cycle == 75)) m->comb = 1;
  m->hmove_at = naive_clock(m);
  m->skip[0] = m->skip[1] = 0;
  m->ark = m->ark_m0 = 0;
}

static void naive_lock_missile(struct naive *m, int k, uint8_t value) {
  const int wide = naive_stretch(m->nusiz[k]), was = m->resmp[k];
  if (was & 2 && !(value & 2))
    m->position[N_M0 + k] = naive_around(m->position[k] + (wide == 1 ? 4 : wide == 2 ? 8 : 16));
  m->resmp[k] = value;
  if (k == 0 && (was ^ value) & 2) m->ark_m0 = 0;
}

/* Clocks after the write until the write is visible. */
static int64_t naive_delay(const struct naive *m, uint32_t reg) {
  if (reg == 0x01 || reg == 0x0B || reg == 0x0C || reg == 0x1B || reg == 0x1C) /* VBLANK, REFP, GRP */
    return 1;
  if (reg == 0x04 || reg == 0x05 || reg == 0x12 || reg == 0x13) /* NUSIZ, RESM */
    return 8;
  if (reg >= 0x0D && reg <= 0x0F) { /* PF */
    const int64_t now = naive_clock(m) - m->frame_start;
    int64_t then = now + 2;
    while (then % 4) then++;
    return then - now;
  }
  return 0;
}

static void naive_tia_write(struct naive *m, uint32_t reg, uint8_t v) {
  const int64_t now = naive_clock(m);
  naive_catch_up(m, now + naive_delay(m, reg));
  if ((now - m->frame_start) / NAIVE_LINE > (m->pal ? 342 : 290)) m->frame_over = 1;
  const int i = reg & 1, other = !i;
  switch (reg) {
    case 0x00: /* VSYNC */
      if (v & 2)
        m->vsync_end = now + NAIVE_LINE;
      else if (now >= m->vsync_end)
        m->vsync_end = NAIVE_NEVER, m->frame_over = 1;
      break;
    case 0x01:
      if (m->vblank & 0x80 && !(v & 0x80)) m->dump_end = m->cycles;
      m->vblank = v;
      break;
    case 0x02: /* WSYNC */
      while (!m->bus_wrote && naive_phase(m) >= 3) m->cycles++;
      break;
    case 0x04:
    case 0x05:
      m->nusiz[i] = v;
      m->skip[i] = 0;
      if (i == 0) m->ark_m0 = 0;
      break;
    case 0x06:
    case 0x07:
    case 0x08:
    case 0x09: m->colour[reg - 6] = (uint8_t)(v - v % 2 + (m->pal ? m->lines % 2 : 0)); break;
    case 0x0A:
      m->ctrlpf = v;
      if (naive_phase(m) < 147) m->reflect = v & 1;
      break;
    case 0x0B:
    case 0x0C: m->refp[other] = v; break;
    case 0x0D:
    case 0x0E:
    case 0x0F: m->pf[reg - 0x0D] = v; break;
    case 0x10:
    case 0x11: naive_reset_player(m, i); break;
    case 0x12:
    case 0x13:
    case 0x14: naive_reset_missile(m, N_M0 + (int)reg - 0x12); break;
    case 0x1B:
      m->grp[0] = v;
      m->old_grp[1] = m->grp[1];
      break;
    case 0x1C:
      m->grp[1] = v;
      m->old_grp[0] = m->grp[0];
      m->old_enabl = m->enabl;
      break;
    case 0x1D:
    case 0x1E: m->enam[other] = v; break;
    case 0x1F: m->enabl = v; break;
    case 0x22:                                                                                        /* HMM0 */
      if (now - m->hmove_at == 63 && m->hm[2] >> 4 == 7 && v >> 4 == 6) m->ark = 1, m->ark_count = 0; /* fall through */
    case 0x20:
    case 0x21:
    case 0x23:
    case 0x24: m->hm[reg - 0x20] = v; break;
    case 0x25:
    case 0x26: m->vdelp[other] = v; break;
    case 0x27: m->vdelbl = v; break;
    case 0x28:
    case 0x29: naive_lock_missile(m, i, v); break;
    case 0x2A: naive_hmove(m); break;
    case 0x2B: memset(m->hm, 0, sizeof m->hm); break;
    case 0x2C: memset(m->cx, 0, sizeof m->cx); break;
  }
}

/* ------------------------------------------------------------------ frames */

static void naive_start_frame(struct naive *m) {
  const int64_t clock = naive_clock(m), cycles = m->cycles;
  m->frame_start = -((clock - m->frame_start) % NAIVE_LINE);
  m->cycles = 0;
  m->buffer ^= 1;
  m->top = m->drawn = m->frame_start + NAIVE_LINE * m->first_line;
  if (m->vsync_end != NAIVE_NEVER) m->vsync_end -= clock;
  m->hmove_at -= clock;
  m->dump_end -= cycles;
  m->timer_set -= cycles;
  m->timer_read -= cycles;
  m->music_at -= cycles;
  for (int i = 0; i < 4 && m->pal; i++) m->colour[i] = (uint8_t)(m->colour[i] - m->colour[i] % 2 + m->lines % 2);
}

#endif
