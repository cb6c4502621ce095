"""Ray: its import, the names of a run's processes, and the errors that mean that a process is not there."""

from __future__ import annotations

import functools
import socket
import time
from typing import Any

from ..errors import ConfigError, MissingFileError

NAMESPACE = "paceline"
LITTLE = 0.001  # cores of a process that has an affinity for a node: without any Ray ignores it


@functools.cache
def ray() -> Any:
    """The module ray; ConfigError if it is not installed."""
    try:
        import ray
    except ImportError:
        raise ConfigError("cluster: 'ray', must be a cluster whose package is installed (pip install 'paceline[ray]')") from None
    return ray


def connect(address: str | None) -> None:
    """Connects this process to a cluster, unless it is connected.

    address: as in ray.init. None: the cluster to which this process is connected, else that of
        RAY_ADDRESS or of this machine, or a new one that ends with this process. ConfigError if the
        process is connected to another one.
    """
    module = ray()
    if not module.is_initialized():
        keywords = {"namespace": NAMESPACE, "log_to_driver": False, "include_dashboard": False}
        if address is not None:
            keywords["address"] = address
            del keywords["include_dashboard"]
        module.init(**keywords)
    elif address is not None and not _same_cluster(address, here := module.get_runtime_context().gcs_address):
        raise ConfigError(f"address: {address!r}, must be None or {here!r}, the cluster to which this process is connected")


def _same_cluster(address: str, here: str) -> bool:
    """Whether an address is that of this process's cluster, host:port. A client's, ray://, has another port and is not compared."""
    if address in ("auto", "local") or address.startswith("ray://"):
        return True
    hosts = []
    for host in (address.rpartition(":")[0], here.rpartition(":")[0]):
        try:
            hosts.append(socket.gethostbyname(host))
        except OSError:  # Ray may know the name
            hosts.append(host)
    return address.rpartition(":")[2] == here.rpartition(":")[2] and (hosts[0] == hosts[1] or hosts[0].startswith("127."))


def name(run: str, part: str, index: int = 0) -> str:
    return f"{run}/{part}/{index}"


def find(run: str, part: str, index: int = 0) -> Any:
    """The handle of a process of a run, a Ray actor; None if there is no such process."""
    try:
        return ray().get_actor(name(run, part, index), namespace=NAMESPACE)
    except ValueError:
        return None


def named(run: str) -> list[str]:
    """The names of all processes of a run."""
    names = ray().util.list_named_actors(all_namespaces=True)
    return sorted(n["name"] for n in names if n["namespace"] == NAMESPACE and n["name"].rsplit("/", 2)[0] == run)


def kill(handle: Any) -> None:
    """Ends a process for good. A process that has already ended is not an error."""
    try:
        ray().kill(handle, no_restart=True)
    except Exception:  # Ray raises several for a Ray actor that is gone
        return


def nodes() -> list[str]:
    """The ids of the nodes that are alive, the head's first."""
    alive = [node for node in ray().nodes() if node["Alive"]]
    return [node["NodeID"] for node in sorted(alive, key=lambda node: ("node:__internal_head__" not in node["Resources"], node["NodeID"]))]


def prefer_node(node: str) -> Any:
    """The scheduling strategy of a process that should be on one node and may be on another."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=True)


class NotReady(Exception):
    """The shard has no parameters yet."""


def lost_errors() -> tuple[type[BaseException], ...]:
    """The errors of a call to a process that has ended, cannot be reached or is not ready, and of an object whose owner has ended."""
    errors = ray().exceptions
    return (NotReady, errors.RayActorError, errors.ObjectLostError, errors.GetTimeoutError, errors.WorkerCrashedError)


def cause(err: BaseException) -> BaseException:
    """The error that a call to a process raised there, without Ray's traceback of it."""
    found = getattr(err, "cause", None)
    return found if isinstance(found, BaseException) else err


def gathered(refs: list[Any], seconds: float) -> list[Any]:
    """The results, other than None, that come within some seconds. Lost processes have none."""
    module, until, found = ray(), time.monotonic() + seconds, []
    while refs and time.monotonic() < until:
        done, refs = module.wait(refs, timeout=1)
        for ref in done:
            try:
                found.append(module.get(ref))
            except lost_errors():
                continue
    return [result for result in found if result is not None]


def sweep(run: str, seconds: float = 5.0) -> list[str]:
    """Ends every process of a run; returns the names of those that are left after some seconds."""
    until = time.monotonic() + seconds
    while names := named(run):
        for full in names:
            try:
                kill(ray().get_actor(full, namespace=NAMESPACE))
            except ValueError:
                continue
        if time.monotonic() > until:
            return names
        time.sleep(0.05)
    return []


def missing(run: str) -> MissingFileError:
    return MissingFileError(f"{run}: no such run on this cluster")
