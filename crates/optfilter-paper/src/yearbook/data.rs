//! Portraits with a year and a label: the original archive, an npz, or a generated stand-in.
//!
//! Preparation: grey, the shorter side to 32 pixels (bilinear, as Pillow does it), centre crop, bytes; `[0, 1]` when a
//! batch is made. The archive has the folders `F/` and `M/` with PNG files whose name starts with the year. Research
//! data of real people: nothing here writes an image anywhere.

use optfilter_table::npz::{Npz, NpzError, Values};
use std::path::{Path, PathBuf};

/// Pixels per side.
pub const SIDE: usize = 32;
/// Pixels per image.
pub const PIXELS: usize = SIDE * SIDE;

/// Why the data cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// Of an npz file.
    #[error(transparent)]
    Npz(#[from] NpzError),
    /// The file system.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What happened.
        source: std::io::Error,
    },
    /// Arrays that do not belong together, or labels outside the classes.
    #[error("{path}: {reason}")]
    Content {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Images in memory.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// What it is called in every output.
    pub name: String,
    /// Whether it was made up.
    pub generated: bool,
    /// One image after the other.
    pub images: Vec<u8>,
    /// Year of each image.
    pub year: Vec<i32>,
    /// 0 or 1.
    pub label: Vec<u8>,
    /// What was left out, and why.
    pub problems: Vec<String>,
}

impl Dataset {
    /// Reads the archive (a folder) or an npz (a file).
    pub fn load(path: &Path) -> Result<Self, DataError> {
        let data = if path.is_dir() { Self::archive(path)? } else { Self::npz(path)? };
        if data.label.is_empty() {
            return Err(DataError::Content {
                path: path.into(),
                reason: "there are no images in it".into(),
            });
        }
        Ok(data)
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.label.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.label.is_empty()
    }

    /// A number that changes when the data do.
    pub fn fingerprint(&self) -> u64 {
        let years = self.year.iter().flat_map(|y| y.to_le_bytes());
        let bytes = self.images.iter().chain(&self.label).copied().chain(years);
        bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
    }

    fn npz(path: &Path) -> Result<Self, DataError> {
        let content = |reason: String| DataError::Content { path: path.into(), reason };
        let file = Npz::open(path)?;
        let [images, year, label] = ["images", "year", "label"].map(|name| file.array(name));
        let (images, year, label) = (images?, year?.doubles(), label?.doubles());
        let Values::Bytes(pixels) = images.values else {
            return Err(content("images must be unsigned bytes".into()));
        };
        if images.shape.len() != 3 || images.shape[1..] != [SIDE, SIDE] {
            return Err(content(format!(
                "images must be n x {SIDE} x {SIDE}, not {:?}",
                images.shape
            )));
        }
        let n = images.shape[0];
        if year.len() != n || label.len() != n {
            return Err(content(format!(
                "{n} images, but {} years and {} labels",
                year.len(),
                label.len()
            )));
        }
        if let Some(i) = label.iter().position(|l| *l != 0.0 && *l != 1.0) {
            return Err(content(format!("label {} of image {i} is neither 0 nor 1", label[i])));
        }
        let name =
            path.file_stem().map_or_else(|| "npz".into(), |s| s.to_string_lossy().into_owned());
        Ok(Self {
            name,
            generated: false,
            images: pixels,
            year: year.iter().map(|y| *y as i32).collect(),
            label: label.iter().map(|l| *l as u8).collect(),
            problems: Vec::new(),
        })
    }

    fn archive(path: &Path) -> Result<Self, DataError> {
        let mut files = Vec::new();
        for (label, folder) in ["F", "M"].into_iter().enumerate() {
            let folder = path.join(folder);
            let io = |source| DataError::Io { path: folder.clone(), source };
            for entry in std::fs::read_dir(&folder).map_err(io)? {
                let file = entry.map_err(io)?.path();
                if file.extension().is_some_and(|e| e.eq_ignore_ascii_case("png")) {
                    let name = file
                        .file_name()
                        .map(|n| n.to_string_lossy().into_owned())
                        .unwrap_or_default();
                    files.push((name, label as u8, file));
                }
            }
        }
        // By year and name, so that the order does not depend on the file system.
        files.sort();
        let mut data = Self {
            name: path
                .file_name()
                .map_or_else(|| "archive".into(), |s| s.to_string_lossy().into_owned()),
            generated: false,
            images: Vec::with_capacity(files.len() * PIXELS),
            year: Vec::new(),
            label: Vec::new(),
            problems: Vec::new(),
        };
        for (name, label, file) in files {
            let Some(year) = name.get(..4).and_then(|y| y.parse().ok()) else {
                data.problems
                    .push(format!("{name}: its name does not start with a year; left out"));
                continue;
            };
            match read_png(&file) {
                Ok(image) => {
                    data.images.extend(image);
                    data.year.push(year);
                    data.label.push(label);
                }
                Err(reason) => data.problems.push(format!("{name}: {reason}; left out")),
            }
        }
        Ok(data)
    }
}

