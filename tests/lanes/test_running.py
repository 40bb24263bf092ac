"""`vmap_last` computes what `jax.vmap` does; each rule on its own, and what has none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback

from downside.arrays import outer_product, sum_of_row
from downside.compiling import compiled
from downside.lanes import vmap_last

N = 5
RNG = np.random.default_rng(4)
X, Y = RNG.normal(size=(2, N, 3, 4))
AT = np.array([2, 0, 1, 1, 2])
SHARED = RNG.normal(size=(4, 3))


def loop_until_large(x):
    return lax.while_loop(lambda x: jnp.sum(x**2) < 100.0, lambda x: 1.7 * x, x)


@jax.custom_jvp
def cubed(x):
    return x**3


cubed.defjvp(lambda primals, tangents: (primals[0] ** 3, 7.0 * tangents[0]))


@jax.custom_vjp
def kept(x):
    return 2.0 * x


kept.defvjp(lambda x: (2.0 * x, x), lambda x, slope: (slope * x,))


@jax.custom_batching.custom_vmap
def one_more(x):
    return x + 1.0


@one_more.def_vmap
def _(size, batched, x):
    return x + 100.0, True


def as_longs(x, y):
    small = jnp.round(100.0 * x).astype(jnp.int8), jnp.round(100.0 * y).T.astype(jnp.int8)
    return jnp.matmul(*small, preferred_element_type=jnp.int32)


def keys_in_a_loop(x, i):
    def step(key, x):
        first, second = jax.random.split(key)
        return jnp.where(x[0] > 0, first, second), jax.random.uniform(first)

    return lax.scan(step, jax.random.fold_in(jax.random.key(3), i), x)[1]


def in_single_precision(x):
    with jax.enable_x64(False):
        return jax.random.uniform(jax.random.key(1), (4,)) @ x[0].astype(jnp.float32)


@jax.checkpoint
def made_again(x):
    return jnp.sum(jnp.sin(x))


FUNCTIONS = {
    "with numbers": lambda x, y, i: 2.0 * x - jnp.exp(-y) / 3.0,
    "with a shared array": lambda x, y, i: x @ SHARED + SHARED[:3],
    "a number of each": lambda x, y, i: jnp.where(i > 1, x, y) * i.astype(float),
    "clip": lambda x, y, i: jnp.clip(x, -0.3, y[0, 0]),
    "sums": lambda x, y, i: (x.sum(0), y.max(1), jnp.prod(x), jnp.argmax(x, axis=1)),
    "running sums": lambda x, y, i: (jnp.cumsum(x, axis=0), jnp.cumsum(y, axis=1, dtype=float)),
    "shapes": lambda x, y, i: (x.T, x.reshape(2, 6), x[None, :, 1], jnp.squeeze(y[:1])),
    "in another order": lambda x, y, i: (jnp.ravel(x, order="F"), y.reshape(6, 2, order="F")),
    "twice": lambda x, y, i: (jnp.cos(x @ SHARED), 2.0 * jnp.cos(x @ SHARED), jnp.cos(y @ SHARED)),
    "a matrix and few vectors": lambda x, y, i: (
        x[:2] @ jnp.tile(y, (5, 5))[:4],
        jnp.tile(x, (1, 5)) @ jnp.tile(y, (7, 2))[:20],
        jnp.einsum("ki,kij->kj", jnp.tile(x, (1, 5)), jnp.ones((3, 20, 20)) * y[0, 0]),
    ),
    "pieces": lambda x, y, i: (x[1:, ::2], jnp.flip(x, 1), jnp.split(y, 2, axis=1)),
    "side by side": lambda x, y, i: jnp.concatenate([x, SHARED.T, y]),
    "filled": lambda x, y, i: (
        jnp.pad(x, ((1, 0), (0, 2))),
        jnp.pad(x, 1, constant_values=y[0, 0]),
    ),
    "a shared place": lambda x, y, i: lax.dynamic_slice(x, (1, 0), (2, 2)),
    "a place of each": lambda x, y, i: (x[i], lax.dynamic_slice(y, (i, 0), (1, 3))),
    "put in place": lambda x, y, i: x.at[i, 1].set(y[0, 0]),
    "sorted": lambda x, y, i: jnp.sort(x, axis=0),
    "vector and matrix": lambda x, y, i: (x @ y[0], x[:, 0] @ y, x @ y.T),
    "batches of products": lambda x, y, i: jnp.einsum("ab,ab->a", x, y),
    "large matrices": lambda x, y, i: jnp.kron(x, y.T) @ jnp.kron(y.T, x).T[:, :20],
    "a product of what all share": lambda x, y, i: (
        x[:, :3] + jnp.cos(jnp.arange(12.0)).reshape(3, 4) @ SHARED + 0.1
    ),
    "a product of vectors that all share": lambda x, y, i: (
        x + jnp.cos(jnp.arange(4.0)) @ SHARED[:, 0],
        sum_of_row(jnp.cos(jnp.arange(20.0))) * x,
        jnp.arange(20) @ jnp.arange(20) + i,
    ),
    "a product in a branch of each": lambda x, y, i: lax.cond(
        i > 1, lambda: x @ y.T + 1.0, lambda: y @ x.T
    ),
    "whole numbers": lambda x, y, i: as_longs(x, y),
    "long vectors": lambda x, y, i: (
        jnp.tile(jnp.sin(x), (1, 40)) @ jnp.cos(jnp.tile(y[0], 40)),
        outer_product(y[0], jnp.cos(jnp.tile(x[1], 40))),
    ),
    "of nothing": lambda x, y, i: (x[:0] @ y.T, jnp.sum(x[:0] * y[:0], 1), x[:, :0] @ y[:, :0].T),
    "in stacks": lambda x, y, i: jnp.stack([x[0], SHARED[:, 0], y[1]], axis=1),
    "keys": lambda x, y, i: keys_in_a_loop(x, i),
    "another width": lambda x, y, i: in_single_precision(x),
    "own slope": lambda x, y, i: jax.grad(lambda x: jnp.sum(kept(x)))(x),
    "own rule": lambda x, y, i: one_more(x),
    "again when needed": lambda x, y, i: jax.grad(lambda x: made_again(x @ y.T))(x),
    "outer product": lambda x, y, i: jnp.einsum("ab,cd->cadb", x, y),
    "two sums at once": lambda x, y, i: jnp.tensordot(x, y, 2),
    "noise": lambda x, y, i: jax.random.normal(jax.random.fold_in(jax.random.key(3), i), (4,)),
    "derivative": lambda x, y, i: jax.grad(lambda x: jnp.sum(jnp.tanh(x @ y.T) ** 2))(x),
    "own derivative": lambda x, y, i: (cubed(x), jax.grad(lambda x: jnp.sum(cubed(x)))(x)),
    "for": lambda x, y, i: lax.fori_loop(0, 3, lambda j, x: x * 0.5 + y[j % 3, 0] + j, x),
    "while": lambda x, y, i: loop_until_large(x),
    "scan": lambda x, y, i: lax.scan(
        lambda s, row: (s * 0.5 + row, s[1] * i.astype(float)), y[0], x
    ),
    "scan of nothing": lambda x, y, i: lax.scan(lambda n, _: (n + 1, n * x), 0, None, length=3),
    "scan backwards": lambda x, y, i: lax.scan(
        lambda s, r: (s + r, s), 2.0 * y[0], x, reverse=True
    ),
    "which all choose": lambda x, y, i: lax.cond(SHARED[0, 0] > 0, lambda: x, lambda: 2.0 * y),
    "which each chooses": lambda x, y, i: lax.switch(i, [lambda: x, lambda: y, lambda: x + y]),
    "the same for all": lambda x, y, i: (jnp.arange(3), jnp.asarray(1.5 * SHARED)),
}


def assert_close(a, b):
    """To some roundings of numbers of order 1."""
    atol = 1e-13 if a.dtype != np.float32 else 1e-6
    np.testing.assert_allclose(a, b, rtol=atol, atol=atol)


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_loop_computes_what_vmap_does(name, size):
    """Of a length that is not known when it is compiled, so that it can become one kernel."""

    def in_a_loop(args, length):
        def again(k, found):
            new = FUNCTIONS[name](args[0] + 0.01 * k, *args[1:])
            return jax.tree.map(lambda a, b: (a + b).astype(a.dtype), found, new)

        nothing = jax.tree.map(jnp.zeros_like, FUNCTIONS[name](*args))
        return lax.fori_loop(0, length, again, nothing)

    with jax.enable_x64(True):
        batch = tuple(jnp.asarray(x)[:size] for x in (X, Y, AT))
        expected, found = (
            compiled(lambda batch, n, vmap=vmap: vmap(lambda x: in_a_loop(x, n))(batch))(batch, 3)
            for vmap in (jax.vmap, vmap_last)
        )
        assert jax.tree.structure(found) == jax.tree.structure(expected)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            assert_close(a, b)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_computes_what_vmap_does(name):
    def one(args):
        return FUNCTIONS[name](*args)

    with jax.enable_x64(True):
        batch = jnp.asarray(X), jnp.asarray(Y), jnp.asarray(AT)
        expected, found = (jax.jit(vmap(one))(batch) for vmap in (jax.vmap, vmap_last))
        assert jax.tree.structure(found) == jax.tree.structure(expected)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            assert_close(a, b)


def test_the_many_are_last_in_the_loop():
    def one(x):
        return lax.fori_loop(0, 10, lambda _, x: x * 0.5 + x[0] @ x.T @ x, x)

    traced = jax.make_jaxpr(vmap_last(one))(jnp.zeros((64, 3, 4)))
    body = next(e.params["jaxpr"] for e in traced.eqns if e.primitive.name == "scan").jaxpr
    shapes = [v.aval.shape for eqn in body.eqns for v in eqn.outvars if v.aval.ndim > 1]
    assert shapes
    assert all(shape[-1] == 64 and 64 not in shape[:-1] for shape in shapes)


def features(x):
    """An outer product of 12 and 7 numbers, and what a critic makes of it."""
    rows, columns, weights = x[:12], x[12:19], x[19:187].reshape(2, 84)
    product = outer_product(rows, columns)
    errors = sum_of_row(weights * (0.9 * product[None] - 0.1))
    return weights + errors[:, None] * product, jnp.sum(product[:5])


@pytest.mark.parametrize("size", [1, 3])
def test_outer_products_are_summed_row_by_row(size):
    x = np.random.default_rng(1).normal(size=(size, 187))

    def in_a_loop(x, n):
        return lax.fori_loop(0, n, lambda k, found: features(x + k), features(x))

    with jax.enable_x64(True):
        expected, found = (
            jax.jit(lambda x, n, vmap=vmap: vmap(lambda x: in_a_loop(x, n))(x))(jnp.asarray(x), 2)
            for vmap in (jax.vmap, vmap_last)
        )
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        traced = str(jax.make_jaxpr(vmap_last(features))(jnp.asarray(x)))
        assert f"f64[2,7,{size}] = reduce_sum[axes=(1,)" in traced


TRANSFORMED = {
    "products of each": lambda x: jax.vmap(outer_product)(x[:6].reshape(2, 3), x[:4].reshape(2, 2)),
    "slope of a product": jax.grad(lambda x: jnp.sum(outer_product(x[:3], x[3:7]) ** 2)),
    "slope of a sum": jax.grad(lambda x: sum_of_row(x[:20] ** 2)),
    "sums of columns": lambda x: jax.vmap(sum_of_row, in_axes=1)(
        jnp.broadcast_to(outer_product(x[:5], x[5:9])[:, None], (20, 20))
        * outer_product(x[:5], x[5:9])
    ),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_what_jax_makes_of_a_function_of_ours_is_not_taken_for_it(name):
    x = jnp.asarray(np.random.default_rng(5).normal(size=(3, 30)), jnp.float32)
    found, expected = (vmap(TRANSFORMED[name])(x) for vmap in (vmap_last, jax.vmap))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_numbers_of_different_outer_products_meet():
    def one(x):
        return outer_product(x[:2], x[2:5]) + outer_product(x[:3], x[3:5])

    x = jnp.asarray(RNG.normal(size=(1, 5)))
    np.testing.assert_allclose(vmap_last(one)(x), jax.vmap(one)(x), rtol=1e-6)


def test_what_is_asked_for_again_is_not_made_again():
    def one(x):
        again = jnp.cos(x @ SHARED) + jnp.cos(x @ np.array(SHARED))
        return lax.fori_loop(
            0, 3, lambda _, x: x + jnp.sum(jnp.sin(x)) + jnp.sum(jnp.sin(x)), again
        )

    traced = jax.make_jaxpr(vmap_last(one))(jnp.zeros((5, 4)))
    text = str(traced)
    assert text.count(" cos ") == text.count(" sin ") == 1


def test_callbacks_that_are_alike_are_all_made():
    seen = []

    def one(x):
        for _ in range(2):
            io_callback(seen.append, None, x)
        return x

    jax.block_until_ready(vmap_last(one)(jnp.arange(3.0)))
    jax.effects_barrier()
    assert sorted(float(x) for x in seen) == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]


def test_callbacks_are_called_once_for_each_of_the_many():
    seen = []

    def one(x):
        lax.cond(SHARED[0, 0] > -9, lambda x: jax.debug.callback(seen.append, x), lambda x: None, x)
        lax.scan(lambda c, x: (c, jax.debug.callback(seen.append, x)), None, jnp.stack([x, x]))
        return x

    jax.block_until_ready(vmap_last(one)(jnp.arange(4.0)))
    jax.effects_barrier()
    assert sorted(float(x) for x in seen) == sorted([0.0, 1.0, 2.0, 3.0] * 3)
