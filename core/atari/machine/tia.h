/*
 * The TIA's registers. Times are colour clocks. A write changes the picture a few clocks later, so
 * the image is first drawn up to that clock. A write that changes nothing visible, as most writes,
 * draws nothing.
 */
#ifndef ATARI_TIA_H
#define ATARI_TIA_H

#include "image.h"

enum tia_register {
  VSYNC,
  VBLANK,
  WSYNC,
  RSYNC,
  NUSIZ0,
  NUSIZ1,
  COLUP0,
  COLUP1,
  COLUPF,
  COLUBK,
  CTRLPF,
  REFP0,
  REFP1,
  PF0,
  PF1,
  PF2,
  RESP0,
  RESP1,
  RESM0,
  RESM1,
  RESBL,
  AUDC0,
  AUDC1,
  AUDF0,
  AUDF1,
  AUDV0,
  AUDV1,
  GRP0,
  GRP1,
  ENAM0,
  ENAM1,
  ENABL,
  HMP0,
  HMP1,
  HMM0,
  HMM1,
  HMBL,
  VDELP0,
  VDELP1,
  VDELBL,
  RESMP0,
  RESMP1,
  HMOVE,
  HMCLR,
  CXCLR,
};

/* Clocks since the start of the line. */
ATARI_FN int32_t tia_phase(const struct atari_tia *t, int32_t clock) {
  return (int32_t)((uint32_t)(clock - t->frame_start) % ATARI_LINE);
}

/* ---------------------------------------------------------------- positions */

ATARI_FN void tia_place(struct atari_tia *t, int object, int32_t x) {
  t->position[object] = (uint8_t)x;
  t->dirty |= (uint8_t)(1u << object);
}

/* Draws missile 0 in its normal form until the next line. */
ATARI_INLINE void tia_ark_plain(struct atari_tia *t) {
  if (t->ark_m0 != 0) {
    t->ark_m0 = 0;
    t->dirty |= DIRTY_M0;
  }
}

/*
 * RESP0, RESP1. A copy in its first four clocks is drawn to its end. A copy that is being drawn
 * stops 11 clocks later. Unless a copy was in its first four clocks, the first copy appears on the
 * next line.
 */
ATARI_FN void tia_reset_player(struct atari *m, int player, int32_t clock) {
  struct atari_tia *t = &m->tia;
  const int object = ATARI_P0 + player;
  const int32_t phase = tia_phase(t, clock), size = t->nusiz[player] & 7;
  const int32_t x = phase < ATARI_HBLANK ? 3 : (phase - ATARI_HBLANK + 5) % ATARI_WIDTH;
  const int32_t length = 4 + 8 * tia_stretch[size];
  int starting = 0, drawing = 0;
  for (int i = 0; i < 3; i++) {
    const int32_t offset = i == 0 ? 0 : tia_copies[size][i - 1];
    if (i > 0 && offset == 0) continue;
    const int32_t within = (x - t->position[object] - offset + 2 * ATARI_WIDTH) % ATARI_WIDTH;
    starting |= within < 4;
    drawing |= within >= 4 && within < length;
  }
  if (!starting && drawing) {
    if (tia_extend_due(t, clock + 11)) tia_draw_now(m);
    tia_catch_up(m, t->due);
  }
  t->skip[player] = !starting;
  tia_place(t, object, x);
}

/* RESM0, RESM1, RESBL. During the pulses of an HMOVE some positions differ. */
ATARI_FN void tia_reset_missile(struct atari_tia *t, int object, int32_t clock) {
  ATARI_TABLE struct {
    uint8_t object, since, phase, x;
  } exceptions[7] = {
      {ATARI_M0, 60, 69, 8}, {ATARI_M1, 9, 18, 3},  {ATARI_BL, 54, 60, 10}, {ATARI_BL, 54, 69, 10},
      {ATARI_BL, 9, 18, 3},  {ATARI_BL, 21, 30, 6}, {ATARI_BL, 18, 27, 5},
  };
  const int32_t phase = tia_phase(t, clock);
  int32_t x = phase < ATARI_HBLANK ? 2 : (phase - ATARI_HBLANK + 4) % ATARI_WIDTH;
  for (int i = 0; i < 7; i++)
    if (exceptions[i].object == object && exceptions[i].since == (uint32_t)clock - (uint32_t)t->hmove_at &&
        exceptions[i].phase == phase)
      x = exceptions[i].x;
  tia_place(t, object, x);
}

