/* Random calls with valid and invalid arguments, from several threads that share all handles. Each
 * call returns a code of the header and, if it fails, a text of one line. Nothing crashes, hangs or
 * panics.
 *
 *     random_calls [seconds [threads [seed [file ...]]]]
 *
 * The files are inputs that libFuzzer has kept. Their calls come first, one file after the other.
 * With -DFUZZ this is libFuzzer's target, and its bytes determine the calls. */
#include <pthread.h>
#include <stdatomic.h>

#include "counter.h"

enum { SLOTS = 6, MOST = 4096 };
enum kind { CONFIG, TRAINER, POLICY, VEC, CONSOLE, STORE, KINDS };

static _Atomic(void *) slots[KINDS][SLOTS];
static atomic_long calls, failures;
static char rom[4096], file[4096], order[4096];

/* The source of random choices: a generator, or bytes. */
typedef struct source {
  uint64_t state;
  const uint8_t *bytes;
  size_t left;
  char text[80];  /* the latest text drawn */
  family *family; /* for trainers on a table */
} source;

static uint32_t draw(source *s, uint32_t n) {
  uint32_t x = 0;
  if (s->bytes != NULL) {
    for (int i = 0; i < (n > 256 ? 4 : 1) && s->left > 0; i++, s->left--) x = x << 8 | *s->bytes++;
  } else {
    s->state = s->state * 6364136223846793005u + 1442695040888963407u;
    x = (uint32_t)(s->state >> 33);
  }
  return n == 0 ? x : x % n;
}

/* A handle, mostly of the kind; sometimes of another kind, freed, NULL or wild. */
static void *any(source *s, enum kind kind) {
  uint32_t odd = draw(s, 24);
  if (odd == 0) return NULL;
  if (odd == 1) return (void *)(uintptr_t)(0x1234 + draw(s, 0));
  if (odd == 2) kind = (enum kind)draw(s, KINDS);
  return atomic_load(&slots[kind][draw(s, SLOTS)]);
}

/* Puts a new handle into a slot and frees the slot's old handle. */
static void store(source *s, enum kind kind, void *made) {
  void *old = atomic_exchange(&slots[kind][draw(s, SLOTS)], made);
  switch (kind) {
    case CONFIG: paceline_config_free(old); break;
    case TRAINER: paceline_trainer_free(old); break;
    case POLICY: paceline_policy_free(old); break;
    case VEC: paceline_vec_free(old); break;
    case CONSOLE: paceline_console_free(old); break;
    case STORE: paceline_store_free(old); break;
    default: break;
  }
}

/* Checks the result of a call. */
static int say(int status) {
  atomic_fetch_add(&calls, 1);
  if (status == PACELINE_OK) return status;
  atomic_fetch_add(&failures, 1);
  const char *text = paceline_last_error();
  if (status > 0 || status < PACELINE_ESTALE || status == PACELINE_EPANIC || status == PACELINE_EFORKED ||
      text[0] == 0 || strchr(text, '\n') != NULL || strlen(text) > 1023) {
    fprintf(stderr, "status %d (%s): \"%s\"\n", status, paceline_status_str(status), text);
    abort();
  }
  return status;
}

static const char *const words[] = {"dqn",
                                    "a2c",
                                    "ppo",
                                    "pqn",
                                    "a3c",
                                    "appo",
                                    "ga3c",
                                    "gorila",
                                    "CartPole-v1",
                                    "Acrobot-v1",
                                    "no such",
                                    "q_net",
                                    "policy",
                                    "q_net_target",
                                    "replay",
                                    "tuned",
                                    "{}",
                                    "{\"decorrelation_steps\": 3}",
                                    "[1",
                                    "\xff",
                                    "",
                                    "frame_skip",
                                    "mode",
                                    "1",
                                    "0",
                                    "-1",
                                    "2",
                                    "32,32",
                                    "1e30",
                                    "nan",
                                    "true",
                                    "seed",
                                    "num_envs",
                                    "net_arch",
                                    "window",
                                    "batch_size",
                                    "learning_rate",
                                    "snapshot",
                                    "18446744073709551616",
                                    "modez",
                                    "atari/pong",
                                    "gradient_steps",
                                    "n_steps",
                                    "autoreset",
                                    "same_step",
                                    "learners",
                                    "schedule",
                                    "race",
                                    "tuner",
                                    "ladder",
                                    "trainers"};

