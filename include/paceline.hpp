/*
 * paceline.hpp - C++17 over paceline.h, which is the manual: owners that free
 * what they hold, errors as exceptions, environments as classes. Header-only.
 *
 *     paceline::Config cfg("dqn");
 *     cfg.preset("tuned", "CartPole-v1");
 *     paceline::Trainer trainer(cfg);
 *     trainer.run(50000);
 *     paceline::Policy policy = trainer.policy();
 *     int32_t action = policy.act(obs);
 *
 * An environment of your own is a class:
 *
 *     struct Corridor : paceline::Environment<float> {
 *       static paceline_spec observation() { return box({1}); }
 *       static paceline_spec action() { return discrete(2); }
 *       Corridor(uint32_t index, uint64_t seed);
 *       void reset(float *obs);
 *       paceline::Step step(int32_t action, float *obs);
 *     };
 *     paceline::Trainer trainer(cfg, paceline::environments<Corridor>());
 *
 * environments() describes actions of several numbers.
 *
 * If a function of the class throws an exception, its text becomes the text of the
 * paceline::Error that run() throws. The rules of "your own environments" in paceline.h hold:
 * different environments run concurrently on different threads.
 *
 * Owners can be moved but not copied. get() returns the handle for the C functions;
 * C and C++ calls may be mixed.
 */
#ifndef PACELINE_HPP
#define PACELINE_HPP

#if __cplusplus < 201703L
#error "paceline.hpp needs C++17: compile with -std=c++17 or newer"
#elif !defined(__cpp_exceptions)
#error "paceline.hpp reports errors as exceptions: compile without -fno-exceptions, or use paceline.h"
#else

#include "paceline.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <limits>
#include <locale>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace paceline {

/* A failed call: what() is the library's sentence, code() a value of enum
 * paceline_status, index() the number of the environment or row that failed, -1 if none. */
class Error : public std::runtime_error {
 public:
  Error(int code, const std::string &text, int64_t index = -1) : std::runtime_error(text), code_(code), index_(index) {}
  int code() const noexcept { return code_; }
  int64_t index() const noexcept { return index_; }

 private:
  int code_;
  int64_t index_;
};

/* Throws an Error if status, the result of a C function, is not PACELINE_OK. */
inline void check(int status) {
  if (status != PACELINE_OK) throw Error(status, paceline_last_error(), paceline_last_error_index());
}

namespace detail {

struct Free {
  void operator()(paceline_config *it) const noexcept { paceline_config_free(it); }
  void operator()(paceline_trainer *it) const noexcept { paceline_trainer_free(it); }
  void operator()(paceline_policy *it) const noexcept { paceline_policy_free(it); }
  void operator()(paceline_vec *it) const noexcept { paceline_vec_free(it); }
  void operator()(paceline_store *it) const noexcept { paceline_store_free(it); }
};

template <class Handle>
using Owner = std::unique_ptr<Handle, Free>;

/* A struct of paceline.h, zeroed and with its size set. */
template <class Struct>
Struct sized() {
  Struct s{};
  s.struct_size = static_cast<uint32_t>(sizeof(Struct));
  return s;
}

/* Copies s to a struct of the library, which may be of an older version. */
template <class Struct>
void give(Struct *out, const Struct &s) {
  const uint32_t size = (std::min)(out->struct_size, s.struct_size);
  std::memcpy(out, &s, size);
  out->struct_size = size;
}

/* Copies a text of the library and frees it. */
inline std::string take(char *text) {
  std::unique_ptr<char, void (*)(char *)> owner(text, paceline_string_free);
  return text == nullptr ? std::string() : std::string(text);
}

/* Runs f inside a callback of C and turns its exceptions into callback errors. */
template <class F>
int guarded(F &&f) noexcept {
  try {
    f();
    return 0;
  } catch (const std::exception &e) {
    paceline_set_callback_error(e.what());
  } catch (...) {
    paceline_set_callback_error("an exception that is not a std::exception");
  }
  return 1;
}

/* The objects of the array `name` in a JSON text. The objects must be flat. */
inline std::vector<std::string> objects(const std::string &json, const char *name) {
  std::vector<std::string> list;
  const std::size_t from = json.find('"' + std::string(name) + "\":["), to = json.find(']', from);
  for (std::size_t at = json.find('{', from); at < to; at = json.find('{', at + 1))
    list.push_back(json.substr(at, json.find('}', at) - at));
  return list;
}

/* The value of a field of a flat JSON object, as text. */
inline std::string field(const std::string &object, const char *name) {
  const std::string key = '"' + std::string(name) + "\":";
  std::size_t begin = object.find(key) + key.size();
  if (object[begin] == '"') begin++;
  return object.substr(begin, object.find_first_of("\",", begin) - begin);
}

/* An argument of C, for which a text ends at its first NUL byte. Throws if there is one inside. */
inline const char *c_text(const char *name, const std::string &text) {
  if (text.find('\0') != std::string::npos)
    throw Error(PACELINE_EINVAL, std::string(name) + ": a NUL byte inside, must have none");
  return text.c_str();
}
inline const char *c_text_or_null(const char *name, const std::string &text) {
  return text.empty() ? nullptr : c_text(name, text);
}

template <class Env, class = void>
struct CanSave : std::false_type {};
template <class Env>
struct CanSave<Env, std::void_t<decltype(std::declval<Env &>().save()),
                                decltype(std::declval<Env &>().restore(std::declval<const std::string &>()))> >
    : std::true_type {};

template <class Env, class = void>
struct CanMask : std::false_type {};
template <class Env>
struct CanMask<Env, std::void_t<decltype(std::declval<Env &>().mask(std::declval<uint8_t *>()))> > : std::true_type {};

/* Orders lists by length and bytes. NaN, which operator< does not order, is a number like others. */
struct ByBytes {
  template <class Number>
  bool operator()(const std::vector<Number> &a, const std::vector<Number> &b) const noexcept {
    if (a.size() != b.size()) return a.size() < b.size();
    return !a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Number)) < 0;
  }
};

/* A copy of the numbers that stays until the process ends; equal bytes have one copy. */
template <class Number>
const Number *keep(const std::vector<Number> &numbers) {
  static std::mutex mutex;
  using Kept = std::set<std::vector<Number>, ByBytes>;
  static Kept *const kept = new Kept; /* outlives other statics */
  const std::lock_guard<std::mutex> lock(mutex);
  return kept->insert(numbers).first->data();
}

inline std::size_t components(const paceline_spec &spec) noexcept {
  std::size_t n = 1;
  for (uint32_t i = 0; i < spec.ndim; i++) n *= static_cast<std::size_t>(spec.shape[i]);
  return n;
}

/* The numbers of an action, of 4 bytes each. */
inline std::size_t action_numbers(const paceline_spec &action) noexcept {
  if (action.kind == PACELINE_DISCRETE) return 1;
  const std::size_t box = action.kind == PACELINE_MULTI_DISCRETE ? 0 : components(action);
  return box + static_cast<std::size_t>(action.num_branches);
}

/* The bytes of a mask of actions. */
inline std::size_t mask_bytes(const paceline_spec &action) noexcept {
  std::size_t n = static_cast<std::size_t>(action.n);
  for (int64_t b = 0; b < action.num_branches; b++) n += static_cast<std::size_t>(action.branches[b]);
  return n;
}

