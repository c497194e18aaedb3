"""Model files, mutated in many ways, for ``implicitmoments.load``."""

from __future__ import annotations

import json
import platform
import time
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import safetensors

import implicitmoments as im
from attacks.fuzzing.changes import mutate_bytes, mutate_json
from attacks.fuzzing.watch import LateError, Watch, time_limit

__all__ = ["fuzz_loader"]

ENTRY, BLANK = "implicitmoments", "0" * 64
NAMES = ("__class__", "predict", "fields", "x_", "é")
HOSTILE: list[Any] = [
    *(None, True, -1, 0, 2**70, 10**400, 1e308, "", "__class__", "os.system", "SphericalMixture"),
    *([], {}, [[]], {"class": "Popen", "fields": {}}, {"class": "__import__", "fields": {}}),
    *({"object": 0}, {"object": -1}, {"object": 10**9}, {"array": "means_"}, {"array": "x"}),
    *({"tuple": "abc"}, {"tuple": 3}, {"range": [0, 10**18, 1]}, {"range": ["a"]}),
    *({"type": "object"}, {"type": "eval"}, {"scalar": "float64", "value": "1"}),
    *({"scalar": "int8", "value": 1000}, {"float": "1"}, {"float": "nan"}, {"maker": "relu"}),
    *({"maker": "__doc__"}, {"words": [1]}, {"dict": [[[], 1]]}, {"dict": [[1, 2], [1, 3]]}),
    *({"notes": [["not_converged", {"map": {}}]]}, {"notes": [[1, 2, 3]]}, {"notes": {"a": 1}}),
    *({"map": {"__class__": 1}}, {"array": "means_", "layout": [0, 0]}, {"array": ["x"]}),
    {"class": "Activation", "fields": {"name": "cos", "parameters": {"tuple": [1e300]}}},
    {"class": "Activation", "fields": {"name": "os", "parameters": {"tuple": []}}},
]


