/*
 * Rows of 160 pixels as bits: where each object of the TIA is lit on a line.
 */
#ifndef ATARI_MASK_H
#define ATARI_MASK_H

#include "state.h"

/* The low 32 bits of the last word are pixels 128 to 159; nothing is beyond. */
#define ATARI_LAST_WORD UINT64_C(0xFFFFFFFF)

ATARI_FN int mask_any(struct atari_mask a) { return (a.w[0] | a.w[1] | a.w[2]) != 0; }

ATARI_FN struct atari_mask mask_and(struct atari_mask a, struct atari_mask b)
{
	const struct atari_mask m = {{a.w[0] & b.w[0], a.w[1] & b.w[1], a.w[2] & b.w[2]}};
	return m;
}

ATARI_FN struct atari_mask mask_or(struct atari_mask a, struct atari_mask b)
{
	const struct atari_mask m = {{a.w[0] | b.w[0], a.w[1] | b.w[1], a.w[2] | b.w[2]}};
	return m;
}

/* Bits below x, which is 0 to 64 or anything beyond on either side. */
ATARI_FN uint64_t mask_below(int32_t x)
{
	return x <= 0 ? 0 : x >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << x) - 1;
}

/* Pixels from to to-1. */
ATARI_FN struct atari_mask mask_range(int32_t from, int32_t to)
{
	const struct atari_mask m = {{
		mask_below(to) & ~mask_below(from),
		mask_below(to - 64) & ~mask_below(from - 64),
		mask_below(to - 128) & ~mask_below(from - 128),
	}};
	return m;
}

/* Lights the pixels of `bits`, bit 0 at x (0 to 159), around the screen's edge. */
ATARI_FN void mask_put(struct atari_mask *m, uint32_t bits, uint32_t x)
{
	const uint32_t word = x >> 6, shift = x & 63;
	const uint64_t low = (uint64_t)bits << shift, high = shift > 32 ? (uint64_t)bits >> (64 - shift) : 0;
	if (word == 0) {
		m->w[0] |= low;
		m->w[1] |= high;
	} else if (word == 1) {
		m->w[1] |= low;
		m->w[2] |= high;
	} else {
		m->w[2] |= low & ATARI_LAST_WORD;
		m->w[0] |= low >> 32;
	}
}

#endif
