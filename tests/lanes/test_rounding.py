"""What is computed in lanes is what NumPy computes, to the last bit, in a tile of any size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from downside.batching import map_tiles
from downside.compiling import compiled
from downside.jaxprs import ELEMENTWISE
from downside.lanes import vmap_last
from downside.lanes.rounding import REWRITTEN, rounds_alike
from elementwise_functions import EXACT, FUNCTIONS, ROUGH

TILES = (1, "one kernel"), (16, "one kernel"), (128, "many kernels")


def in_tiles(function, x):
    """{tile: results} of a function in a loop, whose length is not known when it is compiled."""

    def program(size, kernels):
        def step(k, carry):
            x, beside = carry  # a loop that sorts is no kernel
            return function(x), beside if kernels == "one kernel" else jnp.sort(beside)

        def all_of(x, n):
            def one(x):
                return lax.fori_loop(0, n, step, (x, x[:2]))[0]

            return map_tiles(one, x, tile=size, vmap=vmap_last)

        return compiled(all_of)

    return {tile: np.asarray(program(*tile)(jnp.asarray(x), 1)) for tile in TILES}


OPERATIONS = {
    "product": lambda a, b, c, xp: a * b,
    "sum": lambda a, b, c, xp: a + b,
    "difference": lambda a, b, c, xp: a - b,
    "sum of products": lambda a, b, c, xp: a * b + b * b,
    "minus": lambda a, b, c, xp: -a,
    "share": lambda a, b, c, xp: a / (xp.abs(b) + 0.5),
    "with a number": lambda a, b, c, xp: a + c,
    "less a number": lambda a, b, c, xp: a - c,
    "a number less": lambda a, b, c, xp: c - a,
    "times a number": lambda a, b, c, xp: a * c,
    "twice": lambda a, b, c, xp: 2.0 * a,
    "once": lambda a, b, c, xp: 1.0 * a,
    "ones": lambda a, b, c, xp: xp.ones_like(a) * a + xp.full_like(a, 0.3),
    "larger": lambda a, b, c, xp: xp.maximum(a, b),
    "choice": lambda a, b, c, xp: xp.where(a > b, a, c * b),
    "square": lambda a, b, c, xp: xp.square(a) + a,
    "root": lambda a, b, c, xp: xp.sqrt(xp.abs(a) + 0.25),
    "with a hidden number": lambda a, b, c, xp: a * b + xp.where(a > b, c, c),
    "with a number of a row": lambda a, b, c, xp: (
        a * b + xp.concatenate([xp.full_like(a, c), b])[: len(a)]
    ),
    "less a mean": lambda a, b, c, xp: a - xp.mean(a * b),
    "unit": lambda a, b, c, xp: a / xp.sqrt(xp.square(b) + 1.0),
}


NOT_NUMPYS = {name for name in OPERATIONS if "number" in name or "less a" in name} | {
    "twice",
    "once",
    "ones",
}
"""XLA puts numbers together that follow one another, which rounds once; NumPy adds up pairs."""


def formula(rng, names, n_operations=16):
    """Operations on what was found before, chosen at random; of 4 rows, the last 4 results."""
    chosen = rng.choice(names, n_operations)
    places = [rng.integers(max(0, i - 2), i + 4, size=2) for i in range(n_operations)]
    numbers = rng.normal(size=n_operations).round(2)

    def apply(x, xp):
        values = list(x.reshape(4, -1))
        for name, (i, j), number in zip(chosen, places, numbers, strict=True):
            known = x.dtype.type(number) if xp is np else float(number)
            values.append(OPERATIONS[name](values[i], values[j], known, xp))
        found = xp.concatenate(values[-4:])
        return xp.where(xp.abs(found) < 1e6, found, xp.ones_like(found))

    return apply


def formula_in_tiles(seed, names):
    """Results by tile, and NumPy's."""
    rng = np.random.default_rng(seed)
    apply, n, is_double = formula(rng, names), (1, 3, 5, 11, 20)[seed % 5], bool(seed % 2)
    x = rng.normal(size=(128, 4 * n)).astype(np.float64 if is_double else np.float32)
    with jax.enable_x64(is_double):
        found = in_tiles(lambda x: apply(x, jnp), x)
    return found, np.stack([apply(row, np) for row in x])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_formula_has_the_same_bits_in_every_tile(seed):
    found, _ = formula_in_tiles(seed, list(OPERATIONS))
    for tile in TILES:
        assert found[tile].tobytes() == found[TILES[0]].tobytes(), tile


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_formula_without_numbers_is_what_numpy_computes(seed):
    found, expected = formula_in_tiles(seed, sorted(OPERATIONS.keys() - NOT_NUMPYS))
    for tile in TILES:
        assert found[tile].tobytes() == expected.tobytes(), tile


@pytest.mark.slow
@pytest.mark.parametrize("is_double", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_round_alike_in_every_tile(name, is_double):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4096, 11)) * np.exp(1.5 * rng.normal(size=(4096, 1)))
    with jax.enable_x64(is_double):
        x = jnp.asarray(x, float)
        assert rounds_alike(jax.make_jaxpr(FUNCTIONS[name])(x[0]).jaxpr, [True])
        found = in_tiles(lambda x: FUNCTIONS[name](x) * jnp.ones_like(x), x)
    assert np.all(np.isfinite(found[TILES[0]]))
    for tile in TILES:
        assert found[tile].tobytes() == found[TILES[0]].tobytes(), tile


def samples(rng):
    """Of all sizes, near 1, near 0."""
    wide, near = np.exp(20.0 * rng.normal(size=40_000)), 1.0 + 1e-3 * rng.normal(size=20_000)
    return np.concatenate([wide, near, rng.uniform(size=20_000)])


