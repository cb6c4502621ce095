/*
 * The 6507 of the naive machine; see naive.h. A table holds the names and addressing modes of all
 * opcodes; the cycles follow from them.
 */
#ifndef NAIVE_CPU_H
#define NAIVE_CPU_H

#include "naive.h"

/*
 * Sixteen opcodes a row: a name and an addressing mode: i immediate, z zero page, zx, zy, a
 * absolute, ax, ay, (x, )y, r a branch, n an indirect jump, - implied.
 */
static const char *const naive_opcodes[16] = {
    "BRK- ORA(x JAM- SLO(x NOPz ORAz ASLz SLOz PHP- ORAi ASL- ANCi NOPa ORAa ASLa SLOa ",
    "BPLr ORA)y JAM- SLO)y NOPzx ORAzx ASLzx SLOzx CLC- ORAay NOP- SLOay NOPax ORAax ASLax SLOax ",
    "JSR- AND(x JAM- RLA(x BITz ANDz ROLz RLAz PLP- ANDi ROL- ANCi BITa ANDa ROLa RLAa ",
    "BMIr AND)y JAM- RLA)y NOPzx ANDzx ROLzx RLAzx SEC- ANDay NOP- RLAay NOPax ANDax ROLax RLAax ",
    "RTI- EOR(x JAM- SRE(x NOPz EORz LSRz SREz PHA- EORi LSR- ASRi JMPa EORa LSRa SREa ",
    "BVCr EOR)y JAM- SRE)y NOPzx EORzx LSRzx SREzx CLI- EORay NOP- SREay NOPax EORax LSRax SREax ",
    "RTS- ADC(x JAM- RRA(x NOPz ADCz RORz RRAz PLA- ADCi ROR- ARRi JMPn ADCa RORa RRAa ",
    "BVSr ADC)y JAM- RRA)y NOPzx ADCzx RORzx RRAzx SEI- ADCay NOP- RRAay NOPax ADCax RORax RRAax ",
    "NOPi STA(x NOPi SAX(x STYz STAz STXz SAXz DEY- NOPi TXA- ANEi STYa STAa STXa SAXa ",
    "BCCr STA)y JAM- SHA)y STYzx STAzx STXzy SAXzy TYA- STAay TXS- SHSay SHYax STAax SHXay SHAay ",
    "LDYi LDA(x LDXi LAX(x LDYz LDAz LDXz LAXz TAY- LDAi TAX- LXAi LDYa LDAa LDXa LAXa ",
    "BCSr LDA)y JAM- LAX)y LDYzx LDAzx LDXzy LAXzy CLV- LDAay TSX- LASay LDYax LDAax LDXay LAXay ",
    "CPYi CMP(x NOPi DCP(x CPYz CMPz DECz DCPz INY- CMPi DEX- SBXi CPYa CMPa DECa DCPa ",
    "BNEr CMP)y JAM- DCP)y NOPzx CMPzx DECzx DCPzx CLD- CMPay NOP- DCPay NOPax CMPax DECax DCPax ",
    "CPXi SBC(x NOPi ISB(x CPXz SBCz INCz ISBz INX- SBCi NOP- SBCi CPXa SBCa INCa ISBa ",
    "BEQr SBC)y JAM- ISB)y NOPzx SBCzx INCzx ISBzx SED- SBCay NOP- ISBay NOPax SBCax INCax ISBax ",
};

struct naive_opcode {
  char name[4], mode[3];
};

/* Parses the table once for each opcode, because parsing is slower than execution. */
static const struct naive_opcode *naive_opcode(uint8_t byte) {
  static struct naive_opcode known[256];
  struct naive_opcode *const o = &known[byte];
  const char *at = naive_opcodes[byte >> 4];
  if (o->name[0]) return o;
  for (int i = 0; i < (byte & 15); i++) at = strchr(at, ' ') + 1;
  memcpy(o->name, at, 3);
  memcpy(o->mode, at + 3, at[4] == ' ' ? 1 : 2);
  return o;
}

/* Whether the opcode's name is in a list of names of three letters. */
static int naive_is(const struct naive_opcode *o, const char *list) {
  for (; *list; list += 3)
    if (o->name[0] == list[0] && o->name[1] == list[1] && o->name[2] == list[2]) return 1;
  return 0;
}

static int naive_stores(const struct naive_opcode *o) { return naive_is(o, "STASTXSTYSAXSHASHXSHYSHS"); }
static int naive_modifies(const struct naive_opcode *o) { return naive_is(o, "ASLROLLSRRORINCDECSLORLASRERRADCPISB"); }

