/*
 * The state of an Atari 2600: plain numbers without pointers. Copying the struct saves the
 * machine, and copying it back restores the machine. See machine.h.
 */
#ifndef ATARI_STATE_H
#define ATARI_STATE_H

#include <stdint.h>

#ifndef ATARI_FN /* specifiers of functions */
#define ATARI_FN static
#endif
#ifndef ATARI_INLINE /* of small functions */
#define ATARI_INLINE static inline
#endif
#ifndef ATARI_NOINLINE /* of functions that must not be inlined, which keeps their callers fast */
#define ATARI_NOINLINE static
#endif
#ifndef ATARI_TABLE /* of tables */
#define ATARI_TABLE static const
#endif

enum {
  ATARI_WIDTH = 160,
  ATARI_ROWS = 250,  /* at most */
  ATARI_LINE = 228,  /* colour clocks a line; a CPU cycle has three */
  ATARI_HBLANK = 68, /* colour clocks of a line before its first pixel */
};

#define ATARI_NEVER INT32_MAX

/*
 * Times are CPU cycles or colour clocks since the start of the frame's first instruction. A new
 * frame starts at 0; atari_shift_times moves the stored times of earlier events.
 */

/* MOS 6507. */
struct atari_cpu {
  uint16_t pc;
  uint16_t nz; /* N and Z: see cpu_flags */
  uint8_t a, x, y, sp;
  uint8_t c, v, d, i;
  uint8_t jammed;
};

/* MOS 6532. The timer is not stepped; a read computes its value. */
struct atari_riot {
  int32_t timer_set;  /* cycle of the write */
  int32_t timer_read; /* cycle of the first read after the timer has run out */
  uint8_t timer, shift, timer_was_read, ddra;
};

/* 160 pixels, the leftmost in bit 0 of the first word. The last word is 0 and fills a 256-bit vector. */
struct atari_mask {
  uint64_t w[4];
};

enum { ATARI_P0, ATARI_P1, ATARI_M0, ATARI_M1, ATARI_BL, ATARI_PF, ATARI_OBJECTS };

struct atari_tia {
  int32_t frame_start;              /* colour clock of the frame's line 0, 0 or below */
  int32_t window_start, window_end; /* the lines of the frame that are rows of the image */
  int32_t draws_from;               /* drawing starts here: window_start, except after a reset within a frame */
  int32_t drawn;                    /* the image is drawn up to this clock */
  int32_t line_start;               /* start of the line that contains `drawn` */
  int32_t due;                      /* the image must be drawn up to this clock before the registers change */
  int32_t due_before;               /* the value of `due` before its last change */
  int32_t comb_start;               /* start of the line with HMOVE's eight black pixels */
  int32_t comb_first;               /* first `due` within that line */
  int32_t vsync_end;                /* from this clock on, switching VSYNC off ends the frame */
  int32_t fast_until;               /* writes up to this clock take the fast path of tia_write */
  int32_t hmove_at;                 /* the last HMOVE */
  int32_t dump_end;                 /* cycle at which the paddles' capacitors started to charge */
  int32_t lines;                    /* number of lines in the last complete frame */

  /* Registers as written. */
  uint8_t vsync, vblank, ctrlpf, nusiz[2], refp[2], pf[3], enam[2], vdelp[2], vdelbl, resmp[2], hm[5];
  uint8_t colour[4];          /* P0, P1, PF, BK */
  uint8_t grp[2], old_grp[2]; /* as written, and the value at the last write of the other player's graphics */
  uint8_t enabl, old_enabl;

  uint8_t position[5];            /* pixel of each object's first copy */
  uint8_t skip[2];                /* the player's first copy is not drawn on this line */
  uint8_t reflect;                /* CTRLPF's reflection bit as it applies to the right half of this line */
  uint8_t comb;                   /* the next drawn line starts with black pixels */
  uint8_t comb_line;              /* the current line starts with black pixels */
  uint8_t ark, ark_count, ark_m0; /* state of tia_ark_step; ark_m0: missile 0 is 1 wider, 2 hidden */
  uint8_t buffer;                 /* index of the image being drawn */
  uint8_t flushed;                /* pixels of this line that are in the image */
  uint8_t dirty;                  /* objects with outdated masks, and DIRTY_LAYERS */
  uint16_t collisions;            /* two bits for each register, CXM0P lowest */

  struct atari_mask mask[ATARI_OBJECTS];
  struct atari_mask overlap;  /* pixels that more than one object lights */
  struct atari_mask layer[3]; /* P0 and M0, P1 and M1, PF and BL; score mode moves PF to the players */
  struct atari_mask line[3];  /* the layers of this line's pixels that are not flushed */
};

struct atari_fetcher {
  uint16_t counter;
  uint8_t top, bottom, flag, music;
};

struct atari_cartridge {
  uint32_t slice[4]; /* offset in the ROM of each kilobyte of the address space */
  uint8_t ram[128];  /* the Superchip's RAM */
  struct atari_fetcher fetcher[8];
  uint8_t random;        /* DPC */
  int32_t music_cycle;   /* cycle of the music fetchers' last update */
  double music_fraction; /* fraction of a music clock at that update */
};

struct atari {
  int32_t cycles;
  uint8_t frame_over; /* the frame ends with this instruction */
  uint8_t unfinished; /* the last call stopped before its frame ended */
  uint8_t draw;       /* 0: the frame's image is not drawn */
  uint8_t latch;      /* the last byte on the bus, for code outside ROM */

  /* Set by the user. */
  uint8_t swcha, swchb; /* joysticks and switches, 0: pressed */
  uint8_t button[2];    /* 1: not pressed (bit 7 of INPT4, 5) */
  uint8_t paddle[4];    /* 0: reads 0, 1: reads 1, 2: reads 1 after `charge` cycles */
  uint32_t charge[4];   /* cycles until the capacitor is charged */
  uint8_t comb_exists;  /* this cartridge is shown with HMOVE's comb */
  uint8_t pal;
  int16_t first_line, rows; /* the lines of the image */

  struct atari_cpu cpu;
  struct atari_riot riot;
  struct atari_tia tia;
  struct atari_cartridge cart;
  uint8_t ram[128];
  uint8_t image[2][ATARI_ROWS * ATARI_WIDTH]; /* colour bytes */
};

enum atari_scheme { ATARI_4K, ATARI_F8, ATARI_F6, ATARI_E0, ATARI_F8SC, ATARI_F6SC, ATARI_FE, ATARI_DPC };

/* A cartridge's ROM, which machines share. A ROM of 2 KB is stored as two copies. */
struct atari_rom {
  const uint8_t *image;
  uint32_t size;
  uint32_t scheme;
  /* The addresses of 4 KB where an access moves no bank and reaches no RAM: first and count. */
  uint32_t plain_from, plain_span;
  const uint32_t *code; /* the ROM decoded by code.h, one word for each byte */
};

#endif
