"""Reads files of stable-baselines3 without that package, without torch and without running pickled code.

Such a file is a zip of `data`, JSON with embedded pickles, and policy.pth, torch's zip with a
pickle that names the tensors. The pickles in `data` are never read. A restricted unpickler, which
makes only tensors and dicts, reads the pickle of policy.pth.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import io
import json
import pickle
import re
import zipfile
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import CheckpointError, ConfigError, notice
from ..parameters import repetitions
from ..spaces import Array

_LARGEST = 4 << 30  # largest entry in bytes
_DTYPES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2", "LongStorage": "<i8", "IntStorage": "<i4"}


@dataclasses.dataclass
class Saved:
    """The contents of a file.

    q_learning: whether the network has Q-values, else a policy and values. quantiles: whether it has
    quantiles of them, as sb3-contrib's QRDQN. keywords: keywords of the model's class. state: the
    arrays of policy.pth by name; those of QRDQN begin with q_net, too. lost: keywords that the file
    has only as pickled Python objects.
    """

    path: str
    q_learning: bool
    quantiles: bool
    num_envs: int
    keywords: dict[str, Any]
    state: dict[str, Array]
    data: Mapping[str, Any]
    lost: list[str]

    def keywords_for(self, known: Container[str], given: Container[str], accepts: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The keywords that a class knows and accepts; unsupported training settings do not stop a model from loading.

        accepts: whether the class accepts these keywords with defaults for all others. A warning
        lists the dropped keywords, except those given to load.
        """
        keywords = {name: value for name, value in self.keywords.items() if name in known and name not in given}
        refused = []
        for name in [name for name in keywords if name not in ("policy", "policy_kwargs") and not accepts({name: keywords[name]})]:
            refused.append(f"{name}={keywords.pop(name)!r}")
        if "policy_kwargs" in keywords:
            keywords["policy_kwargs"] = _optimizer(keywords["policy_kwargs"], refused, accepts)
        lost = [name for name in self.lost if name not in given]
        defaults = "defaults replace them unless load is given other values"
        if lost:
            what = f"{self.path}: has {' and '.join(lost)} as Python objects, which are not read: {defaults}"
            notice(what)
        if refused:
            what = f"{self.path}: trained with {' and '.join(refused)}, not supported: {defaults}; the policy acts the same"
            notice(what)
        return keywords

    def box_actions(self) -> Any:
        """The action space if it is a Box whose bounds can be read, else None."""
        with contextlib.suppress(CheckpointError, ConfigError), _reading(self.path):
            if "Box" in self.data["action_space"][":type:"]:
                return _action_space(self.data["action_space"])
        return None

    def refuse_actions(self) -> None:
        """Refuses distributions of actions that are not built."""
        if "MultiBinary" in str(self.data.get("action_space")):
            raise ConfigError(
                f"{self.path}: MultiBinary actions, must be Box, Discrete or MultiDiscrete: stable-baselines3's network has "
                "one output for each of them, and the library's has two"
            )
        if self.data.get("use_sde") is True:
            raise ConfigError(
                f"{self.path}: trained with use_sde=True, must be without: state-dependent exploration (gSDE) is not built, "
                "and its policy has other parameters"
            )

    def refuse_other_network(self, q_learning: bool, quantiles: bool, purpose: str) -> None:
        """Refuses a network that has something else than Q-values, quantiles of them, or a policy and values."""

        def named(q_learning: bool, quantiles: bool) -> str:
            return "quantiles" if quantiles else "Q-values" if q_learning else "a policy and values"

        if (self.q_learning, self.quantiles) != (q_learning, quantiles):
            has, must = named(self.q_learning, self.quantiles), named(q_learning, quantiles)
            raise ConfigError(f"{self.path}: a network with {has}, must have {must} for {purpose}")

    def spaces(self) -> tuple[Any, Any]:
        """(observation space, action space), needed only if load is given no environments."""
        with _reading(self.path):
            return _space(self.data["observation_space"]), _action_space(self.data["action_space"])

    def parameters(self, own: Collection[str]) -> dict[str, Array]:
        """The arrays of a model with these names; raises ConfigError if the file lacks one or has another."""
        missing = sorted(set(own) - set(self.state))
        if missing:
            raise ConfigError(f"policy.pth: has no {missing[0]!r}, must have {', '.join(own)}: custom layers cannot be loaded")
        unused = sorted(set(self.state) - set(own) - repetitions(self.state, own))
        if unused:
            raise ConfigError(f"policy.pth: has {unused[0]!r}, must have {', '.join(own)} alone: custom layers cannot be loaded")
        return {name: self.state[name] for name in own}


