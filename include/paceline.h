/*
 * paceline.h - the C interface of Paceline, and its manual.
 *
 * Paceline steps many environments, stores what they give and trains a network
 * at the same time. Its first method is DQN with Concurrent Training and
 * Synchronized Execution. This header is all that a program needs: link
 * libpaceline and go.
 *
 *     paceline_config *cfg = NULL;
 *     paceline_trainer *t = NULL;
 *     paceline_config_new(&cfg, "dqn");
 *     paceline_config_preset(cfg, "tuned", "CartPole-v1");
 *     if (paceline_trainer_new(&t, cfg) != PACELINE_OK)
 *         puts(paceline_last_error());
 *     paceline_trainer_run(NULL, t, 50000, 0);
 *     paceline_trainer_save(t, "cartpole.paceline", 0);
 *     paceline_trainer_free(t);
 *     paceline_config_free(cfg);
 *
 * Contents: 1 results and errors, 2 versions, 3 configuration, 4 specs and rows,
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
 * Arguments.  What a function makes or reports comes first (out), then the
 *   handle, then what it is given; callbacks and their user pointer come last.
 *   Arrays with one entry per environment or observation (rows, actions,
 *   outputs) stand behind the handle, also where they are written.
 * Handles.  A handle is an opaque 64-bit id, typed as a pointer, and is never
 *   reused: a handle that was freed, or is of another kind, gives
 *   PACELINE_EHANDLE. Every *_free accepts NULL and a freed handle, and does
 *   nothing then; of another kind's handle those that return a status say so.
 * Pointers.  "borrowed": read or written during the call only. "view": memory
 *   of the library, valid until the moment its entry names. "static": valid for
 *   ever. NULL where a pointer is needed gives PACELINE_EINVAL.
 * Strings.  Terminated UTF-8; anything else is refused, and so is a name longer
 *   than 1023 bytes, a path longer than 4095 or a value longer than 65535. A text
 *   that a function writes to a char ** is yours: free it with paceline_string_free.
 * Files.  A path must name a regular file, or for writing none yet: FIFOs, devices
 *   and folders are refused.
 * Threads.  A handle may be used from any thread, one call at a time; a second
 *   call meanwhile gives PACELINE_EBUSY. Functions that take a const handle, or
 *   are marked [thread-safe], may run at any time, also beside the others (but
 *   not beside *_free of that handle: they then give PACELINE_EHANDLE or finish).
 *   Different handles are independent. The error text belongs to the thread.
 * Coroutines.  The library may be called on any stack. Inside a function of yours that the
 *   library calls (an environment's step, a release), call it only on the thread's own stack:
 *   a call from the stack of a coroutine or a fiber is refused there with PACELINE_EFAIL (a
 *   *_free that returns nothing does nothing). Such a function returns on the stack and on the
 *   thread that it was called on.
 * Fork.  The library has threads of its own, so a child made by fork() cannot
 *   use it: every call that returns a status gives PACELINE_EFORKED there, and
 *   *_free does nothing. Load it after forking, or start children with exec.
 * Descriptors.  Loading opens an epoll and an eventfd descriptor, and up to two of the
 *   control group's files; all are close-on-exec. They are open before dlopen, or the start of
 *   the program, is over. A program that closes descriptors that it does not know (closefrom,
 *   as daemons do) loads the library afterwards, by dlopen: without them Go's runtime ends the
 *   process within milliseconds, or writes to a file of yours that has got the number. Where
 *   fewer than 8 descriptors are left while it is loaded, the library does not start: every
 *   call that returns a status gives PACELINE_EFAIL.
 * Floating point.  The library computes in the default mode whatever the caller's
 *   is (flush to zero, rounding), and leaves the caller's as it was.
 * Signals.  Long calls return when paceline_trainer_stop (paceline_policy_stop) is
 *   called, which is [thread-safe] (but not async-signal-safe), or when their max_ms is over.
 *   Loading installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGPIPE (unless it is ignored) and
 *   SIGURG, which pass on what is not the library's own. All other handlers that the program
 *   has, their flags included, stay as they are. A handler of yours may run on a
 *   thread that is inside the library, whose stack is small: install it with
 *   SA_ONSTACK and use at most 16 KB of stack in it, or give the thread a larger
 *   alternate stack (sigaltstack) before its first call; a thread that has none
 *   gets one of 32 KB then. Your signal masks stay as they are, but the library's
 *   own threads accept SIGCHLD, SIGPROF and SIGURG whatever you block: a blocked
 *   SIGCHLD that you read by signalfd or sigwait may be lost, so wait for children
 *   by pidfd or in a handler. On a processor with AMX the first network in bf16 asks
 *   Linux for its tiles: from then on sigaltstack refuses stacks of less than about
 *   11 KB. Where a thread has such a stack already, the library does without tiles
 *   (as with PACELINE_ISA=avx512bf16).
 *   A file that would exceed the process's limit of a file's size (ulimit -f) is an error of
 *   the call, PACELINE_EIO; SIGXFSZ does not reach the program.
 * Scheduling.  The library's threads run on the cores, with the scheduling policy and the
 *   niceness that the program's main thread had while the library was loaded, whichever thread
 *   makes a trainer: a control thread that is bound to a core or runs under SCHED_FIFO passes
 *   nothing on. A lower niceness than that of the calling thread may need a privilege; without
 *   it, threads started meanwhile keep the caller's. To bind all of them, start the program
 *   under taskset or numactl.
 * Memory.  Loading reserves about 1 GB of address space, most of which is never
 *   used: under a smaller limit (ulimit -v) the process is ended by Go's runtime.
 *   What needs more than is left of the machine's memory, its control group's or the
 *   limit of the address space is refused with PACELINE_ENOMEM and both numbers
 *   before any of it is allocated. Without /proc (a chroot) system calls report what is left, less
 *   exactly.
 * Platform.  Linux with the GNU C library. musl does not load it: Go's thread-local
 *   data is in the block that is laid out when a program starts.
 * Environment variables.  Those that the process was started with: PACELINE_ISA (the
 *   vector units to use: go, generic, avx2, avx512, avx512bf16, amx; or portable, as
 *   the setting isa; a name that this machine cannot run is an error when a trainer is
 *   made), PACELINE_ROMS_DIR and ALE_ROMS_DIR (section 11), PACELINE_CUDA_EAGER
 *   (1: kernels on a GPU are launched one by one instead of as graphs, and each is
 *   waited for, so that an error names the kernel; several times slower; 0 is the
 *   default and any other value an error when a GPU is opened), and those of Go's runtime
 *   (GOMAXPROCS, GODEBUG, GOGC, GOMEMLIMIT), which ends the process if it cannot read
 *   one of them.
 *   What the program changes of its environment later is not seen.
 * Growth.  A struct that may grow begins with struct_size: set it to sizeof, and
 *   what you do not set to zero. The library reads and writes no more than that; a
 *   larger size from a newer header is refused with PACELINE_EVERSION. What this
 *   version does not do yet is refused with a sentence, where an entry says so.
 *   Versions 0.x may change anything; PACELINE_ABI_VERSION then grows, and with it
 *   the library's SONAME, unless what was compiled against the older header goes on
 *   working: structs grow at their end, enums and functions are added.
 * Deprecation.  From 1.0 on a function, a field or a number stays for as long as
 *   PACELINE_ABI_VERSION does. What should not be used any more is marked
 *   "deprecated since VERSION: use THIS" in its entry, works as before for at least
 *   two minor versions and one year, and only then goes, with a new ABI number. A
 *   number of an enum that went is never used again.
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
  PACELINE_ESTOPPED = -6,  /* stopped while act or observe waited, or an evaluation: call it again */
  PACELINE_ENOMEM = -7,    /* the machine has not the memory asked for */
  PACELINE_EFORKED = -8,   /* used in a child of fork() */
  PACELINE_EPANIC = -9,    /* a bug in the library, caught: this handle may be spoilt, others go on */
  PACELINE_EIO = -10,      /* a file could not be read or written, or is no whole checkpoint */
  PACELINE_EVERSION = -11, /* a struct of a newer version, or a checkpoint of another one */
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