fn read_png(path: &Path) -> Result<Vec<u8>, String> {
    let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
    let mut decoder = png::Decoder::new(std::io::BufReader::new(file));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(|e| e.to_string())?;
    let mut buffer = vec![0; reader.output_buffer_size().ok_or("too large")?];
    let info = reader.next_frame(&mut buffer).map_err(|e| e.to_string())?;
    let (width, height) = (info.width as usize, info.height as usize);
    let samples = info.color_type.samples();
    let grey: Vec<u8> = buffer
        .chunks_exact(samples)
        .take(width * height)
        .map(|p| match samples {
            // Pillow's luma: integer arithmetic with rounding.
            3 | 4 => {
                ((u32::from(p[0]) * 19_595
                    + u32::from(p[1]) * 38_470
                    + u32::from(p[2]) * 7_471
                    + 0x8000)
                    >> 16) as u8
            }
            _ => p[0],
        })
        .collect();
    if width == 0 || height == 0 || grey.len() != width * height {
        return Err("it has no pixels".into());
    }
    Ok(prepare(&grey, width, height))
}

/// Shorter side to 32 pixels, then the centre.
pub(super) fn prepare(grey: &[u8], width: usize, height: usize) -> Vec<u8> {
    let scale = |long: usize, short: usize| (SIDE * long / short).max(SIDE);
    let (w, h) =
        if width < height { (SIDE, scale(height, width)) } else { (scale(width, height), SIDE) };
    let rows = resize(grey, width, height, w);
    // The second pass works on columns: turn, resize, turn back.
    let turned = resize(&transpose(&rows, w, height), height, w, h);
    let small = transpose(&turned, h, w);
    let (left, top) = ((w - SIDE) / 2, (h - SIDE) / 2);
    (0..SIDE).flat_map(|y| small[(top + y) * w + left..][..SIDE].to_vec()).collect()
}

fn transpose(image: &[u8], width: usize, height: usize) -> Vec<u8> {
    (0..width * height).map(|i| image[(i % height) * width + i / height]).collect()
}

/// Each row to `to` pixels with a triangle filter as wide as the step, which is what Pillow's BILINEAR does.
fn resize(image: &[u8], width: usize, height: usize, to: usize) -> Vec<u8> {
    let step = width as f64 / to as f64;
    let reach = step.max(1.0);
    let taps: Vec<(usize, Vec<f64>)> = (0..to)
        .map(|x| {
            let centre = (x as f64 + 0.5) * step;
            let first = ((centre - reach + 0.5).max(0.0)) as usize;
            let last = ((centre + reach + 0.5) as usize).min(width).max(first + 1);
            let raw: Vec<f64> = (first..last)
                .map(|i| (1.0 - ((i as f64 + 0.5 - centre) / reach).abs()).max(0.0))
                .collect();
            let sum: f64 = raw.iter().sum();
            (first, raw.iter().map(|w| w / sum).collect())
        })
        .collect();
    let mut out = Vec::with_capacity(to * height);
    for row in image.chunks_exact(width) {
        for (first, weights) in &taps {
            let value: f64 =
                weights.iter().zip(&row[*first..]).map(|(w, v)| w * f64::from(*v)).sum();
            out.push((value + 0.5) as u8);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_image_stays_flat_and_a_ramp_stays_a_ramp() {
        assert!(prepare(&[77; 60 * 80], 60, 80).iter().all(|v| *v == 77));
        let ramp: Vec<u8> = (0..64 * 64).map(|i| (i % 64) as u8 * 4).collect();
        let small = prepare(&ramp, 64, 64);
        assert_eq!(small.len(), PIXELS);
        // Two pixels become one: inside, the filter is symmetric, so the value is that of the middle: 8 x + 2.
        for x in 1..31 {
            assert_eq!(small[5 * 32 + x], (8 * x + 2) as u8);
        }
    }

    #[test]
    fn the_centre_is_kept() {
        let mut wide = vec![0; 32 * 96];
        for y in 0..32 {
            wide[y * 96 + 32..y * 96 + 64].fill(200);
        }
        assert!(prepare(&wide, 96, 32).iter().all(|v| *v == 200));
    }
}
