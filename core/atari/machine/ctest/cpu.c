/*
 * The CPU: every opcode, compared with the naive CPU for random registers, memory and program
 * counters; and known cases.
 */
#include "programs.h"

static struct atari m;
static struct naive n;
static struct cart cart;
static int seen[256];

static void registers(uint16_t pc, uint8_t a, uint8_t x, uint8_t y, uint8_t sp, uint8_t flags) {
  m.cpu.pc = n.pc = pc, m.cpu.a = n.a = a, m.cpu.x = n.x = x, m.cpu.y = n.y = y, m.cpu.sp = n.sp = sp;
  cpu_set_flags(&m.cpu, flags);
  naive_set_flags(&n, flags);
  m.cpu.jammed = (uint8_t)(n.jammed = 0);
  m.frame_over = (uint8_t)(n.frame_over = 0);
}

static void put(uint16_t pc, uint8_t value) {
  if (pc & 0x1000)
    burn(&cart, pc & 0xFFF, value);
  else
    m.ram[pc & 0x7F] = n.ram[pc & 0x7F] = value;
}

/* Executes one instruction on both machines and compares them. */
static void step(void) {
  const uint16_t pc = n.pc;
  cpu_run(&m, &cart.rom, 1);
  naive_instruction(&n);
  const uint8_t opcode = n.opcode;
  seen[opcode]++;
  const char *wrong = differs(&m, &n);
  if (wrong)
    FAIL("%s, opcode $%02X (%.3s) at $%04X: %s", scheme_name[cart.scheme], opcode, naive_opcode(opcode)->name, pc,
         wrong);
}

/* Executes every opcode in ROM, in RAM, at hot spots and at the end of the address space. */
static void random_instructions(int scheme, uint64_t seed, int count) {
  static const uint16_t edges[8] = {0x1FF4, 0x1FDE, 0x107E, 0x10FE, 0x13FE, 0x1FFD, 0x1FBE, 0x17FD};
  struct rng r = {seed};
  for (int i = 0; i < count; i++) {
    if (i % 4000 == 0) {
      for (uint32_t k = 0; k < sizeof cart.image; k++) cart.image[k] = byte(&r);
      load(&cart, scheme);
      power_on(&m, &n, &cart, 34, 210, 50);
      for (int k = 0; k < 128; k++) m.ram[k] = n.ram[k] = byte(&r);
    }
    const uint32_t where = below(&r, 10);
    uint16_t pc = (uint16_t)(0x1000 | byte(&r) << 8 | byte(&r));
    if (where < 3)
      pc = (uint16_t)(edges[below(&r, 8)] + below(&r, 6)) | (uint16_t)(below(&r, 8) << 13);
    else if (where == 3)
      pc = (uint16_t)(0x80 + below(&r, 128)) | (uint16_t)(percent(&r, 50) << 8);
    registers(pc, byte(&r), byte(&r), byte(&r), byte(&r), byte(&r));
    if (percent(&r, 50)) { /* chosen operands, if pc is in the cartridge's first bank or in RAM */
      put(pc, (uint8_t)i);
      put((uint16_t)(pc + 1), percent(&r, 60) ? 0x80 | byte(&r) : byte(&r));
      put((uint16_t)(pc + 2), (uint8_t[]){0, 0, 1, 2, 3, 0x10, 0xF0, 0xFF}[below(&r, 8)]);
    }
    step();
    if (m.cycles > 60000 || n.jammed) {
      m.cycles = 100;
      n.cycles = 100;
      m.riot.timer_set = 0, n.timer_set = 0;
      m.riot.timer_was_read = 0, n.timer_was_read = 0;
      m.cart.music_cycle = 0, n.music_at = 0;
      m.latch = n.bus = 0;
    }
  }
}

/* ------------------------------------------------------------- known cases */

