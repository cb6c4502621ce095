/*
 * atari_accept accepts every state that playing reaches, with random programs and with random bytes
 * under every scheme. It refuses states that violate a single bound. The arguments are files of
 * cartridges to play, too.
 */
#include "programs.h"

static struct atari m;
static struct naive n;
static struct cart cart;

static void accepted(const char *what, uint64_t seed, int frame) {
  CHECK(atari_accept(&m, &cart.rom), "%s %llu, frame %d: a real state is refused", what, (unsigned long long)seed,
        frame);
}

static void play(const char *what, uint64_t seed, struct rng *r, int frames) {
  power_on(&m, NULL, &cart, percent(r, 50) ? 34 : 26, percent(r, 50) ? 210 : 250, 25 + (uint8_t)below(r, 75));
  accepted(what, seed, -1);
  m.pal = (uint8_t)below(r, 2);
  for (int frame = 0; frame < frames; frame++) {
    m.swcha = byte(r);
    m.draw = (uint8_t)below(r, 2);
    m.button[0] = (uint8_t)below(r, 2);
    atari_frame(&m, &cart.rom);
    accepted(what, seed, frame);
    if (percent(r, 5)) {
      atari_reset(&m, &cart.rom, byte(r));
      accepted(what, seed, frame);
    }
  }
}

static void real_states(void) {
  for (uint64_t seed = 1; seed <= 60; seed++) {
    struct rng r = {seed};
    random_program(&cart, &r);
    play("program", seed, &r, 10);
    for (uint32_t i = 0; i < sizeof cart.image; i++) cart.image[i] = byte(&r);
    load(&cart, (int)(seed % 8));
    play("random bytes", seed, &r, 10);
  }
}

static void play_file(const char *path) {
  FILE *f = fopen(path, "rb");
  CHECK(f, "%s cannot be opened", path);
  memset(&cart, 0, sizeof cart);
  const size_t size = fread(cart.image, 1, 16384, f);
  fclose(f);
  if (size == 2048) memcpy(cart.image + 2048, cart.image, 2048);
  load(&cart, size == 16384 ? ATARI_F6 : size == 8192 ? ATARI_F8 : size == 10495 ? ATARI_DPC : ATARI_4K);
  struct rng r = {size};
  play(path, 0, &r, 600);
}

/*
 * A program that does not end its frame until RESET is pressed. It stores what it reads from
 * collisions, paddle, timer and music. It writes HMOVE and VSYNC once, before the loop.
 */
static void endless_program(int scheme) {
  static const uint32_t reads[] = {0x284, 0x285, 0x1004, 0x00, 0x08};
  memset(&cart, 0xEA, sizeof cart);
  struct code code = {cart.image + (scheme == ATARI_DPC ? 4096 : 0), 0x100}, *c = &code;
  LDA(0x9C);
  STA(0x01), STA(0x09); /* the capacitors, and a colour */
  emit(c, 0x8D, 2, 0x297);
  emit(c, 0x8D, 2, 0x105D);
  STA(0x2A);
  LDA(2);
  STA(0x00), STA(0x01);
  const uint32_t loop = c->at;
  for (uint32_t i = 0; i < 5; i++) {
    emit(c, 0xAD, 2, reads[i]);
    emit(c, 0x45, 1, 0x80 + i); /* EOR */
    STA(0x80 + i);
  }
  emit(c, 0xE6, 1, 0x80); /* INC */
  emit(c, 0xAD, 2, 0x282);
  emit(c, 0x4A, 0, 0); /* LSR */
  emit(c, 0x90, 1, 3); /* BCC */
  JMP(loop);
  STA(0x06);
  JMP(0x100);
  vectors(c, 0x100);
  load(&cart, scheme);
}

/*
 * Frames so long that times would overflow without atari_rebase_clock. The naive machine uses 64
 * bits. Its cycle may be ahead by an even number of lines, because PAL depends on the parity of the
 * line.
 */
static void endless(int scheme) {
  endless_program(scheme);
  power_on(&m, &n, &cart, 34, 210, 50);
  m.pal = (uint8_t)(n.pal = 1);
  m.paddle[0] = n.paddle[0] = 2, m.charge[0] = n.charge[0] = 3000;
  for (int frame = 0; frame < 90; frame++) {
    if (frame % 30 == 4) { /* skip nearly to the limit, which saves time */
      const int32_t ahead = (max_cycles - m.cycles) / 152 * 152 - 152 * 1000;
      m.cycles += ahead;
      n.cycles += ahead;
    }
    m.swchb = n.swchb = frame % 30 == 29 ? 0x3E : 0x3F;
    atari_frame(&m, &cart.rom);
    naive_frame(&n);
    accepted("endless", (uint64_t)scheme, frame);
    EQUAL(m.unfinished, frame % 30 != 29, "unfinished, frame %d", frame);
    struct atari later = m;
    EQUAL((n.cycles - m.cycles) % 152, 0, "the cycle of a line, frame %d", frame);
    later.cycles = (int32_t)n.cycles;
    const char *wrong = differs(&later, &n);
    if (!wrong) wrong = image_differs(&later, &n);
    CHECK(!wrong, "%s, frame %d: %s", scheme_name[scheme], frame, wrong);
  }
}

