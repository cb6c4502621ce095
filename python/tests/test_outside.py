"""Models whose gradients are applied outside: gradient, adopt and paceline.Store."""

import threading

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from conftest import ctrl_c_after
from envs import SMALL, vector
from paceline import A2C, DQN, PPO, PQN, Store, shard_ranges
from paceline.errors import ConfigError, NotFiniteError, StoppedError

DQN_SMALL = {**SMALL, "num_envs": 3, "learning_rate": 0.01, "optimizer": "adagrad"}
ON_POLICY = {"num_envs": 3, "seed": 3, "policy_kwargs": {"net_arch": [16]}, "device": "cpu"}
RUNS = {
    "dqn": (DQN, DQN_SMALL, {"optimizer": "adagrad"}, 500),
    "a2c": (A2C, ON_POLICY, {"optimizer": "rmsprop", "decay": 0.99, "eps": 1e-5}, 300),
    "ppo": (PPO, {**ON_POLICY, "n_steps": 16, "batch_size": 24, "n_epochs": 3}, {"optimizer": "adam", "eps": 1e-5}, 270),
}


def made(method, keywords, **more):
    return method("MlpPolicy", "CartPole-v1", **{**keywords, **more})


class Server:
    """Stores that cover a model's parameters."""

    def __init__(self, model, **options):
        theta = model.flat_parameters()
        self.stores = [Store(theta, first, size, **options) for first, size in shard_ranges(theta.size, 3)]
        self.seen, self.theta = [0] * 3, theta

    def push(self, g, learner=0):
        for k, store in enumerate(self.stores):
            part = g.grad[store.first : store.first + store.size]
            answer = store.push(part, g.learning_rate, self.seen[k], (learner, 0, g.number))
            assert not answer.duplicate

    def pull(self):
        for k, store in enumerate(self.stores):
            self.seen[k] = store.pull(self.theta[store.first : store.first + store.size])[1]
        return self.theta, self.seen[-1]

    def apply(self, model, most=10**9):
        for _ in range(most):
            if (g := model.gradient()) is None:
                return
            assert g.updates == self.seen[-1] and g.num_timesteps == model.num_timesteps and not g.dropped and g.rows > 0
            self.push(g)
            model.adopt(*self.pull())


@pytest.mark.parametrize("name", RUNS)
def test_applied_outside_without_delay_has_the_bits_of_learn(name, tmp_path):
    method, keywords, options, total = RUNS[name]
    with made(method, keywords) as own:
        own.learn(total, log_interval=None)
        want, updates, steps = own.hashes(), own.stats["updates"], own.num_timesteps
    model = made(method, keywords, updates="outside")
    server = Server(model, **options)
    model.begin(total)
    server.apply(model, 5)
    model.save(tmp_path / "mid", replay=True)
    model.close()
    with method.load(tmp_path / "mid") as model:
        server.apply(model)
        assert (model.hashes(), model.stats["updates"], model.num_timesteps) == (want, updates, steps)
        assert model.gradient() is None
        model.predict(np.zeros(4, np.float32))
        model.begin(100, reset_num_timesteps=False)
        server.apply(model)
        assert model.num_timesteps >= steps + 100


@pytest.mark.parametrize("name", RUNS)
def test_an_interrupted_gradient_comes_with_the_next_call(name):
    method, keywords, _, total = RUNS[name]
    with made(method, keywords, updates="outside") as model, made(method, keywords, updates="outside") as other:
        for m in (model, other):
            m.begin(total)
        for number in (1, 2, 3):
            out = None if number == 1 else np.empty_like(model.flat_parameters())
            with ctrl_c_after("paceline_trainer_gradient"):
                model.gradient(out)
            g, want = model.gradient(out if number == 2 else None), other.gradient()
            assert (g.number, g.rows, g.loss, g.num_timesteps) == (number, want.rows, want.loss, want.num_timesteps)
            np.testing.assert_array_equal(g.grad, want.grad)
        with ctrl_c_after("paceline_trainer_gradient"):
            model.gradient()
        model.begin(total, reset_num_timesteps=False)  # a run of its own: its first gradient is the fifth
        assert model.gradient().number == 5


