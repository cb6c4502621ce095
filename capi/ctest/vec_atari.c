/* Atari games in a vector environment: recipes, infos, states, images, continuous actions. Tests
 * nothing if $PACELINE_ROMS_DIR has no file of Pong. */
#include "rows.h"

/* The descriptions of recipes. */
static void described(void) {
  const struct {
    const char *options, *says[3];
    int64_t shape[4];
    uint32_t ndim;
  } recipes[] = {
      {NULL, {"\"recipe\":\"ale\"", "\"name\":\"lives\"", "\"name\":\"episode_frame_number\""}, {4, 84, 84}, 3},
      {"{}", {"\"recipe\":\"ale\"", "\"env\":\"atari/pong\"", "\"action_low\":[]"}, {4, 84, 84}, 3},
      {"{\"recipe\": \"mnih2015\"}",
       {"\"recipe\":\"mnih2015\"", "\"recipe_hash\":\"", "\"name\":\"raw_reward\""},
       {4, 84, 84},
       3},
      {"{\"recipe\": \"stooke_abbeel\"}", {"\"recipe\":\"stooke_abbeel\"", "", ""}, {4, 104, 80}, 3},
      {"{\"obs_type\": \"rgb\", \"stack_num\": 2, \"img_height\": 50}", {"", "", ""}, {2, 50, 84, 3}, 4},
      {"{\"obs_type\": \"ram\", \"stack_num\": 1, \"ram_info\": true}",
       {"\"name\":\"ram\"", "\"len\":128", ""},
       {128},
       1},
      {"{\"continuous\": true}", {"\"action_low\":[0,-3.1415", "\"action_high\":[1,3.1415", ""}, {4, 84, 84}, 3},
  };
  for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
    paceline_vec *v = vec_of("Pong", 1, 0, 1, 0, recipes[i].options);
    char *text;
    OK(paceline_vec_describe(&text, v));
    for (int k = 0; k < 3; k++)
      if (strstr(text, recipes[i].says[k]) == NULL) {
        printf("%s: must contain %s\n", text, recipes[i].says[k]);
        exit(1);
      }
    paceline_spec obs = {.struct_size = sizeof obs}, action = {.struct_size = sizeof action};
    OK(paceline_vec_spec(&obs, &action, v));
    CHECK(obs.dtype == PACELINE_UINT8 && obs.ndim == recipes[i].ndim);
    for (uint32_t k = 0; k < obs.ndim; k++) CHECK(obs.shape[k] == recipes[i].shape[k]);
    if (strstr(text, "\"action_low\":[0") != NULL)
      CHECK(action.kind == PACELINE_BOX && action.dtype == PACELINE_FLOAT32 && action.ndim == 1 &&
            action.shape[0] == 3);
    else
      CHECK(action.kind == PACELINE_DISCRETE && action.n == 6);
    paceline_string_free(text);
    paceline_vec_free(v);
  }
  paceline_vec *v;
  paceline_vec_options o = vec_options(1, 0, 1, 0, "{\"recipe\": \"mnih2016\"}");
  FAILS(paceline_vec_new(&v, "Pong", &o), PACELINE_EINVAL, "recipe: ");
  o.env_options = "{\"frame_skip\": 4}";
  FAILS(paceline_vec_new(&v, "Pong", &o), PACELINE_EINVAL, "did you mean frameskip?");
}

