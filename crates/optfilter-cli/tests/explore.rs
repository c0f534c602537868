//! `optfilter explore`: what it says, what it refuses, what it writes. The page itself is tested in a browser
//! (crates/optfilter-explore/tests/browser).
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;
use common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

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

#[cfg(unix)]
#[test]
fn the_address_is_printed_and_a_signal_ends_it() {
    let mut child = program()
        .args(["explore", "local-level", "--no-open"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let (host, rest) = address.trim().trim_start_matches("http://").split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{rest}api/start HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("\"table\":\"given\""),
        "{answer}"
    );
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert!(child.wait().unwrap().success());
}