@pytest.mark.parametrize(
    ("width", "name", "most"),
    [
        (np.float32, "log", 1.0),
        (np.float64, "log", 1.0),
        (np.float32, "log1p", 3.0),
        (np.float64, "log1p", 3.0),
    ],
)
def test_logarithms_are_right_to_a_few_units_of_the_last_place(width, name, most):
    """Half a unit is exact; log rounds its last sum, log1p a quotient and a product after it."""
    rng = np.random.default_rng(8)
    x = samples(rng).astype(width)
    if name == "log1p":
        x = np.concatenate([x, -rng.uniform(size=20_000).astype(width), x[:40_000] * 1e-6])
    with jax.enable_x64(width == np.float64):
        found = np.asarray(jax.jit(REWRITTEN[name])(jnp.asarray(x)))
    exact = getattr(np, name)(x.astype(np.longdouble))
    units = np.abs(found - exact) / np.spacing(np.abs(exact).astype(width))
    assert units.max() < most


@pytest.mark.parametrize("kind", [jnp.complex64, jnp.float16, jnp.bfloat16])
def test_logarithms_of_other_numbers_are_xlas(kind):
    x = jnp.asarray([[0.5, 3.0, 1e-5]], kind)
    for function in (jnp.log, jnp.log1p):
        np.testing.assert_array_equal(vmap_last(function)(x), function(x))


@pytest.mark.parametrize("width", [np.float32, np.float64])
@pytest.mark.parametrize("name", REWRITTEN)
def test_logarithms_of_special_numbers_are_numpys(name, width):
    x = np.array([0.0, -0.0, 1.0, -1.0, -2.0, np.inf, -np.inf, np.nan, 1e-30, 1e30], width)
    with jax.enable_x64(width == np.float64):
        found = np.asarray(jax.jit(REWRITTEN[name])(jnp.asarray(x)))
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = getattr(np, name)(x)
    np.testing.assert_allclose(found, expected, rtol=3 * np.finfo(width).eps)


def test_products_that_are_0_stay_so_with_their_signs():
    x = np.array([[0.0, -0.0, 1e-30, 2.0, -2.0]] * 8, np.float32)
    found = in_tiles(lambda x: x * jnp.array([3.0, 3.0, 1e-30, 0.0, 0.0]) / 7.0, x)
    for tile in TILES:
        assert found[tile].tobytes() == np.array([[0.0, -0.0, 0.0, 0.0, -0.0]] * 8, "f4").tobytes()


def test_differences_that_are_0_have_numpys_sign():
    x = np.ones((8, 3), np.float32)
    found = in_tiles(lambda x: jnp.stack([x - 1.0, 1.0 - 2.0 * x + 1.0, -(x - x)]).ravel()[:3], x)
    for tile in TILES:
        assert not np.any(np.signbit(found[tile]))


LOOKED_AT = {
    "arithmetic": (True, lambda x, n: 2.0 * x - jnp.exp(x) / 3.0),
    "what all share": (True, lambda x, n: x * jnp.exp(n.astype(float))),
    "a cube root that all share": (False, lambda x, n: x * jnp.cbrt(n.astype(float))),
    "in 16 bits before": (False, lambda x, n: jnp.where(x.astype(jnp.float16) > 0, x, 0.0)),
    "complex numbers": (False, lambda x, n: jnp.abs(x.astype(complex))),
    "sorted": (True, lambda x, n: jnp.sort(x)[jnp.argmax(x)]),
    "loops": (True, lambda x, n: lax.fori_loop(0, n, lambda k, x: lax.cumsum(x) - k, x)),
    "which all choose": (True, lambda x, n: lax.cond(n > 1, jnp.exp, jnp.tanh, x)),
    "noise": (True, lambda x, n: jax.random.normal(jax.random.key(n), (3,)) * x),
    "whole numbers": (True, lambda x, n: jnp.cumsum(jnp.argsort(x)) // 2),
    "a cube root": (False, lambda x, n: jnp.cbrt(x)),
    "a cube root in a loop": (False, lambda x, n: lax.fori_loop(0, 3, lambda k, x: jnp.cbrt(x), x)),
    "a cube root that is called": (False, lambda x, n: jax.jit(jnp.cbrt)(x)),
    "which each chooses": (False, lambda x, n: lax.cond(x[0] > 1.0, jnp.exp, jnp.tanh, x)),
    "a loop of each": (False, lambda x, n: lax.while_loop(lambda x: x[0] < 9.0, jnp.exp, x)),
    "equations": (False, lambda x, n: jnp.linalg.solve(jnp.outer(x, x) + jnp.eye(3), x)),
    "large matrices": (False, lambda x, n: jnp.tile(x, (20, 7)) @ jnp.tile(x, (20, 7)).T),
    "sums in places": (False, lambda x, n: jnp.zeros(3).at[jnp.argsort(x)].add(x)),
    "half width": (False, lambda x, n: x.astype(jnp.bfloat16) * 2),
}


@pytest.mark.parametrize("name", LOOKED_AT)
def test_what_may_round_by_the_tile_is_seen(name):
    expected, function = LOOKED_AT[name]
    jaxpr = jax.make_jaxpr(function)(jnp.ones(3), 2).jaxpr
    assert rounds_alike(jaxpr, [True, False]) is expected


def test_every_function_is_tested_or_known_to_be_rough():
    in_formulas = {"mul", "square", "sqrt"}
    tested = set(EXACT.split()) | in_formulas | FUNCTIONS.keys()
    assert tested | ROUGH.keys() >= ELEMENTWISE
    for function in ROUGH.values():
        assert not rounds_alike(jax.make_jaxpr(function)(jnp.ones(3)).jaxpr, [True])
