"""Makes the models of runs: new ones, of a checkpoint, of a run that goes on."""

from __future__ import annotations

import inspect
import json
import math
import os
import pickle
import secrets
import uuid
import warnings
from collections.abc import Mapping
from typing import Any

from .._arguments import steps, whole
from .._attributes import _READ
from .._environments import apply_preset
from .._files import File
from ..config import RULES, Config
from ..errors import CheckpointError, ConfigError, notice
from ..store import Store, shard_ranges
from . import _files, _ray, _records, _run
from ._keywords import from_json, plain
from ._model import Distributed
from ._presets import FASTDQN, TUNED, apex
from ._processes import worker
from ._run import Run
from ._shards import Shard
from ._spec import COUNTS, WORKERS, Spec, checked, name_of
from ._virtual import Latency

MOST_SPEC = 90_000  # bytes; arguments above Ray's 100 KB are lost with the process that gave them
# Keywords of paceline.Gorila that are not a bundle's, and those that Algorithm 1 fixes for a bundle.
_OURS = ("bundles", "shards", "max_staleness", "num_envs", "num_threads", "seed", "policy", "env")
_FIXED = {"clock": "updates", "concurrent": False, "synchronized": True, "actor": "online", "learners": 0}
_NOT_WORKERS = ("schedule", "order", "latency_step", "latency_forward", "latency_gradient", "latency_pull", "latency_push")
_OF_RUN = {"updates", "outside_learners", "outside_learner", "num_envs", "num_threads"}
_LOCAL_BUFFER = 1024


