"""The same training in JAX, jit + vmap over members and a compiled loop over steps: the yardstick for speed."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from phasekit.heads.adam import Adam


def jax_training(pairs: np.ndarray, W: np.ndarray, G: np.ndarray, settings: Adam, steps: int) -> Callable[[], float]:
    """Return a function that takes ``steps`` Adam steps for softmax heads with unit variances, from pair counts.

    Parameters
    ----------
    pairs : array, shape (L, L, V, V)
    W, G : arrays, shapes (M, V, V) and (M, L, L)
    """
    L, V = pairs.shape[0], pairs.shape[2]
    key_pairs = jnp.asarray(pairs.reshape(L * L, V * V), dtype=jnp.float32)
    copy_pairs = jnp.asarray(np.roll(pairs, 1, axis=1).swapaxes(0, 1).reshape(L * L, V * V), dtype=jnp.float32)

    def gradient(W, G):
        A = jax.nn.softmax(G, axis=-1)
        K = (key_pairs @ (W @ W.T).ravel()).reshape(L, L)
        T = (copy_pairs @ W.ravel()).reshape(L, L)
        H = ((A.T @ A).ravel() @ key_pairs).reshape(V, V)
        N = (A.ravel() @ copy_pairs).reshape(V, V)
        dA = (A @ K - T) / L
        return (H @ W - N) / L + W, A * (dA - (A * dA).sum(-1, keepdims=True)) + G

    def step(k, state):
        values, means, squares = state
        gradients = gradient(*values)
        means = jax.tree.map(lambda m, g: settings.beta1 * m + (1 - settings.beta1) * g, means, gradients)
        squares = jax.tree.map(lambda v, g: settings.beta2 * v + (1 - settings.beta2) * g * g, squares, gradients)
        m_scale, v_scale = 1 - settings.beta1 ** (k + 1.0), 1 - settings.beta2 ** (k + 1.0)
        values = jax.tree.map(
            lambda x, m, v: x - settings.rate * (m / m_scale) / (jnp.sqrt(v / v_scale) + settings.eps),
            values,
            means,
            squares,
        )
        return values, means, squares

    @jax.jit
    def run(state):
        return jax.lax.fori_loop(0, steps, lambda k, s: jax.vmap(step, in_axes=(None, 0))(k, s), state)

    values = (jnp.asarray(W, dtype=jnp.float32), jnp.asarray(G, dtype=jnp.float32))
    zeros = jax.tree.map(jnp.zeros_like, values)
    return lambda: jax.block_until_ready(run((values, zeros, zeros)))
