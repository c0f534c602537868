//! Many series in one table: each has a filter of its own, whatever the order of their rows.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;
use common::*;

#[test]
fn each_series_is_as_if_it_were_alone() {
    let folder = Folder::new();
    let (data, names) = mixed(&folder);
    for flags in [
        &["--method", "ekf"][..],
        &["--method", "pf", "--particles", "20"],
        &["--optimizer", "adam", "--carry"],
    ] {
        let together = ok(&[&["filter", "pendulum", &data, "--by", "who", "-q"], flags].concat());
        assert!(together.starts_with("t,who,"), "{together}");
        for (i, name) in names.iter().enumerate() {
            let alone = folder.name(&format!("s{i}.csv"));
            let alone = ok(&[&["filter", "pendulum", &alone, "-q"], flags].concat());
            let rows: Vec<&str> = alone.lines().skip(1).collect();
            assert_eq!(of(&together, name), rows, "{name} {flags:?}");
        }
    }
    let json = folder.name("out.jsonl");
    ok(&["filter", "pendulum", &data, "--by", "who", "-q", "-o", &json]);
    let text = folder.read("out.jsonl");
    assert!(text.contains("\"who\":\"a, b\"") && text.contains("\"who\":7"), "{text}");
}

#[test]
fn a_keyed_stream_goes_on_from_its_checkpoint() {
    let folder = Folder::new();
    let (data, _) = mixed(&folder);
    let whole = ok(&["filter", "pendulum", &data, "--by", "who", "-q"]);
    let text = folder.read("mixed.csv");
    let half: String = text.lines().take(150).map(|l| format!("{l}\n")).collect();
    let part = folder.write("part.csv", &half);
    let (out, checkpoint) = (folder.name("out.csv"), folder.name("c"));
    let flags = ["--by", "who", "-q", "--out", &out, "--checkpoint", &checkpoint];
    ok(&[&["filter", "pendulum", &part][..], &flags].concat());
    ok(&[&["filter", "pendulum", &data][..], &flags].concat());
    assert_eq!(folder.read("out.csv"), whole);
    // Row by row, from a pipe.
    let output =
        run_with_input(&["filter", "pendulum", "-", "--by", "who", "-q", "--follow"], &text);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), whole);
}