/* The cycles without those of a crossed page or a taken branch. */
static int naive_cycles(const struct naive_opcode *o) {
  const char *const m = o->mode;
  if (m[0] == '-') {
    if (naive_is(o, "BRK")) return 7;
    if (naive_is(o, "JSRRTSRTI")) return 6;
    return naive_is(o, "PLAPLP") ? 4 : naive_is(o, "PHAPHP") ? 3 : 2;
  }
  if (naive_is(o, "JMP")) return m[0] == 'n' ? 5 : 3;
  if (m[0] == 'i' || m[0] == 'r') return 2;
  if (naive_is(o, "LAX") && strcmp(m, "z") == 0) /* 3 on the chip, 4 in ALE */
    return 4;
  int cycles = m[0] == '(' ? 6 : m[0] == ')' ? 5 : m[0] == 'a' ? 4 : m[1] ? 4 : 3;
  if (naive_modifies(o)) /* two more cycles, and indexing always takes its extra cycle */
    return cycles + 2 + (strcmp(m, "ax") == 0 || strcmp(m, "ay") == 0 || m[0] == ')');
  if (naive_stores(o)) return cycles + (strcmp(m, "ax") == 0 || strcmp(m, "ay") == 0 || m[0] == ')');
  return cycles;
}

static void naive_nz(struct naive *m, int value) {
  m->n = value >> 7 & 1;
  m->z = (value & 255) == 0;
}

static int naive_digits(int v) { return 10 * (v >> 4) + (v & 15); }
static int naive_bcd(int v) { return (v / 10 % 10) * 16 + v % 10; }

static void naive_adc(struct naive *m, int v) {
  const int old = m->a;
  if (m->d) {
    const int t = naive_digits(old) + naive_digits(v) + m->c;
    m->c = t > 99;
    m->a = (uint8_t)naive_bcd((t & 0xFF) % 100);
  } else {
    const int t = old + v + m->c;
    m->c = t > 255;
    m->a = (uint8_t)t;
  }
  m->v = ((m->a ^ old) & (m->a ^ v) & 0x80) != 0;
  naive_nz(m, m->a);
}

static void naive_sbc(struct naive *m, int v) {
  const int old = m->a, borrow = 1 - m->c;
  if (!m->d) {
    naive_adc(m, v ^ 255);
    return;
  }
  int t = naive_digits(old) - naive_digits(v) - borrow;
  if (t < 0) t += 100;
  m->a = (uint8_t)(t < 0 ? naive_digits(256 + t) : naive_bcd(t));
  m->c = old >= v + borrow;
  m->v = ((m->a ^ old) & (m->a ^ v) & 0x80) != 0;
  naive_nz(m, m->a);
}

static void naive_compare(struct naive *m, int r, int v) {
  m->c = r >= v;
  naive_nz(m, r - v);
}

/* The result of a shift, INC or DEC. */
static uint8_t naive_modified(struct naive *m, const struct naive_opcode *o, uint8_t v) {
  const int carry = m->c;
  if (naive_is(o, "ASLSLO"))
    m->c = v >> 7, v = (uint8_t)(v * 2);
  else if (naive_is(o, "ROLRLA"))
    m->c = v >> 7, v = (uint8_t)(v * 2 + carry);
  else if (naive_is(o, "LSRSRE"))
    m->c = v & 1, v = v / 2;
  else if (naive_is(o, "RORRRA"))
    m->c = v & 1, v = (uint8_t)(v / 2 + 128 * carry);
  else
    v = (uint8_t)(v + (naive_is(o, "INCISB") ? 1 : -1));
  naive_nz(m, v);
  return v;
}

static void naive_arr(struct naive *m, int v) {
  const int t = m->a & v, turned = t / 2 + 128 * m->c;
  naive_nz(m, turned);
  m->a = (uint8_t)turned;
  m->v = ((t ^ turned) & 0x40) != 0;
  if (!m->d) {
    m->c = (turned & 0x40) != 0;
    m->v = m->c != ((turned & 0x20) != 0);
    return;
  }
  const int low = t & 15, high = t >> 4;
  if (low + (low & 1) > 5) m->a = (uint8_t)((m->a & 0xF0) + (m->a + 6) % 16);
  m->c = high + (high & 1) > 5;
  if (m->c) m->a = (uint8_t)(m->a + 0x60);
}

