//! The layers a network is made of, and the shapes that flow between them.

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layer {
    /// 3x3 convolution, stride 1, zero border, with a bias.
    Conv {
        /// Output channels.
        channels: usize,
    },
    /// 2x2 maximum, stride 2; an odd last row or column is dropped.
    MaxPool,
    /// `max(x, 0)`.
    Relu,
    /// Hyperbolic tangent.
    Tanh,
    /// An image becomes a vector: rows, then columns, then channels.
    Flatten,
    /// Matrix product with a bias.
    Dense {
        /// Number of outputs.
        outputs: usize,
    },
}

/// What flows between two layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Rows, columns, channels.
    Image {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// Channels.
        channels: usize,
    },
    /// A plain vector.
    Vector(
        /// Its length.
        usize,
    ),
}

impl Shape {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match *self {
            Self::Image { height, width, channels } => height * width * channels,
            Self::Vector(n) => n,
        }
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Image { height, width, channels } => write!(f, "{height}x{width}x{channels}"),
            Self::Vector(n) => write!(f, "{n}"),
        }
    }
}

impl Layer {
    /// The shape after this layer, or what is wrong.
    pub(crate) fn output(&self, input: Shape) -> Result<Shape, &'static str> {
        match (*self, input) {
            (Self::Conv { channels }, Shape::Image { height, width, .. }) if channels > 0 => {
                Ok(Shape::Image { height, width, channels })
            }
            (Self::Conv { channels: 0 }, _) => Err("a convolution needs at least one channel"),
            (Self::Conv { .. }, _) => Err("a convolution needs an image"),
            (Self::MaxPool, Shape::Image { height, width, channels })
                if height >= 2 && width >= 2 =>
            {
                Ok(Shape::Image { height: height / 2, width: width / 2, channels })
            }
            (Self::MaxPool, _) => Err("pooling needs an image of at least 2x2"),
            (Self::Relu | Self::Tanh, shape) => Ok(shape),
            (Self::Flatten, shape) => Ok(Shape::Vector(shape.len())),
            (Self::Dense { outputs: 0 }, _) => Err("a dense layer needs at least one output"),
            (Self::Dense { outputs }, Shape::Vector(_)) => Ok(Shape::Vector(outputs)),
            (Self::Dense { .. }, Shape::Image { .. }) => {
                Err("a dense layer needs a vector: put a flatten before it")
            }
        }
    }
}
