//! Packs every crate, then builds and runs a program from the packages alone, in an empty folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the program of the test says: the five lines of the README of `optfilter-run`.
const PROGRAM: &str = r#"use optfilter::{Series, model::Growth};
use optfilter_run::{FilterSpec, Problem, build};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let problem = Problem::new(Growth).noise(3.0, 2.0).start(0.1, 1.0).dt(0.1);
    let filter = build(&FilterSpec::of("ekf")?, &problem)?;
    let result = filter.filter(&Series::new(&[0.3, 1.1, f64::NAN, 2.4], 1)?)?;
    println!("{:?}", result.means);
    Ok(())
}
"#;

/// Packs, unpacks, builds and runs.
pub(crate) fn check() -> Result<(), String> {
    crate::cargo(
        &[
            "package",
            "--quiet",
            "--locked",
            "--allow-dirty",
            "--no-verify",
            "--workspace",
            "--exclude",
            "optfilter-py",
            "--exclude",
            "xtask",
        ],
        &[],
    )?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let target = fs::canonicalize(&target).map_err(|e| format!("{}: {e}", target.display()))?;
    let folder = std::env::temp_dir().join(format!("optfilter-packages-{}", std::process::id()));
    let outcome = from_packages(&target, &folder);
    let _ = fs::remove_dir_all(&folder);
    outcome
}

fn from_packages(target: &Path, folder: &Path) -> Result<(), String> {
    let wrong = |e: std::io::Error| format!("{}: {e}", folder.display());
    fs::create_dir_all(folder.join("program/src")).map_err(wrong)?;
    let mut patches = String::new();
    for entry in fs::read_dir(target.join("package")).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        let Some(stem) = path.file_name().and_then(|n| n.to_str()?.strip_suffix(".crate")) else {
            continue;
        };
        let done = Command::new("tar").arg("xzf").arg(&path).arg("-C").arg(folder).status();
        if !done.is_ok_and(|status| status.success()) {
            return Err(format!("{} cannot be unpacked", path.display()));
        }
        for needed in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            if !folder.join(stem).join(needed).is_file() {
                return Err(format!("the package {stem} has no {needed}"));
            }
        }
        let name = stem.rsplit_once('-').map_or(stem, |(name, _)| name);
        patches += &format!("{name} = {{ path = {stem:?} }}\n");
    }
    let version = env!("CARGO_PKG_VERSION");
    let workspace = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"program\", \"optfilter-cli-{version}\"]\n\n[patch.crates-io]\n{patches}"
    );
    let manifest = format!(
        "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         optfilter = \"{version}\"\noptfilter-run = \"{version}\"\n"
    );
    fs::write(folder.join("Cargo.toml"), workspace).map_err(wrong)?;
    fs::write(folder.join("program/Cargo.toml"), manifest).map_err(wrong)?;
    fs::write(folder.join("program/src/main.rs"), PROGRAM).map_err(wrong)?;
    // The versions of everything else are those that were tested.
    fs::copy("Cargo.lock", folder.join("Cargo.lock")).map_err(wrong)?;
    let built = target.join("from-packages");
    // Packed files have no times of their own, so cargo cannot tell newer ones: nothing of ours is taken over.
    let known = fs::read_dir(built.join("debug/.fingerprint")).into_iter().flatten().flatten();
    for of in known.filter(|e| e.file_name().to_string_lossy().starts_with("optfilter")) {
        fs::remove_dir_all(of.path()).map_err(wrong)?;
    }
    let variables = [
        ("CARGO_TARGET_DIR", built.to_str().unwrap_or_default()),
        ("CARGO_PROFILE_DEV_OPT_LEVEL", "0"),
        ("CARGO_PROFILE_DEV_DEBUG", "false"),
    ];
    let manifest = folder.join("Cargo.toml");
    let manifest = manifest.to_str().unwrap_or_default();
    crate::cargo(&["run", "--quiet", "--manifest-path", manifest, "-p", "program"], &variables)?;
    let program = ["run", "--quiet", "--manifest-path", manifest, "-p", "optfilter-cli"];
    let arguments = ["--no-default-features", "--", "model", "list"];
    crate::cargo(&[program.as_slice(), &arguments].concat(), &variables)
}
