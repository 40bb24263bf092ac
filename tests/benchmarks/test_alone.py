import os
import subprocess
import sys

import numpy as np
import pytest
from benchmarks.agents import agent_of
from benchmarks.alone import ONE_KERNEL
from benchmarks.measuring import ROOT

PROGRAM = """
from benchmarks.agents import agent_of
agent = agent_of("portfolio", 1, tile=1).learn(4000, progress_bar=False)
print(*agent.theta[0])
"""


@pytest.mark.slow
def test_a_loop_that_is_one_kernel_has_the_same_bits_on_the_portfolio():
    there = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"XLA_FLAGS": ONE_KERNEL, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = np.array(there.stdout.split(), float)
    expected = agent_of("portfolio", 1).learn(4000, progress_bar=False).theta[0]
    np.testing.assert_array_equal(found.astype(np.float32), expected)  # as the page says
