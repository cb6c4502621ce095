/*
 * The instructions: cpu_run's loop, and what each opcode does.
 *
 * An addressing mode sets `address` and moves the program counter on. `bus` is the last
 * byte that was on the bus, which the TIA's reads show where it drives nothing. The
 * undocumented opcodes are the NMOS chip's.
 */
#ifndef ATARI_INSTRUCTIONS_H
#define ATARI_INSTRUCTIONS_H

/* Addresses of the cartridge where an access moves no bank and is no RAM: from, below. */
ATARI_INLINE uint32_t cart_plain_from(uint32_t scheme)
{
	return scheme == ATARI_F8SC || scheme == ATARI_F6SC ? 0x100 : scheme == ATARI_DPC ? 0x80 : 0;
}

ATARI_INLINE uint32_t cart_plain_below(uint32_t scheme)
{
	switch (scheme) {
	case ATARI_F8: case ATARI_F8SC: return 0xFF8;
	case ATARI_F6: case ATARI_F6SC: return 0xFF6;
	case ATARI_E0: return 0xFE0;
	case ATARI_DPC: return 0xFC0;
	default: return 0x1000;
	}
}

/* How cpu_run finds a byte of the image: the loop is compiled for each. */
enum { FLAT, SLICED, BY_A13 };

/* `bank` is where the 4 KB that are selected begin, of a FLAT cartridge. */
ATARI_INLINE const uint8_t *cart_at(const struct atari *m, const uint8_t *image, const uint8_t *bank, uint32_t address, const int how)
{
	if (how == FLAT)
		return bank + (address & 0xFFF);
	if (how == SLICED)
		return image + m->cart.slice[address >> 10 & 3] + (address & 0x3FF);
	return image + (address & 0xFFF) + (address & 0x2000 ? 0 : 4096);
}

ATARI_INLINE uint8_t cpu_read(struct atari *m, const struct atari_rom *rom, const uint8_t **bank, const int how,
			      int32_t cycles, uint32_t address, uint32_t bus)
{
	if (address & 0x1000) {
		if ((address & 0xFFF) - rom->plain_from < rom->plain_below - rom->plain_from)
			return *cart_at(m, rom->image, *bank, address, how);
		m->cycles = cycles;
		const uint8_t value = cart_read(m, rom, address);
		*bank = rom->image + m->cart.slice[0];
		return value;
	}
	if ((address & 0x280) == 0x80)
		return m->ram[address & 0x7F];
	m->cycles = cycles;
	return bus_read(m, rom, address, (uint8_t)bus);
}

#define READ(a) (bus = cpu_read(m, rom, &bank, how, cycles, a, bus))

/* A write to the TIA may stop the CPU for the rest of the line, and end the frame. */
#define WRITE_AFTER(a, v, wsync_waits)                                   \
	do {                                                             \
		const uint32_t to = (a);                                 \
		bus = (uint8_t)(v);                                      \
		if ((to & 0x1280) == 0x80) {                             \
			m->ram[to & 0x7F] = (uint8_t)(v);                \
		} else {                                                 \
			m->cycles = cycles;                              \
			if (to & 0x1080) {                               \
				bus_write(m, rom, to, (uint8_t)(v), wsync_waits); \
				bank = rom->image + m->cart.slice[0];    \
			} else {                                         \
				tia_write(m, to, (uint8_t)(v), wsync_waits); \
			}                                                \
			cycles = m->cycles;                              \
			if (m->frame_over)                               \
				most = 1;                                \
		}                                                        \
	} while (0)
#define WRITE(a, v) WRITE_AFTER(a, v, 1)

#define NZ(v) (p.n = p.z = (uint8_t)(v))

/* ----------------------------------------------------------- addressing */

#define ZERO (address = bus = low, pc += 2)
#define ZERO_BY(index) (bus = low, address = (low + (index)) & 0xFF, pc += 2)
#define ABSOLUTE (address = low | high << 8, bus = high, pc += 3)
#define ABSOLUTE_BY(index) (address = ((low | high << 8) + (index)) & 0xFFFF, bus = high, pc += 3)
/* Reads take a cycle more where the index carries into the high byte. */
#define ABSOLUTE_BY_READ(index) (ABSOLUTE_BY(index), cycles += address >> 8 != high)
/* A pointer's second byte is the one after the first, in page 1, too. */
#define POINTER(at)                                    \
	do {                                           \
		const uint32_t first = (at);           \
		bus = low;                             \
		low = READ(first);                     \
		high = READ(first + 1);                \
		pc += 2;                             \
	} while (0)
