/*
 * The instructions: cpu_run's loop, and the effect of each opcode.
 *
 * The program counter is `code`, a pointer to an instruction's word (code.h). After a jump out of
 * the window the program counter is `pc`, and cpu_enter finds the code at pc. An addressing mode
 * sets `address` and advances `code`. `bus` is the last byte on the bus; a read of the TIA returns
 * its bits where the TIA drives none. m->latch is the last byte on the bus at the end of an
 * instruction. Undocumented opcodes behave as on the NMOS chip.
 */
#ifndef ATARI_INSTRUCTIONS_H
#define ATARI_INSTRUCTIONS_H

#define READ(a) cpu_read(m, rom, &window, a, bus, &clock)
#define WRITE_AFTER(a, v, wsync_waits) (clock = cpu_write(m, rom, &window, a, v, wsync_waits, clock))
#define WRITE(a, v) WRITE_AFTER(a, v, 1)
#define NZ(v) (nz = (uint8_t)(v))
#define LOW code_low(word)
#define HIGH code_high(word)
#define OPERAND code_operand(word)
#define OPCODE (word & 0xFF)
#define PC cpu_pc(&window, code)
#define ON_BUS(v) (m->latch = (uint8_t)(v))

/* ----------------------------------------------------------- addressing */

#define ZERO (address = bus = LOW, code += 2)
#define ZERO_BY(index) (bus = LOW, address = (bus + (index)) & 0xFF, code += 2)
#define ABSOLUTE (bus = HIGH, address = OPERAND, code += 3)
#define ABSOLUTE_BY(index) (bus = HIGH, address = (OPERAND + (index)) & 0xFFFF, code += 3)
/* Reads take one more cycle if the index carries into the high byte. */
#define ABSOLUTE_BY_READ(index) (ABSOLUTE_BY(index), clock += address >> 8 != bus)
/* A pointer's second byte comes from the next address, which may be in page 1. */
#define POINTER(at)              \
  do {                           \
    const uint32_t first = (at); \
    bus = LOW;                   \
    address = bus = READ(first); \
    bus = READ(first + 1);       \
    address |= bus << 8;         \
    code += 2;                   \
  } while (0)
#define INDEXED POINTER((LOW + x) & 0xFF)
#define INDIRECT                      \
  do {                                \
    POINTER(LOW);                     \
    address = (address + y) & 0xFFFF; \
  } while (0)
#define INDIRECT_READ             \
  do {                            \
    INDIRECT;                     \
    clock += address >> 8 != bus; \
  } while (0)
#define IMMEDIATE (value = LOW, ON_BUS(value), code += 2)
#define IMPLIED (bus = OPCODE, ON_BUS(bus), code += 1)

/* ----------------------------------------------------------- operations */

#define FETCH (value = READ(address))
#define LOAD(r) NZ(r = value)
#define COMPARE(r)       \
  do {                   \
    p->c = (r) >= value; \
    NZ((r) - value);     \
  } while (0)
#define ORA NZ(a |= value)
#define AND NZ(a &= value)
#define EOR NZ(a ^= value)
#define ADC NZ(a = cpu_add(p, a, value))
#define SBC NZ(a = cpu_subtract(p, a, value))
#define BIT                                 \
  do {                                      \
    p->v = value >> 6 & 1;                  \
    nz = (value & 0x80) << 8 | (a & value); \
  } while (0)
#define ASL (p->c = value >> 7 & 1, NZ(value <<= 1))
#define LSR (p->c = value & 1, NZ(value >>= 1))
#define ROL (carry = p->c, p->c = value >> 7 & 1, NZ(value = value << 1 | carry))
#define ROR (carry = p->c, p->c = value & 1, NZ(value = value >> 1 | carry << 7))
#define INC NZ(++value)
#define DEC NZ(--value)
#define MODIFY(operation)  \
  do {                     \
    FETCH;                 \
    operation;             \
    value &= 0xFF;         \
    WRITE(address, value); \
  } while (0)