static const char *word(source *s) {
  uint32_t which = draw(s, sizeof words / sizeof *words + 6);
  if (which < sizeof words / sizeof *words) return words[which];
  if (which == sizeof words / sizeof *words) return NULL;
  size_t n = draw(s, sizeof s->text);
  for (size_t i = 0; i < n; i++) s->text[i] = (char)(which % 2 ? 1 + draw(s, 255) : 32 + draw(s, 90));
  s->text[n] = 0;
  return s->text;
}

/* Trainers are small, whatever has been drawn: this is not a test of memory and time. */
static paceline_config *bounded(source *s) {
  paceline_config *c = NULL;
  const char *const settings[] = {"num_envs",
                                  "2",
                                  "num_threads",
                                  "2",
                                  "buffer_size",
                                  "500",
                                  "batch_size",
                                  "8",
                                  "net_arch",
                                  "8",
                                  "gradient_steps",
                                  "1",
                                  "learning_starts",
                                  "50",
                                  "window",
                                  "50",
                                  "target_update_interval",
                                  "50",
                                  "train_freq",
                                  "4",
                                  NULL};
  if (paceline_config_new(&c, "dqn") != PACELINE_OK) abort();
  for (const char *const *k = settings; *k != NULL; k += 2)
    if (paceline_config_set(c, k[0], k[1]) != PACELINE_OK) abort();
  if (draw(s, 4) == 0 && paceline_config_set(c, "updates", "outside") != PACELINE_OK) abort();
  if (paceline_config_set(c, "env", draw(s, 4) ? "CartPole-v1" : "Acrobot-v1") != PACELINE_OK) abort();
  return c;
}

typedef struct arrays { /* of one thread, large enough for the small objects above */
  float obs[MOST], final_obs[MOST];
  double rewards[64];
  uint8_t ends[64], cuts[64], starts[64];
  int32_t ids[64], actions[64];
  unsigned char bytes[1 << 16];
} arrays;

static paceline_rows rows_of(source *s, arrays *a) {
  paceline_rows r = {.struct_size = sizeof r,
                     .num_rows = 1 + draw(s, 3),
                     .obs = a->obs,
                     .final_obs = a->final_obs,
                     .rewards = a->rewards,
                     .terminated = a->ends,
                     .truncated = a->cuts,
                     .started = a->starts,
                     .env_ids = a->ids};
  switch (draw(s, 16)) {
    case 0: r.obs = NULL; break;
    case 1: r.struct_size = draw(s, 0); break;
    case 2: r.device_type = (int32_t)draw(s, 0); break;
    case 3: r.rewards = NULL; break;
    case 4: r.action_masks = a->cuts; break;
    default: r.num_rows = 2;
  }
  return r;
}

