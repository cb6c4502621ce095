/* Environments in files of their own. Argument: the folder in which run.sh built
 * examples/c/env_plugin.c (pendulum.so) and the variants of faulty.c. */
#include <sys/stat.h>

#include "rows.h"

static const char *folder;

static const char *file(const char *name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static int known(const char *name) {
  char *names, quoted[80];
  OK(paceline_env_names(&names));
  snprintf(quoted, sizeof quoted, "\"%s\"", name);
  int found = strstr(names, quoted) != NULL;
  paceline_string_free(names);
  return found;
}

/* Files without a valid environment: each is refused with its name, every time. */
static void refused(void) {
  const struct {
    const char *file;
    int status;
    const char *says;
  } files[] = {
      {"no such file.so", PACELINE_EIO, "no such file or directory"},
      {"text.so", PACELINE_EIO, "text.so: "},
      {"empty.so", PACELINE_EIO, "file too short"},
      {"no_open.so", PACELINE_EIO, "no_open.so: it has no function paceline_env_open"},
      {"open_fails.so", PACELINE_ECALLBACK, "open_fails.so: the licence has run out"},
      {"open_loads.so", PACELINE_ECALLBACK, "called inside paceline_env_open"},
      {"open_fails_silently.so", PACELINE_ECALLBACK, "paceline_env_open returned 7"},
      {"no_step.so", PACELINE_EINVAL, "no_step.so: table.step: NULL, must be a function"},
      {"no_restore.so", PACELINE_EINVAL, "table.save and table.restore: one is NULL"},
      {"no_name.so", PACELINE_EINVAL, "no_name.so: name: NULL"},
      {"empty_name.so", PACELINE_EINVAL, "empty_name.so: name: empty"},
      {"odd_name.so", PACELINE_EINVAL, "must be UTF-8"},
      {"spec_fails.so", PACELINE_ECALLBACK, "spec_fails.so: no spec today"},
      {"taken.so", PACELINE_EINVAL, "name: \"CartPole-v1\", is already the name of another environment"},
      {"taken_twice.so", PACELINE_EINVAL, "name: \"Pendulum3-v0\", is already the name of another environment"},
  };
  FILE *f = fopen(file("text.so"), "w");
  for (int i = 0; i < 100; i++) fprintf(f, "this is no library\n");
  fclose(f);
  fclose(fopen(file("empty.so"), "w"));
  for (int twice = 0; twice < 2; twice++)
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
      char *name = (void *)1;
      FAILS(paceline_env_load(&name, file(files[i].file)), files[i].status, files[i].says);
      CHECK(name == (void *)1);
    }
  char *name;
  CHECK(mkfifo(file("fifo.so"), 0600) == 0);
  FAILS(paceline_env_load(&name, file("fifo.so")), PACELINE_EIO, "must be a regular file");
  unlink(file("fifo.so"));
  FAILS(paceline_env_load(&name, ""), PACELINE_EINVAL, "path: empty");
  STATUS(paceline_env_load(&name, folder), PACELINE_EIO);
  STATUS(paceline_env_load(&name, "libm.so.6"), PACELINE_EIO); /* no search in the system's folders */
}

/* A file is loaded once under all its names. */
static void loaded_once(void) {
  for (int i = 0; i < 3; i++) {
    char *name, link[4096];
    if (i == 1) {
      snprintf(link, sizeof link, "%s/another.so", folder);
      unlink(link);
      CHECK(symlink("pendulum.so", link) == 0);
    }
    if (i == 2) CHECK(chdir(folder) == 0);
    OK(paceline_env_load(&name, i == 0 ? file("pendulum.so") : i == 1 ? link : "pendulum.so"));
    CHECK(strcmp(name, "Pendulum3-v0") == 0);
    paceline_string_free(name);
    CHECK(known("Pendulum3-v0") && known("CartPole-v1") && !known("Pong-v0"));
  }
}

