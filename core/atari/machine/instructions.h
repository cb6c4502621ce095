/*
 * The instructions: cpu_run's loop, and what each opcode does.
 *
 * An addressing mode sets `address` and moves the program counter on. `bus` is the last
 * byte that was on the bus, which the TIA's reads show where it drives nothing; m->latch
 * is that of the end of an instruction. The undocumented opcodes are the NMOS chip's.
 */
#ifndef ATARI_INSTRUCTIONS_H
#define ATARI_INSTRUCTIONS_H

#define READ(a) cpu_read(m, rom, &window, a, bus, clock)
#define WRITE_AFTER(a, v, wsync_waits) (clock = cpu_write(m, rom, &window, a, v, wsync_waits, clock))
#define WRITE(a, v) WRITE_AFTER(a, v, 1)
#define NZ(v) (p->nz = (uint8_t)(v))
#define LOW ((uint32_t)code[1])
#define HIGH ((uint32_t)code[2])
#define ON_BUS(v) (m->latch = (uint8_t)(v))

/* ----------------------------------------------------------- addressing */

#define ZERO (address = bus = LOW, pc += 2)
#define ZERO_BY(index) (bus = LOW, address = (bus + (index)) & 0xFF, pc += 2)
#define ABSOLUTE (bus = HIGH, address = LOW | bus << 8, pc += 3)
#define ABSOLUTE_BY(index) (bus = HIGH, address = ((LOW | bus << 8) + (index)) & 0xFFFF, pc += 3)
/* Reads take a cycle more where the index carries into the high byte. */
#define ABSOLUTE_BY_READ(index) (ABSOLUTE_BY(index), clock += address >> 8 != bus)
/* A pointer's second byte is the one after the first, in page 1, too. */
#define POINTER(at)                            \
	do {                                   \
		const uint32_t first = (at);   \
		bus = LOW;                     \
		address = bus = READ(first);   \
		bus = READ(first + 1);         \
		address |= bus << 8;           \
		pc += 2;                       \
	} while (0)
#define INDEXED POINTER((LOW + x) & 0xFF)
#define INDIRECT                                  \
	do {                                      \
		POINTER(LOW);                     \
		address = (address + y) & 0xFFFF; \
	} while (0)
#define INDIRECT_READ                         \
	do {                                  \
		INDIRECT;                     \
		clock += address >> 8 != bus; \
	} while (0)
#define IMMEDIATE (value = LOW, ON_BUS(value), pc += 2)
#define IMPLIED (ON_BUS(code[0]), pc += 1)

/* ----------------------------------------------------------- operations */

#define FETCH (value = READ(address))
#define LOAD(r) NZ(r = value)
#define COMPARE(r)                                \
	do {                                      \
		p->c = (r) >= value;               \
		NZ((r) - value);                  \
	} while (0)
#define ORA NZ(a |= value)
#define AND NZ(a &= value)
#define EOR NZ(a ^= value)
#define ADC (a = cpu_add(p, a, value))
#define SBC (a = cpu_subtract(p, a, value))
#define BIT                                                        \
	do {                                                       \
		p->v = value >> 6 & 1;                             \
		p->nz = (uint16_t)((value & 0x80) << 8 | (a & value)); \
	} while (0)
#define ASL (p->c = value >> 7 & 1, NZ(value <<= 1))
#define LSR (p->c = value & 1, NZ(value >>= 1))
#define ROL (carry = p->c, p->c = value >> 7 & 1, NZ(value = value << 1 | carry))
#define ROR (carry = p->c, p->c = value & 1, NZ(value = value >> 1 | carry << 7))
#define INC NZ(++value)
#define DEC NZ(--value)
#define MODIFY(operation)                        \
	do {                                     \
		FETCH;                           \
		operation;                       \
		value &= 0xFF;                   \
		WRITE(address, value);           \
	} while (0)
