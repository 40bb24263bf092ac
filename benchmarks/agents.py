"""The learners whose speed is measured: online NRCPO with everything a user gets, by problem."""

import os

import jax


def use_all_cores():
    """One device per core, as the command line has it; before JAX starts."""
    jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)


def agent_of(
    problem,
    n_learners,
    precision="float32",
    n_features=None,
    n_actions=11,
    hidden=(),
    critic=None,
):
    """Learners of the paper's settings; what comes after the precision varies the portfolio's."""
    import downside as ds
    from downside.experiments import consumption_runs

    options = {"way": "online", "n_seeds": n_learners, "precision": precision}
    if problem == "bandit":
        policy = ds.Gibbs(ds.OneHot(1), 3)
        return ds.NRCPO(
            ds.Bandit(), target=ds.Centralised(), threshold=1.0, policy=policy, **options
        )
    if problem == "consumption":
        env, policy = ds.Consumption(), consumption_runs.FIGURE
        options |= {"policy": policy, "period": 1000, "critic": ds.Sarsa(0.99)}
        return ds.NRCPO(env, target=env.step_target, threshold=0.1, **options)
    basis = ds.Polynomial(6) if n_features is None else _waves(n_features)
    env = ds.Portfolio(discount=0.99, max_order=n_actions - 1)
    policy = ds.Gibbs(basis, n_actions, hidden=tuple(hidden))
    options |= {} if critic is None else {"critic": getattr(ds, critic)()}
    return ds.NRCPO(env, target=ds.Centralised(), threshold=0.3, policy=policy, **options)


def _waves(n_features):
    """As many bounded features of the observation as are asked for."""
    import numpy as np

    from downside.arrays import array_module
    from downside.bases import Custom

    frequencies = np.random.default_rng(0).normal(size=(6, n_features - 1)).astype("float32")

    def features(obs):
        xp = array_module(obs)
        waves = xp.cos(obs @ xp.asarray(frequencies, dtype=obs.dtype))
        return xp.concatenate([xp.ones_like(obs[..., :1]), waves], axis=-1)

    return Custom(features, ("1", *(f"wave {i}" for i in range(n_features - 1))))
