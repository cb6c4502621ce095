"""A user's script for `make check`: mypy --strict finds the types of the package's names. The
script is not run.
"""

import paceline
from paceline import *
from paceline import DQN, Policy, make_vec
from paceline.callbacks import BaseCallback


def train() -> float:
    model: DQN = paceline.DQN("MlpPolicy", make_vec("CartPole-v1", 2), learning_rate=linear(1e-3))
    callback: BaseCallback = paceline.callbacks.CheckpointCallback(1000, "folder")
    try:
        model.learn(100, callback=callback)
    except PacelineError as err:
        print(err.status)
    evaluation: paceline.Evaluation = Policy.load("policy").evaluate("CartPole-v1")
    return evaluation.mean_return


print(paceline.misspelt)  # type: ignore[attr-defined]  # an error; strict mypy reports an unused comment
