"""Pictures of fitted models: spectra, components, fit against data, convergence.

Every function returns the Axes it drew on. They take matplotlib, the extra ``plot``, which is
imported when the first picture is drawn.
"""

from implicitmoments.plot.component_plane import components
from implicitmoments.plot.data_comparison import fit
from implicitmoments.plot.fit_statistics import convergence, spectra

__all__ = ["components", "convergence", "fit", "spectra"]
