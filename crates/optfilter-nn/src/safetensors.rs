//! Weights in and out as safetensors, the format in which networks travel between programs.
//!
//! Files are written with Flax's names and layouts (`Conv_0.kernel` as rows x columns x in x out, `Dense_0.kernel` as in x out).
//! Read are those, and files of a PyTorch `nn.Sequential` of the same layers (`0.weight`, `0.bias`, ...): its
//! convolutions are out x in x rows x columns, its dense kernels out x in, and a dense layer after a flatten counts channels
//! before rows; all three are turned.

use crate::kernel::Real;
use crate::layer::{Layer, Shape};
use crate::network::Network;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Why weights cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The file system.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: std::io::Error,
    },
    /// Not a safetensors file.
    #[error("not a safetensors file: {0}")]
    Format(
        /// What the reader says.
        String,
    ),
    /// A tensor that is not there.
    #[error("there is no tensor for {name}; the file has: {found}")]
    Missing {
        /// Its name here.
        name: String,
        /// What is there.
        found: String,
    },
    /// A tensor of another shape or number type.
    #[error("{name} is {found}; the network needs {expected}")]
    Mismatch {
        /// Its name.
        name: String,
        /// What is there.
        found: String,
        /// What is needed.
        expected: String,
    },
}

/// Under which name the metadata of a file hold what `about` is told.
const ABOUT: &str = "optfilter";

/// The weights as the bytes of a safetensors file (single precision), with a text that belongs to them.
pub fn to_bytes<E: Real>(
    network: &Network,
    weights: &[E],
    about: Option<String>,
) -> Result<Vec<u8>, WeightsError> {
    let format = |e: safetensors::SafeTensorError| WeightsError::Format(e.to_string());
    let bytes: Vec<(&str, &[usize], Vec<u8>)> = network
        .parameters()
        .iter()
        .map(|p| {
            let values = &weights[p.offset..p.offset + p.len()];
            let bytes = values.iter().flat_map(|v| (v.to_double() as f32).to_le_bytes()).collect();
            (p.name.as_str(), p.shape.as_slice(), bytes)
        })
        .collect();
    let mut views = Vec::with_capacity(bytes.len());
    for (name, shape, bytes) in &bytes {
        views.push((*name, TensorView::new(Dtype::F32, shape.to_vec(), bytes).map_err(format)?));
    }
    let about = about.map(|text| HashMap::from([(ABOUT.to_owned(), text)]));
    serialize(views, about).map_err(format)
}

/// The weights from the bytes of a safetensors file.
pub fn from_bytes<E: Real>(network: &Network, bytes: &[u8]) -> Result<Vec<E>, WeightsError> {
    let file = SafeTensors::deserialize(bytes).map_err(|e| WeightsError::Format(e.to_string()))?;
    let mut weights = vec![E::zero(); network.len()];
    let torch = torch_names(&file);
    let mut flattened = None;
    let mut layer = 0;
    let mut shapes = network.shapes().iter();
    for kind in network.layers() {
        let shape = shapes.next();
        match (kind, shape) {
            (Layer::Flatten, Some(Shape::Image { height, width, channels })) => {
                flattened = Some((*height, *width, *channels))
            }
            (Layer::Conv { .. } | Layer::AnyConv { .. } | Layer::Dense { .. }, _) => {
                let [bias, kernel] = [0, 1].map(|i| &network.parameters()[2 * layer + i]);
                let turned = torch.get(layer);
                let names = match turned {
                    Some(prefix) => [format!("{prefix}.bias"), format!("{prefix}.weight")],
                    None => [bias.name.clone(), kernel.name.clone()],
                };
                let values = read(&file, &names[0], &bias.shape)?;
                copy(&mut weights[bias.offset..], values.into_iter());
                let out = &mut weights[kernel.offset..kernel.offset + kernel.len()];
                match (turned.is_some(), kernel.shape.as_slice()) {
                    (false, shape) => copy(out, read(&file, &names[1], shape)?.into_iter()),
                    (true, &[rows, columns, cin, cout]) => {
                        let values = read(&file, &names[1], &[cout, cin, rows, columns])?;
                        for (n, w) in out.iter_mut().enumerate() {
                            let (k, i, o) = (n / (cin * cout), n / cout % cin, n % cout);
                            *w = E::of(values[(o * cin + i) * rows * columns + k]);
                        }
                    }
                    (true, shape) => {
                        let (inputs, outputs) = (shape[0], shape[1]);
                        let values = read(&file, &names[1], &[outputs, inputs])?;
                        for (n, w) in out.iter_mut().enumerate() {
                            let (i, o) = (n / outputs, n % outputs);
                            let there = flattened.map_or(i, |(height, width, channels)| {
                                let (pixel, channel) = (i / channels, i % channels);
                                channel * height * width + pixel
                            });
                            *w = E::of(values[o * inputs + there]);
                        }
                    }
                }
                flattened = None;
                layer += 1;
            }
            _ => {}
        }
    }
    Ok(weights)
}

