/* Go cannot call a function pointer of C; these do it for it. Each keeps the
 * text that the callback set, while still on the callback's thread, and keeps
 * the callback's floating-point mode from staying behind. */
#include "bridge.h"

#include <stdlib.h>
#include <string.h>

#define CALLBACK(result, call)        \
  do {                                \
    unsigned mode = pl_float_enter(); \
    pl_callback_clear();              \
    result = (call);                  \
    pl_float_leave(mode);             \
  } while (0)

static char *kept(void) {
  const char *text = pl_callback_text();
  return text == NULL ? NULL : strdup(text);
}

static int ended(pl_env *e, int code) {
  if (code != 0) {
    free(e->text);
    e->text = kept();
  }
  return code;
}

int pl_env_spec(const pl_family *f, paceline_spec *obs, paceline_spec *action, char **text) {
  int code;
  memset(obs, 0, sizeof *obs);
  memset(action, 0, sizeof *action);
  obs->struct_size = action->struct_size = sizeof *obs;
  CALLBACK(code, f->table.spec(f->user, obs, action));
  if (code != 0) *text = kept();
  return code;
}

int pl_env_create(pl_env *e, uint32_t index, uint64_t seed) {
  int code;
  CALLBACK(code, e->family->table.create(e->family->user, index, seed, &e->env));
  return ended(e, code);
}

int pl_env_reset(pl_env *e, void *obs) {
  int code;
  CALLBACK(code, e->family->table.reset(e->env, obs));
  return ended(e, code);
}

int pl_env_step(pl_env *e, void *obs) {
  int code;
  e->reward = 0;
  e->ended = 0;
  CALLBACK(code, e->family->table.step(e->env, &e->action, obs, &e->reward, &e->ended));
  return ended(e, code);
}

int pl_env_save(pl_env *e, void *buf, size_t *len) {
  int code;
  CALLBACK(code, e->family->table.save(e->env, buf, len));
  return ended(e, code);
}

int pl_env_restore(pl_env *e, const void *buf, size_t len) {
  int code;
  CALLBACK(code, e->family->table.restore(e->env, buf, len));
  return ended(e, code);
}

void pl_env_destroy(pl_env *e) {
  unsigned mode = pl_float_enter();
  e->family->table.destroy(e->env);
  pl_float_leave(mode);
  free(e->text);
  free(e);
}

void pl_family_release(pl_family *f) {
  if (f->release != NULL) {
    unsigned mode = pl_float_enter();
    f->release(f->user);
    pl_float_leave(mode);
  }
  free(f);
}