/* A missile that is unlocked from its player starts at the player's middle. */
ATARI_FN void tia_lock_missile(struct atari_tia *t, int missile, uint8_t value) {
  const uint8_t locked = value & 2;
  if (t->resmp[missile] && !locked) {
    const int stretch = tia_stretch[t->nusiz[missile] & 7];
    t->position[ATARI_M0 + missile] =
        (uint8_t)tia_wrap(t->position[ATARI_P0 + missile] + (uint32_t)(stretch == 1 ? 4 : 4 * stretch));
  }
  t->resmp[missile] = locked;
  t->dirty |= (uint8_t)(DIRTY_M0 << missile);
}

/*
 * HMOVE gives each object's counter extra pulses during HBLANK: the number in the object's
 * register, limited by the rest of the blank. `cycle` is 0 to 75 within the line. Returns the
 * motion in pixels to the right.
 */
ATARI_FN int32_t tia_motion(uint8_t hm, int32_t cycle) {
  const int32_t pulses = (hm >> 4 ^ 8) & 15;
  if (cycle <= 20) {
    const int32_t left = 17 - (3 * cycle + 1) / 4;
    const int32_t limit = left < 15 ? left : 15;
    return 8 - (pulses < limit ? pulses : limit);
  }
  if (cycle <= 54) return 0;
  if (cycle == 75) return 8 - pulses;
  const int32_t late = pulses - 3 * (74 - cycle) / 4;
  return late > 0 ? -late : 0;
}

ATARI_FN void tia_hmove(struct atari *m, int32_t clock) {
  struct atari_tia *t = &m->tia;
  const int32_t cycle = tia_phase(t, clock) / 3;
  for (int i = 0; i < 5; i++) {
    const int32_t motion = tia_motion(t->hm[i], cycle);
    if (motion != 0) {
      const int32_t x = t->position[i] + motion;
      tia_place(t, i, x < 0 ? x + ATARI_WIDTH : x >= ATARI_WIDTH ? x - ATARI_WIDTH : x);
    }
  }
  if (m->comb_exists && (cycle <= 20 || cycle == 75)) {
    int32_t start = clock - tia_phase(t, clock) + (cycle == 75 ? ATARI_LINE : 0);
    if (start < t->window_start) start = t->window_start;
    if (start != t->comb_start) {
      t->comb_start = start;
      t->comb_first = ATARI_NEVER;
      t->fast_until = INT32_MIN;
    }
    t->comb = 1;
  }
  t->hmove_at = clock;
  for (int i = 0; i < 2; i++)
    if (t->skip[i]) {
      t->skip[i] = 0;
      t->dirty |= (uint8_t)(DIRTY_P0 << i);
    }
  t->ark = 0;
  tia_ark_plain(t);
}

/* -------------------------------------------------------------------- reads */

ATARI_FN uint8_t tia_paddle(const struct atari *m, int i) {
  if (m->paddle[i] == 1) return 0x80;
  if (m->paddle[i] == 0 || m->tia.vblank & 0x80) return 0;
  return (uint32_t)m->cycles > (uint32_t)m->tia.dump_end + m->charge[i] ? 0x80 : 0;
}

/* Bits that the TIA does not drive keep the last byte on the bus. */
ATARI_FN uint8_t tia_read(struct atari *m, uint32_t address, uint8_t latch) {
  const uint32_t reg = address & 15;
  uint8_t value = 0;
  if (tia_extend_due(&m->tia, 3 * m->cycles)) tia_draw_now(m);
  if (reg < 8) {
    tia_catch_up(m, m->tia.due);
    value = (uint8_t)((m->tia.collisions >> (2 * reg) & 3) << 6);
  } else if (reg < 12)
    value = tia_paddle(m, (int)reg - 8);
  else if (reg < 14)
    value = m->button[reg - 12] ? 0x80 : 0;
  return (uint8_t)(value | (latch & 0x3F));
}

