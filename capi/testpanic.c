//go:build pacelinetest

/* paceline_test_panic(t): the call that panics (see testpanic.go). */
#include "bridge.h"

#include "_cgo_export.h"

int paceline_test_panic(paceline_trainer *t) {
  pl_error why;
  int code = pacelineGoTestPanic((uint64_t)(uintptr_t)t, &why);
  return code == PACELINE_OK ? code : pl_failed(code, &why);
}
