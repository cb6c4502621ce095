/*
 * Arbitrary bytes as a cartridge of any scheme. Frames access only the machine's memory, return,
 * and end in states that atari_accept accepts. For clang's libFuzzer.
 */
#include "pair.h"

static struct atari m;
static struct cart cart;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 16) return -1;
  const uint8_t *const head = data;
  data += 8, size -= 8;
  for (uint32_t i = 0; i < sizeof cart.image; i++) /* short inputs are repeated */
    cart.image[i] = data[i % size];
  load(&cart, head[0] & 7);
  power_on(&m, NULL, &cart, head[1] & 63, 1 + head[2] % ATARI_ROWS, head[3]);
  m.pal = head[4] & 1;
  m.comb_exists = head[4] >> 1 & 1;
  for (int i = 0; i < 4; i++) {
    m.paddle[i] = head[5] >> 2 * i & 3;
    m.charge[i] = (uint32_t)head[6] << 4 * i;
  }
  for (int i = 0; i < 128; i++) m.ram[i] = data[i % size];
  struct rng r = {head[7]};
  for (int frame = 0; frame < 4; frame++) {
    m.swcha = byte(&r);
    m.swchb = byte(&r);
    m.button[0] = (uint8_t)below(&r, 2);
    m.draw = head[4] >> (2 + frame) & 1;
    atari_frame(&m, &cart.rom);
    if (!atari_accept(&m, &cart.rom)) abort();
    if (head[4] == 0xA5 && frame == 1) atari_reset(&m, &cart.rom, byte(&r));
  }
  return 0;
}
