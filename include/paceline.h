/*
 * paceline.h - the C interface of Paceline, and its manual.
 *
 * Paceline steps many environments, keeps the replay memory and trains a
 * Q-network at the same time: DQN with Concurrent Training and Synchronized
 * Execution. This header is all a program needs: link libpaceline and go.
 *
 *     paceline_config *cfg = NULL;
 *     paceline_trainer *t = NULL;
 *     paceline_config_new(&cfg);
 *     paceline_config_preset(cfg, "tuned", "CartPole-v1");
 *     if (paceline_trainer_new(&t, cfg) != PACELINE_OK)
 *         puts(paceline_last_error());
 *     paceline_trainer_run(t, 50000, 0, NULL);
 *     paceline_trainer_save(t, "cartpole.paceline", 0);
 *     paceline_trainer_free(t);
 *     paceline_config_free(cfg);
 *
 * Contents: 1 results and errors, 2 versions, 3 configuration, 4 specs,
 * 5 your own environments, 6 the trainer, 7 environments that you step,
 * 8 the policy, 9 the vector environment, 10 benchmarks, 11 the Atari console.
 * Section 5 ends with environments in files of their own, loaded at run time.
 *
 * RULES THAT HOLD EVERYWHERE
 *
 * Results.  A function that can fail returns PACELINE_OK (0) or a negative
 *   code of enum paceline_status; paceline_last_error() then has one sentence
 *   that names the field, the value and what is allowed. After an error the
 *   outputs are untouched and the object is as it was, unless its entry says
 *   otherwise. Nothing is ever printed.
 * Handles.  A handle is a number in pointer's clothing and is never reused: a
 *   handle that was freed, or is of another kind, gives PACELINE_EHANDLE. Every
 *   *_free accepts NULL and a freed handle, and does nothing then.
 * Pointers.  "borrowed": read or written during the call only. "view": memory
 *   of the library, valid until the moment its entry names. "static": valid for
 *   ever. NULL where a pointer is needed gives PACELINE_EINVAL.
 * Strings.  Terminated UTF-8; anything else is refused, and so is a name longer
 *   than 1023 bytes or a path or value longer than 4095.
 * Threads.  A handle may be used from any thread, one call at a time; a second
 *   call meanwhile gives PACELINE_EBUSY. Functions that take a const handle, or
 *   are marked [thread-safe], may run at any time, also beside the others (but
 *   not beside *_free of that handle: they then give PACELINE_EHANDLE or finish).
 *   Different handles are independent. The error text belongs to the thread.
 * Fork.  The library has threads of its own, so a child made by fork() cannot
 *   use it: every call that returns a status gives PACELINE_EFORKED there, *_free
 *   does nothing, and memory from paceline_trainer_buffers can still be read. Load it
 *   after forking, or start children with exec.
 * Floating point.  The library computes in the default mode whatever the caller's
 *   is (flush to zero, rounding), and leaves the caller's as it was.
 * Signals.  Long calls return when paceline_trainer_stop is called, which is
 *   [thread-safe] (but not async-signal-safe), or when their max_ms is over.
 * Growth.  A struct that may grow begins with struct_size: set it to sizeof.
 *   The library reads and writes no more than that; a larger size from a newer
 *   header is refused with PACELINE_EVERSION. Versions 0.x may change anything.
 * Units.  "step" is one decision of one environment (an agent step).
 */
#ifndef PACELINE_H
#define PACELINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PACELINE_API __attribute__((visibility("default")))
#define PACELINE_MUST_USE __attribute__((warn_unused_result))
#else
#define PACELINE_API
#define PACELINE_MUST_USE
#endif

/* ------------------------------------------------- 1 results and errors */

enum paceline_status {
  PACELINE_OK = 0,
  PACELINE_EFAIL = -1,     /* none of the others; the text says what */
  PACELINE_EINVAL = -2,    /* an argument or a setting is not allowed */
  PACELINE_EHANDLE = -3,   /* the handle was freed, or is of another kind */
  PACELINE_EBUSY = -4,     /* another call on this handle is in progress */
  PACELINE_ECALLBACK = -5, /* a function of your environment table failed */
  PACELINE_ESTOPPED = -6,  /* stopped while act or observe waited: call it again */
  PACELINE_ENOMEM = -7,    /* the machine has not the memory asked for */
  PACELINE_EFORKED = -8,   /* used in a child of fork() */
  PACELINE_EPANIC = -9,    /* a bug in the library, caught: this handle may be spoilt, others go on */
  PACELINE_EIO = -10,      /* a file could not be read or written, or is no whole checkpoint */
  PACELINE_EVERSION = -11, /* a struct or a checkpoint of a newer version */
  PACELINE_ENAN = -12,     /* the loss, an observation or a reward is not finite */
  PACELINE_ETIMEDOUT = -13 /* the time allowed was over before there was a result; try again */
};

