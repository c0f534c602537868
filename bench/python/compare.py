"""Times optfilter against filterpy, dynamax and hand-written JAX, and checks that all compute the same.

Prints a Markdown table; exits with an error if estimates disagree, or (with --check) if a target is missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time

import numpy as np

import optfilter

Q, R, DT, STEPS = 3.0, 2.0, 0.1, 200


def best(function, repeat=200, number=1):
    """Seconds per call: the smallest of `repeat` means over `number` calls, after one warm-up.

    The smallest, because other programs can only add time; many, because on a busy machine few are spared.
    """
    function()
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        for _ in range(number):
            function()
        times.append((time.perf_counter() - begin) / number)
    return min(times)


def agree(name, ours, theirs, tolerance):
    worst = float(np.max(np.abs(np.asarray(ours) - np.asarray(theirs))))
    if not worst <= tolerance:
        sys.exit(f"{name}: estimates differ by {worst:g}, more than {tolerance:g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if a target is missed")
    arguments = parser.parse_args()

    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    model = optfilter.models.Growth(Q=Q, R=R, dt=DT)
    data = optfilter.simulate(model, STEPS, batch=100, seed=0)
    ys = data.observations
    y0 = ys[0]
    rows = []

    def row(task, ours, peer, theirs, target):
        rows.append((task, ours, peer, theirs, theirs / ours, target))

    def f(x, t):
        return x / 2 + 25 * x / (1 + x**2) + 8 * jnp.cos(1.2 * t)

    def h(x):
        return x**2 / 20

    # ---- streaming EKF, one call at a time
    ours = optfilter.ExtendedKalmanFilter(model)
    measured = [np.array(y) for y in y0]

    def stream_ours():
        for y in measured:
            ours.predict()
            ours.update(y)

    ours_stream = best(stream_ours) / STEPS

    def update_ours():
        for y in measured:
            ours.update(y)

    ours_update = best(update_ours) / STEPS

    from filterpy.kalman import ExtendedKalmanFilter

    theirs = ExtendedKalmanFilter(dim_x=1, dim_z=1)
    theirs.Q, theirs.R = np.array([[Q]]), np.array([[R]])

    def slope(x):
        return 0.5 + 25 * (1 - x**2) / (1 + x**2) ** 2

    def stream_filterpy(out=None):
        theirs.x, theirs.P = np.zeros(1), np.eye(1)
        for k, y in enumerate(measured):
            x = theirs.x
            theirs.F = np.array([[slope(x[0])]])
            moved = x / 2 + 25 * x / (1 + x**2) + 8 * np.cos(1.2 * (k + 1) * DT)
            theirs.predict()
            theirs.x = moved
            theirs.update(y, lambda x: np.array([[x[0] / 10]]), lambda x: x**2 / 20)
            if out is not None:
                out.append(theirs.x[0])

    check = []
    stream_filterpy(check)
    series = ours.filter(y0)
    agree("streaming EKF against filterpy", series.means[:, 0], check, 1e-8)
    filterpy_stream = best(stream_filterpy, repeat=50) / STEPS

    def update_filterpy():
        for y in measured:
            theirs.update(y, lambda x: np.array([[x[0] / 10]]), lambda x: x**2 / 20)

    filterpy_update = best(update_filterpy, repeat=50) / STEPS

    @jax.jit
    def jax_step(x, P, y, t):
        F = jax.grad(f)(x, t)
        m, P = f(x, t), F * P * F + Q
        H = jax.grad(h)(m)
        S = H * P * H + R
        K = P * H / S
        return m + K * (y - h(m)), (1 - K * H) * P

    times = [(k + 1) * DT for k in range(STEPS)]

    def stream_jax(out=None):
        x, P = 0.0, 1.0
        for y, t in zip(y0[:, 0], times):
            x, P = jax_step(x, P, y, t)
            if out is not None:
                out.append(float(x))
        return jax.block_until_ready(x)

    check = []
    stream_jax(check)
    agree("streaming EKF against JAX", series.means[:, 0], check, 1e-8)
    jax_stream = best(stream_jax, repeat=50) / STEPS

    row("streaming EKF, update alone", ours_update, "filterpy", filterpy_update, "<= 3 us")
    row("streaming EKF, predict + update", ours_stream, "filterpy", filterpy_stream, "<= 3 us")
    row("streaming EKF, predict + update", ours_stream, "JAX (jit)", jax_stream, "<= 3 us")

    # ---- whole series, EKF and UKF against dynamax
    from dynamax.nonlinear_gaussian_ssm import (
        ParamsNLGSSM,
        UKFHyperParams,
        extended_kalman_filter,
        unscented_kalman_filter,
    )

    # dynamax updates before it predicts: its first state is ours after one prediction. Its transition
    # takes the input of the step it leads to, which we use for the time.
    m1 = float(f(0.0, DT))
    F1 = float(jax.grad(f)(0.0, DT))
    params = ParamsNLGSSM(
        initial_mean=jnp.array([m1]),
        initial_covariance=jnp.array([[F1 * F1 + Q]]),
        dynamics_function=lambda x, u: f(x, u[0]),
        dynamics_covariance=jnp.array([[Q]]),
        emission_function=lambda x, u: h(x),
        emission_covariance=jnp.array([[R]]),
    )
    emissions = jnp.asarray(y0)
    inputs = jnp.asarray(times)[:, None]
    # The whole posterior, as ours: jit would leave out what is not returned.
    ekf = jax.jit(lambda e: extended_kalman_filter(params, e, inputs=inputs))
    # dynamax adds 1e-9 to the diagonal before it solves, which the system magnifies over 200 steps.
    agree("EKF series against dynamax", series.means, ekf(emissions).filtered_means, 1e-4)
    ours_ekf = best(lambda: ours.filter(y0))
    dynamax_ekf = best(lambda: jax.block_until_ready(ekf(emissions).filtered_means))
    row(f"EKF, series of {STEPS}", ours_ekf, "dynamax (jit)", dynamax_ekf, ">= 20x")

    hyper = UKFHyperParams(alpha=1.0, beta=0.0, kappa=2.0)
    unscented = optfilter.UnscentedKalmanFilter(model, alpha=1.0, beta=0.0, kappa=2.0)
    # The unscented prediction of the first state, by its definition: three points about 0 with P = 1.
    spread = np.sqrt(3.0)
    points = np.array([float(f(p, DT)) for p in (0.0, spread, -spread)])
    weights = np.array([2 / 3, 1 / 6, 1 / 6])
    mean = float(weights @ points)
    cov = float(weights @ (points - mean) ** 2) + Q
    first = params._replace(
        initial_mean=jnp.array([mean]), initial_covariance=jnp.array([[cov]])
    )
    ukf = jax.jit(lambda e: unscented_kalman_filter(first, e, hyper, inputs=inputs))
    agree("UKF series against dynamax", unscented.filter(y0).means, ukf(emissions).filtered_means, 1e-4)
    ours_ukf = best(lambda: unscented.filter(y0))
    dynamax_ukf = best(lambda: jax.block_until_ready(ukf(emissions).filtered_means))
    row(f"UKF, series of {STEPS}", ours_ukf, "dynamax (jit)", dynamax_ukf, ">= 20x")

    # ---- implicit MAP, Adam, K = 50, 100 trajectories
    lr, b1, b2, eps, K = 0.1, 0.9, 0.999, 1e-8, 50

    def imap_one(y):
        loss = jax.grad(lambda x, seen: 0.5 * (seen - h(x)) ** 2)

        def step(x, inputs):
            seen, t = inputs
            x = f(x, t)

            def inner(carry, k):
                x, m, v, p1, p2 = carry
                g = loss(x, seen)
                m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
                p1, p2 = p1 * b1, p2 * b2
                x = x - lr * (m / (1 - p1)) / (jnp.sqrt(v / (1 - p2)) + eps)
                return (x, m, v, p1, p2), None

            (x, *_), _ = jax.lax.scan(inner, (x, 0.0, 0.0, 1.0, 1.0), None, length=K)
            return x, x

        return jax.lax.scan(step, 0.0, (y, jnp.asarray(times)))[1]

    batch = jax.jit(jax.vmap(imap_one))
    imap = optfilter.ImplicitMAP(model, optfilter.Adam(lr), steps=K)
    seen = jnp.asarray(ys[..., 0])
    ours_means, theirs_means = imap.filter(ys).means[..., 0], np.asarray(batch(seen))
    # The system is chaotic: a last bit grows. The first 20 steps of all trajectories must agree.
    agree("implicit MAP against JAX", ours_means[:, :20], theirs_means[:, :20], 1e-6)
    ours_imap = best(lambda: imap.filter(ys))
    jax_imap = best(lambda: jax.block_until_ready(batch(seen)), repeat=60)
    row("implicit MAP, Adam K=50, 100 x 200", ours_imap, "JAX (jit, vmap, scan)", jax_imap, ">= 3x")

    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, "
          f"optfilter {optfilter.__version__}, jax {jax.__version__}, {time.strftime('%Y-%m-%d')}, "
          f"load {os.getloadavg()[0]:.1f}\n")
    print("| task | optfilter | peer | peer's time | ratio | target |\n|---|---|---|---|---|---|")
    for task, a, peer, b, ratio, target in rows:
        print(f"| {task} | {a * 1e6:.2f} us | {peer} | {b * 1e6:.1f} us | {ratio:.1f}x | {target} |")
    if arguments.check:
        missed = [r for r in rows if (r[5] == "<= 3 us" and r[1] > 3e-6) or (r[5].startswith(">=") and r[4] < float(r[5][3:-1]))]
        if missed:
            sys.exit(f"missed: {', '.join(r[0] for r in missed)}")


if __name__ == "__main__":
    main()
