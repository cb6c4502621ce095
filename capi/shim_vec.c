/* Section 9 of paceline.h: the vector environment. */
#include "shim.h"

int paceline_vec_new(paceline_vec **out, const char *env, const paceline_vec_options *options) {
  ENTER;
  NEED(out);
  TEXT(env, PL_LONGEST_NAME);
  COPY(paceline_vec_options, full, options);
  const char *env_options = full.env_options;
  if (env_options != NULL) TEXT(env_options, PL_LONGEST_JSON);
  MAKE(out, pacelineGoVecNew(&made, (char *)env, &full, &why));
}

SPEC(vec, v, pacelineGoVecSpec)

int paceline_vec_describe(char **out, const paceline_vec *v) {
  ENTER;
  NEED(out, v);
  return GO(pacelineGoVecDescribe(out, id(v), &why));
}

int paceline_vec_reset(paceline_vec *v, const uint64_t *seeds, const uint8_t *mask, const paceline_rows *rows) {
  ENTER;
  NEED(v);
  COPY(paceline_rows, full, rows);
  return GO(pacelineGoVecReset(id(v), (uint64_t *)seeds, (uint8_t *)mask, &full, &why));
}

int paceline_vec_step(paceline_vec *v, const void *actions, const paceline_rows *rows) {
  ENTER;
  NEED(v, actions);
  COPY(paceline_rows, full, rows);
  return GO(pacelineGoVecStep(id(v), (void *)actions, &full, &why));
}

int paceline_vec_offer(paceline_vec *v, const paceline_rows *rows) {
  ENTER;
  NEED(v);
  COPY(paceline_rows, full, rows);
  return GO(pacelineGoVecOffer(id(v), &full, &why));
}

int paceline_vec_send(paceline_vec *v, const int32_t *env_ids, size_t n, const void *actions) {
  ENTER;
  NEED(v);
  if (n > 0) NEED(env_ids, actions);
  return GO(pacelineGoVecSend(id(v), (int32_t *)env_ids, n, (void *)actions, &why));
}

int paceline_vec_send_reset(paceline_vec *v, const int32_t *env_ids, size_t n, const uint64_t *seeds) {
  ENTER;
  NEED(v);
  if (n > 0) NEED(env_ids);
  return GO(pacelineGoVecSendReset(id(v), (int32_t *)env_ids, n, (uint64_t *)seeds, &why));
}

int paceline_vec_send_new_game(paceline_vec *v, const int32_t *env_ids, size_t n) {
  ENTER;
  NEED(v);
  if (n > 0) NEED(env_ids);
  return GO(pacelineGoVecSendNewGame(id(v), (int32_t *)env_ids, n, &why));
}

int paceline_vec_recv(paceline_vec *v, int64_t max_ms) {
  ENTER;
  NEED(v);
  return GO(pacelineGoVecRecv(id(v), max_ms, &why));
}

int paceline_vec_under_way(size_t *out, const paceline_vec *v) {
  ENTER;
  NEED(out, v);
  return GO(pacelineGoVecUnderWay(out, id(v), &why));
}

int paceline_vec_drain(paceline_vec *v) {
  ENTER;
  NEED(v);
  return GO(pacelineGoVecDrain(id(v), &why));
}

int paceline_vec_save(void *out, size_t *size, paceline_vec *v, uint32_t i) {
  ENTER;
  NEED(size, v);
  return GO(pacelineGoVecSave(out, size, id(v), i, &why));
}

int paceline_vec_restore(paceline_vec *v, uint32_t i, const void *state, size_t size) {
  ENTER;
  NEED(v, state);
  return GO(pacelineGoVecRestore(id(v), i, (void *)state, size, &why));
}

int paceline_vec_render(uint8_t *out, size_t *size, uint32_t *height, uint32_t *width, paceline_vec *v, uint32_t i) {
  ENTER;
  NEED(size, height, width, v);
  return GO(pacelineGoVecRender(out, size, height, width, id(v), i, &why));
}

FREE_OUTSIDE(vec, pacelineGoVecFree)
