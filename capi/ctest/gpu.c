/* A library with CUDA built in, on a machine without a GPU: loading, training and paceline_devices.
 * The dynamic linker finds no driver, one that does not start, or one that works. Arguments: the
 * text that paceline_devices must contain and a digest to compare with, or "load", which measures
 * loading. */
#include "dl.h"
#include "t.h"

static __typeof__(paceline_devices) *devices;

/* Seconds of loading and a first call, in a new process. */
static double loading(void) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    double began = now();
    paceline_config *cfg;
    dl_load();
    OK(paceline_config_new(&cfg, "dqn"));
    double took = now() - began;
    _exit(write(ends[1], &took, sizeof took) != sizeof took);
  }
  double took = 1e9;
  close(ends[1]);
  CHECK(read(ends[0], &took, sizeof took) == sizeof took);
  close(ends[0]);
  waitpid(pid, NULL, 0);
  return took;
}

static void train(const char *hash) {
  char *text;
  paceline_trainer *t = quick("CartPole-v1");
  OK(paceline_trainer_run(NULL, t, 500, 0));
  OK(paceline_trainer_hash(&text, t, "q_net"));
  if (hash[0] != 0) CHECK(strcmp(text, hash) == 0); /* the digest of a library without CUDA */
  printf("%s\n", text);
  paceline_string_free(text);
  paceline_trainer_free(t);
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "load") == 0) {
    double best = 1e9;
    for (int i = 0; i < 30; i++) {
      double took = loading();
      if (took < best) best = took;
    }
    printf("%.2f\n", best * 1e3);
    return 0;
  }
  CHECK(argc == 3);
  void *library = dl_load();
  devices = (__typeof__(paceline_devices) *)dlsym(library, "paceline_devices");
  train(argv[2]);
  for (int i = 0; i < 2; i++) { /* the same answer twice */
    char *text;
    OK(devices(&text));
    if (strstr(text, argv[1]) == NULL) return printf("%s, must say %s\n", text, argv[1]), 1;
    paceline_string_free(text);
  }
  train(argv[2]);
  char *text;
  const pid_t pid = fork();
  if (pid == 0) _exit(devices(&text) != PACELINE_EFORKED);
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return 0;
}
