"""Ground truth: what a policy is worth and what it risks, without sampling where possible."""

from downside.exact.constrained import ConstrainedOptimum, InfeasibleError, constrained_optimum
from downside.exact.returns import ReturnDistribution, path_shortfall, return_distribution
from downside.exact.tabular import (
    action_values,
    proxy,
    risk_cumulants,
    start_value,
    state_distribution,
    step_targets,
)

__all__ = [
    "ConstrainedOptimum",
    "InfeasibleError",
    "ReturnDistribution",
    "action_values",
    "constrained_optimum",
    "path_shortfall",
    "proxy",
    "return_distribution",
    "risk_cumulants",
    "start_value",
    "state_distribution",
    "step_targets",
]
