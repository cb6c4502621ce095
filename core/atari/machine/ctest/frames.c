/*
 * Whole frames: random programs on the machine and on the naive machine. After every frame the test
 * compares all registers, all bytes of RAM and, if the image is drawn, all pixels.
 */
#include "programs.h"

static struct atari m;
static struct naive n;
static struct cart cart;

static void compare(const char *what, uint64_t seed, int frames, struct rng *r) {
  for (int frame = 0; frame < frames; frame++) {
    m.swcha = n.swcha = byte(r);
    m.button[0] = n.button[0] = byte(r) & 1;
    atari_frame(&m, &cart.rom);
    naive_frame(&n);
    const char *wrong = differs(&m, &n);
    if (!wrong) wrong = m.draw ? image_differs(&m, &n) : objects_differ(&m, &n);
    if (wrong) FAIL("%s %llu, frame %d: %s", what, (unsigned long long)seed, frame, wrong);
    if (m.cpu.jammed) return;
  }
}

static void set(struct rng *r) {
  static const int places[5][2] = {{34, 210}, {26, 214}, {34, 230}, {34, 250}, {40, 210}};
  const uint32_t k = below(r, 5);
  power_on(&m, &n, &cart, places[k][0], places[k][1], 25 + (uint8_t)below(r, 75));
  m.pal = (uint8_t)(n.pal = percent(r, 25));
  m.comb_exists = (uint8_t)(n.comb_exists = !percent(r, 15));
  for (int i = 0; i < 4; i++) {
    m.paddle[i] = n.paddle[i] = (uint8_t)below(r, 3);
    m.charge[i] = n.charge[i] = below(r, 15000);
  }
  for (int i = 0; i < 128; i++) m.ram[i] = n.ram[i] = byte(r), m.cart.ram[i] = n.board_ram[i] = byte(r);
}

int main(int argc, char **argv) {
  const int programs = argc > 1 ? atoi(argv[1]) : 100;
  const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  for (uint64_t seed = first; seed < first + (uint64_t)programs; seed++) {
    struct rng r = {seed};
    random_program(&cart, &r);
    set(&r);
    const struct rng again = r;
    compare("program", seed, 4, &r);
    r = again;
    set(&r);
    m.draw = 0;
    compare("program, not drawn,", seed, 4, &r);
  }
  /* Cartridges of random bytes, under every scheme. */
  for (uint64_t seed = first; seed < first + (uint64_t)programs; seed++) {
    struct rng r = {seed};
    for (uint32_t i = 0; i < sizeof cart.image; i++) cart.image[i] = byte(&r);
    load(&cart, (int)(seed % 8));
    set(&r);
    compare("random bytes", seed, 4, &r);
  }
  return 0;
}
