//! Images in archives, read as they come: the same as read whole, to the bit.
#![allow(clippy::unwrap_used)] // a test may panic

use optfilter::rng::Stream as Draw;
use optfilter_nn::Shape;
use optfilter_nn::adapt::{
    AdaptError, CsvOptions, Follower, Labels, Live, Setup, Step, TableSteps, Tally, WeightMethod,
    prequential_into, read_npz,
};
use optfilter_table::{Format, Source};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A file that goes away with the value.
struct Kept(PathBuf);

impl Kept {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let name = format!("optfilter-images-{}-{name}.npz", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// CRC-32.
fn checksum(data: &[u8]) -> u32 {
    let turn = |crc: u32, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
    !data.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), turn))
}

/// An archive as NumPy writes it: name, type, shape and elements of each array.
fn npz(arrays: &[(&str, &str, &str, Vec<u8>)]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, kind, shape, elements) in arrays {
        let name = format!("{name}.npy");
        let head = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}\n");
        let length = (head.len() as u16).to_le_bytes();
        let data = [&b"\x93NUMPY\x01\0"[..], &length, head.as_bytes(), elements].concat();
        let (at, size) = (file.len() as u32, (data.len() as u32).to_le_bytes());
        let lengths = [name.len() as u16, 0].map(u16::to_le_bytes).concat();
        let sum = checksum(&data).to_le_bytes();
        let common = [&[20u8, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &sum, &size, &size, &lengths];
        let common = common.concat();
        file.extend([b"PK\x03\x04", &common[..], name.as_bytes(), &data].concat());
        directory.extend([b"PK\x01\x02\x14\0", &common[..], &[0; 10]].concat());
        directory.extend([&at.to_le_bytes()[..], name.as_bytes()].concat());
    }
    let (at, size) = ((file.len() as u32).to_le_bytes(), (directory.len() as u32).to_le_bytes());
    let count = (arrays.len() as u16).to_le_bytes();
    file.extend(directory);
    file.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &size, &at, &[0, 0]].concat());
    file
}

const STEPS: usize = 60;
const EACH: usize = 4;

/// Images of 6 x 5 pixels and so many channels: a bright bar that lies or stands, in noise, and becomes paler. Labels, of which the first
/// is the class that comes first in order, and times.
fn bars(channels: usize) -> (Vec<u8>, Vec<u8>, Vec<f64>) {
    let mut draw = Draw::new(7, 0, "bars");
    let (mut x, mut y, mut time) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..STEPS * EACH {
        let class = if i == 0 { 0 } else { u8::from(draw.uniform() < 0.5) };
        let place = (5.0 * draw.uniform()) as usize;
        for row in 0..6 {
            for column in 0..5 {
                let on = if class == 0 { row == place } else { column == place };
                for _ in 0..channels {
                    let light =
                        if on { 200.0 - 100.0 * i as f64 / (STEPS * EACH) as f64 } else { 40.0 };
                    x.push((light + 50.0 * draw.uniform()) as u8);
                }
            }
        }
        y.push(class);
        time.push((i / EACH) as f64);
    }
    (x, y, time)
}

fn doubles(values: impl Iterator<Item = f64>) -> Vec<u8> {
    values.flat_map(f64::to_le_bytes).collect()
}

/// The bars as an archive: three axes or four, bytes or doubles, with arrays beside them that are nobody's features.
fn archive(channels: usize, bytes: bool, gaps: bool) -> Vec<u8> {
    let (x, y, time) = bars(channels);
    let n = y.len();
    let shape = match channels {
        1 => format!("{n}, 6, 5"),
        _ => format!("{n}, 6, 5, {channels}"),
    };
    let x = match bytes {
        true => ("x", "|u1", shape.as_str(), x),
        false => ("x", "<f8", shape.as_str(), doubles(x.iter().map(|v| f64::from(*v)))),
    };
    let missing = |i: usize| gaps && i % 3 == 2;
    let label = |(i, y): (usize, &u8)| if missing(i) { f64::NAN } else { f64::from(*y) };
    let column = format!("{n},");
    npz(&[
        ("beside", "<f8", "3,", doubles([1.0, 2.0, 3.0].into_iter())),
        ("t", "<f8", &column, doubles((0..n).map(|i| -(i as f64)))),
        x,
        ("y", "<f8", &column, doubles(y.iter().enumerate().map(label))),
        ("time", "<f8", &column, doubles(time.into_iter())),
    ])
}

fn setup(network: &str, method: WeightMethod) -> Setup {
    Setup { network: network.into(), method, lr: 0.003, pretrain: 0, ..Setup::default() }
}

fn steps(path: &Path) -> TableSteps {
    let source = Source::File(File::open(path).unwrap());
    TableSteps::open(source, Format::Npz, "images.npz", &CsvOptions::default()).unwrap()
}

fn begin(steps: &TableSteps, setup: &Setup, delay: usize) -> Live {
    let mut live = Live::new(steps.shape(), steps.regress(), setup, None, &[], delay).unwrap();
    live.bind(steps.layout());
    live
}

/// Follows until so many rows were seen, or the end.
fn follow(live: &mut Live, steps: &mut TableSteps, rows: u64) {
    let mut step = Step::default();
    while live.rows() < rows && steps.next(&mut step).unwrap() {
        let names = steps.names().to_vec();
        live.step(&step, &names).unwrap();
    }
}

