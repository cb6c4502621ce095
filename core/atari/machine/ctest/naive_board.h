/* RIOT and cartridges of the naive machine; see naive.h. */
#ifndef NAIVE_BOARD_H
#define NAIVE_BOARD_H

#include "naive.h"

/* -------------------------------------------------------------------- RIOT */

static int64_t naive_timer_left(const struct naive *m) {
  return m->timer - ((m->cycles - 1 - m->timer_set) >> m->timer_shift) - 1;
}

static uint8_t naive_riot_read(struct naive *m, uint32_t reg) {
  const int64_t left = naive_timer_left(m), whole = (int64_t)m->timer << m->timer_shift;
  switch (reg) {
    case 0: return m->swcha;
    case 1: return m->ddra;
    case 2: return m->swchb;
    case 3: return 0;
    case 5:
    case 7: return left < 0 && !m->timer_was_read ? 0x80 : 0;
  }
  if (left >= 0) return (uint8_t)left;
  const int64_t beyond = whole - (m->cycles - 1 - m->timer_set) - 1;
  if (beyond <= -2 && !m->timer_was_read) {
    m->timer_was_read = 1;
    m->timer_read = m->cycles;
  }
  if (!m->timer_was_read) return (uint8_t)beyond;
  return (uint8_t)(m->timer - ((m->cycles - 1 - m->timer_set) >> m->timer_shift) -
                   (m->timer_read - (m->timer_set + whole)));
}

static void naive_riot_write(struct naive *m, uint32_t address, uint8_t value) {
  static const int shifts[4] = {0, 3, 6, 10};
  if ((address & 7) == 1) m->ddra = value;
  if ((address & 0x14) != 0x14) return;
  m->timer = value;
  m->timer_shift = shifts[address & 3];
  m->timer_set = m->cycles;
  m->timer_was_read = 0;
}

/* -------------------------------------------------------------- cartridges */

static void naive_board_reset(struct naive *m) {
  m->bank = m->scheme == N_F8 || m->scheme == N_F8SC || m->scheme == N_DPC;
  for (int i = 0; i < 4; i++) m->slice[i] = 4 + i;
  memset(m->fetcher, 0, sizeof m->fetcher);
  m->lfsr = 1;
  m->music_at = 0;
  m->music_rest = 0;
}

static void naive_music(struct naive *m) {
  const double clocks = 15750.0 * (double)(m->cycles - m->music_at) / 1193191.66666667 + m->music_rest;
  const int whole = (int)clocks;
  m->music_at = m->cycles;
  m->music_rest = clocks - whole;
  if (whole <= 0) return;
  for (int i = 5; i < 8; i++) {
    struct naive_fetcher *f = &m->fetcher[i];
    if (!f->music) continue;
    int low = f->counter & 255;
    if (f->top == 0) {
      low = 0;
    } else { /* count down one clock at a time, from 0 to top; whole rounds are skipped */
      for (int k = whole % (f->top + 1); k > 0; k--) low = low == 0 ? f->top : low - 1;
    }
    f->counter = (f->counter & 0x700) | low;
    if (low <= f->bottom)
      f->flag = 0;
    else if (low <= f->top)
      f->flag = 0xFF;
  }
}

static uint8_t naive_dpc_read(struct naive *m, uint32_t a) {
  static const uint8_t level[8] = {0, 4, 5, 9, 6, 10, 11, 15};
  const int i = (int)(a & 7), function = (int)(a >> 3 & 7);
  struct naive_fetcher *f = &m->fetcher[i];
  if ((f->counter & 255) == f->top)
    f->flag = 0xFF;
  else if ((f->counter & 255) == f->bottom)
    f->flag = 0;
  const uint8_t display = m->rom[8192 + 2047 - f->counter];
  uint8_t value = 0;
  if (function == 0 && i < 4) {
    value = m->lfsr;
  } else if (function == 0) {
    naive_music(m);
    int voices = 0;
    for (int k = 0; k < 3; k++)
      if (m->fetcher[5 + k].music && m->fetcher[5 + k].flag) voices += 1 << k;
    value = level[voices];
  } else if (function == 1) {
    value = display;
  } else if (function == 2) {
    value = display & (uint8_t)f->flag;
  } else if (function == 7) {
    value = (uint8_t)f->flag;
  }
  if (!(i >= 5 && f->music)) f->counter = (f->counter + 2047) % 2048;
  return value;
}

static void naive_dpc_write(struct naive *m, uint32_t a, uint8_t value) {
  const int i = (int)(a & 7);
  struct naive_fetcher *f = &m->fetcher[i];
  switch (a >> 3 & 7) {
    case 0:
      f->top = value;
      f->flag = 0;
      break;
    case 1: f->bottom = value; break;
    case 2: f->counter = (f->counter & 0x700) + (i >= 5 && f->music ? f->top : value); break;
    case 3:
      f->counter = (value & 7) * 256 + (f->counter & 255);
      if (i >= 5) f->music = value >> 4 & 1;
      break;
    case 6: m->lfsr = 1; break;
  }
}

/* The effect of a read or a write on banks and the shift register. */
static void naive_touch(struct naive *m, uint32_t a) {
  switch (m->scheme) {
    case N_DPC:
      if (a < 0x80 || a >= 0xFC0) {
        const int r = m->lfsr, bit = !((r >> 7 ^ r >> 5 ^ r >> 4 ^ r >> 3) & 1);
        m->lfsr = (uint8_t)(r * 2 + bit);
      } /* fall through */
    case N_F8:
    case N_F8SC:
      if (a == 0xFF8) m->bank = 0;
      if (a == 0xFF9) m->bank = 1;
      break;
    case N_F6:
    case N_F6SC:
      for (int i = 0; i < 4; i++)
        if (a == 0xFF6u + (uint32_t)i) m->bank = i;
      break;
    case N_E0:
      for (int i = 0; i < 3; i++)
        if (a >= 0xFE0u + 8u * (uint32_t)i && a <= 0xFE7u + 8u * (uint32_t)i) m->slice[i] = (int)(a & 7);
      break;
    default: break;
  }
}

static uint8_t naive_board_read(struct naive *m, uint32_t address) {
  const uint32_t a = address & 0xFFF;
  naive_touch(m, a);
  switch (m->scheme) {
    case N_4K: return m->rom[a];
    case N_E0: return m->rom[(a >> 10 == 3 ? 7 : m->slice[a >> 10]) * 1024 + (int)(a & 1023)];
    case N_FE: return m->rom[a + (address & 0x2000 ? 0 : 4096)];
    case N_F8SC:
    case N_F6SC:
      if (a >= 0x80 && a <= 0xFF) return m->board_ram[a - 0x80];
      break;
    case N_DPC:
      if (a < 0x40) return naive_dpc_read(m, a);
      break;
    default: break;
  }
  return m->rom[m->bank * 4096 + (int)a];
}

static void naive_board_write(struct naive *m, uint32_t address, uint8_t value) {
  const uint32_t a = address & 0xFFF;
  naive_touch(m, a);
  if ((m->scheme == N_F8SC || m->scheme == N_F6SC) && a < 0x80) m->board_ram[a] = value;
  if (m->scheme == N_DPC && a >= 0x40 && a < 0x80) naive_dpc_write(m, a, value);
}

#endif
