"""The device setting: messages without a GPU, and the software device (`make test-gpu`)."""

import json
import os
from pathlib import Path

import pytest

from paceline import A2C, A3C, APPO, DQN, GA3C, PPO, PQN, _lib
from paceline.errors import ConfigError

SOFTWARE = os.environ.get("PACELINE_SOFTWARE")
"""A folder with core/cuda/software's libcuda.so.1; the library in use has CUDA in it then."""

DEVICES = _lib.take_json(_lib.lib().paceline_devices)
METHODS = pytest.mark.parametrize("cls", [DQN, A2C, PPO, PQN])  # those that a GPU computes
needs_software = pytest.mark.skipif(not SOFTWARE, reason="left out: needs the software device (make test-gpu)")


@METHODS
def test_unknown_and_missing_devices_are_refused(cls):
    with pytest.raises(ConfigError, match=r'^device: "tpu", must be "auto", "cpu", "cuda" or "cuda:1" \.\.\.$'):
        cls("MlpPolicy", "CartPole-v1", device="tpu")
    with pytest.raises(ConfigError, match="^precision: tf32, must be fp32 or bf16 on the CPU$"):
        cls("MlpPolicy", "CartPole-v1", device="cpu", precision="tf32")
    if not DEVICES["devices"]:
        with pytest.raises(ConfigError, match="^precision: tf32, must be fp32 or bf16 on the CPU$"):
            cls("CnnPolicy", "Catch-v0", device="auto", precision="tf32")
        with pytest.raises(ConfigError, match=r"^device: cuda:1: (no NVIDIA driver|the NVIDIA driver|this build of Paceline has no CUDA)"):
            cls("MlpPolicy", "CartPole-v1", device="cuda:1")


@pytest.mark.parametrize("cls", [A3C, APPO, GA3C])
def test_asynchronous_methods_compute_on_the_cpu(cls):
    for device in ("cuda", "cuda:1"):
        with pytest.raises(ConfigError, match=f"^device: {device}, must be auto or cpu for {cls.METHOD}$"):
            cls("MlpPolicy", "CartPole-v1", device=device)
    for device in ("auto", "cpu"):
        with cls("MlpPolicy", "CartPole-v1", device=device) as model:
            assert str(model.device) == "cpu"


def test_replay_on_a_gpu_needs_a_gpu():
    with pytest.raises(ConfigError, match="^replay_device: cuda, must be auto or cpu, as the device that computes is cpu$"):
        DQN("MlpPolicy", "CartPole-v1", device="cpu", replay_device="cuda")


def test_a_model_has_a_device():
    with DQN("MlpPolicy", "CartPole-v1") as model:
        assert str(model.device) == "cpu" and model.replay_buffer.device == model.device


def on_software(process, code, **env):
    """Runs code in a process with the software device and returns the JSON that it prints."""
    return json.loads(with_software(process, code, **env).stdout)


def with_software(process, what, *arguments, **env):
    before = f"{SOFTWARE}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    return process(what, *arguments, env={"LD_LIBRARY_PATH": before, **env}, timeout=300)


LEARN = """
import json, sys, warnings
from paceline import A2C, DQN, PPO, PQN
cls, steps = {name}, {steps}
extra = dict(learning_starts=50, batch_size=8) if cls is DQN else {{}}
seen = {{}}
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    with cls("MlpPolicy", "CartPole-v1", seed=3, num_envs=2, device="cuda", **extra) as model:
        seen["device"] = str(model.device)
        model.learn(steps)
        seen["updates"] = model.stats["updates"]
        weights = model.get_parameters()["policy"]
        seen["weights"] = {{k: v.ravel()[:4].tolist() for k, v in weights.items()}}
        action, _ = model.predict(model.observation_space.sample())
        model.save("model.zip")
    with cls.load("model.zip") as again:
        seen["loaded"] = str(again.device)
        seen["same"] = all((again.get_parameters()["policy"][k] == v).all() for k, v in weights.items())
seen["said"] = [str(w.message) for w in said]
print(json.dumps(seen))
"""


@needs_software
@METHODS
def test_weights_equal_those_of_the_cpu(process, cls):
    name, steps = cls.__name__, 200
    there = on_software(process, LEARN.format(name=name, steps=steps))
    here = json.loads(process(LEARN.replace('device="cuda"', 'device="cpu"').format(name=name, steps=steps)).stdout)
    assert there["device"] == "cuda:0" and here["device"] == "cpu"
    assert there["updates"] == here["updates"] > 0
    for key, want in here["weights"].items():
        assert there["weights"][key] == pytest.approx(want, abs=1e-3), key
    # a checkpoint stores no device, and auto selects the CPU for an MLP
    assert there["loaded"] == "cpu" and there["same"]
    assert any("device: auto, and the CPU computes" in text for text in there["said"])


@needs_software
def test_auto_selects_the_gpu_for_convolutions(process):
    code = """
import json, warnings
from paceline import DQN, PPO
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    model = DQN("CnnPolicy", "Catch-v0", buffer_size=1000)
    alone = PPO("CnnPolicy", "Catch-v0", isa="portable")
print(json.dumps([str(model.device), str(alone.device), [str(w.message) for w in said if "device" in str(w.message)]]))
"""
    taken, portable, said = on_software(process, code)
    assert (taken, portable) == ("cuda:0", "cpu")
    assert len(said) == 1 and said[0].startswith("device: auto, and cuda:0 (Software device sm_90) computes")


