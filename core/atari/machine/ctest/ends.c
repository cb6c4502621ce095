/*
 * Frames that end within a line, or do not end. Their images keep pixels of older frames, and the
 * next frames may show them. In these tests an image starts with one colour, BEFORE, and a frame
 * draws over it.
 */
#include "registers.h"

enum { BEFORE = 0x5E, BACK = 0x1A, FIELD = 0x44, FIRST = 0x66, SECOND = 0x88, ROW = 2 };

static void paint(void) {
  memset(m.image, BEFORE, sizeof m.image);
  memset(n.image, BEFORE, sizeof n.image);
}

/* Starts a frame over an image of BEFORE, with VSYNC on. Switching VSYNC off ends the frame. */
static void start(void) {
  fresh(34, 210);
  paint();
  begin();
  set(0x06, FIRST), set(0x07, SECOND), set(0x08, FIELD), set(0x09, BACK);
  set(0x00, 2);
}

/* Ends the frame at this clock of the row, which is divisible by three, and compares it with the naive machine's. */
static const uint8_t *ended(int clock) {
  at(line(ROW) + clock / 3);
  set(0x00, 0);
  CHECK(m.frame_over && n.frame_over, "the frame goes on");
  end();
  const char *wrong = image_differs(&m, &n);
  CHECK(!wrong, "ended at clock %d: %s", clock, wrong);
  return m.image[m.tia.buffer] + ROW * 160;
}

/* Checks that `count` pixels from x on have a colour. Returns the pixel after them. */
static int run_of(const uint8_t *row, int x, int count, uint8_t colour, const char *what, int clock) {
  for (int i = 0; i < count && x < 160; i++, x++)
    EQUAL(row[x], colour, "pixel %d, %s, ended at clock %d", x, what, clock);
  return x;
}

/* --------------------------------------------------------------------- comb */

/* HMOVE on a line that is drawn one pixel at a time, because many objects are on, or four at a time. */
static void start_comb(int many) {
  start();
  if (many) set(0x1D, 2), set(0x12, 0), set(0x1B, 1), set(0x0F, 1);
  at(line(ROW) + 3);
  set(0x2A, 0);
}

/* The black pixels are drawn with the first part of the line: more of them the earlier the part ends. */
static void comb(void) {
  for (int clock = 12; clock < 228; clock += 3) {
    start_comb(1);
    const uint8_t *row = ended(clock);
    const int black = clock < 68 ? 76 - clock : 8, drawn = clock <= 68 ? 0 : clock - 68;
    int x = run_of(row, 0, black, 0, "HMOVE's black", clock);
    for (; x < drawn; x++) CHECK(row[x] != BEFORE, "pixel %d is not drawn, ended at clock %d", x, clock);
    run_of(row, x, 160 - x, BEFORE, "of before", clock);
  }
  /* If the line is drawn in parts, the first part counts, and the next parts draw over the black pixels. */
  for (int first = 12; first < 228; first += 3)
    for (int second = first + 3; second < 228; second += 3) {
      start_comb(1);
      at(line(ROW) + first / 3);
      get(0x0D);
      const uint8_t *row = ended(second);
      const int black = first < 68 ? 76 - first : 8, drawn = second <= 68 ? 0 : second - 68;
      run_of(row, 0, 8, 0, "HMOVE's black", second);
      run_of(row, drawn > 8 ? drawn : 8, black - (drawn > 8 ? drawn : 8), 0, "the rest of it", second);
      const int left = black > drawn ? black : drawn;
      run_of(row, left, 160 - left, BEFORE, "of before", second);
    }
  /* Four pixels at a time also draw over the black pixels. The ball is on, at pixel 2. */
  for (int first = 12; first < 60; first += 9)
    for (int second = 72; second < 100; second += 3) {
      start_comb(0);
      set(0x14, 0), set(0x1F, 2);
      at(line(ROW) + first / 3);
      get(0x0D);
      const uint8_t *row = ended(second);
      const int black = 76 - first, drawn = second - 68, four = (drawn + 3) / 4 * 4;
      run_of(row, 0, 8, 0, "HMOVE's black", second);
      run_of(row, 8, four - 8, BACK, "drawn", second);
      run_of(row, four > 8 ? four : 8, black - (four > 8 ? four : 8), 0, "the rest of the black", second);
    }
  /* HMOVE in the last cycle of a line blackens the next line. HMOVE above the image blackens the first line. */
  for (int row_of = -1; row_of <= ROW; row_of += ROW + 1) {
    start();
    at(line(row_of) - (row_of < 0 ? 30 : 1));
    if (row_of < 0) at(line(row_of) + 3);
    set(0x2A, 0);
    ended(150);
    const uint8_t *first = m.image[m.tia.buffer] + (row_of < 0 ? 0 : row_of) * 160;
    EQUAL(first[7], 0, "black");
    CHECK(first[8] != 0 && first[160] != 0 && (row_of <= 0 || first[-160] != 0), "more than eight pixels are black");
  }
  /* A cartridge without a comb. */
  start();
  m.comb_exists = 0;
  n.comb_exists = 0;
  at(line(ROW) + 3);
  set(0x2A, 0);
  EQUAL(ended(150)[0], BACK, "the first pixel without a comb");
}

