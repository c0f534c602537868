use super::product::add_by;
use super::tile::Narrow;
use super::*;
use crate::rng::Stream;
use alloc::vec;

fn random(count: usize, seed: u64) -> Vec<f64> {
    let mut stream = Stream::new(seed, 0, "dense");
    (0..count).map(|_| stream.normal()).collect()
}

/// A B by plain loops.
fn plain(a: &[f64], b: &[f64], (rows, inner, columns): (usize, usize, usize)) -> Vec<f64> {
    let entry = |i: usize, j: usize| (0..inner).map(|k| a[i + k * rows] * b[k + j * inner]).sum();
    (0..columns).flat_map(|j| (0..rows).map(move |i| (i, j))).map(|(i, j)| entry(i, j)).collect()
}

fn apart(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn products_are_those_of_loops_on_any_unit_and_number_of_threads() {
    for (rows, inner, columns) in [
        (1, 1, 1),
        (24, 8, 8),
        (33, 300, 7),
        (128, 90, 150),
        (130, 257, 150),
        (250, 40, 130),
        (300, 40, 130),
    ] {
        let (a, b) = (random(rows * inner, 1), random(inner * columns, 2));
        let expected = plain(&a, &b, (rows, inner, columns));
        let made = |by: fn(&mut Place<'_>, f64, View<'_>, View<'_>, usize)| {
            let mut out = vec![1.0; rows * columns];
            let mut place = Place::whole(&mut out, rows);
            by(&mut place, -1.0, View::new(&a, rows), View::new(&b, inner), inner);
            out.iter().map(|v| 1.0 - v).collect::<Vec<f64>>()
        };
        let found = made(add_product);
        assert!(apart(&found, &expected) < 1e-13 * inner as f64, "{rows} {inner} {columns}");
        assert_eq!(found, made(add_by::<Narrow>));
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(pool.install(|| made(add_product)), found, "{threads} threads");
        }
    }
}

#[test]
fn half_of_a_symmetric_product_is_enough() {
    let (n, inner) = (131, 60);
    let a = random(n * inner, 3);
    let (mut half, mut whole) = (vec![0.0; n * n], vec![0.0; n * n]);
    for (out, first) in [(&mut half, Some(0)), (&mut whole, None)] {
        let mut place = Place { half: first, ..Place::whole(out, n) };
        add_product(&mut place, 1.0, View::new(&a, n), View::new(&a, n).transposed(), inner);
    }
    mirror(&mut half, n);
    assert_eq!(half, whole);
}

#[test]
fn factors_multiply_to_the_matrix_and_solves_undo_it() {
    for m in [1, 47, 63, 64, 65, 131, 200] {
        let root = random(m * m, 4);
        let mut a = vec![0.0; m * m];
        let mut place = Place::whole(&mut a, m);
        add_product(&mut place, 1.0, View::new(&root, m), View::new(&root, m).transposed(), m);
        (0..m).for_each(|i| a[i * (m + 1)] += 1.0);
        let (mut l, mut pivots) = (a.clone(), vec![0.0; m]);
        assert!(factor(&mut l, &mut pivots));
        let columns = 5;
        let x = random(m * columns, 5);
        let mut b = plain(&a, &x, (m, m, columns));
        solve(&l, &pivots, &mut b);
        // The condition of A is at most about 4 m.
        assert!(apart(&b, &x) < 1e-12 * m as f64, "{m}: {}", apart(&b, &x));
        // One direction turned round: not positive definite.
        a[m * m - 1] = -1.0;
        assert!(!factor(&mut a, &mut pivots));
    }
}
