/* The Atari console: every function with valid and invalid input. The cartridge is a program of
 * this test, named as Tetris: no game's ROM is needed. */
#include <pthread.h>

#include "t.h"

#define INVALID(call, says) FAILS(call, PACELINE_EINVAL, says)
#define NIL(call, name) INVALID(call, name ": NULL")

/* By the rules of Tetris the score is in $F1 and $F2, and the game is over when bit 7 of $F3 is
 * set. The program stores SWCHA in $80 and counts frames in $84. */
static const uint8_t program[] = {
    0xD8,                                           /* CLD */
    0xA2, 0xFF, 0x9A,                               /* LDX #$FF, TXS */
    0xA9, 0x00, 0x85, 0xF1, 0x85, 0xF2, 0x85, 0xF3, /* $F1, $F2, $F3 = 0 */
    0x85, 0x02, 0xA9, 0x02, 0x85, 0x00, 0x85, 0x02, 0x85, 0x02, 0x85, 0x02, 0xA9, 0x00, 0x85, 0x00, /* frame: VSYNC */
    0xE6, 0x84, 0xA5, 0x84, 0x85, 0x09,                                           /* INC $84, COLUBK = $84 */
    0xAD, 0x80, 0x02, 0x85, 0x80,                                                 /* $80 = SWCHA */
    0x24, 0x80, 0x30, 0x09, 0xF8, 0x18, 0xA5, 0xF1, 0x69, 0x01, 0x85, 0xF1, 0xD8, /* RIGHT: $F1 + 1 */
    0x24, 0x80, 0x70, 0x04, 0xA9, 0x80, 0x85, 0xF3,                               /* LEFT: game over */
    0xAD, 0x82, 0x02, 0x4A, 0xB0, 0x06, 0xA9, 0x00, 0x85, 0xF1, 0x85, 0xF3,       /* RESET: start */
    0xA2, 0xFA, 0x85, 0x02, 0xCA, 0xD0, 0xFB,                                     /* 250 lines */
    0x4C, 0x0C, 0xF0,                                                             /* JMP frame */
};

enum { RIGHT = 3, LEFT = 4, HEIGHT = 210, WIDTH = 160 };

static const char *file(const char *name, size_t size) {
  const char *path = tmp(name);
  FILE *f = fopen(path, "wb");
  CHECK(f != NULL);
  uint8_t image[4096] = {0};
  memcpy(image, program, sizeof program);
  image[4093] = image[4095] = 0xF0;
  for (size_t i = 0; i < size; i += sizeof image)
    CHECK(fwrite(image, 1, size - i < sizeof image ? size - i : sizeof image, f) > 0);
  CHECK(fclose(f) == 0);
  return path;
}

static paceline_console *new_console(uint32_t seed, double sticky) {
  paceline_console *c = NULL;
  OK(paceline_console_new(&c, file("tetris.bin", 4096), NULL, 1, seed, sticky, 1));
  CHECK(c != NULL);
  return c;
}

static const paceline_console_state *view(const paceline_console *c) {
  const paceline_console_state *v = NULL;
  OK(paceline_console_view(&v, c));
  CHECK(v != NULL && v->struct_size == sizeof *v);
  return v;
}

static int32_t act(paceline_console *c, int32_t action) {
  int32_t reward = -77;
  OK(paceline_console_act(&reward, c, action, 1));
  return reward;
}

static void set(paceline_console *c, const char *name, const char *value) { OK(paceline_console_set(c, name, value)); }

/* The values of "reset". Stored starts are a function of the seed. */
static void resets(void) {
  uint8_t first[2][8][128];
  for (int k = 0; k < 2; k++) {
    paceline_console *c = new_console(5, 0);
    set(c, "reset", "cached");
    for (int i = 0; i < 8; i++) {
      OK(paceline_console_reset(c));
      OK(paceline_console_ram(first[k][i], c));
    }
    set(c, "reset", "ale");
    OK(paceline_console_reset(c));
    CHECK(view(c)->episode_frame_number == 0);
    paceline_console_free(c);
  }
  CHECK(memcmp(first[0], first[1], sizeof first[0]) == 0);
}

/* ------------------------------------------------------------- cartridges */