/* The name of a code, such as "PACELINE_EINVAL". Static text, never NULL.
 * [thread-safe] */
PACELINE_API const char *paceline_status_str(int status);

/* What went wrong in this thread's latest failed call, at most 1023 bytes; ""
 * if none has failed. Never NULL. View, valid until this thread's next call into
 * the library fails. [thread-safe] */
PACELINE_API const char *paceline_last_error(void);

/* Frees a text that the library gave you. NULL is fine. [thread-safe] */
PACELINE_API void paceline_string_free(char *text);

/* ----------------------------------------------------------- 2 versions */

#define PACELINE_VERSION "0.1.0"
#define PACELINE_ABI_VERSION 1

/* PACELINE_VERSION and PACELINE_ABI_VERSION of the library that is loaded.
 * [thread-safe] */
PACELINE_API const char *paceline_version(void);
PACELINE_API int paceline_abi_version(void);

/* A JSON object: version, go, isa (the kernels in use), threads (that run Go
 * code at the same time). Static text; "{}" in a child of fork() that has not
 * asked before. [thread-safe] */
PACELINE_API const char *paceline_build_info(void);

/* ------------------------------------------------------ 3 configuration */

/* A configuration is a table of named settings with text values. Every setting
 * has a default; paceline_config_describe lists them all with their meaning. */
typedef struct paceline_config paceline_config;

/* Makes a configuration that holds the defaults. Free it with
 * paceline_config_free; trainers made from it keep a copy. */
PACELINE_API PACELINE_MUST_USE int paceline_config_new(paceline_config **out);

/* Sets key to value (both borrowed): "32", "0.99", "true", "snapshot",
 * "128,128". Refuses an unknown key (naming the nearest) and a value out of
 * range. */
PACELINE_API int paceline_config_set(paceline_config *cfg, const char *key, const char *value);

/* The value of key as text. *out: yours, free it with paceline_string_free. */
PACELINE_API int paceline_config_get(char **out, const paceline_config *cfg, const char *key);

/* Applies a documented table of settings: preset "tuned" (values that solve the
 * built-in environment named env), "mnih2015" (the settings of the Nature
 * paper) or "fastdqn" (those of the paper's fast DQN). Sets "env" and "env_options" too. */
PACELINE_API int paceline_config_preset(paceline_config *cfg, const char *preset, const char *env);

/* Replaces every setting by those stored in the checkpoint at path. */
PACELINE_API int paceline_config_load(paceline_config *cfg, const char *path);

/* One setting's description. All strings: static text. */
typedef struct paceline_option {
  uint32_t struct_size;
  uint32_t reserved;
  const char *name;          /* "batch_size" */
  const char *type;          /* "int", "float", "bool", "string", "ints" */
  const char *default_value; /* as paceline_config_get gives it */
  const char *doc;           /* one sentence, with range and unit */
} paceline_option;

/* Describes setting number i, 0 and up; PACELINE_EINVAL past the last one.
 * [thread-safe] */
PACELINE_API int paceline_config_describe(paceline_option *out, size_t i);

PACELINE_API void paceline_config_free(paceline_config *cfg);

/* -------------------------------------------------------------- 4 specs */

enum paceline_kind { PACELINE_BOX = 1, PACELINE_DISCRETE = 2 };
enum paceline_dtype { PACELINE_UINT8 = 1, PACELINE_FLOAT32 = 2, PACELINE_INT32 = 3 };

/* What an observation or an action looks like. An observation is a
 * PACELINE_BOX of uint8 [channels, height, width] (a picture, or a stack of
 * pictures, oldest first) or of float32 [n]; an action is PACELINE_DISCRETE: one
 * int32 in 0..n-1. Anything else is refused when a trainer is made; vector
 * environments (section 9) also have colour pictures, uint8 [frames, height, width,
 * 3], and actions that are a PACELINE_BOX of float32 [n]. */
typedef struct paceline_spec {
  uint32_t struct_size;
  uint32_t kind;       /* enum paceline_kind */
  uint32_t dtype;      /* enum paceline_dtype */
  uint32_t ndim;       /* axes in use, 0 for PACELINE_DISCRETE */
  int64_t shape[4];    /* sizes of the axes */
  int64_t n;           /* PACELINE_DISCRETE: number of actions */
  int64_t frame_stack; /* the first axis is that many frames, oldest first; 0: not declared */
} paceline_spec;

/* ---------------------------------------------- 5 your own environments */

/* How a step left the episode; bits. Terminated: the task is over, nothing is
 * gained beyond. Truncated: it was cut off (time limit). With both set,
 * termination decides the value of the last state. */
enum paceline_end { PACELINE_TERMINATED = 1, PACELINE_TRUNCATED = 2 };

