"""Memory of a process of its own, as the system counts it: mapped pages are in it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest

N, D = 1_500_000, 16  # 192 MB

PASS = """
import sys
import numpy as np
from implicitmoments.rows import ArrayTable, BlockSource, open_file

kind, path, warm, N, D = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])


def peak():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


def blocks():
    rng = np.random.default_rng(0)
    for _ in range(150):
        yield rng.normal(size=(N // 150, D))


def measure(block, rows):
    return {"s": block["x"].sum(axis=0)}


if warm:  # what is imported on first use does not count
    with open_file(warm) as source:
        source.fold(measure, range(source.n_rows), 16_384)
before = peak()
if kind == "all":
    source = ArrayTable(np.load(path))
elif kind == "mapped":
    source = ArrayTable(np.load(path, mmap_mode="r"))
elif kind == "blocks":
    source = BlockSource(blocks())
else:
    source = open_file(path)
for _ in range(2):
    source.fold(measure, range(source.n_rows), 16_384)
print(peak() - before)
"""

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the system does not tell the peak"
)


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(size=(N, D))


def write_arrow(new, rows):
    def write(path, table):
        with new(path, table.schema) as file:
            file.write_table(table, max_chunksize=rows)

    return write


FILES = {
    "one.parquet": lambda path, table: pa.parquet.write_table(table, path, row_group_size=N),
    "one.arrow": write_arrow(pa.ipc.new_file, N),
    "stream.arrow": write_arrow(pa.ipc.new_stream, 10_000),
    "packed.feather": lambda path, table: pa.feather.write_feather(table, path),
    "x.csv": lambda path, table: pa.csv.write_csv(table.slice(0, N // 4), path),
}


def grown(kind, path, warm=""):
    """Megabytes by which two passes raise the peak of a process."""
    done = subprocess.run(
        [sys.executable, "-c", PASS, kind, str(path), str(warm), str(N), str(D)],
        capture_output=True,
        text=True,
        check=False,
    )
    path.unlink(missing_ok=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("name", FILES)
def test_tables_are_not_held(name, x, tmp_path):
    table = pa.table({f"c{j}": x[:, j] for j in range(D)})
    FILES[name](tmp_path / name, table)
    FILES[name](tmp_path / f"small_{name}", table.slice(0, 1_000))
    # a row group of Parquet is decoded a few megabytes at a time, in buffers of each column
    limit = 100 if name == "one.parquet" else 60
    assert grown("file", tmp_path / name, tmp_path / f"small_{name}") < limit


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_not_held(order, x, tmp_path):
    np.save(tmp_path / "x.npy", np.asarray(x, order=order))
    assert grown("file", tmp_path / "x.npy") < 40


def test_blocks_are_not_held(tmp_path):
    assert grown("blocks", tmp_path / "none") < 40


@pytest.mark.parametrize("kind", ["all", "mapped"])
def test_a_file_in_memory_or_mapped_is_held(kind, x, tmp_path):
    np.save(tmp_path / "x.npy", x)
    assert grown(kind, tmp_path / "x.npy") > 170