def own_name(name: str) -> str:
    """The library's name of an array of sb3-contrib's QRDQN; other names stay."""
    return re.sub("^quantile_net(_target)?[.]", r"q_net\1.", name)


def contrib_name(name: str) -> str:
    """The inverse of own_name."""
    return re.sub("^q_net(_target)?[.]", r"quantile_net\1.", name)


def is_one(path: str) -> bool:
    """Whether a file is a model of stable-baselines3."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {"data", "policy.pth"} <= set(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def refuse_model(path: str, instead: str) -> None:
    """Raises CheckpointError if a file is a model of stable-baselines3. instead: the advice in the message."""
    if is_one(path):
        raise CheckpointError(f"{path}: a model of stable-baselines3, must be a checkpoint of Paceline; {instead}")


def refuse_pickle(path: str, what: str) -> None:
    """Raises CheckpointError if a file is a pickle, such as stable-baselines3's replay buffers. what: the calling method."""
    start = b""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        start = file.read(2)
    if len(start) == 2 and start[0] == 0x80 and start[1] in range(2, 6):  # the pickle protocol
        raise CheckpointError(
            f"{path}: a pickle, as stable-baselines3's save_replay_buffer writes, must be a file of Paceline for {what}: "
            "reading a pickle can run any code"
        )