def start(
    policy: str,
    env: Any,
    *,
    method: str = "dqn",
    name: str | None = None,
    address: str | None = None,
    bundles: int = 1,
    shards: int = 4,
    actors_per_bundle: int = 1,
    actors: int = 0,
    envs_per_actor: int = 1,
    replay_shards: int = 1,
    pull_every: int = 50,
    actor_epsilon: str = "schedule",
    num_cpus: int = 1,
    pin: bool = False,
    keepers: int = 2,
    copy_every: int = 100,
    delay: int = 1,
    gradients: str = "fp32",
    inline_limit: int = 102_400,
    max_staleness: int = 100,
    lease: float = 600.0,
    schedule: str | None = None,
    order: File | None = None,
    latency_step: float | str = "0.0001:0.5",
    latency_forward: float | str = "0.0001:0.5",
    latency_gradient: float | str = "0.001:0.5",
    latency_pull: float | str = "0.0001:0.5",
    latency_push: float | str = "0.0001:0.5",
    ledger: str = "",
    seed: int | None = None,
    **keywords: Any,
) -> Distributed:
    """Starts a run on a Ray cluster; paceline.Gorila(..., cluster="ray") calls it.

    policy, and all other keywords: as in paceline.Gorila, or with another method as in A2C or PPO,
        without normalize_obs and normalize_reward.
    env: the name of a built-in environment.
    method: "dqn", or "a3c" or "appo", whose bundles are learners of A2C or PPO.
    name: of the run, for attach and stop: 1 to 100 letters, digits, ".", "_" and "-". None: a new name (model.name).
    address: of the cluster, as in ray.init. None: the cluster of this machine, or a new one.
    bundles: learners, each a process with actors_per_bundle environments and its share of the replay
        memory. shards: processes with a range of the parameters each.
    actors: processes that act alone and send their steps to the replay shards, from which the learners draw;
        a bundle is then a learner alone. Each has a core of Ray. 0: every bundle has its own actors. With
        "dqn" alone.
    envs_per_actor: environments that such an actor steps.
    replay_shards: processes with a share of the replay memory each, 1 to actors. Actor i sends its steps to
        shard i % replay_shards, and learners draw minibatches from all shards in turn.
    pull_every: steps of each environment of such an actor after which it sends them and pulls the parameters.
    actor_epsilon: "schedule": all of these actors have the epsilon of exploration_initial_eps and its neighbours,
        and 1 before the first update. "apex": actor i of N keeps 0.4^(1 + 7 i / (N - 1)).
    num_cpus: cores that Ray reserves for a bundle, and its number of threads.
    pin: binds the learner of a bundle to num_cpus cores of its machine, and the other threads of bundles and
        shards to the rest. A bundle for which no cores are left, or that would leave none, is not bound.
        For machines that have nothing else to do. Linux alone.
    keepers, copy_every: processes that own the newest copy of every shard, made every copy_every
        updates. A shard that ends goes on from that copy.
    delay: gradients under way while a learner computes the next one; 0 waits for every push.
    gradients: "fp32", or "bf16" with error feedback, which halves the bytes of a push.
    inline_limit: bytes of a shard's parameters up to which an answer carries them. Larger ones are put
        into the object store, once for each version that is pulled.
    max_staleness: a shard refuses a gradient if it has applied more than this number of gradients since
        the bundle read it; 0 refuses none.
    lease: seconds after which a run without a driver ends.
    schedule: "race", the default: bundles visit the shards in the order in which they arrive, and
        processes that end come back.
        "virtual", "recorded": in the order of Gorila in one process with the same settings, whose bits
        the run has; a process that ends, ends the run, and learn may be called once. With "dqn" alone.
    order, latency_step, latency_forward, latency_gradient, latency_pull, latency_push: of these
        schedules, as in paceline.Gorila.
    ledger: a folder in which shards and learners log every answer; for tests.
    """
    if method not in WORKERS:
        raise ConfigError(f"method: {method!r}, must be {', '.join(map(repr, WORKERS))}")
    _check_env(env)
    run, policy = name_of(name), str(RULES["policy"](policy)["policy"])
    for key in sorted(_OF_RUN & keywords.keys()):
        raise ConfigError(f"{key}: {keywords[key]!r}, must be left out, as the run sets it for each bundle")
    keywords = {key: plain(key, value) for key, value in keywords.items()}
    cluster = checked(
        bundles, shards, actors_per_bundle, num_cpus, pin, keepers, copy_every, delay, gradients, inline_limit, plain("lease", lease),
        actors, envs_per_actor, replay_shards, pull_every, actor_epsilon,
    )  # fmt: skip
    bundles, actors = cluster["bundles"], cluster["actors"]
    if actors:
        _check_decoupled(actors, method, schedule, order, keywords)
    schedule = schedule or ("race" if order is None else "recorded")
    latency = tuple(str(text) for text in (latency_step, latency_forward, latency_gradient, latency_pull, latency_push))
    path = _checked_order(schedule, order, method, latency)
    seed = secrets.randbits(31) if seed is None else plain("seed", seed)
    if path:
        _compare_settings(
            policy, env, order=path, bundles=bundles, shards=shards, num_envs=bundles * actors_per_bundle, max_staleness=max_staleness,
            seed=seed, **keywords,
        )  # fmt: skip
    spec = Spec(
        run=run, id=uuid.uuid4().hex, method=method, policy=policy, env=env,
        worker=keywords_of_worker(method, keywords, bundles, *_memories(cluster)),
        optimizer={"max_staleness": plain("max_staleness", max_staleness)},
        seed=seed, size=0, ledger=ledger, schedule=schedule, order=path,
        latency=latency, **cluster,
    )  # fmt: skip
    _ray.connect(address)
    return _started(spec, local_worker(spec), None)


def _check_env(env: Any) -> None:
    if not isinstance(env, str):
        raise ConfigError(f"env: {type(env).__name__}, must be the name of a built-in environment, which every process makes for itself")


def _check_decoupled(actors: int, method: str, schedule: str | None, order: File | None, keywords: Mapping[str, Any]) -> None:
    """Refuses what decoupled actors do not have."""
    if method != "dqn":
        raise ConfigError(f"actors: {actors}, must be 0 with method {method!r}, whose learners need the steps of the latest parameters")
    if schedule not in (None, "race"):
        raise ConfigError(f"schedule: {schedule!r}, must be 'race' where actors are apart")
    if order is not None:
        raise ConfigError(f"order: {order!r}, must be None where actors are apart")
    for name in ("action_masks", "noisy"):
        if keywords.get(name):
            raise ConfigError(f"{name}: True, must be False where actors are apart")