/* The effect of an opcode that reads a byte. */
static void naive_use(struct naive *m, const struct naive_opcode *o, uint8_t v) {
  if (naive_is(o, "ORASLO"))
    naive_nz(m, m->a |= v);
  else if (naive_is(o, "ANDRLAANC"))
    naive_nz(m, m->a &= v), m->c = naive_is(o, "ANC") ? m->n : m->c;
  else if (naive_is(o, "EORSRE"))
    naive_nz(m, m->a ^= v);
  else if (naive_is(o, "ADCRRA"))
    naive_adc(m, v);
  else if (naive_is(o, "SBCISB"))
    naive_sbc(m, v);
  else if (naive_is(o, "CMPDCP"))
    naive_compare(m, m->a, v);
  else if (naive_is(o, "CPX"))
    naive_compare(m, m->x, v);
  else if (naive_is(o, "CPY"))
    naive_compare(m, m->y, v);
  else if (naive_is(o, "LDA"))
    naive_nz(m, m->a = v);
  else if (naive_is(o, "LDX"))
    naive_nz(m, m->x = v);
  else if (naive_is(o, "LDY"))
    naive_nz(m, m->y = v);
  else if (naive_is(o, "LAX"))
    naive_nz(m, m->a = m->x = v);
  else if (naive_is(o, "BIT"))
    m->n = v >> 7, m->v = v >> 6 & 1, m->z = (m->a & v) == 0;
  else if (naive_is(o, "ASR"))
    m->a &= v, m->c = m->a & 1, naive_nz(m, m->a /= 2);
  else if (naive_is(o, "ARR"))
    naive_arr(m, v);
  else if (naive_is(o, "ANE"))
    naive_nz(m, m->a = (m->a | 0xEE) & m->x & v);
  else if (naive_is(o, "LXA"))
    naive_nz(m, m->a = m->x = (m->a | 0xEE) & v);
  else if (naive_is(o, "SBX"))
    m->x &= m->a, m->c = m->x >= v, naive_nz(m, m->x = (uint8_t)(m->x - v));
  else if (naive_is(o, "LAS"))
    naive_nz(m, m->a = m->x = m->sp = m->sp & v);
}

static int naive_flags(const struct naive *m) {
  return m->n << 7 | m->v << 6 | 0x30 | m->d << 3 | m->i << 2 | m->z << 1 | m->c;
}

static void naive_set_flags(struct naive *m, int p) {
  m->n = p >> 7 & 1, m->v = p >> 6 & 1, m->d = p >> 3 & 1, m->i = p >> 2 & 1, m->z = p >> 1 & 1, m->c = p & 1;
}

static void naive_push(struct naive *m, int v) {
  naive_write(m, 0x100u + m->sp, (uint8_t)v);
  m->sp--;
}

static uint8_t naive_pull(struct naive *m) {
  m->sp++;
  return naive_read(m, 0x100u + m->sp);
}

static int naive_branches(const struct naive *m, const struct naive_opcode *o) {
  return naive_is(o, "BPL")   ? !m->n
         : naive_is(o, "BMI") ? m->n
         : naive_is(o, "BVC") ? !m->v
         : naive_is(o, "BVS") ? m->v
         : naive_is(o, "BCC") ? !m->c
         : naive_is(o, "BCS") ? m->c
         : naive_is(o, "BNE") ? !m->z
                              : m->z;
}

/* Opcodes without an address. The program counter is after the opcode. */
static void naive_implied(struct naive *m, const struct naive_opcode *o) {
  uint32_t to;
  if (naive_is(o, "JAM")) {
    m->jammed = 1;
    m->pc--;
  } else if (naive_is(o, "ASLROLLSRROR"))
    m->a = naive_modified(m, o, m->a);
  else if (naive_is(o, "BRK")) {
    naive_read(m, m->pc++);
    naive_push(m, m->pc >> 8), naive_push(m, m->pc & 255), naive_push(m, naive_flags(m));
    m->i = 1;
    to = naive_read(m, 0xFFFE);
    m->pc = (uint16_t)(to | (uint32_t)naive_read(m, 0xFFFF) << 8);
  } else if (naive_is(o, "JSR")) {
    to = naive_read(m, m->pc++);
    naive_read(m, 0x100u + m->sp);
    naive_push(m, m->pc >> 8), naive_push(m, m->pc & 255);
    m->pc = (uint16_t)(to | (uint32_t)naive_read(m, m->pc) << 8);
  } else if (naive_is(o, "RTSRTI")) {
    naive_read(m, 0x100u + m->sp);
    if (naive_is(o, "RTI")) naive_set_flags(m, naive_pull(m));
    to = naive_pull(m);
    m->pc = (uint16_t)(to | (uint32_t)naive_pull(m) << 8);
    if (naive_is(o, "RTS")) naive_read(m, m->pc++);
  } else if (naive_is(o, "PLAPLP")) {
    naive_read(m, 0x100u + m->sp);
    if (naive_is(o, "PLA"))
      naive_nz(m, m->a = naive_pull(m));
    else
      naive_set_flags(m, naive_pull(m));
  } else if (naive_is(o, "PHAPHP"))
    naive_push(m, naive_is(o, "PHA") ? m->a : naive_flags(m));
  else if (naive_is(o, "TAX"))
    naive_nz(m, m->x = m->a);
  else if (naive_is(o, "TAY"))
    naive_nz(m, m->y = m->a);
  else if (naive_is(o, "TXA"))
    naive_nz(m, m->a = m->x);
  else if (naive_is(o, "TYA"))
    naive_nz(m, m->a = m->y);
  else if (naive_is(o, "TSX"))
    naive_nz(m, m->x = m->sp);
  else if (naive_is(o, "TXS"))
    m->sp = m->x;
  else if (naive_is(o, "INXDEX"))
    naive_nz(m, m->x = (uint8_t)(m->x + (o->name[0] == 'I' ? 1 : -1)));
  else if (naive_is(o, "INYDEY"))
    naive_nz(m, m->y = (uint8_t)(m->y + (o->name[0] == 'I' ? 1 : -1)));
  else if (naive_is(o, "CLCSEC"))
    m->c = o->name[0] == 'S';
  else if (naive_is(o, "CLDSED"))
    m->d = o->name[0] == 'S';
  else if (naive_is(o, "CLISEI"))
    m->i = o->name[0] == 'S';
  else if (naive_is(o, "CLV"))
    m->v = 0;
}

