"""Writes src/model/likelihood/component/site_scipy.rs: what Student's t and Huber's law make of a Gaussian belief, by scipy.integrate.quad."""

import pathlib

import numpy as np
import scipy
from scipy.integrate import quad
from scipy.special import erf
from scipy.stats import norm, t


def huber(delta, scale):
    """Its density; delta is where it becomes linear, in scales."""
    middle = np.sqrt(2 * np.pi) * erf(delta / np.sqrt(2))
    mass = scale * (middle + 2 / delta * np.exp(-delta * delta / 2))

    def density(x):
        z = abs(x / scale)
        return np.exp(-(z * z / 2 if z <= delta else delta * z - delta * delta / 2)) / mass

    return density


laws = [(dof, 0.0, scale, t(dof, scale=scale).pdf) for dof, scale in ((1.0, 1.0), (3.0, 0.5), (4.0, 1.0), (30.0, 2.0), (1000.0, 1.0))]
laws += [(0.0, delta, scale, huber(delta, scale)) for delta, scale in ((0.5, 1.0), (1.345, 0.5), (4.0, 2.0))]
rows = []
for dof, delta, scale, density in laws:
    for prior in (1e-4, 0.25, 4.0, 1e4):
        for v in (0.0, 0.4, -3.0, 60.0):
            sd = np.sqrt(prior)
            centres = ((0, sd), (v, scale), (v * prior / (prior + scale**2), 1 / np.sqrt(1 / prior + 1 / scale**2)), (np.sign(v) * prior * delta / scale, sd))
            edges = sorted({-40 * sd, 40 * sd, *(c + k * w for c, w in centres for k in (-30, -8, -3, -1, 0, 1, 3, 8, 30)), v - delta * scale, v + delta * scale})
            edges = [e for e in edges if abs(e) <= 40 * sd]
            pairs = list(zip(edges[:-1], edges[1:]))

            def integral(f, size=0.0):
                return sum(quad(lambda x: f(x) * density(v - x) * norm.pdf(x, 0, sd), a, b, epsabs=1e-14 * size, epsrel=1e-11, limit=200)[0] for a, b in pairs)

            mass = integral(lambda x: 1.0)
            if mass > 1e-290:
                mean = integral(lambda x: x, mass * sd) / mass
                variance = integral(lambda x: (x - mean) ** 2, mass * prior) / mass
                rows.append((dof, delta, scale, prior, v, float(np.log(mass)), float(mean), float(variance)))
path = pathlib.Path(__file__).parents[2] / "src/model/likelihood/component/site_scipy.rs"
lines = [f"        ({', '.join(repr(float(f'{v:.12g}')) for v in row)})," for row in rows]
path.write_text(
    f"    /// dof or 0, delta or 0, scale, V, v; ln of the evidence, mean, variance (SciPy {scipy.__version__}).\n"
    f"    const SCIPY: [(f64, f64, f64, f64, f64, f64, f64, f64); {len(rows)}] = [\n" + "\n".join(lines) + "\n    ];\n"
)