/*
 * A family of environments as a table of functions. The library makes num_envs
 * of them and steps them on threads of its own and on the one that calls run.
 *
 * At most one call per environment is in progress at a time; different
 * environments run at the same time on different threads, and successive calls
 * for one environment may come from different threads. obs is this
 * environment's row of a batch: write exactly the observation's bytes, keep no
 * pointer to it. Return 0, or another number after paceline_set_callback_error
 * ("..."): the run in progress then returns PACELINE_ECALLBACK with that text
 * and the environment's number; the next run resets that environment and goes on.
 * Make no paceline call on the same trainer from inside. Functions run in the
 * default floating-point mode, and what they change of it is undone. System calls
 * may return EINTR (the library's threads get signals): try again. A C++ function
 * must not let an exception out; paceline.hpp sees to that.
 */
typedef struct paceline_env_table {
  uint32_t struct_size;
  uint32_t reserved;
  /* Fills in both specs (zeroed, struct_size is set). Called once, first. */
  int (*spec)(void *user, paceline_spec *obs, paceline_spec *action);
  /* Makes environment number index, one after the other, before
   * paceline_trainer_new_table returns; all its randomness comes from seed. */
  int (*create)(void *user, uint32_t index, uint64_t seed, void **env);
  /* Begins an episode and writes its first observation. */
  int (*reset)(void *env, void *obs);
  /* Takes one action (an int32 in range), writes the observation that follows,
   * the reward (finite, as float observations must be) and the bits of enum
   * paceline_end. */
  int (*step)(void *env, const void *action, void *obs, float *reward, uint8_t *ended);
  /* Both or none. save writes the whole state, its random numbers too, into buf;
   * *len: size of buf going in, bytes needed coming out; with buf NULL or too
   * small only *len is written and 0 returned. Without them a checkpoint begins
   * new episodes when it is loaded. */
  int (*save)(void *env, void *buf, size_t *len);
  int (*restore)(void *env, const void *buf, size_t len);
  void (*destroy)(void *env);
} paceline_env_table;

/* The text of the error that this thread's callback is about to return; copied,
 * up to 1023 bytes. [thread-safe] */
PACELINE_API void paceline_set_callback_error(const char *text);

/* An environment in a shared library of its own, which need not be linked with this
 * one, exports one function called paceline_env_open. It fills in *out, which comes
 * zeroed with struct_size set, and returns 0, or another number after
 * host->set_callback_error("..."). host is valid for ever. */
typedef struct paceline_host {
  uint32_t struct_size;
  int32_t abi_version;                          /* PACELINE_ABI_VERSION of the library that loads it */
  void (*set_callback_error)(const char *text); /* paceline_set_callback_error */
} paceline_host;

typedef struct paceline_env_plugin {
  uint32_t struct_size;
  uint32_t reserved;
  const char *name;         /* that the environment is to be known by, such as "Pendulum-v1" */
  paceline_env_table table; /* struct_size is set */
  void *user;               /* passed to spec and create; never released, as the file stays loaded */
} paceline_env_plugin;

typedef int paceline_env_open_function(const paceline_host *host, paceline_env_plugin *out);

/* Loads such a file and makes its environment known: from now on its name works
 * wherever a built-in environment's does. A new seed makes its environments anew.
 * *name: yours, free it with paceline_string_free. Loading a file twice changes
 * nothing; another file's environment of the same name is refused. */
PACELINE_API int paceline_env_load(char **name, const char *path);

/* A JSON array of the names of all environments that are known. *out: yours, free it
 * with paceline_string_free. [thread-safe] */
PACELINE_API int paceline_env_names(char **out);

/* -------------------------------------------------------- 6 the trainer */

typedef struct paceline_trainer paceline_trainer;

/* Makes a trainer on the built-in environment that the setting "env" names.
 * cfg is borrowed. A replay memory larger than the memory the machine (or its
 * container) has left gives PACELINE_ENOMEM with both numbers. */
PACELINE_API PACELINE_MUST_USE int paceline_trainer_new(paceline_trainer **out, const paceline_config *cfg);

/* The same on your own environments. The table is copied; user is passed to
 * spec and create, and release(user), if not NULL, is called exactly once, on any
 * thread: when the last environment is gone, also when this call fails. */
PACELINE_API PACELINE_MUST_USE int paceline_trainer_new_table(paceline_trainer **out, const paceline_config *cfg,
                                                              const paceline_env_table *table, void *user,
                                                              void (*release)(void *user));

/* The same for environments that the caller steps: see section 7. Both specs
 * are borrowed. */
PACELINE_API PACELINE_MUST_USE int paceline_trainer_new_push(paceline_trainer **out, const paceline_config *cfg,
                                                             const paceline_spec *obs, const paceline_spec *action);

enum paceline_begin_flags {
  PACELINE_RESET_TIMESTEPS = 1, /* count steps from 0, with a new warm-up and new schedules */
  PACELINE_RESET_ENVS = 2       /* cut the episodes in progress (as truncations) and begin new ones */
};

