/*
 * The floating-point mode of the calling thread: how results are rounded, and what
 * becomes of denormal numbers. It is part of the arithmetic, and a thread inherits
 * it from the one that started it, in the end from the program that hosts the
 * library, which may have any (audio code, gcc -ffast-math). So whoever computes
 * sets the mode it was written for and puts the caller's back:
 *
 *   const uint64_t before = paceline_float_enter(PACELINE_FLOAT_FLUSH);
 *   ...
 *   paceline_float_set(before);
 *
 * The compiler does not know that arithmetic depends on the mode and may move it
 * across these calls: the code between them must be a call that it cannot see into.
 * On processors other than x86-64 and arm64 nothing is set and every mode is 0.
 */
#ifndef PACELINE_FLOAT_MODE_H
#define PACELINE_FLOAT_MODE_H

#include <stdint.h>

/*
 * PACELINE_FLOAT_DEFAULT: round to nearest, denormals kept, nothing trapped: what C
 * and Go expect, and environments are written for.
 * PACELINE_FLOAT_FLUSH: the same, but denormal operands and results are zero, as
 * computing with them is many times slower: what the kernels use.
 */
#if defined(__x86_64__)

#include <xmmintrin.h>

#define PACELINE_FLOAT_DEFAULT UINT64_C(0x1F80)
#define PACELINE_FLOAT_FLUSH UINT64_C(0x9FC0)

static inline uint64_t paceline_float_mode(void) { return _mm_getcsr(); }
static inline void paceline_float_set(uint64_t mode) { _mm_setcsr((unsigned)mode); }

#elif defined(__aarch64__)

#define PACELINE_FLOAT_DEFAULT UINT64_C(0)
#define PACELINE_FLOAT_FLUSH (UINT64_C(1) << 24) /* FZ */

static inline uint64_t paceline_float_mode(void) {
  uint64_t mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}

static inline void paceline_float_set(uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory"); }

#else

#define PACELINE_FLOAT_DEFAULT UINT64_C(0)
#define PACELINE_FLOAT_FLUSH UINT64_C(0)

static inline uint64_t paceline_float_mode(void) { return 0; }
static inline void paceline_float_set(uint64_t mode) { (void)mode; }

#endif

/* Sets a mode and returns the one before. */
static inline uint64_t paceline_float_enter(uint64_t mode) {
  const uint64_t before = paceline_float_mode();
  paceline_float_set(mode);
  return before;
}

#endif
