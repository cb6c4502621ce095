/*
 * Rows of pixels as bits, and from bits to colours. The tests check every pixel, for the vector
 * unit that the build selects.
 */
#include "../composite.h"

#include "t.h"

static int lit(const struct atari_mask *m, int x) { return (int)(m->w[x / 64] >> x % 64 & 1); }

/* Checks that pixels `from` to to-1 are set and the 96 bits after the last pixel are clear. */
static void is_range(tia_bits bits, int from, int to, const char *what) {
  struct atari_mask m;
  memset(&m, 0xA5, sizeof m);
  bits_store(&m, bits);
  for (int x = 0; x < 256; x++) EQUAL(lit(&m, x), x >= from && x < to, "bit %d of %s %d to %d", x, what, from, to);
}

static void ranges(void) {
  is_range(bits_none(), 0, 0, "none");
  for (int to = 0; to <= 160; to++) {
    is_range(bits_below(to), 0, to, "bits_below");
    for (int from = 0; from <= 160; from++) is_range(bits_range(from, to), from, to, "bits_range");
  }
}

static struct atari_mask any(struct rng *r) {
  struct atari_mask m = {{0, 0, 0, 0}};
  for (int x = 0; x < 160; x++) m.w[x / 64] |= (uint64_t)percent(r, 30) << x % 64;
  return m;
}

static void operations(void) {
  struct rng r = {3};
  for (int i = 0; i < 2000; i++) {
    struct atari_mask a = any(&r), b = any(&r), is[5];
    if (i % 4 == 0) { /* at most one pixel each */
      const int x = (int)below(&r, 160), y = percent(&r, 50) ? x : (int)below(&r, 161);
      memset(&a, 0, sizeof a), memset(&b, 0, sizeof b);
      a.w[x / 64] = UINT64_C(1) << x % 64;
      b.w[y / 64] = y < 160 ? UINT64_C(1) << y % 64 : 0;
    }
    const tia_bits one = bits_load(&a), other = bits_load(&b);
    bits_store(&is[0], bits_and(one, other));
    bits_store(&is[1], bits_or(one, other));
    bits_store(&is[2], bits_without(one, other));
    bits_store(&is[3], one);
    bits_store(&is[4], bits_of_words(&a));
    int some = 0, both = 0;
    for (int x = 0; x < 256; x++) {
      const int p = lit(&a, x), q = lit(&b, x), want[5] = {p && q, p || q, p && !q, p, p};
      some |= q, both |= p && q;
      for (int k = 0; k < 5; k++) EQUAL(lit(&is[k], x), want[k], "operation %d, pixel %d", k, x);
    }
    EQUAL(bits_any(other) != 0, some, "any");
    EQUAL(bits_meet(one, other) != 0, both, "meet");
  }
}

static void putting(void) {
  struct rng r = {4};
  for (int x = 0; x < 160; x++)
    for (int i = 0; i < 40; i++) {
      const uint32_t bits = i == 0 ? ~0u : i == 1 ? 1 : (uint32_t)byte(&r) << below(&r, 25);
      struct atari_mask before = i % 2 ? any(&r) : (struct atari_mask){{0, 0, 0, 0}}, m = before;
      mask_put(&m, bits, (uint32_t)x);
      for (int at = 0; at < 256; at++) {
        const int bit = (at - x + 160) % 160;
        EQUAL(lit(&m, at), lit(&before, at) || (at < 160 && bit < 32 && bits >> bit & 1), "pixel %d of $%X put at %d",
              at, bits, x);
      }
    }
}

/* The uppermost lit layer sets the colour. */
static void colours(void) {
  struct rng r = {5};
  for (int i = 0; i < 3000; i++) {
    struct atari_mask layer[3] = {any(&r), any(&r), any(&r)};
    const uint8_t first = (uint8_t)below(&r, 3), second = (uint8_t)((first + 1 + below(&r, 2)) % 3),
                  third = 3 - first - second;
    const struct atari_colours c = {byte(&r), {{first, byte(&r)}, {second, byte(&r)}, {third, byte(&r)}}};
    uint8_t line[160 + 64];
    memset(line, 0x5A, sizeof line);
    const int whole = percent(&r, 30), from = whole ? 0 : (int)below(&r, 161),
              to = whole ? 160 : from + (int)below(&r, (uint32_t)(161 - from));
    composite(line, layer, c, from, to);
    for (int x = 0; x < 160 + 64; x++) {
      const int within = x >= from && x < to;
      uint8_t want = within ? c.back : 0x5A;
      for (int k = 0; k < 3 && within; k++)
        if (lit(&layer[c.over[k].layer], x)) want = c.over[k].colour;
      EQUAL(line[x], want, "pixel %d", x);
    }
  }
}

static void copies(void) {
  uint8_t from[160], to[160];
  for (int x = 0; x < 160; x++) from[x] = (uint8_t)(x + 1);
  for (int end = 0; end <= 160; end++)
    for (int begin = 0; begin <= end; begin++) {
      memset(to, 0, sizeof to);
      copy_pixels(to, from, begin, end);
      for (int x = 0; x < 160; x++)
        EQUAL(to[x], x >= begin && x < end ? x + 1 : 0, "pixel %d of %d to %d", x, begin, end);
    }
}

int main(void) {
  ranges();
  operations();
  putting();
  colours();
  copies();
  return 0;
}
