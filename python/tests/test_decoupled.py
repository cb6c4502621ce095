"""Replay memories and learners that are decoupled: add_steps, draw, set_errors, gradient_of."""

import numpy as np
import pytest

import paceline
from paceline.errors import ConfigError, SpaceError

OBS, ACTIONS = (3,), 2
SETTINGS = {
    "num_envs": 2, "seed": 5, "policy_kwargs": {"net_arch": [8]}, "updates": "outside", "clock": "updates", "concurrent": False,
    "batch_size": 16, "learning_starts": 16, "buffer_size": 64, "gamma": 0.5, "target_update_interval": 4, "learning_rate": 0.1,
}  # fmt: skip


def spaces():
    gymnasium = pytest.importorskip("gymnasium")
    return gymnasium.spaces.Box(-100, 100, OBS, np.float32), gymnasium.spaces.Discrete(ACTIONS, start=1)


def made(policy="MlpPolicy", env=None, **keywords):
    return paceline.DQN(policy, env or spaces(), **{**SETTINGS, **keywords})


def observation(env, k):
    """The observation before step k of an environment."""
    return np.array([env, k, 1], np.float32)


def fill(memory, env, steps, **end):
    """Adds one segment, whose rewards are 1, 2, ..."""
    obs = np.stack([observation(env, k) for k in range(steps + 1)])
    memory.replay_buffer.add_steps(env, obs, [1 + k % 2 for k in range(steps)], [k + 1.0 for k in range(steps)], begins=True, **end)


def test_steps_are_drawn_over_n_steps():
    with made(n_steps=3) as memory:
        buffer = memory.replay_buffer
        with pytest.raises(ConfigError, match="replay memory: 0 transitions, no transition can be drawn"):
            buffer.draw()
        fill(memory, 0, 5, terminated=True)
        fill(memory, 1, 4, truncated=True)
        assert memory.replay_buffer.size() == 9
        seen = set()
        for _ in range(20):
            batch = buffer.draw()
            assert (batch.weights == 1).all() and batch.next_masks.shape == (16, 0)
            for row in range(16):
                env, k = (int(x) for x in batch.obs[row][:2])
                length, ended = ((5, True), (4, False))[env]
                m = min(3, length - k)
                over = ended and k + m == length
                seen.add((env, k))
                assert batch.rewards[row] == sum(0.5**i * (k + 1 + i) for i in range(m))
                assert batch.discounts[row] == (0 if over else 0.5**m) and batch.actions[row] == k % 2
                assert (batch.next_obs[row] == (np.zeros(3) if over else observation(env, k + m))).all()
        assert len(seen) == 9


def test_a_segment_goes_on_in_the_next_call():
    with made() as memory:
        buffer = memory.replay_buffer
        buffer.add_steps(1, [observation(1, 0), observation(1, 1)], [1], [0.0], begins=True)
        buffer.add_steps(1, [np.full(3, np.nan), observation(1, 2)], [2], [1.0], begins=False)  # the first row is not read
        buffer.add_steps(1, [observation(1, 2), observation(1, 3)], [2], [1.0], begins=False, terminated=np.True_)
        assert buffer.size() == 3 and np.isfinite(buffer.read(range(3)).observations).all()
        with pytest.raises(ConfigError, match="begins: 0, must be 1, as no segment of environment 1 is in progress"):
            buffer.add_steps(1, [observation(1, 1), observation(1, 2)], [2], [1.0], begins=False)


def test_a_call_that_is_refused_adds_nothing():
    gymnasium = pytest.importorskip("gymnasium")
    space = gymnasium.spaces.Box(0, 255, (4, 36, 36), np.uint8), gymnasium.spaces.Discrete(2)
    frames = np.random.default_rng(0).integers(0, 255, (12, 36, 36), np.uint8)
    stacks = np.stack([frames[k : k + 4] for k in range(7)])
    with made("CnnPolicy", space, frame_stack=4, policy_kwargs=None) as memory:
        buffer, rest = memory.replay_buffer, ([0, 1, 0, 1, 0, 1], [1.0] * 6)
        for begins in (True, False):
            buffer.add_steps(0, stacks, *rest, begins=True)
            wrong = stacks.copy()
            wrong[4 if begins else 1] = 1
            before = buffer.size()
            with pytest.raises(ConfigError, match=f"^frame_stack: 4, but in environment 0 at step {before + (4 if begins else 1)} "):
                buffer.add_steps(0, wrong, *rest, begins=begins)
            assert buffer.size() == before
        buffer.add_steps(0, np.concatenate([stacks[:-1], wrong[1:2]]), *rest, begins=True, terminated=True)  # the last is not read


