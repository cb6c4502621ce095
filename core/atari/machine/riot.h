/*
 * The RIOT, a 6532: ports and the interval timer. The RIOT's RAM is in struct atari.
 *
 * The timer counts down every 1, 8, 64 or 1024 cycles, and every cycle after it has run out. The
 * timer is not stepped; a read computes its value.
 */
#ifndef ATARI_RIOT_H
#define ATARI_RIOT_H

#include "state.h"

/* The timer's value `since` cycles after the write; below 0: the timer has run out. */
ATARI_FN int32_t riot_count(const struct atari_riot *r, int32_t since) {
  return (int32_t)(r->timer - (uint32_t)(since >> r->shift) - 1);
}

ATARI_FN int32_t riot_since(const struct atari *m) {
  return (int32_t)((uint32_t)m->cycles - 1 - (uint32_t)m->riot.timer_set);
}

ATARI_FN uint8_t riot_timer(struct atari *m) {
  struct atari_riot *r = &m->riot;
  const int32_t since = riot_since(m), count = riot_count(r, since);
  if (count >= 0) return (uint8_t)count;
  const uint32_t whole = (uint32_t)r->timer << r->shift;
  const int32_t beyond = (int32_t)(whole - (uint32_t)since - 1);
  if (beyond <= -2 && !r->timer_was_read) {
    r->timer_was_read = 1;
    r->timer_read = m->cycles;
  }
  if (!r->timer_was_read) return (uint8_t)beyond;
  return (uint8_t)(r->timer - (uint32_t)(since >> r->shift) -
                   ((uint32_t)r->timer_read - (uint32_t)r->timer_set - whole));
}

ATARI_FN uint8_t riot_read(struct atari *m, uint32_t address) {
  switch (address & 7) {
    case 0: return m->swcha;
    case 1: return m->riot.ddra;
    case 2: return m->swchb;
    case 3: return 0;
    case 4:
    case 6: return riot_timer(m);
    default: /* INSTAT */ return !m->riot.timer_was_read && riot_count(&m->riot, riot_since(m)) < 0 ? 0x80 : 0;
  }
}

ATARI_FN void riot_set_timer(struct atari *m, uint8_t value, uint8_t shift) {
  m->riot.timer = value;
  m->riot.shift = shift;
  m->riot.timer_set = m->cycles;
  m->riot.timer_was_read = 0;
}

/* Writes to the ports do not change the values that reads of the ports return. */
ATARI_FN void riot_write(struct atari *m, uint32_t address, uint8_t value) {
  if ((address & 0x14) == 0x14)
    riot_set_timer(m, value, (address & 3) == 3 ? 10 : (uint8_t)(3 * (address & 3)));
  else if ((address & 7) == 1)
    m->riot.ddra = value;
}

#endif