/* Begins a course of learning of total_timesteps steps, warm-up (learning_starts)
 * included. Schedules given as fractions are fractions of it. The first call
 * acts as with both flags; a later one without PACELINE_RESET_TIMESTEPS goes on
 * along the schedules of the first. Without this call the first
 * paceline_trainer_run does it with its max_steps. */
PACELINE_API int paceline_trainer_begin(paceline_trainer *t, int64_t total_timesteps, uint32_t flags);

/* Where a trainer stands. */
typedef struct paceline_stats {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t num_timesteps;   /* steps taken, warm-up included */
  int64_t total_timesteps; /* of the course in progress */
  int64_t updates;         /* minibatch updates done */
  int64_t updates_due;     /* that should be done at this step */
  int64_t episodes;        /* finished ones */
  int64_t windows;         /* flushes into the replay memory after warm-up */
  int64_t replay_size;     /* transitions that can be sampled */
  int64_t replay_bytes;    /* memory of the replay, every slot counted */
  double epsilon;
  double learning_rate;
  double loss;          /* mean of the latest 100 updates; NaN before the first */
  double mean_return;   /* undiscounted, latest 100 episodes; NaN before the first */
  double mean_length;   /* steps, likewise */
  double seconds_env;   /* stepping environments, per-thread sum */
  double seconds_act;   /* computing Q-values for acting, per-thread sum */
  double seconds_train; /* in the trainer's updates */
  double seconds_wait;  /* waiting for the trainer, or for a core */
} paceline_stats;

/* Runs until max_steps further steps are taken (0: until the end of the course),
 * max_ms milliseconds are over (0: no limit) or paceline_trainer_stop was
 * called, whichever is first, and returns at the end of a round (one step of
 * every environment). Does not wait for the trainer's thread. stats: borrowed,
 * may be NULL. An environment's failure, a panic or a loss that is not finite
 * is returned here, with its step. Built-in and table environments only. */
PACELINE_API int paceline_trainer_run(paceline_trainer *t, int64_t max_steps, int64_t max_ms, paceline_stats *stats);

/* Makes the run in progress return soon (and the next one at once, if none is).
 * The update in progress is finished, nothing else is made up for. A later run
 * goes on where this one ended. An act or observe that waits for the trainer
 * returns PACELINE_ESTOPPED, with nothing changed. [thread-safe] */
PACELINE_API int paceline_trainer_stop(const paceline_trainer *t);

/* [thread-safe] */
PACELINE_API int paceline_trainer_stats(paceline_stats *out, const paceline_trainer *t);

/* Things worth saying once ("target_update_interval 128 is below the window
 * ..."), one a call, oldest first; *out is NULL when there are no more, else
 * yours: free it with paceline_string_free. */
PACELINE_API int paceline_trainer_notice(char **out, paceline_trainer *t);

/* Finishes the updates due at this step, so that what is read afterwards is a
 * function of the seed and the step. The functions below that look at weights
 * or replay do this by themselves. */
PACELINE_API int paceline_trainer_settle(paceline_trainer *t);

/* A JSON object: env (its name), recipe and recipe_hash, "" where there is none; see section
 * 9. *out: yours, free it with paceline_string_free. */
PACELINE_API int paceline_trainer_describe(char **out, const paceline_trainer *t);

/* One array of a network's parameters. name as in Stable-Baselines3, with
 * "q_net." or "q_net_target." in front: "q_net.q_net.0.weight". Convolutions are
 * [out, in, height, width], dense layers [out, in]. */
typedef struct paceline_parameter {
  uint32_t struct_size;
  uint32_t ndim;
  int64_t shape[4];
  size_t offset;    /* of its first number in the flat array, in floats */
  size_t size;      /* numbers */
  const char *name; /* static text */
} paceline_parameter;

/* Describes parameter array i, 0 and up; PACELINE_EINVAL past the last one. */
PACELINE_API int paceline_trainer_parameter(paceline_parameter *out, const paceline_trainer *t, size_t i);

/* Copies all parameters, flat, out to or in from an array of exactly n floats
 * (n: the last array's offset + size). */
PACELINE_API int paceline_trainer_get_parameters(paceline_trainer *t, float *out, size_t n);
PACELINE_API int paceline_trainer_set_parameters(paceline_trainer *t, const float *in, size_t n);

/* SHA-256 digests, as terminated hexadecimal text, of what a trainer has
 * learnt from and learnt: the same seed and the same settings give the same
 * digests for any num_threads (of one precision, on one PACELINE_ISA). */
typedef struct paceline_hashes {
  uint32_t struct_size;
  uint32_t reserved;
  char replay[72];  /* the transitions that can be sampled */
  char weights[72]; /* theta */
  char target[72];  /* theta-minus */
} paceline_hashes;
PACELINE_API int paceline_trainer_hash(paceline_hashes *out, paceline_trainer *t);

