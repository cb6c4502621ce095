/* Objects of every kind are made and freed many times, and the process does not grow. argv[1]: how
 * many times, default 1000 (make test-cycles: 10000). */
#include "t.h"

/* A cartridge for a console. It shows nothing. */
static const char *cartridge(void) {
  const char *path = tmp("nothing.bin");
  unsigned char image[4096] = {0x4C, 0x00, 0xF0}; /* JMP $F000 */
  image[4093] = image[4095] = 0xF0;
  FILE *f = fopen(path, "wb");
  CHECK(f != NULL && fwrite(image, sizeof image, 1, f) == 1 && fclose(f) == 0);
  return path;
}

static long kilobytes(const char *name) {
  char line[256];
  long n = -1;
  FILE *f = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, f) != NULL)
    if (strncmp(line, name, strlen(name)) == 0) n = strtol(line + strlen(name), NULL, 10);
  fclose(f);
  return n;
}

static paceline_trainer *one;
static const char *rom;

static void a_config(void) {
  paceline_config *c;
  OK(paceline_config_new(&c, "dqn"));
  OK(paceline_config_set(c, "net_arch", "32,32"));
  paceline_config_free(c);
}

static void a_trainer(void) {
  paceline_trainer *t = quick("CartPole-v1");
  OK(paceline_trainer_run(NULL, t, 8, 0));
  OK(paceline_trainer_free(t));
}

static void a_policy(void) {
  paceline_policy *p;
  float obs[4] = {0};
  int32_t action;
  OK(paceline_policy_from_trainer(&p, one));
  OK(paceline_policy_act(p, 1, obs, NULL, &action, NULL));
  paceline_policy_free(p);
}

static void a_vec(void) {
  paceline_vec *v;
  static unsigned char obs[4 * 84 * 84 * 4];
  paceline_vec_options o = {.struct_size = sizeof o, .num_envs = 4, .num_threads = 2, .pin = -1};
  paceline_rows rows = {.struct_size = sizeof rows, .num_rows = 4, .obs = obs};
  OK(paceline_vec_new(&v, "Catch-v0", &o));
  OK(paceline_vec_reset(v, NULL, NULL, &rows));
  OK(paceline_vec_free(v));
}

static void a_console(void) {
  paceline_console *c;
  int32_t reward;
  OK(paceline_console_new(&c, rom, "tetris", 1, 0, 0, 1));
  OK(paceline_console_act(&reward, c, 0, 1));
  paceline_console_free(c);
}

static void a_store(void) {
  static const float start[1000];
  paceline_store_options o = {.struct_size = sizeof o, .optimizer = "adagrad"};
  paceline_push p = {.struct_size = sizeof p, .learning_rate = 0.1, .step = 1};
  paceline_answer a = {.struct_size = sizeof a};
  paceline_store *s;
  OK(paceline_store_new(&s, start, 1000, &o));
  OK(paceline_store_push(&a, s, start, 1000, &p));
  paceline_store_free(s);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*cycle)(void);
  } kinds[] = {{"config", a_config}, {"trainer", a_trainer}, {"policy", a_policy},
               {"vec", a_vec},       {"console", a_console}, {"store", a_store}};
  int cycles = argc > 1 ? atoi(argv[1]) : 1000, failed = 0;
  const long most = 4000;       /* kB: 4 for each of 1000 cycles would be a leak */
  if (getenv("GOGC") == NULL) { /* frequent collections: growth is then not garbage */
    setenv("GOGC", "20", 1);
    execv("/proc/self/exe", argv);
  }
  rom = cartridge();
  one = quick("CartPole-v1");
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    double began = now();
    long first = 0, threads = 0;
    for (int i = 0; i < cycles; i++) {
      if (i == cycles / 5)
        first = kilobytes("VmRSS:"), threads = kilobytes("Threads:"); /* Go's heap has its final size */
      kinds[k].cycle();
    }
    long last = kilobytes("VmRSS:");
    long grown = kilobytes("Threads:") - threads;
    printf("%d of %s: %ld kB, then %ld kB; %.1f s\n", cycles, kinds[k].name, first, last, now() - began);
    if (last - first > most || grown > 8) { /* some threads return to the pool late */
      printf("%s: %ld kB and %ld threads more\n", kinds[k].name, last - first, grown);
      failed = 1;
    }
  }
  OK(paceline_trainer_free(one));
  return failed;
}