/* The number of elements of type Action that n actions of the spec have. Throws if the type does not
 * fit the spec. */
template <class Action>
std::size_t action_entries(const paceline_spec &spec, std::size_t n) {
  const std::size_t numbers = action_numbers(spec);
  if constexpr (std::is_arithmetic_v<Action>) {
    static_assert(std::is_same_v<Action, int32_t> || std::is_same_v<Action, float>,
                  "actions are int32_t, float or a struct");
    if (spec.kind == PACELINE_HYBRID)
      throw Error(PACELINE_EINVAL, "actions: numbers, must be a struct of int32_t and float");
    const bool box = spec.kind == PACELINE_BOX;
    if (box != std::is_same_v<Action, float>)
      throw Error(PACELINE_EINVAL, box ? "actions: int32_t, must be float" : "actions: float, must be int32_t");
    return n * numbers;
  } else {
    static_assert(std::is_trivially_copyable_v<Action> && alignof(Action) <= 4,
                  "an action is a struct of int32_t and float");
    if (sizeof(Action) != 4 * numbers)
      throw Error(PACELINE_EINVAL, "actions: of " + std::to_string(sizeof(Action)) + " bytes, must be of " +
                                       std::to_string(4 * numbers));
    return n;
  }
}

template <class Void, class Env, class... Action>
struct StepsBy : std::false_type {};
template <class Env, class... Action>
struct StepsBy<std::void_t<decltype(std::declval<Env &>().step(std::declval<Action>()...,
                                                               std::declval<typename Env::Observation *>()))>,
               Env, Action...> : std::true_type {};
/* Whether Env has step(Action..., Observation *). */
template <class Env, class... Action>
constexpr bool steps_by = StepsBy<void, Env, Action...>::value;

template <class Env, class = void>
struct StepsByStruct : std::false_type {};
template <class Env>
struct StepsByStruct<Env, std::enable_if_t<std::is_class_v<typename Env::Action> > >
    : std::bool_constant<steps_by<Env, const typename Env::Action &> > {};
/* Whether Env has step(const Action &, Observation *) with a struct Env::Action. */
template <class Env>
constexpr bool steps_by_struct = StepsByStruct<Env>::value;

/* The kind of actions that step of Env takes: enum paceline_kind; 0 for a struct, which any kind may be. */
template <class Env>
constexpr uint32_t kind_of() {
  constexpr bool hybrid = steps_by<Env, const int32_t *, const float *>;
  static_assert(steps_by<Env, int32_t> || steps_by<Env, const int32_t *> || steps_by<Env, const float *> || hybrid ||
                    steps_by_struct<Env>,
                "step takes (int32_t, obs), (const int32_t *, obs), (const float *, obs), "
                "(const int32_t *, const float *, obs) or (const Action &, obs), Action being a struct of the class");
  return steps_by_struct<Env>             ? 0
         : steps_by<Env, int32_t>         ? PACELINE_DISCRETE
         : steps_by<Env, const int32_t *> ? PACELINE_MULTI_DISCRETE
         : steps_by<Env, const float *>   ? PACELINE_BOX
                                          : PACELINE_HYBRID;
}

/* Throws if step of Env does not take the actions of a spec. */
template <class Env>
void check_action(const paceline_spec &action) {
  if constexpr (steps_by_struct<Env>)
    action_entries<typename Env::Action>(action, 1);
  else if (action.kind != kind_of<Env>())
    throw std::invalid_argument("action kind: " + std::to_string(action.kind) + ", must be " +
                                std::to_string(kind_of<Env>()) + ", the kind that step takes");
}

/* `user` of a table: a family of Env. */
template <class Env>
struct Family {
  std::function<std::unique_ptr<Env>(uint32_t index, uint64_t seed)> make;
  std::size_t branches; /* of an action */
};

/* An environment of a table. */
template <class Env>
struct Member {
  std::unique_ptr<Env> env;
  std::size_t branches; /* of an action */
};

/* Takes an action, which is in the library's memory. */
template <class Env>
auto step(Member<Env> &member, const void *action, typename Env::Observation *obs) {
  Env &env = *member.env;
  const int32_t *ints = static_cast<const int32_t *>(action);
  constexpr uint32_t kind = kind_of<Env>();
  if constexpr (steps_by_struct<Env>)
    return env.step(*static_cast<const typename Env::Action *>(action), obs);
  else if constexpr (kind == PACELINE_DISCRETE)
    return env.step(*ints, obs);
  else if constexpr (kind == PACELINE_MULTI_DISCRETE)
    return env.step(ints, obs);
  else if constexpr (kind == PACELINE_BOX)
    return env.step(static_cast<const float *>(action), obs);
  else
    return env.step(ints, reinterpret_cast<const float *>(ints + member.branches), obs);
}

template <class Env, class = void>
struct CanStepMany : std::false_type {};
template <class Env>
struct CanStepMany<Env, std::void_t<decltype(&Env::step_many)> > : std::true_type {};

template <class Env, class = void>
struct Waits : std::false_type {};
template <class Env>
struct Waits<Env, std::void_t<decltype(Env::waits)> > : std::integral_constant<bool, Env::waits> {};

}  // namespace detail

/* ------------------------------------------------ your own environments */

/* The result of a step: the reward, and bits of enum paceline_end (0 while the episode
 * goes on). */
struct Step {
  float reward = 0;
  uint8_t ended = 0;
};

/* Base of an environment whose observations are arrays of Component: uint8_t
 * (images [channels, height, width]) or float (vectors [n]). */
template <class Component>
struct Environment {
  static_assert(std::is_same_v<Component, uint8_t> || std::is_same_v<Component, float>,
                "observations are uint8_t or float");
  using Observation = Component;

  /* The spec of an observation. frame_stack: the number of successive frames in the first
   * axis, which it must divide; 0: not declared. */
  static paceline_spec box(std::initializer_list<int64_t> shape, int64_t frame_stack = 0) {
    paceline_spec s = detail::sized<paceline_spec>();
    if (shape.size() > sizeof s.shape / sizeof *s.shape)
      throw std::invalid_argument("box: an observation has at most 4 axes");
    s.kind = PACELINE_BOX;
    s.dtype = std::is_same_v<Component, float> ? PACELINE_FLOAT32 : PACELINE_UINT8;
    s.ndim = static_cast<uint32_t>(shape.size());
    std::size_t i = 0;
    for (int64_t size : shape) s.shape[i++] = size;
    s.frame_stack = frame_stack;
    return s;
  }