enum paceline_save_flags {
  PACELINE_SAVE_REPLAY = 1 /* everything: replay, unflushed experience, environment states */
};

/* Writes a checkpoint (a zip archive of JSON and safetensors): weights,
 * optimiser, counters, random streams, schedules. With PACELINE_SAVE_REPLAY a
 * trainer that loads it goes on with the same bits as one that never stopped.
 * The file is written beside path and renamed: a failure leaves an older file
 * as it was. */
PACELINE_API int paceline_trainer_save(paceline_trainer *t, const char *path, uint32_t flags);

/* Replaces the trainer's state by the checkpoint's. Its settings must agree in
 * everything that shapes the state (environment, network, num_envs ...): use
 * paceline_config_load to make it. Without the replay in the file the memory is
 * empty and the environments begin new episodes. On failure the trainer is as
 * it was. */
PACELINE_API int paceline_trainer_load(paceline_trainer *t, const char *path);

/* Stops, waits for the threads (at most one environment step and one update)
 * and frees; a run in progress on another thread returns. Not from inside an
 * environment of its own. Views from paceline_trainer_buffers stay readable until
 * paceline_buffers_release. */
PACELINE_API void paceline_trainer_free(paceline_trainer *t);

/* ---------------------------------------- 7 environments that you step */

/*
 * For environments that live on the caller's side (Python's, a simulator with
 * its own loop). Write the first observations into obs, then
 *
 *     paceline_trainer_begin(t, total, 0);
 *     for (;;) {
 *         paceline_trainer_act(t);       // reads obs, writes actions
 *         ... step your environments; write rewards, ended, obs, final_obs ...
 *         paceline_trainer_observe(t);   // reads them; the round is over
 *     }
 *
 * while the library's trainer works on its own thread. The setting "autoreset"
 * says what obs holds after an episode's end:
 *   same_step  the first observation of the next episode; final_obs holds the
 *              last one of the ended episode (needed where it was truncated).
 *   next_step  the last observation of the ended episode. The following act
 *              gives that row action 0, to be ignored; the following observe
 *              takes its obs as the first of the next episode, and its reward
 *              and ended are not looked at. Such a row is no step.
 */
typedef struct paceline_buffers {
  uint32_t struct_size;
  uint32_t num_envs;   /* rows */
  size_t obs_bytes;    /* bytes of a row of obs and final_obs */
  size_t action_bytes; /* bytes of a row of actions: 4 */
  void *obs;
  void *final_obs;
  int32_t *actions;
  float *rewards;
  uint8_t *ended; /* bits of enum paceline_end */
  uint64_t id;    /* for paceline_buffers_release */
} paceline_buffers;

/* The arrays shared with a trainer made by paceline_trainer_new_push, zeroed at
 * first. Views, valid until paceline_buffers_release, also after
 * paceline_trainer_free. Every call gives the same arrays under a new id, to be
 * released by itself; an id that was released, or 0, is ignored. */
PACELINE_API int paceline_trainer_buffers(paceline_buffers *out, paceline_trainer *t);
PACELINE_API void paceline_buffers_release(uint64_t id);

PACELINE_API int paceline_trainer_act(paceline_trainer *t);
PACELINE_API int paceline_trainer_observe(paceline_trainer *t, paceline_stats *stats);

/* --------------------------------------------------------- 8 the policy */

/* A frozen network that acts; it needs no environment and no trainer. */
typedef struct paceline_policy paceline_policy;

PACELINE_API PACELINE_MUST_USE int paceline_policy_load(paceline_policy **out, const char *path);
/* A copy of a trainer's network as it is at this step. */
PACELINE_API PACELINE_MUST_USE int paceline_policy_from_trainer(paceline_policy **out, paceline_trainer *t);
PACELINE_API int paceline_policy_spec(paceline_spec *obs, paceline_spec *action, const paceline_policy *p);

/* The number of bytes of policy state per row: 0 for every policy so far. */
PACELINE_API size_t paceline_policy_state_bytes(const paceline_policy *p);

/* Greedy actions for n observations, 0 to 1048576, in rows of bytes. obs: n rows.
 * state and episode_starts (n bytes, 1 where an episode begins): for policies
 * with memory; may be NULL. actions: n rows (int32). values: NULL, or room for n
 * rows of Q-values (float, one per action). All borrowed. [thread-safe] */
PACELINE_API int paceline_policy_act(const paceline_policy *p, size_t n, const void *obs, void *state,
                                     const uint8_t *episode_starts, void *actions, float *values);

typedef struct paceline_evaluation {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t episodes;
  double mean_return;
  double std_return; /* sample standard deviation (n - 1) */
  double min_return;
  double max_return;
  double mean_length; /* steps */
} paceline_evaluation;