/* ------------------------------------------------------------------- writes */

/* A write at or after this clock ends the frame. */
ATARI_FN int32_t tia_frame_end(const struct atari *m) { return m->tia.frame_start + ATARI_LINE * (m->pal ? 343 : 291); }

/*
 * The clock up to which a write only has to extend `due`: the write does not end the frame, is not
 * the first after the start of HMOVE's comb, and VSYNC is off.
 */
ATARI_FN int32_t tia_fast_until(const struct atari *m) {
  const struct atari_tia *t = &m->tia;
  const int32_t end = tia_frame_end(m) - 1;
  if (t->vsync_end != ATARI_NEVER) return INT32_MIN;
  return t->comb_first == ATARI_NEVER && t->comb_start < end ? t->comb_start : end;
}

/* Clocks until a write is visible. tia_write has a separate rule for the playfield. */
ATARI_TABLE uint8_t tia_delay[64] = {[VBLANK] = 1, [REFP0] = 1,  [REFP1] = 1, [GRP0] = 1, [GRP1] = 1,
                                     [NUSIZ0] = 8, [NUSIZ1] = 8, [RESM0] = 8, [RESM1] = 8};

/*
 * Writes that change the picture draw up to `due` first. They are separate functions, called last,
 * so that the many writes that change nothing are cheap.
 */
ATARI_NOINLINE uint32_t tia_change_vblank(struct atari *m, uint32_t value) {
  struct atari_tia *t = &m->tia;
  if ((t->vblank ^ value) & 2) {
    tia_catch_up(m, t->due);
    tia_colours_change(m);
  }
  if (t->vblank & 0x80 && !(value & 0x80)) t->dump_end = m->cycles;
  t->vblank = (uint8_t)value;
  return 0;
}

ATARI_NOINLINE uint32_t tia_change_nusiz(struct atari *m, int i, uint32_t value) {
  struct atari_tia *t = &m->tia;
  tia_catch_up(m, t->due);
  t->nusiz[i] = (uint8_t)value;
  t->skip[i] = 0;
  if (i == 0) t->ark_m0 = 0;
  t->dirty |= (uint8_t)((DIRTY_P0 | DIRTY_M0) << i);
  return 0;
}

ATARI_NOINLINE uint32_t tia_change_colour(struct atari *m, uint32_t i, uint32_t value) {
  tia_catch_up(m, m->tia.due);
  tia_colours_change(m);
  m->tia.colour[i] = (uint8_t)value;
  return 0;
}

ATARI_NOINLINE uint32_t tia_change_ctrlpf(struct atari *m, uint32_t value, int32_t clock) {
  struct atari_tia *t = &m->tia;
  tia_catch_up(m, t->due);
  tia_colours_change(m);
  t->ctrlpf = (uint8_t)value;
  if (tia_phase(t, clock) < 147) t->reflect = value & 1;
  t->dirty |= DIRTY_PF | DIRTY_BL;
  return 0;
}

/* Sets a register of one byte that changes the drawing of these objects. */
ATARI_NOINLINE uint32_t tia_change(struct atari *m, uint8_t *reg, uint32_t value, uint32_t dirty) {
  tia_catch_up(m, m->tia.due);
  *reg = (uint8_t)value;
  m->tia.dirty |= (uint8_t)dirty;
  return 0;
}

ATARI_NOINLINE uint32_t tia_strobe(struct atari *m, uint32_t reg, int32_t clock) {
  struct atari_tia *t = &m->tia;
  tia_catch_up(m, t->due);
  switch (reg) {
    case RESP0:
    case RESP1: tia_reset_player(m, (int)(reg - RESP0), clock); break;
    case RESM0:
      tia_reset_missile(t, ATARI_M0, clock);
      tia_ark_plain(t);
      break;
    case RESM1: tia_reset_missile(t, ATARI_M1, clock); break;
    case RESBL: tia_reset_missile(t, ATARI_BL, clock); break;
    case HMOVE: tia_hmove(m, clock); break;
    default: t->collisions = 0; break;
  }
  return 0;
}

