/*
 * paceline.h - the C interface of Paceline, and its manual.
 *
 * Paceline steps many environments, stores their experience and trains a network, all at the
 * same time. Its methods are DQN (with Concurrent Training and Synchronized Execution), A2C, PPO,
 * A3C, APPO, GA3C, Gorila and PQN. A program needs this header and libpaceline.
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
 * 5 your own environments (and environments in files of their own), 6 the trainer,
 * 7 environments that you step, 8 the policy, 9 the vector environment, 10 benchmarks,
 * 11 the Atari console, 12 updates from outside.
 *
 * RULES THAT HOLD EVERYWHERE
 *
 * Results.  A function that can fail returns PACELINE_OK (0) or a negative code of enum
 *   paceline_status. After a failure paceline_last_error() returns one sentence: the field, its
 *   value and what is allowed. A failed call writes no output and leaves the object as it was,
 *   unless the function's entry says otherwise. The library prints nothing.
 * Arguments.  The order is: what the function makes or reports (out), the handle, inputs,
 *   callbacks and their user pointer. Arrays with one entry per environment or observation (rows,
 *   actions, outputs) follow the handle even if the library writes them.
 * Handles.  A handle is a 64-bit id, typed as an opaque pointer. Ids are never reused: a freed
 *   handle and a handle of another kind give PACELINE_EHANDLE. Every *_free accepts NULL and a
 *   freed handle, and then does nothing. Given a handle of another kind, a *_free that returns a
 *   status gives PACELINE_EHANDLE, and any other does nothing.
 * Pointers.  An argument is "borrowed" unless its entry says otherwise: the library reads or
 *   writes the memory during the call only. A "view" is memory of the library, valid until the
 *   moment that the entry names. "Static" memory is valid until the process ends. NULL gives
 *   PACELINE_EINVAL, unless the entry allows it.
 * Buffers.  A function with an array out and a size_t *size reads the capacity of out, in bytes,
 *   from *size and writes the number of bytes to *size. If out is NULL, nothing else is written.
 *   A capacity that is too small gives PACELINE_EINVAL.
 * Strings.  Strings are UTF-8 and end with a NUL byte. Other bytes are refused. The longest name
 *   has 1023 bytes, the longest path 4095, the longest value of a configuration 65535 and
 *   the longest JSON text 1048576. You own each text that a function writes to a char **: free it with
 *   paceline_string_free.
 * Files.  A path names a regular file, or, for writing, no file yet. FIFOs, devices and folders
 *   are refused.
 * Threads.  Any thread may use a handle, one call at a time: a second call on the handle gives
 *   PACELINE_EBUSY. Functions that take a const handle, and functions marked [thread-safe], may
 *   run concurrently with any other call on the handle. If *_free of the handle is called
 *   meanwhile, they finish or give PACELINE_EHANDLE. Different handles are independent. Each
 *   thread has its own error text.
 * Coroutines.  The library may be called on any stack, with one exception. A function of yours
 *   that the library calls (an environment's step, a release) may call the library on the
 *   thread's own stack only. On the stack of a coroutine or fiber such a call gives
 *   PACELINE_EFAIL, and a *_free without a status does nothing. Your function must return on the
 *   thread and the stack on which the library called it.
 * Fork.  A child of fork() lacks the library's threads and cannot use the library: every call
 *   that returns a status gives PACELINE_EFORKED, and *_free frees nothing. Load the library
 *   after fork(), or start children with exec.
 * Descriptors.  Loading opens one epoll descriptor, one eventfd descriptor and up to two files of
 *   the control group, all of them close-on-exec. All are open when dlopen returns, or when main
 *   of a linked program starts. A program that closes descriptors that it did not open
 *   (closefrom, as daemons do) must load the library afterwards, with dlopen. Without its
 *   descriptors Go's runtime ends the process within milliseconds, or writes to a file of yours
 *   that got the same number. If fewer than 8 descriptors are left when the library is loaded,
 *   it does not start: every call that returns a status gives PACELINE_EFAIL.
 * Floating point.  The library computes in the default mode (round to nearest, no flush to zero),
 *   whatever the caller's mode is, and restores the caller's mode.
 * Stopping.  Long calls return when paceline_trainer_stop (paceline_policy_stop) is called or
 *   max_ms has passed. The two stop functions are [thread-safe] but not async-signal-safe.
 * Signal handlers.  Loading installs handlers for SIGSEGV, SIGBUS, SIGFPE, SIGURG and, unless it is
 *   ignored, SIGPIPE. These handlers pass on signals that are not the library's. All other handlers
 *   and their flags stay as they are.
 * Alternate stacks.  A handler of yours may run on a thread that is inside the library, on a small
 *   stack. Install the handler with SA_ONSTACK and let it use at most 16 KB of stack. If it needs
 *   more, give the thread a larger alternate stack (sigaltstack) before its first call. A thread
 *   without an alternate stack gets one of 32 KB in its first call. On a processor with AMX the
 *   first network in bf16 asks Linux for AMX tiles; from then on sigaltstack refuses stacks of less
 *   than about 11 KB. If a thread already has such a stack, the library uses no tiles (as with
 *   PACELINE_ISA=avx512bf16).
 * Signal masks.  Your signal masks stay as they are. The library's own threads accept SIGCHLD,
 *   SIGPROF and SIGURG, also if you block them. A blocked SIGCHLD that you read with signalfd or
 *   sigwait may be lost: wait for children with a pidfd or in a handler.
 * File size.  A file that exceeds the process's limit of file sizes (ulimit -f) gives PACELINE_EIO;
 *   the program gets no SIGXFSZ.
 * Scheduling.  The library's threads have the cores, the scheduling policy and the niceness that
 *   the program's main thread had when the library was loaded. The thread that makes a trainer
 *   passes nothing on: it may be bound to a core or run under SCHED_FIFO. A niceness lower than the
 *   calling thread's may need a privilege; without the privilege new threads have the calling
 *   thread's niceness. To bind all threads, start the program with taskset or numactl.
 * Memory.  Loading reserves about 1 GB of address space and uses little of it. Under a smaller
 *   limit (ulimit -v) Go's runtime ends the process. A call that needs more memory than is left to
 *   the machine, the control group or the address space gives PACELINE_ENOMEM before it allocates;
 *   the text has both numbers. Without /proc (in a chroot) the library asks system calls what is
 *   left, which is less exact.
 * Platform.  Linux with the GNU C library. musl cannot load the library: Go's thread-local data is
 *   in the block that is laid out when a program starts.
 * Environment variables.  Set them before the process starts: a change before the library is loaded
 *   may or may not count, a later one has no effect. PACELINE_ISA: the vector instructions to use
 *   (go, generic, avx2, avx512, avx512bf16, amx; or portable, as the setting isa). A name that this
 *   machine cannot run is an error when a trainer is made. PACELINE_ROMS_DIR and ALE_ROMS_DIR: see section 11.
 *   PACELINE_CUDA_EAGER: 1 launches the kernels of a GPU one by one instead of as graphs and waits
 *   for each. It is several times slower, but an error names the kernel. 0 is the default; any
 *   other value is an error when a GPU is opened. GOMAXPROCS, GODEBUG, GOGC and GOMEMLIMIT: Go's runtime
 *   reads them. An invalid GOMEMLIMIT ends the process; invalid values of the others are ignored.
 * Growth.  A struct that may grow begins with struct_size. Set struct_size to sizeof the struct,
 *   and every field that you do not use to zero. The library reads and writes at most struct_size
 *   bytes. A size from a newer header gives PACELINE_EVERSION. Where an entry says that this
 *   version lacks something, its use is refused. Versions 0.x may change anything. A change that
 *   breaks programs compiled with an older header changes PACELINE_ABI_VERSION and the library's
 *   SONAME. Fields at the end of structs, enum values and functions are added without that.
 * Deprecation.  From 1.0 on functions, fields and enum values stay as long as PACELINE_ABI_VERSION
 *   does. The entry of a deprecated one says "deprecated since VERSION: use THIS". A deprecated
 *   one works as before for at least two minor versions and one year, and is removed only with a
 *   new PACELINE_ABI_VERSION. The number of a removed enum value is never used again.
 * Units.  A "step" is one decision of one environment (an agent step). A "round" is one step of
 *   every environment. max_ms is a time limit in milliseconds; 0 is no limit.
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
  PACELINE_EFAIL = -1,      /* none of the others: see the text */
  PACELINE_EINVAL = -2,     /* an argument or a setting is not allowed */
  PACELINE_EHANDLE = -3,    /* the handle was freed, or is of another kind */
  PACELINE_EBUSY = -4,      /* another call on this handle is in progress */
  PACELINE_ECALLBACK = -5,  /* a function of your environment table failed */
  PACELINE_ESTOPPED = -6,   /* an act or observe that waited, or an evaluation, was stopped: call it again */
  PACELINE_ENOMEM = -7,     /* not enough memory is available */
  PACELINE_EFORKED = -8,    /* called in a child of fork() */
  PACELINE_EPANIC = -9,     /* a bug in the library, caught: free this handle; other handles still work */
  PACELINE_EIO = -10,       /* a file cannot be read or written, or is not a complete checkpoint */
  PACELINE_EVERSION = -11,  /* a struct of a newer version, or a checkpoint of another version */
  PACELINE_ENAN = -12,      /* the loss, an observation, a reward or a network's action is not finite */
  PACELINE_ETIMEDOUT = -13, /* max_ms passed before there was a result: call again */
  PACELINE_ESTALE = -14     /* a store has refused a gradient, because it is too old */
};

/* The name of a code, such as "PACELINE_EINVAL". Static text, never NULL.
 * [thread-safe] */