/* Plays whole episodes of a built-in environment with a policy, in environments
 * of its own, taking a random action with probability epsilon. options: what they are
 * made with, a JSON object, or NULL; of Atari games, whole games are played for their
 * whole rewards whatever it says. The same arguments give the same result.
 * [thread-safe] */
PACELINE_API int paceline_policy_evaluate(paceline_evaluation *out, const paceline_policy *p, const char *env,
                                          const char *options, int64_t episodes, double epsilon, uint64_t seed);

/* A checkpoint of the weights alone, written as in paceline_trainer_save. */
PACELINE_API int paceline_policy_save(const paceline_policy *p, const char *path);
PACELINE_API void paceline_policy_free(paceline_policy *p);

/* --------------------------------------------- 9 the vector environment */

/* Many environments of one kind stepped together, as Gymnasium's vector environments
 * behave. They begin with the streams of seed 0, those that a trainer with that seed
 * has. */
typedef struct paceline_vec paceline_vec;

enum paceline_autoreset {
  PACELINE_NEXT_STEP = 0, /* the step after an end resets: action ignored, reward 0 */
  PACELINE_SAME_STEP = 1, /* the ending step resets too: the last observation is in final_obs */
  PACELINE_DISABLED = 2   /* the caller resets; stepping an ended environment is an error */
};

typedef struct paceline_vec_options {
  uint32_t struct_size;
  uint32_t num_envs;       /* 1 to 65536 */
  uint32_t batch_size;     /* rows that paceline_vec_recv waits for, 1 to num_envs; 0: num_envs */
  uint32_t num_threads;    /* that step them, at most 1024; 0: one per core. Results are the same for any */
  uint32_t autoreset;      /* enum paceline_autoreset */
  int32_t pin;             /* the core that the first of these threads is bound to, the others follow; -1: none is */
  const char *env_options; /* what the environments are made with, a JSON object, or NULL: see below */
} paceline_vec_options;

/* env: a name (paceline_env_names); options: borrowed. "decorrelation_steps": n in
 * env_options lets every environment's first episode after a seed begin behind 0 to n
 * random steps; all other names are the environment's own. Atari games have "recipe" ("ale",
 * "mnih2015", "machado2018", "stooke_abbeel") and, to change single values of it: obs_type
 * ("grayscale", "rgb", "ram"), img_height, img_width, stack_num, frameskip, maxpool, noop_min,
 * noop_max, use_fire_reset, episodic_life, life_loss_info, reward_clipping,
 * max_num_frames_per_episode, repeat_action_probability, full_action_space, continuous,
 * continuous_action_threshold, mode, difficulty, reset ("ale", "cached"), ending ("last",
 * "stale"), ram_info; the documentation of paceline.make_vec says what each one means. */
PACELINE_API PACELINE_MUST_USE int paceline_vec_new(paceline_vec **out, const char *env,
                                                    const paceline_vec_options *options);
PACELINE_API int paceline_vec_spec(paceline_spec *obs, paceline_spec *action, const paceline_vec *v);

/* A JSON object: env (its name), recipe and recipe_hash ("" where there is none), infos (an
 * array of {name, dtype, len}: the columns of paceline_rows.infos; len 0 is one number), obs_low,
 * obs_high, action_low, action_high (bounds: one entry for all components, or one for each;
 * null where there is none), max_steps (0: none), threshold, render_fps (0: not known). *out: yours, free it with
 * paceline_string_free. */
PACELINE_API int paceline_vec_describe(char **out, const paceline_vec *v);

/* Where results go: arrays of the caller's, one row or entry for each environment. Those
 * that are NULL are not written; obs must be there, and final_obs in PACELINE_SAME_STEP. */
typedef struct paceline_rows {
  uint32_t struct_size;
  uint32_t num_rows; /* num_envs; for paceline_vec_offer batch_size */
  void *obs;         /* observations */
  void *final_obs;   /* PACELINE_SAME_STEP: the last observation of an episode that ended */
  double *rewards;
  uint8_t *terminated;      /* 0 or 1 */
  uint8_t *truncated;       /* 0 or 1 */
  uint8_t *started;         /* 1 where obs is the first of an episode */
  int32_t *env_ids;         /* whose row it is */
  void *const *infos;       /* an array for each column that paceline_vec_describe names */
  void *const *final_infos; /* PACELINE_SAME_STEP: the same of an episode's last step */
} paceline_rows;

/* Begins episodes in the environments whose mask byte is not 0 (mask NULL: all;
 * at least one) and writes their rows; the others stay as they are. seeds: NULL to go on
 * along each environment's stream, or num_envs numbers, of which the masked rows' are used.
 * All borrowed. */
PACELINE_API int paceline_vec_reset(paceline_vec *v, const uint64_t *seeds, const uint8_t *mask,
                                    const paceline_rows *rows);

/* Takes an action in every environment. actions: num_envs of int32, or rows of float32;
 * all borrowed. An action out of range is refused before any environment moves. An
 * environment that fails does not hold the others up: their rows are written. */
