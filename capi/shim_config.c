/* Section 3 of paceline.h: configuration. */
#include "shim.h"

int paceline_methods(char **out) {
  ENTER;
  NEED(out);
  return GO(pacelineGoMethods(out, &why));
}

int paceline_config_new(paceline_config **out, const char *method) {
  ENTER;
  NEED(out);
  TEXT(method, PL_LONGEST_NAME);
  MAKE(out, pacelineGoConfigNew(&made, (char *)method, &why));
}

int paceline_config_load(paceline_config **out, const char *path) {
  ENTER;
  NEED(out);
  PATH(path);
  MAKE(out, pacelineGoConfigLoad(&made, (char *)path, &why));
}

int paceline_config_method(const char **out, const paceline_config *cfg) {
  ENTER;
  NEED(out, cfg);
  return GO(pacelineGoConfigMethod((char **)out, id(cfg), &why));
}

int paceline_config_set(paceline_config *cfg, const char *key, const char *value) {
  ENTER;
  NEED(cfg);
  TEXT(key, PL_LONGEST_NAME);
  TEXT(value, PL_LONGEST_VALUE);
  return GO(pacelineGoConfigSet(id(cfg), (char *)key, (char *)value, &why));
}

int paceline_config_get(char **out, const paceline_config *cfg, const char *key) {
  ENTER;
  NEED(out, cfg);
  TEXT(key, PL_LONGEST_NAME);
  return GO(pacelineGoConfigGet(out, id(cfg), (char *)key, &why));
}

int paceline_config_preset(paceline_config *cfg, const char *preset, const char *env) {
  ENTER;
  NEED(cfg);
  TEXT(preset, PL_LONGEST_NAME);
  TEXT(env, PL_LONGEST_NAME);
  return GO(pacelineGoConfigPreset(id(cfg), (char *)preset, (char *)env, &why));
}

int paceline_config_presets(char **out, const paceline_config *cfg) {
  ENTER;
  NEED(out, cfg);
  return GO(pacelineGoConfigPresets(out, id(cfg), &why));
}

int paceline_config_describe(paceline_option *out, const paceline_config *cfg, size_t i) {
  ENTER;
  NEED(out, cfg);
  FILL(paceline_option, out, pacelineGoConfigDescribe(&full, id(cfg), i, &why));
}

FREE(config, pacelineGoConfigFree)
