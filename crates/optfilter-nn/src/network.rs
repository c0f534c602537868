//! A network: a sequence of layers over one flat weight vector.
//!
//! The weights lie layer by layer, the bias of a layer before its kernel; a convolution's kernel is
//! `[row][column][in][out]`, a dense one `[in][out]`. That is the order in which `jax.flatten_util.ravel_pytree` lays out a
//! Flax model of the same layers, so weights move between the two without a permutation.
//!
//! ```
//! use optfilter_nn::{Layer, Network, Shape};
//! let cnn = Network::paper_cnn();
//! assert_eq!(cnn.len(), 28_193);
//! let bad = Network::new(Shape::Vector(4), vec![Layer::Conv { channels: 8 }]);
//! assert!(bad.unwrap_err().to_string().contains("needs an image"));
//! ```

use crate::kernel::Real;
use crate::layer::{Layer, Shape};
use optfilter::rng::Stream;

/// A tensor of weights inside the flat vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name in Flax's manner: `Conv_0.kernel`.
    pub name: String,
    /// Its axes.
    pub shape: Vec<usize>,
    /// Where it starts.
    pub offset: usize,
    /// Inputs of each output, for the initialiser; 0 for a bias.
    pub(crate) fan_in: usize,
}

impl Parameter {
    /// Number of weights.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Why a network cannot be built or fed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// A layer does not fit what comes before it.
    #[error("layer {index} ({layer:?}) after {input}: {reason}")]
    Layer {
        /// Position from 0.
        index: usize,
        /// The layer.
        layer: Layer,
        /// What reaches it.
        input: Shape,
        /// What is wrong.
        reason: &'static str,
    },
    /// The last layer is not a vector.
    #[error("the network ends in an image; add a flatten and a dense layer")]
    EndsInImage,
    /// A description that cannot be read.
    #[error(
        "network {text:?}: {reason}; write cnn, linear or mlp:64,64, or layers: conv:8,5,2 relu maxpool dense:16 tanh"
    )]
    Description {
        /// The text.
        text: String,
        /// What is wrong.
        reason: String,
    },
    /// A batch whose sizes do not agree.
    #[error("{what}: {found} where {expected} is needed")]
    Size {
        /// The quantity.
        what: &'static str,
        /// What was given.
        found: usize,
        /// What is needed.
        expected: usize,
    },
    /// A label outside the classes.
    #[error("sample {sample} has class {class}, but the network knows classes 0 to {last}")]
    Class {
        /// The sample.
        sample: usize,
        /// Its label.
        class: u32,
        /// The largest class.
        last: usize,
    },
    /// Labels of the wrong kind for the loss.
    #[error("{loss} needs {needs}")]
    Labels {
        /// The loss.
        loss: &'static str,
        /// What it needs.
        needs: &'static str,
    },
}

/// A sequence of layers; holds no weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    layers: Vec<Layer>,
    /// Shape before each layer, and after the last.
    shapes: Vec<Shape>,
    parameters: Vec<Parameter>,
}

impl Network {
    /// Checks that the layers fit together.
    pub fn new(input: Shape, layers: Vec<Layer>) -> Result<Self, NetworkError> {
        let mut shapes = vec![input];
        let mut parameters: Vec<Parameter> = Vec::new();
        let (mut offset, mut convs, mut denses, mut shape) = (0, 0, 0, input);
        for (index, layer) in layers.iter().enumerate() {
            let next = layer.output(shape).map_err(|reason| NetworkError::Layer {
                index,
                layer: *layer,
                input: shape,
                reason,
            })?;
            let tensors = match (*layer, shape) {
                (Layer::Conv { channels }, Shape::Image { channels: cin, .. }) => {
                    convs += 1;
                    Some((
                        format!("Conv_{}", convs - 1),
                        channels,
                        vec![3, 3, cin, channels],
                        9 * cin,
                    ))
                }
                (Layer::AnyConv { channels, size, .. }, Shape::Image { channels: cin, .. }) => {
                    convs += 1;
                    let taps = size * size;
                    let kernel = vec![size, size, cin, channels];
                    Some((format!("Conv_{}", convs - 1), channels, kernel, taps * cin))
                }
                (Layer::Dense { outputs }, Shape::Vector(n)) => {
                    denses += 1;
                    Some((format!("Dense_{}", denses - 1), outputs, vec![n, outputs], n))
                }
                _ => None,
            };
            if let Some((name, outputs, kernel, fan_in)) = tensors {
                parameters.push(Parameter {
                    name: format!("{name}.bias"),
                    shape: vec![outputs],
                    offset,
                    fan_in: 0,
                });
                offset += outputs;
                let kernel =
                    Parameter { name: format!("{name}.kernel"), shape: kernel, offset, fan_in };
                offset += kernel.len();
                parameters.push(kernel);
            }
            shape = next;
            shapes.push(shape);
        }
        if !matches!(shape, Shape::Vector(_)) {
            return Err(NetworkError::EndsInImage);
        }
        Ok(Self { layers, shapes, parameters })
    }