PACELINE_API const char *paceline_status_str(int status);

/* The text of this thread's latest failed call, at most 1023 bytes; "" before the first one.
 * Never NULL. A view, valid until this thread's next failed call. [thread-safe] */
PACELINE_API const char *paceline_last_error(void);

/* The number of the environment on which this thread's latest failed call failed, or of the row or
 * step of the arguments that the call refused; -1 if the failure concerned none, and before the first
 * failure. [thread-safe] */
PACELINE_API int64_t paceline_last_error_index(void);

/* Frees a text that the library wrote to a char **, or NULL. [thread-safe] */
PACELINE_API void paceline_string_free(char *text);

/* ----------------------------------------------------------- 2 versions */

#define PACELINE_VERSION "0.1.0"
#define PACELINE_ABI_VERSION 2

/* PACELINE_VERSION and PACELINE_ABI_VERSION of the loaded library. [thread-safe] */
PACELINE_API const char *paceline_version(void);
PACELINE_API int paceline_abi_version(void);

/* A JSON object: version, go, isa (the kernels in use), threads (how many run Go code at the same
 * time), gpu (whether CUDA is built in). Static text; "{}" in a child of fork() whose parent never
 * asked. [thread-safe] */
PACELINE_API const char *paceline_build_info(void);

/* Writes a JSON object: devices (an array of the GPUs that this process can use) and reason (a
 * sentence that says why there are none, else ""). A GPU is an object: device ("cuda:0"), name,
 * uuid, compute_capability ("9.0"), memory (bytes), cuda (the newest version that the driver
 * supports, "12.9"). The first call opens NVIDIA's driver.
 * The library uses a GPU's primary context, as PyTorch does. The process holds the context, some
 * hundred megabytes of GPU memory, from the first use until the process ends. The library may use a
 * GPU while another library captures a CUDA graph, in any capture mode. [thread-safe] */
PACELINE_API int paceline_devices(char **out);

/* ------------------------------------------------------ 3 configuration */

/* A configuration is a table of named settings of one method, with text values. Every setting has
 * a default; paceline_config_describe lists all settings. The device ("auto", "cpu", "cuda",
 * "cuda:1" ...), the precision and the number of threads are settings, too. A checkpoint does not
 * fix the device: a program that loads it may set another one. */
typedef struct paceline_config paceline_config;

/* Writes a JSON array of the names of all methods: ["dqn", ...]. [thread-safe] */
PACELINE_API int paceline_methods(char **out);

/* Makes a configuration with the defaults of a method. Trainers copy the configuration that they
 * are made with: free it with paceline_config_free at any time. */
PACELINE_API PACELINE_MUST_USE int paceline_config_new(paceline_config **out, const char *method);

/* Makes the configuration that is stored in a checkpoint, of the method that the file names. */
PACELINE_API PACELINE_MUST_USE int paceline_config_load(paceline_config **out, const char *path);

/* Writes the name of the method. Static text. */
PACELINE_API int paceline_config_method(const char **out, const paceline_config *cfg);

/* Sets key to value, such as "32", "0.99", "true", "snapshot" or "128,128". Refuses an unknown key
 * (the text names the nearest key) and a value out of range. */
PACELINE_API int paceline_config_set(paceline_config *cfg, const char *key, const char *value);

/* Writes the value of key as text. */
PACELINE_API int paceline_config_get(char **out, const paceline_config *cfg, const char *key);

/* Applies a preset of paceline_config_presets on top of the current settings. Sets "env" and
 * "env_options", too. Examples: "tuned" has values that solve the built-in environment env;
 * "mnih2015" of "dqn" has the settings of the Nature paper. */
PACELINE_API int paceline_config_preset(paceline_config *cfg, const char *preset, const char *env);

/* Writes the presets of the method, a JSON array of objects: name, doc, envs, steps. doc is one
 * sentence. envs is an array of the environments that the preset exists for; null: any. steps is
 * the intended length of a run; 0: any. */
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

/* Describes setting i of the method, counted from 0; PACELINE_EINVAL after the last one. */
PACELINE_API int paceline_config_describe(paceline_option *out, const paceline_config *cfg, size_t i);

PACELINE_API void paceline_config_free(paceline_config *cfg);

/* ------------------------------------------------------ 4 specs and rows */

enum paceline_kind { PACELINE_BOX = 1, PACELINE_DISCRETE = 2, PACELINE_MULTI_DISCRETE = 3, PACELINE_HYBRID = 4 };
enum paceline_dtype { PACELINE_UINT8 = 1, PACELINE_FLOAT32 = 2, PACELINE_INT32 = 3 };

/*
 * An observation or an action.
 *
 * Observations.  A PACELINE_BOX. Trainers take uint8 [channels, height, width] (an image, or a stack
 *   of frames, oldest first) or float32 [n]. With an MLP they take either dtype in any shape.
 *   Vector environments (section 9) also have colour images, uint8 [frames, height, width, 3].
 * Actions.  One of four kinds, each a struct of 4-byte members in memory:
 *   PACELINE_DISCRETE        int32_t action: 0 to n-1.
 *   PACELINE_MULTI_DISCRETE  int32_t branch[num_branches]: branch[b] is 0 to branches[b]-1.
 *   PACELINE_BOX             float box[shape[0]]: finite, box[k] is low[k] to high[k]. float32, ndim 1.
 *   PACELINE_HYBRID          int32_t branch[num_branches]; float box[shape[0]]: both, in this order. dtype
 *                            and ndim are those of the box.
 *   Actions of several environments follow each other without gaps. An action is aligned to 4 bytes.
 *   "a2c", "ppo", "a3c", "appo" and "ga3c" learn with every kind, "dqn", "gorila" and
 *   "pqn" with PACELINE_DISCRETE only.
 * Masks of actions (arrays called mask) have a byte for each of the n actions, or of the actions of
 *   each branch, one branch after the other: 1 if the action is allowed, else 0. Each branch must
 *   allow one. A box has no mask.
 * Memory.  branches, low and high of a spec that you pass are read before the function returns. In a
 *   spec that your function writes (paceline_env_table.spec) they must be static, or live as long as
 *   user. In a spec that the library writes they are static: the library keeps one copy of each
 *   different array until the process ends.
 *
 * A spec that is not allowed is refused when a trainer or a vector environment is made.
 */
typedef struct paceline_spec {
  uint32_t struct_size;
  uint32_t kind;           /* enum paceline_kind */
  uint32_t dtype;          /* enum paceline_dtype */
  uint32_t ndim;           /* axes in use, 0 without a box */
  int64_t shape[4];        /* sizes of the axes */
  int64_t n;               /* PACELINE_DISCRETE: number of actions */
  int64_t frame_stack;     /* n: the first axis is n frames of equal size, oldest first; 0: not declared */
  const int32_t *branches; /* [num_branches] numbers of actions */
  int64_t num_branches;
  const float *low, *high; /* [shape[0]] bounds of the box of an action, which may be infinite; NULL: all are */
} paceline_spec;

/* Where arrays are: DLPack's DLDeviceType. */
enum paceline_device { PACELINE_CPU = 1 };

/*
 * Arrays of yours with one row for each of num_rows environments. Row i of obs and final_obs is
 * one observation; the other arrays have one entry per row. A vector environment (section 9)
 * writes rows and a trainer whose environments you step (section 7) reads them: pass the rows of
 * one to the other unchanged. An array that is NULL is neither written nor read; each section says
 * which arrays it needs.
 */
typedef struct paceline_rows {
  uint32_t struct_size;
  uint32_t num_rows;
  void *obs;       /* the current observations */
  void *final_obs; /* the last observation of an ended episode, where obs is the first of the next one */
  double *rewards;
  uint8_t *terminated;      /* 1: the episode ended in a terminal state, whose value is 0 */
  uint8_t *truncated;       /* 1: the episode was cut off (time limit) */
  uint8_t *started;         /* 1: obs is the first observation of an episode */
  int32_t *env_ids;         /* the number of each row's environment */
  void *const *infos;       /* an array for each column that paceline_vec_describe lists */
  void *const *final_infos; /* the same of the last step of an ended episode, as final_obs */
  /* [num_rows][mask], as in paceline_spec. Each row must allow one action of each branch, except
   * with the last observation of a terminated episode. NULL if the actions have no masks. */
  uint8_t *action_masks;
  uint8_t *final_action_masks; /* the same for final_obs */
  int32_t device_type;         /* where all arrays are: PACELINE_CPU, or 0 for the same; others are refused */
  int32_t device_id;           /* 0 */
} paceline_rows;

/* ---------------------------------------------- 5 your own environments */

/* How a step ended the episode; bits, 0 if it goes on. Terminated: the state is terminal, its
 * value is 0. Truncated: the episode was cut off (time limit). With both set the state counts as
 * terminal. */
enum paceline_end { PACELINE_TERMINATED = 1, PACELINE_TRUNCATED = 2 };

/* Properties of all environments of a table; bits. PACELINE_ENV_WAITS: reset and step mostly wait
 * (for a device, a clock, another program), asleep or blocked, and compute little, such as those
 * of a robot or of a simulator in another process. The library then steps each environment on a
 * thread of its own (up to 1024), which does not count as one of num_threads. All environments wait
 * at the same time, and updates and forward passes continue meanwhile. The flag changes the speed
 * and never the results. Do not set it if steps compute: more threads would share the same cores. */
enum paceline_env_flags { PACELINE_ENV_WAITS = 1 };