#[test]
fn what_does_not_go_with_several_series_is_refused() {
    let folder = Folder::new();
    let model = "local-level";
    let data = folder.write("d.csv", "y,who\n1,a\n2,\n");
    for (args, expected) in [
        (&["--by", "who"][..], "line 3, column \"who\""),
        (&["--by", "whom"], "did you mean \"who\"?"),
        (&["--by", "who", "--plot", "p.svg"], "--plot is for one series"),
    ] {
        let output = run(&[&["filter", model, &data, "-q"][..], args].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(expected), "{said}");
    }
    // A table with several series and no word of it says what to do.
    let data = folder.write("t.csv", "t,y,who\n0,1,a\n1,2,a\n0,3,b\n");
    let output = run(&["filter", model, &data, "-q", "--time", "t"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("--by COLUMN"), "{said}");
}

#[test]
fn a_hundred_thousand_series_are_kept_apart() {
    let folder = Folder::new();
    let mut text = String::from("y,key\n");
    for row in 0..3 {
        for key in 0..100_000 {
            text.push_str(&format!("{},k{key}\n", (row * key) % 7));
        }
    }
    let data = folder.write("d.csv", &text);
    let out = folder.name("out.csv");
    let summary: serde_json::Value = serde_json::from_str(&ok(&[
        "filter",
        "local-level",
        &data,
        "--by",
        "key",
        "--json",
        "-o",
        &out,
    ]))
    .unwrap();
    assert_eq!((&summary["rows"], &summary["series"]), (&300_000.into(), &100_000.into()));
    let rows = folder.read("out.csv");
    // The same measurements, the same estimates.
    let estimates = |key: &str| of(&rows, key);
    assert_eq!(estimates("k1"), estimates("k8"));
    assert_ne!(estimates("k1"), estimates("k2"));
}

/// Killed in the midst of a hundred thousand series, a run goes on without a lost or doubled row.
#[test]
fn a_hundred_thousand_series_go_on_after_a_kill() {
    let folder = Folder::new();
    let mut text = String::from("y,key\n");
    for row in 0..4 {
        (0..100_000).for_each(|key| text.push_str(&format!("{},k{key}\n", (row * key) % 7)));
    }
    let data = folder.write("d.csv", &text);
    let (whole, out, saved) = (folder.name("whole.csv"), folder.name("out.csv"), folder.name("c"));
    let command = ["filter", "local-level", &data, "--by", "key", "-q", "--out"];
    ok(&[&command[..], &[&whole]].concat());
    let expected = folder.read("whole.csv");
    let args = [&command[..], &[&out, "--checkpoint", &saved]].concat();
    for part in [1, 2] {
        let mut child = program().args(&args).spawn().unwrap();
        let length = |name: &str| std::fs::metadata(folder.path(name)).map_or(0, |m| m.len());
        while length("c") == 0 || length("out.csv") < expected.len() as u64 * part / 3 {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
    }
    ok(&args);
    assert!(folder.read("out.csv") == expected);
}

#[test]
fn a_series_that_fails_is_named_with_its_line() {
    let folder = Folder::new();
    let data = folder.write("d.csv", "t,y,who\n0,1,a\n0,1,b\n1,2,a\n2,2,b\n1,3,b\n");
    for flags in [&["filter"][..], &["smooth"], &["smooth", "--lag", "1"], &["fit"]] {
        let args = [flags, &["local-level", &data, "--by", "who", "--time", "t"]].concat();
        let said = String::from_utf8(run(&args).stderr).unwrap();
        let expected = format!(
            "series \"b\": {data}: time runs backwards at line 6: 1 after 2 in one series of `who`"
        );
        assert!(said.contains(&expected) && !said.contains("--by COLUMN"), "{said}");
    }
    // A filter that cannot go on.
    let model = folder.write(
        "m.toml",
        "states = [\"x\"]\n[dynamics]\nx = \"x\"\n[observation]\ny = \"x\"\n[process_noise]\nvar = 1\nper = \"time\"\n[measurement_noise]\n\
         var = 0\n[initial]\nmean = 0\nstd = 2\n[time]\ncolumn = \"t\"\n",
    );
    let data = folder.write("e.csv", "t,y,who\n0,1,a\n0,1,b\n1,2,a\n1,2,b\n1,3,b\n");
    for flags in [&["filter"][..], &["smooth"], &["smooth", "--lag", "1"], &["fit"]] {
        let said =
            String::from_utf8(run(&[flags, &[&model, &data, "--by", "who"]].concat()).stderr)
                .unwrap();
        let expected = format!("series \"b\": {data}: line 6: an exact measurement is given twice");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn a_series_without_measurements_has_an_empty_row_among_the_fits() {
    let folder = Folder::new();
    let text = ok(&["simulate", "local-level", "--steps", "60", "--seed", "3"]);
    let ys = column(&text, "y");
    let mut rows = "y,who\n,silent\n".to_owned();
    ys.iter().for_each(|y| rows += &format!("{y},loud\n,silent\n"));
    let (data, out) = (folder.write("d.csv", &rows), folder.name("fits.csv"));
    let output = run(&["fit", "local-level", &data, "--by", "who", "--each", "--out", &out]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && said.contains("series \"silent\": there is no measurement"),
        "{said}"
    );
    let table = folder.read("fits.csv");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[1].starts_with("silent,,") && lines[1].ends_with(",61,,0"), "{table}");
    assert!(lines[2].starts_with("loud,0."), "{table}");
}

/// Smoothed states of a window come late in each series, and the rows in their own order all the same: to the byte those of each
/// series alone, with gaps, and of series that are shorter than the window.
#[test]
fn lagged_rows_are_those_of_each_series_alone() {
    let folder = Folder::new();
    let (_, names) = mixed(&folder);
    let (head, first) = series(&folder, "short", "3", "8");
    let rows: String = first.iter().map(|row| format!("{row},brief\n")).collect();
    let text = folder.read("mixed.csv").replacen('\n', &format!("\n{rows}"), 1);
    assert!(text.starts_with(&format!("{head},who\n")));
    let data = folder.write("all.csv", &text);
    let files = ["s0.csv", "s1.csv", "s2.csv", "short.csv"];
    let names = [&names[..], &["brief"]].concat();
    for flags in [
        &["--optimizer", "cg", "--steps", "3", "--window", "6", "--no-std"][..],
        &["--optimizer", "gd", "--lr", "0.01", "--window", "95", "--no-std"],
        &["--optimizer", "cg", "--window", "4", "--constraint", "weak"],
        &["--optimizer", "cg", "--window", "0"],
    ] {
        let command = [&["filter", "pendulum", &data, "--by", "who", "-q"][..], flags].concat();
        let together = ok(&[&command[..], &["--lagged"]].concat());
        let without = ok(&command);
        // Rows and their order are those of the table.
        let plain: Vec<&str> = without.lines().collect();
        assert_eq!(together.lines().count(), plain.len());
        assert!(together.lines().zip(&plain).all(|(a, b)| a.starts_with(b)), "{flags:?}");
        for (file, name) in files.iter().zip(&names) {
            let alone = folder.name(file);
            let alone = ok(&[&["filter", "pendulum", &alone, "-q", "--lagged"], flags].concat());
            let rows: Vec<&str> = alone.lines().skip(1).collect();
            assert_eq!(of(&together, name), rows, "{name} {flags:?}");
        }
        let bare = together.replace("\"a, b\"", "a b");
        let (lagged, states) = (column(&bare, "theta_lagged"), column(&bare, "theta"));
        let moved = lagged.iter().zip(&states).filter(|(a, b)| a != b).count();
        // All but the last of each series, where there is a window; none of them without.
        let all = lagged.len() - if flags.contains(&"0") { lagged.len() } else { names.len() };
        assert!(moved <= all && moved + 40 > all, "{moved} of {all} {flags:?}");
    }
}

/// Rows that wait are in the checkpoint; a stream that is followed has the rows of a table, each as soon as it is known.
#[test]
fn lagged_rows_of_many_series_go_on_from_a_checkpoint() {
    let folder = Folder::new();
    let (data, _) = mixed(&folder);
    let flags = ["--optimizer", "cg", "--window", "6", "--lagged", "--by", "who", "-q"];
    let whole = ok(&[&["filter", "pendulum", &data][..], &flags].concat());
    let text = folder.read("mixed.csv");
    let (out, checkpoint) = (folder.name("out.csv"), folder.name("c"));
    let kept = ["--out", &out, "--checkpoint", &checkpoint];
    for rows in [5, 150, 290] {
        let part: String = text.lines().take(rows).map(|l| format!("{l}\n")).collect();
        let part = folder.write("part.csv", &part);
        ok(&[&["filter", "pendulum", &part][..], &flags, &kept].concat());
    }
    ok(&[&["filter", "pendulum", &data][..], &flags, &kept].concat());
    assert_eq!(folder.read("out.csv"), whole);
    let output =
        run_with_input(&[&["filter", "pendulum", "-", "--follow"][..], &flags].concat(), &text);
    let followed = String::from_utf8(output.stdout).unwrap();
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&followed), sorted(&whole));
    assert_ne!(followed, whole);
}