@pytest.mark.filterwarnings("error")
def test_what_is_refused():
    with made() as memory:
        buffer, obs = memory.replay_buffer, [observation(0, 0), observation(0, 1)]
        for arguments, says in (
            ((2, obs, [1], [0.0]), "^replay_buffer.add_steps: env: 2, must be 0 to 1$"),
            ((-1, obs, [1], [0.0]), "^replay_buffer.add_steps: env: -1, must be 0 to 1$"),
            ((0.0, obs, [1], [0.0]), "^replay_buffer.add_steps: env: 0.0, must be 0 to 1$"),
            ((0, obs, [3], [0.0]), r"actions\[0\]: 3, must be 1 to 2"),
            ((0, obs, [1.0], [0.0]), r"add_steps: actions is float64 of shape \(1,\), must be 1 integers, one for each step$"),
            ((0, obs, [np.nan], [0.0]), "add_steps: actions is float64"),
            ((0, obs, [1, 2], [0.0]), r"add_steps: actions is int64 of shape \(2,\), must be 1 integers"),
            ((0, obs, [1], [[0.0, 1.0]]), r"add_steps: rewards is float64 of shape \(1, 2\), must be 1 numbers"),
            ((0, obs, [1], [np.nan]), "step 0: reward: NaN"),
            ((0, obs, [1], [1e300]), r"step 0: reward: \+Inf"),
            ((0, [obs[0], [np.inf, 0, 0]], [1], [0.0]), "step 0: row 1 of obs: observation"),
            ((0, obs[:1], [], []), "num_steps: 0, must be at least 1"),
        ):
            with pytest.raises((ConfigError, SpaceError, ValueError, paceline.PacelineError), match=says):
                buffer.add_steps(*arguments, begins=True)
        for wrong in ({"terminated": 2}, {"truncated": "yes"}, {"begins": None}):
            ((name, value),) = wrong.items()
            with pytest.raises(ConfigError, match=f"^replay_buffer.add_steps: {name}: {value!r}, must be 0 to 1$"):
                buffer.add_steps(0, obs, [1], [0.0], **{"begins": True} | wrong)
        assert buffer.size() == 0
        with pytest.raises(ConfigError, match="^transitions: 0 in the replay memory, must be at least 1 to read one$"):
            buffer.read([0])
        fill(memory, 0, 8)
        batch = buffer.draw()
        with pytest.raises(ConfigError, match=rf"^replay_buffer.set_errors: identities\[0\]: {2**64 - 1}, must be below {2**63}$"):
            buffer.set_errors(np.array([2**64 - 1], np.uint64), [1.0])
        for wrong, errors, says in (
            (batch.identities + 0.5, np.ones(16), r"identities is float64 of shape \(16,\), must be 16 integers, one for each transition"),
            (batch.identities, np.ones(3), r"errors is float64 of shape \(3,\), must be 16 numbers, one for each identity"),
            (batch.identities, ["1"] * 16, r"errors is <U1 of shape \(16,\), must be 16 numbers, one for each identity"),
        ):
            with pytest.raises(SpaceError, match=rf"^replay_buffer.set_errors: {says}$"):
                buffer.set_errors(wrong, errors)
        with pytest.raises(ConfigError, match=r"^row 0: error: \+Inf"):
            buffer.set_errors(batch.identities, np.full(16, 1e300))
        with pytest.raises(ConfigError, match="beta: 2, must be 0 to 1"):
            buffer.draw(2.0)
        with pytest.raises(ConfigError, match="^beta: '1', must be a number, 0 to 1$"):
            buffer.draw("1")
        with pytest.raises(ConfigError, match="row 0: discount: 7, must be 0 to 1"):
            memory.gradient_of(batch._replace(discounts=np.full(16, 7, np.float32)))
        for change, says in (
            ({"obs": batch.obs[:, :2]}, r"^minibatch.obs: float32 of shape \(16, 2\), must be float32 of shape \(16, 3\)$"),
            ({"next_obs": batch.next_obs.astype(float)}, r"^minibatch.next_obs: float64 of shape \(16, 3\), must be float32"),
            ({"actions": batch.actions.astype(np.int64)}, "^minibatch.actions: int64"),
            ({"rewards": batch.rewards[:2]}, r"^minibatch.rewards: float32 of shape \(2,\)"),
            ({"next_masks": np.ones((16, 2), np.uint8)}, r"^minibatch.next_masks: uint8 of shape \(16, 2\)"),
        ):
            with pytest.raises(SpaceError, match=says):
                memory.gradient_of(batch._replace(**change))
        expected, errors = memory.gradient_of(batch)
        of_columns, same = memory.gradient_of(batch._replace(obs=np.asfortranarray(batch.obs)))
        assert (expected.grad == of_columns.grad).all() and (errors == same).all()
    with made(clock="steps") as learner, pytest.raises(ConfigError, match="gradient_of: clock is steps, must be updates"):
        learner.gradient_of(batch)
    with made(updates="own") as learner, pytest.raises(ConfigError, match="gradient_of: updates is own, must be outside"):
        learner.gradient_of(batch)


