/*
 * The CPU's window: the CPU reads code from the ROM where it can, and over the bus elsewhere. The
 * tests compare it with the naive CPU, which reads every byte over the bus, in and around such
 * places. A call executes many instructions, because the window is kept from one instruction to the
 * next.
 */
#include "programs.h"

static struct atari m;
static struct naive n;
static struct cart cart;

/* Offsets in 4 KB where banks, slices, RAM, registers or the cartridge start or end. */
static const uint32_t edges[] = {0x000, 0x03F, 0x07F, 0x080, 0x0FF, 0x100, 0x3FF, 0x400, 0x7FF, 0x800,
                                 0xBFF, 0xC00, 0xFBF, 0xFC0, 0xFDF, 0xFE0, 0xFE7, 0xFE8, 0xFEF, 0xFF0,
                                 0xFF5, 0xFF6, 0xFF7, 0xFF8, 0xFF9, 0xFFA, 0xFFE, 0xFFF};

/* An address at or near an edge, with random upper bits, which only FE uses. */
static uint32_t edge(struct rng *r) {
  const uint32_t a = (edges[below(r, sizeof edges / sizeof *edges)] + below(r, 8) - 5) & 0xFFF;
  return below(r, 8) << 13 | (percent(r, 93) ? 0x1000u : 0) | a;
}

static uint32_t hot_spot(struct rng *r) { return below(r, 8) << 13 | 0x1000 | (0xFE0 + below(r, 0x20)); }

/* Writes a random instruction, often a jump, a branch or a hot spot. Returns its length. */
static uint32_t instruction(struct rng *r, uint8_t to[3]) {
  static const uint8_t jumps[] = {0x4C, 0x4C, 0x4C, 0x20, 0x6C},
                       branches[] = {0x10, 0x30, 0x50, 0x70, 0x90, 0xB0, 0xD0, 0xF0};
  static const uint8_t touches[] = {0xAD, 0x8D, 0x2C, 0xEE, 0xBD, 0x9D, 0x0C, 0xB9},
                       singles[] = {0xEA, 0xE8, 0xC8, 0x0A, 0x38, 0x18, 0x48, 0x68, 0x60, 0x40};
  static const uint8_t doubles[] = {0xA9, 0x69, 0xE9, 0xC9, 0xA2, 0xA0, 0x29, 0x49, 0xE6, 0xB1, 0xA1, 0x91},
                       triples[] = {0xAD, 0xEE, 0x7D, 0xD9, 0x8D};
  const uint32_t kind = below(r, 100);
  uint32_t address;
  if (kind < 25) {
    to[0] = jumps[below(r, sizeof jumps)];
    address = percent(r, 10) ? 0x80 + below(r, 128) : edge(r);
  } else if (kind < 40) {
    to[0] = touches[below(r, sizeof touches)];
    address = percent(r, 70) ? hot_spot(r) : edge(r);
  } else if (kind < 60) {
    to[0] = branches[below(r, sizeof branches)];
    to[1] = percent(r, 80) ? (uint8_t)(below(r, 24) - 12) : byte(r);
    return 2;
  } else if (kind < 75) {
    to[0] = singles[below(r, sizeof singles)];
    return 1;
  } else if (kind < 95) {
    to[0] = doubles[below(r, sizeof doubles)];
    to[1] = percent(r, 60) ? 0x80 | byte(r) : byte(r);
    return 2;
  } else {
    to[0] = triples[below(r, sizeof triples)];
    address = percent(r, 50) ? 0x80 + below(r, 128) : 0x280 + below(r, 8);
  }
  to[1] = (uint8_t)address;
  to[2] = (uint8_t)(address >> 8);
  return 3;
}

static void fill(struct rng *r, uint8_t *bytes, uint32_t size) {
  for (uint32_t at = 0; at < size;) {
    uint8_t code[3];
    const uint32_t length = instruction(r, code);
    for (uint32_t i = 0; i < length && at < size; i++) bytes[at++] = code[i];
  }
}

static void turn_on(struct rng *r, int scheme) {
  fill(r, cart.image, sizeof cart.image);
  load(&cart, scheme);
  power_on(&m, &n, &cart, 34, 210, byte(r));
  fill(r, m.ram, sizeof m.ram);
  fill(r, m.cart.ram, sizeof m.cart.ram);
  memcpy(n.ram, m.ram, sizeof m.ram);
  memcpy(n.board_ram, m.cart.ram, sizeof m.cart.ram);
}

/* Moves the CPU to a random edge. */
static void go_on(struct rng *r) {
  m.cpu.pc = n.pc = (uint16_t)(percent(r, 90) ? edge(r) : below(r, 0x10000));
  m.cpu.sp = n.sp = (uint8_t)(percent(r, 80) ? 0xFF : byte(r));
  m.swcha = n.swcha = byte(r);
  m.cpu.jammed = 0;
  n.jammed = 0;
  m.latch = n.bus; /* a jammed CPU does not update the latch */
  if (m.frame_over || m.cycles > 60000) {
    tia_end_frame(&m);
    tia_start_frame(&m);
    naive_start_frame(&n);
    m.frame_over = 0;
    n.frame_over = 0;
  }
}