#define BRANCH(taken)                                                     \
	do {                                                              \
		ON_BUS(LOW);                                              \
		pc += 2;                                                  \
		if (taken) {                                              \
			const uint32_t to = pc + (uint32_t)(int8_t)code[1]; \
			clock += (to ^ pc) & 0xFF00 ? 2 : 1;              \
			pc = to;                                          \
		}                                                         \
	} while (0)

/* The stack is RAM from $80 on and the TIA below. */
#define PUSH(v, wsync_waits)                                              \
	do {                                                              \
		WRITE_AFTER(0x100u | p->sp, v, wsync_waits);              \
		p->sp--;                                                  \
	} while (0)
#define TOP (bus = READ(0x100u | p->sp))
#define PULL (p->sp++, TOP)

/* A group of eight: what ORA, AND, EOR, ADC, LDA, CMP and SBC have. */
#define GROUP(base, operation)                                             \
	case (base) + 0x0D: ABSOLUTE; FETCH; operation; break;             \
	GROUP_BUT_ABSOLUTE(base, operation)
#define GROUP_BUT_ABSOLUTE(base, operation)                                \
	case (base) + 0x01: INDEXED; FETCH; operation; break;              \
	case (base) + 0x05: ZERO; FETCH; operation; break;                 \
	case (base) + 0x09: IMMEDIATE; operation; break;                   \
	case (base) + 0x11: INDIRECT_READ; FETCH; operation; break;        \
	case (base) + 0x15: ZERO_BY(x); FETCH; operation; break;         \
	case (base) + 0x19: ABSOLUTE_BY_READ(y); FETCH; operation; break; \
	case (base) + 0x1D: ABSOLUTE_BY_READ(x); FETCH; operation; break

/* What shifts, INC and DEC have ... */
#define MODIFIER(base, operation)                                    \
	case (base) + 0x06: ZERO; MODIFY(operation); break;          \
	case (base) + 0x0E: ABSOLUTE; MODIFY(operation); break;      \
	case (base) + 0x16: ZERO_BY(x); MODIFY(operation); break;  \
	case (base) + 0x1E: ABSOLUTE_BY(x); MODIFY(operation); break

/* ... and the undocumented pairs of such a one and another operation. */
#define BOTH(base, operation, then)                                                          \
	case (base) + 0x03: INDEXED; MODIFY(operation); then; break;                         \
	case (base) + 0x07: ZERO; MODIFY(operation); then; break;                            \
	case (base) + 0x0F: ABSOLUTE; MODIFY(operation); then; break;                        \
	case (base) + 0x13: INDIRECT; MODIFY(operation); then; break;                        \
	case (base) + 0x17: ZERO_BY(x); MODIFY(operation); then; break;                    \
	case (base) + 0x1B: ABSOLUTE_BY(y); MODIFY(operation); then; break;                \
	case (base) + 0x1F: ABSOLUTE_BY(x); MODIFY(operation); then; break

/*
 * Games wait for the timer in loops of a load and a branch back to it. Turns whose
 * outcome is known are skipped: all but the last reading. Such a turn is 7 cycles (8
 * across a page) and two instructions, and touches nothing else. `code` is the load
 * that has just been decoded, pc the branch behind it.
 */
ATARI_APART cpu_clock cpu_skip_waiting(const struct atari *m, const uint8_t *code, uint32_t pc, cpu_clock clock)
{
	const struct atari_riot *r = &m->riot;
	if (code[4] != 0xFB || (code[3] != 0xD0 && code[3] != 0x10) || r->shift < 3)
		return clock;
	const int32_t turn = ((pc + 2) ^ (pc - 3)) & 0xFF00 ? 8 : 7;
	const int32_t since = (int32_t)((uint32_t)cpu_cycle(clock) - 1 - (uint32_t)r->timer_set);
	const int32_t count = riot_count(r, since);
	if (since < 0 || count < 0 || (code[3] == 0x10 && count > 127))
		return clock;
	/* The reading that ends it: of 0 for BNE, of less for BPL. */
	const int32_t end = (code[3] == 0xD0 ? r->timer - 1 : r->timer) << r->shift;
	int32_t turns = (end - since + turn - 1) / turn;
	const int32_t most = (int32_t)-(clock >> 32) / 2;
	if (turns > most)
		turns = most;
	return turns <= 0 ? clock : clock + turns * turn + 2 * turns * CPU_INSTRUCTION;
}

