"""What a learner counts."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Tally:
    """What a life of a learner has counted."""

    gradients: int = 0
    applied: int = 0
    stale: int = 0
    outliers: int = 0
    lag_sum: int = 0
    lag_most: int = 0
    bytes_sent: int = 0
    bytes_read: int = 0
    loss: float = float("nan")
    seen: dict[str, int] = field(default_factory=dict)  # "shard:incarnation": the largest version of an answer

    def landed(self, lag: int, stale: bool) -> None:
        """Counts a gradient that all shards have answered. lag: the largest. stale: a shard has refused it."""
        self.stale += stale
        self.applied += not stale
        self.lag_sum += lag
        self.lag_most = max(self.lag_most, lag)
