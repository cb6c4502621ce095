"""Trains until Ctrl-C and prints the state of the model. argv: the way of training."""

import signal
import sys
import threading
import time

import numpy as np
from gymnasium.vector import AutoresetMode

from envs import SMALL, vector
from paceline import A2C, A3C, APPO, DQN, GA3C, PPO, PQN

assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
how = sys.argv[1]
if how == "pixels":
    # At the end of a window the call waits for hundreds of updates, which take seconds.
    keywords = {"buffer_size": 5000, "learning_starts": 100, "target_update_interval": 200, "window": 200, "train_freq": 1}
    model = DQN("CnnPolicy", "Catch-v0", num_envs=4, seed=1, **keywords)
elif how in ("push-pixels", "own-loop"):
    from envs import Image

    keywords = {"buffer_size": 5000, "learning_starts": 100, "target_update_interval": 200, "window": 200, "gradient_steps": 20}
    envs = vector(AutoresetMode.SAME_STEP, 2, Image)
    model = DQN("CnnPolicy", envs, seed=1, **keywords)
elif how == "push":
    model = DQN("MlpPolicy", vector(AutoresetMode.SAME_STEP, 2), **SMALL)
elif how == "a2c":
    model = A2C("CnnPolicy", "Catch-v0", num_envs=4, n_steps=128, seed=1)
elif how == "a2c-push":
    model = A2C("MlpPolicy", vector(AutoresetMode.NEXT_STEP, 2), seed=1)
elif how == "a3c":
    model = A3C("CnnPolicy", "Catch-v0", num_envs=4, learners=4, n_steps=128, schedule="race", seed=1)
elif how == "a3c-push":
    model = A3C("MlpPolicy", vector(AutoresetMode.NEXT_STEP, 4), learners=2, seed=1)
elif how == "appo":
    model = APPO("CnnPolicy", "Catch-v0", num_envs=4, learners=2, n_steps=128, batch_size=64, n_epochs=20, seed=1)
elif how == "ga3c":
    model = GA3C("CnnPolicy", "Catch-v0", num_envs=4, schedule="race", seed=1)
elif how == "ga3c-push":
    model = GA3C("MlpPolicy", vector(AutoresetMode.NEXT_STEP, 4), seed=1)
elif how in ("ppo", "ppo-push", "ppo-own-loop"):  # updates take seconds
    from envs import Image

    envs = vector(AutoresetMode.SAME_STEP, 4, Image)
    env = "Catch-v0" if how == "ppo" else envs
    keywords = {"num_envs": 4} if how == "ppo" else {}
    model = PPO("CnnPolicy", env, n_steps=128, batch_size=64, n_epochs=20, seed=1, **keywords)
elif how == "pqn":
    model = PQN("CnnPolicy", "Catch-v0", num_envs=4, n_steps=128, batch_size=64, n_epochs=20, seed=1)
else:
    model = DQN("MlpPolicy", "CartPole-v1", num_envs=2, **SMALL)
before = signal.getsignal(signal.SIGINT)


def say_when_ready():
    """Prints ready once an update or the evaluation is in progress."""
    while model._evaluating is None if how == "evaluation" else model.stats["updates"] == 0:
        time.sleep(0.001)
    print("ready", flush=True)


threading.Thread(target=say_when_ready, daemon=True).start()
try:
    if how.endswith("own-loop"):
        model.begin(100_000_000, envs.reset(seed=1)[0])
        while True:
            obs, rewards, terminated, truncated, infos = envs.step(model.act())
            model.observe(obs, rewards, terminated, truncated, infos.get("final_obs"))
    evaluations = {"eval_freq": 200, "n_eval_episodes": 1_000_000} if how == "evaluation" else {}
    model.learn(100_000_000, (lambda *_: True) if how == "callback" else None, log_interval=None, **evaluations)
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert signal.getsignal(signal.SIGINT) is before
steps = model.num_timesteps
assert steps > 0
model.save("model", replay=True)
model.predict(np.zeros(model.observation_space.shape, model.observation_space.dtype))
model.get_parameters()
print("saved", flush=True)
model.learn(20, reset_num_timesteps=False)
assert model.num_timesteps >= steps + 20, (steps, model.num_timesteps)
model.close()
print("usable", flush=True)
