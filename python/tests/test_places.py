"""letkf by places, and windows that may be shortened."""

import numpy as np
import optfilter
import pytest


def ring():
    model = optfilter.models.Lorenz96(8, dt=0.05)
    data = optfilter.simulate(model, 30, seed=2)
    return model, data.observations


@pytest.mark.parametrize("periodic", [False, True])
def test_places_in_a_row_are_indices(periodic):
    model, ys = ring()
    places = np.arange(8.0)
    by_index = optfilter.LETKF(model, members=6, radius=1.5, periodic=periodic, seed=3).filter(ys)
    period = {"period": [8.0]} if periodic else {}
    by_place = optfilter.LETKF(
        model, members=6, radius=1.5, state_places=places, measurement_places=places[:, None], seed=3, **period
    ).filter(ys)
    assert np.array_equal(by_index.means, by_place.means)
    # In a plane they are other neighbours.
    square = np.stack(np.divmod(np.arange(8), 4), axis=1)
    flat = optfilter.LETKF(model, members=6, radius=1.5, state_places=square, measurement_places=square, seed=3)
    assert not np.array_equal(by_index.means, flat.filter(ys).means)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"state_places": np.arange(8)}, "go together"),
        ({"state_places": np.arange(8), "measurement_places": np.zeros((8, 2))}, "same number of coordinates"),
        ({"state_places": np.arange(7), "measurement_places": np.arange(8)}, "places"),
        ({"state_places": [np.nan] * 8, "measurement_places": np.arange(8)}, "finite"),
        ({"state_places": np.arange(8), "measurement_places": np.arange(8), "period": [1, 2]}, "period"),
        ({"state_places": np.arange(8), "measurement_places": np.arange(8), "periodic": True}, "period"),
    ],
)
def test_places_that_are_none(settings, word):
    with pytest.raises(ValueError, match=word):
        optfilter.LETKF(ring()[0], members=6, **settings)


def test_a_window_that_diverges_is_shortened_if_asked():
    model = optfilter.models.Linear([[1.5]], [[1.0]], x0=[1.0])
    ys = np.sin(0.7 * np.arange(1, 31))
    steep = {"optimizer": optfilter.SGD(lr=0.1), "steps": 50, "window": 10}
    with pytest.raises(optfilter.DivergenceError) as lost:
        optfilter.ImplicitMAP(model, **steep).filter(ys)
    assert lost.value.index > 2
    assert np.isfinite(optfilter.ImplicitMAP(model, shorten=True, **steep).filter(ys).means).all()
    with pytest.raises(ValueError, match="shorten"):
        optfilter.ImplicitMAP(model, shorten=True)
    with pytest.raises(ValueError, match="shortened"):
        optfilter.ImplicitMAP(model, shorten=True, error_bars=True, Q=1.0, R=1.0, **steep)
