/* Cartridges made by the tests: an assembler for a few instructions, and random programs. */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#include "pair.h"

/* Code at $F000 and above. */
struct code {
  uint8_t *rom;
  uint32_t at;
};

static void emit(struct code *c, uint8_t opcode, int bytes, uint32_t operand) {
  c->rom[c->at++] = opcode;
  for (; bytes > 0; bytes--, operand >>= 8) c->rom[c->at++] = (uint8_t)operand;
}

#define LDA(v) emit(c, 0xA9, 1, v)
#define LDX(v) emit(c, 0xA2, 1, v)
#define STA(r) emit(c, 0x85, 1, r)
#define NOP() emit(c, 0xEA, 0, 0)
#define JMP(to) emit(c, 0x4C, 2, 0xF000u + (to))

static void vectors(struct code *c, uint32_t start) {
  for (uint32_t i = 0xFFA; i < 0x1000; i += 2) c->rom[i] = (uint8_t)start, c->rom[i + 1] = (uint8_t)(0xF0 | start >> 8);
}

/* Emits VSYNC for three lines and `blank` blank lines. Returns the offset of the frame's first instruction. */
static uint32_t begin_frame(struct code *c, uint8_t blank) {
  const uint32_t here = c->at;
  STA(0x02);
  LDA(2);
  STA(0x00);
  STA(0x02), STA(0x02), STA(0x02);
  LDA(0);
  STA(0x00);
  if (blank) {
    LDA(2);
    STA(0x01);
    LDX(blank);
    STA(0x02);
    emit(c, 0xCA, 0, 0);    /* DEX */
    emit(c, 0xD0, 1, 0xFB); /* BNE */
    LDA(0);
    STA(0x01);
  }
  return here;
}

/* Emits one random access to the TIA or the RIOT. */
static void random_step(struct code *c, struct rng *r) {
  const uint32_t kind = below(r, 100);
  if (kind < 12) {
    STA(0x02);
  } else if (kind < 20) {
    emit(c, 0xA5, 1, below(r, 14) + 0x30 * percent(r, 20)); /* a read of the TIA, stored in RAM */
    STA(0x80 + below(r, 64));
  } else if (kind < 22) {
    LDA(byte(r));
    emit(c, 0x8D, 2, 0x294 + below(r, 4)); /* the timer */
  } else if (kind < 25) {
    emit(c, 0xAD, 2, 0x280 + below(r, 8));
    STA(0x80 + below(r, 64));
  } else if (kind < 27) {
    LDA(percent(r, 40) ? byte(r) & 0xC2 : 0);
    STA(0x01);
  } else if (kind < 28 && percent(r, 40)) { /* a loop that waits for the timer, as in games */
    if (percent(r, 70)) {
      LDA(percent(r, 90) ? below(r, 12) : byte(r));
      emit(c, 0x8D, 2, 0x294 + below(r, 4));
    }
    emit(c, (uint8_t[]){0xAD, 0xAE, 0xAC, 0x0D}[below(r, 4)], 2, (uint32_t[]){0x284, 0x286, 0xE84, 0x285}[below(r, 4)]);
    emit(c, (uint8_t[]){0xD0, 0x10}[below(r, 2)], 1, 0xFB);
  } else if (kind < 28) { /* a call with the stack in the TIA */
    LDX(4 + below(r, 0x29));
    emit(c, 0x9A, 0, 0);
    emit(c, 0x20, 2, 0xF000 + c->at + 3);
    LDX(0xFF);
    emit(c, 0x9A, 0, 0);
  } else if (kind < 29) {
    emit(c, 0xE6, 1, 4 + below(r, 0x29)); /* INC reads before it writes */
  } else {
    if (percent(r, 85)) LDA(percent(r, 20) ? 0 : byte(r));
    if (percent(r, 90))
      STA(4 + below(r, 0x29));
    else
      emit(c, 0x8D, 2, 4 + below(r, 0x29));
  }
  for (uint32_t i = percent(r, 40) ? below(r, 8) : 0; i > 0; i--) NOP();
  if (percent(r, 20)) emit(c, 0xA5, 1, 0x80 + below(r, 128));
}

/* A program that repeats random steps a few times in each frame. */
static void random_program(struct cart *cart, struct rng *r) {
  for (uint32_t i = 0; i < sizeof cart->image; i++) cart->image[i] = byte(r);
  struct code code = {cart->image, 0}, *c = &code;
  LDX(0xFF);
  emit(c, 0x9A, 0, 0);
  emit(c, 0xD8, 0, 0);
  const uint32_t frame = begin_frame(c, (uint8_t)below(r, 45));
  emit(c, 0xA0, 1, 1 + below(r, 6)); /* LDY */
  const uint32_t body = c->at;
  for (uint32_t steps = 50 + below(r, 900); steps > 0 && c->at < 0xFC0; steps--) random_step(c, r);
  emit(c, 0x88, 0, 0); /* DEY */
  emit(c, 0xF0, 1, 3); /* BEQ */
  JMP(body);
  JMP(frame);
  vectors(c, 0);
  load(cart, ATARI_4K);
}

#endif
