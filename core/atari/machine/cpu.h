/*
 * The CPU, a 6507: one loop over instructions.
 *
 * Timing is by instruction: all its cycles are counted before it touches data, so
 * every access happens at the count of the instruction's end. There are no dummy
 * accesses but those below.
 *
 * What every instruction changes is in locals while the loop runs, few enough for a
 * processor's registers: PC, A, X, Y and the clock. All else stays in struct atari_cpu.
 */
#ifndef ATARI_CPU_H
#define ATARI_CPU_H

#include "bus.h"

/* Bytes of an instruction that are fetched before it is done. */
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

/*
 * The clock counts cycles in its lower half. The upper half counts instructions from
 * minus those that may still run, so that the loop ends when it is no longer negative.
 */
typedef int64_t cpu_clock;

#define CPU_INSTRUCTION ((cpu_clock)1 << 32)

ATARI_INLINE int32_t cpu_cycle(cpu_clock clock) { return (int32_t)(uint32_t)clock; }
ATARI_INLINE cpu_clock cpu_stop(cpu_clock clock) { return (cpu_clock)(uint32_t)clock; }

/* What instructions add to the clock. LAX of page zero takes 4 cycles, as in ALE; the chip's own are 3. */
#define STEP(cycles) (CPU_INSTRUCTION + (cycles))
#define STEPS(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                                                    \
	STEP(a), STEP(b), STEP(c), STEP(d), STEP(e), STEP(f), STEP(g), STEP(h), STEP(i), STEP(j), STEP(k), STEP(l), \
	STEP(m), STEP(n), STEP(o), STEP(p)
ATARI_TABLE cpu_clock cpu_step[256] = {
	STEPS(7, 6, 2, 8, 3, 3, 5, 5, 3, 2, 2, 2, 4, 4, 6, 6),
	STEPS(2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7),
	STEPS(6, 6, 2, 8, 3, 3, 5, 5, 4, 2, 2, 2, 4, 4, 6, 6),
	STEPS(2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7),
	STEPS(6, 6, 2, 8, 3, 3, 5, 5, 3, 2, 2, 2, 3, 4, 6, 6),
	STEPS(2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7),
	STEPS(6, 6, 2, 8, 3, 3, 5, 5, 4, 2, 2, 2, 5, 4, 6, 6),
	STEPS(2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7),
	STEPS(2, 6, 2, 6, 3, 3, 3, 3, 2, 2, 2, 2, 4, 4, 4, 4),
	STEPS(2, 6, 2, 6, 4, 4, 4, 4, 2, 5, 2, 5, 5, 5, 5, 5),
	STEPS(2, 6, 2, 6, 3, 3, 3, 4, 2, 2, 2, 2, 4, 4, 4, 4),
	STEPS(2, 5, 2, 5, 4, 4, 4, 4, 2, 4, 2, 4, 4, 4, 4, 4),
	STEPS(2, 6, 2, 8, 3, 3, 5, 5, 2, 2, 2, 2, 4, 4, 6, 6),
	STEPS(2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7),
	STEPS(2, 6, 2, 8, 3, 3, 5, 5, 2, 2, 2, 2, 4, 4, 6, 6),
	STEPS(2, 5, 2, 8, 4, 4, 6, 6, 2, 4, 2, 7, 4, 4, 7, 7),
};
#undef STEPS
#undef STEP

/* --------------------------------------------------------------- arithmetic */

/* N is bit 7 or 15 of nz; Z is set where its low byte is 0. BIT and PLP can set both. */
ATARI_INLINE int cpu_negative(const struct atari_cpu *p) { return (p->nz & 0x8080) != 0; }
ATARI_INLINE int cpu_zero(const struct atari_cpu *p) { return (p->nz & 0xFF) == 0; }

ATARI_FN uint8_t cpu_flags(const struct atari_cpu *p)
{
	return (uint8_t)(cpu_negative(p) << 7 | p->v << 6 | 0x30 | p->d << 3 | p->i << 2 | cpu_zero(p) << 1 | p->c);
}

