"""The command line."""

import json
import math
import os
import re
import subprocess
from pathlib import Path

import pytest

import paceline
from paceline.cli import main


@pytest.fixture
def command(monkeypatch, tmp_path, capfd):
    """Runs the command line in this process, in an empty folder. Returns a CompletedProcess.

    Its status must be 0 unless check is False.
    """
    monkeypatch.chdir(tmp_path)

    def run(*arguments, check=True):
        capfd.readouterr()
        try:
            status = main(list(map(str, arguments)))
        except SystemExit as exit:
            status = exit.code
        done = subprocess.CompletedProcess(arguments, status or 0, *capfd.readouterr())
        if check:
            assert done.returncode == 0, f"status {status}\n{done.stdout}\n{done.stderr}"
        return done

    return run


def test_info_shows_version_and_gpu(process):
    done = process("import sys; from paceline.cli import main; sys.exit(main(['info']))")
    assert paceline.__version__ in done.stdout and "isa" in done.stdout
    # With or without GPU support there is a gpu line. With it, a further line describes a GPU or
    # says why there is none.
    assert re.search(r"^gpu +(left out of this build|CUDA 12 .*\n(cuda:0 .*GB|cuda +none: ).*driver)", done.stdout, re.M)
    done = process("import sys; from paceline.cli import main; sys.exit(main(['evaluate', 'nothing', 'CartPole-v1']))", check=False)
    assert done.returncode == 1 and done.stderr.startswith("paceline: ") and len(done.stderr.splitlines()) == 1


def test_a_trained_model_is_evaluated(process, tmp_path):
    call = "import sys; from paceline.cli import main; sys.exit(main(sys.argv[1:]))"
    process(
        call, "train", "CartPole-v1", "--preset", "tuned", "--steps", 1500, "--seed", 1, "--set", "learning_starts=200", "--save", "model"
    )
    done = process(call, "evaluate", "model", "CartPole-v1", "--episodes", 3)
    assert "mean_return" in done.stdout


def test_methods_options_and_presets_are_listed(command):
    assert "dqn        paceline.DQN\n" in command("methods").stdout
    assert "batch_size (int, default 32)" in command("options").stdout
    presets = command("presets", "--method", "dqn").stdout
    assert re.search(r"^tuned .*CartPole-v1", presets, re.M) and "mnih2015" in presets
    assert re.search(r"^net_arch +128,128 +\(set\)$", command("preset", "tuned", "CartPole-v1").stdout, re.M)
    refused = command("train", "CartPole-v1", "--method", "sarsa", check=False)
    assert refused.returncode == 1 and "--method sarsa: must be a2c, a3c, appo, dqn, ga3c, gorila, ppo or pqn" in refused.stderr


@pytest.mark.parametrize(
    "keyword, says",
    [
        ("lerning_rate=1e-3", "--set lerning_rate: not a keyword of paceline.DQN; did you mean learning_rate?"),
        ("env=Catch-v0", "--set env: not a keyword of paceline.DQN"),
        ("batch_size", "--set batch_size: must be NAME=VALUE"),
        ("batch_size=many", "batch_size: "),
    ],
)
@pytest.mark.parametrize("preset", [(), ("--preset", "tuned")])
def test_a_wrong_keyword_gives_one_line(command, keyword, says, preset):
    done = command("train", "CartPole-v1", *preset, "--set", keyword, "--save", "model", check=False)
    assert done.returncode == 1 and done.stderr.startswith(f"paceline: {says}") and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "name",
    [
        "continuous",
        "dopamine",
        "emulator",
        "gorila_faults",
        "gorila_learn",
        "gorila_overhead",
        "gorila_scale",
        "gorila_values",
        "modes",
        "onpolicy",
        "pong",
        "ray_costs",
        "small_games",
        "table1",
        "train",
        "value",
    ],
)
def test_benchmarks_of_the_checkout_give_their_path(capsys, name):
    assert main(["bench", name, "--steps", "16"]) == 1
    says = "not in the package, must be run in a checkout of the repository: python python/benchmarks"
    assert capsys.readouterr().err == f"paceline: bench {name}: {says}/{name}.py\n"
    assert (Path(__file__).parents[1] / "benchmarks" / f"{name}.py").is_file()


