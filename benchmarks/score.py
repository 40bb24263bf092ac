"""What autodiff costs: the score of a Gibbs policy against its outer product written by hand.

    python benchmarks/score.py [--repetitions 60] [--out score.json]

Both run in one process, alternately, so that the machine's noise meets them alike; the ratio is
taken within each repetition. Every learner has its own parameters, observation and action, and a
step uses the parameters of the step before, so that nothing can be left out of the loop.
"""

import argparse
import json
import time

import jax
import jax.numpy as jnp
import numpy as np

from downside.bases import Polynomial
from downside.policies import Gibbs

N_ACTIONS, N_INPUTS, N_LEARNERS, N_STEPS = 11, 6, 512, 200
POLICY = Gibbs(Polynomial(N_INPUTS), N_ACTIONS)


def by_hand(params, obs, action):
    """(one_hot(a) - p) phi, flattened."""
    features = jnp.concatenate([jnp.ones(1), obs])
    p = jax.nn.softmax(params.reshape(N_ACTIONS, N_INPUTS + 1) @ features)
    surprise = (action == jnp.arange(N_ACTIONS)) - p
    return jnp.outer(surprise, features).reshape(-1)


def by_index(params, obs, action):
    """Autodiff through an index, which `Gibbs.log_prob` avoids."""

    def log_prob(params):
        return POLICY.log_probabilities(params, obs)[action]

    return jax.grad(log_prob)(params)


def many_steps(score):
    """All learners, many steps in one compiled call."""

    def step(params, inputs):
        return params + 0.01 * jax.vmap(score)(params, *inputs), None

    return jax.jit(lambda params, inputs: jax.lax.scan(step, params, inputs)[0])


def measure(repetitions):
    """Seconds of each way (repetitions,), after a first call that compiles."""
    keys = jax.random.split(jax.random.key(0), 3)
    params = jax.random.normal(keys[0], (N_LEARNERS, POLICY.n_params))
    obs = jax.random.normal(keys[1], (N_STEPS, N_LEARNERS, N_INPUTS))
    actions = jax.random.randint(keys[2], (N_STEPS, N_LEARNERS), 0, N_ACTIONS)
    ways = {"policy.score": POLICY.score, "by hand": by_hand, "through an index": by_index}
    runs = {name: many_steps(score) for name, score in ways.items()}
    results = {name: np.asarray(run(params, (obs, actions))) for name, run in runs.items()}
    for name, result in results.items():
        np.testing.assert_allclose(result, results["by hand"], rtol=1e-3, atol=1e-3, err_msg=name)
    seconds = {name: [] for name in runs}
    for _ in range(repetitions):
        for name, run in runs.items():
            start = time.perf_counter()
            run(params, (obs, actions)).block_until_ready()
            seconds[name].append(time.perf_counter() - start)
    return {name: np.array(times) for name, times in seconds.items()}


def main():
    """Print a table; write the numbers if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--out", help="write the numbers to this JSON file")
    options = parser.parse_args()

    seconds = measure(options.repetitions)
    rows = {}
    for name, times in seconds.items():
        low, middle, high = np.percentile(times / seconds["by hand"], [25, 50, 75])
        nanoseconds = 1e9 * np.median(times) / (N_LEARNERS * N_STEPS)
        rows[name] = {"ns": nanoseconds, "ratio": middle, "quartiles": [low, high]}

    print(f"{N_LEARNERS} learners, {N_ACTIONS} actions, {N_INPUTS + 1} features, {jax.devices()}")
    print(f"{'score':18} {'ns per learner':>15} {'ratio to by hand':>17} {'middle half':>14}")
    for name, row in rows.items():
        low, high = row["quartiles"]
        print(f"{name:18} {row['ns']:15.1f} {row['ratio']:17.3f} {f'{low:.3f}-{high:.3f}':>14}")
    if options.out:
        with open(options.out, "w") as file:
            json.dump({"jax": jax.__version__, "repetitions": options.repetitions} | rows, file)


if __name__ == "__main__":
    main()
