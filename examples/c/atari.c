/*
 * Atari from C: steps eight environments of a game together, with the observations of a learner,
 * then plays one console frame by frame and writes its last frame to a file. See ../README.md for
 * the build.
 *
 *     atari [game] [folder with ROM files]      default: pong, $PACELINE_ROMS_DIR
 */
#define _POSIX_C_SOURCE 199309L
#include <paceline.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TRY(call)                                                                      \
  do {                                                                                 \
    int status = (call);                                                               \
    if (status != PACELINE_OK) {                                                       \
      fprintf(stderr, "%s: %s\n", paceline_status_str(status), paceline_last_error()); \
      return 1;                                                                        \
    }                                                                                  \
  } while (0)

enum { ENVS = 8, STEPS = 500, FRAMES_A_STEP = 4 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Takes random actions in all environments. obs has eight rows of uint8 [4, 84, 84]. */
static int step_many(const char *game) {
  char id[80];
  snprintf(id, sizeof id, "atari/%s", game);
  paceline_vec *vec;
  paceline_vec_options options = {.struct_size = sizeof options,
                                  .num_envs = ENVS,
                                  .autoreset = PACELINE_SAME_STEP,
                                  .pin = -1,
                                  .env_options = "{\"recipe\": \"mnih2015\"}"};
  TRY(paceline_vec_new(&vec, id, &options));
  paceline_spec obs = {.struct_size = sizeof obs}, action = {.struct_size = sizeof action};
  TRY(paceline_vec_spec(&obs, &action, vec));

  const size_t size = (size_t)(ENVS * obs.shape[0] * obs.shape[1] * obs.shape[2]);
  double rewards[ENVS];
  uint8_t terminated[ENVS], truncated[ENVS], *frames = malloc(2 * size);
  if (frames == NULL) return 1;
  paceline_rows rows = {.struct_size = sizeof rows,
                        .num_rows = ENVS,
                        .obs = frames,
                        .final_obs = frames + size,
                        .rewards = rewards,
                        .terminated = terminated,
                        .truncated = truncated};
  TRY(paceline_vec_reset(vec, NULL, NULL, &rows));
  double began = now(), sum = 0;
  int episodes = 0;
  for (int step = 0; step < STEPS; step++) {
    int32_t actions[ENVS];
    for (int i = 0; i < ENVS; i++) actions[i] = rand() % (int)action.n;
    TRY(paceline_vec_step(vec, actions, &rows));
    for (int i = 0; i < ENVS; i++) {
      sum += rewards[i];
      episodes += terminated[i] || truncated[i];
    }
  }
  printf("%s: %d steps of %d environments, %.0f frames/s, %d episodes, sum of clipped rewards %.0f\n", id, STEPS, ENVS,
         STEPS * ENVS * FRAMES_A_STEP / (now() - began), episodes, sum);
  free(frames);
  paceline_vec_free(vec);
  return 0;
}

/* Plays one console as in ALE: seed 1, sticky actions, one frame for each act. */
static int play_one(const char *game, const char *image) {
  paceline_console *console;
  TRY(paceline_console_new(&console, NULL, game, 0, 1, 0.25, 1));
  const paceline_console_state *state;
  TRY(paceline_console_view(&state, console));
  int32_t actions[18], reward, score = 0;
  size_t count;
  TRY(paceline_console_list(actions, 18, &count, console, PACELINE_MINIMAL_ACTIONS));
  while (!state->ended && state->episode_frame_number < 600) {
    TRY(paceline_console_act(&reward, console, actions[(size_t)rand() % count], 1));
    score += reward;
  }
  printf("%s: frame %lld, score %d, lives %d\n", state->game, (long long)state->episode_frame_number, score,
         state->lives);

  const size_t size = 3 * (size_t)state->width * state->height;
  uint8_t *rgb = malloc(size);
  if (rgb == NULL) return 1;
  TRY(paceline_console_screen(rgb, size, console, PACELINE_SCREEN_RGB));
  FILE *file = fopen(image, "wb");
  if (file == NULL) return perror(image), 1;
  fprintf(file, "P6\n%u %u\n255\n", state->width, state->height);
  fwrite(rgb, 1, size, file);
  free(rgb);
  paceline_console_free(console);
  return fclose(file) == 0 ? printf("wrote %s\n", image), 0 : 1;
}

int main(int argc, char **argv) {
  const char *game = argc > 1 ? argv[1] : "pong";
  if (argc > 2) TRY(paceline_rom_folder(argv[2]));
  return step_many(game) || play_one(game, "atari.ppm");
}
