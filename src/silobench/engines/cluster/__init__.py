"""The executor `ray`: jobs run on the machines of a Ray cluster, or of one that the command starts for itself.

`connection` finds or starts the cluster, `parcels` packs values for its object store, `tasks` is what its workers call,
and `executor` sends jobs and receives results. Ray is imported when the executor is used, never before.
"""

from silobench.engines.cluster.executor import Cluster as Cluster
