//go:build pacelinetest

/* paceline_test_panic(t): the call that panics (see testpanic.go). */
#include "bridge.h"

#include "_cgo_export.h"

int paceline_test_panic(paceline_trainer *t) {
  char why[PL_TEXT];
  int code = pacelineGoTestPanic((uint64_t)(uintptr_t)t, why);
  return code == PACELINE_OK ? code : pl_fail(code, "%s", why);
}
