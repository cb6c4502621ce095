/*
 * The CPU, a 6507: one loop over instructions.
 *
 * Timing is by instruction: all its cycles are counted before it touches data, so
 * every access happens at the count of the instruction's end. There are no dummy
 * accesses but those below.
 *
 * Registers are in locals while the loop runs. An instruction's bytes come as one
 * word where they lie in ROM, away from hot spots; elsewhere they are read one by
 * one through the bus.
 */
#ifndef ATARI_CPU_H
#define ATARI_CPU_H

#include "bus.h"

/* Bytes of an instruction. JSR fetches its third itself, after pushing. */
ATARI_TABLE uint8_t cpu_length[256] = {
	2, 2, 1, 2, 2, 2, 2, 2, 1, 2, 1, 2, 3, 3, 3, 3, 2, 2, 1, 2, 2, 2, 2, 2, 1, 3, 1, 3, 3, 3, 3, 3,
	2, 2, 1, 2, 2, 2, 2, 2, 1, 2, 1, 2, 3, 3, 3, 3, 2, 2, 1, 2, 2, 2, 2, 2, 1, 3, 1, 3, 3, 3, 3, 3,
	1, 2, 1, 2, 2, 2, 2, 2, 1, 2, 1, 2, 3, 3, 3, 3, 2, 2, 1, 2, 2, 2, 2, 2, 1, 3, 1, 3, 3, 3, 3, 3,
	1, 2, 1, 2, 2, 2, 2, 2, 1, 2, 1, 2, 3, 3, 3, 3, 2, 2, 1, 2, 2, 2, 2, 2, 1, 3, 1, 3, 3, 3, 3, 3,
	2, 2, 2, 2, 2, 2, 2, 2, 1, 2, 1, 2, 3, 3, 3, 3, 2, 2, 1, 2, 2, 2, 2, 2, 1, 3, 1, 3, 3, 3, 3, 3,
	2, 2, 2, 2, 2, 2, 2, 2, 1, 2, 1, 2, 3, 3, 3, 3, 2, 2, 1, 2, 2, 2, 2, 2, 1, 3, 1, 3, 3, 3, 3, 3,
	2, 2, 2, 2, 2, 2, 2, 2, 1, 2, 1, 2, 3, 3, 3, 3, 2, 2, 1, 2, 2, 2, 2, 2, 1, 3, 1, 3, 3, 3, 3, 3,
	2, 2, 2, 2, 2, 2, 2, 2, 1, 2, 1, 2, 3, 3, 3, 3, 2, 2, 1, 2, 2, 2, 2, 2, 1, 3, 1, 3, 3, 3, 3, 3,
};

/* LAX of page zero takes 4, as in ALE; the chip's own are 3. */
ATARI_TABLE uint8_t cpu_cycles[256] = {
	7, 6, 2, 8, 3, 3, 5, 5, 3, 2, 2, 2, 4, 4, 6, 6, 2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7,
	6, 6, 2, 8, 3, 3, 5, 5, 4, 2, 2, 2, 4, 4, 6, 6, 2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7,
	6, 6, 2, 8, 3, 3, 5, 5, 3, 2, 2, 2, 3, 4, 6, 6, 2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7,
	6, 6, 2, 8, 3, 3, 5, 5, 4, 2, 2, 2, 5, 4, 6, 6, 2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7,
	2, 6, 2, 6, 3, 3, 3, 3, 2, 2, 2, 2, 4, 4, 4, 4, 2, 6, 2, 6, 4, 4, 4, 4, 2, 5, 2, 5, 5, 5, 5, 5,
	2, 6, 2, 6, 3, 3, 3, 4, 2, 2, 2, 2, 4, 4, 4, 4, 2, 5, 2, 5, 4, 4, 4, 4, 2, 4, 2, 4, 4, 4, 4, 4,
	2, 6, 2, 8, 3, 3, 5, 5, 2, 2, 2, 2, 4, 4, 6, 6, 2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7,
	2, 6, 2, 8, 3, 3, 5, 5, 2, 2, 2, 2, 4, 4, 6, 6, 2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7,
};

/* --------------------------------------------------------------- arithmetic */

/* What a sum does to the registers: decimal mode treats each byte as two digits, valid or not. */
ATARI_INLINE uint8_t cpu_decimal(uint8_t bcd) { return (uint8_t)(10 * (bcd >> 4) + (bcd & 15)); }
ATARI_INLINE uint8_t cpu_bcd(uint32_t value) { return (uint8_t)(value / 10 % 10 << 4 | value % 10); }

ATARI_INLINE void cpu_add(struct atari_cpu *p, uint8_t value)
{
	const uint8_t old = p->a;
	if (!p->d) {
		const uint32_t sum = (uint32_t)old + value + p->c;
		p->c = sum > 0xFF;
		p->a = (uint8_t)sum;
		p->v = ((old ^ sum) & (value ^ sum) & 0x80) != 0;
	} else {
		const uint32_t sum = (uint32_t)cpu_decimal(old) + cpu_decimal(value) + p->c;
		p->c = sum > 99;
		p->a = cpu_bcd((sum & 0xFF) % 100); /* of digits above 9 the sum may pass 255 */
		p->v = ((old ^ p->a) & (p->a ^ value) & 0x80) != 0;
	}
	p->n = p->z = p->a;
}

ATARI_INLINE void cpu_subtract(struct atari_cpu *p, uint8_t value)
{
	const uint8_t old = p->a;
	if (!p->d) {
		const uint32_t difference = (uint32_t)old + (value ^ 0xFF) + p->c;
		p->c = difference > 0xFF;
		p->a = (uint8_t)difference;
		p->v = ((old ^ value) & (old ^ difference) & 0x80) != 0;
	} else {
		int32_t difference = cpu_decimal(old) - cpu_decimal(value) - 1 + p->c;
		const uint8_t carry = old >= value + 1 - p->c;
		if (difference < 0)
			difference += 100;
		p->a = difference < 0 ? cpu_decimal((uint8_t)(256 + difference)) : cpu_bcd((uint32_t)difference);
		p->v = ((old ^ p->a) & (p->a ^ value) & 0x80) != 0;
		p->c = carry;
	}
	p->n = p->z = p->a;
}

/* ARR: AND, then a rotation whose flags are an addition's. */
ATARI_INLINE void cpu_and_rotate(struct atari_cpu *p, uint8_t value)
{
	const uint8_t both = p->a & value, turned = (uint8_t)(both >> 1 | p->c << 7);
	p->n = p->z = p->a = turned;
	if (!p->d) {
		p->c = turned >> 6 & 1;
		p->v = (turned >> 6 ^ turned >> 5) & 1;
		return;
	}
	p->v = (both ^ turned) >> 6 & 1;
	if ((both & 15) + (both & 1) > 5)
		p->a = (uint8_t)((p->a & 0xF0) | ((p->a + 6) & 15));
	p->c = (both & 0xF0) + (both & 0x10) > 0x50;
	if (p->c)
		p->a = (uint8_t)(p->a + 0x60);
}

ATARI_INLINE uint8_t cpu_flags(const struct atari_cpu *p)
{
	return (uint8_t)((p->n & 0x80) | p->v << 6 | 0x30 | p->d << 3 | p->i << 2 | (p->z == 0) << 1 | p->c);
}

ATARI_INLINE void cpu_set_flags(struct atari_cpu *p, uint8_t flags)
{
	p->n = flags & 0x80;
	p->v = flags >> 6 & 1;
	p->d = flags >> 3 & 1;
	p->i = flags >> 2 & 1;
	p->z = !(flags & 2);
	p->c = flags & 1;
}

#include "instructions.h"

#endif
