"""Helpers behind the fedclust notebooks: private federated clustering, one small module per idea.

Import modules, not names: ``from fedclust_helpers import fastlloyd, federation``. The modules form
floors, each importing only from the floors below it:

* ground: ``accounting``, ``datasets``, ``kmeans``, ``mechanisms``, ``metrics``,
  ``secure_aggregation``
* wire: ``client_statistics``, ``federation``, ``audit``
* papers: ``fastlloyd``, ``feddp_kmeans``, ``ldp_kmeans``, ``rr_cluster``
* top: ``estimators``, ``flower``, ``command``; above all of them the studies
"""

__version__ = "0.2.0"
