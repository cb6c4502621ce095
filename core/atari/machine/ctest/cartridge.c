/* Cartridges: the banks and hot spots of each scheme, RAM on the board, the DPC. */
#include "programs.h"

static struct atari m;
static struct naive n;
static struct cart cart;

/* Each byte of the ROM is the number of its kilobyte. The DPC's bytes are random. */
static void fresh(int scheme) {
  struct rng r = {9};
  for (uint32_t i = 0; i < sizeof cart.image; i++) cart.image[i] = scheme == ATARI_DPC ? byte(&r) : (uint8_t)(i >> 10);
  load(&cart, scheme);
  power_on(&m, &n, &cart, 34, 210, 50);
}

static uint8_t get(uint32_t address) { return bus_read(&m, &cart.rom, address, 0); }
static void set(uint32_t address, uint8_t value) { bus_write(&m, &cart.rom, address, value, 1); }

/* The kilobytes that the CPU sees at $1000, $1400, $1800 and $1C00. */
static void sees(int a, int b, int c, int d, const char *when) {
  const int want[4] = {a, b, c, d};
  for (uint32_t i = 0; i < 4; i++)
    EQUAL(get(0x1200 + 0x400 * i), want[i], "%s: kilobyte %u, %s", scheme_name[cart.scheme], i, when);
}

static void banks(void) {
  fresh(ATARI_4K);
  sees(0, 1, 2, 3, "at the start");
  for (uint32_t a = 0x1000; a < 0x2000; a++) get(a), set(a, 1);
  sees(0, 1, 2, 3, "after accesses to all addresses");

  const int eights[2] = {ATARI_F8, ATARI_F8SC};
  for (int i = 0; i < 2; i++) {
    fresh(eights[i]);
    sees(4, 5, 6, 7, "at the start");
    EQUAL(get(0x1FF8), 3, "the byte of a hot spot is the new bank's");
    sees(0, 1, 2, 3, "after reading $1FF8");
    set(0xFFF9, 0);
    sees(4, 5, 6, 7, "after writing $FFF9");
    get(0x1FF7), get(0x1FFA), set(0x1FF7, 0), get(0x0FF8), get(0x1EF8);
    sees(4, 5, 6, 7, "after accesses outside the hot spots");
  }
  const int sixteens[2] = {ATARI_F6, ATARI_F6SC};
  for (int i = 0; i < 2; i++) {
    fresh(sixteens[i]);
    sees(0, 1, 2, 3, "at the start");
    for (int bank = 0; bank < 4; bank++) {
      get(0x1FF6u + (uint32_t)bank);
      sees(4 * bank, 4 * bank + 1, 4 * bank + 2, 4 * bank + 3, "after a hot spot");
    }
    get(0x1FF5), get(0x1FFA);
    sees(12, 13, 14, 15, "after accesses outside the hot spots");
  }
  fresh(ATARI_E0);
  sees(4, 5, 6, 7, "at the start");
  for (uint32_t slice = 0; slice < 3; slice++)
    for (uint32_t k = 0; k < 8; k++) {
      fresh(ATARI_E0);
      const uint32_t a = 0x1FE0 + 8 * slice + k;
      if (k % 2)
        get(a);
      else
        set(a, 0);
      sees(slice == 0 ? (int)k : 4, slice == 1 ? (int)k : 5, slice == 2 ? (int)k : 6, 7, "after a hot spot");
    }
  get(0x1FDF), get(0x1FF8);
  sees(4, 5, 7, 7, "after accesses outside the hot spots");

  fresh(ATARI_FE);
  for (uint32_t i = 0; i < 4; i++) {
    EQUAL(get(0xF200 + 0x400 * i), i, "FE: address bit 13 set");
    EQUAL(get(0xD200 + 0x400 * i), 4 + i, "FE: address bit 13 clear");
  }
}

static void superchip(void) {
  const int schemes[2] = {ATARI_F8SC, ATARI_F6SC};
  for (int i = 0; i < 2; i++) {
    fresh(schemes[i]);
    for (uint32_t k = 0; k < 128; k++) set(0x1000 + k, (uint8_t)(k ^ 0x5A));
    for (uint32_t k = 0; k < 128; k++) EQUAL(get(0xF080 + k), k ^ 0x5A, "%s: RAM", scheme_name[schemes[i]]);
    get(0x1FF8);
    EQUAL(get(0x1080), 0x5A, "in every bank");
    set(0x1080, 1);
    EQUAL(get(0x1080), 0x5A, "a write to a read address");
    EQUAL(get(0x1000), schemes[i] == ATARI_F6SC ? 8 : 0, "a read from a write address");
    EQUAL(get(0x1100), schemes[i] == ATARI_F6SC ? 8 : 0, "the first address after the RAM");
  }
}

