"""Writes src/model/likelihood/component/site_scipy.rs: what Student's t makes of a Gaussian belief, by scipy.integrate.quad."""

import pathlib

import numpy as np
import scipy
from scipy.integrate import quad
from scipy.stats import norm, t

rows = []
for dof, scale in ((1.0, 1.0), (3.0, 0.5), (4.0, 1.0), (30.0, 2.0), (1000.0, 1.0)):
    for prior in (1e-4, 0.25, 4.0, 1e4):
        for v in (0.0, 0.4, -3.0, 60.0):
            sd = np.sqrt(prior)
            def f(x):
                return t.pdf(v - x, dof, scale=scale) * norm.pdf(x, 0, sd)
            edges = sorted({-40 * sd, 40 * sd, *(c + k * w for c, w in ((0, sd), (v, scale)) for k in (-30, -8, -3, -1, 0, 1, 3, 8, 30))})
            edges = [e for e in edges if abs(e) <= 40 * sd]
            pairs = list(zip(edges[:-1], edges[1:]))
            mass = sum(quad(f, a, b, epsabs=0, epsrel=1e-11, limit=200)[0] for a, b in pairs)
            first = sum(quad(lambda x: x * f(x), a, b, epsabs=1e-16 * mass * sd, epsrel=1e-11, limit=200)[0] for a, b in pairs)
            if mass > 0:
                rows.append((dof, scale, prior, v, float(np.log(mass)), float(first / mass)))
path = pathlib.Path(__file__).parents[2] / "src/model/likelihood/component/site_scipy.rs"
lines = [f"        ({', '.join(repr(v) for v in row)})," for row in rows]
path.write_text(
    f"    /// dof, scale, V, v, ln of the evidence, mean (SciPy {scipy.__version__}).\n"
    f"    const SCIPY: [(f64, f64, f64, f64, f64, f64); {len(rows)}] = [\n" + "\n".join(lines) + "\n    ];\n"
)
