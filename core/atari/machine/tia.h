/*
 * TIA: its registers. Times are colour clocks; a write reaches the picture some
 * clocks after it is made, so the picture is brought up to then first. Where nothing
 * that shows changes, it is not: most writes write what is there already.
 */
#ifndef ATARI_TIA_H
#define ATARI_TIA_H

#include "picture.h"

enum tia_register {
	VSYNC, VBLANK, WSYNC, RSYNC, NUSIZ0, NUSIZ1, COLUP0, COLUP1, COLUPF, COLUBK, CTRLPF, REFP0, REFP1, PF0, PF1, PF2,
	RESP0, RESP1, RESM0, RESM1, RESBL, AUDC0, AUDC1, AUDF0, AUDF1, AUDV0, AUDV1, GRP0, GRP1, ENAM0, ENAM1, ENABL,
	HMP0, HMP1, HMM0, HMM1, HMBL, VDELP0, VDELP1, VDELBL, RESMP0, RESMP1, HMOVE, HMCLR, CXCLR,
};

/* Clocks from the start of the line. */
ATARI_FN int32_t tia_phase(const struct atari_tia *t, int32_t clock) { return (int32_t)((uint32_t)(clock - t->frame_start) % ATARI_LINE); }

/* ---------------------------------------------------------------- positions */

ATARI_FN void tia_place(struct atari_tia *t, int object, int32_t x)
{
	t->position[object] = (uint8_t)x;
	t->dirty |= (uint8_t)(1u << object);
}

/* Missile 0 is drawn plainly again, until the next line. */
ATARI_INLINE void tia_ark_plain(struct atari_tia *t)
{
	if (t->ark_m0 != 0) {
		t->ark_m0 = 0;
		t->dirty |= DIRTY_M0;
	}
}

/*
 * RESP0, RESP1. A copy that is being drawn begins anew; one that is in its first
 * clocks is drawn to its end; in all other cases the first copy appears on the next
 * line only.
 */
ATARI_FN void tia_reset_player(struct atari *m, int player, int32_t clock)
{
	struct atari_tia *t = &m->tia;
	const int object = ATARI_P0 + player;
	const int32_t phase = tia_phase(t, clock), size = t->nusiz[player] & 7;
	const int32_t x = phase < ATARI_BLANK ? 3 : (phase - ATARI_BLANK + 5) % ATARI_WIDTH;
	const int32_t length = 4 + 8 * tia_stretch[size];
	int starting = 0, drawing = 0;
	for (int i = 0; i < 3; i++) {
		const int32_t offset = i == 0 ? 0 : tia_copies[size][i - 1];
		if (i > 0 && offset == 0)
			continue;
		const int32_t within = (x - t->position[object] - offset + 2 * ATARI_WIDTH) % ATARI_WIDTH;
		starting |= within < 4;
		drawing |= within >= 4 && within < length;
	}
	if (!starting && drawing) {
		tia_falls_due(m, clock + 11);
		tia_catch_up(m, t->due);
	}
	t->skip[player] = !starting;
	tia_place(t, object, x);
}

/* RESM0, RESM1, RESBL. Soon after an HMOVE, whose pulses are not over, some places differ. */
ATARI_FN void tia_reset_missile(struct atari_tia *t, int object, int32_t clock)
{
	ATARI_TABLE struct {
		uint8_t object, since, phase, x;
	} exceptions[7] = {
		{ATARI_M0, 60, 69, 8}, {ATARI_M1, 9, 18, 3}, {ATARI_BL, 54, 60, 10}, {ATARI_BL, 54, 69, 10},
		{ATARI_BL, 9, 18, 3}, {ATARI_BL, 21, 30, 6}, {ATARI_BL, 18, 27, 5},
	};
	const int32_t phase = tia_phase(t, clock);
	int32_t x = phase < ATARI_BLANK ? 2 : (phase - ATARI_BLANK + 4) % ATARI_WIDTH;
	for (int i = 0; i < 7; i++)
		if (exceptions[i].object == object && exceptions[i].since == (uint32_t)clock - (uint32_t)t->hmove_at && exceptions[i].phase == phase)
			x = exceptions[i].x;
	tia_place(t, object, x);
}

