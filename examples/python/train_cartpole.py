"""Trains CartPole-v1, stepped by the library, until it is solved.

    pip install .    # in the checkout
    python train_cartpole.py

Takes about a minute on two cores. The environment is built in: nothing is downloaded.
"""

from paceline import DQN, Policy

with DQN.from_preset("tuned", "CartPole-v1", seed=1) as model:
    model.learn(50_000, log_interval=None, progress_bar=True, eval_freq=2500)
    print(f"best of {len(model.evaluations)} evaluations: {model.best_mean_return:.1f} (475 solves it)")
    model.best_policy.save("cartpole.paceline")

# A policy needs only the file.
with Policy.load("cartpole.paceline") as policy:
    print(policy.evaluate("CartPole-v1", episodes=100))
