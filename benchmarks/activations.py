"""Sums of activations compared with networks, kernels and trees, in one run.

Run: python benchmarks/activations.py targets               R² compared with targets
     python benchmarks/activations.py signs [--seeds 10]    weights of both signs, biases, tanh
     python benchmarks/activations.py peers [--plot FILE]   error against rows, all peers
     python benchmarks/activations.py speed [--seeds 3]     processor time beside MLPRegressor's
     python benchmarks/activations.py polynomial            processor time of the polynomial alone
     python benchmarks/activations.py auto                  and with a number to be found

Scores are R² on 20,000 new rows without noise. The settings of peers are chosen on a held-out
tenth of the rows, and the time is that of one fit with these settings. The torch network, with
the true activation, runs if torch is installed. Threads: OMP_NUM_THREADS.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from time import perf_counter, process_time
from typing import Any, TypeAlias

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor

from implicitmoments import ActivationSumRegressor
from implicitmoments.datasets import Truth, make_activation_sum
from implicitmoments.problems import Activation, as_activation, cosine, relu

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

FRESH = 20_000
KERNEL_ROWS = 4_000  # solving for more takes longer than all others together
TORCH_EPOCHS = 150
TIMED = ("speed", "polynomial", "auto")
FIRST_SEED = 1_000  # of the settings with signs and biases, which were developed on others


@dataclass(frozen=True)
class Setting:
    """One problem: k directions in d features, noise as a share of the label variance.

    Weights are equal; ``signed`` ones have random signs and magnitudes from U(0.5, 1.5), as have
    those beside ``biased`` components, whose biases are from U(-1, 1).
    """

    activation: Activation
    d: int
    k: int
    noise: float = 0.0
    signed: bool = False
    biased: bool = False

    def __str__(self) -> str:
        kind = self.activation.name + " signed" * self.signed + " biased" * self.biased
        return f"{kind}, d={self.d}, k={self.k}, noise {self.noise:.0%}"

    @property
    def options(self) -> dict[str, bool]:
        """What the regressor is told of the setting."""
        return {"positive": not self.signed, "fit_bias": self.biased}

    def draw(self, n: int, seed: int) -> tuple[Floats, Floats, Floats, Floats, Truth]:
        """Return rows, labels, new rows, their labels without noise, and the truth."""
        X, y, truth = make_activation_sum(
            n + FRESH, self.k, self.d, activation=self.activation.function, random_state=seed
        )
        rng = np.random.default_rng(seed)
        if self.signed or self.biased:
            weights, biases = rng.uniform(0.5, 1.5, self.k), rng.uniform(-1, 1, self.k)
            weights *= rng.choice([-1.0, 1.0], self.k) if self.signed else 1.0
            y = self.activation(X @ truth.vectors.T + biases * self.biased) @ weights
        noise = rng.standard_normal(n) * np.sqrt(self.noise) * y.std()
        return X[:n], y[:n] + noise, X[n:], y[n:], truth


def r2(y: Floats, predicted: Floats) -> float:
    """Return the coefficient of determination."""
    return float(1 - np.mean((y - predicted) ** 2) / np.var(y))


Fit: TypeAlias = Callable[[Floats, Floats], Callable[[Floats], Floats]]


def ours(setting: Setting, refine: bool) -> Iterator[Fit]:
    """Yield the regressor of this library."""
    options: dict[str, Any] = setting.options

    def fit(X: Floats, y: Floats) -> Callable[[Floats], Floats]:
        model = ActivationSumRegressor(
            setting.activation, setting.k, refine=refine, random_state=0, **options
        )
        return model.fit(X, y).predict

    yield fit


def scaled(make: Callable[[], Any], X: Floats, y: Floats) -> Callable[[Floats], Floats]:
    """Fit a scikit-learn regressor to labels of mean 0 and variance 1."""
    mean, scale = float(y.mean()), float(y.std())
    model = make().fit(X, (y - mean) / scale)
    return lambda x: model.predict(x) * scale + mean


def mlp(setting: Setting) -> Iterator[Fit]:
    """Yield scikit-learn's network, four times as wide as the truth, at several penalties."""
    own = {"tanh": "tanh", "sigmoid": "logistic"}.get(setting.activation.name, "relu")
    for alpha in (1e-4, 0.03, 0.3):
        yield partial(
            scaled,
            partial(
                MLPRegressor,
                hidden_layer_sizes=(4 * setting.k,),
                activation=own,
                alpha=alpha,
                early_stopping=alpha < 1e-3,
                max_iter=300,
                random_state=0,
            ),
        )


