# The names of this package, one line each, and the only list of them: `__init__.py` loads each on first use.

from .engine import ENGINES as ENGINES
from .engine import Engine as Engine
from .engine import auto as auto
from .engine import debug as debug
from .engine import inline as inline
from .engine import native as native
from .engine import pool as pool
from .engine import ray as ray
from .engine import stacked as stacked
from .executor import Executor as Executor
from .executor import Job as Job
from .executor import News as News
from .modes import MODES as MODES
from .modes import Mode as Mode
from .workers import EXECUTORS as EXECUTORS
from .workers import Workers as Workers