def test_a_reader_that_has_ended_is_no_error(process):
    """`paceline preset ... | head` prints no traceback."""
    call = """
import os, subprocess, sys
reading, writing = os.pipe()
os.close(reading)
done = subprocess.run([sys.executable, "-m", "paceline", *sys.argv[1:]], stdout=writing, stderr=subprocess.PIPE, text=True)
shown = [line for line in done.stderr.splitlines() if " steps/s" not in line]  # but for progress
assert (done.returncode, shown) == (141, []), done
"""
    process(call, "preset", "dqn_dopamine", "Pong")
    process(call, "methods")
    process(call, "train", "CartPole-v1", "--steps", 200, "--no-video")


def test_closed_standard_streams_are_no_error(process, tmp_path):
    call = 'import subprocess, sys; sys.exit(subprocess.run(["sh", "-c", sys.argv[1], sys.executable]).returncode)'
    process(call, '"$0" -m paceline info >&-')
    process(call, '"$0" -m paceline train CartPole-v1 --steps 200 --no-plot --no-video --save model >&- 2>&-')
    assert (tmp_path / "model.zip").exists()


@pytest.mark.slow
def test_bench_update_reports_shares_of_the_peak(process):
    call = "import sys; from paceline.cli import main; sys.exit(main(sys.argv[1:]))"
    report = json.loads(process(call, "bench", "update", "--rounds", 1, "--no-torch", "--json").stdout)
    ratio = report["ratio"]
    for work in ("update_fp32_1t", "update_bf16_1t", "act_b1", "act_b8", "act_b32_bf16"):
        # no finite bound: other processes affect the peak of a single round
        assert 0 < ratio[f"{work}_done_of_peak"] <= ratio[f"{work}_of_peak"] < math.inf
    if len(os.sched_getaffinity(0)) > 1:
        threads = max(r["threads"] for r in report["ours"])
        assert ratio[f"update_fp32_{threads}t_vs_1t"] > 0
    done = process(call, "bench", "update", "--rounds", 1, "--no-torch")
    assert "update 32" in done.stdout and "GFLOP/s" in done.stdout


def test_bench_update_compares_with_torch():
    pytest.importorskip("torch")
    from paceline.bench import update as bench_update

    torch = bench_update.Torch(batch=2, act=(1,))
    torch.kinds.pop("compiled", None), torch.kinds.pop("compiled_bf16", None)
    assert set(torch.turn(1)) == {("update", 2, "fp32"), ("update", 2, "bf16"), ("act", 1, "fp32"), ("act", 1, "bf16")}
    ours = {"work": "update", "batch": 2, "precision": "fp32", "threads": 1, "ms": 2.0, "of_peak": 0.5, "done_of_peak": 0.25}
    theirs = {"work": "update", "batch": 2, "kind": "fp32", "threads": 1, "ms": 5.0}
    ratio = bench_update._ratios({"ours": [ours], "theirs": [theirs, theirs | {"kind": "bf16", "ms": 3.0}]})
    assert ratio["update_fp32_1t_vs_torch"] == 2.5 and ratio["update_fp32_1t_vs_torch_bf16"] == 1.5


@pytest.mark.parametrize(
    ("error", "why"), [(RuntimeError("no compiler\nis here"), "no compiler"), (NotImplementedError(), "NotImplementedError")]
)
def test_bench_update_leaves_out_variants_that_do_not_compile(monkeypatch, error, why):
    torch = pytest.importorskip("torch")
    from paceline.bench import update as bench_update

    def compile(module):
        raise error

    monkeypatch.setattr(torch, "compile", compile)
    left_out = bench_update.Torch(batch=2, act=(1,)).left_out
    assert left_out == [f"torch.compile ({kind}): {why}" for kind in ("compiled", "compiled_bf16")]


def test_training_continues_from_a_file(command, tmp_path):
    command("train", "CartPole-v1", "--steps", "6e2", "--num-envs", 3, "--set", "learning_starts=50", "--save", "new/model")
    done = command("train", "CartPole-v1", "--load", "new/model", "--steps", 300, "--eval-freq", 450)
    assert "900 steps: mean return" in done.stdout
    done = json.loads(command("evaluate", "new/model", "CartPole-v1", "--episodes", 2, "--json").stdout)
    assert done["episodes"] == len(done["returns"]) == 2 and sum(done["returns"]) / 2 == done["mean_return"]
    names = command("envs").stdout.split("\n")
    assert {"Catch-v0", "Mini-Asterix-v0", "Mini-Breakout-v0", "Mini-Freeway-v0", "Mini-Seaquest-v0", "Mini-SpaceInvaders-v0"} < set(names)
    for arguments, says in {
        ("--steps", "2.5"): "--steps: invalid whole_number value: '2.5'",
        ("--load", "new/model", "--preset", "tuned"): "--preset tuned: must be left out with --load",
        ("--load", "nowhere"): "nowhere: no such file",
    }.items():
        assert says in command("train", "CartPole-v1", *arguments, check=False).stderr


