/*
 * The floating-point mode of the calling thread: how results are rounded, and whether denormals are
 * flushed to zero. Results depend on it. A thread inherits the mode of the thread that started it,
 * and the program that hosts the library may have any mode (audio code, gcc -ffast-math). So code
 * that computes sets the mode that it was written for, and restores the caller's:
 *
 *   const uint64_t before = paceline_float_enter(PACELINE_FLOAT_FLUSH);
 *   ...
 *   paceline_float_set(before);
 *
 * The compiler does not know that arithmetic depends on the mode and may move arithmetic across
 * these calls: the code between them must be a call that the compiler cannot inline.
 * On processors other than x86-64 and arm64 these functions do nothing, and every mode is 0.
 */
#ifndef PACELINE_FLOAT_MODE_H
#define PACELINE_FLOAT_MODE_H

#include <stdint.h>

/*
 * PACELINE_FLOAT_DEFAULT: round to nearest, denormals kept, no traps. C and Go expect this mode,
 * and environments are written for it. PACELINE_FLOAT_FLUSH: the same, but denormal operands and
 * results are zero, because computing with denormals is many times slower. The kernels use this
 * mode.
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

/* Sets a mode and returns the previous mode. */
static inline uint64_t paceline_float_enter(uint64_t mode) {
  const uint64_t before = paceline_float_mode();
  paceline_float_set(mode);
  return before;
}

#endif