def kernel(setting: Setting) -> Iterator[Fit]:
    """Yield kernel ridge regression, on at most 4,000 rows."""

    def fit(make: Callable[[], Any], X: Floats, y: Floats) -> Callable[[Floats], Floats]:
        return scaled(make, X[:KERNEL_ROWS], y[:KERNEL_ROWS])

    for alpha in (1e-2, 0.3):
        rbf = partial(KernelRidge, kernel="rbf", gamma=0.2 / setting.d, alpha=alpha)
        yield partial(fit, rbf)
    for degree, alpha in product((2, 4), (0.3, 3.0)):
        powers = partial(KernelRidge, kernel="poly", degree=degree, gamma=1 / setting.d)
        yield partial(fit, partial(powers, alpha=alpha))


def boosting(_: Setting) -> Iterator[Fit]:
    """Yield gradient boosting with early stopping."""
    for rate in (0.05, 0.15):
        yield partial(
            scaled,
            partial(
                HistGradientBoostingRegressor,
                learning_rate=rate,
                max_iter=500,
                early_stopping=True,
                random_state=0,
            ),
        )


def torch_network(setting: Setting) -> Iterator[Fit]:
    """Yield a torch network of the true activation, four times as wide as the truth."""
    for decay in (1e-3, 0.03):
        yield partial(_fit_torch, setting.activation, 4 * setting.k, decay)