/*
 * A family of environments as a table of functions. The library makes num_envs environments and
 * steps them on its own threads and on the thread that calls paceline_trainer_run.
 *
 * Threads.  At most one call per environment is in progress at a time. Different environments run
 *   concurrently on different threads. Successive calls for one environment may come from
 *   different threads.
 * Observations.  obs is the environment's row of a batch: write exactly the bytes of the
 *   observation and keep no pointer to it.
 * Errors.  Return 0, or another number after paceline_set_callback_error("..."). The run in
 *   progress then returns PACELINE_ECALLBACK with that text and the environment's number. The next
 *   run resets the environment and goes on.
 * Calls.  A function may not call the trainer that steps its environment: the call gives
 *   PACELINE_EBUSY, paceline_trainer_free included. [thread-safe] functions are allowed. Inside a
 *   function of a loaded environment this holds for *_free, paceline_vec_drain and paceline_vec_recv of
 *   every trainer and vector with environments of that name, while a call on it is in progress or
 *   environments are under way.
 * Leaving.  Leave a function by returning: the effect of longjmp and pthread_exit is undefined, and
 *   a C++ function must not let an exception out (paceline.hpp catches exceptions). A crash in a
 *   function ends the process, with a report of Go's runtime on standard error. If another thread
 *   of the program accepts SIGQUIT, this signal ends the process at once. Otherwise SIGABRT ends
 *   it after 10 seconds.
 * Floating point.  Functions run in the default mode; changes of the mode are undone.
 * Signals.  System calls may return EINTR, since the library's threads get signals: call again.
 */
typedef struct paceline_env_table {
  uint32_t struct_size;
  uint32_t flags; /* bits of enum paceline_env_flags; others are refused */
  /* Fills in both specs (zeroed, struct_size is set). Called once, before the other functions. */
  int (*spec)(void *user, paceline_spec *obs, paceline_spec *action);
  /* Makes environment number index. Called for one index after the other, before
   * paceline_trainer_new_table returns. All randomness of the environment comes from seed. */
  int (*create)(void *user, uint32_t index, uint64_t seed, void **env);
  /* Starts an episode and writes its first observation. */
  int (*reset)(void *env, void *obs);
  /* Takes one action, in range, as paceline_spec describes. Writes the next observation, the reward and the bits of
   * enum paceline_end. The reward and float observations must be finite. */
  int (*step)(void *env, const void *action, void *obs, float *reward, uint8_t *end);
  /* Optional, both or neither. save writes the whole state, random numbers included, to buf (at
   * most 256 MiB). *len is the size of buf before the call and the size of the state after it. If
   * buf is NULL or too small, save writes only *len and returns 0. Without save and restore a
   * checkpoint starts new episodes when it is loaded. */
  int (*save)(void *env, void *buf, size_t *len);
  int (*restore)(void *env, const void *buf, size_t len);
  void (*destroy)(void *env);
  /* Optional: writes the mask of the state that the latest reset or step left (see paceline_spec);
   * one action of each branch must be allowed. Not called after a termination. Actions are chosen,
   * and their values compared, among the allowed ones ("pqn" refuses the table). */
  int (*mask)(void *env, uint8_t *mask);
  /* Optional: takes one step in each of n environments (at most num_envs) in one call, for
   * simulators that step many at once. actions: [n][one action]. obs[k], rewards[k] (0 going in) and
   * end[k] (0 going in) are of envs[k], as in step. A number other than 0 means that all n
   * failed. Training in lockstep and paceline_vec_step call step_many once a round. With the setting
   * "groups" they call it once for each of the two groups, concurrently. Resets and single steps use
   * reset and step. Refused with PACELINE_ENV_WAITS. */
  int (*step_many)(void *user, uint32_t n, void *const *envs, const void *actions, void *const *obs, float *rewards,
                   uint8_t *end);
} paceline_env_table;

/* Sets the text of the error that this thread's callback is about to return. Copied, at most 1023
 * bytes. [thread-safe] */
PACELINE_API void paceline_set_callback_error(const char *text);

/* An environment in a shared library of its own, which need not be linked with libpaceline. The
 * file exports one function, paceline_env_open. The function fills in *out, which comes zeroed with
 * struct_size set, and returns 0, or another number after host->set_callback_error("..."). host is
 * static. paceline_env_load fails inside the function. */
typedef struct paceline_host {
  uint32_t struct_size;
  int32_t abi_version;                          /* PACELINE_ABI_VERSION of the library that loads it */
  void (*set_callback_error)(const char *text); /* paceline_set_callback_error */
} paceline_host;

typedef struct paceline_env_plugin {
  uint32_t struct_size;
  uint32_t reserved;
  const char *name;         /* the environment's name, such as "Pendulum-v1" */
  void *user;               /* passed to spec and create; never released, as the file stays loaded */
  paceline_env_table table; /* struct_size is set */
} paceline_env_plugin;

typedef int paceline_env_open_function(paceline_env_plugin *out, const paceline_host *host);

/* Loads such a file and writes the environment's name to *out. From now on the name works wherever
 * a built-in environment's name works. An environment that gets a new seed is made anew. Loading a
 * file twice changes nothing; another file's environment of the same name is refused. */
PACELINE_API int paceline_env_load(char **out, const char *path);

/* Writes a JSON array of the names of all known environments. [thread-safe] */
PACELINE_API int paceline_env_names(char **out);

/* -------------------------------------------------------- 6 the trainer */

/* A method with its environments, its experience, its network and the threads that learn. */
typedef struct paceline_trainer paceline_trainer;

/* Makes a trainer on the built-in or loaded environment that the setting "env" names. */
PACELINE_API PACELINE_MUST_USE int paceline_trainer_new(paceline_trainer **out, const paceline_config *cfg);

/* Makes a trainer on your own environments. The table is copied. user is passed to spec and
 * create. If release is not NULL, release(user) is called exactly once, on any thread: after the
 * last environment is destroyed, or when this call fails. */
PACELINE_API PACELINE_MUST_USE int paceline_trainer_new_table(paceline_trainer **out, const paceline_config *cfg,
                                                              const paceline_env_table *table, void *user,
                                                              void (*release)(void *user));

/* Makes a trainer on environments that you step: see section 7. */
PACELINE_API PACELINE_MUST_USE int paceline_trainer_new_push(paceline_trainer **out, const paceline_config *cfg,
                                                             const paceline_spec *obs, const paceline_spec *action);

/* Makes a configuration of the settings in effect: "auto" and defaults that depend on other
 * settings are replaced by their values. Free it with paceline_config_free. */
PACELINE_API PACELINE_MUST_USE int paceline_trainer_config(paceline_config **out, const paceline_trainer *t);

/* Writes the specs of the environments. */
PACELINE_API int paceline_trainer_spec(paceline_spec *obs, paceline_spec *action, const paceline_trainer *t);

/* Writes a JSON object: method, env, recipe, recipe_hash, sets, infos. env is the environment's
 * name. recipe and recipe_hash are "" if there is no recipe (section 9). sets is an array of the
 * sets of parameters: name, size (in floats), writable (whether set_parameters takes it). infos are
 * the columns of infos as in paceline_vec_describe; none for environments that you step. */
PACELINE_API int paceline_trainer_describe(char **out, const paceline_trainer *t);

enum paceline_begin_flags {
  PACELINE_RESET_TIMESTEPS = 1, /* count steps and episodes from 0, with a new warm-up; discard an unfinished rollout */
  PACELINE_RESET_ENVS = 2       /* truncate the episodes in progress and start new ones */
};

/* Begins a run of total_timesteps further steps, warm-up (learning_starts) included. The first
 * call acts as with both flags.
 *
 * The run ends at step num_timesteps + total_timesteps, where num_timesteps is the number of steps
 * before it: 0 with PACELINE_RESET_TIMESTEPS. Schedules (learning_rate_final, *_schedule,
 * exploration_fraction) go from step 0 to that end: at step t the fraction of the run is t divided
 * by the end. Settings in steps, such as exploration_steps, are absolute.
 *
 * After paceline_trainer_stop updates may be due. With PACELINE_RESET_TIMESTEPS those of "dqn" and "gorila"
 * are dropped; a full rollout is still learned from, at the rates of the new run, except with rule mean.
 * Between act and observe a flag is needed, and discards the round.
 *
 * A program that learns in slices begins each slice with the slice's steps: rates rise again at
 * every slice, as in Stable-Baselines3. A program that continues an interrupted run, also from a
 * checkpoint, begins the remaining steps (total_timesteps less num_timesteps, of paceline_stats)
 * or nothing. The end and the bits are then those of a run that never stopped. Environments that you
 * step are not in a checkpoint: after a load begin the remaining steps with PACELINE_RESET_ENVS.
 * Steps after the end of the run are allowed; schedules keep their last values. If a rate is 0 in
 * every update of a run, paceline_trainer_notice says so once. */
PACELINE_API int paceline_trainer_begin(paceline_trainer *t, int64_t total_timesteps, uint32_t flags);

/* The counters that every method has. */
typedef struct paceline_stats {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t num_timesteps;   /* steps taken, warm-up included */
  int64_t total_timesteps; /* the step at which the run in progress ends */
  int64_t updates;         /* minibatch updates done */
  int64_t updates_due;     /* minibatch updates due at this step */
  int64_t episodes;        /* finished episodes, counted from 0 when steps are */
  double mean_return;      /* undiscounted, of the latest stats_window_size episodes; NaN before any */
  double mean_length;      /* in steps, of the same episodes */
  double seconds_env;      /* stepping environments, sum over threads */
  double seconds_act;      /* computing actions, sum over threads */
  double seconds_train;    /* in updates */
  double seconds_wait;     /* waiting for updates, or for a core */
} paceline_stats;