static void cartridges(void) {
  paceline_console *c = (void *)1;
  char *text = (char *)1;
  char path[4096]; /* tmp reuses its buffers */
  snprintf(path, sizeof path, "%s", file("tetris.bin", 4096));

  NIL(paceline_console_new(NULL, path, NULL, 0, 0, 0, 1), "out");
  INVALID(paceline_console_new(&c, NULL, NULL, 0, 0, 0, 1), "rom: NULL");
  INVALID(paceline_console_new(&c, path, NULL, 1, 0, -0.5, 1), "repeat_action_probability: -0.5, must be 0 to 1");
  INVALID(paceline_console_new(&c, path, NULL, 1, 0, NAN, 1), "repeat_action_probability: NaN");
  INVALID(paceline_console_new(&c, path, NULL, 1, 0, 0, 0), "frame_skip: 0");
  INVALID(paceline_console_new(&c, path, NULL, 1, 0, 0, UINT32_MAX), "frame_skip: 4294967295");
  INVALID(paceline_console_new(&c, path, "tetris", 0, 0, 0, 1),
          "must be tetris.bin's, b0e1ee07fbc73493eac5651a52f90f00");
  INVALID(paceline_console_new(&c, path, "tetrus", 0, 0, 0, 1), "did you mean tetris");
  INVALID(paceline_console_new(&c, path, "combat", 0, 0, 0, 1), "cannot be played");
  INVALID(paceline_console_new(&c, path, "", 0, 0, 0, 1), "game");
  INVALID(paceline_console_new(&c, path, "te\xFFtris", 0, 0, 0, 1), "game");
  INVALID(paceline_console_new(&c, file("mine.bin", 4096), NULL, 1, 0, 0, 1), "neither its MD5");
  INVALID(paceline_console_new(&c, path, NULL, 0, 0, 0, 1), "other_md5 finds the game by the name of the file");
  INVALID(paceline_console_new(&c, file("pong.bin", 4095), NULL, 1, 0, 0, 1), "4095 bytes, must be 2048, 4096");
  INVALID(paceline_console_new(&c, file("pong.bin", 2 << 20), NULL, 1, 0, 0, 1), "no cartridge is larger");
  INVALID(paceline_console_new(&c, tmp("."), NULL, 0, 0, 0, 1), "must be a file");
  CHECK(paceline_console_new(&c, tmp("none.bin"), NULL, 0, 0, 0, 1) != PACELINE_OK);
  CHECK(strstr(paceline_last_error(), "none.bin") != NULL);
  CHECK(paceline_console_new(&c, NULL, "tetris", 0, 0, 0, 1) != PACELINE_OK);
  CHECK(strstr(paceline_last_error(), "tetris.bin") != NULL &&
        strstr(paceline_last_error(), "no folder is known") != NULL);
  CHECK(c == (void *)1);

  NIL(paceline_rom_folder(NULL), "path");
  OK(paceline_rom_folder(tmp("")));
  OK(paceline_rom_folder(tmp("no such folder")));
  CHECK(paceline_console_new(&c, NULL, "tetris", 0, 0, 0, 1) != PACELINE_OK); /* found, with other bytes */
  CHECK(strstr(paceline_last_error(), "MD5") != NULL);
  CHECK(paceline_console_new(&c, NULL, "breakout", 0, 0, 0, 1) != PACELINE_OK);
  CHECK(strstr(paceline_last_error(), "no such folder") != NULL);

  NIL(paceline_rom_identify(NULL, path), "out");
  NIL(paceline_rom_identify(&text, NULL), "path");
  CHECK(paceline_rom_identify(&text, tmp("none.bin")) != PACELINE_OK && text == (char *)1);
  OK(paceline_rom_identify(&text, path));
  CHECK(text[0] == '\0');
  paceline_string_free(text);

  for (uint32_t size = 2048; size <= 16384; size *= 2) {
    OK(paceline_console_new(&c, file("tetris.bin", size), NULL, 1, UINT32_MAX, 1, 4));
    act(c, RIGHT);
    paceline_console_free(c);
  }
}

/* -------------------------------------------------------------------- play */

