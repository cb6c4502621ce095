"""A local Ray cluster of two nodes, and what its tests wait for."""

import contextlib
import os
import time
import warnings

import ray
from ray.cluster_utils import Cluster

from paceline import Gorila
from paceline.distributed import _ray

SMALL = {
    "seed": 7, "policy_kwargs": {"net_arch": [16]}, "learning_starts": 64, "batch_size": 8, "buffer_size": 4000, "train_freq": 4,
    "target_update_interval": 64, "learning_rate": 0.01, "exploration_steps": 400,
}  # fmt: skip


@contextlib.contextmanager
def local_cluster():
    """Two nodes of three cores each."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 3, "include_dashboard": False, "object_store_memory": 2**27})
    made.add_node(num_cpus=3, object_store_memory=2**27)
    ray.init(address=made.address, namespace=_ray.NAMESPACE, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@contextlib.contextmanager
def running(env="CartPole-v1", policy="MlpPolicy", **keywords):
    """A run of a tiny network, of which no process is left."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Gorila(policy, env, cluster="ray", **{**SMALL, **keywords}) as model:
            yield model
    assert not _ray.named(model.name)


@contextlib.contextmanager
def leaving_nothing():
    """Waits at the end until the object store and /dev/shm have nothing that they did not have before."""
    before = set(os.listdir("/dev/shm"))
    yield
    until(lambda: stored_bytes() == 0 and not set(os.listdir("/dev/shm")) - before)


def until(condition):
    """Waits for a condition. The limit is that of a run that hangs: gorila_faults.py measures recoveries."""
    end = time.monotonic() + 600
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return value


def stored_bytes():
    """Bytes in the object stores of all nodes."""
    name = "object_store_memory"
    return ray.cluster_resources()[name] - ray.available_resources()[name]