def test_begin_says_where_a_learning_rate_ends():
    with made() as memory, made(learning_rate=(1e-3, 0.0)) as learner:
        fill(memory, 0, 8)
        batch = memory.replay_buffer.draw()
        with pytest.raises(ConfigError, match="^gradient_of: no run was begun, and learning_rate changes; call begin first"):
            learner.gradient_of(batch)
        with pytest.raises(ConfigError, match="^gradient: env None, must be an environment"):
            learner.gradient()
        learner.begin(1000)
        rates = []
        for update in range(1, 4):
            rates.append(learner.gradient_of(batch)[0].learning_rate)
            learner.adopt(learner.flat_parameters(), updates=update)
        assert 1e-3 == rates[0] > rates[1] > rates[2] > 0.9e-3
        with pytest.raises(ConfigError, match="^gradient: env None, must be an environment"):
            learner.gradient()


def test_gradients_are_those_of_the_formula():
    """A linear network: the gradient of the mean squared error, by hand."""
    keywords = {"policy_kwargs": {"net_arch": []}, "loss": "squared", "max_grad_norm": None, "gamma": 0.5}
    with made(**keywords) as memory, made(**keywords) as learner:
        fill(memory, 0, 6, terminated=True)
        batch = memory.replay_buffer.draw()
        theta = learner.flat_parameters()
        names = learner.get_parameters()["policy"]
        w = next(v for k, v in names.items() if k.startswith("q_net.") and k.endswith("weight")).astype(np.float64)
        b = next(v for k, v in names.items() if k.startswith("q_net.") and k.endswith("bias")).astype(np.float64)
        q, after = batch.obs @ w.T + b, batch.next_obs @ w.T + b
        error = q[np.arange(16), batch.actions] - (batch.rewards + batch.discounts * after.max(axis=1))
        g, errors = learner.gradient_of(batch)
        assert (errors == 0).all() and not g.dropped and g.number == 1 and g.rows == 16
        assert g.loss == pytest.approx((error**2).mean(), rel=1e-4)
        want = np.zeros_like(w)
        np.add.at(want, batch.actions, (2 / 16 * error)[:, None] * batch.obs)
        assert len(theta) == w.size + b.size
        assert np.allclose(g.grad[: w.size].reshape(w.shape), want, rtol=1e-4)


def test_errors_become_priorities():
    with made(prioritized="dqn_zoo", priority_alpha=1.0) as memory, made(prioritized="dqn_zoo", priority_alpha=1.0) as learner:
        fill(memory, 0, 8)
        batch = memory.replay_buffer.draw(beta=1.0)
        g, errors = learner.gradient_of(batch)
        assert (errors >= 0).all() and (errors > 0).any() and np.isfinite(g.grad).all()
        loud = int(batch.identities[0])
        for _ in range(20):
            batch = memory.replay_buffer.draw(beta=1.0)
            memory.replay_buffer.set_errors(batch.identities, np.where(batch.identities == loud, 1, 0))
        drawn = memory.replay_buffer.draw(beta=1.0)
        assert (drawn.identities == loud).sum() >= 14 and drawn.weights.max() == 1
        fill(memory, 0, 40)  # the memory forgets the first steps
        memory.replay_buffer.set_errors([loud, -1, 2**62], [1.0, 1.0, 1.0])


