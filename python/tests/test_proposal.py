"""Trainer.proposal and `paceline train --propose`."""

import pytest

from envs import SMALL
from paceline import A2C, A3C, DQN, cli
from paceline.errors import HandleError

NOT_YET = "not measured yet: a run is measured from its first update on"


def until_measured(locals, globals):
    return locals["self"].proposal().startswith("not measured")  # False ends learning


@pytest.mark.parametrize(("make", "keywords"), [(DQN, {**SMALL, "learning_starts": 100}), (A2C, {})])
def test_a_run_is_measured_and_the_next_one_begins_anew(make, keywords):
    with make("MlpPolicy", "CartPole-v1", **{**keywords, "num_envs": 4, "seed": 1}) as model:
        assert model.proposal().startswith(NOT_YET)
        model.learn(1 << 40, callback=until_measured, log_interval=None)
        line = model.proposal()
        assert line.count("\n") == 0 and (line.startswith("nothing to propose: ") or " instead of " in line), line
        before = {setting: model.setting(setting) for setting in ("num_threads", "groups", "num_envs")}
        model.learn(40, log_interval=None)
        assert model.proposal().startswith(NOT_YET)
        assert {setting: model.setting(setting) for setting in before} == before
    with pytest.raises(HandleError):
        model.proposal()


@pytest.mark.parametrize(("make", "name"), [(A3C, "a3c"), (DQN, "dqn")])
def test_methods_of_learners_have_none(make, name):
    with make("MlpPolicy", "CartPole-v1", num_envs=4, learners=2, seed=1) as model:
        assert model.proposal().startswith(f"nothing to propose for {name}: there are no rules")


def test_the_command_line_says_it_when_asked(capsys):
    command = ["train", "CartPole-v1", "--steps", "300", "--no-plot", "--no-video"]
    assert cli.main(command) == 0
    assert "proposal" not in capsys.readouterr().out
    assert cli.main([*command, "--propose"]) == 0
    assert f"proposal: {NOT_YET}" in capsys.readouterr().out
