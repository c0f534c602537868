//! Archives of arrays, true and untrue ones, and files that go away.
#![allow(dead_code)] // each user has its own part

use flate2::{Compression, write::DeflateEncoder};
use optfilter_table::Source;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A file that goes away with the value.
pub struct Kept(PathBuf);

impl Kept {
    pub fn new(bytes: &[u8]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("optfilter-table-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &std::path::Path {
        &self.0
    }

    pub fn source(&self) -> Source {
        Source::File(File::open(&self.0).unwrap())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An array as NumPy writes it, with the elements given.
pub fn npy(kind: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}\n");
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes(), elements].concat()
}

/// What the directory says of an array; the archive has the truth but where it is told otherwise.
#[derive(Default)]
pub struct Entry {
    pub name: String,
    pub data: Vec<u8>,
    pub deflated: bool,
    pub packed: Option<u32>,
    pub full: Option<u32>,
    pub crc: Option<u32>,
    pub place: Option<u32>,
}

impl Entry {
    pub fn new(name: &str, data: Vec<u8>, deflated: bool) -> Self {
        Self { name: name.into(), data, deflated, ..Self::default() }
    }
}

/// The archive of some arrays, as NumPy writes it.
pub fn archive(entries: &[Entry]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let data = if entry.deflated {
            let mut out = DeflateEncoder::new(Vec::new(), Compression::best());
            out.write_all(&entry.data).unwrap();
            out.finish().unwrap()
        } else {
            entry.data.clone()
        };
        let place = entry.place.unwrap_or(bytes.len() as u32);
        let name = format!("{}.npy", entry.name);
        let mut crc = flate2::Crc::new();
        crc.update(&entry.data);
        let mut common =
            [20, 0, if entry.deflated { 8 } else { 0 }, 0, 0].map(u16::to_le_bytes).concat();
        common.extend(entry.crc.unwrap_or(crc.sum()).to_le_bytes());
        common.extend(entry.packed.unwrap_or(data.len() as u32).to_le_bytes());
        common.extend(entry.full.unwrap_or(entry.data.len() as u32).to_le_bytes());
        common.extend([name.len() as u16, 0].map(u16::to_le_bytes).concat());
        directory.extend([b"PK\x01\x02\x14\x00", &common[..], &[0; 10]].concat());
        directory.extend([&place.to_le_bytes()[..], name.as_bytes()].concat());
        bytes.extend([b"PK\x03\x04", &common[..], name.as_bytes(), &data].concat());
    }
    let (at, count) = (bytes.len() as u32, (entries.len() as u16).to_le_bytes());
    bytes.extend(&directory);
    bytes.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count[..]].concat());
    bytes.extend([(directory.len() as u32).to_le_bytes(), at.to_le_bytes()].concat());
    bytes.extend([0; 2]);
    bytes
}
