/*
 * Checks and random numbers for the tests of the machine. A test exits with 0, or prints the
 * failure and exits with 1.
 */
#ifndef T_H
#define T_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No test uses all functions. */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"

#define FAIL(...)                          \
  do {                                     \
    printf("%s:%d: ", __FILE__, __LINE__); \
    printf(__VA_ARGS__);                   \
    putchar('\n');                         \
    exit(1);                               \
  } while (0)

/* CHECK(condition, message and arguments as for printf) */
#define CHECK(condition, ...)            \
  do {                                   \
    if (!(condition)) FAIL(__VA_ARGS__); \
  } while (0)

/* EQUAL(value, expected value, context and arguments as for printf) */
#define EQUAL(is, want, ...)                                                            \
  do {                                                                                  \
    const long long is_ = (long long)(is), want_ = (long long)(want);                   \
    if (is_ != want_) {                                                                 \
      printf("%s:%d: %s is %lld, must be %lld: ", __FILE__, __LINE__, #is, is_, want_); \
      printf(__VA_ARGS__);                                                              \
      putchar('\n');                                                                    \
      exit(1);                                                                          \
    }                                                                                   \
  } while (0)

/* ------------------------------------------------------------------ random */

/* SplitMix64. */
struct rng {
  uint64_t state;
};

static uint32_t below(struct rng *c, uint32_t n) {
  uint64_t z = c->state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return (uint32_t)(((z ^ z >> 31) >> 32) * n >> 32);
}

static uint8_t byte(struct rng *c) { return (uint8_t)below(c, 256); }
static int percent(struct rng *c, uint32_t p) { return below(c, 100) < p; }

#endif
