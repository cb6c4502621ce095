/* Environments in shared libraries of their own: paceline_env_load. */
#include "bridge.h"

#include <dlfcn.h>
#include <string.h>

/* The file is never unloaded: its environments may live as long as the process. */
paceline_env_open_function *pl_plugin_load(const char *path, char **text) {
  pl_inside inside;
  pl_inside_enter(&inside, PL_OPENING); /* its constructors run */
  void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  pl_inside_leave(&inside);
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
