//! Many series for the commands that look at whole ones: by a column, as several tables, as a folder.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;
use common::*;
use serde_json::Value;

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&ok(args)).unwrap()
}

fn refused(args: &[&str], expected: &str) {
    let output = run(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains(expected), "{args:?}: {said}");
}

#[test]
fn smoothing_and_forecasts_by_a_column_are_those_of_each_series_alone() {
    let folder = Folder::new();
    let (data, names) = mixed(&folder);
    for flags in [
        &["smooth", "--method", "ekf", "--both"][..],
        &["smooth", "--method", "ukf"],
        &["smooth", "--method", "pf", "--particles", "20"],
        &["smooth", "--method", "imap"],
        &["forecast", "--steps", "3", "--method", "ekf"],
        &["forecast", "--steps", "3", "--method", "pf", "--particles", "20"],
        &["forecast", "--steps", "3", "--method", "imap"],
    ] {
        let (command, flags) = (flags[0], &flags[1..]);
        let together = ok(&[&[command, "pendulum", &data, "--by", "who", "-q"], flags].concat());
        assert!(together.starts_with("t,who,theta,"), "{together}");
        for (i, name) in names.iter().enumerate() {
            let alone = folder.name(&format!("s{i}.csv"));
            let alone = ok(&[&[command, "pendulum", &alone, "-q"], flags].concat());
            let rows: Vec<&str> = alone.lines().skip(1).collect();
            assert_eq!(of(&together, name), rows, "{name} {command} {flags:?}");
        }
        if command == "smooth" {
            // Row by row as the table has them.
            let who = |text: &str, at: usize| -> Vec<String> {
                let cell = |l: &str| l.replace("a, b", "ab").split(',').nth(at).unwrap().to_owned();
                text.lines().skip(1).map(cell).collect()
            };
            let table = folder.read("mixed.csv");
            let last = table.lines().next().unwrap().split(',').count() - 1;
            assert_eq!(who(&together, 1), who(&table, last));
        }
    }
}

#[test]
fn several_tables_and_folders_are_several_series() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("in")).unwrap();
    for (name, rows, seed) in [("north", "40", "1"), ("south", "30", "2")] {
        series(&folder, &format!("in/{name}"), rows, seed);
    }
    folder.write("in/notes.md", "no table");
    let (north, south) = (folder.name("in/north.csv"), folder.name("in/south.csv"));
    let inputs = folder.name("in");
    for command in [&["filter"][..], &["smooth"], &["forecast", "--steps", "4"]] {
        let (command, flags) = (command[0], &[&command[1..], &["-q"]].concat()[..]);
        let together = ok(&[&[command, "pendulum", &north, &south], flags].concat());
        assert!(together.starts_with("t,file,"), "{together}");
        assert_eq!(ok(&[&[command, "pendulum", &inputs], flags].concat()), together);
        let out = folder.name(&format!("{command}/"));
        ok(&[&[command, "pendulum", &inputs, "--out", &out], flags].concat());
        for (name, data) in [("north.csv", &north), ("south.csv", &south)] {
            let alone = ok(&[&[command, "pendulum", data], flags].concat());
            assert_eq!(of(&together, name), alone.lines().skip(1).collect::<Vec<_>>());
            assert_eq!(folder.read(&format!("{command}/{name}")), alone, "{command} {name}");
        }
    }
    // A run over several tables goes on from its checkpoint in the middle of the second.
    let whole = ok(&["filter", "pendulum", &inputs, "-q"]);
    let (out, checkpoint) = (folder.name("out.csv"), folder.name("c"));
    let flags = ["-q", "--out", &out, "--checkpoint", &checkpoint, "--checkpoint-every", "1"];
    let text = folder.read("in/south.csv");
    let torn: String = text.lines().take(20).map(|l| format!("{l}\n")).collect();
    folder.write("in/south.csv", &format!("{torn}broken\n"));
    assert!(!run(&[&["filter", "pendulum", &inputs][..], &flags].concat()).status.success());
    assert_eq!(folder.read("out.csv").lines().count(), 1 + 40 + 19);
    folder.write("in/south.csv", &text);
    ok(&[&["filter", "pendulum", &inputs][..], &flags].concat());
    assert_eq!(folder.read("out.csv"), whole);
    // The words for what does not work.
    let empty = folder.path("empty");
    std::fs::create_dir(&empty).unwrap();
    refused(&["filter", "pendulum", empty.to_str().unwrap()], "holds no table");
    refused(&["filter", "pendulum", &north, &north], "is given twice");
    refused(&["filter", "pendulum", &north, "-"], "cannot be one of several");
    refused(&["smooth", "pendulum", &north, &south, "--plot", "p.svg"], "--plot is for one series");
    refused(&["filter", "pendulum", &north, "--out", &north], "is read by this command");
}

