/*
 * The image: drawing up to the beam.
 *
 * Nothing is drawn while the CPU runs. The image is drawn up to the clock `drawn`. Before a visible
 * register changes, tia_catch_up draws up to the beam with the old registers, and finds the
 * collisions.
 *
 * Drawn pixels are collected as masks of three layers. tia_flush writes them to the image at the
 * end of the line or when a colour changes.
 */
#ifndef ATARI_IMAGE_H
#define ATARI_IMAGE_H

#include "composite.h"
#include "objects.h"

/* A collision latch: bit 7 or 6 of register 0 (CXM0P) to 7 (CXPPMM). */
#define COLLISION(reg, bit) (uint16_t)(1u << ((reg) * 2 + (bit) - 6))

#define COLLISIONS_ALL 0xEFFF /* CXBLPF has only one bit */

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
 * The latches of all pairs of objects that are on, indexed by DIRTY_ bits. If all of these latches
 * are set, a line need not be drawn unless its image is wanted.
 */
ATARI_TABLE uint16_t tia_possible_collisions[1 << ATARI_OBJECTS] = {
    0x0000, 0x0000, 0x0000, 0x8000, 0x0000, 0x0001, 0x0002, 0x8003, 0x0000, 0x0008, 0x0004, 0x800C, 0x4000,
    0x4009, 0x4006, 0xC00F, 0x0000, 0x0010, 0x0040, 0x8050, 0x0100, 0x0111, 0x0142, 0x8153, 0x0400, 0x0418,
    0x0444, 0x845C, 0x4500, 0x4519, 0x4546, 0xC55F, 0x0000, 0x0020, 0x0080, 0x80A0, 0x0200, 0x0221, 0x0282,
    0x82A3, 0x0800, 0x0828, 0x0884, 0x88AC, 0x4A00, 0x4A29, 0x4A86, 0xCAAF, 0x2000, 0x2030, 0x20C0, 0xA0F0,
    0x2300, 0x2331, 0x23C2, 0xA3F3, 0x2C00, 0x2C38, 0x2CC4, 0xACFC, 0x6F00, 0x6F39, 0x6FC6, 0xEFFF,
};

/* Sets the latches of the objects that overlap at these pixels. */
ATARI_NOINLINE void tia_collide(struct atari_tia *t, tia_bits range) {
  if (t->collisions == COLLISIONS_ALL) return;
  tia_bits lit[ATARI_OBJECTS];
  for (int i = 0; i < ATARI_OBJECTS; i++) lit[i] = bits_and(bits_load(&t->mask[i]), range);
  for (int i = 0; i < 15; i++)
    if (!(t->collisions & tia_pairs[i].latch) && bits_meet(lit[tia_pairs[i].one], lit[tia_pairs[i].other]))
      t->collisions |= tia_pairs[i].latch;
}

ATARI_FN int32_t tia_row(const struct atari_tia *t) { return (t->line_start - t->window_start) / ATARI_LINE; }

ATARI_FN uint8_t *tia_pixels(struct atari *m, int32_t row) { return m->image[m->tia.buffer] + row * ATARI_WIDTH; }

/* CTRLPF's bit 2 draws the playfield over the players. */
ATARI_INLINE struct atari_colours tia_colours(const struct atari_tia *t) {
  const struct atari_colours players_on_top = {t->colour[3], {{2, t->colour[2]}, {1, t->colour[1]}, {0, t->colour[0]}}};
  const struct atari_colours field_on_top = {t->colour[3], {{1, t->colour[1]}, {0, t->colour[0]}, {2, t->colour[2]}}};
  return t->ctrlpf & 4 ? field_on_top : players_on_top;
}

ATARI_INLINE void tia_clear_line(struct atari_tia *t) {
  for (int i = 0; i < 3; i++) bits_store(&t->line[i], bits_none());
}

/* Writes the pixels of this line up to `to` to the image. */
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

/* Adds the layers' pixels in this range to the line's pixels that are not flushed. */
ATARI_INLINE void tia_light(struct atari_tia *t, tia_bits range) {
  for (int i = 0; i < 3; i++)
    bits_store(&t->line[i], bits_or(bits_load(&t->line[i]), bits_and(bits_load(&t->layer[i]), range)));
}