/* ------------------------------------------------------------ four by four */

/*
 * All sets of objects, with and without score, and all starts and ends of the last part. Only the
 * playfield lights pixels near the end.
 */
static void fours(void) {
  static const uint8_t whole[] = {1, 2, 4, 6, 8, 16, 24, 32, 40, 48, 36}, unless_score[] = {3, 5, 33};
  for (int on = 0; on < 64; on++) /* bits: PF, P0, P1, M0, M1, BL */
    for (int ctrlpf = 0; ctrlpf < 8; ctrlpf++)
      for (int clock = 150; clock < 162; clock += 3)
        for (int back = 3; back < 12; back += 3) {
          start();
          set(0x0A, (uint8_t)ctrlpf);
          set(0x0F, on & 1 ? 0xFF : 0);
          set(0x1B, on & 2 ? 1 : 0), set(0x1C, on & 4 ? 1 : 0);
          set(0x1D, on & 8 ? 2 : 0), set(0x1E, on & 16 ? 2 : 0), set(0x1F, on & 32 ? 2 : 0);
          at(line(ROW) + (clock - back) / 3);
          get(0x0D); /* extends `due` to here */
          const uint8_t *row = ended(clock);
          int steps = 0;
          for (size_t i = 0; i < sizeof whole; i++) steps |= on == whole[i];
          for (size_t i = 0; i < sizeof unless_score; i++) steps |= on == unless_score[i] && !(ctrlpf & 2);
          const int drawn = clock - 68, four = drawn / 4 * 4;
          const int shown = steps && drawn - back <= four ? (drawn + 3) / 4 * 4 : drawn;
          CHECK(row[shown - 1] != BEFORE, "pixel %d is not drawn, of objects $%X, CTRLPF %d, clocks %d to %d",
                shown - 1, on, ctrlpf, clock - back, clock);
          run_of(row, shown, 160 - shown, BEFORE, "beyond the beam", clock);
        }
}

/* With an object among the four pixels, or with VBLANK, no pixel after the beam is drawn. */
static void fours_lit(void) {
  for (int x = 76; x < 96; x++)
    for (int clock = 150; clock < 162; clock += 3) {
      start();
      at(line(ROW) - 10);
      m.tia.position[4] = (uint8_t)(n.position[4] = x);
      m.tia.dirty = 0x7F;
      set(0x1F, 2);
      const uint8_t *row = ended(clock);
      const int drawn = clock - 68, four = drawn / 4 * 4, near = x >= four && x < four + 4;
      const int shown = near ? drawn : (drawn + 3) / 4 * 4;
      CHECK(row[shown - 1] != BEFORE, "pixel %d is not drawn, ball at %d", shown - 1, x);
      run_of(row, shown, 160 - shown, BEFORE, "beyond the beam", clock);
    }
  start();
  set(0x0F, 0xFF), set(0x01, 2);
  const uint8_t *row = ended(153);
  run_of(row, 0, 85, 0, "VBLANK", 153);
  run_of(row, 85, 75, BEFORE, "beyond the beam", 153);
}

/* Dark pixels of a player that is on count as pixels of an object. Those of a player that is off do not. */
static void fours_dark(void) {
  for (int graphics = 0; graphics < 3; graphics++)
    for (int size = 0; size < 8; size++)
      for (int x = 60; x < 100; x++) {
        const uint8_t bits = (uint8_t[]){0, 0x81, 0x08}[graphics];
        start();
        at(line(ROW) - 10);
        m.tia.position[1] = (uint8_t)(n.position[1] = x);
        m.tia.dirty = 0x7F;
        set(0x1F, 2), set(0x14, 0), set(0x05, (uint8_t)size), set(0x1C, bits);
        const uint8_t *row = ended(153); /* at pixel 85 */
        const int from = size == 5 || size == 7 ? x + 1 : x, wide = size == 5 ? 16 : size == 7 ? 32 : 8;
        const int near = bits && from < 88 && from + wide > 84;
        if (size == 0 || size == 5 || size == 7) run_of(row, near ? 85 : 88, 4, BEFORE, "beyond the beam", 153);
      }
}

/*
 * VSYNC is switched off right after another write: in the same cycle, as by JSR's pushes, or by the
 * next instruction. The last parts are short then, and each shows the registers before a write.
 */
static void short_pieces(void) {
  static const uint32_t regs[] = {0x01, 0x04, 0x05, 0x06, 0x09, 0x0A, 0x0B, 0x0D, 0x0F,
                                  0x10, 0x11, 0x12, 0x14, 0x1B, 0x1C, 0x1F, 0x27, 0x2A};
  struct rng r = {6};
  for (size_t i = 0; i < sizeof regs / sizeof *regs; i++)
    for (int cycle = 0; cycle < 70; cycle++)
      for (int apart = 0; apart < 4; apart++) {
        start();
        set(0x0F, percent(&r, 50) ? byte(&r) : 0), set(0x1F, (uint8_t)(2 * below(&r, 2)));
        set(0x1B, percent(&r, 40) ? byte(&r) : 0), set(0x1C, percent(&r, 20) ? byte(&r) : 0);
        if (percent(&r, 30)) at(line(ROW)), set(0x10, 0), set(0x11, 0), set(0x2A, 0);
        at(line(ROW) + cycle);
        if (apart == 0) { /* the previous access was a write */
          get(0x0D);
          n.bus_wrote = 1;
        }
        set(regs[i], regs[i] == 1 ? 2 : byte(&r));
        ended(3 * (cycle + (apart < 2 ? 0 : apart + 1)));
      }
}