/* Leaving a player, a missile is at its middle. */
ATARI_FN void tia_lock_missile(struct atari_tia *t, int missile, uint8_t value)
{
	const uint8_t locked = value & 2;
	if (t->resmp[missile] && !locked) {
		const int stretch = tia_stretch[t->nusiz[missile] & 7];
		t->position[ATARI_M0 + missile] = (uint8_t)tia_wrap(t->position[ATARI_P0 + missile] + (uint32_t)(stretch == 1 ? 4 : 4 * stretch));
	}
	t->resmp[missile] = locked;
	t->dirty |= (uint8_t)(DIRTY_M0 << missile);
}

/*
 * HMOVE stops the objects' counters from HBLANK's clocks: each gets the pulses that
 * its register asks for, as far as the rest of the blank has room for them. `cycle`
 * is the line's, 0 to 75. Returns pixels to the right.
 */
ATARI_FN int32_t tia_motion(uint8_t hm, int32_t cycle)
{
	const int32_t pulses = (hm >> 4 ^ 8) & 15;
	if (cycle <= 20) {
		const int32_t room = 17 - (3 * cycle + 1) / 4;
		const int32_t most = room < 15 ? room : 15;
		return 8 - (pulses < most ? pulses : most);
	}
	if (cycle <= 54)
		return 0;
	if (cycle == 75)
		return 8 - pulses;
	const int32_t late = pulses - 3 * (74 - cycle) / 4;
	return late > 0 ? -late : 0;
}

ATARI_FN void tia_hmove(struct atari *m, int32_t clock)
{
	struct atari_tia *t = &m->tia;
	const int32_t cycle = tia_phase(t, clock) / 3;
	for (int i = 0; i < 5; i++) {
		const int32_t motion = tia_motion(t->hm[i], cycle);
		if (motion != 0) {
			const int32_t x = t->position[i] + motion;
			tia_place(t, i, x < 0 ? x + ATARI_WIDTH : x >= ATARI_WIDTH ? x - ATARI_WIDTH : x);
		}
	}
	if (m->comb_exists && (cycle <= 20 || cycle == 75)) {
		int32_t start = clock - tia_phase(t, clock) + (cycle == 75 ? ATARI_LINE : 0);
		if (start < t->window_start)
			start = t->window_start;
		if (start != t->comb_start) {
			t->comb_start = start;
			t->comb_first = ATARI_NEVER;
		}
		t->comb = 1;
	}
	t->hmove_at = clock;
	for (int i = 0; i < 2; i++)
		if (t->skip[i]) {
			t->skip[i] = 0;
			t->dirty |= (uint8_t)(DIRTY_P0 << i);
		}
	t->ark = 0;
	tia_ark_plain(t);
}

/* -------------------------------------------------------------------- reads */

ATARI_FN uint8_t tia_paddle(const struct atari *m, int i)
{
	if (m->paddle[i] == 1)
		return 0x80;
	if (m->paddle[i] == 0 || m->tia.vblank & 0x80)
		return 0;
	return (uint32_t)m->cycles > (uint32_t)m->tia.dump_end + m->charge[i] ? 0x80 : 0;
}

/* The bits that the TIA does not drive are the bus's last. */
ATARI_FN uint8_t tia_read(struct atari *m, uint32_t address, uint8_t latch)
{
	const uint32_t reg = address & 15;
	uint8_t value = 0;
	tia_falls_due(m, 3 * m->cycles);
	if (reg < 8) {
		tia_catch_up(m, m->tia.due);
		value = (uint8_t)((m->tia.collisions >> (2 * reg) & 3) << 6);
	} else if (reg < 12)
		value = tia_paddle(m, (int)reg - 8);
	else if (reg < 14)
		value = m->button[reg - 12] ? 0x80 : 0;
	return (uint8_t)(value | (latch & 0x3F));
}