/* The infos of a game equal the state of a console that plays the same actions. */
static void infos(void) {
  paceline_vec *v = vec_of("Breakout", 2, 0, 2, PACELINE_NEXT_STEP,
                           "{\"noop_max\": 0, \"use_fire_reset\": false, \"frameskip\": 4, \"ram_info\": true}");
  arrays r = arrays_for(v, 2);
  OK(paceline_vec_reset(v, NULL, NULL, all_of(&r)));
  paceline_console *c;
  const paceline_console_state *state;
  OK(paceline_console_new(&c, NULL, "breakout", 0, 0, 0, 1));
  OK(paceline_console_view(&state, c));
  const int32_t actions[] = {0, 1, 3, 4}; /* of breakout: NOOP, FIRE, RIGHT, LEFT */
  uint8_t ram[128];
  uint64_t random = 5;
  int lost = 0, scored = 0, episodes = 0;
  CHECK(number(&r, "lives", 0) == 5 && number(&r, "raw_reward", 0) == 0 && number(&r, "game_over", 0) == 0);
  CHECK(number(&r, "frame_number", 0) == state->frame_number &&
        number(&r, "episode_frame_number", 0) == state->episode_frame_number);
  while (episodes == 0) {
    int lives = state->lives, reward = 0, score;
    for (uint32_t i = 0; i < 2; i++) act_at_random(&r, i, 4, &random);
    OK(paceline_vec_step(v, r.actions, all_of(&r)));
    for (int k = 0; k < 4 && !state->ended; k++) {
      OK(paceline_console_act(&score, c, actions[discrete(&r)[0]], 1));
      reward += score;
    }
    CHECK(number(&r, "lives", 0) == state->lives && number(&r, "raw_reward", 0) == reward);
    CHECK(number(&r, "frame_number", 0) == state->frame_number &&
          number(&r, "episode_frame_number", 0) == state->episode_frame_number);
    CHECK(r.rows.rewards[0] == (reward > 0) - (reward < 0));
    CHECK(number(&r, "game_over", 0) == (state->ended != 0) && r.rows.terminated[0] == (state->ended != 0));
    OK(paceline_console_ram(ram, c));
    CHECK(memcmp(info(&r, r.columns - 1, 0), ram, 128) == 0);
    lost += state->lives < lives;
    scored += reward > 0;
    episodes += over(&r, 0) != 0;
  }
  CHECK(lost == 5 && scored > 0);
  void *missing[MOST_COLUMNS] = {NULL};
  paceline_rows rows = *all_of(&r);
  rows.infos = missing;
  FAILS(paceline_vec_step(v, r.actions, &rows), PACELINE_EINVAL,
        "rows.infos[0]: NULL, must point to 2 entries of lives");
  FAILS(paceline_vec_offer(v, &rows), PACELINE_EINVAL, "rows.infos[0]: NULL");
  rows.infos = NULL;
  OK(paceline_vec_step(v, r.actions, &rows));
  paceline_console_free(c);
  paceline_vec_free(v);
  arrays_free(&r);
}

/* A saved game continues in another vector with the same bytes, sticky actions included. A rendered
 * image has the colours of the game. */
static void states(void) {
  const char *options = "{\"recipe\": \"machado2018\"}";
  paceline_vec *v = vec_of("Pong", 3, 0, 2, PACELINE_SAME_STEP, options),
               *w = vec_of("Pong", 2, 1, 1, PACELINE_SAME_STEP, options);
  arrays r = arrays_for(v, 3), s = arrays_for(w, 2), one = arrays_for(w, 1);
  uint64_t random = 3, seeds[] = {8, 9, 10};
  OK(paceline_vec_reset(v, seeds, NULL, all_of(&r)));
  for (int i = 0; i < 60; i++) {
    for (uint32_t k = 0; k < 3; k++) act_at_random(&r, k, 18, &random);
    OK(paceline_vec_step(v, r.actions, all_of(&r)));
  }
  size_t size = 0;
  OK(paceline_vec_save(NULL, &size, v, 2));
  uint8_t *state = zeroed(size);
  OK(paceline_vec_save(state, &size, v, 2));
  OK(paceline_vec_restore(w, 1, state, size));
  paceline_vec *x = vec_of("Breakout", 1, 0, 1, PACELINE_SAME_STEP, options);
  STATUS(paceline_vec_restore(x, 0, state, size), PACELINE_EFAIL);
  CHECK(strstr(paceline_last_error(), "environment 0: ") != NULL);
  paceline_vec_free(x);
  free(state);
  const int32_t second = 1;
  for (int i = 0; i < 200; i++) { /* the restored environment is stepped alone */
    for (uint32_t k = 0; k < 3; k++) act_at_random(&r, k, 18, &random);
    OK(paceline_vec_step(v, r.actions, all_of(&r)));
    OK(paceline_vec_offer(w, all_of(&one)));
    OK(paceline_vec_send(w, &second, 1, discrete(&r) + 2));
    OK(paceline_vec_recv(w, 0));
    CHECK(one.rows.env_ids[0] == 1 && same_row(&r, 2, &one, 0, 1));
  }
  uint32_t height, width;
  uint8_t *rgb[2];
  OK(paceline_vec_render(NULL, &size, &height, &width, v, 2));
  CHECK(height == 210 && width == 160 && size == 3 * 210 * 160);
  rgb[0] = zeroed(size), rgb[1] = zeroed(size);
  OK(paceline_vec_render(rgb[0], &size, &height, &width, v, 2));
  OK(paceline_vec_render(rgb[1], &size, &height, &width, w, 1));
  CHECK(memcmp(rgb[0], rgb[1], size) == 0);
  CHECK(rgb[0][3 * (100 * 160 + 80)] == 144 && rgb[0][3 * (100 * 160 + 80) + 1] == 72 &&
        rgb[0][3 * (100 * 160 + 80) + 2] == 17);
  free(rgb[0]), free(rgb[1]);
  paceline_vec_free(v), paceline_vec_free(w);
  arrays_free(&r), arrays_free(&s), arrays_free(&one);
}