/* The number of the environment that this thread's latest failed call failed on;
 * -1 if it was not about one, or none has failed. [thread-safe] */
PACELINE_API int64_t paceline_last_error_index(void);

/* Frees a text that the library gave you. NULL is fine. [thread-safe] */
PACELINE_API void paceline_string_free(char *text);

/* ----------------------------------------------------------- 2 versions */

#define PACELINE_VERSION "0.1.0"
#define PACELINE_ABI_VERSION 2

/* PACELINE_VERSION and PACELINE_ABI_VERSION of the library that is loaded.
 * [thread-safe] */
PACELINE_API const char *paceline_version(void);
PACELINE_API int paceline_abi_version(void);

/* A JSON object: version, go, isa (the kernels in use), threads (that run Go
 * code at the same time), gpu (whether CUDA is built in). Static text; "{}" in a
 * child of fork() that has not asked before. [thread-safe] */
PACELINE_API const char *paceline_build_info(void);

/* A JSON object: devices (an array of the GPUs that this process can use: {device
 * ("cuda:0"), name, uuid, compute_capability ("9.0"), memory (bytes), cuda (the newest
 * that the driver knows: "12.9")}), reason (a sentence, why there are none; "" where
 * there are). The first call opens NVIDIA's driver. What computes on a GPU uses its
 * primary context, as PyTorch does, and the process holds that from the first use until
 * it ends: some hundred megabytes of the GPU's memory. It may be used while another
 * library captures a graph, in any mode. [thread-safe] */
PACELINE_API int paceline_devices(char **out);

/* ------------------------------------------------------ 3 configuration */

/* A configuration is a table of named settings of one method, with text values.
 * Every setting has a default; paceline_config_describe lists them all with their
 * meaning. Where it computes (device: "auto", "cpu", "cuda", "cuda:1" ...), with what
 * precision, on how many threads: all of that are settings, too. Checkpoints leave open
 * where; what loads one may say so. */
typedef struct paceline_config paceline_config;

/* A JSON array of the names of all methods: ["dqn", ...]. [thread-safe] */
PACELINE_API int paceline_methods(char **out);

/* Makes a configuration that holds the defaults of a method. Free it with
 * paceline_config_free; trainers made from it have a copy. */
PACELINE_API PACELINE_MUST_USE int paceline_config_new(paceline_config **out, const char *method);

/* Makes the configuration that is stored in the checkpoint at path, of the method
 * that the file names. */
PACELINE_API PACELINE_MUST_USE int paceline_config_load(paceline_config **out, const char *path);

/* The name of the method. Static text. */
PACELINE_API int paceline_config_method(const char **out, const paceline_config *cfg);

/* Sets key to value (both borrowed): "32", "0.99", "true", "snapshot",
 * "128,128". Refuses an unknown key (naming the nearest) and a value out of
 * range. */
PACELINE_API int paceline_config_set(paceline_config *cfg, const char *key, const char *value);

/* The value of key as text. */
PACELINE_API int paceline_config_get(char **out, const paceline_config *cfg, const char *key);

/* Applies a documented table of settings on top of the others, as
 * paceline_config_presets lists them: for "dqn" preset "tuned" (values that solve
 * the built-in environment named env), "mnih2015" (the settings of the Nature
 * paper) or "fastdqn" (those of the paper's fast DQN). Sets "env" and
 * "env_options", too. */
PACELINE_API int paceline_config_preset(paceline_config *cfg, const char *preset, const char *env);

/* The presets of the configuration's method, a JSON array of objects: name, doc
 * (one sentence), envs (an array of the environments that it exists for; null:
 * any), steps (how many a run with it is meant to take; 0: any number). */
PACELINE_API int paceline_config_presets(char **out, const paceline_config *cfg);

/* One setting's description. All strings: static text. */
typedef struct paceline_option {
  uint32_t struct_size;
  uint32_t reserved;
  const char *name;          /* "batch_size" */
  const char *type;          /* "int", "float", "bool", "string", "ints" */
  const char *default_value; /* as paceline_config_get gives it */
  const char *doc;           /* one sentence, with range and unit */
} paceline_option;

/* Describes setting number i of the configuration's method, 0 and up;
 * PACELINE_EINVAL past the last one. */