/* Runs until max_steps further steps are taken (0: until the end of the run), max_ms has passed or
 * paceline_trainer_stop is called, whichever is first. Returns at the end of a round and waits for
 * updates on other threads at the end of the run only. Begins a run of max_steps, as
 * paceline_trainer_begin without flags, if none was begun, or if the run that this function began
 * or that a checkpoint held is over. out: the counters afterwards, or NULL. A failure of an
 * environment, a panic or a loss that is not finite is returned here, with its step. Refused for
 * environments that you step.
 * An update for which n_step_tails leaves no transition to draw is an error, too. Parameters can
 * still be read and saved then. Updates go on after paceline_trainer_add_transitions, a load, or a
 * begin with PACELINE_RESET_TIMESTEPS. */
PACELINE_API int paceline_trainer_run(paceline_stats *out, paceline_trainer *t, int64_t max_steps, int64_t max_ms);

/* paceline_trainer_run, which also returns at the round that makes the last of max_rollouts rollouts
 * full (0: no limit), before the update of that rollout, also at the end of the run. A rollout in
 * progress counts as one. Only the rollouts of methods a2c, ppo and pqn are counted. The learners of a3c
 * and appo have rollouts of their own: with max_rollouts above 0 a call at or after the end of the run
 * finishes those in progress and begins no others, and no further run; max_steps must be above 0 there.
 * With rule mean all learners take a rollout that one of them has begun. Metric "async/unfinished" is
 * the number of learners that have not finished. With other methods max_rollouts has no effect. */
PACELINE_API int paceline_trainer_run_rollouts(paceline_stats *out, paceline_trainer *t, int64_t max_rollouts,
                                               int64_t max_steps, int64_t max_ms);

/* Writes the results of the latest round, for programs that look at every round
 * (paceline_trainer_run with max_steps 1). rows.obs is needed. Other arrays are written if they are
 * not NULL. infos are the columns that paceline_trainer_describe lists. final_obs, final_infos and
 * final_action_masks are written in rows whose episode ended. actions: [num_envs] as in
 * paceline_spec. Refused for environments that you step. */
PACELINE_API int paceline_trainer_rows(const paceline_rows *rows, void *actions, paceline_trainer *t);

/* Writes the returns and lengths of the latest episodes that ended, oldest first. *n: the entries
 * that each array has space for; afterwards the entries written, at most the setting
 * stats_window_size. [thread-safe] */
PACELINE_API int paceline_trainer_episodes(double *returns, int64_t *lengths, size_t *n, const paceline_trainer *t);

/* Makes the run in progress return soon, or, if there is none, the next one at once. The update in
 * progress is finished; other due updates wait for the next step. A later run goes on where this
 * one ended. An act or observe that waits returns PACELINE_ESTOPPED and changes nothing.
 * [thread-safe] */
PACELINE_API int paceline_trainer_stop(const paceline_trainer *t);

/* Writes the counters. [thread-safe] */
PACELINE_API int paceline_trainer_stats(paceline_stats *out, const paceline_trainer *t);

/* A number that a method reports in addition to the counters, such as "train/loss",
 * "train/learning_rate", and of "dqn" "rollout/exploration_rate", "replay_size". All strings:
 * static text. */
typedef struct paceline_metric {
  uint32_t struct_size;
  uint32_t reserved;
  const char *name; /* "train/loss" */
  const char *unit; /* "steps", "bytes", "transitions" ...; "": a plain number */
  const char *doc;  /* one sentence */
  double value;     /* NaN: none yet */
} paceline_metric;

/* Writes metric i, counted from 0, as of the end of the latest call on the trainer;
 * PACELINE_EINVAL after the last one. A trainer's metrics and their order never change.
 * [thread-safe] */
PACELINE_API int paceline_trainer_metric(paceline_metric *out, const paceline_trainer *t, size_t i);

/* Writes the number of the metric called name, for paceline_trainer_metric; PACELINE_EINVAL if
 * the method reports none of that name. [thread-safe] */
PACELINE_API int paceline_trainer_metric_index(size_t *out, const paceline_trainer *t, const char *name);

/* Writes the oldest unread notice, such as "target_update_interval 128 is below the window ...";
 * NULL if there is none. */
PACELINE_API int paceline_trainer_notice(char **out, paceline_trainer *t);

/* Writes in one line which of num_threads, groups, window, num_envs and the switches of "dqn" would
 * make this run faster, such as "cores are busy 96 % of the time, and 8 cores are available:
 * num_threads=4 instead of 2", or why there is nothing to propose. It says what was measured from
 * the run's first update to the end of the latest call that ended; before a second has been
 * measured, "not measured yet: ...". Nothing changes by itself. Settings that change the results
 * are named as such. [thread-safe] */
PACELINE_API int paceline_trainer_proposal(char **out, const paceline_trainer *t);

/* Finishes the updates that are due at this step. Weights and experience are then a function of
 * the seed and the step. The functions below that read them settle by themselves. Gives
 * PACELINE_ETIMEDOUT if max_ms passes first. After a call that max_ms or a stop has ended, some
 * learners of a run with several may be ahead of others: this call then also takes steps, and the
 * weights depend on where that call ended. The result of the run does not. Where "updates" is
 * "outside", nothing is waited for: the next paceline_trainer_gradient has the update that is due.
 * Nor is anything after paceline_trainer_stop: the updates that are due come before the next step, and
 * what is read until then depends on when the stop came. */
PACELINE_API int paceline_trainer_settle(paceline_trainer *t, int64_t max_ms);

/* A set of parameters is one flat array of floats: "dqn" has the sets "q_net" and "q_net_target".
 * paceline_trainer_describe lists a trainer's sets. This struct is one array of a set, such as the
 * weights of a layer. name is the one in Stable-Baselines3's module with the set's name:
 * "q_net.0.weight". Convolutions are [out, in, height, width], dense layers [out, in]. */
typedef struct paceline_parameter {
  uint32_t struct_size;
  uint32_t ndim;
  int64_t shape[4];
  size_t offset;    /* of the array's first float in the set, in floats */
  size_t size;      /* in floats */
  const char *name; /* static text */
} paceline_parameter;

/* Describes array i of a set, counted from 0; PACELINE_EINVAL after the last one. */
PACELINE_API int paceline_trainer_parameter(paceline_parameter *out, const paceline_trainer *t, const char *set,
                                            size_t i);

/* Copies a whole set to out. n: the size of the set (the last array's offset + size). *updates, if
 * updates is not NULL: the number of updates that the set has seen. */
PACELINE_API int paceline_trainer_get_parameters(float *out, size_t n, int64_t *updates, paceline_trainer *t,
                                                 const char *set);

/* Overwrites a set with n floats (n: the size of the set), all of them finite. */
PACELINE_API int paceline_trainer_set_parameters(paceline_trainer *t, const char *set, const float *in, size_t n);

/* Writes the SHA-256 digest, in hexadecimal, of a set of parameters or of "replay": the experience
 * that can be sampled, of methods with a replay memory. The same seed and settings give the same
 * digests for any num_threads, with one precision on one PACELINE_ISA or on one model of GPU. With
 * the setting isa "portable" the digests are the same on every processor. */
PACELINE_API int paceline_trainer_hash(char **out, paceline_trainer *t, const char *part);

enum paceline_save_flags {
  PACELINE_SAVE_EXPERIENCE = 1 /* everything: stored and unflushed experience, environment states */
};

/* Writes a checkpoint (a zip archive of JSON and safetensors): weights, optimiser, counters, random
 * streams, schedules. With PACELINE_SAVE_EXPERIENCE a trainer that loads it continues with the same
 * bits as one that never stopped; environments that you step begin new episodes. A temporary file in
 * the same folder is renamed to path: a failure leaves an older file as it was. */
PACELINE_API int paceline_trainer_save(paceline_trainer *t, const char *path, uint32_t flags);

/* Replaces the trainer's state by a checkpoint's. The method and the settings that shape the state
 * (environment, network, num_envs ...) must agree: make the trainer with paceline_config_load. A
 * checkpoint without experience leaves the trainer without any and starts new episodes; num_envs
 * may then differ. */
PACELINE_API int paceline_trainer_load(paceline_trainer *t, const char *path);

/* Writes the order in which learners ("a3c", "appo", "dqn", "gorila") have visited the store of parameters, or in
 * which agents, predictors and trainers ("ga3c") have done their work, of a run with schedule "race" or
 * "recorded", after the updates that are due. A trainer with the same
 * settings, schedule "recorded" and order = path repeats the run bit for bit, if it is given the
 * same calls. A failure leaves an older file as it was. */
PACELINE_API int paceline_trainer_save_order(paceline_trainer *t, const char *path);

/* Writes the latest 100,000 proposals of the tuner of "ga3c" as comma-separated values: a line with
 * the columns' names (period, time, predictors, trainers, agents, old, new, statistic, kept), then one
 * for each proposal. old and new are updates a second; of tuner "authors", updates. A checkpoint with
 * PACELINE_SAVE_EXPERIENCE has the proposals, too. A failure leaves an older file as it was. */
PACELINE_API int paceline_trainer_save_trace(paceline_trainer *t, const char *path);

/* Replaces the stored experience alone (of "dqn": the replay memory and its priorities) by that of a
 * checkpoint with PACELINE_SAVE_EXPERIENCE. Weights, counters and random streams stay. The episodes
 * in progress are cut: the next call on the run must be a begin with PACELINE_RESET_ENVS.
 * If the file has no priorities, or those of another prioritized, priority_alpha, distribution,
 * n_steps or n_step_tails, its transitions get the priority of new ones, and a notice names the
 * setting. */
PACELINE_API int paceline_trainer_load_experience(paceline_trainer *t, const char *path);