CALL = "import sys; from paceline.cli import main; sys.exit(main(sys.argv[1:]))"
TINY = ("--steps", 600, "--seed", 1, "--set", "learning_starts=100")


def test_training_writes_a_curve_and_a_video(command, tmp_path):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    done = command("train", "cartpole-v1", *TINY, "--save", "new/model.zip", "--eval-freq", 300)
    assert re.search(r"^curve: new/model_curve.png \(mean return of the latest 100 episodes \d+\.\d+, 600 steps in ", done.stdout, re.M)
    assert re.search(r"^video: new/model_agent.gif \(an episode of (\d+) steps, return \1\)", done.stdout, re.M)
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"model.zip", "model_curve.png", "model_agent.gif"}
    with image.open(tmp_path / "new/model_curve.png") as curve, image.open(tmp_path / "new/model_agent.gif") as video:
        assert curve.format == "PNG" and video.format == "GIF" and video.n_frames > 2 and video.size == (600, 400)
    command("train", "Catch-v0", "--method", "ppo", "--preset", "tuned", "--steps", 64)
    assert {path.name for path in tmp_path.iterdir()} == {"new", "Catch-v0_ppo_curve.png", "Catch-v0_ppo_agent.gif"}


def test_training_can_omit_curve_and_video(command, tmp_path):
    done = command("train", "CartPole-v1", *TINY, "--no-plot", "--no-video")
    assert not list(tmp_path.iterdir()) and "curve" not in done.stdout + done.stderr


def test_a_model_is_saved_without_matplotlib_and_pillow(process, tmp_path):
    without = "import sys; sys.modules['matplotlib'] = sys.modules['PIL'] = None\n"
    done = process(without + CALL, "train", "CartPole-v1", *TINY, "--save", "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model.zip"]
    lines = [line for line in done.stderr.splitlines() if "steps/s" not in line]
    assert lines == [
        "curve and video: need matplotlib and Pillow at the end of training (pip install 'paceline[plot]')",
        "curve: left out: plots: needs the package matplotlib (pip install 'paceline[plot]')",
        "video: left out: videos: needs the package Pillow (pip install 'paceline[plot]')",
    ]


def test_training_without_images_writes_no_video(process, tmp_path):
    pytest.importorskip("matplotlib")
    bare = "import gymnasium, envs; gymnasium.register('Bare-v0', entry_point=envs.Counter)\n"
    done = process(bare + CALL, "train", "Bare-v0", *TINY, options=("-W", "ignore"))
    assert "video: left out: TypeError: " in done.stderr and "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["Bare-v0_dqn_curve.png"]


def test_bad_paths_are_refused_before_training(command, tmp_path):
    (tmp_path / "file").touch()
    for name in ("CartPole-v1_dqn", "lr0.001", "model"):
        (tmp_path / f"{name}_curve.png").mkdir()
    for arguments, says in {
        ("--save", "folder/"): "--save folder/: a folder, must be a file",
        ("--save", "file/model"): f"--save file/model: {tmp_path}/file must be a folder, and is a file",
        (): "curve CartPole-v1_dqn_curve.png: a folder, must be a file",
        ("--save", "lr0.001"): "curve lr0.001_curve.png: a folder, must be a file",
        ("--save", "model.zip"): "curve model_curve.png: a folder, must be a file",
        ("--save", "model.paceline"): "curve model_curve.png: a folder, must be a file",
    }.items():
        done = command("train", "CartPole-v1", *TINY, *arguments, check=False)
        assert done.returncode == 1 and done.stderr == f"paceline: {says}\n"


@pytest.mark.parametrize(
    "save, order, says",
    [
        ("x.order", "x", "--save-order x.order: also the file of --save"),
        ("x", "./x.zip", "--save-order ./x.zip: also the file of --save"),
        ("x", "link/x.zip", "--save-order link/x.zip: also the file of --save"),
        ("x", "x_curve.png", "curve x_curve.png: also the file of --save-order"),
        ("y", "race", "--save-order race: a folder, must be a file"),
    ],
)
def test_two_files_of_a_training_must_differ(command, tmp_path, save, order, says):
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "race.order").mkdir()
    race = ("--method", "a3c", "--schedule", "race")
    done = command("train", "CartPole-v1", *race, "--steps", 200, "--no-video", "--save", save, "--save-order", order, check=False)
    assert done.returncode == 1 and done.stderr.startswith(f"paceline: {says}")
    assert sorted(os.listdir(tmp_path)) == ["link", "race.order"]