PACELINE_API int paceline_config_describe(paceline_option *out, const paceline_config *cfg, size_t i);

PACELINE_API void paceline_config_free(paceline_config *cfg);

/* ------------------------------------------------------ 4 specs and rows */

enum paceline_kind { PACELINE_BOX = 1, PACELINE_DISCRETE = 2 };
enum paceline_dtype { PACELINE_UINT8 = 1, PACELINE_FLOAT32 = 2, PACELINE_INT32 = 3 };

/* What an observation or an action is. An observation is a PACELINE_BOX of uint8
 * [channels, height, width] (an image, or a stack of frames, oldest first) or of
 * float32 [n] (a trainer whose network is an MLP takes either of any shape); an action
 * is PACELINE_DISCRETE: one int32 in 0..n-1. Anything else
 * is refused when a trainer is made; vector environments (section 9) also have
 * colour images, uint8 [frames, height, width, 3], and actions that are a
 * PACELINE_BOX of float32 [n]. */
typedef struct paceline_spec {
  uint32_t struct_size;
  uint32_t kind;       /* enum paceline_kind */
  uint32_t dtype;      /* enum paceline_dtype */
  uint32_t ndim;       /* axes in use, 0 for PACELINE_DISCRETE */
  int64_t shape[4];    /* sizes of the axes */
  int64_t n;           /* PACELINE_DISCRETE: number of actions */
  int64_t frame_stack; /* the first axis is that many frames, oldest first; 0: not declared */
} paceline_spec;

/* Where arrays are: DLPack's DLDeviceType. */
enum paceline_device { PACELINE_CPU = 1 };

/*
 * One row for each of num_rows environments, in arrays of the caller's. Row i of
 * obs and final_obs has the bytes of one observation; the other arrays have one
 * entry per row. A vector environment (section 9) writes them; a trainer whose
 * environments you step (section 7) reads them, so the one's rows can be handed to
 * the other as they are. An array that is NULL is neither written nor read; each
 * section says which must be there.
 */
typedef struct paceline_rows {
  uint32_t struct_size;
  uint32_t num_rows;
  void *obs;       /* the observations now */
  void *final_obs; /* where an episode ended and obs is the next one's first: its last observation */
  double *rewards;
  uint8_t *terminated;      /* 1: the task is over, nothing is gained beyond */
  uint8_t *truncated;       /* 1: the episode was cut off (time limit) */
  uint8_t *started;         /* 1: obs is the first of an episode */
  int32_t *env_ids;         /* whose row it is */
  void *const *infos;       /* an array for each column that paceline_vec_describe names */
  void *const *final_infos; /* the same of an episode's last step, where final_obs is */
  /* [num_rows][n] for n actions, 0: may not be taken now. Each row must allow one, but
   * beside the last observation of a terminated episode. NULL where actions have no masks. */
  uint8_t *action_masks;
  uint8_t *final_action_masks; /* the same beside final_obs */
  int32_t device_type;         /* where all these arrays are: PACELINE_CPU, or 0 for the same; others are refused */
  int32_t device_id;           /* 0 */
} paceline_rows;

/* ---------------------------------------------- 5 your own environments */

/* How a step left the episode; bits. Terminated: the task is over, nothing is
 * gained beyond. Truncated: it was cut off (time limit). With both set,
 * termination decides the value of the last state. */
enum paceline_end { PACELINE_TERMINATED = 1, PACELINE_TRUNCATED = 2 };

/* What is true of all environments of a table; bits. PACELINE_ENV_WAITS: reset and step
 * mostly wait (for a device, a clock, another program), asleep or blocked, and compute
 * little, as a robot's or a simulator's in another process do. Each environment is then
 * stepped on a thread of its own (up to 1024), which counts as none of num_threads: all of
 * them wait at the same time, and updates and other environments' forward passes go on
 * meanwhile. It changes the speed and never the result. Not for steps that compute: more
 * threads would share the same cores. */
