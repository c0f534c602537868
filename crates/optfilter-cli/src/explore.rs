//! `optfilter explore`: a live page for any model and table.

use crate::failure::Failure;
use crate::files;
use crate::interrupt;
use crate::settings::FilterFlags;
use optfilter_explore::{Api, Fault, Named, Opening, Server, Shelf, Table};
use optfilter_model::ModelSpec;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Open a page in the browser: move a slider, see what the filter makes of the table
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  optfilter explore
  optfilter explore nile.toml nile.csv
  optfilter explore lorenz63 --optimizer gd --steps 3 --lr 0.3
  optfilter explore nile.toml nile.csv --save chosen.toml
  optfilter explore nile.toml nile.csv --export page.html

Without MODEL the page opens a gallery; without DATA it simulates some rows of the model. Columns of the table that \
are called like states hold their true values. The page is served on this machine only, at an address that nobody can \
guess, and asks nobody else for anything. Ctrl-C ends it.")]
pub struct Args {
    /// Model file (TOML), or the name of a built-in system
    model: Option<PathBuf>,
    /// Table with the measurements; `-` is standard input
    data: Option<PathBuf>,
    /// Port of the page [default: any that is free]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Print the address and open no browser
    #[arg(long)]
    no_open: bool,
    /// Let the page save its model file here
    #[arg(long, value_name = "MODEL")]
    save: Option<PathBuf>,
    /// Write one self-contained page and end
    #[arg(long, value_name = "FILE", conflicts_with_all = ["port", "no_open", "save"])]
    export: Option<PathBuf>,
    /// Print the address, or what --export wrote, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filter: FilterFlags,
}

/// Rows that are simulated where no table is given.
const SIMULATED: usize = 300;

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    if let Some(save) = &args.save {
        let model = args.model.as_deref().unwrap_or(Path::new(""));
        files::check_save(save, model, "the page shows the model")?;
    }
    if args.export.is_some() && args.model.is_none() {
        return Err(Failure::usage("--export needs a model, and a table if it is not simulated"));
    }
    if let Some(page) = &args.export {
        let read: Vec<&Path> = args.model.iter().chain(&args.data).map(PathBuf::as_path).collect();
        files::check_outputs(&read, &[("--export", page)])?;
    }
    let given = args.model.as_deref().map(|model| given(&args, model)).transpose()?;
    let api = Api::new(given, args.save.clone());
    if let Some(path) = &args.export {
        export(&api, path)?;
        let name = path.display().to_string();
        return match args.json {
            true => files::print(&format!("{}\n", serde_json::json!({ "file": name }))),
            false => Ok(()),
        };
    }
    serve(api, &args)
}

/// The model and the table of the command line, checked.
fn given(args: &Args, model: &Path) -> Result<(Opening, Table), Failure> {
    let (text, spec) = files::model(model)?;
    let text = match text.strip_prefix("system = ").filter(|_| !model.exists()) {
        // The name of a built-in system: its equations can be changed in the page.
        Some(_) => ModelSpec::built_ins()
            .find(|(name, _)| model.as_os_str() == *name)
            .map_or(text.clone(), |(_, full)| full.to_owned()),
        None => text,
    };
    let filter = args.filter.prepare(spec.clone())?.filter;
    let table = match &args.data {
        Some(path) => read(path)?,
        None => simulated(&spec)?,
    };
    let name = files::display(model);
    let name = if name.ends_with(".toml") { name } else { format!("{name}.toml") };
    let opening = Opening { model: text, name, filter };
    // What is wrong with the table is said now, not in the page.
    let named =
        Named { model: opening.model.clone(), name: opening.name.clone(), table: "given".into() };
    let copy = Table { name: table.name.clone(), bytes: table.bytes.clone() };
    Shelf::new(Some(copy)).subject(&named).map_err(failure)?;
    Ok((opening, table))
}

fn failure(fault: Fault) -> Failure {
    match fault {
        Fault::Data(_) | Fault::Limit(_) => Failure::data(fault),
        _ => Failure::usage(fault),
    }
}