/* Transitions of the replay memory, in arrays of yours. Entry i of every array is transition i. */
typedef struct paceline_transitions {
  uint32_t struct_size;
  uint32_t num_rows;
  void *obs;           /* [num_rows, observation], of the spec's dtype */
  void *next_obs;      /* likewise; of a terminated transition zeros are read, and an add ignores it */
  int32_t *actions;    /* [num_rows] */
  float *rewards;      /* [num_rows] */
  uint8_t *terminated; /* [num_rows], 1: next_obs is terminal, its value is 0; a time limit does not terminate */
  uint8_t *next_masks; /* [num_rows, n], action masks of next_obs; NULL if actions have none. If they have masks, NULL
                        * leaves the masks out of a read and allows every action of added rows */
} paceline_transitions;

/* Settles, then copies to->num_rows transitions of the replay memory (method "dqn") to the arrays
 * of to. numbers: 0 to the metric "replay_size" less 1. Transitions are numbered by environment, and
 * within an environment by age, oldest first. Changes nothing and draws no random number: draw the
 * numbers of a minibatch yourself. */
PACELINE_API int paceline_trainer_read_transitions(const paceline_transitions *to, paceline_trainer *t,
                                                   const int64_t *numbers);

/* Settles, then adds transitions to the replay memory (method "dqn"): demonstrations, or those of
 * another agent. Row i becomes the newest transition of environment i mod num_envs and is part of
 * no episode. If observations are stacks of frames, next_obs is obs shifted by one frame. The added
 * rows, and all steps before them, can be sampled at once; episodes in progress go on.
 * With n_steps above 1 an added row is a tail of one step (see n_step_tails), and the latest
 * n_steps - 1 steps of an episode in progress are tails, as before a truncation. Rows are refused if
 * n_step_tails drops all of them.
 * If a row is refused (an action out of range, NaN), none is added. If memory is missing, the error
 * names a row, and the rows before it are added. */
PACELINE_API int paceline_trainer_add_transitions(paceline_trainer *t, const paceline_transitions *rows);

/* Stops the trainer, waits for its threads (at most one environment step and one update) and frees
 * it. A run in progress on another thread returns. Inside a function of the trainer's own
 * environments: PACELINE_EBUSY, and nothing is freed. */
PACELINE_API int paceline_trainer_free(paceline_trainer *t);

/* ---------------------------------------- 7 environments that you step */

/*
 * For environments in your program (in Python, in a simulator with its own loop, in a
 * paceline_vec). Write their first observations to rows.obs. Then:
 *
 *     paceline_trainer_begin(t, total, 0);
 *     for (;;) {
 *         paceline_trainer_act(t, &rows, actions, 0);   // reads obs, writes actions
 *         ... step your environments: paceline_vec_step(v, actions, &rows) ...
 *         paceline_trainer_observe(t, &rows, 0);        // reads the results of the step
 *     }
 *
 * The library learns on threads of its own meanwhile. The arrays may be overwritten or replaced
 * between calls, but act must get the observations that the previous observe got. After a begin that
 * resets the environments (PACELINE_RESET_ENVS, required after a load) act gets the first observations
 * of the new episodes. The run ends at total_timesteps of paceline_stats: begin another one there
 * (flags 0) to continue learning.
 *
 * num_rows is num_envs, and row i is always environment i. act needs obs. observe needs obs,
 * rewards, terminated, truncated and, if "autoreset" is same_step, final_obs. With the setting
 * "action_masks" true both need action_masks, and observe needs final_action_masks with final_obs;
 * otherwise both masks must be NULL. The setting "autoreset" says what obs is after the end of an
 * episode:
 *   same_step  the first observation of the next episode; final_obs is the last one of the ended
 *              episode (needed where it was truncated).
 *   next_step  the last observation of the ended episode. The next act gives the row an action
 *              to be ignored. The next observe reads the row's obs as the first one of the next
 *              episode and does not read its reward and ends. Such a row is not a step.
 *
 * Both calls may wait, for an update that must come first or for a core. If max_ms passes they
 * return PACELINE_ETIMEDOUT, after paceline_trainer_stop PACELINE_ESTOPPED. Nothing has changed
 * then: make the same call again.
 */

/* Chooses an action for every row: the first half of a round. actions: [num_rows] as in
 * paceline_spec. Numbers of a box are within its bounds; if the network's outputs are not finite, so
 * that they cannot be, the call gives PACELINE_ENAN. */
PACELINE_API int paceline_trainer_act(paceline_trainer *t, const paceline_rows *rows, void *actions, int64_t max_ms);

/* Records the results of these actions: the second half of a round. If a row is refused (not
 * finite, or a mask that allows no action), no row is recorded, paceline_last_error_index() is the
 * row's number, and the call can be made again. */
PACELINE_API int paceline_trainer_observe(paceline_trainer *t, const paceline_rows *rows, int64_t max_ms);

/* --------------------------------------------------------- 8 the policy */

/* A frozen network that acts; it needs no environment and no trainer. */
typedef struct paceline_policy paceline_policy;

/* Loads a policy, or the network of a trainer's checkpoint. */
PACELINE_API PACELINE_MUST_USE int paceline_policy_load(paceline_policy **out, const char *path);
/* Settles, then copies the trainer's network. */
PACELINE_API PACELINE_MUST_USE int paceline_policy_from_trainer(paceline_policy **out, paceline_trainer *t);
/* Makes a policy of the bytes that paceline_policy_to_bytes wrote. */
PACELINE_API PACELINE_MUST_USE int paceline_policy_from_bytes(paceline_policy **out, const void *bytes, size_t size);

/* Writes the specs of the observations and of the actions of the policy. */
PACELINE_API int paceline_policy_spec(paceline_spec *obs, paceline_spec *action, const paceline_policy *p);

/* Writes a JSON object: env, outputs, state_bytes, host_data. env is the environment's name, or "".
 * outputs is an array of {name, len}: the network computes len floats for an observation under each
 * name, such as "q" (action values), "logits" (of all branches, one after the other), "mean" (of a
 * box, before squashing and clipping), "value". state_bytes is 0. host_data is the setting of that
 * name. */
PACELINE_API int paceline_policy_describe(char **out, const paceline_policy *p);

/* How a policy acts. If all is zero except struct_size: greedily. The greedy action is that of the
 * largest output; of a distribution, its mode: the most probable action of each branch, the means
 * of the box. */
typedef struct paceline_act_options {
  uint32_t struct_size;
  uint32_t sample; /* 1: sample from the network's distribution, if it has one; 0: act greedily */
  double epsilon;  /* probability of a random action instead, for each row */
  /* The random numbers of row i are a function of seed, counter and i alone. Count calls (or steps)
   * with counter: the calls can then be repeated. */
  uint64_t seed, counter;
  const uint8_t *action_masks;   /* [n][mask], as in paceline_spec; NULL: all actions are allowed */
  void *state;                   /* for networks with a state, which this version lacks: must be NULL */
  const uint8_t *episode_starts; /* likewise: must be NULL */
} paceline_act_options;

/* Chooses actions for n observations, 0 to 1048576. obs: n observations, one after the other. o:
 * NULL for greedy actions. actions: [n] as in paceline_spec, written. Numbers of a box are within its
 * bounds. outputs: NULL, or an array with one entry for each output that paceline_policy_describe
 * lists: NULL, or float [n][len], written. An observation that is not finite gives PACELINE_ENAN,
 * with its row. So does a box whose numbers are not finite because the network's outputs are not:
 * the rows before it are then written. [thread-safe] */
PACELINE_API int paceline_policy_act(const paceline_policy *p, size_t n, const void *obs, const paceline_act_options *o,
                                     void *actions, float *const *outputs);

/* How paceline_policy_evaluate plays. */
typedef struct paceline_eval_options {
  uint32_t struct_size;
  uint32_t sample;  /* as in paceline_act_options */
  int64_t episodes; /* 1 to 1000000 */
  double epsilon;   /* probability of a random action */
  uint64_t seed;    /* of the environments and of the policy's random numbers */
  double *returns;  /* [episodes], written; or NULL */
  int64_t *lengths; /* [episodes], in steps, written; or NULL */
  /* Atari games only. num_starts, 0 to 1048576, states of paceline_console_save in which episodes
   * start: episode i starts in state i % num_starts, with the points after it alone. 0: episodes
   * start with a reset. */
  const void *const *starts; /* [num_starts], the states; may be NULL if num_starts is 0 */
  const size_t *start_sizes; /* [num_starts], bytes of each state; may be NULL if num_starts is 0 */
  size_t num_starts;
  /* Atari games only: the frame of a game at which it is truncated, the frames before a start state
   * included, at most 1073741824; 0: as env_options say. */
  int64_t max_frames;
} paceline_eval_options;

typedef struct paceline_evaluation {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t episodes;
  double mean_return;
  double std_return; /* sample standard deviation (n - 1) */
  double min_return;
  double max_return;
  double mean_length; /* in steps */
} paceline_evaluation;

/* Plays whole episodes of the environment env, in environments of its own. env_options: a JSON
 * object of the environment's own options, or NULL. Atari games are played as whole games for unclipped
 * rewards, whatever env_options says. o: NULL for ten greedy episodes with seed 0. The same
 * arguments give the same result. Up to 32 episodes are played at a time; environments with
 * PACELINE_ENV_WAITS wait at the same time. The index of a loaded environment is the number of its
 * episode, from 0 on. If it fails, or gives an observation or a reward that is not finite,
 * paceline_last_error_index() is that number. [thread-safe] */
PACELINE_API int paceline_policy_evaluate(paceline_evaluation *out, const paceline_policy *p, const char *env,
                                          const char *env_options, const paceline_eval_options *o);

