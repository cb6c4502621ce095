/*
 * The CPU, a 6507: one loop over instructions.
 *
 * Timing is by instruction. The loop counts all cycles of an instruction before it accesses data,
 * so every access happens at the last cycle of the instruction. Dummy accesses exist only where the
 * code below makes them.
 *
 * While the loop runs, local variables hold what every instruction changes: the code pointer, A, X,
 * Y, N and Z, and the clock. They are few enough for a processor's registers. The rest stays in
 * struct atari_cpu.
 */
#ifndef ATARI_CPU_H
#define ATARI_CPU_H

#include "bus.h"
#include "code.h"

/* Bytes of an instruction that are fetched before it executes, by opcode. */
ATARI_TABLE uint8_t cpu_length[256] = {
    2, 2, 1, 2, 2, 2, 2, 2, 1, 2, 1, 2, 3, 3, 3, 3, 2, 2, 1, 2, 2, 2, 2, 2, 1, 3, 1, 3, 3, 3, 3, 3, 2, 2, 1, 2, 2,
    2, 2, 2, 1, 2, 1, 2, 3, 3, 3, 3, 2, 2, 1, 2, 2, 2, 2, 2, 1, 3, 1, 3, 3, 3, 3, 3, 1, 2, 1, 2, 2, 2, 2, 2, 1, 2,
    1, 2, 3, 3, 3, 3, 2, 2, 1, 2, 2, 2, 2, 2, 1, 3, 1, 3, 3, 3, 3, 3, 1, 2, 1, 2, 2, 2, 2, 2, 1, 2, 1, 2, 3, 3, 3,
    3, 2, 2, 1, 2, 2, 2, 2, 2, 1, 3, 1, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 1, 2, 1, 2, 3, 3, 3, 3, 2, 2, 1, 2,
    2, 2, 2, 2, 1, 3, 1, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 1, 2, 1, 2, 3, 3, 3, 3, 2, 2, 1, 2, 2, 2, 2, 2, 1,
    3, 1, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 1, 2, 1, 2, 3, 3, 3, 3, 2, 2, 1, 2, 2, 2, 2, 2, 1, 3, 1, 3, 3, 3,
    3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 1, 2, 1, 2, 3, 3, 3, 3, 2, 2, 1, 2, 2, 2, 2, 2, 1, 3, 1, 3, 3, 3, 3, 3,
};

/*
 * The lower half of the clock counts cycles. The upper half is minus the number of instructions
 * that may still run, so the loop ends when the clock is no longer negative.
 */
typedef int64_t cpu_clock;

#define CPU_INSTRUCTION ((cpu_clock)1 << 32)

ATARI_INLINE int32_t cpu_cycle(cpu_clock clock) { return (int32_t)(uint32_t)clock; }
ATARI_INLINE cpu_clock cpu_stop(cpu_clock clock) { return (cpu_clock)(uint32_t)clock; }

/* What an instruction adds to the clock. LAX of page zero takes 4 cycles, as in ALE, and 3 on the chip. */
#define STEP(cycles) (CPU_INSTRUCTION + (cycles))
#define STEPS(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                                                          \
  STEP(a), STEP(b), STEP(c), STEP(d), STEP(e), STEP(f), STEP(g), STEP(h), STEP(i), STEP(j), STEP(k), STEP(l), STEP(m), \
      STEP(n), STEP(o), STEP(p)
ATARI_TABLE cpu_clock cpu_step[CODE_OPERATIONS] = {
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
    [CODE_LEAVE] = 0,
    [CODE_WAIT_A] = STEP(4),
    [CODE_WAIT_X] = STEP(4),
    [CODE_WAIT_Y] = STEP(4),
};
#undef STEPS
#undef STEP

/* --------------------------------------------------------------- arithmetic */

/* N is bit 7 or bit 15 of nz; Z is set if the low byte of nz is 0. BIT and PLP can set both flags. */
ATARI_INLINE int cpu_negative(const struct atari_cpu *p) { return (p->nz & 0x8080) != 0; }
ATARI_INLINE int cpu_zero(const struct atari_cpu *p) { return (p->nz & 0xFF) == 0; }

ATARI_FN uint8_t cpu_flags(const struct atari_cpu *p) {
  return (uint8_t)(cpu_negative(p) << 7 | p->v << 6 | 0x30 | p->d << 3 | p->i << 2 | cpu_zero(p) << 1 | p->c);
}

ATARI_FN void cpu_set_flags(struct atari_cpu *p, uint32_t flags) {
  p->nz = (uint16_t)((flags & 0x80) << 8 | !(flags & 2));
  p->v = flags >> 6 & 1;
  p->d = flags >> 3 & 1;
  p->i = flags >> 2 & 1;
  p->c = flags & 1;
}