  /* The spec of an action: one number of 0 to n-1. */
  static paceline_spec discrete(int64_t n) {
    paceline_spec s = detail::sized<paceline_spec>();
    s.kind = PACELINE_DISCRETE;
    s.dtype = PACELINE_INT32;
    s.n = n;
    return s;
  }
  /* One number of 0 to branches[b]-1 for every branch b. */
  static paceline_spec multi_discrete(const std::vector<int32_t> &branches) {
    paceline_spec s = detail::sized<paceline_spec>();
    s.kind = PACELINE_MULTI_DISCRETE;
    s.dtype = PACELINE_INT32;
    s.branches = detail::keep(branches);
    s.num_branches = static_cast<int64_t>(branches.size());
    return s;
  }
  /* A float of low[k] to high[k] for every entry k; bounds may be infinite. */
  static paceline_spec continuous(const std::vector<float> &low, const std::vector<float> &high) {
    if (low.size() != high.size()) throw std::invalid_argument("continuous: low and high must have equal lengths");
    paceline_spec s = detail::sized<paceline_spec>();
    s.kind = PACELINE_BOX;
    s.dtype = PACELINE_FLOAT32;
    s.ndim = 1;
    s.shape[0] = static_cast<int64_t>(low.size());
    s.low = detail::keep(low);
    s.high = detail::keep(high);
    return s;
  }
  /* Both: the branches, then the floats. */
  static paceline_spec hybrid(const std::vector<int32_t> &branches, const std::vector<float> &low,
                              const std::vector<float> &high) {
    paceline_spec s = continuous(low, high), of = multi_discrete(branches);
    s.kind = PACELINE_HYBRID;
    s.branches = of.branches;
    s.num_branches = of.num_branches;
    return s;
  }
};

/* A family of environments, for one Trainer. See environments(). */
struct Environments {
  paceline_env_table table;
  std::unique_ptr<void, void (*)(void *)> user;
};

/* A family of Env, made one after the other by make(index, seed). Env has the members shown
 * at the top of this file. What step takes depends on action():
 *     discrete(n)                    Step step(int32_t action, Obs *obs);
 *     multi_discrete(branches)       Step step(const int32_t *action, Obs *obs);
 *     continuous(low, high)          Step step(const float *action, Obs *obs);
 *     hybrid(branches, low, high)    Step step(const int32_t *branches, const float *box, Obs *obs);
 *     any of them                    Step step(const Action &action, Obs *obs);
 * Action is a struct that is a member of Env and one action in memory (see paceline_spec): first the
 * int32_t of the branches, then the float of the box. Policy::act<Env::Action>(obs) returns the same struct.
 * Optional members:
 *     std::string save();                     // the whole state, random numbers included;
 *     void restore(const std::string &state); // with both a checkpoint continues inside an episode
 *     void mask(uint8_t *mask);               // writes 1 for each action allowed now, 0 for the others
 *     static constexpr bool waits = true;     // PACELINE_ENV_WAITS: steps mostly wait
 *     // Steps n environments in one call: envs[k] by actions[k], results in obs[k] and steps[k].
 *     // actions: const int32_t *, const float *, const Action * where step takes a struct, or else, for
 *     // hybrid actions, const void * (see paceline_spec).
 *     static void step_many(std::size_t n, Env *const *envs, const int32_t *actions, Obs *const *obs, Step *steps); */
template <class Env>
Environments environments(std::function<std::unique_ptr<Env>(uint32_t index, uint64_t seed)> make) {
  using Obs = typename Env::Observation;
  using Family = detail::Family<Env>;
  using Member = detail::Member<Env>;
  paceline_env_table t = detail::sized<paceline_env_table>();
  t.spec = [](void *user, paceline_spec *obs, paceline_spec *action) {
    return detail::guarded([&] {
      const paceline_spec a = Env::action();
      detail::check_action<Env>(a);
      static_cast<Family *>(user)->branches = static_cast<std::size_t>(a.num_branches);
      detail::give(obs, Env::observation());
      detail::give(action, a);
    });
  };
  t.create = [](void *user, uint32_t index, uint64_t seed, void **env) {
    return detail::guarded([&] {
      const Family &family = *static_cast<Family *>(user);
      std::unique_ptr<Env> made = family.make(index, seed);
      if (!made) throw std::runtime_error("create: no environment was made");
      *env = new Member{std::move(made), family.branches};
    });
  };
  t.reset = [](void *env, void *obs) {
    return detail::guarded([&] { static_cast<Member *>(env)->env->reset(static_cast<Obs *>(obs)); });
  };
  t.step = [](void *env, const void *action, void *obs, float *reward, uint8_t *end) {
    return detail::guarded([&] {
      Step s = detail::step(*static_cast<Member *>(env), action, static_cast<Obs *>(obs));
      *reward = s.reward;
      *end = s.ended;
    });
  };
  if constexpr (detail::CanSave<Env>::value) {
    t.save = [](void *env, void *buf, std::size_t *len) {
      return detail::guarded([&] {
        const std::string state = static_cast<Member *>(env)->env->save();
        if (buf != nullptr && *len >= state.size()) state.copy(static_cast<char *>(buf), state.size());
        *len = state.size();
      });
    };
    t.restore = [](void *env, const void *buf, std::size_t len) {
      return detail::guarded(
          [&] { static_cast<Member *>(env)->env->restore(std::string(static_cast<const char *>(buf), len)); });
    };
  }
  if constexpr (detail::CanMask<Env>::value)
    t.mask = [](void *env, uint8_t *mask) {
      return detail::guarded([&] { static_cast<Member *>(env)->env->mask(mask); });
    };
  if constexpr (detail::CanStepMany<Env>::value)
    t.step_many = [](void *, uint32_t n, void *const *envs, const void *actions, void *const *obs, float *rewards,
                     uint8_t *end) {
      return detail::guarded([&] {
        struct Arrays {
          std::vector<Env *> own;
          std::vector<Obs *> rows;
          std::vector<Step> steps;
        };
        thread_local Arrays spare; /* empty during a call: step_many may run another trainer of Env */
        Arrays arrays = std::exchange(spare, {});
        auto &[own, rows, steps] = arrays;
        own.clear();
        rows.clear();
        steps.assign(n, Step());
        for (uint32_t k = 0; k < n; k++) {
          own.push_back(static_cast<Member *>(envs[k])->env.get());
          rows.push_back(static_cast<Obs *>(obs[k]));
        }
        if constexpr (detail::steps_by_struct<Env>)
          Env::step_many(n, own.data(), static_cast<const typename Env::Action *>(actions), rows.data(), steps.data());
        else if constexpr (detail::kind_of<Env>() == PACELINE_BOX)
          Env::step_many(n, own.data(), static_cast<const float *>(actions), rows.data(), steps.data());
        else
          Env::step_many(n, own.data(), static_cast<const int32_t *>(actions), rows.data(), steps.data());
        for (uint32_t k = 0; k < n; k++) {
          rewards[k] = steps[k].reward;
          end[k] = steps[k].ended;
        }
        spare = std::move(arrays);
      });
    };
  if (detail::Waits<Env>::value) t.flags |= PACELINE_ENV_WAITS;
  t.destroy = [](void *env) { delete static_cast<Member *>(env); };
  return {t, {new Family{std::move(make), 0}, [](void *user) { delete static_cast<Family *>(user); }}};
}

/* The same, made by the constructor Env(index, seed). */
template <class Env>
Environments environments() {
  return environments<Env>([](uint32_t index, uint64_t seed) { return std::make_unique<Env>(index, seed); });
}

/* --------------------------------------------------------------- owners */

class Config {
 public:
  /* The defaults of a method, such as "dqn". */
  explicit Config(const std::string &method) {
    paceline_config *it = nullptr;
    check(paceline_config_new(&it, detail::c_text("method", method)));
    it_.reset(it);
  }
  /* Takes ownership of a handle. */
  explicit Config(paceline_config *it) : it_(it) {}
  /* The configuration that a checkpoint was made with. */
  static Config load(const std::string &path) {
    paceline_config *it = nullptr;
    check(paceline_config_load(&it, detail::c_text("path", path)));
    return Config(it);
  }

