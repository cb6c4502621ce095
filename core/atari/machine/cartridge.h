/*
 * Cartridges: the byte of the ROM, or of RAM on the board, that an address selects.
 *
 * The CPU sees 4 KB: four slices of a kilobyte each. An access to a hot spot, a read or a write,
 * moves slices. A read of a hot spot returns the byte after the move.
 */
#ifndef ATARI_CARTRIDGE_H
#define ATARI_CARTRIDGE_H

#include "state.h"

ATARI_FN void cart_select_bank(struct atari *m, uint32_t bank) {
  for (uint32_t i = 0; i < 4; i++) m->cart.slice[i] = bank * 4096 + i * 1024;
}

/* The range of addresses where an access moves no bank and reaches no RAM: first, and end. */
ATARI_FN uint32_t cart_plain_from(uint32_t scheme) {
  return scheme == ATARI_F8SC || scheme == ATARI_F6SC ? 0x100 : scheme == ATARI_DPC ? 0x80 : 0;
}

ATARI_FN uint32_t cart_plain_below(uint32_t scheme) {
  switch (scheme) {
    case ATARI_F8:
    case ATARI_F8SC: return 0xFF8;
    case ATARI_F6:
    case ATARI_F6SC: return 0xFF6;
    case ATARI_E0: return 0xFE0;
    case ATARI_DPC: return 0xFC0;
    default: return 0x1000;
  }
}

/* Bit 13 of the CPU's address selects FE's bank. */
ATARI_FN uint32_t cart_fe_bank(uint32_t address) { return address & 0x2000 ? 0 : 4096; }

/* Moves slices if the address is a hot spot. */
ATARI_FN void cart_touch(struct atari *m, const struct atari_rom *rom, uint32_t address) {
  const uint32_t a = address & 0xFFF;
  switch (rom->scheme) {
    case ATARI_F8:
    case ATARI_F8SC:
    case ATARI_DPC:
      if (a == 0xFF8 || a == 0xFF9) cart_select_bank(m, a - 0xFF8);
      break;
    case ATARI_F6:
    case ATARI_F6SC:
      if (a >= 0xFF6 && a <= 0xFF9) cart_select_bank(m, a - 0xFF6);
      break;
    case ATARI_E0: /* each of three slices selects one of eight kilobytes */
      if (a >= 0xFE0 && a <= 0xFF7) m->cart.slice[(a - 0xFE0) >> 3] = (a & 7) * 1024;
      break;
    default: break;
  }
}

ATARI_FN uint8_t cart_rom(const struct atari *m, const struct atari_rom *rom, uint32_t address) {
  return rom->image[m->cart.slice[address >> 10 & 3] + (address & 0x3FF)];
}

/* --------------------------------------------------------------------- DPC */

/* The 8-bit shift register of David Crane's chip. Accesses to the chip step it. */
ATARI_FN void dpc_step_random(struct atari_cartridge *c, uint32_t address) {
  const uint32_t a = address & 0xFFF;
  if (a >= 0x80 && a < 0xFC0) return;
  const uint8_t r = c->random, bit = (uint8_t)(1 ^ (r >> 7 ^ r >> 5 ^ r >> 4 ^ r >> 3));
  c->random = (uint8_t)(r << 1 | (bit & 1));
}

/* Fetchers in music mode count with a clock of 15,750 Hz. */
ATARI_FN void dpc_play(struct atari *m) {
  struct atari_cartridge *c = &m->cart;
  const double clocks =
      15750.0 * (int32_t)((uint32_t)m->cycles - (uint32_t)c->music_cycle) / 1193191.66666667 + c->music_fraction;
  const int32_t whole = (int32_t)clocks;
  c->music_cycle = m->cycles;
  c->music_fraction = clocks - whole;
  for (int i = 5; i < 8 && whole > 0; i++) {
    struct atari_fetcher *f = &c->fetcher[i];
    if (!f->music) continue;
    const int32_t top = f->top + 1, now = f->counter & 0xFF;
    int32_t low = 0;
    if (f->top != 0) {
      low = now - whole % top;
      if (low < 0) low += top;
    }
    if (low <= f->bottom)
      f->flag = 0;
    else if (low <= f->top)
      f->flag = 0xFF;
    f->counter = (uint16_t)((f->counter & 0x700) | low);
  }
}