/* A player that is reset while it is drawn is drawn for 11 more clocks, also after the end of the frame. */
static void short_players(void) {
  for (int size = 0; size < 8; size++)
    for (int cycle = 40; cycle < 65; cycle++)
      for (int apart = 3; apart < 6; apart++) {
        start();
        at(line(ROW) - 10);
        m.tia.position[0] = (uint8_t)(n.position[0] = 70);
        m.tia.dirty = 0x7F;
        set(0x04, (uint8_t)size), set(0x1B, 0xFF);
        at(line(ROW) + cycle);
        set(0x10, 0);
        ended(3 * (cycle + apart));
      }
}

/* ------------------------------------------------------- unfinished frames */

/* Runs a program on both machines, over an image of BEFORE. */
static void plays(const uint8_t *program, size_t size, int frames) {
  memset(&cart, 0xEA, sizeof cart);
  memcpy(cart.image, program, size);
  cart.image[0xFFD] = 0xF0, cart.image[0xFFC] = 0;
  load(&cart, ATARI_4K);
  power_on(&m, &n, &cart, 34, 210, 50);
  paint();
  for (int i = 0; i < frames; i++) {
    atari_frame(&m, &cart.rom);
    naive_frame(&n);
    const char *wrong = differs(&m, &n);
    if (!wrong) wrong = image_differs(&m, &n);
    CHECK(!wrong, "frame %d: %s", i, wrong);
    EQUAL(m.unfinished, n.unfinished, "unfinished");
    EQUAL(m.tia.lines, n.lines, "lines");
  }
}

/* The CPU jams on a line of the image. The rows above that line are drawn; the other rows fade once. */
static void stopped(void) {
  for (int lines = 1; lines < 255; lines += 23) {
    const uint8_t program[] = {0xA9, BACK, 0x85, 0x09, 0xA2, (uint8_t)lines, 0x85,
                               0x02, 0xCA, 0xD0, 0xFB, 0xA5, 0x0D,           0x02};
    plays(program, sizeof program, 3);
    CHECK(m.unfinished && m.cpu.jammed, "the CPU goes on");
    EQUAL(m.tia.lines, lines, "lines");
    EQUAL(m.cycles, 76 * lines + 2 + 2 + 3 + 2, "cycles: DEX, BNE, LDA, and 2 for the stop");
    const uint8_t *image = m.image[m.tia.buffer];
    for (int row = 0; row < 210; row++) {
      const int drawn = row < lines - 34;
      EQUAL(image[160 * row + 100], drawn ? BACK : (BEFORE & 15) >> 1, "row %d of %d lines", row, lines);
      EQUAL(m.image[!m.tia.buffer][160 * row], BEFORE, "the other image");
    }
  }
}

/* A call ends after 25,000 instructions. The next call continues the frame over the faded image. */
static void given_up(void) {
  /* COLUBK; nested loops of two instructions; then a read, VSYNC on for two lines, and a jump to the start */
  static const uint8_t program[] = {0xA9, BACK, 0x85, 0x09, 0xA0, 60,   0xA2, 0,    0xCA, 0xD0, 0xFD,
                                    0x88, 0xD0, 0xF8, 0xA5, 0x0D, 0xA9, 2,    0x85, 0x00, 0x85, 0x02,
                                    0x85, 0x02, 0xA9, 0,    0x85, 0x00, 0x4C, 0x00, 0xF0};
  plays(program, sizeof program, 1);
  CHECK(m.unfinished, "the frame ended");
  EQUAL(m.image[m.tia.buffer][0], BEFORE, "nothing is drawn before the first access to the TIA");
  plays(program, sizeof program, 2);
  CHECK(!m.unfinished, "the frame did not end");
  EQUAL(m.image[m.tia.buffer][160 * 209 + 159], BACK, "the whole image is drawn at the end of the frame");
  plays(program, sizeof program, 12);
  /* At the end of the call half of the image is drawn. */
  static const uint8_t half[] = {0xA9, BACK, 0x85, 0x09, 0xA2, 120,  0x85, 0x02, 0xCA, 0xD0, 0xFB, 0xA5, 0x0D,
                                 0xA0, 60,   0xA2, 0,    0xCA, 0xD0, 0xFD, 0x88, 0xD0, 0xF8, 0x4C, 0x00, 0xF0};
  plays(half, sizeof half, 7);
}

int main(void) {
  comb();
  fours();
  fours_lit();
  fours_dark();
  short_pieces();
  short_players();
  stopped();
  given_up();
  return 0;
}