/* Decimal mode treats each byte as two digits, also if a digit is above 9. */
ATARI_FN uint32_t cpu_decimal(uint32_t bcd) { return (10 * (bcd >> 4) + (bcd & 15)) & 0xFF; }
ATARI_FN uint32_t cpu_bcd(uint32_t value) { return value / 10 % 10 << 4 | value % 10; }

ATARI_NOINLINE uint32_t cpu_add_decimal(struct atari_cpu *p, uint32_t a, uint32_t value) {
  const uint32_t sum = cpu_decimal(a) + cpu_decimal(value) + p->c;
  const uint32_t result = cpu_bcd((sum & 0xFF) % 100); /* with digits above 9 the sum may exceed 255 */
  p->c = sum > 99;
  p->v = ((a ^ result) & (result ^ value)) >> 7 & 1;
  return result;
}

ATARI_NOINLINE uint32_t cpu_subtract_decimal(struct atari_cpu *p, uint32_t a, uint32_t value) {
  int32_t difference = (int32_t)cpu_decimal(a) - (int32_t)cpu_decimal(value) - 1 + p->c;
  const uint8_t carry = a >= value + 1 - p->c;
  if (difference < 0) difference += 100;
  const uint32_t result = difference < 0 ? cpu_decimal((uint32_t)(256 + difference)) : cpu_bcd((uint32_t)difference);
  p->c = carry;
  p->v = ((a ^ result) & (result ^ value)) >> 7 & 1;
  return result;
}

/* These return the new A, which also sets N and Z. */
ATARI_INLINE uint32_t cpu_sum(struct atari_cpu *p, uint32_t a, uint32_t value) {
  const uint32_t sum = a + value + p->c;
  p->c = (uint8_t)(sum >> 8);
  p->v = ((a ^ sum) & (value ^ sum)) >> 7 & 1;
  return sum & 0xFF;
}

ATARI_INLINE uint32_t cpu_add(struct atari_cpu *p, uint32_t a, uint32_t value) {
  return p->d ? cpu_add_decimal(p, a, value) : cpu_sum(p, a, value);
}

ATARI_INLINE uint32_t cpu_subtract(struct atari_cpu *p, uint32_t a, uint32_t value) {
  return p->d ? cpu_subtract_decimal(p, a, value) : cpu_sum(p, a, value ^ 0xFF);
}

/* ARR: AND, then a rotation that sets the flags of an addition. */
ATARI_NOINLINE uint32_t cpu_and_rotate(struct atari_cpu *p, uint32_t a, uint32_t value) {
  const uint32_t both = a & value, turned = both >> 1 | (uint32_t)p->c << 7;
  p->nz = (uint16_t)turned;
  if (!p->d) {
    p->c = turned >> 6 & 1;
    p->v = (turned >> 6 ^ turned >> 5) & 1;
    return turned;
  }
  uint32_t result = turned;
  p->v = (both ^ turned) >> 6 & 1;
  if ((both & 15) + (both & 1) > 5) result = (result & 0xF0) | ((result + 6) & 15);
  p->c = (both & 0xF0) + (both & 0x10) > 0x50;
  return p->c ? (result + 0x60) & 0xFF : result;
}

/* -------------------------------------------------------------------- memory */

/*
 * The current bank: `code` points to the words of the `span` addresses that start at `from`. span
 * is 0 after an instruction that was fetched over the bus. From data_from on, data_span bytes of
 * the same bank can be read without side effects; data_span is 0 if slices can move.
 */
struct cpu_window {
  const uint32_t *code;
  uint32_t from, span;
  const uint8_t *data;
  uint32_t data_from, data_span;
  int32_t left; /* the clock's upper half, saved while a moved bank stops the loop; otherwise 0 */
  uint32_t fetched[4];
};

/* Fetches an instruction's bytes over the bus. JSR fetches its third byte itself, after pushing. */
ATARI_FN void cpu_fetch(struct atari *m, const struct atari_rom *rom, uint32_t pc, cpu_clock clock,
                        uint32_t fetched[4]) {
  uint8_t bytes[3] = {0, 0, 0};
  m->cycles = cpu_cycle(clock);
  bytes[0] = m->latch = bus_read(m, rom, pc, m->latch);
  m->cycles += cpu_cycle(cpu_step[bytes[0]]);
  for (uint32_t i = 1; i < cpu_length[bytes[0]]; i++)
    bytes[i] = m->latch = bus_read(m, rom, (pc + i) & 0xFFFF, m->latch);
  fetched[0] = code_word(bytes[0], bytes[1], bytes[2]);
  fetched[1] = fetched[2] = fetched[3] = code_word(CODE_LEAVE, 0, 0);
}