    /// The paper's network for 32x32 grey portraits: four times convolution with 32 channels, ReLU and pooling, then one
    /// dense output. 28,193 weights.
    pub fn paper_cnn() -> Self {
        Self::valid(Self::cnn(Shape::Image { height: 32, width: 32, channels: 1 }, 1))
    }

    /// Blocks of convolution with 32 channels, ReLU and pooling for as long as the image has at least 4 rows and
    /// columns (at most four blocks), then one dense layer.
    pub fn cnn(input: Shape, outputs: usize) -> Result<Self, NetworkError> {
        let Shape::Image { mut height, mut width, .. } = input else {
            let reason = "a convolution needs an image";
            return Err(NetworkError::Layer {
                index: 0,
                layer: Layer::Conv { channels: 32 },
                input,
                reason,
            });
        };
        let mut layers = Vec::new();
        while height >= 4 && width >= 4 && layers.len() < 12 {
            layers.extend([Layer::Conv { channels: 32 }, Layer::Relu, Layer::MaxPool]);
            (height, width) = (height / 2, width / 2);
        }
        layers.extend([Layer::Flatten, Layer::Dense { outputs }]);
        Self::new(input, layers)
    }

    /// Dense layers with ReLU between them.
    pub fn mlp(inputs: usize, hidden: &[usize], outputs: usize) -> Result<Self, NetworkError> {
        let mut layers = Vec::new();
        for &outputs in hidden {
            layers.extend([Layer::Dense { outputs }, Layer::Relu]);
        }
        layers.push(Layer::Dense { outputs });
        Self::new(Shape::Vector(inputs), layers)
    }

    /// Reads `cnn`, `linear`, `mlp:64,64` or layers (`conv:8,5,2 relu maxpool dense:16 tanh`, to which the last dense layer
    /// is added). An image given to an `mlp` or `linear` is flattened.
    pub fn from_description(
        text: &str,
        input: Shape,
        outputs: usize,
    ) -> Result<Self, NetworkError> {
        let bad = |reason: String| NetworkError::Description { text: text.into(), reason };
        let mlp = |hidden: &[usize]| {
            let mut network = Self::mlp(input.len(), hidden, outputs)?;
            if matches!(input, Shape::Image { .. }) {
                network.layers.insert(0, Layer::Flatten);
                network.shapes.insert(0, input);
            }
            Ok(network)
        };
        match text.split_once(':') {
            None if text == "cnn" && matches!(input, Shape::Image { .. }) => {
                Self::cnn(input, outputs)
            }
            None if text == "cnn" => {
                Err(bad("the data are vectors, and a convolution needs images".into()))
            }
            None if text == "linear" => mlp(&[]),
            Some(("mlp", sizes)) => {
                let hidden: Result<Vec<usize>, _> =
                    sizes.split(',').map(|s| s.trim().parse()).collect();
                mlp(&hidden.map_err(|e| bad(e.to_string()))?)
            }
            _ => {
                let layers = crate::describe::layers(text, input, outputs).map_err(bad)?;
                Self::new(input, layers)
            }
        }
    }

    /// The layers.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }
    /// Shape before each layer, and after the last.
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }
    /// Shape of one sample.
    pub fn input(&self) -> Shape {
        self.shapes[0]
    }
    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.shapes[self.shapes.len() - 1].len()
    }
    /// The tensors of weights, in the order of the flat vector.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }
    /// Number of weights.
    pub fn len(&self) -> usize {
        self.parameters.iter().map(Parameter::len).sum()
    }
    /// Whether there are no weights.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Initial weights as Flax draws them: kernels LeCun normal (a normal cut at two deviations, scaled so that the
    /// variance after the cut is 1 / inputs), biases zero.
    pub fn init<E: Real>(&self, stream: &mut Stream) -> Vec<E> {
        /// Standard deviation of a standard normal cut at -2 and 2.
        const CUT_STD: f64 = 0.879_625_661_034_239_8;
        let mut weights = vec![E::zero(); self.len()];
        for p in self.parameters.iter().filter(|p| p.fan_in > 0) {
            let std = (1.0 / p.fan_in as f64).sqrt() / CUT_STD;
            for w in &mut weights[p.offset..p.offset + p.len()] {
                let z = loop {
                    let z = stream.normal();
                    if z.abs() <= 2.0 {
                        break z;
                    }
                };
                *w = E::of(z * std);
            }
        }
        weights
    }

    /// Unwraps a network whose layers are fixed in this file and covered by a test.
    fn valid(network: Result<Self, NetworkError>) -> Self {
        network.unwrap_or(Self {
            layers: Vec::new(),
            shapes: vec![Shape::Vector(0)],
            parameters: Vec::new(),
        })
    }
}