@pytest.mark.parametrize("more", [("--steps", 0), ("--eval-freq", -1), ("--load", "model", "--steps", 0)])
def test_refused_training_keeps_an_older_file(command, tmp_path, more):
    without = ("--no-plot", "--no-video", "--save", "model")
    command("train", "CartPole-v1", "--steps", 200, *without)
    older = (tmp_path / "model.zip").read_bytes()
    done = command("train", "CartPole-v1", *more, *without, check=False)
    assert done.returncode == 1 and done.stderr.startswith("paceline: ") and (tmp_path / "model.zip").read_bytes() == older


def test_ctrl_c_ends_training_and_saves_the_model(process, tmp_path):
    done = process(
        """
import signal, threading, time, paceline

def learn(self, *arguments, learn=paceline.DQN.learn, **keywords):
    def press():
        while self.num_timesteps < 5000:
            time.sleep(0.01)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    return learn(self, *arguments, **keywords)

paceline.DQN.learn = learn
"""
        + CALL,
        "train", "CartPole-v1", "--steps", 1e9, "--save", "model", "--no-video", check=False,
    )  # fmt: skip
    assert done.returncode == 130 and "Traceback" not in done.stderr
    assert (tmp_path / "model.zip").exists()
    assert "curve" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "preset, method, says",
    [
        ("fast", "ppo", "preset fast"),
        ("pqn", "pqn", ""),
        ("mnih2016", "a3c", ""),
        ("mnih2015", "dqn", ""),
        ("tuned", "dqn", ""),
        ("stooke_abbeel", None, "preset stooke_abbeel: a preset of a2c, a3c, appo and ppo, --method must name one of them"),
        (
            "fats",
            None,
            "preset fats: must be c51_dopamine, c51_zoo, catdqn_stooke_abbeel, cleanrl, cule, der_100k, dqn_dopamine, dqn_stooke_abbeel, "
            "fast, fastdqn, iqn_dopamine, iqn_zoo, mnih2015, mnih2016, nair2015, paper, paper_large_1, paper_large_2, paper_large_3, "
            "paper_large_4, pqn, pqn_cleanrl, prioritized_zoo, qr_dopamine, qr_zoo, rainbow_dopamine, rainbow_hessel, "
            "rainbow_stooke_abbeel, sb3, stooke_abbeel or tuned",
        ),
    ],
)
def test_a_preset_selects_its_method(command, preset, method, says):
    done = command("preset", preset, "catch-v0", check=False)
    if method is None:
        assert done.returncode == 1 and done.stderr == f"paceline: {says}\n"
    else:
        assert done.stdout == command("preset", preset, "Catch-v0", "--method", method).stdout


def test_presets_are_listed_for_all_methods(command):
    listed = command("presets").stdout
    assert re.search(r"^dqn +mnih2015 +the settings of the Nature paper$", listed, re.M)
    assert re.search(r"^ppo +fast +.*\(2,000,000 steps\)$", listed, re.M)


def test_train_pong_with_preset_fast_needs_no_further_option(process, tmp_path):
    """pong, --method and --steps are resolved: the environment's name, the method with the preset,
    the preset's steps.
    """
    stopped = """
import sys
from paceline import PPO
from paceline.cli import main
def learn(self, total, **keywords):
    print(type(self).__name__, self.env_name, total, self.setting("precision"))
    raise KeyboardInterrupt
PPO.learn = learn
sys.exit(main(sys.argv[1:]))
"""
    done = process(stopped, "train", "pong", "--preset", "fast", "--no-plot", "--no-video", check=False)
    if "ROM" in done.stderr:
        pytest.skip(done.stderr)
    assert done.stdout == "PPO Pong 2000000 bf16\n" and done.returncode == 130


