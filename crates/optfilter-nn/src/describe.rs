//! Layers as text: `conv:8,5,2 relu maxpool dense:16 tanh`, between blanks.
//!
//! `conv:CHANNELS[,SIZE[,STRIDE[,BORDER]]]` (3, 1 and half the size where nothing is said), `maxpool[:SIZE]`,
//! `meanpool[:SIZE]`, `dense:OUTPUTS`, `relu`, `leakyrelu`, `elu`, `tanh`, `flatten`. A flatten that is missing before a dense layer is put
//! in, and the last dense layer, whose outputs the data decide, is added.

use crate::layer::{Layer, Shape};

/// The layers of a text, for data of this shape; or what is wrong with it.
pub(crate) fn layers(text: &str, input: Shape, outputs: usize) -> Result<Vec<Layer>, String> {
    let mut layers = Vec::new();
    let mut image = matches!(input, Shape::Image { .. });
    let words = text.split_whitespace().collect::<Vec<_>>();
    for word in words {
        let layer = layer(word)?;
        if image && matches!(layer, Layer::Dense { .. }) {
            layers.push(Layer::Flatten);
        }
        image = image && !matches!(layer, Layer::Dense { .. } | Layer::Flatten);
        layers.push(layer);
    }
    if image {
        layers.push(Layer::Flatten);
    }
    layers.push(Layer::Dense { outputs });
    Ok(layers)
}

fn layer(word: &str) -> Result<Layer, String> {
    let (name, rest) = word.split_once(':').unwrap_or((word, ""));
    let numbers = rest
        .split(',')
        .filter(|n| !n.is_empty())
        .map(|n| n.trim().parse().map_err(|_| format!("{n:?} in {word:?} is no whole number")))
        .collect::<Result<Vec<usize>, String>>()?;
    Ok(match (name, numbers.as_slice()) {
        ("conv", &[channels] | &[channels, 3] | &[channels, 3, 1] | &[channels, 3, 1, 1]) => {
            Layer::Conv { channels }
        }
        ("conv", &[channels, size, ref more @ ..]) if more.len() <= 2 => {
            let stride = more.first().copied().unwrap_or(1);
            let border = more.get(1).copied().unwrap_or(size / 2);
            Layer::AnyConv { channels, size, stride, border }
        }
        ("conv", _) => return Err(format!("{word:?} is none of conv:CHANNELS,SIZE,STRIDE,BORDER")),
        ("maxpool", &[] | &[2]) => Layer::MaxPool,
        ("maxpool", &[size]) => Layer::AnyPool { size, mean: false },
        ("meanpool", &[]) => Layer::AnyPool { size: 2, mean: true },
        ("meanpool", &[size]) => Layer::AnyPool { size, mean: true },
        ("dense", &[outputs]) => Layer::Dense { outputs },
        ("dense", _) => return Err(format!("{word:?} is not dense:OUTPUTS")),
        ("relu", &[]) => Layer::Relu,
        ("leakyrelu", &[]) => Layer::LeakyRelu,
        ("elu", &[]) => Layer::Elu,
        ("tanh", &[]) => Layer::Tanh,
        ("flatten", &[]) => Layer::Flatten,
        _ => return Err(format!("there is no layer {word:?}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_read_and_completed() {
        let image = Shape::Image { height: 12, width: 12, channels: 1 };
        let read = layers("conv:8,5,2 elu conv:4 maxpool dense:16 tanh", image, 3);
        let expected = vec![
            Layer::AnyConv { channels: 8, size: 5, stride: 2, border: 2 },
            Layer::Elu,
            Layer::Conv { channels: 4 },
            Layer::MaxPool,
            Layer::Flatten,
            Layer::Dense { outputs: 16 },
            Layer::Tanh,
            Layer::Dense { outputs: 3 },
        ];
        assert_eq!(read, Ok(expected));
        for (text, reason) in [
            ("conv", "none of conv:"),
            ("dense:a", "no whole number"),
            ("dense", "not dense:OUTPUTS"),
            ("lstm:4", "no layer"),
            ("relu:3", "no layer"),
        ] {
            let error = layers(text, image, 1).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