static void play(void) {
  paceline_console *c = new_console(1, 0);
  const paceline_console_state *v = view(c), *u = NULL;
  int32_t reward = -77;

  CHECK(strcmp(v->game, "tetris") == 0 && v->height == HEIGHT && v->width == WIDTH && v->pal == 0);
  CHECK(v->ended == 0 && v->lives == 0 && v->mode == 0 && v->difficulty == 0 && v->episode_frame_number == 0);
  CHECK(act(c, RIGHT) == 1 && act(c, 0) == 0);
  CHECK(view(c) == v && v->episode_frame_number == 2); /* the view is updated */

  /* Other actions count as NOOP. */
  const int32_t others[] = {-1, 18, 40, INT32_MAX, INT32_MIN};
  for (int i = 0; i < 5; i++) {
    uint8_t ram[128];
    CHECK(act(c, others[i]) == 0);
    OK(paceline_console_ram(ram, c));
    CHECK(ram[0] == 0xFF);
  }
  const float turns[] = {90001, -90001, NAN, INFINITY};
  for (int i = 0; i < 4; i++) INVALID(paceline_console_act(&reward, c, RIGHT, turns[i]), "strength: ");
  OK(paceline_console_act(&reward, c, RIGHT, -1));
  CHECK(reward == 1);

  set(c, "frame_skip", "4");
  CHECK(act(c, RIGHT) == 4);
  set(c, "reward_min", "-1");
  set(c, "reward_max", "1");
  CHECK(act(c, RIGHT) == 1);
  set(c, "reward_max", "-1");
  CHECK(act(c, RIGHT) == 4);
  set(c, "frame_skip", "1");
  set(c, "max_num_frames_per_episode", "1");
  CHECK(v->ended == PACELINE_TRUNCATED);
  set(c, "max_num_frames_per_episode", "0");
  CHECK(v->ended == 0);

  act(c, LEFT);
  CHECK(v->ended == PACELINE_TERMINATED);
  const int64_t frames = v->frame_number;
  CHECK(act(c, RIGHT) == 0 && v->frame_number == frames);
  OK(paceline_console_reset(c));
  CHECK(v->ended == 0 && v->episode_frame_number == 0 && act(c, RIGHT) == 1);

  NIL(paceline_console_reset(NULL), "c");
  NIL(paceline_console_act(&reward, NULL, 0, 1), "c");
  NIL(paceline_console_act(NULL, c, 0, 1), "reward");
  NIL(paceline_console_view(NULL, c), "out");
  NIL(paceline_console_view(&u, NULL), "c");
  CHECK(u == NULL);
  paceline_console_free(c);
}

