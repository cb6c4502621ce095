"""Calls vector environments at random from several threads for minutes and checks for hangs and
leaks.

    python python/tests/soak.py [minutes]

Each thread makes vectors, native ones and ones with worker processes, in any mode and batch size.
It sends, receives, steps, resets by mask, saves, restores and closes at random. Two threads share
one vector all the time. Refused calls are allowed; any other error ends the run. The script prints
the memory in use at the start, after the first use of each kind, and at the end.
"""

import gc
import os
import random
import sys
import threading
import time
from pathlib import Path

import numpy as np

import paceline
from paceline.errors import BusyError, ConfigError, HandleError

IDS = ["CartPole-v1", "Catch-v0", "MountainCar-v0", "Pong", "Breakout"]
REFUSED = (ConfigError, BusyError, HandleError)
calls, done, failures = {}, {}, []
beats = {}


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def use(envs, rng, steps, name):
    """Makes `steps` random calls on a vector, which other threads may use and close at the same
    time.
    """
    n = envs.num_envs
    state = None
    for _ in range(steps):
        beats[name] = time.monotonic()
        what = rng.choice(["step", "send", "recv", "recv", "mask", "async_mask", "reset", "save", "restore"])
        calls[what] = calls.get(what, 0) + 1
        try:
            ids = np.array(rng.sample(range(n), rng.randint(1, n)), np.int32)
            mask = np.zeros(n, bool)
            mask[ids] = True
            actions = lambda k: np.array([envs.single_action_space.sample() for _ in range(k)])  # noqa: E731
            if what == "step":
                envs.step(actions(n))
            elif what == "send":
                envs.send(actions(len(ids)), ids)
            elif what == "recv":
                envs.recv()
            elif what == "mask":
                envs.reset(options={"reset_mask": mask})
            elif what == "async_mask":
                envs.async_reset(seed=rng.randrange(1000), options={"reset_mask": mask})
            elif what == "reset":
                envs.reset(seed=rng.randrange(1000))
            elif what == "save":
                state = envs.clone_state()
            elif state is not None:
                envs.restore_state(state)
            done[what] = done.get(what, 0) + 1
        except REFUSED:
            pass


def native(rng, name, until):
    while time.monotonic() < until:
        n = rng.randint(1, 6)
        envs = paceline.make_vec(
            rng.choice(IDS), n, batch_size=rng.choice([0, rng.randint(1, n)]), num_threads=rng.randint(0, 4),
            autoreset_mode=rng.choice(["next_step", "same_step", "disabled"]), copy=rng.random() < 0.7,
        )  # fmt: skip
        use(envs, rng, rng.randint(5, 400), name)
        envs.close() if rng.random() < 0.5 else None
        del envs


def processes(rng, name, until):
    while time.monotonic() < until:
        n = rng.randint(1, 4)
        envs = paceline.make_vec("Pendulum-v1", n, workers=rng.randint(1, 2), batch_size=rng.randint(1, n))
        envs.async_reset(seed=1)
        for _ in range(rng.randint(5, 300)):
            beats[name] = time.monotonic()
            *_, infos = envs.recv()
            envs.send(np.zeros((envs.batch_size, 1), np.float32), infos["env_id"])
        envs.close()


def shared(envs, rng, name, until):
    while time.monotonic() < until:
        use(envs, rng, 50, name)


def guarded(run, *arguments):
    try:
        run(*arguments)
    except BaseException as err:
        failures.append(f"{arguments[-2]}: {type(err).__name__}: {err}")
        raise


def soak(seconds):
    """Runs all threads for `seconds`."""
    until = time.monotonic() + seconds
    common = paceline.make_vec("Pong", 4, batch_size=2, num_threads=2)
    jobs = [(native, random.Random(i), f"native {i}", until) for i in range(3)]
    jobs += [(shared, common, random.Random(10 + i), f"shared {i}", until) for i in range(2)]
    jobs += [(processes, random.Random(20), "processes", until)]
    threads = [threading.Thread(target=guarded, args=job, daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.5)
        late = [name for name, beat in beats.items() if time.monotonic() - beat > 60 and time.monotonic() < until]
        if late or failures or time.monotonic() > until + 60:
            sys.exit(f"hangs: {late}; failures: {failures}")
    common.close()
    del common
    gc.collect()


if __name__ == "__main__":
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    first = resident()
    soak(min(20.0, minutes * 6))
    warm = resident()
    print(f"resident memory: {first:.0f} MB at the beginning, {warm:.0f} MB when all was made once", flush=True)
    for part in range(5):
        soak(minutes * 12)
        print(f"  {resident():.0f} MB after {(part + 1) * minutes / 5:g} minutes", flush=True)
    print(f"calls that went through, of all: {sum(done.values()):,} of {sum(calls.values()):,} {dict(sorted(done.items()))}")
    growth = resident() - warm
    print(f"memory: {warm:.0f} MB first, {resident():.0f} MB last ({growth:+.0f})")
    sys.exit(growth > 0.2 * warm + 30)
