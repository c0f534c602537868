//! `optfilter explore`: what it says, what it refuses, what it writes. The page itself is tested in a browser
//! (crates/optfilter-explore/tests/browser).
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;
use common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

fn refused(args: &[&str], code: i32, word: &str) {
    let output = run(&[&["explore", "--no-open"], args].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(said.contains(word), "{args:?}: {said}");
}

#[test]
fn what_cannot_be_shown_is_said_before_any_page_opens() {
    let folder = Folder::new();
    let (nile, data) = (example("nile.toml"), example("nile.csv"));
    refused(&["no-such-model"], 2, "cannot read the model");
    refused(&["lorenz36"], 2, "did you mean the system `lorenz63`?");
    refused(&[&nile, "no-such.csv"], 3, "cannot read the data");
    refused(&[&nile, &example("co2.csv")], 3, "column");
    refused(&[&nile, &data, "--method", "kf", "--lr", "1"], 2, "--lr belongs to imap");
    refused(&[&nile, &data, "--save", &data], 2, "choose a new name");
    refused(&["robot"], 2, "give a table");
    let wrong = folder.write("wrong.toml", "states = [\"x\"]\n[dynamics]\nx = \"z\"\n");
    refused(&[&wrong], 2, "wrong.toml:3:");
}

#[test]
fn a_page_is_exported_with_the_numbers_of_the_filter() {
    let folder = Folder::new();
    let page = folder.name("page.html");
    let (nile, data) = (example("nile.toml"), example("nile.csv"));
    ok(&[
        "explore",
        &nile,
        &data,
        "--method",
        "imap",
        "--optimizer",
        "gd",
        "--steps",
        "3",
        "--lr",
        "1500",
        "--export",
        &page,
    ]);
    let text = folder.read("page.html");
    assert!(text.contains("--method imap --optimizer gd --steps 3 --lr 1500"));
    assert!(text.contains("default-src 'none'") && !text.contains("src=\"main.js\""));
    let output = run(&["explore", "--export", &page]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_file_that_is_read_is_never_written() {
    let folder = Folder::new();
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let model = folder.write("nile.toml", &read(&example("nile.toml")));
    let data = folder.write("nile.csv", &read(&example("nile.csv")));
    for page in [&model, &data] {
        let before = read(page);
        let output = run(&["explore", &model, &data, "--export", page]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--export") && said.contains("is read by this command"), "{said}");
        assert_eq!(read(page), before);
    }
}

/// Asks a page for its beginning.
fn start(address: &str) -> String {
    let (host, rest) = address.trim().trim_start_matches("http://").split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{rest}api/start HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The first line of a program's output.
fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line
}

fn end(child: &mut Child, signal: &str) -> Option<i32> {
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args([signal, &id]).status().unwrap().success());
    child.wait().unwrap().code()
}

#[cfg(unix)]
#[test]
fn the_address_is_printed_and_a_signal_ends_it_as_any_other_command() {
    for signal in ["-INT", "-TERM"] {
        let mut child = program()
            .args(["explore", "local-level", "--no-open"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let answer = start(&first_line(&mut child));
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains("\"table\":\"given\""),
            "{answer}"
        );
        assert_eq!(end(&mut child, signal), Some(130));
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(!said.contains("error"), "{said}");
    }
}

/// Whoever lists the programs of the machine sees no token: the browser gets a file that only this user can read.
#[cfg(all(unix, not(target_os = "macos")))]
#[test]
fn the_browser_is_not_given_the_address_as_an_argument() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let (browser, said) = (folder.write("xdg-open", ""), folder.name("said"));
    std::fs::write(
        &browser,
        format!("#!/bin/sh\necho \"$1\" > '{said}.new'\nmv '{said}.new' '{said}'\n"),
    )
    .unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let programs = Path::new(&browser).parent().unwrap();
    let mut child = program()
        .args(["explore", "local-level"])
        .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
        .env("TMPDIR", programs)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let address = first_line(&mut child).trim().to_owned();
    let token = address.trim_end_matches('/').rsplit('/').next().unwrap().to_owned();
    while !Path::new(&said).exists() {
        assert!(child.try_wait().unwrap().is_none(), "the program has ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    let opened = PathBuf::from(std::fs::read_to_string(&said).unwrap().trim());
    assert!(!opened.display().to_string().contains(&token), "{}", opened.display());
    let page = std::fs::read_to_string(&opened).unwrap();
    assert!(page.contains(&format!("content=\"0; url={address}\"")), "{page}");
    let private = opened.parent().unwrap();
    assert_eq!(std::fs::metadata(private).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(end(&mut child, "-INT"), Some(130));
    assert!(!private.exists(), "the file stays");
}
