/* The TIA without a CPU: writes and reads registers at given cycles, on the machine and on the naive machine. */
#ifndef REGISTERS_H
#define REGISTERS_H

#include "pair.h"

static struct atari m;
static struct naive n;
static struct cart cart;

static void fresh(int first_line, int rows) {
  memset(&cart, 0, sizeof cart);
  load(&cart, ATARI_4K);
  power_on(&m, &n, &cart, first_line, rows, 50);
}

static void begin(void) {
  tia_start_frame(&m);
  naive_start_frame(&n);
  m.frame_over = (uint8_t)(n.frame_over = 0);
}

static void end(void) {
  tia_end_frame(&m);
  n.lines = (naive_clock(&n) - n.frame_start) / NAIVE_LINE;
}

static void at(int64_t cycle) { m.cycles = (int32_t)(n.cycles = cycle); }

static void set(uint32_t reg, uint8_t value) {
  bus_write(&m, &cart.rom, reg, value, !n.bus_wrote);
  naive_write(&n, reg, value);
  n.bus_wrote = 0;
}

static uint8_t get(uint32_t reg) {
  n.bus = 0;
  const uint8_t is = bus_read(&m, &cart.rom, reg, 0), want = naive_read(&n, reg);
  EQUAL(is, want, "register $%02X at cycle %d", reg, m.cycles);
  return is;
}

/* The first cycle of a line of the image. */
static int64_t line(int row) { return 76 * (m.first_line + row); }

#endif
