/*
 * The TIA's six objects: the pixels of a line that players, missiles, ball and playfield light.
 */
#ifndef ATARI_OBJECTS_H
#define ATARI_OBJECTS_H

#include "mask.h"

enum {
  DIRTY_P0 = 1 << ATARI_P0,
  DIRTY_P1 = 1 << ATARI_P1,
  DIRTY_M0 = 1 << ATARI_M0,
  DIRTY_M1 = 1 << ATARI_M1,
  DIRTY_BL = 1 << ATARI_BL,
  DIRTY_PF = 1 << ATARI_PF,
  DIRTY_LAYERS = 1 << ATARI_OBJECTS
};

/* By NUSIZ's low bits: offsets of the second and third copy, 0: no copy; and pixels for each bit. */
ATARI_TABLE uint8_t tia_copies[8][2] = {{0, 0}, {16, 0}, {32, 0}, {16, 32}, {64, 0}, {0, 0}, {32, 64}, {0, 0}};
ATARI_TABLE uint8_t tia_stretch[8] = {1, 1, 1, 1, 1, 2, 1, 4};

/* Four bits, each repeated four times. */
ATARI_TABLE uint16_t tia_wide[16] = {
    0x0000, 0x000F, 0x00F0, 0x00FF, 0x0F00, 0x0F0F, 0x0FF0, 0x0FFF,
    0xF000, 0xF00F, 0xF0F0, 0xF0FF, 0xFF00, 0xFF0F, 0xFFF0, 0xFFFF,
};

/* Four bits reversed; tia_reverse reverses eight. */
ATARI_TABLE uint8_t tia_reversed[16] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};

ATARI_INLINE uint32_t tia_reverse(uint32_t byte) {
  return (uint32_t)tia_reversed[byte & 15] << 4 | tia_reversed[byte >> 4];
}

ATARI_FN uint32_t tia_wrap(uint32_t x) { return x >= ATARI_WIDTH ? x - ATARI_WIDTH : x; }

ATARI_FN uint8_t tia_graphics(const struct atari_tia *t, int player) {
  return t->vdelp[player] ? t->old_grp[player] : t->grp[player];
}

ATARI_FN uint8_t tia_ball(const struct atari_tia *t) { return t->vdelbl ? t->old_enabl : t->enabl; }

ATARI_FN int tia_missile(const struct atari_tia *t, int missile) { return t->enam[missile] && !t->resmp[missile]; }

/* The objects that may light pixels, as DIRTY_ bits. */
ATARI_INLINE uint32_t tia_on(const struct atari_tia *t) {
  return (tia_graphics(t, 0) ? DIRTY_P0 : 0u) | (tia_graphics(t, 1) ? DIRTY_P1 : 0u) |
         (tia_missile(t, 0) ? DIRTY_M0 : 0u) | (tia_missile(t, 1) ? DIRTY_M1 : 0u) | (tia_ball(t) ? DIRTY_BL : 0u) |
         (t->pf[0] >> 4 | t->pf[1] | t->pf[2] ? DIRTY_PF : 0u);
}

/* The pixels of a player with these graphics. Players of double and quadruple size are drawn one pixel later. */
ATARI_FN tia_bits tia_player_mask(const struct atari_tia *t, int player, uint32_t bits) {
  struct atari_mask m = {{0, 0, 0, 0}};
  if (bits == 0) return bits_none();
  const uint32_t size = t->nusiz[player] & 7, at = t->position[ATARI_P0 + player];
  if (!t->refp[player]) bits = tia_reverse(bits);
  if (tia_stretch[size] > 1) {
    uint32_t wide = tia_wide[bits & 15] | (uint32_t)tia_wide[bits >> 4] << 16;
    if (tia_stretch[size] == 2) { /* keep two of the four bits */
      wide &= 0x33333333;
      wide = (wide | wide >> 2) & 0x0F0F0F0F;
      wide = (wide | wide >> 4) & 0x00FF00FF;
      wide = (wide | wide >> 8) & 0x0000FFFF;
    }
    if (!t->skip[player]) mask_put(&m, wide, tia_wrap(at + 1));
    return bits_of_words(&m);
  }
  if (!t->skip[player]) mask_put(&m, bits, at);
  for (int i = 0; i < 2 && tia_copies[size][i]; i++) mask_put(&m, bits, tia_wrap(at + tia_copies[size][i]));
  return bits_of_words(&m);
}

ATARI_FN tia_bits tia_missile_mask(const struct atari_tia *t, int missile) {
  struct atari_mask m = {{0, 0, 0, 0}};
  if (!tia_missile(t, missile) || (missile == 0 && t->ark_m0 == 2)) return bits_none();
  const uint32_t nusiz = t->nusiz[missile], at = t->position[ATARI_M0 + missile];
  uint32_t width = nusiz >> 4 & 3;
  if (missile == 0 && t->ark_m0 == 1) width |= 1;
  const uint32_t bits = (1u << (1u << width)) - 1;
  mask_put(&m, bits, at);
  for (int i = 0; i < 2 && tia_copies[nusiz & 7][i]; i++) mask_put(&m, bits, tia_wrap(at + tia_copies[nusiz & 7][i]));
  return bits_of_words(&m);
}

