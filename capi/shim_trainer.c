/* Sections 6 and 7 of paceline.h: the trainer, and environments that the caller steps. */
#include "shim.h"

#include <stdlib.h>

int paceline_trainer_new(paceline_trainer **out, const paceline_config *cfg) {
  ENTER;
  NEED(out, cfg);
  MAKE(out, pacelineGoTrainerNew(&made, id(cfg), &why));
}

static int check_table(paceline_trainer **out, const paceline_config *cfg, const paceline_env_table *table) {
  int code;
  if ((code = shim_refused(__builtin_frame_address(0))) != PACELINE_OK) return code;
  NEED(out, cfg, table);
  SIZED(table, paceline_env_table);
  return PACELINE_OK;
}

int paceline_trainer_new_table(paceline_trainer **out, const paceline_config *cfg, const paceline_env_table *table,
                               void *user, void (*release)(void *user)) {
  pl_error why;
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
  shim_copy_in(&family->table, table);
  family->user = user;
  family->release = release;
  /* From here on Go calls release. */
  if (GO(pacelineGoTrainerNewTable(&made, id(cfg), family, &why)) == 0) *out = handle(made);
  return code;
}

int paceline_trainer_new_push(paceline_trainer **out, const paceline_config *cfg, const paceline_spec *obs,
                              const paceline_spec *action) {
  ENTER;
  NEED(out, cfg);
  COPY(paceline_spec, o, obs);
  COPY(paceline_spec, a, action);
  MAKE(out, pacelineGoTrainerNewPush(&made, id(cfg), &o, &a, &why));
}

int paceline_trainer_config(paceline_config **out, const paceline_trainer *t) {
  ENTER;
  NEED(out, t);
  MAKE(out, pacelineGoTrainerConfig(&made, id(t), &why));
}

SPEC(trainer, t, pacelineGoTrainerSpec)

int paceline_trainer_describe(char **out, const paceline_trainer *t) {
  ENTER;
  NEED(out, t);
  return GO(pacelineGoTrainerDescribe(out, id(t), &why));
}

int paceline_trainer_begin(paceline_trainer *t, int64_t total_timesteps, uint32_t flags) {
  ENTER;
  NEED(t);
  return GO(pacelineGoTrainerBegin(id(t), total_timesteps, flags, &why));
}

int paceline_trainer_run(paceline_stats *out, paceline_trainer *t, int64_t max_steps, int64_t max_ms) {
  return paceline_trainer_run_rollouts(out, t, 0, max_steps, max_ms);
}

int paceline_trainer_run_rollouts(paceline_stats *out, paceline_trainer *t, int64_t max_rollouts, int64_t max_steps,
                                  int64_t max_ms) {
  ENTER;
  NEED(t);
  if (out == NULL) return GO(pacelineGoTrainerRun(NULL, id(t), max_rollouts, max_steps, max_ms, &why));
  FILL(paceline_stats, out, pacelineGoTrainerRun(&full, id(t), max_rollouts, max_steps, max_ms, &why));
}

int paceline_trainer_stop(const paceline_trainer *t) {
  ENTER;
  NEED(t);
  return GO(pacelineGoTrainerStop(id(t), &why));
}

int paceline_trainer_stats(paceline_stats *out, const paceline_trainer *t) {
  ENTER;
  NEED(out, t);
  FILL(paceline_stats, out, pacelineGoTrainerStats(&full, id(t), &why));
}

int paceline_trainer_metric(paceline_metric *out, const paceline_trainer *t, size_t i) {
  ENTER;
  NEED(out, t);
  FILL(paceline_metric, out, pacelineGoTrainerMetric(&full, id(t), i, &why));
}

int paceline_trainer_metric_index(size_t *out, const paceline_trainer *t, const char *name) {
  ENTER;
  NEED(out, t);
  TEXT(name, PL_LONGEST_NAME);
  return GO(pacelineGoTrainerMetricIndex(out, id(t), (char *)name, &why));
}

int paceline_trainer_notice(char **out, paceline_trainer *t) {
  ENTER;
  NEED(out, t);
  return GO(pacelineGoTrainerNotice(out, id(t), &why));
}

int paceline_trainer_proposal(char **out, const paceline_trainer *t) {
  ENTER;
  NEED(out, t);
  return GO(pacelineGoTrainerProposal(out, id(t), &why));
}