  std::string method() const {
    const char *name = nullptr;
    check(paceline_config_method(&name, get()));
    return name;
  }
  /* Applies a preset (paceline_config_presets); returns *this. */
  Config &preset(const std::string &name, const std::string &env) {
    check(paceline_config_preset(get(), detail::c_text("preset", name), detail::c_text("env", env)));
    return *this;
  }

  /* Returns *this, so that settings can be chained. */
  Config &set(const std::string &key, const std::string &value) {
    check(paceline_config_set(get(), detail::c_text("key", key), detail::c_text("value", value)));
    return *this;
  }
  Config &set(const std::string &key, const char *value) { return set(key, std::string(value)); }
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number> > >
  Config &set(const std::string &key, Number value) {
    std::ostringstream text; /* std::to_string would cut 1e-8 to 0.000000 */
    text.imbue(std::locale::classic());
    text.precision(std::numeric_limits<Number>::max_digits10);
    if constexpr (std::is_same_v<Number, bool>)
      text << (value ? "true" : "false");
    else
      text << +value; /* +: an int8_t is a number, too */
    return set(key, text.str());
  }
  std::string get(const std::string &key) const {
    char *value = nullptr;
    check(paceline_config_get(&value, get(), detail::c_text("key", key)));
    return detail::take(value);
  }
  paceline_config *get() const noexcept { return it_.get(); }

 private:
  detail::Owner<paceline_config> it_;
};

/* An output of a policy: len floats for each observation. */
struct Output {
  std::string name;
  std::size_t len;
};

/* How a policy acts: paceline_act_options. */
struct ActOptions {
  bool sample = false;
  double epsilon = 0;
  uint64_t seed = 0, counter = 0; /* the random numbers are a function of these two and the row */
  /* a row of bytes for each observation, 0: action not allowed; nullptr: all are allowed */
  const uint8_t *action_masks = nullptr;
};

/* How an evaluation plays: paceline_eval_options. */
struct EvalOptions {
  int64_t episodes = 10;
  double epsilon = 0;
  uint64_t seed = 0;
  bool sample = false;
  std::string env_options = {}; /* a JSON object, or "" */
  /* Atari games only: states of paceline_console_save in which episodes start, one after the other */
  std::vector<std::vector<uint8_t> > starts = {};
  int64_t max_frames = 0; /* Atari games only: the frame at which a game is truncated; 0: as env_options say */
};

/* A frozen network that acts. Any number of threads may use it concurrently. */
class Policy {
 public:
  explicit Policy(const std::string &path) {
    paceline_policy *it = nullptr;
    check(paceline_policy_load(&it, detail::c_text("path", path)));
    adopt(it);
  }
  /* Takes ownership of a handle. */
  explicit Policy(paceline_policy *it) { adopt(it); }
  /* From the bytes of to_bytes(). */
  static Policy from_bytes(const std::string &bytes) {
    paceline_policy *it = nullptr;
    check(paceline_policy_from_bytes(&it, bytes.data(), bytes.size()));
    return Policy(it);
  }

  paceline_spec observation() const noexcept { return obs_; }
  paceline_spec action() const noexcept { return action_; }
  /* Components of one observation. */
  std::size_t size() const noexcept { return size_; }
  const std::vector<Output> &outputs() const noexcept { return outputs_; }

  /* The action for one observation, an array of size() components; greedy without options. Action is
   * int32_t or float, if an action is one such number, or a struct or std::array that is one action
   * (see paceline_spec). */
  template <class Action = int32_t, class Component>
  Action act(const Component *obs, const ActOptions &options = {}) const {
    const std::size_t entries = detail::action_entries<Action>(action_, 1);
    if (entries != 1)
      throw Error(PACELINE_EINVAL, "action: one number, must be an array of " + std::to_string(entries));
    Action action{};
    act(1, obs, &action, nullptr, options);
    return action;
  }
  /* Actions for a container of n observations, one after the other. Action is int32_t (discrete
   * actions, or rows of branches), float (rows of a box), or a struct or std::array as above. */
  template <class Action = int32_t, class Component>
  std::vector<Action> act(const std::vector<Component> &obs, const ActOptions &options = {}) const {
    if (obs.size() % size_ != 0)
      throw Error(PACELINE_EINVAL,
                  "obs: " + std::to_string(obs.size()) + " components, must be a multiple of " + std::to_string(size_));
    const std::size_t n = obs.size() / size_;
    std::vector<Action> actions(detail::action_entries<Action>(action_, n));
    act(n, obs.data(), actions.data(), nullptr, options);
    return actions;
  }
  /* The same for n observations. actions: an array of n actions. to: nullptr, or for each of
   * outputs() nullptr or an array of n rows of len floats. */
  template <class Component, class Action>
  void act(std::size_t n, const Component *obs, Action *actions, float *const *to = nullptr,
           const ActOptions &options = {}) const {
    detail::action_entries<Action>(action_, n);
    constexpr bool floats = std::is_same_v<Component, float>;
    static_assert(floats || std::is_same_v<Component, uint8_t>, "observations are uint8_t or float");
    if (obs_.dtype != (floats ? PACELINE_FLOAT32 : PACELINE_UINT8))
      throw Error(PACELINE_EINVAL, floats ? "obs: float, must be uint8_t" : "obs: uint8_t, must be float");
    auto o = detail::sized<paceline_act_options>();
    o.sample = options.sample, o.epsilon = options.epsilon, o.seed = options.seed, o.counter = options.counter;
    o.action_masks = options.action_masks;
    check(paceline_policy_act(get(), n, obs, &o, actions, to));
  }

  /* Plays whole episodes of a built-in or loaded environment. */
  paceline_evaluation evaluate(const std::string &env, const EvalOptions &options = {}) const {
    auto o = detail::sized<paceline_eval_options>();
    o.sample = options.sample, o.episodes = options.episodes, o.epsilon = options.epsilon, o.seed = options.seed;
    std::vector<const void *> starts;
    std::vector<std::size_t> sizes;
    for (const auto &state : options.starts) starts.push_back(state.data()), sizes.push_back(state.size());
    o.starts = starts.data(), o.start_sizes = sizes.data(), o.num_starts = starts.size();
    o.max_frames = options.max_frames;
    auto e = detail::sized<paceline_evaluation>();
    check(paceline_policy_evaluate(&e, get(), detail::c_text("env", env),
                                   detail::c_text_or_null("env_options", options.env_options), &o));
    return e;
  }
  /* Stops the evaluations in progress on other threads: they throw PACELINE_ESTOPPED. */
  void stop() const { check(paceline_policy_stop(get())); }
  /* A JSON object: see paceline_policy_describe. */
  std::string describe() const {
    char *text = nullptr;
    check(paceline_policy_describe(&text, get()));
    return detail::take(text);
  }
  std::string to_bytes() const {
    std::size_t size = 0;
    check(paceline_policy_to_bytes(nullptr, &size, get()));
    std::string bytes(size, 0);
    check(paceline_policy_to_bytes(bytes.data(), &size, get()));
    bytes.resize(size);
    return bytes;
  }
  void save(const std::string &path) const { check(paceline_policy_save(get(), detail::c_text("path", path))); }
  paceline_policy *get() const noexcept { return it_.get(); }