/* An episode of environment 0 after a seed, as bytes. */
static void episode(float *out, paceline_vec *v, arrays *r, uint64_t seed) {
  uint64_t seeds[4] = {seed, seed + 1, seed + 2, seed + 3};
  OK(paceline_vec_reset(v, seeds, NULL, all_of(r)));
  for (int i = 0; i < 50; i++) {
    memcpy(out + 3 * i, r->rows.obs, 12);
    for (int k = 0; k < 4; k++) discrete(r)[k] = i / 5 % 3;
    OK(paceline_vec_step(v, r->actions, all_of(r)));
  }
}

/* The same seed gives the same episode, in other vectors, too, and after other episodes. */
static void seeds(void) {
  paceline_vec *v = vec_of("Pendulum3-v0", 4, 0, 2, PACELINE_NEXT_STEP, NULL),
               *w = vec_of("Pendulum3-v0", 4, 0, 3, PACELINE_SAME_STEP, NULL);
  arrays r = arrays_for(v, 4), s = arrays_for(w, 4);
  static float a[150], b[150], c[150], d[150];
  episode(a, v, &r, 5);
  episode(b, v, &r, 6);
  episode(c, v, &r, 5);
  episode(d, w, &s, 5);
  CHECK(memcmp(a, c, sizeof a) == 0 && memcmp(a, d, sizeof a) == 0 && memcmp(a, b, sizeof a) != 0);
  CHECK(memcmp(obs_of(&r, 0), obs_of(&r, 1), r.obs_bytes) != 0);
  uint64_t none[4] = {5, 5, 5, 5};
  OK(paceline_vec_reset(v, none, NULL, all_of(&r)));
  CHECK(memcmp(a, obs_of(&r, 3), 12) == 0); /* a random stream does not depend on the index */
  OK(paceline_vec_reset(v, NULL, NULL, all_of(&r)));
  CHECK(memcmp(a, obs_of(&r, 3), 12) != 0);

  /* restore works before the environment is made. */
  size_t size = 0;
  OK(paceline_vec_save(NULL, &size, v, 1));
  uint8_t *state = zeroed(size);
  OK(paceline_vec_save(state, &size, v, 1));
  paceline_vec *x = vec_of("Pendulum3-v0", 1, 0, 1, PACELINE_NEXT_STEP, NULL);
  arrays t = arrays_for(x, 1);
  OK(paceline_vec_restore(x, 0, state, size));
  for (int i = 0; i < 450; i++) {
    for (int k = 0; k < 4; k++) discrete(&r)[k] = i % 3;
    discrete(&t)[0] = i % 3;
    OK(paceline_vec_step(v, r.actions, all_of(&r)));
    OK(paceline_vec_step(x, t.actions, all_of(&t)));
    CHECK(same_row(&r, 1, &t, 0, 0));
    CHECK(over(&r, 1) == (i % 201 == 199 ? 2 : 0)); /* truncated after 200 steps */
  }
  FAILS(paceline_vec_restore(x, 0, state, size - 1), PACELINE_ECALLBACK, "environment 0: ");
  uint32_t height, width;
  FAILS(paceline_vec_render(NULL, &size, &height, &width, v, 0), PACELINE_EFAIL, "cannot be rendered");
  paceline_vec *y;
  paceline_vec_options o = vec_options(1, 0, 1, 0, "{\"gravity\": 9}");
  FAILS(paceline_vec_new(&y, "Pendulum3-v0", &o), PACELINE_EINVAL, "Pendulum3-v0 has no options");
  free(state);
  paceline_vec_free(v), paceline_vec_free(w), paceline_vec_free(x);
  arrays_free(&r), arrays_free(&s), arrays_free(&t);
}

