/*
 * The naive machine: a second Atari 2600, with which the tests compare the machine. It implements
 * every chip in the most direct way, pixel by pixel and without tables. It is slow, has the same
 * specification as the machine's headers, and shares no code with them. If the two differ, one of
 * them is wrong.
 *
 * naive.h is the whole machine; naive_cpu.h, naive_tia.h and naive_board.h are its chips.
 */
#ifndef NAIVE_H
#define NAIVE_H

#include <stdint.h>
#include <string.h>

enum { NAIVE_NEVER = INT32_MAX, NAIVE_LINE = 228, NAIVE_HBLANK = 68, NAIVE_WIDTH = 160, NAIVE_ROWS = 250 };

enum naive_scheme { N_4K, N_F8, N_F6, N_E0, N_F8SC, N_F6SC, N_FE, N_DPC };

struct naive_fetcher {
  int counter, top, bottom, flag, music;
};

struct naive {
  /* the cartridge, and the lines and colours of its image */
  const uint8_t *rom;
  enum naive_scheme scheme;
  int first_line, rows, pal, comb_exists;

  /* controls */
  uint8_t swcha, swchb, button[2], paddle[4];
  uint32_t charge[4];

  /* CPU */
  uint16_t pc;
  uint8_t a, x, y, sp, opcode; /* opcode: the last one */
  int n, v, d, i, z, c, jammed;
  int64_t cycles;
  uint8_t bus;   /* the last byte on the bus */
  int bus_wrote; /* whether the last access was a write */
  int frame_over, unfinished;

  /* RIOT */
  uint8_t ram[128], ddra;
  int64_t timer_set, timer_read;
  int timer, timer_shift, timer_was_read;

  /* TIA */
  int64_t frame_start, top /* start of the image's first row */, drawn, vsync_end, hmove_at, dump_end, lines;
  uint8_t vblank, ctrlpf, nusiz[2], refp[2], pf[3], enam[2], vdelp[2], vdelbl, resmp[2], hm[5], colour[4];
  uint8_t grp[2], old_grp[2], enabl, old_enabl;
  int position[5]; /* P0, P1, M0, M1, BL */
  int skip[2], reflect, comb, ark, ark_count, ark_m0;
  uint8_t cx[8]; /* CXM0P to CXPPMM */
  int buffer;
  uint8_t image[2][NAIVE_ROWS][NAIVE_WIDTH];

  /* board */
  int bank, slice[4];
  uint8_t board_ram[128];
  struct naive_fetcher fetcher[8];
  uint8_t lfsr;
  int64_t music_at;
  double music_rest;
};

static uint8_t naive_read(struct naive *m, uint32_t address);
static void naive_write(struct naive *m, uint32_t address, uint8_t value);

#include "naive_board.h"
#include "naive_cpu.h"
#include "naive_tia.h"

/* -------------------------------------------------------------------- bus */

static uint8_t naive_read(struct naive *m, uint32_t address) {
  address &= 0xFFFF;
  uint8_t value;
  if (address & 0x1000)
    value = naive_board_read(m, address);
  else if (!(address & 0x80))
    value = naive_tia_read(m, address & 15);
  else if (!(address & 0x200))
    value = m->ram[address & 0x7F];
  else
    value = naive_riot_read(m, address & 7);
  m->bus = value;
  m->bus_wrote = 0;
  return value;
}

static void naive_write(struct naive *m, uint32_t address, uint8_t value) {
  address &= 0xFFFF;
  if (address & 0x1000)
    naive_board_write(m, address, value);
  else if (!(address & 0x80))
    naive_tia_write(m, address & 0x3F, value);
  else if (!(address & 0x200))
    m->ram[address & 0x7F] = value;
  else
    naive_riot_write(m, address, value);
  m->bus = value;
  m->bus_wrote = 1;
}

/* ------------------------------------------------------------------ frames */

/* Switches the machine off and on: resets chips and images, but not RAM. */
static void naive_reset(struct naive *m, uint8_t timer) {
  struct naive fresh;
  memset(&fresh, 0, sizeof fresh);
  fresh.rom = m->rom, fresh.scheme = m->scheme;
  fresh.first_line = m->first_line, fresh.rows = m->rows, fresh.pal = m->pal, fresh.comb_exists = m->comb_exists;
  fresh.swcha = m->swcha, fresh.swchb = m->swchb;
  memcpy(fresh.button, m->button, sizeof fresh.button);
  memcpy(fresh.paddle, m->paddle, sizeof fresh.paddle);
  memcpy(fresh.charge, m->charge, sizeof fresh.charge);
  memcpy(fresh.ram, m->ram, sizeof fresh.ram);
  memcpy(fresh.board_ram, m->board_ram, sizeof fresh.board_ram);
  fresh.unfinished = m->unfinished;
  *m = fresh;
  m->timer = timer;
  m->timer_shift = 6;
  m->vsync_end = NAIVE_NEVER;
  naive_board_reset(m);
  m->sp = 0xFF;
  m->pc = naive_read(m, 0xFFFC);
  m->pc = (uint16_t)(m->pc | naive_read(m, 0xFFFD) << 8);
}

static void naive_frame(struct naive *m) {
  if (!m->unfinished) naive_start_frame(m);
  m->frame_over = 0;
  for (int i = 0; i < 25000 && !m->frame_over && !m->jammed; i++) naive_instruction(m);
  const int64_t line = m->lines = (naive_clock(m) - m->frame_start) / NAIVE_LINE;
  if (!m->frame_over && !m->unfinished) /* the rest of the image fades */
    for (int row = 0; row < m->rows; row++)
      for (int x = 0; x < NAIVE_WIDTH; x++)
        if (row >= line - m->first_line) m->image[m->buffer][row][x] = (m->image[m->buffer][row][x] & 15) >> 1;
  m->unfinished = !m->frame_over;
}

#endif