ATARI_FN void cpu_set_flags(struct atari_cpu *p, uint32_t flags)
{
	p->nz = (uint16_t)((flags & 0x80) << 8 | !(flags & 2));
	p->v = flags >> 6 & 1;
	p->d = flags >> 3 & 1;
	p->i = flags >> 2 & 1;
	p->c = flags & 1;
}

/* Decimal mode treats each byte as two digits, valid or not. */
ATARI_FN uint32_t cpu_decimal(uint32_t bcd) { return (10 * (bcd >> 4) + (bcd & 15)) & 0xFF; }
ATARI_FN uint32_t cpu_bcd(uint32_t value) { return value / 10 % 10 << 4 | value % 10; }

ATARI_APART uint32_t cpu_add_decimal(struct atari_cpu *p, uint32_t a, uint32_t value)
{
	const uint32_t sum = cpu_decimal(a) + cpu_decimal(value) + p->c;
	const uint32_t result = cpu_bcd((sum & 0xFF) % 100); /* of digits above 9 the sum may pass 255 */
	p->c = sum > 99;
	p->v = ((a ^ result) & (result ^ value)) >> 7 & 1;
	p->nz = (uint16_t)result;
	return result;
}

ATARI_APART uint32_t cpu_subtract_decimal(struct atari_cpu *p, uint32_t a, uint32_t value)
{
	int32_t difference = (int32_t)cpu_decimal(a) - (int32_t)cpu_decimal(value) - 1 + p->c;
	const uint8_t carry = a >= value + 1 - p->c;
	if (difference < 0)
		difference += 100;
	const uint32_t result = difference < 0 ? cpu_decimal((uint32_t)(256 + difference)) : cpu_bcd((uint32_t)difference);
	p->c = carry;
	p->v = ((a ^ result) & (result ^ value)) >> 7 & 1;
	p->nz = (uint16_t)result;
	return result;
}

/* These return what A becomes. */
ATARI_INLINE uint32_t cpu_sum(struct atari_cpu *p, uint32_t a, uint32_t value)
{
	const uint32_t sum = a + value + p->c;
	p->c = (uint8_t)(sum >> 8);
	p->v = ((a ^ sum) & (value ^ sum)) >> 7 & 1;
	return p->nz = (uint8_t)sum;
}

ATARI_INLINE uint32_t cpu_add(struct atari_cpu *p, uint32_t a, uint32_t value)
{
	return p->d ? cpu_add_decimal(p, a, value) : cpu_sum(p, a, value);
}

ATARI_INLINE uint32_t cpu_subtract(struct atari_cpu *p, uint32_t a, uint32_t value)
{
	return p->d ? cpu_subtract_decimal(p, a, value) : cpu_sum(p, a, value ^ 0xFF);
}

/* ARR: AND, then a rotation whose flags are an addition's. */
ATARI_APART uint32_t cpu_and_rotate(struct atari_cpu *p, uint32_t a, uint32_t value)
{
	const uint32_t both = a & value, turned = both >> 1 | (uint32_t)p->c << 7;
	p->nz = (uint16_t)turned;
	if (!p->d) {
		p->c = turned >> 6 & 1;
		p->v = (turned >> 6 ^ turned >> 5) & 1;
		return turned;
	}
	uint32_t result = turned;
	p->v = (both ^ turned) >> 6 & 1;
	if ((both & 15) + (both & 1) > 5)
		result = (result & 0xF0) | ((result + 6) & 15);
	p->c = (both & 0xF0) + (both & 0x10) > 0x50;
	return p->c ? (result + 0x60) & 0xFF : result;
}

/* -------------------------------------------------------------------- memory */

/*
 * Where code lies in one piece of the image, away from hot spots: `span` addresses from
 * `from` on, at all of which an instruction may begin. Reading it is reading `code`.
 */
