"""DQN on Atari in the style of CleanRL: settings and loop are in the script, and the learner is Paceline's.

    pip install '.[atari]' opencv-python-headless    # in the checkout
    python cleanrl_dqn.py [--env_id PongNoFrameskip-v4] [--num_envs 8] ...

The script steps its own environments, with its own wrappers, and gets actions from the model. The
updates run meanwhile on the library's threads. train_pong.py is faster: there the library steps the
games, too.
"""

import argparse
import time
from dataclasses import dataclass, fields

import ale_py
import gymnasium as gym
import numpy as np

from paceline import DQN
from paceline.logger import configure

gym.register_envs(ale_py)


@dataclass
class Args:
    env_id: str = "BreakoutNoFrameskip-v4"
    seed: int = 1
    total_timesteps: int = 10_000_000
    learning_rate: float = 1e-4
    num_envs: int = 1
    buffer_size: int = 1_000_000
    gamma: float = 0.99
    tau: float = 1.0
    target_network_frequency: int = 1000
    batch_size: int = 32
    start_e: float = 1.0
    end_e: float = 0.01
    exploration_fraction: float = 0.10
    learning_starts: int = 80_000
    train_frequency: int = 4
    folder: str = "runs"


class LifeByLife(gym.Wrapper):
    """Ends an episode when a life is lost. A reset continues with the next life, and starts a new game after the last one."""

    lives, game_over = 0, True

    def reset(self, **kwargs):
        if not self.game_over:
            obs, _, terminated, truncated, info = self.env.step(0)  # NOOP: leaves the frame in which the life ended
            self.game_over = terminated or truncated
        if self.game_over:
            obs, info = self.env.reset(**kwargs)
            self.game_over = False
        self.lives = self.unwrapped.ale.lives()
        return obs, info

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.game_over = terminated or truncated
        before, self.lives = self.lives, self.unwrapped.ale.lives()
        # Some games have 0 lives for some frames before they are over.
        return obs, reward, terminated or 0 < self.lives < before, truncated, info


class FireReset(gym.Wrapper):
    """Presses FIRE after a reset, in games that wait for it."""

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        if "FIRE" in self.unwrapped.get_action_meanings():
            obs, _, terminated, truncated, info = self.env.step(self.unwrapped.get_action_meanings().index("FIRE"))
            if terminated or truncated:
                obs, info = self.env.reset(**kwargs)
        return obs, info


def make_env():
    env = gym.make(args.env_id)
    env = gym.wrappers.RecordEpisodeStatistics(env)  # of whole games: no outer wrapper resets a game before its end
    env = gym.wrappers.AtariPreprocessing(env, noop_max=30, frame_skip=4)
    env = LifeByLife(env)
    env = FireReset(env)
    env = gym.wrappers.TransformReward(env, np.sign)
    return gym.wrappers.FrameStackObservation(env, 4, padding_type="zero")


parser = argparse.ArgumentParser()
for field in fields(Args):
    parser.add_argument(f"--{field.name}", type=field.type, default=field.default)
args = Args(**vars(parser.parse_args()))
run = f"{args.folder}/{args.env_id.replace('/', '_')}__cleanrl_dqn__{args.seed}__{int(time.time())}"
logger = configure(run, ["csv"])

envs = gym.vector.SyncVectorEnv([make_env] * args.num_envs, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)
model = DQN(
    "CnnPolicy",
    envs,
    seed=args.seed,
    learning_rate=args.learning_rate,
    buffer_size=args.buffer_size,
    gamma=args.gamma,
    tau=args.tau,
    target_update_interval=args.target_network_frequency,
    batch_size=args.batch_size,
    exploration_initial_eps=args.start_e,
    exploration_final_eps=args.end_e,
    exploration_fraction=args.exploration_fraction,
    learning_starts=args.learning_starts,
    train_freq=args.train_frequency,
    frame_stack=4,
)

with model:
    start_time = time.time()
    obs, _ = envs.reset(seed=args.seed)
    model.begin(args.total_timesteps, obs)
    while model.num_timesteps < args.total_timesteps:
        actions = model.act()  # epsilon-greedy; random while learning_starts lasts
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)
        model.observe(next_obs, rewards, terminations, truncations, infos.get("final_obs"))  # trains meanwhile
        step = model.num_timesteps
        ended = infos.get("final_info", {})
        if "episode" in ended:
            for episodic_return in ended["episode"]["r"][ended["_episode"]]:
                print(f"global_step={step}, episodic_return={episodic_return}", flush=True)
                logger.record_mean("charts/episodic_return", float(episodic_return))
        if step % 1000 < args.num_envs and step > args.learning_starts:
            stats = model.stats
            logger.record("losses/td_loss", stats["loss"])
            logger.record("charts/epsilon", stats["epsilon"])
            logger.record("charts/SPS", int(step / (time.time() - start_time)))
            logger.dump(step)
    model.save(f"{run}/model")
envs.close()
logger.close()
print(f"saved {run}/model.zip")