def test_a_missing_package_gives_one_line(process):
    made = """
import sys, gymnasium
from paceline.cli import main
def needs(**keywords):
    raise gymnasium.error.DependencyNotInstalled("Box3D is not installed")
gymnasium.register("Needs-v0", needs)
sys.exit(main(sys.argv[1:]))
"""
    process(CALL, "train", "CartPole-v1", "--steps", 80, "--save", "model.zip", "--no-plot", "--no-video")
    for command in (["train", "Needs-v0"], ["evaluate", "model.zip", "Needs-v0"]):
        done = process(made, *command, check=False)
        says = "paceline: env: 'Needs-v0', Gymnasium cannot make this environment: Box3D is not installed\n"
        assert done.returncode == 1 and done.stderr == says


def test_a_file_selects_its_method(command):
    command("train", "CartPole-v1", "--method", "a2c", "--steps", 80, "--save", "model", "--no-plot", "--no-video")
    done = command("train", "CartPole-v1", "--load", "model", "--steps", 80, "--no-plot", "--no-video")
    assert "160 / 160 steps" in done.stderr


@pytest.mark.parametrize("method, more", [("a3c", ("--set", "learners=4")), pytest.param("ga3c", (), marks=pytest.mark.slow)])
def test_a_race_is_recorded_and_repeated(command, process, tmp_path, method, more):
    race = ("train", "CartPole-v1", "--steps", 3000, "--seed", 1, "--num-envs", 4, *more, "--no-plot", "--no-video")
    cls = method.upper()
    weights = f'from paceline import {cls}\nwith {cls}.load("{{}}") as model: print(model.hashes().weights, model.num_timesteps)'
    command(*race, "--method", method, "--schedule", "race", "--save-order", "new/race.order", "--save", "race")
    command(*race, "--method", method, "--order", "new/race.order", "--save-order", "again.order", "--save", "again")
    assert (tmp_path / "again.order").read_bytes() == (tmp_path / "new/race.order").read_bytes()
    assert process(weights.format("again.zip")).stdout == process(weights.format("race.zip")).stdout
    for arguments, says in {
        ("--method", method, "--save-order", "x"): "--save-order x: schedule virtual records no order, --schedule must be race",
        ("--method", method, "--save-order", "new/"): "--save-order new/: a folder, must be a file",
        ("--method", method, "--schedule", "hogwild"): 'schedule: "hogwild", must be virtual, race, recorded',
        ("--method", method, "--order", "x", "--schedule", "race"): 'order: "x", must be empty with schedule race',
    }.items():
        done = command(*race, *arguments, check=False)
        assert done.returncode == 1 and done.stderr == f"paceline: {says}\n"
    for option, value in (("--schedule", "race"), ("--order", "x"), ("--save-order", "x")):
        done = command("train", "CartPole-v1", "--method", "ppo", option, value, check=False)
        says = f"paceline: {option} {value}: ppo is synchronous, --method must be a3c, appo, dqn, ga3c or gorila\n"
        assert done.returncode == 1 and done.stderr == says
    for arguments, says in {
        ("--schedule", "race"): "schedule: race, must be virtual where learners is 0",
        ("--order", "x"): 'order: "x", must be empty where learners is 0',
        ("--save-order", "x"): "--save-order x: schedule virtual records no order, --schedule must be race",
    }.items():
        done = command("train", "CartPole-v1", *arguments, check=False)
        assert done.returncode == 1 and done.stderr == f"paceline: {says}\n"


@pytest.mark.parametrize("method", [pytest.param("a3c", marks=pytest.mark.slow), pytest.param("appo", marks=pytest.mark.slow), "ga3c"])
def test_asynchronous_methods_train_with_presets_and_continue(command, tmp_path, method):
    name = f"paceline.{method.upper()}"
    assert re.search(rf"^{method} +{name}$", command("methods").stdout, re.M)
    own = r"^trainers \(int, default 2\)$" if method == "ga3c" else r"^learners \(int, default 1\)$"
    assert re.search(own, command("options", "--method", method).stdout, re.M)
    quiet = ("--no-plot", "--no-video", "--save", "model")
    command("train", "CartPole-v1", "--method", method, "--preset", "tuned", "--steps", 2048, "--seed", 1, *quiet)
    done = command("train", "CartPole-v1", "--load", "model", "--steps", 2048, *quiet)
    steps, end = (int(n.replace(",", "")) for n in re.search(r"([\d,]+) / ([\d,]+) steps", done.stderr).groups())
    assert 4096 <= end <= steps < end + 1024 < 6144  # GA3C ends with a batch of a predictor, the learners of A3C with their rollouts
    assert json.loads(command("evaluate", "model", "CartPole-v1", "--episodes", 2, "--json").stdout)["episodes"] == 2
