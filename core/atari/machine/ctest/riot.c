/* The RIOT: the timer with each divider, before and after it has run out; the ports; the RAM. */
#include "programs.h"

static struct atari m;
static struct naive n;
static struct cart cart;

enum { SWCHA = 0x280, SWACNT = 0x281, SWCHB = 0x282, SWBCNT = 0x283, INTIM = 0x284, INSTAT = 0x285, TIM1T = 0x294 };

static void fresh(void) {
  memset(&cart, 0, sizeof cart);
  load(&cart, ATARI_4K);
  power_on(&m, &n, &cart, 34, 210, 77);
}

static uint8_t get(int32_t cycle, uint32_t address) {
  m.cycles = cycle;
  return bus_read(&m, &cart.rom, address, 0);
}

static void set(int32_t cycle, uint32_t address, uint8_t value) {
  m.cycles = cycle;
  bus_write(&m, &cart.rom, address, value, 1);
}

/*
 * Until it has run out, the timer counts down in the cycle after the write and then every `every`
 * cycles.
 */
static void counting(void) {
  static const int every[4] = {1, 8, 64, 1024};
  for (uint32_t k = 0; k < 4; k++)
    for (int value = 1; value < 256; value += k == 3 ? 37 : 9) {
      fresh();
      set(1000, TIM1T + k, (uint8_t)value);
      int shown = value - 1, left = every[k];
      for (int32_t cycle = 1001; shown >= 0; cycle++) {
        EQUAL(get(cycle, INTIM), shown, "timer of %d every %d, %d cycles after the write", value, every[k],
              cycle - 1000);
        EQUAL(get(cycle, INSTAT), 0, "INSTAT before the timer has run out");
        if (--left == 0) shown--, left = every[k];
      }
    }
}

/* After the timer has run out it counts down every cycle. INSTAT's bit is set until the timer is read. */
static void running_out(void) {
  fresh();
  set(0, TIM1T + 2, 2); /* the timer is 1 from cycle 1 on, 0 from cycle 65 to 128 */
  EQUAL(get(65, INTIM), 0, "TIM64T of 2");
  EQUAL(get(128, INTIM), 0, "TIM64T of 2");
  EQUAL(get(128, INSTAT), 0, "INSTAT");
  EQUAL(get(129, INSTAT), 0x80, "INSTAT after the end");
  EQUAL(get(129, INTIM), 0xFF, "the first cycle after the end");
  EQUAL(get(130, INSTAT), 0x80, "a read in the first cycle does not clear INSTAT");
  EQUAL(get(130, INTIM) != 0xFF, 1, "the next cycle");
  EQUAL(get(131, INSTAT), 0, "INSTAT after a read of the timer");
  set(200, TIM1T, 10);
  EQUAL(get(201, INTIM), 9, "set again");
  EQUAL(get(300, INSTAT), 0x80, "INSTAT when set again");
}

/* Half an hour after the timer was set, the last cycle that 32 bits hold. The next cycle must not do harm. */
static void long_ago(void) {
  static const uint8_t shifts[4] = {0, 3, 6, 10};
  for (int i = 0; i < 4; i++)
    for (int value = 0; value < 256; value += 51) {
      fresh();
      m.riot.timer = (uint8_t)(n.timer = value);
      m.riot.shift = (uint8_t)(n.timer_shift = shifts[i]);
      m.riot.timer_set = INT32_MIN;
      n.timer_set = INT32_MIN;
      m.cycles = 0;
      n.cycles = 0;
      EQUAL(bus_read(&m, &cart.rom, INSTAT, 0), naive_read(&n, INSTAT), "INSTAT, timer of %d every %d", value,
            1 << shifts[i]);
      EQUAL(bus_read(&m, &cart.rom, INTIM, 0), naive_read(&n, INTIM), "INTIM, timer of %d every %d", value,
            1 << shifts[i]);
      get(1, INTIM), get(1, INSTAT);
      m.riot.timer_was_read = 0;
      get(1, INTIM), get(1, INSTAT);
    }
}

static void ports(void) {
  fresh();
  m.swcha = 0xA5, m.swchb = 0x3B;
  EQUAL(get(10, SWCHA), 0xA5, "SWCHA");
  EQUAL(get(10, SWCHB), 0x3B, "SWCHB");
  set(20, SWCHA, 0x00);
  set(20, SWCHB, 0x00);
  set(20, SWBCNT, 0xFF);
  EQUAL(get(30, SWCHA), 0xA5, "SWCHA, which writes do not change");
  EQUAL(get(30, SWCHB), 0x3B, "SWCHB");
  EQUAL(get(30, SWBCNT), 0, "SWBCNT");
  set(40, SWACNT, 0x5A);
  EQUAL(get(50, SWACNT), 0x5A, "SWACNT");
  for (uint32_t mirror = 0; mirror < 0x1000; mirror += 0x10)
    if ((mirror & 0x290) == 0x280) EQUAL(get(60, mirror), 0xA5, "SWCHA's mirror $%X", mirror);
}

/* RAM is at all addresses with A12 and A9 clear and A7 set, such as $80 and $180. */
static void ram(void) {
  fresh();
  for (uint32_t address = 0; address < 0x2000; address++) {
    if ((address & 0x1280) != 0x80) continue;
    set(5, address, (uint8_t)(address * 7));
    for (uint32_t mirror = 0; mirror < 0x10000; mirror += 0x100)
      if ((mirror & 0x1200) == 0)
        EQUAL(get(5, mirror | (address & 0xFF)), (uint8_t)(address * 7), "RAM at $%X", mirror | (address & 0xFF));
  }
}

/* Compares random accesses with the naive machine's, over several frames. */
static void random_accesses(void) {
  struct rng r = {5};
  for (int run = 0; run < 300; run++) {
    fresh();
    for (int frame = 0; frame < 4; frame++) {
      tia_start_frame(&m);
      naive_start_frame(&n);
      int32_t cycle = 0;
      for (int i = 0; i < 60; i++) {
        cycle += 1 + (int32_t)below(&r, percent(&r, 80) ? 200 : 3000);
        m.cycles = cycle;
        n.cycles = cycle;
        n.bus_wrote = 0;
        const uint32_t address = 0x280 | below(&r, 0x20) | below(&r, 8) << 13 | below(&r, 2) << 10;
        if (percent(&r, 20)) {
          const uint8_t value = percent(&r, 50) ? (uint8_t)below(&r, 20) : byte(&r);
          bus_write(&m, &cart.rom, address, value, 1);
          naive_write(&n, address, value);
        } else {
          const uint8_t want = naive_read(&n, address);
          EQUAL(bus_read(&m, &cart.rom, address, 0), want, "run %d, frame %d, cycle %d, address $%X", run, frame, cycle,
                address);
        }
      }
    }
  }
}

int main(void) {
  counting();
  running_out();
  long_ago();
  ports();
  ram();
  random_accesses();
  return 0;
}
