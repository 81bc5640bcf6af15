"""Names that SciPy and scikit-learn removed; the old ones do not run with today's NumPy."""

from __future__ import annotations

from mdstorm_migrate.libraries.removed import Removed, all_of, joined

NAMES = joined(
    all_of(
        "scipy.misc",
        "imread imresize imsave imrotate imshow imfilter toimage fromimage bytescale",
        Removed("SciPy 1.3", "use Pillow, imageio or OpenCV"),
    ),
    all_of(
        "sklearn",
        "cross_validation grid_search",
        Removed("scikit-learn 0.20", "use `model_selection`"),
    ),
    all_of("sklearn.externals", "joblib", Removed("scikit-learn 0.23", "`import joblib`")),
    all_of("sklearn.externals", "six", Removed("scikit-learn 0.23", "`import six`")),
)