struct cpu_window {
	const uint8_t *code;
	uint32_t from, span;
};

ATARI_APART void cpu_find_window(const struct atari *m, const struct atari_rom *rom, uint32_t pc, struct cpu_window *w)
{
	const uint32_t a = pc & 0xFFF;
	uint32_t from = rom->code_from, below = rom->code_below, at;
	w->span = 0;
	if (!(pc & 0x1000) || a < from || a >= below)
		return;
	if (rom->scheme == ATARI_E0) { /* slices lie apart, and an instruction is to lie within one */
		from = a & 0xC00;
		if (below > from + 0x3FE)
			below = from + 0x3FE;
		at = m->cart.slice[a >> 10];
	} else if (rom->scheme == ATARI_FE) {
		at = cart_fe_bank(pc) + from;
	} else {
		at = m->cart.slice[0] + from;
	}
	if (a >= below)
		return;
	w->code = rom->image + at;
	w->from = (pc & 0xF000) + from;
	w->span = below - from;
}

/* Bytes that are no plain ones of the window. */
ATARI_APART uint32_t cpu_read_bus(struct atari *m, const struct atari_rom *rom, struct cpu_window *w, uint32_t address, uint32_t bus, cpu_clock clock)
{
	m->cycles = cpu_cycle(clock);
	const uint8_t value = bus_read(m, rom, address & 0xFFFF, (uint8_t)bus);
	if (address & 0x1000) /* banks may have changed */
		w->span = 0;
	return value;
}

/* bus: what was on the bus before. */
ATARI_INLINE uint32_t cpu_read(struct atari *m, const struct atari_rom *rom, struct cpu_window *w, uint32_t address, uint32_t bus, cpu_clock clock)
{
	uint32_t value;
	if ((address & 0x1280) == 0x80)
		value = m->ram[address & 0x7F];
	else if (address & 0x1000 && (address & 0xFFF) - rom->plain_from < rom->plain_span)
		value = rom->image[m->cart.slice[address >> 10 & 3] + (address & 0x3FF)];
	else
		value = cpu_read_bus(m, rom, w, address, bus, clock);
	m->latch = (uint8_t)value;
	return value;
}

/* A write to the TIA may stop the CPU for the rest of the line, and end the frame. */
ATARI_APART cpu_clock cpu_write_bus(struct atari *m, const struct atari_rom *rom, struct cpu_window *w, uint32_t address, uint32_t value, int wsync_waits, cpu_clock clock)
{
	const int32_t cycle = cpu_cycle(clock);
	m->cycles = cycle;
	bus_write(m, rom, address, (uint8_t)value, wsync_waits);
	if (address & 0x1000)
		w->span = 0;
	clock += m->cycles - cycle;
	return m->frame_over ? cpu_stop(clock) : clock;
}

ATARI_INLINE cpu_clock cpu_write(struct atari *m, const struct atari_rom *rom, struct cpu_window *w, uint32_t address, uint32_t value, int wsync_waits, cpu_clock clock)
{
	m->latch = (uint8_t)value;
	if ((address & 0x1280) != 0x80)
		return cpu_write_bus(m, rom, w, address, value, wsync_waits, clock);
	m->ram[address & 0x7F] = (uint8_t)value;
	return clock;
}

/* An instruction's bytes, one by one; JSR fetches its third itself, after pushing. */
ATARI_APART void cpu_fetch(struct atari *m, const struct atari_rom *rom, uint32_t pc, cpu_clock clock, uint8_t bytes[3])
{
	m->cycles = cpu_cycle(clock);
	bytes[0] = m->latch = bus_read(m, rom, pc, m->latch);
	m->cycles += cpu_cycle(cpu_step[bytes[0]]);
	for (uint32_t i = 1; i < 3; i++)
		bytes[i] = i < cpu_length[bytes[0]] ? (m->latch = bus_read(m, rom, (pc + i) & 0xFFFF, m->latch)) : 0;
}

#include "instructions.h"

#endif
