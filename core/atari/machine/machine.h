/*
 * An Atari 2600 in a struct of plain numbers.
 *
 * Include this file. It includes the others:
 *
 *	state.h         the state of a machine
 *	cpu.h           the 6507, with instructions.h
 *	code.h          the cartridge's instructions, decoded
 *	bus.h           the chip that an address selects
 *	riot.h          the 6532: ports and timer
 *	tia.h           the TIA's registers: positions, motion, effects and delays of writes
 *	image.h         drawing up to the beam: pixels and collisions, with composite.h
 *	objects.h       the pixels of a line that each object lights, with mask.h
 *	cartridge.h     banks, and RAM on the board
 *
 * The headers allocate nothing, call no library, and use no global variables and no files. The
 * machine equals ALE's frame by frame, also where ALE differs from the hardware.
 *
 * The including file may define ATARI_FN, ATARI_INLINE, ATARI_NOINLINE and ATARI_TABLE, the
 * specifiers of functions and tables, for example for CUDA.
 */
#ifndef ATARI_MACHINE_H
#define ATARI_MACHINE_H

#include "cpu.h"

/* A call of atari_frame executes at most this many instructions. */
enum { ATARI_INSTRUCTIONS = 25000 };

/* Returns the ROM with these bytes and writes its decoded words, one for each byte, to code. */
ATARI_FN struct atari_rom atari_rom_of(const uint8_t *image, uint32_t size, uint32_t scheme, uint32_t *code) {
  const uint32_t from = cart_plain_from(scheme), below = cart_plain_below(scheme);
  const struct atari_rom r = {image, size, scheme, from, scheme == ATARI_FE ? 0 : below - from, code};
  code_translate(scheme, image, size, code);
  return r;
}

/*
 * Switches the machine off and on. Resets chips and images, but neither RAM nor the controls.
 * timer is the RIOT timer's first value, which is random on the hardware.
 */
ATARI_FN void atari_reset(struct atari *m, const struct atari_rom *rom, uint8_t timer) {
  const struct atari_tia tia = {.vsync_end = ATARI_NEVER, .fast_until = INT32_MIN, .dirty = 0x7F};
  const struct atari_cpu cpu = {.sp = 0xFF, .nz = 1};
  m->cycles = 0;
  m->riot.ddra = 0;
  m->riot.timer_read = 0;
  riot_set_timer(m, timer, 6);
  m->tia = tia;
  /* An unfinished frame goes on from line 0. Drawing starts when the beam reaches first_line. */
  m->tia.window_end = ATARI_LINE * m->rows;
  m->tia.draws_from = ATARI_LINE * m->first_line;
  for (uint32_t i = 0; i < sizeof m->image[0]; i++) m->image[0][i] = m->image[1][i] = 0;
  cart_reset(m, rom);
  m->cpu = cpu;
  m->cpu.pc = bus_read(m, rom, 0xFFFC, 0);
  m->latch = bus_read(m, rom, 0xFFFD, 0);
  m->cpu.pc |= (uint16_t)(m->latch << 8);
}

/* Limits of the cycles in a frame that does not end, and in one call of atari_frame. */
#ifndef ATARI_MAX_CYCLES
#define ATARI_MAX_CYCLES (1 << 28)
#endif
#define ATARI_CALL_CYCLES (1 << 22)

/*
 * The clock of a frame that does not end would overflow. This subtracts an even number of lines,
 * because PAL's colours depend on the parity of the line. The beam stays after all lines.
 */
ATARI_FN void atari_rebase_clock(struct atari *m) {
  const int32_t cycles = ATARI_MAX_CYCLES / 2 / 152 * 152, dump_end = m->tia.dump_end;
  m->cycles -= cycles;
  atari_shift_times(m, cycles);
  if (dump_end >= 0 && m->tia.dump_end < 0) /* below 0 is the time of an earlier frame */
    m->tia.dump_end = 0;
}

/*
 * Ends a call in an unfinished frame. The rest of the image fades to grey, once a frame. The next
 * call continues the frame.
 */
ATARI_FN void atari_suspend_frame(struct atari *m) {
  tia_draw_now(m);
  m->tia.lines = (3 * m->cycles - m->tia.frame_start) / ATARI_LINE;
  if (!m->unfinished && m->draw) {
    int32_t row = m->tia.lines - m->first_line;
    if (row < 0) row = 0;
    uint8_t *image = m->image[m->tia.buffer];
    for (int32_t i = row * ATARI_WIDTH; i < m->rows * ATARI_WIDTH; i++) image[i] = (image[i] & 15) >> 1;
  }
  m->unfinished = 1;
  if (m->cycles > ATARI_MAX_CYCLES) atari_rebase_clock(m);
}

/* Runs to the end of a frame. The frame's image is m->image[m->tia.buffer]. */
ATARI_FN void atari_frame(struct atari *m, const struct atari_rom *rom) {
  if (!m->unfinished) tia_start_frame(m);
  m->frame_over = 0;
  cpu_run(m, rom, ATARI_INSTRUCTIONS);
  if (!m->frame_over) {
    atari_suspend_frame(m);
    return;
  }
  m->unfinished = 0;
  tia_end_frame(m);
}

#endif