/* Boxes of (radius, angle, fire) equal the discrete actions of the same direction. */
static void continuous(void) {
  paceline_vec *v = vec_of("Pong", 2, 0, 1, PACELINE_NEXT_STEP, "{\"continuous\": true}");
  paceline_vec *w = vec_of("Pong", 2, 0, 1, PACELINE_NEXT_STEP, "{\"full_action_space\": true}");
  arrays r = arrays_for(v, 2), s = arrays_for(w, 2);
  uint64_t seeds[] = {1, 2};
  const float half = 1.5707963f, boxes[4][3] = {{0, 0, 0}, {1, half, 0}, {1, -half, 0}, {1, 0, 1}};
  const int32_t same[4] = {0, 2, 5, 11}; /* NOOP, UP, DOWN, RIGHTFIRE */
  CHECK(r.action_bytes == 12);
  OK(paceline_vec_reset(v, seeds, NULL, all_of(&r)));
  OK(paceline_vec_reset(w, seeds, NULL, all_of(&s)));
  for (int i = 0; i < 120; i++) {
    for (int k = 0; k < 2; k++) {
      memcpy((float *)r.actions + 3 * k, boxes[(i / 10 + k) % 4], 12);
      discrete(&s)[k] = same[(i / 10 + k) % 4];
    }
    OK(paceline_vec_step(v, r.actions, all_of(&r)));
    OK(paceline_vec_step(w, s.actions, all_of(&s)));
    for (uint32_t k = 0; k < 2; k++) CHECK(same_row(&r, k, &s, k, 0));
  }
  ((float *)r.actions)[3] = 1.5f;
  FAILS(paceline_vec_step(v, r.actions, all_of(&r)), PACELINE_EINVAL, "environment 1: action[0]: 1.5, must be 0 to 1");
  ((float *)r.actions)[3] = NAN;
  FAILS(paceline_vec_step(v, r.actions, all_of(&r)), PACELINE_EINVAL, "environment 1: action[0]: NaN");
  paceline_vec_free(v), paceline_vec_free(w);
  arrays_free(&r), arrays_free(&s);
}

/* After a lost life a reset begins a new game in all modes, except a reset by mask in
 * PACELINE_DISABLED. */
static void begins_a_game(void) {
  for (uint32_t mode = 0; mode < 3; mode++) {
    paceline_vec *v = vec_of("Breakout", 1, 0, 1, mode, "{\"episodic_life\": true}");
    arrays r = arrays_for(v, 1);
    const uint8_t mask = 1;
    for (int masked = 0; masked < 2; masked++) {
      OK(paceline_vec_reset(v, NULL, NULL, all_of(&r)));
      do {
        discrete(&r)[0] = 1; /* FIRE */
        OK(paceline_vec_step(v, r.actions, all_of(&r)));
      } while (!over(&r, 0));
      CHECK(number(&r, "lives", 0) == 4);
      OK(paceline_vec_reset(v, NULL, masked ? &mask : NULL, all_of(&r)));
      CHECK(number(&r, "lives", 0) == (masked && mode == PACELINE_DISABLED ? 4 : 5));
    }
    paceline_vec_free(v);
    arrays_free(&r);
  }
}

/* Episodes that start in states of a console: the points and the frames after them, and refused
 * states. */
