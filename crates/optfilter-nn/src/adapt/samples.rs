//! Samples of an array: vectors or images by the number of its axes, whether it is read whole or column by column.

use crate::layer::Shape;

/// What a byte of an image counts: 255 is one.
pub(super) const OF_A_BYTE: f64 = 1.0 / 255.0;

/// Whether a column is one of the array `x`.
pub(super) fn is_of_x(column: &str) -> bool {
    column.split('[').next() == Some("x")
}

/// The shape of samples by the lengths of their axes: one for vectors; rows, columns and perhaps channels for images.
pub(super) fn shape_of_axes(axes: &[usize]) -> Option<Shape> {
    match *axes {
        [n] => Some(Shape::Vector(n)),
        [height, width] => Some(Shape::Image { height, width, channels: 1 }),
        [height, width, channels] => Some(Shape::Image { height, width, channels }),
        _ => None,
    }
}

/// The same by the names of the columns: `x[0,0]` to `x[27,27]`, all of them in their order, are images; without such places, or
/// where some are missing, samples are vectors. The error is the number of axes, if there are too many.
pub(super) fn shape_of_columns(names: &[&str]) -> Result<Shape, usize> {
    let flat = Shape::Vector(names.len());
    let places: Option<Vec<Vec<usize>>> = names.iter().map(|name| place(name)).collect();
    let Some(places) = places else { return Ok(flat) };
    let axes: Vec<usize> =
        places.last().into_iter().flatten().map(|i| i.saturating_add(1)).collect();
    let number = |place: &[usize]| {
        let mut along = place.iter().zip(&axes);
        along.try_fold(0usize, |n, (i, axis)| n.checked_mul(*axis)?.checked_add(*i))
    };
    let full = |(k, place): (usize, &Vec<usize>)| {
        place.len() == axes.len()
            && place.iter().zip(&axes).all(|(i, axis)| i < axis)
            && number(place) == Some(k)
    };
    if !places.iter().enumerate().all(full) {
        return Ok(flat);
    }
    shape_of_axes(&axes).ok_or(axes.len())
}

/// The place of a column in its array: 3 and 4 of `x[3,4]`.
fn place(name: &str) -> Option<Vec<usize>> {
    let (_, place) = name.strip_suffix(']')?.split_once('[')?;
    place.split(',').map(|i| i.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_grid_of_columns_is_an_image() {
        let of = |text: &str| shape_of_columns(&text.split(' ').collect::<Vec<_>>());
        let image = |height, width, channels| Ok(Shape::Image { height, width, channels });
        assert_eq!(of("x[0,0] x[0,1] x[0,2] x[1,0] x[1,1] x[1,2]"), image(2, 3, 1));
        assert_eq!(of("x[0,0,0] x[0,0,1] x[0,1,0] x[0,1,1]"), image(1, 2, 2));
        assert_eq!(of("x[0,0]"), image(1, 1, 1));
        assert_eq!(of("x[0] x[1] x[2]"), Ok(Shape::Vector(3)));
        assert_eq!(of("a b"), Ok(Shape::Vector(2)));
        // Some are missing, twice there, out of order, or of another array.
        for text in [
            "x[0,0] x[0,1] x[1,1]",
            "x[0,0] x[0,0] x[1,0] x[1,1]",
            "x[0,0] x[1,0] x[0,1] x[1,1]",
            "x[0,0] x[0,1] x[1] x[1,1]",
            "x[0,0] time x[1,0] x[1,1]",
        ] {
            assert_eq!(of(text), Ok(Shape::Vector(text.split(' ').count())), "{text}");
        }
        assert_eq!(of("x[0,0,0,0] x[0,0,0,1]"), Err(4));
        assert_eq!(of("x[18446744073709551615,0]"), Ok(Shape::Vector(1)));
    }
}