def _fit_torch(
    activation: Activation, width: int, decay: float, X: Floats, y: Floats
) -> Callable[[Floats], Floats]:
    import torch  # noqa: PLC0415 (a peer that need not be installed)

    torch.manual_seed(0)
    mean, scale = float(y.mean()), float(y.std())
    x = torch.as_tensor(X, dtype=torch.float32)
    t = torch.as_tensor((y - mean) / scale, dtype=torch.float32)
    inner = torch.nn.Linear(X.shape[1], width)
    outer = torch.nn.Linear(width, 1)
    weights = [*inner.parameters(), *outer.parameters()]
    optimiser = torch.optim.AdamW(weights, lr=1e-2, weight_decay=decay)
    size = min(256, len(X))
    epochs = max(30, min(TORCH_EPOCHS, 1_500_000 // len(X)))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)

    def forward(z: Any) -> Any:
        return outer(activation(inner(z)))[:, 0]

    for _ in range(epochs):
        for rows in torch.randperm(len(X)).split(size):
            optimiser.zero_grad()
            torch.mean((forward(x[rows]) - t[rows]) ** 2).backward()
            optimiser.step()
        schedule.step()

    def predict(fresh: Floats) -> Floats:
        with torch.no_grad():
            values = forward(torch.as_tensor(fresh, dtype=torch.float32)).numpy()
        return np.asarray(values * scale + mean, dtype=np.float64)

    return predict


PEERS: dict[str, Callable[[Setting], Iterator[Fit]]] = {
    "ours, polynomial": partial(ours, refine=False),
    "ours, refined": partial(ours, refine=True),
    "MLPRegressor": mlp,
    "torch network": torch_network,
    "kernel ridge": kernel,
    "gradient boosting": boosting,
}


def best_fit(
    fits: list[Fit], X: Floats, y: Floats, seed: int, clock: Callable[[], float] = perf_counter
) -> tuple[Any, float]:
    """Choose settings on held-out rows, and time one fit with the best."""
    chosen = fits[0]
    if len(fits) > 1:
        A, B, a, b = train_test_split(X, y, test_size=0.1, random_state=seed)
        chosen = max(fits, key=lambda fit: r2(b, fit(A, a)(B)))
    start = clock()
    predict = chosen(X, y)
    return predict, clock() - start


def installed() -> list[str]:
    """Return the peers that can run here."""
    try:
        import torch  # noqa: F401, PLC0415
    except ImportError:
        return [name for name in PEERS if name != "torch network"]
    return list(PEERS)


def targets(seeds: int) -> None:
    """Print R² of the polynomial and after refinement, compared with targets."""
    small = partial(Setting, d=10, k=4)
    rows = [
        (small(relu()), 3_000, False, 0.975),
        (small(relu()), 100_000, False, 0.99),
        (small(relu()), 10_000, True, 0.9999),
        (small(cosine(1.0)), 10_000, False, 0.995),
        (small(cosine(2.0)), 100_000, False, 0.985),
        (Setting(relu(), 50, 10), 3_000, False, None),
        (Setting(relu(), 50, 10), 100_000, False, None),
        (Setting(relu(), 50, 10), 10_000, True, None),
        (Setting(cosine(1.0), 50, 10), 10_000, False, None),
        (Setting(cosine(2.0), 50, 10), 100_000, False, None),
    ]
    print("| setting | rows | refined | target | minimum R² | median R² | seconds |")
    print("|---|---|---|---|---|---|---|")
    for setting, n, refine, asked in rows:
        scores, seconds = [], []
        for seed in range(seeds):
            X, y, fresh, labels, _ = setting.draw(n, seed)
            predict, taken = best_fit(list(ours(setting, refine)), X, y, seed)
            scores.append(r2(labels, predict(fresh)))
            seconds.append(taken)
        wanted = "" if asked is None else f"{asked:g}"
        print(
            f"| {setting} | {n:,} | {'yes' if refine else 'no'} | {wanted} | {min(scores):.5f} | "
            f"{np.median(scores):.5f} | {np.median(seconds):.2f} |",
            flush=True,
        )


def signs(seeds: int) -> None:
    """Print R² with weights of both signs, biases and odd activations, d = 10, k = 6, no noise."""
    known, n = partial(Setting, d=10, k=6), 10_000
    settings = [
        known(relu(), signed=True),
        known(relu(), biased=True),
        known(relu(), signed=True, biased=True),
        known(as_activation("tanh")),
        known(as_activation("tanh"), signed=True),
        known(as_activation("sigmoid"), signed=True, biased=True),
    ]
    print(f"R² on new rows, {n:,} rows, seeds {FIRST_SEED} to {FIRST_SEED + seeds - 1}\n")
    print("| setting | minimum | median | polynomial | without the options | seconds |")
    print("|---|---|---|---|---|---|")
    for setting in settings:
        ways = [setting, replace(setting, signed=False, biased=False)]
        scores: list[list[float]] = [[], [], []]
        seconds = []
        for seed in range(FIRST_SEED, FIRST_SEED + seeds):
            X, y, fresh, labels, _ = setting.draw(n, seed)
            for way, refine, found in zip(
                [ways[0], ways[0], ways[1]], [True, False, True], scores, strict=True
            ):
                predict, taken = best_fit(list(ours(way, refine)), X, y, seed)
                found.append(r2(labels, predict(fresh)))
                if found is scores[0]:
                    seconds.append(taken)
        medians = [float(np.median(found)) for found in scores]
        print(
            f"| {setting} | {min(scores[0]):.6f} | {medians[0]:.6f} | {medians[1]:.3f} | "
            f"{medians[2]:.3f} | {np.median(seconds):.1f} |",
            flush=True,
        )


def peers(
    seeds: int, sizes: list[int], plot: str | None, only: list[str], who: list[str] | None
) -> None:
    """Print R² and seconds of every peer, at every number of rows."""
    settings = [
        Setting(relu(), 10, 4, 0.1),
        Setting(relu(), 50, 10, 0.0),
        Setting(relu(), 50, 10, 0.1),
        Setting(cosine(1.0), 10, 4, 0.1),
        Setting(cosine(1.0), 50, 10, 0.1),
        Setting(relu(), 50, 10, 0.1, signed=True),
        Setting(relu(), 50, 10, 0.1, biased=True),
        Setting(relu(), 50, 10, 0.1, signed=True, biased=True),
        Setting(as_activation("tanh"), 50, 10, 0.1, signed=True),
    ]
    names = [name for name in installed() if who is None or name in who]
    results: dict[tuple[str, int, str], list[float]] = {}
    for setting in settings:
        if not any(text in str(setting) for text in only):
            continue
        print(f"\n{setting}: median R² (least), seconds\n")
        print("| rows | " + " | ".join(names) + " |")
        print("|---|" + "---|" * len(names))
        for n in sizes:
            cells = []
            for name in names:
                scores, seconds = [], []
                first = FIRST_SEED if setting.signed or setting.biased else 0
                for seed in range(first, first + seeds):
                    X, y, fresh, labels, _ = setting.draw(n, seed)
                    fits = list(PEERS[name](setting))
                    predict, taken = best_fit(fits, X, y, seed)
                    scores.append(r2(labels, predict(fresh)))
                    seconds.append(taken)
                results[str(setting), n, name] = scores
                cells.append(
                    f"{np.median(scores):.4f} ({min(scores):.4f}), {np.median(seconds):.1f}"
                )
            print(f"| {n:,} | " + " | ".join(cells) + " |", flush=True)
    if plot is not None:
        draw_figure(results, names, plot)


def timed(fit: Callable[..., Any], *given: Floats) -> tuple[Any, float]:
    """Return what a fit returns, and its processor time."""
    clock = process_time()
    found = fit(*given)
    return found, process_time() - clock


def speed(seeds: int, sizes: list[int], only: list[str], first: int) -> None:
    """Print times of the regressor, in the same process as those of its peer."""
    print("| setting | rows | ours, s | MLPRegressor, s | ratio | R², ours | R², MLPRegressor |")
    print("|---|---|---|---|---|---|---|")
    settings = [Setting(relu(), 50, 10, 0.1), Setting(cosine(1.0), 50, 10, 0.1)]
    for setting, n in product(settings, sizes):
        if not any(text in str(setting) for text in only):
            continue
        found = np.array([_beside_mlp(setting, n, seed) for seed in range(first, first + seeds)])
        own, peer, score, other = np.median(found, axis=0)
        print(
            f"| {setting} | {n:,} | {own:.2f} | {peer:.2f} | "
            f"{np.median(found[:, 0] / found[:, 1]):.2f} | {score:.4f} | {other:.4f} |",
            flush=True,
        )


def polynomial(first: int) -> None:
    """Print times of the polynomial alone at 100,000 rows."""
    print("| polynomial alone | rows | s | R² |\n|---|---|---|---|")
    for setting in (Setting(relu(), 50, 10), Setting(cosine(2.0), 50, 10)):
        X, y, fresh, labels, _ = setting.draw(100_000, first)
        predict, own = timed(next(ours(setting, refine=False)), X, y)
        print(
            f"| {setting} | 100,000 | {own:.1f} | {r2(labels, predict(fresh)):.4f} |", flush=True
        )


def auto(first: int) -> None:
    """Print times with a given number of components, and with one to be found."""
    print("| setting | rows | n_components | s | R² |\n|---|---|---|---|---|")
    setting, n = Setting(relu(), 60, 20, 0.1), 10_000
    X, y, fresh, labels, _ = setting.draw(n, first)
    for k in (20, "auto"):
        model, own = timed(ActivationSumRegressor("relu", k, random_state=0).fit, X, y)
        score = r2(labels, model.predict(fresh))
        print(f"| {setting} | {n:,} | {k} ({model.n_components_}) | {own:.1f} | {score:.4f} |")


def _beside_mlp(setting: Setting, n: int, seed: int) -> tuple[float, float, float, float]:
    """Return processor times and R² of the regressor and of MLPRegressor."""
    X, y, fresh, labels, _ = setting.draw(n, seed)
    predict, own = timed(next(ours(setting, refine=True)), X, y)
    peer, taken = best_fit(list(mlp(setting)), X, y, seed, clock=process_time)
    return own, taken, r2(labels, predict(fresh)), r2(labels, peer(fresh))


def draw_figure(
    results: dict[tuple[str, int, str], list[float]], names: list[str], path: str
) -> None:
    """Draw the error 1 − R² against rows on logarithmic axes, one panel per setting."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "activations"
    from matplotlib import pyplot as plt  # noqa: PLC0415

    settings = list(dict.fromkeys(key[0] for key in results))
    sizes = sorted({key[1] for key in results})
    figure, axes = plt.subplots(
        1, len(settings), figsize=(4 * len(settings), 3.6), sharey=True, squeeze=False
    )
    for axis, setting in zip(axes[0], settings, strict=True):
        for name in names:
            medians = [1 - np.median(results[setting, n, name]) for n in sizes]
            style = "-" if name.startswith("ours") else "--"
            axis.loglog(sizes, np.maximum(medians, 1e-7), style, marker="o", label=name)
        axis.set_title(setting, fontsize=9)
        axis.set_xlabel("rows")
    axes[0][0].set_ylabel("1 − R² on fresh rows")
    axes[0][-1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["targets", "signs", "peers", *TIMED])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 3_000, 10_000, 30_000])
    parser.add_argument("--first", type=int, default=700, help="first seed of measured times")
    parser.add_argument("--only", nargs="+", default=[""], help="settings named by any of these")
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), help="only these")
    parser.add_argument("--plot", help="write a figure to this file")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "targets":
        targets(given.seeds)
    elif given.what == "signs":
        signs(given.seeds)
    elif given.what == "speed":
        speed(given.seeds, given.sizes, given.only, given.first)
    elif given.what in TIMED:
        {"polynomial": polynomial, "auto": auto}[given.what](given.first)
    else:
        peers(given.seeds, given.sizes, given.plot, given.only, given.peers)


if __name__ == "__main__":
    main()
