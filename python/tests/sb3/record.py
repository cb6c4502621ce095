"""Records Stable-Baselines3's behaviour for tests that run without it: `python record.py`, needs
Stable-Baselines3.

recorded.json has signatures, attributes and log keys. It has the values that callbacks get, and the
steps at which they end learning. The models in dqn.zip, a2c.zip and ppo.zip are saved without
pickles. recorded.json has their actions and outputs for some observations.
"""

import inspect
import json
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common import callbacks
from stable_baselines3.common.logger import configure

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))
from envs import Steps  # noqa: E402

CALLBACKS = [name for name in dir(callbacks) if name in (
    "CheckpointCallback", "EvalCallback", "EveryNTimesteps", "StopTrainingOnMaxEpisodes", "StopTrainingOnNoModelImprovement",
    "StopTrainingOnRewardThreshold",
)]  # fmt: skip


def parameters(function):
    return {
        name: p.default if isinstance(p.default, (int, float, str, bool, type(None))) else None
        for name, p in inspect.signature(function).parameters.items()
        if name != "self" and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    }


def seen(cls, keywords):
    """Returns a callback's values for 40 steps, the step at which StopTrainingOnMaxEpisodes ends
    learning, and log keys.
    """
    rounds = []

    class Look(callbacks.BaseCallback):
        def _on_step(self):
            info = dict(self.locals["infos"][0])
            info.pop("terminal_observation", None)
            if "episode" in info:
                info["episode"] = {"r": float(info["episode"]["r"]), "l": int(info["episode"]["l"])}
            last = self.locals["infos"][0].get("terminal_observation")
            rounds.append({
                "n_calls": self.n_calls, "num_timesteps": self.num_timesteps, "reward": float(self.locals["rewards"][0]),
                "done": bool(self.locals["dones"][0]), "new_obs": self.locals["new_obs"].tolist(), "info": info,
                "last": None if last is None else last.tolist(),
            })  # fmt: skip
            return True

    with tempfile.TemporaryDirectory() as folder:
        model = cls("MlpPolicy", Steps(), device="cpu", **keywords)
        model.set_logger(configure(folder, ["csv"]))
        model.learn(40, callback=Look(), log_interval=1)
        model.logger.close()
        columns = Path(folder, "progress.csv").read_text().splitlines()[0].split(",")
        stopped = (
            cls("MlpPolicy", Steps(), device="cpu", **keywords).learn(1000, callback=callbacks.StopTrainingOnMaxEpisodes(5)).num_timesteps
        )
        evaluation = callbacks.EvalCallback(Steps(), n_eval_episodes=2, eval_freq=10, log_path=folder, verbose=0)
        cls("MlpPolicy", Steps(), device="cpu", **keywords).learn(40, callback=evaluation)
        npz = {name: array.tolist() for name, array in np.load(f"{folder}/evaluations.npz").items()}
    return {"rounds": rounds, "columns": sorted(columns), "stopped": stopped, "evaluations": npz}


def saved(model, name, obs):
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model")
        with zipfile.ZipFile(f"{folder}/model.zip") as whole, zipfile.ZipFile(HERE / f"{name}.zip", "w") as kept:
            data = {key: value for key, value in json.loads(whole.read("data")).items() if key[0] != "_" and key != "policy_class"}
            for value in data.values():
                if isinstance(value, dict):
                    value.pop(":serialized:", None)
            kept.writestr("data", json.dumps(data))
            for entry in ("policy.pth", "_stable_baselines3_version"):
                kept.writestr(entry, whole.read(entry))
    with torch.no_grad():
        tensor = torch.as_tensor(obs)
        outputs = {"q": model.q_net(tensor)} if hasattr(model, "q_net") else {
            "logits": model.policy.get_distribution(tensor).distribution.logits, "value": model.policy.predict_values(tensor)
        }  # fmt: skip
    actions = model.predict(obs, deterministic=True)[0]
    return {"actions": actions.tolist(), "outputs": {key: value.tolist() for key, value in outputs.items()}}


