/*
 * The state of an Atari 2600: plain numbers, so that a copy of the struct is a save
 * and a copy back a restore. See machine.h.
 */
#ifndef ATARI_STATE_H
#define ATARI_STATE_H

#include <stdint.h>

#ifndef ATARI_FN /* what stands before every function */
#define ATARI_FN static
#endif
#ifndef ATARI_INLINE /* before small ones */
#define ATARI_INLINE static inline
#endif
#ifndef ATARI_APART /* before those that are to stay out of the ones that call them */
#define ATARI_APART static
#endif
#ifndef ATARI_TABLE /* and before every table */
#define ATARI_TABLE static const
#endif

enum {
  ATARI_WIDTH = 160,
  ATARI_ROWS = 250, /* at most */
  ATARI_LINE = 228, /* colour clocks of a line; three to a CPU cycle */
  ATARI_BLANK = 68, /* of which so many before the first pixel */
};

#define ATARI_NEVER INT32_MAX

/*
 * Times. The CPU's cycles are counted from the start of the frame's first
 * instruction, and so are colour clocks; both begin anew with each frame, and the
 * times that others remember move with them.
 */

/* MOS 6507. */
struct atari_cpu {
  uint16_t pc;
  uint16_t nz; /* N and Z: see cpu_flags */
  uint8_t a, x, y, sp;
  uint8_t c, v, d, i;
  uint8_t jammed;
};

/* MOS 6532. The timer is not stepped: reading it computes what it would show. */
struct atari_riot {
  int32_t timer_set;  /* cycle of the write */
  int32_t timer_read; /* of the first read after it ran out */
  uint8_t timer, shift, timer_was_read, ddra;
};

/* 160 pixels, the leftmost in bit 0 of the first word. The last word is 0: the whole is as wide as a vector. */
struct atari_mask {
  uint64_t w[4];
};

enum { ATARI_P0, ATARI_P1, ATARI_M0, ATARI_M1, ATARI_BL, ATARI_PF, ATARI_OBJECTS };

struct atari_tia {
  int32_t frame_start;              /* colour clock of line 0 of the frame, 0 or below */
  int32_t window_start, window_end; /* of the lines that are the image's rows */
  int32_t draws_from; /* before this clock nothing is drawn: window_start, but after a reset in mid-frame */
  int32_t drawn;      /* the image exists up to this clock */
  int32_t line_start; /* of the line that `drawn` is in */
  int32_t due;        /* up to where it would be if nothing were put off */
  int32_t due_before; /* and before that */
  int32_t comb_start; /* start of the line that begins with HMOVE's eight black pixels ... */
  int32_t comb_first; /* ... and the first clock within it up to which the image was due */
  int32_t vsync_end;  /* when switching VSYNC off will end the frame */
  int32_t calm;       /* up to this clock nothing is special about a write: see tia_write */
  int32_t hmove_at;   /* the last HMOVE */
  int32_t dump_end;   /* cycle at which the paddles' capacitors were let go */
  int32_t lines;      /* of the last whole frame */

  /* Registers as written. */
  uint8_t vsync, vblank, ctrlpf, nusiz[2], refp[2], pf[3], enam[2], vdelp[2], vdelbl, resmp[2], hm[5];
  uint8_t colour[4];          /* P0, P1, PF, BK */
  uint8_t grp[2], old_grp[2]; /* as written, and as of the other player's last write */
  uint8_t enabl, old_enabl;

  uint8_t position[5];            /* pixel of each object's first copy */
  uint8_t skip[2];                /* the player's first copy is not drawn on this line */
  uint8_t reflect;                /* CTRLPF's bit, as the right half has it */
  uint8_t comb;                   /* the next line that is drawn begins with black pixels */
  uint8_t comb_line;              /* this one does */
  uint8_t ark, ark_count, ark_m0; /* the moving missile; ark_m0: 1 wider, 2 hidden */
  uint8_t buffer;                 /* which image is being drawn */
  uint8_t flushed;                /* pixels of this line that are in the image */
  uint8_t dirty;                  /* objects whose masks are out of date */
  uint16_t collisions;            /* two bits a register, CXM0P in the highest */

  struct atari_mask mask[ATARI_OBJECTS];
  struct atari_mask twice;    /* pixels that more than one object lights */
  struct atari_mask layer[3]; /* P0 and M0, P1 and M1, PF and BL, as the colours have them */
  struct atari_mask line[3];  /* the same of this line's pixels that are not flushed */
};

struct atari_fetcher {
  uint16_t counter;
  uint8_t top, bottom, flag, music;
};

struct atari_cartridge {
  uint32_t slice[4]; /* where each kilobyte of the address space begins in the ROM */
  uint8_t ram[128];  /* Superchip */
  struct atari_fetcher fetcher[8];
  uint8_t random;        /* DPC */
  int32_t music_cycle;   /* when the music was last brought up to date */
  double music_fraction; /* of a clock */
};

struct atari {
  int32_t cycles;
  uint8_t frame_over; /* the frame ends with this instruction */
  uint8_t unfinished; /* the last call stopped before its frame ended */
  uint8_t draw;       /* 0: this frame's image is not wanted */
  uint8_t latch;      /* the last byte on the bus, where code is not in ROM */

  /* Set by whoever plays. */
  uint8_t swcha, swchb; /* joysticks and switches, 0: pressed */
  uint8_t button[2];    /* 1: not pressed (bit 7 of INPT4, 5) */
  uint8_t paddle[4];    /* 0: reads 0, 1: reads 1, 2: when its capacitor is charged */
  uint32_t charge[4];   /* after so many cycles */
  uint8_t comb_exists;  /* this cartridge is shown with HMOVE's comb */
  uint8_t pal;
  int16_t first_line, rows; /* of the image */

  struct atari_cpu cpu;
  struct atari_riot riot;
  struct atari_tia tia;
  struct atari_cartridge cart;
  uint8_t ram[128];
  uint8_t image[2][ATARI_ROWS * ATARI_WIDTH]; /* colour bytes */
};

enum atari_scheme { ATARI_4K, ATARI_F8, ATARI_F6, ATARI_E0, ATARI_F8SC, ATARI_F6SC, ATARI_FE, ATARI_DPC };

/* A cartridge's ROM, which machines share; one of 2K is given twice, as 4K. */
struct atari_rom {
  const uint8_t *image;
  uint32_t size;
  uint32_t scheme;
  /* Of 4 KB: so many addresses where an access moves no bank and reaches no RAM. */
  uint32_t plain_from, plain_span;
  const uint32_t *code; /* the ROM as code.h has it, a word for a byte */
};

#endif
