/* Section 12 of paceline.h: updates from outside, and stores of parameters. */
#include "shim.h"

int paceline_trainer_gradient(float *out, size_t n, paceline_gradient *info, paceline_trainer *t, int64_t max_ms) {
  ENTER;
  NEED(out, info, t);
  FILL(paceline_gradient, info, pacelineGoTrainerGradient(out, n, &full, id(t), max_ms, &why));
}

int paceline_trainer_adopt(paceline_trainer *t, const float *in, size_t n, int64_t updates, int64_t steps) {
  ENTER;
  NEED(t, in);
  return GO(pacelineGoTrainerAdopt(id(t), (float *)in, n, updates, steps, &why));
}

int paceline_trainer_add_steps(paceline_trainer *t, uint32_t env, const paceline_steps *steps) {
  ENTER;
  NEED(t);
  COPY(paceline_steps, full, steps);
  return GO(pacelineGoTrainerAddSteps(id(t), env, &full, &why));
}

int paceline_trainer_draw(const paceline_minibatch *to, paceline_trainer *t, double beta) {
  ENTER;
  COPY(paceline_minibatch, full, to);
  NEED(t);
  return GO(pacelineGoTrainerDraw(&full, id(t), beta, &why));
}

int paceline_trainer_set_errors(paceline_trainer *t, const int64_t *identities, const float *errors, size_t n) {
  ENTER;
  NEED(t, identities, errors);
  return GO(pacelineGoTrainerSetErrors(id(t), (int64_t *)identities, (float *)errors, n, &why));
}

int paceline_trainer_gradient_of(float *out, size_t n, paceline_gradient *info, paceline_trainer *t,
                                 const paceline_minibatch *batch) {
  ENTER;
  NEED(out, info, t);
  COPY(paceline_minibatch, given, batch);
  FILL(paceline_gradient, info, pacelineGoTrainerGradientOf(out, n, &full, id(t), &given, &why));
}

int paceline_store_new(paceline_store **out, const float *parameters, size_t n, const paceline_store_options *options) {
  ENTER;
  NEED(out, parameters);
  COPY(paceline_store_options, full, options);
  MAKE(out, pacelineGoStoreNew(&made, (float *)parameters, n, &full, &why));
}

int paceline_store_push(paceline_answer *out, paceline_store *s, const float *grad, size_t n,
                        const paceline_push *push) {
  ENTER;
  NEED(out, s, grad);
  COPY(paceline_push, given, push);
  SIZED(out, paceline_answer);
  paceline_answer full = {0};
  GO(pacelineGoStorePush(&full, id(s), (float *)grad, n, &given, &why));
  if (code == PACELINE_OK || code == PACELINE_ESTALE) shim_copy_out(out, &full);
  return code;
}

int paceline_store_pull(float *out, size_t n, int64_t *version, paceline_store *s) {
  ENTER;
  NEED(out, s);
  return GO(pacelineGoStorePull(out, n, version, id(s), &why));
}

int paceline_store_describe(char **out, const paceline_store *s) {
  ENTER;
  NEED(out, s);
  return GO(pacelineGoStoreDescribe(out, id(s), &why));
}

int paceline_store_save(paceline_store *s, const char *path) {
  ENTER;
  NEED(s);
  PATH(path);
  GO_WRITING(pacelineGoStoreSave(id(s), (char *)path, &why));
}

int paceline_store_load(paceline_store **out, const char *path) {
  ENTER;
  NEED(out);
  PATH(path);
  MAKE(out, pacelineGoStoreLoad(&made, (char *)path, &why));
}

int paceline_store_to_bytes(void *out, size_t *size, paceline_store *s) {
  ENTER;
  NEED(size, s);
  return GO(pacelineGoStoreToBytes(out, size, id(s), &why));
}

int paceline_store_from_bytes(paceline_store **out, const void *bytes, size_t size) {
  ENTER;
  NEED(out, bytes);
  MAKE(out, pacelineGoStoreFromBytes(&made, (void *)bytes, size, &why));
}

FREE(store, pacelineGoStoreFree)