static void call(source *s, arrays *a) {
  void *made = NULL;
  char *text = NULL;
  paceline_rows rows = rows_of(s, a);
  size_t size = draw(s, sizeof a->bytes);
  switch (draw(s, 54)) {
    case 0:
      if (say(paceline_config_new((paceline_config **)&made, word(s))) == 0) store(s, CONFIG, made);
      break;
    case 1: say(paceline_config_set(any(s, CONFIG), word(s), word(s))); break;
    case 2: say(paceline_config_get(&text, any(s, CONFIG), word(s))); break;
    case 3: say(paceline_config_preset(any(s, CONFIG), word(s), word(s))); break;
    case 4: say(paceline_config_presets(&text, any(s, CONFIG))); break;
    case 5: {
      paceline_option o = {.struct_size = draw(s, 8) ? sizeof o : draw(s, 0)};
      say(paceline_config_describe(&o, any(s, CONFIG), draw(s, 100)));
      break;
    }
    case 6: store(s, CONFIG, bounded(s)); break;
    case 7:
    case 8: {
      paceline_config *c = bounded(s);
      if (say(paceline_trainer_new((paceline_trainer **)&made, c)) == 0) store(s, TRAINER, made);
      paceline_config_free(c);
      break;
    }
    case 9: {
      paceline_config *c = bounded(s);
      paceline_env_table table = counter_table((int)draw(s, 2));
      if (draw(s, 8) == 0) table.step = NULL;
      if (draw(s, 8) == 0) table.struct_size = draw(s, 0);
      if (say(paceline_trainer_new_table((paceline_trainer **)&made, c, &table, s->family, NULL)) == 0)
        store(s, TRAINER, made);
      paceline_config_free(c);
      break;
    }
    case 10: {
      paceline_config *c = bounded(s);
      paceline_spec obs = {.struct_size = sizeof obs,
                           .kind = draw(s, 8) ? PACELINE_BOX : draw(s, 0),
                           .dtype = PACELINE_FLOAT32,
                           .ndim = 1,
                           .shape = {1 + draw(s, 4)}};
      paceline_spec action = {
          .struct_size = sizeof action, .kind = PACELINE_DISCRETE, .dtype = PACELINE_INT32, .n = draw(s, 5)};
      if (draw(s, 8) == 0) obs.shape[0] = (int64_t)((uint64_t)(1 + draw(s, 0)) << (32 + draw(s, 20)));
      if (say(paceline_trainer_new_push((paceline_trainer **)&made, c, &obs, &action)) == 0) store(s, TRAINER, made);
      paceline_config_free(c);
      break;
    }
    case 11:
    case 12:
    case 13: say(paceline_trainer_run(NULL, any(s, TRAINER), draw(s, 100), 1 + draw(s, 20))); break;
    case 14:
      say(paceline_trainer_begin(any(s, TRAINER), draw(s, 8) ? 1 + draw(s, 1000) : -(int64_t)draw(s, 9), draw(s, 5)));
      break;
    case 15: {
      paceline_stats o = {.struct_size = sizeof o};
      say(paceline_trainer_stats(&o, any(s, TRAINER)));
      break;
    }
    case 16: say(paceline_trainer_stop(any(s, TRAINER))); break;
    case 17: say(paceline_trainer_settle(any(s, TRAINER), 1 + draw(s, 50))); break;
    case 18: say(paceline_trainer_hash(&text, any(s, TRAINER), word(s))); break;
    case 19: say(paceline_trainer_save(any(s, TRAINER), draw(s, 8) ? file : word(s), draw(s, 3))); break;
    case 20: say(paceline_trainer_load(any(s, TRAINER), file)); break;
    case 21: say(paceline_trainer_act(any(s, TRAINER), &rows, a->actions, 1 + draw(s, 20))); break;
    case 22: say(paceline_trainer_observe(any(s, TRAINER), &rows, 1 + draw(s, 20))); break;
    case 23: say(paceline_trainer_describe(&text, any(s, TRAINER))); break;
    case 24: say(paceline_trainer_notice(&text, any(s, TRAINER))); break;
    case 25: {
      paceline_metric m = {.struct_size = sizeof m};
      say(paceline_trainer_metric(&m, any(s, TRAINER), draw(s, 40)));
      break;
    }
    case 26: say(paceline_trainer_get_parameters(a->obs, draw(s, MOST), NULL, any(s, TRAINER), word(s))); break;
    case 27: say(paceline_trainer_set_parameters(any(s, TRAINER), word(s), a->obs, draw(s, MOST))); break;
    case 28:
      if (say(paceline_policy_from_trainer((paceline_policy **)&made, any(s, TRAINER))) == 0) store(s, POLICY, made);
      break;
    case 29:
      if (say(paceline_policy_load((paceline_policy **)&made, file)) == 0) store(s, POLICY, made);
      break;
    case 30:
    case 31: {
      paceline_act_options o = {
          .struct_size = sizeof o, .sample = draw(s, 3), .epsilon = draw(s, 5) / 3.0, .seed = draw(s, 0)};
      say(paceline_policy_act(any(s, POLICY), draw(s, 8), a->obs, draw(s, 2) ? &o : NULL, a->actions, NULL));
      break;
    }
    case 32:
      say(paceline_policy_to_bytes(a->bytes, &size, any(s, POLICY)));
      if (draw(s, 4) == 0) a->bytes[draw(s, sizeof a->bytes)] ^= (unsigned char)(1 << draw(s, 8));
      break;
    case 33:
      if (say(paceline_policy_from_bytes((paceline_policy **)&made, a->bytes, size)) == 0) store(s, POLICY, made);
      break;
    case 34: {
      paceline_eval_options o = {.struct_size = sizeof o, .episodes = draw(s, 3), .seed = draw(s, 0), .epsilon = 1};
      paceline_evaluation e = {.struct_size = sizeof e};
      const void *state = a->bytes;
      size_t bytes = draw(s, sizeof a->bytes);
      if (draw(s, 8) == 0) o.max_frames = draw(s, 3) * 100 - 100;
      if (draw(s, 8) == 0) o.starts = draw(s, 2) ? &state : NULL, o.start_sizes = &bytes, o.num_starts = draw(s, 2);
      if (draw(s, 8) == 0) say(paceline_policy_stop(any(s, POLICY)));
      say(paceline_policy_evaluate(&e, any(s, POLICY), word(s), draw(s, 2) ? NULL : word(s), &o));
      break;
    }
    case 35:
    case 36: {
      paceline_vec_options o = {
          .struct_size = sizeof o, .num_envs = 2, .num_threads = 1 + draw(s, 2), .autoreset = draw(s, 4), .pin = -1};
      if (draw(s, 8) == 0) o.num_envs = draw(s, 5), o.batch_size = draw(s, 5);
      if (draw(s, 8) == 0) o.env_options = word(s);
      if (say(paceline_vec_new((paceline_vec **)&made, draw(s, 4) ? "CartPole-v1" : word(s), &o)) == 0)
        store(s, VEC, made);
      break;
    }
    case 37: say(paceline_vec_reset(any(s, VEC), NULL, draw(s, 2) ? NULL : a->cuts, &rows)); break;
    case 38: say(paceline_vec_step(any(s, VEC), a->actions, &rows)); break;
    case 39: { /* the state of one environment for another one, valid or damaged */
      paceline_vec *v = any(s, VEC);
      if (say(paceline_vec_save(a->bytes, &size, v, draw(s, 3))) != 0) break;
      if (draw(s, 2)) a->bytes[draw(s, (uint32_t)size)] ^= (unsigned char)(1 << draw(s, 8));
      say(paceline_vec_restore(v, draw(s, 3), a->bytes, size));
      break;
    }
    case 40:
      if (say(paceline_console_new((paceline_console **)&made, draw(s, 8) ? rom : word(s),
                                   draw(s, 8) ? "tetris" : word(s), 1, 0, 0.25, 1 + draw(s, 3))) == 0)
        store(s, CONSOLE, made);
      break;
    case 41: say(paceline_console_act(&a->actions[0], any(s, CONSOLE), (int32_t)draw(s, 20), (float)draw(s, 3))); break;
    case 42: say(paceline_console_set(any(s, CONSOLE), word(s), word(s))); break;
    case 43:
      if (draw(s, 3) == 0) {
        say(paceline_bench(&text, draw(s, 2) ? "update" : word(s), "[1"));
      } else {
        paceline_console *c = any(s, CONSOLE);
        if (say(paceline_console_save(a->bytes, &size, c, 1)) != 0) break;
        if (draw(s, 2)) a->bytes[draw(s, (uint32_t)size)] ^= (unsigned char)(1 << draw(s, 8));
        say(paceline_console_restore(c, a->bytes, size));
      }
      break;
    case 44: say(paceline_trainer_save_order(any(s, TRAINER), draw(s, 8) ? order : word(s))); break;
    case 45: say(paceline_trainer_save_trace(any(s, TRAINER), draw(s, 8) ? order : word(s))); break;
    case 46: say(paceline_trainer_proposal(&text, any(s, TRAINER))); break;
    case 47:
    case 48: {
      paceline_store_options o = {
          .struct_size = sizeof o, .optimizer = draw(s, 4) ? "adam" : word(s), .max_staleness = draw(s, 3)};
      if (say(paceline_store_new((paceline_store **)&made, a->obs, draw(s, 8) ? 8 : draw(s, 3), &o)) == 0)
        store(s, STORE, made);
      break;
    }
    case 49: {
      paceline_push p = {.struct_size = sizeof p, .learning_rate = draw(s, 8) ? 0.1 : 1e9, .seen = draw(s, 3)};
      p.learner = draw(s, 8) ? 1 : draw(s, 0), p.life = draw(s, 2), p.step = draw(s, 80);
      paceline_answer answer = {.struct_size = sizeof answer};
      say(paceline_store_push(&answer, any(s, STORE), a->obs, draw(s, 8) ? 8 : draw(s, MOST), &p));
      break;
    }
    case 50: say(paceline_store_pull(a->obs, draw(s, 8) ? 8 : draw(s, MOST), NULL, any(s, STORE))); break;
    case 51: {
      paceline_store *from = any(s, STORE);
      if (draw(s, 4) == 0) say(paceline_store_describe(&text, from));
      if (say(paceline_store_to_bytes(a->bytes, &size, from)) != 0) break;
      if (draw(s, 2)) a->bytes[draw(s, (uint32_t)size)] ^= (unsigned char)(1 << draw(s, 8));
      if (say(paceline_store_from_bytes((paceline_store **)&made, a->bytes, size)) == 0) store(s, STORE, made);
      break;
    }
    case 52: {
      paceline_gradient g = {.struct_size = sizeof g};
      say(paceline_trainer_gradient(a->obs, draw(s, 8) ? 58 : draw(s, MOST), &g, any(s, TRAINER), 1 + draw(s, 20)));
      break;
    }
    case 53:
      say(paceline_trainer_adopt(any(s, TRAINER), a->obs, draw(s, 8) ? 58 : draw(s, MOST), draw(s, 9), -1));
      break;
    default: break;
  }
  paceline_string_free(text);
  for (int i = 0; i < 2; i++) a->actions[i] = (int32_t)draw(s, 3); /* mostly valid */
}

