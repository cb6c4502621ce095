/* Environments in shared libraries of their own: paceline_env_load. */
#include "bridge.h"

#include <dlfcn.h>
#include <string.h>

static const paceline_host host = {sizeof(paceline_host), PACELINE_ABI_VERSION, paceline_set_callback_error};

/* The file stays loaded: its environments may live as long as the process. */
paceline_env_open_function *pl_plugin_load(const char *path, char **text) {
  void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (file == NULL) {
    *text = strdup(dlerror());
    return NULL;
  }
  paceline_env_open_function *open = (paceline_env_open_function *)dlsym(file, "paceline_env_open");
  if (open == NULL) {
    *text = strdup("it has no function paceline_env_open");
    dlclose(file);
  }
  return open;
}

int pl_plugin_open(paceline_env_open_function *open, paceline_env_plugin *out, char **text) {
  memset(out, 0, sizeof *out);
  out->struct_size = sizeof *out;
  out->table.struct_size = sizeof out->table;
  unsigned mode = pl_float_enter();
  pl_callback_clear();
  int code = open(out, &host);
  pl_float_leave(mode);
  if (code != 0 && pl_callback_text() != NULL) *text = strdup(pl_callback_text());
  return code;
}