def split(data: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Return the header of a model file without its document, the document, and the arrays."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    return header, json.loads(header["__metadata__"][ENTRY]), data[8 + size :]


def join(header: dict[str, Any], text: str, arrays: bytes) -> bytes:
    """Make a file from its parts, with a valid checksum."""
    written = json.dumps({**header, "__metadata__": {ENTRY: text}}).encode()
    written += b" " * (-len(written) % 8)
    return seal(len(written).to_bytes(8, "little") + written + arrays)


def seal(data: bytes) -> bytes:
    """Replace 64 zeros by the valid checksum."""
    place = data.find(BLANK.encode())
    if place < 0:
        return data
    return data[:place] + sha256(data).hexdigest().encode() + data[place + 64 :]


def unseal(data: bytes) -> bytes:
    """Put zeros in place of the checksum."""
    checksum: str = split(data)[1]["checksum"]
    return data.replace(checksum.encode(), BLANK.encode(), 1)


def mutate_text(text: str, rng: np.random.Generator) -> str:
    """Change the text of a document: repeated names, deep nesting, values foreign to JSON."""
    values = ["[" * 5_000, "NaN", "-Infinity", "1e999", "9" * 5_000, '"\\ud800"', "\x00"]
    values.append('{"tuple":[' * 3_000 + "]}" * 3_000)
    members = ['"schema":1,', '"schema":2,', '"__class__":1,', '"fields":{},', '"checksum":"",']
    of_value = rng.random() < 0.5
    places = [i + 1 for i, letter in enumerate(text) if letter == (":" if of_value else "{")]
    place = places[int(rng.integers(len(places)))]
    if not of_value:
        return text[:place] + members[int(rng.integers(len(members)))] + text[place:]
    end = next(i for i in range(place, len(text)) if text[i] in ",}]")
    return text[:place] + values[int(rng.integers(len(values)))] + text[end:]


def mutations(data: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Return one hostile file and what was done to make it."""
    header, document, arrays = split(data)
    header.pop("__metadata__")
    document["checksum"] = BLANK
    text = json.dumps(document, separators=(",", ":"))
    made: dict[str, Callable[[], bytes]] = {
        "bytes": lambda: mutate_bytes(data, rng),
        "bytes, sealed": lambda: seal(mutate_bytes(unseal(data), rng)),
        "document, sealed": lambda: join(
            header, json.dumps(mutate_json(document, rng, HOSTILE, NAMES)), arrays
        ),
        "text, sealed": lambda: join(header, mutate_text(text, rng), arrays),
        "arrays, sealed": lambda: join(mutate_json(header, rng, HOSTILE, NAMES), text, arrays),
        "random": lambda: rng.bytes(int(rng.integers(0, 4_000))),
        "random after a length": lambda: (
            int(rng.integers(0, 200)).to_bytes(8, "little") + b"{" + rng.bytes(300)
        ),
    }
    name = str(rng.choice(list(made)))
    return name, made[name]()


def examples(folder: Path) -> list[bytes]:
    """Return small model files of every estimator."""
    mixture = im.datasets.make_spherical_mixture
    X, _ = mixture(600, 3, 3, radius=6.0, separation=6.0, random_state=0)
    close, _ = mixture(3_000, 2, 3, radius=1.2, random_state=0)
    Z, z, _ = im.datasets.make_activation_sum(600, 2, 3, random_state=0)
    U, u, _ = im.datasets.make_regression_mixture(800, 2, 3, noise=0.5, random_state=0)
    rng = np.random.default_rng(0)
    models = [
        im.ActivationSumRegressor("relu", 2, degree=2).fit(Z, z),
        im.ActivationSumRegressor(im.moments.cosine(1.2, 0.3), 2, degree=2, refine=False).fit(
            Z, z
        ),
        im.SphericalMixture(3, random_state=np.random.RandomState(0)).partial_fit(X),
        im.SphericalMixtureClusterer(3, random_state=rng).fit(X),
        im.SphericalMixtureDensity(2, degree=2, random_state=0).fit(close),
        im.RegressionMixture(2, random_state=0).fit(U, u),
        im.RegressionMixtureDensity(2, degree=2, random_state=0).fit(U, u),
    ]
    files = []
    for model in models:
        im.save(model, folder / "model")
        files.append((folder / "model").read_bytes())
    return files


def fuzz_loader(inputs: int, seed: int, limit: float) -> int:
    """Print the outcomes; return the number of failures."""
    rng = np.random.default_rng(seed)
    watch, outcomes, wrong = Watch(), Counter[tuple[str, str]](), Counter[str]()
    slowest = 0.0
    with TemporaryDirectory() as name:
        path = Path(name) / "hostile"
        files = examples(Path(name))
        for data in files:  # what is imported on first use is imported here
            path.write_bytes(data)
            im.load(path)
        for number in range(inputs):
            kind, data = mutations(files[int(rng.integers(len(files)))], rng)
            path.write_bytes(data)
            clock = time.perf_counter()
            try:
                with time_limit(limit):
                    watch.on = True
                    im.load(path)
                if kind == "bytes":
                    wrong[f"a change was not noticed (input {number})"] += 1
                outcomes[kind, "a model"] += 1
            except im.ModelFileError:
                outcomes[kind, "ModelFileError"] += 1
            except LateError:
                wrong["took too long"] += 1
            except BaseException as error:
                wrong[f"{type(error).__name__}: {error} (input {number})"] += 1
            finally:
                watch.on = False
            slowest = max(slowest, time.perf_counter() - clock)
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, ", end="")
    print(f"safetensors {safetensors.__version__}, {inputs} inputs, seed {seed}\n")
    print("| made by changing | ModelFileError | a model |")
    print("|---|---|---|")
    for kind in sorted({kind for kind, _ in outcomes}):
        print(f"| {kind} | {outcomes[kind, 'ModelFileError']} | {outcomes[kind, 'a model']} |")
    print(f"\nOther errors: {sum(wrong.values())}. Audit events: {sum(watch.seen.values())}. ")
    print(f"Slowest input: {1e3 * slowest:.0f} ms.")
    for words, count in (*wrong.items(), *watch.seen.items()):
        print(f"- {count} × {words}")
    return sum(wrong.values()) + sum(watch.seen.values())
