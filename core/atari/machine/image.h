/*
 * The image: catching up with the beam.
 *
 * Nothing draws while the CPU runs. The image exists up to a clock, `drawn`; before
 * anything changes that shows, catching up draws the rest with the registers as they
 * still are, and finds the collisions there.
 *
 * Drawn pixels are collected as masks of three layers and put into the image when
 * the line ends or a colour changes (tia_flush).
 */
#ifndef ATARI_IMAGE_H
#define ATARI_IMAGE_H

#include "composite.h"
#include "objects.h"

/* Bit of a collision latch: register 0 (CXM0P) to 7 (CXPPMM), bit 7 or 6 of it. */
#define COLLISION(reg, bit) (uint16_t)(1u << ((reg) * 2 + (bit) - 6))

#define COLLISIONS_ALL 0xEFFF /* CXBLPF has one bit only */

ATARI_TABLE struct {
  uint8_t one, other;
  uint16_t latch;
} tia_pairs[15] = {
    {ATARI_M0, ATARI_P1, COLLISION(0, 7)}, {ATARI_M0, ATARI_P0, COLLISION(0, 6)}, {ATARI_M1, ATARI_P0, COLLISION(1, 7)},
    {ATARI_M1, ATARI_P1, COLLISION(1, 6)}, {ATARI_P0, ATARI_PF, COLLISION(2, 7)}, {ATARI_P0, ATARI_BL, COLLISION(2, 6)},
    {ATARI_P1, ATARI_PF, COLLISION(3, 7)}, {ATARI_P1, ATARI_BL, COLLISION(3, 6)}, {ATARI_M0, ATARI_PF, COLLISION(4, 7)},
    {ATARI_M0, ATARI_BL, COLLISION(4, 6)}, {ATARI_M1, ATARI_PF, COLLISION(5, 7)}, {ATARI_M1, ATARI_BL, COLLISION(5, 6)},
    {ATARI_BL, ATARI_PF, COLLISION(6, 7)}, {ATARI_P0, ATARI_P1, COLLISION(7, 7)}, {ATARI_M0, ATARI_M1, COLLISION(7, 6)},
};

/*
 * By the objects that are on (bits, as DIRTY_ has them): the latches of all their pairs.
 * Where these are set already, a line whose image is not wanted need not be drawn.
 */
ATARI_TABLE uint16_t tia_meetings[1 << ATARI_OBJECTS] = {
    0x0000, 0x0000, 0x0000, 0x8000, 0x0000, 0x0001, 0x0002, 0x8003, 0x0000, 0x0008, 0x0004, 0x800C, 0x4000,
    0x4009, 0x4006, 0xC00F, 0x0000, 0x0010, 0x0040, 0x8050, 0x0100, 0x0111, 0x0142, 0x8153, 0x0400, 0x0418,
    0x0444, 0x845C, 0x4500, 0x4519, 0x4546, 0xC55F, 0x0000, 0x0020, 0x0080, 0x80A0, 0x0200, 0x0221, 0x0282,
    0x82A3, 0x0800, 0x0828, 0x0884, 0x88AC, 0x4A00, 0x4A29, 0x4A86, 0xCAAF, 0x2000, 0x2030, 0x20C0, 0xA0F0,
    0x2300, 0x2331, 0x23C2, 0xA3F3, 0x2C00, 0x2C38, 0x2CC4, 0xACFC, 0x6F00, 0x6F39, 0x6FC6, 0xEFFF,
};

/* Latches the objects that meet at these pixels. */
ATARI_APART void tia_collide(struct atari_tia *t, tia_bits range) {
  if (t->collisions == COLLISIONS_ALL) return;
  tia_bits lit[ATARI_OBJECTS];
  for (int i = 0; i < ATARI_OBJECTS; i++) lit[i] = bits_and(bits_load(&t->mask[i]), range);
  for (int i = 0; i < 15; i++)
    if (!(t->collisions & tia_pairs[i].latch) && bits_meet(lit[tia_pairs[i].one], lit[tia_pairs[i].other]))
      t->collisions |= tia_pairs[i].latch;
}

ATARI_FN int32_t tia_row(const struct atari_tia *t) { return (t->line_start - t->window_start) / ATARI_LINE; }

ATARI_FN uint8_t *tia_pixels(struct atari *m, int32_t row) { return m->image[m->tia.buffer] + row * ATARI_WIDTH; }

