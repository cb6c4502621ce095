/*
 * The bus, with 13 address lines. A12 set selects the cartridge. Otherwise A7 clear selects the
 * TIA. Otherwise A9 set selects the RIOT's ports and timer, A9 clear its RAM.
 */
#ifndef ATARI_BUS_H
#define ATARI_BUS_H

#include "cartridge.h"
#include "riot.h"
#include "tia.h"

/* latch is the last byte on the bus. */
ATARI_FN uint8_t bus_read(struct atari *m, const struct atari_rom *rom, uint32_t address, uint8_t latch) {
  if (address & 0x1000) return cart_read(m, rom, address);
  if (!(address & 0x80)) return tia_read(m, address, latch);
  if (address & 0x200) return riot_read(m, address);
  return m->ram[address & 0x7F];
}

ATARI_FN void bus_write(struct atari *m, const struct atari_rom *rom, uint32_t address, uint8_t value,
                        int wsync_waits) {
  if (address & 0x1000)
    cart_write(m, rom, address, value);
  else if (!(address & 0x80))
    m->cycles += (int32_t)(tia_write(m, address & 0x3F, value, wsync_waits) & TIA_WAITS);
  else if (address & 0x200)
    riot_write(m, address, value);
  else
    m->ram[address & 0x7F] = value;
}

#endif
