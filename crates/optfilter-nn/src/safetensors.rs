//! Weights in and out as safetensors, the format in which networks travel between programs.
//!
//! Files are written with Flax's names and layouts (`Conv_0.kernel` as rows x columns x in x out, `Dense_0.kernel` as in x out).
//! Read are those, and files of a PyTorch `nn.Sequential` of the same layers (`0.weight`, `0.bias`, ...): its
//! convolutions are out x in x rows x columns, its dense kernels out x in, and a dense layer after a flatten counts channels
//! before rows; all three are turned. Names may have `/` for `.` and begin with `params.`; numbers may be of 16, 32 or 64 bits.
//!
//! A network for two classes has one output here, and often two elsewhere: the softmax of two is the logistic function of their difference,
//! so a last layer of two outputs is read as that ([`load_classes`]).

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
    from_bytes_classes(network, 0, bytes)
}

/// The weights of a network for so many classes from the bytes of a safetensors file: of two, two outputs become their difference.
pub fn from_bytes_classes<E: Real>(
    network: &Network,
    classes: usize,
    bytes: &[u8],
) -> Result<Vec<E>, WeightsError> {
    let file = SafeTensors::deserialize(bytes).map_err(|e| WeightsError::Format(e.to_string()))?;
    let file = File { names: plain_names(&file), file };
    let mut weights = vec![E::zero(); network.len()];
    let torch = torch_names(&file);
    let mut flattened = None;
    let mut layer = 0;
    let last = (network.parameters().len() / 2).saturating_sub(1);
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
                let pair = classes == 2
                    && layer == last
                    && bias.shape == [1]
                    && file.tensor(&names[0]).is_some_and(|t| t.shape() == [2]);
                let (mut bias_shape, mut kernel_shape) = (bias.shape.clone(), kernel.shape.clone());
                if pair {
                    bias_shape = vec![2];
                    kernel_shape.pop();
                    kernel_shape.push(2);
                }
                let offset = |values: Vec<f64>| match pair {
                    true => values.as_chunks::<2>().0.iter().map(|[a, b]| b - a).collect(),
                    false => values,
                };
                let values = offset(read(&file, &names[0], &bias_shape)?);
                copy(&mut weights[bias.offset..bias.offset + bias.len()], values);
                let values = match turned {
                    Some(_) => turn(&file, &names[1], &kernel_shape, flattened)?,
                    None => read(&file, &names[1], &kernel_shape)?,
                };
                copy(&mut weights[kernel.offset..kernel.offset + kernel.len()], offset(values));
                flattened = None;
                layer += 1;
            }
            _ => {}
        }
    }
    Ok(weights)
}

/// A kernel of PyTorch in our order, of our shape; `flattened` is the image that was flattened before a dense layer.
fn turn(
    file: &File<'_>,
    name: &str,
    shape: &[usize],
    flattened: Option<(usize, usize, usize)>,
) -> Result<Vec<f64>, WeightsError> {
    let count = shape.iter().product();
    if let &[rows, columns, cin, cout] = shape {
        let values = read(file, name, &[cout, cin, rows, columns])?;
        let place = |n: usize| {
            let (k, i, o) = (n / (cin * cout), n / cout % cin, n % cout);
            values[(o * cin + i) * rows * columns + k]
        };
        return Ok((0..count).map(place).collect());
    }
    let (inputs, outputs) = (shape[0], shape[1]);
    let values = read(file, name, &[outputs, inputs])?;
    let place = |n: usize| {
        let (i, o) = (n / outputs, n % outputs);
        let there = flattened.map_or(i, |(height, width, channels)| {
            let (pixel, channel) = (i / channels, i % channels);
            channel * height * width + pixel
        });
        values[o * inputs + there]
    };
    Ok((0..count).map(place).collect())
}

/// A file, and its names for each name as it is written here.
struct File<'a> {
    file: SafeTensors<'a>,
    names: HashMap<String, String>,
}

impl File<'_> {
    fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        self.file.tensor(self.names.get(name)?).ok()
    }
}

fn copy<E: Real>(out: &mut [E], values: Vec<f64>) {
    out.iter_mut().zip(values).for_each(|(w, v)| *w = E::of(v));
}

/// The names of a file as they are written here: Flax puts all tensors below `params`, and joins words by `/`.
fn plain_names(file: &SafeTensors<'_>) -> HashMap<String, String> {
    let plain = |name: &&str| {
        let dotted = name.replace('/', ".");
        dotted.strip_prefix("params.").map_or(dotted.clone(), str::to_owned)
    };
    file.names().iter().map(|name| (plain(name), (*name).to_owned())).collect()
}

/// The prefixes of a PyTorch file in the order of its layers; empty for a Flax one.
fn torch_names(file: &File<'_>) -> Vec<String> {
    let mut prefixes: Vec<String> =
        file.names.keys().filter_map(|n| n.strip_suffix(".weight")).map(str::to_owned).collect();
    // "10" comes after "9": numbers by value, then text.
    prefixes.sort_by_key(|p| (p.rsplit('.').next().and_then(|n| n.parse::<u64>().ok()), p.clone()));
    prefixes
}

/// A number of 16 bits: a sign, 5 bits of exponent, 10 of mantissa.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023) / 1024.0);
    sign * match exponent {
        0 => mantissa * 2f64.powi(-14),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        e => (1.0 + mantissa) * 2f64.powi(e - 15),
    }
}

fn read(file: &File<'_>, name: &str, shape: &[usize]) -> Result<Vec<f64>, WeightsError> {
    let tensor = file.tensor(name).ok_or_else(|| {
        let mut found = file.names.values().cloned().collect::<Vec<_>>();
        found.sort();
        WeightsError::Missing { name: name.into(), found: found.join(", ") }
    })?;
    let mismatch = || WeightsError::Mismatch {
        name: name.into(),
        found: format!("{:?} {:?}", tensor.dtype(), tensor.shape()),
        expected: format!("floating-point numbers {shape:?}"),
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
        Dtype::F16 | Dtype::BF16 => {
            let number = |b: &[u8; 2]| match tensor.dtype() {
                Dtype::F16 => half(u16::from_le_bytes(*b)),
                // The upper half of a single-precision number.
                _ => f64::from(f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16)),
            };
            Ok(tensor.data().as_chunks::<2>().0.iter().map(number).collect())
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
    load_classes(network, 0, path)
}

/// Reads weights of a network for so many classes from a file: of two, a last layer of two outputs is read as their difference.
pub fn load_classes<E: Real>(
    network: &Network,
    classes: usize,
    path: &Path,
) -> Result<Vec<E>, WeightsError> {
    let bytes =
        std::fs::read(path).map_err(|source| WeightsError::Io { path: path.into(), source })?;
    from_bytes_classes(network, classes, &bytes)
}

/// The text that was saved with the weights in a file, if there is one.
pub fn about(path: &Path) -> Result<Option<String>, WeightsError> {
    let bytes =
        std::fs::read(path).map_err(|source| WeightsError::Io { path: path.into(), source })?;
    let (_, metadata) =
        SafeTensors::read_metadata(&bytes).map_err(|e| WeightsError::Format(e.to_string()))?;
    Ok(metadata.metadata().as_ref().and_then(|m| m.get(ABOUT).cloned()))
}
