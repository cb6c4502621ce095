/*
 * Compares a machine that draws some frames at once and the others when their images are read with
 * a machine that draws all frames. Most of the programs do not end their frames, so calls end
 * within a line, and half of the image shows an older frame.
 */
#include "programs.h"

#include "../../native.h"

static struct atari lazy, eager;
static struct atari_pending pending, none;
static struct cart cart;

/* Random writes to the TIA in a loop without VSYNC. */
static void endless_writes(struct rng *r) {
  static const uint8_t registers[] = {0x01, 0x02, 0x04, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0D, 0x0E,
                                      0x0F, 0x10, 0x11, 0x14, 0x1B, 0x1C, 0x1D, 0x1F, 0x2A, 0x2C};
  memset(cart.image, 0xEA, sizeof cart.image);
  struct code code = {cart.image, 0}, *c = &code;
  const uint32_t writes = 20 + below(r, 300);
  for (uint32_t i = 0; i < writes; i++) {
    const uint32_t reg = registers[below(r, sizeof registers)];
    emit(c, 0xA9, 1, reg == 0x01 ? 0 : byte(r)); /* VBLANK stays off */
    emit(c, 0x85, 1, reg);
  }
  JMP(0);
  vectors(c, 0);
  load(&cart, ATARI_4K);
}

static void compare(const char *what, uint64_t seed, struct rng *r) {
  power_on(&lazy, NULL, &cart, 34, 210, 50);
  eager = lazy;
  memset(&pending, 0, sizeof pending);
  memset(&none, 0, sizeof none);
  for (int frame = 0; frame < 12; frame++) {
    lazy.swcha = eager.swcha = byte(r);
    paceline_atari_frame_lazy(&lazy, cart.rom, &pending, percent(r, 50));
    paceline_atari_frame_lazy(&eager, cart.rom, &none, 1);
    CHECK(lazy.cycles == eager.cycles && lazy.tia.collisions == eager.tia.collisions &&
              memcmp(lazy.ram, eager.ram, sizeof lazy.ram) == 0,
          "%s %llu, frame %d: the machines differ", what, (unsigned long long)seed, frame);
    if (frame < 11 && percent(r, 60)) continue;
    struct atari seen = lazy;
    struct atari_pending rest = pending;
    paceline_atari_draw_pending(&seen, cart.rom, &rest);
    CHECK(memcmp(seen.image, eager.image, sizeof seen.image) == 0, "%s %llu, frame %d: the images differ", what,
          (unsigned long long)seed, frame);
  }
}

/* The processor's best vector units. In the library, core/cpu selects them. */
static enum paceline_atari_units best_units(void) {
#if defined(__x86_64__)
  const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  if (avx2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq"))
    return PACELINE_ATARI_AVX512;
  if (avx2) return PACELINE_ATARI_AVX2;
#endif
  return PACELINE_ATARI_GENERIC;
}

int main(int argc, char **argv) {
  paceline_atari_use(best_units());
  const uint64_t programs = argc > 1 ? strtoull(argv[1], NULL, 10) : 1500;
  for (uint64_t seed = 1; seed <= programs; seed++) {
    struct rng r = {seed};
    endless_writes(&r);
    compare("endless", seed, &r);
    if (seed % 3 != 0) continue;
    random_program(&cart, &r);
    compare("program", seed, &r);
    for (uint32_t i = 0; i < sizeof cart.image; i++) cart.image[i] = byte(&r);
    load(&cart, (int)(seed / 3 % 8));
    compare("random bytes", seed, &r);
  }
  return 0;
}
