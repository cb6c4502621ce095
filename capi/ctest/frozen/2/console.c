/* The Atari console, with a cartridge that only loops. */
#include "try.h"

int main(void) {
  unsigned char image[4096] = {0x4C, 0x00, 0xF0}; /* JMP $F000 */
  image[4093] = image[4095] = 0xF0;
  char rom[4096];
  snprintf(rom, sizeof rom, "%s", tmp("nothing.bin"));
  FILE *f = fopen(rom, "wb");
  NEED(f != NULL && fwrite(image, sizeof image, 1, f) == 1 && fclose(f) == 0);
  paceline_console *c;
  const paceline_console_state *s;
  char *game;
  int32_t reward = -1, list[32];
  size_t n, size;
  uint8_t ram[128];
  TRY(paceline_rom_identify(&game, rom));
  NEED(game[0] == 0);
  paceline_string_free(game);
  TRY(paceline_console_new(&c, rom, "tetris", 1, 1, 0.25, 4));
  TRY(paceline_console_set(c, "frame_skip", "2"));
  TRY(paceline_console_view(&s, c));
  NEED(s->struct_size >= sizeof *s && s->width == 160 && strcmp(s->game, "tetris") == 0);
  TRY(paceline_console_act(&reward, c, 0, 1));
  NEED(reward == 0);
  TRY(paceline_console_list(list, 32, &n, c, PACELINE_LEGAL_ACTIONS));
  NEED(n == 18 && list[17] == 17);
  TRY(paceline_console_poke(c, 5, 77));
  TRY(paceline_console_ram(ram, c));
  NEED(ram[5] == 77);
  size_t pixels = (size_t)s->height * s->width;
  uint8_t *screen = malloc(3 * pixels);
  TRY(paceline_console_screen(screen, pixels, c, PACELINE_SCREEN_GREY));
  TRY(paceline_console_screen(screen, 3 * pixels, c, PACELINE_SCREEN_RGB));
  TRY(paceline_console_screen(screen, 84 * 84, c, PACELINE_SCREEN_OBSERVED));
  free(screen);
  TRY(paceline_console_save(NULL, &size, c, 1));
  void *state = malloc(size);
  TRY(paceline_console_save(state, &size, c, 1));
  TRY(paceline_console_restore(c, state, size));
  free(state);
  TRY(paceline_console_reset(c));
  paceline_console_free(c);
  return 0;
}
