"""The recipe "sb3" equals Stable-Baselines3's Atari wrappers in every step.

The random number of NOOP frames is fixed on both sides. If Stable-Baselines3 is not installed, the
tests compare recorded digests.
"""

import hashlib
import importlib.util

import numpy as np
import pytest

import paceline

ale_py = pytest.importorskip("ale_py", reason="ale-py is not installed")
needs_sb3 = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("stable_baselines3", "cv2")), reason="stable-baselines3 or OpenCV is not installed"
)

# Games with FIRE and lives, without lives, without FIRE, without both, and with lives that count
# down to 0 before the end.
GAMES = ["Breakout", "Pong", "MsPacman", "Freeway", "Seaquest", "Qbert", "SpaceInvaders", "BeamRider"]


class Theirs:
    """make_atari_env and VecFrameStack(4) for one environment, which the caller resets."""

    def __init__(self, game, noops, **keywords):
        import gymnasium
        from stable_baselines3.common import atari_wrappers as wrappers

        gymnasium.register_envs(ale_py)
        wrapper = keywords.pop("wrapper", {})
        self.env = wrappers.AtariWrapper(gymnasium.make(f"{game}NoFrameskip-v4", **keywords), **wrapper)
        inner = self.env
        while not isinstance(inner, wrappers.NoopResetEnv):
            inner = inner.env
        inner.override_num_noops = noops
        self.ale = self.env.unwrapped.ale

    def stacked(self, frame):
        self.stack = [*self.stack[1:], frame[:, :, 0]]
        return np.stack(self.stack)

    def reset(self):
        self.stack = [np.zeros((84, 84), np.uint8)] * 4
        return self.stacked(self.env.reset()[0])

    def step(self, action):
        frame, reward, terminated, truncated, _ = self.env.step(action)
        return self.stacked(frame), float(reward), terminated, truncated


def compare(game, noops, steps, ours=None, **keywords):
    """Plays both sides with the same actions. Returns the numbers of lost lives and of games."""
    theirs = Theirs(game, noops, **keywords)
    env = paceline.make_vec(game, 1, autoreset_mode="disabled", recipe="sb3", noop_min=noops, noop_max=noops, **(ours or {}))
    assert env.single_action_space.n == theirs.env.action_space.n
    obs, infos = env.reset(seed=1)
    assert np.array_equal(obs[0], theirs.reset())
    rng, lives, games = np.random.default_rng(noops), 0, 0
    for step in range(steps):
        action = int(rng.integers(theirs.env.action_space.n))
        obs, rewards, terminated, truncated, infos = env.step([action])
        wanted, reward, end, cut = theirs.step(action)
        assert (rewards[0], terminated[0], truncated[0]) == (reward, end, cut), f"step {step}"
        assert np.array_equal(obs[0], wanted), f"step {step}, ended {end} {cut}"
        assert infos["lives"][0] == theirs.ale.lives(), f"step {step}"
        assert infos["episode_frame_number"][0] == theirs.ale.getEpisodeFrameNumber(), f"step {step}"
        assert infos["game_over"][0] == (theirs.ale.game_over() or cut), f"step {step}"
        if end or cut:
            games += infos["game_over"][0]
            lives += not infos["game_over"][0]
            obs, infos = env.reset(options={"reset_mask": np.ones(1, bool)})
            assert np.array_equal(obs[0], theirs.reset()), f"reset after step {step}"
            assert infos["lives"][0] == theirs.ale.lives(), f"reset after step {step}"
    env.close()
    return lives, games


class Ours:
    def __init__(self, game, noops, **keywords):
        self.env = paceline.make_vec(game, 1, autoreset_mode="disabled", recipe="sb3", noop_min=noops, noop_max=noops, **keywords)
        self.actions = self.env.single_action_space.n

    def reset(self):
        return self.env.reset(options={"reset_mask": np.ones(1, bool)})[0][0]

    def step(self, action):
        obs, rewards, terminated, truncated, _ = self.env.step([action])
        return obs[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0])


def digest(side, actions, steps=400):
    """Returns a digest of every observation after a reset and every result of a step."""
    sum, rng = hashlib.sha256(side.reset().tobytes()), np.random.default_rng(7)
    for _ in range(steps):
        obs, reward, terminated, truncated = side.step(int(rng.integers(actions)))
        sum.update(obs.tobytes() + repr((float(reward), bool(terminated), bool(truncated))).encode())
        if terminated or truncated:
            sum.update(side.reset().tobytes())
    return sum.hexdigest()[:16]


# digest(Theirs(game, 9), ...) with Stable-Baselines3 2.9.2, ale-py 0.12.1 and OpenCV 5.0.0
RECORDED = {
    "Breakout": "38c799d24d941bd0",
    "Pong": "73083fdd2a5cf32a",
    "MsPacman": "b6154d2e84a9b348",
    "Freeway": "10ba56da2531320f",
    "Seaquest": "022deac960b29e52",
    "Qbert": "636c89dfd828e40b",
    "SpaceInvaders": "c2a10c241cadc649",
    "BeamRider": "367141307d6f78fb",
}


@pytest.mark.parametrize("game", GAMES)
def test_games_have_the_recorded_digests(game):
    ours = Ours(game, 9)
    assert digest(ours, ours.actions) == RECORDED[game]
    ours.env.close()


def test_truncated_games_have_the_recorded_digest():
    # the limit is in the third frame of a step
    ours = Ours("Breakout", 9, max_num_frames_per_episode=160)
    assert digest(ours, ours.actions) == "016e2bc52a4b0eb6"
    ours.env.close()


@needs_sb3
@pytest.mark.parametrize("game", GAMES)
def test_every_step_equals_stable_baselines3(game):
    lives, games = compare(game, 1 + 3 * GAMES.index(game), 3000)
    assert games or game in ("Pong", "Freeway")
    assert lives or game in ("Pong", "Freeway")


# A short game may end in the NOOP frames, in or after FIRE, or in a step.
@needs_sb3
@pytest.mark.parametrize("game", ["Breakout", "Pong", "MsPacman"])
@pytest.mark.parametrize("frames", [3, 30, 35, 38, 181])
def test_truncated_games_equal_stable_baselines3(game, frames):
    # ale-py's resets are slow, and there are tens of them a step where games end after three NOOP frames
    steps = 40 if frames == 3 else 200
    _, games = compare(game, 30, steps, {"max_num_frames_per_episode": frames}, max_num_frames_per_episode=frames)
    assert games


@needs_sb3
def test_keywords_equal_those_of_the_wrapper():
    ours = {"episodic_life": False, "reward_clipping": False, "frameskip": 2}
    theirs = {"terminal_on_life_loss": False, "clip_reward": False, "frame_skip": 2}
    _, games = compare("Breakout", 5, 1500, ours, wrapper=theirs)
    assert games
    compare("Seaquest", 5, 500, {"frameskip": 1}, wrapper={"frame_skip": 1})
