"""What a policy is worth and what it risks, from fresh episodes."""

from downside.evaluation.comparison import Comparison, compare
from downside.evaluation.host import evaluate_host
from downside.evaluation.intervals import Interval
from downside.evaluation.result import Bound, Evaluation
from downside.evaluation.running import evaluate_risk
from downside.evaluation.several import Evaluations

__all__ = [
    "Bound",
    "Comparison",
    "Evaluation",
    "Evaluations",
    "Interval",
    "compare",
    "evaluate_host",
    "evaluate_risk",
]
