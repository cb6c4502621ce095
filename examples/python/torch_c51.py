"""C51 on Atari: torch_dqn.py with a categorical distribution of 51 atoms from -10 to 10.

    pip install '.[atari]' torch    # in the checkout
    python torch_c51.py [--env_id Breakout] [--learning_rate 0.00025] ...

The options are those of torch_dqn.py.
"""

import torch
import torch.nn.functional as F

import torch_dqn


class Loop(torch_dqn.Loop):
    outputs = 51
    v_min, v_max = -10.0, 10.0

    def functions(self, q):
        atoms = torch.linspace(self.v_min, self.v_max, self.outputs)
        between = (self.v_max - self.v_min) / (self.outputs - 1)

        def logits(net, obs):
            return q(net, obs).view(-1, self.actions, self.outputs)

        def greedy(obs):
            return (logits(self.online, obs).softmax(2) @ atoms).argmax(1)

        def targets(next_obs, rewards, terminated):
            """Probabilities: those of the best next action, moved by the Bellman equation and shared between the nearest atoms."""
            p = logits(self.target, next_obs).softmax(2)
            p = p[torch.arange(len(p)), (p @ atoms).argmax(1)]
            moved = rewards[:, None] + self.args.gamma * (1 - terminated[:, None]) * atoms
            at = (moved.clamp(self.v_min, self.v_max) - self.v_min) / between
            below, above = at.floor(), at.ceil()
            lower, upper = p * (above - at + (below == above)), p * (at - below)
            return torch.zeros_like(p).scatter_add_(1, below.long(), lower).scatter_add_(1, above.long(), upper)

        def loss(obs, actions, y):
            chosen = logits(self.online, obs)[torch.arange(len(obs)), actions]
            return -(y * F.log_softmax(chosen, 1)).sum(1).mean()

        return greedy, targets, loss


if __name__ == "__main__":
    torch_dqn.main(Loop)