/* Makes this policy's evaluations in progress return PACELINE_ESTOPPED before their next step, with
 * nothing written. Later evaluations run as usual. [thread-safe] */
PACELINE_API int paceline_policy_stop(const paceline_policy *p);

/* Writes a checkpoint of the weights alone, as paceline_trainer_save writes its file. */
PACELINE_API int paceline_policy_save(const paceline_policy *p, const char *path);

/* Writes the same checkpoint to a buffer (see "Buffers"). */
PACELINE_API int paceline_policy_to_bytes(void *out, size_t *size, const paceline_policy *p);
PACELINE_API void paceline_policy_free(paceline_policy *p);

/* --------------------------------------------- 9 the vector environment */

/* Many environments of one kind, stepped together, which behave as Gymnasium's vector environments.
 * Until they are seeded, they use the random streams of a trainer with seed 0. */
typedef struct paceline_vec paceline_vec;

enum paceline_autoreset {
  PACELINE_NEXT_STEP = 0, /* the step after an end resets: its action is ignored, its reward is 0 */
  PACELINE_SAME_STEP = 1, /* the step that ends an episode also resets; final_obs is its last observation */
  PACELINE_DISABLED = 2   /* the caller resets; stepping an ended environment is an error */
};

typedef struct paceline_vec_options {
  uint32_t struct_size;
  uint32_t num_envs;       /* 1 to 65536 */
  uint32_t batch_size;     /* rows that paceline_vec_recv waits for, 1 to num_envs; 0: num_envs */
  uint32_t num_threads;    /* that step, at most 1024; 0: one per core. Results do not depend on it */
  uint32_t autoreset;      /* enum paceline_autoreset */
  int32_t pin;             /* binds these threads (not yours) to cores, beginning with this one; -1: does not. The cores
                              of the process are counted; after the last one comes the first */
  const char *env_options; /* a JSON object for the environments, or NULL: see paceline_vec_new */
} paceline_vec_options;

/* Makes environments of the name env (see paceline_env_names). Two names in env_options are for all
 * environments. "decorrelation_steps": n begins each environment's first episode after a seed with
 * 0 to n random steps. "waits": true or false overrides whether steps wait (see PACELINE_ENV_WAITS);
 * num_threads does not limit the threads of such environments. The others are the environment's own.
 * The Mini games (Mini-Breakout-v0 and four more) have "sticky_action_prob", "ramping" and
 * "max_episode_steps".
 * Atari games have "recipe": "ale", "mnih2015", "machado2018", "dopamine", "sb3" or
 * "stooke_abbeel". Further names change single values of the recipe:
 * - images: obs_type ("grayscale", "rgb", "ram"), img_height, img_width, stack_num, maxpool;
 * - steps: frameskip, repeat_action_probability, full_action_space, continuous,
 *   continuous_action_threshold, reward_clipping, ram_info;
 * - episodes: noop_min, noop_max, use_fire_reset, episodic_life, life_loss_info,
 *   max_num_frames_per_episode, mode, difficulty, reset ("ale", "cached"), ending ("last", "stale").
 * The documentation of paceline.make_vec explains each one. */
PACELINE_API PACELINE_MUST_USE int paceline_vec_new(paceline_vec **out, const char *env,
                                                    const paceline_vec_options *options);

/* Writes the specs of the observations and of the actions of one environment. */
PACELINE_API int paceline_vec_spec(paceline_spec *obs, paceline_spec *action, const paceline_vec *v);

/* Writes a JSON object.
 * env is the environment's name. recipe and recipe_hash are "" if there is no recipe.
 * infos is an array of {name, dtype, len}: the columns of paceline_rows.infos; len 0 is one number.
 * obs_low, obs_high, action_low and action_high are bounds: one entry for all components, or one
 * for each; null: unbounded.
 * action_branches are the numbers of values of the branches; empty without branches.
 * action_masks says whether there are masks. action_names are names such as "FIRE"; empty if
 * actions have no names.
 * max_steps (0: none), threshold and render_fps (0: not known) are numbers. */
PACELINE_API int paceline_vec_describe(char **out, const paceline_vec *v);

/* The functions below write rows (section 4). obs is needed and, in PACELINE_SAME_STEP, final_obs;
 * other arrays that are NULL are left out. Both masks must be NULL if the environment has none.
 * final_obs, final_infos and final_action_masks are written in PACELINE_SAME_STEP only, in rows
 * whose episode ended. */

/* Starts episodes in the environments whose mask byte is not 0 (at least one; mask NULL: in all)
 * and writes their rows; the other environments and rows stay as they are. seeds: NULL continues
 * each environment's random stream; or num_envs seeds, of which those of the masked environments
 * are used. With episodic_life the function begins new games, with one exception: in
 * PACELINE_DISABLED a reset by mask and without seeds continues the game after a lost life. In the
 * other modes the automatic reset continues the game. Failures are those of paceline_vec_step. */
PACELINE_API int paceline_vec_reset(paceline_vec *v, const uint64_t *seeds, const uint8_t *mask,
                                    const paceline_rows *rows);

/* Takes an action in every environment. actions: [num_envs] as in paceline_spec. If an action is out
 * of range, no environment steps; actions that PACELINE_NEXT_STEP ignores are not checked. If
 * environments fail, the others step and their rows are written; paceline_last_error_index() is the
 * first one that failed. In the row of a failed environment obs is undefined, and no other array is
 * written, env_ids included. In PACELINE_SAME_STEP the other arrays are written if an episode ended
 * and only the next one could not start. */
PACELINE_API int paceline_vec_step(paceline_vec *v, const void *actions, const paceline_rows *rows);

/*
 * Asynchronous stepping: the rows of some environments come back while others are still stepping.
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
 * An environment is under way from its send to the recv of its row. Two threads may call send and
 * recv at the same time. While any environment is under way, all calls are refused except offer,
 * send, recv, paceline_vec_under_way, paceline_vec_drain and paceline_vec_free.
 */

/* Queues rows of batch_size environments to be filled, in the order of the offers. The struct is
 * copied; its arrays must stay until paceline_vec_recv reports them full. There must be a row for
 * everything that is sent. If batch_size is num_envs, row i is environment i. */
PACELINE_API int paceline_vec_offer(paceline_vec *v, const paceline_rows *rows);

/* Sends an action, or with paceline_vec_send_reset a reset (as by a mask), to each of n
 * environments. seeds: NULL, or n seeds. paceline_vec_send_new_game sends a reset that begins a new
 * game, also after a lost life (as with mask NULL). If anything is refused, nothing is sent. */
PACELINE_API int paceline_vec_send(paceline_vec *v, const int32_t *env_ids, size_t n, const void *actions);
PACELINE_API int paceline_vec_send_reset(paceline_vec *v, const int32_t *env_ids, size_t n, const uint64_t *seeds);
PACELINE_API int paceline_vec_send_new_game(paceline_vec *v, const int32_t *env_ids, size_t n);

/* Waits until the rows that were offered first are full. The failure of an environment is returned
 * at once, with the environment's number; the environment gets no row, unless as in
 * paceline_vec_step only the next episode could not start. The next call returns the others' rows.
 * Gives PACELINE_ETIMEDOUT if max_ms passes first. Refused if fewer than batch_size environments
 * are under way. */
PACELINE_API int paceline_vec_recv(paceline_vec *v, int64_t max_ms);

/* Writes the number of environments under way. */
PACELINE_API int paceline_vec_under_way(size_t *out, const paceline_vec *v);

/* Waits for all environments under way and discards their rows. Offered rows stay offered. */
PACELINE_API int paceline_vec_drain(paceline_vec *v);

/* Writes (see "Buffers") or restores the state of environment i: all that its future depends on,
 * its row excluded. Bytes that are not a state of such an environment are refused; the environment
 * must then be reset. */
PACELINE_API int paceline_vec_save(void *out, size_t *size, paceline_vec *v, uint32_t i);
PACELINE_API int paceline_vec_restore(paceline_vec *v, uint32_t i, const void *state, size_t size);

/* Writes an image of environment i (see "Buffers"): [height][width][3] bytes, red, green and blue.
 * Writes *height and *width also if out is NULL. */
PACELINE_API int paceline_vec_render(uint8_t *out, size_t *size, uint32_t *height, uint32_t *width, paceline_vec *v,
                                     uint32_t i);

/* Waits for the environments that are under way and frees everything. A recv in progress returns.
 * Inside a function of the vector's own environments: PACELINE_EBUSY, and nothing is freed. */
PACELINE_API int paceline_vec_free(paceline_vec *v);

/* --------------------------------------------------------- 10 benchmarks */

/* Runs the benchmark name and writes its report, a JSON object. options: a JSON object, or NULL for
 * the defaults. The benchmarks and their options:
 * "modes": {"env", "num_envs": [..], "num_threads", "steps", "trials"}: steps/s of the four modes.
 * With "step_ms": [..] the environments' steps cost that many milliseconds more, once waiting and
 * once computing, and the report has the limits that follow from measured parts.
 * "update": {"device", "batch", "act": [rows..], "precisions": [..], "threads": [..], "trials",
 * "row"}: times on "cpu" or "cuda", and the CPU's peak. The times, in milliseconds, are of one
 * minibatch update, of an update in an uninterrupted series of "row" updates, and of acting.
 * "forward": {"rows": [..], "trials"}: microseconds of small forward passes on one thread.
 * "alternate": {"env", "num_envs", "rounds", "trials", "wait_ms", "precision"}: steps/s of two
 * groups of environments that alternate between acting and stepping on two cores, of their parts,
 * and of one group.
 * "async": {"env", "learners": [..], "envs": [..], "num_threads", "seconds", "turns", "settings"}:
 * steps/s of A3C by schedule.
 * "ga3c": {"machines": [..], "seconds", "seed", "env", "num_threads", "steps", "trials",
 * "settings"}: rates, queues and lags of GA3C on the machines of its paper, simulated, and of races
 * on this machine.
 * "tuner": {"machines": [..], "forms": [..], "seeds", "periods", "period_s", "seconds", "grid",
 * "start", "within", "tuner_test", "tuner_pairs", "here"}: what the tuner of "ga3c" finds on these
 * machines, compared with the best of a grid.
 * "latency": {"method", "env", "num_envs", "steps", "settings", "machine"}: durations of this
 * machine, which the setting latency_file reads. With "machine" the settings of a machine of GA3C's
 * paper.
 * "gorila": {"bundles", "shards", "steps", "delay", "keep", "cores", "gbits", "latency_ms",
 * "updates", "seed", "scale": [..], "env", "costs"}: updates/s, lags and limits of Gorila on many
 * machines, predicted from the costs of this one. */
