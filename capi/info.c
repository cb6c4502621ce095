/* Functions of paceline.h that cannot fail: names, versions, texts. */
#include "shim.h"

#include <stdatomic.h>
#include <stdlib.h>

const char *paceline_status_str(int status) {
  switch (status) {
#define NAME(code) \
  case code: return #code
    NAME(PACELINE_OK);
    NAME(PACELINE_EFAIL);
    NAME(PACELINE_EINVAL);
    NAME(PACELINE_EHANDLE);
    NAME(PACELINE_EBUSY);
    NAME(PACELINE_ECALLBACK);
    NAME(PACELINE_ESTOPPED);
    NAME(PACELINE_ENOMEM);
    NAME(PACELINE_EFORKED);
    NAME(PACELINE_EPANIC);
    NAME(PACELINE_EIO);
    NAME(PACELINE_EVERSION);
    NAME(PACELINE_ENAN);
    NAME(PACELINE_ETIMEDOUT);
    NAME(PACELINE_ESTALE);
#undef NAME
  }
  return "unknown status";
}

void paceline_string_free(char *text) { free(text); }

const char *paceline_version(void) { return PACELINE_VERSION; }
int paceline_abi_version(void) { return PACELINE_ABI_VERSION; }

const char *paceline_build_info(void) {
  static _Atomic(char *) known;
  char *info = atomic_load(&known);
  if (info == NULL && shim_refused(__builtin_frame_address(0)) == PACELINE_OK) {
    pl_thread_enter();
    unsigned mode = pl_float_enter();
    info = pacelineGoBuildInfo();
    pl_float_leave(mode);
    atomic_store(&known, info);
  }
  return info == NULL ? "{}" : info;
}
