/*
 * The TIA: random writes at random clocks, compared with the naive TIA, which computes each pixel
 * separately; and known tables, positions and images.
 */
#include "registers.h"

/* ------------------------------------------------------------------ random */

/* A random write; sometimes two or three at one clock to adjacent registers, as by the pushes of JSR and BRK. */
static void random_write(struct rng *r) {
  const uint32_t kind = below(r, 100);
  uint32_t reg = 4 + below(r, 0x29);
  uint8_t value = percent(r, 25) ? (uint8_t)(2 * below(r, 2)) : byte(r);
  if (kind < 2)
    reg = 0x01, value &= 0xC2;
  else if (kind < 8)
    reg = 0x02;
  else if (kind < 20)
    reg = 0x10 + below(r, 5);
  else if (kind < 27)
    reg = 0x2A;
  else if (kind < 28)
    reg = below(r, 64);
  if (reg == 0x00 && !percent(r, 3)) /* end few frames */
    value |= 2;
  set(reg, value);
  for (uint32_t i = percent(r, 4) ? 1 + below(r, 2) : 0; i > 0 && reg > 0 && !m.frame_over; i--) {
    n.bus_wrote = 1;
    set(--reg, byte(r));
  }
}

static void random_frames(uint64_t seed) {
  static const int places[4][2] = {{34, 210}, {26, 214}, {34, 250}, {0, 40}};
  struct rng r = {seed};
  const uint32_t k = below(&r, 4), pace = 2 + below(&r, 60);
  fresh(places[k][0], places[k][1]);
  m.pal = (uint8_t)(n.pal = percent(&r, 20));
  m.comb_exists = (uint8_t)(n.comb_exists = !percent(&r, 10));
  for (int frame = 0; frame < 3; frame++) {
    begin();
    int64_t lines = 40 + below(&r, 280);
    while (!m.frame_over && n.cycles < 76 * lines) {
      at(n.cycles + 3 + below(&r, pace) + (percent(&r, 1) ? below(&r, 800) : 0));
      random_write(&r);
      EQUAL(m.cycles, n.cycles, "the cycle, seed %llu, frame %d", (unsigned long long)seed, frame);
      EQUAL(m.frame_over, n.frame_over, "end of frame, seed %llu, frame %d, cycle %lld", (unsigned long long)seed,
            frame, (long long)n.cycles);
      const uint32_t reg = below(&r, 16);
      if (percent(&r, 8)) {
        at(n.cycles + 3);
        n.bus = 0x15;
        const uint8_t is = bus_read(&m, &cart.rom, reg, 0x15), want = naive_read(&n, reg);
        EQUAL(is, want, "register $%02X, seed %llu, frame %d, cycle %lld", reg, (unsigned long long)seed, frame,
              (long long)n.cycles);
      }
    }
    for (int i = 0; !m.frame_over; i++) { /* end the frame by VSYNC, with other writes shortly before */
      at(n.cycles + 3 + (i == 1 ? 76 : 0) + below(&r, 4));
      if (i > 1 && percent(&r, 50))
        random_write(&r);
      else
        set(0x00, i == 0 ? 2 : 0);
    }
    end();
    const char *wrong = image_differs(&m, &n);
    if (wrong) FAIL("seed %llu, frame %d: %s", (unsigned long long)seed, frame, wrong);
  }
}

/* ------------------------------------------------------------------- HMOVE */