 private:
  void adopt(paceline_policy *it) {
    it_.reset(it);
    check(paceline_policy_spec(&obs_, &action_, it));
    size_ = 1;
    for (uint32_t i = 0; i < obs_.ndim; i++) size_ *= static_cast<std::size_t>(obs_.shape[i]);
    for (const std::string &o : detail::objects(describe(), "outputs"))
      outputs_.push_back({detail::field(o, "name"), static_cast<std::size_t>(std::stoul(detail::field(o, "len")))});
  }
  detail::Owner<paceline_policy> it_;
  std::vector<Output> outputs_;
  paceline_spec obs_ = detail::sized<paceline_spec>(), action_ = detail::sized<paceline_spec>();
  std::size_t size_ = 0;
};

/* A number that a method reports: see paceline_metric. */
struct Metric {
  std::string name, unit, doc;
  double value;
};

class Trainer {
 public:
  /* On the built-in or loaded environment that the setting "env" names. */
  explicit Trainer(const Config &cfg) {
    paceline_trainer *it = nullptr;
    check(paceline_trainer_new(&it, cfg.get()));
    it_.reset(it);
  }
  /* On your own environments. */
  Trainer(const Config &cfg, Environments envs) {
    if (!envs.user) throw Error(PACELINE_EINVAL, "envs: moved from, must be a result of environments() of its own");
    paceline_trainer *it = nullptr;
    auto release = envs.user.get_deleter();
    check(paceline_trainer_new_table(&it, cfg.get(), &envs.table, envs.user.release(), release));
    it_.reset(it);
  }
  /* On environments that you step, with act and observe. */
  Trainer(const Config &cfg, const paceline_spec &observation, const paceline_spec &action) {
    paceline_trainer *it = nullptr;
    check(paceline_trainer_new_push(&it, cfg.get(), &observation, &action));
    it_.reset(it);
  }

  void begin(int64_t total_timesteps, uint32_t flags = 0) {
    check(paceline_trainer_begin(get(), total_timesteps, flags));
  }
  paceline_stats run(int64_t max_steps = 0, int64_t max_ms = 0) {
    auto s = detail::sized<paceline_stats>();
    check(paceline_trainer_run(&s, get(), max_steps, max_ms));
    return s;
  }
  void stop() const { check(paceline_trainer_stop(get())); }
  paceline_stats stats() const {
    auto s = detail::sized<paceline_stats>();
    check(paceline_trainer_stats(&s, get()));
    return s;
  }
  /* The numbers that the method reports in addition to the stats. */
  std::vector<Metric> metrics() const {
    stats(); /* throws without a trainer: paceline_trainer_metric then fails as after the last metric */
    std::vector<Metric> list;
    auto m = detail::sized<paceline_metric>();
    int status;
    for (std::size_t i = 0; (status = paceline_trainer_metric(&m, get(), i)) == PACELINE_OK; i++)
      list.push_back({m.name, m.unit, m.doc, m.value});
    if (status != PACELINE_EINVAL) check(status); /* past the last one */
    return list;
  }
  double metric(const std::string &name) const {
    auto m = detail::sized<paceline_metric>();
    std::size_t i = 0;
    check(paceline_trainer_metric_index(&i, get(), detail::c_text("name", name)));
    check(paceline_trainer_metric(&m, get(), i));
    return m.value;
  }
  /* The settings in effect. */
  Config config() const {
    paceline_config *it = nullptr;
    check(paceline_trainer_config(&it, get()));
    return Config(it);
  }
  /* A JSON object: see paceline_trainer_describe. */
  std::string describe() const {
    char *text = nullptr;
    check(paceline_trainer_describe(&text, get()));
    return detail::take(text);
  }
  /* The next notice, or "". */
  std::string notice() {
    char *text = nullptr;
    check(paceline_trainer_notice(&text, get()));
    return detail::take(text);
  }
  /* What would make the run faster: see paceline_trainer_proposal. */
  std::string proposal() const {
    char *text = nullptr;
    check(paceline_trainer_proposal(&text, get()));
    return detail::take(text);
  }
  void settle(int64_t max_ms = 0) { check(paceline_trainer_settle(get(), max_ms)); }
  /* The digest of "replay", or of a set of parameters such as "q_net". */
  std::string hash(const std::string &part) {
    char *text = nullptr;
    check(paceline_trainer_hash(&text, get(), detail::c_text("part", part)));
    return detail::take(text);
  }
  /* A set of parameters, flat. *updates, if not nullptr: the number of updates that the set has
   * seen. */
  std::vector<float> parameters(const std::string &set, int64_t *updates = nullptr) {
    std::vector<float> all(size_of(set));
    check(paceline_trainer_get_parameters(all.data(), all.size(), updates, get(), detail::c_text("set", set)));
    return all;
  }
  void set_parameters(const std::string &set, const std::vector<float> &all) {
    check(paceline_trainer_set_parameters(get(), detail::c_text("set", set), all.data(), all.size()));
  }
  /* experience: PACELINE_SAVE_EXPERIENCE, so that a trainer that loads the file continues with the
   * same bits. */
  void save(const std::string &path, bool experience = false) {
    check(paceline_trainer_save(get(), detail::c_text("path", path), experience ? PACELINE_SAVE_EXPERIENCE : 0));
  }
  void load(const std::string &path) { check(paceline_trainer_load(get(), detail::c_text("path", path))); }
  /* The order of the visits of a race, which schedule "recorded" repeats. */
  void save_order(const std::string &path) { check(paceline_trainer_save_order(get(), detail::c_text("path", path))); }
  /* The proposals of the tuner of "ga3c", as comma-separated values. */
  void save_trace(const std::string &path) { check(paceline_trainer_save_trace(get(), detail::c_text("path", path))); }
  void load_experience(const std::string &path) {
    check(paceline_trainer_load_experience(get(), detail::c_text("path", path)));
  }
  /* The results of the latest round, of environments that the library steps; actions: one for each
   * row, as in paceline_spec, or nullptr. */
  void rows(const paceline_rows &rows, void *actions) { check(paceline_trainer_rows(&rows, actions, get())); }

  /* The two halves of a round of environments that you step; actions: one for each row, as in
   * paceline_spec. */
  void act(const paceline_rows &rows, void *actions, int64_t max_ms = 0) {
    check(paceline_trainer_act(get(), &rows, actions, max_ms));
  }
  void observe(const paceline_rows &rows, int64_t max_ms = 0) { check(paceline_trainer_observe(get(), &rows, max_ms)); }

  /* With the setting "updates" outside: takes steps until an update is due and writes its gradient to
   * grad, which gets the size of the trainer's first set of parameters. state of the result says
   * whether there is one: see paceline_trainer_gradient. */
  paceline_gradient gradient(std::vector<float> &grad, int64_t max_ms = 0) {
    grad.resize(first_size());
    auto info = detail::sized<paceline_gradient>();
    check(paceline_trainer_gradient(grad.data(), grad.size(), &info, get(), max_ms));
    return info;
  }
  /* Overwrites that set. updates: those of all learners that the parameters have seen; steps:
   * num_timesteps of all learners, -1: unchanged. */
  void adopt(const std::vector<float> &parameters, int64_t updates, int64_t steps = -1) {
    check(paceline_trainer_adopt(get(), parameters.data(), parameters.size(), updates, steps));
  }

