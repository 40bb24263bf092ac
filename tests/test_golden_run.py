"""A run that was written by the first version of the store loads in every later one.

Written once by ``python tests/test_golden_run.py``; never again for the same schema.
"""

import json
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from downside.control import NAC
from downside.environments import Bandit

DATA = Path(__file__).parent / "data" / "run_schema_1"
NOISE = np.linspace(0.0, 0.999, 40, dtype=np.float32)


def agent_in(folder):
    return NAC(Bandit(), n_seeds=2, seed=11, folder=folder)


def actions(agent):
    theta, obs = jnp.asarray(agent.theta[1]), jnp.zeros(agent.env.observation_space.shape)
    return [int(agent.policy.sample(theta, obs, jnp.asarray(u))) for u in NOISE]


@pytest.mark.filterwarnings("ignore:.*was written with other versions")
def test_it_loads_and_acts_as_it_did(tmp_path):
    shutil.copytree(DATA / "run", tmp_path / "run")
    agent = agent_in(tmp_path / "run")
    expected = json.loads((DATA / "expected.json").read_text())
    assert agent.steps == expected["steps"]
    assert agent.theta.tolist() == expected["theta"]
    assert actions(agent) == expected["actions"]
    assert agent.learn(expected["steps"] + 2_000, progress_bar=False).steps == agent.steps


if __name__ == "__main__":
    written = agent_in(DATA / "run").learn(2_000, progress_bar=False)
    found = {"steps": written.steps, "theta": written.theta.tolist(), "actions": actions(written)}
    (DATA / "expected.json").write_text(json.dumps(found))
