from .closed_forms import normal_lower_partial_moment as normal_lower_partial_moment
from .closed_forms import normal_upper_partial_moment as normal_upper_partial_moment
from .closed_forms import pareto_lower_partial_moment as pareto_lower_partial_moment
from .closed_forms import pareto_upper_partial_moment as pareto_upper_partial_moment
from .environments import Bandit as Bandit
from .environments import Consumption as Consumption
from .environments import Portfolio as Portfolio
from .environments import Tabular as Tabular
from .environments import Tree as Tree
from .environments import rollout as rollout
from .moments import conditional_value_at_risk as conditional_value_at_risk
from .moments import kappa_ratio as kappa_ratio
from .moments import lower_partial_moment as lower_partial_moment
from .moments import maximum_drawdown as maximum_drawdown
from .moments import omega_ratio as omega_ratio
from .moments import semideviation as semideviation
from .moments import sortino_ratio as sortino_ratio
from .moments import upper_partial_moment as upper_partial_moment
from .moments import upside_potential_ratio as upside_potential_ratio
from .moments import value_at_risk as value_at_risk
from .signals import Centralised as Centralised
from .signals import Constraint as Constraint
from .signals import Fixed as Fixed
from .signals import TDError as TDError

__version__: str
