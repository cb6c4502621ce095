"""Keywords that a run on a cluster refuses before it connects to one."""

import pytest

from paceline import Gorila, distributed
from paceline.distributed import _factory, _files
from paceline.errors import ConfigError


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    def connect(address):
        raise ConnectionError

    monkeypatch.setattr(_factory._ray, "connect", connect)


@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"buffer_size": "x"}, "buffer_size: 'x', must be a number, at least 2 and at most "),
        ({"buffer_size": None}, "buffer_size: None, must be a number, at least 2 and at most "),
        ({"buffer_size": 1}, "buffer_size: 1, must be a number, at least 2 and at most "),
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
        ({"latency_file": "t.json"}, "latency_file: 't.json', must be None on a cluster, which knows latency_step and its neighbours$"),
        ({"actors": 4, "method": "appo"}, "actors: 4, must be 0 with method 'appo'"),
    ],
)
def test_messages_name_the_field_and_the_value(keywords, says):
    with pytest.raises(ConfigError, match=f"^{says}"):
        Gorila("MlpPolicy", "CartPole-v1", cluster="ray", bundles=2, **keywords)


def test_what_load_knows(tmp_path):
    with _files.written(tmp_path / "run.zip") as to:
        to.head({"spec": {"worker": {}, "optimizer": {}}})
    with pytest.raises(ConfigError, match="^name: 5, must be 1 to 100 letters, "):
        distributed.load(tmp_path / "named.zip", name=5)
    with pytest.raises(ConfigError, match="^shards: 3, must be left out, as load knows bundles, num_cpus, .*, inline_limit, lease$"):
        distributed.load(tmp_path / "run.zip", shards=3)