/* CTRLPF's bit 2 brings the playfield before the players. */
ATARI_INLINE struct atari_colours tia_colours(const struct atari_tia *t) {
  const struct atari_colours behind = {t->colour[3], {{2, t->colour[2]}, {1, t->colour[1]}, {0, t->colour[0]}}};
  const struct atari_colours before = {t->colour[3], {{1, t->colour[1]}, {0, t->colour[0]}, {2, t->colour[2]}}};
  return t->ctrlpf & 4 ? before : behind;
}

ATARI_INLINE void tia_clear_line(struct atari_tia *t) {
  for (int i = 0; i < 3; i++) bits_store(&t->line[i], bits_none());
}

/* Puts the pixels of this line up to `to` into the image. */
ATARI_FN void tia_flush(struct atari *m, int32_t to) {
  struct atari_tia *t = &m->tia;
  const int32_t from = t->flushed;
  if (to <= from) return;
  uint8_t *row = tia_pixels(m, tia_row(t));
  if (t->vblank & 2)
    for (int32_t x = from; x < to; x++) row[x] = 0;
  else
    composite(row, t->line, tia_colours(t), from, to);
  if (t->comb_line)
    for (int32_t x = from; x < 8 && x < to; x++) row[x] = 0;
  tia_clear_line(t);
  t->flushed = (uint8_t)to;
}

/* Adds these pixels to those of the line that wait. */
ATARI_INLINE void tia_light(struct atari_tia *t, tia_bits range) {
  for (int i = 0; i < 3; i++)
    bits_store(&t->line[i], bits_or(bits_load(&t->line[i]), bits_and(bits_load(&t->layer[i]), range)));
}

/* Draws pixels from to to-1 of the line. */
ATARI_FN void tia_draw(struct atari *m, int32_t from, int32_t to) {
  struct atari_tia *t = &m->tia;
  if (t->comb && from < 8) t->comb_line = 1;
  if (t->vblank & 2) return;
  if (t->dirty) {
    if (!m->draw && !(tia_meetings[tia_on(t)] & ~t->collisions)) return;
    tia_rebuild(t);
  }
  const tia_bits twice = bits_load(&t->twice);
  if (!m->draw && !bits_any(twice)) return;
  if (from == 0 && to == ATARI_WIDTH) {
    if (bits_any(twice)) tia_collide(t, twice);
    for (int i = 0; i < 3; i++) bits_store(&t->line[i], bits_load(&t->layer[i]));
    return;
  }
  const tia_bits range = bits_range(from, to);
  if (bits_meet(twice, range)) tia_collide(t, bits_and(twice, range));
  if (m->draw) tia_light(t, range);
}

/*
 * Journey Escape's stars: an HMM0 written in the middle of HMOVE's pulses leaves
 * missile 0 with one that never ends, and it moves on every line.
 */
ATARI_FN void tia_ark_step(struct atari_tia *t) {
  ATARI_TABLE uint8_t steps[4] = {18, 33, 0, 17};
  t->ark_count = (t->ark_count + 1) & 3;
  t->position[ATARI_M0] = (uint8_t)tia_wrap(t->position[ATARI_M0] + ATARI_WIDTH - steps[t->ark_count]);
  t->ark_m0 = t->ark_count == 1 || t->ark_count == 2 ? t->ark_count : 0;
  t->dirty |= DIRTY_M0;
}

/* What the beam's going from one line of the image to the next does. */
ATARI_FN void tia_turn_line(struct atari_tia *t) {
  if (t->reflect != (t->ctrlpf & 1)) {
    t->reflect = t->ctrlpf & 1;
    t->dirty |= DIRTY_PF;
  }
  for (int i = 0; i < 2; i++)
    if (t->skip[i]) {
      t->skip[i] = 0;
      t->dirty |= (uint8_t)(DIRTY_P0 << i);
    }
  if (t->ark) tia_ark_step(t);
}

/* Draws the next line as the one before, of which nothing has changed since it began. */
ATARI_FN void tia_repeat_line(struct atari *m) {
  struct atari_tia *t = &m->tia;
  t->line_start = t->drawn;
  t->drawn += ATARI_LINE;
  if (m->draw) {
    uint8_t *row = tia_pixels(m, tia_row(t));
    copy_pixels(row, row - ATARI_WIDTH, 0, ATARI_WIDTH);
  }
}