enum paceline_env_flags { PACELINE_ENV_WAITS = 1 };

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
 * Make no paceline call on the same trainer from inside: it gives PACELINE_EBUSY,
 * paceline_trainer_free too. Leave a function by returning only: longjmp and
 * pthread_exit are undefined, and a C++ function must not let an exception out
 * (paceline.hpp sees to that). A crash in one ends the process, by SIGQUIT and with
 * a report of Go's on the standard error. Functions run in the default
 * floating-point mode, and what they change of it is undone. System calls may
 * return EINTR (the library's threads get signals): try again.
 */
typedef struct paceline_env_table {
  uint32_t struct_size;
  uint32_t flags; /* enum paceline_env_flags; others are refused */
  /* Fills in both specs (zeroed, struct_size is set). Called once, first. */
  int (*spec)(void *user, paceline_spec *obs, paceline_spec *action);
  /* Makes environment number index, one after the other, before
   * paceline_trainer_new_table returns; all its randomness comes from seed. */
  int (*create)(void *user, uint32_t index, uint64_t seed, void **env);
  /* Starts an episode and writes its first observation. */
  int (*reset)(void *env, void *obs);
  /* Takes one action (an int32 in range), writes the observation that follows,
   * the reward (finite, as float observations must be) and the bits of enum
   * paceline_end. */
  int (*step)(void *env, const void *action, void *obs, float *reward, uint8_t *ended);
  /* Both or none. save writes the whole state, its random numbers too, into buf (at
   * most 256 MiB); *len: size of buf going in, bytes needed coming out; with buf NULL or too
   * small only *len is written and 0 returned. Without them a checkpoint starts
   * new episodes when it is loaded. */
  int (*save)(void *env, void *buf, size_t *len);
  int (*restore)(void *env, const void *buf, size_t len);
  void (*destroy)(void *env);
  /* Optional: writes n bytes for n actions, 0 where the action may not be taken in the
   * state that the latest reset or step left, 1 where it may, which one must. Not called
   * after a termination. Actions are then chosen, and their values compared, among those
   * that may be taken ("pqn" refuses the table). */
  int (*mask)(void *env, uint8_t *mask);
} paceline_env_table;

/* The text of the error that this thread's callback is about to return; copied,
 * up to 1023 bytes. [thread-safe] */
PACELINE_API void paceline_set_callback_error(const char *text);

/* An environment in a shared library of its own, which need not be linked with this
 * one, exports one function called paceline_env_open. It fills in *out, which comes
 * zeroed with struct_size set, and returns 0, or another number after
 * host->set_callback_error("..."). host is valid for ever. paceline_env_load called
 * inside it fails. */
typedef struct paceline_host {
  uint32_t struct_size;
  int32_t abi_version;                          /* PACELINE_ABI_VERSION of the library that loads it */
  void (*set_callback_error)(const char *text); /* paceline_set_callback_error */
} paceline_host;

typedef struct paceline_env_plugin {
  uint32_t struct_size;
  uint32_t reserved;
  const char *name;         /* that the environment is to be known by, such as "Pendulum-v1" */
  void *user;               /* passed to spec and create; never released, as the file stays loaded */
  paceline_env_table table; /* struct_size is set */
} paceline_env_plugin;

typedef int paceline_env_open_function(paceline_env_plugin *out, const paceline_host *host);

/* Loads such a file and makes its environment known: from now on its name, which is
 * written to *out, works wherever a built-in environment's does. A new seed makes its
 * environments anew. Loading a file twice changes nothing; another file's environment
 * of the same name is refused. */
PACELINE_API int paceline_env_load(char **out, const char *path);

/* A JSON array of the names of all environments that are known. [thread-safe] */
PACELINE_API int paceline_env_names(char **out);

/* -------------------------------------------------------- 6 the trainer */

/* A run of a method: its environments, its experience, its network and the threads
 * that learn. */
typedef struct paceline_trainer paceline_trainer;

/* Makes a trainer on the built-in environment that the setting "env" names.
 * cfg is borrowed. What needs more memory than the machine (or its container) has
 * left gives PACELINE_ENOMEM with both numbers. */
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

/* A new configuration with the settings as they act: what was "auto", or left to a
 * default that depends on others, is filled in. Free it with paceline_config_free. */
PACELINE_API PACELINE_MUST_USE int paceline_trainer_config(paceline_config **out, const paceline_trainer *t);

/* What the environments' observations and actions are. */
PACELINE_API int paceline_trainer_spec(paceline_spec *obs, paceline_spec *action, const paceline_trainer *t);

/* A JSON object: method, env (the environment's name), recipe and recipe_hash (""
 * where there is none; see section 9), sets (an array of the sets of parameters, see
 * below: name, size (how many numbers), writable (whether set_parameters takes it)), infos
 * (the columns of infos as in paceline_vec_describe; none where you step). */
PACELINE_API int paceline_trainer_describe(char **out, const paceline_trainer *t);

enum paceline_begin_flags {
  PACELINE_RESET_TIMESTEPS = 1, /* count steps from 0, with a new warm-up */
  PACELINE_RESET_ENVS = 2       /* cut the episodes in progress (as truncations) and start new ones */
};

/* Begins a run of total_timesteps further steps, warm-up (learning_starts) included. The
 * first call acts as with both flags.
 *
 * The run ends at step num_timesteps + total_timesteps, num_timesteps being the steps taken
 * before it: 0 with PACELINE_RESET_TIMESTEPS. Schedules (learning_rate_final, *_schedule,
 * exploration_fraction) go from step 0 to that end: at step t the share of the run is t
 * divided by the end. Settings in steps, such as exploration_steps, are absolute. So
 *   - a program that learns in slices begins each one with its number of steps: rates rise
 *     again at every slice, as in Stable-Baselines3;
 *   - a program that goes on with a run that was interrupted, also from a checkpoint, begins
 *     the rest (total_timesteps less num_timesteps, of paceline_stats) or nothing: the end
 *     and the bits are those of a run that never stopped.
 * Past the end of the run steps may be taken; schedules keep their last values. If a rate
 * is 0 in every update of a run, paceline_trainer_notice says so once. */
PACELINE_API int paceline_trainer_begin(paceline_trainer *t, int64_t total_timesteps, uint32_t flags);

/* Where a trainer stands: the counters that every method has. */
typedef struct paceline_stats {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t num_timesteps;   /* steps taken, warm-up included */
  int64_t total_timesteps; /* at which the run in progress ends */
  int64_t updates;         /* minibatch updates done */
  int64_t updates_due;     /* that should be done at this step */
  int64_t episodes;        /* finished ones */
  double mean_return;      /* undiscounted, latest stats_window_size episodes; NaN before any */
  double mean_length;      /* steps, likewise */
  double seconds_env;      /* stepping environments, per-thread sum */
  double seconds_act;      /* computing what to act by, per-thread sum */
  double seconds_train;    /* in updates */
  double seconds_wait;     /* waiting for updates, or for a core */
} paceline_stats;

/* Runs until max_steps further steps are taken (0: until the end of the run),
 * max_ms milliseconds are over (0: no limit) or paceline_trainer_stop was called,
 * whichever is first, and returns at the end of a round (one step of every
 * environment). If no run was begun, or the run that this function began or that a
 * checkpoint held is over, it begins a run of max_steps (paceline_trainer_begin without
 * flags). Does not wait for updates in progress on other threads. out: where
 * the trainer then stands, or NULL. An environment's failure, a panic or a loss that
 * is not finite is returned here, with its step. Built-in and table environments
 * only. */
PACELINE_API int paceline_trainer_run(paceline_stats *out, paceline_trainer *t, int64_t max_steps, int64_t max_ms);

/* What the latest round gave, for hosts that look at every one (paceline_trainer_run
 * with max_steps 1). Written: obs, which must be there, and what else is not NULL of
 * rewards, terminated, truncated, started, action_masks, final_obs, final_infos and
 * final_action_masks (of rows whose episode ended), infos (the columns that
 * paceline_trainer_describe names), and actions, num_envs of int32. Environments that the library steps only. */
PACELINE_API int paceline_trainer_rows(const paceline_rows *rows, void *actions, paceline_trainer *t);

/* The returns and the lengths of the episodes that ended last, oldest first. n: how many
 * the arrays have space for, then how many were written, at most as many as mean_return is
 * over. [thread-safe] */
PACELINE_API int paceline_trainer_episodes(double *returns, int64_t *lengths, size_t *n, const paceline_trainer *t);

/* Makes the run in progress return soon (and the next one at once, if none is).
 * The update in progress is finished; others that are due are not run until the next
 * step. A later run goes on where this one ended. An act or observe that waits
 * returns PACELINE_ESTOPPED, with nothing changed. [thread-safe] */
PACELINE_API int paceline_trainer_stop(const paceline_trainer *t);

/* [thread-safe] */
PACELINE_API int paceline_trainer_stats(paceline_stats *out, const paceline_trainer *t);

/* One number that a method reports beside these, such as "train/loss",
 * "train/learning_rate", and of "dqn" "rollout/exploration_rate", "replay_size". All
 * strings: static text. */
typedef struct paceline_metric {
  uint32_t struct_size;
  uint32_t reserved;
  const char *name; /* "train/loss" */
  const char *unit; /* "steps", "bytes", "transitions" ...; "": a plain number */
  const char *doc;  /* one sentence */
  double value;     /* NaN: none yet */
} paceline_metric;

/* Metric i, 0 and up, as it was when the latest call on the trainer ended;
 * PACELINE_EINVAL past the last one. Which there are and their order do not change while
 * the trainer lives. [thread-safe] */
PACELINE_API int paceline_trainer_metric(paceline_metric *out, const paceline_trainer *t, size_t i);

/* Notices ("target_update_interval 128 is below the window ..."), one a call, oldest
 * first; *out is NULL when there are no more. */
PACELINE_API int paceline_trainer_notice(char **out, paceline_trainer *t);

/* Finishes the updates due at this step, so that what is read afterwards is a
 * function of the seed and the step. The functions below that read weights or
 * experience do this by themselves. After max_ms milliseconds (0: no limit):
 * PACELINE_ETIMEDOUT. */
PACELINE_API int paceline_trainer_settle(paceline_trainer *t, int64_t max_ms);

/* Parameters are in sets, each one flat array: for "dqn" the sets "q_net" and
 * "q_net_target". paceline_trainer_describe lists a trainer's. This is one array in a
 * set, such as a layer's weights. name is as in Stable-Baselines3's module of the set's
 * name: "q_net.0.weight". Convolutions are [out, in, height, width], dense layers
 * [out, in]. */
typedef struct paceline_parameter {
  uint32_t struct_size;
  uint32_t ndim;
  int64_t shape[4];
  size_t offset;    /* of its first number in the set's flat array, in floats */
  size_t size;      /* numbers */
  const char *name; /* static text */
} paceline_parameter;

/* Describes array i of a set, 0 and up; PACELINE_EINVAL past the last one. */
PACELINE_API int paceline_trainer_parameter(paceline_parameter *out, const paceline_trainer *t, const char *set,
                                            size_t i);

/* Copies a whole set out to an array of exactly n floats (n: the last array's offset +
 * size). updates: NULL, or where the number of updates goes that the set has seen. */
PACELINE_API int paceline_trainer_get_parameters(float *out, size_t n, int64_t *updates, paceline_trainer *t,
                                                 const char *set);

/* Overwrites a set with n floats, all of them finite. */
PACELINE_API int paceline_trainer_set_parameters(paceline_trainer *t, const char *set, const float *in, size_t n);

/* The SHA-256 digest, in hexadecimal, of a set of parameters or of the experience that
 * can be sampled (part "replay", of methods that have one): the same seed and the same
 * settings give the same digests for any num_threads, of one precision on one
 * PACELINE_ISA or, with the setting device, on one model of GPU; with the setting isa
 * "portable", on every processor. */
PACELINE_API int paceline_trainer_hash(char **out, paceline_trainer *t, const char *part);

enum paceline_save_flags {
  PACELINE_SAVE_EXPERIENCE = 1 /* everything: stored and unflushed experience, environment states */
};

/* Writes a checkpoint (a zip archive of JSON and safetensors): weights,
 * optimiser, counters, random streams, schedules. With PACELINE_SAVE_EXPERIENCE a
 * trainer that loads it goes on with the same bits as one that never stopped.
 * The file is written beside path and renamed: a failure leaves an older file
 * as it was. */
PACELINE_API int paceline_trainer_save(paceline_trainer *t, const char *path, uint32_t flags);

/* Replaces the trainer's state by the checkpoint's. Method and settings must agree in
 * everything that shapes the state (environment, network, num_envs ...): make them with
 * paceline_config_load. Without experience in the file there is none, the
 * environments start new episodes, and num_envs may be another. On failure the trainer is as it was. */
PACELINE_API int paceline_trainer_load(paceline_trainer *t, const char *path);

/* Replaces the stored experience alone (of "dqn": the replay memory) by that of a
 * checkpoint written with PACELINE_SAVE_EXPERIENCE; weights, counters and random streams
 * stay. The episodes in progress are cut: the next call on the run must be a begin with
 * PACELINE_RESET_ENVS. On failure the trainer is as it was. */
PACELINE_API int paceline_trainer_load_experience(paceline_trainer *t, const char *path);

/* Transitions of the replay memory, in arrays of yours: entry i of every array is of transition i. */
typedef struct paceline_transitions {
  uint32_t struct_size;
  uint32_t num_rows;
  void *obs;           /* [num_rows, observation], of the specification's dtype */
  void *next_obs;      /* likewise; where the transition terminated zeros are read and nothing is looked at */
  int32_t *actions;    /* [num_rows] */
  float *rewards;      /* [num_rows] */
  uint8_t *terminated; /* [num_rows]: 1: nothing beyond this transition counts; a time limit is no termination */
  uint8_t *next_masks; /* [num_rows, n]: action masks of next_obs; NULL where actions have none; else NULL leaves them
                        * out of a read, and allows every action of rows that are added */
} paceline_transitions;

/* Copies to->num_rows transitions of the replay memory (method "dqn") to to's arrays, after the updates
 * that are due: those of numbers, each 0 to the metric "replay_size" less 1. They are ordered
 * by environment, and by age within one, oldest first. Nothing is changed and no random number is drawn: a
 * minibatch is read by numbers that you draw. All pointers are borrowed. */
PACELINE_API int paceline_trainer_read_transitions(const paceline_transitions *to, paceline_trainer *t,
                                                   const int64_t *numbers);

/* Adds transitions to the replay memory (method "dqn"), after the updates that are due: demonstrations, or
 * what another agent did. Row i counts among those of environment i mod num_envs, where it is the newest,
 * and is no part of an episode. Where observations are stacks of frames, next_obs is obs shifted by one frame. The
 * rows can be drawn at once, and so can all steps before them; episodes in progress go on. A row that is no
 * transition (an action out of range, NaN) is refused before any is added. Where memory is missing, the error
 * names a row, and the rows before it are added. All pointers are borrowed. */
PACELINE_API int paceline_trainer_add_transitions(paceline_trainer *t, const paceline_transitions *rows);

/* Stops, waits for the threads (at most one environment step and one update)
 * and frees; a run in progress on another thread returns. Inside a function of its own
 * environments, which it would wait for: PACELINE_EBUSY, and nothing is freed. */
PACELINE_API int paceline_trainer_free(paceline_trainer *t);

/* ---------------------------------------- 7 environments that you step */

/*
 * For environments that live on the caller's side (Python's, a simulator with
 * its own loop, a paceline_vec). With their first observations in rows.obs:
 *
 *     paceline_trainer_begin(t, total, 0);
 *     for (;;) {
 *         paceline_trainer_act(t, &rows, actions, 0);   // reads obs, writes actions
 *         ... step your environments: paceline_vec_step(v, actions, &rows) ...
 *         paceline_trainer_observe(t, &rows, 0);        // reads what they answered
 *     }
 *
 * while the library learns on threads of its own. The trainer reads the arrays during
 * the calls only, so they may be overwritten, or be others, afterwards; but act must be
 * given the observations that the observe before it was given (after a begin that
 * resets the environments: the first ones of their new episodes). The end of the run is
 * total_timesteps of paceline_stats; begin another one there (flags 0) to learn on.
 *
 * num_rows is num_envs, row i is always environment i's. act reads obs; observe reads
 * obs, rewards, terminated, truncated and final_obs, which must be there (final_obs only
 * where "autoreset" is same_step). With the setting "action_masks" true both read
 * action_masks, too, and observe final_action_masks where it reads final_obs; otherwise
 * they must be NULL. The setting "autoreset" says what obs
 * has after an episode's end:
 *   same_step  the first observation of the next episode; final_obs has the last one of
 *              the ended episode (needed where it was truncated).
 *   next_step  the last observation of the ended episode. The following act gives that
 *              row action 0, to be ignored; the following observe takes its obs as the
 *              first of the next episode, and its reward and ends are not read. Such a
 *              row is no step.
 *
 * Either call may have to wait: for an update that must come before it, or for a core.
 * After max_ms milliseconds (0: no limit) it returns PACELINE_ETIMEDOUT, after
 * paceline_trainer_stop PACELINE_ESTOPPED. Nothing has changed then: make the same call
 * again.
 */

/* Chooses an action for every row, the first half of a round. actions: num_rows of
 * int32. All borrowed. */
PACELINE_API int paceline_trainer_act(paceline_trainer *t, const paceline_rows *rows, void *actions, int64_t max_ms);

/* Takes what the environments answered to these actions, the second half. Where a row is
 * refused (not finite, or with a mask that allows no action), none is taken,
 * paceline_last_error_index is its number, and the call can be made again. Borrowed. */
PACELINE_API int paceline_trainer_observe(paceline_trainer *t, const paceline_rows *rows, int64_t max_ms);

/* --------------------------------------------------------- 8 the policy */

/* A frozen network that acts; it needs no environment and no trainer. */
typedef struct paceline_policy paceline_policy;

PACELINE_API PACELINE_MUST_USE int paceline_policy_load(paceline_policy **out, const char *path);
/* A copy of a trainer's network as it is at this step. */
PACELINE_API PACELINE_MUST_USE int paceline_policy_from_trainer(paceline_policy **out, paceline_trainer *t);
/* What paceline_policy_to_bytes wrote, borrowed. */
PACELINE_API PACELINE_MUST_USE int paceline_policy_from_bytes(paceline_policy **out, const void *bytes, size_t size);
PACELINE_API int paceline_policy_spec(paceline_spec *obs, paceline_spec *action, const paceline_policy *p);

/* A JSON object: env (the environment's name, or ""), outputs (an array of {name, len}:
 * what the network computes for an observation, len floats of each, such as "q" of
 * action values, "logits", "value"), state_bytes (bytes of policy state per row: 0 for
 * every policy so far), host_data (the setting of that name). */
PACELINE_API int paceline_policy_describe(char **out, const paceline_policy *p);

/* How a policy acts. Zero but for struct_size: greedily. */
typedef struct paceline_act_options {
  uint32_t struct_size;
  uint32_t sample; /* 1: from the distribution that the network gives, if it gives one; 0: greedily */
  double epsilon;  /* 0 to 1: how likely a row takes a random action instead */
  /* What is drawn for row i is a function of seed, counter and i, and of nothing else:
   * count calls (or steps) with counter, and they can be repeated. */
  uint64_t seed, counter;
  const uint8_t *action_masks;   /* [n][actions], 0: may not be taken, one in a row must; NULL: all may */
  void *state;                   /* [n][state_bytes], read and written; may be NULL where state_bytes is 0 */
  const uint8_t *episode_starts; /* [n], 1 where an episode starts, and with it a new state; NULL: nowhere */
} paceline_act_options;

/* Actions for n observations, 0 to 1048576, in rows of bytes. o: NULL for greedy ones.
 * actions: n rows (int32). outputs: NULL, or an array with an entry for each of the
 * outputs that paceline_policy_describe lists: NULL, or where n rows of its len floats
 * go. All borrowed. [thread-safe] */
PACELINE_API int paceline_policy_act(const paceline_policy *p, size_t n, const void *obs, const paceline_act_options *o,
                                     void *actions, float *const *outputs);

/* How episodes are played for an evaluation. */
typedef struct paceline_eval_options {
  uint32_t struct_size;
  uint32_t sample;  /* as in paceline_act_options */
  int64_t episodes; /* 1 to 1000000 */
  double epsilon;   /* 0 to 1: how likely a random action is taken */
  uint64_t seed;    /* of the environments, and of what is drawn */
  double *returns;  /* [episodes], of each; or NULL */
  int64_t *lengths; /* [episodes], in steps; or NULL */
} paceline_eval_options;

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

/* Plays whole episodes of a built-in environment with a policy, in environments of its
 * own. env_options: what they are made with, a JSON object, or NULL; of Atari games, whole
 * games are played for their whole rewards whatever it says. o: NULL for ten greedy
 * episodes of seed 0. The same arguments give the same result. [thread-safe] */
PACELINE_API int paceline_policy_evaluate(paceline_evaluation *out, const paceline_policy *p, const char *env,
                                          const char *env_options, const paceline_eval_options *o);

/* Makes evaluations of this policy that are in progress return PACELINE_ESTOPPED before
 * their next step, with nothing written. Later ones are as usual. [thread-safe] */
PACELINE_API int paceline_policy_stop(const paceline_policy *p);

/* A checkpoint of the weights alone, written as in paceline_trainer_save. */
PACELINE_API int paceline_policy_save(const paceline_policy *p, const char *path);

/* The same as bytes. *size: out's size going in, the bytes written coming out; out NULL:
 * only *size is written. */
PACELINE_API int paceline_policy_to_bytes(void *out, size_t *size, const paceline_policy *p);
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
  int32_t pin;             /* these threads, but not a caller's, are bound to cores from this one on; -1: they are not.
                              Counted among those that the process may use, and round again behind the last */
  const char *env_options; /* what the environments are made with, a JSON object, or NULL: see below */
} paceline_vec_options;