static void prepare(void) {
  unsigned char image[4096] = {0x4C, 0x00, 0xF0}; /* JMP $F000 */
  image[4093] = image[4095] = 0xF0;
  CHECK(chdir(getenv("TMPDIR") == NULL ? "/tmp" : getenv("TMPDIR")) == 0); /* drawn words are names of files, too */
  snprintf(rom, sizeof rom, "%s", tmp("nothing.bin"));
  snprintf(file, sizeof file, "%s", tmp("random.paceline"));
  snprintf(order, sizeof order, "%s", tmp("random.order"));
  FILE *f = fopen(rom, "wb");
  CHECK(f != NULL && fwrite(image, sizeof image, 1, f) == 1 && fclose(f) == 0);
}

static void free_all(void) {
  source s = {.state = 1};
  for (enum kind k = CONFIG; k < KINDS; k++)
    for (int i = 0; i < 100 * SLOTS; i++) store(&s, k, NULL);
}

/* Makes the calls that the bytes determine. */
static void replay(const uint8_t *bytes, size_t size) {
  static arrays a;
  static family f;
  if (f.obs.kind == 0) f = counters(SOUND, 0);
  source s = {.bytes = bytes, .left = size, .family = &f};
  memset(&a, 0, sizeof a); /* a replay does not depend on earlier ones */
  while (s.left > 0) call(&s, &a);
  free_all();
}