#define INDEXED                                 \
	do {                                    \
		POINTER((low + p.x) & 0xFF);    \
		address = low | high << 8;      \
	} while (0)
#define INDIRECT                                               \
	do {                                                   \
		POINTER(low);                                  \
		address = ((low | high << 8) + p.y) & 0xFFFF;  \
	} while (0)
#define INDIRECT_READ                          \
	do {                                   \
		INDIRECT;                      \
		cycles += address >> 8 != high; \
	} while (0)
#define IMMEDIATE (value = bus = low, pc += 2)
#define IMPLIED (pc += 1)

/*
 * Games wait for the timer in loops of a load and a branch back to it. Turns whose
 * outcome is known are skipped: all but the last reading. Such a turn is 7 cycles (8
 * across a page) and two instructions, and touches nothing else.
 */
#define WAIT_FOR_TIMER                                                                          \
	do {                                                                                    \
		/* The branch, too, must lie where code is read as words, in the load's slice. */ \
		if ((address & 0x1285) == 0x0284 && code && (pc & 0x1FFFu) - code_from < code_span && \
		    (how != SLICED || ((pc - 3) & 0x3FF) < 0x3FA))                              \
			cpu_skip_waiting(m, code, pc, &cycles, &most);                          \
	} while (0)

/* ----------------------------------------------------------- operations */

#define FETCH (value = READ(address))
#define LOAD(r) NZ(p.r = (uint8_t)value)
#define COMPARE(r)                                \
	do {                                      \
		p.c = (p.r) >= value;             \
		NZ((p.r) - value);                \
	} while (0)
#define ORA NZ(p.a |= value)
#define AND NZ(p.a &= value)
#define EOR NZ(p.a ^= value)
#define ADC cpu_add(&p, (uint8_t)value)
#define SBC cpu_subtract(&p, (uint8_t)value)
#define BIT                                \
	do {                               \
		p.n = (uint8_t)value;      \
		p.v = value >> 6 & 1;      \
		p.z = p.a & (uint8_t)value; \
	} while (0)
#define ASL (p.c = value >> 7 & 1, NZ(value <<= 1))
#define LSR (p.c = value & 1, NZ(value >>= 1))
#define ROL (carry = p.c, p.c = value >> 7 & 1, NZ(value = value << 1 | carry))
#define ROR (carry = p.c, p.c = value & 1, NZ(value = value >> 1 | carry << 7))
#define INC NZ(++value)
#define DEC NZ(--value)
#define MODIFY(operation)                        \
	do {                                     \
		FETCH;                           \
		operation;                       \
		value &= 0xFF;                   \
		WRITE(address, value);           \
	} while (0)
#define BRANCH(taken)                                                                    \
	do {                                                                             \
		bus = low;                                                               \
		pc += 2;                                                                 \
		if (taken) {                                                             \
			const uint32_t to = (pc + (uint32_t)(int8_t)low) & 0xFFFF;       \
			cycles += (to ^ pc) & 0xFF00 ? 2 : 1;                          \
			pc = to;                                                       \
		}                                                                        \
	} while (0)

/* The stack is RAM from $80 on and the TIA below. */
#define PUSH(v, wsync_waits)                                              \
	do {                                                              \
		WRITE_AFTER(0x100u | p.sp, v, wsync_waits);               \
		p.sp--;                                                   \
	} while (0)
#define TOP READ(0x100u | p.sp)
#define PULL (p.sp++, TOP)

/* A group of eight: what ORA, AND, EOR, ADC, LDA, CMP and SBC have. */
#define GROUP(base, operation)                                             \
	case (base) + 0x0D: ABSOLUTE; FETCH; operation; break;             \
	GROUP_BUT_ABSOLUTE(base, operation)
#define GROUP_BUT_ABSOLUTE(base, operation)                                \
	case (base) + 0x01: INDEXED; FETCH; operation; break;              \
	case (base) + 0x05: ZERO; FETCH; operation; break;                 \
	case (base) + 0x09: IMMEDIATE; operation; break;                   \
	case (base) + 0x11: INDIRECT_READ; FETCH; operation; break;        \
	case (base) + 0x15: ZERO_BY(p.x); FETCH; operation; break;         \
	case (base) + 0x19: ABSOLUTE_BY_READ(p.y); FETCH; operation; break; \
	case (base) + 0x1D: ABSOLUTE_BY_READ(p.x); FETCH; operation; break

/* What shifts, INC and DEC have ... */
#define MODIFIER(base, operation)                                    \
	case (base) + 0x06: ZERO; MODIFY(operation); break;          \
	case (base) + 0x0E: ABSOLUTE; MODIFY(operation); break;      \
	case (base) + 0x16: ZERO_BY(p.x); MODIFY(operation); break;  \
	case (base) + 0x1E: ABSOLUTE_BY(p.x); MODIFY(operation); break