/* env: a name (paceline_env_names); options: borrowed. "decorrelation_steps": n in
 * env_options lets every environment's first episode after a seed start behind 0 to n
 * random steps; "waits": true or false says, instead of the environment itself, whether
 * steps wait (PACELINE_ENV_WAITS: a thread each, whatever num_threads is); all other names
 * are the environment's own. Atari games have "recipe" ("ale",
 * "mnih2015", "machado2018", "sb3", "stooke_abbeel") and, to change single values of it: obs_type
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
 * null where there is none), action_masks (whether it has them), action_names (what its
 * actions are called, such as "FIRE"; empty: nothing), max_steps (0: none),
 * threshold, render_fps (0: not known). */
PACELINE_API int paceline_vec_describe(char **out, const paceline_vec *v);

/* Rows (section 4) are written by the functions below: obs must be there, and final_obs in
 * PACELINE_SAME_STEP; what is NULL of the others is left out, and action_masks must be
 * where the environment has none. final_obs, final_infos and final_action_masks are
 * written in PACELINE_SAME_STEP only, where an episode ended. */

/* Starts episodes in the environments whose mask byte is not 0 (mask NULL: all;
 * at least one) and writes their rows; the others stay as they are. seeds: NULL to go on
 * along each environment's stream, or num_envs numbers, of which the masked rows' are used.
 * All borrowed.
 * In all modes an episode that this function starts begins a game. Only the episode after one that
 * ended with a lost life (episodic_life) goes on with its game: in PACELINE_NEXT_STEP and
 * PACELINE_SAME_STEP it starts by itself; in PACELINE_DISABLED by a mask, without a seed. */
