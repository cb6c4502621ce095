/*
 * Code: a cartridge's bytes decoded for the CPU's loop, one word for each byte.
 *
 * The word of a byte is the instruction that starts there. The low half is the operation: an opcode
 * or one of enum code_operation. The high half holds the two bytes after the opcode. One load thus
 * fetches a whole instruction.
 *
 * The word is CODE_LEAVE where an instruction must be fetched over the bus: at hot spots and in RAM on
 * the board. It is also CODE_LEAVE in the last bytes of a bank, because an instruction must lie within
 * one bank. Every bank ends with at least three such words, so running on to the next word needs no
 * check.
 */
#ifndef ATARI_CODE_H
#define ATARI_CODE_H

#include "cartridge.h"

enum code_operation {
  CODE_LEAVE = 256, /* the instruction is fetched byte by byte */
  CODE_WAIT_A,      /* LDA, LDX, LDY of the timer, followed by a branch back to the load */
  CODE_WAIT_X,
  CODE_WAIT_Y,
  CODE_OPERATIONS,
};

ATARI_INLINE uint32_t code_operation(uint32_t word) { return word & 0xFFFF; }
ATARI_INLINE uint32_t code_low(uint32_t word) { return word >> 16 & 0xFF; }
ATARI_INLINE uint32_t code_high(uint32_t word) { return word >> 24; }
ATARI_INLINE uint32_t code_operand(uint32_t word) { return word >> 16; }
ATARI_INLINE uint32_t code_word(uint32_t operation, uint32_t low, uint32_t high) {
  return operation | low << 16 | high << 24;
}

/* Size of the part that a hot spot exchanges: a bank of 4 KB, or a slice of 1 KB. */
ATARI_FN uint32_t code_bank(uint32_t scheme) { return scheme == ATARI_E0 ? 1024 : 4096; }

/* Whether an instruction that starts with this byte of the ROM can be decoded beforehand. */
ATARI_FN int code_begins(uint32_t scheme, uint32_t at) {
  const uint32_t a = at & 0xFFF, bank = code_bank(scheme);
  return a >= cart_plain_from(scheme) && a < cart_plain_below(scheme) - 2 && at % bank < bank - 3;
}

/* Whether these bytes are LDA, LDX or LDY of the timer, then BNE or BPL back to the load. */
ATARI_FN int code_waits(const uint8_t *i) {
  return (i[0] == 0xAD || i[0] == 0xAE || i[0] == 0xAC) && ((i[1] | (uint32_t)i[2] << 8) & 0x1285) == 0x0284 &&
         (i[3] == 0xD0 || i[3] == 0x10) && i[4] == 0xFB;
}

ATARI_FN uint32_t code_of(uint32_t scheme, const uint8_t *image, uint32_t at) {
  const uint8_t *i = image + at;
  uint32_t operation = i[0];
  if (!code_begins(scheme, at)) return code_word(CODE_LEAVE, 0, 0);
  if (code_begins(scheme, at + 3) && code_waits(i))
    operation = i[0] == 0xAD ? CODE_WAIT_A : i[0] == 0xAE ? CODE_WAIT_X : CODE_WAIT_Y;
  return code_word(operation, i[1], i[2]);
}

/* Decodes a ROM's complete banks of 4 KB. */
ATARI_FN void code_translate(uint32_t scheme, const uint8_t *image, uint32_t size, uint32_t *code) {
  for (uint32_t at = 0; at < size / 4096 * 4096; at++) code[at] = code_of(scheme, image, at);
}

#endif