  /* A replay memory apart from its actors and learners, and a learner apart from both: see
   * paceline_trainer_add_steps and the functions after it. */
  void add_steps(uint32_t env, const paceline_steps &steps) { check(paceline_trainer_add_steps(get(), env, &steps)); }
  void draw(const paceline_minibatch &to, double beta = 0) { check(paceline_trainer_draw(&to, get(), beta)); }
  void set_errors(const std::vector<int64_t> &identities, const std::vector<float> &errors) {
    if (errors.size() != identities.size())
      throw Error(PACELINE_EINVAL, "errors: " + std::to_string(errors.size()) + ", must be " +
                                       std::to_string(identities.size()) + ", one for each identity");
    check(paceline_trainer_set_errors(get(), identities.data(), errors.data(), errors.size()));
  }
  paceline_gradient gradient_of(const paceline_minibatch &batch, std::vector<float> &grad) {
    grad.resize(first_size());
    auto info = detail::sized<paceline_gradient>();
    check(paceline_trainer_gradient_of(grad.data(), grad.size(), &info, get(), &batch));
    return info;
  }

  /* A copy of the network as it is at this step. */
  Policy policy() {
    paceline_policy *it = nullptr;
    check(paceline_policy_from_trainer(&it, get()));
    return Policy(it);
  }
  paceline_trainer *get() const noexcept { return it_.get(); }

 private:
  std::size_t size_of(const std::string &set) const {
    auto p = detail::sized<paceline_parameter>();
    const char *const name = detail::c_text("set", set);
    int status;
    std::size_t i = 0;
    while ((status = paceline_trainer_parameter(&p, get(), name, i)) == PACELINE_OK) i++;
    if (i == 0) check(status);
    return p.offset + p.size; /* of the last array */
  }
  std::size_t first_size() {
    if (first_size_ == 0) first_size_ = size_of(detail::field(detail::objects(describe(), "sets").at(0), "name"));
    return first_size_;
  }
  detail::Owner<paceline_trainer> it_;
  std::size_t first_size_ = 0; /* of the first set; 0: not known yet */
};

/* --------------------------------------------------- stores of parameters */

/* The optimiser of a Store: see paceline_store_options. Numbers that are 0 stand for its own
 * defaults. */
struct StoreOptions {
  std::string optimizer = "adagrad";
  double eps = 0, decay = 0, beta1 = 0, beta2 = 0;
  bool centered = false, eps_inside = false;
  uint32_t first_average = 0;
  int64_t first = 0;         /* number of the range's first parameter among those of the network */
  int64_t max_staleness = 0; /* the largest lag of a gradient that is accepted; 0: any */
};

/* The name of a push: see paceline_push. A learner that is started again takes a larger life. */
struct Key {
  int64_t learner = 0, life = 0, step = 1;
};

/* The answer to a push: see paceline_answer. stale: the gradient was too old and is refused. */
struct Answer {
  int64_t version, lag;
  bool stale, duplicate;
};

/* A range of a network's parameters and the state of their optimiser. Any number of threads may use
 * it concurrently. */
class Store {
 public:
  /* Copies n parameters. */
  Store(const float *parameters, std::size_t n, const StoreOptions &options = {}) {
    auto o = detail::sized<paceline_store_options>();
    o.optimizer = detail::c_text("optimizer", options.optimizer);
    o.eps = options.eps, o.decay = options.decay, o.beta1 = options.beta1, o.beta2 = options.beta2;
    o.centered = options.centered, o.eps_inside = options.eps_inside, o.first_average = options.first_average;
    o.first = options.first, o.max_staleness = options.max_staleness;
    paceline_store *it = nullptr;
    check(paceline_store_new(&it, parameters, n, &o));
    adopt(it);
  }
  explicit Store(const std::vector<float> &parameters, const StoreOptions &options = {})
      : Store(parameters.data(), parameters.size(), options) {}
  /* Takes ownership of a handle. */
  explicit Store(paceline_store *it) { adopt(it); }
  static Store load(const std::string &path) {
    paceline_store *it = nullptr;
    check(paceline_store_load(&it, detail::c_text("path", path)));
    return Store(it);
  }
  /* From the bytes of to_bytes(). */
  static Store from_bytes(const std::string &bytes) {
    paceline_store *it = nullptr;
    check(paceline_store_from_bytes(&it, bytes.data(), bytes.size()));
    return Store(it);
  }

  /* The number of parameters. */
  std::size_t size() const noexcept { return size_; }

  /* Takes a step along a gradient of n = size() numbers. seen: the version of the pull after which it
   * was computed. A gradient that is too old is an answer, not an error. */
  Answer push(const float *grad, std::size_t n, double learning_rate, int64_t seen, const Key &key) {
    auto p = detail::sized<paceline_push>();
    p.learning_rate = learning_rate, p.seen = seen, p.learner = key.learner, p.life = key.life, p.step = key.step;
    auto a = detail::sized<paceline_answer>();
    const int status = paceline_store_push(&a, get(), grad, n, &p);
    if (status != PACELINE_ESTALE) check(status);
    return {a.version, a.lag, status == PACELINE_ESTALE, a.duplicate != 0};
  }
  Answer push(const std::vector<float> &grad, double learning_rate, int64_t seen, const Key &key) {
    return push(grad.data(), grad.size(), learning_rate, seen, key);
  }
  /* Copies the n = size() parameters to out; returns the version. */
  int64_t pull(float *out, std::size_t n) const {
    int64_t version = 0;
    check(paceline_store_pull(out, n, &version, get()));
    return version;
  }
  /* The same; out gets the right size. */
  int64_t pull(std::vector<float> &out) const {
    out.resize(size_);
    return pull(out.data(), out.size());
  }

  /* A JSON object: see paceline_store_describe. */
  std::string describe() const {
    char *text = nullptr;
    check(paceline_store_describe(&text, get()));
    return detail::take(text);
  }
  void save(const std::string &path) const { check(paceline_store_save(get(), detail::c_text("path", path))); }
  std::string to_bytes() const {
    for (;;) { /* pushes of other threads may lengthen the ledgers */
      std::size_t size = 0;
      check(paceline_store_to_bytes(nullptr, &size, get()));
      std::string bytes(size, 0);
      const int status = paceline_store_to_bytes(bytes.data(), &size, get());
      if (status == PACELINE_EINVAL) continue;
      check(status);
      bytes.resize(size);
      return bytes;
    }
  }
  paceline_store *get() const noexcept { return it_.get(); }

 private:
  void adopt(paceline_store *it) {
    it_.reset(it);
    size_ = static_cast<std::size_t>(std::stoull(detail::field(describe(), "size")));
  }
  detail::Owner<paceline_store> it_;
  std::size_t size_ = 0;
};

/* ------------------------------------------- the vector environment */

/* The names of all methods, a JSON array. */
inline std::string methods() {
  char *text = nullptr;
  check(paceline_methods(&text));
  return detail::take(text);
}