/* The same, beyond the blank of the line that `drawn` is in. A line's turn is due once something beyond its end is drawn. */
ATARI_APART void tia_draw_up_to(struct atari *m, int32_t to) {
  struct atari_tia *t = &m->tia;
  int whole = 0; /* the line that was just drawn was, at once */
  if (to > t->window_end) to = t->window_end;
  while (t->drawn < to) {
    if (t->drawn == t->line_start + ATARI_LINE) {
      whole = whole && !t->comb_line && !t->skip[0] && !t->skip[1] && !t->ark && t->reflect == (t->ctrlpf & 1);
      if (whole && to - t->drawn >= ATARI_LINE) {
        tia_repeat_line(m);
        continue;
      }
      t->line_start = t->drawn;
      t->flushed = 0;
      t->comb_line = 0;
      tia_turn_line(t);
    }
    const int32_t begin = t->drawn - t->line_start;
    int32_t end = to - t->line_start;
    if (end > ATARI_LINE) end = ATARI_LINE;
    if (end > ATARI_BLANK) tia_draw(m, begin > ATARI_BLANK ? begin - ATARI_BLANK : 0, end - ATARI_BLANK);
    if (begin < ATARI_BLANK + 8 && end >= ATARI_BLANK + 8) t->comb = 0;
    t->drawn = t->line_start + end;
    whole = begin <= ATARI_BLANK && end == ATARI_LINE;
    if (end == ATARI_LINE && m->draw) tia_flush(m, ATARI_WIDTH);
  }
}

/* Makes the image exist up to clock `to`. */
ATARI_INLINE void tia_catch_up(struct atari *m, int32_t to) {
  struct atari_tia *t = &m->tia;
  if (to <= t->drawn || to < t->draws_from) return;
  if (to <= t->line_start + ATARI_BLANK)
    t->drawn = to;
  else
    tia_draw_up_to(m, to);
}

/*
 * HMOVE's black pixels are there before the others, and more of them the sooner within
 * the blank the image was first due. Those from `end` on are left.
 */
ATARI_FN void tia_comb_beyond(struct atari *m, int32_t end) {
  const struct atari_tia *t = &m->tia;
  if (t->line_start != t->comb_start || t->comb_first <= t->line_start || t->comb_first == ATARI_NEVER) return;
  int32_t black = t->line_start + ATARI_BLANK + 8 - t->comb_first;
  if (black < 8) black = 8;
  for (int32_t x = end; x < black && x < ATARI_WIDTH; x++) tia_pixels(m, tia_row(t))[x] = 0;
}

/*
 * ALE draws four pixels at a time while only certain objects are on. An image that
 * ends among four where nothing but the playfield is, not even a player's dark
 * pixels, has all four then.
 */
ATARI_FN int tia_draws_fours(const struct atari_tia *t) {
  ATARI_TABLE uint8_t plain[11] = {
      DIRTY_PF,
      DIRTY_P0,
      DIRTY_P1,
      DIRTY_P0 | DIRTY_P1,
      DIRTY_M0,
      DIRTY_M1,
      DIRTY_M0 | DIRTY_M1,
      DIRTY_BL,
      DIRTY_M0 | DIRTY_BL,
      DIRTY_M1 | DIRTY_BL,
      DIRTY_P1 | DIRTY_BL,
  };
  const uint32_t on = tia_on(t);
  for (int i = 0; i < 11; i++)
    if (on == plain[i]) return 1;
  return !(t->ctrlpf & 2) &&
         (on == (DIRTY_PF | DIRTY_P0) || on == (DIRTY_PF | DIRTY_P1) || on == (DIRTY_PF | DIRTY_BL));
}

/* Puts all that is drawn into the image, where a frame ends or is given up. */
ATARI_FN void tia_flush_all(struct atari *m) {
  struct atari_tia *t = &m->tia;
  const int32_t within = t->drawn - t->line_start, end = within > ATARI_BLANK ? within - ATARI_BLANK : 0,
                four = end & ~3;
  if (!m->draw || t->drawn <= t->window_start) return;
  tia_comb_beyond(m, end);
  /* What was drawn last begins where it was due before. */
  if (end > four && t->due_before <= t->line_start + ATARI_BLANK + four && !(t->vblank & 2) && tia_draws_fours(t)) {
    if (t->dirty) tia_rebuild(t);
    tia_bits objects = bits_none();
    for (int i = 0; i < ATARI_PF; i++) objects = bits_or(objects, bits_load(&t->mask[i]));
    for (int i = 0; i < 2; i++)
      if (tia_graphics(t, i)) objects = bits_or(objects, tia_player_mask(t, i, 0xFF));
    if (!bits_meet(objects, bits_range(four, four + 4))) {
      tia_light(t, bits_range(end, four + 4));
      tia_flush(m, four + 4);
      t->flushed = (uint8_t)end; /* what follows draws them again */
    }
  }
  tia_flush(m, end);
}

