/* What the macros of shim.h call, and the header's sections that are small: 10, and the
 * environments in files of their own of section 5. */
#include "shim.h"

int shim_refuse_forked(void) {
  return pl_fail(PACELINE_EFORKED,
                 "the library was loaded before this process was forked and has no threads here; load it in the child "
                 "itself, or start the child with exec (spawn)");
}

int shim_check_size(const char *name, uint32_t given, size_t first, size_t known) {
  if (given < first)
    return pl_fail(PACELINE_EINVAL, "%s.struct_size: %u, must be at least %zu (set it to sizeof)", name, given, first);
  if (given > known)
    return pl_fail(PACELINE_EVERSION, "%s.struct_size: %u, this library (%s) knows %zu bytes", name, given,
                   PACELINE_VERSION, known);
  return PACELINE_OK;
}

int paceline_env_load(char **out, const char *path) {
  ENTER;
  NEED(out);
  TEXT(path, PL_LONGEST_PATH);
  return GO(pacelineGoEnvLoad(out, (char *)path, &why));
}

int paceline_env_names(char **out) {
  ENTER;
  NEED(out);
  return GO(pacelineGoEnvNames(out, &why));
}

int paceline_bench(char **out, const char *name, const char *options) {
  ENTER;
  NEED(out);
  TEXT(name, PL_LONGEST_NAME);
  if (options != NULL) TEXT(options, PL_LONGEST_JSON);
  return GO(pacelineGoBench(out, (char *)name, (char *)options, &why));
}