/* ... and the undocumented pairs of such a one and another operation. */
#define BOTH(base, operation, then)                                                          \
	case (base) + 0x03: INDEXED; MODIFY(operation); then; break;                         \
	case (base) + 0x07: ZERO; MODIFY(operation); then; break;                            \
	case (base) + 0x0F: ABSOLUTE; MODIFY(operation); then; break;                        \
	case (base) + 0x13: INDIRECT; MODIFY(operation); then; break;                        \
	case (base) + 0x17: ZERO_BY(p.x); MODIFY(operation); then; break;                    \
	case (base) + 0x1B: ABSOLUTE_BY(p.y); MODIFY(operation); then; break;                \
	case (base) + 0x1F: ABSOLUTE_BY(p.x); MODIFY(operation); then; break

/* code: the load that has just been decoded; pc: the branch behind it. */
ATARI_FN void cpu_skip_waiting(const struct atari *m, const uint8_t *code, uint32_t pc, int32_t *cycles, int32_t *most)
{
	const struct atari_riot *r = &m->riot;
	if (code[4] != 0xFB || (code[3] != 0xD0 && code[3] != 0x10) || r->shift < 3)
		return;
	const int32_t turn = ((pc + 2) ^ (pc - 3)) & 0xFF00 ? 8 : 7;
	const int32_t since = (int32_t)((uint32_t)*cycles - 1 - (uint32_t)r->timer_set);
	const int32_t count = riot_count(r, since);
	if (since < 0 || count < 0 || (code[3] == 0x10 && count > 127))
		return;
	/* The reading that ends it: of 0 for BNE, of less for BPL. */
	const int32_t end = (code[3] == 0xD0 ? r->timer - 1 : r->timer) << r->shift;
	int32_t turns = (end - since + turn - 1) / turn;
	if (turns <= 0)
		return;
	if (turns > (*most - 1) / 2)
		turns = (*most - 1) / 2;
	*cycles += turns * turn;
	*most -= 2 * turns;
}