/// Classes that are met in their order, of which two are known from the start, are all that it takes: every score of foresight is the same.
#[test]
fn images_that_come_are_the_images_of_the_file() {
    let imap = WeightMethod::ImplicitMap { steps: 2 };
    for (channels, bytes, network, method) in [
        (1, true, "conv:4,3,1 relu maxpool dense:8 tanh", imap),
        (1, true, "mlp:8", imap),
        (3, true, "conv:4,3,1 relu maxpool", imap),
        (1, false, "conv:4,3,1 relu maxpool", imap),
        (1, true, "mlp:8", WeightMethod::Auto),
        (1, true, "mlp:4", WeightMethod::Ekf { drift_var: 1e-4 }),
    ] {
        let name = format!("{channels}{bytes}{}{:?}", network.len(), method.parts().0);
        let kept = Kept::new(&name.replace('"', ""), &archive(channels, bytes, false));
        let setup = Setup { running_scale: method == WeightMethod::Auto, ..setup(network, method) };
        let stream = read_npz(&kept.0, None, None).unwrap();
        let mut follower = Follower::new(&stream, &setup, None).unwrap();
        let mut whole = Tally::default();
        prequential_into(&mut follower, &stream, 0..stream.steps(), &mut whole).unwrap();
        let mut steps = steps(&kept.0);
        assert_eq!(steps.shape(), Shape::Image { height: 6, width: 5, channels });
        let mut live = begin(&steps, &setup, 0);
        follow(&mut live, &mut steps, u64::MAX);
        assert_eq!(steps.names(), ["0", "1"]);
        assert_eq!(live.follower().weights(), follower.weights(), "{network} {method:?}");
        let scores = |tally: &Tally| (tally.level(true), tally.mean_loss(), tally.steps);
        assert_eq!(scores(live.tally()), scores(&whole));
        assert_eq!(live.tally().steps, STEPS as u64);
    }
}

/// Seven rows of images are a time step, whatever their times.
#[test]
fn every_counts_rows_of_images_as_of_files() {
    let kept = Kept::new("every", &archive(1, true, false));
    let setup = setup("mlp:8", WeightMethod::ImplicitMap { steps: 2 });
    let stream = read_npz(&kept.0, Some(7), None).unwrap();
    let mut follower = Follower::new(&stream, &setup, None).unwrap();
    let mut whole = Tally::default();
    prequential_into(&mut follower, &stream, 0..stream.steps(), &mut whole).unwrap();
    let source = Source::File(File::open(&kept.0).unwrap());
    let options = CsvOptions { every: Some(7), ..CsvOptions::default() };
    let mut steps = TableSteps::open(source, Format::Npz, "images.npz", &options).unwrap();
    let mut live = begin(&steps, &setup, 0);
    follow(&mut live, &mut steps, u64::MAX);
    assert_eq!(live.follower().weights(), follower.weights());
    assert_eq!(live.tally().steps, stream.steps() as u64);
}

/// Late labels, and labels that never come; put aside at any time step and taken up again, it is as if nothing had happened.
#[test]
fn images_go_on_to_the_bit() {
    let kept = Kept::new("resumed", &archive(1, true, true));
    let error = read_npz(&kept.0, None, None).unwrap_err();
    assert!(matches!(error, AdaptError::MissingLabel { .. }), "{error}");
    assert!(error.to_string().contains("y, sample 2"), "{error}");
    for (network, method) in [
        ("conv:4,3,1 relu maxpool", WeightMethod::ImplicitMap { steps: 2 }),
        ("mlp:4", WeightMethod::Auto),
    ] {
        let setup = setup(network, method);
        for delay in [0, 5] {
            let mut all = steps(&kept.0);
            let mut whole = begin(&all, &setup, delay);
            follow(&mut whole, &mut all, u64::MAX);
            assert_eq!(whole.rows(), (STEPS * EACH) as u64);
            assert_eq!(whole.tally().unlabelled, (STEPS * EACH / 3) as u64);
            let mut first = steps(&kept.0);
            let mut live = begin(&first, &setup, delay);
            follow(&mut live, &mut first, 100);
            let (bytes, done) = (live.save().unwrap(), first.trail(live.rows()));
            let mut second = steps(&kept.0);
            let mut live = begin(&second, &setup, delay);
            live.load(&bytes).unwrap();
            second.know(live.names());
            second.skip(&done).unwrap();
            follow(&mut live, &mut second, u64::MAX);
            assert_eq!(live.save().unwrap(), whole.save().unwrap(), "{network} {delay}");
            let Labels::Classes { names, .. } = live.labels() else { panic!() };
            assert_eq!(names, ["0", "1"]);
        }
    }
    // Bytes and doubles are not the same samples: what goes on must be of the same.
    let other = Kept::new("doubles", &archive(1, false, true));
    let setup = setup("mlp:4", WeightMethod::Static);
    let bytes = begin(&steps(&kept.0), &setup, 0).save().unwrap();
    let error = begin(&steps(&other.0), &setup, 0).load(&bytes).unwrap_err().to_string();
    assert!(error.contains("of bytes (now none)"), "{error}");
}

#[test]
fn samples_of_too_many_axes_are_refused() {
    let x = npz(&[("x", "|u1", "2, 1, 1, 1, 2", vec![0; 4]), ("y", "|u1", "2,", vec![0, 1])]);
    let kept = Kept::new("axes", &x);
    assert!(read_npz(&kept.0, None, None).unwrap_err().to_string().contains("needs 2 to 4 axes"));
    let source = Source::File(File::open(&kept.0).unwrap());
    let opened = TableSteps::open(source, Format::Npz, "axes.npz", &CsvOptions::default());
    let error = opened.err().unwrap().to_string();
    assert!(error.contains("axes.npz: x has 5 axes; it needs 2 to 4, samples first"), "{error}");
}
