/*
 * include/paceline.h, one function for each of its functions (those that cannot
 * fail are in info.c and thread.c). All have the same shape: ENTER refuses a
 * forked child without touching Go, then the arguments are checked as far as C
 * can, then GO calls the function of export_*.go in our floating-point mode and
 * keeps its error's text for this thread.
 */
#include "bridge.h"

#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"

_Static_assert(sizeof(void *) == 8, "handles are 64-bit numbers in pointers");

#define ENTER        \
  char why[PL_TEXT]; \
  unsigned mode;     \
  int code;          \
  if (pl_forked()) return refuse_forked()

#define GO(call) \
  (mode = pl_float_enter(), code = (call), pl_float_leave(mode), code == PACELINE_OK ? code : pl_fail(code, "%s", why))

#define NEED(pointer)                                                                                   \
  do {                                                                                                  \
    if ((pointer) == NULL) return pl_fail(PACELINE_EINVAL, #pointer ": NULL, must point to something"); \
  } while (0)

#define TEXT(text, longest)                                                            \
  do {                                                                                 \
    NEED(text);                                                                        \
    if (strnlen(text, (longest) + 1) > (longest))                                      \
      return pl_fail(PACELINE_EINVAL, #text ": longer than %d bytes", (int)(longest)); \
  } while (0)

/* A struct from a newer header is refused; one from an older header, down to
 * the first that there was, is read and written as far as it goes. */
#define SIZED(pointer, type)                                                         \
  do {                                                                               \
    code = check_size(#pointer, (pointer)->struct_size, FIRST_##type, sizeof(type)); \
    if (code != PACELINE_OK) return code;                                            \
  } while (0)

/* sizes in version 0.1.0 */
enum {
  FIRST_paceline_option = 40,
  FIRST_paceline_spec = 64,
  FIRST_paceline_env_table = 64,
  FIRST_paceline_stats = 144,
  FIRST_paceline_parameter = 64,
  FIRST_paceline_hashes = 224,
  FIRST_paceline_buffers = 72,
  FIRST_paceline_evaluation = 56,
  FIRST_paceline_vec_options = 32,
  FIRST_paceline_rows = 80
};

static int refuse_forked(void) {
  return pl_fail(PACELINE_EFORKED,
                 "the library was loaded before this process was forked and has no threads here; load it in the child "
                 "itself, or start the child with exec (spawn)");
}

static int check_size(const char *name, uint32_t given, size_t first, size_t known) {
  if (given < first)
    return pl_fail(PACELINE_EINVAL, "%s.struct_size: %u, must be at least %zu (set it to sizeof)", name, given, first);
  if (given > known)
    return pl_fail(PACELINE_EVERSION, "%s.struct_size: %u, this library (%s) knows %zu bytes", name, given,
                   PACELINE_VERSION, known);
  return PACELINE_OK;
}

/* Reads as much of a struct as the caller has. */
static void take(void *full, const void *in) { memcpy(full, in, *(const uint32_t *)in); }

/* Writes as much of a struct as the caller has. */
static void give(void *out, void *full) {
  uint32_t size = *(uint32_t *)out;
  *(uint32_t *)full = size;
  memcpy(out, full, size);
}

static uint64_t id(const void *handle) { return (uint64_t)(uintptr_t)handle; }
static void *handle(uint64_t id) { return (void *)(uintptr_t)id; }

/* ----------------------------------------------------- configuration */

int paceline_config_new(paceline_config **out) {
  ENTER;
  NEED(out);
  uint64_t made;
  if (GO(pacelineGoConfigNew(&made, why)) == 0) *out = handle(made);
  return code;
}

int paceline_config_set(paceline_config *cfg, const char *key, const char *value) {
  ENTER;
  NEED(cfg);
  TEXT(key, PL_LONGEST_NAME);
  TEXT(value, PL_LONGEST_PATH);
  return GO(pacelineGoConfigSet(id(cfg), (char *)key, (char *)value, why));
}

int paceline_config_get(char **out, const paceline_config *cfg, const char *key) {
  ENTER;
  NEED(out);
  NEED(cfg);
  TEXT(key, PL_LONGEST_NAME);
  return GO(pacelineGoConfigGet(out, id(cfg), (char *)key, why));
}

int paceline_config_preset(paceline_config *cfg, const char *preset, const char *env) {
  ENTER;
  NEED(cfg);
  TEXT(preset, PL_LONGEST_NAME);
  TEXT(env, PL_LONGEST_NAME);
  return GO(pacelineGoConfigPreset(id(cfg), (char *)preset, (char *)env, why));
}

int paceline_config_load(paceline_config *cfg, const char *path) {
  ENTER;
  NEED(cfg);
  TEXT(path, PL_LONGEST_PATH);
  return GO(pacelineGoConfigLoad(id(cfg), (char *)path, why));
}

int paceline_config_describe(paceline_option *out, size_t i) {
  ENTER;
  NEED(out);
  SIZED(out, paceline_option);
  paceline_option full = {0};
  if (GO(pacelineGoConfigDescribe(&full, i, why)) == 0) give(out, &full);
  return code;
}

#define FREE(noun, go)                               \
  void paceline_##noun##_free(paceline_##noun *it) { \
    if (it == NULL || pl_forked()) return;           \
    unsigned mode = pl_float_enter();                \
    go(id(it));                                      \
    pl_float_leave(mode);                            \
  }

FREE(config, pacelineGoConfigFree)
FREE(trainer, pacelineGoTrainerFree)
FREE(policy, pacelineGoPolicyFree)
FREE(vec, pacelineGoVecFree)
FREE(console, pacelineGoConsoleFree)

/* ------------------------------------------------------- the trainer */

int paceline_trainer_new(paceline_trainer **out, const paceline_config *cfg) {
  ENTER;
  NEED(out);
  NEED(cfg);
  uint64_t made;
  if (GO(pacelineGoTrainerNew(&made, id(cfg), why)) == 0) *out = handle(made);
  return code;
}

static int check_table(paceline_trainer **out, const paceline_config *cfg, const paceline_env_table *table) {
  int code;
  if (pl_forked()) return refuse_forked();
  NEED(out);
  NEED(cfg);
  NEED(table);
  SIZED(table, paceline_env_table);
  NEED(table->spec);
  NEED(table->create);
  NEED(table->reset);
  NEED(table->step);
  NEED(table->destroy);
  if ((table->save == NULL) != (table->restore == NULL))
    return pl_fail(PACELINE_EINVAL, "table->save and table->restore: one is NULL, must be both or none");
  return PACELINE_OK;
}

int paceline_trainer_new_table(paceline_trainer **out, const paceline_config *cfg, const paceline_env_table *table,
                               void *user, void (*release)(void *user)) {
  char why[PL_TEXT];
  unsigned mode;
  uint64_t made;
  pl_family *family = NULL;
  int code = check_table(out, cfg, table);
  if (code == PACELINE_OK && (family = calloc(1, sizeof *family)) == NULL)
    code = pl_fail(PACELINE_ENOMEM, "out of memory");
  if (code != PACELINE_OK) {
    if (release != NULL) release(user);
    return code;
  }
  memcpy(&family->table, table, table->struct_size);
  family->user = user;
  family->release = release;
  /* From here on Go sees to the release. */
  if (GO(pacelineGoTrainerNewTable(&made, id(cfg), family, why)) == 0) *out = handle(made);
  return code;
}

int paceline_trainer_new_push(paceline_trainer **out, const paceline_config *cfg, const paceline_spec *obs,
                              const paceline_spec *action) {
  ENTER;
  NEED(out);
  NEED(cfg);
  NEED(obs);
  NEED(action);
  SIZED(obs, paceline_spec);
  SIZED(action, paceline_spec);
  paceline_spec o = {0}, a = {0};
  take(&o, obs);
  take(&a, action);
  uint64_t made;
  if (GO(pacelineGoTrainerNewPush(&made, id(cfg), &o, &a, why)) == 0) *out = handle(made);
  return code;
}

int paceline_trainer_begin(paceline_trainer *t, int64_t total_timesteps, uint32_t flags) {
  ENTER;
  NEED(t);
  return GO(pacelineGoTrainerBegin(id(t), total_timesteps, flags, why));
}

int paceline_trainer_run(paceline_trainer *t, int64_t max_steps, int64_t max_ms, paceline_stats *stats) {
  ENTER;
  NEED(t);
  paceline_stats full = {0};
  if (stats != NULL) SIZED(stats, paceline_stats);
  if (GO(pacelineGoTrainerRun(id(t), max_steps, max_ms, stats == NULL ? NULL : &full, why)) == 0 && stats != NULL)
    give(stats, &full);
  return code;
}

int paceline_trainer_stop(const paceline_trainer *t) {
  ENTER;
  NEED(t);
  return GO(pacelineGoTrainerStop(id(t), why));
}

int paceline_trainer_stats(paceline_stats *out, const paceline_trainer *t) {
  ENTER;
  NEED(out);
  NEED(t);
  SIZED(out, paceline_stats);
  paceline_stats full = {0};
  if (GO(pacelineGoTrainerStats(&full, id(t), why)) == 0) give(out, &full);
  return code;
}

int paceline_trainer_notice(char **out, paceline_trainer *t) {
  ENTER;
  NEED(out);
  NEED(t);
  return GO(pacelineGoTrainerNotice(out, id(t), why));
}

int paceline_trainer_describe(char **out, const paceline_trainer *t) {
  ENTER;
  NEED(out);
  NEED(t);
  return GO(pacelineGoTrainerDescribe(out, id(t), why));
}

int paceline_trainer_settle(paceline_trainer *t) {
  ENTER;
  NEED(t);
  return GO(pacelineGoTrainerSettle(id(t), why));
}

int paceline_trainer_parameter(paceline_parameter *out, const paceline_trainer *t, size_t i) {
  ENTER;
  NEED(out);
  NEED(t);
  SIZED(out, paceline_parameter);
  paceline_parameter full = {0};
  if (GO(pacelineGoTrainerParameter(&full, id(t), i, why)) == 0) give(out, &full);
  return code;
}

int paceline_trainer_get_parameters(paceline_trainer *t, float *out, size_t n) {
  ENTER;
  NEED(t);
  NEED(out);
  return GO(pacelineGoTrainerGetParameters(id(t), out, n, why));
}

int paceline_trainer_set_parameters(paceline_trainer *t, const float *in, size_t n) {
  ENTER;
  NEED(t);
  NEED(in);
  return GO(pacelineGoTrainerSetParameters(id(t), (float *)in, n, why));
}

int paceline_trainer_hash(paceline_hashes *out, paceline_trainer *t) {
  ENTER;
  NEED(out);
  NEED(t);
  SIZED(out, paceline_hashes);
  paceline_hashes full = {0};
  if (GO(pacelineGoTrainerHash(&full, id(t), why)) == 0) give(out, &full);
  return code;
}

int paceline_trainer_save(paceline_trainer *t, const char *path, uint32_t flags) {
  ENTER;
  NEED(t);
  TEXT(path, PL_LONGEST_PATH);
  return GO(pacelineGoTrainerSave(id(t), (char *)path, flags, why));
}

int paceline_trainer_load(paceline_trainer *t, const char *path) {
  ENTER;
  NEED(t);
  TEXT(path, PL_LONGEST_PATH);
  return GO(pacelineGoTrainerLoad(id(t), (char *)path, why));
}

int paceline_trainer_buffers(paceline_buffers *out, paceline_trainer *t) {
  ENTER;
  NEED(out);
  NEED(t);
  SIZED(out, paceline_buffers);
  paceline_buffers full = {0};
  if (GO(pacelineGoTrainerBuffers(&full, id(t), why)) == 0) give(out, &full);
  return code;
}

void paceline_buffers_release(uint64_t id) {
  if (id == 0 || pl_forked()) return;
  unsigned mode = pl_float_enter();
  pacelineGoBuffersRelease(id);
  pl_float_leave(mode);
}

int paceline_trainer_act(paceline_trainer *t) {
  ENTER;
  NEED(t);
  return GO(pacelineGoTrainerAct(id(t), why));
}

int paceline_trainer_observe(paceline_trainer *t, paceline_stats *stats) {
  ENTER;
  NEED(t);
  paceline_stats full = {0};
  if (stats != NULL) SIZED(stats, paceline_stats);
  if (GO(pacelineGoTrainerObserve(id(t), stats == NULL ? NULL : &full, why)) == 0 && stats != NULL) give(stats, &full);
  return code;
}

/* -------------------------------------------------------- the policy */

int paceline_policy_load(paceline_policy **out, const char *path) {
  ENTER;
  NEED(out);
  TEXT(path, PL_LONGEST_PATH);
  uint64_t made;
  if (GO(pacelineGoPolicyLoad(&made, (char *)path, why)) == 0) *out = handle(made);
  return code;
}

int paceline_policy_from_trainer(paceline_policy **out, paceline_trainer *t) {
  ENTER;
  NEED(out);
  NEED(t);
  uint64_t made;
  if (GO(pacelineGoPolicyFromTrainer(&made, id(t), why)) == 0) *out = handle(made);
  return code;
}

int paceline_policy_spec(paceline_spec *obs, paceline_spec *action, const paceline_policy *p) {
  ENTER;
  NEED(obs);
  NEED(action);
  NEED(p);
  SIZED(obs, paceline_spec);
  SIZED(action, paceline_spec);
  paceline_spec o = {0}, a = {0};
  if (GO(pacelineGoPolicySpec(&o, &a, id(p), why)) == 0) {
    give(obs, &o);
    give(action, &a);
  }
  return code;
}

size_t paceline_policy_state_bytes(const paceline_policy *p) {
  (void)p;
  return 0;
}

int paceline_policy_act(const paceline_policy *p, size_t n, const void *obs, void *state, const uint8_t *episode_starts,
                        void *actions, float *values) {
  ENTER;
  NEED(p);
  if (n > 0) {
    NEED(obs);
    NEED(actions);
  }
  (void)state;
  (void)episode_starts;
  return GO(pacelineGoPolicyAct(id(p), n, (void *)obs, actions, values, why));
}

int paceline_policy_evaluate(paceline_evaluation *out, const paceline_policy *p, const char *env, const char *options,
                             int64_t episodes, double epsilon, uint64_t seed) {
  ENTER;
  NEED(out);
  NEED(p);
  TEXT(env, PL_LONGEST_NAME);
  if (options != NULL) TEXT(options, PL_LONGEST_JSON);
  SIZED(out, paceline_evaluation);
  paceline_evaluation full = {0};
  if (GO(pacelineGoPolicyEvaluate(&full, id(p), (char *)env, (char *)options, episodes, epsilon, seed, why)) == 0)
    give(out, &full);
  return code;
}

int paceline_policy_save(const paceline_policy *p, const char *path) {
  ENTER;
  NEED(p);
  TEXT(path, PL_LONGEST_PATH);
  return GO(pacelineGoPolicySave(id(p), (char *)path, why));
}

/* ------------------------------------- environments in files of their own */

int paceline_env_load(char **name, const char *path) {
  ENTER;
  NEED(name);
  TEXT(path, PL_LONGEST_PATH);
  return GO(pacelineGoEnvLoad(name, (char *)path, why));
}

int paceline_env_names(char **out) {
  ENTER;
  NEED(out);
  return GO(pacelineGoEnvNames(out, why));
}

/* -------------------------------------------- the vector environment */

int paceline_vec_new(paceline_vec **out, const char *env, const paceline_vec_options *options) {
  ENTER;
  NEED(out);
  TEXT(env, PL_LONGEST_NAME);
  NEED(options);
  SIZED(options, paceline_vec_options);
  paceline_vec_options full = {0};
  take(&full, options);
  const char *env_options = full.env_options;
  if (env_options != NULL) TEXT(env_options, PL_LONGEST_JSON);
  uint64_t made;
  if (GO(pacelineGoVecNew(&made, (char *)env, &full, why)) == 0) *out = handle(made);
  return code;
}

int paceline_vec_spec(paceline_spec *obs, paceline_spec *action, const paceline_vec *v) {
  ENTER;
  NEED(obs);
  NEED(action);
  NEED(v);
  SIZED(obs, paceline_spec);
  SIZED(action, paceline_spec);
  paceline_spec o = {0}, a = {0};
  if (GO(pacelineGoVecSpec(&o, &a, id(v), why)) == 0) {
    give(obs, &o);
    give(action, &a);
  }
  return code;
}

int paceline_vec_describe(char **out, const paceline_vec *v) {
  ENTER;
  NEED(out);
  NEED(v);
  return GO(pacelineGoVecDescribe(out, id(v), why));
}

#define ROWS                  \
  NEED(rows);                 \
  SIZED(rows, paceline_rows); \
  paceline_rows full = {0};   \
  take(&full, rows)

int paceline_vec_reset(paceline_vec *v, const uint64_t *seeds, const uint8_t *mask, const paceline_rows *rows) {
  ENTER;
  NEED(v);
  ROWS;
  return GO(pacelineGoVecReset(id(v), (uint64_t *)seeds, (uint8_t *)mask, &full, why));
}

int paceline_vec_step(paceline_vec *v, const void *actions, const paceline_rows *rows) {
  ENTER;
  NEED(v);
  NEED(actions);
  ROWS;
  return GO(pacelineGoVecStep(id(v), (void *)actions, &full, why));
}

int paceline_vec_offer(paceline_vec *v, const paceline_rows *rows) {
  ENTER;
  NEED(v);
  ROWS;
  return GO(pacelineGoVecOffer(id(v), &full, why));
}

int paceline_vec_send(paceline_vec *v, const int32_t *env_ids, size_t n, const void *actions) {
  ENTER;
  NEED(v);
  if (n > 0) NEED(env_ids);
  if (n > 0) NEED(actions);
  return GO(pacelineGoVecSend(id(v), (int32_t *)env_ids, n, (void *)actions, why));
}

int paceline_vec_send_reset(paceline_vec *v, const int32_t *env_ids, size_t n, const uint64_t *seeds) {
  ENTER;
  NEED(v);
  if (n > 0) NEED(env_ids);
  return GO(pacelineGoVecSendReset(id(v), (int32_t *)env_ids, n, (uint64_t *)seeds, why));
}

int paceline_vec_recv(paceline_vec *v, int64_t max_ms) {
  ENTER;
  NEED(v);
  return GO(pacelineGoVecRecv(id(v), max_ms, why));
}

int paceline_vec_drain(paceline_vec *v) {
  ENTER;
  NEED(v);
  return GO(pacelineGoVecDrain(id(v), why));
}

int paceline_vec_save(void *out, size_t *size, paceline_vec *v, uint32_t i) {
  ENTER;
  NEED(size);
  NEED(v);
  return GO(pacelineGoVecSave(out, size, id(v), i, why));
}

int paceline_vec_restore(paceline_vec *v, uint32_t i, const void *state, size_t size) {
  ENTER;
  NEED(v);
  NEED(state);
  return GO(pacelineGoVecRestore(id(v), i, (void *)state, size, why));
}

int paceline_vec_render(uint8_t *out, size_t *size, uint32_t *height, uint32_t *width, paceline_vec *v, uint32_t i) {
  ENTER;
  NEED(size);
  NEED(height);
  NEED(width);
  NEED(v);
  return GO(pacelineGoVecRender(out, size, height, width, id(v), i, why));
}

/* -------------------------------------------------------- benchmarks */

int paceline_bench(char **out, const char *name, const char *options) {
  ENTER;
  NEED(out);
  TEXT(name, PL_LONGEST_NAME);
  if (options != NULL) TEXT(options, PL_LONGEST_JSON);
  return GO(pacelineGoBench(out, (char *)name, (char *)options, why));
}

/* --------------------------------------------------- the Atari console */

int paceline_console_new(paceline_console **out, const char *rom, const char *game, int other_md5, uint32_t seed,
                         double repeat_action_probability, uint32_t frame_skip) {
  ENTER;
  NEED(out);
  if (rom != NULL) TEXT(rom, PL_LONGEST_PATH);
  if (game != NULL) TEXT(game, PL_LONGEST_NAME);
  uint64_t made;
  if (GO(pacelineGoConsoleNew(&made, (char *)rom, (char *)game, other_md5, seed, repeat_action_probability, frame_skip,
                              why)) == 0)
    *out = handle(made);
  return code;
}

int paceline_rom_folder(const char *path) {
  ENTER;
  TEXT(path, PL_LONGEST_PATH);
  return GO(pacelineGoROMFolder((char *)path, why));
}

int paceline_rom_identify(char **out, const char *path) {
  ENTER;
  NEED(out);
  TEXT(path, PL_LONGEST_PATH);
  return GO(pacelineGoROMIdentify(out, (char *)path, why));
}

int paceline_console_set(paceline_console *c, const char *name, const char *value) {
  ENTER;
  NEED(c);
  TEXT(name, PL_LONGEST_NAME);
  TEXT(value, PL_LONGEST_NAME);
  return GO(pacelineGoConsoleSet(id(c), (char *)name, (char *)value, why));
}

int paceline_console_reset(paceline_console *c) {
  ENTER;
  NEED(c);
  return GO(pacelineGoConsoleReset(id(c), why));
}

int paceline_console_act(paceline_console *c, int32_t action, float strength, int32_t *reward) {
  ENTER;
  NEED(c);
  NEED(reward);
  return GO(pacelineGoConsoleAct(id(c), action, strength, reward, why));
}

int paceline_console_view(const paceline_console_state **out, const paceline_console *c) {
  ENTER;
  NEED(out);
  NEED(c);
  return GO(pacelineGoConsoleView((paceline_console_state **)out, id(c), why));
}

int paceline_console_list(int32_t *out, size_t capacity, size_t *count, const paceline_console *c, uint32_t which) {
  ENTER;
  if (capacity > 0) NEED(out);
  NEED(count);
  NEED(c);
  return GO(pacelineGoConsoleList(out, capacity, count, id(c), which, why));
}

int paceline_console_ram(uint8_t *out, const paceline_console *c) {
  ENTER;
  NEED(out);
  NEED(c);
  return GO(pacelineGoConsoleRAM(out, id(c), why));
}

int paceline_console_poke(paceline_console *c, uint32_t index, uint8_t value) {
  ENTER;
  NEED(c);
  return GO(pacelineGoConsolePoke(id(c), index, value, why));
}

int paceline_console_screen(uint8_t *out, size_t size, const paceline_console *c, uint32_t kind) {
  ENTER;
  NEED(out);
  NEED(c);
  return GO(pacelineGoConsoleScreen(out, size, id(c), kind, why));
}

int paceline_console_save(void *out, size_t *size, const paceline_console *c, int with_rng) {
  ENTER;
  NEED(size);
  NEED(c);
  return GO(pacelineGoConsoleSave(out, size, id(c), with_rng, why));
}

int paceline_console_restore(paceline_console *c, const void *state, size_t size) {
  ENTER;
  NEED(c);
  NEED(state);
  return GO(pacelineGoConsoleRestore(id(c), (void *)state, size, why));
}