def _compare_settings(policy: str, env: str, **keywords: Any) -> None:
    """Refuses the order of a run with other settings or environments: the library compares both when it makes the run here."""
    from ..gorila import Gorila

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the worker of this process gives the same
        Gorila(policy, env, **{**keywords, "verbose": 0}).close()


def _checked_order(schedule: str, order: File | None, method: str, latency: tuple[str, ...]) -> str:
    """The path of an order; checks what a given order needs."""
    if schedule not in ("race", "virtual", "recorded"):
        raise ConfigError(f"schedule: {schedule!r}, must be 'race', 'virtual' or 'recorded'")
    if order is not None and method != "dqn":
        raise ConfigError(f"order: {order!r}, must be None with method {method!r}")
    if schedule != "race" and method != "dqn":
        raise ConfigError(f"schedule: {schedule!r}, must be 'race' with method {method!r}")
    if (schedule == "recorded") != (order is not None):
        raise ConfigError(f"order: {order!r}, must {'name a file' if order is None else 'be None'} with schedule {schedule}")
    Latency.of(latency)
    if order is None:
        return ""
    path = os.fsdecode(order)
    if not os.path.exists(path) and os.path.exists(f"{path}.order"):
        path += ".order"
    return path


def of_gorila(arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Distributed:
    """What paceline.Gorila(..., cluster=...) makes."""
    from ..gorila import Gorila

    given = dict(keywords)
    cluster = given.pop("cluster")
    if cluster != "ray":
        raise ConfigError(f"cluster: {cluster!r}, must be 'ray' or None")
    names = list(inspect.signature(Gorila).parameters)
    given |= dict(zip(names, arguments))
    if (file := given.pop("latency_file", None)) is not None:
        raise ConfigError(f"latency_file: {file!r}, must be None on a cluster, which knows latency_step and its neighbours")
    who, each = ("actors", "envs_per_actor") if given.get("actors") else ("bundles", "actors_per_bundle")
    envs = math.prod(whole(count, given.get(count, 1), *COUNTS[count]) for count in (who, each))
    if (number := given.pop("num_envs", None)) not in (None, envs):
        raise ConfigError(f"num_envs: {number!r}, must be None or {who} * {each} ({envs})")
    if (threads := given.pop("num_threads", None)) is not None and given.setdefault("num_cpus", threads) != threads:
        raise ConfigError(f"num_threads: {threads!r}, must be None or num_cpus ({given['num_cpus']!r})")
    return start(**given)


def of_preset(preset: str, env: str, overrides: Mapping[str, Any]) -> Distributed:
    """What paceline.Gorila.from_preset(..., cluster=...) makes."""
    if preset in ("apex", "fastdqn") and not overrides.get("actors"):
        raise ConfigError(f"actors: {overrides.get('actors')!r}, must be at least 1 with preset {preset!r}")
    if preset == "apex":
        return of_gorila((), {"policy": "auto", "env": env, **apex(env), **overrides})
    config, plain = Config("dqn" if preset == "fastdqn" else "gorila"), Config("gorila")
    env = apply_preset(config, preset, env)
    known = {s.name for s in plain.describe()}
    rows = {s.name: (s.type, config.get(s.name)) for s in config.describe() if s.name in known and config.get(s.name) != plain.get(s.name)}
    for made in (config, plain):
        made.close()
    given: dict[str, Any] = {name: _READ.get(kind, str)(text) for name, (kind, text) in rows.items()}
    given.pop("num_envs", None)
    if "learning_rate_final" in given:
        given["learning_rate"] = (given["learning_rate"], given.pop("learning_rate_final"))
    if (widths := given.pop("net_arch", None)) is not None:
        given["policy_kwargs"] = {"net_arch": widths}
    if (options := given.pop("env_options", None)) is not None:
        given["env_kwargs"] = json.loads(options)
    own = {"tuned": TUNED, "fastdqn": FASTDQN}.get(preset, {})
    return of_gorila((), {"policy": "auto", "env": env, **own, **given, **overrides})


def keywords_of_worker(method: str, keywords: Mapping[str, Any], bundles: int, memories: int = 0, envs: int = 1) -> dict[str, Any]:
    """The keywords of a bundle's model. What all bundles or replay memories share is divided. Raises ConfigError.

    Where memories is not 0, learning_starts stays whole: each memory and each learner takes its own share.
    memories: 0 for one a bundle. envs: the most environments whose steps a replay memory has.
    """
    for name in ("normalize_obs", "normalize_reward"):
        if keywords.get(name):
            raise ConfigError(f"{name}: {keywords[name]!r}, must be False on a cluster, which merges no statistics")
    if method != "dqn":
        _check_on_policy(method, keywords)
        return dict(keywords)
    for name, value in _FIXED.items():
        if keywords.get(name, value) != value:
            raise ConfigError(f"{name}: {keywords[name]!r}, must be {value!r} on a cluster")
    from ..dqn import DQN
    from ..gorila import Gorila

    parameters = inspect.signature(Gorila).parameters
    known = inspect.signature(DQN).parameters.keys()
    # Gorila's defaults differ from DQN's.
    ours = {name: p.default for name, p in parameters.items() if name in known and name not in _OURS and p.default is not p.empty}
    changed = {name: value for name, value in ours.items() if value != inspect.signature(DQN).parameters[name].default}
    given = {**changed, **keywords, **_FIXED}
    for name in _NOT_WORKERS:
        given.pop(name, None)
    shares = memories or bundles
    batch = steps("batch_size", given.get("batch_size", ours["batch_size"]), 1)
    size = steps("buffer_size", given.get("buffer_size", ours["buffer_size"]), 1)
    least = shares * max(batch, envs * steps("n_steps", given.get("n_steps", 1), 1))
    if size < least:
        who = "replay_shards" if memories else "bundles"
        raise ConfigError(f"buffer_size: {size}, must be at least {least} with {shares} {who}, which share it")
    given["buffer_size"] = size // shares
    starts = steps("learning_starts", given.get("learning_starts", ours["learning_starts"]), 0)
    given["learning_starts"] = max(starts if memories else -(-starts // bundles), batch)
    return given


def _check_on_policy(method: str, keywords: Mapping[str, Any]) -> None:
    """Refuses the keywords that A3C or APPO has in one process, and a bundle's model has not."""
    import paceline

    one_process, bundle = (inspect.signature(getattr(paceline, name)).parameters for name in (method.upper(), WORKERS[method]))
    for name, value in keywords.items():
        if name in one_process and name not in bundle:
            why = f"on a cluster method {method!r} has the keywords of {WORKERS[method]}"
            raise ConfigError(f"{name}: {value!r}, must be left out: {why}")


def _memories(cluster: Mapping[str, Any]) -> tuple[int, int]:
    """memories and envs of keywords_of_worker."""
    if not cluster["actors"]:
        return 0, int(cluster["actors_per_bundle"])
    shards = int(cluster["replay_shards"])
    return shards, -(-cluster["actors"] // shards) * int(cluster["envs_per_actor"])


def optimizer_of(local: Any, method: str) -> dict[str, Any]:
    """The keywords of paceline.Store for the optimiser that a worker's keywords ask for."""
    setting = local.setting
    if method == "dqn":
        name, eps = setting("optimizer"), setting("optimizer_eps")
        if name == "rmsprop_lasagne":  # as in core/agents/dqn
            return {"optimizer": "rmsprop", "decay": 0.95, "eps": float(eps or 1e-6), "eps_inside": True}
        return {"optimizer": name, "eps": float(eps) if eps else None}
    if setting("use_rms_prop") == "true":
        return {
            "optimizer": "rmsprop", "eps": float(setting("rms_prop_eps")), "decay": float(setting("rms_prop_alpha")),
            "eps_inside": setting("rms_prop_eps_inside") == "true", "first_average": int(float(setting("rms_prop_first"))),
        }  # fmt: skip
    return {"optimizer": "adam", "eps": float(setting("adam_eps"))}


def local_worker(spec: Spec) -> Any:
    """The driver's worker: it acts and evaluates.

    It has as many environments as a bundle, on which the limits of keywords depend, and a small replay memory.
    """
    import dataclasses

    keywords = dict(spec.worker)
    if spec.method == "dqn":
        batch, n_steps = int(keywords.get("batch_size", 32)), int(keywords.get("n_steps", 1))
        keywords["buffer_size"] = min(keywords["buffer_size"], max(_LOCAL_BUFFER, batch, n_steps * spec.actors_per_bundle))
        keywords["learning_starts"] = min(keywords["learning_starts"], keywords["buffer_size"])
    return worker(dataclasses.replace(spec, worker=keywords, num_cpus=1), 0)


def _started(spec: Spec, local: Any, states: list[bytes] | None) -> Distributed:
    """Starts the processes of a run. local: its worker of this process, which is closed after an error.

    states: of the shards; None: those of new parameters.
    """
    import dataclasses

    try:
        if local.env_name is None:
            raise ConfigError(f"env: {spec.env!r}, must be the name of a built-in environment, which every process makes for itself")
        if states is None:
            theta = local.flat_parameters()
            spec = dataclasses.replace(
                spec, seed=local.seed, size=len(theta), shards=min(spec.shards, len(theta)),
                optimizer=spec.optimizer | optimizer_of(local, spec.method),
            )  # fmt: skip
            states = []
            for k, (first, size) in enumerate(shard_ranges(spec.size, spec.shards)):
                with Store(theta, first, size, **spec.optimizer) as store:
                    states.append(Shard(spec.id, k, store, lambda _: None, lambda *_: None, 1).state())
        elif (size := len(local.flat_parameters())) != spec.size:
            raise ConfigError(f"env: {spec.env!r}, has a network of {size} parameters, must be {spec.size} as in the file")
        if (size := len(pickle.dumps(spec))) > MOST_SPEC:
            raise ConfigError(f"policy_kwargs: {size} bytes with the other keywords, must be less than {MOST_SPEC} bytes")
        return Distributed(Run.start(spec, states), local)
    except BaseException:
        local.close()
        raise


def attach(name: str, address: str | None = None) -> Distributed:
    """The model of a run that goes on, such as one whose driver has ended.

    address: of the cluster, as in ray.init.
    """
    _ray.connect(address)
    run = Run.attach(name)
    return Distributed(run, local_worker(run.spec))


def stop(name: str, address: str | None = None) -> bool:
    """Ends all processes of a run. Returns False if there is no such run."""
    _ray.connect(address)
    return _run.stop(name)


def load(path: File, env: Any = None, *, name: str | None = None, address: str | None = None, **overrides: Any) -> Distributed:
    """Continues a checkpoint of save, on any number of nodes.

    env: the name of the environment; None: that of the file, which it must be where the file has experience.
    overrides: bundles, num_cpus, pin, keepers, copy_every, delay, gradients,
        inline_limit and lease may differ from the saved run's; the shards are the saved ones. Bundles
        that the file has no experience of begin without. All bundles share buffer_size and
        learning_starts anew; one with experience of the file keeps the file's size.
    """
    run = name_of(name)
    if env is not None:
        _check_env(env)
    with _files.opened(path) as reader:
        with reader.faults():
            spec = _spec_of(reader, env, run, overrides)
            states = [reader.read("shard", k) for k in range(spec.shards)]
            _check_states(states, spec)
            experience = _experience(reader, spec, "the file" if hasattr(path, "read") else os.fsdecode(path))
        _ray.connect(address)
        with reader.faults():  # such as keywords that no run has
            local = local_worker(spec)
        model = _started(spec, local, states)
        try:
            for part, k in experience:
                model.run.slow_call(part, k, "load", reader.read(part, k))
        except BaseException:
            model.close()
            raise
    return model


def _check_states(states: list[bytes], spec: Spec) -> None:
    """Refuses states of shards that a shard of the run would refuse."""
    for k, (state, place) in enumerate(zip(states, shard_ranges(spec.size, spec.shards))):
        with Store.from_bytes(_records.unpack(state, f"shard-{k}")[1]) as store:
            if (store.first, store.size) != place:
                raise CheckpointError(f"shard-{k}: of parameters {store.first} to {store.first + store.size - 1}, must be of {place}")
            Shard(spec.id, k, store, lambda _: None, lambda *_: None, 1).restore(state, again=False)


def _experience(reader: _files.Reader, spec: Spec, file: str) -> list[tuple[str, int]]:
    """The entries of experience that the run takes; checks them, and says which it leaves out. file: its name in the notice."""
    taken = []
    for part, number in (("bundle", spec.bundles), ("replay", spec.replay_shards)):
        there = reader.indexes(part)
        taken += [(part, k) for k in there if k < number]
        if left := sum(k >= number for k in there):
            notice(f"{file}: the experience of {left} of {len(there)} {part}s is left out, because the run has {number}")
    if taken and spec.env != (known := reader.head["spec"]["env"]):
        raise ConfigError(f"env: {spec.env!r}, must be None or {known!r}, of which the file has experience")
    for part, k in taken:
        reader.check(part, k)
    return taken


def _spec_of(reader: _files.Reader, env: Any, run: str, overrides: Mapping[str, Any]) -> Spec:
    """The Spec of a checkpoint's head, which is untrusted."""
    for key, value in overrides.items():
        if key not in _OVERRIDES:
            raise ConfigError(f"{key}: {value!r}, must be left out, as load knows {', '.join(_OVERRIDES)}")
    where, stored = f"{reader.path}: run.json", reader.head.get("spec")
    if not isinstance(stored, dict) or not isinstance(stored.get("worker"), dict) or not isinstance(stored.get("optimizer"), dict):
        raise CheckpointError(f"{where}: has no spec")
    try:
        fields = {key: stored[key] for key in ("method", "policy", "optimizer", "seed", "size")}
        # Whether machines have nothing else to do is not the file's to say.
        saved: dict[str, Any] = {"pin": False, "gradients": "bf16" if stored.get("bf16") else "fp32"}
        saved |= {key: stored[key] for key in _CHECKED if key not in saved}
    except KeyError as err:
        raise CheckpointError(f"{where}: has no {err.args[0]}") from None
    if not isinstance(stored.get("env"), str):
        raise CheckpointError(f"{where}: has no env")
    seed, size = fields["seed"], fields["size"]
    if fields["method"] not in WORKERS or not isinstance(fields["policy"], str) or type(seed) is not int or not 0 <= seed < 2**63:
        raise CheckpointError(f"{where}: a spec that no run has")

    def divided(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The cluster's fields of a Spec, and the keywords of a bundle's model."""
        cluster = checked(**values)
        return cluster, keywords_of_worker(fields["method"], from_json(stored["worker"]), cluster["bundles"], *_memories(cluster))

    try:
        shards = divided(saved)[0]["shards"]
    except ConfigError as err:
        raise CheckpointError(f"{where}: {err}") from None
    if type(size) is not int or not 1 <= size <= 2**31 or shards > size:
        raise CheckpointError(f"{where}: size {size!r}")
    cluster, worker = divided({**saved, **overrides})
    return Spec(run=run, id=uuid.uuid4().hex, env=stored["env"] if env is None else env, worker=worker, **fields, **cluster)


_OVERRIDES = ("bundles", "num_cpus", "pin", "keepers", "copy_every", "delay", "gradients", "inline_limit", "lease")
_CHECKED = (
    "bundles", "shards", "actors_per_bundle", "num_cpus", "pin", "keepers", "copy_every", "delay", "gradients", "inline_limit", "lease",
    "actors", "envs_per_actor", "replay_shards", "pull_every", "actor_epsilon",
)  # fmt: skip
