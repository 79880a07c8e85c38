"""What lessons and studies of private federated clustering import: one small module per idea.

All of it is imported as modules: ``from fedclust_helpers import fastlloyd, federation``. They form
layers, each importing only from the layers below it:

* ground: ``accounting``, ``datasets``, ``kmeans``, ``mechanisms``, ``metrics``,
  ``secure_aggregation``
* wire: ``client_statistics``, ``federation``, ``audit``, ``program``
* papers: ``fastlloyd``, ``feddp_kmeans``, ``ldp_kmeans``, ``rr_cluster``

Above them stand `fedclust`, for people with data, and the studies.
"""

__version__ = "0.2.0"