PACELINE_API int paceline_vec_reset(paceline_vec *v, const uint64_t *seeds, const uint8_t *mask,
                                    const paceline_rows *rows);

/* Takes an action in every environment. actions: num_envs of int32, or rows of float32;
 * all borrowed. An action out of range is refused before any environment moves. An
 * environment that fails does not hold the others up: their rows are written and its own is
 * not (but for an end after which no episode could be started, in PACELINE_SAME_STEP).
 * paceline_last_error_index is its number, the first where several failed: of the
 * rows that were not written env_ids, too, are as they were before. */
PACELINE_API int paceline_vec_step(paceline_vec *v, const void *actions, const paceline_rows *rows);

/*
 * Asynchronously: while some environments are under way, others' results come back.
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
 * arrays must stay until paceline_vec_recv has reported them full. All that is sent must find
 * a row. If batch_size is num_envs, row i is environment i's. */
PACELINE_API int paceline_vec_offer(paceline_vec *v, const paceline_rows *rows);

/* Sends an action, or with paceline_vec_send_reset a reset, for each of n environments.
 * A reset is one by mask. seeds: NULL, or n. All borrowed. Nothing moves unless all of it is in order. */
PACELINE_API int paceline_vec_send(paceline_vec *v, const int32_t *env_ids, size_t n, const void *actions);
PACELINE_API int paceline_vec_send_reset(paceline_vec *v, const int32_t *env_ids, size_t n, const uint64_t *seeds);

