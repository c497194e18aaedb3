"""Pictures of fitted models: spectra, components, fit against data, convergence.

Every function returns the Axes it drew on. They take matplotlib, the extra ``plot``, which is
imported when the first picture is drawn.
"""

from implicitmoments.plot.against_data import fit
from implicitmoments.plot.course import convergence
from implicitmoments.plot.eigenvalues import spectra
from implicitmoments.plot.planes import components

__all__ = ["components", "convergence", "fit", "spectra"]