/* After an instruction that was fetched over the bus the window is empty, so every jump leaves it. */
#define JUMP(to)                                         \
  do {                                                   \
    pc = (to);                                           \
    if (pc - window.from >= window.span) goto elsewhere; \
    code = window.code + (pc - window.from);             \
  } while (0)
#define BRANCH(condition)                                          \
  do {                                                             \
    ON_BUS(LOW);                                                   \
    code += 2;                                                     \
    if (condition) {                                               \
      const uint32_t from = PC, to = from + (uint32_t)(int8_t)LOW; \
      clock += (to ^ from) & 0xFF00 ? 2 : 1;                       \
      JUMP(to);                                                    \
    }                                                              \
  } while (0)

/* The stack is in RAM for a stack pointer from $80 on, and in the TIA below $80. */
#define PUSH(v, wsync_waits)                             \
  do {                                                   \
    WRITE_AFTER(0x100u | p->sp, bus = (v), wsync_waits); \
    p->sp--;                                             \
  } while (0)
#define TOP (bus = READ(0x100u | p->sp))
#define PULL (p->sp++, TOP)

/* clang-format off */
/* The eight addressing modes of ORA, AND, EOR, ADC, LDA, CMP and SBC. even and odd: first digits of the opcodes. */
#define GROUP(even, odd, operation)                       \
  OP(even##1) INDEXED; FETCH; operation; NEXT;            \
  OP(even##5) ZERO; FETCH; operation; NEXT;               \
  OP(even##9) IMMEDIATE; operation; NEXT;                 \
  OP(even##D) ABSOLUTE; FETCH; operation; NEXT;           \
  OP(odd##1) INDIRECT_READ; FETCH; operation; NEXT;       \
  OP(odd##5) ZERO_BY(x); FETCH; operation; NEXT;          \
  OP(odd##9) ABSOLUTE_BY_READ(y); FETCH; operation; NEXT; \
  OP(odd##D) ABSOLUTE_BY_READ(x); FETCH; operation; NEXT

/* The addressing modes of shifts, INC and DEC. */
#define MODIFIER(even, odd, operation)            \
  OP(even##6) ZERO; MODIFY(operation); NEXT;      \
  OP(even##E) ABSOLUTE; MODIFY(operation); NEXT;  \
  OP(odd##6) ZERO_BY(x); MODIFY(operation); NEXT; \
  OP(odd##E) ABSOLUTE_BY(x); MODIFY(operation); NEXT

/* The undocumented opcodes that combine a MODIFIER operation with a second operation. */
#define BOTH(even, odd, operation, then)                    \
  OP(even##3) INDEXED; MODIFY(operation); then; NEXT;       \
  OP(even##7) ZERO; MODIFY(operation); then; NEXT;          \
  OP(even##F) ABSOLUTE; MODIFY(operation); then; NEXT;      \
  OP(odd##3) INDIRECT; MODIFY(operation); then; NEXT;       \
  OP(odd##7) ZERO_BY(x); MODIFY(operation); then; NEXT;     \
  OP(odd##B) ABSOLUTE_BY(y); MODIFY(operation); then; NEXT; \
  OP(odd##F) ABSOLUTE_BY(x); MODIFY(operation); then; NEXT
/* clang-format on */

/*
 * Games wait for the timer in loops of a load and a branch back to the load. This skips all turns
 * of the loop before the last load, because their result is known. A turn has two instructions and
 * 7 cycles, 8 across a page, and no other effect. pc is the address of the branch.
 */
ATARI_NOINLINE cpu_clock cpu_skip_waiting(const struct atari *m, uint32_t branch, uint32_t pc, cpu_clock clock) {
  const struct atari_riot *r = &m->riot;
  if (r->shift < 3) return clock;
  const int32_t turn = ((pc + 2) ^ (pc - 3)) & 0xFF00 ? 8 : 7;
  const int32_t since = (int32_t)((uint32_t)cpu_cycle(clock) - 1 - (uint32_t)r->timer_set);
  const int32_t count = riot_count(r, since);
  if (since < 0 || count < 0 || (branch == 0x10 && count > 127)) return clock;
  /* The loop ends when the timer reads 0 (BNE) or less than 0 (BPL). */
  const int32_t end = (branch == 0xD0 ? r->timer - 1 : r->timer) << r->shift;
  int32_t turns = (end - since + turn - 1) / turn;
  const int32_t max_turns = (int32_t)-(clock >> 32) / 2;
  if (turns > max_turns) turns = max_turns;
  return turns <= 0 ? clock : clock + turns * turn + 2 * turns * CPU_INSTRUCTION;
}

#define WAIT (clock = cpu_skip_waiting(m, code_operation(*code), PC, clock))

/* Loads an instruction's word and adds its cycles, or ends the loop. */
#define BEGIN                                \
  do {                                       \
    if (clock >= 0) goto end;                \
    word = *code;                            \
    clock += cpu_step[code_operation(word)]; \
  } while (0)

/*
 * A processor predicts jumps better if each instruction ends with its own jump to a label in a
 * table than if all instructions share the jump of a switch.
 */
#if defined(__GNUC__) && !defined(__CUDACC__)
#define LABEL(hex) __extension__ &&op_##hex
/* clang-format off */
#define LABELS(digit)                                                                  \
  LABEL(digit##0), LABEL(digit##1), LABEL(digit##2), LABEL(digit##3), LABEL(digit##4), \
  LABEL(digit##5), LABEL(digit##6), LABEL(digit##7), LABEL(digit##8), LABEL(digit##9), \
  LABEL(digit##A), LABEL(digit##B), LABEL(digit##C), LABEL(digit##D), LABEL(digit##E), \
  LABEL(digit##F)
/* clang-format on */
#define OP(hex) op_##hex:
#define OP_OF(name) op_##name:
#define DECODE(operation) __extension__({ goto *labels[operation]; });
#define NEXT                     \
  do {                           \
    BEGIN;                       \
    DECODE(code_operation(word)) \
  } while (0)
#else
#define OP(hex) case 0x##hex:
#define OP_OF(name) case CODE_##name:
#define DECODE(operation) switch (operation)
#define NEXT break
#endif

/* Executes up to max_instructions instructions, or to the end of the frame. */
ATARI_FN void cpu_run(struct atari *m, const struct atari_rom *rom, int32_t max_instructions) {
  struct atari_cpu *const p = &m->cpu;
  struct cpu_window window;
  uint32_t a = p->a, x = p->x, y = p->y, nz = p->nz;
  cpu_clock clock = m->cycles - max_instructions * CPU_INSTRUCTION;
  const uint32_t *code;
  uint32_t pc = p->pc; /* used while `code` is not set; only 16 bits count */
  uint32_t word, bus, address, value, carry;
#ifdef LABELS
  /* clang-format off */
  static const void *const labels[CODE_OPERATIONS] = {
    LABELS(0), LABELS(1), LABELS(2), LABELS(3), LABELS(4), LABELS(5), LABELS(6), LABELS(7),
    LABELS(8), LABELS(9), LABELS(A), LABELS(B), LABELS(C), LABELS(D), LABELS(E), LABELS(F),
    [CODE_LEAVE] = LABEL(LEAVE),
    [CODE_WAIT_A] = LABEL(WAIT_A), [CODE_WAIT_X] = LABEL(WAIT_X), [CODE_WAIT_Y] = LABEL(WAIT_Y),
  };
  /* clang-format on */
#endif

  if (p->jammed) return;
  window.left = 0;
  goto elsewhere;
  for (;;) {
    BEGIN;
    DECODE(code_operation(word)) {
      /* clang-format off */
      OP_OF(LEAVE)
        pc = PC;
        goto elsewhere;
      OP_OF(WAIT_A) ABSOLUTE; WAIT; FETCH; LOAD(a); NEXT;
      OP_OF(WAIT_X) ABSOLUTE; WAIT; FETCH; LOAD(x); NEXT;
      OP_OF(WAIT_Y) ABSOLUTE; WAIT; FETCH; LOAD(y); NEXT;

      GROUP(0, 1, ORA);
      GROUP(2, 3, AND);
      GROUP(4, 5, EOR);
      GROUP(6, 7, ADC);
      GROUP(A, B, LOAD(a));
      GROUP(C, D, COMPARE(a));
      GROUP(E, F, SBC);
      MODIFIER(0, 1, ASL);
      MODIFIER(2, 3, ROL);
      MODIFIER(4, 5, LSR);
      MODIFIER(6, 7, ROR);
      MODIFIER(C, D, DEC);
      MODIFIER(E, F, INC);
      BOTH(0, 1, ASL, ORA);
      BOTH(2, 3, ROL, AND);
      BOTH(4, 5, LSR, EOR);
      BOTH(6, 7, ROR, ADC);
      BOTH(C, D, DEC, COMPARE(a));
      BOTH(E, F, INC, SBC);

      OP(0A) IMPLIED; value = a; ASL; a = value & 0xFF; NEXT;
      OP(2A) IMPLIED; value = a; ROL; a = value & 0xFF; NEXT;
      OP(4A) IMPLIED; value = a; LSR; a = value; NEXT;
      OP(6A) IMPLIED; value = a; ROR; a = value; NEXT;

      OP(A2) IMMEDIATE; LOAD(x); NEXT;
      OP(A6) ZERO; FETCH; LOAD(x); NEXT;
      OP(AE) ABSOLUTE; FETCH; LOAD(x); NEXT;
      OP(B6) ZERO_BY(y); FETCH; LOAD(x); NEXT;
      OP(BE) ABSOLUTE_BY_READ(y); FETCH; LOAD(x); NEXT;
      OP(A0) IMMEDIATE; LOAD(y); NEXT;
      OP(A4) ZERO; FETCH; LOAD(y); NEXT;
      OP(AC) ABSOLUTE; FETCH; LOAD(y); NEXT;
      OP(B4) ZERO_BY(x); FETCH; LOAD(y); NEXT;
      OP(BC) ABSOLUTE_BY_READ(x); FETCH; LOAD(y); NEXT;
      OP(E0) IMMEDIATE; COMPARE(x); NEXT;
      OP(E4) ZERO; FETCH; COMPARE(x); NEXT;
      OP(EC) ABSOLUTE; FETCH; COMPARE(x); NEXT;
      OP(C0) IMMEDIATE; COMPARE(y); NEXT;
      OP(C4) ZERO; FETCH; COMPARE(y); NEXT;
      OP(CC) ABSOLUTE; FETCH; COMPARE(y); NEXT;
      OP(24) ZERO; FETCH; BIT; NEXT;
      OP(2C) ABSOLUTE; FETCH; BIT; NEXT;

      OP(81) INDEXED; WRITE(address, a); NEXT;
      OP(85) ZERO; WRITE(address, a); NEXT;
      OP(8D) ABSOLUTE; WRITE(address, a); NEXT;
      OP(91) INDIRECT; WRITE(address, a); NEXT;
      OP(95) ZERO_BY(x); WRITE(address, a); NEXT;
      OP(99) ABSOLUTE_BY(y); WRITE(address, a); NEXT;
      OP(9D) ABSOLUTE_BY(x); WRITE(address, a); NEXT;
      OP(86) ZERO; WRITE(address, x); NEXT;
      OP(8E) ABSOLUTE; WRITE(address, x); NEXT;
      OP(96) ZERO_BY(y); WRITE(address, x); NEXT;
      OP(84) ZERO; WRITE(address, y); NEXT;
      OP(8C) ABSOLUTE; WRITE(address, y); NEXT;
      OP(94) ZERO_BY(x); WRITE(address, y); NEXT;

      OP(AA) IMPLIED; NZ(x = a); NEXT;
      OP(A8) IMPLIED; NZ(y = a); NEXT;
      OP(8A) IMPLIED; NZ(a = x); NEXT;
      OP(98) IMPLIED; NZ(a = y); NEXT;
      OP(BA) IMPLIED; NZ(x = p->sp); NEXT;
      OP(9A) IMPLIED; p->sp = (uint8_t)x; NEXT;
      OP(E8) IMPLIED; NZ(x = (x + 1) & 0xFF); NEXT;
      OP(C8) IMPLIED; NZ(y = (y + 1) & 0xFF); NEXT;
      OP(CA) IMPLIED; NZ(x = (x - 1) & 0xFF); NEXT;
      OP(88) IMPLIED; NZ(y = (y - 1) & 0xFF); NEXT;
      OP(18) IMPLIED; p->c = 0; NEXT;
      OP(38) IMPLIED; p->c = 1; NEXT;
      OP(58) IMPLIED; p->i = 0; NEXT;
      OP(78) IMPLIED; p->i = 1; NEXT;
      OP(B8) IMPLIED; p->v = 0; NEXT;
      OP(D8) IMPLIED; p->d = 0; NEXT;
      OP(F8) IMPLIED; p->d = 1; NEXT;

      OP(10) BRANCH(!(nz & 0x8080)); NEXT;
      OP(30) BRANCH(nz & 0x8080); NEXT;
      OP(50) BRANCH(!p->v); NEXT;
      OP(70) BRANCH(p->v); NEXT;
      OP(90) BRANCH(!p->c); NEXT;
      OP(B0) BRANCH(p->c); NEXT;
      OP(D0) BRANCH(nz & 0xFF); NEXT;
      OP(F0) BRANCH(!(nz & 0xFF)); NEXT;

      OP(48) IMPLIED; PUSH(a, 1); NEXT;
      OP(08) IMPLIED; p->nz = (uint16_t)nz; PUSH(cpu_flags(p), 1); NEXT;
      OP(68) IMPLIED; TOP; PULL; NZ(a = bus); NEXT;
      OP(28) IMPLIED; TOP; PULL; cpu_set_flags(p, bus); nz = p->nz; NEXT;
      OP(4C) ON_BUS(HIGH); JUMP(OPERAND); NEXT;
      OP(6C) /* both bytes of the pointer come from the same page */
        address = OPERAND;
        bus = HIGH;
        value = bus = READ(address);
        value |= READ((address & 0xFF00) | ((address + 1) & 0xFF)) << 8;
        JUMP(value);
        NEXT;
      OP(20) /* the second push follows a write */
        bus = LOW;
        TOP;
        pc = PC + 2;
        PUSH(pc >> 8 & 0xFF, 1);
        PUSH(pc & 0xFF, 0);
        JUMP(LOW | READ(pc) << 8);
        NEXT;
      OP(60)
        bus = OPCODE;
        TOP;
        PULL;
        value = bus;
        PULL;
        value |= bus << 8;
        READ(value);
        JUMP(value + 1);
        NEXT;
      OP(40)
        bus = OPCODE;
        TOP;
        PULL;
        cpu_set_flags(p, bus);
        nz = p->nz;
        PULL;
        value = bus;
        PULL;
        JUMP(value | bus << 8);
        NEXT;
      OP(00)
        pc = PC + 2;
        PUSH(pc >> 8 & 0xFF, 1);
        PUSH(pc & 0xFF, 0);
        p->nz = (uint16_t)nz;
        PUSH(cpu_flags(p), 0);
        p->i = 1;
        value = READ(0xFFFE);
        value |= READ(0xFFFF) << 8;
        JUMP(value);
        NEXT;

      OP(EA) OP(1A) OP(3A) OP(5A) OP(7A) OP(DA) OP(FA) IMPLIED; NEXT;
      OP(80) OP(82) OP(89) OP(C2) OP(E2) IMMEDIATE; NEXT;
      OP(04) OP(44) OP(64) ZERO; FETCH; NEXT;
      OP(14) OP(34) OP(54) OP(74) OP(D4) OP(F4) ZERO_BY(x); FETCH; NEXT;
      OP(0C) ABSOLUTE; FETCH; NEXT;
      OP(1C) OP(3C) OP(5C) OP(7C) OP(DC) OP(FC) ABSOLUTE_BY_READ(x); FETCH; NEXT;

      /* The other undocumented opcodes. */
      OP(83) INDEXED; WRITE(address, a & x); NEXT;
      OP(87) ZERO; WRITE(address, a & x); NEXT;
      OP(8F) ABSOLUTE; WRITE(address, a & x); NEXT;
      OP(97) ZERO_BY(y); WRITE(address, a & x); NEXT;
      OP(A3) INDEXED; FETCH; LOAD(a); x = a; NEXT;
      OP(A7) ZERO; FETCH; LOAD(a); x = a; NEXT;
      OP(AF) ABSOLUTE; FETCH; LOAD(a); x = a; NEXT;
      OP(B3) INDIRECT_READ; FETCH; LOAD(a); x = a; NEXT;
      OP(B7) ZERO_BY(y); FETCH; LOAD(a); x = a; NEXT;
      OP(BF) ABSOLUTE_BY_READ(y); FETCH; LOAD(a); x = a; NEXT;
      OP(0B) OP(2B) IMMEDIATE; AND; p->c = (uint8_t)(a >> 7); NEXT;
      OP(4B) IMMEDIATE; value &= a; LSR; a = value; NEXT;
      OP(6B) IMMEDIATE; a = cpu_and_rotate(p, a, value); nz = p->nz; NEXT;
      OP(8B) IMMEDIATE; NZ(a = (a | 0xEE) & x & value); NEXT;
      OP(AB) IMMEDIATE; NZ(a = x = (a | 0xEE) & value); NEXT;
      OP(CB) IMMEDIATE; carry = a & x; p->c = carry >= value; NZ(x = (carry - value) & 0xFF); NEXT;
      OP(EB) IMMEDIATE; SBC; NEXT;
      OP(BB) ABSOLUTE_BY_READ(y); FETCH; NZ(a = x = p->sp = (uint8_t)(p->sp & value)); NEXT;
      OP(93) INDIRECT; WRITE(address, a & x & ((address >> 8) + 1)); NEXT;
      OP(9F) ABSOLUTE_BY(y); WRITE(address, a & x & ((address >> 8) + 1)); NEXT;
      OP(9B) ABSOLUTE_BY(y); p->sp = (uint8_t)(a & x); WRITE(address, p->sp & ((address >> 8) + 1)); NEXT;
      OP(9C) ABSOLUTE_BY(x); WRITE(address, y & ((address >> 8) + 1)); NEXT;
      OP(9E) ABSOLUTE_BY(y); WRITE(address, x & ((address >> 8) + 1)); NEXT;
      OP(02) OP(12) OP(22) OP(32) OP(42) OP(52) OP(62) OP(72) OP(92) OP(B2) OP(D2) OP(F2)
        p->jammed = 1;
        clock = cpu_stop(clock);
        NEXT;
      /* clang-format on */
    }
    continue;
  elsewhere:
    pc &= 0xFFFF;
    if (clock >= 0) goto end_elsewhere;
    code = cpu_enter(m, rom, &window, pc, clock);
    continue;
  end:
    pc = PC;
  end_elsewhere:
    if (window.left == 0) break;
    clock += window.left * CPU_INSTRUCTION;
    window.left = 0;
    goto elsewhere;
  }
  p->nz = (uint16_t)nz;
  p->pc = (uint16_t)pc;
  p->a = (uint8_t)a;
  p->x = (uint8_t)x;
  p->y = (uint8_t)y;
  m->cycles = cpu_cycle(clock);
}

#endif