/* Executes an instruction of `bytes` bytes at $F000. Returns its cycles. */
static int run(int bytes, uint8_t opcode, uint8_t low, uint8_t high) {
  const uint8_t code[3] = {opcode, low, high};
  for (int i = 0; i < bytes; i++) burn(&cart, (uint32_t)i, code[i]);
  m.cpu.pc = 0xF000;
  const int32_t before = m.cycles;
  cpu_run(&m, &cart.rom, 1);
  return m.cycles - before;
}

static void fresh(void) {
  memset(cart.image, 0xEA, sizeof cart.image);
  load(&cart, ATARI_4K);
  power_on(&m, NULL, &cart, 34, 210, 50);
}

#define FLAGS(want) EQUAL(cpu_flags(&m.cpu), 0x30 | (want), "flags NV..DIZC")
enum { N = 0x80, V = 0x40, D = 8, I = 4, Z = 2, C = 1 };

static void penalties(void) {
  fresh();
  m.cpu.x = 1;
  EQUAL(run(3, 0xBD, 0x00, 0xF1), 4, "LDA $F100,X in the page");
  EQUAL(run(3, 0xBD, 0xFF, 0xF1), 5, "LDA $F1FF,X out of it");
  EQUAL(run(3, 0x9D, 0xFF, 0xF1), 5, "STA $F1FF,X never takes longer");
  EQUAL(run(3, 0xFE, 0xFF, 0xF1), 7, "nor INC $F1FF,X");
  EQUAL(run(3, 0x1C, 0xFF, 0xF1), 5, "NOP $F1FF,X does");
  m.cpu.y = 1;
  m.ram[0] = 0xFF, m.ram[1] = 0xF1;
  EQUAL(run(2, 0xB1, 0x80, 0), 6, "LDA ($80),Y out of the page");
  EQUAL(run(2, 0x91, 0x80, 0), 6, "STA ($80),Y");
  EQUAL(run(3, 0xBB, 0xFF, 0xF1), 5, "LAS $F1FF,Y");
  m.cpu.nz = 1;
  EQUAL(run(2, 0xF0, 4, 0), 2, "BEQ not taken");
  m.cpu.nz = 0;
  EQUAL(run(2, 0xF0, 4, 0), 3, "BEQ taken");
  EQUAL(m.cpu.pc, 0xF006, "BEQ taken");
  EQUAL(run(2, 0xF0, 0x80, 0), 4, "BEQ to another page");
  EQUAL(m.cpu.pc, 0xEF82, "BEQ backward");
}

