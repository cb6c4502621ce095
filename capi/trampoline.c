/* Go cannot call a function pointer of C; these do it for it. Each keeps the
 * text that the callback set, while still on the callback's thread, and keeps
 * the callback's floating-point mode from staying behind. */
#include "bridge.h"

#include <stdlib.h>
#include <string.h>

static unsigned begin(void) {
  pl_callback_clear();
  return pl_float_enter();
}

/* Ends a call that began in the given mode; *text: what the callback set if it failed. */
static int end(unsigned mode, int code, char **text) {
  pl_float_leave(mode);
  if (code != 0) {
    free(*text);
    *text = pl_callback_text() == NULL ? NULL : strdup(pl_callback_text());
  }
  return code;
}

int pl_env_spec(const pl_family *f, paceline_spec *obs, paceline_spec *action, char **text) {
  memset(obs, 0, sizeof *obs);
  memset(action, 0, sizeof *action);
  obs->struct_size = action->struct_size = sizeof *obs;
  unsigned mode = begin();
  return end(mode, f->table.spec(f->user, obs, action), text);
}

int pl_env_create(pl_env *e, uint32_t index, uint64_t seed) {
  unsigned mode = begin();
  return end(mode, e->family->table.create(e->family->user, index, seed, &e->env), &e->text);
}

int pl_env_reset(pl_env *e, void *obs) {
  unsigned mode = begin();
  return end(mode, e->family->table.reset(e->env, obs), &e->text);
}

int pl_env_step(pl_env *e, void *obs) {
  e->reward = 0;
  e->ended = 0;
  unsigned mode = begin();
  return end(mode, e->family->table.step(e->env, &e->action, obs, &e->reward, &e->ended), &e->text);
}

int pl_env_mask(pl_env *e, uint8_t *mask) {
  unsigned mode = begin();
  return end(mode, e->family->table.mask(e->env, mask), &e->text);
}

int pl_env_save(pl_env *e, void *buf, size_t *len) {
  unsigned mode = begin();
  return end(mode, e->family->table.save(e->env, buf, len), &e->text);
}

int pl_env_restore(pl_env *e, const void *buf, size_t len) {
  unsigned mode = begin();
  return end(mode, e->family->table.restore(e->env, buf, len), &e->text);
}

int pl_plugin_open(paceline_env_open_function *open, paceline_env_plugin *out, char **text) {
  static const paceline_host host = {sizeof host, PACELINE_ABI_VERSION, paceline_set_callback_error};
  memset(out, 0, sizeof *out);
  out->struct_size = sizeof *out;
  out->table.struct_size = sizeof out->table;
  unsigned mode = begin();
  return end(mode, open(out, &host), text);
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