fn read(path: &Path) -> Result<Table, Failure> {
    let name =
        if files::is_standard(path) { "table.csv".into() } else { path.display().to_string() };
    let mut bytes = Vec::new();
    let done = match files::is_standard(path) {
        true => io::stdin().read_to_end(&mut bytes),
        false => std::fs::read(path).map(|read| {
            bytes = read;
            bytes.len()
        }),
    };
    match done {
        Ok(_) => Ok(Table { name, bytes }),
        Err(e) => Err(Failure::data(format!("cannot read the data {name}: {e}"))),
    }
}

/// Some rows of the model, with its states as the truth.
fn simulated(spec: &ModelSpec) -> Result<Table, Failure> {
    if !spec.inputs.is_empty() {
        return Err(Failure::usage("this model has inputs; give a table with them"));
    }
    let bytes = optfilter_explore::simulated_table(spec, SIMULATED, 1).map_err(failure)?;
    Ok(Table { name: "simulated.csv".into(), bytes })
}

fn export(api: &Api, path: &Path) -> Result<(), Failure> {
    let Some(opening) = &api.opening else { return Ok(()) };
    let named =
        Named { model: opening.model.clone(), name: opening.name.clone(), table: "given".into() };
    let page = api.export(&named, &opening.filter, &serde_json::Value::Null).map_err(failure)?;
    files::write(path, page)
}

fn serve(api: Api, args: &Args) -> Result<(), Failure> {
    let ended = interrupt::flag();
    let server = Server::start(api, args.port, false)
        .map_err(|e| Failure::other(format!("cannot serve on port {}: {e}", args.port)))?;
    let address = server.address();
    files::print(&match args.json {
        true => format!("{}\n", serde_json::json!({ "address": address })),
        false => format!("{address}\n"),
    })?;
    // Its file stays until the page ends: a browser may take its time.
    let signpost = if args.no_open { None } else { Signpost::to(&address).ok() };
    if !args.no_open && !signpost.as_ref().is_some_and(|signpost| open(&signpost.file())) {
        files::remark("no browser could be opened; open the address above");
    }
    files::remark("Ctrl-C ends it");
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
    }
    // As every command that is asked to end; there is nothing more to say about it.
    Err(Failure::interrupted(""))
}

/// A file that leads a browser to the page. Everybody on a machine sees the arguments of its programs, so the address with
/// its token cannot be one of them; the file is in a folder that nobody else may enter.
struct Signpost(PathBuf);

impl Signpost {
    fn to(address: &str) -> io::Result<Self> {
        let signpost = Self(private_folder()?);
        let text = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\n\
             <meta http-equiv=\"refresh\" content=\"0; url={address}\"><title>optfilter</title>\n\
             <p><a href=\"{address}\">The page of optfilter</a></p></html>\n"
        );
        std::fs::write(signpost.file(), text)?;
        Ok(signpost)
    }

    fn file(&self) -> PathBuf {
        self.0.join("page.html")
    }
}

impl Drop for Signpost {
    fn drop(&mut self) {
        // What cannot be removed leads nowhere once the page has ended.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A new folder for this user alone.
fn private_folder() -> io::Result<PathBuf> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let (base, id) = (std::env::temp_dir(), std::process::id());
    let mut taken = None;
    // A name that is there already, whoever made it, is not used.
    for k in 0..100 {
        let folder = base.join(format!("optfilter-{id}-{k}"));
        match builder.create(&folder) {
            Ok(()) => return Ok(folder),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => taken = Some(e),
            Err(e) => return Err(e),
        }
    }
    Err(taken.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
}

/// Opens a file in the browser of the user.
fn open(file: &Path) -> bool {
    let (program, before): (&str, &[&str]) = if cfg!(target_os = "macos") {
        ("open", &[])
    } else if cfg!(windows) {
        ("rundll32", &["url.dll,FileProtocolHandler"])
    } else {
        ("xdg-open", &[])
    };
    Command::new(program)
        .args(before)
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .is_ok()
}