/* Sets the window for the code at pc and returns the word at pc. */
ATARI_NOINLINE const uint32_t *cpu_enter(struct atari *m, const struct atari_rom *rom, struct cpu_window *w,
                                         uint32_t pc, cpu_clock clock) {
  if (pc & 0x1000) {
    const uint32_t bank = code_bank(rom->scheme);
    const uint32_t at = rom->scheme == ATARI_FE ? cart_fe_bank(pc) : m->cart.slice[bank == 4096 ? 0 : pc >> 10 & 3];
    w->from = pc & ~(bank - 1);
    w->span = bank;
    w->code = rom->code + at;
    w->data = rom->image + at + rom->plain_from;
    w->data_from = w->from + rom->plain_from;
    w->data_span = rom->scheme == ATARI_FE ? 4096
                   : bank == 4096          ? rom->plain_span
                                           : 0; /* the address selects FE's bank */
    const uint32_t *code = w->code + (pc - w->from);
    if (code_operation(*code) != CODE_LEAVE) return code;
  }
  cpu_fetch(m, rom, pc, clock, w->fetched);
  w->from = pc;
  w->span = w->data_span = 0;
  return w->code = w->fetched;
}

ATARI_INLINE uint32_t cpu_pc(const struct cpu_window *w, const uint32_t *code) {
  return w->from + (uint32_t)(code - w->code);
}

/* Makes the loop find its window again after this instruction, because a bank may have moved. */
ATARI_FN cpu_clock cpu_leave(struct cpu_window *w, cpu_clock clock) {
  w->data_span = 0;
  if (clock >= 0) return clock;
  w->left = (int32_t)(clock >> 32);
  return cpu_stop(clock);
}

/* Whether the address is a byte of the cartridge that can be read without side effects. */
ATARI_INLINE int cpu_plain(const struct atari_rom *rom, uint32_t address) {
  return address & 0x1000 && (address & 0xFFF) - rom->plain_from < rom->plain_span;
}

/* Reads an address that is neither in RAM nor in the window. */
ATARI_NOINLINE uint8_t cpu_read_bus(struct atari *m, const struct atari_rom *rom, uint32_t address, uint32_t bus,
                                    cpu_clock clock) {
  if (cpu_plain(rom, address)) return cart_rom(m, rom, address);
  m->cycles = cpu_cycle(clock);
  return bus_read(m, rom, address & 0xFFFF, (uint8_t)bus);
}

/* bus is the last byte on the bus. */
ATARI_INLINE uint32_t cpu_read(struct atari *m, const struct atari_rom *rom, struct cpu_window *w, uint32_t address,
                               uint32_t bus, cpu_clock *clock) {
  uint32_t value;
  if ((address & 0x1280) == 0x80) {
    value = m->ram[address & 0x7F];
  } else if (address - w->data_from < w->data_span) {
    value = w->data[address - w->data_from];
  } else {
    value = cpu_read_bus(m, rom, address, bus, *clock);
    if (address & 0x1000 && !cpu_plain(rom, address)) *clock = cpu_leave(w, *clock);
  }
  m->latch = (uint8_t)value;
  return value;
}

/* Writes to the cartridge or the RIOT. */
ATARI_NOINLINE cpu_clock cpu_write_bus(struct atari *m, const struct atari_rom *rom, struct cpu_window *w,
                                       uint32_t address, uint32_t value, cpu_clock clock) {
  m->cycles = cpu_cycle(clock);
  bus_write(m, rom, address, (uint8_t)value, 0);
  return address & 0x1000 ? cpu_leave(w, clock) : clock;
}

/* A write to the TIA may stop the CPU for the rest of the line, and may end the frame. */
ATARI_INLINE cpu_clock cpu_write(struct atari *m, const struct atari_rom *rom, struct cpu_window *w, uint32_t address,
                                 uint32_t value, int wsync_waits, cpu_clock clock) {
  m->latch = (uint8_t)value;
  if ((address & 0x1280) == 0x80) {
    m->ram[address & 0x7F] = (uint8_t)value;
    return clock;
  }
  if (address & 0x1080) return cpu_write_bus(m, rom, w, address, value, clock);
  m->cycles = cpu_cycle(clock);
  const uint32_t waits = tia_write(m, address & 0x3F, value & 0xFF, wsync_waits);
  if (waits == 0) return clock;
  clock += waits & TIA_WAITS;
  return waits & TIA_STOPS ? cpu_stop(clock) : clock;
}

#include "instructions.h"

#endif