PACELINE_API int paceline_vec_step(paceline_vec *v, const void *actions, const paceline_rows *rows);

/*
 * Environments apart from one another: while some are under way, others' results come back.
 *
 *     for (...) paceline_vec_offer(v, &rows[k]);         // num_envs / batch_size of them, rounded up
 *     paceline_vec_send_reset(v, all, num_envs, NULL);
 *     for (k = 0;; k = (k + 1) % n) {
 *         paceline_vec_recv(v, 0);                       // rows[k] is full
 *         ... read rows[k], choose actions for rows[k].env_ids ...
 *         paceline_vec_offer(v, &rows[k]);               // or others, to keep these
 *         paceline_vec_send(v, env_ids, batch_size, actions);
 *     }
 *
 * An environment is under way from its send to the recv that has its row. Send and recv may
 * be called by two threads at the same time. While anything is under way, other calls are
 * refused, but for paceline_vec_drain and paceline_vec_free.
 */

/* Adds rows to be filled, in the order in which they are offered; the struct is copied, its
 * arrays must stay until paceline_vec_recv has told that they are full. There must be room
 * for all that is sent. If batch_size is num_envs, row i is environment i's. */
PACELINE_API int paceline_vec_offer(paceline_vec *v, const paceline_rows *rows);

/* Hands out an action, or with paceline_vec_send_reset a reset, for each of n environments.
 * seeds: NULL, or n. All borrowed. Nothing moves unless all of it is in order. */
PACELINE_API int paceline_vec_send(paceline_vec *v, const int32_t *env_ids, size_t n, const void *actions);
PACELINE_API int paceline_vec_send_reset(paceline_vec *v, const int32_t *env_ids, size_t n, const uint64_t *seeds);

/* Waits until the rows that were offered first are full: PACELINE_OK. An environment that
 * failed is told at once, with its number, and has no row (but for an end after which no
 * episode could be begun, in PACELINE_SAME_STEP); the others' rows come with the next call. After max_ms milliseconds (0: no limit): PACELINE_ETIMEDOUT. Refused if fewer
 * than batch_size are under way. */
PACELINE_API int paceline_vec_recv(paceline_vec *v, int64_t max_ms);

/* Waits for all that is under way and forgets it. What was offered stays offered. */
PACELINE_API int paceline_vec_drain(paceline_vec *v);

/* All that environment i's future depends on: *size bytes. out NULL: only *size is written.
 * Restoring refuses what is not a state of such an environment; the environment must then be
 * reset. Its row is the caller's to keep. */
PACELINE_API int paceline_vec_save(void *out, size_t *size, paceline_vec *v, uint32_t i);
PACELINE_API int paceline_vec_restore(paceline_vec *v, uint32_t i, const void *state, size_t size);

/* A picture of environment i, [height][width][3] bytes of red, green and blue: *size bytes.
 * out NULL: only the sizes are written. */
PACELINE_API int paceline_vec_render(uint8_t *out, size_t *size, uint32_t *height, uint32_t *width, paceline_vec *v,
                                     uint32_t i);

/* Waits for the environments that are under way and frees all; a recv in progress returns. */
PACELINE_API void paceline_vec_free(paceline_vec *v);

/* --------------------------------------------------------- 10 benchmarks */

/* Runs the benchmark called name with options (a JSON object, or NULL for the
 * defaults). *out: its report, a JSON object; yours, free it with
 * paceline_string_free.
 * "modes": {"env", "num_envs": [..], "num_threads", "steps", "trials"} - steps/s of the
 * four modes. "update": {"batch", "act": [rows..], "precisions": [..], "threads": [..],
 * "trials"} - milliseconds of minibatch updates and of acting, and the peak beside them. */
PACELINE_API int paceline_bench(char **out, const char *name, const char *options);

/* --------------------------------------------------- 11 the Atari console */

/* An Atari 2600 with one cartridge, as users of the Arcade Learning Environment
 * know it: the same frames, rewards, lives and numbers as ale-py 0.12.1, frame by
 * frame. Training goes through the environments "atari/pong" and so on (sections 6
 * and 9); this is for looking closer. */
typedef struct paceline_console paceline_console;

/* Puts a cartridge in, turns the console on and begins an episode. rom: a file, whose
 * game its MD5 says; or NULL, and game's file is searched for: in the folder that the
 * variable PACELINE_ROMS_DIR names, that of ALE_ROMS_DIR, those of
 * paceline_rom_folder. game: NULL, or an id such as "space_invaders", whose bytes the
 * file must have then. other_md5: 1 takes other bytes, too, with the rules of game, or
 * of the game that the file is called after, as ale-py does; 0 refuses them. seed: of
 * the generators that sticky actions and stored starts are drawn from;
 * repeat_action_probability, 0 to 1: how likely an action is ignored for a frame;
 * frame_skip: the frames that an action lasts, 1 and up. They count as early as in the
 * first reset, in which some games' menus are played through. */