/* Draws at once what is due, as it may be the last of an image. */
ATARI_APART void tia_draw_now(struct atari *m) {
  struct atari_tia *t = &m->tia;
  tia_catch_up(m, t->due);
  tia_flush_all(m);
  t->due_before = t->due; /* so that none of this is done twice */
  if (t->comb_first != ATARI_NEVER) t->comb_first = t->comb_start;
}

/*
 * The image is to exist up to this clock. It is drawn when something changes, but at
 * once, by tia_draw_now, while VSYNC is on, whose end is the frame's: then this is 1.
 */
ATARI_INLINE int tia_falls_due(struct atari_tia *t, int32_t clock) {
  if (clock <= t->due) return 0;
  t->due_before = t->due;
  t->due = clock;
  if (clock > t->comb_start && t->comb_first == ATARI_NEVER) t->comb_first = clock;
  return t->vsync_end != ATARI_NEVER && t->drawn < t->window_end;
}

/* To be called, after catching up, before anything changes that turns layers into colours. */
ATARI_FN void tia_colours_change(struct atari *m) {
  const struct atari_tia *t = &m->tia;
  const int32_t x = t->drawn - t->line_start - ATARI_BLANK;
  if (m->draw && x > 0 && t->drawn > t->window_start) tia_flush(m, x);
}

/* ----------------------------------------------------------------- frames */

/* A time of long ago wraps around. */
ATARI_FN int32_t atari_earlier(int32_t time, int32_t by) { return (int32_t)((uint32_t)time - (uint32_t)by); }

/* Moves what happened so many cycles back, with the clock. */
ATARI_FN void atari_move_times(struct atari *m, int32_t cycles) {
  struct atari_tia *t = &m->tia;
  const int32_t clocks = 3 * cycles;
  if (t->vsync_end != ATARI_NEVER) /* once due, it is */
    t->vsync_end = t->vsync_end > clocks ? t->vsync_end - clocks : 0;
  t->hmove_at = atari_earlier(t->hmove_at, clocks);
  t->dump_end = atari_earlier(t->dump_end, cycles);
  m->riot.timer_set = atari_earlier(m->riot.timer_set, cycles);
  m->riot.timer_read = atari_earlier(m->riot.timer_read, cycles);
  m->cart.music_cycle = atari_earlier(m->cart.music_cycle, cycles);
}

ATARI_FN void tia_start_frame(struct atari *m) {
  struct atari_tia *t = &m->tia;
  const int32_t cycles = m->cycles, clocks = 3 * cycles;
  const int32_t within = (clocks - t->frame_start) % ATARI_LINE;
  m->cycles = 0;
  t->buffer ^= 1;
  t->frame_start = -within;
  t->window_start = t->frame_start + ATARI_LINE * m->first_line;
  t->window_end = t->window_start + ATARI_LINE * m->rows;
  t->draws_from = t->drawn = t->line_start = t->window_start;
  t->due = t->due_before = t->frame_start;
  t->comb_start = t->comb ? t->window_start : ATARI_NEVER;
  t->comb_first = ATARI_NEVER;
  t->calm = INT32_MIN;
  t->flushed = 0;
  t->comb_line = 0;
  tia_clear_line(t);
  atari_move_times(m, cycles);
  if (m->pal)
    for (int i = 0; i < 4; i++) t->colour[i] = (uint8_t)((t->colour[i] & 0xFE) | (t->lines & 1));
}

/* Finishes the image of a frame that has ended. */
ATARI_FN void tia_end_frame(struct atari *m) {
  struct atari_tia *t = &m->tia;
  t->lines = (3 * m->cycles - t->frame_start) / ATARI_LINE;
  tia_catch_up(m, t->due);
  tia_flush_all(m);
}

#endif