@needs_software
def test_too_little_gpu_memory_is_refused(process):
    """The error names the memory that is needed and the memory of the GPU. auto keeps the replay
    memory in host memory.
    """
    code = """
import json
from paceline import DQN
said = []
for device in "cuda", "auto":
    try:
        with DQN("MlpPolicy", "CartPole-v1", device="cuda", replay_device=device, buffer_size=10_000_000, learning_starts=50) as model:
            said.append(model.learn(200).stats["updates"])
    except Exception as err:
        said.append([type(err).__mro__[1].__name__, type(err).__name__, str(err)])
try:
    DQN("MlpPolicy", "CartPole-v1", device="cuda", policy_kwargs={"net_arch": [4096, 4096, 4096]})
except Exception as err:
    said.append(str(err))
print(json.dumps(said))
"""
    refused, updates, network = on_software(process, code, PACELINE_SOFTWARE_MEMORY=str(300 << 20))
    assert "replay_device: cuda, buffer_size: 10000000 needs" in refused[2] and "which has" in refused[2]
    assert updates > 0
    assert "its memory is full" in network and "are free" in network


@needs_software
def test_a_forked_child_cannot_use_the_gpu(process):
    code = """
import json, os
from paceline import DQN
model = DQN("MlpPolicy", "CartPole-v1", device="cuda", learning_starts=50)
model.learn(100)
reading, writing = os.pipe()
if os.fork() == 0:
    try:
        model.learn(100)
    except BaseException as err:
        os.write(writing, str(err).encode())
    os._exit(0)
os.close(writing)
print(json.dumps([os.read(reading, 10_000).decode(), model.learn(100).num_timesteps]))
"""
    said, steps = on_software(process, code)
    assert "fork" in said and steps == 100


def test_info_names_the_device_of_auto(capsys):
    from paceline.cli import main

    assert main(["info"]) in (0, None)
    printed = capsys.readouterr().out
    assert "device     auto is " in printed


@needs_software
def test_gpus_without_tensor_cores_compute_fp32_only(process):
    """tf32 and bf16 need compute capability 8.0; fp32 does not."""
    code = """
import json
from paceline import A2C
said = []
for precision in "tf32", "bf16", "fp32":
    try:
        with A2C("MlpPolicy", "CartPole-v1", device="cuda", precision=precision) as model:
            said.append(model.learn(20).stats["updates"])
    except Exception as err:
        said.append(str(err))
print(json.dumps(said))
"""
    tf32, bf16, updates = on_software(process, code, PACELINE_SOFTWARE_SM="75")
    for precision, sentence in ("tf32", tf32), ("bf16", bf16):
        refused = f"precision: {precision}, must be fp32 on cuda:0 (Software device sm_75): its compute capability 7.5 is below 8.0"
        assert sentence.startswith(refused)
    assert updates > 0


@needs_software
def test_acting_is_measured_on_the_gpu(process, tmp_path):
    """make test-cuda measures act, and every call of act is a launch on the device."""
    out = tmp_path / "acting.json"
    with_software(process, str(Path(__file__).parent / "cuda" / "acting.py"), "--tiny", "--out", out)
    report = json.loads(out.read_text())
    assert [(r["state"], r["rows"]) for r in report["results"]] == [(s, n) for s in ("idle", "in a window") for n in (1, 8, 32)]
    assert all(r["calls"] == 20 and (r["updates"] > 0) == (r["state"] != "idle") for r in report["results"])
    assert all(r["launches"] >= r["calls"] for r in report["results"] if r["state"] == "idle")


@needs_software
def test_several_learners_compute_on_the_cpu_by_auto(process):
    code = """
import json, warnings
from paceline import DQN
warnings.simplefilter("ignore")
said = []
for device in "auto", "cuda":
    try:
        with DQN("CnnPolicy", "Catch-v0", num_envs=4, learners=2, buffer_size=1000, device=device) as model:
            said.append(str(model.device))
    except Exception as err:
        said.append(str(err))
print(json.dumps(said))
"""
    cpu, refused = on_software(process, code)
    assert cpu == "cpu" and refused == "learners: 2, must be 0 on cuda; the device cpu computes it"


@needs_software
def test_a_lost_gpu_is_no_error_of_a_setting(process):
    code = """
import json, warnings
from paceline import A2C
warnings.simplefilter("ignore")
with A2C("MlpPolicy", "CartPole-v1", device="cuda") as model:
    try:
        for _ in range(200):
            model.learn(64, reset_num_timesteps=False)
    except Exception as err:
        print(json.dumps([type(err).__name__, err.status, str(err)]))
"""
    name, status, text = on_software(process, code, PACELINE_SOFTWARE_FAIL="cuGraphLaunch:150:700")
    assert (name, status) == ("PacelineError", -1) and "is lost with the contents of its memory" in text