fn copy<E: Real>(out: &mut [E], values: impl Iterator<Item = f64>) {
    out.iter_mut().zip(values).for_each(|(w, v)| *w = E::of(v));
}

/// The prefixes of a PyTorch file in the order of its layers; empty for a Flax one.
fn torch_names(file: &SafeTensors<'_>) -> Vec<String> {
    let mut prefixes: Vec<String> =
        file.names().iter().filter_map(|n| n.strip_suffix(".weight")).map(str::to_owned).collect();
    // "10" comes after "9": numbers by value, then text.
    prefixes.sort_by_key(|p| (p.rsplit('.').next().and_then(|n| n.parse::<u64>().ok()), p.clone()));
    prefixes
}

fn read(file: &SafeTensors<'_>, name: &str, shape: &[usize]) -> Result<Vec<f64>, WeightsError> {
    let tensor = file.tensor(name).map_err(|_| {
        let mut found = file.names().iter().map(ToString::to_string).collect::<Vec<_>>();
        found.sort();
        WeightsError::Missing { name: name.into(), found: found.join(", ") }
    })?;
    let mismatch = || WeightsError::Mismatch {
        name: name.into(),
        found: format!("{:?} {:?}", tensor.dtype(), tensor.shape()),
        expected: format!("F32 or F64 {shape:?}"),
    };
    if tensor.shape() != shape {
        return Err(mismatch());
    }
    match tensor.dtype() {
        Dtype::F32 => Ok(tensor
            .data()
            .as_chunks::<4>()
            .0
            .iter()
            .map(|b| f64::from(f32::from_le_bytes(*b)))
            .collect()),
        Dtype::F64 => {
            Ok(tensor.data().as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect())
        }
        _ => Err(mismatch()),
    }
}

/// Writes the weights to a file, with a text that belongs to them.
pub fn save<E: Real>(
    network: &Network,
    weights: &[E],
    about: Option<String>,
    path: &Path,
) -> Result<(), WeightsError> {
    std::fs::write(path, to_bytes(network, weights, about)?)
        .map_err(|source| WeightsError::Io { path: path.into(), source })
}

/// Reads weights from a file.
pub fn load<E: Real>(network: &Network, path: &Path) -> Result<Vec<E>, WeightsError> {
    let bytes =
        std::fs::read(path).map_err(|source| WeightsError::Io { path: path.into(), source })?;
    from_bytes(network, &bytes)
}

/// The text that was saved with the weights in a file, if there is one.
pub fn about(path: &Path) -> Result<Option<String>, WeightsError> {
    let bytes =
        std::fs::read(path).map_err(|source| WeightsError::Io { path: path.into(), source })?;
    let (_, metadata) =
        SafeTensors::read_metadata(&bytes).map_err(|e| WeightsError::Format(e.to_string()))?;
    Ok(metadata.metadata().as_ref().and_then(|m| m.get(ABOUT).cloned()))
}
