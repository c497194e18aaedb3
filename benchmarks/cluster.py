"""Cost of a pass on a cluster: rows per second and core, bytes of sums, overhead per task.

Run: OMP_NUM_THREADS=1 python benchmarks/cluster.py

Rows per second are by CPU time of one thread, over rows in memory. Bytes are those of the arrays
that tasks exchange, and of the measure that is sent to the workers. The cost of a
partition is CPU time of the scheduler and the caller, which are one process here, in a pass over
partitions of one row on two worker processes, compared with Dask's own sum of the same array.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from time import process_time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from implicitmoments.mixture.em import Stream
from implicitmoments.mixture.gaussians import Gaussians
from implicitmoments.moments import HermiteProblem
from implicitmoments.moments.chain import open_window
from implicitmoments.moments.components import identity_chain
from implicitmoments.moments.implicit import FramedRows
from implicitmoments.rows import Block, DaskSource, Rows

# these ship no types
dask, da, distributed = (import_module(name) for name in ("dask", "dask.array", "distributed"))
dumps: Callable[[Any], bytes] = import_module("cloudpickle").dumps


def cpu_seconds(run: Callable[[], Any], repeats: int = 3) -> float:
    """Return the smallest CPU time of several runs."""
    taken = []
    with threadpool_limits(1):
        for _ in range(repeats):
            clock = process_time()
            run()
            taken.append(process_time() - clock)
    return min(taken)


def moment_pass(n: int, p: int) -> tuple[float, int, int]:
    """Time the pass of order 4 in p dimensions; count the bytes of its sums and its measure."""
    rng = np.random.default_rng(0)
    view = FramedRows.of(HermiteProblem(rng.normal(size=(n, p))))
    window = open_window(identity_chain(view.frame), p)
    taken = cpu_seconds(lambda: view.even_moment(window))
    numbers = 1 + p**2 + window.dim**2  # at most: sums of orders 0, 2 and 4
    return taken, 2 * 8 * (1 + numbers), len(dumps(window))


def em_pass(n: int, k: int, d: int) -> tuple[float, int, int]:
    """Time an E-step; count the bytes of its sums and of the mixture."""
    rng = np.random.default_rng(0)
    mixture = {"means": 3 * rng.normal(size=(k, d)), "covariances": np.ones((k, 1))}
    rows = Rows.of(rng.normal(size=(n, d)))
    family = Gaussians("tied_spherical").prepare(rows)
    sums, stream = family.sums_of(mixture, np.full(k, n / k)), Stream.of(family, rows)
    taken = cpu_seconds(lambda: stream.e_step(sums[None]))
    return taken, 8 * (sums.size + 2), len(dumps((family, sums)))


def count(block: Block, rows: range) -> Mapping[str, Any]:
    """Count rows: a measure that costs nothing."""
    del block
    return {"n": np.asarray(len(rows))}


def graph_bytes(source: DaskSource, n_partitions: int) -> float:
    """Return the bytes of a pickled graph, by partition."""
    sizes = []

    def weigh(graph: Any, keys: Any, **_: Any) -> Any:
        made = graph.optimize().__dask_graph__() if hasattr(graph, "optimize") else graph
        sizes.append(len(dumps(dict(made))))
        return dask.get(graph, keys)

    with dask.config.set(scheduler=weigh):
        source.fold(count, range(n_partitions), 1)
    return sizes[0] / n_partitions


def partition_costs(source: DaskSource, x: Any) -> tuple[float, float]:
    """Return CPU seconds of the scheduler per partition: of a pass, and of Dask's own sum."""
    n = int(x.shape[0])
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
    )
    with cluster, distributed.Client(cluster):
        source.fold(count, range(100), 1)  # before workers import their modules
        clock = process_time()
        source.fold(count, range(n), 1)
        middle = process_time()
        x.sum(split_every=8).compute()
        return (middle - clock) / n, (process_time() - middle) / n


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=2_000)
    options = parser.parse_args()
    n = options.rows
    print(f"NumPy {np.__version__}, Dask {dask.__version__}, one thread\n")
    print("| pass | rows per second | sums, bytes | measure, bytes |\n|---|---|---|---|")
    for name, found in (
        ("order 4, p = 30", moment_pass(n, 30)),
        ("order 4, p = 50", moment_pass(n // 4, 50)),
        ("E-step, k = 60, d = 30", em_pass(n, 60, 30)),
    ):
        rows = n // 4 if "50" in name else n
        print(f"| {name} | {rows / found[0]:,.0f} | {found[1]:,} | {found[2]:,} |", flush=True)
    x = da.zeros((options.partitions, 2), chunks=(1, 2))
    source = DaskSource(x)
    ours, theirs = partition_costs(source, x)
    size = graph_bytes(source, options.partitions)
    print("\n| partitions | per partition: scheduler, ms | Dask's sum, ms | graph, bytes |")
    print("|---|---|---|---|")
    print(f"| {options.partitions:,} | {1e3 * ours:.2f} | {1e3 * theirs:.2f} | {size:.0f} |")


if __name__ == "__main__":
    main()