PACELINE_API int paceline_bench(char **out, const char *name, const char *options);

/* --------------------------------------------------- 11 the Atari console */

/* An Atari 2600 with one cartridge: the frames, rewards, lives and numbers of ale-py 0.12.1 (the
 * Arcade Learning Environment), frame by frame. Training uses the environments "atari/pong" and so
 * on (sections 6 and 9); a console is for a closer look. */
typedef struct paceline_console paceline_console;

/* Inserts a cartridge, turns the console on and starts an episode.
 * rom: a file, whose MD5 names its game. NULL searches the file of game in the folder of
 * PACELINE_ROMS_DIR, then in the folder of ALE_ROMS_DIR, then in those of paceline_rom_folder.
 * game: NULL, or an id such as "space_invaders". The file must then have this game's bytes.
 * other_md5: 0 refuses other bytes. 1 takes them with the rules of game or, as ale-py, of the game
 * that the file is named after.
 * seed: the seed of sticky actions and stored starts.
 * repeat_action_probability: the probability that an action is ignored for a frame, 0 to 1.
 * frame_skip: frames of an action, 1 to 1048576.
 * The last three act already in the first reset, which plays through the menus of some games. */
PACELINE_API PACELINE_MUST_USE int paceline_console_new(paceline_console **out, const char *rom, const char *game,
                                                        int other_md5, uint32_t seed, double repeat_action_probability,
                                                        uint32_t frame_skip);

/* Adds a folder to search for ROM files, such as that of an installed ale-py. */
PACELINE_API int paceline_rom_folder(const char *path);

/* Writes the id of the game whose MD5 the file has; "" if no playable game has it. */
PACELINE_API int paceline_rom_identify(char **out, const char *path);

/* Changes a setting, given as text, from the next call on:
 * "frame_skip": frames of an action, 1 to 1048576.
 * "repeat_action_probability": 0 to 1.
 * "max_num_frames_per_episode": 0: no limit.
 * "reward_min", "reward_max": clamp an action's reward if the first is less than the second.
 * "reset": "ale", exactly as ALE; "cached", at one of 30 stored states.
 * "color_averaging": "true" blends each frame with the one before; "false".
 * "difficulty": one of the game's.
 * "mode": one of the game's, from the next reset on. */
PACELINE_API int paceline_console_set(paceline_console *c, const char *name, const char *value);

/* Starts an episode as the setting "reset" says. With "ale" RAM keeps its contents. */
PACELINE_API int paceline_console_reset(paceline_console *c);

/* Plays action for frame_skip frames and writes the reward. Actions 0 to 17: NOOP, FIRE, UP, RIGHT,
 * LEFT, DOWN, UPRIGHT, UPLEFT, DOWNRIGHT, DOWNLEFT, then UP to DOWNLEFT with FIRE; others count as
 * NOOP. strength scales the turn of a paddle: 0 to 1 for a player. Values of -90000 to 90000 are
 * allowed; the sign is ignored. After the game is over nothing moves and *reward is 0. */
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

/* Writes a pointer to the console's state. Every call on the console updates the state: read it
 * between calls. A view, valid until the console is freed. */
PACELINE_API int paceline_console_view(const paceline_console_state **out, const paceline_console *c);

enum paceline_console_list {
  PACELINE_MINIMAL_ACTIONS = 0,
  PACELINE_LEGAL_ACTIONS = 1,
  PACELINE_MODES = 2,
  PACELINE_DIFFICULTIES = 3
};

/* Writes up to capacity of the game's numbers of a kind, in ascending order, and to *count how many
 * there are. out may be NULL if capacity is 0. */
PACELINE_API int paceline_console_list(int32_t *out, size_t capacity, size_t *count, const paceline_console *c,
                                       uint32_t which);

/* Copies the machine's 128 bytes of RAM, or sets byte index (0 to 127). */
PACELINE_API int paceline_console_ram(uint8_t *out, paceline_console *c);
PACELINE_API int paceline_console_poke(paceline_console *c, uint32_t index, uint8_t value);

enum paceline_screen {
  PACELINE_SCREEN_COLOUR = 0,  /* height x width: the TIA's colours */
  PACELINE_SCREEN_GREY = 1,    /* height x width: grey levels */
  PACELINE_SCREEN_RGB = 2,     /* height x width x 3 */
  PACELINE_SCREEN_OBSERVED = 3 /* 84 x 84: what environments observe, the brighter of the last two frames, in grey */
};

/* Writes the last frame. size: exactly the bytes of the kind. */
PACELINE_API int paceline_console_screen(uint8_t *out, size_t size, paceline_console *c, uint32_t kind);

/* Writes (see "Buffers") or restores the console's state: all that its future depends on, frames
 * included. with_rng 0 leaves the random generators out; a restore then keeps the console's own.
 * Bytes that are not a state of the same game from the same library are refused. */
PACELINE_API int paceline_console_save(void *out, size_t *size, paceline_console *c, int with_rng);
PACELINE_API int paceline_console_restore(paceline_console *c, const void *state, size_t size);
PACELINE_API void paceline_console_free(paceline_console *c);

/* ---------------------------------------------- 12 updates from outside */

/*
 * Learners in several processes train one set of parameters, and your program carries what they say to
 * each other. With the setting "updates" outside ("dqn", "a2c" and "ppo"; on the CPU) a trainer computes
 * gradients and takes no step itself. The loop of a learner, with one store for all parameters:
 *
 *     paceline_trainer_begin(t, total, 0);
 *     for (;;) {
 *         paceline_trainer_gradient(grad, n, &g, t, 0);           // takes steps until an update is due
 *         if (g.state == PACELINE_GRADIENT_NONE) break;           // the run has ended
 *         if (g.state == PACELINE_GRADIENT_READY)
 *             paceline_store_push(&answer, store, grad, n, &push); // seen, and g.learning_rate
 *         paceline_store_pull(theta, n, &version, store);
 *         paceline_trainer_adopt(t, theta, n, version, -1);
 *     }
 *
 * Such a loop is bit-identical to the same trainer with "updates" own. The loop of "a2c" and "ppo" ends
 * with the first rollout that ends at or after the end of the run (paceline_trainer_run_rollouts). The
 * first parameters of a store come from paceline_trainer_get_parameters: learners with one seed begin
 * with the same ones. Settings
 * "outside_learners" K and "outside_learner" k make learner k of K act in environments of its own.
 * paceline_trainer_run is refused.
 */

enum paceline_gradient_state {
  PACELINE_GRADIENT_NONE = 0,    /* the run has ended, and no update is left */
  PACELINE_GRADIENT_READY = 1,   /* there is a gradient */
  PACELINE_GRADIENT_DROPPED = 2, /* an update was due, and the setting "outliers" has dropped its gradient */
  PACELINE_GRADIENT_LATER = 3    /* no update is due: environments that you step come first */
};

/* Describes the gradient of an update. */
typedef struct paceline_gradient {
  uint32_t struct_size;
  uint32_t state;        /* enum paceline_gradient_state */
  int64_t number;        /* counts the trainer's gradients that are ready, from 1 on, also after a load */
  int64_t updates;       /* the most that paceline_trainer_adopt was given; 0 before its first call */
  int64_t num_timesteps; /* steps of this trainer */
  int64_t rows;          /* of the minibatch */
  double loss;           /* of the minibatch */
  double learning_rate;
} paceline_gradient;

/* Takes rounds until an update is due, computes its gradient, scaled down where the trainer clips its
 * norm, and writes it to out: n floats, in the order of the trainer's first set of parameters. out is
 * written only if info->state is PACELINE_GRADIENT_READY. A second call before an adopt gives the
 * gradient of the next update at the same parameters: a delay of one update. If max_ms passes first, the
 * call gives PACELINE_ETIMEDOUT, after paceline_trainer_stop PACELINE_ESTOPPED; call it again. A loss that
 * is not finite gives PACELINE_ENAN, as do later calls until the next adopt. With environments that you step
 * the function takes no rounds: call it after every observe until the state is PACELINE_GRADIENT_LATER. An
 * act while an update is due is refused. */
PACELINE_API int paceline_trainer_gradient(float *out, size_t n, paceline_gradient *info, paceline_trainer *t,
                                           int64_t max_ms);

/* Overwrites the parameters with n finite floats. updates: the updates of all learners that they have
 * seen, such as a store's version, which target networks and epsilon of "dqn" follow with the setting
 * "clock" updates. A number below an earlier one counts as that one. steps: num_timesteps of all learners,
 * which schedules and the end of the run follow; -1: unchanged. */
PACELINE_API int paceline_trainer_adopt(paceline_trainer *t, const float *in, size_t n, int64_t updates, int64_t steps);

