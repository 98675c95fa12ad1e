# What type checkers read: at run time, a name is imported when it is first used.

from . import adapters as adapters
from . import compat as compat
from . import experiments as experiments
from . import gate as gate
from . import metrics as metrics
from . import plots as plots
from . import problems as problems
from . import references as references
from . import regions as regions
from . import report as report
from ._version import __version__ as __version__
from .adapters.sampler import from_sampler as from_sampler
from .checks import Check as Check
from .checks import check as check
from .checks.plan import Plan as Plan
from .checks.plan import plan as plan
from .diagnostics import hpd as hpd
from .diagnostics import sbc as sbc
from .diagnostics import tarp as tarp
from .engine import Engine as Engine
from .results import Result as Result
from .results import load as load
from .runner import run as run
from .sequential import adversaries as adversaries
from .sequential.monitor import Monitor as Monitor
from .simulations import Simulations as Simulations