/* ------------------------------------------------------------------- writes */

/* A frame ends with the first write after so many lines. */
ATARI_INLINE void tia_count_lines(struct atari *m, int32_t clock)
{
	if (clock - m->tia.frame_start >= ATARI_LINE * (m->pal ? 343 : 291))
		m->frame_over = 1;
}

/* Clocks after which a write is seen; the playfield has a rule of its own. */
ATARI_TABLE uint8_t tia_delay[64] = {[VBLANK] = 1, [REFP0] = 1, [REFP1] = 1, [GRP0] = 1, [GRP1] = 1, [NUSIZ0] = 8, [NUSIZ1] = 8, [RESM0] = 8, [RESM1] = 8};

/*
 * wsync_waits is 0 where the CPU's last access to the bus was a write, too: it
 * cannot be stopped then.
 */
ATARI_FN void tia_write(struct atari *m, uint32_t address, uint8_t value, int wsync_waits)
{
	struct atari_tia *t = &m->tia;
	const int32_t clock = 3 * m->cycles;
	const uint32_t reg = address & 0x3F;
	uint8_t changed = 0;
	int i = 0;
	tia_count_lines(m, clock);
	if (reg >= PF0 && reg <= PF2) /* the playfield moves in steps of four */
		tia_falls_due(m, t->frame_start + (clock - t->frame_start + 5) / 4 * 4);
	else
		tia_falls_due(m, clock + tia_delay[reg]);
	switch (reg) {
	case VSYNC:
		t->vsync = value;
		if (value & 2) {
			t->vsync_end = clock + ATARI_LINE;
		} else if (clock >= t->vsync_end) {
			t->vsync_end = ATARI_NEVER;
			m->frame_over = 1;
		}
		break;
	case VBLANK:
		if ((t->vblank ^ value) & 2) {
			tia_catch_up(m, t->due);
			tia_colours_change(m);
		}
		if (t->vblank & 0x80 && !(value & 0x80))
			t->dump_end = m->cycles;
		t->vblank = value;
		break;
	case WSYNC:
		if (wsync_waits) {
			const int32_t cycle = tia_phase(t, clock) / 3;
			if (cycle > 0)
				m->cycles += 76 - cycle;
		}
		break;
	case NUSIZ1: i = 1; /* fall through */
	case NUSIZ0:
		if (t->nusiz[i] == value && !t->skip[i] && !t->ark) /* ark_m0 is only known once the lines before are drawn */
			break;
		tia_catch_up(m, t->due);
		t->nusiz[i] = value;
		t->skip[i] = 0;
		if (i == 0)
			t->ark_m0 = 0;
		t->dirty |= (uint8_t)((DIRTY_P0 | DIRTY_M0) << i);
		break;
	case COLUP0:
	case COLUP1:
	case COLUPF:
	case COLUBK:
		value = (uint8_t)((value & 0xFE) | (m->pal ? t->lines & 1 : 0));
		if (t->colour[reg - COLUP0] == value)
			break;
		tia_catch_up(m, t->due);
		tia_colours_change(m);
		t->colour[reg - COLUP0] = value;
		break;
	case CTRLPF:
		if (t->ctrlpf == value && t->reflect == (value & 1))
			break;
		tia_catch_up(m, t->due);
		tia_colours_change(m);
		t->ctrlpf = value;
		if (tia_phase(t, clock) < 147)
			t->reflect = value & 1;
		t->dirty |= DIRTY_PF | DIRTY_BL;
		break;
	case REFP1: i = 1; /* fall through */
	case REFP0:
		if (t->refp[i] == (value & 8))
			break;
		tia_catch_up(m, t->due);
		t->refp[i] = value & 8;
		t->dirty |= (uint8_t)(DIRTY_P0 << i);
		break;
	case PF0:
	case PF1:
	case PF2:
		if (t->pf[reg - PF0] == value)
			break;
		tia_catch_up(m, t->due);
		t->pf[reg - PF0] = value;
		t->dirty |= DIRTY_PF;
		break;
	case RESP0:
	case RESP1:
		tia_catch_up(m, t->due);
		tia_reset_player(m, (int)(reg - RESP0), clock);
		break;
	case RESM0: /* fall through */
	case RESM1:
		tia_catch_up(m, t->due);
		tia_reset_missile(t, ATARI_M0 + (int)(reg - RESM0), clock);
		if (reg == RESM0)
			tia_ark_plain(t);
		break;
	case RESBL:
		tia_catch_up(m, t->due);
		tia_reset_missile(t, ATARI_BL, clock);
		break;
	case GRP0: /* writing one player's graphics makes the other's last ones old */
		if (!t->vdelp[0] && t->grp[0] != value)
			changed |= DIRTY_P0;
		if (t->vdelp[1] && t->old_grp[1] != t->grp[1])
			changed |= DIRTY_P1;
		if (changed)
			tia_catch_up(m, t->due);
		t->grp[0] = value;
		t->old_grp[1] = t->grp[1];
		break;
	case GRP1:
		if (!t->vdelp[1] && t->grp[1] != value)
			changed |= DIRTY_P1;
		if (t->vdelp[0] && t->old_grp[0] != t->grp[0])
			changed |= DIRTY_P0;
		if (t->vdelbl && t->old_enabl != t->enabl)
			changed |= DIRTY_BL;
		if (changed)
			tia_catch_up(m, t->due);
		t->grp[1] = value;
		t->old_grp[0] = t->grp[0];
		t->old_enabl = t->enabl;
		break;
	case ENAM1: i = 1; /* fall through */
	case ENAM0:
		if (t->enam[i] == (value & 2))
			break;
		tia_catch_up(m, t->due);
		t->enam[i] = value & 2;
		t->dirty |= (uint8_t)(DIRTY_M0 << i);
		break;
	case ENABL:
		if (!t->vdelbl && t->enabl != (value & 2)) {
			tia_catch_up(m, t->due);
			changed = DIRTY_BL;
		}
		t->enabl = value & 2;
		break;
	case HMM0:
		if ((uint32_t)clock - (uint32_t)t->hmove_at == 63 && t->hm[ATARI_M0] >> 4 == 7 && value >> 4 == 6) {
			tia_catch_up(m, clock); /* lines before this do not step it */
			t->ark = 1;
			t->ark_count = 0;
		} /* fall through */
	case HMP0:
	case HMP1:
	case HMM1:
	case HMBL:
		t->hm[reg - HMP0] = value;
		break;
	case VDELP1: i = 1; /* fall through */
	case VDELP0:
		if (t->vdelp[i] == (value & 1))
			break;
		tia_catch_up(m, t->due);
		t->vdelp[i] = value & 1;
		t->dirty |= (uint8_t)(DIRTY_P0 << i);
		break;
	case VDELBL:
		if (t->vdelbl == (value & 1))
			break;
		tia_catch_up(m, t->due);
		t->vdelbl = value & 1;
		t->dirty |= DIRTY_BL;
		break;
	case RESMP0:
	case RESMP1:
		if (t->resmp[reg - RESMP0] == (value & 2))
			break;
		tia_catch_up(m, t->due);
		tia_lock_missile(t, (int)(reg - RESMP0), value);
		if (reg == RESMP0)
			tia_ark_plain(t);
		break;
	case HMOVE:
		tia_catch_up(m, t->due);
		tia_hmove(m, clock);
		break;
	case HMCLR:
		for (i = 0; i < 5; i++)
			t->hm[i] = 0;
		break;
	case CXCLR:
		tia_catch_up(m, t->due);
		t->collisions = 0;
		break;
	default: /* sound, and addresses where there is nothing */
		break;
	}
	t->dirty |= changed;
}

#endif