def test_a_store_learns_a_chain():
    """Values of a chain whose last step pays 1: 0.5 for each step before."""
    with made(n_steps=2, learning_rate=0.05) as memory, made(n_steps=2, learning_rate=0.05) as learner:
        for _ in range(6):
            obs = np.stack([np.eye(3, dtype=np.float32)[min(k, 2)] for k in range(4)])
            memory.replay_buffer.add_steps(0, obs, [1, 1, 1], [0.0, 0.0, 1.0], begins=True, terminated=True)
            memory.replay_buffer.add_steps(1, obs, [2, 2, 2], [0.0, 0.0, 1.0], begins=True, terminated=True)
        with paceline.Store(learner.flat_parameters(), optimizer="adam") as store:
            seen = 0
            for _ in range(800):
                g, _errors = learner.gradient_of(memory.replay_buffer.draw())
                assert store.push(g.grad, g.learning_rate, seen, (0, 0, g.number)).version == g.number
                parameters, seen = store.pull()
                learner.adopt(parameters, updates=seen)
        q = learner.policy_snapshot().q_values(np.eye(3, dtype=np.float32))
        assert np.allclose(q, [[0.25] * 2, [0.5] * 2, [1] * 2], atol=0.05), q


@pytest.mark.parametrize("prioritized", [None, "dqn_zoo", "kaixhin", "cule"])
def test_parts_have_the_bits_of_a_whole(prioritized):
    """A model that steps, stores and learns, and the same split in two: equal gradients, update by update."""
    gymnasium = pytest.importorskip("gymnasium")
    segments = []

    class Recorded(gymnasium.Wrapper):
        def reset(self, **keywords):
            obs, info = self.env.reset(**keywords)
            segments.append(([obs], [], [], False, False))
            return obs, info

        def step(self, action):
            obs, reward, terminated, truncated, info = self.env.step(action)
            seen, actions, rewards, *_ = segments[-1]
            segments[-1] = [*seen, obs], [*actions, action], [*rewards, reward], terminated, truncated
            return obs, reward, terminated, truncated, info

    keywords = {**SETTINGS, "num_envs": 1, "prioritized": prioritized, "n_steps": 2, "train_freq": 2, "learning_starts": 20}
    keywords |= {"priority_beta": 0.4, "priority_beta_final": 0.4} if prioritized else {}
    env = Recorded(gymnasium.make("CartPole-v1"))
    both = env.observation_space, env.action_space
    with (
        paceline.DQN("MlpPolicy", env, **keywords) as whole,
        paceline.DQN("MlpPolicy", both, **keywords) as memory,
        paceline.DQN("MlpPolicy", both, **keywords) as learner,
        paceline.Store(whole.flat_parameters(), optimizer="adagrad") as store,
    ):
        whole.begin(300)
        number, stored, seen = 0, 0, 0
        while (want := whole.gradient()) is not None:
            while number < len(segments):
                obs, actions, rewards, terminated, truncated = segments[number]
                if len(actions) > stored:
                    ends = {"terminated": terminated, "truncated": truncated}
                    memory.replay_buffer.add_steps(0, obs[stored:], actions[stored:], rewards[stored:], begins=not stored, **ends)
                    stored = len(actions)
                if not (terminated or truncated):
                    break
                number, stored = number + 1, 0
            batch = memory.replay_buffer.draw(0.4)
            got, errors = learner.gradient_of(batch)
            memory.replay_buffer.set_errors(batch.identities, errors)
            assert got.number == want.number and np.array_equal(got.grad, want.grad)
            store.push(want.grad, want.learning_rate, seen, (0, 0, want.number))
            parameters, seen = store.pull()
            for model in (whole, learner):
                model.adopt(parameters, updates=seen)
        assert seen > 100 and number > 5


def test_frames_of_stacks_and_saved_memories(tmp_path):
    gymnasium = pytest.importorskip("gymnasium")
    space = gymnasium.spaces.Box(0, 255, (4, 36, 36), np.uint8), gymnasium.spaces.Discrete(3)
    with paceline.DQN("CnnPolicy", space, **{**SETTINGS, "policy_kwargs": None}) as memory:
        frames = np.zeros((30, 36, 36), np.uint8) + np.arange(30, dtype=np.uint8)[:, None, None]
        obs = np.stack([frames[k : k + 4] for k in range(26)])
        memory.replay_buffer.add_steps(0, obs, [0] * 25, [0.0] * 25, begins=True)
        before = memory.hashes().replay
        for row, following in zip(*memory.replay_buffer.draw()[:2]):
            assert (following[:3] == row[1:]).all() and following[3, 0, 0] == row[3, 0, 0] + 1
        memory.save(tmp_path / "memory", replay=True)
    with paceline.DQN.load(tmp_path / "memory", space, num_envs=2) as again:
        assert again.hashes().replay == before
        again.replay_buffer.add_steps(0, obs[25:].repeat(2, axis=0), [0], [0.0], begins=True)
        assert again.replay_buffer.size() == 26