int paceline_trainer_settle(paceline_trainer *t, int64_t max_ms) {
  ENTER;
  NEED(t);
  return GO(pacelineGoTrainerSettle(id(t), max_ms, &why));
}

int paceline_trainer_parameter(paceline_parameter *out, const paceline_trainer *t, const char *set, size_t i) {
  ENTER;
  NEED(out, t);
  TEXT(set, PL_LONGEST_NAME);
  FILL(paceline_parameter, out, pacelineGoTrainerParameter(&full, id(t), (char *)set, i, &why));
}

int paceline_trainer_get_parameters(float *out, size_t n, int64_t *updates, paceline_trainer *t, const char *set) {
  ENTER;
  NEED(out, t);
  TEXT(set, PL_LONGEST_NAME);
  return GO(pacelineGoTrainerGetParameters(out, n, updates, id(t), (char *)set, &why));
}

int paceline_trainer_set_parameters(paceline_trainer *t, const char *set, const float *in, size_t n) {
  ENTER;
  NEED(t);
  TEXT(set, PL_LONGEST_NAME);
  NEED(in);
  return GO(pacelineGoTrainerSetParameters(id(t), (char *)set, (float *)in, n, &why));
}

int paceline_trainer_hash(char **out, paceline_trainer *t, const char *part) {
  ENTER;
  NEED(out, t);
  TEXT(part, PL_LONGEST_NAME);
  return GO(pacelineGoTrainerHash(out, id(t), (char *)part, &why));
}

int paceline_trainer_save(paceline_trainer *t, const char *path, uint32_t flags) {
  ENTER;
  NEED(t);
  PATH(path);
  GO_WRITING(pacelineGoTrainerSave(id(t), (char *)path, flags, &why));
}

int paceline_trainer_save_order(paceline_trainer *t, const char *path) {
  ENTER;
  NEED(t);
  PATH(path);
  GO_WRITING(pacelineGoTrainerSaveOrder(id(t), (char *)path, &why));
}

int paceline_trainer_save_trace(paceline_trainer *t, const char *path) {
  ENTER;
  NEED(t);
  PATH(path);
  GO_WRITING(pacelineGoTrainerSaveTrace(id(t), (char *)path, &why));
}

int paceline_trainer_load(paceline_trainer *t, const char *path) {
  ENTER;
  NEED(t);
  PATH(path);
  return GO(pacelineGoTrainerLoad(id(t), (char *)path, &why));
}

int paceline_trainer_load_experience(paceline_trainer *t, const char *path) {
  ENTER;
  NEED(t);
  PATH(path);
  return GO(pacelineGoTrainerLoadExperience(id(t), (char *)path, &why));
}

int paceline_trainer_read_transitions(const paceline_transitions *to, paceline_trainer *t, const int64_t *numbers) {
  ENTER;
  COPY(paceline_transitions, full, to);
  NEED(t, numbers);
  return GO(pacelineGoTrainerReadTransitions(&full, id(t), (int64_t *)numbers, &why));
}

int paceline_trainer_add_transitions(paceline_trainer *t, const paceline_transitions *rows) {
  ENTER;
  NEED(t);
  COPY(paceline_transitions, full, rows);
  return GO(pacelineGoTrainerAddTransitions(id(t), &full, &why));
}

int paceline_trainer_rows(const paceline_rows *rows, void *actions, paceline_trainer *t) {
  ENTER;
  COPY(paceline_rows, full, rows);
  NEED(t);
  return GO(pacelineGoTrainerRows(&full, actions, id(t), &why));
}

int paceline_trainer_episodes(double *returns, int64_t *lengths, size_t *n, const paceline_trainer *t) {
  ENTER;
  NEED(returns, lengths, n, t);
  return GO(pacelineGoTrainerEpisodes(returns, lengths, n, id(t), &why));
}

int paceline_trainer_act(paceline_trainer *t, const paceline_rows *rows, void *actions, int64_t max_ms) {
  ENTER;
  NEED(t);
  COPY(paceline_rows, full, rows);
  NEED(actions);
  return GO(pacelineGoTrainerAct(id(t), &full, actions, max_ms, &why));
}

int paceline_trainer_observe(paceline_trainer *t, const paceline_rows *rows, int64_t max_ms) {
  ENTER;
  NEED(t);
  COPY(paceline_rows, full, rows);
  return GO(pacelineGoTrainerObserve(id(t), &full, max_ms, &why));
}

FREE_OUTSIDE(trainer, pacelineGoTrainerFree)