#ifdef FUZZ
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static int prepared;
  if (!prepared++) prepare();
  replay(bytes, size);
  return 0;
}
#else
static double end;
static family families[64];

static void *worker(void *arg) {
  arrays *a = calloc(1, sizeof *a);
  source s = {.state = (uint64_t)(uintptr_t)arg * 0x9E3779B97F4A7C15u, .family = &families[(uintptr_t)arg % 64]};
  *s.family = counters(SOUND, 0);
  while (now() < end) call(&s, a);
  free(a);
  return NULL;
}

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 5;
  int n = argc > 2 ? atoi(argv[2]) : 4;
  uintptr_t seed = argc > 3 ? (uintptr_t)atol(argv[3]) : 1;
  pthread_t threads[64];
  for (int i = 4; i < argc; i++) CHECK((argv[i] = realpath(argv[i], NULL)) != NULL);
  prepare();
  for (int i = 4; i < argc; i++) {
    static uint8_t bytes[4096];
    FILE *f = fopen(argv[i], "rb");
    CHECK(f != NULL);
    size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    replay(bytes, size);
  }
  end = now() + seconds;
  for (int i = 0; i < n; i++) pthread_create(&threads[i], NULL, worker, (void *)(seed * 64 + (uintptr_t)i));
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL); /* run.sh's time limit ends a call that hangs */
  free_all();
  printf("%ld calls on %d threads, %ld of them refused\n", (long)calls, n, (long)failures);
  return calls < 100 || failures == calls;
}
#endif
