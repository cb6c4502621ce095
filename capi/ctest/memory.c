/* Calls that need more memory than the process may have are refused with both numbers before they
 * allocate, and the process goes on. Each case runs in a process of its own with 4 GB of address
 * space (ulimit -v), of which loading takes about 1 GB. */
#include "dl.h"
#include "t.h"

#include <fcntl.h>
#include <sys/resource.h>

static void *library;
#define FUNCTION(name) ((__typeof__(name) *)dlsym(library, #name))

static void set(paceline_config *cfg, const char *key, const char *value) { OK(paceline_config_set(cfg, key, value)); }

static void refused(int status, const char *largest) {
  STATUS(status, PACELINE_ENOMEM);
  const char *why = paceline_last_error();
  CHECK(strstr(why, largest) != NULL && strstr(why, " needs ") != NULL && strstr(why, " are available (") != NULL);
  printf("%s\n", why);
}

/* settings: "key", "value", ... The trainer is refused, and a small one made afterwards trains. */
static void trainer(const char *method, const char *largest, const char *const *settings) {
  paceline_config *cfg;
  paceline_trainer *t = NULL;
  OK(paceline_config_new(&cfg, method));
  for (; *settings != NULL; settings += 2) set(cfg, settings[0], settings[1]);
  refused(paceline_trainer_new(&t, cfg), largest);
  CHECK(t == NULL);
  paceline_config_free(cfg);
  OK(paceline_config_new(&cfg, "dqn"));
  set(cfg, "env", "CartPole-v1");
  set(cfg, "buffer_size", "10000");
  OK(paceline_trainer_new(&t, cfg));
  OK(paceline_trainer_run(NULL, t, 500, 0));
  paceline_trainer_free(t);
  paceline_config_free(cfg);
}

#define TRAINER(method, largest, ...) trainer(method, largest, (const char *const[]){__VA_ARGS__, NULL})

static void wide_network(void) {
  TRAINER("dqn", "net_arch: [16000 16000]", "env", "CartPole-v1", "net_arch", "16000,16000", "buffer_size", "10000");
}
static void wide_network_a2c(void) {
  TRAINER("a2c", "policy: MlpPolicy", "env", "CartPole-v1", "net_arch_pi", "11500,11500", "net_arch_vf", "11500,11500");
}
static void large_batch(void) {
  TRAINER("dqn", "batch_size: 65536", "env", "Catch-v0", "batch_size", "65536", "buffer_size", "70000");
}
static void many_envs(void) {
  TRAINER("dqn", "buffer_size: 65536", "env", "Catch-v0", "num_envs", "65536", "buffer_size", "65536",
          "learning_starts", "65536");
}
static void long_rollout(void) {
  TRAINER("a2c", "n_steps: 4096", "env", "Catch-v0", "num_envs", "16", "n_steps", "4096");
}
static void large_replay(void) {
  TRAINER("dqn", "buffer_size: 10000000", "env", "Catch-v0", "buffer_size", "10000000");
}

static void vector(void) {
  paceline_vec *v = NULL;
  paceline_vec_options o = {.struct_size = sizeof o, .num_envs = 65536, .num_threads = 2, .pin = -1};
  o.env_options = "{}";
  struct rlimit less = {2000ul << 20, RLIM_INFINITY};
  CHECK(setrlimit(RLIMIT_AS, &less) == 0);
  refused(FUNCTION(paceline_vec_new)(&v, "Catch-v0", &o), "num_envs: 65536");
  o.num_envs = 16;
  OK(FUNCTION(paceline_vec_new)(&v, "Catch-v0", &o));
  FUNCTION(paceline_vec_free)(v);
}

static void bench(void) {
  char *out = NULL;
  refused(FUNCTION(paceline_bench)(&out, "update", "{\"batch\": 65536}"), "options: batch 65536");
  refused(FUNCTION(paceline_bench)(
              &out, "modes",
              "{\"num_envs\": [65536], \"settings\": {\"buffer_size\": \"65536\", \"learning_starts\": \"65536\", "
              "\"window\": \"65536\", \"target_update_interval\": \"65536\"}}"),
          "buffer_size: 65536");
  refused(FUNCTION(paceline_bench)(&out, "forward", "{\"rows\": [65536], \"trials\": 1}"), "rows: 65536");
  FAILS(FUNCTION(paceline_bench)(&out, "update", "{\"batch\": 1000000000000}"), PACELINE_EINVAL, "batch 1000000000000");
}

/* Makes policies of 68 MB until there is no memory for another one. */
static void policies(void) {
  enum { MOST = 80 };
  paceline_config *cfg;
  paceline_trainer *t = NULL;
  paceline_policy *p[MOST];
  size_t size = 0;
  int made = 1, status = PACELINE_OK;
  OK(paceline_config_new(&cfg, "dqn"));
  set(cfg, "env", "CartPole-v1");
  set(cfg, "net_arch", "4096,4096");
  set(cfg, "buffer_size", "10000");
  OK(paceline_trainer_new(&t, cfg));
  OK(paceline_policy_from_trainer(&p[0], t));
  paceline_trainer_free(t);
  paceline_config_free(cfg);
  OK(FUNCTION(paceline_policy_to_bytes)(NULL, &size, p[0]));
  void *bytes = malloc(size);
  OK(FUNCTION(paceline_policy_to_bytes)(bytes, &size, p[0]));
  for (; made < MOST && status == PACELINE_OK; made += status == PACELINE_OK)
    status = FUNCTION(paceline_policy_from_bytes)(&p[made], bytes, size);
  refused(status, "");
  while (made > 0) paceline_policy_free(p[--made]);
  OK(FUNCTION(paceline_policy_from_bytes)(&p[0], bytes, size));
  paceline_policy_free(p[0]);
  free(bytes);
}

/* A trainer that fits can be made many times: its memory is used again, and garbage in Go's heap
 * does not reach the limit. Networks are 1.2 GB of 2.8 GB. */
static void again(void) {
  for (int i = 0; i < 4; i++) {
    paceline_config *cfg;
    paceline_trainer *t = NULL;
    OK(paceline_config_new(&cfg, "dqn"));
    set(cfg, "env", "CartPole-v1");
    set(cfg, "net_arch", "6000,6000");
    set(cfg, "buffer_size", "10000");
    set(cfg, "learning_starts", "1000000");
    OK(paceline_trainer_new(&t, cfg));
    OK(paceline_trainer_run(NULL, t, 20, 0));
    paceline_trainer_free(t);
    paceline_config_free(cfg);
  }
}

static const struct {
  const char *name;
  void (*run)(void);
} cases[] = {{"wide_network", wide_network},
             {"wide_network_a2c", wide_network_a2c},
             {"large_batch", large_batch},
             {"many_envs", many_envs},
             {"long_rollout", long_rollout},
             {"large_replay", large_replay},
             {"vector", vector},
             {"bench", bench},
             {"policies", policies},
             {"again", again}};

int main(int argc, char **argv) {
  int failed = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (argc > 1 && strcmp(argv[1], cases[i].name) != 0) continue;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
      struct rlimit limit = {4000ul << 20, RLIM_INFINITY};
      CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
      library = dl_load();
      cases[i].run();
      exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      printf("%s: status %x\n", cases[i].name, (unsigned)status);
      failed = 1;
    }
  }
  return failed;
}
