/*
 * What the tests of the machine share: checks, random numbers, cartridges, and a
 * machine beside its naive twin. A program exits with 0, or prints what went wrong and
 * exits with 1.
 */
#ifndef T_H
#define T_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each test uses some of what is here. */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"

#include "../machine.h"
#include "naive.h"

#define FAIL(...)                                    \
	do {                                         \
		printf("%s:%d: ", __FILE__, __LINE__); \
		printf(__VA_ARGS__);                 \
		putchar('\n');                       \
		exit(1);                             \
	} while (0)

/* CHECK(condition, what is wrong otherwise, as printf takes it) */
#define CHECK(condition, ...)              \
	do {                               \
		if (!(condition))          \
			FAIL(__VA_ARGS__); \
	} while (0)

/* EQUAL(is, must be, of what) */
#define EQUAL(is, want, ...)                                                          \
	do {                                                                          \
		const long long is_ = (long long)(is), want_ = (long long)(want);     \
		if (is_ != want_) {                                                   \
			printf("%s:%d: %s is %lld, must be %lld: ", __FILE__, __LINE__, #is, is_, want_); \
			printf(__VA_ARGS__);                                          \
			putchar('\n');                                                \
			exit(1);                                                      \
		}                                                                     \
	} while (0)

/* ------------------------------------------------------------------ random */

/* SplitMix64. */
struct chance {
	uint64_t state;
};

static uint32_t below(struct chance *c, uint32_t n)
{
	uint64_t z = c->state += UINT64_C(0x9E3779B97F4A7C15);
	z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
	return (uint32_t)(((z ^ z >> 31) >> 32) * n >> 32);
}

static uint8_t byte(struct chance *c) { return (uint8_t)below(c, 256); }
static int percent(struct chance *c, uint32_t p) { return below(c, 100) < p; }

/* -------------------------------------------------------------- cartridges */

/* Sizes by scheme, and what they are called. */
static const uint32_t scheme_size[8] = {4096, 8192, 16384, 8192, 8192, 16384, 8192, 10495};
static const char *const scheme_name[8] = {"4K", "F8", "F6", "E0", "F8SC", "F6SC", "FE", "DPC"};

struct cart {
	uint8_t image[16384 + 64];
	int scheme;
	struct atari_rom rom;
};

static void load(struct cart *c, int scheme)
{
	c->scheme = scheme;
	c->rom = atari_rom_of(c->image, scheme_size[scheme], (uint32_t)scheme);
}

/* Both machines with the cartridge, as a console turns them on. */
static void power_on(struct atari *m, struct naive *n, struct cart *c, int first_line, int rows, uint8_t timer)
{
	memset(m, 0, sizeof *m);
	m->first_line = (int16_t)first_line, m->rows = (int16_t)rows;
	m->draw = m->comb_exists = 1;
	m->swcha = 0xFF, m->swchb = 0x3F;
	m->button[0] = m->button[1] = 1;
	atari_reset(m, &c->rom, timer);
	if (!n)
		return;
	memset(n, 0, sizeof *n);
	n->image = c->image, n->scheme = (enum naive_scheme)c->scheme;
	n->first_line = first_line, n->rows = rows, n->comb_exists = 1;
	n->swcha = 0xFF, n->swchb = 0x3F;
	n->button[0] = n->button[1] = 1;
	naive_reset(n, timer);
}

/* Where the two are not the same, or NULL. */
static const char *differs(const struct atari *m, const struct naive *n)
{
	static char text[200];
#define SAME(what, is, want)                                                                        \
	do {                                                                                        \
		if ((long long)(is) != (long long)(want)) {                                         \
			snprintf(text, sizeof text, "%s is %lld, must be %lld", what, (long long)(is), (long long)(want)); \
			return text;                                                                \
		}                                                                                   \
	} while (0)
	SAME("the cycle", m->cycles, n->cycles);
	SAME("PC", m->cpu.pc, n->pc);
	SAME("A", m->cpu.a, n->a);
	SAME("X", m->cpu.x, n->x);
	SAME("Y", m->cpu.y, n->y);
	SAME("SP", m->cpu.sp, n->sp);
	SAME("P", cpu_flags(&m->cpu), naive_flags(n));
	SAME("jammed", m->cpu.jammed, n->jammed);
	SAME("end of frame", m->frame_over, n->frame_over);
	for (int i = 0; i < 128; i++)
		if (m->ram[i] != n->ram[i]) {
			snprintf(text, sizeof text, "RAM $%02X is $%02X, must be $%02X", 0x80 + i, m->ram[i], n->ram[i]);
			return text;
		}
	for (int i = 0; i < 128; i++)
		SAME("the board's RAM", m->cart.ram[i], n->board_ram[i]);
	return NULL;
}

/* The same of what the last frame drew and what met there; only when it is over. */
static const char *picture_differs(const struct atari *m, const struct naive *n)
{
	static char text[200];
	for (int i = 0; i < 8; i++)
		SAME("a collision latch", (m->tia.collisions >> 2 * i & 3) << 6, n->cx[i]);
	for (int i = 0; i < 5; i++)
		SAME("a position", m->tia.position[i], n->position[i]);
	for (int row = 0; row < n->rows; row++)
		for (int x = 0; x < 160; x++) {
			const uint8_t is = m->picture[m->tia.buffer][row * 160 + x], want = n->picture[n->buffer][row][x];
			if (is != want) {
				snprintf(text, sizeof text, "pixel %d of row %d is $%02X, must be $%02X", x, row, is, want);
				return text;
			}
		}
	return NULL;
}

#endif
