"""Functions of a vector, by the operation that each is about, finite for all numbers."""

import jax
import jax.numpy as jnp
from jax import lax

FUNCTIONS = {
    "acos": lambda x: jnp.arccos(jnp.tanh(x)),
    "asin": lambda x: jnp.arcsin(jnp.tanh(x)),
    "atan2": lambda x: jnp.arctan2(x, 0.3),
    "atanh": lambda x: jnp.arctanh(0.9 * jnp.tanh(x)),
    "cos": jnp.cos,
    "cosh": lambda x: jnp.cosh(jnp.clip(x, -9.0, 9.0)),
    "cumprod": lambda x: jnp.cumprod(jnp.tanh(x)) + x,
    "cumsum": jnp.cumsum,
    "digamma": lambda x: lax.digamma(jnp.abs(x) + 0.5),
    "div": lambda x: x / 3.0 + x,
    "erf_inv": lambda x: lax.erf_inv(0.99 * jnp.tanh(x)),
    "exp": lambda x: jnp.exp(jnp.clip(x, -50.0, 50.0)),
    "exp2": lambda x: jnp.exp2(jnp.clip(x, -50.0, 50.0)),
    "expm1": lambda x: jnp.expm1(jnp.clip(x, -50.0, 50.0)),
    "integer_pow": lambda x: jnp.clip(x, -9.0, 9.0) ** 5 + x,
    "lgamma": lambda x: lax.lgamma(jnp.abs(x) + 0.5),
    "log": lambda x: jnp.log(jnp.abs(x)),
    "log1p": lambda x: jnp.log1p(jnp.abs(x)),
    "log_softmax": jax.nn.log_softmax,
    "logistic": jax.nn.sigmoid,
    "mean": lambda x: x - jnp.mean(x),
    "outer": lambda x: jnp.outer(x, x) @ x,
    "pow": lambda x: (jnp.abs(x) + 0.1) ** -0.5 + x,
    "reduce_prod": lambda x: jnp.prod(jnp.tanh(x)) + x,
    "rem": lambda x: jnp.mod(x, 0.7),
    "sin": jnp.sin,
    "sinh": lambda x: jnp.sinh(jnp.clip(x, -9.0, 9.0)),
    "softplus": jax.nn.softplus,
    "tanh": jnp.tanh,
    "var": lambda x: x + jnp.var(x),
}

EXACT = """
abs add add_any and ceil clamp convert_element_type copy eq floor ge gt is_finite le lt max min ne
neg nextafter not or reduce_precision round select_n shift_left shift_right_arithmetic
shift_right_logical sign stop_gradient sub xor
"""
ROUGH = {
    **{
        name: getattr(lax, name)
        for name in ["acosh", "asinh", "atan", "cbrt", "erf", "erfc", "rsqrt", "tan"]
    },
    "igamma": lambda x: lax.igamma(x, x),
    "igammac": lambda x: lax.igammac(x, x),
    "polygamma": lambda x: lax.polygamma(x, x),
    "regularized_incomplete_beta": lambda x: lax.betainc(x, x, x),
}