/* A trainer finds the environment by its name, and its checkpoints continue with the same bits. */
static void trained(void) {
  paceline_trainer *t = quick("Pendulum3-v0"), *u = quick("Pendulum3-v0");
  OK(paceline_trainer_begin(t, 1200, 0));
  OK(paceline_trainer_run(NULL, t, 600, 0));
  OK(paceline_trainer_save(t, tmp("pendulum.paceline"), PACELINE_SAVE_EXPERIENCE));
  OK(paceline_trainer_load(u, tmp("pendulum.paceline")));
  OK(paceline_trainer_run(NULL, t, 0, 0));
  OK(paceline_trainer_run(NULL, u, 0, 0));
  CHECK(same(hashes_of(t), hashes_of(u)) && stats_of(t).updates > 100 && stats_of(t).episodes >= 4);
  paceline_policy *p;
  paceline_evaluation e = {.struct_size = sizeof e}, again = e;
  OK(paceline_policy_from_trainer(&p, t));
  OK(paceline_policy_evaluate(&e, p, "Pendulum3-v0", NULL, EPISODES(3, 0, 1)));
  OK(paceline_policy_evaluate(&again, p, "Pendulum3-v0", NULL, EPISODES(3, 0, 1)));
  CHECK(e.mean_length == 200 && e.mean_return < 0 && memcmp(&e, &again, sizeof e) == 0);
  paceline_policy_free(p);
  paceline_trainer_free(t);
  paceline_trainer_free(u);
}

/* A new seed makes the environment at the next reset, which returns a failure of create. */
static void fails_late(void) {
  char *name;
  OK(paceline_env_load(&name, file("faulty.so")));
  paceline_string_free(name);
  paceline_vec *v = vec_of("Faulty-v0", 4, 0, 2, PACELINE_NEXT_STEP, NULL);
  arrays r = arrays_for(v, 4);
  uint64_t seeds[4] = {666, 666, 666, 666};
  OK(paceline_vec_reset(v, NULL, NULL, all_of(&r)));
  STATUS(paceline_vec_reset(v, seeds, NULL, all_of(&r)), PACELINE_ECALLBACK);
  CHECK(strcmp(paceline_last_error(), "environment 2: no third one") == 0);
  FAILS(paceline_vec_step(v, r.actions, all_of(&r)), PACELINE_EINVAL, "environment 2: step before reset");
  seeds[2] = 1;
  OK(paceline_vec_reset(v, seeds, NULL, all_of(&r)));
  OK(paceline_vec_step(v, r.actions, all_of(&r)));
  paceline_vec_free(v);
  arrays_free(&r);
}

/* Of the rows of failed environments only obs may be written; the rows of the others are whole. */
static void several_fail(void) {
  enum { ASKED_TO_FAIL = 3 };
  paceline_vec *v = vec_of("Faulty-v0", 4, 0, 2, PACELINE_NEXT_STEP, NULL);
  arrays r = arrays_for(v, 4);
  OK(paceline_vec_reset(v, NULL, NULL, all_of(&r)));
  paceline_rows rows = *all_of(&r);
  for (int i = 0; i < 4; i++) {
    discrete(&r)[i] = i % 2 ? ASKED_TO_FAIL : 1;
    rows.rewards[i] = -7, rows.env_ids[i] = -1, rows.started[i] = rows.terminated[i] = 9;
  }
  FAILS(paceline_vec_step(v, r.actions, &rows), PACELINE_ECALLBACK, "environment 1: asked to fail");
  CHECK(paceline_last_error_index() == 1);
  for (int i = 0; i < 4; i++) {
    CHECK(rows.env_ids[i] == (i % 2 ? -1 : i) && rows.rewards[i] == (i % 2 ? -7 : 0.25));
    CHECK(rows.started[i] == (i % 2 ? 9 : 0) && rows.terminated[i] == (i % 2 ? 9 : 0));
  }
  paceline_vec_free(v);
  arrays_free(&r);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  folder = argv[1];
  CHECK(!known("Pendulum3-v0"));
  loaded_once();
  refused();
  seeds();
  trained();
  fails_late();
  several_fail();
  return 0;
}