def attributes_of_callbacks():
    """Returns names and simple values of each callback class's attributes, except dunder names."""
    made = {
        "BaseCallback": callbacks.ConvertCallback(None), "CallbackList": callbacks.CallbackList([]),
        "CheckpointCallback": callbacks.CheckpointCallback(10, "x"), "ConvertCallback": callbacks.ConvertCallback(None),
        "EvalCallback": callbacks.EvalCallback(Steps()), "EventCallback": callbacks.EventCallback(),
        "EveryNTimesteps": callbacks.EveryNTimesteps(10, callbacks.ConvertCallback(None)),
        "LogEveryNTimesteps": callbacks.LogEveryNTimesteps(10), "ProgressBarCallback": callbacks.ProgressBarCallback(),
        "StopTrainingOnMaxEpisodes": callbacks.StopTrainingOnMaxEpisodes(3),
        "StopTrainingOnNoModelImprovement": callbacks.StopTrainingOnNoModelImprovement(3),
        "StopTrainingOnRewardThreshold": callbacks.StopTrainingOnRewardThreshold(1.0),
    }  # fmt: skip
    out = {}
    for name, callback in made.items():
        names = sorted(n for n in dir(callback) if n[:2] != "__" and n != "_abc_impl" and (name, n) != ("BaseCallback", "callback"))
        simple = {n: vars(callback).get(n) for n in names}
        out[name] = {n: v if isinstance(v, (int, str, list)) and n != "save_path" else None for n, v in simple.items()}
    return out


def hyperparameters(model):
    """Returns the simple values of vars(model) that learning does not change."""
    moving = ("ep_info_buffer", "ep_success_buffer", "exploration_rate", "num_timesteps", "start_time")
    kinds = int, float, str, type(None)
    return {
        name: value for name, value in sorted(vars(model).items()) if isinstance(value, kinds) and name[0] != "_" and name not in moving
    }


def main():
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(20, 2)).astype(np.float32)
    small = {"learning_starts": 10, "buffer_size": 100, "batch_size": 4}
    relu = {"net_arch": {"pi": [8], "vf": [6, 4]}, "activation_fn": torch.nn.ReLU}
    dqn = DQN("MlpPolicy", Steps(), seed=1, device="cpu", policy_kwargs={"net_arch": [16, 8], "activation_fn": torch.nn.Tanh}, **small)
    a2c = A2C("MlpPolicy", Steps(), seed=1, device="cpu", policy_kwargs=relu)
    short = {"n_steps": 20, "batch_size": 10}
    ppo = PPO("MlpPolicy", Steps(), seed=1, device="cpu", policy_kwargs=relu, clip_range=0.1, clip_range_vf=0.3, target_kl=0.5, **short)
    out = {
        "version": stable_baselines3.__version__,
        "signatures": {
            **{f"{cls.__name__}.{name}": parameters(getattr(cls, name)) for cls in (DQN, A2C, PPO)
               for name in ("__init__", "learn", "predict", "load", "save", "set_env", "get_parameters", "set_parameters", "set_logger")},
            **{f"DQN.{name}": parameters(getattr(DQN, name)) for name in ("save_replay_buffer", "load_replay_buffer")},
            **{f"callbacks.{name}": parameters(getattr(callbacks, name)) for name in CALLBACKS},
        },
        "attributes": {cls.__name__: sorted(name for name in dir(cls("MlpPolicy", Steps(), device="cpu").learn(1)) if name[0] != "_")
                       for cls in (DQN, A2C, PPO)},
        "callback_attributes": attributes_of_callbacks(),
        "hyperparameters": {cls.__name__: hyperparameters(cls("MlpPolicy", Steps(), seed=1, device="cpu", **keywords))
                            for cls, keywords in ((DQN, small), (A2C, {}), (PPO, short))},
        "seen": {"DQN": seen(DQN, small), "A2C": seen(A2C, {}), "PPO": seen(PPO, short)},
        "files": {
            "dqn": saved(dqn.learn(60), "dqn", vectors) | {"obs": vectors.tolist()},
            "a2c": saved(a2c.learn(60), "a2c", vectors) | {"obs": vectors.tolist()},
            "ppo": saved(ppo.learn(60), "ppo", vectors) | {"obs": vectors.tolist()},
        },
    }  # fmt: skip
    (HERE / "recorded.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