ATARI_NOINLINE uint32_t tia_change_resmp(struct atari *m, int i, uint32_t value) {
  tia_catch_up(m, m->tia.due);
  tia_lock_missile(&m->tia, i, (uint8_t)value);
  if (i == 0) tia_ark_plain(&m->tia);
  return 0;
}

/* A write of one player's graphics copies the other player's graphics to old_grp. GRP1 also copies the ball's. */
ATARI_NOINLINE uint32_t tia_change_graphics(struct atari *m, int i, uint32_t value, uint32_t dirty) {
  struct atari_tia *t = &m->tia;
  tia_catch_up(m, t->due);
  t->grp[i] = (uint8_t)value;
  t->old_grp[i ^ 1] = t->grp[i ^ 1];
  if (i == 1) t->old_enabl = t->enabl;
  t->dirty |= (uint8_t)dirty;
  return 0;
}

ATARI_NOINLINE uint32_t tia_start_ark(struct atari *m, int32_t clock, uint32_t hmm0) {
  tia_catch_up(m, clock); /* earlier lines must not call tia_ark_step */
  m->tia.ark = 1;
  m->tia.ark_count = 0;
  m->tia.hm[ATARI_M0] = (uint8_t)hmm0;
  return 0;
}

/* Writes return the number of cycles for which the CPU is stopped, plus TIA_STOPS if they end the frame. */
#define TIA_STOPS 128u
#define TIA_WAITS 127u

