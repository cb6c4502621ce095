/*
 * atari_accept: every state that playing comes to, of random programs and of random
 * bytes under every scheme; and none that is out of bounds, one bound at a time. Files
 * named as arguments are cartridges to play, too.
 */
#include "../check.h"

#include "programs.h"

static struct atari m;
static struct cart cart;

static void accepted(const char *what, uint64_t seed, int frame)
{
	CHECK(atari_accept(&m, &cart.rom), "%s %llu, frame %d: a real state is refused", what, (unsigned long long)seed, frame);
}

static void play(const char *what, uint64_t seed, struct chance *r, int frames)
{
	power_on(&m, NULL, &cart, percent(r, 50) ? 34 : 26, percent(r, 50) ? 210 : 250, 25 + (uint8_t)below(r, 75));
	accepted(what, seed, -1);
	m.pal = (uint8_t)below(r, 2);
	for (int frame = 0; frame < frames; frame++) {
		m.swcha = byte(r);
		m.draw = (uint8_t)below(r, 2);
		m.button[0] = (uint8_t)below(r, 2);
		atari_frame(&m, &cart.rom);
		accepted(what, seed, frame);
		if (percent(r, 5)) {
			atari_reset(&m, &cart.rom, byte(r));
			accepted(what, seed, frame);
		}
	}
}

static void real_states(void)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct chance r = {seed};
		random_program(&cart, &r);
		play("program", seed, &r, 10);
		for (uint32_t i = 0; i < sizeof cart.image; i++)
			cart.image[i] = byte(&r);
		load(&cart, (int)(seed % 8));
		play("random bytes", seed, &r, 10);
	}
}

static void play_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	CHECK(f, "%s cannot be opened", path);
	memset(&cart, 0, sizeof cart);
	const size_t size = fread(cart.image, 1, 16384, f);
	fclose(f);
	if (size == 2048)
		memcpy(cart.image + 2048, cart.image, 2048);
	load(&cart, size == 16384 ? ATARI_F6 : size == 8192 ? ATARI_F8 : size == 10495 ? ATARI_DPC : ATARI_4K);
	struct chance r = {size};
	play(path, 0, &r, 600);
}

/*
 * A program that never ends its frame, for so long that its times would leave their
 * numbers: it reads TIA, timer and music, and HMOVE and VSYNC are remembered from before.
 */
static void endless(int scheme)
{
	memset(&cart, 0xEA, sizeof cart);
	struct code code = {cart.image + (scheme == ATARI_DPC ? 4096 : 0), 0x100}, *c = &code;
	LDA(0x10);
	STA(0x2A);
	emit(c, 0x8D, 2, 0x294);
	emit(c, 0x8D, 2, 0x105D);
	LDA(2);
	STA(0x00);
	const uint32_t loop = c->at;
	emit(c, 0xAD, 2, 0x284);
	emit(c, 0xAD, 2, 0x285);
	emit(c, 0xAD, 2, 0x1004);
	emit(c, 0xA5, 1, 0x00);
	JMP(loop);
	vectors(c, 0x100);
	load(&cart, scheme);
	power_on(&m, NULL, &cart, 34, 210, 50);
	for (int frame = 0; frame < 4; frame++)
		atari_frame(&m, &cart.rom);
	CHECK(m.unfinished, "the frame ended");
	/* The rest takes a while: nearly to the end at once, then step by step. */
	m.cycles = ATARI_MOST_CYCLES - 152 * 1000;
	for (int frame = 0; frame < 60; frame++) {
		atari_frame(&m, &cart.rom);
		accepted("endless", (uint64_t)scheme, frame);
	}
}

#define REFUSED(change)                                                                  \
	do {                                                                             \
		const struct atari kept = m;                                             \
		change;                                                                  \
		CHECK(!atari_accept(&m, &cart.rom), "%s: accepted with " #change, scheme_name[cart.scheme]); \
		m = kept;                                                                \
		accepted("again", 0, 0);                                                 \
	} while (0)

static void bounds(int scheme)
{
	for (uint32_t i = 0; i < sizeof cart.image; i++)
		cart.image[i] = 0x02; /* a CPU that has stopped: an unfinished frame */
	load(&cart, scheme);
	power_on(&m, NULL, &cart, 34, 210, 50);
	atari_frame(&m, &cart.rom);
	CHECK(m.unfinished, "the frame ended");
	REFUSED(m.cycles = -1);
	REFUSED(m.cycles = ATARI_MOST_CYCLES + 1);
	REFUSED(m.unfinished = 2);
	REFUSED(m.rows = 0);
	REFUSED(m.rows = ATARI_ROWS + 1);
	REFUSED(m.rows = -1);
	REFUSED(m.first_line = -1);
	REFUSED(m.cpu.c = 2);
	REFUSED(m.cpu.jammed = 0xFF);
	REFUSED(m.riot.shift = 1);
	REFUSED(m.riot.shift = 32);
	REFUSED(m.tia.buffer = 2);
	for (int i = 0; i < 5; i++)
		REFUSED(m.tia.position[i] = 160);
	REFUSED(m.tia.flushed = 1);
	REFUSED(m.tia.flushed = 255);
	REFUSED(m.tia.frame_start = 1);
	REFUSED(m.tia.frame_start = -228);
	REFUSED(m.tia.window_start += 228);
	REFUSED(m.tia.window_end += 228);
	REFUSED(m.tia.line_start += 1);
	REFUSED(m.tia.line_start = m.tia.window_end);
	REFUSED(m.tia.line_start -= 228);
	REFUSED(m.tia.drawn = m.tia.window_end + 1);
	REFUSED(m.tia.drawn = m.tia.window_start - 1);
	REFUSED(m.tia.drawn += 229);
	REFUSED(m.tia.ark_count = 4);
	REFUSED(m.tia.ark_m0 = 3);
	for (int i = 0; i < 4; i++) {
		REFUSED(m.cart.slice[i] += 1);
		REFUSED(m.cart.slice[i] += 65536);
	}
	REFUSED(m.cart.slice[0] = scheme_size[scheme]);
	if (scheme != ATARI_E0)
		REFUSED(m.cart.slice[1] = 0);
	if (scheme == ATARI_4K || scheme == ATARI_FE)
		REFUSED((m.cart.slice[0] = 4096, m.cart.slice[1] = 5120, m.cart.slice[2] = 6144, m.cart.slice[3] = 7168));
	REFUSED(m.cart.fetcher[7].counter = 2048);
	REFUSED(m.cart.music_fraction = 1);
	REFUSED(m.cart.music_fraction = -2);
	volatile double zero = 0;
	REFUSED(m.cart.music_fraction = zero / zero);
}

int main(int argc, char **argv)
{
	for (int scheme = 0; scheme < 8; scheme++)
		bounds(scheme);
	real_states();
	endless(ATARI_4K);
	endless(ATARI_DPC);
	for (int i = 1; i < argc; i++)
		play_file(argv[i]);
	return 0;
}
