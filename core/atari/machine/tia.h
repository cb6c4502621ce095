/*
 * TIA: its registers. Times are colour clocks; a write reaches the image some
 * clocks after it is made, so the image is brought up to then first. Where nothing
 * that shows changes, it is not: most writes write what is there already.
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

/* Clocks from the start of the line. */
ATARI_FN int32_t tia_phase(const struct atari_tia *t, int32_t clock) {
  return (int32_t)((uint32_t)(clock - t->frame_start) % ATARI_LINE);
}

/* ---------------------------------------------------------------- positions */

ATARI_FN void tia_place(struct atari_tia *t, int object, int32_t x) {
  t->position[object] = (uint8_t)x;
  t->dirty |= (uint8_t)(1u << object);
}

/* Missile 0 is drawn plainly again, until the next line. */
ATARI_INLINE void tia_ark_plain(struct atari_tia *t) {
  if (t->ark_m0 != 0) {
    t->ark_m0 = 0;
    t->dirty |= DIRTY_M0;
  }
}

/*
 * RESP0, RESP1. A copy that is being drawn begins anew; one that is in its first
 * clocks is drawn to its end; in all other cases the first copy appears on the next
 * line only.
 */
ATARI_FN void tia_reset_player(struct atari *m, int player, int32_t clock) {
  struct atari_tia *t = &m->tia;
  const int object = ATARI_P0 + player;
  const int32_t phase = tia_phase(t, clock), size = t->nusiz[player] & 7;
  const int32_t x = phase < ATARI_BLANK ? 3 : (phase - ATARI_BLANK + 5) % ATARI_WIDTH;
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
    if (tia_falls_due(t, clock + 11)) tia_draw_now(m);
    tia_catch_up(m, t->due);
  }
  t->skip[player] = !starting;
  tia_place(t, object, x);
}

/* RESM0, RESM1, RESBL. Soon after an HMOVE, whose pulses are not over, some places differ. */
ATARI_FN void tia_reset_missile(struct atari_tia *t, int object, int32_t clock) {
  ATARI_TABLE struct {
    uint8_t object, since, phase, x;
  } exceptions[7] = {
      {ATARI_M0, 60, 69, 8}, {ATARI_M1, 9, 18, 3},  {ATARI_BL, 54, 60, 10}, {ATARI_BL, 54, 69, 10},
      {ATARI_BL, 9, 18, 3},  {ATARI_BL, 21, 30, 6}, {ATARI_BL, 18, 27, 5},
  };
  const int32_t phase = tia_phase(t, clock);
  int32_t x = phase < ATARI_BLANK ? 2 : (phase - ATARI_BLANK + 4) % ATARI_WIDTH;
  for (int i = 0; i < 7; i++)
    if (exceptions[i].object == object && exceptions[i].since == (uint32_t)clock - (uint32_t)t->hmove_at &&
        exceptions[i].phase == phase)
      x = exceptions[i].x;
  tia_place(t, object, x);
}

/* Leaving a player, a missile is at its middle. */
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
 * HMOVE stops the objects' counters from HBLANK's clocks: each gets the pulses that
 * its register asks for, as far as the rest of the blank allows. `cycle`
 * is the line's, 0 to 75. Returns pixels to the right.
 */
