/*
 * Loops that wait for the timer. The machine skips turns of such a loop; the naive machine executes
 * all of them. The tests compare registers, flags and cycle for any number of instructions.
 */
#include "programs.h"

static struct atari m;
static struct naive n;
static struct cart cart;

enum { LDA = 0xAD, LDX = 0xAE, LDY = 0xAC, BNE = 0xD0, BPL = 0x10 };

struct loop {
  uint8_t load, branch;
  uint32_t timer; /* the address of the load */
  uint32_t at;    /* the load's offset in 4 KB */
  int scheme;
};

/* Writes the loop, and after it a loop of INX, which counts the instructions after the first loop. */
static void put_loop(const struct loop *l) {
  memset(&cart, 0xEA, sizeof cart);
  for (uint32_t bank = 0; bank < 16384; bank += 4096) {
    const uint32_t inx = 0xF000 | (l->at + 5);
    const uint8_t code[9] = {l->load, (uint8_t)l->timer, (uint8_t)(l->timer >> 8), l->branch, 0xFB, 0xE8,
                             0x4C,    (uint8_t)inx,      (uint8_t)(inx >> 8)};
    for (uint32_t i = 0; i < 9; i++) cart.image[bank + ((l->at + i) & 0xFFF)] = code[i];
  }
  load(&cart, l->scheme);
  power_on(&m, &n, &cart, 34, 210, 50);
}

static void both_run(int instructions) {
  m.frame_over = m.cpu.jammed = 0;
  n.frame_over = n.jammed = 0;
  cpu_run(&m, &cart.rom, instructions);
  for (int i = 0; i < instructions && !n.jammed && !n.frame_over; i++) naive_instruction(&n);
}

/* Runs `instructions` instructions, starting `since` cycles after the timer was set. */
static void wait_for(const struct loop *l, int shift, uint8_t value, int64_t since, int instructions) {
  m.cycles = 1000;
  n.cycles = 1000;
  const uint32_t reg = (uint32_t[]){0x294, 0x295, 0x296, 0x297}[shift == 0 ? 0 : shift == 3 ? 1 : shift == 6 ? 2 : 3];
  bus_write(&m, &cart.rom, reg, value, 1);
  naive_write(&n, reg, value);
  m.cycles += (int32_t)since;
  n.cycles += since;
  m.cpu.pc = n.pc = (uint16_t)(0xF000 | l->at);
  m.cpu.a = m.cpu.x = m.cpu.y = n.a = n.x = n.y = 0x55;
  m.latch = n.bus = 0;
  cpu_set_flags(&m.cpu, 0);
  naive_set_flags(&n, 0);
  both_run(instructions);
  const char *wrong = differs(&m, &n);
  if (wrong)
    FAIL(
        "%s, $%02X $%04X at $F%03X, branch $%02X, timer of %d every %d, %lld cycles after it was set, %d instructions: "
        "%s",
        scheme_name[l->scheme], l->load, l->timer, l->at, l->branch, value, 1 << shift, (long long)since, instructions,
        wrong);
}

static const int shifts[4] = {0, 3, 6, 10};
static const uint8_t values[] = {0, 1, 2, 3, 4, 7, 64, 126, 127, 128, 129, 130, 200, 254, 255};

/* Every divider, value, branch and load, in a page and across pages; whole loops, and parts of random length. */
static void loops(int runs) {
  static const struct loop all[] = {
      {LDA, BNE, 0x284, 0x200, ATARI_4K},   {LDA, BPL, 0x284, 0x200, ATARI_4K},    {LDX, BNE, 0x284, 0x200, ATARI_F8},
      {LDX, BPL, 0x286, 0x200, ATARI_4K},   {LDY, BNE, 0x286, 0x200, ATARI_F6},    {LDY, BPL, 0x284, 0x200, ATARI_E0},
      {LDA, BNE, 0x284, 0x2FC, ATARI_4K},   {LDA, BPL, 0x284, 0x2FC, ATARI_4K},    {LDX, BNE, 0x284, 0x2FB, ATARI_4K},
      {LDA, BPL, 0x284, 0x2FB, ATARI_4K},   {LDY, BPL, 0x284, 0x2FD, ATARI_4K},    {LDA, BNE, 0x284, 0x2FF, ATARI_4K},
      {LDA, BNE, 0x2FFE, 0x200, ATARI_4K},  {LDA, BPL, 0xEE84, 0x200, ATARI_FE},   {LDA, BNE, 0x284, 0x200, ATARI_DPC},
      {LDA, BNE, 0x284, 0x200, ATARI_F8SC}, {LDX, BPL, 0x2FFC, 0x100, ATARI_F6SC},
  };
  struct rng r = {7};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    put_loop(&all[i]);
    for (int k = 0; k < 4; k++)
      for (size_t v = 0; v < sizeof values; v++) {
        const int whole = values[v] << shifts[k], turns = whole / 7 + 3;
        for (int run = 0; run < runs; run++) {
          const int64_t since = percent(&r, 50) ? 1 + below(&r, 20) : 1 + below(&r, (uint32_t)whole + 30);
          const int instructions = run % 2 == 0 && k < 3 ? 2 * turns + 3 : 1 + (int)below(&r, 60);
          wait_for(&all[i], shifts[k], values[v], since, instructions);
        }
      }
  }
  /* The longest loops have more turns than the instructions of a frame. */
  put_loop(&all[0]);
  wait_for(&all[0], 10, 255, 1, 25000);
  wait_for(&all[0], 10, 255, 80000, 60000);
  put_loop(&all[1]);
  wait_for(&all[1], 10, 127, 1, 60000);
}

