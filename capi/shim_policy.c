/* Section 8 of paceline.h: the policy. */
#include "shim.h"

int paceline_policy_load(paceline_policy **out, const char *path) {
  ENTER;
  NEED(out);
  PATH(path);
  MAKE(out, pacelineGoPolicyLoad(&made, (char *)path, &why));
}

int paceline_policy_from_trainer(paceline_policy **out, paceline_trainer *t) {
  ENTER;
  NEED(out, t);
  MAKE(out, pacelineGoPolicyFromTrainer(&made, id(t), &why));
}

int paceline_policy_from_bytes(paceline_policy **out, const void *bytes, size_t size) {
  ENTER;
  NEED(out, bytes);
  MAKE(out, pacelineGoPolicyFromBytes(&made, (void *)bytes, size, &why));
}

SPEC(policy, p, pacelineGoPolicySpec)

int paceline_policy_describe(char **out, const paceline_policy *p) {
  ENTER;
  NEED(out, p);
  return GO(pacelineGoPolicyDescribe(out, id(p), &why));
}

int paceline_policy_act(const paceline_policy *p, size_t n, const void *obs, const paceline_act_options *o,
                        void *actions, float *const *outputs) {
  ENTER;
  NEED(p);
  if (n > 0) NEED(obs, actions);
  COPY_OR_NULL(paceline_act_options, options, o);
  return GO(pacelineGoPolicyAct(id(p), n, (void *)obs, options_or_null, actions, (float **)outputs, &why));
}

int paceline_policy_evaluate(paceline_evaluation *out, const paceline_policy *p, const char *env,
                             const char *env_options, const paceline_eval_options *o) {
  ENTER;
  NEED(out, p);
  TEXT(env, PL_LONGEST_NAME);
  if (env_options != NULL) TEXT(env_options, PL_LONGEST_JSON);
  COPY_OR_NULL(paceline_eval_options, options, o);
  FILL(paceline_evaluation, out,
       pacelineGoPolicyEvaluate(&full, id(p), (char *)env, (char *)env_options, options_or_null, &why));
}

int paceline_policy_stop(const paceline_policy *p) {
  ENTER;
  NEED(p);
  return GO(pacelineGoPolicyStop(id(p), &why));
}

int paceline_policy_save(const paceline_policy *p, const char *path) {
  ENTER;
  NEED(p);
  PATH(path);
  GO_WRITING(pacelineGoPolicySave(id(p), (char *)path, &why));
}

int paceline_policy_to_bytes(void *out, size_t *size, const paceline_policy *p) {
  ENTER;
  NEED(size, p);
  return GO(pacelineGoPolicyToBytes(out, size, id(p), &why));
}

FREE(policy, pacelineGoPolicyFree)