/* Loads an environment from a file of its own; returns its name. */
inline std::string load_env(const std::string &path) {
  char *name = nullptr;
  check(paceline_env_load(&name, detail::c_text("path", path)));
  return detail::take(name);
}

/* How a VecEnv is made: paceline_vec_options. */
struct VecOptions {
  uint32_t batch_size = 0;
  uint32_t num_threads = 0;
  uint32_t autoreset = PACELINE_NEXT_STEP;
  int32_t pin = -1;
  std::string env_options = {}; /* a JSON object, or "" */
};

/* A column of infos: len numbers of dtype ("int32", "float32", "uint8" or "bool") for each
 * environment; len 0 is one number. */
struct Column {
  std::string name, dtype;
  std::size_t len;
  std::size_t bytes() const noexcept { return (len == 0 ? 1 : len) * (dtype == "int32" || dtype == "float32" ? 4 : 1); }
};

namespace detail {

/* The columns in the text of paceline_vec_describe. */
inline std::vector<Column> columns(const std::string &json) {
  std::vector<Column> list;
  for (const std::string &o : objects(json, "infos"))
    list.push_back({field(o, "name"), field(o, "dtype"), static_cast<std::size_t>(std::stoul(field(o, "len")))});
  return list;
}

template <class T>
constexpr const char *dtype() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, int32_t> || std::is_same_v<T, uint8_t>,
                "numbers are float, int32_t or uint8_t");
  return std::is_same_v<T, float> ? "float32" : std::is_same_v<T, int32_t> ? "int32" : "uint8";
}

}  // namespace detail

/* Results of size() environments. Entry i of every array belongs to environment env_ids[i]. */
class Rows {
 public:
  Rows(uint32_t n, const paceline_spec &obs, const std::vector<Column> &columns, std::size_t masks = 0)
      : rewards(n), terminated(n), truncated(n), started(n), env_ids(n), columns_(&columns), dtype_(obs.dtype),
        row_(detail::components(obs)) {
    const std::size_t size = n * row_ * (dtype_ == PACELINE_FLOAT32 ? 4 : 1);
    obs_.resize(size);
    final_obs_.resize(size);
    action_masks.resize(n * masks);
    final_action_masks.resize(n * masks);
    for (bool final : {false, true})
      for (const Column &c : columns) {
        data_.emplace_back(n * c.bytes());
        (final ? final_infos_ : infos_).push_back(data_.back().data());
      }
  }
  Rows(Rows &&) = default; /* arrays stay where they are */
  Rows &operator=(Rows &&) = default;

  std::vector<double> rewards;
  std::vector<uint8_t> terminated, truncated; /* 0 or 1 */
  std::vector<uint8_t> started;               /* 1: obs is the first of an episode */
  std::vector<int32_t> env_ids;
  /* A byte for each action of each row, 0: not allowed; empty if actions have no masks. */
  std::vector<uint8_t> action_masks, final_action_masks;

  uint32_t size() const noexcept { return static_cast<uint32_t>(rewards.size()); }
  bool ended(std::size_t i) const { return terminated.at(i) != 0 || truncated.at(i) != 0; }

  /* Row i, an array of uint8_t or float. Rows are contiguous. */
  template <class T>
  const T *obs(std::size_t i = 0) const {
    return at<T>(obs_, i);
  }
  /* PACELINE_SAME_STEP: the last observation of the episode, if ended(i). */
  template <class T>
  const T *final_obs(std::size_t i = 0) const {
    return at<T>(final_obs_, i);
  }

  /* A column of infos in row i: uint8_t for "bool". */
  template <class T>
  const T *info(const std::string &name, std::size_t i) const {
    return info_at<T>(infos_, name, i);
  }
  /* PACELINE_SAME_STEP: the same at the end of the episode, if ended(i). */
  template <class T>
  const T *final_info(const std::string &name, std::size_t i) const {
    return info_at<T>(final_infos_, name, i);
  }

  /* The arrays for the C functions, valid as long as this object. */
  paceline_rows arrays() {
    auto r = detail::sized<paceline_rows>();
    r.num_rows = size();
    r.obs = obs_.data(), r.final_obs = final_obs_.data();
    r.rewards = rewards.data(), r.terminated = terminated.data(), r.truncated = truncated.data();
    r.started = started.data(), r.env_ids = env_ids.data();
    r.infos = infos_.data(), r.final_infos = final_infos_.data();
    if (!action_masks.empty()) r.action_masks = action_masks.data(), r.final_action_masks = final_action_masks.data();
    return r;
  }

 private:
  void check_row(std::size_t i) const {
    if (i >= rewards.size())
      throw Error(PACELINE_EINVAL, "row: " + std::to_string(i) + ", must be below " + std::to_string(rewards.size()));
  }
  template <class T>
  const T *at(const std::vector<unsigned char> &bytes, std::size_t i) const {
    const char *is = dtype_ == PACELINE_FLOAT32 ? "float32" : "uint8";
    if (std::strcmp(detail::dtype<T>(), is) != 0)
      throw Error(PACELINE_EINVAL, std::string("obs: ") + detail::dtype<T>() + ", must be " + is);
    check_row(i);
    return reinterpret_cast<const T *>(bytes.data()) + i * row_;
  }
  template <class T>
  const T *info_at(const std::vector<void *> &arrays, const std::string &name, std::size_t i) const {
    check_row(i);
    for (std::size_t k = 0; k < arrays.size(); k++) {
      const Column &c = (*columns_)[k];
      if (c.name != name) continue;
      if (detail::dtype<T>() != (c.dtype == "bool" ? "uint8" : c.dtype))
        throw Error(PACELINE_EINVAL, "info " + name + ": " + detail::dtype<T>() + ", must be " + c.dtype);
      return static_cast<const T *>(arrays[k]) + i * (c.len == 0 ? 1 : c.len);
    }
    throw Error(PACELINE_EINVAL, "info: \"" + name + "\" is not reported by this environment");
  }

  const std::vector<Column> *columns_;
  uint32_t dtype_;
  std::size_t row_; /* components of an observation */
  std::vector<unsigned char> obs_, final_obs_;
  std::vector<std::vector<unsigned char> > data_; /* of both kinds of infos */
  std::vector<void *> infos_, final_infos_;
};

/* num_envs environments of one kind, stepped together
 *
 *     paceline::VecEnv envs("CartPole-v1", 8);
 *     envs.reset();
 *     const paceline::Rows &rows = envs.step(actions);
 *
 * or asynchronously, with rows for batch_size of them at a time:
 *
 *     envs.send_reset(ids);
 *     for (;;) {
 *       const paceline::Rows &rows = envs.recv();
 *       ... choose actions for rows.env_ids ...
 *       envs.send(rows.env_ids, actions);
 *     }
 */
