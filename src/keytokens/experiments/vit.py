"""A small vision transformer on handwritten digits: its attention sparsifies while W grows."""

from typing import Any

import numpy as np

from keytokens._extras import require
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.tools import worst
from keytokens.experiments.verdict import Verdict, at_least, at_most

WIDTH, HEADS, LAYERS, PATCH, BATCH, RATE = 64, 4, 3, 2, 50, 2e-3
TOKENS = (8 // PATCH) ** 2 + 1  # patches and <cls>
TRAIN, TEST = 1400, 397  # of scikit-learn's 1,797 digits of 8 x 8
SHOWN = (0, 3, 10, 30)  # epochs whose attention map is kept; a run ends at the last
IMAGE = 3  # the test image that is shown


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """nnz of the <cls> attention, |W|_F and accuracy per epoch; maps of one test image."""
    jax = require("jax", "lab")
    images, labels, pixels = _digits(rng)
    weights = _start(rng)
    state = (weights, *(jax.tree.map(np.zeros_like, weights) for _ in range(2)), np.float32(0))
    epoch, look = jax.jit(_epoch), jax.jit(_look)
    rows = [{"kind": "pixel", "place": k, "value": v} for k, v in enumerate(pixels)]
    for number in range(SHOWN[-1] + 1):
        if number:
            order = rng.permutation(TRAIN).reshape(-1, BATCH)
            state = epoch(state, images[order], labels[order])
        logits, attention, size = look(state[0], images)
        rows.append(_measured(number, logits, attention, size, labels))
        if number in SHOWN:
            shown = np.asarray(attention[TRAIN + IMAGE]).mean(axis=0)
            rows += [{"kind": "map", "epoch": number, "place": k, "value": float(s)}
                     for k, s in enumerate(shown)]  # fmt: skip
    return rows


def _measured(epoch: int, logits: Any, attention: Any, size: Any, labels: Any) -> dict[str, Any]:
    """nnz(s) = |s|_1^2 / |s|_2^2 in [1, T], the mean over test images and heads."""
    right = np.asarray(logits).argmax(-1) == labels
    nnz = 1 / np.square(np.asarray(attention, dtype=float)[TRAIN:]).sum(-1)
    return {"kind": "epoch", "epoch": epoch, "nnz": nnz.mean(), "norm": float(size),
            "train": right[:TRAIN].mean(), "test": right[TRAIN:].mean()}  # fmt: skip


def _digits(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Patches (n, 16, 4) in a drawn order, labels (n,), and the pixels of the shown image."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = rng.permutation(len(found.target))
    images = (found.images[order] / 8 - 1).astype(np.float32)
    side = 8 // PATCH
    patches = images.reshape(-1, side, PATCH, side, PATCH).transpose(0, 1, 3, 2, 4)
    return (patches.reshape(-1, side * side, PATCH * PATCH), found.target[order],
            images[TRAIN + IMAGE].ravel())  # fmt: skip


def _start(rng: np.random.Generator) -> dict[str, Any]:
    """Gaussian weights of variance 1 / fan-in; queries and keys smaller: a near-uniform start."""

    def matrix(*shape: int) -> Any:
        return (rng.standard_normal(shape) / np.sqrt(shape[-2])).astype(np.float32)

    layer = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "o": (WIDTH, WIDTH),
             "up": (WIDTH, 2 * WIDTH), "down": (2 * WIDTH, WIDTH)}  # fmt: skip
    weights = {name: matrix(LAYERS, *shape) for name, shape in layer.items()}
    weights |= {name: 0.3 * weights[name] for name in "qk"}
    return weights | {
        "patch": matrix(PATCH * PATCH, WIDTH), "cls": 0.1 * matrix(1, WIDTH),
        "place": 0.1 * matrix(TOKENS, WIDTH), "out": matrix(WIDTH, 10),
    }  # fmt: skip


def _forward(weights: Any, images: Any) -> tuple[Any, Any]:
    """Logits (n, 10) and the last layer's <cls> attention. (n, heads, T)"""
    jnp = require("jax", "lab").numpy
    n = images.shape[0]
    cls = jnp.broadcast_to(weights["cls"], (n, 1, WIDTH))
    x = jnp.concatenate([cls, images @ weights["patch"]], axis=1) + weights["place"]
    for k in range(LAYERS):
        heads, attention = _attend(weights, k, _normed(x))
        x = x + heads @ weights["o"][k]
        x = x + jnp.maximum(_normed(x) @ weights["up"][k], 0) @ weights["down"][k]
    return _normed(x[:, 0]) @ weights["out"], attention[:, :, 0]


def _attend(weights: Any, k: int, x: Any) -> tuple[Any, Any]:
    """softmax(X W_Q W_K^T X^T) X W_V, head by head; no 1 / sqrt(d)."""
    jax = require("jax", "lab")
    q, key, v = (_split(x @ weights[name][k]) for name in "qkv")
    attention = jax.nn.softmax(q @ key.swapaxes(-1, -2), axis=-1)
    return (attention @ v).swapaxes(1, 2).reshape(x.shape), attention


def _split(x: Any) -> Any:
    """(n, T, d) -> (n, heads, T, d / heads)"""
    return x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)


