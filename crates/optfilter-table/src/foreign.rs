//! Files that are no tables of ours, named as what they are: by their first bytes, or by their name.

use std::path::Path;

/// A kind of file: what it is, how it starts, how its name ends.
type Kind = (&'static str, &'static [&'static [u8]], &'static [&'static str]);

const KINDS: [Kind; 21] = [
    ("a Parquet file", &[b"PAR1", b"PARE"], &[]),
    (
        "an Arrow or Feather file",
        &[b"ARROW1", b"FEA1", b"\xff\xff\xff\xff"],
        &["arrow", "feather", "ipc"],
    ),
    ("an Excel workbook", &[b"\xd0\xcf\x11\xe0"], &["xlsx", "xlsm", "xlsb", "xls"]),
    ("an OpenDocument spreadsheet", &[], &["ods"]),
    ("a NumPy archive", &[], &[]),
    ("a zip archive", &[b"PK\x03\x04", b"PK\x05\x06"], &["zip"]),
    ("a NumPy array", &[b"\x93NUMPY"], &[]),
    ("an ORC file", &[b"ORC"], &["orc"]),
    ("an Avro file", &[b"Obj\x01"], &["avro"]),
    ("an HDF5 file", &[b"\x89HDF"], &["h5", "hdf5", "nc"]),
    ("a MATLAB file", &[b"MATLAB "], &["mat"]),
    ("an SQLite database", &[b"SQLite format 3"], &["sqlite", "sqlite3", "db"]),
    ("a file of R", &[b"RDX2\n", b"RDX3\n"], &["rds", "rdata"]),
    ("a pickle of Python", &[b"\x80\x03", b"\x80\x04", b"\x80\x05"], &["pkl", "pickle"]),
    ("a Stata or SPSS file", &[b"<stata_dta>", b"$FL2"], &["dta", "sav"]),
    ("compressed with zstd", &[b"\x28\xb5\x2f\xfd"], &["zst"]),
    ("compressed with bzip2", &[b"BZh"], &["bz2"]),
    ("compressed with xz", &[b"\xfd7zXZ"], &["xz", "7z"]),
    ("text in UTF-16", &[b"\xff\xfe", b"\xfe\xff"], &[]),
    (
        "a picture",
        &[b"\x89PNG", b"%PDF", b"\xff\xd8\xff", b"GIF8"],
        &["png", "jpg", "jpeg", "gif", "pdf", "svg"],
    ),
    ("a page", &[], &["html", "htm", "md", "tex", "docx", "pptx"]),
];

/// What a file of that name would be, if not a table that can be written.
pub fn foreign(path: &Path) -> Option<&'static str> {
    let end = path.extension()?.to_str()?.to_ascii_lowercase();
    KINDS.iter().find(|k| k.2.contains(&end.as_str())).map(|k| k.0)
}

/// What a file is that starts with these bytes, if it is not text in ASCII or UTF-8.
pub(crate) fn of_start(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"PK\x03\x04") {
        // The first name in the archive tells.
        let holds = |name: &[u8]| bytes.windows(name.len()).take(512).any(|w| w == name);
        if holds(b"[Content_Types].xml") || holds(b"xl/") {
            return Some("an Excel workbook");
        }
        if holds(b"opendocument.spreadsheet") {
            return Some("an OpenDocument spreadsheet");
        }
        if holds(b".npy") {
            return Some("a NumPy archive");
        }
    }
    if let Some(kind) = KINDS.iter().find(|k| k.1.iter().any(|s| bytes.starts_with(s))) {
        return Some(kind.0);
    }
    match (bytes.first(), bytes.get(1), bytes.get(2)) {
        // Letters of which every second byte is zero.
        (Some(1..=127), Some(0), Some(1..=127)) | (Some(0), Some(1..=127), Some(0)) => {
            Some("text in UTF-16")
        }
        _ => {
            // Column names have no control characters; tabs and ends of lines are none here.
            let control = |b: &u8| *b < 32 && !matches!(b, b'\t' | b'\r' | b'\x0c');
            let binary = bytes.split(|b| *b == b'\n').next()?.iter().any(control);
            binary.then_some("a binary file")
        }
    }
}

/// What to do with it.
pub(crate) fn advice(kind: &str) -> &'static str {
    match kind {
        "text in UTF-16" => "save it as UTF-8",
        "a NumPy archive" => "name it .npz",
        "a NumPy array" => "name it .npy",
        "a Parquet file" => "name it .parquet or say that it is Parquet",
        k if k.starts_with("compressed") => "unpack it, or compress it with gzip",
        _ => "save it as CSV, JSON lines or Parquet",
    }
}