/* Waits until the rows that were offered first are full: PACELINE_OK. An environment that
 * failed is reported at once, with its number, and has no row (but for an end after which no
 * episode could be started, in PACELINE_SAME_STEP); the others' rows come with the next call.
 * After max_ms milliseconds (0: no limit): PACELINE_ETIMEDOUT. Refused if fewer than
 * batch_size are under way. */
PACELINE_API int paceline_vec_recv(paceline_vec *v, int64_t max_ms);

/* Waits for all that is under way and discards it. What was offered stays offered. */
PACELINE_API int paceline_vec_drain(paceline_vec *v);

/* All that environment i's future depends on. *size: out's size going in, the bytes written
 * coming out; out NULL: only *size is written. Restoring refuses what is not a state of such an
 * environment; the environment must then be reset. Its row is not part of it. */
PACELINE_API int paceline_vec_save(void *out, size_t *size, paceline_vec *v, uint32_t i);
PACELINE_API int paceline_vec_restore(paceline_vec *v, uint32_t i, const void *state, size_t size);

/* An image of environment i, [height][width][3] bytes of red, green and blue. *size: out's size
 * going in, the bytes written coming out; out NULL: only the three sizes are written. */
PACELINE_API int paceline_vec_render(uint8_t *out, size_t *size, uint32_t *height, uint32_t *width, paceline_vec *v,
                                     uint32_t i);

/* Waits for the environments that are under way and frees all; a recv in progress returns.
 * Inside a function of its own environments: PACELINE_EBUSY, and nothing is freed. */
PACELINE_API int paceline_vec_free(paceline_vec *v);

