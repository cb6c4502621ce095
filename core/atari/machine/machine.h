/*
 * An Atari 2600 in a struct of plain numbers.
 *
 * Include this file; it includes the others:
 *
 *	state.h         all that a machine is
 *	cpu.h           the 6507, with instructions.h
 *	code.h          the cartridge's instructions, ready to be executed
 *	bus.h           which chip an address means
 *	riot.h          the 6532: ports and timer
 *	tia.h           the TIA's registers: positions, motion, what a write does when
 *	image.h       catching up with the beam: pixels and collisions, with composite.h
 *	objects.h       where the objects light a line, with mask.h
 *	cartridge.h     banks, and RAM on the board
 *
 * Nothing here allocates, calls a library, keeps a global or knows a file. The
 * machine does what ALE's does, frame for frame, where that differs from the
 * hardware, too.
 *
 * ATARI_FN, ATARI_INLINE, ATARI_APART and ATARI_TABLE, defined before, go before
 * functions and tables: for CUDA, say.
 */
#ifndef ATARI_MACHINE_H
#define ATARI_MACHINE_H

#include "cpu.h"

/* Instructions after which a frame's call ends, whatever happened. */
enum { ATARI_INSTRUCTIONS = 25000 };

/* Says how to read a ROM of these bytes. code: a word for each byte of it, which are written. */
ATARI_FN struct atari_rom atari_rom_of(const uint8_t *image, uint32_t size, uint32_t scheme, uint32_t *code) {
  const uint32_t from = cart_plain_from(scheme), below = cart_plain_below(scheme);
  const struct atari_rom r = {image, size, scheme, from, scheme == ATARI_FE ? 0 : below - from, code};
  code_translate(scheme, image, size, code);
  return r;
}

/*
 * Switches the machine off and on: chips and images, not RAM, nor what players
 * set. timer is what the RIOT's timer happens to start with.
 */
ATARI_FN void atari_reset(struct atari *m, const struct atari_rom *rom, uint8_t timer) {
  const struct atari_tia tia = {.vsync_end = ATARI_NEVER, .calm = INT32_MIN, .dirty = 0x7F};
  const struct atari_cpu cpu = {.sp = 0xFF, .nz = 1};
  m->cycles = 0;
  m->riot.ddra = 0;
  m->riot.timer_read = 0;
  riot_set_timer(m, timer, 6);
  m->tia = tia;
  /* A frame that was unfinished goes on, from line 0, once the beam is where images begin. */
  m->tia.window_end = ATARI_LINE * m->rows;
  m->tia.draws_from = ATARI_LINE * m->first_line;
  for (uint32_t i = 0; i < sizeof m->image[0]; i++) m->image[0][i] = m->image[1][i] = 0;
  cart_reset(m, rom);
  m->cpu = cpu;
  m->cpu.pc = bus_read(m, rom, 0xFFFC, 0);
  m->latch = bus_read(m, rom, 0xFFFD, 0);
  m->cpu.pc |= (uint16_t)(m->latch << 8);
}

/* Cycles of a frame that does not end stay below this, and those of one call below the second. */
#ifndef ATARI_MOST_CYCLES
#define ATARI_MOST_CYCLES (1 << 28)
#endif
#define ATARI_CYCLES_OF_A_CALL (1 << 22)

/*
 * The clock of a frame that does not end would leave its number. So it goes back, by an
 * even number of lines, whose parity shows in PAL, and stays beyond all lines.
 */
ATARI_FN void atari_turn_back(struct atari *m) {
  const int32_t cycles = ATARI_MOST_CYCLES / 2 / 152 * 152, dump_end = m->tia.dump_end;
  m->cycles -= cycles;
  atari_move_times(m, cycles);
  if (dump_end >= 0 && m->tia.dump_end < 0) /* below 0 it would be an earlier frame's */
    m->tia.dump_end = 0;
}

/*
 * A frame that does not end: what is left of the image fades to grey, once, and the
 * next call goes on with it.
 */
ATARI_FN void atari_give_up(struct atari *m) {
  tia_draw_now(m);
  m->tia.lines = (3 * m->cycles - m->tia.frame_start) / ATARI_LINE;
  if (!m->unfinished && m->draw) {
    int32_t row = m->tia.lines - m->first_line;
    if (row < 0) row = 0;
    uint8_t *image = m->image[m->tia.buffer];
    for (int32_t i = row * ATARI_WIDTH; i < m->rows * ATARI_WIDTH; i++) image[i] = (image[i] & 15) >> 1;
  }
  m->unfinished = 1;
  if (m->cycles > ATARI_MOST_CYCLES) atari_turn_back(m);
}

/* Runs to the end of a frame. Its image is m->image[m->tia.buffer]. */
ATARI_FN void atari_frame(struct atari *m, const struct atari_rom *rom) {
  if (!m->unfinished) tia_start_frame(m);
  m->frame_over = 0;
  cpu_run(m, rom, ATARI_INSTRUCTIONS);
  if (!m->frame_over) {
    atari_give_up(m);
    return;
  }
  m->unfinished = 0;
  tia_end_frame(m);
}

#endif