/* Times of any size are accepted, singly and together: a machine that runs for long has very old times. */
static void far_times(void) {
  static const int32_t values[] = {INT32_MIN, INT32_MIN + 1, -(1 << 30), -1, 0, 1 << 30, INT32_MAX - 1, INT32_MAX};
  struct rng r = {12};
  for (int i = 0; i < 600; i++) {
    if (i % 100 == 0)
      random_program(&cart, &r);
    else if (i % 50 == 0)
      endless_program(i % 200 == 50 ? ATARI_DPC : ATARI_4K);
    power_on(&m, NULL, &cart, 34, 210, byte(&r));
    atari_frame(&m, &cart.rom);
    int32_t *const times[] = {&m.riot.timer_set, &m.riot.timer_read, &m.tia.due,         &m.tia.due_before,
                              &m.tia.comb_start, &m.tia.comb_first,  &m.tia.vsync_end,   &m.tia.hmove_at,
                              &m.tia.dump_end,   &m.tia.lines,       &m.cart.music_cycle};
    for (uint32_t k = percent(&r, 50) ? 1 : 11; k > 0; k--)
      *times[k == 1 ? below(&r, 11) : k - 1] = values[below(&r, 8)];
    m.riot.shift = (uint8_t[]){0, 3, 6, 10}[below(&r, 4)];
    m.pal = (uint8_t)below(&r, 2);
    accepted("far times", (uint64_t)i, -1);
    for (int frame = 0; frame < 2; frame++) {
      atari_frame(&m, &cart.rom);
      accepted("far times", (uint64_t)i, frame);
    }
  }
}

#define REFUSED(change)                                                                          \
  do {                                                                                           \
    const struct atari kept = m;                                                                 \
    change;                                                                                      \
    CHECK(!atari_accept(&m, &cart.rom), "%s: accepted with " #change, scheme_name[cart.scheme]); \
    m = kept;                                                                                    \
    accepted("again", 0, 0);                                                                     \
  } while (0)

static void bounds(int scheme) {
  for (uint32_t i = 0; i < sizeof cart.image; i++) cart.image[i] = 0x02; /* jams the CPU: an unfinished frame */
  load(&cart, scheme);
  power_on(&m, NULL, &cart, 34, 210, 50);
  atari_frame(&m, &cart.rom);
  CHECK(m.unfinished, "the frame ended");
  REFUSED(m.cycles = -1);
  REFUSED(m.cycles = max_cycles + 1);
  REFUSED(m.unfinished = 2);
  REFUSED(m.rows = 0);
  REFUSED(m.rows = ATARI_ROWS + 1);
  REFUSED(m.rows = -1);
  REFUSED(m.first_line = -1);
  REFUSED(m.cpu.c = 2);
  REFUSED(m.cpu.jammed = 0xFF);
  REFUSED(m.riot.shift = 1);
  REFUSED(m.riot.shift = 32);
  REFUSED(m.tia.buffer = 2);
  REFUSED(m.tia.fast_until = INT32_MAX);
  for (int i = 0; i < 5; i++) REFUSED(m.tia.position[i] = 160);
  REFUSED(m.tia.flushed = 1);
  REFUSED(m.tia.flushed = 255);
  REFUSED(m.tia.frame_start = 1);
  REFUSED(m.tia.frame_start = -228);
  REFUSED(m.tia.window_start += 228);
  REFUSED(m.tia.window_end += 228);
  REFUSED(m.tia.line_start += 1);
  REFUSED(m.tia.line_start = m.tia.window_end);
  REFUSED(m.tia.line_start -= 228);
  REFUSED(m.tia.drawn = m.tia.window_end + 1);
  REFUSED(m.tia.drawn = m.tia.window_start - 1);
  REFUSED(m.tia.drawn += 229);
  REFUSED(m.tia.ark_count = 4);
  REFUSED(m.tia.ark_m0 = 3);
  for (int i = 0; i < 4; i++) {
    REFUSED(m.cart.slice[i] += 1);
    REFUSED(m.cart.slice[i] += 65536);
  }
  REFUSED(m.cart.slice[0] = scheme_size[scheme]);
  if (scheme != ATARI_E0) REFUSED(m.cart.slice[1] = 0);
  if (scheme == ATARI_4K || scheme == ATARI_FE)
    REFUSED((m.cart.slice[0] = 4096, m.cart.slice[1] = 5120, m.cart.slice[2] = 6144, m.cart.slice[3] = 7168));
  REFUSED(m.cart.fetcher[7].counter = 2048);
  REFUSED(m.cart.music_fraction = 1);
  REFUSED(m.cart.music_fraction = -2);
  volatile double zero = 0;
  REFUSED(m.cart.music_fraction = zero / zero);
}

int main(int argc, char **argv) {
  for (int scheme = 0; scheme < 8; scheme++) bounds(scheme);
  real_states();
  endless(ATARI_4K);
  endless(ATARI_DPC);
  far_times();
  for (int i = 1; i < argc; i++) play_file(argv[i]);
  return 0;
}
