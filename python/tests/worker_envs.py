"""Environments of test_workers.py in an importable module."""

import os
import signal
import time

import gymnasium
import numpy as np
from gymnasium import spaces


class Sleeping(gymnasium.Env):
    """Each step sleeps for 20 ms."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        time.sleep(0.02)
        return np.zeros(1, np.float32), 0.0, False, False, {}


class Counting(gymnasium.Env):
    """Observes (seed, episode, step, last action). The reward is seed + step / 100.

    Episode k lasts 3 + k % 3 steps. Even episodes terminate, odd ones are truncated. Infos of odd
    steps and of ends have different keys.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}
    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = spaces.Discrete(5)

    def __init__(self, render_mode=None, size=0):
        self.render_mode, self.size = render_mode, size
        self.number, self.episode = 0, -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.number, self.episode = seed, -1
        self.episode, self.count, self.action, self.options = self.episode + 1, 0, -1, options
        return self.observe(), {"begun": self.episode} if self.episode else {}

    def step(self, action):
        self.count, self.action = self.count + 1, action
        last = self.count == 3 + self.episode % 3
        info = {"last": {"number": self.number, "name": f"{self.number}"}} if last else {}
        if self.count % 2:
            info["odd"] = np.full(2, self.count)
        if self.size:
            info["much"] = b"x" * self.size
        reward = self.number + self.count / 100
        return self.observe(), reward, last and self.episode % 2 == 0, last and self.episode % 2 == 1, info

    def observe(self):
        return np.array([self.number, self.episode, self.count, self.action], np.float32)

    def render(self):
        return np.full((2, 2, 3), self.count, np.uint8)

    def pid(self):
        return os.getpid()


class Parts(Counting):
    """Counting with a Dict that contains a Tuple as observation, and a Dict of actions."""

    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (3, 2, 1), np.uint8),
            "pair": spaces.Tuple((spaces.Discrete(1000, start=0), spaces.MultiBinary(2))),
        }
    )
    action_space = spaces.Dict({"push": spaces.Box(-1, 1, (2,), np.float32), "turn": spaces.Discrete(5)})

    def step(self, action):
        assert action["push"].shape == (2,) and action["push"].dtype == np.float32
        self.push = action["push"]
        return super().step(action["turn"])

    def observe(self):
        image = np.zeros((3, 2, 1), np.uint8)
        image[:, 0, 0] = self.number % 256, self.episode % 256, self.count
        image[0, 1, 0] = self.action + 1
        return {"image": image, "pair": (self.number, np.array([self.episode % 2, self.count % 2], np.int8))}


class Reusing(Counting):
    """Returns the same observation array and the same infos in every step, and stores its actions."""

    action_space = spaces.Box(0, 9, (1,), np.float32)

    def __init__(self):
        super().__init__()
        self.row, self.actions = np.zeros(4, np.float32), []
        self.infos = {"steps": 0, "at": {"count": np.zeros(1, np.int64)}}

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], self.infos

    def step(self, action):
        self.actions.append(action)
        return *super().step(float(action[0]))[:4], self.infos

    def observe(self):
        self.row[:] = super().observe()
        self.infos["steps"] = self.infos["at"]["count"][0] = self.count
        return self.row


class Words(Counting):
    """Observations and actions without a fixed size."""

    observation_space = spaces.Dict({"word": spaces.Text(40), "count": spaces.Discrete(100)})
    action_space = spaces.Sequence(spaces.Discrete(5))

    def step(self, action):
        return super().step(sum(int(a) for a in action))

    def observe(self):
        return {"word": f"n{self.number}e{self.episode}a{self.action}", "count": self.count}


def wait_for(path):
    """Waits until the path exists, for at most a fixed time."""
    deadline = time.monotonic() + 120
    while not os.path.exists(path):
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.001)


class Gated(Counting):
    """A step with action k > 0, and stay, last until the folder has a file named k."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def step(self, action):
        if action:
            wait_for(os.path.join(self.folder, str(action)))
        return super().step(action)

    def interrupt(self, number):
        """Sends a signal to the parent once the folder has an entry named go.

        Only environment 1 does so. The call lasts until the folder has a file named 1.
        """
        wait_for(os.path.join(self.folder, "go"))
        if self.number == 1:
            os.kill(os.getppid(), number)
        wait_for(os.path.join(self.folder, "1"))


class CtrlC(Gated):
    """A step with action k > 0 presses Ctrl-C once the folder has an entry named go. It lasts as
    Gated's step does.
    """

    def step(self, action):
        if action:
            wait_for(os.path.join(self.folder, "go"))
            os.killpg(0, signal.SIGINT)
        return super().step(action)


class Meeting(Counting):
    """A step ends once n environments of the folder are in a step."""

    def __init__(self, folder, n):
        super().__init__()
        self.folder, self.n = folder, n

    def step(self, action):
        step = os.path.join(self.folder, str(self.count))
        os.makedirs(step, exist_ok=True)
        open(os.path.join(step, str(self.number)), "w").close()
        deadline = time.monotonic() + 120
        while len(os.listdir(step)) < self.n:
            assert time.monotonic() < deadline, "the others never came"
            time.sleep(0.001)
        return super().step(action)


class Trouble(Counting):
    """The action, or options["fail"] at reset, selects the failure."""

    def reset(self, *, seed=None, options=None):
        if options and options.get("fail") == self.number:
            raise LookupError("no level\nof that name")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        if action == 1:
            raise ValueError("the arm is stuck")
        if action == 2:
            os._exit(3)
        if action == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if action == 4:
            return np.zeros(3, np.float32), 0.0, False, False, {}
        return super().step(action)

    def lock(self):
        import threading

        return threading.Lock()


class Parent(Counting):
    """An environment with a child process, which keeps the pipe open after a death."""

    def __init__(self):
        super().__init__()
        self.child = os.fork()
        if self.child == 0:
            time.sleep(600)
            os._exit(0)

    def step(self, action):
        os._exit(5)


class Unmade(Counting):
    def __init__(self, how="raise"):
        if how == "die":
            os._exit(9)
        raise FileNotFoundError("no such level")


class Other(Counting):
    action_space = spaces.Discrete(6)