static void starts(void) {
  paceline_trainer *t = quick("Pong");
  paceline_policy *p;
  OK(paceline_policy_from_trainer(&p, t));
  paceline_console *c = NULL;
  const paceline_console_state *view = NULL;
  uint8_t *states[2];
  size_t sizes[2] = {0, 0};
  OK(paceline_console_new(&c, NULL, "pong", 0, 1, 0, 1));
  OK(paceline_console_reset(c));
  OK(paceline_console_view(&view, c));
  for (int k = 0; k < 2; k++) {
    int32_t reward;
    for (int i = 0; i < 100; i++) OK(paceline_console_act(&reward, c, 0, 1));
    OK(paceline_console_save(NULL, &sizes[k], c, 0));
    states[k] = zeroed(sizes[k]);
    OK(paceline_console_save(states[k], &sizes[k], c, 0));
  }
  CHECK(view->episode_frame_number == 200);
  const void *each[] = {states[0], states[1]};
  int64_t lengths[3] = {0};
  paceline_eval_options o = {
      .struct_size = sizeof o, .episodes = 3, .lengths = lengths, .starts = each, .max_frames = 302};
  o.start_sizes = sizes, o.num_starts = 2;
  paceline_evaluation e = {.struct_size = sizeof e};
  OK(paceline_policy_evaluate(&e, p, "Pong", NULL, &o));
  CHECK(e.episodes == 3 && lengths[0] == 51 && lengths[1] == 26 && lengths[2] == 51); /* 202 and 102 frames, by 4 */
  FAILS(paceline_policy_evaluate(&e, p, "Breakout", NULL, &o), PACELINE_EINVAL, "actions");
  each[1] = NULL;
  FAILS(paceline_policy_evaluate(&e, p, "Pong", NULL, &o), PACELINE_EINVAL, "o.starts[1]: NULL");
  each[1] = states[1], sizes[1]--;
  FAILS(paceline_policy_evaluate(&e, p, "Pong", NULL, &o), PACELINE_EINVAL, "starts[1]: state: ");
  sizes[1] = (size_t)1 << 40;
  FAILS(paceline_policy_evaluate(&e, p, "Pong", NULL, &o), PACELINE_EINVAL, "o.start_sizes[1]: 1099511627776");
  o.max_frames = 150, sizes[1] = sizes[0];
  FAILS(paceline_policy_evaluate(&e, p, "Pong", NULL, &o), PACELINE_EINVAL, "200 frames of its game are played");
  o.start_sizes = NULL;
  FAILS(paceline_policy_evaluate(&e, p, "Pong", NULL, &o), PACELINE_EINVAL, "o.starts, o.start_sizes: NULL");
  o.num_starts = (size_t)1 << 60;
  FAILS(paceline_policy_evaluate(&e, p, "Pong", NULL, &o), PACELINE_EINVAL, "o.num_starts: 1152921504606846976");
  o.num_starts = 0, o.max_frames = 400, o.episodes = 1;
  OK(paceline_policy_evaluate(&e, p, "Pong", NULL, &o));
  CHECK(lengths[0] == 100);
  o.struct_size = 48; /* a program with an older header: the limit is not read */
  OK(paceline_policy_evaluate(&e, p, "Pong", "{\"max_num_frames_per_episode\": 80}", &o));
  CHECK(lengths[0] == 20);
  free(states[0]), free(states[1]);
  paceline_console_free(c);
  paceline_policy_free(p);
  paceline_trainer_free(t);
}

int main(void) {
  paceline_vec *v;
  paceline_vec_options o = vec_options(1, 0, 1, 0, NULL);
  if (paceline_vec_new(&v, "Pong", &o) != PACELINE_OK) {
    CHECK(getenv("PACELINE_ROMS_DIR") == NULL || *getenv("PACELINE_ROMS_DIR") == 0);
    printf("left out, as there is no ROM file of Pong: %s\n", paceline_last_error());
    return 0;
  }
  paceline_vec_free(v);
  described();
  infos();
  states();
  continuous();
  begins_a_game();
  starts();
  for (uint32_t mode = 0; mode < 3; mode++) {
    int games = against_singles("Breakout", "{\"episodic_life\": true}", 3, mode, 4, 300);
    CHECK(games > 3);
  }
  against_singles("Pong", "{\"continuous\": true}", 8, PACELINE_SAME_STEP, 0, 60);
  against_singles("Pong", "{\"obs_type\": \"rgb\", \"life_loss_info\": true}", 1, PACELINE_SAME_STEP, 6, 300);
  return 0;
}