/* Draws pixels `from` to to-1 of the line. */
ATARI_FN void tia_draw(struct atari *m, int32_t from, int32_t to) {
  struct atari_tia *t = &m->tia;
  if (t->comb && from < 8) t->comb_line = 1;
  if (t->vblank & 2) return;
  if (t->dirty) {
    if (!m->draw && !(tia_possible_collisions[tia_on(t)] & ~t->collisions)) return;
    tia_rebuild(t);
  }
  const tia_bits overlap = bits_load(&t->overlap);
  if (!m->draw && !bits_any(overlap)) return;
  if (from == 0 && to == ATARI_WIDTH) {
    if (bits_any(overlap)) tia_collide(t, overlap);
    for (int i = 0; i < 3; i++) bits_store(&t->line[i], bits_load(&t->layer[i]));
    return;
  }
  const tia_bits range = bits_range(from, to);
  if (bits_meet(overlap, range)) tia_collide(t, bits_and(overlap, range));
  if (m->draw) tia_light(t, range);
}

/*
 * The stars of Journey Escape. A write of HMM0 during HMOVE's pulses gives missile 0 a pulse train
 * that does not end, so missile 0 moves on every line.
 */
ATARI_FN void tia_ark_step(struct atari_tia *t) {
  ATARI_TABLE uint8_t steps[4] = {18, 33, 0, 17};
  t->ark_count = (t->ark_count + 1) & 3;
  t->position[ATARI_M0] = (uint8_t)tia_wrap(t->position[ATARI_M0] + ATARI_WIDTH - steps[t->ark_count]);
  t->ark_m0 = t->ark_count == 1 || t->ark_count == 2 ? t->ark_count : 0;
  t->dirty |= DIRTY_M0;
}

/* The effects of the beam's step to the next line of the image. */
ATARI_FN void tia_next_line(struct atari_tia *t) {
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

/* Draws the next line as a copy of the previous line. Nothing has changed since the start of that line. */
ATARI_FN void tia_repeat_line(struct atari *m) {
  struct atari_tia *t = &m->tia;
  t->line_start = t->drawn;
  t->drawn += ATARI_LINE;
  if (m->draw) {
    uint8_t *row = tia_pixels(m, tia_row(t));
    copy_pixels(row, row - ATARI_WIDTH, 0, ATARI_WIDTH);
  }
}

/* Draws up to clock `to`. A line's tia_next_line waits until something after the line is drawn. */
ATARI_NOINLINE void tia_draw_up_to(struct atari *m, int32_t to) {
  struct atari_tia *t = &m->tia;
  int whole = 0; /* the previous line was drawn at once */
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
      tia_next_line(t);
    }
    const int32_t begin = t->drawn - t->line_start;
    int32_t end = to - t->line_start;
    if (end > ATARI_LINE) end = ATARI_LINE;
    if (end > ATARI_HBLANK) tia_draw(m, begin > ATARI_HBLANK ? begin - ATARI_HBLANK : 0, end - ATARI_HBLANK);
    if (begin < ATARI_HBLANK + 8 && end >= ATARI_HBLANK + 8) t->comb = 0;
    t->drawn = t->line_start + end;
    whole = begin <= ATARI_HBLANK && end == ATARI_LINE;
    if (end == ATARI_LINE && m->draw) tia_flush(m, ATARI_WIDTH);
  }
}

/* Draws up to clock `to`; fast if `to` is in the blank of the current line. */
ATARI_INLINE void tia_catch_up(struct atari *m, int32_t to) {
  struct atari_tia *t = &m->tia;
  if (to <= t->drawn || to < t->draws_from) return;
  if (to <= t->line_start + ATARI_HBLANK)
    t->drawn = to;
  else
    tia_draw_up_to(m, to);
}

/*
 * ALE draws HMOVE's black pixels before the other pixels of the line. The earlier in the blank the
 * image was first due, the more pixels are black. If the image ends within the line, the black
 * pixels from `end` on remain visible.
 */
ATARI_FN void tia_comb_beyond(struct atari *m, int32_t end) {
  const struct atari_tia *t = &m->tia;
  if (t->line_start != t->comb_start || t->comb_first <= t->line_start || t->comb_first == ATARI_NEVER) return;
  int32_t black = t->line_start + ATARI_HBLANK + 8 - t->comb_first;
  if (black < 8) black = 8;
  for (int32_t x = end; x < black && x < ATARI_WIDTH; x++) tia_pixels(m, tia_row(t))[x] = 0;
}

