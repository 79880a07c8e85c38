"""Softmax regression, one hidden layer, and linear regression: what each adds to `Dense`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedclust_helpers._validation import FloatArray, check_int
from fedclust_helpers.client_statistics.models import Batch
from fedclust_helpers.rr_cluster.dense import Dense

LARGE = 500.0  # outputs from here on are shifted before they are exponentiated


class _Classifier(Dense):
    """Softmax cross-entropy over the outputs."""

    def __init__(self, n_features: int, n_hidden: int, n_classes: int) -> None:
        super().__init__(n_features, n_hidden, check_int(n_classes, "n_classes", minimum=2))

    @property
    def n_classes(self) -> int:
        """Number of classes; labels are 0 to n_classes - 1."""
        return self.n_outputs

    def _check_answers(self, batch: Batch) -> None:
        if batch.labels is None:
            raise ValueError("batch must hold labels (class numbers), not targets")
        if batch.labels.size and not 0 <= batch.labels.min() <= batch.labels.max() < self.n_outputs:
            raise ValueError(f"labels must be class numbers below {self.n_outputs}")

    def _exponentials(self, outputs: FloatArray) -> tuple[FloatArray, FloatArray, Any]:
        """exp(outputs - top), its sums over the classes, and top of each example.

        `top` is 0, or an example's largest output where one of its own could overflow.
        """
        top: Any = 0.0
        if not max(outputs.max(initial=0.0), -outputs.min(initial=0.0)) <= LARGE:  # or nan
            largest = outputs.max(axis=-1)
            far = ~(np.maximum(largest, -outputs.min(axis=-1)) <= LARGE)
            top = np.where(far, largest, 0.0)
            outputs = outputs - top[..., None]
        scores = np.exp(outputs)
        # a product for each client: faster than sums over a short axis
        sums = scores.reshape(len(scores), -1, self.n_outputs) @ np.ones(self.n_outputs)
        return scores, sums.reshape(scores.shape[:-1]), top

    def _row_losses(self, outputs: FloatArray, answers: np.ndarray) -> FloatArray:
        m, n, k, c = outputs.shape
        at = answers.reshape(-1, 1) + c * np.arange(k) + (k * c) * np.arange(m * n)[:, None]
        chosen = outputs.reshape(-1)[at].reshape(m, n, k)
        _, sums, top = self._exponentials(outputs)
        return np.log(sums) + top - chosen

    def _aims(self, answers: np.ndarray) -> FloatArray:
        return np.eye(self.n_outputs)[answers]

    def _weighted_errors(
        self, outputs: FloatArray, aims: FloatArray, share: FloatArray
    ) -> FloatArray:
        scores, sums, _ = self._exponentials(outputs)
        scores *= (share / sums)[..., None]
        scores -= aims
        return scores

    def _row_scores(self, outputs: FloatArray, answers: np.ndarray) -> np.ndarray:
        return outputs.argmax(axis=2) == answers


class SoftmaxRegression(_Classifier):
    """Multinomial logistic regression: d = (n_features + 1) n_classes.

    Initial models are N(0, 0.1^2). In DP-FedPer the biases are the head.

    >>> SoftmaxRegression(n_features=4, n_classes=3).n_parameters
    15
    """

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__(n_features, 0, n_classes)

    def __repr__(self) -> str:
        return f"SoftmaxRegression({self.n_features}, {self.n_outputs})"

    def initial(self, n_clusters: int, *, rng: np.random.Generator) -> FloatArray:
        """Starting models (k, d), N(0, 0.1^2)."""
        return rng.normal(0.0, 0.1, (n_clusters, self.n_parameters))


class OneHiddenLayer(_Classifier):
    """One hidden layer of rectified linear units, softmax outputs.

    Initial weights are N(0, 2/inputs) (He), biases 0. In DP-FedPer the output layer is the head.

    >>> OneHiddenLayer(n_features=4, n_hidden=8, n_classes=3).n_parameters
    67
    """

    def __init__(self, n_features: int, n_hidden: int, n_classes: int) -> None:
        super().__init__(n_features, check_int(n_hidden, "n_hidden"), n_classes)

    def __repr__(self) -> str:
        return f"OneHiddenLayer({self.n_features}, {self.n_hidden}, {self.n_outputs})"

    def initial(self, n_clusters: int, *, rng: np.random.Generator) -> FloatArray:
        """Starting models (k, d)."""
        models = np.zeros((n_clusters, self.n_parameters))
        for matrix in self._matrices(models):
            assert matrix is not None
            inputs = matrix.shape[1] - 1
            matrix[:, :-1] = rng.normal(0.0, np.sqrt(2 / inputs), matrix[:, :-1].shape)
        return models


class LinearRegression(Dense):
    """Least squares with an intercept: parameters (slopes, intercept), loss the squared error.

    Rows are (features, target): the target is the last column. Initial models are N(0, 1). In
    DP-FedPer the intercept is the head.

    >>> import numpy as np
    >>> model = LinearRegression(n_features=2)
    >>> model.initial(3, rng=np.random.default_rng(0)).shape
    (3, 3)
    """

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features, 0, 1)

    def __repr__(self) -> str:
        return f"LinearRegression({self.n_features})"

    def initial(self, n_clusters: int, *, rng: np.random.Generator) -> FloatArray:
        """Starting models (k, d), N(0, 1)."""
        return rng.normal(size=(n_clusters, self.n_parameters))

    def _check_answers(self, batch: Batch) -> None:
        if batch.targets is None:
            raise ValueError("batch must hold targets (the last column of the rows), not labels")

    def _row_losses(self, outputs: FloatArray, answers: np.ndarray) -> FloatArray:
        return (outputs[..., 0] - answers[:, :, None]) ** 2

    def _aims(self, answers: np.ndarray) -> FloatArray:
        return answers[..., None]

    def _weighted_errors(
        self, outputs: FloatArray, aims: FloatArray, share: FloatArray
    ) -> FloatArray:
        return 2 * (outputs * share[..., None] - aims)

    def _row_scores(self, outputs: FloatArray, answers: np.ndarray) -> np.ndarray:
        return -((outputs[..., 0] - answers) ** 2)
