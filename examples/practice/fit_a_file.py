"""
Fit a file and resume after an interruption
===========================================

Data that do not fit into memory stay in their file. A fit reads them block by block, and with
``checkpoint=`` it stores the sums of its passes: an interrupted fit resumes from there, and the
result is bitwise identical to that of an uninterrupted fit.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from implicitmoments import SphericalMixture
from implicitmoments.datasets import make_spherical_mixture

folder = tempfile.TemporaryDirectory()
here = Path(folder.name)
X, truth = make_spherical_mixture(60_000, 15, 10, radius=4.0, separation=4.0, random_state=0)
np.save(here / "rows.npy", X)

# %%
# ``progress`` is called after every block with the name of the pass and the number of rows done.
# Here it also simulates a failure after some blocks.


class Log:
    """Record every block, and stop the fit at one of them."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.stop_at, self.done = stop_at, [0]
        self.passed = 0

    def __call__(self, what: str, done: int, total: int) -> None:  # noqa: ARG002
        self.done.append(done)
        if self.stop_at is not None and len(self.done) > self.stop_at:
            raise KeyboardInterrupt


def fit(log: Log, checkpoint: Path | None) -> SphericalMixture:
    model = SphericalMixture(15, rows_per_block=6_000, random_state=0)
    return model.fit(here / "rows.npy", checkpoint=checkpoint, progress=log)


whole = Log()
reference = fit(whole, None)
first, second = Log(stop_at=len(whole.done) // 2 + 5), Log()  # in the middle of a pass
try:
    fit(first, here / "fit.checkpoint")
except KeyboardInterrupt:
    print(f"stopped after {len(first.done) - 1} blocks of {len(whole.done) - 1}")
resumed = fit(second, here / "fit.checkpoint")
print("same bits:", np.array_equal(resumed.means_, reference.means_))

# %%
# Each tooth is a pass over the file, block by block. The second run takes the finished passes from
# the checkpoint, repeats the one that was interrupted, and goes on.

figure, panels = plt.subplots(3, 1, figsize=(8, 5), sharex=True, layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "Rows done against calls of progress, for three runs. The run without interruption has "
    "the shape of a saw; the stopped run ends in the middle of a tooth, and the resumed run "
    "begins with that tooth."
)
runs = {"without interruption": whole, "stopped": first, "resumed": second}
for panel, (name, log) in zip(panels, runs.items(), strict=True):
    panel.plot(log.done, drawstyle="steps-post", color="C0")
    panel.set_title(f"{name}: {len(log.done) - 1} calls")
    panel.set_ylabel("rows done")
panels[-1].set_xlabel("call of progress")
folder.cleanup()
plt.show()
