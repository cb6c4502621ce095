"""Keywords that a run on a cluster refuses before it connects to one."""

import pytest

from paceline import Gorila, distributed
from paceline.distributed import _files, _ray
from paceline.errors import ConfigError


@pytest.fixture(autouse=True)
def connect(monkeypatch):
    """What connects a process to a cluster, which no other test here does."""

    def refused(address):
        raise ConnectionError

    connect = _ray.connect
    monkeypatch.setattr(_ray, "connect", refused)
    return connect


@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"buffer_size": "x"}, "buffer_size: 'x', must be a number, at least 1 and at most "),
        ({"buffer_size": None}, "buffer_size: None, must be a number, at least 1 and at most "),
        ({"buffer_size": 1}, "buffer_size: 1, must be at least 64 with 2 bundles, which share it$"),
        ({"buffer_size": 100, "bundles": 4}, "buffer_size: 100, must be at least 128 with 4 bundles, which share it$"),
        ({"buffer_size": 100, "actors_per_bundle": 60}, "buffer_size: 100, must be at least 120 with 2 bundles, which share it$"),
        ({"buffer_size": 100, "n_steps": 60}, "buffer_size: 100, must be at least 120 with 2 bundles, which share it$"),
        (
            {"buffer_size": 100, "actors": 5, "envs_per_actor": 20, "replay_shards": 2, "batch_size": 8},
            "buffer_size: 100, must be at least 120 with 2 replay_shards, which share it$",
        ),
        ({"learning_starts": None}, "learning_starts: None, must be a number, at least 0 and at most "),
        ({"batch_size": "many"}, "batch_size: 'many', must be a number, at least 1 and at most "),
        (
            {"env_kwargs": {"a": object()}},
            "env_kwargs\\['a'\\]: <object object at .*>, must be a number, a text, .* or a class on a cluster$",
        ),
        ({"gamma": abs}, "gamma: <built-in function abs>, must be a number, "),
        *(({"name": name}, f"name: {name!r}, must be 1 to 100 letters, ") for name in ("", "exp/1", 5, "é", "a" * 101)),
        ({"num_threads": 2, "num_cpus": 1}, r"num_threads: 2, must be None or num_cpus \(1\)$"),
        ({"updates": "own"}, "updates: 'own', must be left out, as the run sets it for each bundle$"),
        ({"outside_learner": 1}, "outside_learner: 1, must be left out, as the run sets it for each bundle$"),
        ({"num_envs": 3}, r"num_envs: 3, must be None or bundles \* actors_per_bundle \(2\)$"),
        ({"bundles": None}, "bundles: None, must be 1 to 1000$"),
        ({"bundles": "4", "actors_per_bundle": "2"}, "bundles: '4', must be 1 to 1000$"),
        ({"actors": "4", "envs_per_actor": 2}, "actors: '4', must be 0 to 10000$"),
        ({"latency_file": "t.json"}, "latency_file: 't.json', must be None on a cluster, which knows latency_step and its neighbours$"),
        ({"actors": 4, "method": "appo"}, "actors: 4, must be 0 with method 'appo'"),
        (
            {"method": "a3c", "normalize_obs": True, "bundles": 1},
            "normalize_obs: True, must be False on a cluster, which merges no statistics$",
        ),
        ({"method": "appo", "normalize_reward": True}, "normalize_reward: True, must be False on a cluster"),
        ({"method": "appo", "order": "x"}, "order: 'x', must be None with method 'appo'$"),
        ({"method": "a3c", "schedule": "recorded"}, "schedule: 'recorded', must be 'race' with method 'a3c'$"),
        ({"method": "appo", "pull_period": 8}, "pull_period: 8, must be left out: on a cluster method 'appo' has the keywords of PPO$"),
        ({"method": "a3c", "learners": 2}, "learners: 2, must be left out: on a cluster method 'a3c' has the keywords of A2C$"),
        ({"clock": "steps"}, "clock: 'steps', must be 'updates' on a cluster$"),
        ({"concurrent": True}, "concurrent: True, must be False on a cluster$"),
        ({"synchronized": False, "actors": 2}, "synchronized: False, must be True on a cluster$"),
        ({"actor": "target"}, "actor: 'target', must be 'online' on a cluster$"),
        ({"learners": 2}, "learners: 2, must be 0 on a cluster$"),
        ({"normalize_obs": True}, "normalize_obs: True, must be False on a cluster, which merges no statistics$"),
        ({"actors": 2, "order": "x"}, "order: 'x', must be None where actors are apart$"),
        ({"pull_every": 7}, "actors: 0, must be at least 1 with envs_per_actor, replay_shards, pull_every or actor_epsilon$"),
    ],
)
def test_messages_name_the_field_and_the_value(keywords, says):
    with pytest.raises(ConfigError, match=f"^{says}"):
        Gorila("MlpPolicy", "CartPole-v1", cluster="ray", **{"bundles": 2, **keywords})


def test_the_only_value_of_a_keyword_may_be_given():
    keywords = {"clock": "updates", "concurrent": False, "synchronized": True, "actor": "online", "pull_every": 50}
    with pytest.raises(ConnectionError):
        Gorila("MlpPolicy", "CartPole-v1", cluster="ray", **keywords)


@pytest.mark.parametrize("preset", ["apex", "fastdqn", "tuned", "nair2015"])
def test_presets_are_accepted(preset):
    with pytest.raises(ConnectionError):
        Gorila.from_preset(preset, "Pong" if preset != "tuned" else "Catch-v0", cluster="ray", actors=2, bundles=1, buffer_size=200_000)


def test_environments_of_gymnasium_are_refused(monkeypatch):
    import gymnasium
    from gymnasium.envs.classic_control import CartPoleEnv

    monkeypatch.setattr(_ray, "connect", lambda address: None)
    gymnasium.register("Ours-v0", CartPoleEnv)
    try:
        says = "env: 'Ours-v0', must be the name of a built-in environment, which every process makes for itself"
        with pytest.raises(ConfigError, match=f"^{says}$"):
            Gorila("MlpPolicy", "Ours-v0", cluster="ray")
    finally:
        del gymnasium.registry["Ours-v0"]


@pytest.mark.parametrize(
    "address, fits",
    [
        *((address, True) for address in (None, "auto", "192.0.2.2:6379", "127.0.0.1:6379", "ray://192.0.2.2:10001")),
        *((address, False) for address in ("192.0.2.3:6379", "192.0.2.2:6380")),
    ],
)
def test_another_cluster_than_that_of_the_process_is_refused(monkeypatch, connect, address, fits):
    class Here:
        gcs_address = "192.0.2.2:6379"

    class Module:
        is_initialized, get_runtime_context = staticmethod(lambda: True), staticmethod(Here)

    monkeypatch.setattr(_ray, "ray", Module)
    if fits:
        connect(address)
    else:
        with pytest.raises(ConfigError, match=f"^address: '{address}', must be None or '192.0.2.2:6379', the cluster to which"):
            connect(address)


def test_what_load_knows(tmp_path):
    with _files.written(tmp_path / "run.zip") as to:
        to.head({"spec": {"worker": {}, "optimizer": {}}})
    with pytest.raises(ConfigError, match="^name: 5, must be 1 to 100 letters, "):
        distributed.load(tmp_path / "named.zip", name=5)
    with pytest.raises(ConfigError, match="^shards: 3, must be left out, as load knows bundles, num_cpus, .*, inline_limit, lease$"):
        distributed.load(tmp_path / "run.zip", shards=3)
