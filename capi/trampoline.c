/* Go cannot call a C function pointer; these functions call it for Go. Each copies the text
 * that the callback set, on the callback's thread, and undoes the callback's changes of the
 * floating-point mode. */
#include "bridge.h"

#include <stdlib.h>
#include <string.h>

/* A callback in progress on this thread. */
typedef struct call {
  pl_inside inside;
  unsigned mode;
} call;

static void begin(call *c, const void *family) {
  pl_callback_clear();
  pl_inside_enter(&c->inside, family);
  c->mode = pl_float_enter();
}

/* Ends a callback and returns code. If code is not 0, *text is replaced by a copy of the callback's
 * text, or NULL. */
static int end(call *c, int code, char **text) {
  pl_float_leave(c->mode);
  pl_inside_leave(&c->inside);
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
  call c;
  begin(&c, f);
  return end(&c, f->table.spec(f->user, obs, action), text);
}

int pl_env_create(pl_env *e, uint32_t index, uint64_t seed) {
  call c;
  begin(&c, e->family);
  return end(&c, e->family->table.create(e->family->user, index, seed, &e->env), &e->text);
}

int pl_env_reset(pl_env *e, void *obs) {
  call c;
  begin(&c, e->family);
  return end(&c, e->family->table.reset(e->env, obs), &e->text);
}

int pl_env_step(pl_env *e, void *obs) {
  e->reward = 0;
  e->ended = 0;
  call c;
  begin(&c, e->family);
  return end(&c, e->family->table.step(e->env, e->action, obs, &e->reward, &e->ended), &e->text);
}

pl_batch *pl_batch_new(uint32_t n, size_t action_size) {
  size_t each = 2 * sizeof(void *) + sizeof(uint32_t) + sizeof(float) + action_size + sizeof(uint8_t);
  pl_batch *b = calloc(1, sizeof *b + n * each);
  if (b == NULL) return NULL;
  b->envs = (void **)(b + 1);
  b->obs = b->envs + n;
  b->rows = (uint32_t *)(b->obs + n);
  b->rewards = (float *)(b->rows + n);
  b->actions = (char *)(b->rewards + n); /* int32 or float: as aligned as what is before */
  b->ended = (uint8_t *)(b->actions + n * action_size);
  return b;
}

int pl_env_step_many(const pl_family *f, pl_batch *b, uint32_t n, void *obs, size_t size, char **text) {
  for (uint32_t k = 0; k < n; k++) b->obs[k] = (char *)obs + b->rows[k] * size;
  memset(b->rewards, 0, n * sizeof *b->rewards);
  memset(b->ended, 0, n);
  call c;
  begin(&c, f);
  return end(&c, f->table.step_many(f->user, n, b->envs, b->actions, b->obs, b->rewards, b->ended), text);
}

int pl_env_mask(pl_env *e, uint8_t *mask) {
  call c;
  begin(&c, e->family);
  return end(&c, e->family->table.mask(e->env, mask), &e->text);
}

int pl_env_save(pl_env *e, void *buf, size_t *len) {
  call c;
  begin(&c, e->family);
  return end(&c, e->family->table.save(e->env, buf, len), &e->text);
}

int pl_env_restore(pl_env *e, const void *buf, size_t len) {
  call c;
  begin(&c, e->family);
  return end(&c, e->family->table.restore(e->env, buf, len), &e->text);
}

int pl_plugin_open(paceline_env_open_function *open, paceline_env_plugin *out, char **text) {
  static const paceline_host host = {sizeof host, PACELINE_ABI_VERSION, paceline_set_callback_error};
  memset(out, 0, sizeof *out);
  out->struct_size = sizeof *out;
  out->table.struct_size = sizeof out->table;
  call c;
  begin(&c, PL_OPENING);
  return end(&c, open(out, &host), text);
}

void pl_env_destroy(pl_env *e) {
  call c;
  begin(&c, e->family);
  e->family->table.destroy(e->env);
  end(&c, 0, NULL);
  free(e->text);
  free(e);
}

void pl_family_release(pl_family *f) {
  if (f->release != NULL) {
    call c;
    begin(&c, f);
    f->release(f->user);
    end(&c, 0, NULL);
  }
  free(f);
}