ATARI_FN tia_bits tia_ball_mask(const struct atari_tia *t) {
  struct atari_mask m = {{0, 0, 0, 0}};
  if (tia_ball(t)) mask_put(&m, (1u << (1u << (t->ctrlpf >> 4 & 3))) - 1, t->position[ATARI_BL]);
  return bits_of_words(&m);
}

/* 16 bits, each repeated four times. */
ATARI_INLINE uint64_t tia_fours(uint32_t bits) {
#if defined(__AVX512BW__) /* such processors have a fast PDEP */
  return _pdep_u64(bits, UINT64_C(0x1111111111111111)) * 15;
#else
  return (uint64_t)tia_wide[bits & 15] | (uint64_t)tia_wide[bits >> 4 & 15] << 16 |
         (uint64_t)tia_wide[bits >> 8 & 15] << 32 | (uint64_t)tia_wide[bits >> 12] << 48;
#endif
}

/*
 * The left half has PF0's bits 4 to 7, PF1's 7 to 0 and PF2's 0 to 7, four pixels for each bit. The
 * right half repeats or mirrors the left half.
 */
ATARI_FN tia_bits tia_playfield_mask(const struct atari_tia *t) {
  const uint32_t first = t->pf[0] >> 4, second = tia_reverse(t->pf[1]), third = t->pf[2];
  if ((first | second | third) == 0) return bits_none();
  const uint32_t left = first | second << 4 | third << 12;
  uint32_t right = left;
  if (t->reflect) right = tia_reverse(third) | (uint32_t)t->pf[1] << 8 | tia_reverse(first) << 12;
  /* Each half has 80 pixels: 64 and 16, then 48 and 32. */
  return bits_of(tia_fours(left & 0xFFFF), tia_fours(left >> 16 | (right & 0xFFF) << 4), tia_fours(right >> 12));
}

/* Whether the playfield has the players' colours (CTRLPF's bit 1). Bit 2, priority, wins if another object is on. */
ATARI_FN int tia_score(const struct atari_tia *t) {
  if (!(t->ctrlpf & 2)) return 0;
  return !(t->ctrlpf & 4) ||
         !(tia_graphics(t, 0) || tia_graphics(t, 1) || tia_missile(t, 0) || tia_missile(t, 1) || tia_ball(t));
}

/* Updates the masks of dirty objects, then overlap and layers. */
ATARI_FN void tia_rebuild(struct atari_tia *t) {
  const uint32_t dirty = t->dirty;
  if (dirty & DIRTY_P0) bits_store(&t->mask[ATARI_P0], tia_player_mask(t, 0, tia_graphics(t, 0)));
  if (dirty & DIRTY_P1) bits_store(&t->mask[ATARI_P1], tia_player_mask(t, 1, tia_graphics(t, 1)));
  if (dirty & DIRTY_M0) bits_store(&t->mask[ATARI_M0], tia_missile_mask(t, 0));
  if (dirty & DIRTY_M1) bits_store(&t->mask[ATARI_M1], tia_missile_mask(t, 1));
  if (dirty & DIRTY_BL) bits_store(&t->mask[ATARI_BL], tia_ball_mask(t));
  if (dirty & DIRTY_PF) bits_store(&t->mask[ATARI_PF], tia_playfield_mask(t));
  t->dirty = 0;

  const tia_bits p0 = bits_load(&t->mask[ATARI_P0]), m0 = bits_load(&t->mask[ATARI_M0]);
  const tia_bits p1 = bits_load(&t->mask[ATARI_P1]), m1 = bits_load(&t->mask[ATARI_M1]);
  const tia_bits bl = bits_load(&t->mask[ATARI_BL]), pf = bits_load(&t->mask[ATARI_PF]);
  tia_bits first = bits_or(p0, m0), second = bits_or(p1, m1), third = bits_or(bl, pf);
  const tia_bits within = bits_or(bits_or(bits_and(p0, m0), bits_and(p1, m1)), bits_and(bl, pf));
  const tia_bits between = bits_or(bits_and(first, second), bits_and(bits_or(first, second), third));
  bits_store(&t->overlap, bits_or(within, between));
  if (tia_score(t)) { /* the left half is in P0's layer, the right half in P1's */
    const tia_bits left = bits_range(0, ATARI_WIDTH / 2);
    first = bits_or(first, bits_and(pf, left));
    second = bits_or(second, bits_without(pf, left));
    third = bl;
  }
  bits_store(&t->layer[0], first);
  bits_store(&t->layer[1], second);
  bits_store(&t->layer[2], third);
}

#endif
