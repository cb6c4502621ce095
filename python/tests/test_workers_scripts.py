"""Scripts that step several Python environments: no main guard is needed, and workers do not run
the script again.
"""

import os
import subprocess
import sys

import pytest

import worker_envs as we
from conftest import slow_but
from paceline import make_vec
from paceline.errors import ConfigError

BESIDE = """
import gymnasium

class Beside(gymnasium.RewardWrapper):
    def reward(self, reward):
        return reward + 10

def make_one():
    return Beside(gymnasium.make("Corridor-v0"))
"""

# Environments of every origin in worker processes. The module beside is in a folder that the script
# adds to sys.path.
SCRIPT = """
print("runs once")
import sys
sys.path.insert(0, {beside!r})
import gymnasium, numpy as np
import paceline
import beside

class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 9, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.look(), dict()

    def step(self, action):
        self.at += int(action)
        return self.look(), float(action), self.at >= 3, False, dict()

    def look(self):
        return np.array([self.at], np.float32)

class Doubled(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 2 * reward

gymnasium.register("Corridor-v0", entry_point=f"{{__name__}}:Corridor", max_episode_steps=9)
gymnasium.register("Made-v0", entry_point=lambda: Doubled(gymnasium.make("Corridor-v0")))
named = lambda: gymnasium.make("Made-v0")
for env, n in (("Corridor-v0", 1), ([Corridor, lambda: Doubled(Corridor()), named, beside.make_one], 4)):
    envs = paceline.make_vec(env, n, workers=1)
    assert envs.workers == 1
    envs.reset(seed=1)
    print(*envs.step([2] * n)[1])
    envs.close()
"""
SEEN = ["runs once", "2.0", "2.0 4.0 4.0 12.0"]


@pytest.fixture
def script(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "beside.py").write_text(BESIDE)
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(beside=str(tmp_path / "elsewhere")))
    return path


def run(*command, cwd, **options):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in [os.path.dirname(__file__), *sys.path])}
    done = subprocess.run([sys.executable, *command], cwd=cwd, env=env, capture_output=True, text=True, timeout=300, **options)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("way", slow_but(("file", "interactive"), ["file", "module", "stdin", "-c", "interactive"]))
def test_workers_start_without_a_guard(script, way):
    text, cwd = script.read_text(), script.parent
    seen = {
        "file": lambda: run("script.py", cwd=cwd),
        "module": lambda: run("-m", "script", cwd=cwd),
        "stdin": lambda: run("-", cwd=cwd, input=text),
        "-c": lambda: run("-c", text, cwd=cwd),
        # A notebook runs its cells in the namespace of another program's main module.
        "interactive": lambda: run("-c", f"import __main__, code; code.InteractiveInterpreter(vars(__main__)).runcode({text!r})", cwd=cwd),
    }[way]()
    assert seen == SEEN


def test_children_of_multiprocessing_can_start_workers(tmp_path):
    """Their main module has another name, and daemons may not start children through
    multiprocessing.
    """
    (tmp_path / "parent.py").write_text(
        """
import multiprocessing
import gymnasium
import worker_envs

class Mine(worker_envs.Counting):
    pass

gymnasium.register("Mine-v0", entry_point=f"{__name__}:Mine")

def child():
    import paceline
    envs = paceline.make_vec([lambda: Mine(), Mine, lambda: gymnasium.make("Mine-v0")], 3, workers=1)
    envs.reset(seed=1)
    print(*envs.step([0, 1, 2])[1], flush=True)
    envs.close()

if __name__ == "__main__":
    for method in ("spawn", "fork"):
        process = multiprocessing.get_context(method).Process(target=child, daemon=True)
        process.start()
        process.join()
        assert process.exitcode == 0
"""
    )
    assert run("parent.py", cwd=tmp_path) == ["1.01 2.01 3.01"] * 2


def test_a_model_of_several_environments_needs_no_guard(tmp_path):
    code = """
import paceline
with paceline.DQN("MlpPolicy", "FrozenLake-v1", num_envs=4, learning_starts=50, seed=1) as model:
    model.learn(200)
    print(model.num_timesteps, type(model.get_env()).__name__)
"""
    for seen in (run("-", cwd=tmp_path, input=code), run("-c", code, cwd=tmp_path)):
        assert seen[0].startswith("200 ")


# ------------------------------------------------------------- which process


def test_this_process_steps_unless_workers_is_given():
    for envs in (make_vec("FrozenLake-v1", 3), make_vec(we.Counting, 3), make_vec([we.Counting] * 3, 3)):
        assert envs.workers == 0 and len(envs.envs) == 3
        envs.reset(seed=1)
        envs.close()
    envs = make_vec(we.Counting, 2)
    assert envs.call("pid") == (os.getpid(),) * 2 and envs.envs[1].number == 0
    envs.close()
    envs = make_vec(we.Counting, 2, workers=2, context="fork")
    assert os.getpid() not in envs.call("pid") and envs.envs == []
    envs.close()


@pytest.mark.parametrize(
    "keywords, text",
    [
        ({"waits": True}, r"waits: True, must be given with workers=N \(0: one for each environment\): it is for worker processes"),
        ({"context": "fork"}, r"context: 'fork', must be given with workers=N \(0: one for each core\): it is for worker processes"),
    ],
)
def test_keywords_of_workers_are_refused_without_workers(keywords, text):
    with pytest.raises(ConfigError, match=f"^{text}$"):
        make_vec(we.Counting, 2, **keywords)


def test_a_forked_child_has_its_own_environments():
    envs = make_vec(we.Counting, 1)
    envs.reset(seed=1)
    pid = os.fork()
    if pid == 0:
        os._exit(int(envs.step([0])[0][0, 2]))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert envs.step([0])[0][0, 2] == 1
    envs.close()