/* Executes up to so many instructions, or to the end of the frame. */
ATARI_INLINE void cpu_run_as(struct atari *m, const struct atari_rom *rom, int32_t most, const int how)
{
	struct atari_cpu p = m->cpu;
	uint32_t pc = p.pc; /* of which 16 bits count */
	int32_t cycles = m->cycles;
	uint32_t bus = m->latch;
	const uint8_t *bank = rom->image + m->cart.slice[0];
	const uint32_t code_from = 0x1000 + rom->plain_from, code_span = rom->code_below - rom->plain_from;

	for (; most > 0 && !p.jammed; most--) {
		uint32_t opcode, low = 0, high = 0, address = 0, value = 0, carry;
		const uint8_t *code = 0;
		if ((pc & 0x1FFFu) - code_from < code_span && (how != SLICED || (pc & 0x3FF) < 0x3FE)) {
			code = cart_at(m, rom->image, bank, pc, how);
			opcode = bus = code[0];
			low = code[1];
			high = code[2];
			cycles += cpu_cycles[opcode];
		} else {
			opcode = READ(pc & 0xFFFF);
			cycles += cpu_cycles[opcode];
			if (cpu_length[opcode] > 1)
				low = READ((pc + 1) & 0xFFFFu);
			if (cpu_length[opcode] > 2)
				high = READ((pc + 2) & 0xFFFFu);
		}
		switch (opcode) {
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

		case 0x0A: IMPLIED; value = p.a; ASL; p.a = (uint8_t)value; break;
		case 0x2A: IMPLIED; value = p.a; ROL; p.a = (uint8_t)value; break;
		case 0x4A: IMPLIED; value = p.a; LSR; p.a = (uint8_t)value; break;
		case 0x6A: IMPLIED; value = p.a; ROR; p.a = (uint8_t)value; break;

		case 0xA2: IMMEDIATE; LOAD(x); break;
		case 0xA6: ZERO; FETCH; LOAD(x); break;
		case 0xAE: ABSOLUTE; WAIT_FOR_TIMER; FETCH; LOAD(x); break;
		case 0xB6: ZERO_BY(p.y); FETCH; LOAD(x); break;
		case 0xBE: ABSOLUTE_BY_READ(p.y); FETCH; LOAD(x); break;
		case 0xA0: IMMEDIATE; LOAD(y); break;
		case 0xA4: ZERO; FETCH; LOAD(y); break;
		case 0xAC: ABSOLUTE; WAIT_FOR_TIMER; FETCH; LOAD(y); break;
		case 0xB4: ZERO_BY(p.x); FETCH; LOAD(y); break;
		case 0xBC: ABSOLUTE_BY_READ(p.x); FETCH; LOAD(y); break;
		case 0xE0: IMMEDIATE; COMPARE(x); break;
		case 0xE4: ZERO; FETCH; COMPARE(x); break;
		case 0xEC: ABSOLUTE; FETCH; COMPARE(x); break;
		case 0xC0: IMMEDIATE; COMPARE(y); break;
		case 0xC4: ZERO; FETCH; COMPARE(y); break;
		case 0xCC: ABSOLUTE; FETCH; COMPARE(y); break;
		case 0x24: ZERO; FETCH; BIT; break;
		case 0x2C: ABSOLUTE; FETCH; BIT; break;

		case 0x81: INDEXED; WRITE(address, p.a); break;
		case 0x85: ZERO; WRITE(address, p.a); break;
		case 0x8D: ABSOLUTE; WRITE(address, p.a); break;
		case 0x91: INDIRECT; WRITE(address, p.a); break;
		case 0x95: ZERO_BY(p.x); WRITE(address, p.a); break;
		case 0x99: ABSOLUTE_BY(p.y); WRITE(address, p.a); break;
		case 0x9D: ABSOLUTE_BY(p.x); WRITE(address, p.a); break;
		case 0x86: ZERO; WRITE(address, p.x); break;
		case 0x8E: ABSOLUTE; WRITE(address, p.x); break;
		case 0x96: ZERO_BY(p.y); WRITE(address, p.x); break;
		case 0x84: ZERO; WRITE(address, p.y); break;
		case 0x8C: ABSOLUTE; WRITE(address, p.y); break;
		case 0x94: ZERO_BY(p.x); WRITE(address, p.y); break;

		case 0xAA: IMPLIED; NZ(p.x = p.a); break;
		case 0xA8: IMPLIED; NZ(p.y = p.a); break;
		case 0x8A: IMPLIED; NZ(p.a = p.x); break;
		case 0x98: IMPLIED; NZ(p.a = p.y); break;
		case 0xBA: IMPLIED; NZ(p.x = p.sp); break;
		case 0x9A: IMPLIED; p.sp = p.x; break;
		case 0xE8: IMPLIED; NZ(++p.x); break;
		case 0xC8: IMPLIED; NZ(++p.y); break;
		case 0xCA: IMPLIED; NZ(--p.x); break;
		case 0x88: IMPLIED; NZ(--p.y); break;
		case 0x18: IMPLIED; p.c = 0; break;
		case 0x38: IMPLIED; p.c = 1; break;
		case 0x58: IMPLIED; p.i = 0; break;
		case 0x78: IMPLIED; p.i = 1; break;
		case 0xB8: IMPLIED; p.v = 0; break;
		case 0xD8: IMPLIED; p.d = 0; break;
		case 0xF8: IMPLIED; p.d = 1; break;

		case 0x10: BRANCH(!(p.n & 0x80)); break;
		case 0x30: BRANCH(p.n & 0x80); break;
		case 0x50: BRANCH(!p.v); break;
		case 0x70: BRANCH(p.v); break;
		case 0x90: BRANCH(!p.c); break;
		case 0xB0: BRANCH(p.c); break;
		case 0xD0: BRANCH(p.z != 0); break;
		case 0xF0: BRANCH(p.z == 0); break;

		case 0x48: IMPLIED; PUSH(p.a, 1); break;
		case 0x08: IMPLIED; PUSH(cpu_flags(&p), 1); break;
		case 0x68: IMPLIED; TOP; PULL; NZ(p.a = (uint8_t)bus); break;
		case 0x28: IMPLIED; TOP; PULL; cpu_set_flags(&p, (uint8_t)bus); break;
		case 0x4C: bus = high; pc = low | high << 8; break;
		case 0x6C: /* the pointer's second byte is in the first one's page */
			address = low | high << 8;
			bus = high;
			value = READ(address);
			value |= READ((address & 0xFF00) | ((address + 1) & 0xFF)) << 8;
			pc = value;
			break;
		case 0x20: /* the second push follows a write */
			bus = low;
			TOP;
			pc += 2;
			PUSH(pc >> 8 & 0xFF, 1);
			PUSH(pc & 0xFF, 0);
			high = READ(pc & 0xFFFF);
			pc = low | high << 8;
			break;
		case 0x60:
			TOP;
			PULL;
			value = bus;
			PULL;
			value |= bus << 8;
			READ(value);
			pc = (value + 1) & 0xFFFF;
			break;
		case 0x40:
			TOP;
			PULL;
			cpu_set_flags(&p, (uint8_t)bus);
			PULL;
			value = bus;
			PULL;
			pc = value | bus << 8;
			break;
		case 0x00:
			pc += 2;
			PUSH(pc >> 8 & 0xFF, 1);
			PUSH(pc & 0xFF, 0);
			PUSH(cpu_flags(&p), 0);
			p.i = 1;
			value = READ(0xFFFE);
			value |= READ(0xFFFF) << 8;
			pc = value;
			break;

		case 0xEA: case 0x1A: case 0x3A: case 0x5A: case 0x7A: case 0xDA: case 0xFA: IMPLIED; break;
		case 0x80: case 0x82: case 0x89: case 0xC2: case 0xE2: IMMEDIATE; break;
		case 0x04: case 0x44: case 0x64: ZERO; FETCH; break;
		case 0x14: case 0x34: case 0x54: case 0x74: case 0xD4: case 0xF4: ZERO_BY(p.x); FETCH; break;
		case 0x0C: ABSOLUTE; FETCH; break;
		case 0x1C: case 0x3C: case 0x5C: case 0x7C: case 0xDC: case 0xFC: ABSOLUTE_BY_READ(p.x); FETCH; break;

		/* Undocumented, but for those above. */
		case 0x83: INDEXED; WRITE(address, p.a & p.x); break;
		case 0x87: ZERO; WRITE(address, p.a & p.x); break;
		case 0x8F: ABSOLUTE; WRITE(address, p.a & p.x); break;
		case 0x97: ZERO_BY(p.y); WRITE(address, p.a & p.x); break;
		case 0xA3: INDEXED; FETCH; LOAD(a); p.x = p.a; break;
		case 0xA7: ZERO; FETCH; LOAD(a); p.x = p.a; break;
		case 0xAF: ABSOLUTE; FETCH; LOAD(a); p.x = p.a; break;
		case 0xB3: INDIRECT_READ; FETCH; LOAD(a); p.x = p.a; break;
		case 0xB7: ZERO_BY(p.y); FETCH; LOAD(a); p.x = p.a; break;
		case 0xBF: ABSOLUTE_BY_READ(p.y); FETCH; LOAD(a); p.x = p.a; break;
		case 0x0B: case 0x2B: IMMEDIATE; AND; p.c = p.a >> 7; break;
		case 0x4B: IMMEDIATE; value &= p.a; LSR; p.a = (uint8_t)value; break;
		case 0x6B: IMMEDIATE; cpu_and_rotate(&p, (uint8_t)value); break;
		case 0x8B: IMMEDIATE; NZ(p.a = (uint8_t)((p.a | 0xEE) & p.x & value)); break;
		case 0xAB: IMMEDIATE; NZ(p.a = p.x = (uint8_t)((p.a | 0xEE) & value)); break;
		case 0xCB: IMMEDIATE; carry = p.a & p.x; p.c = carry >= value; NZ(p.x = (uint8_t)(carry - value)); break;
		case 0xEB: IMMEDIATE; SBC; break;
		case 0xBB: ABSOLUTE_BY_READ(p.y); FETCH; NZ(p.a = p.x = p.sp = (uint8_t)(p.sp & value)); break;
		case 0x93: INDIRECT; WRITE(address, p.a & p.x & ((address >> 8) + 1)); break;
		case 0x9F: ABSOLUTE_BY(p.y); WRITE(address, p.a & p.x & ((address >> 8) + 1)); break;
		case 0x9B: ABSOLUTE_BY(p.y); p.sp = p.a & p.x; WRITE(address, p.sp & ((address >> 8) + 1)); break;
		case 0x9C: ABSOLUTE_BY(p.x); WRITE(address, p.y & ((address >> 8) + 1)); break;
		case 0x9E: ABSOLUTE_BY(p.y); WRITE(address, p.x & ((address >> 8) + 1)); break;
		default: p.jammed = 1; break;
		}
	}
	p.pc = (uint16_t)pc;
	m->cpu = p;
	m->cycles = cycles;
	m->latch = (uint8_t)bus;
}

ATARI_FN void cpu_run(struct atari *m, const struct atari_rom *rom, int32_t most)
{
	if (rom->scheme == ATARI_E0)
		cpu_run_as(m, rom, most, SLICED);
	else if (rom->scheme == ATARI_FE)
		cpu_run_as(m, rom, most, BY_A13);
	else
		cpu_run_as(m, rom, most, FLAT);
}

#endif