/* Every first cycle and every number of instructions around the end of the loop. */
static void ends(void) {
  static const struct loop four[] = {
      {LDA, BNE, 0x284, 0x200, ATARI_4K},
      {LDA, BPL, 0x284, 0x200, ATARI_4K},
      {LDA, BNE, 0x284, 0x2FC, ATARI_4K},
      {LDX, BPL, 0x284, 0x2FC, ATARI_4K},
  };
  for (int i = 0; i < 4; i++) {
    put_loop(&four[i]);
    for (int value = 0; value < 6; value++)
      for (int since = 1; since < 60; since++)
        for (int count = 1; count < 20; count++) wait_for(&four[i], 3, (uint8_t)value, since, count);
  }
}

/*
 * Loops at an edge of a window, of a slice or of the cartridge. The other bank, or the next slice,
 * has different bytes there.
 */
static void edges(void) {
  static const uint32_t places[] = {0x3FF, 0xFDF, 0xFE5, 0xFF8, 0xFFE, 0x080, 0x100, 0x7FF};
  struct rng r = {8};
  for (int scheme = 0; scheme < 8; scheme++)
    for (size_t p = 0; p < sizeof places / sizeof *places; p++)
      for (uint32_t back = 0; back < 8; back++) {
        const struct loop l = {LDA, percent(&r, 50) ? BNE : BPL, 0x284, (places[p] - back) & 0xFFF, scheme};
        put_loop(&l);
        if (l.at > 0xFF9) /* the vectors are there, and the loop would extend into the TIA */
          continue;
        memset(cart.image, 0xE8, l.scheme == ATARI_4K ? 0 : 4096);
        load(&cart, l.scheme);
        if (scheme == ATARI_E0) /* a loop from kilobyte 4, 5 or 6 ends in the next one, but slices 1 and 2 are 0 */
          for (uint32_t k = 0x1FE8; k < 0x1FF8 && l.at < 0xC00; k += 8)
            if (l.at >> 10 != (k - 0x1FE0) >> 3) bus_read(&m, &cart.rom, k, 0), naive_read(&n, k);
        for (int run = 0; run < 4; run++) {
          if (scheme != ATARI_E0) bus_read(&m, &cart.rom, 0x1FF9, 0), naive_read(&n, 0x1FF9);
          wait_for(&l, 3, (uint8_t)below(&r, 12), 1 + below(&r, 20), 1 + (int)below(&r, 60));
        }
      }
}

/* Similar code that does not wait for the timer: other branches, targets and registers; a timer that has run out. */
static void others(int runs) {
  static const uint8_t loads[] = {0xAD, 0xAE, 0xAC, 0x0D, 0xCD, 0x2C},
                       branches[] = {0xD0, 0x10, 0x30, 0xF0, 0x90, 0xB0};
  static const uint32_t addresses[] = {0x284, 0x285, 0x286, 0x287,  0x280, 0x282,
                                       0x294, 0x84,  0x184, 0x1284, 0x684, 0x4};
  struct rng r = {9};
  for (int i = 0; i < runs; i++) {
    const struct loop l = {loads[below(&r, percent(&r, 60) ? 3 : 6)], branches[below(&r, 6)], addresses[below(&r, 12)],
                           0x200 + below(&r, 256), ATARI_4K};
    put_loop(&l);
    burn(&cart, l.at + 4, (uint8_t)(0xFB + (percent(&r, 70) ? 0 : (int)below(&r, 7) - 3)));
    m.swcha = n.swcha = byte(&r);
    const int k = (int)below(&r, 4);
    const uint32_t value = percent(&r, 70) ? below(&r, 10) : byte(&r);
    wait_for(&l, shifts[k], (uint8_t)value, 1 + below(&r, percent(&r, 70) ? 40 : 5000), 1 + (int)below(&r, 200));
    if (percent(&r, 30)) { /* the next frame, with the timer of this frame */
      tia_start_frame(&m);
      naive_start_frame(&n);
      m.cpu.pc = n.pc = (uint16_t)(0xF000 | l.at);
      both_run(1 + (int)below(&r, 100));
      const char *wrong = differs(&m, &n);
      CHECK(!wrong, "the frame after that, run %d: %s", i, wrong);
    }
  }
}

int main(int argc, char **argv) {
  const int runs = argc > 1 ? atoi(argv[1]) : 6;
  loops(runs);
  ends();
  edges();
  others(4000 * runs);
  return 0;
}