class VecEnv {
 public:
  VecEnv(const std::string &env, uint32_t num_envs, const VecOptions &options = {}) : s_(new State) {
    auto o = detail::sized<paceline_vec_options>();
    o.num_envs = num_envs, o.batch_size = options.batch_size, o.num_threads = options.num_threads;
    o.autoreset = options.autoreset, o.pin = options.pin;
    o.env_options = detail::c_text_or_null("env_options", options.env_options);
    paceline_vec *it = nullptr;
    check(paceline_vec_new(&it, detail::c_text("env", env), &o));
    s_->it.reset(it);
    check(paceline_vec_spec(&s_->obs, &s_->action, it));
    const std::string described = describe();
    s_->columns = detail::columns(described);
    if (detail::field(described, "action_masks") == "true") s_->masks = detail::mask_bytes(s_->action);
    s_->num_envs = num_envs;
    s_->batch_size = options.batch_size == 0 ? num_envs : options.batch_size;
    s_->rows.reserve(1 + blocks()); /* so that none is moved later */
    s_->rows.emplace_back(num_envs, s_->obs, s_->columns, s_->masks);
  }

  paceline_spec observation() const { return self().obs; }
  paceline_spec action() const { return self().action; }
  uint32_t num_envs() const { return self().num_envs; }
  const std::vector<Column> &columns() const { return self().columns; }
  /* A JSON object: see paceline_vec_describe. */
  std::string describe() const {
    char *text = nullptr;
    check(paceline_vec_describe(&text, get()));
    return detail::take(text);
  }

  /* The rows of the latest reset or step: row i is environment i. */
  const Rows &rows() const { return self().rows.front(); }
  /* The same arrays for the C functions, and for a Trainer's act and observe. */
  paceline_rows arrays() { return self().rows.front().arrays(); }
  /* Starts episodes in the environments whose mask byte is not 0 (mask empty: in all). seeds:
   * empty, or one for each environment. */
  const Rows &reset(const std::vector<uint64_t> &seeds = {}, const std::vector<uint8_t> &mask = {}) {
    if (!seeds.empty()) check_size("seeds", seeds.size(), num_envs());
    if (!mask.empty()) check_size("mask", mask.size(), num_envs());
    const paceline_rows r = self().rows.front().arrays();
    check(paceline_vec_reset(get(), data(seeds), data(mask), &r));
    return rows();
  }
  /* Takes an action in every environment. Action is int32_t (discrete actions, or rows of branches),
   * float (rows of a box), or a struct or std::array that is one action (see paceline_spec). */
  template <class Action>
  const Rows &step(const std::vector<Action> &actions) {
    check_actions(actions, num_envs());
    const paceline_rows r = self().rows.front().arrays();
    check(paceline_vec_step(get(), actions.data(), &r));
    return rows();
  }

  /* Sends an action or a reset to each of ids. seeds: empty, or one for each of ids. All sends
   * except the first may run concurrently with recv() on another thread. */
  template <class Action>
  void send(const std::vector<int32_t> &ids, const std::vector<Action> &actions) {
    check_actions(actions, ids.size());
    offer_all();
    check(paceline_vec_send(get(), ids.data(), ids.size(), actions.data()));
  }
  void send_reset(const std::vector<int32_t> &ids, const std::vector<uint64_t> &seeds = {}) {
    if (!seeds.empty()) check_size("seeds", seeds.size(), ids.size());
    offer_all();
    check(paceline_vec_send_reset(get(), ids.data(), ids.size(), data(seeds)));
  }
  /* Sends a reset that begins a new game, also after a lost life. */
  void send_new_game(const std::vector<int32_t> &ids) {
    offer_all();
    check(paceline_vec_send_new_game(get(), ids.data(), ids.size()));
  }
  /* Waits for the rows of batch_size environments, which stay valid until the next recv. Throws the
   * error of an environment that failed, and PACELINE_ETIMEDOUT after max_ms; the next recv goes
   * on. */
  const Rows &recv(int64_t max_ms = 0) {
    if (self().held > 0) { /* the caller is done with these rows */
      offer(self().held);
      self().held = 0;
    }
    check(paceline_vec_recv(get(), max_ms));
    self().held = self().next;
    self().next = self().next + 1 < self().rows.size() ? self().next + 1 : 1;
    return self().rows[self().held];
  }
  /* The number of environments under way. */
  std::size_t under_way() const {
    std::size_t n = 0;
    check(paceline_vec_under_way(&n, get()));
    return n;
  }
  /* Waits for all environments under way and discards their rows. */
  void drain() { check(paceline_vec_drain(get())); }

  /* The state of environment i, which an environment of another VecEnv can restore, too. */
  std::vector<uint8_t> save(uint32_t i) {
    std::size_t size = 0;
    check(paceline_vec_save(nullptr, &size, get(), i));
    std::vector<uint8_t> state(size);
    check(paceline_vec_save(state.data(), &size, get(), i));
    state.resize(size);
    return state;
  }
  void restore(uint32_t i, const std::vector<uint8_t> &state) {
    check(paceline_vec_restore(get(), i, state.data(), state.size()));
  }

  struct Image {
    uint32_t height, width;
    std::vector<uint8_t> rgb; /* [height][width][3] */
  };
  Image render(uint32_t i) {
    Image p{};
    std::size_t size = 0;
    check(paceline_vec_render(nullptr, &size, &p.height, &p.width, get(), i));
    p.rgb.resize(size);
    check(paceline_vec_render(p.rgb.data(), &size, &p.height, &p.width, get(), i));
    return p;
  }
  paceline_vec *get() const noexcept { return s_ ? s_->it.get() : nullptr; }

 private:
  /* On the heap, so that moving a VecEnv moves no array that the library writes to. */
  struct State {
    paceline_spec obs = detail::sized<paceline_spec>(), action = detail::sized<paceline_spec>();
    uint32_t num_envs = 0, batch_size = 0;
    std::vector<Column> columns;
    std::size_t masks = 0;          /* bytes of a row's action mask, 0 where there are none */
    std::vector<Rows> rows;         /* rows[0] for reset and step, the others for recv, in turns */
    std::size_t next = 1;           /* index of the rows that the next recv returns */
    std::size_t held = 0;           /* index of the rows that the latest recv returned; 0: none */
    detail::Owner<paceline_vec> it; /* destroyed first, as it writes to the other members */
  };

  State &self() const {
    if (!s_) throw Error(PACELINE_EHANDLE, "VecEnv: it was moved to another one");
    return *s_;
  }
  static void check_size(const char *what, std::size_t is, std::size_t must) {
    if (is != must)
      throw Error(PACELINE_EINVAL, what + (": " + std::to_string(is)) + ", must be " + std::to_string(must));
  }
  template <class Action>
  void check_actions(const std::vector<Action> &actions, std::size_t n) const {
    check_size("actions", actions.size(), detail::action_entries<Action>(self().action, n));
  }
  template <class T>
  static const T *data(const std::vector<T> &list) {
    return list.empty() ? nullptr : list.data();
  }

  void offer(std::size_t k) {
    const paceline_rows r = self().rows[k].arrays();
    check(paceline_vec_offer(get(), &r));
  }
  /* The number of rows for recv: enough for all environments, and one that the caller reads. */
  std::size_t blocks() const { return (self().num_envs + self().batch_size - 1) / self().batch_size + 1; }
  void offer_all() {
    for (std::size_t k = self().rows.size(); k <= blocks(); k++) {
      self().rows.emplace_back(self().batch_size, self().obs, self().columns, self().masks);
      try {
        offer(k);
      } catch (...) {
        self().rows.pop_back(); /* the next call offers it again */
        throw;
      }
    }
  }

  std::unique_ptr<State> s_;
};

}  // namespace paceline

#endif  // C++17 with exceptions
#endif