def read(path: str) -> Saved:
    """Reads a file of stable-baselines3."""
    with _reading(path):
        with zipfile.ZipFile(path) as archive:
            data = json.loads(_entry(archive, "data"))
            state = _state(_entry(archive, "policy.pth"))
        return _saved(path, data, state)


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turns the exceptions of a damaged file into a CheckpointError."""
    try:
        yield
    except (KeyError, ValueError, TypeError, AttributeError, EOFError, IndexError, zipfile.BadZipFile, pickle.UnpicklingError) as err:
        if isinstance(err, ConfigError):
            raise
        raise CheckpointError(f"{path}: a damaged file of stable-baselines3 ({type(err).__name__}: {err})") from None


def _entry(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > _LARGEST:
        raise ValueError(f"{name} has {archive.getinfo(name).file_size} bytes, must be at most {_LARGEST}")
    return archive.read(name)


def _saved(path: str, data: Mapping[str, Any], state: dict[str, Array]) -> Saved:
    keywords: dict[str, Any] = {name: value for name, value in data.items() if isinstance(value, (bool, int, float)) and name[0] != "_"}
    for name in ("num_timesteps", "seed", "n_envs"):
        keywords.pop(name, None)
    if data.get("max_grad_norm", 0) is None:  # gradients are not clipped
        keywords["max_grad_norm"] = None
    if isinstance(data.get("_stats_window_size"), int):
        keywords["stats_window_size"] = data["_stats_window_size"]
    if isinstance(data.get("tensorboard_log"), str):
        keywords["tensorboard_log"] = data["tensorboard_log"]
    cnn = any(".cnn." in name for name in state)
    quantiles = any(name.startswith("quantile_net.") for name in state)
    state = {own_name(name): array for name, array in state.items()}
    q_learning = any(name.startswith("q_net.") for name in state)
    kwargs = _policy_kwargs(data.get("policy_kwargs") or {})
    if not cnn:
        kwargs["net_arch"] = _widths(state)
    if not q_learning:  # stable-baselines3's A2C names RMSprop if it uses that optimiser
        kwargs.setdefault("optimizer_class", "Adam")
    keywords |= {"policy": "CnnPolicy" if cnn else "MlpPolicy", "policy_kwargs": kwargs}
    if quantiles:
        keywords["distribution"] = "quantile"
    lost = []
    for name in ("clip_range", "clip_range_vf", "learning_rate", "train_freq"):
        if isinstance(data.get(name), dict):
            value = _scheduled(data[name])
            if value is None:
                lost.append(name)
            else:
                keywords[name] = value
    return Saved(path, q_learning, quantiles, int(data.get("n_envs", 1)), keywords, state, data, lost)


def _policy_kwargs(saved: Mapping[str, Any]) -> dict[str, Any]:
    """policy_kwargs without net_arch, which the arrays show. The constructor refuses unknown entries later."""
    kwargs = {name: value for name, value in saved.items() if name[0] != ":" and name != "net_arch"}
    for name in ("activation_fn", "optimizer_class"):
        if name in kwargs:  # "<class 'torch.nn.modules.activation.ReLU'>"
            kwargs[name] = re.sub(r"\W+$", "", str(kwargs[name])).rpartition(".")[2]
    return kwargs


def _optimizer(kwargs: Mapping[str, Any], refused: list[str], accepts: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """policy_kwargs with Adam instead of an unsupported optimiser, without unsupported arguments; adds them to refused."""
    kwargs = dict(kwargs)
    options = kwargs.pop("optimizer_kwargs", None)
    torch_eps = options is not None  # without optimizer_kwargs an actor-critic's Adam has another eps than PyTorch's
    options = options or {}
    of = {name: kwargs[name] for name in ("optimizer_class",) if name in kwargs}
    if not accepts({"policy_kwargs": of}):
        refused.append(f"optimizer_class={of['optimizer_class']}")
        of, torch_eps = {"optimizer_class": "Adam"}, True
    if not isinstance(options, dict):
        refused.append(f"optimizer_kwargs={options!r}")
        options = {}
    taken = {}
    for name, value in options.items():
        if name[0] == ":" or (name, value) == ("weight_decay", 0):
            continue
        if accepts({"policy_kwargs": of | {"optimizer_kwargs": {name: value}}}):
            taken[name] = value
        else:
            refused.append(f"{name}={value!r} of {of.get('optimizer_class', 'Adam')}")
    return kwargs | of | ({"optimizer_kwargs": taken} if torch_eps else {})


def _scheduled(saved: Mapping[str, Any]) -> float | tuple[float, float] | None:
    """A constant or a line over the whole run, from the text next to its pickle; None for other schedules."""
    number = r"([-+.\de]+)"
    text = str(saved.get("value_schedule", ""))
    if constant := re.fullmatch(rf"ConstantSchedule\(val={number}\)", text):
        return float(constant[1])
    if line := re.fullmatch(rf"LinearSchedule\(start={number}, end={number}, end_fraction=1(?:\.0)?\)", text):
        return float(line[1]), float(line[2])
    return None


def _widths(state: Mapping[str, Array]) -> Any:
    """net_arch from the shapes of the hidden layers."""

    def hidden(prefix: str) -> list[int]:
        layers = sorted(
            (int(name[len(prefix) :].split(".")[0]), len(array))
            for name, array in state.items()
            if name.startswith(prefix) and name.endswith("weight")
        )
        return [width for _, width in layers]

    for head in ("q_net.q_net.", "q_net.quantile_net."):
        if any(name.startswith(head) for name in state):
            return hidden(head)[:-1]
    return {"pi": hidden("mlp_extractor.policy_net."), "vf": hidden("mlp_extractor.value_net.")}


def _space(saved: Mapping[str, Any]) -> Any:
    """A space from its plain-text entries in `data`."""
    from gymnasium import spaces

    kind = saved[":type:"]
    shape = saved.get("_shape", saved.get("shape"))  # "shape" up to gym 0.19
    if "Discrete" in kind and "Multi" not in kind:
        return spaces.Discrete(int(saved["n"]), start=int(saved.get("start", 0)))
    if "Box" in kind:
        dtype = np.dtype(saved["dtype"])
        kinds = {"b": (0, 1), "f": (-np.inf, np.inf)}
        low, high = kinds[dtype.kind] if dtype.kind in kinds else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return spaces.Box(low, high, tuple(shape), dtype.type)
    if "MultiBinary" in kind:
        return spaces.MultiBinary(tuple(shape))
    if "MultiDiscrete" in kind:
        counts = _written(saved, "nvec", tuple(shape))
        first = _written(saved, "start", tuple(shape)) if saved.get("start") is not None else np.zeros(tuple(shape))
        return spaces.MultiDiscrete(counts.astype(np.int64), start=first.astype(np.int64))
    raise ConfigError(
        f"observation or action space: {kind}, must be Box, Discrete, MultiDiscrete or MultiBinary to be read from a file; give env"
    )


def _action_space(saved: Mapping[str, Any]) -> Any:
    """_space of actions: a Box has the bounds of the file."""
    from gymnasium import spaces

    if "Box" not in saved[":type:"]:
        return _space(saved)
    shape = tuple(saved.get("_shape", saved.get("shape")))
    dtype = np.dtype(saved["dtype"])
    low, high = (_written(saved, name, shape).astype(dtype) for name in ("low", "high"))
    return spaces.Box(low, high, shape, dtype.type)


def _written(saved: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Array:
    """An array that `data` has as the text of NumPy, float64 of a shape. Long arrays have only a part of their numbers there:
    then one number stands for all, if the file says so."""
    for text in (str(saved[name]), str(saved.get(f"{name}_repr", "..."))):
        numbers = re.findall(r"[-+]?(?:inf|\d+\.?\d*(?:e[-+]?\d+)?|\.\d+)", text)
        if "..." not in text and len(numbers) in (1, int(np.prod(shape))):
            return np.broadcast_to(np.array(numbers, np.float64).reshape(-1 if len(numbers) == 1 else shape), shape)
    raise ConfigError(f"action space: {name} of shape {shape} is not all in the file; give env")


class _Unpickler(pickle.Unpickler):
    """An unpickler that makes only the classes of a state dict of tensors."""

    def __init__(self, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(io.BytesIO(_entry(archive, f"{folder}/data.pkl")))
        self._archive, self._folder = archive, folder

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        raise pickle.UnpicklingError(f"policy.pth: {module}.{name}, must be a class of a tensor")

    def persistent_load(self, key: Any) -> Array:
        _, dtype, name, _, _ = key
        return np.frombuffer(_entry(self._archive, f"{self._folder}/data/{int(name)}"), dtype)


def _tensor(storage: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any) -> Array:
    """torch._utils._rebuild_tensor_v2 in NumPy."""
    size = offset + 1 + sum((n - 1) * stride for n, stride in zip(shape, strides)) if all(shape) else 0
    if offset < 0 or size > len(storage) or any(stride < 0 for stride in strides) or len(shape) != len(strides):
        raise ValueError(f"a tensor of shape {shape} is larger than its storage of {len(storage)} numbers")
    view = np.lib.stride_tricks.as_strided(storage[offset:], shape, [stride * storage.itemsize for stride in strides])
    return view.copy()


def _state(data: bytes) -> dict[str, Array]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        folder = next(name for name in archive.namelist() if name.endswith("/data.pkl")).removesuffix("/data.pkl")
        state = _Unpickler(archive, folder).load()
    if not isinstance(state, dict) or not all(isinstance(array, np.ndarray) for array in state.values()):
        raise ValueError("policy.pth is not a dict of tensors")
    return dict(state)