/// A series goes on from one table into the next where a column names it.
#[test]
fn tables_with_a_column_of_names_are_parts_of_one() {
    let folder = Folder::new();
    let (data, _) = mixed(&folder);
    let text = folder.read("mixed.csv");
    let (head, rows) = text.split_once('\n').unwrap();
    let rows: Vec<&str> = rows.lines().collect();
    std::fs::create_dir(folder.path("days")).unwrap();
    for (day, part) in rows.chunks(120).enumerate() {
        folder.write(&format!("days/{day}.csv"), &format!("{head}\n{}\n", part.join("\n")));
    }
    for command in ["filter", "smooth"] {
        let one = ok(&[command, "pendulum", &data, "--by", "who", "-q"]);
        let days = folder.name("days");
        assert_eq!(ok(&[command, "pendulum", &days, "--by", "who", "-q"]), one);
    }
}

/// Three random walks of other noise in one table.
fn walks(folder: &Folder) -> String {
    let mut rows = Vec::new();
    for seed in ["1", "2", "3"] {
        let text = ok(&["simulate", "local-level", "--steps", "80", "--seed", seed]);
        folder.write(&format!("{seed}.csv"), &text);
        let y = column(&text, "y");
        rows.extend(y.into_iter().enumerate().map(|(k, y)| (k, format!("{y},w{seed}\n"))));
    }
    rows.sort_by_key(|(k, _)| *k);
    let table: String = rows.into_iter().map(|(_, row)| row).collect();
    folder.write("walks.csv", &format!("y,key\n{table}"))
}

#[test]
fn one_model_is_fitted_to_all_series_or_one_to_each() {
    let folder = Folder::new();
    let data = walks(&folder);
    let files: Vec<String> =
        ["1", "2", "3"].iter().map(|s| folder.name(&format!("{s}.csv"))).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let common = json(&[&["fit", "local-level", "--json"], &files[..]].concat());
    assert_eq!(json(&["fit", "local-level", &data, "--by", "key", "--json"]), common);
    assert_eq!(common["series"], 3);

    let each = json(&["fit", "local-level", &data, "--by", "key", "--each", "--json"]);
    assert_eq!(each["by"], "key");
    for (i, file) in files.iter().enumerate() {
        let mut alone = json(&["fit", "local-level", file, "--json"]);
        alone["name"] = format!("w{}", i + 1).into();
        assert_eq!(each["series"][i], alone);
    }
    let out = folder.name("fits.csv");
    ok(&["fit", "local-level", &data, "--by", "key", "--each", "--out", &out]);
    let table = folder.read("fits.csv");
    assert!(table.starts_with("key,process_noise.level,process_noise.level_std_error,"), "{table}");
    let first = each["series"][0]["parameters"]["process_noise.level"]["estimate"].as_f64();
    assert_eq!(Some(column(&table, "process_noise.level")[0]), first);
    let page = ok(&["fit", "local-level", &data, "--by", "key", "--each"]);
    assert!(page.contains("fitted to each of 3 series") && page.contains("w2"), "{page}");
    // The estimates of several tables, by the names of their files.
    let page = ok(&[&["fit", "local-level", "--each"], &files[..]].concat());
    assert!(page.contains("2.csv"), "{page}");
    refused(&["fit", "local-level", &data, "--by", "key", "--each", "--save", "m.toml"], "--save");
}

#[test]
fn a_setting_is_chosen_for_all_series() {
    let folder = Folder::new();
    let data = walks(&folder);
    let flags = ["--methods", "kf", "--budget", "20", "--json"];
    let all = json(&[&["tune", "local-level", &data, "--by", "key"][..], &flags].concat());
    assert_eq!((&all["rows"], &all["series"]), (&240.into(), &3.into()));
    // One series with a name is that series.
    let alone = folder.read("1.csv");
    let named: String = alone
        .lines()
        .enumerate()
        .map(|(i, line)| format!("{line},{}\n", if i == 0 { "key" } else { "only" }))
        .collect();
    let named = folder.write("named.csv", &named);
    let one = json(&[&["tune", "local-level", &folder.name("1.csv")][..], &flags].concat());
    assert_eq!(json(&[&["tune", "local-level", &named, "--by", "key"][..], &flags].concat()), one);
    assert_ne!(one["board"][0]["chosen"], all["board"][0]["chosen"]);
    // Three copies of a series choose what the one does.
    let mut copies = String::from("y,key\n");
    for y in column(&alone, "y") {
        (0..3).for_each(|key| copies.push_str(&format!("{y},{key}\n")));
    }
    let copies = folder.write("copies.csv", &copies);
    let three = json(&[&["tune", "local-level", &copies, "--by", "key"][..], &flags].concat());
    assert_eq!(three["flags"], one["flags"]);
    let (a, b) = (&three["board"][0]["chosen"], &one["board"][0]["chosen"]);
    let score = |v: &Value| v["log_score"].as_f64().unwrap();
    assert!((score(a) - score(b)).abs() < 1e-9, "{a} {b}");
}
