/* Calls driver functions before the driver is loaded, in a child of fork(), and in the parent after
 * the fork. */
#include "driver.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) \
  if (!(what)) return printf("line %d: %s\n", __LINE__, #what), 1

int main(void) {
  char why[200];
  int n = 0;
  CHECK(cuInit(0) == CUDA_SUCCESS); /* the slot's stand-in: the driver is not loaded */
  CHECK(cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(paceline_cuda_load(why, sizeof why) == PACELINE_CUDA_LOADED);
  CHECK(cuInit(0) == CUDA_SUCCESS && cuDeviceGetCount(&n) == CUDA_SUCCESS && n == 1);
  CHECK(cuMemAllocManaged(NULL, 1, 0) == CUDA_ERROR_NOT_FOUND); /* cu refers to it, this driver lacks it */
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    CHECK(cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_ERROR_NOT_INITIALIZED);
    return 0;
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(cuDeviceGetCount(&n) == CUDA_SUCCESS);
  return 0;
}
