//! Whole runs in miniature: files, resuming, stopping, threads; both protocols.

use optfilter_paper::control::Event;
use optfilter_paper::systems::{Dynamics, System};
use optfilter_paper::{Options, Protocol, RunError, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

struct Folder(PathBuf);
impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("optfilter-paper-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn options(out: &Path, systems: &[System], protocols: &[Protocol], threads: usize) -> Options {
    Options {
        systems: systems.to_vec(),
        protocols: protocols.to_vec(),
        out: out.to_path_buf(),
        runs: 3,
        seed: 0,
        threads: Some(threads),
        command: "optfilter-reproduce".into(),
    }
}

const TOY: System = System::Toy { q: 3, r: 2 };
const LORENZ: System = System::Lorenz { alpha: 10, dynamics: Dynamics::Euler };
const BOTH: [Protocol; 2] = [Protocol::Published, Protocol::Specified];

#[test]
fn both_protocols_write_every_file_and_resume_to_the_same_numbers() {
    let folder = Folder::new("both");
    let options = options(&folder.0, &[TOY, LORENZ], &BOTH, 2);
    let stop = AtomicBool::new(false);
    let outcome = run(&options, &stop, &|_| {}).unwrap();
    // 287 optimizers, EKF, UKF, PF, 6 IEKF; the Lorenz system has two searches of 500 values.
    let rows: Vec<usize> = outcome.grid.iter().map(|s| s.rows.len()).collect();
    assert_eq!(rows, [296, 1296, 296, 1296]);
    // 36 printed cells of the toy system and 11 + 20 of Lorenz with Euler, in each protocol.
    assert_eq!(outcome.cells.len(), 2 * (36 + 31));
    let read = |name: &str| fs::read_to_string(folder.0.join(name)).unwrap();
    let (grid, cells) = (read("grid.csv"), read("cells.csv"));
    assert_eq!(grid.lines().count(), 1 + 2 * (296 + 1296));
    assert!(grid.starts_with(
        "protocol,system,q,r,alpha,dynamics,method,steps,lr,decay,q_search,rmse,ci,diverged_runs\n"
    ));
    assert!(cells.starts_with("table,system,q,r,alpha,dynamics,protocol,method,steps,lr,decay,value,ci,paper_value,paper_ci,verdict\n"));
    let page = read("index.html");
    assert!(page.contains("<svg") && page.ends_with("</html>\n"));
    for scheme in ["src=\"http", "href=\"http", "url(http"] {
        assert!(!page.contains(scheme), "the page must not need the network");
    }
    assert_eq!(fs::read_dir(folder.0.join("figures")).unwrap().count(), 14);

    // Again: everything is taken over, and the numbers are the same to the last bit.
    let computed = Mutex::new(Vec::new());
    run(&options, &stop, &|event| {
        if let Event::End { name, time: Some(_) } = event {
            computed.lock().unwrap().push(name);
        }
    })
    .unwrap();
    assert_eq!(*computed.lock().unwrap(), Vec::<String>::new());
    assert_eq!((read("grid.csv"), read("cells.csv")), (grid, cells));
}

#[test]
fn a_stopped_run_keeps_what_is_finished() {
    let folder = Folder::new("stop");
    let systems = [System::Toy { q: 1, r: 1 }, TOY];
    let options = options(&folder.0, &systems, &[Protocol::Published], 2);
    let stop = AtomicBool::new(false);
    let first = run(&options, &stop, &|event| {
        if let Event::End { name, .. } = event
            && name.contains("Q=1 R=1")
        {
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(matches!(first, Err(RunError::Stopped)));
    assert!(!folder.0.join("grid.csv").exists());
    let taken_over = Mutex::new(Vec::new());
    stop.store(false, Ordering::Relaxed);
    run(&options, &stop, &|event| {
        if let Event::End { name, time: None } = event {
            taken_over.lock().unwrap().push(name);
        }
    })
    .unwrap();
    let names = taken_over.into_inner().unwrap();
    assert_eq!(names, ["published toy particle filters", "published toy Q=1 R=1"]);
}

#[test]
fn one_thread_and_two_give_the_same_bits() {
    let grid = |threads: usize| {
        let folder = Folder::new(&format!("threads-{threads}"));
        let options = options(&folder.0, &[TOY], &BOTH, threads);
        run(&options, &AtomicBool::new(false), &|_| {}).unwrap();
        fs::read_to_string(folder.0.join("grid.csv")).unwrap()
    };
    assert_eq!(grid(1), grid(2));
}