/* --------------------------------------------------------- 10 benchmarks */

/* Runs the benchmark called name with options (a JSON object, or NULL for the
 * defaults) and writes its report, a JSON object.
 * "modes": {"env", "num_envs": [..], "num_threads", "steps", "trials"} - steps/s of the
 * four modes; with "step_ms": [..] on environments whose steps cost so many milliseconds more,
 * waiting and computing, beside the limits that follow from measured parts. "update": {"device", "batch", "act": [rows..], "precisions": [..], "threads": [..],
 * "trials", "row"} - milliseconds of minibatch updates, of one of so many (row) in a row, and of acting, on "cpu" or
 * "cuda", and the CPU's peak beside them.
 * "forward": {"rows": [..], "trials"} - microseconds of small forward passes on one thread.
 * "alternate": {"env", "num_envs", "rounds", "trials", "wait_ms", "precision"} - steps/s of two
 * groups of environments that take turns in acting and stepping on two cores, of their parts
 * and of one group. */
PACELINE_API int paceline_bench(char **out, const char *name, const char *options);

/* --------------------------------------------------- 11 the Atari console */

/* An Atari 2600 with one cartridge, as users of the Arcade Learning Environment
 * know it: the same frames, rewards, lives and numbers as ale-py 0.12.1, frame by
 * frame. Training goes through the environments "atari/pong" and so on (sections 6
 * and 9); this is for looking closer. */
typedef struct paceline_console paceline_console;

/* Puts a cartridge in, turns the console on and starts an episode. rom: a file, whose
 * game its MD5 says; or NULL, and game's file is searched for: in the folder that the
 * variable PACELINE_ROMS_DIR names, that of ALE_ROMS_DIR, those of
 * paceline_rom_folder. game: NULL, or an id such as "space_invaders", whose bytes the
 * file must have then. other_md5: 1 takes other bytes, too, with the rules of game, or
 * of the game that the file is called after, as ale-py does; 0 refuses them. seed: of
 * the generators that sticky actions and stored starts are drawn from;
 * repeat_action_probability, 0 to 1: how likely an action is ignored for a frame;
 * frame_skip: the frames that an action lasts, 1 to 1048576. They count as early as in the
 * first reset, in which some games' menus are played through. */
PACELINE_API PACELINE_MUST_USE int paceline_console_new(paceline_console **out, const char *rom, const char *game,
                                                        int other_md5, uint32_t seed, double repeat_action_probability,
                                                        uint32_t frame_skip);

/* Adds a folder to search for ROM files, such as that of an installed ale-py. */
PACELINE_API int paceline_rom_folder(const char *path);

/* The id of the game whose cartridge the file is, by its MD5, or "" if it is that of
 * none that can be played. */
PACELINE_API int paceline_rom_identify(char **out, const char *path);

/* Settings, as texts, from the next call on: "frame_skip" (1, to 1048576: frames of an act),
 * "repeat_action_probability" (0, to 1), "max_num_frames_per_episode" (0: no limit),
 * "reward_min" and "reward_max" (clamp an act's reward where the first is less),
 * "reset" ("ale": as ALE does it, to the frame; "cached": at one of 30 stored states),
 * "color_averaging" ("false", "true": blend each frame with the one before);
 * "difficulty" (one of the game's); and from the next reset on, "mode". */
PACELINE_API int paceline_console_set(paceline_console *c, const char *name, const char *value);

/* Starts an episode, as "reset" says. What RAM holds carries over from the last one
 * where that is "ale". */
PACELINE_API int paceline_console_reset(paceline_console *c);

/* Plays action (0 to 17: NOOP, FIRE, UP, RIGHT, LEFT, DOWN, UPRIGHT, UPLEFT,
 * DOWNRIGHT, DOWNLEFT, and UP to DOWNLEFT with FIRE; others count as NOOP) for
 * frame_skip frames and writes what it earned. strength scales a paddle's turn: 0 to 1 for a player; -90000 to
 * 90000 are taken, of which the sign does not count. When the game is over nothing
 * moves and *reward is 0. */
PACELINE_API int paceline_console_act(int32_t *reward, paceline_console *c, int32_t action, float strength);

typedef struct paceline_console_state {
  uint32_t struct_size;
  uint32_t ended; /* bits of enum paceline_end */
  int32_t lives;
  int32_t mode;                 /* that of the next reset */
  int32_t difficulty;           /* bit 0 the left switch, bit 1 the right one */
  uint32_t pal;                 /* 1: the game is for PAL */
  int64_t frame_number;         /* since the console was turned on */
  int64_t episode_frame_number; /* since the last reset */
  uint32_t height;              /* of the frame: mostly 210 */
  uint32_t width;               /* 160 */
  char game[64];                /* the game's id */
} paceline_console_state;

/* *out: the console's state, which every call on the console brings up to date: read it
 * between calls. A view, valid until the console is freed. */
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
PACELINE_API int paceline_console_ram(uint8_t *out, paceline_console *c);
PACELINE_API int paceline_console_poke(paceline_console *c, uint32_t index, uint8_t value);

enum paceline_screen {
  PACELINE_SCREEN_COLOUR = 0,  /* height x width: the TIA's colours */
  PACELINE_SCREEN_GREY = 1,    /* height x width: grey levels */
  PACELINE_SCREEN_RGB = 2,     /* height x width x 3 */
  PACELINE_SCREEN_OBSERVED = 3 /* 84 x 84: what environments observe, the brighter of the last two frames, in grey */
};

/* Writes the last frame. size must be the kind's bytes. */
PACELINE_API int paceline_console_screen(uint8_t *out, size_t size, paceline_console *c, uint32_t kind);

/* All that a console's future depends on, frames included. *size: out's size going in, the
 * bytes written coming out; out NULL: only *size is written. with_rng 0 leaves the
 * generators out; restoring then goes on with the console's own. Restoring refuses what is
 * not a state of the same game's console of the same library. */
PACELINE_API int paceline_console_save(void *out, size_t *size, paceline_console *c, int with_rng);
PACELINE_API int paceline_console_restore(paceline_console *c, const void *state, size_t size);
PACELINE_API void paceline_console_free(paceline_console *c);

#ifdef __cplusplus
}
#endif
#endif
