/* The machine's functions that the tests call; under_test.c compiles them. */
#ifndef UNDER_TEST_H
#define UNDER_TEST_H

#include "../state.h"

struct atari_rom atari_rom_of(const uint8_t *image, uint32_t size, uint32_t scheme, uint32_t *code);
uint32_t code_of(uint32_t scheme, const uint8_t *image, uint32_t at);
void atari_reset(struct atari *m, const struct atari_rom *rom, uint8_t timer);
void atari_frame(struct atari *m, const struct atari_rom *rom);
extern const int32_t max_cycles; /* ATARI_MAX_CYCLES */
int atari_accept(const struct atari *m, const struct atari_rom *rom);

void cpu_run(struct atari *m, const struct atari_rom *rom, int32_t max_instructions);
uint8_t cpu_flags(const struct atari_cpu *p);
void cpu_set_flags(struct atari_cpu *p, uint32_t flags);

uint8_t bus_read(struct atari *m, const struct atari_rom *rom, uint32_t address, uint8_t latch);
void bus_write(struct atari *m, const struct atari_rom *rom, uint32_t address, uint8_t value, int wsync_waits);

int32_t tia_fast_until(const struct atari *m);
void tia_start_frame(struct atari *m);
void tia_end_frame(struct atari *m);

#endif