/*
 * ALE draws four pixels at a time while only certain objects are on. If the image ends within such
 * four pixels, ALE draws all four, unless they contain pixels of an object other than the
 * playfield; a player's dark pixels count as well. tia_draws_fours returns whether ALE draws the
 * current objects four pixels at a time.
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

/* Writes all drawn pixels to the image at the end of a frame or of an unfinished call. */
ATARI_FN void tia_flush_all(struct atari *m) {
  struct atari_tia *t = &m->tia;
  const int32_t within = t->drawn - t->line_start, end = within > ATARI_HBLANK ? within - ATARI_HBLANK : 0,
                four = end & ~3;
  if (!m->draw || t->drawn <= t->window_start) return;
  tia_comb_beyond(m, end);
  /* The last part to be drawn starts at due_before. */
  if (end > four && t->due_before <= t->line_start + ATARI_HBLANK + four && !(t->vblank & 2) && tia_draws_fours(t)) {
    if (t->dirty) tia_rebuild(t);
    tia_bits objects = bits_none();
    for (int i = 0; i < ATARI_PF; i++) objects = bits_or(objects, bits_load(&t->mask[i]));
    for (int i = 0; i < 2; i++)
      if (tia_graphics(t, i)) objects = bits_or(objects, tia_player_mask(t, i, 0xFF));
    if (!bits_meet(objects, bits_range(four, four + 4))) {
      tia_light(t, bits_range(end, four + 4));
      tia_flush(m, four + 4);
      t->flushed = (uint8_t)end; /* the next call draws the pixels from `end` on again */
    }
  }
  tia_flush(m, end);
}

/* Draws up to `due` at once, because the image may end there. */
ATARI_NOINLINE void tia_draw_now(struct atari *m) {
  struct atari_tia *t = &m->tia;
  tia_catch_up(m, t->due);
  tia_flush_all(m);
  t->due_before = t->due; /* tia_flush_all must not draw these pixels again */
  if (t->comb_first != ATARI_NEVER) t->comb_first = t->comb_start;
}

/*
 * Extends `due` to this clock. Drawing usually waits until a register changes. While VSYNC is on it
 * must not wait, because the end of VSYNC ends the frame: this returns 1, and the caller calls
 * tia_draw_now.
 */
ATARI_INLINE int tia_extend_due(struct atari_tia *t, int32_t clock) {
  if (clock <= t->due) return 0;
  t->due_before = t->due;
  t->due = clock;
  if (clock > t->comb_start && t->comb_first == ATARI_NEVER) t->comb_first = clock;
  return t->vsync_end != ATARI_NEVER && t->drawn < t->window_end;
}

/* Must be called after tia_catch_up and before a change of the colours, CTRLPF or VBLANK. */
ATARI_FN void tia_colours_change(struct atari *m) {
  const struct atari_tia *t = &m->tia;
  const int32_t x = t->drawn - t->line_start - ATARI_HBLANK;
  if (m->draw && x > 0 && t->drawn > t->window_start) tia_flush(m, x);
}

/* ----------------------------------------------------------------- frames */

/* Times of very old events wrap around. */
ATARI_FN int32_t atari_earlier(int32_t time, int32_t by) { return (int32_t)((uint32_t)time - (uint32_t)by); }

/* Moves the times of past events back by this number of cycles, together with the clock. */
ATARI_FN void atari_shift_times(struct atari *m, int32_t cycles) {
  struct atari_tia *t = &m->tia;
  const int32_t clocks = 3 * cycles;
  if (t->vsync_end != ATARI_NEVER) /* a time before the new frame stays at 0 */
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
  t->fast_until = INT32_MIN;
  t->flushed = 0;
  t->comb_line = 0;
  tia_clear_line(t);
  atari_shift_times(m, cycles);
  if (m->pal)
    for (int i = 0; i < 4; i++) t->colour[i] = (uint8_t)((t->colour[i] & 0xFE) | (t->lines & 1));
}

/* Completes the image of a frame that has ended. */
ATARI_FN void tia_end_frame(struct atari *m) {
  struct atari_tia *t = &m->tia;
  t->lines = (3 * m->cycles - t->frame_start) / ATARI_LINE;
  tia_catch_up(m, t->due);
  tia_flush_all(m);
}

#endif