@pytest.mark.parametrize("name", RUNS)
def test_gymnasium_environments_are_stepped(name):
    method, keywords, options, total = RUNS[name]
    keywords = {key: value for key, value in keywords.items() if key != "num_envs"}

    def with_gymnasium(**more):
        return method("MlpPolicy", gymnasium.make_vec("CartPole-v1", num_envs=3), **keywords, **more)

    with with_gymnasium() as own:
        own.learn(total, log_interval=None)
        want, steps = own.hashes(), own.num_timesteps
    with with_gymnasium(updates="outside") as model:
        server = Server(model, **options)
        model.begin(total)
        server.apply(model, 4)
        model.stop()
        with pytest.raises(StoppedError):
            model.gradient()
        server.apply(model)
        assert (model.hashes(), model.num_timesteps) == (want, steps)
        with pytest.raises(ConfigError, match="obs: must be None where updates is outside: gradient steps the environments"):
            model.begin(100, np.zeros((3, 4), np.float32))
        model.begin(60, reset_num_timesteps=False)
        server.apply(model)
        assert model.num_timesteps >= steps + 60
    with with_gymnasium(updates="outside") as model:
        model.begin(total)
        model._environments.env.step = lambda actions: 1 / 0
        with pytest.raises(ZeroDivisionError):
            model.gradient()
        with pytest.raises(ConfigError, match="gradient: no run was begun, or its latest round was interrupted; call begin first"):
            model.gradient()
        del model._environments.env.step
        model.begin(total)
        assert model.gradient().number == 1