ATARI_FN int32_t tia_motion(uint8_t hm, int32_t cycle) {
  const int32_t pulses = (hm >> 4 ^ 8) & 15;
  if (cycle <= 20) {
    const int32_t left = 17 - (3 * cycle + 1) / 4;
    const int32_t most = left < 15 ? left : 15;
    return 8 - (pulses < most ? pulses : most);
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
      t->calm = INT32_MIN;
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

/* The bits that the TIA does not drive are the bus's last. */
ATARI_FN uint8_t tia_read(struct atari *m, uint32_t address, uint8_t latch) {
  const uint32_t reg = address & 15;
  uint8_t value = 0;
  if (tia_falls_due(&m->tia, 3 * m->cycles)) tia_draw_now(m);
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

/* The clock from which on a write ends the frame. */
ATARI_FN int32_t tia_frame_end(const struct atari *m) { return m->tia.frame_start + ATARI_LINE * (m->pal ? 343 : 291); }

/*
 * The clock up to which being due is all there is to a write: it ends no frame, is not the
 * first after HMOVE's black pixels, and VSYNC is off.
 */
ATARI_FN int32_t tia_calm(const struct atari *m) {
  const struct atari_tia *t = &m->tia;
  const int32_t end = tia_frame_end(m) - 1;
  if (t->vsync_end != ATARI_NEVER) return INT32_MIN;
  return t->comb_first == ATARI_NEVER && t->comb_start < end ? t->comb_start : end;
}

/* Clocks after which a write is seen; the playfield has a rule of its own. */
ATARI_TABLE uint8_t tia_delay[64] = {[VBLANK] = 1, [REFP0] = 1,  [REFP1] = 1, [GRP0] = 1, [GRP1] = 1,
                                     [NUSIZ0] = 8, [NUSIZ1] = 8, [RESM0] = 8, [RESM1] = 8};

/*
 * What writes do that change what shows: catching up first. They are functions of their
 * own, last of all in tia_write, so that the many writes that change nothing cost little.
 */
ATARI_APART uint32_t tia_change_vblank(struct atari *m, uint32_t value) {
  struct atari_tia *t = &m->tia;
  if ((t->vblank ^ value) & 2) {
    tia_catch_up(m, t->due);
    tia_colours_change(m);
  }
  if (t->vblank & 0x80 && !(value & 0x80)) t->dump_end = m->cycles;
  t->vblank = (uint8_t)value;
  return 0;
}

ATARI_APART uint32_t tia_change_nusiz(struct atari *m, int i, uint32_t value) {
  struct atari_tia *t = &m->tia;
  tia_catch_up(m, t->due);
  t->nusiz[i] = (uint8_t)value;
  t->skip[i] = 0;
  if (i == 0) t->ark_m0 = 0;
  t->dirty |= (uint8_t)((DIRTY_P0 | DIRTY_M0) << i);
  return 0;
}

ATARI_APART uint32_t tia_change_colour(struct atari *m, uint32_t i, uint32_t value) {
  tia_catch_up(m, m->tia.due);
  tia_colours_change(m);
  m->tia.colour[i] = (uint8_t)value;
  return 0;
}

ATARI_APART uint32_t tia_change_ctrlpf(struct atari *m, uint32_t value, int32_t clock) {
  struct atari_tia *t = &m->tia;
  tia_catch_up(m, t->due);
  tia_colours_change(m);
  t->ctrlpf = (uint8_t)value;
  if (tia_phase(t, clock) < 147) t->reflect = value & 1;
  t->dirty |= DIRTY_PF | DIRTY_BL;
  return 0;
}

/* Registers of a byte that say how something is drawn. */
ATARI_APART uint32_t tia_change(struct atari *m, uint8_t *reg, uint32_t value, uint32_t dirty) {
  tia_catch_up(m, m->tia.due);
  *reg = (uint8_t)value;
  m->tia.dirty |= (uint8_t)dirty;
  return 0;
}

ATARI_APART uint32_t tia_strobe(struct atari *m, uint32_t reg, int32_t clock) {
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

ATARI_APART uint32_t tia_change_resmp(struct atari *m, int i, uint32_t value) {
  tia_catch_up(m, m->tia.due);
  tia_lock_missile(&m->tia, i, (uint8_t)value);
  if (i == 0) tia_ark_plain(&m->tia);
  return 0;
}

/* Writing one player's graphics makes the other's last ones old, and GRP1 the ball's, too. */
ATARI_APART uint32_t tia_change_graphics(struct atari *m, int i, uint32_t value, uint32_t dirty) {
  struct atari_tia *t = &m->tia;
  tia_catch_up(m, t->due);
  t->grp[i] = (uint8_t)value;
  t->old_grp[i ^ 1] = t->grp[i ^ 1];
  if (i == 1) t->old_enabl = t->enabl;
  t->dirty |= (uint8_t)dirty;
  return 0;
}

ATARI_APART uint32_t tia_start_ark(struct atari *m, int32_t clock, uint32_t hmm0) {
  tia_catch_up(m, clock); /* lines before this do not step it */
  m->tia.ark = 1;
  m->tia.ark_count = 0;
  m->tia.hm[ATARI_M0] = (uint8_t)hmm0;
  return 0;
}

/* Writes return the cycles for which the CPU is stopped, and this where they end the frame. */
#define TIA_STOPS 128u
#define TIA_WAITS 127u

/* A write, once the image is due up to it. */
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
        t->calm = INT32_MIN;
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
      if (t->nusiz[i] == value && !t->skip[i] && !t->ark) /* ark_m0 is only known once the lines before are drawn */
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
    case GRP0: /* writing one player's graphics makes the other's last ones old */
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
    default: /* sound, and addresses where there is nothing */ return 0;
  }
}

/* Writes beyond t->calm. While VSYNC is on, what is due is drawn at once: its end is the frame's. */
ATARI_APART uint32_t tia_write_rarely(struct atari *m, uint32_t reg, uint32_t value, int wsync_waits, int32_t due) {
  if (3 * m->cycles >= tia_frame_end(m)) m->frame_over = 1;
  if (tia_falls_due(&m->tia, due)) tia_draw_now(m);
  m->tia.calm = tia_calm(m);
  const uint32_t waits = tia_write_due(m, reg, value, wsync_waits);
  return m->frame_over ? waits | TIA_STOPS : waits;
}

/*
 * wsync_waits is 0 where the CPU's last access to the bus was a write, too: it
 * cannot be stopped then.
 */
ATARI_APART uint32_t tia_write(struct atari *m, uint32_t reg, uint32_t value, int wsync_waits) {
  struct atari_tia *t = &m->tia;
  const int32_t clock = 3 * m->cycles;
  int32_t due = clock + tia_delay[reg];
  if (reg >= PF0 && reg <= PF2) /* the playfield moves in steps of four */
    due = t->frame_start + (int32_t)(((uint32_t)(clock - t->frame_start) + 5) & ~3u);
  if (due > t->calm) return tia_write_rarely(m, reg, value, wsync_waits, due);
  if (due > t->due) {
    t->due_before = t->due;
    t->due = due;
  }
  return tia_write_due(m, reg, value, wsync_waits);
}

#endif