/* A write whose clock is already in `due`. */
ATARI_INLINE uint32_t tia_write_due(struct atari *m, uint32_t reg, uint32_t value, int wsync_waits) {
  struct atari_tia *t = &m->tia;
  const int32_t clock = 3 * m->cycles;
  uint32_t changed = 0;
  int i = 0;
  switch (reg) {
    case VSYNC:
      t->vsync = (uint8_t)value;
      if (value & 2) {
        t->vsync_end = clock + ATARI_LINE;
        t->fast_until = INT32_MIN;
      } else if (clock >= t->vsync_end) {
        t->vsync_end = ATARI_NEVER;
        m->frame_over = 1;
      }
      return 0;
    case VBLANK: return tia_change_vblank(m, value);
    case WSYNC: {
      const int32_t cycle = tia_phase(t, clock) / 3;
      return wsync_waits && cycle > 0 ? 76 - (uint32_t)cycle : 0;
    }
    case NUSIZ1: i = 1; /* fall through */
    case NUSIZ0:
      if (t->nusiz[i] == value && !t->skip[i] && !t->ark) /* ark_m0 is not known before the earlier lines are drawn */
        return 0;
      return tia_change_nusiz(m, i, value);
    case COLUP0:
    case COLUP1:
    case COLUPF:
    case COLUBK:
      value = (value & 0xFE) | (m->pal ? t->lines & 1 : 0);
      if (t->colour[reg - COLUP0] == value) return 0;
      return tia_change_colour(m, reg - COLUP0, value);
    case CTRLPF:
      if (t->ctrlpf == value && t->reflect == (value & 1)) return 0;
      return tia_change_ctrlpf(m, value, clock);
    case REFP1: i = 1; /* fall through */
    case REFP0:
      value &= 8;
      if (t->refp[i] == value) return 0;
      return tia_change(m, &t->refp[i], value, DIRTY_P0 << i);
    case PF0:
    case PF1:
    case PF2:
      if (t->pf[reg - PF0] == value) return 0;
      return tia_change(m, &t->pf[reg - PF0], value, DIRTY_PF);
    case RESP0:
    case RESP1:
    case RESM0:
    case RESM1:
    case RESBL:
    case HMOVE:
    case CXCLR: return tia_strobe(m, reg, clock);
    case GRP0:
      if (!t->vdelp[0] && t->grp[0] != value) changed |= DIRTY_P0;
      if (t->vdelp[1] && t->old_grp[1] != t->grp[1]) changed |= DIRTY_P1;
      if (changed) return tia_change_graphics(m, 0, value, changed);
      t->grp[0] = (uint8_t)value;
      t->old_grp[1] = t->grp[1];
      return 0;
    case GRP1:
      if (!t->vdelp[1] && t->grp[1] != value) changed |= DIRTY_P1;
      if (t->vdelp[0] && t->old_grp[0] != t->grp[0]) changed |= DIRTY_P0;
      if (t->vdelbl && t->old_enabl != t->enabl) changed |= DIRTY_BL;
      if (changed) return tia_change_graphics(m, 1, value, changed);
      t->grp[1] = (uint8_t)value;
      t->old_grp[0] = t->grp[0];
      t->old_enabl = t->enabl;
      return 0;
    case ENAM1: i = 1; /* fall through */
    case ENAM0:
      value &= 2;
      if (t->enam[i] == value) return 0;
      return tia_change(m, &t->enam[i], value, DIRTY_M0 << i);
    case ENABL:
      value &= 2;
      if (!t->vdelbl && t->enabl != value) return tia_change(m, &t->enabl, value, DIRTY_BL);
      t->enabl = (uint8_t)value;
      return 0;
    case HMM0:
      if ((uint32_t)clock - (uint32_t)t->hmove_at == 63 && t->hm[ATARI_M0] >> 4 == 7 && value >> 4 == 6)
        return tia_start_ark(m, clock, value);
      /* fall through */
    case HMP0:
    case HMP1:
    case HMM1:
    case HMBL: t->hm[reg - HMP0] = (uint8_t)value; return 0;
    case VDELP1: i = 1; /* fall through */
    case VDELP0:
      value &= 1;
      if (t->vdelp[i] == value) return 0;
      return tia_change(m, &t->vdelp[i], value, DIRTY_P0 << i);
    case VDELBL:
      value &= 1;
      if (t->vdelbl == value) return 0;
      return tia_change(m, &t->vdelbl, value, DIRTY_BL);
    case RESMP1: i = 1; /* fall through */
    case RESMP0:
      value &= 2;
      if (t->resmp[i] == value) return 0;
      return tia_change_resmp(m, i, value);
    case HMCLR:
      for (i = 0; i < 5; i++) t->hm[i] = 0;
      return 0;
    default: /* sound, and addresses without a register */ return 0;
  }
}

/* Writes after t->fast_until. */
ATARI_NOINLINE uint32_t tia_write_slow(struct atari *m, uint32_t reg, uint32_t value, int wsync_waits, int32_t due) {
  if (3 * m->cycles >= tia_frame_end(m)) m->frame_over = 1;
  if (tia_extend_due(&m->tia, due)) tia_draw_now(m);
  m->tia.fast_until = tia_fast_until(m);
  const uint32_t waits = tia_write_due(m, reg, value, wsync_waits);
  return m->frame_over ? waits | TIA_STOPS : waits;
}

/* wsync_waits is 0 if the CPU's previous bus access was a write, too: WSYNC cannot stop the CPU then. */
ATARI_NOINLINE uint32_t tia_write(struct atari *m, uint32_t reg, uint32_t value, int wsync_waits) {
  struct atari_tia *t = &m->tia;
  const int32_t clock = 3 * m->cycles;
  int32_t due = clock + tia_delay[reg];
  if (reg >= PF0 && reg <= PF2) /* the playfield changes every four clocks */
    due = t->frame_start + (int32_t)(((uint32_t)(clock - t->frame_start) + 5) & ~3u);
  if (due > t->fast_until) return tia_write_slow(m, reg, value, wsync_waits, due);
  if (due > t->due) {
    t->due_before = t->due;
    t->due = due;
  }
  return tia_write_due(m, reg, value, wsync_waits);
}

#endif
