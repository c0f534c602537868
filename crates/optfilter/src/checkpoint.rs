//! Checkpoints: a belief saved and loaded bit for bit.
//!
//! Whatever serde can write can be kept: every belief of [`crate::filter`] (with an optimizer's state or a
//! random stream inside it where it has one), a [`Stream`](crate::rng::Stream), or a tuple of them. The
//! format is a header and a body:
//!
//! ```text
//! "OPTFILT\n"   8 bytes
//! version       u16, little-endian (now 1)
//! kind          u16 length, then UTF-8: what is inside, so that nothing is loaded as something else
//! body          u64 length, then postcard (a compact serde format that keeps every bit of a number)
//! checksum      u64, FNV-1a of all bytes before it
//! ```
//!
//! ```
//! use nalgebra::{matrix, vector};
//! use optfilter::checkpoint;
//! use optfilter::filter::GaussianBelief;
//! let belief = GaussianBelief::new(vector![0.1], matrix![2.0])?;
//! let bytes = checkpoint::save("ekf/toy", &belief)?;
//! let back: GaussianBelief<_> = checkpoint::load("ekf/toy", &bytes)?;
//! assert_eq!(belief, back);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(clippy::indexing_slicing, clippy::string_slice)] // whatever the bytes are, they are looked at with care

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::Serialize;
use serde::de::DeserializeOwned;

const MAGIC: &[u8; 8] = b"OPTFILT\n";
/// The version of the format that this library writes.
pub const VERSION: u16 = 1;

/// Why a checkpoint cannot be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Not a checkpoint at all.
    #[error("this is not an optfilter checkpoint")]
    NotACheckpoint,
    /// Cut short or damaged.
    #[error("the checkpoint is damaged: {what}")]
    Damaged {
        /// What does not fit.
        what: &'static str,
    },
    /// Written by a newer library.
    #[error("the checkpoint has format version {found}; this library reads version {VERSION}")]
    Version {
        /// The version found.
        found: u16,
    },
    /// Of something else.
    #[error(
        "the checkpoint holds {found:?}, not {expected:?}; was it made by another filter or model?"
    )]
    Kind {
        /// What was asked for.
        expected: String,
        /// What it holds.
        found: String,
    },
    /// The body does not fit the type.
    #[error("the checkpoint's body cannot be read or written: {message}")]
    Body {
        /// postcard's message.
        message: String,
    },
}

/// Writes a value under the name of its kind.
pub fn save<T: Serialize>(kind: &str, value: &T) -> Result<Vec<u8>, CheckpointError> {
    let body = postcard::to_allocvec(value)
        .map_err(|e| CheckpointError::Body { message: e.to_string() })?;
    framed(kind, &body)
}

/// A body with what stands around it.
fn framed(kind: &str, body: &[u8]) -> Result<Vec<u8>, CheckpointError> {
    let kind_len = u16::try_from(kind.len()).map_err(|_| CheckpointError::Body {
        message: "the kind's name is too long".to_string(),
    })?;
    let mut out = Vec::with_capacity(body.len() + kind.len() + 28);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&kind_len.to_le_bytes());
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(&(body.len() as u64).to_le_bytes());
    out.extend_from_slice(body);
    let sum = checksum(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    Ok(out)
}

/// Reads a value that [`save`] wrote under the same kind.
pub fn load<T: DeserializeOwned>(kind: &str, bytes: &[u8]) -> Result<T, CheckpointError> {
    let (value, left) = postcard::take_from_bytes(body_of(kind, bytes)?)
        .map_err(|e| CheckpointError::Body { message: e.to_string() })?;
    // A larger type's bytes would otherwise load as a smaller one's.
    if !left.is_empty() {
        let message = alloc::format!("{} bytes are left over", left.len());
        return Err(CheckpointError::Body { message });
    }
    Ok(value)
}

/// The body of a checkpoint of this kind.
fn body_of<'a>(kind: &str, bytes: &'a [u8]) -> Result<&'a [u8], CheckpointError> {
    let damaged = |what| CheckpointError::Damaged { what };
    let rest = bytes.strip_prefix(MAGIC.as_slice()).ok_or(CheckpointError::NotACheckpoint)?;
    let (version, rest) = rest.split_first_chunk().ok_or(damaged("it ends in the header"))?;
    let version = u16::from_le_bytes(*version);
    if version != VERSION {
        return Err(CheckpointError::Version { found: version });
    }
    let (kept, sum) = bytes.split_last_chunk::<8>().ok_or(damaged("it ends in the header"))?;
    if checksum(kept) != u64::from_le_bytes(*sum) {
        return Err(damaged("its checksum does not match"));
    }
    let (kind_len, rest) = rest.split_first_chunk().ok_or(damaged("it ends in the header"))?;
    let (found, rest) = rest
        .split_at_checked(usize::from(u16::from_le_bytes(*kind_len)))
        .ok_or(damaged("it ends in the kind"))?;
    let found = core::str::from_utf8(found).map_err(|_| damaged("its kind is not text"))?;
    if found != kind {
        return Err(CheckpointError::Kind { expected: kind.to_string(), found: found.to_string() });
    }
    let (body_len, rest) = rest.split_first_chunk().ok_or(damaged("it ends before the body"))?;
    if rest.len() as u64 != u64::from_le_bytes(*body_len).saturating_add(8) {
        return Err(damaged("its body has another length than stated"));
    }
    let (body, _) = rest.split_last_chunk::<8>().ok_or(damaged("it ends in the body"))?;
    Ok(body)
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}