static void decimal(void) {
  static const struct {
    uint8_t opcode, a, operand, carry, sum, flags;
  } cases[] = {
      {0x69, 0x09, 0x01, 0, 0x10, 0},
      {0x69, 0x58, 0x46, 1, 0x05, C},
      {0x69, 0x99, 0x00, 1, 0x00, Z | C},
      {0x69, 0x50, 0x50, 0, 0x00, Z | C},
      {0x69, 0x0F, 0x01, 0, 0x16, 0},
      {0x69, 0x79, 0x00, 1, 0x80, N | V},
      {0xE9, 0x46, 0x12, 1, 0x34, C},
      {0xE9, 0x40, 0x13, 1, 0x27, C},
      {0xE9, 0x32, 0x02, 0, 0x29, C},
      {0xE9, 0x12, 0x21, 1, 0x91, N | V},
      {0xE9, 0x00, 0x00, 0, 0x99, N | V},
      /* 0 - 165 + 100, still below 0: 256 - 65 = $BF, whose digits are 11 and 15 */
      {0xE9, 0x00, 0xFF, 1, 125, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fresh();
    m.cpu.a = cases[i].a;
    cpu_set_flags(&m.cpu, (uint8_t)(D | cases[i].carry));
    EQUAL(run(2, cases[i].opcode, cases[i].operand, 0), 2, "cycles");
    EQUAL(m.cpu.a, cases[i].sum, "$%02X %s $%02X, carry %d", cases[i].a, cases[i].opcode == 0x69 ? "+" : "-",
          cases[i].operand, cases[i].carry);
    FLAGS(D | cases[i].flags);
  }
}

/* Every sum and difference, decimal and binary, and ARR, which depends on the mode, too. */
static void arithmetic(void) {
  static const uint8_t opcodes[4] = {0x69, 0xE9, 0xEB, 0x6B};
  memset(&cart, 0, sizeof cart);
  load(&cart, ATARI_4K);
  power_on(&m, &n, &cart, 34, 210, 50);
  for (int k = 0; k < 4; k++)
    for (uint32_t value = 0; value < 256; value++)
      for (uint32_t a = 0; a < 256; a++)
        for (uint8_t flags = 0; flags < 4; flags++) {
          burn(&cart, 0, opcodes[k]), burn(&cart, 1, (uint8_t)value);
          registers(0xF000, (uint8_t)a, 0, 0, 0xFF, (uint8_t)((flags & 1 ? D : 0) | (flags & 2 ? C : 0)));
          cpu_run(&m, &cart.rom, 1);
          naive_instruction(&n);
          if (m.cpu.a != n.a || cpu_flags(&m.cpu) != naive_flags(&n))
            FAIL("opcode $%02X, $%02X and $%02X, flags %d: $%02X, must be $%02X; P $%02X, must be $%02X", opcodes[k], a,
                 value, flags, m.cpu.a, n.a, cpu_flags(&m.cpu), naive_flags(&n));
        }
  /* With digits above 9 a sum may exceed 255: 165 + 165 + 1 is 331, and 331 - 256 is 75. */
  fresh();
  m.cpu.a = 0xFF;
  cpu_set_flags(&m.cpu, D | C);
  run(2, 0x69, 0xFF, 0);
  EQUAL(m.cpu.a, 0x75, "$FF + $FF + 1, decimal");
  FLAGS(D | V | C);
}

static void addresses(void) {
  fresh();
  burn(&cart, 0x2FF, 0x34), burn(&cart, 0x200, 0x12), burn(&cart, 0x300, 0x56);
  EQUAL(run(3, 0x6C, 0xFF, 0xF2), 5, "JMP ($F2FF)");
  EQUAL(m.cpu.pc, 0x1234, "the second byte comes from the start of the same page");
  /* ($FF),Y reads the pointer's second byte at $0100, which is CXM0P of the TIA. */
  m.ram[0x7F] = 0x40;
  m.cpu.y = 0;
  m.tia.collisions = 3; /* CXM0P's two bits are $C0; the other bits are the bus's $40 & $3F = 0 */
  burn(&cart, 0x40, 0x77);
  run(2, 0xB1, 0xFF, 0); /* the high byte is $C0, and $C040 is CXM0P again */
  EQUAL(m.cpu.a, 0xC0, "LDA ($FF),Y with the pointer's high byte from $0100");
  fresh();
  m.cpu.x = 0x10;
  m.ram[0x0F] = 0x99;
  EQUAL(run(2, 0xB5, 0x7F, 0), 4, "LDA $7F,X");
  EQUAL(m.cpu.a, 0x99, "LDA $7F,X");
  m.ram[0x05] = 0x11;
  m.cpu.x = 0xF0;
  run(2, 0xB5, 0x95, 0);
  EQUAL(m.cpu.a, 0x11, "LDA $95,X stays in page 0");
}

/* A stack pointer below $80 is in the TIA, from $80 on in RAM. */
static void stack(void) {
  fresh();
  m.cpu.a = 0x5A, m.cpu.sp = 0xFF;
  EQUAL(run(1, 0x48, 0, 0), 3, "PHA");
  EQUAL(m.ram[0x7F], 0x5A, "PHA to $01FF");
  EQUAL(m.cpu.sp, 0xFE, "PHA");
  m.cpu.sp = 0x1F; /* ENABL: games write it by PHP, with Z in bit 1 */
  cpu_set_flags(&m.cpu, Z);
  run(1, 0x08, 0, 0);
  EQUAL(m.cpu.sp, 0x1E, "PHP");
  EQUAL(m.tia.enabl & 2, 2, "PHP to ENABL with Z set");
  cpu_set_flags(&m.cpu, 0);
  m.cpu.sp = 0x1F;
  run(1, 0x08, 0, 0);
  EQUAL(m.tia.enabl & 2, 0, "PHP to ENABL with Z clear");

  /* JSR's second push follows a write, so WSYNC does not stop the CPU. WSYNC at the first push does. */
  fresh();
  m.cycles = 10;
  m.cpu.sp = 3;
  burn(&cart, 2, 0xF1);
  EQUAL(run(3, 0x20, 0, 0xF1), 6, "JSR with WSYNC second");
  m.cpu.sp = 2;
  m.cycles = 10;
  EQUAL(run(3, 0x20, 0, 0xF1), 66, "JSR with WSYNC first");
  EQUAL(m.cpu.pc, 0xF100, "JSR");
  m.cpu.sp = 0xFD;
  m.ram[0x7E] = 0x33, m.ram[0x7F] = 0xF2;
  EQUAL(run(1, 0x60, 0, 0), 6, "RTS");
  EQUAL(m.cpu.pc, 0xF234, "RTS");
  m.cpu.sp = 0xFC;
  m.ram[0x7D] = 0xFF;
  EQUAL(run(1, 0x40, 0, 0), 6, "RTI");
  EQUAL(m.cpu.pc, 0xF233, "RTI");
  FLAGS(N | V | D | I | Z | C);
  burn(&cart, 0xFFE, 0x78), burn(&cart, 0xFFF, 0xF6);
  m.cpu.sp = 0xFF;
  cpu_set_flags(&m.cpu, C);
  EQUAL(run(2, 0x00, 0, 0), 7, "BRK");
  EQUAL(m.cpu.pc, 0xF678, "BRK");
  EQUAL(m.ram[0x7F] << 8 | m.ram[0x7E], 0xF002, "BRK pushes the address after its padding");
  EQUAL(m.ram[0x7D], 0x31, "BRK pushes B");
  FLAGS(I | C);
}

/* Undocumented opcodes that do not combine two documented ones. */
static void undocumented(void) {
  fresh();
  m.cpu.a = 0x11, m.cpu.x = 0x3F;
  run(2, 0x8B, 0x7C, 0);
  EQUAL(m.cpu.a, 0x3C, "ANE: ($11 | $EE) & $3F & $7C");
  m.cpu.a = 0x00;
  run(2, 0xAB, 0xFF, 0);
  EQUAL(m.cpu.a, 0xEE, "LXA: ($00 | $EE) & $FF");
  EQUAL(m.cpu.x, 0xEE, "LXA");
  m.cpu.a = 0xF0, m.cpu.x = 0x3F;
  run(2, 0xCB, 0x31, 0);
  EQUAL(m.cpu.x, 0xFF, "SBX: ($F0 & $3F) - $31");
  FLAGS(N);
  m.cpu.a = m.cpu.x = 0xFF, m.cpu.y = 0;
  EQUAL(run(3, 0x9F, 0x80, 0x00), 5, "SHA $0080,Y");
  EQUAL(m.ram[0], 0x01, "SHA: A & X & ($00 + 1)");
  m.cpu.x = 0xFF;
  run(3, 0x9E, 0x85, 0x00);
  EQUAL(m.ram[5], 0x01, "SHX");
  m.cpu.a = 0x7E, m.cpu.x = 0x1F, m.cpu.y = 6;
  run(3, 0x9B, 0x80, 0x00);
  EQUAL(m.cpu.sp, 0x1E, "SHS: SP = A & X");
  EQUAL(m.ram[6], 0x00, "SHS: SP & ($00 + 1)");
  m.cpu.sp = 0xF3;
  m.ram[7] = 0x9A;
  m.cpu.y = 7;
  run(3, 0xBB, 0x80, 0x00);
  EQUAL(m.cpu.a, 0x92, "LAS: M & SP");
  EQUAL(m.cpu.sp, 0x92, "LAS");
  m.ram[8] = 0x5C;
  EQUAL(run(2, 0xA7, 0x88, 0), 4, "LAX of page 0, which takes one cycle less on the chip");
  EQUAL(m.cpu.x << 8 | m.cpu.a, 0x5C5C, "LAX");
  m.cpu.y = 0;
  EQUAL(run(2, 0xB7, 0x88, 0), 4, "LAX $88,Y");
  static const uint8_t jams[12] = {0x02, 0x12, 0x22, 0x32, 0x42, 0x52, 0x62, 0x72, 0x92, 0xB2, 0xD2, 0xF2};
  for (int i = 0; i < 12; i++) {
    fresh();
    EQUAL(run(1, jams[i], 0, 0), 2, "cycles of $%02X", jams[i]);
    const int32_t cycles = m.cycles;
    cpu_run(&m, &cart.rom, 100);
    CHECK(m.cpu.jammed && m.cycles == cycles, "$%02X does not stop the CPU", jams[i]);
    m.unfinished = 0;
    atari_frame(&m, &cart.rom); /* returns */
    CHECK(m.unfinished, "a stopped CPU ended a frame");
  }
}

/* Code in the TIA: bits that the TIA does not drive keep the last byte on the bus. */
static void code_in_the_tia(void) {
  fresh();
  m.cpu.a = 0x00;
  run(3, 0x4C, 0x3C, 0x05); /* INPT4's $80 and JMP's last byte make $85, STA; INPT5 is $85, too */
  cpu_run(&m, &cart.rom, 1);
  EQUAL(m.ram[5], 0x00, "STA $85 from the TIA's addresses");
  EQUAL(m.cpu.pc, 0x053E, "STA $85 from the TIA's addresses");
  burn(&cart, 0xFFE, 0x00), burn(&cart, 0xFFF, 0xF4); /* no register: the last written byte, $00, BRK */
  m.cpu.sp = 0xFF;
  cpu_run(&m, &cart.rom, 1);
  EQUAL(m.cpu.pc, 0xF400, "BRK by the last written byte");

  /* JMP $200E leaves $20 on the bus: JSR, and its low byte. JSR reads its high byte after the pushes: the pushed $10. */
  fresh();
  m.ram[0x7F] = 0x3F; /* JSR reads the stack before it pushes */
  burn(&cart, 0, 0x4C), burn(&cart, 1, 0x0E), burn(&cart, 2, 0x20);
  m.cpu.pc = 0xF000;
  cpu_run(&m, &cart.rom, 2);
  EQUAL(m.cpu.pc, 0x1020, "JSR from the TIA's addresses");
  EQUAL(m.ram[0x7F] << 8 | m.ram[0x7E], 0x2010, "JSR from the TIA's addresses");

  /* After a reset the bus has the vector's high byte: $200E again. */
  fresh();
  m.latch = 0xFF;
  burn(&cart, 0xFFC, 0x0E), burn(&cart, 0xFFD, 0x20);
  atari_reset(&m, &cart.rom, 50);
  cpu_run(&m, &cart.rom, 1);
  EQUAL(m.cpu.pc, 0x1020, "JSR from the TIA's addresses after a reset");
}

/* Jumps to all addresses of the TIA, and the code executed there. */
static void walks_in_the_tia(void) {
  for (uint32_t to = 0; to < 0x1000; to += 7) {
    if (to & 0x80) continue;
    fresh();
    power_on(&m, &n, &cart, 34, 210, 50);
    burn(&cart, 0, 0x4C), burn(&cart, 1, (uint8_t)to), burn(&cart, 2, (uint8_t)(to >> 8));
    registers(0xF000, 0x55, 0xF0, 0x13, 0xF0, 0);
    for (int i = 0; i < 40 && !n.jammed; i++) step();
  }
}

int main(void) {
  penalties();
  decimal();
  arithmetic();
  addresses();
  stack();
  undocumented();
  for (int scheme = 0; scheme < 8; scheme++)
    random_instructions(scheme, 1 + (uint64_t)scheme, scheme == 0 ? 200000 : 60000);
  for (int i = 0; i < 256; i++) CHECK(seen[i] > 500, "opcode $%02X was executed %d times only", i, seen[i]);
  code_in_the_tia();
  walks_in_the_tia();
  return 0;
}
