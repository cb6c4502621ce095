"""DQN with Concurrent Training and Synchronized Execution, in Stable-Baselines3's shape."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from . import _ffi, _lib
from .config import LOCAL, Config, encode_options, settings
from .errors import ConfigError, HandleError, PacelineWarning
from .learning import Course
from .logger import Logger, make_logger
from .parameters import Parameters
from .policy import Evaluation, Policy
from .schedules import Schedule
from .spaces import ActionLayout, Array, ObsLayout, gymnasium_spaces
from .vector import Rows, Source, adapt, built_in


class Hashes(NamedTuple):
    """SHA-256 digests: the transitions that can be sampled, theta, theta-minus."""

    replay: str
    weights: str
    target: str


class DQN:
    """Deep Q-learning while environments run: stable-baselines3's DQN, faster.

    policy: "MlpPolicy" (dense layers, policy_kwargs={"net_arch": [128, 128]}),
        "CnnPolicy" (the Nature CNN, for pictures of at least 36x36) or "auto".
    env: the name of a built-in environment (CartPole-v1, Acrobot-v1,
        MountainCar-v0, Catch-v0, Bricks-v0, Pong and the other Atari games),
        stepped by the library's threads; a gymnasium.Env; or a
        gymnasium.vector.VectorEnv in any autoreset mode. One that make_vec made
        stands for its name and number: the library steps such ones of its own.
    learning_rate: a number, or a straight line: linear(1e-3), (1e-3, 0.0),
        "lin_0.001", or a straight-line function of the remaining progress.
    seed: of everything random. The same seed and settings give the same
        weights, bit for bit, for any num_threads. None picks one (model.seed).

    Beyond stable-baselines3:

    num_envs: environments stepped together (a vector environment has its own
        number). num_threads: threads that compute at any time, stepping, acting
        and learning together; 0 for one per core.
    concurrent: minibatch updates run beside the environments, on experience up
        to the last window. synchronized: one forward pass for all environments
        of a round. With num_envs=1 and both off this is the textbook's DQN.
    actor: whose weights act: "online", "target", "snapshot" (those at the
        window's start) or "auto". window: steps between two flushes of new
        experience into the replay memory; None: min(target_update_interval, 1000).
    exploration_steps: steps over which epsilon falls, instead of
        exploration_fraction. precision: "fp32", or "bf16" for networks whose
        products multiply bfloat16 (sums and weights stay float32). optimizer,
        optimizer_eps, loss, loss_reduction, frame_stack: see `paceline options`.
        env_kwargs: what a built-in environment named by env is made with, the
        keywords of make_vec: {"recipe": "mnih2015"}.

    All periods (train_freq, target_update_interval, learning_starts, eval_freq)
    count steps of all environments together, and each environment flips its own
    exploration coin; stable-baselines3 counts vector steps and flips one for all.

    A model may be used by one thread at a time; stop() may be called from any.
    Close it, or use it in a with statement.
    """

    def __init__(
        self,
        policy: str,
        env: Any,
        learning_rate: Schedule = 1e-4,
        buffer_size: int = 1_000_000,
        learning_starts: int = 100,
        batch_size: int = 32,
        tau: float = 1.0,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 4,
        gradient_steps: int = 1,
        replay_buffer_class: None = None,
        replay_buffer_kwargs: None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        target_update_interval: int = 10_000,
        exploration_fraction: float = 0.1,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.05,
        max_grad_norm: float | None = 10,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: Mapping[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: str = "auto",
        _init_setup_model: bool = True,
        *,
        num_envs: int | None = None,
        num_threads: int | None = None,
        concurrent: bool = True,
        synchronized: bool = True,
        actor: str = "auto",
        window: int | None = None,
        exploration_steps: int | None = None,
        optimizer: str = "adam",
        optimizer_eps: float | None = None,
        loss: str = "huber",
        loss_reduction: str = "mean",
        precision: str = "fp32",
        frame_stack: int | None = None,
        env_kwargs: dict[str, Any] | None = None,
    ) -> None:
        keywords = {k: v for k, v in locals().items() if k not in ("self", "env", "__class__")}
        # policy_kwargs may name the optimiser as stable-baselines3 does.
        if optimizer == "adam" and optimizer_eps is None:
            del keywords["optimizer"], keywords["optimizer_eps"]
        self._setup(Config(), env, keywords)

    @classmethod
    def from_preset(cls, preset: str, env: Any, **overrides: Any) -> DQN:
        """A model with a documented table of settings, any of which a keyword overrides.

        preset: "tuned" (values that solve the built-in environments CartPole-v1,
        Catch-v0 and Bricks-v0), "mnih2015" (the Nature paper's) or "fastdqn"
        (the fast DQN paper's). `paceline preset NAME ENV` prints the table.
        """
        config = Config()
        config.preset(preset, built_in(env)[0] or getattr(getattr(env, "spec", None), "id", None) or "")
        self = cls.__new__(cls)
        self._setup(config, env, overrides, preset=True)
        return self

    @classmethod
    def load(cls, path: str | os.PathLike[str], env: Any = None, **overrides: Any) -> DQN:
        """The model that save wrote, at the step where it was.

        env: needed where the environments were stepped from Python. overrides:
        keywords that do not shape the state, such as num_threads or verbose.
        learn(..., reset_num_timesteps=False) goes on where the saved one was.
        """
        config = Config()
        config.load(path)
        if env is None:
            env = config.get("env")
            if not env:
                raise ConfigError(f"env: None, must be given: {os.fspath(path)} was trained on environments stepped from Python")
        self = cls.__new__(cls)
        self._setup(config, env, overrides, preset=True)
        try:
            _lib.lib().paceline_trainer_load(self._trainer.value, _lib.encode(path))
        except BaseException:
            self.close()
            raise
        self._begun = True
        return self

    # ------------------------------------------------------------- making it

    def _setup(self, config: Config, env: Any, keywords: dict[str, Any], preset: bool = False) -> None:
        """Makes the trainer. With preset, settings that no keyword names stay the config's."""
        unknown = set(keywords) - KEYWORDS
        if unknown:
            raise TypeError(f"DQN() got an unexpected keyword argument {sorted(unknown)[0]!r}")
        self._env = env
        self.env_name, given, made_with = built_in(env)
        env_kwargs = keywords.pop("env_kwargs", None)
        if env_kwargs and (self.env_name is None or made_with):
            raise ConfigError(f"env_kwargs: {env_kwargs!r}, the environment given has been made already")
        self._source: Source | None = None if self.env_name is not None else adapt(env)
        self._given_seed = keywords.pop("seed", None)
        num_envs = keywords.pop("num_envs", None)
        values = settings(keywords)
        if self._source is not None:
            given, values["autoreset"] = self._source.num_envs, self._source.autoreset
        if given is not None and num_envs not in (None, given):
            raise ConfigError(f"num_envs: {num_envs}, the environment given has {given}")
        values["env"] = self.env_name or ""
        if env_kwargs or made_with:
            values["env_options"] = (encode_options(env_kwargs or made_with) or b"").decode()
        elif not preset:
            values["env_options"] = ""
        if given or num_envs is not None or not preset:
            values["num_envs"] = given or (1 if num_envs is None else num_envs)
        if self._given_seed is not None or not preset:
            values["seed"] = secrets.randbits(31) if self._given_seed is None else self._given_seed
        config.update(values)
        self.seed = int(config.get("seed"))
        self.verbose: int = keywords.get("verbose", 0)
        self.tensorboard_log: str | None = keywords.get("tensorboard_log")
        self.logger = Logger()
        self.evaluations: list[tuple[int, Evaluation]] = []
        self.best_policy: Policy | None = None
        self.best_mean_return = float("-inf")
        self._make_trainer(config)
        if self.verbose:
            print(f"replay memory: {self.setting('buffer_size')} transitions in {self.stats['replay_bytes'] / 1e6:,.1f} MB", flush=True)
        if values.get("net_arch") and self.policy_name == "CnnPolicy":
            self.close()
            raise ConfigError(f"policy_kwargs['net_arch']: {values['net_arch']}, must be empty: the Nature CNN's layers are fixed")

    def _make_trainer(self, config: Config) -> None:
        lib = _lib.lib()
        source = self._source
        if source is None:
            self._trainer = _lib.new_handle("paceline_trainer_free", lib.paceline_trainer_new, config.handle.value)
            self._rows: Rows | None = None
        else:
            obs, actions = source.layout.spec(), source.actions.spec()
            self._trainer = _lib.new_handle(
                "paceline_trainer_free", lib.paceline_trainer_new_push, config.handle.value, ctypes.byref(obs), ctypes.byref(actions)
            )
            self._rows = Rows.shared(lib.paceline_trainer_buffers, self._trainer, source.layout)
        _lib.close_at_exit(self)
        self._config = config
        self._window = self._window_of(config)
        self._concurrent = config.get("concurrent") == "true"
        self._rollout = int(config.get("train_freq"))
        self._begun = False
        self._needs_reset = True  # the environments stepped from Python have no episode in progress
        self._stop_asked = False
        self._acting: Policy | None = None
        self._acting_key: tuple[int, ...] = ()
        self._rng = np.random.default_rng(self.seed)
        self._parameters = Parameters(self._trainer)
        # The policy knows what the built-in environment looks like.
        policy = self._current_policy()
        self.obs_layout: ObsLayout = policy.obs_layout
        self.action_layout: ActionLayout = policy.action_layout
        if (name := config.get("policy")) == "auto":
            name = "CnnPolicy" if len(self.obs_layout.shape) == 3 else "MlpPolicy"
        self.policy_name = name
        told = json.loads(_lib.take_text(lib.paceline_trainer_describe, self._trainer.value) or "{}")
        self.recipe = f"{told['recipe']} {told['recipe_hash']}".strip()
        self._warn_notices()

    def _window_of(self, config: Config) -> int:
        """The setting window with its default filled in, to know when act may wait."""
        window, target = int(config.get("window")), int(config.get("target_update_interval"))
        if window or config.get("actor") == "target":
            return window or target
        return max(min(target, 1000), int(config.get("train_freq")), int(config.get("num_envs")))

    def setting(self, name: str) -> str:
        """A setting of the library, as text; `paceline options` lists them."""
        return self._config.get(name)

    # ---------------------------------------------------------------- learning

    def learn(
        self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int | None = 4,
        tb_log_name: str = "DQN",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        *,
        eval_freq: int = 0,
        n_eval_episodes: int = 20,
        eval_env: Any = None,
    ) -> DQN:
        """Takes total_timesteps further steps, warm-up included, and trains.

        callback: objects in stable-baselines3's shape, functions (locals,
            globals) -> bool, or a list of them, called after every round.
        log_interval: episodes between two log records (None: none).
        reset_num_timesteps: count from 0, with a new warm-up and new schedules;
            False goes on with those of the course before.
        eval_freq: every so many steps n_eval_episodes greedy episodes are
            played, in environments of their own for a built-in env, else in
            eval_env. The results are in model.evaluations, a list of
            (num_timesteps, Evaluation); the best weights in model.best_policy,
            their mean in model.best_mean_return.

        Ctrl-C raises KeyboardInterrupt within a second; the model is then
        usable as it stands, and learn(rest, reset_num_timesteps=False) goes on.
        """
        lib = _lib.lib()
        self._check_open()
        flags = 0
        if reset_num_timesteps or not self._begun:
            flags = _ffi.RESET_TIMESTEPS | _ffi.RESET_ENVS
            self.evaluations = []
            self._forget_best()
        if self._source is not None:
            assert self._rows is not None
            self._source.check()
            if self._needs_reset:
                flags |= _ffi.RESET_ENVS
            if flags & _ffi.RESET_ENVS:
                self._source.reset(self._rows, None if self._begun else self._given_seed)
                self._needs_reset = False
        if total_timesteps < 1:
            raise ConfigError(f"total_timesteps: {total_timesteps}, must be at least 1")
        lib.paceline_trainer_begin(self._trainer.value, int(total_timesteps), flags)
        self._begun = True
        self._stop_asked = False
        self.logger = make_logger(self.verbose, self.tensorboard_log, tb_log_name, reset_num_timesteps)
        try:
            Course(self, int(total_timesteps), callback, log_interval, eval_freq, n_eval_episodes, eval_env, progress_bar).run()
        finally:
            self.logger.close()
        return self

    def stop(self) -> None:
        """Makes the learn in progress return after the round at hand. Any thread may call it."""
        self._stop_asked = True
        _lib.lib().paceline_trainer_stop(self._trainer.value)

    # ------------------------------------------------------------------ acting

    def predict(self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False) -> tuple[Array, Any]:
        """(actions, state) for one observation or a batch.

        Greedy, or with probability exploration_rate a random action, for each
        row by itself. Pictures may be [C, H, W], [H, W, C] or [H, W].
        """
        policy = self._current_policy()
        if deterministic:
            return policy.act(observation), state
        epsilon = self.exploration_rate

        def explore(n: int) -> tuple[Array, Array]:
            return self._rng.random(n) < epsilon, self._rng.integers(policy.action_layout.n, size=n)

        return policy._act(observation, explore), state

    def policy_snapshot(self) -> Policy:
        """A frozen copy of the network as it is at this step; close it after use."""
        lib = _lib.lib()
        self._check_open()
        handle = _lib.new_handle("paceline_policy_free", lib.paceline_policy_from_trainer, self._trainer.value)
        source = self._source
        return Policy(handle, *((source.layout, source.actions) if source is not None else (None, None)))

    def evaluate(self, env: Any = None, episodes: int = 20, epsilon: float = 0.0, seed: int = 0) -> Evaluation:
        """Plays whole episodes with the network as it is; see Policy.evaluate."""
        with self.policy_snapshot() as policy:
            if env is None and self.env_name is None:
                raise ConfigError("env: None, must be an environment of its own to evaluate in")
            return self._evaluate(policy, env, episodes, epsilon, seed)

    def _evaluate(self, policy: Policy, env: Any, episodes: int, epsilon: float = 0.0, seed: int = 0) -> Evaluation:
        """As Policy.evaluate; an environment's name means one like those that the model learns in."""
        env = self.env_name if env is None else env
        options = self._config.get("env_options") if env == self.env_name else ""
        return policy.evaluate(env, episodes, epsilon, seed, **json.loads(options or "{}"))

    def _current_policy(self) -> Policy:
        """A policy with the weights of this step, copied only when they have changed."""
        stats = self._read_stats()
        key = (int(stats.num_timesteps), int(stats.updates))
        if self._acting is None or key != self._acting_key:
            policy = self.policy_snapshot()
            if self._acting is not None:
                self._acting.close()
            self._acting = policy
            self._acting_key = (key[0], int(self._read_stats().updates))
        return self._acting

    # -------------------------------------------------------------- where it is

    @property
    def num_timesteps(self) -> int:
        """Steps taken, of all environments together, warm-up included."""
        return int(self._read_stats().num_timesteps)

    @property
    def exploration_rate(self) -> float:
        """Epsilon at this step."""
        return float(self._read_stats().epsilon)

    @property
    def stats(self) -> dict[str, float]:
        """Every field of paceline_stats by its name."""
        stats = self._read_stats()
        return {name: getattr(stats, name) for name, *_ in stats._fields_[2:]}

    def hashes(self) -> Hashes:
        """Digests of replay and weights: equal for equal seeds and settings."""
        out = _ffi.Hashes()
        _lib.lib().paceline_trainer_hash(ctypes.byref(out), self._trainer.value)
        return Hashes(out.replay.decode(), out.weights.decode(), out.target.decode())

    @property
    def observation_space(self) -> Any:
        if self._source is not None:
            return self._source.spaces()[0]
        return gymnasium_spaces(self.obs_layout, self.action_layout)[0]

    @property
    def action_space(self) -> Any:
        if self._source is not None:
            return self._source.spaces()[1]
        return gymnasium_spaces(self.obs_layout, self.action_layout)[1]

    def get_env(self) -> Any:
        """The environment that was given: an object, or the name of a built-in one."""
        return self._env

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Goes on with other environments of the same spaces and number.

        The episodes in progress are cut off (truncated) at the next learn.
        """
        if self._source is None:
            if env != self._env:
                raise ConfigError(f"env: {env!r}, this model steps the built-in {self._env} itself and cannot change to another")
            return
        if isinstance(env, str):
            raise ConfigError(f"env: {env!r}, must be a Gymnasium environment: this model's are stepped from Python")
        source, old = adapt(env), self._source
        new = (source.layout.shape, source.layout.dtype, source.actions.n, source.num_envs, source.autoreset)
        have = (old.layout.shape, old.layout.dtype, old.actions.n, old.num_envs, old.autoreset)
        if new != have:
            raise ConfigError(f"env: (shape, dtype, actions, num_envs, autoreset) is {new}, must be {have}")
        self._source, self._env, self._needs_reset = source, env, True

    def _read_stats(self) -> _ffi.Stats:
        stats = _ffi.Stats()
        _lib.lib().paceline_trainer_stats(ctypes.byref(stats), self._trainer.value)
        return stats

    # ------------------------------------------------------ weights and files

    def get_parameters(self) -> dict[str, dict[str, Array]]:
        """{"policy": {"q_net....": array, "q_net_target....": array}}, copies, in stable-baselines3's names and shapes."""
        return {"policy": self._parameters.read()}

    def set_parameters(self, parameters: Mapping[str, Mapping[str, Any]], exact_match: bool = True, device: str = "auto") -> None:
        """Sets weights from get_parameters, this model's or stable-baselines3's.

        exact_match: every name must be there and nothing else; False takes what
        there is. The optimiser's state is not part of it.
        """
        settings({"device": device})
        if not isinstance(parameters, Mapping) or "policy" not in parameters:
            raise ConfigError("parameters: must be a dict with the key 'policy', as get_parameters gives (DQN.load reads files)")
        extra = set(parameters) - {"policy"}
        if extra and exact_match:
            raise ConfigError(f"parameters: {sorted(extra)} cannot be set; exact_match=False takes 'policy' only")
        self._parameters.write(parameters["policy"], exact_match)
        self._acting_key = ()

    def save(self, path: str | os.PathLike[str], replay: bool = False) -> None:
        """Writes a checkpoint for load (and Policy.load).

        replay: everything, so that the model that loads it goes on with the
        same bits (where the environments are built in). An older file at path
        is replaced at the end, or kept if writing fails.
        """
        _lib.lib().paceline_trainer_save(self._trainer.value, _lib.encode(path), _ffi.SAVE_REPLAY if replay else 0)

    # ------------------------------------------------------------------ ending

    @property
    def closed(self) -> bool:
        return self._trainer.closed

    def close(self) -> None:
        """Ends the threads and frees the memory; closing twice is fine.

        best_policy stays usable. The environment given is not closed.
        """
        if self._acting is not None:
            self._acting.close()
            self._acting = None
        self._rows = None
        self._trainer.close()
        self._config.close()

    def __enter__(self) -> DQN:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        trainer = self.__dict__.get("_trainer")
        if trainer is not None and not trainer.closed and trainer.owned:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)
            self.close()

    _exit = __del__

    def __repr__(self) -> str:
        what = self.env_name or type(self._env).__name__
        return f"<paceline.DQN on {what}{', closed' if self.closed else ''}>"

    def _check_open(self) -> None:
        if self.closed:
            raise HandleError("model: closed")

    def _forget_best(self) -> None:
        self.best_policy, self.best_mean_return = None, float("-inf")

    def _evaluation_seed(self, number: int) -> int:
        """A seed for evaluation number so that no two share their episodes."""
        return (self.seed * 1_000_003 + number) % 2**63

    def _warn_notices(self) -> None:
        """Says what the library has to say once."""
        lib = _lib.lib()
        while (text := _lib.take_text(lib.paceline_trainer_notice, self._trainer.value)) is not None:
            warnings.warn(text, PacelineWarning, stacklevel=5)


KEYWORDS = frozenset(DQN.__init__.__annotations__) - {"return", "env"} | LOCAL