/* The branch, too, must lie in the window. */
#define WAIT_FOR_TIMER                                                                            \
	do {                                                                                      \
		if ((address & 0x1285) == 0x0284 && code != bytes && pc - window.from < window.span) \
			clock = cpu_skip_waiting(m, code, pc, clock);                             \
	} while (0)

/* Executes up to so many instructions, or to the end of the frame. */
ATARI_FN void cpu_run(struct atari *m, const struct atari_rom *rom, int32_t most)
{
	struct atari_cpu *const p = &m->cpu;
	struct cpu_window window = {0, 0, 0};
	uint8_t bytes[3];
	uint32_t pc = p->pc; /* of which 16 bits count */
	uint32_t a = p->a, x = p->x, y = p->y;
	cpu_clock clock = m->cycles - most * CPU_INSTRUCTION;

	if (p->jammed)
		return;
	while (clock < 0) {
		const uint8_t *code;
		uint32_t bus, address, value, carry;
		if (pc - window.from >= window.span) {
			pc &= 0xFFFF;
			cpu_find_window(m, rom, pc, &window);
		}
		code = window.code + (pc - window.from);
		if (window.span == 0) {
			cpu_fetch(m, rom, pc, clock, bytes);
			code = bytes;
		}
		bus = code[0];
		clock += CPU_INSTRUCTION + cpu_cycles[bus];
		switch (bus) {
		GROUP(0x00, ORA);
		GROUP(0x20, AND);
		GROUP(0x40, EOR);
		GROUP(0x60, ADC);
		case 0xAD: ABSOLUTE; WAIT_FOR_TIMER; FETCH; LOAD(a); break;
		GROUP_BUT_ABSOLUTE(0xA0, LOAD(a));
		GROUP(0xC0, COMPARE(a));
		GROUP(0xE0, SBC);
		MODIFIER(0x00, ASL);
		MODIFIER(0x20, ROL);
		MODIFIER(0x40, LSR);
		MODIFIER(0x60, ROR);
		MODIFIER(0xC0, DEC);
		MODIFIER(0xE0, INC);
		BOTH(0x00, ASL, ORA);
		BOTH(0x20, ROL, AND);
		BOTH(0x40, LSR, EOR);
		BOTH(0x60, ROR, ADC);
		BOTH(0xC0, DEC, COMPARE(a));
		BOTH(0xE0, INC, SBC);

		case 0x0A: IMPLIED; value = a; ASL; a = value & 0xFF; break;
		case 0x2A: IMPLIED; value = a; ROL; a = value & 0xFF; break;
		case 0x4A: IMPLIED; value = a; LSR; a = value; break;
		case 0x6A: IMPLIED; value = a; ROR; a = value; break;

		case 0xA2: IMMEDIATE; LOAD(x); break;
		case 0xA6: ZERO; FETCH; LOAD(x); break;
		case 0xAE: ABSOLUTE; WAIT_FOR_TIMER; FETCH; LOAD(x); break;
		case 0xB6: ZERO_BY(y); FETCH; LOAD(x); break;
		case 0xBE: ABSOLUTE_BY_READ(y); FETCH; LOAD(x); break;
		case 0xA0: IMMEDIATE; LOAD(y); break;
		case 0xA4: ZERO; FETCH; LOAD(y); break;
		case 0xAC: ABSOLUTE; WAIT_FOR_TIMER; FETCH; LOAD(y); break;
		case 0xB4: ZERO_BY(x); FETCH; LOAD(y); break;
		case 0xBC: ABSOLUTE_BY_READ(x); FETCH; LOAD(y); break;
		case 0xE0: IMMEDIATE; COMPARE(x); break;
		case 0xE4: ZERO; FETCH; COMPARE(x); break;
		case 0xEC: ABSOLUTE; FETCH; COMPARE(x); break;
		case 0xC0: IMMEDIATE; COMPARE(y); break;
		case 0xC4: ZERO; FETCH; COMPARE(y); break;
		case 0xCC: ABSOLUTE; FETCH; COMPARE(y); break;
		case 0x24: ZERO; FETCH; BIT; break;
		case 0x2C: ABSOLUTE; FETCH; BIT; break;

		case 0x81: INDEXED; WRITE(address, a); break;
		case 0x85: ZERO; WRITE(address, a); break;
		case 0x8D: ABSOLUTE; WRITE(address, a); break;
		case 0x91: INDIRECT; WRITE(address, a); break;
		case 0x95: ZERO_BY(x); WRITE(address, a); break;
		case 0x99: ABSOLUTE_BY(y); WRITE(address, a); break;
		case 0x9D: ABSOLUTE_BY(x); WRITE(address, a); break;
		case 0x86: ZERO; WRITE(address, x); break;
		case 0x8E: ABSOLUTE; WRITE(address, x); break;
		case 0x96: ZERO_BY(y); WRITE(address, x); break;
		case 0x84: ZERO; WRITE(address, y); break;
		case 0x8C: ABSOLUTE; WRITE(address, y); break;
		case 0x94: ZERO_BY(x); WRITE(address, y); break;

		case 0xAA: IMPLIED; NZ(x = a); break;
		case 0xA8: IMPLIED; NZ(y = a); break;
		case 0x8A: IMPLIED; NZ(a = x); break;
		case 0x98: IMPLIED; NZ(a = y); break;
		case 0xBA: IMPLIED; NZ(x = p->sp); break;
		case 0x9A: IMPLIED; p->sp = (uint8_t)x; break;
		case 0xE8: IMPLIED; NZ(x = (x + 1) & 0xFF); break;
		case 0xC8: IMPLIED; NZ(y = (y + 1) & 0xFF); break;
		case 0xCA: IMPLIED; NZ(x = (x - 1) & 0xFF); break;
		case 0x88: IMPLIED; NZ(y = (y - 1) & 0xFF); break;
		case 0x18: IMPLIED; p->c = 0; break;
		case 0x38: IMPLIED; p->c = 1; break;
		case 0x58: IMPLIED; p->i = 0; break;
		case 0x78: IMPLIED; p->i = 1; break;
		case 0xB8: IMPLIED; p->v = 0; break;
		case 0xD8: IMPLIED; p->d = 0; break;
		case 0xF8: IMPLIED; p->d = 1; break;

		case 0x10: BRANCH(!cpu_negative(p)); break;
		case 0x30: BRANCH(cpu_negative(p)); break;
		case 0x50: BRANCH(!p->v); break;
		case 0x70: BRANCH(p->v); break;
		case 0x90: BRANCH(!p->c); break;
		case 0xB0: BRANCH(p->c); break;
		case 0xD0: BRANCH(!cpu_zero(p)); break;
		case 0xF0: BRANCH(cpu_zero(p)); break;

		case 0x48: IMPLIED; PUSH(a, 1); break;
		case 0x08: IMPLIED; PUSH(cpu_flags(p), 1); break;
		case 0x68: IMPLIED; TOP; PULL; NZ(a = bus); break;
		case 0x28: IMPLIED; TOP; PULL; cpu_set_flags(p, bus); break;
		case 0x4C: ON_BUS(HIGH); pc = LOW | HIGH << 8; break;
		case 0x6C: /* the pointer's second byte is in the first one's page */
			address = LOW | HIGH << 8;
			bus = HIGH;
			value = bus = READ(address);
			value |= READ((address & 0xFF00) | ((address + 1) & 0xFF)) << 8;
			pc = value;
			break;
		case 0x20: /* the second push follows a write */
			bus = LOW;
			TOP;
			pc += 2;
			PUSH(pc >> 8 & 0xFF, 1);
			PUSH(pc & 0xFF, 0);
			pc = LOW | READ(pc) << 8;
			break;
		case 0x60:
			TOP;
			PULL;
			value = bus;
			PULL;
			value |= bus << 8;
			READ(value);
			pc = value + 1;
			break;
		case 0x40:
			TOP;
			PULL;
			cpu_set_flags(p, bus);
			PULL;
			value = bus;
			PULL;
			pc = value | bus << 8;
			break;
		case 0x00:
			pc += 2;
			PUSH(pc >> 8 & 0xFF, 1);
			PUSH(pc & 0xFF, 0);
			PUSH(cpu_flags(p), 0);
			p->i = 1;
			value = READ(0xFFFE);
			value |= READ(0xFFFF) << 8;
			pc = value;
			break;

		case 0xEA: case 0x1A: case 0x3A: case 0x5A: case 0x7A: case 0xDA: case 0xFA: IMPLIED; break;
		case 0x80: case 0x82: case 0x89: case 0xC2: case 0xE2: IMMEDIATE; break;
		case 0x04: case 0x44: case 0x64: ZERO; FETCH; break;
		case 0x14: case 0x34: case 0x54: case 0x74: case 0xD4: case 0xF4: ZERO_BY(x); FETCH; break;
		case 0x0C: ABSOLUTE; FETCH; break;
		case 0x1C: case 0x3C: case 0x5C: case 0x7C: case 0xDC: case 0xFC: ABSOLUTE_BY_READ(x); FETCH; break;

		/* Undocumented, but for those above. */
		case 0x83: INDEXED; WRITE(address, a & x); break;
		case 0x87: ZERO; WRITE(address, a & x); break;
		case 0x8F: ABSOLUTE; WRITE(address, a & x); break;
		case 0x97: ZERO_BY(y); WRITE(address, a & x); break;
		case 0xA3: INDEXED; FETCH; LOAD(a); x = a; break;
		case 0xA7: ZERO; FETCH; LOAD(a); x = a; break;
		case 0xAF: ABSOLUTE; FETCH; LOAD(a); x = a; break;
		case 0xB3: INDIRECT_READ; FETCH; LOAD(a); x = a; break;
		case 0xB7: ZERO_BY(y); FETCH; LOAD(a); x = a; break;
		case 0xBF: ABSOLUTE_BY_READ(y); FETCH; LOAD(a); x = a; break;
		case 0x0B: case 0x2B: IMMEDIATE; AND; p->c = (uint8_t)(a >> 7); break;
		case 0x4B: IMMEDIATE; value &= a; LSR; a = value; break;
		case 0x6B: IMMEDIATE; a = cpu_and_rotate(p, a, value); break;
		case 0x8B: IMMEDIATE; NZ(a = (a | 0xEE) & x & value); break;
		case 0xAB: IMMEDIATE; NZ(a = x = (a | 0xEE) & value); break;
		case 0xCB: IMMEDIATE; carry = a & x; p->c = carry >= value; NZ(x = (carry - value) & 0xFF); break;
		case 0xEB: IMMEDIATE; SBC; break;
		case 0xBB: ABSOLUTE_BY_READ(y); FETCH; NZ(a = x = p->sp = (uint8_t)(p->sp & value)); break;
		case 0x93: INDIRECT; WRITE(address, a & x & ((address >> 8) + 1)); break;
		case 0x9F: ABSOLUTE_BY(y); WRITE(address, a & x & ((address >> 8) + 1)); break;
		case 0x9B: ABSOLUTE_BY(y); p->sp = (uint8_t)(a & x); WRITE(address, p->sp & ((address >> 8) + 1)); break;
		case 0x9C: ABSOLUTE_BY(x); WRITE(address, y & ((address >> 8) + 1)); break;
		case 0x9E: ABSOLUTE_BY(y); WRITE(address, x & ((address >> 8) + 1)); break;
		default:
			p->jammed = 1;
			clock = cpu_stop(clock);
			break;
		}
	}
	p->pc = (uint16_t)pc;
	p->a = (uint8_t)a;
	p->x = (uint8_t)x;
	p->y = (uint8_t)y;
	m->cycles = cpu_cycle(clock);
}

#endif
