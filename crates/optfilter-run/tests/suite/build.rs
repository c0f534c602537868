//! Filters of a problem in Rust, as `build` makes them.

use nalgebra::DMatrix;
use optfilter::Series;
use optfilter::filter::FilterError;
use optfilter::model::Linear;
use optfilter_run::{
    CancelCheck, FilterSpec, IrregularSteps, Method, OutputBuffers, Problem, Session, SessionError,
    build, build_with,
};

/// A series, a stream, lanes and a resumed stream under irregular times of a model that goes by rows.
#[test]
fn every_way_through_ends_at_the_uneven_row() {
    let matrix = |v: f64| DMatrix::from_element(1, 1, v);
    let model = Linear::new(matrix(0.9), matrix(1.0)).unwrap();
    let problem = Problem::new(model).noise(0.1, 0.2);
    let (y, times) = ([0.1, 0.4, 0.2, 0.3, 0.5, 0.1], [0.0, 1.0, 2.0, 2.0, 3.0, 5.0]);
    let series = Series::new(&y, 1).unwrap().with_times(&times).unwrap();
    let uneven = FilterError::Uneven { index: 6, dt: 2.0, usual: 1.0 };
    for method in [Method::Kf, Method::Imap] {
        let bars = (method == Method::Imap).then_some(false);
        let spec = FilterSpec { method: Some(method), error_bars: bars, ..FilterSpec::default() };
        let runner = build_with(&spec, &problem, None, true).unwrap();
        let mut means = [0.0; 6];
        let mut rows = OutputBuffers { means: &mut means, ..OutputBuffers::default() };
        let run = runner.run(runner.default_start(), &series, &mut rows, &CancelCheck::NEVER);
        assert_eq!(run, Err(uneven.clone()));
        assert!(means[5].is_nan(), "{means:?}");
        // A stream takes the rows before, also one that is interrupted before every row.
        let mut session = Session::new(&*runner, &spec, 1.0).unwrap();
        for k in 0..6 {
            let saved = session.save().unwrap();
            session = Session::new(&*runner, &spec, 1.0).unwrap();
            session.restore(&saved).unwrap();
            let taken = session.take(Some(times[k]), false, &[], &y[k..=k]);
            match k {
                5 => assert_eq!(taken, Err(SessionError::Filter(uneven.clone()))),
                _ => assert_eq!(session.estimate.mean[0], means[k], "{method:?}, row {k}"),
            }
        }
        assert_eq!(runner.lanes().is_some(), method == Method::Imap, "the feature `lanes`");
        if let Some(lanes) = runner.lanes() {
            let short = Series::new(&y[..5], 1).unwrap().with_times(&times[..5]).unwrap();
            let starts = vec![runner.default_start().clone(); 2];
            let found = lanes.run(&starts, &[series, short]).unwrap();
            assert_eq!(found.trajectory(0), Some(Err(uneven.clone())));
            assert_eq!(found.trajectory(1), Some(Ok(means[..5].to_vec())));
        }
        let chosen = FilterSpec { irregular: Some(IrregularSteps::PerRow), ..spec };
        let runner = build_with(&chosen, &problem, None, true).unwrap();
        assert_eq!(runner.filter(&series).unwrap().means[..5], means[..5]);
    }
}

#[test]
fn costly_error_bars_are_left_out_with_a_word() {
    let made = |n: usize, error_bars: Option<bool>| {
        let walk = Linear::new(DMatrix::identity(n, n), DMatrix::identity(n, n)).unwrap();
        let problem = Problem::new(walk).noise(1.0, 1.0);
        let spec = FilterSpec { error_bars, ..FilterSpec::of("imap").unwrap() };
        let runner = build(&spec, &problem).unwrap();
        (runner.has_cov(), runner.warning().unwrap_or_default().to_owned())
    };
    assert_eq!(made(50, None), (true, String::new()));
    assert_eq!(made(60, Some(false)), (false, String::new()));
    let (has_cov, warning) = made(60, None);
    assert!(!has_cov && warning.starts_with("no standard deviations"), "{warning}");
    assert!(warning.contains("about 120 times"), "{warning}");
    let (has_cov, warning) = made(60, Some(true));
    assert!(has_cov && warning.contains("error_bars = false leaves them out"), "{warning}");
}