def test_ctrl_c_in_a_round(monkeypatch):
    """A round that Ctrl-C has cut is lost; the run goes on."""
    method, keywords, options, total = RUNS["a2c"]
    keywords = {key: value for key, value in keywords.items() if key != "num_envs"}
    with method("MlpPolicy", gymnasium.make_vec("CartPole-v1", num_envs=3), updates="outside", **keywords) as model:
        server = Server(model, **options)
        model.begin(total)
        server.apply(model, 3)
        steps, act = model.num_timesteps, model._native.act

        def interrupted(*arguments):
            act(*arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(model._native, "act", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.gradient()
        monkeypatch.undo()
        with pytest.raises(ConfigError, match="gradient: no run was begun, or its latest round was interrupted; call begin first"):
            model.gradient()
        model.begin(total, reset_num_timesteps=False)
        assert model.num_timesteps == steps
        server.apply(model)
        assert model.num_timesteps >= steps + total


@pytest.mark.parametrize("how", ["after the update", "next step"])
@pytest.mark.parametrize("name", ["a2c", "ppo"])
def test_the_loop_ends_as_learn(name, how):
    method, keywords, options, _ = RUNS[name]

    def model(**more):
        if how == "after the update":
            return made(method, keywords, mid_batch_reset=False, **more)
        return method("MlpPolicy", vector(AutoresetMode.NEXT_STEP, 3), **{**keywords, "num_envs": None}, **more)

    rate = {"learning_rate": (0.01, 0.0)}
    for total in (50, 240):
        with model(**rate) as own, model(**rate, updates="outside") as outside:
            own.learn(total, log_interval=None)
            server = Server(outside, **options)
            outside.begin(total)
            server.apply(outside)
            assert (outside.num_timesteps, outside.stats["updates"], outside.hashes()) == (
                own.num_timesteps,
                own.stats["updates"],
                own.hashes(),
            )


def test_a_delay_of_one_update():
    method, keywords, options, total = RUNS["dqn"]
    with made(method, keywords, updates="outside") as model:
        server = Server(model, **options)
        model.begin(total)
        waiting, count = model.gradient(), 1
        while (g := model.gradient()) is not None:
            count += 1
            assert g.number == count and g.updates == max(0, count - 2)
            server.push(waiting)
            model.adopt(*server.pull())
            waiting = g
        assert count > 20 and np.isfinite(model.flat_parameters()).all()


def test_learners_in_threads_share_a_server():
    """Two learners push concurrently. Their environments differ, and what they were told is what the stores' ledgers say."""
    method, keywords, options, _ = RUNS["dqn"]
    models = [made(method, keywords, updates="outside", outside_learners=2, outside_learner=k) for k in range(2)]
    assert (models[0].flat_parameters() == models[1].flat_parameters()).all()
    server = Server(models[0], max_staleness=3, **options)
    answers = [[], []]

    def learner(k):
        model, theta, seen = models[k], server.theta.copy(), [0] * 3
        model.begin(400)
        while (g := model.gradient()) is not None:
            for i, store in enumerate(server.stores):
                answer = store.push(g.grad[store.first : store.first + store.size], g.learning_rate, seen[i], (k, 0, g.number))
                if i == 0:
                    answers[k].append((g.number, answer.version, answer.lag, answer.stale))
                _, seen[i] = store.pull(theta[store.first : store.first + store.size])
            model.adopt(theta, seen[-1])

    threads = [threading.Thread(target=learner, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledgers = server.stores[0].ledgers()
    assert [ledger.learner for ledger in ledgers] == [0, 1] and ledgers[0].step == len(answers[0]) > 50
    for ledger, told in zip(ledgers, answers):
        assert list(ledger.answers) == told[-len(ledger.answers) :]
        assert ledger.applied == sum(not stale for *_, stale in told) and ledger.duplicates == 0
    assert server.stores[0].version == sum(ledger.applied for ledger in ledgers)
    for model in models:
        model.close()


def test_refused_calls_change_nothing():
    method, keywords, _, total = RUNS["dqn"]
    with made(method, keywords) as own, made(method, keywords, updates="outside") as model:
        with pytest.raises(ConfigError, match="gradient: updates is own, must be outside"):
            own.gradient()
        with pytest.raises(ConfigError, match="adopt: updates is own, must be outside"):
            own.adopt(own.flat_parameters(), 0)
        with pytest.raises(ConfigError, match="begin: env 'CartPole-v1'"):
            own.begin(100)
        with pytest.raises(ConfigError, match="gradient: no run was begun"):
            model.gradient()
        with pytest.raises(ConfigError, match="obs: must be None where updates is outside"):
            model.begin(total, np.zeros((3, 4), np.float32))
        model.begin(total)
        theta = model.flat_parameters()
        before = model.hashes()
        with pytest.raises(ConfigError, match="updates: outside, must be own for learn; gradient and adopt train this model"):
            model.learn(100)
        wrong = theta.copy()
        wrong[3] = np.nan
        for error, match, arguments in [
            (ConfigError, f"parameters: {theta.size - 1} numbers, must be {theta.size}, those of q_net", (theta[1:], 0)),
            (NotFiniteError, "parameters: number 3 is NaN, must be finite", (wrong, 0)),
            (ConfigError, "updates: -1, must be 0 to", (theta, -1)),
            (ConfigError, "steps: -1, must be 0 to", (theta, 0, -1)),
            (ConfigError, "parameters: str_, must be an array of real numbers", ("x", 0)),
            (ConfigError, "parameters: str_, must be an array of real numbers", ([str(x) for x in theta], 0)),
            (ConfigError, "parameters: complex64, must be an array of real numbers", (theta + 1j, 0)),
        ]:
            with pytest.raises(error, match=match):
                model.adopt(*arguments)
        with pytest.raises(ConfigError, match="out: must be a contiguous NumPy array of float32"):
            model.gradient(np.empty(theta.size))
        with pytest.raises(ConfigError, match=f"out: 3 numbers, must be {theta.size}, those of q_net"):
            model.gradient(np.empty(3, np.float32))
        model.stop()
        with pytest.raises(StoppedError):
            model.gradient()
        assert model.hashes() == before
        out = np.full(theta.size, np.nan, np.float32)
        g = model.gradient(out)
        assert g.grad is out and np.isfinite(out).all() and g.number == 1 and g.rows == model.batch_size
        model.adopt(theta * np.float32(1e30), 1)
        with pytest.raises(NotFiniteError):
            while True:
                model.gradient()
        model.adopt(theta, 1)
        assert model.gradient().number == 2
    for match, more in [
        ("updates: outside, must be own where learners is 3", {"learners": 3}),
        ("synchronized: false, must be true where updates is outside", {"synchronized": False}),
        (r"outside_learner: 1, must be below outside_learners \(1\)", {"outside_learner": 1}),
    ]:
        with pytest.raises(ConfigError, match=match):
            made(method, keywords, updates="outside", **more)
    with pytest.raises(TypeError, match="only A2C, DQN and PPO have updates from outside"):
        PQN("MlpPolicy", "CartPole-v1", updates="outside")


def test_adopt_takes_parameters_of_any_real_type(monkeypatch):
    with made(DQN, DQN_SMALL, updates="outside") as model:
        theta = model.flat_parameters()
        adopt, taken = model._native.adopt, []
        monkeypatch.setattr(model._native, "adopt", lambda flat, *counts: (taken.append(flat), adopt(flat, *counts)))
        model.adopt(theta, 1)
        assert np.shares_memory(taken[0], theta)
        for given in (theta.reshape(1, -1), theta.astype(np.float64), theta.astype(">f4"), theta.tolist(), theta[::-1].copy()[::-1]):
            model.adopt(np.zeros_like(theta), 1)
            model.adopt(given, 1)
            np.testing.assert_array_equal(model.flat_parameters(), theta)
        torch = pytest.importorskip("torch")
        for dtype in (torch.float32, torch.bfloat16):
            given = torch.as_tensor(theta).to(dtype).requires_grad_()
            model.adopt(given, 1)
            np.testing.assert_array_equal(model.flat_parameters(), given.detach().float().numpy())
