/* Section 11 of paceline.h: the Atari console. */
#include "shim.h"

int paceline_console_new(paceline_console **out, const char *rom, const char *game, int other_md5, uint32_t seed,
                         double repeat_action_probability, uint32_t frame_skip) {
  ENTER;
  NEED(out);
  if (rom != NULL) PATH(rom);
  if (game != NULL) TEXT(game, PL_LONGEST_NAME);
  MAKE(out, pacelineGoConsoleNew(&made, (char *)rom, (char *)game, other_md5, seed, repeat_action_probability,
                                 frame_skip, &why));
}

int paceline_rom_folder(const char *path) {
  ENTER;
  PATH(path);
  return GO(pacelineGoROMFolder((char *)path, &why));
}

int paceline_rom_identify(char **out, const char *path) {
  ENTER;
  NEED(out);
  PATH(path);
  return GO(pacelineGoROMIdentify(out, (char *)path, &why));
}

int paceline_console_set(paceline_console *c, const char *name, const char *value) {
  ENTER;
  NEED(c);
  TEXT(name, PL_LONGEST_NAME);
  TEXT(value, PL_LONGEST_NAME);
  return GO(pacelineGoConsoleSet(id(c), (char *)name, (char *)value, &why));
}

int paceline_console_reset(paceline_console *c) {
  ENTER;
  NEED(c);
  return GO(pacelineGoConsoleReset(id(c), &why));
}

int paceline_console_act(int32_t *reward, paceline_console *c, int32_t action, float strength) {
  ENTER;
  NEED(reward, c);
  return GO(pacelineGoConsoleAct(reward, id(c), action, strength, &why));
}

int paceline_console_view(const paceline_console_state **out, const paceline_console *c) {
  ENTER;
  NEED(out, c);
  return GO(pacelineGoConsoleView((paceline_console_state **)out, id(c), &why));
}

int paceline_console_list(int32_t *out, size_t capacity, size_t *count, const paceline_console *c, uint32_t which) {
  ENTER;
  if (capacity > 0) NEED(out);
  NEED(count, c);
  return GO(pacelineGoConsoleList(out, capacity, count, id(c), which, &why));
}

int paceline_console_ram(uint8_t *out, paceline_console *c) {
  ENTER;
  NEED(out, c);
  return GO(pacelineGoConsoleRAM(out, id(c), &why));
}

int paceline_console_poke(paceline_console *c, uint32_t index, uint8_t value) {
  ENTER;
  NEED(c);
  return GO(pacelineGoConsolePoke(id(c), index, value, &why));
}

int paceline_console_screen(uint8_t *out, size_t size, paceline_console *c, uint32_t kind) {
  ENTER;
  NEED(out, c);
  return GO(pacelineGoConsoleScreen(out, size, id(c), kind, &why));
}

int paceline_console_save(void *out, size_t *size, paceline_console *c, int with_rng) {
  ENTER;
  NEED(size, c);
  return GO(pacelineGoConsoleSave(out, size, id(c), with_rng, &why));
}

int paceline_console_restore(paceline_console *c, const void *state, size_t size) {
  ENTER;
  NEED(c, state);
  return GO(pacelineGoConsoleRestore(id(c), (void *)state, size, &why));
}

FREE(console, pacelineGoConsoleFree)