/* Every cycle and every nibble. */
static void hmove(void) {
  for (int cycle = 0; cycle < 76; cycle++)
    for (uint32_t nibble = 0; nibble < 16; nibble++)
      for (int start = 0; start < 160; start += 159) {
        fresh(34, 210);
        begin();
        for (uint32_t i = 0; i < 5; i++) {
          m.tia.position[i] = (uint8_t)start;
          set(0x20 + i, (uint8_t)(nibble << 4 | 5));
        }
        at(line(10) + cycle);
        set(0x2A, 0);
        for (int i = 0; i < 5; i++)
          EQUAL(m.tia.position[i], naive_around(start - naive_motion((int)nibble, cycle)),
                "HMOVE of object %d at cycle %d with $%X0 from %d", i, cycle, nibble, start);
      }
  /* Right after WSYNC, as in games: from 7 to the left to 8 to the right. */
  for (int left = -8; left < 8; left++) EQUAL(naive_motion(left, 3), left, "HMOVE at cycle 3");
  static const struct {
    int cycle, nibble, left;
  } known[] = {
      {0, 7, 7},  {4, 7, 6},   {5, 7, 5},  {6, 7, 5},   {20, 7, -6}, {20, -8, -8}, {12, 0, 0},   {13, 0, -1},
      {21, 7, 0}, {54, -8, 0}, {55, 7, 1}, {74, 7, 15}, {74, 0, 8},  {75, 7, 7},   {75, -8, -8},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    EQUAL(naive_motion(known[i].nibble, known[i].cycle), known[i].left, "HMOVE at cycle %d with %d", known[i].cycle,
          known[i].nibble);
  fresh(34, 210);
  begin();
  at(line(3));
  set(0x20, 0x70), set(0x24, 0x70);
  set(0x2B, 0);
  at(line(3) + 3);
  set(0x2A, 0);
  EQUAL(m.tia.position[0] + m.tia.position[4], 0, "after HMCLR nothing moves");
}

/* --------------------------------------------------------------- positions */

static void resets(void) {
  for (int cycle = 0; cycle < 76; cycle++) {
    const int x = 3 * cycle - 68;
    fresh(34, 210);
    begin();
    at(line(5) + cycle);
    for (uint32_t reg = 0x10; reg <= 0x14; reg++) set(reg, 0);
    for (int i = 0; i < 5; i++) {
      int want = x < 0 ? 2 : (x + 4) % 160;
      if (i < 2) want = x < 0 ? 3 : (x + 5) % 160;
      EQUAL(m.tia.position[i], want, "object %d reset at cycle %d", i, cycle);
    }
  }
  /* An unlocked missile starts at its player's middle, which depends on the player's size. */
  for (int size = 0; size < 8; size++) {
    fresh(34, 210);
    begin();
    m.tia.position[1] = (uint8_t)(n.position[1] = 155);
    set(0x05, (uint8_t)size);
    set(0x29, 2);
    set(0x29, 0);
    EQUAL(m.tia.position[3], (155 + (size == 5 ? 8 : size == 7 ? 16 : 4)) % 160, "RESMP1 with NUSIZ %d", size);
  }
}

/* ---------------------------------------------------------------- images */

/* Draws line 20 with the current registers and compares its lit pixels. */
static void shows(const char *want, const char *what) {
  at(line(21) + 10);
  get(0);
  at(line(22));
  set(0x00, 2);
  end();
  const uint8_t *row = m.image[m.tia.buffer] + 20 * 160;
  for (int x = 0; x < 160; x++) EQUAL(row[x] != 0, want[x] == '#', "pixel %d: %s", x, what);
}

/* A row with '#' at these pixels; -1 ends them. */
static const char *lit(const int *pixels) {
  static char row[161];
  memset(row, '.', 160);
  for (; *pixels >= 0; pixels++) row[*pixels] = '#';
  return row;
}

static void copies(void) {
  /* The pixels of GRP0 = 10000001 at 150 for each NUSIZ, wrapped around at the edge. */
  static const int want[8][7] = {
      {150, 157, -1},         {150, 157, 6, 13, -1}, {150, 157, 22, 29, -1},         {150, 157, 6, 13, 22, 29, -1},
      {150, 157, 54, 61, -1}, {151, 152, 5, 6, -1},  {150, 157, 22, 29, 54, 61, -1}, {-1},
  };
  for (int size = 0; size < 7; size++) {
    fresh(34, 210);
    begin();
    m.tia.position[0] = (uint8_t)(n.position[0] = 150);
    set(0x06, 0x1E), set(0x04, (uint8_t)size), set(0x1B, 0x81);
    shows(lit(want[size]), "copies of GRP0");
  }
  const int quad[] = {151, 152, 153, 154, 19, 20, 21, 22, -1}, mirrored[] = {40, 42, -1},
            missile[] = {100, 101, 102, 103, 116, 117, 118, 119, -1};
  fresh(34, 210);
  begin();
  m.tia.position[1] = (uint8_t)(n.position[1] = 150);
  set(0x07, 0x1E), set(0x05, 7), set(0x1C, 0x81);
  shows(lit(quad), "GRP1, quadruple");
  fresh(34, 210);
  begin();
  m.tia.position[0] = (uint8_t)(n.position[0] = 40);
  set(0x06, 0x1E), set(0x1B, 0x05), set(0x0B, 8);
  shows(lit(mirrored), "GRP0, mirrored");
  fresh(34, 210);
  begin();
  m.tia.position[3] = (uint8_t)(n.position[3] = 100);
  set(0x07, 0x1E), set(0x05, 0x21), set(0x1E, 2);
  shows(lit(missile), "missile 1, two copies of four pixels");
}

static void playfield(void) {
  /* PF0 = 0001, PF1 = 1010 0000, PF2 = 0000 0011 are pixels 0-3, 16-19, 24-27, 48-55. */
  static const int left[] = {0, 1, 2, 3, 16, 17, 18, 19, 24, 25, 26, 27, 48, 49, 50, 51, 52, 53, 54, 55, -1};
  for (int mirror = 0; mirror < 2; mirror++) {
    char row[161];
    memcpy(row, lit(left), 161);
    for (int x = 0; x < 80; x++) row[mirror ? 159 - x : 80 + x] = row[x];
    fresh(34, 210);
    begin();
    set(0x08, 0x1E), set(0x0A, (uint8_t)mirror), set(0x0D, 0x10), set(0x0E, 0xA0), set(0x0F, 0x03);
    shows(row, mirror ? "the playfield, mirrored" : "the playfield, repeated");
  }
}

/* The order of the objects for each CTRLPF: all light one pixel, then one after the other is switched off. */
static void priorities(void) {
  static const uint32_t off[4] = {0x1B, 0x1C, 0x0D, 0}; /* GRP0, GRP1, PF0 */
  static const int orders[4][4] = {{0, 1, 2, 3}, {2, 2, 2, 3}, {0, 0, 0, 3}, {2, 2, 2, 3}};
  static const uint8_t ctrlpf[4] = {0, 4, 2, 6};
  for (int k = 0; k < 4; k++)
    for (int gone = 0; gone < 4; gone++) {
      fresh(34, 210);
      begin();
      m.tia.position[0] = m.tia.position[1] = 0;
      n.position[0] = n.position[1] = 0;
      for (uint32_t i = 0; i < 4; i++) set(0x06 + i, (uint8_t)(0x10 + 0x20 * i));
      set(0x0A, ctrlpf[k]);
      set(0x1B, 0x80), set(0x1C, 0x80), set(0x0D, 0x10);
      for (int i = 0; i < gone; i++) set(off[i], 0);
      at(line(22));
      get(0);
      end();
      int want = orders[k][gone];
      if (k == 3 && gone == 2) /* score and priority with only the playfield on: score */
        want = 0;
      EQUAL(m.image[m.tia.buffer][20 * 160], 0x10 + 0x20 * want, "CTRLPF %d, %d gone", ctrlpf[k], gone);
      CHECK(!image_differs(&m, &n), "CTRLPF %d, %d gone: %s", ctrlpf[k], gone, image_differs(&m, &n));
    }
}

/* A pair of objects at one pixel sets only its own latch. */
static void collisions(void) {
  static const struct {
    int one, other, reg, bit;
  } pairs[15] = {
      {N_M0, N_P1, 0, 0x80}, {N_M0, N_P0, 0, 0x40}, {N_M1, N_P0, 1, 0x80}, {N_M1, N_P1, 1, 0x40}, {N_P0, 5, 2, 0x80},
      {N_P0, N_BL, 2, 0x40}, {N_P1, 5, 3, 0x80},    {N_P1, N_BL, 3, 0x40}, {N_M0, 5, 4, 0x80},    {N_M0, N_BL, 4, 0x40},
      {N_M1, 5, 5, 0x80},    {N_M1, N_BL, 5, 0x40}, {N_BL, 5, 6, 0x80},    {N_P0, N_P1, 7, 0x80}, {N_M0, N_M1, 7, 0x40},
  };
  static const struct {
    uint32_t reg;
    uint8_t value;
  } lights[6] = {{0x1B, 0x80}, {0x1C, 0x80}, {0x1D, 2},
                 {0x1E, 2},    {0x1F, 2},    {0x0F, 0x80}}; /* PF2's last bit: 76 to 79 */
  for (int x = 75; x <= 80; x++)
    for (int i = 0; i < 15; i++) {
      fresh(34, 210);
      begin();
      for (int k = 0; k < 5; k++) m.tia.position[k] = (uint8_t)(n.position[k] = x);
      at(line(20));
      set(lights[pairs[i].one].reg, lights[pairs[i].one].value);
      set(lights[pairs[i].other].reg, lights[pairs[i].other].value);
      at(line(21));
      const int meet = pairs[i].other != 5 || (x >= 76 && x <= 79);
      for (int reg = 0; reg < 8; reg++)
        EQUAL(get((uint32_t)reg), meet && reg == pairs[i].reg ? pairs[i].bit : 0, "pair %d at %d, register %d", i, x,
              reg);
      set(0x2C, 0);
      for (int reg = 0; reg < 8; reg++) EQUAL(get((uint32_t)reg), 0, "after CXCLR");
    }
  /* VBLANK and lines above the image set no latch. */
  fresh(34, 210);
  begin();
  set(0x1B, 0xFF), set(0x1C, 0xFF);
  at(line(0) - 1);
  EQUAL(get(7), 0, "CXPPMM above the image");
  set(0x01, 2);
  at(line(30));
  EQUAL(get(7), 0, "CXPPMM in VBLANK");
  set(0x01, 0);
  at(line(31));
  EQUAL(get(7), 0x80, "CXPPMM after it");
}

/*
 * The stars of Journey Escape: missile 0 moves on every line until HMOVE. Some writes give it its
 * normal form for the rest of a line.
 */
static void stars(void) {
  static const uint32_t regs[] = {0x04, 0x12, 0x28, 0x28, 0x2A, 0x22, 0x1D, 0x29};
  struct rng r = {11};
  for (int run = 0; run < 400; run++) {
    fresh(34, 100);
    begin();
    const int row = percent(&r, 50) ? -1 : (int)below(&r, 4), hmove_at = (int)below(&r, 50);
    set(0x1D, 2), set(0x06, 0x1E), set(0x22, 0x70), set(0x04, byte(&r) & 0x37),
        set(0x28, (uint8_t)(2 * percent(&r, 10)));
    at(line(row) + hmove_at);
    set(0x2A, 0);
    at(line(row) + hmove_at + 21); /* 63 clocks */
    set(0x22, (uint8_t)(percent(&r, 90) ? 0x60 : byte(&r)));
    EQUAL(m.tia.ark != 0, n.ark != 0, "whether it moves, run %d", run);
    for (int i = 0; i < 6; i++) {
      at(n.cycles + 3 + below(&r, percent(&r, 50) ? 40 : 700));
      const uint32_t reg = regs[below(&r, percent(&r, 80) ? 4 : 8)];
      set(reg, reg == 0x28 ? m.tia.resmp[0] ^ (uint8_t)(2 * percent(&r, 30)) : byte(&r) & 0x37);
    }
    at(line(100));
    get(0x0D);
    end();
    const char *wrong = image_differs(&m, &n);
    CHECK(!wrong, "run %d: %s", run, wrong);
  }
}

/* ------------------------------------------------------------------ timing */

static void wsync(void) {
  for (int cycle = 0; cycle < 76; cycle++) {
    fresh(34, 210);
    begin();
    at(line(3) + cycle);
    set(0x02, 0);
    EQUAL(m.cycles, line(3) + (cycle ? 76 : 0), "WSYNC at cycle %d", cycle);
    at(line(3) + cycle);
    n.bus_wrote = 1;
    set(0x02, 0);
    EQUAL(m.cycles, line(3) + cycle, "WSYNC at cycle %d, after a write", cycle);
  }
}

static void frames(void) {
  fresh(34, 210);
  begin();
  at(100);
  set(0x00, 2);
  at(175);
  set(0x00, 0);
  EQUAL(m.frame_over, 0, "VSYNC for 75 cycles");
  at(176);
  set(0x00, 0);
  EQUAL(m.frame_over, 1, "VSYNC for 76 cycles");
  end();
  EQUAL(m.tia.lines, 2, "lines of the frame");
  begin();
  EQUAL(m.cycles, 0, "the new frame's first cycle");
  EQUAL(m.tia.frame_start, -(3 * 176 % 228), "line 0 is the line that VSYNC fell in");

  /* Without VSYNC a frame has 291 lines, for PAL 343. */
  for (int pal = 0; pal < 2; pal++) {
    fresh(34, 210);
    m.pal = (uint8_t)(n.pal = pal);
    begin();
    const int last = pal ? 342 : 290;
    at(76 * (last + 1) - 1);
    set(0x09, 0);
    EQUAL(m.frame_over, 0, "at the end of line %d", last);
    at(76 * (last + 1));
    get(0x00);
    EQUAL(m.frame_over, 0, "a read on line %d", last + 1);
    set(0x3F, 0);
    EQUAL(m.frame_over, 1, "a write on line %d", last + 1);
  }
}

static void paddles(void) {
  fresh(34, 210);
  begin();
  for (int i = 0; i < 4; i++)
    m.paddle[i] = n.paddle[i] = (uint8_t)(i < 3 ? i : 2), m.charge[i] = n.charge[i] = i < 3 ? 500 : 0;
  at(100);
  set(0x01, 0x80);
  at(5000);
  for (uint32_t i = 0; i < 4; i++) EQUAL(get(8 + i), i == 1 ? 0x80 : 0, "INPT%u while the capacitors are shorted", i);
  set(0x01, 0x00);
  at(5500);
  EQUAL(get(10), 0, "INPT2 500 cycles after");
  EQUAL(get(11), 0x80, "INPT3, with a paddle that charges at once");
  at(5501);
  EQUAL(get(10), 0x80, "INPT2 501 cycles after");
  EQUAL(get(8), 0, "INPT0");
  m.button[0] = n.button[0] = 0;
  EQUAL(get(12), 0, "INPT4, pressed");
  EQUAL(get(13), 0x80, "INPT5, not pressed");
  EQUAL(bus_read(&m, &cart.rom, 0x0D, 0xFF), 0xBF, "INPT5 with the bus's last byte");
  EQUAL(bus_read(&m, &cart.rom, 0x0F, 0xFF), 0x3F, "where there is no register");
}

int main(int argc, char **argv) {
  const uint64_t programs = argc > 1 ? strtoull(argv[1], NULL, 10) : 400;
  hmove();
  resets();
  copies();
  playfield();
  priorities();
  collisions();
  stars();
  wsync();
  frames();
  paddles();
  for (uint64_t seed = 1; seed <= programs; seed++) random_frames(seed);
  return 0;
}