PACELINE_API PACELINE_MUST_USE int paceline_console_new(paceline_console **out, const char *rom, const char *game,
                                                        int other_md5, uint32_t seed, double repeat_action_probability,
                                                        uint32_t frame_skip);

/* Adds a folder to search for ROM files, such as that of an installed ale-py. */
PACELINE_API int paceline_rom_folder(const char *path);

/* The id of the game whose cartridge the file is, by its MD5, or "" if it is that of
 * none that can be played. *out: yours, free it with paceline_string_free. */
PACELINE_API int paceline_rom_identify(char **out, const char *path);

/* Settings, as texts, from the next call on: "frame_skip" (1: frames of an act),
 * "repeat_action_probability" (0, to 1), "max_num_frames_per_episode" (0: no limit),
 * "reward_min" and "reward_max" (clamp an act's reward where the first is less),
 * "reset" ("ale": as ALE does it, to the frame; "cached": at one of 30 stored states),
 * "color_averaging" ("false", "true": blend each picture with the one before);
 * "difficulty" (one of the game's); and from the next reset on, "mode". */
PACELINE_API int paceline_console_set(paceline_console *c, const char *name, const char *value);

/* Begins an episode, as "reset" says. What RAM holds carries over from the last one
 * where that is "ale". */
PACELINE_API int paceline_console_reset(paceline_console *c);

/* Plays action (0 to 17: NOOP, FIRE, UP, RIGHT, LEFT, DOWN, UPRIGHT, UPLEFT,
 * DOWNRIGHT, DOWNLEFT, and UP to DOWNLEFT with FIRE; others count as NOOP) for
 * frame_skip frames. strength scales a paddle's turn: 0 to 1 for a player; -90000 to
 * 90000 are taken, of which the sign does not count. When the game is over nothing
 * moves and *reward is 0. */
PACELINE_API int paceline_console_act(paceline_console *c, int32_t action, float strength, int32_t *reward);

typedef struct paceline_console_state {
  uint32_t struct_size;
  uint32_t ended; /* bits of enum paceline_end */
  int32_t lives;
  int32_t mode;                 /* that of the next reset */
  int32_t difficulty;           /* bit 0 the left switch, bit 1 the right one */
  uint32_t pal;                 /* 1: the game is for PAL */
  int64_t frame_number;         /* since the console was turned on */
  int64_t episode_frame_number; /* since the last reset */
  uint32_t height;              /* of the picture: mostly 210 */
  uint32_t width;               /* 160 */
  char game[64];                /* the game's id */
} paceline_console_state;

/* *out: the console's state, which every call on the console keeps up to date. A view,
 * valid until the console is freed. */
PACELINE_API int paceline_console_view(const paceline_console_state **out, const paceline_console *c);

enum paceline_console_list {
  PACELINE_MINIMAL_ACTIONS = 0,
  PACELINE_LEGAL_ACTIONS = 1,
  PACELINE_MODES = 2,
  PACELINE_DIFFICULTIES = 3
};

/* Writes up to capacity of the game's numbers of that kind, in ascending order, and
 * how many there are. out: NULL if capacity is 0. */
PACELINE_API int paceline_console_list(int32_t *out, size_t capacity, size_t *count, const paceline_console *c,
                                       uint32_t which);

/* Copies the machine's 128 bytes of RAM, or sets one (0 to 127) of them. */
PACELINE_API int paceline_console_ram(uint8_t *out, const paceline_console *c);
PACELINE_API int paceline_console_poke(paceline_console *c, uint32_t index, uint8_t value);

enum paceline_screen {
  PACELINE_SCREEN_COLOUR = 0,  /* height x width: the TIA's colours */
  PACELINE_SCREEN_GREY = 1,    /* height x width: grey levels */
  PACELINE_SCREEN_RGB = 2,     /* height x width x 3 */
  PACELINE_SCREEN_OBSERVED = 3 /* 84 x 84: what environments observe, the brighter of the last two frames, in grey */
};

/* Writes the last frame's picture. size must be the kind's bytes. */
PACELINE_API int paceline_console_screen(uint8_t *out, size_t size, const paceline_console *c, uint32_t kind);

/* All that a console's future depends on, pictures included: *size bytes. with_rng 0
 * leaves the generators out; restoring then goes on with the console's own. Restoring refuses what is not a state of the same game's console of
 * the same library. out NULL: only *size is written. */
PACELINE_API int paceline_console_save(void *out, size_t *size, const paceline_console *c, int with_rng);
PACELINE_API int paceline_console_restore(paceline_console *c, const void *state, size_t size);
PACELINE_API void paceline_console_free(paceline_console *c);

#ifdef __cplusplus
}
#endif
#endif
