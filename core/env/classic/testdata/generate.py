"""Records single steps of Gymnasium's classic control tasks.

    python generate.py        (needs gymnasium and numpy; writes *.csv to its own folder)

A row is one step: the float64 state before the step, the action, the state after
the step, the float32 observation, reward, terminated, truncated, and the number of
earlier steps in the episode. Floats are written so that they read back exactly. The
first line names the Gymnasium version. Some rows start from states set by hand, at
the edges of the tasks: walls, speed limits, goals, time limits.
"""

import pathlib

import gymnasium
import numpy as np

HERE = pathlib.Path(__file__).parent


def push(obs, rng):
    """Swings Acrobot and MountainCar up: pushes in the direction of motion."""
    speed = obs[-2] if len(obs) == 6 else obs[1]
    return int(rng.integers(3)) if rng.random() < 0.1 else (2 if speed > 0 else 0)


def balance(obs, rng):
    if rng.random() < 0.05:
        return int(rng.integers(2))
    return int(obs[2] + 0.5 * obs[3] + 0.05 * obs[0] + 0.1 * obs[1] > 0)


def uniform(space):
    if hasattr(space, "n"):
        return lambda obs, rng: int(rng.integers(space.n))
    return lambda obs, rng: rng.uniform(space.low, space.high).astype(np.float32)


def force(obs, rng):
    """Swings MountainCarContinuous up, mostly with the largest force."""
    size = 1 if rng.random() < 0.8 else rng.random()
    return np.array([size if obs[1] > 0 else -size], np.float32)


def torque(obs, rng):
    """Swings Pendulum up and holds it there."""
    cos, sin, speed = obs
    push = -8 * sin - 2 * speed if cos > 0.8 else 2 * np.sign(speed)
    return np.clip([push], -2, 2).astype(np.float32)


def edges(name, rng):
    """States to start from, and the number of earlier steps in the episode."""
    if name == "CartPole-v1":
        for x, v, a, w in [
            (2.39, 1.0, 0.0, 0.0),
            (-2.39, -1.0, 0.0, 0.0),
            (0.0, 0.0, 0.209, 0.5),
            (0.0, 0.0, -0.209, -0.5),
            (2.4, 0.0, 0.0, 0.0),
            (-2.4, 0.0, 0.0, 0.0),
        ]:
            yield np.array([x, v, a, w]), 0
        yield np.array([0.01, 0.0, 0.02, 0.0]), 497
        yield np.array([2.39, 1.0, 0.0, 0.0]), 499  # both ends at once
    elif name == "Acrobot-v1":
        for _ in range(24):
            yield rng.uniform([-3.14, -3.14, -12.56, -28.27], [3.14, 3.14, 12.56, 28.27]), 0
        yield np.array([0.05, -0.05, 0.0, 0.0]), 497
        yield np.array([3.0, 0.1, 0.0, 0.0]), 499  # both ends at once
    elif name == "Pendulum-v1":
        for angle in [-3.15, -3.14, 0.0, 3.14, 3.15, 6.3, -9.5, 70.0]:
            yield np.array([angle, rng.uniform(-8, 8)]), 0
        for angle, speed in [(-1.5, -7.9), (1.5, 7.9), (0.1, 8.0)]:
            yield np.array([angle, speed]), 0
        yield np.array([1.0, 0.0]), 197
    elif name == "MountainCarContinuous-v0":
        # After the first step Gymnasium's state is float32.
        for kind, taken in [(np.float64, 0), (np.float32, 5)]:
            for x, v in [(-1.19, -0.07), (-1.2, 0.0), (0.44, 0.07), (0.449, 0.001), (0.45, 0.0), (0.59, 0.07)]:
                yield np.array([x, v], kind), taken
            for v in [0.0699, -0.0699]:
                yield np.array([-0.5, v], kind), taken
        yield np.array([-0.5, 0.0], np.float32), 996
        yield np.array([0.44, 0.07], np.float32), 998  # both ends at once
    else:
        for x, v in [(-1.19, -0.07), (-1.2, 0.0), (0.49, 0.07), (0.499, 0.001), (0.59, 0.07), (-0.5, 0.0699), (-0.5, -0.0699)]:
            yield np.array([x, v]), 0
        yield np.array([-0.5, 0.0]), 197
        yield np.array([0.49, 0.07]), 199  # both ends at once


def record(name, players):
    env = gymnasium.make(name)
    rng = np.random.default_rng(7)
    rows = []

    def play(obs, player, limit):
        for _ in range(limit):
            before, taken = np.array(env.unwrapped.state, np.float64), env.get_wrapper_attr("_elapsed_steps")
            action = player(obs, rng)
            obs, reward, terminated, truncated, _ = env.step(action)
            after = np.array(env.unwrapped.state, np.float64)
            rows.append(
                [
                    *map(repr, map(float, before)),
                    str(np.ravel(action)[0]),
                    *map(repr, map(float, after)),
                    *map(str, obs),
                    str(float(reward)),
                    str(int(terminated)),
                    str(int(truncated)),
                    str(taken),
                ]
            )
            if terminated or truncated:
                return

    for seed, (player, limit) in enumerate(players):
        obs, _ = env.reset(seed=seed)
        play(obs, player, limit)
    random = uniform(env.action_space)
    for state, taken in edges(name, rng):
        obs, _ = env.reset(seed=0)
        env.unwrapped.state = state
        limiter = env
        while not isinstance(limiter, gymnasium.wrappers.TimeLimit):
            limiter = limiter.env
        limiter._elapsed_steps = taken
        play(obs, random, 3)
    lines = [f"# gymnasium {gymnasium.__version__}", *(",".join(r) for r in rows)]
    (HERE / f"{name}.csv").write_text("\n".join(lines) + "\n")


spaces = gymnasium.spaces
record("CartPole-v1", [(uniform(spaces.Discrete(2)), 500)] * 4 + [(balance, 500)])
record("Acrobot-v1", [(push, 360), (push, 60), (uniform(spaces.Discrete(3)), 60)])
record("MountainCar-v0", [(push, 200), (push, 200), (uniform(spaces.Discrete(3)), 200)])
record("Pendulum-v1", [(torque, 200), (torque, 200), (uniform(spaces.Box(-2, 2, (1,))), 200)])
record("MountainCarContinuous-v0", [(force, 999), (force, 999), (uniform(spaces.Box(-1, 1, (1,))), 400)])
