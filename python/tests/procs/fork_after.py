"""A child forked after the load gets ForkError at once. A spawned child trains, and the parent
continues.
"""

import gc
import multiprocessing
import os
import sys
import time
import warnings

from envs import SMALL
from paceline import DQN
from paceline.errors import ForkError


def train():
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        model.learn(200)


def in_fork(model):
    """Returns 0 if every call in the child is refused with ForkError."""
    for use in (lambda: model.learn(10), lambda: model.num_timesteps, lambda: model.save("x"), train):  # noqa: F821
        try:
            use()
        except ForkError as err:
            assert "spawn" in str(err)
        else:
            return 1
    model.close()
    del model
    gc.collect()
    return 0


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of any fork in a process with threads
    model = DQN("MlpPolicy", "CartPole-v1", num_envs=2, **SMALL)
    model.learn(200)
    pid = os.fork()
    if pid == 0:
        os._exit(in_fork(model))
    deadline = time.monotonic() + 250
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        assert time.monotonic() < deadline, "the forked child hangs"
        time.sleep(0.01)
    # multiprocessing runs Python's own exit in the child.
    for method, works in (("fork", False), ("spawn", True), ("forkserver", True)):
        child = multiprocessing.get_context(method).Process(target=train)
        child.start()
        child.join()
        assert (child.exitcode == 0) == works, (method, child.exitcode)
    model.learn(200)
    model.close()
    print("done")
    sys.exit(0)
