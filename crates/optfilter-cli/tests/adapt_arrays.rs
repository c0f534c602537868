//! `optfilter adapt` on NumPy's archives that are read as they come, and on tables with missing labels.
#![cfg(feature = "adapt")]
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;
use common::*;
use optfilter_model::table::{Format, OutputColumn, TableWriter};
use std::fs::File;
use std::process::Stdio;

/// Numbers between 0 and 1 that look random.
struct Uniform(u64);

impl Uniform {
    fn next(&mut self) -> f64 {
        // Knuth's multiplier; the upper bits are random enough here.
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// An archive with the arrays that these columns are of: `x[0,0]` and so on, `y` and `time`.
fn archive(folder: &Folder, name: &str, columns: &[String], rows: &[Vec<f64>]) -> String {
    let columns = columns.iter().map(|c| OutputColumn::Number(c.clone())).collect();
    let out = Box::new(File::create(folder.path(name)).unwrap());
    let mut writer = TableWriter::new(out, Format::Npz, columns, false).unwrap();
    rows.iter().for_each(|row| writer.row(row, None).unwrap());
    writer.finish().unwrap();
    folder.name(name)
}

/// 80 time steps of 4 images of 6 x 6: a bar that lies or stands, in noise. Every `gap`-th label is missing.
fn bars(folder: &Folder, name: &str, steps: usize, gap: usize) -> String {
    let mut columns: Vec<String> = (0..36).map(|i| format!("x[{},{}]", i / 6, i % 6)).collect();
    columns.extend(["y".into(), "time".into()]);
    let mut draw = Uniform(3);
    let mut image = |i: usize| {
        let class = usize::from(i > 0 && draw.next() < 0.5);
        let place = 2 + (2.0 * draw.next()) as usize;
        let mut row: Vec<f64> = (0..36)
            .map(|at| {
                let on = [at / 6, at % 6][class] == place;
                0.5 * draw.next() + if on { 0.5 } else { 0.0 }
            })
            .collect();
        row.push(if i % gap == gap - 1 { f64::NAN } else { class as f64 });
        row.push((i / 4) as f64);
        row
    };
    let rows: Vec<Vec<f64>> = (0..4 * steps).map(&mut image).collect();
    archive(folder, name, &columns, &rows)
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// The same settings give the same digits, whether the archive is read whole or as it comes.
#[test]
fn images_are_followed_as_they_come() {
    let folder = Folder::new();
    let data = bars(&folder, "bars.npz", 80, usize::MAX);
    for network in ["conv:4,3,1 relu maxpool dense:8 tanh", "mlp:8"] {
        let base = ["adapt", &data, "--network", network, "--pretrain", "0", "--json"];
        let base = [&base[..], &["--steps", "10", "--lr", "0.01"]].concat();
        let whole = json(&ok(&base));
        let streamed = json(&ok(&[&base[..], &["--stream"]].concat()));
        assert_eq!(streamed, whole);
        assert_eq!(whole[0]["steps"], 80);
        assert!(whole[0]["accuracy"].as_f64().unwrap() > 70.0, "{whole}");
    }
    // Labels that come late tell on it: a network that is ten time steps behind knows less.
    let flags = ["adapt", &data, "--network", "mlp:8", "--steps", "10", "--lr", "0.01", "--json"];
    let now = json(&ok(&[&flags[..], &["--stream"]].concat()));
    let late = json(&ok(&[&flags[..], &["--delay", "20"]].concat()));
    let loss = |v: &serde_json::Value| v[0]["mean_loss"].as_f64().unwrap();
    assert!(loss(&late) > loss(&now), "{late} {now}");
}

/// Killed and taken up again, with late labels and some that never come.
#[test]
fn a_stream_of_images_goes_on_to_the_bit() {
    let folder = Folder::new();
    let (half, data) = (bars(&folder, "half.npz", 40, 5), bars(&folder, "all.npz", 80, 5));
    for more in
        [&["--network", "conv:4,3,1 relu maxpool", "--steps", "2"][..], &["--network", "mlp:4"]]
    {
        let (scores, whole, state) = (folder.name("s.csv"), folder.name("w.csv"), folder.name("c"));
        let flags = [more, &["--delay", "3", "--json"]].concat();
        let expected = ok(&[&["adapt", &data, "--csv", &whole][..], &flags].concat());
        assert_eq!(json(&expected)[0]["unlabelled"], 64);
        let _ = std::fs::remove_file(&state);
        let part = |data: &str| {
            let base = ["adapt", data, "--csv", &scores, "--checkpoint", &state];
            ok(&[&base[..], &flags].concat())
        };
        part(&half);
        let torn = folder.read("s.csv") + "\"torn";
        folder.write("s.csv", &torn);
        assert_eq!(part(&data), expected);
        assert_eq!(folder.read("s.csv"), folder.read("w.csv"));
    }
}

/// An archive of 53 MB is followed in the memory that one of a tenth takes.
#[cfg(target_os = "linux")]
#[test]
fn an_archive_streams_in_constant_memory() {
    let folder = Folder::new();
    let mut columns: Vec<String> = (0..20).map(|i| format!("x[{i}]")).collect();
    columns.extend(["y".into(), "time".into()]);
    let mut peaks = Vec::new();
    for count in [30_000, 300_000] {
        let mut draw = Uniform(1);
        let row = |i: usize| {
            let mut row: Vec<f64> = (0..20).map(|_| draw.next()).collect();
            row.extend([f64::from(u8::from(row[0] > row[1])), i as f64]);
            row
        };
        let rows: Vec<Vec<f64>> = (0..count).map(row).collect();
        let data = archive(&folder, "large.npz", &columns, &rows);
        drop(rows);
        let flags = ["--network", "linear", "--optimizer", "gd", "--steps", "1", "--lr", "0.1"];
        let mut child = program()
            .args(["adapt", &data, "--stream", "--json"])
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let status = format!("/proc/{}/status", child.id());
        let mut peak = 0;
        let done = loop {
            if let Some(done) = child.try_wait().unwrap() {
                break done;
            }
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
            let now = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
            peak = peak.max(now.unwrap_or(0));
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        assert!(done.success());
        let summary = json(&std::io::read_to_string(child.stdout.take().unwrap()).unwrap());
        assert_eq!(summary[0]["steps"], count);
        peaks.push(peak);
    }
    println!("peak memory: {peaks:?} kB");
    // The file has 52,800 kB; buffers take what they take, and pages of the allocator may differ.
    assert!(peaks[0] > 1_000 && peaks[1] < peaks[0] + 4_000, "{peaks:?} kB");
}

/// A file with missing labels is read as a stream by itself, with a word; what needs the whole of it is refused as before.
#[test]
fn missing_labels_need_no_flag() {
    let folder = Folder::new();
    let mut draw = Uniform(5);
    let mut rows = String::from("a,b,label\n");
    for i in 0..200 {
        let (a, b) = (draw.next(), draw.next());
        let label = if i % 4 == 3 {
            ""
        } else if a > b {
            "up"
        } else {
            "down"
        };
        rows.push_str(&format!("{a:.4},{b:.4},{label}\n"));
    }
    let table = folder.write("gaps.csv", &rows);
    let images = bars(&folder, "gaps.npz", 20, 5);
    for (data, unlabelled, place) in
        [(&table, 50, "line 5, column \"label\""), (&images, 16, "y, sample 4")]
    {
        let base = ["adapt", data, "--network", "linear", "--json"];
        let output = run(&base);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{err}");
        assert!(err.contains(place) && err.contains("it is read as a stream (--stream)"), "{err}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(json(&text)[0]["unlabelled"], unlabelled);
        assert_eq!(text, ok(&[&base[..], &["--stream"]].concat()));
        for flags in [
            &["--compare"][..],
            &["--tune", "--network", "linear"],
            &["--follow"],
            &["--pretrain", "3"],
        ] {
            let output = run(&[&["adapt", data.as_str()], flags].concat());
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{flags:?} {err}");
            let told = err.contains("missing one; --stream reads tables with missing labels");
            assert!(told && err.contains(place), "{flags:?} {err}");
        }
    }
    // What came by a pipe with a name is gone once it was read.
    #[cfg(target_os = "linux")]
    {
        let shell =
            format!("{} adapt <(cat {table}) --network linear", env!("CARGO_BIN_EXE_optfilter"));
        let output = std::process::Command::new("bash").args(["-c", &shell]).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{err}");
        assert!(err.contains("--stream reads tables with missing labels"), "{err}");
    }
}

/// The same samples are the same stream in every format, read whole or as they come.
#[test]
fn tables_of_every_kind_are_one_stream() {
    let folder = Folder::new();
    let mut draw = Uniform(7);
    let rows: Vec<Vec<f64>> = (0..400)
        .map(|i| {
            let (a, b) = (draw.next() - 0.5, draw.next() - 0.5);
            let class = f64::from(u8::from(a + b * (f64::from(i) / 100.0).sin() > 0.0));
            let label = if i % 9 == 8 { f64::NAN } else { class };
            vec![a, b, label, f64::from(i / 2)]
        })
        .collect();
    let mut formats =
        vec![("csv", Format::Csv), ("tsv", Format::Tsv), ("jsonl", Format::JsonLines)];
    if cfg!(feature = "parquet") {
        formats.push(("parquet", Format::Parquet));
    }
    for flags in [
        &["--network", "linear"][..],
        &["--network", "mlp:4", "--steps", "3", "--lr", "0.05", "--stream"],
    ] {
        let mut found = Vec::new();
        for (ending, format) in &formats {
            let name = format!("d.{ending}");
            let columns = ["a", "b", "label", "time"];
            let columns = columns.map(|c| OutputColumn::Number(c.into())).to_vec();
            let out = Box::new(File::create(folder.path(&name)).unwrap());
            let mut writer = TableWriter::new(out, *format, columns, false).unwrap();
            rows.iter().for_each(|row| writer.row(row, None).unwrap());
            writer.finish().unwrap();
            let data = folder.name(&name);
            let base = ["adapt", &data, "--label", "label", "--time", "time", "--json"];
            found.push(json(&ok(&[&base[..], flags].concat())));
        }
        assert_eq!(found[0][0]["unlabelled"], 44, "{}", found[0]);
        assert!(found[0][0]["accuracy"].as_f64().unwrap() > 70.0, "{}", found[0]);
        assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
    }
}