ATARI_FN uint8_t dpc_read(struct atari *m, const struct atari_rom *rom, uint32_t address) {
  ATARI_TABLE uint8_t level[8] = {0, 4, 5, 9, 6, 10, 11, 15};
  struct atari_cartridge *c = &m->cart;
  const uint32_t i = address & 7, function = address >> 3 & 7;
  struct atari_fetcher *f = &c->fetcher[i];
  uint8_t value = 0;
  if ((f->counter & 0xFF) == f->top)
    f->flag = 0xFF;
  else if ((f->counter & 0xFF) == f->bottom)
    f->flag = 0;
  const uint8_t display = rom->image[8192 + (2047 - f->counter)];
  switch (function) {
    case 0:
      if (i < 4) {
        value = c->random;
      } else {
        dpc_play(m);
        uint32_t voices = 0;
        for (uint32_t v = 0; v < 3; v++)
          if (c->fetcher[5 + v].music && c->fetcher[5 + v].flag) voices |= 1u << v;
        value = level[voices];
      }
      break;
    case 1: value = display; break;
    case 2: value = display & f->flag; break;
    case 7: value = f->flag; break;
    default: break;
  }
  if (i < 5 || !f->music) f->counter = (f->counter - 1) & 0x7FF;
  return value;
}

ATARI_FN void dpc_write(struct atari_cartridge *c, uint32_t address, uint8_t value) {
  const uint32_t i = address & 7;
  struct atari_fetcher *f = &c->fetcher[i];
  switch (address >> 3 & 7) {
    case 0:
      f->top = value;
      f->flag = 0;
      break;
    case 1: f->bottom = value; break;
    case 2: f->counter = (uint16_t)((f->counter & 0x700) | (i >= 5 && f->music ? f->top : value)); break;
    case 3:
      f->counter = (uint16_t)((value & 7) << 8 | (f->counter & 0xFF));
      if (i >= 5) f->music = value >> 4 & 1;
      break;
    case 6: c->random = 1; break;
    default: break;
  }
}

/* ------------------------------------------------------------------ access */

ATARI_FN uint8_t cart_read(struct atari *m, const struct atari_rom *rom, uint32_t address) {
  const uint32_t a = address & 0xFFF;
  switch (rom->scheme) {
    case ATARI_FE: return rom->image[cart_fe_bank(address) + a];
    case ATARI_F8SC:
    case ATARI_F6SC:
      if (a >= 0x80 && a < 0x100) return m->cart.ram[a & 0x7F];
      break;
    case ATARI_DPC:
      dpc_step_random(&m->cart, a);
      if (a < 0x40) return dpc_read(m, rom, a);
      break;
    default: break;
  }
  cart_touch(m, rom, a);
  return cart_rom(m, rom, a);
}

ATARI_FN void cart_write(struct atari *m, const struct atari_rom *rom, uint32_t address, uint8_t value) {
  const uint32_t a = address & 0xFFF;
  if (rom->scheme == ATARI_F8SC || rom->scheme == ATARI_F6SC) {
    if (a < 0x80) m->cart.ram[a] = value;
  } else if (rom->scheme == ATARI_DPC) {
    dpc_step_random(&m->cart, a);
    if (a >= 0x40 && a < 0x80) dpc_write(&m->cart, a, value);
  }
  cart_touch(m, rom, a);
}

/* Sets the banks and the DPC's registers to their values after a reset. */
ATARI_FN void cart_reset(struct atari *m, const struct atari_rom *rom) {
  struct atari_cartridge *c = &m->cart;
  const struct atari_fetcher none = {0, 0, 0, 0, 0};
  cart_select_bank(m, rom->scheme == ATARI_F8 || rom->scheme == ATARI_F8SC || rom->scheme == ATARI_DPC);
  if (rom->scheme == ATARI_E0)
    for (uint32_t i = 0; i < 4; i++) c->slice[i] = (4 + i) * 1024;
  for (int i = 0; i < 8; i++) c->fetcher[i] = none;
  c->random = 1;
  c->music_cycle = 0;
  c->music_fraction = 0;
}

#endif