static void settings(void) {
  paceline_console *c = new_console(1, 0);
  NIL(paceline_console_set(NULL, "frame_skip", "1"), "c");
  NIL(paceline_console_set(c, NULL, "1"), "name");
  NIL(paceline_console_set(c, "frame_skip", NULL), "value");
  const char *const wrong[][3] = {
      {"frame_skip", "0", "frame_skip: 0, must be 1 to 1048576"},
      {"frame_skip", "2000000000", "frame_skip: 2000000000, must be 1 to 1048576"},
      {"frame_skip", "-3", "frame_skip: -3"},
      {"frame_skip", "two", "frame_skip: \"two\""},
      {"frame_skip", "1.5", "frame_skip: \"1.5\""},
      {"frame_skip", "99999999999", "frame_skip: \"99999999999\""},
      {"frame_skip", "", "frame_skip: \"\""},
      {"repeat_action_probability", "1.01", "repeat_action_probability: 1.01, must be 0 to 1"},
      {"repeat_action_probability", "-1e-9", "repeat_action_probability: -1e-09"},
      {"repeat_action_probability", "nan", "repeat_action_probability: NaN"},
      {"repeat_action_probability", "often", "repeat_action_probability: \"often\""},
      {"max_num_frames_per_episode", "-1", "max_num_frames_per_episode: -1"},
      {"reward_min", "much", "reward_min: \"much\""},
      {"reward_max", "1e3", "reward_max: \"1e3\""},
      {"reset", "quick", "reset: \"quick\", must be ale or cached"},
      {"color_averaging", "perhaps", "color_averaging: \"perhaps\""},
      {"mode", "1", "mode: 1, tetris has [0]"},
      {"mode", "", "mode: \"\""},
      {"difficulty", "4", "difficulty: 4, tetris has"},
      {"difficulty", "A", "difficulty: \"A\""},
      {"frameskip", "1", "did you mean frame_skip"},
      {"", "1", "is not a setting"},
      {"an unknown setting", "1", "the settings are frame_skip, repeat_action_probability"},
      {"frame_skip", "\xC3", "value"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    INVALID(paceline_console_set(c, wrong[i][0], wrong[i][1]), wrong[i][2]);
  const paceline_console_state *v = view(c);
  act(c, 0);
  CHECK(v->episode_frame_number == 1); /* no refused setting has changed */
  set(c, "mode", "0");
  set(c, "difficulty", "0");
  set(c, "color_averaging", "true");
  set(c, "repeat_action_probability", "1");
  CHECK(act(c, RIGHT) == 0);
  paceline_console_free(c);
}

/* ----------------------------------------------------------------- screens */

static void looks(void) {
  static uint8_t colours[HEIGHT * WIDTH], grey[HEIGHT * WIDTH], rgb[HEIGHT * WIDTH * 3];
  paceline_console *c = new_console(1, 0);
  int32_t list[32];
  size_t count = 0;
  uint8_t ram[128], again[128];

  act(c, RIGHT);
  OK(paceline_console_screen(colours, sizeof colours, c, PACELINE_SCREEN_COLOUR));
  OK(paceline_console_screen(grey, sizeof grey, c, PACELINE_SCREEN_GREY));
  OK(paceline_console_screen(rgb, sizeof rgb, c, PACELINE_SCREEN_RGB));
  OK(paceline_console_ram(ram, c));
  CHECK(colours[100 * WIDTH + 80] == (ram[4] & 0xFE));
  for (size_t i = 1; i < sizeof grey; i++) /* one grey level for each colour */
    CHECK(colours[i] != colours[i - 1] || (grey[i] == grey[i - 1] && memcmp(rgb + 3 * i, rgb + 3 * i - 3, 3) == 0));
  INVALID(paceline_console_screen(colours, sizeof colours - 1, c, PACELINE_SCREEN_COLOUR),
          "size: 33599, must be 33600");
  INVALID(paceline_console_screen(colours, sizeof colours, c, PACELINE_SCREEN_RGB), "size: 33600, must be 100800");
  INVALID(paceline_console_screen(rgb, sizeof rgb, c, PACELINE_SCREEN_GREY), "size: 100800, must be 33600");
  INVALID(paceline_console_screen(colours, 0, c, 0), "size: 0");
  INVALID(paceline_console_screen(colours, SIZE_MAX, c, 0), "size: ");
  uint8_t observed[84 * 84];
  memset(observed, 1, sizeof observed);
  OK(paceline_console_screen(observed, sizeof observed, c, PACELINE_SCREEN_OBSERVED));
  long sum = 0, whole = 0;
  for (size_t i = 0; i < sizeof observed; i++) sum += observed[i];
  for (size_t i = 0; i < sizeof grey; i++) whole += grey[i];
  CHECK(sum / 7056 >= whole / (long)sizeof grey); /* a maximum of two frames: at least as bright as the last one */
  INVALID(paceline_console_screen(colours, sizeof colours, c, PACELINE_SCREEN_OBSERVED), "size: 33600, must be 7056");
  INVALID(paceline_console_screen(colours, sizeof colours, c, 4), "kind: 4");
  INVALID(paceline_console_screen(colours, sizeof colours, c, UINT32_MAX), "kind: 4294967295");
  NIL(paceline_console_screen(NULL, sizeof colours, c, 0), "out");
  NIL(paceline_console_screen(colours, sizeof colours, NULL, 0), "c");

  CHECK(ram[0] == 0x7F && ram[0x71] == 1);
  OK(paceline_console_poke(c, 0x71, 0x98));
  OK(paceline_console_ram(again, c));
  CHECK(again[0x71] == 0x98);
  CHECK(act(c, 0) == 97); /* the score comes from RAM */
  INVALID(paceline_console_poke(c, 128, 0), "index: 128, must be 0 to 127");
  INVALID(paceline_console_poke(c, UINT32_MAX, 0), "index: 4294967295");
  NIL(paceline_console_poke(NULL, 0, 0), "c");
  NIL(paceline_console_ram(NULL, c), "out");
  NIL(paceline_console_ram(ram, NULL), "c");

  /* Tetris: NOOP, FIRE, RIGHT, LEFT, DOWN. */
  const int32_t minimal[] = {0, 1, 3, 4, 5};
  memset(list, 0xAA, sizeof list);
  OK(paceline_console_list(list, 32, &count, c, PACELINE_MINIMAL_ACTIONS));
  CHECK(count == 5 && memcmp(list, minimal, sizeof minimal) == 0 && list[5] == (int32_t)0xAAAAAAAA);
  OK(paceline_console_list(list, 2, &count, c, PACELINE_LEGAL_ACTIONS));
  CHECK(count == 18 && list[0] == 0 && list[1] == 1 && list[2] == 3); /* the first three numbers */
  OK(paceline_console_list(NULL, 0, &count, c, PACELINE_MODES));
  CHECK(count == 1);
  OK(paceline_console_list(list, SIZE_MAX, &count, c, PACELINE_DIFFICULTIES));
  CHECK(count >= 1 && list[0] == 0);
  INVALID(paceline_console_list(list, 32, &count, c, 4), "which: 4");
  NIL(paceline_console_list(NULL, 1, &count, c, 0), "out");
  NIL(paceline_console_list(list, 32, NULL, c, 0), "count");
  NIL(paceline_console_list(list, 32, &count, NULL, 0), "c");
  paceline_console_free(c);
}

/* ------------------------------------------------------------------ states */

static void states(void) {
  paceline_console *a = new_console(5, 0.25), *b = new_console(6, 0.25);
  static uint8_t one[HEIGHT * WIDTH], other[HEIGHT * WIDTH];
  size_t size = 0, small = 10;
  for (int i = 0; i < 30; i++) act(a, i % 4);
  act(b, RIGHT);
  OK(paceline_console_save(NULL, &size, a, 1));
  CHECK(size > 2 * sizeof one && size < 84 * 1024 + 8192);
  uint8_t *state = malloc(size + 1), *second = malloc(size);
  CHECK(state != NULL && second != NULL);
  INVALID(paceline_console_save(state, &small, a, 1), "size: 10, must be at least");
  CHECK(small == 10);
  NIL(paceline_console_save(state, NULL, a, 1), "size");
  NIL(paceline_console_save(state, &size, NULL, 1), "c");
  size_t given = size + 1;
  OK(paceline_console_save(state, &given, a, 1));
  CHECK(given == size);

  OK(paceline_console_restore(b, state, size));
  OK(paceline_console_save(second, &size, b, 1));
  CHECK(memcmp(state, second, size) == 0);
  CHECK(view(b)->frame_number == view(a)->frame_number && view(b)->episode_frame_number == 30);
  for (int i = 0; i < 200; i++) {
    const int32_t action = i * 7 % 4;
    CHECK(act(a, action) == act(b, action));
    OK(paceline_console_screen(one, sizeof one, a, 0));
    OK(paceline_console_screen(other, sizeof other, b, 0));
    CHECK(memcmp(one, other, sizeof one) == 0);
  }

  /* A refused restore changes nothing. */
  OK(paceline_console_save(second, &size, b, 1));
  uint8_t *now = malloc(size);
  CHECK(now != NULL);
  INVALID(paceline_console_restore(b, state, size - 1), "state: ");
  INVALID(paceline_console_restore(b, state, size + 1), "state: ");
  INVALID(paceline_console_restore(b, state, 0), "state: 0 bytes");
  INVALID(paceline_console_restore(b, state, SIZE_MAX), "size: ");
  INVALID(paceline_console_restore(b, one, sizeof one), "state: ");
  state[size / 2] ^= 1;
  INVALID(paceline_console_restore(b, state, size), "state: its checksum is wrong");
  state[size / 2] ^= 1;
  NIL(paceline_console_restore(NULL, state, size), "c");
  NIL(paceline_console_restore(b, NULL, size), "state");
  paceline_console *kaboom = NULL;
  OK(paceline_console_new(&kaboom, file("kaboom.bin", 2048), NULL, 1, 0, 0, 1));
  INVALID(paceline_console_restore(kaboom, state, size), "state: of the cartridge with MD5");
  paceline_console_free(kaboom);
  OK(paceline_console_save(now, &size, b, 1));
  CHECK(memcmp(now, second, size) == 0);
  free(now), free(state), free(second);
  paceline_console_free(a);
  paceline_console_free(b);
}

/* ----------------------------------------------------------------- handles */

static void handles(void) {
  paceline_console *freed = new_console(1, 0), *c = new_console(1, 0);
  const char *const none[] = {NULL};
  paceline_config *cfg = config(none);
  paceline_console *const bad[] = {freed, (paceline_console *)cfg, (paceline_console *)&c, (paceline_console *)8};
  const paceline_console_state *v;
  int32_t number;
  size_t size = 0;
  uint8_t ram[128];
  paceline_console_free(freed);
  for (int i = 0; i < 4; i++) {
    paceline_console *x = bad[i];
    STATUS(paceline_console_set(x, "frame_skip", "1"), PACELINE_EHANDLE);
    STATUS(paceline_console_reset(x), PACELINE_EHANDLE);
    STATUS(paceline_console_act(&number, x, 0, 1), PACELINE_EHANDLE);
    STATUS(paceline_console_view(&v, x), PACELINE_EHANDLE);
    STATUS(paceline_console_list(&number, 1, &size, x, 0), PACELINE_EHANDLE);
    STATUS(paceline_console_ram(ram, x), PACELINE_EHANDLE);
    STATUS(paceline_console_poke(x, 0, 0), PACELINE_EHANDLE);
    STATUS(paceline_console_screen(ram, 128, x, 0), PACELINE_EHANDLE);
    STATUS(paceline_console_save(NULL, &size, x, 0), PACELINE_EHANDLE);
    STATUS(paceline_console_restore(x, ram, 128), PACELINE_EHANDLE);
  }
  STATUS(paceline_config_set((paceline_config *)c, "env", ""), PACELINE_EHANDLE);
  paceline_console_free(freed);
  paceline_console_free(NULL);
  paceline_console_free((paceline_console *)cfg);
  OK(paceline_config_set(cfg, "seed", "1")); /* paceline_console_free did not free it */
  paceline_config_free(cfg);
  CHECK(act(c, RIGHT) == 1);
  paceline_console_free(c);
}

/* ----------------------------------------------------------------- threads */

static _Atomic int quit;

static void *act_on(void *c) {
  int32_t reward;
  while (!quit) {
    int status = paceline_console_act(&reward, c, RIGHT, 1);
    CHECK(status == PACELINE_OK || status == PACELINE_EBUSY);
  }
  return NULL;
}

/* Functions of a const console are never busy. The others may be, and then change nothing. */
static void threads(void) {
  paceline_console *c = new_console(1, 0);
  pthread_t other;
  OK(paceline_console_set(c, "frame_skip", "300"));
  pthread_create(&other, NULL, act_on, c);
  int busy = 0;
  for (double began = now(); now() - began < 200 && busy < 50;) {
    const paceline_console_state *v;
    int32_t list[32];
    size_t count, size = 3;
    uint8_t ram[128] = {0xEE}, frame[HEIGHT * WIDTH] = {0xEE};
    OK(paceline_console_view(&v, c));
    OK(paceline_console_list(list, 32, &count, c, PACELINE_MINIMAL_ACTIONS));
    CHECK(v == view(c) && count == 5);
    int calls[] = {paceline_console_ram(ram, c), paceline_console_screen(frame, sizeof frame, c, 0),
                   paceline_console_save(NULL, &size, c, 0)};
    for (int i = 0; i < 3; i++) {
      CHECK(calls[i] == PACELINE_OK || calls[i] == PACELINE_EBUSY);
      busy += calls[i] == PACELINE_EBUSY;
    }
    CHECK(calls[0] == PACELINE_OK || ram[0] == 0xEE);
    CHECK(calls[1] == PACELINE_OK || frame[0] == 0xEE);
    CHECK(calls[2] == PACELINE_OK || size == 3);
  }
  CHECK(busy >= 50);
  quit = 1;
  pthread_join(other, NULL);
  paceline_console_free(c);
}

int main(int argc, char **argv) {
  (void)argc;
  /* Go copies the environment variables while the library is loaded, concurrently with main: start
   * the program again. */
  if (getenv("PACELINE_ROMS_DIR") != NULL || getenv("ALE_ROMS_DIR") != NULL) {
    unsetenv("PACELINE_ROMS_DIR");
    unsetenv("ALE_ROMS_DIR");
    execv("/proc/self/exe", argv);
    return 1;
  }
  cartridges();
  play();
  settings();
  resets();
  looks();
  states();
  handles();
  threads();
  return 0;
}
