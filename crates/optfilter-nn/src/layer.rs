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
    /// Convolution with a window of any size and stride, with a bias.
    AnyConv {
        /// Output channels.
        channels: usize,
        /// Rows and columns of the window.
        size: usize,
        /// By how much it moves.
        stride: usize,
        /// Rows and columns of zeros around the image.
        border: usize,
    },
    /// 2x2 maximum, stride 2; an odd last row or column is dropped.
    MaxPool,
    /// Windows beside one another become their largest pixel, or the mean; what is left over at the edges is dropped.
    AnyPool {
        /// Rows and columns of a window.
        size: usize,
        /// The mean instead of the largest.
        mean: bool,
    },
    /// `max(x, 0)`.
    Relu,
    /// `x` where it is positive, else `x / 100`.
    LeakyRelu,
    /// `x` where it is positive, else `exp(x) - 1`.
    Elu,
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
            (Self::AnyConv { channels, size, stride, border }, _)
                if channels == 0 || size == 0 || stride == 0 || border >= size =>
            {
                Err("channels, size and stride must be at least 1, and the border below the size")
            }
            (
                Self::AnyConv { channels, size, stride, border },
                Shape::Image { height, width, .. },
            ) => {
                let fits = |n: usize| (n + 2 * border).checked_sub(size).map(|n| n / stride + 1);
                match (fits(height), fits(width)) {
                    (Some(height), Some(width)) => Ok(Shape::Image { height, width, channels }),
                    _ => Err("the window is larger than the image with its border"),
                }
            }
            (Self::AnyConv { .. }, _) => Err("a convolution needs an image"),
            (Self::AnyPool { size, .. }, Shape::Image { height, width, channels })
                if size > 0 && height >= size && width >= size =>
            {
                Ok(Shape::Image { height: height / size, width: width / size, channels })
            }
            (Self::AnyPool { .. }, _) => {
                Err("pooling needs an image at least as large as its window")
            }
            (Self::MaxPool, Shape::Image { height, width, channels })
                if height >= 2 && width >= 2 =>
            {
                Ok(Shape::Image { height: height / 2, width: width / 2, channels })
            }
            (Self::MaxPool, _) => Err("pooling needs an image of at least 2x2"),
            (Self::Relu | Self::LeakyRelu | Self::Elu | Self::Tanh, shape) => Ok(shape),
            (Self::Flatten, shape) => Ok(Shape::Vector(shape.len())),
            (Self::Dense { outputs: 0 }, _) => Err("a dense layer needs at least one output"),
            (Self::Dense { outputs }, Shape::Vector(_)) => Ok(Shape::Vector(outputs)),
            (Self::Dense { .. }, Shape::Image { .. }) => {
                Err("a dense layer needs a vector: put a flatten before it")
            }
        }
    }
}