/*
 * Actors, replay memories and learners may be in processes of their own (Nair et al. 2015, section 4;
 * Horgan et al. 2018). All three are of "dqn" with "updates" outside and "clock" updates:
 *
 *     an actor         chooses by paceline_policy_act and steps a paceline_vec
 *     a replay memory  is a trainer to which steps are added; no run is begun:
 *                          paceline_trainer_add_steps(memory, env, &steps);  // from an actor
 *                          paceline_trainer_draw(&batch, memory, beta);      // for a learner
 *                          paceline_trainer_set_errors(memory, batch.identities, batch.errors, batch.num_rows);
 *     a learner        is a trainer that takes no steps; paceline_trainer_begin says where a learning
 *                      rate that changes ends, and is needed only then:
 *                          paceline_trainer_gradient_of(grad, n, &g, learner, &batch);
 *                          ... push, pull and paceline_trainer_adopt as above
 *
 * paceline_trainer_new_push makes both trainers, with the specs of the actors' environments. num_envs of a
 * replay memory is the number of the environments whose steps it gets. Minibatches follow n_steps,
 * n_step_tails, gamma and "prioritized", and priorities the errors of "distribution". Both trainers must
 * agree in these settings.
 */

/* Consecutive steps of one environment. */
typedef struct paceline_steps {
  uint32_t struct_size;
  uint32_t num_steps; /* 1 to 1048576 */
  /* 1: obs begins a segment. A segment in progress then ends as a truncation after its last step.
   * 0: the segment goes on. The first row of obs is the last one that was added before; it is not
   * read. */
  uint32_t begins;
  uint32_t end;           /* bits of enum paceline_end, of the last step; 0: the segment goes on */
  const void *obs;        /* [num_steps + 1][observation]; the last row is not read if the last step terminated */
  const int32_t *actions; /* [num_steps], from 0 on */
  const float *rewards;   /* [num_steps] */
  /* [num_steps][n], the action mask after each step. NULL if actions have no masks; if they have
   * masks, NULL allows every action. */
  const uint8_t *next_masks;
} paceline_steps;

/* Adds steps of environment env, 0 to num_envs - 1, to the replay memory. A transition can be drawn
 * as soon as its n_steps are stored or its episode has ended. If a step is refused (an action out of
 * range, NaN), none is added, and paceline_last_error_index() is its number, from 0 on. A row of obs
 * belongs to the step before it, and row 0 to step 0. */
PACELINE_API int paceline_trainer_add_steps(paceline_trainer *t, uint32_t env, const paceline_steps *steps);

/* Transitions over n_steps, in arrays of yours. Entry i of every array is row i. */
typedef struct paceline_minibatch {
  uint32_t struct_size;
  uint32_t num_rows;   /* batch_size */
  void *obs;           /* [num_rows, observation], of the spec's dtype */
  void *next_obs;      /* likewise, after the steps; zeros where they terminated */
  int32_t *actions;    /* [num_rows] */
  float *rewards;      /* [num_rows], discounted sums of the steps */
  float *discounts;    /* [num_rows], the factors of the values of next_obs; 0 where the steps terminated */
  float *weights;      /* [num_rows], factors of the losses; 1 where draws are uniform */
  uint8_t *next_masks; /* [num_rows, n], action masks of next_obs; NULL if actions have none */
  int64_t *identities; /* [num_rows], for set_errors: a transition keeps its number while it is stored, until the
                        * memory loads a file. gradient_of does not read them */
  float *errors; /* [num_rows], for set_errors: gradient_of writes them; 0 where draws are uniform. NULL: not wanted */
} paceline_minibatch;

/* Draws a minibatch from the replay memory and copies it to the arrays of to, except errors. beta: the exponent of
 * importance weights, 0 to 1. If no transition can be drawn yet, the error says so. */
PACELINE_API int paceline_trainer_draw(const paceline_minibatch *to, paceline_trainer *t, double beta);

/* Makes the priorities of n drawn transitions from the errors of gradient_of. Transitions that are no longer
 * stored are passed over. Does nothing where draws are uniform. */
PACELINE_API int paceline_trainer_set_errors(paceline_trainer *t, const int64_t *identities, const float *errors,
                                             size_t n);

/* Computes the gradient of a minibatch that was drawn elsewhere, at the parameters that the trainer has. It is
 * paceline_trainer_gradient in all else, takes no rounds and does not wait. */
PACELINE_API int paceline_trainer_gradient_of(float *out, size_t n, paceline_gradient *info, paceline_trainer *t,
                                              const paceline_minibatch *batch);

/*
 * A store has a range of a network's parameters and the state of their optimiser: a shard of the
 * parameter server of Gorila (Nair et al. 2015). Learners in other processes push gradients to it and
 * pull parameters from it. Your program carries both, over any transport.
 *
 * A push is applied in one piece, and so is a pull. The version of a store is the number of pushes that
 * were applied to it. A store counts Adam's steps by its version. One learner that pushes every gradient
 * and pulls before the next one is bit-identical to a trainer with that optimiser, for any number of
 * stores whose ranges cover the parameters.
 *
 * All functions on a store are [thread-safe].
 */
typedef struct paceline_store paceline_store;

/* The optimiser of a store. Numbers that are 0 stand for its own defaults. */
typedef struct paceline_store_options {
  uint32_t struct_size;
  uint32_t centered;      /* 1: RMSProp divides by the standard deviation; "rmsprop" */
  uint32_t eps_inside;    /* 1: eps is inside the root; "rmsprop" */
  uint32_t first_average; /* 1: the average of squared gradients begins at 1; "rmsprop" */
  const char *optimizer;  /* "adagrad", "adam", "radam", "rmsprop", "rmsprop_mnih" or "rmsprop_keras" */
  double eps;             /* above 0 */
  double decay;           /* of the average of squared gradients, above 0 and below 1; the RMSProps */
  double beta1, beta2;    /* above 0 and below 1; "adam", "radam" */
  int64_t first;          /* number of the first parameter among those of the network; for describe and files alone */
  int64_t max_staleness;  /* a gradient is refused if more pushes than this were applied since the pull that it
                             was computed after; 0: none is refused */
} paceline_store_options;

/* Makes a store of n parameters, 1 to 2147483648, which are copied and must be finite. */
PACELINE_API PACELINE_MUST_USE int paceline_store_new(paceline_store **out, const float *parameters, size_t n,
                                                      const paceline_store_options *options);

/* What comes with a gradient. learner, life and step are its key. A key that the store has seen in the
 * learner's life changes nothing, and the answer is that of the first push with the key: a transport may
 * deliver a push twice. A learner that is started again takes a larger life; its older lives are then
 * refused. The store remembers the answers of the 64 newest steps of each learner's life, and refuses
 * older steps. */
typedef struct paceline_push {
  uint32_t struct_size;
  uint32_t reserved;
  double learning_rate; /* 0 to 1000 */
  int64_t seen;         /* the version of the pull after which the gradient was computed */
  int64_t learner;      /* 0 to 4095 */
  int64_t life;         /* 0 or above */
  int64_t step;         /* number of the push in the life, from 1 on; numbers may be left out */
} paceline_push;

/* The answer to a push. */
typedef struct paceline_answer {
  uint32_t struct_size;
  uint32_t duplicate; /* 1: the key had been seen */
  int64_t version;    /* of the store after the push; of a duplicate, after the first push with the key */
  int64_t lag;        /* pushes that were applied between the pull and the push */
} paceline_answer;

/* Takes a step of the optimiser along the gradient of the n parameters of the store. The learner has
 * clipped the gradient, if it is clipped at all. A gradient that is too old gives PACELINE_ESTALE, and
 * *out is written. It is counted; the parameters do not change. A gradient with a number that is not
 * finite, or whose square is not, gives PACELINE_ENAN. After other errors than PACELINE_ESTALE nothing
 * has changed, and the key has not been seen. [thread-safe] */
PACELINE_API int paceline_store_push(paceline_answer *out, paceline_store *s, const float *grad, size_t n,
                                     const paceline_push *push);

/* Copies the n parameters of the store to out. *version, if version is not NULL: the version of the
 * store. [thread-safe] */
PACELINE_API int paceline_store_pull(float *out, size_t n, int64_t *version, paceline_store *s);

/* Writes a JSON object: first, size, optimizer, max_staleness, version, refused, duplicates, pulls,
 * learners. refused and duplicates are numbers of pushes. learners is an array of the ledgers of the
 * learners that have pushed: learner, life, step (the largest one), applied, refused and duplicates (of
 * the latest life), answers. answers is an array of [step, version, lag, 1 if refused], by step, of at
 * most 64. [thread-safe] */
PACELINE_API int paceline_store_describe(char **out, const paceline_store *s);

/* Writes a file of the store: parameters, optimiser, version, counts and ledgers. Pushes and pulls wait
 * meanwhile. A failure leaves an older file as it was. [thread-safe] */
PACELINE_API int paceline_store_save(paceline_store *s, const char *path);

/* Makes the store of a file. The whole file is checked. */
PACELINE_API PACELINE_MUST_USE int paceline_store_load(paceline_store **out, const char *path);

/* Writes the same file to a buffer (see "Buffers"), and makes the store of such bytes. The number of
 * bytes grows with the ledgers. [thread-safe] */
PACELINE_API int paceline_store_to_bytes(void *out, size_t *size, paceline_store *s);
PACELINE_API PACELINE_MUST_USE int paceline_store_from_bytes(paceline_store **out, const void *bytes, size_t size);
PACELINE_API void paceline_store_free(paceline_store *s);

#ifdef __cplusplus
}
#endif
#endif