def _normed(x: Any) -> Any:
    x = x - x.mean(-1, keepdims=True)
    return x / (x.std(-1, keepdims=True) + 1e-5)


def _look(weights: Any, images: Any) -> tuple[Any, Any, Any]:
    """Logits, <cls> attention, and |W_Q W_K^T|_F of the last layer, mean over heads."""
    jnp = require("jax", "lab").numpy
    q, k = (weights[name][-1].reshape(WIDTH, HEADS, -1) for name in "qk")
    W = jnp.einsum("ahr,bhr->hab", q, k)
    return *_forward(weights, images), jnp.sqrt((W * W).sum((1, 2))).mean()


def _loss(weights: Any, images: Any, labels: Any) -> Any:
    jax = require("jax", "lab")
    log_p = jax.nn.log_softmax(_forward(weights, images)[0])
    return -jax.numpy.take_along_axis(log_p, labels[:, None], axis=-1).mean()


def _epoch(state: Any, images: Any, labels: Any) -> Any:
    """One pass of Adam over the batches."""
    jax = require("jax", "lab")

    def step(state: Any, batch: Any) -> Any:
        weights, mean, square, count = state
        gradient = jax.grad(_loss)(weights, *batch)
        count = count + 1
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
        square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, gradient)
        scale = RATE * jax.numpy.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        weights = jax.tree.map(
            lambda w, m, s: w - scale * m / (jax.numpy.sqrt(s) + 1e-8), weights, mean, square
        )
        return (weights, mean, square, count), None

    return jax.lax.scan(step, state, (images, labels))[0]


def verdicts(rows: Any) -> list[Verdict]:
    """nnz falls while the norm grows, in a model that has learned."""
    from scipy.stats import spearmanr

    epochs = rows.filter(rows["kind"] == "epoch")
    first, last = (epochs.filter(epochs["epoch"] == k) for k in (0, SHOWN[-1]))
    ranks = [
        spearmanr(part["norm"], part["nnz"]).statistic
        for (_,), part in epochs.group_by("seed", maintain_order=True)
    ]
    return [
        at_least("The transformer learns the digits.", "least test accuracy over seeds",
                 worst(last["test"], np.min), 0.9, "chance is .1; a linear classifier reaches .95"),
        at_least("|W|_F grows in training.", "least final over initial norm",
                 worst((last["norm"] / first["norm"]), np.min), 1.2, "growth the eye sees"),
        at_most("The <cls> attention sparsifies.", "largest final over initial nnz",
                worst(last["nnz"] / first["nnz"]), 0.75, "a quarter of the tokens or more"),
        at_most("It sparsifies as the norm grows.",
                "largest rank correlation of norm and nnz over the epochs", worst(ranks), -0.7,
                "a common threshold for a strong monotone relation"),
    ]  # fmt: skip


def draw(rows: Any) -> Any:
    """As printed: nnz and norm per epoch, accuracy; then the maps of one image."""
    from matplotlib import pyplot

    figure: Any = pyplot.figure(figsize=(8.6, 5.2))
    above, below = figure.subfigures(2, 1, height_ratios=(3, 2))
    epochs = rows.filter(rows["kind"] == "epoch")
    panels = (("nnz", "nnz of ⟨cls⟩ attention"), ("norm", "‖W‖$_F$"), ("test", "accuracy"))
    for axis, (column, label) in zip(above.subplots(1, 3), panels, strict=True):
        for (_,), part in epochs.group_by("seed", maintain_order=True):
            axis.plot(part["epoch"], part[column], color="C0")
            if column == "test":
                axis.plot(part["epoch"], part["train"], color="C1", ls="--")
        axis.set(xlabel="epoch", ylabel=label)
    axis.plot([], [], "C0", label="test")
    axis.plot([], [], "C1", ls="--", label="train")
    axis.legend(loc="lower right")
    _draw_maps(below.subplots(1, len(SHOWN) + 1), rows.filter(rows["seed"] == 0))
    return figure


def _draw_maps(axes: Any, rows: Any) -> None:
    pixels = rows.filter(rows["kind"] == "pixel").sort("place")["value"]
    axes[0].imshow(pixels.to_numpy().reshape(8, 8), cmap="gray")
    axes[0].set_title("image")
    for axis, epoch in zip(axes[1:], SHOWN, strict=True):
        part = rows.filter((rows["kind"] == "map") & (rows["epoch"] == epoch)).sort("place")
        side = 8 // PATCH
        axis.imshow(part["value"].to_numpy()[1:].reshape(side, side), cmap="Blues", vmin=0,
                    vmax=rows.filter(rows["kind"] == "map")["value"].max())  # fmt: skip
        axis.set_title(f"attention, epoch {epoch}")
    for axis in axes:
        axis.set_axis_off()


EXPERIMENT = Experiment(
    name="vit",
    title="Sparsity in a small vision transformer",
    run=run,
    seeds=lambda quick: 1 if quick else 3,
    verdicts=verdicts,
    draw=draw,
    left_out="2 of 3 seeds",
    look=(
        "Three layers, four heads, width 64, 2 x 2 patches of 8 x 8 digits, Adam. The effective "
        "number of tokens that the <cls> row of the last layer attends to (mean over heads) falls "
        "while its key-query matrix grows. Below: one test image and its attention map along "
        "training."
    ),
)