static void dpc(void) {
  fresh(ATARI_DPC);
  /* Fetcher 2 points to $123 and counts down; function 1 is the byte of the display data. */
  set(0x1052, 0x23);
  set(0x105A, 0x01);
  EQUAL(get(0x100A), cart.image[8192 + 2047 - 0x123], "display data");
  EQUAL(get(0x100A), cart.image[8192 + 2047 - 0x122], "display data, the next");
  /* The flag is set when the counter's low byte is top, and cleared at bottom. */
  set(0x1042, 0x30);
  set(0x104A, 0x10);
  set(0x1052, 0x31);
  EQUAL(get(0x103A), 0x00, "the flag above top");
  EQUAL(get(0x103A), 0xFF, "at top");
  for (int i = 0x2F; i > 0x10; i--) EQUAL(get(0x103A), 0xFF, "below top");
  EQUAL(get(0x103A), 0x00, "at bottom");
  /* Accesses step the shift register; its reset is an access, too. */
  set(0x1070, 0);
  EQUAL(m.cart.random, 1, "the shift register after its reset");
  get(0x1FC0);
  EQUAL(m.cart.random, 3, "a 1 is shifted in, because bits 7, 5, 4 and 3 are clear");
  get(0x1800);
  EQUAL(m.cart.random, 3, "other accesses do not step");
  /* Counters wrap around at 0. */
  set(0x1051, 0);
  set(0x1059, 0);
  get(0x1009);
  EQUAL(get(0x1009), cart.image[8192 + 2047 - 2047], "after 0 comes 2047");
  /* In music mode, counters count with time. */
  set(0x1045, 100);
  set(0x105D, 0x10);
  set(0x1055, 0);
  EQUAL(m.cart.fetcher[5].counter & 255, 100, "a music fetcher is set to its top");
  m.cycles = 0;
  get(0x1004);
  m.cycles = 7576; /* a hundred clocks of 15,750 Hz */
  get(0x1004);
  EQUAL(m.cart.fetcher[5].counter & 255, 0, "a hundred clocks later");
  m.cycles = 7652;
  get(0x1004);
  EQUAL(m.cart.fetcher[5].counter & 255, 100, "and around");
}

/* Compares random accesses to all schemes with the naive machine's: over the bus, and by instructions. */
static void random_accesses(int scheme) {
  struct rng r = {20 + (uint64_t)scheme};
  for (int run = 0; run < 60; run++) {
    fresh(scheme);
    for (uint32_t i = 0; i < sizeof cart.image; i++) cart.image[i] = byte(&r);
    for (int i = 0; i < 600; i++) {
      uint32_t address = below(&r, 0x1000);
      if (percent(&r, 30))
        address = 0xFE0 + below(&r, 0x20);
      else if (percent(&r, 50))
        address &= 0xFF;
      address |= 0x1000 | below(&r, 8) << 13;
      const uint8_t value = byte(&r);
      const uint32_t kind = below(&r, 4);
      if (percent(&r, 30)) m.cycles = (int32_t)(n.cycles += below(&r, 300));
      if (kind == 0) {
        bus_write(&m, &cart.rom, address, value, 1);
        naive_write(&n, address, value);
      } else if (kind == 1) {
        EQUAL(bus_read(&m, &cart.rom, address, 0), naive_read(&n, address), "%s: $%04X", scheme_name[scheme], address);
      } else { /* LDA, STA or INC in RAM: the CPU accesses the cartridge by its own path */
        const uint8_t code[3] = {(uint8_t[]){0xAD, 0x8D, 0xEE}[below(&r, 3)], (uint8_t)address,
                                 (uint8_t)(address >> 8)};
        memcpy(m.ram, code, 3), memcpy(n.ram, code, 3);
        m.cpu.pc = n.pc = 0x80;
        m.cpu.a = n.a = value;
        cpu_run(&m, &cart.rom, 1);
        naive_instruction(&n);
        const char *wrong = differs(&m, &n);
        if (wrong) FAIL("%s: opcode $%02X $%04X: %s", scheme_name[scheme], code[0], address, wrong);
      }
    }
  }
}

int main(void) {
  banks();
  superchip();
  dpc();
  for (int scheme = 0; scheme < 8; scheme++) random_accesses(scheme);
  return 0;
}