static void naive_instruction(struct naive *m) {
  m->opcode = naive_read(m, m->pc++);
  const struct naive_opcode *const o = naive_opcode(m->opcode);
  const char *const mode = o->mode;
  uint32_t low, high = 0, address = 0, base;
  m->cycles += naive_cycles(o);
  if (mode[0] == '-') {
    naive_implied(m, o);
    return;
  }
  low = naive_read(m, m->pc++);
  if (mode[0] == 'r') {
    const uint16_t to = (uint16_t)(m->pc + (low < 128 ? (int)low : (int)low - 256));
    if (naive_branches(m, o)) {
      m->cycles += to >> 8 != m->pc >> 8 ? 2 : 1;
      m->pc = to;
    }
    return;
  }
  if (mode[0] == 'i') {
    naive_use(m, o, (uint8_t)low);
    return;
  }
  if (mode[0] == 'a' || mode[0] == 'n') high = naive_read(m, m->pc++);
  base = low + 256 * high;
  const int index = mode[1] == 'x' ? m->x : mode[1] == 'y' ? m->y : 0;
  switch (mode[0]) {
    case 'z': address = (low + (uint32_t)index) & 255; break;
    case 'a': address = base + (uint32_t)index; break;
    case 'n':
      low = naive_read(m, base);
      m->pc = (uint16_t)(low + 256u * naive_read(m, (base & 0xFF00) + ((base + 1) & 255)));
      return;
    default: /* the pointer's second byte is at the next address, which may be in page 1 */
      address = mode[0] == '(' ? (low + m->x) & 255 : low;
      base = naive_read(m, address);
      base += 256u * naive_read(m, address + 1);
      address = base + (mode[0] == ')' ? m->y : 0);
  }
  address &= 0xFFFF;
  if (naive_is(o, "JMP")) {
    m->pc = (uint16_t)address;
    return;
  }
  high = (address >> 8) + 1;
  if (naive_is(o, "STA"))
    naive_write(m, address, m->a);
  else if (naive_is(o, "STX"))
    naive_write(m, address, m->x);
  else if (naive_is(o, "STY"))
    naive_write(m, address, m->y);
  else if (naive_is(o, "SAX"))
    naive_write(m, address, m->a & m->x);
  else if (naive_is(o, "SHA"))
    naive_write(m, address, (uint8_t)(m->a & m->x & high));
  else if (naive_is(o, "SHX"))
    naive_write(m, address, (uint8_t)(m->x & high));
  else if (naive_is(o, "SHY"))
    naive_write(m, address, (uint8_t)(m->y & high));
  else if (naive_is(o, "SHS"))
    m->sp = m->a & m->x, naive_write(m, address, (uint8_t)(m->sp & high));
  else if (naive_modifies(o)) {
    const uint8_t value = naive_modified(m, o, naive_read(m, address));
    naive_write(m, address, value);
    naive_use(m, o, value);
  } else {
    if ((mode[0] == ')' || mode[0] == 'a') && address >> 8 != base >> 8) m->cycles++;
    naive_use(m, o, naive_read(m, address));
  }
}

#endif