/* Executes `steps` runs of random length, each from a random edge. */
static void walk(struct rng *r, int scheme, int steps) {
  for (int i = 0; i < steps; i++) {
    const int count = 1 + (int)below(r, percent(r, 80) ? 6 : 60);
    uint16_t passed[60];
    int k = 0;
    go_on(r);
    cpu_run(&m, &cart.rom, count);
    for (; k < count && !n.jammed && !n.frame_over; k++) {
      passed[k] = n.pc;
      naive_instruction(&n);
    }
    const char *wrong = differs(&m, &n);
    if (!wrong) continue;
    for (int p = 0; p < k; p++) printf("$%04X ", passed[p]);
    putchar('\n');
    FAIL("%s, step %d, after these: %s", scheme_name[scheme], i, wrong);
  }
}

/* -------------------------------------------------------------- known cases */

/* Writes code to an offset of the ROM. */
static void code_at(uint32_t at, const uint8_t *code, size_t length) { memcpy(cart.image + at, code, length); }

/* E0: an instruction of three bytes, with its last two bytes in the next slice, which is from a lower kilobyte. */
static void slices(void) {
  static const uint8_t first[] = {0xAD}, rest[] = {0x85, 0x00, 0xA2, 0x77};
  memset(&cart, 0xEA, sizeof cart);
  code_at(5 * 1024 + 0x3FF, first, sizeof first);
  code_at(0, rest, sizeof rest);
  load(&cart, ATARI_E0);
  power_on(&m, NULL, &cart, 34, 210, 50);
  m.ram[5] = 0x99;
  bus_read(&m, &cart.rom, 0x1FE5, 0); /* slice 0 is kilobyte 5, slice 1 is kilobyte 0 */
  bus_read(&m, &cart.rom, 0x1FE8, 0);
  m.cpu.pc = 0x13FF;
  cpu_run(&m, &cart.rom, 2);
  EQUAL(m.cpu.a, 0x99, "LDA across two slices");
  EQUAL(m.cpu.x, 0x77, "LDX in the second");
  EQUAL(m.cpu.pc, 0x1404, "after it");
}

/* FE: bit 13 of the program counter is the bank, which a jump changes. */
static void far(void) {
  static const uint8_t jump[] = {0x4C, 0x00, 0xD1}, low[] = {0xA9, 0x01}, high[] = {0xA9, 0x02};
  memset(&cart, 0xEA, sizeof cart);
  code_at(0x000, jump, sizeof jump);
  code_at(0x100, low, sizeof low);
  code_at(4096 + 0x100, high, sizeof high);
  load(&cart, ATARI_FE);
  power_on(&m, NULL, &cart, 34, 210, 50);
  m.cpu.pc = 0xF000;
  cpu_run(&m, &cart.rom, 2);
  EQUAL(m.cpu.a, 2, "the bank of $D100");
  m.cpu.pc = 0xF100;
  cpu_run(&m, &cart.rom, 1);
  EQUAL(m.cpu.a, 1, "the bank of $F100");
}

/* After the last byte of ROM come the TIA's addresses, and $0000 comes after $FFFF. */
static void beyond(void) {
  static const uint8_t last[] = {0x09, 0x2C};
  for (uint32_t page = 0x1000; page < 0x10000; page += 0x2000) {
    memset(&cart, 0xEA, sizeof cart);
    code_at(0xFFD, last, sizeof last);
    cart.image[0xFFF] = 0xA9; /* LDA #; the operand is CXM0P with the bus's $A9: $29 */
    load(&cart, ATARI_4K);
    power_on(&m, NULL, &cart, 34, 210, 50);
    m.cpu.pc = (uint16_t)(page | 0xFFD);
    cpu_run(&m, &cart.rom, 2);
    EQUAL(m.cpu.a, 0x29, "an operand in the TIA");
    EQUAL(m.cpu.pc, (page + 0x1001) & 0xFFFF, "after it");
  }
}

/* An instruction that is fetched from a hot spot moves the bank of its own next bytes. */
static void hot_spots(void) {
  static const uint8_t before[] = {0xA9, 0x11, 0xAD}, after[] = {0x00, 0xF0};
  for (int bank = 0; bank < 2; bank++) {
    memset(&cart, 0xEA, sizeof cart);
    code_at(4096 + 0xFF5, before, sizeof before); /* LDA #$11; LDA at $FF7, its operand at $FF8 and $FF9 */
    code_at(0xFF8, after, 1);
    cart.image[4096 + 0xFF9] = 0xF0;
    cart.image[4096] = 0x22;
    load(&cart, ATARI_F8);
    power_on(&m, NULL, &cart, 34, 210, 50);
    m.cpu.pc = (uint16_t)(bank ? 0xFFF5 : 0xFFF7);
    cpu_run(&m, &cart.rom, 1);
    if (bank) EQUAL(m.cpu.a, 0x11, "before the hot spots");
    if (bank) cpu_run(&m, &cart.rom, 1);
    EQUAL(m.cpu.a, 0x22, "an instruction whose operand is the two hot spots");
    EQUAL(m.cart.slice[0], 4096, "the bank after it");
  }
}

int main(int argc, char **argv) {
  const int images = argc > 1 ? atoi(argv[1]) : 60;
  slices();
  far();
  beyond();
  hot_spots();
  for (int scheme = 0; scheme < 8; scheme++)
    for (int i = 0; i < images; i++) {
      struct rng r = {1000 * (uint64_t)scheme + (uint64_t)i};
      turn_on(&r, scheme);
      walk(&r, scheme, 1000);
    }
  return 0;
}
