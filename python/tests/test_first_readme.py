"""The Python of commit 5d74e87's README, the first that there was, runs with the package of today.

Steps are reduced, and what its comments leave to the reader is given; else the text is that README's.
"""

import importlib.util
from pathlib import Path

import pytest

PLUGIN = Path(__file__).resolve().parents[2] / "examples" / "c" / "env_plugin.c"

ENVIRONMENTS = """
import gymnasium, paceline

envs = gymnasium.make_vec("paceline/Pong-v0", num_envs=8, vectorization_mode="vector_entry_point")  # or
envs = paceline.make_vec("Pong", num_envs=8, recipe="mnih2015", autoreset_mode="same_step")
obs, infos = envs.reset(seed=1)                     # uint8 [8, 4, 84, 84]; infos: lives, raw_reward, game_over, recipe, ...
assert obs.shape == (8, 4, 84, 84) and {"lives", "raw_reward", "game_over", "recipe"} <= set(infos)

envs = paceline.make_vec("Pong", num_envs=32, batch_size=8)
envs.async_reset()
obs, rewards, terminated, truncated, infos = envs.recv()           # the first 8 that are done
envs.send(policy(obs), infos["env_id"])
assert len(obs) == 8
"""

OWN = """
import paceline

envs = paceline.make_vec(make_my_env, num_envs=8, workers=4)       # your own environments, in processes, likewise
envs.reset(seed=1)
envs.close()
"""

PRESET = """
from paceline import DQN            # was: from stable_baselines3 import DQN

with DQN.from_preset("tuned", "CartPole-v1", seed=1) as model:
    model.learn(2_000, eval_freq=1000)
    print(model.best_mean_return)
    model.save("cartpole.paceline")
"""

PONG = """
from paceline import DQN
from paceline.atari import ALEInterface   # was: from ale_py import ALEInterface

with DQN("CnnPolicy", "Pong", num_envs=8, buffer_size=10_000, learning_starts=100) as model:
    model.learn(200, progress_bar=True)
"""

LANDER = """
import gymnasium
from paceline import DQN

envs = gymnasium.make_vec("LunarLander-v3", num_envs=8)     # pip install "gymnasium[box2d]"
with DQN("MlpPolicy", envs, learning_starts=100) as model:
    model.learn(400, progress_bar=True)
"""


def have_pong():
    import paceline

    try:
        paceline.make_vec("Pong", num_envs=1).close()
    except (OSError, ValueError, RuntimeError) as error:
        pytest.skip(f"no cartridge of Pong: {error}")


def test_environments(process):
    have_pong()
    process("policy = lambda obs: [0] * len(obs)\n" + ENVIRONMENTS, options=())


def test_environments_of_ones_own(process):
    process("import gymnasium\nmake_my_env = lambda: gymnasium.make('CartPole-v1')\n" + OWN, options=())


def test_plugin(process, compile_c, tmp_path):
    if not PLUGIN.is_file():
        pytest.skip("no checkout around the tests")
    import paceline

    include = Path(paceline.__file__).parent / "include"
    compile_c(PLUGIN.read_text(), "libmyenv.so", "-shared", "-fPIC", f"-I{include}")
    process('import paceline\nname = paceline.load_env("./libmyenv.so")\npaceline.make_vec(name, num_envs=2).reset()', options=())


def test_preset(process, tmp_path):
    process(PRESET, options=())
    assert (tmp_path / "cartpole.paceline").is_file()


def test_pong(process):
    have_pong()
    process(PONG, options=())


def test_environments_of_gymnasium(process):
    text = LANDER
    if importlib.util.find_spec("Box2D") is None:
        text = text.replace("LunarLander-v3", "CartPole-v1")
    process(text, options=())
