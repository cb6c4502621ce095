"""A local Ray cluster for a benchmark."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from paceline import PacelineError


@contextlib.contextmanager
def local(**head: Any) -> Iterator[tuple[Any, Any]]:
    """The module ray and a cluster of one node, to which this process is connected.

    head: arguments of the node. What Ray prints goes to stderr, because stdout has the report.
    """
    try:
        import ray
        from ray.cluster_utils import Cluster
    except ImportError:
        raise PacelineError("ray is not installed: pip install 'ray==2.60.*'") from None
    with contextlib.redirect_stdout(sys.stderr):
        make: Any = Cluster
        cluster = make(initialize_head=True, head_node_args={"include_dashboard": False, **head})
        try:
            ray.init(address=cluster.address, namespace="paceline", log_to_driver=False)
            yield ray, cluster
        finally:
            ray.shutdown()
            cluster.shutdown()
