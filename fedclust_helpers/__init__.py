"""Helpers behind the fedclust notebooks: private federated clustering, one small module per idea.

Import modules, not names: ``from fedclust_helpers import fastlloyd, federation``. The modules form
floors, each importing only from the floors below it:

* ground: ``kmeans``, ``mechanisms``, ``accounting``, ``metrics``, ``datasets``, ``grids``, ``lsh``,
  ``projections``
* wire: ``client_statistics``, ``local_randomizers``, ``frequency_oracles``, ``secure_aggregation``,
  ``federation``, ``audit``
* papers: ``fastlloyd``, ``feddp_kmeans``, ``ldp_kmeans``, ``rr_cluster``
* top: ``estimators``, ``experiments``, ``figures``, ``widgets``
"""

__version__ = "0.2.0"
